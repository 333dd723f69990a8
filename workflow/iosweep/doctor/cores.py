"""A node's CPUs, WEKA's part in them and Slurm's: the eight steps of WEKA's documentation as lines. Pure, but `look`.

WEKA and the kernel number CPUs in one way (hwloc's P#), Slurm's CpuSpecList in another (L#): Topology translates.
slurmd takes the whole core of any CPU in that list (_validate_and_convert_cpu_list), so siblings come with it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from iosweep import slurm
from iosweep.cpus import NO_CPUS, CpuSet, Topology, listed, named, parse
from iosweep.doctor import cores_probe
from iosweep.doctor.cores_probe import SERVICE
from iosweep.doctor.lines import Line, inapplicable, ok, unchecked, warning, wrong
from iosweep.reserved import CONFIGURATION, Reserved
from iosweep.units import human_count

AGENT, CPUS, NIC, RESERVED, SLURM, CPUSETS, SIBLINGS, NUMBERING, POLLING = (
    "1 WEKA's agent", "2 CPUs", "3 network", "4 reserved CPUs", "5 Slurm", "6 cpusets", "7 siblings", "8 CpuSpecList",
    "polling",
)  # fmt: skip
#: A core that WEKA polls is busier than this, and what is not busier than that is not one.
_POLLS, _RESTS = 0.95, 0.9
_CONFINED = "TaskPlugin=task/affinity,task/cgroup in slurm.conf, ConstrainCores=yes in cgroup.conf"

Facts = Mapping[str, Any]


def look(topology: Topology, reserved: Reserved, allowed: CpuSet, root: Path = Path("/")) -> list[dict[str, str]]:
    """What is to be said of the node that we are on, quickly: {check, outcome, seen, change}.

    Slurm is asked in a job alone; without its configuration its commands may wait for a name server.
    """
    ask = slurm.ask if "SLURM_JOB_ID" in os.environ and root == Path("/") else None
    return [asdict(line) for line in judge(cores_probe.gather(topology, reserved, allowed, root, ask))]


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
            names = ", ".join(there[:6]) + (f" and {len(there) - 6} more" if there[6:] else "")
            line = Line(line.check, line.outcome, f"{names}: {line.seen}", line.change)
        together.append(line)
    return together


def judge(facts: Facts) -> list[Line]:
    """What cores_probe says of a node -> lines, in the documentation's order."""
    node = _Node.of(facts)
    lines = [_agent(node), _cpus(node), _nic(node), *_reserved(node), *_slurm(node)]
    lines += [_cpusets(node), _siblings(node), _numbering(node)]
    return [*lines, _polling(node)] if facts["busy"] is not None else lines


