"""Machines as small sysfs trees: what Linux says of CPUs, sockets, NUMA nodes and caches, under a directory.

`Machine.write(root)` writes what both Topology.read and hwloc (HWLOC_FSROOT) read. What is drawn here was not copied
from machines; tests/node/test_cpus.py keeps the order that a real hwloc reads out of every one of these trees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iosweep.errors import Unanswered
from iosweep.node.cpus import CpuSet, Topology, listed


def _union(groups: Iterable[Collection[int]]) -> frozenset[int]:
    return frozenset().union(*groups)


def _both(place: Path, name: str, cpus: Collection[int], cache: bool = False) -> None:
    """A set as the kernel shows it twice: as a list (for us) and as a mask (for hwloc)."""
    _file(place / f"{name}_list", listed(cpus))
    _file(place / (f"{name}_map" if cache else name), _words(cpus))


def _words(cpus: Collection[int]) -> str:
    """`ffffffff,00000000`: words of 32 bits, the highest first, as the kernel writes a mask."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [bits >> shift & 0xFFFFFFFF for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(f"{word:08x}" for word in reversed(words))


def _file(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text + "\n", encoding="ascii")


@dataclass(frozen=True)
class Machine:
    """cores, sockets, caches (L3), modules (L2): their CPUs; numa: node -> CPUs, none where it is memory alone;
    offline: CPUs that are switched off; initiators: a node of memory alone -> the one whose it is."""

    cores: Sequence[Collection[int]]
    sockets: Sequence[Collection[int]]
    numa: Mapping[int, Collection[int]]
    caches: Sequence[Collection[int]] = ()
    modules: Sequence[Collection[int]] = ()
    offline: Collection[int] = ()
    initiators: Mapping[int, int] = field(default_factory=dict)

    @property
    def cpus(self) -> frozenset[int]:
        """All that are online."""
        return frozenset().union(*self.cores) - frozenset(self.offline)

    @property
    def topology(self) -> Topology:
        """What is to be read of it; the order of the cores is that of `cores`."""

        def online(groups: Iterable[Collection[int]]) -> tuple[CpuSet, ...]:
            return tuple(filter(None, (frozenset(group) & self.cpus for group in groups)))

        return Topology(
            online(self.cores), online(self.sockets), {n: c for n in self.numa if (c := node_cpus(self, n))}
        )

    def write(self, root: Path) -> Path:
        """The tree under `root`, which is what Topology.read and a reader's `root` take."""
        cpus, nodes = root / "sys/devices/system/cpu", root / "sys/devices/system/node"
        everything = self.cpus | set(self.offline)
        for name in ("present", "possible"):
            _file(cpus / name, listed(everything))
        _file(cpus / "online", listed(self.cpus))
        for kind, groups in (("core", self.cores), ("package", self.sockets)):
            for number, group in enumerate(groups):
                for cpu in set(group) & self.cpus:
                    place = cpus / f"cpu{cpu}/topology"
                    _both(place, f"{kind}_cpus", set(group) & self.cpus)
                    _both(place, "thread_siblings" if kind == "core" else "core_siblings", set(group) & self.cpus)
                    _file(place / ("core_id" if kind == "core" else "physical_package_id"), str(number))
        for cpu in self.cpus - {0}:
            _file(cpus / f"cpu{cpu}/online", "1")
        for cpu in self.offline:
            _file(cpus / f"cpu{cpu}/online", "0")
        for level, groups in ((2, self.modules), (3, self.caches)):
            for group in groups:
                for cpu in set(group) & self.cpus:
                    place = cpus / f"cpu{cpu}/cache/index{level}"
                    _both(place, "shared_cpu", set(group) & self.cpus, cache=True)
                    for name, value in (("level", str(level)), ("type", "Unified"), ("size", "32768K")):
                        _file(place / name, value)
        for name in ("online", "possible", "has_normal_memory"):
            _file(nodes / name, listed(self.numa))
        for node, group in self.numa.items():
            _file(nodes / f"node{node}/cpulist", listed(set(group) & self.cpus))
            _file(nodes / f"node{node}/cpumap", _words(set(group) & self.cpus))
            _file(nodes / f"node{node}/meminfo", f"Node {node} MemTotal:       65536 kB")
            _file(nodes / f"node{node}/distance", " ".join("10" if n == node else "21" for n in self.numa))
        for memory, of in self.initiators.items():
            (nodes / f"node{memory}/access0/initiators/node{of}").mkdir(parents=True, exist_ok=True)
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
    caches_per_numa: int = 1,
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
    size = -(-cores_per_numa // caches_per_numa)
    return Machine(
        cores=cores,
        sockets=[_union(cores[s * per_socket : (s + 1) * per_socket]) for s in range(sockets)],
        numa={node: _union(cores) for node, cores in enumerate(of_node)},
        caches=[_union(cores[k : k + size]) for cores in of_node for k in range(0, cores_per_numa, size)],
    )


def node_cpus(machine: Machine, node: int) -> CpuSet:
    """The CPUs of a NUMA node that are online."""
    return frozenset(machine.numa[node]) & machine.cpus


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
    caches=[range(16)],
    modules=[{0, 1}, {2, 3}, {4, 5}, {6, 7}, range(8, 12), range(12, 16)],
)
#: Neighbouring CPUs are in different L3 groups.
INTERLEAVED_CACHES = replace(
    machine(1, 1, 16),
    cores=[{cpu} for k in range(4) for cpu in range(k, 16, 4)],
    caches=[range(k, 16, 4) for k in range(4)],
)
#: Likewise with pairs of cores that share an L2.
INTERLEAVED_MODULES = replace(
    machine(1, 1, 8),
    cores=[{cpu} for cpu in (0, 2, 1, 3, 4, 6, 5, 7)],
    modules=[{0, 2}, {1, 3}, {4, 6}, {5, 7}],
)
#: Four NUMA nodes on two sockets in turn, two threads, two L3 groups to a node.
ALL_INTERLEAVED = machine(2, 2, 4, threads=2, interleaved=True, caches_per_numa=2)
#: The L3 of a socket is wider than its two NUMA nodes.
WIDE_CACHES = replace(machine(2, 2, 4), caches=[range(0, 8), range(8, 16)])
#: NUMA is switched off in the firmware: one node over both sockets.
ONE_NODE = replace(machine(2, 1, 4, threads=2), numa={0: range(16)})
#: Numbers do not follow the CPUs': sockets and NUMA nodes the other way round, with gaps.
BACKWARDS = replace(machine(2, 1, 4), sockets=[range(4, 8), range(4)], numa={8: range(4), 0: range(4, 8)})
#: Nodes 2 and 3 are memory alone: CXL, or the fast memory of a processor; hwloc gives them the CPUs of 0 and 1.
FAR_MEMORY = replace(machine(2, 1, 4), numa={0: range(4), 1: range(4, 8), 2: (), 3: ()}, initiators={2: 0, 3: 1})
#: Eight threads of a core, one behind the other.
EIGHT_THREADS = machine(2, 1, 3, threads=8, adjacent=True)
#: Every machine by name, for tests that look at all of them.
MACHINES = {
    "weka_56": WEKA_56,
    "interleaved_64": INTERLEAVED_64,
    "hyper_96": HYPER_96,
    "aws_192": AWS_192,
    "fast_and_slow": FAST_AND_SLOW,
    "interleaved_caches": INTERLEAVED_CACHES,
    "interleaved_modules": INTERLEAVED_MODULES,
    "all_interleaved": ALL_INTERLEAVED,
    "wide_caches": WIDE_CACHES,
    "one_node": ONE_NODE,
    "backwards": BACKWARDS,
    "far_memory": FAR_MEMORY,
    "eight_threads": EIGHT_THREADS,
    "first_off": ALL_INTERLEAVED.off(0, 5, 31),
    "threads_off": machine(2, 2, 2, threads=2).off(*range(8, 16)),
    "socket_off": machine(2, 1, 4).off(*range(4)),
}


def weka_56(root: Path) -> Path:
    """See WEKA_56."""
    return WEKA_56.write(root)


def interleaved_64(root: Path) -> Path:
    """See INTERLEAVED_64."""
    return INTERLEAVED_64.write(root)


def hyper_96(root: Path) -> Path:
    """See HYPER_96."""
    return HYPER_96.write(root)


def aws_192(root: Path) -> Path:
    """See AWS_192."""
    return AWS_192.write(root)


def nic(root: Path, name: str, cpus: Collection[int], numa: int, speed: int = 100_000, up: bool = True) -> None:
    """A network interface and the CPUs that it is near to. `speed` in Mbit/s."""
    place = root / f"sys/class/net/{name}"
    _file(place / "device/local_cpulist", listed(cpus))
    _file(place / "device/numa_node", str(numa))
    _file(place / "flags", "0x1003" if up else "0x1002")
    _file(place / "operstate", "up" if up else "down")
    _file(place / "speed", str(speed))


def no_weka(argv: Sequence[str]) -> str:
    raise FileNotFoundError(argv[0])


def silent_weka(_: Sequence[str]) -> str:
    raise Unanswered("exit code 1, error: permission denied")
