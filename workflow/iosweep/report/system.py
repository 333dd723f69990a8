"""The nodes that measured: common and different facts, the node check, their CPUs, proof of pinning. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from iosweep.analysis import formats
from iosweep.analysis.summary import PointSummary, worst
from iosweep.judge.agreement import COUNTED
from iosweep.node.cpus import CONFIGURATION, Overlap, listed, named, overlap, parse
from iosweep.report.results_table import SummaryCell, Table, TableRow
from iosweep.tables.reader import Campaign, CheckRow, NodeRow, ResultRow
from iosweep.text import human_count, human_percent, some
from iosweep.tools.axes import TRANSFER_SIZE

#: Share of available memory below which a note is shown.
_LITTLE_MEMORY = 0.1

SUITE = "node-check"

#: Lines of a fact of a node; empty if it is not recorded.
Lines = tuple[str, ...]
#: This fact changes all the time, so a difference between nodes means nothing.
_FREE = "free on the target"
_MOUNT = "mount of the target"


@dataclass(frozen=True)
class Fact:
    """A fact that differs between nodes. odd: most nodes have another value."""

    lines: Lines
    odd: bool


@dataclass(frozen=True)
class Node:
    """results: number of rows measured with these facts."""

    host: str
    results: int
    cells: tuple[Fact, ...]


@dataclass(frozen=True)
class Nodes:
    """The nodes side by side."""

    alike: tuple[tuple[str, Lines], ...]  # titles and values of facts that all nodes have in common
    differing: tuple[str, ...]  # titles of the other facts
    rows: tuple[Node, ...]  # nodes with an odd fact first
    notes: tuple[str, ...]  # facts that may spoil figures


def describe_nodes(campaign: Campaign) -> Nodes | None:
    """The nodes of a campaign; None if nothing was measured."""
    nodes = sorted(campaign.nodes, key=lambda node: (formats.natural(node.host), node.node))
    if not nodes:
        return None
    facts = [_facts(node) for node in nodes]
    counts = {title: Counter(own[title] for own in facts) for title in facts[0]}
    differing = [title for title, values in counts.items() if len(values) > 1]
    changing = {_FREE, _MOUNT} if len(campaign.about.targets) > 1 else {_FREE}  # each target has its own
    rows = []
    for node, values in zip(nodes, facts, strict=True):
        cells = []
        for title in differing:
            common, count = counts[title].most_common(1)[0]
            cells.append(
                Fact(values[title], title not in changing and 2 * count > len(nodes) and values[title] != common)
            )
        rows.append(Node(node.host, campaign.about.results_of_nodes.get(node.node, 0), tuple(cells)))
    return Nodes(
        alike=tuple((title, lines) for title, lines in facts[0].items() if title not in differing),
        differing=tuple(differing),
        rows=tuple(sorted(rows, key=lambda row: not any(cell.odd for cell in row.cells))),
        notes=tuple(_notes(nodes)),
    )


def _notes(nodes: Sequence[NodeRow]) -> Iterator[str]:
    hosts: dict[str, dict[str, None]] = {}
    for node in nodes:
        texts = []
        if node.governor and node.governor != "performance":
            texts.append(f"Frequency governor {node.governor}, not performance")
        available, memory = node.memory_available_bytes, node.memory_bytes
        if available is not None and memory and available < _LITTLE_MEMORY * memory:
            texts.append(f"Less than {100 * _LITTLE_MEMORY:.0f} % of the memory was available")
        for text in texts:
            hosts.setdefault(text, {})[node.host] = None
    several = len({node.host for node in nodes}) > 1
    yield from (f"{text}: {formats.hosts(own)}." if several else f"{text}." for text, own in hosts.items())


def _facts(node: NodeRow) -> dict[str, Lines]:
    cpus = [
        human_count(count, noun)
        for count, noun in ((node.cpus, "CPU"), (node.sockets, "socket"), (node.threads_per_core, "thread"))
        if count
    ]
    if node.threads_per_core:
        cpus[-1] += " per core"
    reserved = "not known which" if node.reserved_cpus is None else node.reserved_cpus or "none"
    free: list[str | None] = []
    if node.target_bytes and node.target_free_bytes is not None:
        free.append(f"{_size(node.target_free_bytes)} of {_size(node.target_bytes)}")
    if node.target_inodes and node.target_free_inodes is not None:
        free.append(f"{node.target_free_inodes:,} of {node.target_inodes:,} inodes")
    network: list[str | None] = []
    for nic in node.nics or ():
        speed = nic.state == "up" and nic.speed_bits_per_s
        line = " ".join(filter(None, (nic.name, nic.state, f"{speed / 1e9:g} Gbit/s" if speed else "")))
        line += f" ({nic.driver})" if nic.driver else ""
        network.append(line if nic.numa_node is None else f"{line}, NUMA node {nic.numa_node}")
    lines: dict[str, list[str | None]] = {
        "system": [node.os],
        "kernel": [node.kernel],
        "CPU": [node.cpu_model],
        "CPUs": [", ".join(cpus)],
        "allowed CPUs": [node.cpus_allowed],
        "reserved CPUs": [None if node.reserved_sources is None else reserved],
        "NUMA nodes": [
            f"{one.node}: CPUs {one.cpus or 'none'}" + (f", {_size(one.memory_bytes)}" if one.memory_bytes else "")
            for one in node.numa or ()
        ],
        "frequency governor": [node.governor],
        "clock": [node.clocksource],
        "transparent huge pages": [node.transparent_hugepages],
        "memory": [_size(node.memory_bytes) if node.memory_bytes else None],
        "network": network,
        _MOUNT: [node.mount],
        _FREE: free,
    }
    return {title: tuple(filter(None, own)) for title, own in lines.items()}


def _size(value: int) -> str:
    return formats.quantity(value, formats.SIZE)


# node check


@dataclass(frozen=True)
class NodeCheck:
    """The same tests on each node alone. odd: nodes that stand out, furthest first; table: a row for each node."""

    sentence: str
    odd: tuple[str, ...]
    table: Table


#: A node within this share of the median never stands out.
LEAST = 0.10
#: Robust standard deviations that are allowed; standard deviation of normally distributed values, in MADs.
DEVIATIONS, OF_MAD = 3.0, 1.4826
#: Minimum number of nodes for a node that stands out.
LEAST_NODES = 3


@dataclass(frozen=True)
class NodeComparison:
    """A test on the nodes that have a figure of it, if any."""

    values: Mapping[str, float]  # node -> the median of its figures
    median: float  # of these values
    allowed: float | None  # allowed difference from the median, as a share; None with fewer than LEAST_NODES

    def ratio(self, host: str) -> float:
        """Value of a node as a share of the median."""
        return self.values[host] / self.median

    def stands_out(self, host: str) -> bool:
        return self.allowed is not None and abs(self.ratio(host) - 1) > self.allowed


def compare(figures: Mapping[str, Sequence[float]]) -> NodeComparison:
    """Compare nodes. figures: node -> its figures, above zero."""
    values = {host: median(own) for host, own in figures.items()}
    middle = median(values.values()) if values else 0.0
    if len(values) < LEAST_NODES:
        return NodeComparison(values, middle, None)
    deviation = OF_MAD * median(abs(value / middle - 1) for value in values.values())
    return NodeComparison(values, middle, max(LEAST, DEVIATIONS * deviation))


def compare_shares(results: Sequence[PointSummary]) -> NodeComparison:
    """Compare nodes by their shares of the median in each of these results."""
    shares: dict[str, list[float]] = {}
    for test in (compare(_figures_of_nodes(result)) for result in results):
        for host in test.values:
            shares.setdefault(host, []).append(test.ratio(host))
    return compare(shares)


def _figures_of_nodes(result: PointSummary) -> dict[str, list[float]]:
    """Figures of the repetitions that ran on one node alone."""
    figures: dict[str, list[float]] = {}
    for row in result.rows:
        if row.verdict in COUNTED and row.host and (value := row.figures.get(result.metric)):
            figures.setdefault(row.host, []).append(value)
    return figures


def name_test(result: PointSummary) -> str:
    """`random read 4 KiB`"""
    size = result.count(TRANSFER_SIZE.column)
    return formats.phase(result.phase).lower() + (f" {formats.size(size)}" if size else "")


def node_check(campaign: Campaign, results: Sequence[PointSummary]) -> NodeCheck | None:
    """The node check of a campaign; None without a node check, or if nothing of it is measured."""
    points = find_checked(campaign)
    own = [result for result in results if result.point in points]
    hosts = sorted({row.host for result in own for row in result.rows if row.host}, key=formats.natural)
    if not hosts:
        return None  # the first screen says why there are no figures
    tests = [(result, name_test(result), compare(_figures_of_nodes(result))) for result in own]
    odd = _find_odd(tests)

    rows = []
    if len(hosts) > 1:
        cells = []
        for result, _, test in tests:
            allowed = () if test.allowed is None else (f"± {human_percent(test.allowed)} allowed",)
            cells.append(SummaryCell(_quantity(result, test.median) if test.values else "", allowed, ""))
        rows.append(TableRow("median of the nodes", tuple(cells)))
    for host in [*odd, *(host for host in hosts if host not in odd)]:
        cells = []
        for result, _, test in tests:
            verdicts = [row.verdict for row in result.rows if row.host == host]
            figure, share = "", ""
            if host in test.values:
                figure, ratio = _quantity(result, test.values[host]), test.ratio(host)
                share = f"{('slow ' if ratio < 1 else 'fast ') if test.stands_out(host) else ''}{human_percent(ratio)}"
            cells.append(SummaryCell(figure, (share,) if share else (), worst(verdicts) if verdicts else ""))
        rows.append(TableRow(host, tuple(cells)))
    table = Table(SUITE, "", tuple(title[:1].upper() + title[1:] for _, title, _ in tests), tuple(rows))

    without = []
    for host in hosts:
        if titles := [title for _, title, test in tests if test.values and host not in test.values]:
            without.append(f"{host} ({', '.join(titles)})")
    enough = any(test.allowed is not None for *_, test in tests)
    sentence = _sentence(hosts, odd, enough) + (f" No figure: {some(without, 4)}." if without else "")
    return NodeCheck(sentence, tuple(odd), table)


def _find_odd(tests: Sequence[tuple[PointSummary, str, NodeComparison]]) -> dict[str, list[str]]:
    """Nodes that stand out -> their share of the median in these tests. What is furthest from it comes first."""
    shares = sorted(
        (
            -abs(test.ratio(host) - 1),
            formats.natural(host),
            host,
            f"{human_percent(test.ratio(host))} of the median in {title}",
        )
        for _, title, test in tests
        for host in filter(test.stands_out, test.values)
    )
    odd: dict[str, list[str]] = {}
    for *_, host, share in shares:
        odd.setdefault(host, []).append(share)
    return odd


def _sentence(hosts: Sequence[str], odd: Mapping[str, Sequence[str]], enough: bool) -> str:
    """Name the nodes that stand out, or say why none can be named."""
    if len(hosts) == 1:
        return f"Only {hosts[0]} was measured: there is nothing to compare it with."
    if not enough:
        return f"No test has a figure of {LEAST_NODES} nodes, and fewer do not tell which one is odd."
    if not odd:
        return f"None of {len(hosts)} nodes stands out from the nodes' median."
    texts = []
    for host, (
        first,
        *others,
    ) in odd.items():  # `node06 (34 % of the median in sequential write 1 MiB, and 1 other test)`
        more = f", and {human_count(len(others), 'other test')}" if others else ""
        texts.append(f"{host} ({first}{more})")
    return f"{len(odd)} of {len(hosts)} nodes {'stands' if len(odd) == 1 else 'stand'} out: {some(texts, 4)}."


def _quantity(result: PointSummary, value: float) -> str:
    return formats.quantity(value, formats.units_of(result.metric, result.kind))


def without_node_check(campaign: Campaign, results: Sequence[PointSummary]) -> list[PointSummary]:
    """The results that other sweeps have; those of the node check if there are no others."""
    others = {point for sweep in campaign.about.sweeps if sweep.suite != SUITE for point in sweep.points}
    return [result for result in results if result.point in others] or list(results)


def find_checked(campaign: Campaign) -> set[str]:
    """Points of the node check."""
    return {point for sweep in campaign.about.sweeps if sweep.suite == SUITE for point in sweep.points}


# CPUs

#: State of a CPU -> its meaning, in the order of the page.
STATES = {
    "conflict": "reserved, and used all the same",
    "stray": "used, though not in the allocation",
    "used": "used by ranks and workers",
    "free": "usable, not used",
    "reserved": "reserved",
    "outside": "not in the allocation",
}


@dataclass(frozen=True)
class NodeCpus:
    """The CPUs of nodes that look the same, by the kernel's numbers."""

    hosts: str
    about: str
    states: tuple[tuple[str, str, int, str], ...]  # state, meaning, number of CPUs, CPUs
    reserved: tuple[str, ...]  # sources that reserve CPUs

    @property
    def wrong(self) -> bool:
        """Whether something ran on CPUs where it must not."""
        return any(state in ("conflict", "stray") for state, *_ in self.states)


