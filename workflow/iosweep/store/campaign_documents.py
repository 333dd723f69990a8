"""The small documents of a campaign (docs/store.md): iosweep.json, refusals, missing points, data sets, target.json,
spent.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iosweep.files.documents import Count, Deadline, Document, Integer, Name, Number, Part, PathText, Seconds
from iosweep.node.counters import Counted
from iosweep.node.facts import NodeFacts
from iosweep.node.pinning import CpuSettings
from iosweep.programs.builds import BuiltMpi, BuiltProgram
from iosweep.target.directory import name_of
from iosweep.text import printable


class Marker(Document, frozen=True):
    """iosweep.json: the results are ours. uuid: also in the marker of the campaign's directory on the target."""

    uuid: str
    campaign: str


class Needs(Part, frozen=True, kw_only=True, omit_defaults=True):
    """What a point needs that was not there: time in limits.time, CPUs (the settings of pinning), a tool (and the hash
    of one that did not run), mpiexec (the candidates), another launcher, or nodes and ranks that the launcher starts.
    """

    time_s: Number | None = None
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


class Checkout(Part, frozen=True, kw_only=True):
    """Spack itself (with a version), or its packages (with a pin)."""

    path: str
    commit: str | None
    changed: bool
    version: str | None = None
    pin: str | None = None


class Build(Part, frozen=True, kw_only=True):
    """What the report says of a build. The fields behind `results` are those of a build of Spack."""

    provider: str
    tools: dict[str, BuiltProgram]
    mpi: BuiltMpi | None = None
    results: Count = 0
    spack: Checkout | None = None
    repository: Checkout | None = None

    def __post_init__(self) -> None:
        if self.provider == "spack" and not (self.spack and self.repository):
            raise ValueError("a build of Spack without `spack` or `repository`")


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
    """spent.json: what limits.time and limits.bytes_written count, and the fastest timed writes so far: the highest
    rate of a node, and the lowest mean latency of an I/O. None: as slow as the forecast assumes, or slower."""

    spent_s: Seconds
    bytes_written: Count = 0
    write_bytes_per_s_per_node: Number | None = None
    write_latency_s: Number | None = None


class ClaimedTarget(Document, frozen=True, kw_only=True):
    """target.json: the campaign's directory on the target, and the UUID of its marker.

    lock: the directory of the lock; file_system: its identity; tidied: nothing that
    target.keep does not keep is left there.
    """

    campaign: Name
    directory: PathText
    uuid: str
    layout: tuple[str, ...] | None
    deadline: Deadline
    lock: PathText | None
    file_system: str
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