@dataclass(frozen=True)
class _Node:
    """keeps: the reserved CPUs, and what WEKA says beyond the configuration; named: of these, what is named and not
    only a sibling. counting: how Slurm numbers CPUs here; spec: what it keeps from jobs. weka: whether anything of WEKA
    is here. nic: the interface that counts, near: the CPUs near it."""

    facts: Facts
    topology: Topology
    reserved: Reserved
    keeps: CpuSet
    named: CpuSet
    allowed: CpuSet
    counting: Counting
    spec: Spec
    weka: bool
    nic: Facts
    near: CpuSet

    @staticmethod
    def of(facts: Facts) -> _Node:
        topology, found = Topology.of_facts(facts), Reserved.of_facts(facts)
        of_node = [source for source in found.sources if source.name != CONFIGURATION]
        up = [nic for nic in facts["nics"] if nic["up"] and nic["cpus"]]
        used = [nic for nic in up if nic["name"] in facts["nets"]]
        nic: Facts = next(iter(used or sorted(up, key=lambda nic: -(nic["mbit_per_s"] or 0))), {})
        return _Node(
            facts=facts,
            topology=topology,
            reserved=found,
            keeps=(found.cpus or NO_CPUS) | found.found,
            named=NO_CPUS.union(*(source.cpus or NO_CPUS for source in found.sources)) & topology.cpus,
            allowed=parse(facts["cpus_allowed"]),
            counting=(count := counting(facts, topology)),
            spec=specialised(facts, topology, count),
            weka=facts["isolate_cpusets"] is not None or bool(of_node),
            nic=nic,
            near=parse(nic.get("cpus", "")),
        )

    @property
    def in_job(self) -> bool:
        return bool(self.facts["in_job"])

    @property
    def proven(self) -> bool:
        """Whether this job has just the CPUs that are not reserved, and not by chance: Slurm keeps some."""
        return self.in_job and bool(self.spec.given) and self.allowed == self.topology.cpus - self.keeps

    @property
    def right(self) -> str:
        """What must stand on the node's line of slurm.conf, so that jobs keep off reserved CPUs."""
        return f"CpuSpecList={listed(self.counting.to_slurm(self.keeps))}"

    @property
    def mend(self) -> str:
        """What to do where jobs may use reserved CPUs, for other checks than `5 Slurm`, which says it at length."""
        return f"see {SLURM}" if self.facts["slurm"] else "use other CPUs"

    def bad(self, check: str, cpus: CpuSet, seen: str, change: str) -> Line:
        """Jobs may use reserved CPUs: wrong, but where the configuration names them, and ranks are kept off so."""
        if cpus and cpus <= (self.reserved.configured or NO_CPUS):
            names = f"the configuration names {'it' if len(cpus) == 1 else 'them'}"
            return warning(check, f"{seen}; {names}, so ranks keep off by their masks", change)
        return wrong(check, seen, change)

    @property
    def nothing(self) -> str:
        """Why steps on reserved CPUs are about nothing here; empty if they are."""
        if self.reserved.cpus is None or self.keeps:
            return ""
        return "WEKA owns no core here" if self.weka and not self.reserved.unasked else "no CPU is reserved"


def _agent(node: _Node) -> Line:
    value = node.facts["isolate_cpusets"]
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


def _cpus(node: _Node) -> Line:
    cores, sockets, numa = node.topology.cores, node.topology.sockets, node.topology.numa
    if not cores:
        return unchecked(CPUS, "/sys does not say which CPUs are here")
    most = max(map(len, cores))
    shared = next((core for core in cores if len(core) > 1), NO_CPUS)
    threads = f"{most} threads a core (such as {listed(shared)})" if shared else "no hyper-threading"
    nodes = "; ".join(f"{number}: {listed(cpus)}" for number, cpus in sorted(numa.items()))
    told = [human_count(len(node.topology.cpus), "CPU"), human_count(len(sockets), "socket"), threads]
    told += [f"NUMA nodes {nodes}" if len(numa) > 1 else "one NUMA node"]
    return ok(CPUS, ", ".join(told))


def _nic(node: _Node) -> Line:
    if len(node.topology.numa) < 2:
        return inapplicable(NIC, "one NUMA node: no interface is nearer to some CPUs than to others")
    if not node.near:
        return unchecked(NIC, "no interface that is up says which CPUs are near it")
    number = node.nic["numa_node"]
    of = f" (NUMA node {number})" if number is not None and number >= 0 else ""
    return ok(NIC, f"{node.nic['name']} is near {named(node.near)}{of}")


def _reserved(node: _Node) -> list[Line]:
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
    if node.facts["nets"] and node.near and len(node.topology.numa) > 1 and far:
        return [
            *problems,
            warning(RESERVED, f"{seen}: {named(far)} {_are(far)} not near {node.nic['name']}", _mount(node)),
        ]
    return [*problems, ok(RESERVED, seen)]


def _mount(node: _Node) -> str:
    """The mount options that give WEKA as many cores at the end of the interface's NUMA node."""
    count = sum(bool(core & node.named) for core in node.topology.cores)
    firsts = [min(core) for core in node.topology.cores if 0 not in core and (core <= node.near or not node.near)]
    if not 0 < count <= len(firsts):
        return "mount it with other cores (never core 0)"
    cores = ",".join(f"core={cpu}" for cpu in sorted(firsts)[-count:])
    net = f",net={node.nic['name']}" if node.facts["nets"] else ""
    return f"mount it with other cores, such as -o {cores}{net}"


