"""The nodes that measured: what they share, what they differ by, and what to look at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis import formats, titles
from iosweep.analysis.data import Campaign
from iosweep.analysis.data import Node as NodeRow
from iosweep.text import human_count

#: Less of the memory available than this is worth a note.
_LITTLE_MEMORY = 0.1

Lines = tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A fact of a node, in lines. Without any, it is not recorded."""

    lines: Lines
    odd: bool  # not as on most nodes

    @property
    def long(self) -> bool:
        return any(len(line) > 50 for line in self.lines)


@dataclass(frozen=True)
class Node:
    host: str
    results: int  # rows of the results that were measured with these facts
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Nodes:
    alike: tuple[tuple[str, Lines], ...]  # facts that are the same on all nodes: title, value
    differing: tuple[str, ...]  # titles of the others
    rows: tuple[Node, ...]
    notes: tuple[str, ...]  # what may spoil figures: a note, no verdict

    @property
    def many(self) -> bool:
        """Too many to read them all."""
        return len(self.rows) > 20

    @property
    def odd(self) -> tuple[Node, ...]:
        """Those with a fact that most others do not have."""
        return tuple(node for node in self.rows if any(cell.odd for cell in node.cells))


def of(campaign: Campaign) -> Nodes | None:
    """The nodes of a campaign, or None where none has measured."""
    nodes = sorted(campaign.nodes, key=lambda node: (formats.natural(node.host), node.node))
    if not nodes:
        return None
    counts = campaign.about.results_of_nodes
    found = {title: [tell(node) for node in nodes] for title, tell in (_STABLE | _CHANGING).items()}
    differing = [title for title, values in found.items() if len(set(values)) > 1]
    odd = {title: _odd(found[title]) if title in _STABLE else [False] * len(nodes) for title in differing}
    return Nodes(
        alike=tuple((title, values[0]) for title, values in found.items() if title not in differing),
        differing=tuple(differing),
        rows=tuple(
            Node(
                node.host,
                counts.get(node.node, 0),
                tuple(Cell(found[title][i], odd[title][i]) for title in differing),
            )
            for i, node in enumerate(nodes)
        ),
        notes=tuple(_notes(nodes)),
    )


def _odd(values: Sequence[Lines]) -> list[bool]:
    """Which values are not those of most nodes; none where most have none in common."""
    common, count = Counter(values).most_common(1)[0]
    return [2 * count > len(values) and value != common for value in values]


def _notes(nodes: Sequence[NodeRow]) -> Iterator[str]:
    found: dict[str, dict[str, None]] = {}
    for node in nodes:
        for text in _problems(node):
            found.setdefault(text, {})[node.host] = None
    for text, hosts in found.items():
        yield f"{text}: {formats.hosts(hosts)}." if len({n.host for n in nodes}) > 1 else f"{text}."


def _problems(node: NodeRow) -> Iterator[str]:
    if node.governor and node.governor != "performance":
        yield f"Frequency governor {node.governor}, not performance"
    if (share := _available(node)) is not None and share < _LITTLE_MEMORY:
        yield f"Less than {100 * _LITTLE_MEMORY:.0f} % of the memory was available"
    for nic in node.nics or ():
        if nic.state == "down":
            yield f"Network interface {nic.name} is on, but has no link"


def _available(node: NodeRow) -> float | None:
    available, memory = node.memory_available_bytes, node.memory_bytes
    return available / memory if available is not None and memory else None


def _size(value: int) -> str:
    return formats.quantity(value, formats.SIZE)


def _one(name: str) -> Callable[[NodeRow], Lines]:
    return lambda node: (value,) if (value := getattr(node, name)) else ()


def _cpus(node: NodeRow) -> Lines:
    parts = [
        human_count(count, noun)
        for count, noun in ((node.cpus, "CPU"), (node.sockets, "socket"), (node.threads_per_core, "thread"))
        if count
    ]
    if node.threads_per_core:
        parts[-1] += " per core"
    return (", ".join(parts),) if parts else ()


def _reserved(node: NodeRow) -> Lines:
    if node.reserved_sources is None:
        return ()
    return ("not known which" if node.reserved_cpus is None else node.reserved_cpus or "none",)


def _numa(node: NodeRow) -> Lines:
    return tuple(
        f"{one.node}: CPUs {one.cpus or 'none'}" + (f", {_size(one.memory_bytes)}" if one.memory_bytes else "")
        for one in node.numa or ()
    )


def _memory(node: NodeRow) -> Lines:
    return (_size(node.memory_bytes),) if node.memory_bytes else ()


def _network(node: NodeRow) -> Lines:
    lines = []
    for nic in node.nics or ():
        speed = nic.state == "up" and nic.speed_bits_per_s
        parts = [nic.name, nic.state, f"{speed / 1e9:g} Gbit/s" if speed else ""]
        line = " ".join(part for part in parts if part) + (f" ({nic.driver})" if nic.driver else "")
        lines.append(line if nic.numa_node is None else f"{line}, NUMA node {nic.numa_node}")
    return tuple(lines)


def _memory_available(node: NodeRow) -> Lines:
    share, available = _available(node), node.memory_available_bytes
    return () if share is None or available is None else (f"{_size(available)} ({100 * share:.0f} %)",)


def _load(node: NodeRow) -> Lines:
    loads = (node.load_1_min, node.load_5_min, node.load_15_min)
    return () if None in loads else (", ".join(f"{load:.2f}" for load in loads),)


def _room(node: NodeRow) -> Lines:
    lines = []
    if node.target_bytes and node.target_free_bytes is not None:
        lines.append(f"{_size(node.target_free_bytes)} of {_size(node.target_bytes)}")
    if node.target_inodes and node.target_free_inodes is not None:
        lines.append(f"{node.target_free_inodes:,} of {node.target_inodes:,} inodes")
    return tuple(lines)


def _tools(node: NodeRow) -> Lines:
    return tuple(f"{titles.program(tool.name, tool.version)}, {tool.path}" for tool in node.tools or ())


def _read(node: NodeRow) -> Lines:
    return (node.read_at.replace("T", " "),) if node.read_at else ()


_STABLE: dict[str, Callable[[NodeRow], Lines]] = {
    "system": _one("os"),
    "kernel": _one("kernel"),
    "CPU": _one("cpu_model"),
    "CPUs": _cpus,
    "allowed CPUs": _one("cpus_allowed"),
    "reserved CPUs": _reserved,
    "NUMA nodes": _numa,
    "frequency governor": _one("governor"),
    "clock": _one("clocksource"),
    "transparent huge pages": _one("transparent_hugepages"),
    "memory": _memory,
    "network": _network,
    "mount of the target": _one("mount"),
}

#: Another in each run: that these differ says nothing.
_CHANGING: dict[str, Callable[[NodeRow], Lines]] = {
    "memory available": _memory_available,
    "load over 1, 5, 15 min": _load,
    "free on the target": _room,
    "tools": _tools,
    "read at": _read,
}
