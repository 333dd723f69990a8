"""Which CPUs the ranks and workers of a node run on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Literal, TypeVar

from iosweep.node.cpus import NO_CPUS, CpuSet, Topology

Policy = Literal["spread", "pack", "near_nic"]
Width = Literal["cpu", "core"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Binding:
    """The CPUs of each rank of a node, by its number there, and all that may be used. The same on every node.

    `crowded`: ranks share a core.
    """

    ranks: tuple[CpuSet, ...]
    usable: CpuSet
    crowded: bool = False

    @property
    def union(self) -> CpuSet:
        return NO_CPUS.union(*self.ranks)


def usable(allowed: Collection[int], reserved: Collection[int]) -> CpuSet:
    """The allocation's CPUs without those that the file system keeps for itself (siblings are among these)."""
    return frozenset(allowed) - frozenset(reserved)


def common(usable_of: Mapping[str, CpuSet]) -> tuple[CpuSet, dict[str, CpuSet]]:
    """What all nodes have in common, and host -> what a node has beyond that, where it differs."""
    shared = frozenset.intersection(*usable_of.values())
    return shared, {host: cpus - shared for host, cpus in usable_of.items() if cpus != shared}


def place(
    ranks: int, usable: CpuSet, topology: Topology, policy: Policy, width: Width = "cpu", near: CpuSet = NO_CPUS
) -> Binding:
    """A CPU (`width` cpu), or the usable CPUs of a core, for each of `ranks`; they begin anew where there are too few.

    spread: in turn over NUMA nodes, and those of each socket in turn; one per core before siblings. pack: NUMA node
    after NUMA node, in each one per core before siblings. near_nic: as pack, first those in `near`, the NIC's CPUs.
    Raises ValueError without a usable CPU.
    """
    if not usable:
        raise ValueError("there is no usable CPU")
    core_of = {cpu: core & usable for core in topology.cores for cpu in core} if width == "core" else {}
    order = _order(usable, topology, policy, near)
    places = list(dict.fromkeys(core_of.get(cpu, frozenset([cpu])) for cpu in order))
    chosen = tuple(places[k % len(places)] for k in range(ranks))
    return Binding(chosen, usable, ranks > sum(any(core & cpus for cpus in chosen) for core in topology.cores))


def _order(usable: CpuSet, topology: Topology, policy: Policy, near: CpuSet) -> Iterator[int]:
    if policy == "near_nic":
        yield from _order(usable & near, topology, "pack", NO_CPUS)
        yield from _order(usable - near, topology, "pack", NO_CPUS)
        return
    nodes = [list(_levels(cpus, topology)) for cpus in _numa_nodes(usable, topology, policy == "spread")]
    if policy == "pack":
        yield from chain.from_iterable(chain.from_iterable(nodes))
        return
    for level in zip_longest(*nodes, fillvalue=()):
        yield from _in_turn(level)


def _numa_nodes(usable: CpuSet, topology: Topology, in_turn: bool) -> list[CpuSet]:
    """The usable CPUs of each NUMA node, socket after socket or these in turn; what /sys says nothing of comes last."""
    beside = topology.cpus - NO_CPUS.union(*topology.numa.values())
    numa = sorted(filter(None, [*topology.numa.values(), beside]), key=min)
    sockets = [list(filter(None, (node & socket & usable for node in numa))) for socket in topology.sockets]
    found = list(_in_turn(sockets) if in_turn else chain.from_iterable(sockets))
    return [*found, *filter(None, [usable.difference(*found)])]


def _levels(cpus: CpuSet, topology: Topology) -> Iterator[list[int]]:
    """The first CPU of every core, then the second ... , each in logical order."""
    cores = [sorted(core & cpus) for core in topology.cores if core & cpus]
    cores += [[cpu] for cpu in sorted(cpus - topology.cpus)]  # /sys says nothing of it
    return _rows(cores)


def _in_turn(lists: Iterable[Sequence[_T]]) -> Iterator[_T]:
    """One of each, again and again, until all are used up."""
    return chain.from_iterable(_rows(lists))


def _rows(lists: Iterable[Sequence[_T]]) -> Iterator[list[_T]]:
    """The first of each, the second of each that has one, and so on."""
    every = list(lists)
    for row in range(max(map(len, every), default=0)):
        yield [one[row] for one in every if row < len(one)]