# --- Slurm


@dataclass(frozen=True)
class Counting:
    """How Slurm numbers the CPUs of a node.

    topology: its CPUs in hwloc's order, in such cores and sockets as Slurm was told of. cores: it counts cores.
    foreign: why its numbers mean nothing that could be told; first: what is to be done before a CpuSpecList; wrong:
    whether that is a mistake.
    """

    topology: Topology
    cores: bool = False
    foreign: str = ""
    first: str = ""
    wrong: bool = False

    def to_slurm(self, cpus: CpuSet) -> CpuSet:
        """The kernel's numbers -> Slurm's."""
        return self.topology.to_slurm(cpus, self.cores)

    def whole(self, numbers: CpuSet) -> CpuSet:
        """Slurm's numbers -> the kernel's of what it keeps for them: whole cores."""
        return self.topology.with_siblings(self.topology.from_slurm(numbers, self.cores))


def counting(facts: Facts, topology: Topology) -> Counting:
    """By what `scontrol show node` says of the node's shape. Held against slurmd 22.05 (docs/doctor.md)."""
    node = (facts["slurm"] or {}).get("node") or {}
    cpus = topology.logical
    if not topology.regular:
        gaps = frozenset(cpus) != frozenset(range(len(cpus)))
        why = f"some CPUs are offline ({listed(cpus)} are there)" if gaps else "cores or sockets are not alike"
        foreign = f"Slurm does not number CPUs as hwloc does where {why}, so no CpuSpecList can be told"
        first = "try one, and see in a job what it keeps: salloc --exclusive -w NODE iosweep doctor"
        return Counting(topology, False, foreign if cpus else "/sys does not say which CPUs are here", first)
    if any(not node.get(key, "").isdecimal() for key in _SHAPE):
        return Counting(topology)
    sockets, cores, threads = (int(node[key]) for key in _SHAPE)
    total = int(node.get("CPUTot") or sockets * cores * threads)
    line = (facts["slurm"]["line"] or {}).get("NodeName", facts["slurm"]["name"])
    line = f"on the line NodeName={line} of slurm.conf"
    first = f"write {line} what `slurmd -C` prints there"
    if threads == 1 and sockets * cores == len(topology.cores) < len(cpus):
        have = len(topology.cores[0])
        foreign = f"Slurm has ThreadsPerCore=1 here, and a core has {have} threads: no CpuSpecList names all of them"
        first = f"first write ThreadsPerCore={have} {line}, as `slurmd -C` prints it; then ask again"
        return Counting(topology, False, foreign, first, True)
    if sockets * cores * threads != len(cpus) or total not in (len(cpus), sockets * cores):
        foreign = f"Slurm has {sockets} x {cores} x {threads} sockets, cores and threads here, {total} CPUs"
        foreign += f", and the kernel {len(cpus)}: CpuSpecList means other CPUs"
        return Counting(topology, False, foreign, first, True)
    told = Topology(_pieces(cpus, threads), _pieces(cpus, cores * threads), topology.numa)
    return Counting(told, total < len(cpus))


_SHAPE = ("Sockets", "CoresPerSocket", "ThreadsPerCore")


def _pieces(cpus: Sequence[int], size: int) -> tuple[CpuSet, ...]:
    return tuple(frozenset(cpus[k : k + size]) for k in range(0, len(cpus), size))


@dataclass(frozen=True)
class Spec:
    """The CPUs that Slurm keeps from jobs.

    given: as `scontrol show node` prints it. cpus: in the kernel's numbers; None where that cannot be told. numbers: in
    whose it is given; `either` where that is the same, `neither` where the job has CPUs of it in both readings. why:
    how that was told. readings: what it means in Slurm's, and in the kernel's.
    """

    given: str = ""
    cpus: CpuSet | None = NO_CPUS
    numbers: Literal["Slurm's", "the kernel's", "either", "neither", ""] = ""
    why: str = ""
    readings: tuple[CpuSet, ...] = (NO_CPUS, NO_CPUS)


