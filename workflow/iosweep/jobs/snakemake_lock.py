"""The lock that Snakemake leaves in `.snakemake/locks` when it is killed, and the command that removes it.

The lock lists the files that Snakemake makes, not the process that holds it. It is not removed without being asked: a
Snakemake on another login node is not seen from here, and two of them would submit jobs and make tables side by side.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from iosweep.files import documents
from iosweep.node import procfs
from iosweep.text import printable

#: Where Snakemake keeps its locks, below the directory that it runs in.
LOCKS = Path(".snakemake/locks")
#: How the names of Python's interpreters begin.
_PYTHON = (b"python", b"pypy")
#: Their options that take a word, alone or after others (`-Pm snakemake`).
_OPTION, _LONG_OPTION = re.compile(rb"-(?!-)[^cmWX]*([cmWX])(.*)", re.DOTALL), b"--check-hash-based-pycs"


def refusal(places: Sequence[Path], arguments: Sequence[str]) -> str | None:
    """Why Snakemake, called with these arguments, would find one of these files or folders locked, and what to do; None
    if it would not, or where the lock is another user's."""
    for place in places:
        owners = {uid for uid, files in _locked() if any(Path(file).is_relative_to(place) for file in files)}
        if owners == {os.getuid()}:
            return sentence(place, _running(Path.cwd()), arguments, procfs.shows_machine())
    return None


def sentence(place: Path, running: Sequence[str], arguments: Sequence[str], all_seen: bool = True) -> str:
    """`running`: processes that are Snakemakes of this directory. all_seen: of all that this machine has. Pure."""
    if running:
        named = f"{'process' if len(running) == 1 else 'processes'} {', '.join(running)}"
        return printable(
            f"{place} is locked by a snakemake that runs in this directory ({named}); wait for it, or end it with"
            " Ctrl-C. Nothing was run"
        )
    command = shlex.join(["snakemake", "--unlock", *arguments])
    if not all_seen:
        return printable(
            f"{place} is locked by a snakemake that was killed, or that runs where it cannot be seen: from this"
            " container (a PID namespace) the machine's processes do not show. If none runs in this directory, on this"
            f" machine or on another one, `{command}` removes the lock; then the same command goes on. Nothing was run"
        )
    return printable(
        f"{place} is locked by a snakemake that was killed: none runs in this directory on this machine. If none does"
        f" on another one, `{command}` removes the lock; then the same command goes on. Nothing was run"
    )


def is_snakemake(words: Sequence[bytes]) -> bool:
    """Whether the words of a process's command line are those of a Snakemake: a program of this name, or a Python that
    runs the script or the module of this name. Pure."""
    name = b"snakemake"
    program, *rest = (words[0].rpartition(b"/")[2], *words[1:])
    if not program.startswith(_PYTHON):
        return program == name
    left = iter(rest)
    for word in left:
        if not word.startswith(b"-") or word == b"-":
            return word.rpartition(b"/")[2] == name
        if word == b"--":
            return next(left, b"").rpartition(b"/")[2] == name
        if word == _LONG_OPTION:
            next(left, b"")
        elif option := _OPTION.fullmatch(word):
            value = option[2] or next(left, b"")
            if option[1] in b"cm":
                return option[1] == b"m" and value.partition(b".")[0] == name
    return False


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
        if process not in ours and is_snakemake(procfs.read(process, "cmdline").split(b"\0")):
            try:
                if Path(f"/proc/{process}/cwd").samefile(directory):
                    found.append(process)
            except OSError:  # another user's, or it has just ended
                continue
    return found
