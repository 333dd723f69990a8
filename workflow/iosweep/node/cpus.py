"""Sets of CPUs, and the topology of a node. Pure, except Topology.read.

CPUs are named by the kernel's numbers (hwloc's P#), as WEKA and taskset take them. Slurm's
CpuSpecList counts in another order, hwloc's L#.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from iosweep.node.procfs import text
from iosweep.text import shortened

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


def named(cpus: Collection[int]) -> str:
    """`CPU 3` or `CPUs 0-3,8`, for a sentence."""
    return f"CPU{'' if len(cpus) == 1 else 's'} {listed(cpus) or 'none'}"


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

    def with_siblings(self, cpus: Collection[int]) -> CpuSet:
        """The CPUs and those that share a core with them."""
        return frozenset(cpus).union(*(core for core in self.cores if core & set(cpus)))

    def to_slurm(self, cpus: Collection[int]) -> CpuSet:
        """The kernel's numbers -> Slurm's, as CpuSpecList takes them. CPUs that are not here are left out."""
        return frozenset(number for number, cpu in enumerate(self.logical) if cpu in cpus)

    def facts(self) -> dict[str, str]:
        """For the table of nodes: `cores` and `socket_cpus`, CPU sets separated by blanks; of_texts reads them."""
        return {"cores": " ".join(map(listed, self.cores)), "socket_cpus": " ".join(map(listed, self.sockets))}

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
        around = [sockets, of_node]

        def order(core: CpuSet) -> tuple[int, ...]:
            """hwloc orders what is inside one thing by its lowest CPU, from the widest to the narrowest."""
            cpu = min(core)
            widest_first = sorted((of[cpu] for of in around if cpu in of), key=len, reverse=True)
            return (*map(min, widest_first), cpu)

        return Topology(
            tuple(sorted(set(cores.values()), key=order)), tuple(sorted(set(sockets.values()), key=min)), numa
        )


def _of_stat(stat: str) -> CpuSet:
    """The CPUs of which /proc/stat counts the time: those online."""
    return frozenset(int(number) for number in re.findall(r"^cpu(\d+) ", stat, re.MULTILINE))
