"""Whether reads came from the storage or from a cache, and whether writes reached the storage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iosweep.judge.findings import NO_OUTPUT, NOT_APPLICABLE, SHOWN_NODES, Observation, failed, passed, unchecked
from iosweep.node import fs_types
from iosweep.node.counters import Counted, Moved
from iosweep.store.record import Finding
from iosweep.tools import Parsed
from iosweep.units import human_size

_UNKNOWN_DEVICE = "what is below the file system is not known: ZFS counts nothing, and a loop device may be cached"
_SELF_READ = unchecked("nodes read what they had written themselves, bypassing their caches (O_DIRECT)")


def client_cache(s: Observation) -> Finding:
    """The client's cache took no part: O_DIRECT on a file system that is known to honor it, or each node read at least
    twice its memory, each byte counted once.
    """
    direct, doubt = bool(s.point.options.get("o_direct")), fs_types.direct_doubt(s.fstype, s.mount)
    if fs_types.lookup(s.fstype).block and not all(moved.device for moved in s.run.moved.values()):
        doubt = doubt or _UNKNOWN_DEVICE
    if not (direct or s.phase.reads):
        return NOT_APPLICABLE  # whether writes reach the storage is `durable`
    if direct and s.run.exit_code:
        return unchecked("the run failed")
    accepted = f"O_DIRECT was accepted, which proves nothing on {s.fstype or 'an unknown file system'}: {doubt}"
    if not s.parsed.evidence.confirms("o_direct"):
        accepted = "O_DIRECT was requested, but the tool does not say that it used it"
    elif direct and doubt is None:
        return passed("the tool says that it used O_DIRECT, and the file system accepted it")
    if not s.phase.reads:
        return unchecked(accepted)
    size = _files_bytes(s) // s.point.nodes
    unique = {host: _distinct_bytes(read, size) for host, read in _read_by_node(s).items()}
    if not unique:
        return unchecked(accepted) if direct else NO_OUTPUT
    memories = {host: memory for host in unique if (memory := s.memory_bytes.get(host))}
    ratio, host = min(((unique[h] / memory, h) for h, memory in memories.items()), default=(math.inf, ""))
    if direct and (ratio < 2 or len(memories) < s.point.nodes):
        return unchecked(accepted)
    if ratio < 2:
        amount = f"{human_size(unique[host])} were read{_in_passes(s)} without O_DIRECT on {host}, which has"
        amount += f" {human_size(memories[host])} of memory"
        if s.phase.random and all(size >= 2 * memories[h] for h in memories if unique[h] < 2 * memories[h]):
            return unchecked(_explain_random(amount, size))
        return failed(amount)
    if len(memories) < s.point.nodes:
        unknown = ", ".join(sorted(set(unique) - set(memories))[:SHOWN_NODES])
        return unchecked(f"the memory of {unknown or 'the nodes'} is not known")
    sentence = (
        f"{human_size(unique[host])} were read on {host} with {human_size(memories[host])} of memory{_in_passes(s)}"
    )
    return passed(f"{sentence}: {ratio:.3g} times as much" + ", and no less on the others" * (s.point.nodes > 1))


def server_cache(s: Observation) -> Finding:
    """Reads are not served from the servers' memory: the bytes read, each counted once, are at least twice
    target.server_cache.
    """
    if not s.phase.reads:
        return NOT_APPLICABLE
    cache = s.target.server_cache
    if cache is None:
        return unchecked("target.server_cache is not given")
    read, size = s.parsed.figures.get("bytes_read"), _files_bytes(s)
    if read is None:
        return NO_OUTPUT
    unique = _distinct_bytes(read, size)
    memory = f"{human_size(cache)} of server memory"
    if not cache or unique >= 2 * cache:
        return passed(f"{human_size(unique)} were read{_in_passes(s)}, against {memory}")
    if s.phase.random and size >= 2 * cache:
        return unchecked(_explain_random(f"{human_size(unique)} were read{_in_passes(s)}, against {memory}", size))
    return failed(
        f"{human_size(unique)} were read{_in_passes(s)}: less than twice the servers' memory ({human_size(cache)})"
    )


def passes(s: Observation) -> float | None:
    """Number of passes over the files: bytes moved / bytes of the files. None if unknown."""
    moved = [s.parsed.figures[name] for name in ("bytes_read", "bytes_written") if name in s.parsed.figures]
    size = _files_bytes(s)
    return sum(moved) / size if s.phase.kind == "data" and moved and size else None


def _in_passes(s: Observation) -> str:
    """`, in 12.5 passes over the files`; "" for one pass or less."""
    count = passes(s)
    return f", in {count:.3g} passes over the files" if count is not None and count > 1.005 else ""


def _explain_random(reads: str, size: int) -> str:
    """Why random reads prove nothing. `size`: bytes of the files over which they are spread."""
    return f"{reads}: random reads of {human_size(size)} of files, of which memory holds half at most"


def _files_bytes(s: Observation) -> int:
    return s.run.files.set_bytes or s.point.volume_bytes


def _distinct_bytes(read: float, size: int) -> int:
    """Bytes that were read, each counted once: fio and IOR reread no offset before they have read the whole file."""
    return min(int(read), size) if size else int(read)


def _read_by_node(s: Observation) -> dict[str, float]:
    """node -> bytes that it read: as reported for the node, else in proportion to its ranks. Empty if unknown."""
    reported = {host: node.figures.get("bytes_read") for host, node in s.parsed.evidence.each_node.items()}
    if reported:
        complete = {host: read for host, read in reported.items() if read is not None}
        return complete if len(complete) == len(reported) else {}
    read = s.parsed.figures.get("bytes_read")
    if read is None:
        return {}
    ranks = s.run.ran_on
    if set(ranks) != set(s.memory_bytes) or sum(ranks.values()) != s.point.tasks:
        ranks = dict.fromkeys(s.memory_bytes, 1)  # as planned: the same number on each node
    return {host: read * count / sum(ranks.values()) for host, count in ranks.items()}


def other_reader(s: Observation) -> Finding:
    """The readers are other nodes than the writers."""
    shifts = s.parsed.evidence.shifts
    if not s.phase.reads or s.phase.writes or (s.phase.kind == "metadata" and not shifts):
        return NOT_APPLICABLE
    if s.point.nodes == 1:
        caveat = "; its cache of names may answer" if s.phase.kind == "metadata" else ""
        return unchecked(f"one node reads what it wrote itself{caveat}")
    readers = s.run.files.self_readers
    if readers and not s.point.options.get("o_direct"):
        return failed(f"{', '.join(readers)} read through their caches what they had written themselves")
    if not shifts:
        if readers is None:
            return unchecked("it is not known which node wrote what it reads")
        return _SELF_READ if readers else passed("each node reads what another one wrote")
    if readers:
        return _SELF_READ
    shift = s.parsed.evidence.shift
    if shift is None:
        return failed("the tool does not report that each node read files written by another")
    per_node = int(s.point.options["threads_per_node"] or 1)
    ranks = per_node * s.point.nodes
    if not per_node <= shift % ranks <= ranks - per_node:  # ranks are placed node by node
        shifted = f"ranks are shifted by {shift}, with {per_node} on each node: some read what their node wrote"
        hint = "; mdtest shifts reads by twice as many nodes as others: take three nodes or more"
        return failed(shifted + hint * (s.point.tool == "mdtest" and s.phase.name == "read" and s.point.nodes == 2))
    return passed(f"each rank reads what the rank {shift} after it wrote, on another node")


# Counters of the kernel


#: Minimum share of the bytes that counters must have seen with O_DIRECT: counters are not exact.
DIRECT = 0.95
#: Minimum share without O_DIRECT: the page cache may still hold some bytes of a file.
BUFFERED = 0.90
#: Minimum share of a data set that a trusted counter saw while the set was written: as BUFFERED.
TRUSTED = 0.90


class _TrafficCounter(NamedTuple):
    """What a kernel counter saw of the target's traffic."""

    place: str  # source or destination of the bytes
    read: int | None
    written: int | None
    doubt: str  # why it may miss traffic; empty where it is known to see all


