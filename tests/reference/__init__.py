"""Closed formulas written from the published facts: they import nothing of the package that they judge."""
