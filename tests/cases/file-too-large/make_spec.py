"""The bytes of a spec of more than 1 MiB."""

SPEC = b"spec big\n" + b"# more\n" * 150_000
