"""Sets of CPUs, and the topology of a node. Pure, except Topology.read.

CPUs are named by the kernel's numbers (hwloc's P#), as WEKA, taskset and `--cpu-bind=map_cpu` take them. Slurm's
CpuSpecList counts in another order, hwloc's L#: Topology has both ways.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from iosweep.node.kernel_files import text
from iosweep.text import shortened

if TYPE_CHECKING:
    from xml.etree import ElementTree

CpuSet = frozenset[int]
NO_CPUS: CpuSet = frozenset()
#: No machine has more; a longer list is a slip (`0-99999999`).
MOST = 1 << 16


@lru_cache(10_000)  # merge reads the same few again and again
def parse(text: str) -> CpuSet:
    """`0-3,8` -> the set. Empty text is the empty set. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        if not (m := re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)):
            raise ValueError(f"{shortened(part)!r} is not a CPU or a range of CPUs; write a list such as 0-3,8")
        first, last = int(m[1]), int(m[2] or m[1])
        if last < first or last >= MOST:
            raise ValueError(f"{shortened(part)!r} is not a range of CPUs")
        found.update(range(first, last + 1))
    return frozenset(found)


def parsed(text: str | None) -> CpuSet:
    """The same of the text of a kernel or a program; the empty set if that is not a list."""
    try:
        return parse(text or "")
    except ValueError:
        return NO_CPUS


def listed(cpus: Iterable[int]) -> str:
    """The set -> `0-3,8`, as the kernel writes it."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in _runs(sorted(set(cpus))))


def mask(cpus: Iterable[int]) -> str:
    """The set -> `0x10f`, as srun's mask_cpu takes it."""
    return hex(sum(1 << cpu for cpu in set(cpus)))


def named(cpus: Collection[int]) -> str:
    """`CPU 3` or `CPUs 0-3,8`, for a sentence."""
    return f"CPU{'' if len(cpus) == 1 else 's'} {listed(cpus) or 'none'}"


#: What lies between sockets and cores, and can take turns in the CPUs' numbers: groups of cores with a cache.
_BETWEEN = ("cache/index3/shared_cpu_list", "cache/index2/shared_cpu_list")


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for k, number in enumerate(numbers):
        first = number if first is None else first
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            yield first, number
            first = None


