"""Sweeps, limits and the configuration as plans and campaign.json store them for the report.

The digest of a plan depends on the order of the fields.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from iosweep.config.criteria import Criterion
from iosweep.config.sweeps import RepetitionRule
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Count, Deadline, Integer, Name, Part, PathText, Seconds, Share, Some
from iosweep.node.pinning import CpuSettings
from iosweep.tools import FileSet, Phase, Step, Value, tools
from iosweep.tools.reading import SHORTEST_STEADY_S

if TYPE_CHECKING:
    from iosweep.plan.forecast import RepetitionNeeds


class SweepFacts(Part, frozen=True, kw_only=True):
    """A sweep. `axes`: axis -> its values; `phase_time_s`: None where a count bounds the phases; `ramp`: the axis that
    is climbed until nothing more is gained."""

    axes: dict[str, tuple[bool | Integer | str, ...]]
    description: str | None = None
    name: Name
    one_pass: bool = False
    phase_time_s: Seconds | None = None
    phases: tuple[str, ...]
    points: tuple[Name, ...]
    ramp: str | None = None
    repetitions: RepetitionRule
    scaled: bool = False
    source: str | None = None
    suite: str | None = None
    tool: str


class ConfigurationFile(Part, frozen=True):
    """A file of the configuration, with its text."""

    file: str
    text: str


#: Largest file of a plan that is read: a point takes about 1 kB, mostly its options.
MOST_PLAN_BYTES = 1 << 30


# The settings that a plan keeps, as in the configuration (config/sections.py, whose models take longer to load). The
# digest of a plan depends on the order of the fields.


class TargetSettings(Part, frozen=True, kw_only=True):
    """The file system under test. layout: arguments of its command, None where it is inherited."""

    deadline: Deadline
    directory: PathText
    keep: Literal["none", "data_sets"]
    layout: tuple[str, ...] | None = None
    lock: PathText | None
    node_bandwidth: Count | None
    server_cache: Count | None = None
    type: str | None = None


class LimitSettings(Part, frozen=True, kw_only=True):
    """Ceilings; bytes_written and time are None where they are not limited."""

    bytes_written: Count | None
    fill: Share = 0.80
    grace: Seconds
    retried: Share
    share_of_free: Share = 0.10
    shortest_phase: Seconds = SHORTEST_STEADY_S
    time: Seconds | None


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One combination of a sweep's axes.

    `options` are the resolved options that have an effect, sizes in bytes. `id` is a readable name and a hash of
    everything that determines the measurement; `sweeps` and `repetitions` are not part of it.
    """

    id: Name
    tool: str
    phases: Annotated[tuple[str, ...], Meta(min_length=1)]
    nodes: Some
    options: Mapping[str, Value]
    phase_time_s: Seconds | None
    repetitions: RepetitionRule
    sweeps: Annotated[tuple[Name, ...], Meta(min_length=1)]

    @cached_property
    def steps(self) -> list[Step]:
        """The commands of a repetition, in order: one for each phase, or one for all phases (`Tool.together`)."""
        groups = _groups(self.tool, self.phases)
        return [Step(self.options, group, self.nodes, self.phase_time_s) for group in groups]

    @cached_property
    def file_sets(self) -> list[FileSet]:
        """The file set of each step, for the first repetition."""
        return [file_set(self, step) for step in self.steps]

    @property
    def tasks(self) -> int:
        """Ranks or workers on all nodes together."""
        return self.nodes * int(self.options.get("threads_per_node") or 1)

    @property
    def volume_bytes(self) -> int:
        """Bytes of all its files, or of its part of shared ones, on all nodes together; 0 where there are no sizes."""
        known = self.options
        each = (known.get("threads_per_node") or 1, known.get("files_per_thread") or 1, known.get("file_size") or 0)
        return self.nodes * math.prod(int(factor) for factor in each)

    def measured(self) -> list[Phase]:
        """The phases, in order."""
        return [phase for step in self.steps for phase in step.phases]


class Allocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch job and the points that run inside it. Its size depends on the node count only."""

    name: Name
    nodes: Some
    points: tuple[Point, ...]


class Plan(documents.Part, frozen=True, kw_only=True, dict=True):
    """Everything that a campaign will do."""

    campaign: Name
    description: str | None
    target: TargetSettings
    limits: LimitSettings
    cpus: CpuSettings
    seed: Integer
    sweeps: tuple[SweepFacts, ...]  # for the report
    allocations: tuple[Allocation, ...]
    configuration: tuple[ConfigurationFile, ...]
    variables: tuple[str, ...] = ()  # names of variables that tools get besides those in environment.py
    accept: tuple[Criterion, ...] = ()

    @property
    def points(self) -> list[Point]:
        """All points, allocation by allocation."""
        return [point for allocation in self.allocations for point in allocation.points]

    def shortest_steady_s(self, point: Point) -> float:
        """Timed phases of a point that are shorter are suspect, in seconds; 0 where every sweep that has the point was
        scaled to a smaller machine."""
        return 0.0 if set(point.sweeps) <= self._scaled else self.limits.shortest_phase

    @cached_property
    def forecasts(self) -> dict[str, RepetitionNeeds]:
        """Point -> the needs of a repetition, as forecast.py computed them."""
        return {}

    @cached_property
    def _scaled(self) -> set[str]:
        return {sweep.name for sweep in self.sweeps if sweep.scaled}

    def content(self) -> bytes:
        """The plan as JSON."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=2)

    def document(self) -> bytes:
        """The file that allocations and tables work from: the content with its digest (documents.py)."""
        return documents.seal(self.content())

    @cached_property
    def digest(self) -> str:
        """Hash of the whole content, for file names."""
        return hashlib.sha256(self.content()).hexdigest()[:12]


@cache
def _groups(name: str, phases: tuple[str, ...]) -> tuple[tuple[Phase, ...], ...]:
    """The phases of each command of a point."""
    tool = tools()[name]
    found = tuple(tool.phases[phase] for phase in phases)
    return (found,) if tool.together else tuple((phase,) for phase in found)


def plan_files(results: Path) -> list[Path]:
    """The files of the plans of a campaign, the one that was written last at the end. A link stays one: `read_plan`
    refuses it. Raises Damaged where they cannot be listed."""
    found = []
    try:
        names = safe_paths.names(results, "plans")
    except OSError as error:
        raise documents.Damaged(results / "plans", f"it cannot be read: {error.strerror}") from None
    for file in (results / "plans" / name for name in names if name.endswith(".json")):
        with contextlib.suppress(OSError):
            found.append((file.lstat().st_mtime_ns, file.name, file))
    return [file for *_, file in sorted(found)]


def read_plan(file: Path) -> Plan:
    """The plan of a file that holds a `Plan.document`, named by its digest. Raises FileNotFoundError, Damaged."""
    made = documents.decode(documents.content(file, MOST_PLAN_BYTES), Plan, file)
    if made.digest != file.stem:
        raise documents.Damaged(file, "its content is not what its name says")
    return made


def file_set(point: Point, step: Step, repetition: int = 1) -> FileSet:
    """The files that a step of a repetition works on."""
    return tools()[point.tool].file_set(step, f"fresh/{point.id}-r{repetition}")


def seed_of(seed: int, point: str, repetition: int, phase: str) -> int:
    """The tool's seed. It differs between repetitions, and stays when the campaign is run again."""
    digest = hashlib.sha256(f"{seed}:{point}:{repetition}:{phase}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
