"""I/O counters of a node: bytes that block devices, the file system's client and the network moved, from the kernel.

No counter is on the target, so reading never waits for the target. `IoCounters` finds the files once and reads them as
often as asked; the functions that parse a text are pure.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from iosweep.files.documents import Count, Number, Part, Seconds
from iosweep.node import fs_types
from iosweep.node.procfs import Mount, entries, mount_at, text

#: Bytes per sector in the kernel's disk counters, whatever the disk; bytes per word in InfiniBand counters.
_SECTOR, _WORD = 512, 4
#: Block devices backed by memory, or by nothing at all (null_blk).
_MEMORY_DEVICE = re.compile(r"(ram|zram|nullb)\d+$")
#: An overlay may lie on another overlay: layers to follow at most.
_MOST_STEPS = 8
#: ARPHRD_INFINIBAND: the traffic of such an interface is counted at its port instead.
_INFINIBAND = "32"


class Moved(Part, frozen=True, kw_only=True):
    """Bytes that one node moved while a command ran (docs/store.md). None: no such counter."""

    #: Storage I/O of the tool's processes, by rusage in blocks of 512 bytes.
    tool_read_bytes: Count | None = None
    tool_written_bytes: Count | None = None
    #: Names of the block devices below the target.
    device: str = ""
    device_read_bytes: Count | None = None
    device_written_bytes: Count | None = None
    #: Only of devices with a volatile cache.
    device_flushes: Count | None = None
    #: The file that counts bytes between the file system's client and its servers.
    client: str = ""
    client_read_bytes: Count | None = None
    client_written_bytes: Count | None = None
    #: Of all network interfaces except the loopback.
    received_bytes: Count | None = None
    sent_bytes: Count | None = None
    window_s: Seconds = 0.0
    #: The memory that backs the target (`tmpfs`, `zram0`); empty if none is known.
    memory: str = ""
    #: Bytes of all file systems that waited in memory to be written when the command began.
    dirty_bytes: Count | None = None
    #: Limits that control groups set on each device (load.io_limits).
    io_limits: dict[str, Count] = msgspec.field(default_factory=dict)


class Counted(Part, frozen=True):
    """Share of a data set's bytes that each counter saw while the data set was written and flushed: how far the counter
    can be trusted to see the traffic of this target. None: no such counter."""

    tool: Number | None = None
    device: Number | None = None
    client: Number | None = None
    network: Number | None = None


def counted_shares(moved: Mapping[str, Moved], written_bytes: int) -> Counted | None:
    """The share of `written_bytes` that each counter of the writing nodes saw; None without counters. Pure."""
    if not moved or not written_bytes:
        return None
    fields = ("tool_written_bytes", "device_written_bytes", "client_written_bytes", "sent_bytes")
    counts = ([getattr(node, name) for node in moved.values()] for name in fields)
    return Counted(*(None if None in counter else round(sum(counter) / written_bytes, 4) for counter in counts))


def lowest_shares(sets: Iterable[Counted | None]) -> Counted | None:
    """The lowest share of each counter over several data sets; None if a set lacks the counter. Pure."""
    shares = zip(*(structs.astuple(counted or Counted()) for counted in sets), strict=True)
    lowest = Counted(*(None if None in counter else min(counter) for counter in shares))
    return lowest if lowest != Counted() else None


class Bytes(NamedTuple):
    """Bytes since the node booted, or since the client was mounted."""

    read: int
    written: int


class Reading(NamedTuple):
    """The counters at a point of monotonic time. None: this node has no such counter. network: received and sent."""

    at_s: float
    device: Bytes | None = None
    client: Bytes | None = None
    network: Bytes | None = None
    flushes: int | None = None


class IoCounters:
    """The counters of one node for one target. `client`, `memory`: as in Moved.

    devices: kernel names (`sda1`, `dm-3`) of the block devices below the target; empty if not known.
    """

    def __init__(
        self, target: Mount, mounts: Sequence[Mount], proc: Path = Path("/proc"), sys: Path = Path("/sys")
    ) -> None:
        self._point, self._net = target.point, proc / "net/dev"
        self.devices, self.memory = _devices_of(target, mounts, sys)
        self.stats = [sys / "class/block" / name / "stat" for name in self.devices]
        self._counting = self.stats if all(map(_counts, self.stats)) else []
        folders = [file.parent.resolve() for file in self.stats]
        self._disks = [folder.parent if (folder / "partition").exists() else folder for folder in folders]
        # device numbers (`8:0`), by which I/O limits name the disks
        self.disk_numbers = [number for disk in self._disks if (number := text(disk / "dev"))]
        # Linux 5.5 and later count flushes; a device mapper does not
        volatile = self._disks and all(text(disk / "queue/write_cache") == "write back" for disk in self._disks)
        self._flushing = [disk / "stat" for disk in self._disks] if volatile else []
        self._osc = _osc(target, proc, sys) if target.fstype == "lustre" else []
        nfs = fs_types.lookup(target.fstype) is fs_types.lookup("nfs")
        self._nfs = proc / "self/mountstats" if nfs else None
        self.client = str(self._nfs or (self._osc[0].parent.parent if self._osc else ""))
        self._interfaces = _physical(interfaces(text(self._net) or ""), sys)
        ports = [port / "counters" for card in entries(sys / "class/infiniband") for port in entries(card / "ports")]
        self._ports = [port for port in ports if text(port / "port_rcv_data")]

    def read(self) -> Reading:
        device, at_s = _sum(disk(text(file) or "") for file in self._counting), time.monotonic()
        if self._nfs:
            client = mountstats(text(self._nfs) or "", self._point)
        else:
            client = _sum(osc_stats(text(file) or "") for file in self._osc)
        traffic = interfaces(text(self._net) or "")
        ports = [
            Bytes(*(_WORD * int(text(port / f"port_{way}_data") or 0) for way in ("rcv", "xmit")))
            for port in self._ports
        ]
        network = _sum([*(traffic[name] for name in self._interfaces if name in traffic), *ports])
        # field 16 counts flushes; unknown if a disk does not count them
        counts = [int(([*(text(file) or "").split(), *["0"] * 16])[15]) for file in self._flushing]
        return Reading(at_s, device, client, network, sum(counts) if counts and all(counts) else None)

    def moved(self, before: Reading, after: Reading) -> Moved:
        """Bytes between two readings, without `tool_*`."""
        device = between(before.device, after.device)
        client = between(before.client, after.client)
        network = between(before.network, after.network)
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


def _devices_of(mount: Mount, mounts: Sequence[Mount], sys: Path, steps: int = 0) -> tuple[tuple[str, ...], str]:
    """The block devices below a mount, empty if unknown; and the device among them that is memory."""
    kind = fs_types.lookup(mount.fstype)
    if kind.memory:
        return (), mount.fstype
    names: list[str] = []
    if mount.fstype == "overlay":
        upper = option(mount.options, "upperdir")
        below = mount_at(upper, mounts) if upper else None
        # a path of another mount namespace does not exist here: it would lead to the overlay itself
        if below and below != mount and upper and Path(upper).exists() and steps < _MOST_STEPS:
            return _devices_of(below, mounts, sys, steps + 1)
    elif not mount.device.startswith("0:"):
        with contextlib.suppress(OSError):
            names = [(sys / "dev/block" / mount.device).resolve(strict=True).name]
    elif mount.source.startswith("/dev/") and kind.local:  # btrfs, bcachefs: several devices
        names = [name for device in mount.source.split(":") for name in _members(device, sys)]
    memory = {name: _memory_of(name, sys) for name in names}
    devices = {name: below for name, below in memory.items() if below is not None}
    return tuple(devices), next(filter(None, devices.values()), "")


def _memory_of(name: str, sys: Path) -> str | None:
    """Name of the memory device that a block device is, or is built on; empty if it is on disks. None if unknown, or
    for a loop device, which may serve I/O from the page cache."""
    folder = sys / "class/block" / name
    folders = (folder, folder.resolve().parent)  # for a partition, `loop` is in the folder of its disk
    if not text(folder / "stat") or any((each / "loop").exists() for each in folders):
        return None
    below = [_memory_of(slave.name, sys) for slave in entries(folder / "slaves")]
    if None in below:
        return None
    return name if _MEMORY_DEVICE.match(name) else next(filter(None, below), "")


def _counts(stat: Path) -> bool:
    """Whether a device's counter works: it may be switched off (queue/iostats), and some multipath devices show only
    zeros, although mounting the file system read from them."""
    queues = (stat.parent / "queue", stat.resolve().parent.parent / "queue")  # a partition uses its disk's queue
    switch = next((value for queue in queues if (value := text(queue / "iostats"))), "1")
    return switch != "0" and disk(text(stat) or "") not in (None, Bytes(0, 0))


def _members(device: str, sys: Path) -> list[str]:
    """All block devices of the btrfs volume that this device belongs to; for other types the device itself."""
    name = Path(device).resolve().name if Path(device).exists() else Path(device).name
    for volume in entries(sys / "fs/btrfs"):
        members = [member.name for member in entries(volume / "devices")]
        if name in members:
            return members
    return [name]


def _osc(target: Mount, proc: Path, sys: Path) -> list[Path]:
    """Statistics files of Lustre's clients, one per storage target: bytes on the wire, which llite does not count."""
    name = target.source.rpartition(":/")[2].partition("/")[0]
    client = re.compile(rf"{re.escape(name)}-OST.*-osc-(?!MDT)")
    for root in (proc / "fs/lustre/osc", sys / "kernel/debug/lustre/osc"):
        files = [folder / "stats" for folder in entries(root) if client.match(folder.name)]
        if files := [file for file in files if text(file)]:
            return files
    return []


