"""mono-gen: one text states how tensors lie in memory; from it come the loader and the header."""
