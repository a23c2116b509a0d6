"""Plan to files, one module a target. Python decides, templates lay out."""
