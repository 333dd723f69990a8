"""The documents of a campaign (docs/store.md).

The record of a repetition, points/<point>/r<repetition>-<try>.json, is read to three depths: `RecordHead` decides
what counts, `JudgedRecord` is the part that the tables read, `Record` all of it. After it the small documents.
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
#: What a column of the results holds.
Value = bool | int | float | str | None


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


class MeasuredTarget(Part, frozen=True, kw_only=True):
    """The file system that was measured. source: mount source when the campaign's directory was made, which may name
    another of its servers later (identify.same_source)."""

    directory: str
    source: str
    fstype: str
    layout: tuple[str, ...] | None = None  # as asked for
    layout_is: str
    fsid: str | None = None
    mount: str | None = None

    @property
    def facts(self) -> dict[str, str | None]:
        """Facts that identify the file system, for target.identify.volume."""
        return {"source": self.source, "fstype": self.fstype, "fsid": self.fsid}


class Launcher(Part, frozen=True):
    """The launcher of the ranks; path and version are those of mpiexec."""

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
    """The files that a phase worked on.

    self_readers: hosts that read files which they had written, None if unknown; wrong: why the files are not usable,
    None where nobody looked; holes: none, found, or why nobody looked for them; changed: changes of the files while
    they were read, None where nobody looked again; unclear: why changes cannot be told; sample: blocks that were read
    back, else unread says why not; counted: what counters saw while data sets were written, the least of any set.
    """

    role: str = ""
    files: Count = 0
    file_size_bytes: Count = 0
    set_bytes: Count = 0
    self_readers: tuple[str, ...] | None = None
    wrong: tuple[str, ...] | None = None
    holes: str | None = None
    changed: tuple[str, ...] | None = None
    unclear: str = ""
    sample: Sample | None = None
    unread: str = ""
    counted: Counted | None = None


class PhaseRun(Part, frozen=True, kw_only=True):
    """The run of one phase. stderr: the first 2,000 characters; moved: host -> what its kernel counted."""

    phase: str
    argv: tuple[str, ...]
    started: Moment
    wall_s: Seconds
    argvs: tuple[tuple[str, ...], ...] = ()  # all commands, where there were several
    exit_code: Integer = 0
    timed_out: bool = False
    flooded: bool = False  # it printed too much
    stderr: str = ""
    not_run: str = ""  # why the command was not started
    left_behind: tuple[str, ...] = ()  # processes that could not be killed, as `fio (pid 7) on n2`
    ran_on: dict[str, Count] = field(default_factory=dict)  # host -> ranks that were seen there at once
    leftover: Count | None = None  # files that were there at the end
    leftover_expected: Count | None = None
    exclusive: Exclusive | None = None
    load: Load | None = None
    moved: dict[str, Moved] = field(default_factory=dict)
    files: Files = Files()
    cpus: CpuRecord | None = None


class Finding(Part, frozen=True, array_like=True):
    """The outcome of a check on a phase (pass, fail or not checked), with its evidence or the reason why it was not
    checked. curable: another try may help."""

    outcome: str
    evidence: str
    curable: bool = False


class PhaseVerdict(Part, frozen=True, kw_only=True):
    """The part of a judged phase that decisions need. headline: its figure; latency_mean_s: mean latency of an I/O;
    both None where the verdict is invalid."""

    phase: str
    verdict: Verdict
    headline: Number | None = None
    latency_mean_s: Number | None = None


class JudgedPhase(PhaseVerdict, frozen=True, kw_only=True):
    """A judged phase of a repetition: a row of the tables.

    values: column of results.parquet -> its value, for the columns that raw output and run decide; findings: check ->
    its finding, without the checks that do not apply; series, node_rates, histogram: rows of the companion tables, as
    they stand there after their key; used_cpus: nodes, joined by commas -> CPUs that ranks and workers were allowed on.
    """

    reasons: tuple[str, ...] = ()
    started: Moment
    values: dict[str, Value] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    series: tuple[tuple[str, int | None, str, float, float, tuple[float | None, ...]], ...] = ()
    node_rates: tuple[tuple[str, int | None, float | None, float | None], ...] = ()
    histogram: tuple[float, float, tuple[int, ...]] | None = None
    used_cpus: dict[str, str | None] = field(default_factory=dict)


class RecordHead(Document, frozen=True, kw_only=True):
    """The part of a record that decides whether it counts, and what is left to measure. msgspec skips the rest, so
    100,000 of them fit into memory.

    intact: the archive is there with the size that was stored (set by the store). bound: how ranks were bound
    (pinning.bound); retry: why another try may help; retried: whether this is such a try; judged: the key of the
    judgment that made the rows (judge.verdict.key). repetition, attempt, raw are set by `Store.commit`.
    """

    point: Name
    repetition: TryNumber = 1
    attempt: TryNumber = 1
    intact: bool = True
    host: str
    hosts: tuple[str, ...] = ()
    slurm: SlurmJob | None = None
    bound: str | None = None
    tool: ToolBuild
    target: MeasuredTarget
    retry: str | None = None
    retried: bool = False
    raw: Archive = Archive("", "", 0)
    judged: str = ""
    rows: tuple[PhaseVerdict, ...] = ()

    @property
    def ran(self) -> tuple[str, str | None]:
        """Its nodes, joined by commas, and its Slurm job."""
        return ",".join(self.hosts or (self.host,)), self.slurm.job if self.slurm else None

    @property
    def figures(self) -> int:
        """How many of its phases have a figure that counts."""
        return sum(row.headline is not None for row in self.rows) if self.intact else 0


class JudgedRecord(RecordHead, frozen=True, kw_only=True):
    """The part of a record that the tables read. node: the key of the first node's facts; nodes: of all of them.

    session: one run of an allocation (its Slurm job, else when it began); build: key of the build document.
    """

    started: Moment
    ended: Moment
    node: str
    nodes: dict[str, str] = field(default_factory=dict)
    launcher: Launcher | None = None
    session: str | None = None
    build: str | None = None
    rows: tuple[JudgedPhase, ...] = ()

    def head(self) -> RecordHead:
        """The part that stays in memory, as there may be 100,000 records."""
        return msgspec.convert(self, RecordHead, from_attributes=True)

    @property
    def facts_of(self) -> dict[str, str]:
        """Nodes that measured -> keys of their facts."""
        return self.nodes or {self.host: self.node}


class Record(JudgedRecord, frozen=True, kw_only=True):
    """A stored repetition. No rows where the judgment failed by a fault of ours: `iosweep tables` judges again."""

    iosweep: str = ""
    campaign: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    phases: Annotated[tuple[PhaseRun, ...], Meta(min_length=1)]


# The small documents


class Marker(Document, frozen=True):
    """iosweep.json: the results are ours. uuid: also in the marker of the campaign's directory on the target."""

    uuid: str
    campaign: str


