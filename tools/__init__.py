"""Maintainers' scripts; none of them is part of the package."""
