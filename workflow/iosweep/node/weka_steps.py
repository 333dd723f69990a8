"""A node's CPUs, WEKA's part in them and Slurm's: the eight steps of WEKA's documentation as lines. Pure, but `look`.

Steps 5 and 8, which are Slurm's, are in slurm_cores.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from iosweep.findings import Line, inapplicable, ok, unchecked, warning, wrong
from iosweep.hostlist import hosts as named_hosts
from iosweep.node import cpu_probe, slurm_cores
from iosweep.node.cpu_probe import SERVICE
from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, named, parse
from iosweep.node.node_facts import CpuFinding
from iosweep.node.probe_record import Controller, Probe
from iosweep.node.probed_cpus import AGENT, CPUS, CPUSETS, NIC, POLLING, RESERVED, SIBLINGS, Node, are
from iosweep.node.reserved import Reserved
from iosweep.text import human_count, some

#: A core that WEKA polls is busier than this, and what is not busier than that is not one.
_POLLS, _RESTS = 0.95, 0.9


def look(
    topology: Topology,
    reserved: Reserved,
    allowed: CpuSet,
    root: Path = Path("/"),
    controller: Controller | None = None,
) -> list[CpuFinding]:
    """What is to be said of the node that we are on, quickly. `controller`: what Slurm says, None if not asked."""
    gathered = cpu_probe.gather(topology, reserved, allowed, root, controller)
    return [CpuFinding(line.check, line.outcome, line.seen, line.change) for line in judge(gathered)]


def of_nodes(lines: Mapping[str, Sequence[Line]]) -> list[Line]:
    """host -> lines as one list: what is the same on all nodes is said once, the rest with the names of the nodes."""
    hosts: dict[Line, list[str]] = {}
    for host, of_host in lines.items():
        for line in of_host:
            hosts.setdefault(line, []).append(host)
    order = list(dict.fromkeys(line.check for of_host in lines.values() for line in of_host))
    together = []
    for line in sorted(hosts, key=lambda line: order.index(line.check)):
        there = hosts[line]
        if len(there) < len(lines):
            line = Line(line.check, line.outcome, f"{named_hosts(there)}: {line.seen}", line.change)
        together.append(line)
    return together


def judge(facts: Probe) -> list[Line]:
    """What cpu_probe says of a node -> lines, in the documentation's order."""
    node = Node.of(facts)
    lines = [_agent(node), _cpus(node), _nic(node), *_reserved(node), *slurm_cores.kept(node)]
    lines += [_cpusets(node), _siblings(node), slurm_cores.numbering(node)]
    return lines if facts.busy is None else [*lines, _polling(node, facts.busy)]


def _agent(node: Node) -> Line:
    value = node.facts.isolate_cpusets
    if not node.weka:
        return inapplicable(AGENT, "no WEKA here")
    if node.nothing:
        return inapplicable(AGENT, node.nothing)
    if value is None:
        return unchecked(AGENT, f"{SERVICE} cannot be read here")
    if value in ("false", "no", "0", "off"):
        return ok(AGENT, f"{SERVICE}: isolate_cpusets = {value}")
    seen = f"isolate_cpusets = {value}" if value else "it does not say isolate_cpusets, and its default is true"
    change = f"write `isolate_cpusets = false` in {SERVICE}, and restart weka-agent"
    return wrong(AGENT, f"{SERVICE}: {seen}; the agent then resets cpusets, Slurm's among them", change)


def _cpus(node: Node) -> Line:
    cores, sockets, numa = node.topology.cores, node.topology.sockets, node.topology.numa
    if not cores:
        return unchecked(CPUS, "/sys does not say which CPUs are here")
    most = max(map(len, cores))
    shared = next((core for core in cores if len(core) > 1), NO_CPUS)
    threads = f"{most} threads a core (such as {listed(shared)})" if shared else "no hyper-threading"
    nodes = "; ".join(f"{number}: {listed(cpus)}" for number, cpus in sorted(numa.items()))
    parts = [human_count(len(node.topology.cpus), "CPU"), human_count(len(sockets), "socket"), threads]
    parts += [f"NUMA nodes {nodes}" if len(numa) > 1 else "one NUMA node"]
    return ok(CPUS, ", ".join(parts))


def _nic(node: Node) -> Line:
    if len(node.topology.numa) < 2:
        return inapplicable(NIC, "one NUMA node: no interface is nearer to some CPUs than to others")
    if not node.near:
        return unchecked(NIC, "no interface that is up says which CPUs are near it")
    of = "" if node.nic.numa_node is None else f" (NUMA node {node.nic.numa_node})"
    return ok(NIC, f"{node.nic.name} is near {named(node.near)}{of}")


