"""The lock that Snakemake leaves in `.snakemake/locks` when it is killed, and the command that removes it.

The lock lists the files that Snakemake makes, not the process that holds it. It is not removed without being asked: a
Snakemake on another login node is not seen from here, and two of them would submit jobs and make tables side by side.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from iosweep.files import documents
from iosweep.node import procfs
from iosweep.text import printable

#: Where Snakemake keeps its locks, below the directory that it runs in.
LOCKS = Path(".snakemake/locks")
#: Words at the beginning of a command line among which `snakemake` is: an interpreter and its options come before.
_WORDS = 5


def refusal(places: Sequence[Path], arguments: Sequence[str]) -> str | None:
    """Why Snakemake, called with these arguments, would find one of these files or folders locked, and what to do; None
    if it would not, or where the lock is another user's."""
    for place in places:
        owners = {uid for uid, files in _locked() if any(Path(file).is_relative_to(place) for file in files)}
        if owners == {os.getuid()}:
            return sentence(place, _running(Path.cwd()), arguments)
    return None


def sentence(place: Path, running: Sequence[str], arguments: Sequence[str]) -> str:
    """`running`: processes that are Snakemakes of this directory. Pure."""
    if running:
        named = f"{'process' if len(running) == 1 else 'processes'} {', '.join(running)}"
        return printable(
            f"{place} is locked by a snakemake that runs in this directory ({named}); wait for it, or end it with"
            " Ctrl-C. Nothing was run"
        )
    command = shlex.join(["snakemake", "--unlock", *arguments])
    return printable(
        f"{place} is locked by a snakemake that was killed: none runs in this directory on this machine. If none does"
        f" on another one, `{command}` removes the lock; then the same command goes on. Nothing was run"
    )


def _locked() -> Iterable[tuple[int, list[str]]]:
    """Owner of each lock, and the files that it names."""
    for file in sorted(LOCKS.glob("*.lock")):
        try:
            text = documents.content(file, documents.MOST_BYTES)
            yield file.lstat().st_uid, os.fsdecode(text).splitlines()
        except (OSError, documents.Damaged):  # it has just been removed
            continue


def _running(directory: Path) -> list[str]:
    """Our user's processes that are Snakemakes of a directory, but for this one and what started it (timeout, sudo)."""
    found, ours = [], procfs.with_ancestors(str(os.getpid()))
    for process in procfs.pids():
        words = procfs.read(process, "cmdline").split(b"\0")[:_WORDS]
        if process not in ours and any(word.rpartition(b"/")[2] == b"snakemake" for word in words):
            try:
                if Path(f"/proc/{process}/cwd").samefile(directory):
                    found.append(process)
            except OSError:  # another user's, or it has just ended
                continue
    return found
