"""The build tools and compilers on PATH, found without Spack.

Spack decides once what it takes from the system. This shows within milliseconds whether it would decide the same now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from iosweep.programs.spack.packages import Lock, Spec
from iosweep.programs.spack.spack_yaml import BUILD_TOOLS

#: Program names, where they differ from Spack's package. Compilers may have a version in their name.
_PROGRAMS = {
    "diffutils": r"diff",
    "findutils": r"find",
    "gmake": r"g?make",
    "libtool": r"libtool(ize)?",
    "pkgconf": r"pkg-?conf(ig)?",
    "python": r"python3?(\.\d+)?",
    "texinfo": r"(texi2any|makeinfo)",
    "gcc": r"(gcc|g\+\+|gfortran)(-\d+(\.\d+)*)?",
    "llvm": r"(clang|clang\+\+|flang)(-\d+(\.\d+)*)?",
}
_NAMES = {name: re.compile(_PROGRAMS.get(name, re.escape(name))) for name in (*BUILD_TOOLS, "gcc", "llvm")}
#: Packages of distributions, where the name differs from Spack's.
_DISTRIBUTION = {"gmake": "make", "pkgconf": "pkg-config", "python": "python3"}
#: A package's build directory, and the name of a package that cannot be fetched.
_FAILED = re.compile(
    r"spack-stage-(?P<staged>[a-z0-9][a-z0-9_-]*?)-(?=\d)[^\s/]*-[a-z0-9]{32}"
    r"|Error while fetching (?P<fetched>[a-z0-9][a-z0-9_-]*)@"
)

#: Package -> its programs: real path, size, and time of the last change.
Offered = Mapping[str, list[str]]


def offered(path: str) -> dict[str, list[str]]:
    """The programs in a list of directories in the form of PATH."""
    found: dict[str, set[str]] = {}
    for directory in dict.fromkeys(filter(None, path.split(os.pathsep))):
        for name, file in _programs(Path(directory)):
            try:
                real = file.resolve()
                status = real.stat()
            except (OSError, RuntimeError):  # a cycle of links
                continue
            found.setdefault(name, set()).add(f"{real} {status.st_size} {status.st_mtime_ns}")
    return {name: sorted(found[name]) for name in sorted(found)}


def _programs(directory: Path) -> Iterator[tuple[str, Path]]:
    """(package, file) of the programs in a directory."""
    try:
        files = list(directory.iterdir())
    except OSError:
        return
    for file in files:
        for name, pattern in _NAMES.items():
            if pattern.fullmatch(file.name) and os.access(file, os.X_OK):
                yield name, file


def differs(before: Offered, now: Offered) -> str | None:
    """The changes in a few words, None without changes. Pure."""
    changes = {
        "new": sorted(set(now) - set(before)),
        "gone": sorted(set(before) - set(now)),
        "other versions": sorted(name for name in set(now) & set(before) if now[name] != before[name]),
    }
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in changes.items() if names) or None


def built_instead(lock: Lock) -> list[str]:
    """Names of the build tools that a spack.lock builds because this system lacks them. Pure."""
    specs = lock.concrete_specs.values()
    return sorted({spec.name for spec in specs if spec.name in BUILD_TOOLS and not spec.external})


def to_install(lock: Lock, output: str) -> str | None:
    """A sentence on the packages to install on this system because their builds failed; None if no build did.

    output: what Spack printed. Pure.
    """
    failed = {match["staged"] or match["fetched"] for match in _FAILED.finditer(output)}
    instead = built_instead(lock)
    specs = lock.concrete_specs
    failed -= _needed(specs, (root.hash for root in lock.roots), instead)  # needed in any case
    hashes = {name: [digest for digest, spec in specs.items() if spec.name == name] for name in instead}
    blamed = [name for name in instead if failed & _needed(specs, hashes[name])]
    if not blamed:
        return None
    packages = " ".join(_DISTRIBUTION.get(name, name) for name in blamed)
    are, them = ("are", "them") if len(blamed) > 1 else ("is", "it")
    return (
        f"{' and '.join(blamed)} {are} not on this system, so Spack builds {them} from source; install {packages}"
        " (apt-get install, dnf install) and run it again, which decides anew"
    )


def _needed(specs: Mapping[str, Spec], hashes: Iterable[str], but: Collection[str] = ()) -> set[str]:
    """Names of the packages with these hashes and of all they need, without `but` and what only those need."""
    found: set[str] = set()
    todo = list(hashes)
    while todo:
        spec = specs.get(todo.pop())
        if spec and spec.name not in (*found, *but) and not spec.external:
            found.add(spec.name)
            todo += [need.hash for need in spec.dependencies]
    return found
