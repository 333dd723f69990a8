"""The tools' programs on this machine: which binary, which build."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iosweep.node.process import Completed
from iosweep.text import printable
from iosweep.tools import Tool, tools


@dataclass(frozen=True)
class Program:
    """A tool's binary."""

    path: str
    sha256: str
    version: str
    stamp: tuple[int, ...]  # of the file whose hash it is

    def replaced(self) -> bool:
        """Whether it is another file now, or gone: an update in the night."""
        return _stamp(self.path) != self.stamp


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = Path(path).stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@cache
def sha256(tool: str, search: str | None = None) -> str | None:
    """Hash of a tool's binary, or None. `search`: directories in place of PATH. Starts nothing."""
    path = shutil.which(tools()[tool].program, path=search)
    return None if path is None else hash_of(path)


def hash_of(path: str) -> str | None:
    """Hash of a binary, or None where there is none."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
    except PermissionError:  # it may be run, but not read: size and time must do
        status = Path(path).stat()
        return f"unreadable, {status.st_size} bytes of {status.st_mtime_ns}"


def builds(names: Iterable[str]) -> dict[str, str | None]:
    """tool -> hash of its binary, as progress.Here takes it."""
    return {name: sha256(name) for name in names}


@dataclass(frozen=True)
class UnusableTool:
    """Why a tool cannot be used. `lasting`: as long as it is the same binary; else it may be another time."""

    reason: str
    lasting: bool


def find(tool: Tool, run: Callable[[list[str], float], Completed], search: str | None = None) -> Program | UnusableTool:
    """The program of a tool; `run` starts a command with a time limit in seconds (Agent.run). `search`: directories in
    place of PATH, those of tools that Spack has built."""
    path = shutil.which(tool.program, path=search)
    if path is None and search is not None:
        return UnusableTool(
            f"{tool.program} is not among the tools that Spack has built; add it to specs", lasting=True
        )
    if path is None:
        return UnusableTool(f"{tool.program} is not on PATH; get it with {tool.get_it}", lasting=True)
    stamp = _stamp(path)
    try:
        done = run([path, *tool.version_argv[1:]], 30.0)
    except OSError as error:
        return UnusableTool(f"{path} does not run: {error.strerror}", lasting=False)
    if done.exit_code or done.timed_out or done.flooded:
        how = f"exit code {done.exit_code}" if done.exit_code > 0 else f"killed by signal {-done.exit_code}"
        how = "not done within 30 s" if done.timed_out else how
        said = printable(done.stderr.decode("utf-8", "replace").strip()[:200])
        return UnusableTool(f"{path} does not run: {how} {said}".rstrip(), lasting=False)
    version = printable(tool.version(done.stdout.decode("utf-8", "replace"))[:100])
    if wrong := tool.unfit(version):
        return UnusableTool(f"{path} cannot be used: {wrong}; get another with {tool.get_it}", lasting=True)
    return Program(path, sha256(tool.name, search) or "", version, stamp)
