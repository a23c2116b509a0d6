"""Two states of the specs, and what lies between them: bytes that move, ids and symbols, checks, names, docs."""
