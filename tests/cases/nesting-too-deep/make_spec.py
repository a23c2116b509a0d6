"""The bytes of a spec whose brackets nest 101 deep."""

SPEC = b"spec deep\nconst A = " + b"(" * 101 + b"1" + b")" * 101 + b"\n"
