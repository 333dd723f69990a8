"""Bound and reserved CPUs, compared with the affinity masks that were read back while the tool ran.

A single reading proves a failure; a pass needs `LOOKS` readings on every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from iosweep.hostlist import hosts as named_hosts
from iosweep.judge.findings import NOT_APPLICABLE, SHOWN_NODES, Observation, failed, passed, unchecked
from iosweep.node.cpus import CpuSet, named, parse
from iosweep.node.pinning import NodesCpus
from iosweep.node.ranks import Processes
from iosweep.store.record import Finding
from iosweep.text import human_count
from iosweep.tools import tools

#: Number of readings of the masks of every rank and worker of a node that a pass needs in each phase.
LOOKS = 3
#: Maximum seconds without a reading, unless half of the phase is longer: those of a long phase are ten seconds apart.
_LONG_S = 30.0


def pinned(s: Observation) -> Finding:
    """Every rank and worker kept to the CPUs that it was bound to, by the affinity masks of its threads."""
    record = s.run.cpus
    if not record:
        return unchecked("CPU masks were not read")
    if record.planned is None:
        return unchecked(f"nothing was bound (pinning: {record.pinning})")
    wrong = [(n, text) for n in record.nodes for text in _find_unbound(n, record.planned)]
    return _conclude(s, wrong, "each could run only on the CPUs that it was bound to")


def reserved_cpus(s: Observation) -> Finding:
    """No thread of the tool or of iosweep was allowed on a CPU that the file system reserves."""
    record = s.run.cpus
    if not record:
        return unchecked("CPU masks were not read")
    nodes = record.nodes
    if unknown := [n for n in nodes if n.reserved is None]:
        return unchecked(f"{_hosts(unknown[0])}: it is unknown which CPUs {', '.join(unknown[0].by)} reserves")
    if not any(n.reserved for n in nodes):
        return NOT_APPLICABLE
    reserved = (f"{named(parse(n.reserved or ''))} ({', '.join(n.by)})" for n in nodes[:SHOWN_NODES])
    wrong = []
    for node in nodes:
        reserved_here = parse(node.reserved or "")
        if violations := [(process, cpus) for process in node.processes if (cpus := _allowed(process) & reserved_here)]:
            *most, last = [_count_and_role(process) for process, _ in violations]
            culprits = f"{', '.join(most)} and {last}" if most else last
            cpus = frozenset().union(*(cpus for _, cpus in violations))
            verb = "is" if len(cpus) == 1 else "are"
            wrong.append((node, f"{culprits} could run on {named(cpus)}, which {verb} reserved ({', '.join(node.by)})"))
    return _conclude(s, wrong, f"none was allowed on {', '.join(dict.fromkeys(reserved))}")


def reserved_agree(s: Observation) -> Finding:
    """All sources of reserved CPUs (WEKA, mounts, cgroups, the configuration) agree."""
    record = s.run.cpus
    if not record:
        return unchecked("reserved CPUs were not looked for")
    if wrong := [(n, text) for n in record.nodes for text in n.problems]:
        return failed(_join_sentences(wrong))
    sources = list(dict.fromkeys(source for n in record.nodes for source in n.by))
    return passed(f"{' and '.join(sources)} agree") if len(sources) > 1 else NOT_APPLICABLE


def _conclude(s: Observation, wrong: Sequence[tuple[NodesCpus, str]], proof: str) -> Finding:
    """Fail if anything is wrong on a node; pass with `proof` if every process was read often enough."""
    nodes = s.run.cpus.nodes if s.run.cpus else ()
    if wrong:
        return failed(_join_sentences(wrong))
    if reason := _explain_unproven(s, nodes):
        return unchecked(reason)
    counts: Counter[str] = Counter()
    for node in nodes:
        for process in node.processes:
            counts[process.role] += process.count * len(node.hosts) if process.masks else 0
    kinds = " and ".join(human_count(counts[kind], kind) for kind in ("rank", "worker", "helper") if counts[kind])
    hosts, looks = sum(len(n.hosts) for n in nodes), min(n.looks for n in nodes)
    return passed(f"{kinds} on {human_count(hosts, 'node')}, read {human_count(looks, 'time')} or more: {proof}")


def _join_sentences(wrong: Sequence[tuple[NodesCpus, str]]) -> str:
    return "; ".join(list(dict.fromkeys(f"{_hosts(node)}: {text}" for node, text in wrong))[:SHOWN_NODES])


def _find_unbound(node: NodesCpus, bound: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each kind of process of a node that could run on CPUs that it was not bound to.

    `bound`: mask -> planned number of ranks or workers with that mask.
    """
    usable = parse(node.usable)
    counts: Counter[tuple[str, str]] = Counter()  # role and mask -> ranks or workers
    for process in node.processes:
        if process.role in ("helper", "agent"):
            if (allowed := _allowed(process)) - usable:
                yield f"{_count_and_role(process)} could run on {named(allowed)}, but only {named(usable)} may be used"
        elif process.masks:
            mask = process.masks[0]
            counts[process.role, mask] += process.count
            if mask not in bound or _allowed(process) != parse(mask):
                masks = [named(parse(mask)) for mask in dict.fromkeys((*process.masks, *process.thread_masks))]
                yield f"{_count_and_role(process)} could run on {' and '.join(masks)}, contrary to its binding"
    for (role, mask), count in counts.items():
        if mask in bound and count > bound[mask]:
            yield f"{human_count(count, role)} could run on {named(parse(mask))}, where only {bound[mask]} should"


def _count_and_role(process: Processes) -> str:
    return "our agent" if process.role == "agent" else human_count(process.count, process.role)


def _allowed(process: Processes) -> CpuSet:
    return _union(*process.masks, *process.thread_masks)


@lru_cache(10_000)
def _union(*masks: str) -> CpuSet:
    return frozenset().union(*map(parse, masks))


def _explain_unproven(s: Observation, nodes: Sequence[NodesCpus]) -> str | None:
    """Why the readings prove nothing, or None if they prove a pass."""
    runtime_s = s.parsed.figures.get("runtime_s")
    for node in nodes:
        if node.seen < node.expected:
            return f"{_hosts(node)}: only {node.seen} of {node.expected} ranks or workers were seen at the same time"
        proven = sum(p.count for p in node.processes if p.role in ("rank", "worker") and p.masks)
        if proven < node.expected:
            return f"{_hosts(node)}: masks of only {proven} of {node.expected} ranks or workers were read"
        if node.looks < LOOKS:
            return (
                f"{_hosts(node)}: masks were read only {human_count(node.looks, 'time')}; {LOOKS} readings are needed"
            )
        if runtime_s is not None and node.gap_s > max(_LONG_S, runtime_s / 2):
            return f"{_hosts(node)}: no mask was read for {node.gap_s:g} s of {runtime_s:g} s"
        # several phases share a command: three readings must fall into this phase even with the longest pause between
        if tools()[s.point.tool].together and (runtime_s is None or runtime_s < LOOKS * node.gap_s):
            took = "its duration is unknown" if runtime_s is None else f"it took {runtime_s:.3g} s"
            apart = f"readings are up to {node.gap_s:g} s apart"
            return f"{_hosts(node)}: the phase is too short to read masks {LOOKS} times: {took}, {apart}"
    return None


def _hosts(node: NodesCpus) -> str:
    return named_hosts(node.hosts)
