"""Whether reads came from the storage, or from the memory of clients or servers."""

from __future__ import annotations

from iosweep.node import fs_types
from iosweep.results.checks.finding import NOT_APPLICABLE, SHOWN_NODES, Finding, Seen, failed, passed, unchecked
from iosweep.units import human_size

_OWN = unchecked("nodes read what they had written themselves, past their caches (O_DIRECT)")


def client_cache(s: Seen) -> Finding:
    """The client's cache took no part: O_DIRECT on a file system that is known to honor it, or each node reads at least
    twice its memory.
    """
    direct, doubt = bool(s.point.options.get("o_direct")), fs_types.direct(s.fstype, s.mount)
    if s.phase.kind == "metadata" or not (direct or s.phase.reads):
        return NOT_APPLICABLE  # whether writes reach the storage is `durable`
    if direct:
        if s.run.exit_code:
            return unchecked("the run failed")
        if doubt is None:
            return passed("O_DIRECT was asked for and the file system accepted it")
    accepted = f"O_DIRECT was accepted, and is no proof on {s.fstype or 'an unknown file system'}: {doubt}"
    if not s.phase.reads:
        return unchecked(accepted)
    share = (s.run.files.set_bytes or s.point.volume_bytes) // s.point.nodes
    known = {host: size for host, size in s.memory_bytes.items() if size}
    small = {host: size for host, size in known.items() if share < 2 * size}
    if small and direct:
        return unchecked(accepted)
    if small:
        host = max(small, key=small.__getitem__)
        where = "a node" if s.point.nodes == 1 else host
        return failed(f"reads without O_DIRECT of {human_size(share)} on {where} with {_memory(small[host])}")
    if len(known) < s.point.nodes:
        unknown = ", ".join(sorted(set(s.memory_bytes) - set(known))[:SHOWN_NODES]) or "the nodes"
        whose = "the node's memory" if s.point.nodes == 1 else f"the memory of {unknown}"
        return unchecked(accepted if direct else f"{whose} is not known")
    most = _memory(max(known.values()))
    if s.point.nodes == 1:
        return passed(f"{human_size(share)} is more than twice the node's {most}")
    return passed(f"each node reads {human_size(share)}, twice its memory or more ({most} at most)")


def server_cache(s: Seen) -> Finding:
    """Reads are not served from the servers' memory: the files are at least twice target.server_cache."""
    if s.phase.kind == "metadata" or not s.phase.reads:
        return NOT_APPLICABLE
    cache = s.target.server_cache
    if cache is None:
        return unchecked("target.server_cache is not given")
    size = s.run.files.set_bytes
    if cache and size < 2 * cache:
        return failed(f"{human_size(size)} of files is less than twice the servers' memory ({human_size(cache)})")
    return passed(f"{human_size(size)} of files against {human_size(cache)} of server memory")


def other_reader(s: Seen) -> Finding:
    """The readers are other nodes than the writers."""
    shifts = s.parsed.evidence.shifts
    if not s.phase.reads or s.phase.writes or (s.phase.kind == "metadata" and not shifts):
        return NOT_APPLICABLE
    if s.point.nodes == 1:
        return unchecked("one node reads what it wrote itself")
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
