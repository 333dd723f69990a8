"""The tools' programs on this machine: which binary, which build."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iosweep.tools import Tool, tools


@dataclass(frozen=True)
class Program:
    """A tool's binary."""

    path: str
    sha256: str
    version: str


@cache
def sha256(tool: str) -> str | None:
    """Hash of the binary that PATH finds for a tool, or None. Starts nothing."""
    path = shutil.which(tools()[tool].program)
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except PermissionError:  # it may be run, but not read: size and time must do
        status = Path(path).stat()
        return f"unreadable, {status.st_size} bytes of {status.st_mtime_ns}"


def builds(names: Iterable[str]) -> dict[str, str | None]:
    """tool -> hash of its binary, as progress.Here takes it."""
    return {name: sha256(name) for name in names}


def find(tool: Tool) -> Program | str:
    """The program of a tool, or the reason why it cannot be used."""
    path = shutil.which(tool.program)
    if path is None:
        return f"{tool.program} is not on PATH; get it with {tool.get_it}"
    try:
        done = subprocess.run(
            [path, *tool.version_argv[1:]],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} does not run: {error}"
    if done.returncode:
        return f"{path} does not run: exit code {done.returncode} {done.stderr.strip()[:200]}"
    version = tool.version(done.stdout)
    if wrong := tool.unfit(version):
        return f"{path} cannot be used: {wrong}; get another with {tool.get_it}"
    return Program(path, sha256(tool.name) or "", version)