def specialised(facts: Facts, topology: Topology, counting: Counting) -> Spec:
    """Decides which numbers CPUSpecList is printed in: by the job's CPUs, by slurm.conf, by CoreSpecCount."""
    told = facts["slurm"] or {}
    node, line = told.get("node") or {}, told.get("line") or {}
    printed, allowed = _parsed(node.get("CPUSpecList")), parse(facts["cpus_allowed"])
    count = int(node["CoreSpecCount"]) if node.get("CoreSpecCount", "").isdecimal() else 0
    given = node.get("CPUSpecList", "") if printed else f"CoreSpecCount={count}" if count else ""
    if counting.foreign:
        return Spec(given, None if given else NO_CPUS)
    if not printed:
        lowest_first = "spec_cores_first" in told.get("config", {}).get("SchedulerParameters", "")
        picked = core_spec(count, counting.topology, lowest_first)
        return Spec(given, picked, "", "", (picked, picked))
    slurms, kernels = counting.whole(printed), topology.with_siblings(printed) & topology.cpus
    readings = (slurms, kernels)
    fit: dict[Literal["Slurm's", "the kernel's"], CpuSet] = {"Slurm's": slurms, "the kernel's": kernels}
    if facts["in_job"] and all(cpus & allowed for cpus in fit.values()):
        return Spec(given, slurms if slurms == kernels else None, "neither", "", readings)
    if slurms == kernels:
        return Spec(given, slurms, "either", "", readings)
    meant = counting.whole(_parsed(line.get("CpuSpecList")))
    evidence = (
        # slurm.conf is in Slurm's numbers by definition, so it tells what is meant
        ("this job's CPUs", lambda cpus: not (facts["in_job"] and cpus & allowed)),
        (told.get("file", ""), lambda cpus: not meant or cpus == meant),
        # scontrol prints both, whichever of them was set
        (
            f"only so are they CoreSpecCount={count} cores",
            lambda cpus: not count or sum(bool(core & cpus) for core in counting.topology.cores) == count,
        ),
    )
    for why, holds in evidence:
        if len(left := [numbers for numbers, cpus in fit.items() if holds(cpus)]) == 1:
            return Spec(given, fit[left[0]], left[0], why, readings)
    return Spec(given, None, "", "", readings)


def core_spec(count: int, topology: Topology, lowest_first: bool = False) -> CpuSet:
    """The CPUs that CoreSpecCount takes: the highest core of the highest socket, then of the next lower one, and so on
    (the other way round with SchedulerParameters=spec_cores_first)."""
    by_socket = [[core for core in topology.cores if core <= socket] for socket in topology.sockets]
    step = 1 if lowest_first else -1
    depth = max(map(len, by_socket), default=0)
    order = [cores[level] for level in range(depth)[::step] for cores in by_socket[::step] if level < len(cores)]
    return NO_CPUS.union(*order[:count])


def _slurm(node: _Node) -> list[Line]:
    spec = node.spec
    if silent := _silent(node, SLURM):
        return [silent]
    if node.reserved.cpus is None:
        return [unchecked(SLURM, "it is not known which CPUs are reserved")]
    lines = _by_hand(node)
    if not spec.given and not node.keeps:
        return lines or [inapplicable(SLURM, f"{node.nothing}, and Slurm keeps none from jobs")]
    if node.counting.foreign:
        return [*lines, _foreign(node)]
    lines += [*_kept_from_jobs(node), *_settings(node)]
    either = f" has {named(node.keeps)} in either numbering" if spec.cpus is None else ""
    return lines or [ok(SLURM, f"{_means(spec)}{either}; {_shown(node)}")]


def _silent(node: _Node, check: str) -> Line | None:
    """Where Slurm says nothing of this node."""
    told = node.facts["slurm"]
    if told is None:
        return inapplicable(check, "no Slurm here")
    if told.get("node"):
        return None
    if "config" in told and "exit code" in told["error"]:
        return inapplicable(check, f"{told['name']} is no node of Slurm's")
    return unchecked(check, told["error"] if check == SLURM else f"see {SLURM}")


