"""What changed between two campaigns beside the figures: tools, nodes, target, configuration, verdicts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis import formats
from iosweep.analysis.data import Campaign, Node, Row
from iosweep.analysis.summary import count_repetitions, repetitions
from iosweep.config import yaml_lines
from iosweep.errors import ConfigError
from iosweep.store.campaign_documents import Build
from iosweep.text import shortened
from iosweep.units import human_size

#: Characters of a value.
_MOST = 120
#: What stands for something that a campaign does not say.
NOT_KNOWN = "not recorded"


@dataclass(frozen=True)
class Changed:
    """A thing that is not the same in two campaigns. topic: tools, nodes, target, configuration, verdicts."""

    topic: str
    what: str
    a: str
    b: str


def changes(a: Campaign, b: Campaign) -> list[Changed]:
    """All that differs, what explains a figure best first."""
    return [
        Changed(topic, what, shortened(one or NOT_KNOWN, _MOST), shortened(other or NOT_KNOWN, _MOST))
        for topic, read in _TOPICS.items()
        for what, one, other in _unlike(read(a), read(b))
    ]


def lasting(a: Campaign, b: Campaign) -> tuple[Changed, ...]:
    """The same without the verdicts, which differ between sessions of one system."""
    return tuple(one for one in changes(a, b) if one.topic != "verdicts")


def sessions(campaign: Campaign) -> int:
    """In how many sessions it was measured; 0 where none is recorded."""
    return len({row.session for row in campaign.rows if row.session})


def _unlike(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for what in dict.fromkeys((*a, *b)):
        one, other = a.get(what, ""), b.get(what, "")
        if one != other:
            yield what, one, other


def _tools(campaign: Campaign) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    builds = campaign.about.builds
    for row in campaign.rows:
        if not row.tool_version:
            continue
        build = builds.get(row.build) if row.build else None
        found.setdefault(formats.tool(row.tool), []).append(formats.version(row.tool, row.tool_version))
        if row.tool_sha256:
            found.setdefault(f"{formats.tool(row.tool)} binary", []).append(f"sha256 {row.tool_sha256[:12]}")
        if build:
            for what, text in _built(build, row):
                found.setdefault(what, []).append(text)
    return {"iosweep": campaign.about.iosweep_version, **{what: _several(texts) for what, texts in found.items()}}


def _built(build: Build, row: Row) -> Iterator[tuple[str, str]]:
    program = build.tools.get(row.tool)
    if program and program.package:
        yield f"{formats.tool(row.tool)} package", program.package
    if build.mpi and formats.is_mpi(row.tool):
        yield "MPI", " ".join(filter(None, (build.mpi.package, build.mpi.version)))


def _nodes(campaign: Campaign) -> dict[str, str]:
    hosts = {host for row in campaign.rows if row.hosts for host in row.hosts.split(",")}
    used = [node for node in campaign.nodes if not hosts or node.host in hosts]
    found = {"nodes": formats.hosts(hosts)}
    return found | {what: _several(map(read, used)) for what, read in _FACTS.items()}


_FACTS: dict[str, Callable[[Node], str | None]] = {
    "CPU": lambda node: node.cpu_model,
    "CPUs": lambda node: str(node.cpus) if node.cpus else None,
    "memory": lambda node: human_size(node.memory_bytes) if node.memory_bytes else None,
    "network": lambda node: _links(node),
    "kernel": lambda node: node.kernel,
    "system": lambda node: node.os,
    "governor": lambda node: node.governor,
    "huge pages": lambda node: node.transparent_hugepages,
    "clock": lambda node: node.clocksource,
    "reserved CPUs": lambda node: node.reserved_cpus,
}


def _links(node: Node) -> str:
    speeds = sorted(nic.speed_bits_per_s for nic in node.nics or () if nic.state == "up" and nic.speed_bits_per_s)
    counts = {speed: speeds.count(speed) for speed in speeds}
    return ", ".join(f"{count} × {speed / 1e9:g} Gbit/s" for speed, count in counts.items())


def _target(campaign: Campaign) -> dict[str, str]:
    rows = campaign.rows
    return {
        "directory": campaign.about.target.directory,
        "type": _several(row.target_fstype for row in rows),
        "source": _several(row.target_source for row in rows),
        "layout": _several(row.target_layout for row in rows),
        "mount options": _several(map(_options, campaign.nodes)),
        "size": _several(human_size(node.target_bytes) for node in campaign.nodes if node.target_bytes),
    }


def _options(node: Node) -> str:
    """The options of a line of /proc/self/mountinfo: those of the mount and those of the file system."""
    before, _, after = (node.mount or "").partition(" - ")
    own, of_type = before.split(), after.split()
    texts = [*(own[5].split(",") if len(own) > 5 else []), *(of_type[2].split(",") if len(of_type) > 2 else [])]
    return ",".join(dict.fromkeys(texts))


def _placement(campaign: Campaign) -> dict[str, str]:
    rows = campaign.rows
    return {
        "pinning": _several(row.pinning for row in rows),
        "placement": _several(row.placement for row in rows),
        "launcher": _several(job.launcher for job in campaign.about.jobs),
    }


def _configuration(campaign: Campaign) -> dict[str, str]:
    """Key, dotted -> value, of all files of the configuration. A file that is no YAML is compared as a whole."""
    found: dict[str, str] = {}
    for file in campaign.about.configuration:
        try:
            found |= _values(yaml_lines.parse(file.file, file.text).data, "")
        except ConfigError:
            found[file.file] = file.text
    return {key: text for key, text in found.items() if key != "campaign"}


def _values(value: object, key: str) -> dict[str, str]:
    """Sweeps and the like are named by their names, not by their numbers: another order is no other configuration."""
    if isinstance(value, dict) and value:
        parts = [_values(below, f"{key}.{name}" if key else str(name)) for name, below in value.items()]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        parts = [_values(one, f"{key}[{_name(one, number)}]") for number, one in enumerate(value)]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list):
        return {key: ", ".join(map(_text, value))}
    return {key: _text(value)}


def _name(value: object, number: int) -> str:
    own = (value.get("name") or value.get("suite")) if isinstance(value, dict) else None
    return str(own or number)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "(empty)" if value in ("", None, {}) else str(value)


def _verdicts(campaign: Campaign) -> dict[str, str]:
    counts = count_repetitions(repetitions(campaign.rows, campaign.about.sweeps))
    names = [f"{count:,} {verdict}" for verdict, count in counts.items() if count]
    return {"repetitions": ", ".join(names)}


def _several(texts: Iterable[str | None]) -> str:
    """Distinct values, natural order: of many the first, and how many others there are."""
    found: Sequence[str] = sorted({text for text in texts if text}, key=formats.natural)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


#: Topic -> what of a campaign belongs to it.
_TOPICS: dict[str, Callable[[Campaign], dict[str, str]]] = {
    "target": _target,
    "tools": _tools,
    "nodes": _nodes,
    "CPUs": _placement,
    "configuration": _configuration,
    "verdicts": _verdicts,
}
