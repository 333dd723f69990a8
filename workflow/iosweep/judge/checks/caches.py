"""Whether reads came from the storage or from a cache, and whether bytes got to the storage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iosweep.judge.findings import NO_OUTPUT, NOT_APPLICABLE, SHOWN_NODES, Seen, failed, passed, unchecked
from iosweep.node import fs_types
from iosweep.node.counters import Counted, Moved
from iosweep.store.record import Finding
from iosweep.tools import Parsed
from iosweep.units import human_size

_OWN = unchecked("nodes read what they had written themselves, past their caches (O_DIRECT)")


def client_cache(s: Seen) -> Finding:
    """The client's cache took no part: O_DIRECT on a file system that is known to honor it, or each node read at least
    twice its memory, each byte counted once.
    """
    cached = next((moved.cached for moved in s.run.moved.values() if moved.cached), None)
    direct, doubt = bool(s.point.options.get("o_direct")), fs_types.direct(s.fstype, s.mount) or cached
    confirmed = s.parsed.evidence.confirms("o_direct")
    if s.phase.kind == "metadata" or not (direct or s.phase.reads):
        return NOT_APPLICABLE  # whether writes reach the storage is `durable`
    if direct:
        if s.run.exit_code:
            return unchecked("the run failed")
        if doubt is None and confirmed:
            return passed("the tool says that it used O_DIRECT, and the file system accepted it")
    accepted = f"O_DIRECT was accepted, and is no proof on {s.fstype or 'an unknown file system'}: {doubt}"
    if not confirmed:
        accepted = "O_DIRECT was asked for, and the tool does not say that it used it"
    if not s.phase.reads:
        return unchecked(accepted)
    size = _files_bytes(s) // s.point.nodes
    touched = {host: _distinct(read, size) for host, read in _read_by_node(s).items()}
    if not touched:
        return unchecked(accepted) if direct else NO_OUTPUT
    known = {host: memory for host in touched if (memory := s.memory_bytes.get(host))}
    small = sorted((touched[h] / memory, h) for h, memory in known.items() if touched[h] < 2 * memory)
    if small and direct:
        return unchecked(accepted)
    if small:
        host = small[0][1]
        what = f"of {human_size(touched[host])} on {host} with {_of_memory(known[host])}{_again(s)}"
        if s.phase.random and all(size >= 2 * known[h] for _, h in small):
            return unchecked(_random(f"reads without O_DIRECT {what}", size))
        return failed(f"reads without O_DIRECT {what}")
    if len(known) < s.point.nodes:
        unknown = ", ".join(sorted(set(touched) - set(known))[:SHOWN_NODES])
        return unchecked(accepted if direct else f"the memory of {unknown or 'the nodes'} is not known")
    ratio, host = min((touched[h] / memory, h) for h, memory in known.items())
    least = f"{human_size(touched[host])} were read on {host} with {_of_memory(known[host])}{_again(s)}"
    return passed(f"{least}: {ratio:.3g} times as much" + ", and no less on the others" * (s.point.nodes > 1))


def server_cache(s: Seen) -> Finding:
    """Reads are not served from the servers' memory: what was read, each byte counted once, is at least twice
    target.server_cache.
    """
    if s.phase.kind == "metadata" or not s.phase.reads:
        return NOT_APPLICABLE
    cache = s.target.server_cache
    if cache is None:
        return unchecked("target.server_cache is not given")
    read, size = s.parsed.figures.get("bytes_read"), _files_bytes(s)
    if read is None:
        return NO_OUTPUT
    touched = _distinct(read, size)
    memory = f"{human_size(cache)} of server memory"
    if not cache or touched >= 2 * cache:
        return passed(f"{human_size(touched)} were read{_again(s)}, against {memory}")
    if s.phase.random and size >= 2 * cache:
        return unchecked(_random(f"reads of {human_size(touched)} with {memory}{_again(s)}", size))
    return failed(
        f"{human_size(touched)} were read{_again(s)}: less than twice the servers' memory ({human_size(cache)})"
    )


def passes(s: Seen) -> float | None:
    """How often a phase went over its files: bytes moved / bytes of the files. None where that is not known."""
    moved = [s.parsed.figures[name] for name in ("bytes_read", "bytes_written") if name in s.parsed.figures]
    size = _files_bytes(s)
    return sum(moved) / size if s.phase.kind == "data" and moved and size else None


def _again(s: Seen) -> str:
    """`, in 12.5 passes over the files`; "" for one pass or less."""
    count = passes(s)
    return f", in {count:.3g} passes over the files" if count is not None and count > 1.005 else ""


def _random(what: str, size: int) -> str:
    """`size`: bytes of the files in which places were drawn."""
    return f"random {what}: memory could hold all that, but no more than half of the {human_size(size)} of files"


def _files_bytes(s: Seen) -> int:
    return s.run.files.set_bytes or s.point.volume_bytes


def _distinct(read: float, size: int) -> int:
    """Bytes that were read, each counted once: fio and IOR read no place of a file again before they read all."""
    return min(int(read), size) if size else int(read)


def _read_by_node(s: Seen) -> dict[str, float]:
    """node -> bytes that it read: as it reported itself, or else its ranks' part. Empty where that is not known."""
    each = {host: own.figures.get("bytes_read") for host, own in s.parsed.evidence.each_node.items()}
    if each:
        known = {host: read for host, read in each.items() if read is not None}
        return known if len(known) == len(each) else {}
    read = s.parsed.figures.get("bytes_read")
    if read is None:
        return {}
    ranks = s.run.ran_on
    if set(ranks) != set(s.memory_bytes) or sum(ranks.values()) != s.point.tasks:
        ranks = dict.fromkeys(s.memory_bytes, 1)  # as planned: as many on each
    return {host: read * count / sum(ranks.values()) for host, count in ranks.items()}


