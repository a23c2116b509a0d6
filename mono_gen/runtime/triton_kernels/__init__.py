"""Triton kernels of the runtime: byte moves, value changes and fingerprints. Imported only for tensors on a GPU."""
