"""Quotas of CPU time: how often the kernel stopped a control group of this process, because it had used up its share.

A group shows its own quota only, so those above it are read as well: Slurm and container engines set theirs there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from iosweep.node.cpu_record import Throttled
from iosweep.node.kernel_files import text

#: Where control groups are mounted: version 2, and that beside version 1; the controller of version 1.
_MOUNTS = ("", "unified", "cpu,cpuacct", "cpu")


class Periods(NamedTuple):
    """Of one group since it was made: periods in which it ran, those in which it was stopped, and for how long."""

    all: int
    stopped: int
    stopped_s: float


@dataclass(frozen=True)
class Quotas:
    """The files `cpu.stat` of the groups that have a quota, as found; none where no quota holds here. `readable`:
    whether there are control groups to be seen at all."""

    files: tuple[Path, ...]
    readable: bool

    def read(self) -> dict[Path, Periods]:
        """What they count now."""
        return {file: found for file in self.files if (found := periods(text(file) or ""))}


def quotas(membership: str, root: Path = Path("/sys/fs/cgroup")) -> Quotas:
    """By the text of /proc/self/cgroup."""
    folders = [one for mount in _MOUNTS for one in _groups(membership, root / mount) if (one / "cpu.stat").is_file()]
    return Quotas(tuple(folder / "cpu.stat" for folder in folders if _limited(folder)), bool(folders))


def _groups(membership: str, mount: Path) -> Iterable[Path]:
    """The group of this process below a mount, and those above it, the mount's own included."""
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        names = controllers.split(",")
        if mount.name in ("cpu", "cpu,cpuacct") and "cpu" not in names:
            continue
        if mount.name not in ("cpu", "cpu,cpuacct") and controllers:
            continue
        inner = Path(path.lstrip("/"))
        if ".." in inner.parts:  # a group outside of what this namespace shows
            inner = Path()
        return [mount / inner, *(mount / above for above in inner.parents if above != inner)]
    return []


def _limited(folder: Path) -> bool:
    """Whether a group has a quota of CPU time."""
    if (most := text(folder / "cpu.max")) is not None:
        return not most.startswith("max")
    quota = text(folder / "cpu.cfs_quota_us")
    return quota is not None and quota.lstrip("-").isdecimal() and int(quota) > 0


def periods(stat: str) -> Periods | None:
    """By the text of `cpu.stat`, of version 2 (microseconds) or 1 (nanoseconds)."""
    found = {name: int(count) for name, _, count in (line.partition(" ") for line in stat.splitlines()) if count}
    if not {"nr_periods", "nr_throttled"} <= found.keys():
        return None
    stopped_s = found.get("throttled_usec", 0) / 1e6 + found.get("throttled_time", 0) / 1e9
    return Periods(found["nr_periods"], found["nr_throttled"], stopped_s)


def throttled(before: Mapping[Path, Periods], after: Mapping[Path, Periods]) -> Throttled:
    """What the group that was stopped most often had to wait from one reading to the next. Pure."""
    worst = Throttled(0, 0, 0.0)
    for file in before.keys() & after.keys():
        a, b = before[file], after[file]
        one = Throttled(b.all - a.all, b.stopped - a.stopped, round(b.stopped_s - a.stopped_s, 3))
        if min(one.periods, one.stopped, one.stopped_s) >= 0 and one.stopped > worst.stopped:
            worst = one
    return worst