def reached(s: Observation) -> Finding:
    """Reads came from the storage, and writes got there: the kernel's counters (of the tool's I/O, the block device,
    the file system's client or the network) saw at least 95 % of the bytes, of I/O without O_DIRECT 90 %. The target is
    not memory.
    """
    in_memory = fs_types.lookup(s.fstype).memory
    if in_memory and s.target.type == s.fstype:
        return unchecked(f"the target is in memory ({s.fstype}), as target.type says: nothing reaches a device")
    memory = s.fstype if in_memory else next((moved.memory for moved in s.run.moved.values() if moved.memory), "")
    if memory:
        return failed(f"the target is in memory ({memory}): nothing reaches a device")
    if s.phase.kind == "metadata":
        return NOT_APPLICABLE
    if s.run.exit_code:
        return unchecked("the run failed")
    limit = DIRECT if s.point.options.get("o_direct") else BUFFERED
    shares: list[tuple[float, str, str]] = []  # (share that a counter saw, sentence, doubt)
    for host, parsed, moved in work_by_node(s):
        read, written = (parsed.figures.get(f"bytes_{verb}", 0.0) for verb in ("read", "written"))
        if not (read or written):
            continue
        expected = _expected_bytes(s, host, written)
        counters, prefix = list(_traffic_counters(s, moved)), f"{host}: " if host else ""
        count = len(shares)
        for place, seen_read, seen_written, doubt in counters:
            if read and seen_read is not None:
                share = seen_read / read
                shares.append((share, f"{prefix}{_percent(share)} of {_size(read)} read came from {place}", doubt))
            if expected and seen_written is not None:
                share, amount = seen_written / expected, f"{_size(written)} written"
                if expected < written:
                    amount = f"at least {_size(expected)} without overwrites ({amount})"
                shares.append((share, f"{prefix}{_percent(share)} of {amount} reached {place}", doubt))
        if len(shares) == count:
            return unchecked(_explain_no_counter(s, host, moved, bool(read or expected)))
    if not shares:
        return NO_OUTPUT
    share, sentence, doubt = min(shares, key=lambda entry: entry[0])
    if share >= limit:
        return passed(sentence)
    trusted = [(share, sentence) for share, sentence, doubt in shares if not doubt]
    if trusted and min(trusted)[0] < limit:
        return failed(min(trusted)[1])
    return unchecked(f"{sentence}, and {doubt}")


