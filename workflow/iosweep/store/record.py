"""The record of a repetition: points/<point>/r<repetition>-<try>.json (docs/store.md)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from iosweep.files.documents import Count, Document, Integer, Moment, Name, Number, Part, Seconds, TryNumber
from iosweep.node.counters import Counted, Moved
from iosweep.node.load import Load
from iosweep.node.pinning import CpuRecord
from iosweep.target.trees import Sample


class Archive(Part, frozen=True):
    """The file with the raw output."""

    name: str
    sha256: str
    bytes: Count


class ToolBuild(Part, frozen=True):
    """The binary that measured."""

    sha256: str
    version: str
    path: str = ""


class Target(Part, frozen=True, kw_only=True):
    """The file system that was measured. volume: its name without servers (target.identify.volume)."""

    directory: str
    source: str
    fstype: str
    layout: tuple[str, ...] | None = None  # as asked for
    layout_is: str
    fsid: str | None = None
    volume: str | None = None
    mount: str | None = None

    @property
    def facts(self) -> dict[str, str | None]:
        """What tells it from other file systems, as target.identify.volume takes it."""
        return {"source": self.source, "fstype": self.fstype, "fsid": self.fsid, "volume": self.volume}


class Launcher(Part, frozen=True):
    """What started the ranks; path and version of mpiexec, where that did."""

    name: str
    path: str | None = None
    version: str | None = None


class SlurmJob(Part, frozen=True):
    """The job that measured, with its nodes in Slurm's order."""

    job: str
    launcher: str = ""
    allocation_hosts: tuple[str, ...] = ()


class Exclusive(Part, frozen=True):
    """Whether other campaigns were kept off the file system."""

    enforced: bool
    evidence: str


class Files(Part, frozen=True, kw_only=True):
    """The files that a phase worked on. own: hosts that read what they had written, None where that is not known;
    wrong: why the files are not as they must be, None where they were not looked at; holes: none, found, or why they
    were not looked for. changed: what happened to files that were read meanwhile, None where they were not looked at
    again; unclear: why that cannot be told, or was not looked at. sample: blocks that were read back, or else unread:
    why not. counted: what counters saw of data sets while they were written, the least of any set."""

    role: str = ""
    files: Count = 0
    file_size_bytes: Count = 0
    set_bytes: Count = 0
    own: tuple[str, ...] | None = None
    wrong: tuple[str, ...] | None = None
    holes: str | None = None
    changed: tuple[str, ...] | None = None
    unclear: str = ""
    sample: Sample | None = None
    unread: str = ""
    counted: Counted | None = None


class PhaseRun(Part, frozen=True, kw_only=True):
    """One phase. headline: its figure, latency_mean_s: mean latency of an I/O, both None where it is invalid; stderr:
    the first 2,000 characters.

    moved: host -> what its kernel counted.

    verdict, reasons: those of the runner, for readers that do not wait for merge, which judges anew.
    """

    phase: str
    argv: tuple[str, ...]
    started: Moment
    wall_s: Seconds
    argvs: tuple[tuple[str, ...], ...] = ()  # all commands, where there were several
    headline: Number | None = None
    latency_mean_s: Number | None = None
    verdict: str = ""
    reasons: tuple[str, ...] = ()
    exit_code: Integer = 0
    timed_out: bool = False
    flooded: bool = False  # it printed too much
    stderr: str = ""
    not_run: str = ""  # why the command was not started
    settled_s: Seconds | None = None  # rest after files were deleted
    left_behind: tuple[str, ...] = ()  # processes that could not be killed, as `fio (pid 7) on n2`
    ran_on: dict[str, Count] = field(default_factory=dict)  # host -> ranks that were seen there at once
    leftover: Count | None = None  # files that were there at the end
    leftover_expected: Count | None = None
    exclusive: Exclusive | None = None
    load: Load | None = None
    moved: dict[str, Moved] = field(default_factory=dict)
    files: Files = Files()
    cpus: CpuRecord | None = None


class Record(Document, frozen=True, kw_only=True):
    """A repetition. host, node: the first node and the key of its facts; hosts, nodes: the same of all.

    session: one run of an allocation (its Slurm job, else when it began);
    bound: how ranks were bound (pinning.bound); build: key of the build document; retry: why another try may help;
    retried: whether this is such a try. repetition, attempt, raw are set by `Store.commit`.
    """

    point: Name
    repetition: TryNumber = 1
    attempt: TryNumber = 1
    iosweep: str = ""
    campaign: str = ""
    started: Moment
    ended: Moment
    host: str
    node: str
    hosts: tuple[str, ...] = ()
    nodes: dict[str, str] = field(default_factory=dict)
    launcher: Launcher | None = None
    slurm: SlurmJob | None = None
    session: str | None = None
    bound: str | None = None
    build: str | None = None
    tool: ToolBuild
    target: Target
    environment: dict[str, str] = field(default_factory=dict)
    phases: Annotated[tuple[PhaseRun, ...], Meta(min_length=1)]
    retry: str | None = None
    retried: bool = False
    raw: Archive = Archive("", "", 0)

    @property
    def facts_of(self) -> dict[str, str]:
        """Nodes that measured -> keys of their facts."""
        return self.nodes or {self.host: self.node}