def _physical(interface_names: Iterable[str], sys: Path) -> list[str]:
    """Interfaces with hardware behind them, so that no byte is counted twice by bonds, bridges or VLANs; all interfaces
    in a network namespace without hardware."""
    names = [name for name in interface_names if name != "lo"]
    physical = [name for name in names if (sys / "class/net" / name / "device").exists()]
    if any(entries(sys / "class/infiniband")):
        return [name for name in physical if text(sys / "class/net" / name / "type") != _INFINIBAND]
    return physical or names


def option(options: str, name: str) -> str | None:
    """The value of a mount option; None if it is not set."""
    match = re.search(rf"(?:^|,){re.escape(name)}=((?:\\.|[^,\\])*)", options)
    return match[1].replace("\\", "") if match else None


def disk(stat: str) -> Bytes | None:
    """Bytes from the text of /sys/block/*/stat; None if it is not such a text."""
    fields = stat.split()
    if len(fields) < 7 or not all(field.isdecimal() for field in fields[:7]):
        return None
    return Bytes(_SECTOR * int(fields[2]), _SECTOR * int(fields[6]))


def mountstats(stats: str, point: str) -> Bytes | None:
    """Bytes between the NFS client and the server of a mount, from /proc/self/mountstats. The line `bytes:` counts
    bytes that programs read and wrote (cached, then with O_DIRECT), then bytes from and to the server."""
    total, here = None, False
    shown = re.escape(re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", point))
    begins = re.compile(rf"device \S+ mounted on {shown} with fstype nfs4? ")
    for line in stats.splitlines():
        if line.startswith("device "):
            here = bool(begins.match(f"{line} "))
        elif here and line.strip().startswith("bytes:"):
            counts = line.split()[1:]
            if len(counts) >= 6 and all(count.isdecimal() for count in counts[:6]):
                total = Bytes(int(counts[4]), int(counts[5]))
    return total


def osc_stats(stats: str) -> Bytes | None:
    """Bytes that a Lustre osc moved: `read_bytes 12 samples [bytes] min max sum`, a line that appears with the first
    byte. None if it is not such a text."""
    if not stats.startswith("snapshot_time"):
        return None
    sums = {"read_bytes": 0, "write_bytes": 0}
    for line in stats.splitlines():
        name, *fields = line.split()
        if name in sums and len(fields) >= 6 and fields[5].isdecimal():
            sums[name] = int(fields[5])
    return Bytes(sums["read_bytes"], sums["write_bytes"])


def interfaces(dev: str) -> dict[str, Bytes]:
    """Bytes received and sent by each interface, from /proc/net/dev."""
    traffic = {}
    for line in dev.splitlines():
        name, colon, counts = line.partition(":")
        fields = counts.split()
        if colon and len(fields) >= 9 and fields[0].isdecimal() and fields[8].isdecimal():
            traffic[name.strip()] = Bytes(int(fields[0]), int(fields[8]))
    return traffic


def _sum(counts: Iterable[Bytes | None]) -> Bytes | None:
    """The sum; None if a count is missing, or there are none."""
    every = list(counts)
    present = [count for count in every if count]
    if not present or len(present) < len(every):
        return None
    return Bytes(sum(count.read for count in present), sum(count.written for count in present))


def between(before: Bytes | None, after: Bytes | None) -> Bytes | None:
    """Bytes between two readings; None if a counter was reset (a module was reloaded, an interface replaced)."""
    if before is None or after is None or after.read < before.read or after.written < before.written:
        return None
    return Bytes(after.read - before.read, after.written - before.written)
