"""Which builds the figures come from: build documents of what PATH has, and packages that own a program.

A build document (docs/store.md) has the same shape whoever built the tools. Its key is the hash of its content, so that
equal builds are one, on whichever node and in whichever run they were found.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from iosweep.files.documents import Count, Part
from iosweep.programs.path import Mpiexec, Program, libraries, output
from iosweep.tools import tools


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
    """What the report says of a build. The fields behind `results` are those of a build of Spack."""

    provider: str
    tools: dict[str, BuiltProgram]
    mpi: BuiltMpi | None = None
    results: Count = 0
    spack: Checkout | None = None
    repository: Checkout | None = None

    def __post_init__(self) -> None:
        if self.provider == "spack" and not (self.spack and self.repository):
            raise ValueError("a build of Spack without `spack` or `repository`")


def of_path(programs: Mapping[str, Program], mpiexec: Mpiexec | None) -> dict[str, object]:
    """The build document of the programs that were found on PATH."""
    return {"provider": "path", **described(programs, mpiexec, package_of)}


def described(
    programs: Mapping[str, Program], mpiexec: Mpiexec | None, package: Callable[[str], str | None]
) -> dict[str, object]:
    """`tools` and `mpi` of a build document. `package`: the package that a file belongs to."""
    return {
        "tools": {
            name: {
                "path": program.path,
                "sha256": program.sha256,
                "version": program.version,
                "package": package(program.path),
                **({"script": True} if _is_script(program.path) else {}),
            }
            for name, program in programs.items()
        },
        "mpi": _mpi(programs, mpiexec, package),
    }


def _is_script(path: str) -> bool:
    """Whether it is a script, whose hash says nothing about the programs that it starts."""
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(2) == b"#!"
    return False


def _mpi(
    programs: Mapping[str, Program], mpiexec: Mpiexec | None, package: Callable[[str], str | None]
) -> dict[str, object] | None:
    """The program that starts ranks; where that is srun, the library that they are linked with, without a version."""
    if mpiexec:
        return {"path": mpiexec.path, "version": mpiexec.version, "package": package(mpiexec.path)}
    for name, program in sorted(programs.items()):
        if tools()[name].mpi and (found := _LIBRARY.search(libraries(program.path))):
            return {"path": found[1], "version": "", "package": package(found[1])}
    return None


#: In what ldd prints: MPICH's, Open MPI's, Intel's or Cray's library.
_LIBRARY = re.compile(r"^\s*libmpi\w*\.so\S* => (/.+) \(0x", re.MULTILINE)


def key(document: Mapping[str, object]) -> str:
    """Name of a build document: 12 hex digits of the hash of its content."""
    return hashlib.sha256(msgspec.json.encode(document, order="deterministic")).hexdigest()[:12]


def package_of(path: str) -> str | None:
    """The package that a program came with, as in `fio 3.33-3 (dpkg)`, or None where no package manager knows it.

    It is the package of the file that runs, at the end of symbolic links (update-alternatives makes such).
    """
    file = os.path.realpath(path)
    if owner := output("dpkg-query", "--search", file).partition(":")[0]:
        return f"{owner} {output('dpkg-query', '--show', '--showformat=${Version}', owner)} (dpkg)"
    if owner := output("rpm", "--query", "--queryformat", r"%{NAME} %{EVR}", "--file", file):
        return f"{owner} (rpm)"
    return _of_python(path) or _of_python(file)


def _of_python(path: str) -> str | None:
    """The package of a Python environment: MPICH comes from PyPI."""
    from importlib.metadata import distributions  # late: merge needs only the keys

    directory, name = Path(path).parent.resolve(), Path(path).name  # an installer may have linked the file itself
    for site in sorted(directory.parent.glob("lib*/python3*/*-packages")):
        file = os.path.relpath(directory / name, site)
        for distribution in distributions(path=[str(site)]):
            if f"\n{file}," in f"\n{distribution.read_text('RECORD') or ''}":
                return f"{distribution.metadata['Name']} {distribution.version} (Python)"
    return None