def _foreign(node: _Node) -> Line:
    """Where what Slurm's numbers mean cannot be told, the CPUs of a job can."""
    foreign, first = node.counting.foreign, node.counting.first
    if node.keeps and node.proven:
        return ok(SLURM, f"this job may use {named(node.allowed)}, and nothing of {named(node.keeps)}")
    if node.in_job and (open_ := node.keeps & node.allowed):
        return node.bad(SLURM, open_, f"jobs may use {named(open_)}, which {_are(open_)} reserved. {foreign}", first)
    return wrong(SLURM, foreign, first) if node.counting.wrong else unchecked(SLURM, foreign, first)


def _where(node: _Node) -> str:
    line = node.facts["slurm"].get("line") or {}
    name = line.get("NodeName") or node.facts["slurm"]["name"]
    of = f"numbers of cores; the kernel's CPUs are {listed(node.keeps)}" if node.counting.cores else (
        f"numbers; the kernel's are {listed(node.keeps)}")  # fmt: skip
    return f"on the line NodeName={name} of slurm.conf (Slurm's {of})"


def _by_hand(node: _Node) -> list[Line]:
    line = node.facts["slurm"].get("line") or {}
    if {"CpuSpecList", "CoreSpecCount"} <= set(line):
        seen = f"slurm.conf sets both CoreSpecCount={line['CoreSpecCount']} and CpuSpecList={line['CpuSpecList']}"
        return [wrong(SLURM, seen, f"remove CoreSpecCount={line['CoreSpecCount']}; it takes other cores")]
    return []


def _kept_from_jobs(node: _Node) -> list[Line]:
    """Whether jobs are kept off what is reserved: by the job's mask in a job, and by what Slurm keeps."""
    spec = node.spec
    change = f"{node.right} {_where(node)}; then restart slurmctld and slurmd"
    if spec.numbers == "neither" and not node.keeps:
        seen = f"{_means(spec)}, and has no effect: this job may use {named(node.allowed)}"
        return [wrong(SLURM, seen, _CONFINED)]
    if spec.numbers == "neither":
        seen = f"CPUSpecList={spec.given} has no effect: this job may use {named(node.allowed)}"
        return [node.bad(SLURM, node.keeps & node.allowed, seen, f"{change}; {_CONFINED}")]
    if not node.keeps or node.proven:
        return []
    given = (node.facts["slurm"].get("line") or {}).get("CpuSpecList", "")
    if not spec.given:
        ignored = f" (it has ignored CpuSpecList={given} of slurm.conf, or not read it yet)" if given else ""
        seen = f"Slurm keeps no CPU from jobs{ignored}, and {named(node.keeps)} {_are(node.keeps)} reserved"
        return [node.bad(SLURM, node.keeps, seen, change)]
    if spec.cpus is None and len({node.keeps <= cpus for cpus in spec.readings}) > 1:
        seen = f"whether CPUSpecList={spec.given} covers {named(node.keeps)} cannot be told ({NUMBERING})"
        return [unchecked(SLURM, seen, change)]
    if missing := node.keeps - (spec.readings[0] if spec.cpus is None else spec.cpus):
        count = spec.given.startswith("CoreSpec")
        picks = ", for it picks the highest core of each socket in turn" if count else ""
        seen = f"{_means(spec)}{picks}: jobs may use {named(missing)}, which {_are(missing)} reserved"
        return [node.bad(SLURM, missing, seen, f"{f'instead of {spec.given} ' if count else ''}{change}")]
    if spec.cpus and _parsed(given) and node.topology.with_siblings(_parsed(given)) == node.keeps != spec.cpus:
        more = spec.cpus - node.keeps
        seen = f"CpuSpecList={given} of slurm.conf is in the kernel's numbers, and Slurm takes it in its own: it keeps"
        return [warning(SLURM, f"{seen} {named(spec.cpus)}, {listed(more)} for nothing", change)]
    return []


