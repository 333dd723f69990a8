"""The CPUs of the nodes: a picture for all that are alike, what is wrong with them, and what was proven. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis import formats
from iosweep.analysis.data import Campaign, CheckRow, Node, Row
from iosweep.node.cpus import CONFIGURATION, NO_CPUS, CpuSet, Overlap, Topology, listed, named, overlap, parse
from iosweep.text import human_count

#: Pictures that are shown; other nodes are described in words.
MOST = 8

#: State of a CPU -> what the legend calls it, in the order of the legend.
STATES = {
    "conflict": "reserved, and used all the same",
    "stray": "used, though not in the allocation",
    "used": "used by ranks and workers",
    "free": "usable, not used",
    "reserved": "reserved",
    "outside": "not in the allocation",
}


@dataclass(frozen=True)
class Cpu:
    number: int  # the kernel's, P#
    state: str  # of STATES
    title: str


@dataclass(frozen=True)
class Numa:
    """The CPUs of a NUMA node, on one socket."""

    title: str
    cores: tuple[tuple[Cpu, ...], ...]  # siblings together


@dataclass(frozen=True)
class Socket:
    title: str
    numas: tuple[Numa, ...]


@dataclass(frozen=True)
class Picture:
    """Of nodes that look the same."""

    hosts: str
    about: str  # how many CPUs, and how they hang together
    legend: tuple[tuple[str, str, int, str], ...]  # state, what it means, how many CPUs, which
    reserved: tuple[str, ...]  # what said which CPUs are reserved
    sockets: tuple[Socket, ...]

    @property
    def wrong(self) -> bool:
        """Whether something runs where it must not."""
        return any(state in ("conflict", "stray") for state, *_ in self.legend)


@dataclass(frozen=True)
class Cpus:
    told: tuple[str, ...]  # what was bound
    problems: tuple[tuple[str, Overlap], ...]  # nodes, and which reserved CPUs a job may use there
    pictures: tuple[Picture, ...]  # those that are shown
    others: tuple[Picture, ...]


def of(campaign: Campaign) -> Cpus | None:
    """The CPUs of a campaign's nodes; None where no node recorded any."""
    told = tuple(_told(campaign))
    alike: dict[tuple[object, ...], list[Node]] = {}
    for node in sorted(campaign.nodes, key=lambda node: formats.natural(node.host)):
        if node.cores:
            alike.setdefault(_looks(node), []).append(node)
    pictures = sorted(map(_picture, alike.values()), key=lambda picture: not picture.wrong)
    if not pictures and not any(row.pinning for row in campaign.rows):
        return None
    return Cpus(
        told,
        tuple((formats.hosts(hosts), one) for one, hosts in _overlaps(campaign).items()),
        tuple(pictures[:MOST]),
        tuple(pictures[MOST:]),
    )


# pictures


def _looks(node: Node) -> tuple[object, ...]:
    """Everything that a node's picture shows."""
    numa = tuple((one.node, one.cpus) for one in node.numa or ())
    cpus = (node.cores, node.socket_cpus, node.cpus_allowed, node.reserved_cpus, node.used_cpus)
    return (*cpus, numa, tuple(_near(node).items()), tuple(_reserved(node)))


def _picture(nodes: Sequence[Node]) -> Picture:
    node = nodes[0]
    topology = node.topology
    allowed = topology.cpus if node.cpus_allowed is None else parse(node.cpus_allowed)
    reserved, used = parse(node.reserved_cpus or ""), parse(node.used_cpus or "")
    states = {cpu: _state(cpu in allowed, cpu in reserved, cpu in used) for cpu in topology.logical}
    owners = _owners(node)
    cpus = {
        cpu: Cpu(cpu, states[cpu], f"P#{cpu}, L#{place}: {_says(cpu, states[cpu], allowed, reserved, owners)}")
        for place, cpu in enumerate(topology.logical)
    }
    return Picture(
        hosts=formats.hosts(node.host for node in nodes),
        about=_about(topology),
        legend=tuple(
            (state, title, len(own), listed(own))
            for state, title in STATES.items()
            if (own := [cpu for cpu in topology.logical if states[cpu] == state])
        ),
        reserved=tuple(_reserved(node)),
        sockets=tuple(_sockets(topology, cpus, _near(node))),
    )


def _state(allowed: bool, reserved: bool, used: bool) -> str:
    if used:
        return "conflict" if reserved else "used" if allowed else "stray"
    return "reserved" if reserved else "free" if allowed else "outside"


def _says(cpu: int, state: str, allowed: CpuSet, reserved: CpuSet, owners: Mapping[str, CpuSet]) -> str:
    text = STATES[state]
    if cpu in reserved:
        whose = [source for source, cpus in owners.items() if cpu in cpus]
        text += f" ({', '.join(whose) or 'sibling of a reserved CPU'})"
        text += "" if cpu in allowed else ", not in the allocation"
    return text


def _owners(node: Node) -> dict[str, CpuSet]:
    """Source -> CPUs that it names. A source may have said several things."""
    found: dict[str, CpuSet] = {}
    for one in node.reserved_sources or ():
        found[one.source] = found.get(one.source, NO_CPUS) | parse(one.cpus or "")
    return found


