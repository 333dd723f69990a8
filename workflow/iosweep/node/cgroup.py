"""CPU quotas: how often the kernel stopped a control group of this process, because it had used up its share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from iosweep.node import procfs
from iosweep.node.cpu_record import Throttled

#: Where control groups are mounted: version 2, alone and beside version 1; the CPU controller of version 1.
_MOUNTS = {False: ("", "unified"), True: ("cpu,cpuacct", "cpu")}


def quotas(membership: str | None = None, root: Path = Path("/sys/fs/cgroup")) -> dict[Path, Throttled]:
    """What each control group of this process has counted since it was made, by its cpu.stat.

    A group counts its own quota only, so those above it are read as well: schedulers and container engines set theirs
    there. `membership`: the text of /proc/self/cgroup.
    """
    if membership is None:
        membership = procfs.read("self", "cgroup").decode("utf-8", "replace")
    found = {}
    for controllers, path in re.findall(r"^\d+:(|[^:]*\bcpu\b[^:]*):(/.*)$", membership, re.MULTILINE):
        inner = Path("/" if ".." in Path(path).parts else path)  # `..`: above what this container sees
        for mount in _MOUNTS[bool(controllers)]:
            for group in (inner, *inner.parents):
                file = root / mount / str(group).lstrip("/") / "cpu.stat"
                if (text := procfs.text(file)) is not None:
                    found[file] = _counts(text)
    return found


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
