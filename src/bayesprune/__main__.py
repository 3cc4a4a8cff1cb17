"""`python -m bayesprune`: the command line."""

import sys

from bayesprune.cli import main

if __name__ == "__main__":
    sys.exit(main())
