"""Types of the JSON documents of a campaign: the record of a repetition, and the small documents (docs/store.md).

A record, points/<point>/r<repetition>-<try>.json, is read to one of three depths: `RecordHead` suffices to decide
which records count, `JudgedRecord` is the part that the tables need, `Record` is everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from iosweep.files.documents import (
    Count,
    Deadline,
    Document,
    Integer,
    Moment,
    Name,
    Number,
    Part,
    PathText,
    Seconds,
    TryNumber,
)
from iosweep.node.counters import Counted, Moved
from iosweep.node.facts import NodeFacts
from iosweep.node.load import Load
from iosweep.node.pinning import CpuRecord, CpuSettings
from iosweep.target.directory import name_of
from iosweep.target.trees import Sample
from iosweep.text import printable

Verdict = Literal["valid", "suspect", "invalid", "missing"]
#: A value in a column of the results.
Value = bool | int | float | str | None


class Archive(Part, frozen=True):
    """The zip file with the raw output of a repetition."""

    name: str
    sha256: str
    bytes: Count


class ToolBuild(Part, frozen=True):
    """The binary of the tool that measured."""

    sha256: str
    version: str
    path: str = ""


class MeasuredTarget(Part, frozen=True, kw_only=True):
    """The file system that was measured."""

    directory: str
    source: str  # when the directory was created; later mounts may name other servers (identify.same_source)
    fstype: str
    layout: tuple[str, ...] | None = None  # as configured
    layout_is: str  # as read
    fsid: str | None = None
    mount: str | None = None

    @property
    def facts(self) -> dict[str, str | None]:
        """Facts that identify the file system, for target.identify.volume."""
        return {"source": self.source, "fstype": self.fstype, "fsid": self.fsid}


class Launcher(Part, frozen=True):
    """The launcher of the ranks. path, version: of mpiexec."""

    name: str
    path: str | None = None
    version: str | None = None


class SlurmJob(Part, frozen=True):
    """The Slurm job that measured. allocation_hosts: its nodes in Slurm's order."""

    job: str
    launcher: str = ""
    allocation_hosts: tuple[str, ...] = ()


class Exclusive(Part, frozen=True):
    """Whether other campaigns were kept off the file system."""

    enforced: bool
    evidence: str


class Files(Part, frozen=True, kw_only=True):
    """The files that a phase worked on."""

    role: str = ""
    files: Count = 0
    file_size_bytes: Count = 0
    set_bytes: Count = 0
    self_readers: tuple[str, ...] | None = None  # hosts that read files that they wrote; None: unknown
    wrong: tuple[str, ...] | None = None  # why the files are not usable; None: not examined
    holes: str | None = None  # none, found, or why holes are unknown
    changed: tuple[str, ...] | None = None  # changes while the files were read; None: not examined again
    unclear: str = ""  # why it is unknown whether the files changed
    sample: Sample | None = None  # blocks that were read back
    unread: str = ""  # why no blocks were read back
    counted: Counted | None = None  # shares that counters saw while data sets were written: the lowest of all sets


class PhaseRun(Part, frozen=True, kw_only=True):
    """The run of one phase."""

    phase: str
    argv: tuple[str, ...]
    started: Moment
    wall_s: Seconds
    argvs: tuple[tuple[str, ...], ...] = ()  # all commands, if there were several
    exit_code: Integer = 0
    timed_out: bool = False
    flooded: bool = False  # it was killed because it printed too much
    stderr: str = ""  # the first 2,000 characters
    not_run: str = ""  # why the command was not started
    left_behind: tuple[str, ...] = ()  # processes that could not be killed, as `fio (pid 7) on n2`
    ran_on: dict[str, Count] = field(default_factory=dict)  # host -> ranks that were seen there at the same time
    leftover: Count | None = None  # files that the phase left behind
    leftover_expected: Count | None = None
    exclusive: Exclusive | None = None
    load: Load | None = None
    moved: dict[str, Moved] = field(default_factory=dict)  # host -> bytes moved, by its counters
    files: Files = Files()
    cpus: CpuRecord | None = None