def _settings(node: _Node) -> list[Line]:
    """Whether what Slurm keeps from jobs is kept from them: by the job's mask in a job, else by its settings."""
    config = node.facts["slurm"]["config"]
    task = config.get("TaskPlugin", "")
    confined = "task/cgroup" in task and config.get("ConstrainCores", "").lower() == "yes"
    lines = []
    has = f"TaskPlugin={task or 'none'}, ConstrainCores={config.get('ConstrainCores', 'no')}"
    if node.spec.given and not confined and not node.in_job:
        if "task/affinity" in task:
            seen = f"{has}: jobs are kept off by their masks alone, which a program may widen"
            lines.append(warning(SLURM, seen, _CONFINED))
        else:
            lines.append(wrong(SLURM, f"{has}: CpuSpecList has no effect", _CONFINED))
    if not node.keeps:
        return lines
    if not config.get("ProctrackType", "proctrack/cgroup").endswith("cgroup") and confined:
        lines.append(warning(SLURM, f"ProctrackType={config['ProctrackType']}", "ProctrackType=proctrack/cgroup"))
    if node.spec.given and (shared := node.keeps & _parsed(node.facts["slurm"]["slurmd"])):
        seen = f"slurmd itself, with what it starts, may use {named(shared)}, which {_are(shared)} reserved"
        lines.append(warning(SLURM, seen, "TaskPluginParam=SlurmdOffSpec in slurm.conf"))
    if (select := config.get("SelectType", "select/cons_tres")) != "select/cons_tres":
        lines.append(warning(SLURM, f"SelectType={select}", "SelectType=select/cons_tres in slurm.conf"))
    if config.get("AllowSpecResourcesUsage", "no").lower() in ("yes", "1"):
        seen = "AllowSpecResourcesUsage=yes: a job with --core-spec takes reserved CPUs back"
        lines.append(warning(SLURM, seen, "AllowSpecResourcesUsage=no in slurm.conf"))
    return lines


def _shown(node: _Node) -> str:
    if not node.in_job:
        return f"jobs are confined by {node.facts['slurm']['config'].get('TaskPlugin', 'nothing')}"
    return f"this job may use {named(node.allowed)}, and none of it"


def _means(spec: Spec) -> str:
    """`CPUSpecList=28-31 is CPUs 56-59`"""
    given = spec.given if spec.given.startswith("CoreSpec") else f"CPUSpecList={spec.given}"
    return f"{given} is {named(spec.cpus)}" if spec.cpus is not None else given


def _cpusets(node: _Node) -> Line:
    if node.nothing:
        return inapplicable(CPUSETS, node.nothing)
    if node.reserved.cpus is None:
        return unchecked(CPUSETS, "it is not known which CPUs are reserved")
    jobs = {group["path"]: parse(group["cpus"]) for group in node.facts["cgroups"]}
    if node.in_job:
        jobs = {"this job (Cpus_allowed_list)": node.allowed} | jobs
    bad = {where: cpus & node.keeps for where, cpus in jobs.items() if cpus & node.keeps}
    if bad:
        cpus = NO_CPUS.union(*bad.values())
        seen = "; ".join(f"{where} has {named(cpus)}" for where, cpus in list(bad.items())[:3])
        return node.bad(CPUSETS, cpus, f"{seen}, which {_are(cpus)} reserved", node.mend)
    if not jobs and node.facts["slurm"] is None:
        return inapplicable(CPUSETS, "no Slurm here")
    if not jobs:
        return unchecked(CPUSETS, "no job of Slurm's is here")
    told = next(iter(jobs))
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return ok(CPUSETS, f"{told}{more}: {named(jobs[told])}, nothing of {named(node.keeps)}")