def other_reader(s: Seen) -> Finding:
    """The readers are other nodes than the writers."""
    shifts = s.parsed.evidence.shifts
    if not s.phase.reads or s.phase.writes or (s.phase.kind == "metadata" and not shifts):
        return NOT_APPLICABLE
    if s.point.nodes == 1:
        of_metadata = "; its cache of names may answer" if s.phase.kind == "metadata" else ""
        return unchecked(f"one node reads what it wrote itself{of_metadata}")
    own = s.run.files.own
    if own and not s.point.options.get("o_direct"):
        return failed(f"{', '.join(own)} read what they had written themselves, and not past their caches")
    if not shifts:
        if own is None:
            return unchecked("it is not known which node wrote what it reads")
        return passed("each node reads what another one wrote") if not own else _OWN
    if own:
        return _OWN
    shift = s.parsed.evidence.shift
    if shift is None:
        return failed("the tool does not report that each node read files written by another")
    per_node = int(s.point.options["threads_per_node"] or 1)
    ranks = per_node * s.point.nodes
    if not per_node <= shift % ranks <= ranks - per_node:  # ranks are placed node by node
        why = f"ranks are shifted by {shift}, with {per_node} on each node: some read what their node wrote"
        two = "; mdtest shifts reads by twice as many nodes as others: take three nodes or more"
        return failed(why + two * (s.point.tool == "mdtest" and s.phase.name == "read" and s.point.nodes == 2))
    return passed(f"each rank reads what the rank {shift} after it wrote, on another node")


def _of_memory(size: int) -> str:
    return f"{human_size(size)} of memory"


# Counters of the kernel


#: Least share of the bytes that counters must have seen: with O_DIRECT, and through the page cache.
DIRECT, BUFFERED = 0.95, 0.90
#: Least share of a data set that a counter must have seen while it was written, to be trusted.
TRUSTED = 0.90


class _Witness(NamedTuple):
    """A counter. place: where bytes came from, or got to, by its count; read, written: its bytes; doubt: why what it
    did not see may have got there all the same, empty where it is known to see the target's traffic."""

    place: str
    read: int | None
    written: int | None
    doubt: str


class _Work(NamedTuple):
    """What a tool says it moved on one node, or on all together (`host` is empty then), and what these nodes moved."""

    host: str
    read: float
    written: float
    moved: Sequence[Moved]


