"""The bytes of a spec with a line of more than 16 KiB."""

SPEC = b"spec wide\nconst A = 1" + b" + 1" * 4_096 + b"\n"
