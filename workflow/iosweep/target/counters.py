"""The counters of this node for a target, found by the table of mounts."""

from __future__ import annotations

from functools import lru_cache

from iosweep.node.io_counters import IoCounters, Mounted
from iosweep.target import mounts


@lru_cache(maxsize=1)
def of_mount(point: str, fstype: str) -> IoCounters:
    """The counters for the file system of this type that is mounted at `point`; where it is not mounted (any more) only
    those of the network. Nothing of the target itself is touched, so this does not wait for it."""
    table = mounts.table()

    def mount_of(path: str) -> Mounted | None:
        found = mounts.at(path, table)
        return _mounted(found) if found.point else None

    there = [mount for mount in table if (mount.point, mount.fstype) == (point, fstype)]
    return IoCounters(_mounted(there[-1] if there else mounts.UNLISTED), mount_of)


def _mounted(mount: mounts.Mount) -> Mounted:
    return Mounted(mount.point, mount.device or "0:0", mount.fstype, mount.source, mount.options)