class _Share(NamedTuple):
    """The share of the bytes of one direction that a counter saw, and the sentence on it. cause: where the rest is
    known to be, empty where it is not."""

    share: float
    sentence: str
    doubt: str
    cause: str = ""


def reached(s: Seen) -> Finding:
    """What was read came from the storage, and what was written got there: the kernel's counters (of the tool's own
    I/O, the block device, the file system's client or the network) saw at least 95 % of it, of I/O without O_DIRECT
    90 %. The target is not memory.
    """
    if memory := _memory(s):
        return memory
    if s.phase.kind == "metadata":
        return NOT_APPLICABLE
    if s.run.exit_code:
        return unchecked("the run failed")
    works = _works(s)
    if not any(work.read or work.written for work in works):
        return NO_OUTPUT
    limit = DIRECT if s.point.options.get("o_direct") else BUFFERED
    shares: list[_Share] = []
    for work in works:
        found = list(_shares(s, work))
        if not found:
            return unchecked(_why_none(s, work))
        shares += found
    worst = min(shares, key=lambda one: one.share)
    if worst.share >= limit:
        return passed(worst.sentence)
    trusted = min((one for one in shares if not one.doubt), key=lambda one: one.share, default=worst)
    if trusted.share < limit and not trusted.doubt:
        return failed(trusted.sentence + trusted.cause)
    return unchecked(f"{worst.sentence}, and {worst.doubt}")


def _memory(s: Seen) -> Finding | None:
    """The finding where the target is memory; None where it is not known to be."""
    if fs_types.of(s.fstype).memory:
        if s.target.type == s.fstype:
            return unchecked(f"the target is memory ({s.fstype}), as target.type says: nothing gets to a device")
        return failed(f"the target is memory ({s.fstype}): nothing gets to a device")
    why = next((moved.memory for moved in s.run.moved.values() if moved.memory), "")
    return failed(f"the target is memory ({why}): nothing gets to a device") if why else None


def _works(s: Seen) -> list[_Work]:
    """Each node's where the tool tells them apart."""

    def work(host: str, parsed: Parsed, moved: Sequence[Moved]) -> _Work:
        figures = parsed.figures
        return _Work(host, figures.get("bytes_read", 0.0), figures.get("bytes_written", 0.0), moved)

    of_hosts = s.run.moved
    if nodes := s.parsed.evidence.each_node:
        return [work(host, one, [of_hosts[host]] if host in of_hosts else []) for host, one in nodes.items()]
    return [work("", s.parsed, list(of_hosts.values()) if len(of_hosts) >= s.point.nodes else [])]


def _shares(s: Seen, work: _Work) -> Iterator[_Share]:
    """The share by each counter, of each direction; none where none tells."""
    needed = _must_arrive(s, work)
    on = f"{work.host}: " if work.host else ""
    for place, read, written, doubt in _witnesses(s, work.moved):
        if work.read and read is not None:
            share = read / work.read
            yield _Share(share, f"{on}{_percent(share)} of {_size(work.read)} read came from {place}", doubt)
        if needed and written is not None:
            share = written / needed
            what = f"{_size(needed)} written"
            if needed < work.written:
                what = f"{_size(needed)} or more that differ among {_size(work.written)} written"
            yield _Share(share, f"{on}{_percent(share)} of {what} got to {place}", doubt, _merged(s, work, written))


def _must_arrive(s: Seen, work: _Work) -> float:
    """Bytes of a node's writes that cannot have stayed in memory: all with O_DIRECT; if the page cache was flushed at
    the end, those that were not written over; else none."""
    if s.point.options.get("o_direct"):
        return work.written
    if not s.point.options.get("fsync") or s.parsed.evidence.not_flushed:
        return 0.0
    return _differing(s, work)


def _differing(s: Seen, work: _Work) -> float:
    """Bytes of a node's writes that were not written over, of writes at random offsets: these hit some places several
    times."""
    room = s.point.volume_bytes / (s.point.nodes if work.host else 1)
    return room * -math.expm1(-work.written / room)


