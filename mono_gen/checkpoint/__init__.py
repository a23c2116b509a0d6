"""Checkpoints on disk: a safetensors folder converted to what kernels read, and compared with it again."""