@dataclass(frozen=True)
class Topology:
    """The CPUs of a node that are online.

    cores: the CPUs of each core, siblings together, in logical order: flattened this is hwloc's order of L#, and
    Slurm's. sockets: the CPUs of each. numa: NUMA node -> its CPUs; nodes without CPUs are left out.
    """

    cores: tuple[CpuSet, ...]
    sockets: tuple[CpuSet, ...]
    numa: Mapping[int, CpuSet]

    @property
    def logical(self) -> tuple[int, ...]:
        """L# -> P#."""
        return tuple(cpu for core in self.cores for cpu in sorted(core))

    @property
    def cpus(self) -> CpuSet:
        return frozenset(self.logical)

    @property
    def regular(self) -> bool:
        """Whether to_slurm and from_slurm hold: sockets alike, cores alike, CPUs numbered from 0 without a gap.

        Held against slurmd 22.05. It counts otherwise where CPUs are offline or cores differ in their threads.
        """
        shapes = {tuple(len(core) for core in self.cores if core <= socket) for socket in self.sockets}
        threads = {len(core) for core in self.cores}
        return len(shapes) == len(threads) == 1 and self.cpus == frozenset(range(len(self.cpus)))

    def with_siblings(self, cpus: Collection[int]) -> CpuSet:
        """The CPUs and those that share a core with them."""
        return frozenset(cpus).union(*(core for core in self.cores if core & set(cpus)))

    def to_slurm(self, cpus: Collection[int], cores: bool = False) -> CpuSet:
        """The kernel's numbers -> Slurm's, as CpuSpecList takes them. CPUs that are not here are left out.

        `cores`: Slurm counts cores, as it does where slurm.conf gives a node as many CPUs as it has cores (CPUTot) and
        its true ThreadsPerCore; it would ignore a list with higher numbers, and say so in its log alone.
        """
        return frozenset(number for number, one in enumerate(self._counted(cores)) if one & set(cpus))

    def from_slurm(self, numbers: Collection[int], cores: bool = False) -> CpuSet:
        """Slurm's numbers -> the kernel's. Numbers that are not here are left out."""
        return NO_CPUS.union(*(one for number, one in enumerate(self._counted(cores)) if number in numbers))

    def _counted(self, cores: bool) -> tuple[CpuSet, ...]:
        return self.cores if cores else tuple(frozenset([cpu]) for cpu in self.logical)

    def facts(self) -> dict[str, str]:
        """For the table of nodes: `cores` and `socket_cpus`, CPU sets separated by blanks; of_facts reads them."""
        return {"cores": " ".join(map(listed, self.cores)), "socket_cpus": " ".join(map(listed, self.sockets))}

    @staticmethod
    def of_facts(facts: Mapping[str, object]) -> Topology:
        """What `facts` and the column `numa` of the table of nodes say."""
        numa = facts.get("numa")
        nodes = [(int(one["node"]), one["cpus"]) for one in numa] if isinstance(numa, list) else []
        return Topology.of_texts(str(facts.get("cores") or ""), str(facts.get("socket_cpus") or ""), nodes)

    @staticmethod
    def of_texts(cores: str | None, socket_cpus: str | None, numa: Iterable[tuple[int, str | None]]) -> Topology:
        """As `facts` writes cores and sockets, with the number and the CPUs of each NUMA node."""
        nodes = {number: parse(cpus or "") for number, cpus in numa}
        cores_, sockets = (tuple(filter(None, map(parse, (text or "").split(" ")))) for text in (cores, socket_cpus))
        return Topology(cores_, sockets, {number: cpus for number, cpus in nodes.items() if cpus})

    @staticmethod
    def read(root: Path = Path("/")) -> Topology:
        """From the kernel's files. What they do not say (containers): every CPU a core of its own, on one socket."""
        system = root / "sys/devices/system"
        online = parsed(text(system / "cpu/online")) or _of_stat(text(root / "proc/stat") or "")
        numa = {
            int(node.name[4:]): cpus
            for node in (system / "node").glob("node[0-9]*")
            if (cpus := parsed(text(node / "cpulist")) & online)
        }

        def together(*names: str) -> dict[int, CpuSet]:
            """CPU -> those that share something with it, from the first of the files that says so."""
            of: dict[int, CpuSet] = {}
            for cpu in sorted(online):
                if cpu not in of:
                    sets = (parsed(text(system / f"cpu/cpu{cpu}" / name)) for name in names)
                    found = next(filter(None, sets), NO_CPUS) & online
                    of.update(dict.fromkeys(found, found))
            return of

        sockets = together("topology/package_cpus_list", "topology/core_siblings_list") or dict.fromkeys(online, online)
        cores = {c: frozenset([c]) for c in online} | together(
            "topology/core_cpus_list", "topology/thread_siblings_list"
        )
        of_node = {cpu: cpus for cpus in numa.values() for cpu in cpus}
        around = [sockets, of_node, *map(together, _BETWEEN)]

        def order(core: CpuSet) -> tuple[int, ...]:
            """hwloc orders what is inside one thing by its lowest CPU, from the widest to the narrowest."""
            cpu = min(core)
            widest_first = sorted((of[cpu] for of in around if cpu in of), key=len, reverse=True)
            return (*map(min, widest_first), cpu)

        return Topology(
            tuple(sorted(set(cores.values()), key=order)), tuple(sorted(set(sockets.values()), key=min)), numa
        )

    @staticmethod
    def of_hwloc(document: str) -> Topology:
        """From what `lstopo-no-graphics --disallowed --of xml` prints: without --disallowed it leaves out what the
        cgroup of its caller does, and counts L# without these. Raises ValueError."""
        import xml.etree.ElementTree as ElementTree  # late: agents do without

        try:
            top = ElementTree.fromstring(document)  # noqa: S314 - of a program of this machine; no network, no entities
            every = {kind: [o for o in top.iter("object") if o.get("type") == kind] for kind in _KINDS}
            cores = [_pus(core) for core in every["Core"]] or [_pus(pu) for pu in every["PU"]]
            sockets = [_pus(socket) for socket in every["Package"]] or [NO_CPUS.union(*cores)]
            nodes = {int(o.get("os_index", "0")): _of_bits(o.get("cpuset", "")) for o in every["NUMANode"]}
        except (ElementTree.ParseError, ValueError) as error:
            raise ValueError(f"not a topology of hwloc: {error}") from None
        if not any(cores):
            raise ValueError("not a topology of hwloc: it has no CPU")
        numa: dict[int, CpuSet] = {}
        for node, cpus in sorted(nodes.items()):  # a node of memory alone has the CPUs of the one that it is near to
            if own := cpus - NO_CPUS.union(*numa.values()):
                numa[node] = own
        return Topology(tuple(filter(None, cores)), tuple(filter(None, sockets)), numa)


_KINDS = ("Package", "NUMANode", "Core", "PU")


def _pus(of: ElementTree.Element) -> CpuSet:
    """The CPUs of an object of hwloc."""
    return frozenset(int(o.get("os_index", "")) for o in of.iter("object") if o.get("type") == "PU")


def _of_bits(text: str) -> CpuSet:
    """hwloc's `0x0000ffff,0xffffffff`: words of 32 bits, the highest first; empty for zero."""
    bits = 0
    for word in text.split(","):
        bits = bits << 32 | int(word or "0", 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _of_stat(stat: str) -> CpuSet:
    """The CPUs of which /proc/stat counts the time: those online."""
    return frozenset(int(number) for number in re.findall(r"^cpu(\d+) ", stat, re.MULTILINE))
