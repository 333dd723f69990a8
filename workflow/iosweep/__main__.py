"""`python -m iosweep`: the same as the command `iosweep`."""

import sys

from iosweep.commands.cli import main

sys.exit(main())