@dataclass(frozen=True)
class Cpus:
    """told: how ranks and workers were bound, and what proves it; problems: (nodes, reserved CPUs that a job may use
    there)."""

    told: tuple[str, ...]
    problems: tuple[tuple[str, Overlap], ...]
    nodes: tuple[NodeCpus, ...]


def describe_cpus(campaign: Campaign) -> Cpus | None:
    """The CPUs of a campaign's nodes, nodes where something is wrong first; None if no node recorded any."""
    alike: dict[object, list[NodeRow]] = {}
    problems: dict[Overlap, list[str]] = {}
    for node in sorted(campaign.nodes, key=lambda node: formats.natural(node.host)):
        if node.cores:
            shown = (node.cores, node.socket_cpus, node.cpus_allowed, node.reserved_cpus, node.used_cpus, node.numa)
            alike.setdefault((*shown, tuple(_reserved(node))), []).append(node)
        if node.cpus_allowed and (one := overlap(parse(node.cpus_allowed), node.reserved)):
            problems.setdefault(one, []).append(node.host)
    groups = sorted(map(_cpus_of, alike.values()), key=lambda group: not group.wrong)
    if not groups and not any(row.pinning for row in campaign.rows):
        return None
    rows = [row for row in campaign.rows if row.figures.get("wall_s")]  # those that ran
    modes = Counter(map(_mode, rows)).most_common()
    return Cpus(
        told=(*filter(None, [prove_pinning(campaign)]), *(f"{_share(n, len(rows), text)}." for text, n in modes)),
        problems=tuple((formats.hosts(hosts), one) for one, hosts in problems.items()),
        nodes=tuple(groups),
    )