def _merged(s: Seen, work: _Work, arrived: int) -> str:
    """The cause where the last version of each block got to the servers, and most of the earlier ones did not: a client
    outside the kernel (MooseFS) accepts O_DIRECT, and keeps what it has not sent yet in memory of its own."""
    if fs_types.of(s.fstype).local or not s.point.options.get("o_direct"):
        return ""
    differing = _differing(s, work)
    if DIRECT * differing > arrived or differing > DIRECT * work.written:
        return ""
    return ": the rest were blocks that were written over in the client's memory; raise file_size"


def _witnesses(s: Seen, moved: Sequence[Moved]) -> Iterator[_Witness]:
    """The counters that see this target's traffic, or may. The network's only where the client has none: it carries
    everything else, too."""
    kind = fs_types.of(s.fstype)
    if not moved:
        return
    if kind.local:
        devices = ", ".join(dict.fromkeys(one.device for one in moved if one.device))
        why = _passes_by(s, moved)
        if kind.block and trusts(s, "tool") and not any(one.cached for one in moved):
            own = _sums(moved, "tool_read_bytes", "tool_written_bytes")
            doubt = why if _calibrated(s, "tool") is None else ""
            yield _Witness("block devices, by the kernel's account of the tool", *own, doubt)
        if devices and trusts(s, "device"):
            of_devices = _sums(moved, "device_read_bytes", "device_written_bytes")
            doubt = why if _calibrated(s, "device") is None else ""
            yield _Witness(f"the block device {devices}", *of_devices, doubt)
        return
    client = _sums(moved, "client_read_bytes", "client_written_bytes")
    network = _sums(moved, "received_bytes", "sent_bytes")
    if client != (None, None) and trusts(s, "client"):
        yield _Witness(f"the servers, by {moved[0].client}", *client, "")
    elif (trusted := trusts(s, "network")) or _calibrated(s, "network") is None:
        doubt = "" if trusted else "it is not known whether that carries the target's data"
        yield _Witness("the network, which other traffic uses, too", *network, doubt)


def _passes_by(s: Seen, moved: Sequence[Moved]) -> str:
    """Why I/O on a local file system may pass by its block devices' counters and the kernel's account of processes,
    which count requests to block devices: empty where it does not."""
    if fs_types.of(s.fstype).layered and not all(one.device for one in moved):
        return f"what is below the {s.fstype} is not known: ZFS and others count nothing"
    return ""


def _calibrated(s: Seen, counter: str) -> float | None:
    """The share of a data set that a counter saw while it was written; None where that is not known."""
    share: float | None = getattr(s.run.files.counted or Counted(), counter)
    return share


def trusts(s: Seen, counter: str) -> bool:
    """Whether a counter sees all that the target moves. That of a device or a client is made for it, but may not count
    (some drivers that use several paths do not)."""
    share = _calibrated(s, counter)
    return counter != "network" if share is None else share >= TRUSTED


def _why_none(s: Seen, work: _Work) -> str:
    """Why no counter tells what was moved."""
    if not work.moved:
        return f"what {work.host or 'a node'} moved was not counted"
    if not work.read and not _must_arrive(s, work):
        return "writes were not flushed inside the timing, and may be in memory"
    names = {"tool": "the tool", "device": "the block device", "client": "the client", "network": "the network"}
    blind = [
        f"that of {name} saw {_percent(share)} of a data set that was written"
        for counter, name in names.items()
        if (share := _calibrated(s, counter)) is not None and share < TRUSTED
    ]
    return "; ".join([f"no counter is known to see all I/O on {s.fstype or 'an unknown file system'}", *blind])


def _sums(moved: Sequence[Moved], read: str, written: str) -> tuple[int | None, int | None]:
    """Two fields, each summed over nodes; None where a node does not have it."""

    def total(name: str) -> int | None:
        counts: list[int | None] = [getattr(one, name) for one in moved]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    return total(read), total(written)


def _percent(share: float) -> str:
    """As a reader needs it: counters may have seen much more, of others."""
    return "all" if share >= 1 else f"{math.floor(100 * share):d} %"


def _size(size: float) -> str:
    return human_size(round(size))
