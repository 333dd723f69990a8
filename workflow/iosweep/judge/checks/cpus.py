"""Planned and reserved CPUs, compared with the affinity masks that were read back while the tool ran.

One look proves that something is wrong; a pass needs `LOOKS` looks on every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from iosweep.hostlist import hosts as named_hosts
from iosweep.judge.findings import NOT_APPLICABLE, SHOWN_NODES, Observation, failed, passed, unchecked
from iosweep.node.cpus import CpuSet, listed, named, parse
from iosweep.node.pinning import NodesCpus
from iosweep.node.ranks import Processes
from iosweep.store.record import Finding
from iosweep.text import human_count
from iosweep.tools import tools

#: Readings of the masks of every rank and worker of a node that a pass needs in each phase.
LOOKS = 3
#: Looks at a long phase are ten seconds apart.
_LONG_S = 30.0


def pinned(s: Observation) -> Finding:
    """Every rank and worker ran on the CPUs planned for it, according to the affinity masks of its threads."""
    record = s.run.cpus
    if not record:
        return unchecked("masks were not looked at")
    if record.planned is None:
        return unchecked(f"nothing was bound (pinning: {record.pinning})")
    wrong = [(n, text) for n in record.nodes for text in _not_as_planned(n, record.planned)]
    return _proven(s, wrong, f"each on the CPUs planned for it: {_planned(record.planned)}")


def reserved_cpus(s: Observation) -> Finding:
    """No thread of the tool or of iosweep was allowed on a CPU that the file system reserves."""
    record = s.run.cpus
    if not record:
        return unchecked("masks were not looked at")
    nodes = record.nodes
    if unknown := [n for n in nodes if n.reserved is None]:
        return unchecked(f"{_hosts(unknown[0])}: unknown which CPUs {', '.join(unknown[0].by)} keeps")
    if not any(n.reserved for n in nodes):
        return NOT_APPLICABLE
    reserved = (f"{named(parse(n.reserved or ''))} ({', '.join(n.by)})" for n in nodes[:SHOWN_NODES])
    wrong = [(n, text) for n in nodes for text in _on_reserved(n)]
    return _proven(s, wrong, f"none of them allowed on {', '.join(dict.fromkeys(reserved))}")


def reserved_agree(s: Observation) -> Finding:
    """All sources of reserved CPUs (WEKA, mounts, cgroups, the configuration) agree."""
    record = s.run.cpus
    if not record:
        return unchecked("reserved CPUs were not looked for")
    if wrong := [(n, text) for n in record.nodes for text in n.problems]:
        return failed(_sentences(wrong))
    sources = list(dict.fromkeys(source for n in record.nodes for source in n.by))
    return passed(f"{' and '.join(sources)} agree") if len(sources) > 1 else NOT_APPLICABLE


def _proven(s: Observation, wrong: Sequence[tuple[NodesCpus, str]], proof: str) -> Finding:
    """Fail if anything is wrong on a node; pass with `proof` if every process was seen often enough."""
    nodes = s.run.cpus.nodes if s.run.cpus else ()
    if wrong:
        return failed(_sentences(wrong))
    if little := _too_little(s, nodes):
        return unchecked(little)
    return passed(f"{_looked(nodes)}, {proof}")


def _sentences(wrong: Sequence[tuple[NodesCpus, str]]) -> str:
    return "; ".join(list(dict.fromkeys(f"{_hosts(node)}: {text}" for node, text in wrong))[:SHOWN_NODES])


def _not_as_planned(node: NodesCpus, planned: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each kind of process of a node that was allowed on other CPUs than planned."""
    settled = [p for p in node.processes if p.role in ("rank", "worker") and p.masks]
    for process in settled:
        mask, right = process.masks[0], len(process.masks) == 1
        if right and mask in planned and process.thread_masks == process.masks:
            continue
        many = human_count(process.count, process.role)
        if not right:
            yield f"{many} changed CPUs on the way: {' then '.join(process.masks)}"
        elif mask not in planned:
            why = _why(parse(mask), {parse(cpus) for cpus in planned})
            yield f"{many} could run on {named(parse(mask))}, {_planned(planned)} was planned{why}"
        elif beyond := [t for t in process.thread_masks if parse(t) - parse(mask)]:
            yield f"threads of {many} on {named(parse(mask))} could run on {named(parse(beyond[0]))}"
    bound: Counter[tuple[str, str]] = Counter()  # role and first mask -> ranks or workers
    for process in settled:
        bound[process.role, process.masks[0]] += process.count
    for (kind, mask), count in bound.items():
        if mask in planned and count > planned[mask]:
            many, were = human_count(count, kind), human_count(planned[mask], kind)
            yield f"{many} could run on {named(parse(mask))}, {were} {'was' if planned[mask] == 1 else 'were'} planned"
    usable = parse(node.usable)
    for process in node.processes:
        allowed = _allowed(process)
        if process.role in ("helper", "agent") and allowed - usable:
            yield f"{_many(process)} could run on {named(allowed)}, usable are {named(usable)}"