def _cpus_of(nodes: Sequence[NodeRow]) -> NodeCpus:
    node, topology = nodes[0], nodes[0].topology
    allowed = topology.cpus if node.cpus_allowed is None else parse(node.cpus_allowed)
    reserved, used = parse(node.reserved_cpus or ""), parse(node.used_cpus or "")
    cpus_of: dict[str, list[int]] = {}
    for cpu in topology.logical:
        if cpu in used:
            state = "conflict" if cpu in reserved else "used" if cpu in allowed else "stray"
        else:
            state = "reserved" if cpu in reserved else "free" if cpu in allowed else "outside"
        cpus_of.setdefault(state, []).append(cpu)
    parts = [human_count(len(topology.sockets), "socket")]
    parts += [human_count(len(topology.numa), "NUMA node")] if topology.numa else []
    parts += [human_count(len(topology.cores), "core")]
    return NodeCpus(
        hosts=formats.hosts(node.host for node in nodes),
        about=f"{human_count(len(topology.cpus), 'CPU')}: {', '.join(parts)}",
        states=tuple(
            (state, meaning, len(cpus), listed(cpus))
            for state, meaning in STATES.items()
            if (cpus := cpus_of.get(state))
        ),
        reserved=tuple(_reserved(node)),
    )


def _reserved(node: NodeRow) -> Iterator[str]:
    """Sentences on the reserved CPUs and the sources that reserve them."""
    if node.reserved_sources is None:
        yield "Nobody looked for reserved CPUs."
        return
    if node.reserved_cpus is None:
        yield "CPUs are reserved, but it is not known which."
    elif not node.reserved_cpus:
        yield "No CPU is reserved."
    for one in node.reserved_sources:
        which = f"{named(parse(one.cpus))}: " if one.cpus else ""
        says = "" if one.source == CONFIGURATION else f" ({one.says})"
        yield f"{which}{one.source}{says}"