def _reserved(node: Node) -> list[Line]:
    change = "see which is right; all of them are kept free" if node.reserved.configured is None else "correct it"
    problems = [warning(RESERVED, problem, change) for problem in node.reserved.problems]
    sources = "; ".join(f"{source.name}: {source.says}" for source in node.reserved.sources)
    if node.reserved.cpus is None:
        seen = f"some are, and it is not known which ({node.reserved.why})"
        return [*problems, unchecked(RESERVED, seen, "name them in the configuration: cpus.reserved")]
    if not node.keeps and node.reserved.configured is None and node.reserved.unasked:
        why = f"nothing here says that CPUs are reserved, but {node.reserved.unasked}"
        return [*problems, unchecked(RESERVED, why, "ask as root, or name them in the configuration: cpus.reserved")]
    if not node.keeps:
        none = ok(RESERVED, f"none ({sources})") if sources else inapplicable(RESERVED, "nothing reserves CPUs")
        return [*problems, none]
    seen, far = f"{named(node.keeps)} ({sources})", node.named - node.near
    if node.weka and 0 in node.keeps:
        return [*problems, wrong(RESERVED, f"{seen}: core 0 is the operating system's", _mount(node))]
    if node.facts.nets and node.near and len(node.topology.numa) > 1 and far:
        return [
            *problems,
            warning(RESERVED, f"{seen}: {named(far)} {are(far)} not near {node.nic.name}", _mount(node)),
        ]
    return [*problems, ok(RESERVED, seen)]


def _mount(node: Node) -> str:
    """The mount options that give WEKA as many cores at the end of the interface's NUMA node."""
    count = sum(bool(core & node.named) for core in node.topology.cores)
    firsts = [min(core) for core in node.topology.cores if 0 not in core and (core <= node.near or not node.near)]
    if not 0 < count <= len(firsts):
        return "mount it with other cores (never core 0)"
    cores = ",".join(f"core={cpu}" for cpu in sorted(firsts)[-count:])
    net = f",net={node.nic.name}" if node.facts.nets else ""
    return f"mount it with other cores, such as -o {cores}{net}"


def _cpusets(node: Node) -> Line:
    if node.nothing:
        return inapplicable(CPUSETS, node.nothing)
    if node.reserved.cpus is None:
        return unchecked(CPUSETS, "it is not known which CPUs are reserved")
    jobs = {group.path: parse(group.cpus) for group in node.facts.cgroups}
    if node.in_job:
        jobs = {"this job (Cpus_allowed_list)": node.allowed} | jobs
    bad = {where: cpus & node.keeps for where, cpus in jobs.items() if cpus & node.keeps}
    if bad:
        cpus = NO_CPUS.union(*bad.values())
        seen = "; ".join(f"{where} has {named(cpus)}" for where, cpus in list(bad.items())[:3])
        return node.bad(CPUSETS, cpus, f"{seen}, which {are(cpus)} reserved", node.remedy)
    if not jobs and node.facts.slurm is None:
        return inapplicable(CPUSETS, "no Slurm here")
    if not jobs:
        return unchecked(CPUSETS, "no job of Slurm's is here")
    return ok(CPUSETS, f"{some(list(jobs), 1)}: {named(next(iter(jobs.values())))}, nothing of {named(node.keeps)}")


def _siblings(node: Node) -> Line:
    if all(len(core) == 1 for core in node.topology.cores):
        return inapplicable(SIBLINGS, "no hyper-threading")
    if node.nothing:
        return inapplicable(SIBLINGS, node.nothing)
    if node.reserved.cpus is None:
        return unchecked(SIBLINGS, "it is not known which CPUs are reserved")
    also = node.keeps - node.named
    share = "shares a core" if len(also) == 1 else "share cores"
    seen = f"{named(also)} {share} with what is named, and {are(also)} reserved too" if also else "all are named"
    open_ = (
        also & node.allowed if node.in_job else also - node.spec.cpus if node.spec.given and node.spec.cpus else NO_CPUS
    )
    if open_:
        return node.bad(SIBLINGS, open_, f"{seen}: jobs may use {named(open_)}", node.remedy)
    return ok(SIBLINGS, seen)


def _polling(node: Node, shares: Mapping[str, float]) -> Line:
    busy = {int(cpu): share for cpu, share in shares.items()}
    polled = frozenset(cpu for cpu, share in busy.items() if share > _POLLS)
    if node.reserved.cpus is None:
        seen = f"{named(polled)} {are(polled)} near 100 % busy and may be the ones" if polled else "no CPU is busy"
        return unchecked(POLLING, seen, "name them in the configuration: cpus.reserved")
    if node.nothing:
        return inapplicable(POLLING, node.nothing)
    resting = [core for core in node.topology.cores
               if core & node.keeps and max((busy.get(cpu, 1.0) for cpu in core), default=1.0) < _RESTS]  # fmt: skip
    if resting:
        cpus = NO_CPUS.union(*resting)
        seen = f"{named(cpus)} {are(cpus)} reserved and less than {_RESTS * 100:.0f} % busy"
        seen += "; a core that WEKA polls is near 100 %"
        return warning(POLLING, seen, "is the mount in UDP mode, or has the client other cores now?")
    if node.in_job and (others := (polled - node.keeps) & node.allowed):
        seen = f"{named(others)} {are(others)} near 100 % busy, and not reserved"
        return warning(POLLING, seen, "does WEKA poll there? Name them in cpus.reserved; or does a job run?")
    return ok(POLLING, f"the cores of {named(node.keeps)} are near 100 % busy, as WEKA keeps them")
