"""Facts of a node, as records store and compare them: CPUs, memory, network, kernel; from /proc, /sys and /etc.

A fact that cannot be read (in a container or a virtual machine) is None. Nothing is read from the target.
"""

from __future__ import annotations

import hashlib
import platform
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from iosweep.files.documents import Count, Document, Integer, Part
from iosweep.node.cpus import Reserved, ReservedSource, Topology, find, listed, parse, parsed
from iosweep.node.procfs import entries, field, number, size, text
from iosweep.text import printable


class NumaNode(Part, frozen=True):
    """A NUMA node. cpus: a list such as `0-3`."""

    node: Count
    cpus: str | None = None
    memory_bytes: Count | None = None


class Nic(Part, frozen=True):
    """A network interface, or a port of an InfiniBand adapter. numa_node: the nearest, None if all are equally near."""

    name: str
    state: str | None = None
    speed_bits_per_s: Count | None = None
    driver: str | None = None
    numa_node: Integer | None = None


class NodeFacts(Document, frozen=True):
    """The fields are columns.NODE_COLUMNS, without `node` and `used_cpus`, which the tables add."""

    host: str
    kernel: str | None = None
    os: str | None = None
    cpu_model: str | None = None
    cpus: Count | None = None
    sockets: Count | None = None
    threads_per_core: Count | None = None
    cpus_allowed: str | None = None
    cores: str | None = None
    socket_cpus: str | None = None
    reserved_cpus: str | None = None
    reserved_sources: tuple[ReservedSource, ...] | None = None
    numa: tuple[NumaNode, ...] | None = None
    governor: str | None = None
    clocksource: str | None = None
    transparent_hugepages: str | None = None
    memory_bytes: Count | None = None
    nics: tuple[Nic, ...] | None = None
    fstype: str | None = None
    mount: str | None = None
    # the fields from here on are VOLATILE
    memory_available_bytes: Count | None = None
    target_bytes: Count | None = None
    target_free_bytes: Count | None = None
    target_inodes: Count | None = None
    target_free_inodes: Count | None = None

    def __post_init__(self) -> None:
        lists = [source.cpus for source in self.reserved_sources or ()] + [node.cpus for node in self.numa or ()]
        for cpus in (self.cpus_allowed, self.cores, self.socket_cpus, self.reserved_cpus, *lists):
            parse(cpus or "")

    @property
    def topology(self) -> Topology:
        numa = {node.node: node.cpus for node in self.numa or ()}
        return Topology.of_texts(self.cores, self.socket_cpus, numa)

    @property
    def reserved(self) -> Reserved:
        """Its reserved CPUs; `cpus` is None for a node that was not examined."""
        cpus = None if self.reserved_cpus is None else parse(self.reserved_cpus)
        return Reserved(self.topology, self.reserved_sources or (), cpus)

    def row(self) -> dict[str, object]:
        """The facts as a row of the table `nodes`: every column, and every key in the entries of lists."""
        return {
            name: [msgspec.structs.asdict(entry) for entry in value] if isinstance(value, tuple) else value
            for name, value in msgspec.structs.asdict(self).items()
        }


#: Facts that may change from run to run on a node. The others identify the node.
VOLATILE = NodeFacts.__struct_fields__[NodeFacts.__struct_fields__.index("memory_available_bytes") :]


def host_name() -> str:
    return printable(socket.gethostname())


def node_key(node: NodeFacts) -> str:
    """Hash of the facts that do not change from run to run: the key of the table `nodes`."""
    # a reboot changes the total by a few pages, and a virtual machine may get the memory of its NUMA nodes later
    stable = msgspec.structs.replace(
        node,
        memory_bytes=round((node.memory_bytes or 0) / 2**30),
        numa=tuple(NumaNode(each.node, each.cpus) for each in node.numa or ()),
        **dict.fromkeys(VOLATILE),
    )
    return hashlib.sha256(msgspec.json.encode(stable)).hexdigest()[:12]


def collect_cpus(reserved_cpus: str | None = None, root: Path = Path("/")) -> NodeFacts:
    """The CPUs of this node, and which are reserved. `reserved_cpus`: the key cpus.reserved."""
    topology = Topology.read(root)
    reserved = find(topology, reserved_cpus, root)
    folders = entries(root / "sys/devices/system/node")
    return NodeFacts(
        host=printable(text(root / "proc/sys/kernel/hostname") or "") or host_name(),
        cpus=len(topology.cpus) or None,
        sockets=len(topology.sockets) or None,
        threads_per_core=max(map(len, topology.cores), default=None),
        cpus_allowed=_cpu_list(field(root / "proc/self/status", "Cpus_allowed_list")),
        cores=topology.facts()["cores"],
        socket_cpus=topology.facts()["socket_cpus"],
        reserved_cpus=reserved.listed,
        reserved_sources=reserved.sources,
        numa=tuple(
            NumaNode(
                node, _cpu_list(text(folder / "cpulist")), size(field(folder / "meminfo", f"Node {node} MemTotal"))
            )
            for node, folder in sorted((int(p.name[4:]), p) for p in folders if p.name[4:].isdecimal())
        ),
    )


