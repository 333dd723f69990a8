"""The rates of the nodes while a command runs, from the file `rates`; none of an old one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from iosweep.hostlist import hosts
from iosweep.results import current_rates
from iosweep.results.current_rates import CurrentRates
from iosweep.text import human_count, printable
from iosweep.units import human_duration, human_size

#: Nodes whose rates differ by less than this factor are alike.
_ALIKE = 1.1
#: Nodes that are named one by one.
_MOST_NODES = 4
#: A direction with less than this share of all bytes is left out.
_LITTLE = 0.01
#: Bytes per second of each node that are none of the measurement: a process that waits for libaio reads 8 at a time.
_NONE = 1024.0
_WORDS = {
    "tool": "the tool's processes",
    "client": "the file system's client",
    "device": "the block devices",
    "network": "the network",
}


@dataclass(frozen=True)
class OfNode:
    """`source`: whose counters its rates are from: tool, client, device or network."""

    host: str
    source: str
    read_bytes_per_s: float
    written_bytes_per_s: float

    @property
    def bytes_per_s(self) -> float:
        return self.read_bytes_per_s + self.written_bytes_per_s


@dataclass(frozen=True)
class Running:
    """A command that runs. `phases`: empty while a data set is prepared. `began`, `at`: when it began, and when the
    newest rates arrived, in seconds since the epoch. `silent`: how many nodes take part and sent no rates lately;
    `silent_hosts`: their names, many of them shortened, empty if unknown. `nodes`: the others, the slowest first. Rates
    are sums over these."""

    allocation: str
    point: str
    repetition: int
    phases: str
    began: float
    at: float
    read_bytes_per_s: float
    written_bytes_per_s: float
    silent: int
    silent_hosts: str
    nodes: tuple[OfNode, ...]


class Rates:
    """Looks again and again."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._at: float | None = None
        self._changed_s: float | None = None

    def look(self, now: float) -> Running | None:
        """What runs now; None where no rates came lately. `now`: seconds since the epoch."""
        if (found := current_rates.read(self._results)) is None:
            return None
        if found.at != self._at:
            # the first version may be of any age
            self._changed_s = None if self._at is None else time.monotonic()
            self._at = found.at
        unchanged_s = None if self._changed_s is None else time.monotonic() - self._changed_s
        return running(found) if is_recent(found, now, unchanged_s) else None


def is_recent(found: CurrentRates, now: float, unchanged_s: float | None) -> bool:
    """Whether rates are those of now, by their time. `unchanged_s`: for how long the file has not changed, if it has
    changed since it was seen first; then the clocks of the two nodes may differ. Pure."""
    longest_s = current_rates.longest_s(max((node.over_s for node in found.nodes.values()), default=0.0))
    if unchanged_s is not None:
        return unchanged_s <= longest_s
    return abs(now - found.at) <= longest_s


def running(found: CurrentRates) -> Running | None:
    """None without rates of any node. Pure."""
    nodes = [
        OfNode(printable(host), one.source, one.read_bytes_per_s, one.written_bytes_per_s)
        for host, one in found.nodes.items()
    ]
    if not nodes:
        return None
    return Running(
        allocation=found.allocation,
        point=found.point,
        repetition=found.repetition,
        phases=printable(found.phases),
        began=found.began,
        at=found.at,
        read_bytes_per_s=sum(node.read_bytes_per_s for node in nodes),
        written_bytes_per_s=sum(node.written_bytes_per_s for node in nodes),
        silent=max(0, found.expected - len(nodes)),
        silent_hosts=printable(found.silent),
        nodes=tuple(sorted(nodes, key=lambda node: node.bytes_per_s)),
    )


def lines(running: Running, now: float) -> tuple[str, str]:
    """What runs and moves, and where these rates are from. Pure."""
    doing = running.phases or "preparing a data set"
    name = f"{running.point.rpartition('.')[0]} r{running.repetition}"
    since = human_duration(max(0.0, now - running.began))
    sources = " and ".join(words for source, words in _WORDS.items() if source in {n.source for n in running.nodes})
    nodes = "; ".join(filter(None, [_nodes(running.nodes), _silent(running)]))
    return (
        f"{doing} of {name} for {since}: {_moved(running)}",
        f"preliminary, by the counters of {sources}" + (f"; {nodes}" if nodes else ""),
    )


def _moved(running: Running) -> str:
    least = max(_NONE * len(running.nodes), _LITTLE * (running.read_bytes_per_s + running.written_bytes_per_s))
    moved = [
        f"{way} {human_size(rate)}/s"
        for way, rate in (("reads", running.read_bytes_per_s), ("writes", running.written_bytes_per_s))
        if rate > least
    ]
    return ", ".join(moved) or "no bytes are moved"


def _nodes(nodes: Sequence[OfNode]) -> str:
    """Empty for a single node."""
    if len(nodes) < 2:
        return ""
    slowest, fastest = nodes[0], nodes[-1]
    if fastest.bytes_per_s <= _ALIKE * slowest.bytes_per_s:
        middle = median(node.bytes_per_s for node in nodes)
        return f"{hosts([node.host for node in nodes])}: about {human_size(middle)}/s each"
    if len(nodes) <= _MOST_NODES:
        return ", ".join(map(_rate, nodes))
    return f"slowest {_rate(slowest)}, fastest {_rate(fastest)} of {human_count(len(nodes), 'node')}"


def _rate(node: OfNode) -> str:
    return f"{node.host} {human_size(node.bytes_per_s)}/s"


def _silent(running: Running) -> str:
    who = running.silent_hosts or human_count(running.silent, "node")
    return f"nothing new from {who}" if running.silent else ""
