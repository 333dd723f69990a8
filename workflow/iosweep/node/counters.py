"""Bytes that a node moved, by the kernel's counters: of the block devices below the target, of the file system's
client, and of the network. No counter is on the target, so that reading them never waits for it.

`IoCounters` finds the files once and reads them as often as wanted; the functions that read a text are pure.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from iosweep.files.documents import Count, Number, Part, Seconds
from iosweep.node import fs_types
from iosweep.node.procfs import entries, text

#: Bytes of a sector in the kernel's counters, of any disk; of a word in those of InfiniBand.
_SECTOR, _WORD = 512, 4
#: Block devices that are memory, or nothing at all (null_blk).
_MEMORY_DEVICE = re.compile(r"(ram|zram|nullb)\d+$")
#: An overlay on a loop device on an overlay ...: no more steps than this.
_MOST_STEPS = 8
#: ARPHRD_INFINIBAND: such an interface is counted by its port.
_INFINIBAND = "32"


class Moved(Part, frozen=True, kw_only=True):
    """Bytes that one node moved over `window_s` seconds around a command (docs/store.md). None: no such counter.

    tool_*: storage I/O of the tool's own processes (rusage: blocks of 512 bytes); device_*: of the block devices
    below the target, `device` names them (flushes: of those with a volatile cache); client_*: between the file
    system's client and its servers, `client` names the file that counts; received, sent: of all network interfaces
    but the loopback. memory: the memory that the target is (`tmpfs`, `zram0`), empty where it is not known to be.
    dirty_bytes: what waited in memory to be written, for any file system, when the command began. still_s: the
    longest time that our own process there stood still (it was stopped, or the machine was). io_limits: of each
    device, by control groups (load.io_limits).
    """

    tool_read_bytes: Count | None = None
    tool_written_bytes: Count | None = None
    device: str = ""
    device_read_bytes: Count | None = None
    device_written_bytes: Count | None = None
    device_flushes: Count | None = None
    client: str = ""
    client_read_bytes: Count | None = None
    client_written_bytes: Count | None = None
    received_bytes: Count | None = None
    sent_bytes: Count | None = None
    window_s: Seconds = 0.0
    memory: str = ""
    dirty_bytes: Count | None = None
    still_s: Seconds = 0.0
    io_limits: dict[str, Count] = msgspec.field(default_factory=dict)


class Counted(Part, frozen=True):
    """The shares of a data set's bytes that counters saw while it was written and flushed: how far a counter can be
    trusted to see the traffic of this target. None: there was no such counter."""

    tool: Number | None = None
    device: Number | None = None
    client: Number | None = None
    network: Number | None = None


def counted(moved: Mapping[str, Moved], written_bytes: int) -> Counted | None:
    """Shares of `written_bytes` that the counters of the writing nodes saw; None without counters. Pure."""
    if not moved or not written_bytes:
        return None
    fields = ("tool_written_bytes", "device_written_bytes", "client_written_bytes", "sent_bytes")
    counts = ([getattr(node, name) for node in moved.values()] for name in fields)
    return Counted(*(None if None in counter else round(sum(counter) / written_bytes, 4) for counter in counts))


def least(sets: Iterable[Counted | None]) -> Counted | None:
    """The least share of each counter over several sets; None of a counter that one of them lacks. Pure."""
    shares = zip(*(structs.astuple(counted or Counted()) for counted in sets), strict=True)
    lowest = Counted(*(None if None in counter else min(counter) for counter in shares))
    return lowest if lowest != Counted() else None


class Mounted(NamedTuple):
    """A mount as /proc/self/mountinfo has it. device: `8:1`, `0:41` where there is no block device of its own."""

    point: str
    device: str
    fstype: str
    source: str
    options: str = ""


#: The mount that shows an absolute path; None where there is none.
MountOf = Callable[[str], Mounted | None]


class Bytes(NamedTuple):
    """Bytes since the node was started, or the client was mounted."""

    read: int
    written: int


class Reading(NamedTuple):
    """The counters at one time (monotonic). None: this node has no such counter. network: received and sent."""

    at_s: float
    device: Bytes | None = None
    client: Bytes | None = None
    network: Bytes | None = None
    flushes: int | None = None


class IoCounters:
    """The counters of one node for one target.

    devices: names of the block devices below the target, in the kernel's terms (`sda1`, `dm-3`), none where they are
    not known; disks: what they are partitions of; client: the file that counts, empty where there is none; memory:
    as in Moved. `proc`, `sys`: where the kernel's files are.
    """

    def __init__(
        self, target: Mounted, mount_of: MountOf, proc: Path = Path("/proc"), sys: Path = Path("/sys")
    ) -> None:
        self._point, self._net = target.point, proc / "net/dev"
        self.devices, self.memory = _devices_of(target, mount_of, sys)
        self.stats = [sys / "class/block" / name / "stat" for name in self.devices]
        self._counting = self.stats if all(map(_counts, self.stats)) else []
        folders = [file.parent.resolve() for file in self.stats]
        self._disks = [one.parent if (one / "partition").exists() else one for one in folders]
        # Linux 5.5 and later count flushes; a device mapper counts none
        volatile = self._disks and all(text(disk / "queue/write_cache") == "write back" for disk in self._disks)
        self._flushing = [disk / "stat" for disk in self._disks] if volatile else []
        self._osc = _osc(target, proc, sys) if target.fstype == "lustre" else []
        nfs = fs_types.of(target.fstype) is fs_types.of("nfs")
        self._nfs = proc / "self/mountstats" if nfs else None
        self.client = str(self._nfs or (self._osc[0].parent.parent if self._osc else ""))
        self._interfaces = _physical(interfaces(text(self._net) or ""), sys)
        ports = [port / "counters" for card in entries(sys / "class/infiniband") for port in entries(card / "ports")]
        self._ports = [port for port in ports if text(port / "port_rcv_data")]

    def read(self) -> Reading:
        """The counters now."""
        device, at_s = _sum(disk(text(file) or "") for file in self._counting), time.monotonic()
        if self._nfs:
            client = mountstats(text(self._nfs) or "", self._point)
        else:
            client = _sum(osc_stats(text(file) or "") for file in self._osc)
        seen = interfaces(text(self._net) or "")
        ports = [
            Bytes(*(_WORD * int(text(port / f"port_{way}_data") or 0) for way in ("rcv", "xmit")))
            for port in self._ports
        ]
        network = _sum([*(seen[name] for name in self._interfaces if name in seen), *ports])
        # the 16th count, of disks with a volatile cache; not known where one of them does not count
        counts = [int(([*(text(file) or "").split(), *["0"] * 16])[15]) for file in self._flushing]
        return Reading(at_s, device, client, network, sum(counts) if counts and all(counts) else None)

    def moved(self, before: Reading, after: Reading) -> Moved:
        """Bytes between two readings; those of the tool itself are not known here."""
        device = _between(before.device, after.device)
        client = _between(before.client, after.client)
        network = _between(before.network, after.network)
        began, ended = before.flushes, after.flushes
        return Moved(
            device=", ".join(self.devices),
            device_read_bytes=device and device.read,
            device_written_bytes=device and device.written,
            client=self.client,
            client_read_bytes=client and client.read,
            client_written_bytes=client and client.written,
            received_bytes=network and network.read,
            sent_bytes=network and network.written,
            window_s=round(max(0.0, after.at_s - before.at_s), 4),
            device_flushes=None if began is None or ended is None or ended < began else ended - began,
            memory=self.memory,
        )

    def disk_numbers(self) -> list[str]:
        """The numbers (`8:0`) of the disks, which limits of I/O name."""
        return [number for disk in self._disks if (number := text(disk / "dev"))]


def _devices_of(mount: Mounted, mount_of: MountOf, sys: Path, steps: int = 0) -> tuple[tuple[str, ...], str]:
    """The block devices below a mount, none where they cannot be told; and the memory among them."""
    kind = fs_types.of(mount.fstype)
    if kind.memory:
        return (), mount.fstype
    names: list[str] = []
    if mount.fstype == "overlay":
        upper = option(mount.options, "upperdir")
        below = mount_of(upper) if upper else None
        # a path of another namespace does not exist here, and our own mount seems to show it
        if below and below != mount and upper and Path(upper).exists() and steps < _MOST_STEPS:
            return _devices_of(below, mount_of, sys, steps + 1)
    elif not mount.device.startswith("0:"):
        with contextlib.suppress(OSError):
            names = [(sys / "dev/block" / mount.device).resolve(strict=True).name]
    elif mount.source.startswith("/dev/") and kind.local:  # btrfs, bcachefs: several devices
        names = [name for device in mount.source.split(":") for name in _members(device, sys)]
    memory = {name: _memory_of(name, sys) for name in names}
    devices = {name: below for name, below in memory.items() if below is not None}
    return tuple(devices), next(filter(None, devices.values()), "")


def _memory_of(name: str, sys: Path) -> str | None:
    """The memory that a block device is, or has below it; empty where it is on disks. None where that cannot be told,
    and for a loop device, which may serve I/O from the page cache."""
    folder = sys / "class/block" / name
    folders = (folder, folder.resolve().parent)  # a partition has the `loop` of its disk
    if not text(folder / "stat") or any((one / "loop").exists() for one in folders):
        return None
    below = [_memory_of(slave.name, sys) for slave in entries(folder / "slaves")]
    if None in below:
        return None
    return name if _MEMORY_DEVICE.match(name) else next(filter(None, below), "")


def _counts(stat: Path) -> bool:
    """Whether a device's counter counts: it may be switched off (queue/iostats), and some that use several paths have
    only zeros, although a file system was read from them when it was mounted."""
    queues = (stat.parent / "queue", stat.resolve().parent.parent / "queue")  # a partition has that of its disk
    switch = next((found for queue in queues if (found := text(queue / "iostats"))), "1")
    return switch != "0" and disk(text(stat) or "") not in (None, Bytes(0, 0))


def _members(device: str, sys: Path) -> list[str]:
    """All block devices of the btrfs that has this one; the device itself for other types."""
    name = Path(device).resolve().name if Path(device).exists() else Path(device).name
    for volume in entries(sys / "fs/btrfs"):
        members = [member.name for member in entries(volume / "devices")]
        if name in members:
            return members
    return [name]


def _osc(target: Mounted, proc: Path, sys: Path) -> list[Path]:
    """The statistics of Lustre's clients of each storage target: what went over the wire, which llite's do not tell."""
    name = target.source.rpartition(":/")[2].partition("/")[0]
    client = re.compile(rf"{re.escape(name)}-OST.*-osc-(?!MDT)")
    for root in (proc / "fs/lustre/osc", sys / "kernel/debug/lustre/osc"):
        files = [folder / "stats" for folder in entries(root) if client.match(folder.name)]
        if files := [file for file in files if text(file)]:
            return files
    return []


def _physical(seen: Iterable[str], sys: Path) -> list[str]:
    """Interfaces that carry traffic themselves, and not that of others (bonds, bridges, VLANs); all in a namespace that
    has none such."""
    names = [name for name in seen if name != "lo"]
    physical = [name for name in names if (sys / "class/net" / name / "device").exists()]
    if any(entries(sys / "class/infiniband")):
        return [name for name in physical if text(sys / "class/net" / name / "type") != _INFINIBAND]
    return physical or names


def option(options: str, name: str) -> str | None:
    """The value of a mount option; None without it."""
    found = re.search(rf"(?:^|,){re.escape(name)}=((?:\\.|[^,\\])*)", options)
    return found[1].replace("\\", "") if found else None


def disk(stat: str) -> Bytes | None:
    """What /sys/block/*/stat counts; None for another text."""
    fields = stat.split()
    if len(fields) < 7 or not all(field.isdecimal() for field in fields[:7]):
        return None
    return Bytes(_SECTOR * int(fields[2]), _SECTOR * int(fields[6]))


def mountstats(stats: str, point: str) -> Bytes | None:
    """What the NFS client moved between a mount and its server, by /proc/self/mountstats: `bytes:` counts what programs
    read and wrote (through the cache, then with O_DIRECT), then what the server sent and got."""
    found, here = None, False
    shown = re.escape(re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", point))
    begins = re.compile(rf"device \S+ mounted on {shown} with fstype nfs4? ")
    for line in stats.splitlines():
        if line.startswith("device "):
            here = bool(begins.match(f"{line} "))
        elif here and line.strip().startswith("bytes:"):
            counts = line.split()[1:]
            if len(counts) >= 6 and all(count.isdecimal() for count in counts[:6]):
                found = Bytes(int(counts[4]), int(counts[5]))
    return found


def osc_stats(stats: str) -> Bytes | None:
    """What one of Lustre's osc moved: `read_bytes 12 samples [bytes] least most sum`; a line is there once it counts.
    None for another text."""
    if not stats.startswith("snapshot_time"):
        return None
    sums = {"read_bytes": 0, "write_bytes": 0}
    for line in stats.splitlines():
        name, *fields = line.split()
        if name in sums and len(fields) >= 6 and fields[5].isdecimal():
            sums[name] = int(fields[5])
    return Bytes(sums["read_bytes"], sums["write_bytes"])


def interfaces(dev: str) -> dict[str, Bytes]:
    """Received and sent by each interface, by /proc/net/dev."""
    found = {}
    for line in dev.splitlines():
        name, colon, counts = line.partition(":")
        fields = counts.split()
        if colon and len(fields) >= 9 and fields[0].isdecimal() and fields[8].isdecimal():
            found[name.strip()] = Bytes(int(fields[0]), int(fields[8]))
    return found


def _sum(counts: Iterable[Bytes | None]) -> Bytes | None:
    """The sum; None where one is missing, or all."""
    every = list(counts)
    known = [one for one in every if one]
    if not known or len(known) < len(every):
        return None
    return Bytes(sum(one.read for one in known), sum(one.written for one in known))


def _between(before: Bytes | None, after: Bytes | None) -> Bytes | None:
    """None where a counter began again: a module was loaded anew, an interface replaced."""
    if before is None or after is None or after.read < before.read or after.written < before.written:
        return None
    return Bytes(after.read - before.read, after.written - before.written)
