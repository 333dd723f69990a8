"""Judges what the nodes answer (node_probe.py). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from iosweep.commands.doctor.node_probe import Facts, Target
from iosweep.findings import Line, ok, unchecked, warning, wrong
from iosweep.hostlist import hosts
from iosweep.node.cpus import NO_CPUS, named, parse
from iosweep.node.node_facts import NodeFacts
from iosweep.node.reserved import Reserved, overlap
from iosweep.text import some
from iosweep.units import human_duration, human_size

#: Limits in seconds: of a clock against the controller's, which ends jobs; of nodes' clocks against each other, which
#: time fio.
OFF_S, APART_S = 5.0, 0.1
#: Warn below these: each of many workers opens a file of its own.
LEAST_FILES, LEAST_PROCESSES, LEAST_TMP_BYTES = 1024, 1024, 100 << 20


@dataclass(frozen=True)
class Clock:
    """The offset of a node's clock from ours, and the error of that, in seconds."""

    offset_s: float
    error_s: float


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
    uid: int = 0
    version: str = ""
    pinned: bool = False
    strict: bool = False
    reserved: str | None = None


@dataclass(frozen=True)
class Answers:
    """The answers. `found`: (place, node) of files that nodes wrote and that appeared here in time."""

    facts: Sequence[Facts]
    clocks: Mapping[str, Clock]
    found: frozenset[tuple[str, str]]
    took_s: float
    messages: Sequence[str] = ()  # messages of srun and Slurm


def clock(exchanges: Sequence[tuple[float, float, float]]) -> Clock:
    """From exchanges (sent, the node's clock, received): the shortest is the most exact."""
    sent, there, received = min(exchanges, key=lambda e: e[2] - e[0])
    return Clock(there - (sent + received) / 2, (received - sent) / 2)


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
    lines += [_tools(a, by_node), _users(a, by_node), _limits(by_node), _room(by_node)]
    lines += [_clocks(answers.clocks), _processes(by_node)]
    return lines


def _came(a: Asked, answers: Answers, by_node: Mapping[str, Facts]) -> Line:
    names = hosts(by_node)
    if len(answers.facts) < a.nodes:
        seen = f"{len(answers.facts)} of {a.nodes} answered ({names})" + "".join(f"; {s}" for s in answers.messages[:2])
        return wrong("nodes", seen, "see what is wrong with the others before a campaign runs on them")
    called = Counter(f["host"] for f in by_node.values())
    if twice := [host for host, nodes in called.items() if nodes > 1]:
        return wrong("nodes", f"several nodes call themselves {hosts(twice)}", "give each a hostname of its own")
    return ok("nodes", f"{names} answered within {human_duration(max(1, answers.took_s))}")


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


def _users(a: Asked, by_node: Mapping[str, Facts]) -> Line:
    if bad := {n: f"user id {f['uid']}" for n, f in by_node.items() if f["uid"] != a.uid}:
        change = "files would belong to another; ask the people who run the cluster"
        return wrong("user", f"you are user id {a.uid} here; {_each(bad)}", change)
    return ok("user", f"user id {a.uid} here and on {_all(by_node)}")


def _limits(by_node: Mapping[str, Facts]) -> Line:
    bad = {}
    for n, f in by_node.items():
        limits, low = f["limits"], []
        if f["infiniband"] and (locked := limits["memlock"]) is not None:
            low.append(f"memlock {human_size(locked)}, which RDMA uses up")
        for name, least in (("nofile", LEAST_FILES), ("nproc", LEAST_PROCESSES)):
            if (limit := limits[name]) is not None and limit < least:
                low.append(f"{name} {limit:,}")
        if low:
            bad[n] = ", ".join(low)
    if bad:
        change = "raise it here with ulimit, which Slurm passes on (PropagateResourceLimits), or have it raised there"
        return warning("limits", _each(bad), change)
    shown = {}
    for name in ("memlock", "nofile", "nproc"):
        lowest = min((limit for f in by_node.values() if (limit := f["limits"][name]) is not None), default=None)
        shown[name] = "unlimited" if lowest is None else human_size(lowest) if name == "memlock" else f"{lowest:,}"
    return ok("limits", ", ".join(f"{name} {value}" for name, value in shown.items()))


def _room(by_node: Mapping[str, Facts]) -> Line:
    bad = {}
    for n, f in by_node.items():
        if not f["tmp"]["writable"]:
            bad[n] = "it cannot be written to"
        elif f["tmp"]["free"] < LEAST_TMP_BYTES:
            bad[n] = f"{human_size(f['tmp']['free'])} are left"
    if bad:
        return warning("memory, /tmp", _each(bad), "tools and MPI keep small files there; make room")
    sizes = [f["memory"]["total"] for f in by_node.values()]
    free = min(f["memory"]["available"] for f in by_node.values())
    seen = f"{human_size(min(sizes))} of memory, {human_size(free)} free at least"
    if max(sizes) > 1.1 * min(sizes):
        seen += f" (up to {max(sizes) / 2**30:.1f} GiB: nodes are not alike)"
    return ok("memory, /tmp", f"{seen}; {human_size(min(f['tmp']['free'] for f in by_node.values()))} free in /tmp")


def _clocks(clocks: Mapping[str, Clock]) -> Line:
    if not clocks:
        return unchecked("clocks", "no node reported its time")
    off = {n: c for n, c in clocks.items() if abs(c.offset_s) - c.error_s > OFF_S}
    if off:
        seen = _each({n: f"{c.offset_s:+,.1f} s from here" for n, c in off.items()})
        return warning("clocks", seen, "have them set (chrony): the end of a job is in the controller's time")
    first, last = (f(clocks.values(), key=lambda c: c.offset_s) for f in (min, max))
    if last.offset_s - first.offset_s - first.error_s - last.error_s > APART_S:
        seen = f"nodes are {last.offset_s - first.offset_s:.3f} s apart"
        return warning("clocks", seen, "have them set (chrony): fio is timed by the clock of each node")
    worst = max(abs(c.offset_s) + c.error_s for c in clocks.values())
    return ok("clocks", f"{'' if len(clocks) == 1 else 'all '}within {worst * 1000:,.1f} ms of the one here")


def _processes(by_node: Mapping[str, Facts]) -> Line:
    if bad := {n: some(f["processes"]) for n, f in by_node.items() if f["processes"]}:
        change = "does a campaign of yours run (`squeue --me`)? If not, end these processes"
        return warning("leftovers", _each(bad), change)
    return ok("leftovers", "no process of a campaign of yours on them")


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