def collect(
    target: Mapping[str, object],
    space: Mapping[str, int] | None = None,
    root: Path = Path("/"),
    reserved_cpus: str | None = None,
) -> NodeFacts:
    """All facts of this node. `target`, `space`: from identify.py. `reserved_cpus`: the key cpus.reserved."""
    memory = root / "proc/meminfo"
    releases = (text(root / file) or "" for file in ("etc/os-release", "usr/lib/os-release"))
    os_name = re.search(r"""^PRETTY_NAME=["']?(.*?)["']?$""", "\n".join(releases), re.MULTILINE)
    policies = [p for p in entries(root / "sys/devices/system/cpu/cpufreq") if p.name.startswith("policy")]
    governors = {name for p in policies if (name := text(p / "scaling_governor"))}  # empty in most virtual machines
    hugepages = text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""  # always [madvise] never
    room = space or {}
    inodes = room.get("used_inodes", 0) + room.get("free_inodes", 0)  # 0: the file system does not count inodes
    return structs.replace(
        collect_cpus(reserved_cpus, root),
        kernel=text(root / "proc/sys/kernel/osrelease"),
        os=os_name[1] if os_name else None,
        cpu_model=field(root / "proc/cpuinfo", "model name", "Model", "cpu model") or platform.machine() or None,
        governor=", ".join(sorted(governors)) or None,
        clocksource=text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        transparent_hugepages=hugepages.partition("[")[2].partition("]")[0] or None,
        memory_bytes=size(field(memory, "MemTotal")),
        nics=tuple(sorted([*interfaces(root), *infiniband(root)], key=lambda nic: nic.name)),
        fstype=str(target["fstype"]),
        mount=printable(str(target["mount"])),
        memory_available_bytes=size(field(memory, "MemAvailable")),
        target_bytes=room["used_bytes"] + room["free_bytes"] if room else None,
        target_free_bytes=room.get("free_bytes"),
        target_inodes=inodes or None,
        target_free_inodes=room.get("free_inodes") if inodes else None,
    )


def _cpu_list(text: str | None) -> str | None:
    """A list of CPUs as the kernel writes it; None for any other text."""
    return listed(parsed(text)) or None


def interfaces(root: Path) -> Iterator[Nic]:
    """Network interfaces with a device behind them: no lo, veth, bridges or bonds."""
    for adapter in entries(root / "sys/class/net"):
        if entries(adapter / "device"):
            flags = text(adapter / "flags") or ""  # hexadecimal; the lowest bit is IFF_UP
            speed = number(text(adapter / "speed"))  # Mbit/s; -1 or unreadable: unknown
            state = "off" if flags[-1:] in tuple("02468ace") else text(adapter / "operstate")
            yield _nic(adapter, adapter.name, state, round(speed * 10**6) if speed and speed > 0 else None)


def infiniband(root: Path) -> Iterator[Nic]:
    """Ports of InfiniBand and RoCE adapters, with names such as mlx5_0/1."""
    for adapter in entries(root / "sys/class/infiniband"):
        for port in entries(adapter / "ports"):
            state = (text(port / "state") or "").rpartition(": ")[2].lower()  # 4: ACTIVE
            off = (text(port / "phys_state") or "").endswith("Disabled")
            speed = number((text(port / "rate") or "").partition(" Gb/sec")[0])  # 100 Gb/sec (4X EDR)
            shown = "off" if off else {"active": "up", "": None}.get(state, state)
            yield _nic(adapter, f"{adapter.name}/{port.name}", shown, round(speed * 10**9) if speed else None)


def _nic(adapter: Path, name: str, state: str | None, bits_per_s: int | None) -> Nic:
    """The interface, with the driver and the nearest NUMA node of its device; None if unknown."""
    numa = text(adapter / "device/numa_node") or ""  # -1: unknown
    try:
        driver = (adapter / "device/driver").readlink().name
    except OSError:
        driver = None
    return Nic(name, state, bits_per_s, driver, int(numa) if numa.isdecimal() else None)
