"""An srun for one machine: it starts the agents of n1 and n2 here. Both get the input, and print where it prints."""

from pathlib import Path

_SRUN = """#!/bin/bash
{before}
while [[ $1 == --* ]]; do shift; done
export SLURM_STEP_ID=$$
{{ tee >(SLURMD_NODENAME=n1 "$@" >&3) | SLURMD_NODENAME=n2 "$@" >&3; }} 3>&1
"""


def install(folder: Path, before: str = "") -> None:
    """Put it into a directory for PATH. `before`: lines of shell that run first, such as a site's words."""
    (folder / "srun").write_text(_SRUN.format(before=before))
    (folder / "srun").chmod(0o755)
