"""Whether reads came from the storage, or from the memory of clients or servers."""

from __future__ import annotations

from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, SHOWN_NODES, Seen, failed, passed, unchecked
from iosweep.node import fs_types
from iosweep.store.record import Finding
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
        what = f"of {human_size(touched[host])} on {host} with {_memory(known[host])}{_again(s)}"
        if s.phase.random and all(size >= 2 * known[h] for _, h in small):
            return unchecked(_random(f"reads without O_DIRECT {what}", size))
        return failed(f"reads without O_DIRECT {what}")
    if len(known) < s.point.nodes:
        unknown = ", ".join(sorted(set(touched) - set(known))[:SHOWN_NODES])
        return unchecked(accepted if direct else f"the memory of {unknown or 'the nodes'} is not known")
    ratio, host = min((touched[h] / memory, h) for h, memory in known.items())
    least = f"{human_size(touched[host])} were read on {host} with {_memory(known[host])}{_again(s)}"
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


def _memory(size: int) -> str:
    return f"{human_size(size)} of memory"
