"""Pinning: the CPUs that the ranks and workers of an allocation are bound to, and the record of it. Pure.

Facts of the nodes come from facts.py, the masks that were read while a command ran from ranks.py;
judge/checks/cpus.py compares the planned masks with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from typing import Literal, TypeVar

from msgspec import structs

from iosweep.errors import Refused
from iosweep.files.documents import Count, Part
from iosweep.hostlist import alike
from iosweep.hostlist import hosts as named_hosts
from iosweep.node.cpus import NO_CPUS, CpuSet, Overlap, Topology, listed, named, overlap, parse
from iosweep.node.facts import NodeFacts
from iosweep.node.ranks import Looks
from iosweep.text import human_count

Policy = Literal["spread", "pack"]
Width = Literal["cpu", "core"]
_T = TypeVar("_T")
Mode = Literal["verify", "enforce", "strict"]
#: Modes in which ranks and workers are bound.
BINDS: tuple[Mode, ...] = ("enforce", "strict")


class NodesCpus(Looks, frozen=True, kw_only=True):
    """The CPUs of a group of nodes that do not differ in them."""

    hosts: tuple[str, ...]
    usable: str = ""
    #: CPU list; None if unknown.
    reserved: str | None = None
    #: The sources of `reserved`.
    by: tuple[str, ...] = ()
    #: Disagreements of the sources.
    problems: tuple[str, ...] = ()

    @property
    def allowed(self) -> str | None:
        """List of the CPUs that ranks, workers and their threads were allowed on; None if none was seen."""
        measuring = (p for p in self.processes if p.role in ("rank", "worker"))
        return _union(frozenset(mask for p in measuring for mask in (*p.masks, *p.thread_masks)))


@lru_cache(10_000)
def _union(masks: frozenset[str]) -> str | None:
    return listed(parse(",".join(masks))) or None


class CpuRecord(Part, frozen=True, kw_only=True):
    """The CPUs of a phase. planned: CPU list -> number of ranks or workers of a node that should get it; None if
    nothing was bound."""

    nodes: tuple[NodesCpus, ...]
    pinning: str
    placement: str | None = None
    width: str | None = None
    planned: dict[str, Count] | None = None


class CpuSettings(Part, frozen=True, kw_only=True):
    """`pinning` and `cpus` of the configuration. reserved: None if the sources on the node decide.

    The digest of a plan depends on the order of the fields.
    """

    pinning: Mode | None = None
    placement: Policy = "spread"
    reserved: str | None = None
    width: Width = "cpu"


def mode(settings: CpuSettings, allocated: bool) -> Mode:
    """The mode of a campaign. Default: `enforce` under a scheduler (`allocated`), where the nodes are ours."""
    return settings.pinning or ("enforce" if allocated else "verify")


def bound(settings: CpuSettings, allocated: bool, mpi: bool = True) -> str | None:
    """How ranks (`mpi`) or workers are bound, and the configured reserved CPUs, as a text for records; None without
    either. A result with another text is stale."""
    width = settings.width if mpi else "cpu"
    how = (settings.placement, width) if mode(settings, allocated) in BINDS else ()
    reserved = None if settings.reserved is None else f"reserved {settings.reserved or 'none'}"
    return "/".join(filter(None, (*how, reserved))) or None


@dataclass(frozen=True)
class Pinning:
    """The decision for the nodes of an allocation."""

    mode: Mode
    settings: CpuSettings
    #: Of the first node.
    topology: Topology
    #: The usable CPUs that all nodes have in common.
    usable: CpuSet
    #: host -> the usable CPUs of this node.
    usable_of: Mapping[str, CpuSet]
    nodes: Mapping[str, NodeFacts]
    notes: tuple[str, ...]

    def binding(self, ranks: int, mpi: bool) -> Binding | None:
        """The CPUs of each rank or worker of a node; None if the mode binds nothing. Workers share all usable CPUs if
        there are fewer CPUs than workers."""
        if self.mode not in BINDS:
            return None
        if not mpi and ranks > len(self.usable):
            return Binding((self.usable,) * ranks)
        width: Width = self.settings.width if mpi else "cpu"  # fio has no list for each of its workers
        return place(ranks, self.usable, self.topology, self.settings.placement, width)

    def lacks(self, ranks: int) -> str | None:
        """Why a node cannot run this many MPI ranks, or None."""
        if self.mode not in BINDS or ranks <= len(self.usable):
            return None
        have = f"{human_count(len(self.usable), 'usable CPU')} ({listed(self.usable)})"
        return (
            f"{human_count(ranks, 'rank')} on a node with {have}: fewer threads_per_node, or"
            " `pinning: verify`, which binds nothing"
        )

    def record(self, binding: Binding | None, seen: Mapping[str, Looks] | None, mpi: bool = True) -> CpuRecord | None:
        """The CPUs of a phase for its record (docs/store.md); None if masks were not read. `seen`: host -> looks."""
        if not seen:
            return None
        return CpuRecord(
            pinning=self.mode,
            placement=self.settings.placement if binding else None,
            width=(self.settings.width if mpi else "cpu") if binding else None,
            planned=dict(Counter(map(listed, binding.ranks))) if binding else None,
            nodes=_together([structs.replace(self._examined[h], **structs.asdict(looks)) for h, looks in seen.items()]),
        )

    @cached_property
    def _examined(self) -> dict[str, NodesCpus]:
        """host -> its CPUs, without looks. Cached, because resolving the sources is slow on large nodes."""
        return {
            host: NodesCpus(
                looks=0,
                processes=(),
                hosts=(host,),
                usable=listed(self.usable_of[host]),
                reserved=facts.reserved_cpus,
                by=tuple(source.source for source in facts.reserved.counting),
                problems=facts.reserved.problems,
            )
            for host, facts in self.nodes.items()
        }


def _together(nodes: Sequence[NodesCpus]) -> tuple[NodesCpus, ...]:
    """One entry, with the worst figures of the looks, for nodes that differ only in these figures."""
    groups: dict[NodesCpus, list[NodesCpus]] = {}
    for node in nodes:
        entry = structs.replace(node, hosts=(), looks=0, gap_s=0.0, cost_s=0.0, wall_s=0.0)
        groups.setdefault(entry, []).append(node)
    return tuple(
        structs.replace(
            entry,
            hosts=tuple(host for node in alike for host in node.hosts),
            looks=min(node.looks for node in alike),
            gap_s=max(node.gap_s for node in alike),
            cost_s=max(node.cost_s for node in alike),
            wall_s=max(node.wall_s for node in alike),
        )
        for entry, alike in groups.items()
    )


def decide(settings: CpuSettings, nodes: Mapping[str, NodeFacts], slurm: bool) -> Pinning:
    """Decide on the CPUs of ranks and workers. Raises Refused if they must be bound and cannot be.

    `nodes`: host -> its facts, the runner's node first. `slurm`: they are the nodes of a job.
    """
    pinning = mode(settings, slurm)
    first = next(iter(nodes.values()))
    topology = first.topology
    usable_of = {host: _allowed(facts) - parse(facts.reserved_cpus or "") for host, facts in nodes.items()}
    shared = frozenset.intersection(*usable_of.values())
    reserved_of = {host: facts.reserved for host, facts in nodes.items()}
    notes = [f"note: {host}: {problem}" for host, reserved in reserved_of.items() for problem in reserved.problems]
    notes += [f"note: {host}: {reserved.unasked}" for host, reserved in reserved_of.items() if reserved.unasked]
    overlaps: dict[str, Overlap] = {}
    for host, facts in nodes.items() if pinning in BINDS else ():
        if problem := overlap(_allowed(facts), reserved_of[host], slurm, pinning == "strict"):
            overlaps[host] = problem
    notes += [f"note: {problem}" for problem in alike(overlaps)]
    if not slurm and (allowed := _allowed(first)) != topology.cpus:
        notes.append(f"note: only {named(allowed)} of {listed(topology.cpus)} may be used here")
    if pinning in BINDS:
        fatal = {host: problem for host, problem in overlaps.items() if problem.fatal}
        if reasons := alike(fatal):
            more = f"; and {len(reasons) - 3} other reasons" if reasons[3:] else ""
            raise Refused("; ".join(reasons[:3]) + more, lasting=len(fatal) == len(nodes))
        if not shared:
            have = ", ".join(f"{host} has {listed(cpus) or 'none'}" for host, cpus in list(usable_of.items())[:4])
            raise Refused(f"the nodes have no usable CPU in common ({have}); ranks are placed alike on all", False)
        notes += [
            f"note: {host} could use {named(cpus - shared)} too, which not all nodes have; ranks are placed alike"
            for host, cpus in usable_of.items()
            if cpus != shared
        ]
        if others := [host for host, facts in nodes.items() if _shape(facts) != _shape(first)]:
            notes.append(f"note: {named_hosts(others)}: other cores or NUMA nodes than here, where ranks are placed")
    return Pinning(pinning, settings, topology, shared, usable_of, nodes, tuple(notes))


def _shape(facts: NodeFacts) -> tuple[object, ...]:
    return facts.cores, facts.socket_cpus, [node.cpus for node in facts.numa or ()]


def _allowed(facts: NodeFacts) -> CpuSet:
    """The online CPUs that the job may use."""
    return parse(facts.cpus_allowed or "") & facts.topology.cpus


# Which CPUs ranks run on


@dataclass(frozen=True)
class Binding:
    """The CPUs of each rank of a node, by local rank number; identical on all nodes."""

    ranks: tuple[CpuSet, ...]

    @property
    def union(self) -> CpuSet:
        return NO_CPUS.union(*self.ranks)


def place(ranks: int, usable: CpuSet, topology: Topology, policy: Policy, width: Width = "cpu") -> Binding:
    """A CPU (`width` cpu), or the usable CPUs of a core, for each rank; reused from the first on if there are too few.

    spread: NUMA nodes in turn, alternating between sockets. pack: NUMA node after NUMA node. In both, one CPU of each
    core comes before siblings. Raises ValueError without a usable CPU.
    """
    if not usable:
        raise ValueError("there is no usable CPU")
    core_of = {cpu: core & usable for core in topology.cores for cpu in core} if width == "core" else {}
    order = _order(usable, topology, policy)
    places = list(dict.fromkeys(core_of.get(cpu, frozenset([cpu])) for cpu in order))
    return Binding(tuple(places[k % len(places)] for k in range(ranks)))


def _order(usable: CpuSet, topology: Topology, policy: Policy) -> Iterator[int]:
    """The usable CPUs in the order of a policy; CPUs that /sys does not list come last."""
    outside = topology.cpus - NO_CPUS.union(*topology.numa.values())
    numa = sorted(filter(None, [*topology.numa.values(), outside]), key=min)
    sockets = [list(filter(None, (node & socket & usable for node in numa))) for socket in topology.sockets]
    nodes = list(_in_turn(sockets) if policy == "spread" else chain.from_iterable(sockets))
    nodes += filter(None, [usable.difference(*nodes)])
    levels = []  # for each NUMA node: the first CPU of each core, then the second ..., each list in logical order
    for cpus in nodes:
        cores = [sorted(core & cpus) for core in topology.cores if core & cpus]
        levels.append(list(_rows([*cores, *([cpu] for cpu in sorted(cpus - topology.cpus))])))
    if policy == "spread":
        return chain.from_iterable(map(_in_turn, zip_longest(*levels, fillvalue=())))
    return chain.from_iterable(chain.from_iterable(levels))


def _in_turn(lists: Iterable[Sequence[_T]]) -> Iterator[_T]:
    """The first item of each list, then the second item of each, and so on."""
    return chain.from_iterable(_rows(lists))


def _rows(lists: Iterable[Sequence[_T]]) -> Iterator[list[_T]]:
    """A list of the first items of all lists, a list of their second items, and so on."""
    return ([item for item in row if item is not None] for row in zip_longest(*lists))
