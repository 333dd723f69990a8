"""Control groups of this process: how often the kernel stopped one, because it had used up its share of CPU time, and
whether one limits I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from iosweep.node import procfs
from iosweep.node.cpu_record import Throttled

#: Where control groups are mounted: version 2, alone and beside version 1; the controllers of version 1.
_MOUNTS = {"": ("", "unified"), "cpu": ("cpu,cpuacct", "cpu"), "blkio": ("blkio",)}
_LIMITS = ("io.max", *(f"blkio.throttle.{way}_{unit}_device" for way in ("read", "write") for unit in ("bps", "iops")))
_ROOT = Path("/sys/fs/cgroup")


def quotas(membership: str | None = None, root: Path = _ROOT) -> dict[Path, Throttled]:
    """What each control group of this process has counted since it was made, by its cpu.stat. `membership`: the text of
    /proc/self/cgroup."""
    files = (folder / "cpu.stat" for folder in _groups("cpu", membership, root))
    return {file: _counts(text) for file in files if (text := procfs.text(file)) is not None}


def io_limits(devices: Collection[str], membership: str | None = None, root: Path = _ROOT) -> str:
    """The limits of I/O that control groups of this process set on block devices (`8:0`); empty without."""
    found = []
    for folder in _groups("blkio", membership, root) if devices else ():
        for name in _LIMITS:
            lines = (procfs.text(folder / name) or "").splitlines()
            found += [f"{name} {line}" for line in lines if line.partition(" ")[0] in devices]
    return ", ".join(dict.fromkeys(found))


def _groups(controller: str, membership: str | None, root: Path) -> Iterator[Path]:
    """Where the groups of this process are, by both versions, and those above them: schedulers and container engines
    set their limits there, and a group shows its own only."""
    if membership is None:
        membership = procfs.read("self", "cgroup").decode("utf-8", "replace")
    for controllers, path in re.findall(rf"^\d+:(|[^:]*\b{controller}\b[^:]*):(/.*)$", membership, re.MULTILINE):
        inner = Path("/" if ".." in Path(path).parts else path)  # `..`: above what this container sees
        for mount in _MOUNTS[controller if controllers else ""]:
            for group in (inner, *inner.parents):
                yield root / mount / str(group).lstrip("/")


def _counts(stat: str) -> Throttled:
    """Zeros where no quota can hold. Version 1 counts in nanoseconds, version 2 in microseconds."""
    of = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", stat, re.MULTILINE)}
    stopped_s = of.get("throttled_usec", 0) / 1e6 + of.get("throttled_time", 0) / 1e9
    return Throttled(of.get("nr_periods", 0), of.get("nr_throttled", 0), stopped_s)


def throttled(before: Mapping[Path, Throttled], after: Mapping[Path, Throttled]) -> Throttled | None:
    """Of the group that was stopped longest between two readings; None where none could be read. Pure."""
    since = (
        Throttled(b.periods - a.periods, b.stopped - a.stopped, round(b.stopped_s - a.stopped_s, 3))
        for a, b in ((before[file], after[file]) for file in before.keys() & after.keys())
    )
    return max(since, key=lambda one: one.stopped_s, default=None)