def _reserved(node: Node) -> Iterator[str]:
    """Which CPUs are reserved, and what said so."""
    sources = node.reserved_sources
    if sources is None:
        yield "Nobody looked for reserved CPUs."
        return
    if node.reserved_cpus is None:
        yield "CPUs are reserved, but it is not known which."
    elif not node.reserved_cpus:
        yield "No CPU is reserved."
    for one in sources:
        which = f"{named(parse(one.cpus))}: " if one.cpus else ""
        says = "" if one.source == CONFIGURATION else f" ({one.says})"
        yield f"{which}{one.source}{says}"


def _near(node: Node) -> dict[int, str]:
    """NUMA node -> network interfaces there that are up."""
    found: dict[int, str] = {}
    for nic in node.nics or ():
        if nic.state == "up" and nic.numa_node is not None:
            found[nic.numa_node] = ", ".join(filter(None, [found.get(nic.numa_node), nic.name]))
    return found


def _about(topology: Topology) -> str:
    """64 CPUs: 2 sockets, 4 NUMA nodes, 32 cores, whose siblings stand in one frame"""
    parts = [human_count(len(topology.sockets), "socket")]
    parts += [human_count(len(topology.numa), "NUMA node")] if topology.numa else []
    parts += [human_count(len(topology.cores), "core")]
    parts += ["whose siblings stand in one frame"] if len(topology.cores) < len(topology.cpus) else []
    return f"{human_count(len(topology.cpus), 'CPU')}: {', '.join(parts)}"


def _sockets(topology: Topology, cpus: Mapping[int, Cpu], near: Mapping[int, str]) -> Iterator[Socket]:
    """The sockets with their NUMA nodes. A NUMA node over several sockets (virtual machines) is on each of them."""
    known = NO_CPUS.union(*topology.numa.values())
    places = [(_title(number, near), own) for number, own in sorted(topology.numa.items())]
    places.append(("no NUMA node" if topology.numa else "", topology.cpus - known))
    for number, socket in enumerate(topology.sockets):
        numas = tuple(
            Numa(title, tuple(tuple(cpus[cpu] for cpu in sorted(core)) for core in topology.cores if core <= own))
            for title, node in places
            if (own := node & socket)
        )
        yield Socket(f"socket {number}", numas)


def _title(number: int, near: Mapping[int, str]) -> str:
    return f"NUMA node {number}" + (f" ({near[number]})" if number in near else "")


def _overlaps(campaign: Campaign) -> dict[Overlap, list[str]]:
    """Reserved CPUs that a job may use -> nodes."""
    found: dict[Overlap, list[str]] = {}
    for node in campaign.nodes:
        if node.cpus_allowed and (one := overlap(parse(node.cpus_allowed), node.reserved)):
            found.setdefault(one, []).append(node.host)
    return found


# what was proven

#: Check -> what a fail of it means, and what a pass of it proves.
_CHECKS = {
    "reserved_cpus": ("something could run on reserved CPUs", "none was allowed on a reserved CPU"),
    "pinned": ("processes did not have the CPUs planned for them", "each had the CPUs planned for it"),
}


def in_brief(campaign: Campaign) -> tuple[bool, str] | None:
    """Whether something is wrong, and what was proven or found, in a sentence; None where nothing had to be."""
    rows = {_key(row) for row in campaign.rows if row.figures.get("wall_s")}
    counts = {name: Counter[str]() for name in _CHECKS}
    for check in campaign.checks:
        if check.check in counts and _key(check) in rows:
            counts[check.check][check.outcome] += 1
    failed = [_share(n, len(rows), text) for name, (text, _) in _CHECKS.items() if (n := counts[name]["fail"])]
    if failed:
        return True, f"{'. '.join(failed)}."
    proven = {name: n for name in _CHECKS if (n := counts[name]["pass"])}
    if not proven:
        return None
    text = f"ranks and workers were looked at: {', and '.join(_CHECKS[name][1] for name in proven)}"
    least = min(proven.values())
    open_ = max(counts[name]["not checked"] for name in proven)
    more = f"; {human_count(open_, 'row')} not checked" if open_ else ""
    return False, f"{_share(least, len(rows), text)}{more}."


def _told(campaign: Campaign) -> Iterator[str]:
    """How the rows were pinned. What the checks prove is in the section on quality."""
    rows = [row for row in campaign.rows if row.figures.get("wall_s")]  # those that ran
    off = campaign.about.cpus.pinning == "off"
    modes = Counter(_mode(row, off) for row in rows)
    for text, count in modes.most_common():
        yield f"{_share(count, len(rows), text)}."


def _mode(row: Row, off: bool) -> str:
    pinning, placement = row.pinning, row.placement
    if placement:
        return f"ranks and workers were bound (pinning: {pinning}, placement: {placement})"
    if pinning:
        return f"nothing was bound (pinning: {pinning}): ranks and workers ran where the system put them"
    if off:
        return "nothing was bound, and no CPU masks were read (pinning: off)"
    return "the CPU masks of ranks and workers were not read"


def _key(row: Row | CheckRow) -> tuple[str, int | None, str]:
    return row.point, row.repetition, row.phase


def _share(count: int, of: int, text: str) -> str:
    """Text as the beginning of a sentence, with how many rows it is of where not all."""
    return f"In {count:,} of {human_count(of, 'row')} {text}" if count < of else text[:1].upper() + text[1:]
