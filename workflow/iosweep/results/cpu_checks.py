"""The checks on CPUs: what was planned and what is reserved, against the masks that were read back while a tool ran.

Pure. What was seen once is proof that something is wrong; that nothing is takes `LOOKS` looks on every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from iosweep.node.cpus import CpuSet, listed, named, parse
from iosweep.results.checks import NOT_APPLICABLE, Finding, Seen, check, failed, passed, unchecked
from iosweep.tools import tools
from iosweep.units import human_count

#: So often, at least, must every rank and worker of a node be looked at in each phase.
LOOKS = 3
#: Looks at a long phase are ten seconds apart.
_LONG_S = 30.0
#: Nodes that are named.
_SHOWN = 4

Node = Mapping[str, Any]


@check("invalid", "Every rank and worker ran on the CPUs that were planned for it, as its threads' masks say.")
def pinned(s: Seen) -> Finding:
    record = s.run.get("cpus")
    if not record:
        return unchecked("masks were not looked at")
    if record["planned"] is None:
        return unchecked(f"nothing was bound (pinning: {record['pinning']})")
    if wrong := _told((_hosts(n), said) for n in record["nodes"] for said in _not_as_planned(n, record["planned"])):
        return failed(wrong)
    if little := _too_little(s, record["nodes"]):
        return unchecked(little)
    return passed(f"{_looked(record['nodes'])}, each on the CPUs planned for it: {_planned(record['planned'])}")


@check("invalid", "No thread of the tool, or of ours, might use a CPU that the file system keeps for itself.")
def reserved_cpus(s: Seen) -> Finding:
    record = s.run.get("cpus")
    if not record:
        return unchecked("masks were not looked at")
    nodes = record["nodes"]
    if unknown := [n for n in nodes if n["reserved"] is None]:
        return unchecked(f"{_hosts(unknown[0])}: it is not known which CPUs {', '.join(unknown[0]['by'])} keeps")
    if not any(n["reserved"] for n in nodes):
        return NOT_APPLICABLE
    if wrong := _told((_hosts(n), said) for n in nodes for said in _on_reserved(n)):
        return failed(wrong)
    if little := _too_little(s, nodes):
        return unchecked(little)
    kept = ", ".join(dict.fromkeys(f"{named(parse(n['reserved']))} ({', '.join(n['by'])})" for n in nodes[:_SHOWN]))
    return passed(f"{_looked(nodes)}, none of them allowed on {kept}")


@check("suspect", "All that says which CPUs are reserved (WEKA, mounts, cgroups, the configuration) says the same.")
def reserved_agree(s: Seen) -> Finding:
    record = s.run.get("cpus")
    if not record:
        return unchecked("reserved CPUs were not looked for")
    if wrong := _told((_hosts(n), said) for n in record["nodes"] for said in n["problems"]):
        return failed(wrong)
    sources = list(dict.fromkeys(source for n in record["nodes"] for source in n["by"]))
    return passed(f"as {' and '.join(sources)} have it") if len(sources) > 1 else NOT_APPLICABLE


def _not_as_planned(node: Node, planned: Mapping[str, int]) -> Iterator[str]:
    """What is wrong with the ranks or workers of a node."""
    at_all = [p for p in node["processes"] if p["role"] in ("rank", "worker") and p["masks"]]
    for process in at_all:
        mask, right = process["masks"][0], len(process["masks"]) == 1
        if right and mask in planned and process["thread_masks"] == process["masks"]:
            continue
        many = human_count(process["count"], process["role"])
        if not right:
            yield f"{many} changed CPUs on the way: {' then '.join(process['masks'])}"
        elif mask not in planned:
            why = _why(parse(mask), {parse(cpus) for cpus in planned})
            yield f"{many} could run on {named(parse(mask))}, {_planned(planned)} was planned{why}"
        elif beyond := [t for t in process["thread_masks"] if parse(t) - parse(mask)]:
            yield f"threads of {many} on {named(parse(mask))} could run on {named(parse(beyond[0]))}"
    for (kind, mask), count in _bound(at_all).items():
        if mask in planned and count > planned[mask]:
            many, were = human_count(count, kind), human_count(planned[mask], kind)
            yield f"{many} could run on {named(parse(mask))}, {were} {'was' if planned[mask] == 1 else 'were'} planned"
    usable = parse(node["usable"])
    for process in node["processes"]:
        allowed = _allowed(process)
        if process["role"] in ("helper", "agent") and allowed - usable:
            yield f"{_many(process)} could run on {named(allowed)}, usable are {named(usable)}"


def _bound(processes: list[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    """How many ranks or workers had a mask: (role, the mask that they began with) -> count."""
    found: Counter[tuple[str, str]] = Counter()
    for process in processes:
        found[process["role"], process["masks"][0]] += process["count"]
    return found


def _why(mask: CpuSet, planned: set[CpuSet]) -> str:
    if any(mask > one for one in planned):
        return ": it was not bound, or its mask was widened"
    if any(mask < one for one in planned):
        return ": its mask was narrowed (by a cpuset?)"
    return ": something else has bound it"


def _on_reserved(node: Node) -> Iterator[str]:
    """What might use reserved CPUs of a node, in one sentence."""
    kept = parse(node["reserved"] or "")
    hits = {k: hit for k, p in enumerate(node["processes"]) if (hit := _allowed(p) & kept)}
    if hits:
        who = [_many(node["processes"][k]) for k in hits]
        cpus = frozenset().union(*hits.values())
        ran = any(parse(node["processes"][k]["ran_on"]) & kept for k in hits)
        told = ", ".join(who[:-1]) + " and " * bool(who[1:]) + who[-1]
        is_ = "it is" if len(cpus) == 1 else "they are"
        could = f"could run on {named(cpus)}{', and did' if ran else ''}"
        yield f"{told} {could}; {is_} reserved ({', '.join(node['by'])})"


def _many(process: Mapping[str, Any]) -> str:
    return "our agent" if process["role"] == "agent" else human_count(process["count"], process["role"])


def _allowed(process: Mapping[str, Any]) -> CpuSet:
    # what comes and goes and never settles counts as it was; ranks are still being bound then
    passing = not process["masks"] and process["role"] != "rank" and process["count"] >= LOOKS
    return _union(*process["masks"], *process["thread_masks"], process["early"] if passing else "")


@lru_cache(10_000)
def _union(*masks: str) -> CpuSet:
    return frozenset().union(*map(parse, masks))


def _too_little(s: Seen, nodes: list[Node]) -> str | None:
    """Why the looks prove nothing, or None."""
    runtime_s = s.parsed.figures.get("runtime_s")
    for node in nodes:
        if node["seen"] < node["expected"]:
            return f"{_hosts(node)}: {node['seen']} of {node['expected']} ranks or workers were seen at once"
        proven = sum(p["count"] for p in node["processes"] if p["role"] in ("rank", "worker") and p["masks"])
        if proven < node["expected"]:
            return f"{_hosts(node)}: masks of {proven} of {node['expected']} ranks or workers were read"
        if node["looks"] < LOOKS:
            return f"{_hosts(node)}: looked at {human_count(node['looks'], 'time')} only; {LOOKS} looks are needed"
        if runtime_s is not None and node["gap_s"] > max(_LONG_S, runtime_s / 2):
            return f"{_hosts(node)}: nobody looked for {node['gap_s']:g} s of {runtime_s:g} s"
        # of several phases in one command: no pause between looks is so long that three would not fall into this one
        if tools()[s.point.tool].together and (runtime_s is None or runtime_s < LOOKS * node["gap_s"]):
            took = "nobody knows how long it took" if runtime_s is None else f"it took {runtime_s:.3g} s"
            apart = f"looks are up to {node['gap_s']:g} s apart"
            return f"{_hosts(node)}: the phase is too short to be looked at {LOOKS} times: {took}, {apart}"
    return None


def _looked(nodes: list[Node]) -> str:
    found: Counter[str] = Counter()
    for node in nodes:
        for process in node["processes"]:
            found[process["role"]] += process["count"] * len(node["hosts"]) if process["masks"] else 0
    kinds = [human_count(found[kind], kind) for kind in ("rank", "worker", "helper") if found[kind]]
    looks, hosts = min(n["looks"] for n in nodes), sum(len(n["hosts"]) for n in nodes)
    return f"{' and '.join(kinds)} on {human_count(hosts, 'node')} looked at {human_count(looks, 'time')} or more"


def _planned(planned: Mapping[str, int]) -> str:
    """`CPUs 0-3`, one for each, or what all share."""
    if len(planned) == 1:
        return named(parse(next(iter(planned))))
    every = frozenset().union(*map(parse, planned))
    one_each = all(len(parse(cpus)) == 1 for cpus in planned)
    return f"one of CPUs {listed(every)}" if one_each else f"a core of CPUs {listed(every)}"


def _hosts(node: Node) -> str:
    hosts = node["hosts"]
    return ", ".join(hosts[:_SHOWN]) + (f" and {len(hosts) - _SHOWN} more nodes" if len(hosts) > _SHOWN else "")


def _told(found: Iterator[tuple[str, str]]) -> str:
    return "; ".join(list(dict.fromkeys(f"{hosts}: {said}" for hosts, said in found))[:_SHOWN])
