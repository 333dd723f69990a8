"""Facts of a node that measures, as they are stored and compared, and the environment that a result keeps.

collect_facts.py reads them. What cannot be read (in a container, a virtual machine) is None.
"""

from __future__ import annotations

import hashlib
import os
import socket

import msgspec

from iosweep.files.documents import Document
from iosweep.files.fields import Count, Integer, Number, Part
from iosweep.node.cpus import Topology, parse
from iosweep.text import printable

#: Variables that may change what a tool does, MPI's choice of network and MPI-IO's hints among them. Nothing else is
#: stored, and nothing by its prefix: an environment holds secrets.
ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "TZ"),
    *("HWLOC_COMPONENTS", "FI_PROVIDER", "HYDRA_IFACE", "UCX_NET_DEVICES", "UCX_TLS"),
    *("MPICH_MPIIO_HINTS", "ROMIO_FSTYPE_FORCE", "ROMIO_HINTS"),
)


class NumaNode(Part, frozen=True):
    """A NUMA node, its CPUs as a list (`0-3`), its memory."""

    node: Count
    cpus: str | None = None
    memory_bytes: Count | None = None


class Nic(Part, frozen=True):
    """A network interface, or a port of an InfiniBand adapter. `cpus`, `numa_node`: those near it, where it matters."""

    name: str
    state: str | None = None
    speed_bits_per_s: Count | None = None
    driver: str | None = None
    numa_node: Integer | None = None
    cpus: str | None = None


class ReservedSource(Part, frozen=True):
    """What one source says of CPUs that a file system's client keeps. cpus: empty: none; None: not known which."""

    source: str
    cpus: str | None = None
    says: str = ""


class ToolOfNode(Part, frozen=True):
    """A program that measures."""

    name: str
    path: str
    version: str


class NodeFacts(Document, frozen=True):
    """The fields are columns.NODE_COLUMNS, without `node` and `used_cpus`, which merge adds."""

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
    # from here on: VOLATILE
    memory_available_bytes: Count | None = None
    load_1_min: Number | None = None
    load_5_min: Number | None = None
    load_15_min: Number | None = None
    read_at: str | None = None
    target_bytes: Count | None = None
    target_free_bytes: Count | None = None
    target_inodes: Count | None = None
    target_free_inodes: Count | None = None
    tools: tuple[ToolOfNode, ...] | None = None

    def __post_init__(self) -> None:
        sources = (one.cpus for one in self.reserved_sources or ())
        for text in (self.cpus_allowed, self.cores, self.socket_cpus, self.reserved_cpus, *sources):
            parse(text or "")
        for one in self.numa or ():
            parse(one.cpus or "")

    @property
    def topology(self) -> Topology:
        numa = ((one.node, one.cpus) for one in self.numa or ())
        return Topology.of_texts(self.cores, self.socket_cpus, numa)

    def row(self) -> dict[str, object]:
        """The facts as a row of the table of nodes: every column, of lists the entries with every key."""
        return {
            name: [msgspec.structs.asdict(one) for one in value] if isinstance(value, tuple) else value
            for name, value in msgspec.structs.asdict(self).items()
        }


#: Facts that may change from run to run on the same node. The rest identifies a node.
VOLATILE = NodeFacts.__struct_fields__[NodeFacts.__struct_fields__.index("memory_available_bytes") :]


def host() -> str:
    return printable(socket.gethostname())


def key(node: NodeFacts) -> str:
    """Hash of the facts that stay the same from run to run: the key of the table `nodes`."""
    # a reboot moves the total by a few pages, and a virtual machine may get the memory of its NUMA nodes later
    stable = msgspec.structs.replace(
        node,
        memory_bytes=round((node.memory_bytes or 0) / 2**30),
        numa=tuple(NumaNode(one.node, one.cpus) for one in node.numa or ()),
        **dict.fromkeys(VOLATILE),
    )
    return hashlib.sha256(msgspec.json.encode(stable)).hexdigest()[:12]


def environment() -> dict[str, str]:
    """The allow-listed variables that are set."""
    return {name: printable(os.environ[name]) for name in ENVIRONMENT if name in os.environ}


def keep_hwloc_still() -> None:
    """Have MPI libraries learn what the CPUs are like without binding themselves to one after the other, as hwloc does
    while MPI starts: to those, too, that a file system keeps for itself. What the site has set stays."""
    os.environ.setdefault("HWLOC_COMPONENTS", "-x86")
