"""With this directory in PYTHONPATH every Python knows the tool folders of the benchmarks, too.

What a folder beside the package's own does is what one inside it would do. Not a wrapper around `iosweep`: Snakemake,
its jobs and the agents on the nodes start Python by themselves.
"""

from pathlib import Path

import iosweep.tools

iosweep.tools.__path__.append(str(Path(__file__).resolve().parent.parent / "tools"))
