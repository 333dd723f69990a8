"""Which CPUs of a node a file system's client keeps for itself, and which source says so. Pure.

Sources: WEKA itself (weka.py), and the configuration for any other file system.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, named, parse
from iosweep.node.node_facts import NodeFacts, ReservedSource
from iosweep.node.probe_record import Probe

CONFIGURATION = "the configuration (cpus.reserved)"
Kind = Literal["configuration", "weka", "mount", "cgroup"]
#: The first words of a source's name. A stored source has no other sign of its kind.
BEGINS: dict[Kind, str] = {
    "configuration": CONFIGURATION,
    "weka": "weka local",
    "mount": "/proc/mounts",
    "cgroup": "/sys/fs/cgroup",
}
#: The first words of what is said of a source that could not be asked.
FAILED = "cannot be asked: "


@dataclass(frozen=True)
class Source:
    """One source of reserved CPUs.

    cpus: which; empty: none; None: not known which, but at least `least`. failed: it could not be asked.
    """

    kind: Kind
    name: str
    cpus: CpuSet | None
    says: str
    least: int = 0
    failed: bool = False

    @staticmethod
    def of_record(record: ReservedSource) -> Source:
        """As it is stored: its name and what it says tell the rest."""
        kinds: list[Kind] = [kind for kind, begin in BEGINS.items() if record.source.startswith(begin)]
        cpus = None if record.cpus is None else parse(record.cpus)
        failed = record.says.startswith(FAILED)
        return Source(kinds[0] if kinds else "mount", record.source, cpus, record.says, failed=failed)


@dataclass(frozen=True)
class Reserved:
    """The reserved CPUs of a node. `cpus`: with siblings; None if some are reserved and it is not known which."""

    topology: Topology
    sources: tuple[Source, ...]
    cpus: CpuSet | None

    @property
    def configured(self) -> CpuSet | None:
        """The CPUs that the configuration names, with siblings; None if the key is not set."""
        given = next((source.cpus for source in self.sources if source.kind == "configuration"), None)
        return None if given is None else self._here(given)

    @property
    def found(self) -> CpuSet:
        """The CPUs that sources on the node name, with siblings."""
        return self._here(_union(self.on_node))

    @property
    def why(self) -> str:
        """Which sources keep CPUs without naming them; empty if all are known."""
        return "; ".join(f"{s.name}: {s.says}" for s in self.on_node if s.cpus is None) if self.cpus is None else ""

    @property
    def unasked(self) -> str:
        """Which sources could not be asked, and why; empty if all answered."""
        return "; ".join(f"{source.name}: {source.says}" for source in self.sources if source.failed)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each disagreement between sources, and for CPUs that this node does not have."""
        return tuple(dict.fromkeys((*self._absent(), *self._disagreements())))

    def owners(self, cpus: Collection[int]) -> str:
        """Which sources name some of these CPUs, and what they say of them."""
        if self.configured is not None and not set(cpus) <= self.found:
            return CONFIGURATION
        named_by = [s for s in self.on_node if s.cpus and self._here(s.cpus) & set(cpus)]
        return "; ".join(f"{s.name}: {s.says}" for s in named_by) or CONFIGURATION

    @property
    def counting(self) -> tuple[Source, ...]:
        """The sources that name CPUs in `cpus`, or do not say which they keep."""
        return tuple(s for s in self.sources if s.cpus is None or self._here(s.cpus) & (self.cpus or NO_CPUS))

    @property
    def listed(self) -> str | None:
        """`cpus` as it is stored."""
        return None if self.cpus is None else listed(self.cpus)

    def stored(self) -> tuple[ReservedSource, ...]:
        """The sources as the facts of a node have them; of_node reads them."""
        return tuple(ReservedSource(s.name, None if s.cpus is None else listed(s.cpus), s.says) for s in self.sources)

    @staticmethod
    def of_node(facts: NodeFacts | Probe) -> Reserved:
        """What the facts of a node say; of a node that was not examined it is not known which CPUs are kept."""
        cpus = None if facts.reserved_cpus is None else parse(facts.reserved_cpus)
        return Reserved(facts.topology, tuple(map(Source.of_record, facts.reserved_sources or ())), cpus)

    @property
    def on_node(self) -> list[Source]:
        """The sources but the configuration."""
        return [source for source in self.sources if source.kind != "configuration"]

    def _here(self, cpus: Collection[int]) -> CpuSet:
        """With siblings, and only CPUs that this node has."""
        whole = self.topology.with_siblings(cpus)
        return whole & self.topology.cpus if self.topology.cpus else whole

    def _absent(self) -> Iterator[str]:
        for source in self.sources:
            if self.topology.cpus and (absent := (source.cpus or NO_CPUS) - self.topology.cpus):
                are = "is not a CPU" if len(absent) == 1 else "are not CPUs"
                online = listed(self.topology.cpus)
                yield f"{source.name} names {named(absent)}, which {are} of this node; it has {online}"

    def _disagreements(self) -> Iterator[str]:
        asked = [s for s in self.on_node if s.kind == "weka"]
        clear = bool(asked) and all(s.cpus is not None and not s.failed for s in asked)
        cgroups = [s for s in self.on_node if s.kind == "cgroup" and s.cpus]
        for source in self.on_node:
            if not source.cpus or source.kind == "weka":
                continue
            # a node may run several containers, and a mount is one container's: only what it shares CPUs with counts
            if clear:
                same = [s for s in asked if s.cpus and self._here(s.cpus) & self._here(source.cpus)]
                yield from self._differ(source.name, source.cpus, _names(same or asked), _union(same))
            elif cgroups and source not in cgroups and self._here(source.cpus) - self._here(_union(cgroups)):
                yield from self._differ(source.name, source.cpus, _names(cgroups), _union(cgroups))
        answered = [s for s in self.on_node if s.cpus is not None and not s.failed]
        unclear = any(s.cpus is None for s in self.on_node)  # then the configuration may well name more
        if self.configured is not None and answered and not (unclear and self.found <= self.configured):
            naming = [s for s in answered if s.cpus] or answered
            yield from self._differ(CONFIGURATION, self.configured, _names(naming), _union(naming))

    def _differ(self, one: str, ones: CpuSet, other: str, others: CpuSet) -> Iterator[str]:
        left, right = self._here(ones), self._here(others)
        only = [f"{named(a)} {'is' if len(a) == 1 else 'are'} named by the {which} only"
                for a, which in ((left - right, "former"), (right - left, "latter")) if a]  # fmt: skip
        if only:
            yield f"{one} says {named(left)}, and {other} says {named(right)}: {', '.join(only)}"


