"""A file system's own command, run on the campaign's directory. Runs inside the agent."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from iosweep.target.directory import Opened, Place

#: A line of what a command says may be a column of a table.
_LONGEST = 300
#: Where GPFS has its commands, which is on few users' PATH.
_MORE_PATH = "/usr/lpp/mmfs/bin"


class Failed(Exception):
    """A command is not there, or did not succeed; the message says which."""


def run(argv: Sequence[str], place: Place) -> str:
    """Output of a command on the campaign's directory. Raises Failed, and OSError where that is not there."""
    path = os.pathsep.join([*os.get_exec_path(), _MORE_PATH])
    program = shutil.which(argv[0], path=path)
    if program is None:
        raise Failed(f"{argv[0]} is not on PATH")
    with Opened(place) as ours:
        done = subprocess.run(
            [program, *argv[1:], ours.directory],
            cwd=f"/proc/self/fd/{ours.handle}",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    output, errors = os.fsdecode(done.stdout), os.fsdecode(done.stderr)
    if done.returncode:
        first = next(iter((errors + output).strip().splitlines()), "it says nothing")
        raise Failed(f"`{one_line(' '.join(argv))}` ended with exit code {done.returncode}: {one_line(first)}")
    return output


def one_line(text: str) -> str:
    """Without line ends, gaps and what steers a terminal; cut."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
