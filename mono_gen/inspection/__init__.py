"""What the tensors of a safetensors file are: their records, and the blind check on a sample. Needs torch."""