# pinning

#: Check -> meaning of a fail, and of a pass.
_CHECKS = {
    "reserved_cpus": ("something could run on reserved CPUs", "none was allowed on a reserved CPU"),
    "pinned": ("processes did not have the CPUs planned for them", "each had the CPUs planned for it"),
}


def prove_pinning(campaign: Campaign) -> str:
    """A sentence on what the masks prove; "" if nothing needed a proof."""
    rows = {_key(row) for row in campaign.rows if row.figures.get("wall_s")}
    counts = {name: Counter[str]() for name in _CHECKS}
    for check in campaign.checks:
        if check.check in counts and _key(check) in rows:
            counts[check.check][check.outcome] += 1
    failed = [_share(n, len(rows), text) for name, (text, _) in _CHECKS.items() if (n := counts[name]["fail"])]
    if failed:
        return f"{'. '.join(failed)}."
    proven = {name: n for name in _CHECKS if (n := counts[name]["pass"])}
    if not proven:
        return ""
    text = f"the CPU masks of running ranks and workers were read: {', and '.join(_CHECKS[name][1] for name in proven)}"
    least = min(proven.values())
    open_ = max(counts[name]["not checked"] for name in proven)
    more = f"; {human_count(open_, 'row')} not checked" if open_ else ""
    return f"{_share(least, len(rows), text)}{more}."


def _mode(row: ResultRow) -> str:
    pinning, placement = row.pinning, row.placement
    if placement:
        return f"ranks and workers were bound (pinning: {pinning}, placement: {placement})"
    if pinning:
        return f"nothing was bound (pinning: {pinning}): ranks and workers ran where the system put them"
    return "the CPU masks of ranks and workers were not read"


def _key(row: ResultRow | CheckRow) -> tuple[str, int | None, str]:
    return row.point, row.repetition, row.phase


def _share(count: int, of: int, text: str) -> str:
    """Begin a sentence, with the number of rows if it does not apply to all."""
    return f"In {count:,} of {human_count(of, 'row')} {text}" if count < of else text[:1].upper() + text[1:]
