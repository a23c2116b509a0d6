"""`python -m mono_gen` is the command `mono-gen`."""

import sys

from mono_gen.cli import main

if __name__ == "__main__":
    sys.exit(main())