def work_by_node(s: Observation) -> list[tuple[str, Parsed, list[Moved]]]:
    """(node, the tool's output for it, its counters) for each node if the tool reports nodes separately; else a single
    entry for all nodes, with an empty name."""
    counters = s.run.moved
    if nodes := s.parsed.evidence.each_node:
        return [(host, node, [counters[host]] if host in counters else []) for host, node in nodes.items()]
    return [("", s.parsed, [*counters.values()] if len(counters) >= s.point.nodes else [])]


def _expected_bytes(s: Observation, host: str, written: float) -> float:
    """Bytes of a node's writes that must have left memory: with O_DIRECT all; if the page cache was flushed at the end,
    those that no later write (at a random offset) replaced; else none."""
    if s.point.options.get("o_direct"):
        return written
    if not s.point.options.get("fsync") or s.parsed.evidence.not_flushed:
        return 0.0
    size = s.point.volume_bytes / (s.point.nodes if host else 1)
    return size * -math.expm1(-written / size)


def _traffic_counters(s: Observation, moved: Sequence[Moved]) -> Iterator[_TrafficCounter]:
    """Yield the counters that see, or may see, the target's traffic. The network also carries other traffic, so it is
    used only where the client has no counter."""
    kind = fs_types.lookup(s.fstype)
    if not moved:
        return
    if not kind.local:
        client = _read_and_written(moved, "client_read_bytes", "client_written_bytes")
        if client != (None, None) and trusts(s, "client"):
            yield _TrafficCounter(f"the servers, by {moved[0].client}", *client, "")
        elif (trusted := trusts(s, "network")) or _calibrated(s, "network") is None:
            doubt = "" if trusted else "it is not known whether that carries the target's data"
            network = _read_and_written(moved, "received_bytes", "sent_bytes")
            yield _TrafficCounter("the network, which other traffic uses, too", *network, doubt)
        return
    doubt = ""
    if kind.block and not all(node.device for node in moved):
        doubt = _UNKNOWN_DEVICE
    if kind.block and trusts(s, "tool"):
        tool_bytes = _read_and_written(moved, "tool_read_bytes", "tool_written_bytes")
        place = "block devices, by the kernel's counters of the tool's I/O"
        yield _TrafficCounter(place, *tool_bytes, doubt if _calibrated(s, "tool") is None else "")
    devices = ", ".join(dict.fromkeys(node.device for node in moved if node.device))
    if devices and trusts(s, "device"):
        device_bytes = _read_and_written(moved, "device_read_bytes", "device_written_bytes")
        place = f"the block device {devices}"
        yield _TrafficCounter(place, *device_bytes, doubt if _calibrated(s, "device") is None else "")


def _calibrated(s: Observation, counter: str) -> float | None:
    """The share of a data set that a counter saw while the set was written; None if unknown."""
    share: float | None = getattr(s.run.files.counted or Counted(), counter)
    return share


def trusts(s: Observation, counter: str) -> bool:
    """Whether a counter sees all traffic of the target, by its calibration (some multipath drivers do not count). If
    that is unknown, every counter is trusted except the network's."""
    share = _calibrated(s, counter)
    return counter != "network" if share is None else share >= TRUSTED


def _explain_no_counter(s: Observation, host: str, moved: Sequence[Moved], needed: bool) -> str:
    """Why no counter shows how many bytes were moved. needed: whether some bytes must have left memory."""
    if not moved:
        return f"what {host or 'a node'} moved was not counted"
    if not needed:
        return "writes were not flushed inside the timing, and may be in memory"
    names = {"tool": "the tool", "device": "the block device", "client": "the client", "network": "the network"}
    blind = [
        f"that of {name} saw {_percent(share)} of a data set that was written"
        for counter, name in names.items()
        if (share := _calibrated(s, counter)) is not None and share < TRUSTED
    ]
    return "; ".join([no_counter(s), *blind])


def no_counter(s: Observation) -> str:
    return f"no counter is known to see all I/O on {s.fstype or 'an unknown file system'}"


def total(moved: Sequence[Moved], name: str) -> int | None:
    """A counter, summed over nodes; None if a node lacks it."""
    counts: list[int | None] = [getattr(node, name) for node in moved]
    present = [count for count in counts if count is not None]
    return sum(present) if present and len(present) == len(counts) else None


def _read_and_written(moved: Sequence[Moved], read: str, written: str) -> tuple[int | None, int | None]:
    return total(moved, read), total(moved, written)


def _percent(share: float) -> str:
    """`97 %`, or `all` for 1 or more: counters also see other traffic."""
    return "all" if share >= 1 else f"{math.floor(100 * share):d} %"


def _size(size: float) -> str:
    return human_size(round(size))
