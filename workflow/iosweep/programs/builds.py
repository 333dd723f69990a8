"""Which builds the figures come from: build documents of what PATH has, and packages that own a program.

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from iosweep.plan.launchers import Mpiexec
    from iosweep.programs.find import Program
from iosweep.tools import tools

#: Time limit of a package manager.
_ANSWER_S = 10.0


def of_path(programs: Mapping[str, Program], mpiexec: Mpiexec | None) -> dict[str, object]:
    """The build document of the programs that were found on PATH."""
    return {
        "provider": "path",
        "tools": {
            name: {
                "path": program.path,
                "sha256": program.sha256,
                "version": program.version,
                "package": package_of(program.path),
                **({"script": True} if _is_script(program.path) else {}),
            }
            for name, program in programs.items()
        },
        "mpi": _mpi(programs, mpiexec),
    }


def _is_script(path: str) -> bool:
    """Whether it is a script, whose hash says nothing about the programs that it starts."""
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(2) == b"#!"
    return False


def _mpi(programs: Mapping[str, Program], mpiexec: Mpiexec | None) -> dict[str, object] | None:
    """What starts ranks; where that is srun, the library that they are linked with, which does not say its version."""
    if mpiexec:
        return {"path": mpiexec.path, "version": mpiexec.version, "package": package_of(mpiexec.path)}
    for name, program in sorted(programs.items()):
        if tools()[name].mpi and (found := _LIBRARY.search(_output("ldd", program.path))):
            return {"path": found[1], "version": "", "package": package_of(found[1])}
    return None


#: In what ldd prints: MPICH's, Open MPI's, Intel's or Cray's library.
_LIBRARY = re.compile(r"^\s*libmpi\w*\.so\S* => (/.+) \(0x", re.MULTILINE)


def key(document: Mapping[str, object]) -> str:
    """Name of a build document: 12 hex digits of the hash of its content."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def package_of(path: str) -> str | None:
    """The package that a program came with, as in `fio 3.33-3 (dpkg)`, or None where no package manager knows it.

    It is the package of the file that runs, at the end of symbolic links (update-alternatives makes such). Where that
    file is not the one that was installed any more, the text says so.
    """
    file = os.path.realpath(path)
    return _of_dpkg(file) or _of_rpm(file) or _of_python(path) or _of_python(file)


def _of_dpkg(file: str) -> str | None:
    # asked for several files, dpkg prints the owners that it knows
    printed = _output("dpkg-query", "--search", *map(_literally, _names(file)))
    owners = (line.rpartition(": ")[0].split(", ")[0] for line in printed.splitlines() if not _DIVERTED.match(line))
    if not (owner := next(owners, "")):
        return None
    version = _output("dpkg-query", "--show", "--showformat=${Version}", owner)
    return f"{owner.partition(':')[0]} {version} (dpkg){_changed(_output('dpkg', '--verify', owner), file)}"


#: What dpkg says of a file that another package has put out of the way.
_DIVERTED = re.compile(r"(local )?diversion (by|from|to) ")


def _of_rpm(file: str) -> str | None:
    # rpm names a file that it does not know on standard output, too
    printed = _output(
        "rpm", "--query", "--queryformat", r"%{NAME} %{EVR} %{NAME}-%{EVR}.%{ARCH}\n", "--file", file, good=(0,)
    )
    if len(owner := printed.partition("\n")[0].split()) != 3:
        return None
    verified = _output("rpm", "--verify", "--nodeps", "--noscripts", owner[2])
    return f"{owner[0]} {owner[1]} (rpm){_changed(verified, file)}"


def _changed(verified: str, file: str) -> str:
    """Whether `--verify` of dpkg or rpm says that a file has another content: `??5?????? c /etc/hosts`."""
    for line in verified.splitlines():
        marks, _, rest = line.partition(" ")
        if len(marks) > 2 and marks[2] == "5" and rest.endswith(tuple(f" {name}" for name in _names(file))):
            return ", changed since"
    return ""


def _of_python(path: str) -> str | None:
    """Of a Python environment, ours or another one: MPICH comes as a package from PyPI."""
    from importlib.metadata import distributions  # late: merge needs only the keys

    directory, name = Path(path).parent.resolve(), Path(path).name  # an installer may have linked the file itself
    for site in sorted(directory.parent.glob("lib*/python3*/*-packages")):
        file = os.path.relpath(directory / name, site)
        for distribution in distributions(path=[str(site)]):
            if f"\n{file}," in f"\n{distribution.read_text('RECORD') or ''}":
                return f"{distribution.metadata['Name']} {distribution.version} ({_source(distribution)})"
    return None


def _source(distribution: Distribution) -> str:
    return "Python package" if distribution.read_text("direct_url.json") else "PyPI"


def _names(file: str) -> Iterator[str]:
    """The names that a package may know a file by, where /bin and /lib have become links to those in /usr."""
    yield file
    short = file.removeprefix("/usr")
    if short != file:
        with contextlib.suppress(OSError):
            if Path(file).samefile(short):
                yield short


def _literally(file: str) -> str:
    """As dpkg's search takes a name that may hold characters of a pattern."""
    return re.sub(r"([*?\[\\])", r"\\\1", file)


def _output(program: str, *arguments: str, good: tuple[int, ...] = (0, 1)) -> str:
    """Standard output of a command; empty if it is not installed, fails or does not end in time."""
    if (path := shutil.which(program)) is None:
        return ""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [path, *arguments],
            capture_output=True,
            timeout=_ANSWER_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode in good else ""
