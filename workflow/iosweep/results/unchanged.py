"""What shows that the rows of a point would be the same as those of an earlier merge: hashes of all that they are made
of."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import orjson
import pyarrow as pa

import iosweep
import iosweep.tools
from iosweep import sources
from iosweep.plan.model import Plan, Point
from iosweep.results.judging import absolute

#: Modules that judge, with all that they import.
_CODE = ("iosweep.results.merge",)
#: Files that changed less than so many seconds ago are read again: a clock that counts in whole seconds may give a
#: later change the same time.
_SETTLED_S = 2.0
#: Judged anew when its rows are asked for; no row depends on it.
_MISSING = "missing.json"
_HASH_BYTES = 16


def code() -> str:
    """Hash of this version of iosweep, of its sources, and of what rows are written with."""
    versions = (iosweep.__version__, sys.version, pa.__version__, msgspec.__version__, orjson.__version__)
    found = [sources.digest(_CODE), *versions, *_other_tools()]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:12]


def _other_tools() -> Iterator[str]:
    """Hashes of the sources of tools that are not in the package."""
    for place in map(Path, iosweep.tools.__path__):
        if not place.resolve().is_relative_to(sources.PACKAGE.resolve()):
            for file in sorted(place.rglob("*.py")):
                yield f"{file.relative_to(place)} {hashlib.sha256(file.read_bytes()).hexdigest()}"


class Asked:
    """What a plan says of its points."""

    def __init__(self, plan: Plan):
        self._plan = plan
        target = msgspec.json.encode(plan.target)
        known = (plan.campaign.encode(), absolute(plan.target.directory).encode(), target)
        self._base = hashlib.blake2b(b"\0".join(known), digest_size=_HASH_BYTES)

    def hash(self, point: Point) -> bytes:
        """Of all in the plan that the rows of a point depend on."""
        whole = self._base.copy()
        whole.update(b"%r " % self._plan.shortest_steady_s(point) + msgspec.json.encode(point))
        return whole.digest()


def files(points: Path, point: str, clock_ns: int) -> bytes:
    """Hash of the names, sizes, times and inodes of the files of a point, and of when one was added or removed; empty
    where they cannot be known, or may change without showing it. clock_ns: the time now, by the clock of the file
    system."""
    found = []
    try:
        handle = _opened(points, point)
    except OSError:
        return b""
    try:
        newest = os.fstat(handle).st_mtime_ns  # of a file that was read, and is gone again, nothing else is left
        found.append(str(newest))
        with os.scandir(handle) as entries:
            for entry in entries:
                if (name := entry.name) != _MISSING:
                    about = entry.stat(follow_symlinks=False)
                    changed, modified = about.st_ctime_ns, about.st_mtime_ns
                    newest = max(newest, changed, modified)
                    kind = about.st_mode
                    found.append(f"{name}/{kind}/{about.st_size}/{modified}/{changed}/{about.st_ino}")
    except OSError:
        return b""
    finally:
        os.close(handle)
    if newest > clock_ns - _SETTLED_S * 1e9:
        return b""
    return hashlib.blake2b(
        "\n".join(sorted(found)).encode("utf-8", "surrogateescape"), digest_size=_HASH_BYTES
    ).digest()


def _opened(points: Path, point: str) -> int:
    """A handle of the folder of a point. Raises OSError, also at a link, which a store does not follow either."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    above = os.open(points, flags)
    try:
        return os.open(point, flags, dir_fd=above)
    finally:
        os.close(above)


def same_memory(known: Mapping[str, int | None], memory: Mapping[str, int | None]) -> bool:
    """Whether the nodes of a point have the memory that they had."""
    return all(memory.get(key) == size for key, size in known.items())
