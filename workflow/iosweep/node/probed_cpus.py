"""`Node`: what cpu_probe.py reads, as the eight steps of WEKA's documentation need it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from iosweep.findings import Line, warning, wrong
from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, parse
from iosweep.node.node_facts import Nic
from iosweep.node.probe_record import Probe, SlurmFacts
from iosweep.node.reserved import Reserved
from iosweep.node.slurm_numbering import Counting, Spec, counting, specialised

#: The documentation's steps, and one of ours.
AGENT, CPUS, NIC, RESERVED, SLURM, CPUSETS, SIBLINGS, NUMBERING, POLLING = (
    "1 WEKA's agent", "2 CPUs", "3 network", "4 reserved CPUs", "5 Slurm", "6 cpusets", "7 siblings", "8 CpuSpecList",
    "polling",
)  # fmt: skip


@dataclass(frozen=True)
class Node:
    """keeps: the reserved CPUs, and what WEKA says beyond the configuration; named: of these, what is named and not
    only a sibling. counting: how Slurm numbers CPUs here; spec: what it keeps from jobs. weka: whether anything of WEKA
    is here. nic: the interface that counts, near: the CPUs near it."""

    facts: Probe
    topology: Topology
    reserved: Reserved
    keeps: CpuSet
    named: CpuSet
    allowed: CpuSet
    counting: Counting
    spec: Spec
    weka: bool
    nic: Nic
    near: CpuSet

    @staticmethod
    def of(facts: Probe) -> Node:
        topology, found = facts.topology, Reserved.of_node(facts)
        up = [nic for nic in facts.nics if nic.state == "up" and nic.cpus]
        used = [nic for nic in up if nic.name in facts.nets]
        nic = next(iter(used or sorted(up, key=lambda nic: -(nic.speed_bits_per_s or 0))), Nic(""))
        return Node(
            facts=facts,
            topology=topology,
            reserved=found,
            keeps=(found.cpus or NO_CPUS) | found.found,
            named=NO_CPUS.union(*(source.cpus or NO_CPUS for source in found.sources)) & topology.cpus,
            allowed=parse(facts.cpus_allowed),
            counting=(count := counting(facts, topology)),
            spec=specialised(facts, topology, count),
            weka=facts.isolate_cpusets is not None or bool(found.on_node),
            nic=nic,
            near=parse(nic.cpus or ""),
        )

    @property
    def in_job(self) -> bool:
        return self.facts.in_job

    @property
    def slurm(self) -> SlurmFacts:
        """What Slurm says of it; nothing without Slurm."""
        return self.facts.slurm or SlurmFacts()

    @property
    def proven(self) -> bool:
        """Whether this job has just the CPUs that are not reserved, and not by chance: Slurm keeps some."""
        return self.in_job and bool(self.spec.given) and self.allowed == self.topology.cpus - self.keeps

    @property
    def right(self) -> str:
        """The setting on the node's line of slurm.conf that keeps jobs off reserved CPUs."""
        return f"CpuSpecList={listed(self.counting.to_slurm(self.keeps))}"

    @property
    def remedy(self) -> str:
        """What to do where jobs may use reserved CPUs, for other checks than `5 Slurm`, which says it at length."""
        return f"see {SLURM}" if self.facts.slurm else "use other CPUs"

    def bad(self, check: str, cpus: CpuSet, seen: str, change: str) -> Line:
        """Jobs may use reserved CPUs: wrong, unless the configuration names them, so that masks keep ranks off."""
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


def are(cpus: Collection[int]) -> str:
    return "is" if len(cpus) == 1 else "are"
