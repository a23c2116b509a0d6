"""Triton kernels of the runtime: byte moves, value changes and fingerprints. Imported only where a tensor is on a GPU."""
