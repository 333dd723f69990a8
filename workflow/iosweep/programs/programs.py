"""Programs and their builds: those of the tools, and those that start MPI ranks. Path, hash and version.

A build document (docs/store.md) has the same shape whoever built the tools. Its key is the hash of its content, so that
equal builds are one, on whichever node and in whichever run they were found.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from iosweep.errors import Obstacle
from iosweep.files.documents import Count, Part
from iosweep.node.process import Completed
from iosweep.plan.launchers import HYDRA, Manager
from iosweep.text import printable
from iosweep.tools import Tool, tools

#: Time limit of commands that tell about programs.
_ANSWER_S = 30.0


@dataclass(frozen=True)
class Program:
    """A tool's binary."""

    path: str
    sha256: str
    version: str
    stamp: tuple[int, ...]  # identifies the hashed file

    def replaced(self) -> bool:
        """Whether the file has been replaced or removed since, for example by an update."""
        return _stamp(self.path) != self.stamp


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = Path(path).stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@cache
def sha256(tool: str, search: str | None = None) -> str | None:
    """Hash of a tool's binary, None if it is not found. `search`: directories to search instead of PATH."""
    path = shutil.which(tools()[tool].program, path=search)
    return None if path is None else hash_of(path)


def hash_of(path: str) -> str | None:
    """Hash of a binary, None if it does not exist; empty if it can be run, and not read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def output(*argv: str, failed: bool = False) -> str:
    """Standard output of a command; empty if it is not installed, fails or does not end in time. `failed`: also that of
    one that fails, and its errors."""
    errors = subprocess.STDOUT if failed else subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=_ANSWER_S,
            check=not failed,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def libraries(path: str) -> str:
    """The loader's list of a program's libraries; empty for a script."""
    return output("ldd", path, failed=True)


def absent(path: str) -> list[str]:
    """Libraries that a program needs and that are not on this node, or not in the version that it needs."""
    found = re.findall(r"^\s*(\S+) => not found|(\S+): version `(\S+)' not found", libraries(path), re.MULTILINE)
    return [name or f"{older} with {version}" for name, older, version in found]


#: MPI -> pattern of its libraries' names. MPICH, MVAPICH and Intel MPI use the same names.
_MPI = {"Open MPI": r"libmpi\.so\.[24]0|libopen-rte", "MPICH": r"libmpi(ch|_\w+)?\.so\.12"}


def mpi(path: str) -> str | None:
    """The MPI that a program is linked with, a key of _MPI; None if that cannot be told."""
    found = libraries(path)
    return next((name for name, library in _MPI.items() if re.search(rf"^\s*({library})", found, re.MULTILINE)), None)


def find(tool: Tool, run: Callable[[list[str], float], Completed], search: str | None = None) -> Program | Obstacle:
    """Find a tool's program and ask for its version.

    run: runs a command with a time limit in seconds (Agent.run). search: directories to search instead of PATH, for
    tools built by Spack.
    """
    path = shutil.which(tool.program, path=search)
    if path is None and search is not None:
        return Obstacle(f"{tool.program} is not among the tools that Spack has built", "add it to specs")
    if path is None:
        return Obstacle(f"{tool.program} is not on PATH", f"get it with {tool.get_it}")
    stamp = _stamp(path)
    try:
        done = run([path, *tool.version_argv[1:]], 30.0)
    except OSError as error:
        return Obstacle(f"{path} does not run: {error.strerror}", lasting=False)
    if done.exit_code or done.timed_out or done.flooded:
        how = f"exit code {done.exit_code}" if done.exit_code > 0 else f"killed by signal {-done.exit_code}"
        how = "not done within 30 s" if done.timed_out else how
        printed = printable(done.stderr.decode("utf-8", "replace").strip()[:200])
        return Obstacle(f"{path} does not run: {how} {printed}".rstrip(), lasting=False)
    version = printable(tool.version(done.stdout.decode("utf-8", "replace"))[:100])
    if wrong := tool.unfit(version):
        return Obstacle(f"{path} cannot be used: {wrong}", f"get another with {tool.get_it}")
    return Program(path, sha256(tool.name, search) or "", version, stamp)


@dataclass(frozen=True)
class Mpiexec:
    """The program of a process manager, which starts MPI ranks."""

    path: str
    version: str


def candidates(search: str | None = None, manager: Manager | None = HYDRA) -> list[str]:
    """Programs that may be the manager's, in order: on PATH, then hydra beside our Python (the lock installs it).
    search: only these directories, because the ranks of one MPI do not start under another. Starts nothing."""
    names, folders = manager.names if manager else (), search.split(os.pathsep) if search else os.get_exec_path()
    places = [(name, folder) for name in names for folder in folders]
    if search is None and manager is HYDRA:
        places.append(("mpiexec", sysconfig.get_path("scripts")))
    return list(dict.fromkeys(path for name, folder in places if (path := shutil.which(name, path=folder))))


@cache
def mpiexec(search: str | None = None, manager: Manager = HYDRA) -> Mpiexec | Obstacle:
    """The first program of the manager, or why there is none. search: as for `candidates`."""
    seen = []
    for path in candidates(search, manager):
        if found := re.search(manager.says, output(path, "--version", failed=True)):
            return Mpiexec(path, found[1] or "")
        seen.append(path)
    others = f" ({', '.join(seen)} is another's)" if seen else ""
    kind = f"{manager.names[-1]} of {manager.mpi}"
    if search is not None:
        return Obstacle(f"there is no {kind} with the tools{others}")
    return Obstacle(f"there is no {kind}{others}", manager.remedy)


# Build documents


class BuiltProgram(Part, frozen=True, kw_only=True):
    """A program of a build."""

    path: str
    sha256: str
    version: str | None = None
    package: str | None = None
    script: bool = False


class BuiltMpi(Part, frozen=True, kw_only=True):
    """The MPI of a build."""

    path: str
    version: str | None = None
    package: str | None = None


class Checkout(Part, frozen=True, kw_only=True):
    """Spack itself (with a version), or its packages (with a pin)."""

    path: str
    commit: str | None
    changed: bool
    version: str | None = None
    pin: str | None = None


class BuildDocument(Part, frozen=True, kw_only=True):
    """A build, for the report. Only builds of Spack have the fields after `results`."""

    provider: str
    tools: dict[str, BuiltProgram]
    mpi: BuiltMpi | None = None
    results: Count = 0
    spack: Checkout | None = None
    repository: Checkout | None = None

    def __post_init__(self) -> None:
        if self.provider == "spack" and not (self.spack and self.repository):
            raise ValueError("a build of Spack without `spack` or `repository`")


def describe(
    programs: Mapping[str, Program], mpiexec: Mpiexec | None, package: Callable[[str], str | None] = lambda file: None
) -> dict[str, object]:
    """`tools` and `mpi` of a build document. `package`: the package of Spack that a file belongs to."""
    described: dict[str, dict[str, object]] = {}
    for name, program in programs.items():
        described[name] = {
            "path": program.path,
            "sha256": program.sha256,
            "version": program.version,
            "package": package(program.path),
        }
        # the hash of a script says nothing about the programs that it starts
        with contextlib.suppress(OSError), Path(program.path).open("rb") as file:
            if file.read(2) == b"#!":
                described[name]["script"] = True
    # the program that starts ranks; where that is srun, the library that they are linked with, without a version
    mpi = {"path": mpiexec.path, "version": mpiexec.version} if mpiexec else None
    for name, program in sorted(programs.items()):
        if not mpi and tools()[name].mpi and (library := _LIBRARY.search(libraries(program.path))):
            mpi = {"path": library[1], "version": ""}
    return {"tools": described, "mpi": mpi and {**mpi, "package": package(mpi["path"])}}


#: The MPI library in the output of ldd: MPICH's, Open MPI's, Intel's or Cray's.
_LIBRARY = re.compile(r"^\s*libmpi\w*\.so\S* => (/.+) \(0x", re.MULTILINE)


def build_key(document: Mapping[str, object]) -> str:
    """Name of a build document: 12 hex digits of the hash of its content."""
    return hashlib.sha256(msgspec.json.encode(document, order="deterministic")).hexdigest()[:12]