def _siblings(node: _Node) -> Line:
    if all(len(core) == 1 for core in node.topology.cores):
        return inapplicable(SIBLINGS, "no hyper-threading")
    if node.nothing:
        return inapplicable(SIBLINGS, node.nothing)
    if node.reserved.cpus is None:
        return unchecked(SIBLINGS, "it is not known which CPUs are reserved")
    also = node.keeps - node.named
    share = "shares a core" if len(also) == 1 else "share cores"
    seen = f"{named(also)} {share} with what is named, and {_are(also)} reserved too" if also else "all are named"
    open_ = (
        also & node.allowed if node.in_job else also - node.spec.cpus if node.spec.given and node.spec.cpus else NO_CPUS
    )
    if open_:
        return node.bad(SIBLINGS, open_, f"{seen}: jobs may use {named(open_)}", node.mend)
    return ok(SIBLINGS, seen)


def _numbering(node: _Node) -> Line:
    spec = node.spec
    if silent := _silent(node, NUMBERING):
        return silent
    if not spec.given or spec.given.startswith("CoreSpec"):
        return inapplicable(NUMBERING, f"Slurm has no CPUSpecList for this node{_slip(node)}")
    given = f"CPUSpecList={spec.given}"
    if node.counting.foreign:
        return unchecked(NUMBERING, f"{given}: see {SLURM}")
    if spec.numbers == "neither":
        return wrong(NUMBERING, f"{given}: this job may use CPUs of it, {_both(spec)}", f"see {SLURM}")
    if spec.cpus is None:
        seen = f"{given} can be read both ways: {_both(spec)}"
        return unchecked(NUMBERING, seen, "ask in a job: salloc --exclusive -w NODE iosweep doctor")
    if spec.numbers == "either":
        return ok(NUMBERING, f"{given} means the same CPUs in both numberings")
    return ok(NUMBERING, f"{given} is in {spec.numbers} numbers ({spec.why}): {named(spec.cpus)} of the kernel's")


def _slip(node: _Node) -> str:
    """What the kernel's numbers would do in slurm.conf, if that is not what is wanted."""
    if node.counting.foreign or not node.keeps or node.counting.to_slurm(node.keeps) == node.keeps:
        return ""
    kept = node.counting.whole(node.keeps)
    does = f"keep its {listed(node.counting.to_slurm(kept))}, {named(kept)} of the kernel's"
    if node.counting.cores and max(node.keeps) >= len(node.counting.topology.cores):
        does = "ignore the list, for it counts cores here"
    return f"; with CpuSpecList={listed(node.keeps)}, the kernel's numbers, it would {does}"


def _both(spec: Spec) -> str:
    return f"as Slurm's numbers {named(spec.readings[0])} of the kernel's, as the kernel's {named(spec.readings[-1])}"


def _polling(node: _Node) -> Line:
    busy = {int(cpu): share for cpu, share in node.facts["busy"].items()}
    polled = frozenset(cpu for cpu, share in busy.items() if share > _POLLS)
    if node.reserved.cpus is None:
        seen = f"{named(polled)} {_are(polled)} near 100 % busy and may be the ones" if polled else "no CPU is busy"
        return unchecked(POLLING, seen, "name them in the configuration: cpus.reserved")
    if node.nothing:
        return inapplicable(POLLING, node.nothing)
    resting = [core for core in node.topology.cores
               if core & node.keeps and max((busy.get(cpu, 1.0) for cpu in core), default=1.0) < _RESTS]  # fmt: skip
    if resting:
        cpus = NO_CPUS.union(*resting)
        seen = f"{named(cpus)} {_are(cpus)} reserved and less than {_RESTS * 100:.0f} % busy"
        seen += "; a core that WEKA polls is near 100 %"
        return warning(POLLING, seen, "is the mount in UDP mode, or has the client other cores now?")
    if node.in_job and (others := (polled - node.keeps) & node.allowed):
        seen = f"{named(others)} {_are(others)} near 100 % busy, and not reserved"
        return warning(POLLING, seen, "does WEKA poll there? Name them in cpus.reserved; or does a job run?")
    return ok(POLLING, f"the cores of {named(node.keeps)} are near 100 % busy, as WEKA keeps them")


def _parsed(text: str | None) -> CpuSet:
    try:
        return parse(text or "")
    except ValueError:
        return NO_CPUS


def _are(cpus: Collection[int]) -> str:
    return "is" if len(cpus) == 1 else "are"
