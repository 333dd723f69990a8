"""Machines as small sysfs trees: what Linux says of CPUs, sockets and NUMA nodes, under a directory.

`Machine.write(root)` writes what Topology.read reads. What is drawn here was not copied from machines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iosweep.errors import Unanswered
from iosweep.node.cpus import CpuSet, Topology, listed


def _union(groups: Iterable[Collection[int]]) -> frozenset[int]:
    return frozenset().union(*groups)


def _file(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text + "\n", encoding="ascii")


@dataclass(frozen=True)
class Machine:
    """numa: node -> CPUs, none where it is memory alone; offline: CPUs that are switched off."""

    cores: Sequence[Collection[int]]
    sockets: Sequence[Collection[int]]
    numa: Mapping[int, Collection[int]]
    offline: Collection[int] = ()

    @property
    def cpus(self) -> frozenset[int]:
        """All that are online."""
        return frozenset().union(*self.cores) - frozenset(self.offline)

    @property
    def topology(self) -> Topology:
        """What is to be read of it; the order of the cores is that of `cores`."""

        def online(groups: Iterable[Collection[int]]) -> tuple[CpuSet, ...]:
            return tuple(filter(None, (frozenset(group) & self.cpus for group in groups)))

        numa = {node: cpus for node, group in self.numa.items() if (cpus := frozenset(group) & self.cpus)}
        return Topology(online(self.cores), online(self.sockets), numa)

    def write(self, root: Path) -> Path:
        """The tree under `root`, which is what Topology.read and a reader's `root` take."""
        cpus = root / "sys/devices/system/cpu"
        _file(cpus / "online", listed(self.cpus))
        for names, groups in (
            (("core_cpus_list", "thread_siblings_list"), self.cores),
            (("package_cpus_list", "core_siblings_list"), self.sockets),
        ):
            for group in groups:
                for cpu in set(group) & self.cpus:
                    for name in names:
                        _file(cpus / f"cpu{cpu}/topology/{name}", listed(set(group) & self.cpus))
        for node, group in self.numa.items():
            _file(root / f"sys/devices/system/node/node{node}/cpulist", listed(set(group) & self.cpus))
        return root

    def off(self, *offline: int) -> Machine:
        """The same with CPUs switched off."""
        return replace(self, offline=offline)


def machine(
    sockets: int = 2,
    numa_per_socket: int = 2,
    cores_per_numa: int = 14,
    threads: int = 1,
    interleaved: bool = False,
    adjacent: bool = False,
) -> Machine:
    """A regular machine. CPUs count through the cores of one NUMA node after another, or (interleaved) one of each in
    turn; second threads come after all first ones, or (adjacent) right behind theirs."""
    nodes = sockets * numa_per_socket
    total = nodes * cores_per_numa

    def core(node: int, k: int) -> frozenset[int]:
        number = k * nodes + node if interleaved else node * cores_per_numa + k
        if adjacent:
            return frozenset(range(number * threads, (number + 1) * threads))
        return frozenset(number + thread * total for thread in range(threads))

    of_node = [[core(node, k) for k in range(cores_per_numa)] for node in range(nodes)]
    per_socket = cores_per_numa * numa_per_socket
    cores = [c for cores in of_node for c in cores]
    return Machine(
        cores=cores,
        sockets=[_union(cores[s * per_socket : (s + 1) * per_socket]) for s in range(sockets)],
        numa={node: _union(cores) for node, cores in enumerate(of_node)},
    )


def tree(root: Path, **shape: int) -> Path:
    """A regular machine under `root`; the arguments are machine()'s."""
    return machine(**shape).write(root)


#: The documentation's: 56 CPUs on four NUMA nodes, 0-13, 14-27, 28-41, 42-55; WEKA on 24-27, the NIC in node 1.
WEKA_56 = machine(2, 2, 14)
#: 64 CPUs, even ones on NUMA node 0, odd ones on node 1; WEKA on P#56-63, which are L#28-31 and L#60-63.
INTERLEAVED_64 = machine(2, 1, 32, interleaved=True)
#: 96 CPUs on 48 cores, siblings 47,95.
HYPER_96 = machine(2, 1, 24, threads=2)
#: 192 CPUs on 96 cores, siblings 95,191.
AWS_192 = machine(2, 1, 48, threads=2)

#: A core for each fast CPU pair, then slow cores of one thread, four to an L2.
FAST_AND_SLOW = Machine(
    cores=[{0, 1}, {2, 3}, {4, 5}, {6, 7}, *({cpu} for cpu in range(8, 16))],
    sockets=[range(16)],
    numa={0: range(16)},
)
#: NUMA is switched off in the firmware: one node over both sockets.
ONE_NODE = replace(machine(2, 1, 4, threads=2), numa={0: range(16)})


def no_weka(argv: Sequence[str]) -> str:
    raise FileNotFoundError(argv[0])


def silent_weka(_: Sequence[str]) -> str:
    raise Unanswered("exit code 1, error: permission denied")
