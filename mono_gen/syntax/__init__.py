"""Text to tree: scan, parse, format. Imports nothing of the package but the diagnostics."""
