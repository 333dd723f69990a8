"""What else changed between two campaigns: facts about target, tools, nodes and configuration that differ. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iosweep.analysis import formats
from iosweep.config import yaml_lines
from iosweep.errors import ConfigError
from iosweep.tables.reader import Campaign, NodeRow
from iosweep.text import shortened, some
from iosweep.tools.axes import TARGET
from iosweep.units import human_size

#: Maximum length of a value.
_LONGEST = 120
NOT_KNOWN = "not recorded"


@dataclass(frozen=True)
class Changed:
    """A fact that differs between two campaigns. topic: a key of _TOPICS."""

    topic: str
    what: str
    a: str
    b: str


def find_changes(a: Campaign, b: Campaign) -> list[Changed]:
    """All facts that differ, in the order of _TOPICS: likely explanations of a difference come first."""
    changed = []
    for topic, read in _TOPICS.items():
        facts, others = read(a), read(b)
        for fact in dict.fromkeys((*facts, *others)):
            lack = "not set" if topic == "configuration" else NOT_KNOWN
            first, second = (shortened(side.get(fact, "") or lack, _LONGEST) for side in (facts, others))
            if facts.get(fact, "") != others.get(fact, ""):
                changed.append(Changed(topic, fact, first, second))
    return changed


def _read_tools(campaign: Campaign) -> dict[str, str]:
    facts: dict[str, list[str | None]] = {}
    for row in campaign.rows:
        if row.tool_version:
            tool = formats.tool(row.tool)
            facts.setdefault(tool, []).append(formats.version(row.tool, row.tool_version))
            facts.setdefault(f"{tool} binary", []).append(row.tool_sha256 and f"sha256 {row.tool_sha256[:12]}")
            document = campaign.about.builds.get(row.build or "")
            program = document.tools.get(row.tool) if document else None
            facts.setdefault(f"{tool} package", []).append(program.package if program else None)
            if document and document.mpi and formats.is_mpi(row.tool):
                mpi = " ".join(filter(None, (document.mpi.package, document.mpi.version)))
                facts.setdefault("MPI", []).append(mpi)
    return {"iosweep": campaign.about.iosweep_version, **{fact: _join_distinct(texts) for fact, texts in facts.items()}}


def _read_nodes(campaign: Campaign) -> dict[str, str]:
    hosts = {host for row in campaign.rows if row.hosts for host in row.hosts.split(",")}
    used = [node for node in campaign.nodes if not hosts or node.host in hosts]
    return {
        "nodes": formats.hosts(hosts),
        **{fact: _join_distinct(map(read, used)) for fact, read in _NODE_FACTS.items()},
        "pinning": _join_distinct(row.pinning for row in campaign.rows),
        "placement": _join_distinct(row.placement for row in campaign.rows),
        "launcher": _join_distinct(job.launcher for job in campaign.about.jobs),
    }


_NODE_FACTS: dict[str, Callable[[NodeRow], str | None]] = {
    "CPU": lambda node: node.cpu_model,
    "CPUs": lambda node: str(node.cpus) if node.cpus else None,
    "memory": lambda node: human_size(node.memory_bytes) if node.memory_bytes else None,
    "network": lambda node: ", ".join(
        f"{nic.name} {nic.speed_bits_per_s / 1e9:g} Gbit/s"
        for nic in node.nics or ()
        if nic.state == "up" and nic.speed_bits_per_s
    ),
    "kernel": lambda node: node.kernel,
    "system": lambda node: node.os,
    "governor": lambda node: node.governor,
    "huge pages": lambda node: node.transparent_hugepages,
    "clock": lambda node: node.clocksource,
    "reserved CPUs": lambda node: node.reserved_cpus,
}


def _read_target(campaign: Campaign) -> dict[str, str]:
    rows, targets, nodes = campaign.rows, campaign.about.targets, campaign.nodes
    if len(targets) > 1:  # the rows may be of some of them only
        targets = {name: targets[name] for name in targets if any(r.parameters[TARGET.column] == name for r in rows)}
        sources = {row.target_source for row in rows}
        nodes = tuple(node for node in nodes if (node.mount or "").partition(" on ")[0] in sources)
    return {
        "directory": _join_distinct(target.directory for target in targets.values()),
        "type": _join_distinct(row.target_fstype for row in rows),
        "source": _join_distinct(row.target_source for row in rows),
        "layout": _join_distinct(row.target_layout for row in rows),
        "mount options": _join_distinct(map(_mount_options, nodes)),
        "size": _join_distinct(human_size(node.target_bytes) for node in nodes if node.target_bytes),
    }


def _mount_options(node: NodeRow) -> str:
    """Mount options in a line of /proc/self/mountinfo: those of the mount, then those of the file system."""
    mount_part, _, fs_part = (node.mount or "").partition(" - ")
    fields = mount_part.split()[5:6] + fs_part.split()[2:3]
    return ",".join(dict.fromkeys(",".join(fields).split(",")))


def _read_configuration(campaign: Campaign) -> dict[str, str]:
    """Dotted key -> value, for all files of the configuration. A file that is not YAML is compared as a whole."""
    settings: dict[str, str] = {}
    for file in campaign.about.configuration:
        try:
            settings |= _flatten(yaml_lines.parse(file.file, file.text).data, "")
        except ConfigError:
            settings[file.file] = file.text
    return {key: text for key, text in settings.items() if key != "campaign"}


def _flatten(value: object, key: str) -> dict[str, str]:
    """Dotted key -> value. List entries are identified by name, so that a different order is not a difference."""
    if isinstance(value, dict) and value:
        parts = [_flatten(child, f"{key}.{name}" if key else str(name)) for name, child in value.items()]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        names = [isinstance(entry, dict) and (entry.get("name") or entry.get("suite")) for entry in value]
        parts = [_flatten(entry, f"{key}[{names[number] or number}]") for number, entry in enumerate(value)]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list):
        return {key: ", ".join(map(_format, value))}
    return {key: _format(value)}


def _format(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "(empty)" if value in ("", None, {}) else str(value)


def _join_distinct(texts: Iterable[str | None]) -> str:
    """Join distinct values in natural order: the first three, and the number of others."""
    return some(sorted({text for text in texts if text}, key=formats.natural), 3, separator="; ")


#: Topic -> reads its facts from a campaign.
_TOPICS: dict[str, Callable[[Campaign], dict[str, str]]] = {
    "target": _read_target,
    "tools": _read_tools,
    "nodes": _read_nodes,
    "configuration": _read_configuration,
}
