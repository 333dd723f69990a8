"""Which CPUs of a node a file system's client keeps for itself, which source says so, and what a job may use. Pure.

Sources: WEKA itself (weka.py), and the configuration for any other file system.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, named, parse
from iosweep.node.node_facts import NodeFacts, ReservedSource

CONFIGURATION = "the configuration (cpus.reserved)"
#: The first words of sources that WEKA's command has answered for.
_WEKA = "weka local"
#: The first words of what is said of a source that could not be asked.
FAILED = "cannot be asked: "


@dataclass(frozen=True)
class Reserved:
    """The reserved CPUs of a node. `cpus`: with siblings; None if some are reserved and it is not known which."""

    topology: Topology
    sources: tuple[ReservedSource, ...]
    cpus: CpuSet | None

    @staticmethod
    def of_node(facts: NodeFacts) -> Reserved:
        """What the facts of a node say; of a node that was not examined it is not known which CPUs are kept."""
        cpus = None if facts.reserved_cpus is None else parse(facts.reserved_cpus)
        return Reserved(facts.topology, facts.reserved_sources or (), cpus)

    @property
    def listed(self) -> str | None:
        """`cpus` as it is stored."""
        return None if self.cpus is None else listed(self.cpus)

    @property
    def configured(self) -> CpuSet | None:
        """The CPUs that the configuration names, with siblings; None if the key is not set."""
        given = next((one for one in self.sources if one.source == CONFIGURATION), None)
        return None if given is None else self._here([given])

    @property
    def found(self) -> CpuSet:
        """The CPUs that sources on the node name, with siblings."""
        return self._here(self._on_node)

    @property
    def why(self) -> str:
        """Which sources keep CPUs without naming them, or could not be asked; empty if all are known."""
        unclear = [one for one in self._on_node if one.cpus is None or one.says.startswith(FAILED)]
        return _said(unclear) if self.cpus is None else ""

    @property
    def unasked(self) -> str:
        """Which sources could not be asked, and why; empty if all answered."""
        return _said([one for one in self.sources if one.says.startswith(FAILED)])

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each source that names CPUs which another one does not, or which this node does not have."""
        return tuple(dict.fromkeys((*self._absent(), *self._disagreements())))

    @property
    def counting(self) -> tuple[ReservedSource, ...]:
        """The sources that name CPUs in `cpus`, or do not say which they keep."""
        return tuple(one for one in self.sources if one.cpus is None or self._here([one]) & (self.cpus or NO_CPUS))

    def owners(self, cpus: Collection[int]) -> str:
        """Which sources on the node name some of these CPUs, and what they say of them."""
        return _said([one for one in self._on_node if self._here([one]) & set(cpus)]) or CONFIGURATION

    @property
    def _on_node(self) -> list[ReservedSource]:
        return [one for one in self.sources if one.source != CONFIGURATION]

    def _here(self, sources: Iterable[ReservedSource]) -> CpuSet:
        """What sources name, with siblings, and only CPUs that this node has."""
        whole = self.topology.with_siblings(NO_CPUS.union(*(parse(one.cpus or "") for one in sources)))
        return whole & self.topology.cpus if self.topology.cpus else whole

    def _absent(self) -> Iterator[str]:
        for one in self.sources:
            if self.topology.cpus and (absent := parse(one.cpus or "") - self.topology.cpus):
                yield f"{one.source} names {named(absent)}, and this node has {listed(self.topology.cpus)}"

    def _disagreements(self) -> Iterator[str]:
        asked = [one for one in self._on_node if one.source.startswith(_WEKA)]
        if asked and all(one.cpus is not None and not one.says.startswith(FAILED) for one in asked):
            for one in self._on_node:
                if more := self._here([one]) - self._here(asked):
                    yield f"{one.source} names {named(more)}, which WEKA itself does not"
        if self.configured is not None and (more := self.found - self.configured):
            yield f"{CONFIGURATION} leaves out {named(more)} ({self.owners(more)})"


def _said(sources: Sequence[ReservedSource]) -> str:
    return "; ".join(f"{one.source}: {one.says}" for one in sources)


def resolve(topology: Topology, sources: Iterable[ReservedSource], configured: str | None = None) -> Reserved:
    """The configured CPUs (the key cpus.reserved) if there are any, else the union of all sources; with siblings.

    A source that does not say which CPUs it keeps is covered by one of another kind that names some.
    """
    every = list(sources)
    if configured is not None:
        every.append(ReservedSource(CONFIGURATION, listed(parse(configured)), f'"{configured}"'))
    found = Reserved(topology, tuple(every), NO_CPUS)
    if found.configured is not None:
        return Reserved(topology, found.sources, found.configured)
    naming = {_kind(one) for one in every if one.cpus}
    clear = all(one.cpus is not None or naming - {_kind(one)} for one in every)
    return Reserved(topology, found.sources, found.found if clear else None)


def _kind(one: ReservedSource) -> str:
    """`weka`, `/proc/mounts`, or a cgroup."""
    return one.source.partition(" ")[0]


@dataclass(frozen=True)
class Overlap:
    """A problem of the CPUs that a job may use on a node. `change`: what to do.

    fatal: ranks cannot be bound, or (`pinning: strict`) must not be.
    """

    seen: str
    change: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.seen}; {self.change}"


def overlap(allowed: Collection[int], found: Reserved, slurm: bool = True, strict: bool = False) -> Overlap | None:
    """Compare the CPUs that a job may use on a node with the reserved ones; None if there is no problem.

    Reserved CPUs that the job may use are avoided by the masks of ranks, unless the configuration leaves them out, or
    `strict`.
    """
    may = frozenset(allowed)
    if found.cpus is None:
        seen = f"CPUs are reserved, and it is not known which ({found.why or 'the node was not looked at'})"
        return Overlap(seen, 'name them with cpus.reserved ("" if there are none)', fatal=True)
    exposed = (found.found - (found.configured or NO_CPUS)) & may
    are = "is" if len(exposed) == 1 else "are"
    seen = f"this job may use {named(exposed)}, which {are} reserved ({found.owners(exposed)})"
    name = f'name all reserved CPUs with cpus.reserved: "{listed(found.found | (found.configured or NO_CPUS))}"'
    if exposed and found.configured is not None:
        return Overlap(f"{seen}, and {CONFIGURATION} leaves that out", name, fatal=True)
    keep_off = [slurm_conf(found.topology, found.found)] if slurm else []
    if exposed and strict:
        change = "; or ".join([*keep_off, name, "set `pinning: enforce`"])
        return Overlap(f"{seen}; `pinning: strict` refuses that", change, fatal=True)
    if not may - found.cpus:
        seen = f"no usable CPU is left: the job may use {named(may)}, and all are reserved ({found.owners(may)})"
        return Overlap(seen, "give the job other CPUs, or correct cpus.reserved", fatal=True)
    if not exposed:
        return None
    return Overlap(f"{seen}; ranks and workers are kept off by their masks", "".join(keep_off) or name, fatal=False)


def slurm_conf(topology: Topology, cpus: CpuSet) -> str:
    """What to write in slurm.conf to keep jobs off CPUs."""
    numbers = f"CpuSpecList={listed(topology.to_slurm(cpus))} on the node's line of slurm.conf (in Slurm's numbering)"
    return f"to keep all jobs off, write {numbers}, with TaskPlugin=task/affinity,task/cgroup and ConstrainCores=yes"
