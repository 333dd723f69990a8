"""How Slurm numbers the CPUs of a node, and which of them it keeps from jobs. Pure.

WEKA and the kernel number CPUs in one way (hwloc's P#), Slurm's CpuSpecList in another (L#): Topology translates.
slurmd takes the whole core of any CPU in CpuSpecList (_validate_and_convert_cpu_list), so siblings come with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, parse, parsed
from iosweep.node.probe_record import Probe, SlurmFacts


@dataclass(frozen=True)
class Counting:
    """How Slurm numbers the CPUs of a node.

    topology: its CPUs in hwloc's order, in the cores and sockets of its line in slurm.conf. cores: it counts cores.
    foreign: why the meaning of its numbers is not known; first: what to do before a CpuSpecList is set; wrong:
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
        """Slurm's numbers -> the kernel's numbers of the CPUs that it reserves for them: whole cores."""
        return self.topology.with_siblings(self.topology.from_slurm(numbers, self.cores))


def counting(facts: Probe, topology: Topology) -> Counting:
    """By what `scontrol show node` says of the node's shape. Held against slurmd 22.05 (docs/slurm.md)."""
    slurm = facts.slurm or SlurmFacts()
    node = slurm.node or {}
    cpus = topology.logical
    if not topology.regular:
        gaps = frozenset(cpus) != frozenset(range(len(cpus)))
        why = f"some CPUs are offline ({listed(cpus)} are there)" if gaps else "cores or sockets are not alike"
        foreign = f"Slurm does not number CPUs as hwloc does where {why}, so the right CpuSpecList is not known"
        first = "try one, and see in a job what it keeps: salloc --exclusive -w NODE iosweep doctor"
        return Counting(topology, False, foreign if cpus else "/sys does not say which CPUs are here", first)
    if any(not node.get(key, "").isdecimal() for key in _SHAPE):
        return Counting(topology)
    sockets, cores, threads = (int(node[key]) for key in _SHAPE)
    total = int(node.get("CPUTot") or sockets * cores * threads)
    line = slurm.on_the_line
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
    shaped = Topology(_pieces(cpus, threads), _pieces(cpus, cores * threads), topology.numa)
    return Counting(shaped, total < len(cpus))


_SHAPE = ("Sockets", "CoresPerSocket", "ThreadsPerCore")


def _pieces(cpus: Sequence[int], size: int) -> tuple[CpuSet, ...]:
    return tuple(frozenset(cpus[k : k + size]) for k in range(0, len(cpus), size))


@dataclass(frozen=True)
class Spec:
    """The CPUs that Slurm keeps from jobs.

    given: as `scontrol show node` prints it. cpus: in the kernel's numbers; None where that is not known. numbers: in
    whose it is given; `either` where that is the same, `neither` where the job has CPUs of it in both readings. why:
    what shows that. readings: what it means in Slurm's, and in the kernel's.
    """

    given: str = ""
    cpus: CpuSet | None = NO_CPUS
    numbers: Literal["Slurm's", "the kernel's", "either", "neither", ""] = ""
    why: str = ""
    readings: tuple[CpuSet, ...] = (NO_CPUS, NO_CPUS)


def specialised(facts: Probe, topology: Topology, counting: Counting) -> Spec:
    """Decides which numbers CPUSpecList is printed in: by the job's CPUs, by slurm.conf, by CoreSpecCount."""
    slurm = facts.slurm or SlurmFacts()
    node = slurm.node or {}
    printed, allowed = parsed(node.get("CPUSpecList")), parse(facts.cpus_allowed)
    count = int(node["CoreSpecCount"]) if node.get("CoreSpecCount", "").isdecimal() else 0
    given = node.get("CPUSpecList", "") if printed else f"CoreSpecCount={count}" if count else ""
    if counting.foreign:
        return Spec(given, None if given else NO_CPUS)
    if not printed:
        lowest_first = "spec_cores_first" in slurm.config.get("SchedulerParameters", "")
        picked = core_spec(count, counting.topology, lowest_first)
        return Spec(given, picked, "", "", (picked, picked))
    slurms, kernels = counting.whole(printed), topology.with_siblings(printed) & topology.cpus
    readings = (slurms, kernels)
    fit: dict[Literal["Slurm's", "the kernel's"], CpuSet] = {"Slurm's": slurms, "the kernel's": kernels}
    if facts.in_job and all(cpus & allowed for cpus in fit.values()):
        return Spec(given, slurms if slurms == kernels else None, "neither", "", readings)
    if slurms == kernels:
        return Spec(given, slurms, "either", "", readings)
    meant = counting.whole(parsed(slurm.given.get("CpuSpecList")))
    evidence = (
        # slurm.conf is in Slurm's numbers by definition, so it shows what is meant
        ("this job's CPUs", lambda cpus: not (facts.in_job and cpus & allowed)),
        (slurm.file, lambda cpus: not meant or cpus == meant),
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