def resolve(topology: Topology, sources: Iterable[Source]) -> Reserved:
    """The configured CPUs if there are any, else the union of all sources; with siblings."""
    every = Reserved(topology, tuple(sources), NO_CPUS)
    if every.configured is not None:
        return Reserved(topology, every.sources, every.configured)
    for source in every.sources:
        others = (s for s in every.sources if s.kind != source.kind)
        if source.cpus is None and len(_union(others)) < max(1, source.least):
            return Reserved(topology, every.sources, None)
    return Reserved(topology, every.sources, every.found)


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


def overlap(
    allowed: Collection[int],
    reserved: Reserved | NodeFacts,
    configured: str | None,
    slurm: bool = True,
    strict: bool = False,
) -> Overlap | None:
    """Compare the CPUs that a job may use on a node with the reserved ones; None if there is no problem.

    allowed: the CPUs of the job. reserved: what was found, or the node's facts. configured: the key `cpus.reserved`.
    Reserved CPUs that the job may use are avoided by the masks of ranks, unless the sources contradict each other or
    `strict`.
    """
    found = reserved if isinstance(reserved, Reserved) else Reserved.of_node(reserved)
    found = resolve(found.topology, with_configured(found.sources, configured)) if configured is not None else found
    may = frozenset(allowed)
    if found.cpus is None:
        return Overlap(
            f"CPUs are reserved, and it is not known which ({found.why or 'the node was not looked at'})",
            'name them with cpus.reserved ("" if there are none)',
            fatal=True,
        )
    open_ = (found.found - (found.configured or NO_CPUS)) & may
    they, are = ("it", "is") if len(open_) == 1 else ("they", "are")
    seen = f"the job may use {named(open_)}, and {they} {are} reserved ({found.owners(open_)})"
    every = listed(found.found | (found.configured or NO_CPUS))
    if open_ and strict:
        change = f'name {_them(open_)} with cpus.reserved: "{every}", or set `pinning: enforce`'
        lacks = f"{slurm_conf(found.topology, found.found)}; or " if slurm else ""
        return Overlap(f"{seen}, which `pinning: strict` refuses", lacks + change, fatal=True)
    if open_ and found.problems:
        change = f'name all reserved CPUs with cpus.reserved (`"{every}"` is what any source names)'
        return Overlap(f"{seen}, but the sources disagree ({'; '.join(found.problems)})", change, fatal=True)
    if not may - found.cpus:
        seen = f"no usable CPU is left: the job may use {named(may)}, and all are reserved ({found.owners(may)})"
        return Overlap(seen, "give the job other CPUs, or correct cpus.reserved", fatal=True)
    if not open_:
        return None
    change = slurm_conf(found.topology, found.found) if slurm else f'name {_them(open_)} with cpus.reserved: "{every}"'
    return Overlap(f"{seen}; ranks and workers are kept off {_them(open_)} by their masks", change, fatal=False)


def _them(cpus: CpuSet) -> str:
    return "it" if len(cpus) == 1 else "them"


def slurm_conf(topology: Topology, cpus: CpuSet) -> str:
    """The slurm.conf setting that keeps jobs off CPUs, if it is not known how Slurm numbers the node's CPUs."""
    if not topology.regular:
        return "`iosweep doctor` on that node says what slurm.conf lacks"
    shape = f", with CPUs={len(topology.cpus)} and ThreadsPerCore={len(topology.cores[0])} there"
    of = shape if len(topology.cores) < len(topology.cpus) else ""
    return f"slurm.conf lacks CpuSpecList={listed(topology.to_slurm(cpus))} on the node's line (Slurm's numbering{of})"


def with_configured(sources: Iterable[Source], configured: str | None) -> list[Source]:
    """The sources, and the configuration as the last one, if the key is set."""
    kept = [source for source in sources if source.kind != "configuration"]
    if configured is not None:
        kept.append(Source("configuration", CONFIGURATION, parse(configured), f'"{configured}"'))
    return kept


def _union(sources: Iterable[Source]) -> CpuSet:
    return NO_CPUS.union(*(source.cpus or NO_CPUS for source in sources))


def _names(sources: Iterable[Source]) -> str:
    return " and ".join(dict.fromkeys(source.name for source in sources))