def _why(mask: CpuSet, planned: set[CpuSet]) -> str:
    if any(mask > cpus for cpus in planned):
        return ": it was not bound, or its mask was widened"
    if any(mask < cpus for cpus in planned):
        return ": its mask was narrowed (by a cpuset?)"
    return ": something else has bound it"


def _on_reserved(node: NodesCpus) -> Iterator[str]:
    """A sentence on the processes of a node that were allowed on reserved CPUs."""
    reserved = parse(node.reserved or "")
    hits = [(process, cpus) for process in node.processes if (cpus := _allowed(process) & reserved)]
    if hits:
        *most, last = [_many(process) for process, _ in hits]
        who = f"{', '.join(most)} and {last}" if most else last
        cpus = frozenset().union(*(cpus for _, cpus in hits))
        are = "it is" if len(cpus) == 1 else "they are"
        yield f"{who} could run on {named(cpus)}; {are} reserved ({', '.join(node.by)})"


def _many(process: Processes) -> str:
    return "our agent" if process.role == "agent" else human_count(process.count, process.role)


def _allowed(process: Processes) -> CpuSet:
    return _union(*process.masks, *process.thread_masks)


@lru_cache(10_000)
def _union(*masks: str) -> CpuSet:
    return frozenset().union(*map(parse, masks))


def _too_little(s: Observation, nodes: Sequence[NodesCpus]) -> str | None:
    """Why the looks prove nothing, or None if they do."""
    runtime_s = s.parsed.figures.get("runtime_s")
    for node in nodes:
        if node.seen < node.expected:
            return f"{_hosts(node)}: {node.seen} of {node.expected} ranks or workers were seen at once"
        proven = sum(p.count for p in node.processes if p.role in ("rank", "worker") and p.masks)
        if proven < node.expected:
            return f"{_hosts(node)}: masks of {proven} of {node.expected} ranks or workers were read"
        if node.looks < LOOKS:
            return f"{_hosts(node)}: looked at {human_count(node.looks, 'time')} only; {LOOKS} looks are needed"
        if runtime_s is not None and node.gap_s > max(_LONG_S, runtime_s / 2):
            return f"{_hosts(node)}: no look for {node.gap_s:g} s of {runtime_s:g} s"
        # several phases in one command: three looks must fall into this phase even with the longest pause between looks
        if tools()[s.point.tool].together and (runtime_s is None or runtime_s < LOOKS * node.gap_s):
            took = "its duration is unknown" if runtime_s is None else f"it took {runtime_s:.3g} s"
            apart = f"looks are up to {node.gap_s:g} s apart"
            return f"{_hosts(node)}: the phase is too short to be looked at {LOOKS} times: {took}, {apart}"
    return None


def _looked(nodes: Sequence[NodesCpus]) -> str:
    """The ranks and workers that were looked at, on how many nodes, and how often."""
    counts: Counter[str] = Counter()
    for node in nodes:
        for process in node.processes:
            counts[process.role] += process.count * len(node.hosts) if process.masks else 0
    kinds = [human_count(counts[kind], kind) for kind in ("rank", "worker", "helper") if counts[kind]]
    looks, hosts = min(n.looks for n in nodes), sum(len(n.hosts) for n in nodes)
    return f"{' and '.join(kinds)} on {human_count(hosts, 'node')} looked at {human_count(looks, 'time')} or more"


def _planned(planned: Mapping[str, int]) -> str:
    """The planned CPUs: `CPUs 0-3` where all share them, else one CPU or one core for each."""
    if len(planned) == 1:
        return named(parse(next(iter(planned))))
    every = frozenset().union(*map(parse, planned))
    one_each = all(len(parse(cpus)) == 1 for cpus in planned)
    return f"one of CPUs {listed(every)}" if one_each else f"a core of CPUs {listed(every)}"


def _hosts(node: NodesCpus) -> str:
    return named_hosts(node.hosts)