class Needs(Part, frozen=True, kw_only=True, omit_defaults=True):
    """What a point needs that was not there: CPUs (the settings of pinning), a tool (and the hash
    of one that did not run), mpiexec (the candidates), another launcher, or nodes and ranks that the launcher starts.
    """

    cpus: CpuSettings | None = None
    tool: str | None = None
    sha256: str | None = None
    mpiexec: tuple[str, ...] | None = None
    launcher: str | None = None
    nodes: Count | None = None
    ranks: Count | None = None


class Missing(Document, frozen=True):
    """points/<point>/missing.json: why the point cannot be measured."""

    needs: Needs
    reason: str


class Refusal(Document, frozen=True):
    """refusals/<allocation>.json: why an allocation could not go on.

    lasting: another job would not help; after: the Slurm job that must end first; nodes: those at fault;
    short_of_time: its job was too short; stopped: its job was ended by a signal, or canceled;
    not_built: its tools could not be built.
    """

    reason: str
    lasting: bool = False
    after: str | None = None
    nodes: tuple[str, ...] = ()
    short_of_time: bool = False
    stopped: bool = False
    not_built: bool = False


class DataSet(Document, frozen=True, kw_only=True):
    """sets/<name>.json: how a data set was prepared. counted: what the counters saw of it, or of all sets that were
    written with it."""

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
    """spent.json: what limits.time and limits.bytes_written count."""

    spent_s: Seconds
    bytes_written: Count = 0


class ClaimedTarget(Document, frozen=True, kw_only=True):
    """target.json: the campaign's directory on the target, and the UUID of its marker.

    lock: the directory of the lock; file_system, source: what it was made on (identify.identity); tidied: only
    what target.keep keeps is left there.
    """

    campaign: Name
    directory: PathText
    uuid: str
    layout: tuple[str, ...] | None
    deadline: Deadline
    lock: PathText | None
    file_system: str
    source: str
    tidied: bool

    def __post_init__(self) -> None:
        for name, path in (("directory", self.directory), ("lock", self.lock or "")):
            if not path.isprintable():
                raise ValueError(f"{name} is not a path")
        directory = Path(self.directory)
        if not directory.is_absolute() or directory.name != name_of(self.campaign):
            raise ValueError(
                f"{printable(self.directory)} is not the directory of the campaign `{printable(self.campaign)}`"
            )

    def elsewhere(self, here: str) -> str:
        """The message for a directory with our marker on another file system than this one. `here`: its identity."""
        return (
            f"{self.directory} is on another file system than when it was measured ({here}, and it was"
            f" {self.file_system}); it is left alone. Mount that one, or look at this and remove it by hand"
        )


#: Type -> its folder, or the name of the one file of a campaign.
FOLDERS: Mapping[type[Document], str] = {Refusal: "refusals", DataSet: "sets", NodeFacts: "nodes"}
FILES: Mapping[type[Document], str] = {Marker: "iosweep", TotalSpent: "spent", ClaimedTarget: "target"}