class Finding(Part, frozen=True, array_like=True):
    """The outcome of a check on a phase (pass, fail or not checked), with its evidence or the reason why it was not
    checked. retry: another try may help."""

    outcome: str
    evidence: str
    retry: bool = False


class PhaseVerdict(Part, frozen=True, kw_only=True):
    """The part of a judged phase that decisions need. headline: its headline figure; latency_mean_s: mean latency of an
    I/O; both None if the verdict is invalid."""

    phase: str
    verdict: Verdict
    headline: Number | None = None
    latency_mean_s: Number | None = None


class JudgedPhase(PhaseVerdict, frozen=True, kw_only=True):
    """A judged phase of a repetition: a row of the tables."""

    reasons: tuple[str, ...] = ()
    started: Moment
    #: Column of results.parquet -> its value, for the columns that depend on raw output and run.
    values: dict[str, Value] = field(default_factory=dict)
    #: Check -> its finding, without checks that do not apply.
    findings: dict[str, Finding] = field(default_factory=dict)
    # rows of the companion tables, without their keys
    series: tuple[tuple[str, str, float, float, tuple[float | None, ...]], ...] = ()
    node_rates: tuple[tuple[str, int | None, float | None, float | None], ...] = ()
    histogram: tuple[float, float, tuple[int, ...]] | None = None
    #: Nodes, joined by commas -> CPUs that ranks and workers were allowed on.
    used_cpus: dict[str, str | None] = field(default_factory=dict)


class RecordHead(Document, frozen=True, kw_only=True):
    """The part of a record that decides whether it counts, and which repetitions are left to measure. msgspec skips the
    rest, so that 100,000 records fit into memory. `Store.commit` sets repetition, attempt and raw."""

    point: Name
    repetition: TryNumber = 1
    attempt: TryNumber = 1
    session: str | None = None  # a run of an allocation: its Slurm job, or the time when it began
    intact: bool = True  # the archive is there, with the size that was stored (set by the store)
    host: str
    hosts: tuple[str, ...] = ()
    slurm: SlurmJob | None = None
    bound: str | None = None  # how ranks were bound (pinning.bound)
    tool: ToolBuild
    target: MeasuredTarget
    retry: str | None = None  # why another try may help
    retried: bool = False  # whether this is such a try
    raw: Archive = Archive("", "", 0)
    judged: str = ""  # key of the judgment that produced the rows (judge.verdict.key)
    rows: tuple[PhaseVerdict, ...] = ()

    @property
    def measured_on(self) -> tuple[str, str | None]:
        """Its nodes, joined by commas, and its Slurm job."""
        return ",".join(self.hosts or (self.host,)), self.slurm.job if self.slurm else None

    @property
    def figures(self) -> int:
        """Number of its phases with a headline figure; 0 if it is not intact."""
        return sum(row.headline is not None for row in self.rows) if self.intact else 0


class JudgedRecord(RecordHead, frozen=True, kw_only=True):
    """The part of a record that the tables read."""

    started: Moment
    ended: Moment
    node: str  # key of the first node's facts
    nodes: dict[str, str] = field(default_factory=dict)  # host -> key of its facts
    launcher: Launcher | None = None
    build: str | None = None  # key of the build document
    rows: tuple[JudgedPhase, ...] = ()

    def head(self) -> RecordHead:
        """The part that stays in memory."""
        return msgspec.convert(self, RecordHead, from_attributes=True)

    @property
    def facts_of(self) -> dict[str, str]:
        """host -> key of its facts, for each node that measured."""
        return self.nodes or {self.host: self.node}


class Record(JudgedRecord, frozen=True, kw_only=True):
    """A stored repetition. It has no rows if a bug made judging fail; then `iosweep tables` judges it again."""

    iosweep: str = ""
    campaign: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    phases: Annotated[tuple[PhaseRun, ...], Meta(min_length=1)]


