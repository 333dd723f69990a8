"""Judges what the nodes answer (node_probe.py). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from iosweep.commands.doctor.node_probe import Facts, Target
from iosweep.findings import Line, ok, unchecked, warning, wrong
from iosweep.hostlist import hosts
from iosweep.node.cpus import NO_CPUS, named, parse
from iosweep.node.node_facts import NodeFacts
from iosweep.node.reserved import Reserved, overlap


@dataclass(frozen=True)
class Asked:
    """The questions to the nodes. `places`: directories in which something was to be found. `lock`: a file that was
    locked meanwhile. `pinned`: ranks are to keep off reserved CPUs; `strict`: and jobs too; `reserved`: the key
    `cpus.reserved`."""

    nodes: int
    places: Sequence[str]
    target: str | None = None
    lock: str | None = None
    programs: Mapping[str, str] = field(default_factory=dict)  # that the configuration needs -> how to get it
    search: str | None = None  # where Spack has built them; None: on PATH, "": nowhere yet
    version: str = ""
    pinned: bool = False
    strict: bool = False
    reserved: str | None = None


@dataclass(frozen=True)
class Answers:
    """The answers. `found`: (place, node) of files that nodes wrote and that appeared here in time. `messages`: of srun
    and Slurm."""

    facts: Sequence[Facts]
    found: frozenset[tuple[str, str]]
    messages: Sequence[str] = ()


def judge(a: Asked, answers: Answers) -> list[Line]:
    if not answers.facts:
        why = "; ".join(answers.messages[:3]) or "no node answered"
        change = "jobs would fail alike; the virtual environment and the working directory must be shared"
        return [wrong("nodes", why, change)]
    by_node = {facts["node"]: facts for facts in answers.facts}
    lines = [_came(a, answers, by_node), *_shared(a, answers, by_node), _package(a, by_node)]
    if a.target:
        lines.append(target({n: f["target"] for n, f in by_node.items() if f["target"]}))
    lines += [_cpus(a, by_node)] if a.pinned else []
    return [*lines, _tools(a, by_node)]


def _came(a: Asked, answers: Answers, by_node: Mapping[str, Facts]) -> Line:
    names = hosts(by_node)
    if len(answers.facts) < a.nodes:
        seen = f"{len(answers.facts)} of {a.nodes} answered ({names})" + "".join(f"; {s}" for s in answers.messages[:2])
        return wrong("nodes", seen, "see what is wrong with the others before a campaign runs on them")
    return ok("nodes", f"{names} answered")


def _shared(a: Asked, answers: Answers, by_node: Mapping[str, Facts]) -> list[Line]:
    lines = []
    for number, place in enumerate(a.places):
        what = "results" if number else "directory"
        errors = {n: f["places"][number]["error"] for n, f in by_node.items()}
        unlike = {
            n: e or "what was written here is not there"
            for n, e in errors.items()
            if e or not by_node[n]["places"][number]["same"]
        }
        unseen = {
            n: "what it wrote is not seen here" for n in by_node if (place, n) not in answers.found and n not in unlike
        }
        if bad := unlike | unseen:
            seen = f"{place} is not shared: {_each(bad)}"
            lines.append(wrong(what, seen, "work in a directory that all nodes share (not the file system under test)"))
        else:
            lines.append(ok(what, f"{place} is the same on {_all(by_node)}"))
    return lines


def _package(a: Asked, by_node: Mapping[str, Facts]) -> Line:
    bad = {
        n: f["package"].get("error") or f"iosweep {f['package']['version']}"
        for n, f in by_node.items()
        if f["package"].get("version") != a.version
    }
    python = next(iter(by_node.values()))["python"]
    if bad:
        change = "the checkout and its .venv must be in a directory that all nodes share"
        return wrong("environment", f"{python} does not import iosweep {a.version}: {_each(bad)}", change)
    return ok("environment", f"{python} with iosweep {a.version} on {_all(by_node)}")


def target(found: Mapping[str, Target]) -> Line:
    """`found`: node -> what node_probe.target saw there."""
    if blind := [n for n, t in found.items() if t.get("blind")]:
        return unchecked("target", f"{hosts(blind)}: without the package it cannot be checked")
    if bad := {n: t["error"] for n, t in found.items() if "error" in t}:
        return wrong("target", _each(bad), _of_target([t for t in found.values() if "error" in t]))
    identities = {n: t["identity"] for n, t in found.items()}
    if len(set(identities.values())) > 1:
        change = "it must be one file system on all nodes; is it mounted everywhere?"
        return wrong("target", _each(identities), change)
    if bad := {n: "not writable by you" for n, t in found.items() if not t["writable"]}:
        return wrong("target", _each(bad), "name a directory that you may write to: target.directory")
    return ok("target", f"{next(iter(identities.values()))} on {_all(identities)}, writable")


def _of_target(bad: Sequence[Target]) -> str:
    """Remedies for targets that cannot be used."""
    changes = {
        "hangs": "find out why it does not answer (its servers, the network, the kernel's log); a job would end alike",
        "denied": "name a directory that you may write to: target.directory",
        "absent": "mount it where it is not there, or name another directory: target.directory",
        "failed": "see what is wrong with the file system there",
    }
    kinds = {facts["kind"] for facts in bad}
    return "; ".join(change for kind, change in changes.items() if kind in kinds)


def _cpus(a: Asked, by_node: Mapping[str, Facts]) -> Line:
    """Whether ranks can keep off reserved CPUs on the nodes, and whether the job that looked was given some."""
    found = {n: node for n, f in by_node.items() if (node := _facts(f))}
    if blind := [n for n in by_node if n not in found]:
        return unchecked("CPUs", f"{hosts(blind)}: reserved CPUs cannot be checked")
    kept = {n: Reserved.of_node(node) for n, node in found.items()}
    # it has a few CPUs of the node: a job with the whole node has at least those, and those that are not reserved
    may = {n: parse(node.cpus_allowed or "") | (node.topology.cpus - kept[n].found) for n, node in found.items()}
    overlaps = {n: one for n in found if (one := overlap(may[n], kept[n], strict=a.strict))}
    if bad := {n: one for n, one in overlaps.items() if one.fatal} or overlaps:
        first = next(iter(bad.values()))
        return (wrong if first.fatal else warning)("CPUs", _each({n: o.seen for n, o in bad.items()}), first.change)
    return ok("CPUs", _each({n: _usable(node, kept[n]) for n, node in found.items()}))


def _usable(node: NodeFacts, kept: Reserved) -> str:
    cpus, reserved = node.topology.cpus, kept.cpus or NO_CPUS
    of = f"; {named(reserved)} reserved" if reserved else ""
    return f"{len(cpus - reserved)} of {len(cpus)} usable{of}"


def _facts(facts: Facts) -> NodeFacts | None:
    """None without the package on the node, or with another version of it."""
    try:
        return msgspec.convert(facts["cpus"], NodeFacts)
    except msgspec.ValidationError:
        return None


def _tools(a: Asked, by_node: Mapping[str, Facts]) -> Line:
    if a.search == "":
        return unchecked("tools", "they are not built yet", "see the line Spack")
    if not a.programs:
        there = [n for n, p in next(iter(by_node.values()))["programs"].items() if p["path"]]
        return ok("tools", f"on PATH there: {', '.join(there) or 'none of fio, ior, mdtest'}")
    lacking = {
        n: f"no {', '.join(absent)}"
        for n, f in by_node.items()
        if (absent := [name for name in a.programs if not f["programs"][name]["path"]])
    }
    if lacking:
        absent = [name for name in a.programs if any(not f["programs"][name]["path"] for f in by_node.values())]
        if a.search:
            change = "have all nodes see tools.directory, or add what is lacking to specs in spack.yaml"
            return wrong("tools", f"{_each(lacking)} where Spack has built them ({a.search})", change)
        how = "; ".join(dict.fromkeys(a.programs[name] for name in absent))
        return wrong("tools", f"{_each(lacking)}; their points would be missing", f"get it with {how}")
    unlike = [name for name in a.programs if len({f["programs"][name]["sha256"] for f in by_node.values()}) > 1]
    if unlike:
        change = "install one build on all nodes; a campaign compares"
        return warning("tools", f"{', '.join(unlike)}: not the same binary on all nodes", change)
    of = " of Spack" if a.search else ""
    return ok("tools", f"{', '.join(a.programs)}{of} on {_all(by_node)}, the same binary")


def exclusion(configured: str | None, license: str | None, by_node: Sequence[Facts]) -> Line:
    """Whether two campaigns at once can be kept apart. `configured`: target.lock. `license`: one that only one campaign
    at a time can have."""
    if license:
        return ok("exclusion", f"a license keeps campaigns apart ({license})")
    change = "set target.lock to a directory that all nodes share, or a license in the profile"
    if not configured:
        return warning("exclusion", "two campaigns of two users can measure one file system at the same time", change)
    if not by_node:
        return unchecked("exclusion", f"whether nodes see a lock in target.lock {configured}")
    if any((f["target"] or {}).get("lock_name") == (f["lock_on"] or {}).get("lock_name", "") for f in by_node):
        seen = f"target.lock {configured} is on the file system under test"
        return wrong("exclusion", seen, "name a directory elsewhere that all nodes share: target.lock")
    held = {facts["node"]: facts["lock"] for facts in by_node}
    if all(held.values()):
        return ok("exclusion", f"a lock in target.lock is seen on {_all(held)}")
    absent = {n: "target.lock is not there" for n, seen in held.items() if seen is None}
    if absent:
        return wrong("exclusion", _each(absent), "name a directory that all nodes share, where locks work: target.lock")
    seen = _each({n: "does not see a lock that is held here" for n, locked in held.items() if not locked})
    return warning("exclusion", f"{seen}; only jobs of Slurm are kept apart", change)


def _each(of_nodes: Mapping[str, object]) -> str:
    """`n1, n2: no such file; n3: another one`"""
    grouped: dict[object, list[str]] = {}
    for node, what in of_nodes.items():
        grouped.setdefault(what, []).append(node)
    return "; ".join(f"{hosts(nodes)}: {what}" for what, nodes in grouped.items())


def _all(nodes: Mapping[str, object]) -> str:
    return {1: next(iter(nodes)), 2: "both nodes"}.get(len(nodes), f"all {len(nodes):,} nodes")
