"""`iosweep`, with one tool folder more: what a folder beside the package's own does is what one inside it would do."""

import sys
from pathlib import Path

import iosweep.tools
from iosweep.cli import main

iosweep.tools.__path__.append(str(Path(__file__).resolve().parent / "tools"))

if __name__ == "__main__":
    sys.exit(main())
