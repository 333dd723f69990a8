"""What cpu_probe.py reads of a node's CPUs, of WEKA and of Slurm. Nodes send it to the doctor as JSON."""

from __future__ import annotations

import msgspec

from iosweep.files.fields import Part
from iosweep.node.cpus import Topology
from iosweep.node.node_facts import Nic, NumaNode, ReservedSource


class Cpuset(Part, frozen=True):
    """A cgroup of Slurm, and its CPUs."""

    path: str
    cpus: str


class Controller(Part, frozen=True):
    """What Slurm's controller says of itself and of some nodes.

    config: the settings that matter here, None where it does not answer. nodes: names of nodes that are alike, with
    what `scontrol show node` prints of them. error: why there is no more; refused: Slurm answered that it has no such
    node.
    """

    config: dict[str, str] | None = None
    nodes: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = ()
    error: str = ""
    refused: bool = False


class SlurmFacts(Part, frozen=True):
    """What Slurm says of one node.

    name: Slurm's name of it. config: as in Controller. node: what `scontrol show node` prints; None where `error` says
    why, unknown: because it is not a node of Slurm. file: slurm.conf; line: what that says of the node, None where it
    cannot be read. slurmd: the CPUs that slurmd itself may use.
    """

    name: str = ""
    config: dict[str, str] = msgspec.field(default_factory=dict)
    node: dict[str, str] | None = None
    error: str = ""
    unknown: bool = False
    file: str = ""
    line: dict[str, str] | None = None
    slurmd: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The line of slurm.conf, or nothing."""
        return self.line or {}

    @property
    def on_the_line(self) -> str:
        return f"on the line NodeName={self.given.get('NodeName') or self.name} of slurm.conf"


class Probe(Part, frozen=True, kw_only=True):
    """One node. CPU sets are lists (`0-3,8`), the topology as in NodeFacts.

    cpus_allowed: the CPUs that the process which looks may use, in a job (`in_job`) the job's. isolate_cpusets: the
    value in WEKA's service.conf, "" without one, None without the file. nets: interfaces that WEKA's mounts name.
    busy: CPU -> share of the time that it was not idle, None if not sampled.
    """

    host: str
    cores: str
    socket_cpus: str
    numa: tuple[NumaNode, ...]
    reserved_cpus: str | None
    reserved_sources: tuple[ReservedSource, ...]
    cpus_allowed: str
    in_job: bool
    isolate_cpusets: str | None
    nics: tuple[Nic, ...]
    nets: tuple[str, ...]
    cgroups: tuple[Cpuset, ...]
    slurm: SlurmFacts | None
    busy: dict[str, float] | None = None

    @property
    def topology(self) -> Topology:
        return Topology.of_texts(self.cores, self.socket_cpus, ((one.node, one.cpus) for one in self.numa))