# The small documents


class Marker(Document, frozen=True):
    """iosweep.json, which proves that the results are ours. uuid: also in the marker of the campaign's directory."""

    uuid: str
    campaign: str


class Needs(Part, frozen=True, kw_only=True, omit_defaults=True):
    """The requirements of a point that were not met."""

    cpus: CpuSettings | None = None  # settings of pinning
    tool: str | None = None
    sha256: str | None = None  # of a tool that did not run
    mpiexec: tuple[str, ...] | None = None  # the candidates
    launcher: str | None = None  # the launcher that does not start the tool's ranks
    nodes: Count | None = None  # number that the launcher must reach
    ranks: Count | None = None  # number that the launcher must start


class Missing(Document, frozen=True):
    """points/<point>/missing.json: why the point cannot be measured."""

    needs: Needs
    reason: str


class Refusal(Document, frozen=True):
    """refusals/<allocation>.json: why an allocation could not continue."""

    reason: str
    lasting: bool = False  # another job would not help
    after: str | None = None  # the Slurm job that must end first
    nodes: tuple[str, ...] = ()  # the nodes at fault
    short_of_time: bool = False  # its job was too short
    stopped: bool = False  # its job was ended by a signal, or canceled
    not_built: bool = False  # its tools could not be built


class DataSet(Document, frozen=True, kw_only=True):
    """sets/<name>.json: how a data set was prepared. target: name of its target, where the campaign has several.
    counted: shares of its bytes that counters saw, together with the sets that were written at the same time."""

    target: str = ""
    argv: tuple[str, ...] = ()
    hosts: tuple[str | None, ...] = ()
    exit_code: Integer = 0
    timed_out: bool = False
    wall_s: Seconds = 0.0
    files: Count = 0
    file_size_bytes: Count | None = None
    stderr: str = ""
    counted: Counted | None = None


class TotalSpent(Document, frozen=True):
    """spent.json: the time and bytes that count against limits.time and limits.bytes_written."""

    spent_s: Seconds
    bytes_written: Count = 0


class ClaimedTarget(Document, frozen=True, kw_only=True):
    """targets/<name of the directory>.json: a campaign's directory on a target, and the UUID of its marker. target: the
    target's name, where the campaign has several."""

    campaign: Name
    target: str = ""
    directory: PathText
    uuid: str
    layout: tuple[str, ...] | None
    deadline: Deadline
    lock: PathText | None  # target.lock
    file_system: str  # identity of the file system that it was created on (identify.identity)
    source: str  # mount source of that file system
    tidied: bool  # everything is removed, except data sets that target.keep keeps

    def __post_init__(self) -> None:
        for name, path in (("directory", self.directory), ("lock", self.lock or "")):
            if not path.isprintable():
                raise ValueError(f"{name} is not a path")
        directory = Path(self.directory)
        if not directory.is_absolute() or directory.name != self.name:
            raise ValueError(
                f"{printable(self.directory)} is not the directory of the campaign `{printable(self.campaign)}`"
            )

    @property
    def name(self) -> str:
        """Name of the directory, and of this document."""
        return name_of(self.campaign, self.target)

    def elsewhere(self, here: str) -> str:
        """The message if the directory with our marker is now on another file system, whose identity is `here`."""
        return (
            f"{self.directory} is on another file system than when it was measured ({here}, and it was"
            f" {self.file_system}); it is left alone. Mount that one, or look at this and remove it by hand"
        )


#: Document type -> the folder of its files; document type -> the name of its only file.
FOLDERS: Mapping[type[Document], str] = {
    Refusal: "refusals",
    DataSet: "sets",
    NodeFacts: "nodes",
    ClaimedTarget: "targets",
}
FILES: Mapping[type[Document], str] = {Marker: "iosweep", TotalSpent: "spent"}
