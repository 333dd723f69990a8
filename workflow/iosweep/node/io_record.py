"""What a result keeps of the bytes that a node moved while a phase ran (docs/store.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from iosweep.files.fields import Count, Number, Part, Seconds


class Moved(Part, frozen=True, kw_only=True):
    """Bytes that one node moved, by the kernel's counters, over `window_s` seconds around the command. None: the node
    has no such counter.

    tool_*: of the tool's own processes, storage I/O (rusage: blocks of 512 bytes); device_*: of the block devices
    below the target, `device` names them (flushes: of those with a volatile cache); client_*: of the file system's
    client, between it and its servers, `client` names the file that counts; received, sent: of all network interfaces
    but the loopback. memory: why the target is memory (`tmpfs`, `loop0 is a file on tmpfs`), empty where it is not
    known to be. cached: why O_DIRECT does not keep I/O out of this machine's memory (a loop device without direct
    I/O); `device` is what is below. dirty_bytes: what waited in memory to be written when the command began, for any
    file system. still_s: the longest time that our own process there, which reads these counters, stood still (it was
    stopped, or the machine was). io_limit: limits of control groups on these devices.
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
    cached: str = ""
    dirty_bytes: Count | None = None
    still_s: Seconds = 0.0
    io_limit: str = ""


class Counted(Part, frozen=True, kw_only=True):
    """What counters saw of a data set that was written and flushed, as shares of its bytes: how far a counter can be
    trusted to see the traffic of this target. None: there was no such counter."""

    tool: Number | None = None
    device: Number | None = None
    client: Number | None = None
    network: Number | None = None


def least(sets: Iterable[Counted | None]) -> Counted | None:
    """The least share of each counter of any set; None of a counter that one of them does not have. Pure."""
    every = [structs.asdict(one) if one else {} for one in sets]

    def share(name: str) -> float | None:
        shares = [one.get(name) for one in every]
        return None if None in shares else min((one for one in shares if one is not None), default=None)

    found = Counted(**{name: share(name) for name in Counted.__struct_fields__})
    return found if found != Counted() else None


def counted(moved: Mapping[str, Moved], written_bytes: int) -> Counted | None:
    """The shares by what the nodes that wrote `written_bytes` moved; None where nothing was read. Pure."""
    if not moved or not written_bytes:
        return None

    def share(counts: list[int | None]) -> float | None:
        known = [count for count in counts if count is not None]
        return round(sum(known) / written_bytes, 4) if len(known) == len(counts) else None

    nodes = list(moved.values())
    return Counted(
        tool=share([node.tool_written_bytes for node in nodes]),
        device=share([node.device_written_bytes for node in nodes]),
        client=share([node.client_written_bytes for node in nodes]),
        network=share([node.sent_bytes for node in nodes]),
    )
