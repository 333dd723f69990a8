"""The types of a plan: sweeps, points, allocations, settings; reading the plan files of a campaign.

The digest of a plan depends on the order of the fields.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
from collections.abc import Iterable, Mapping
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
from iosweep.target.directory import directory_of
from iosweep.text import human_count
from iosweep.tools import FileSet, Phase, Step, Value, tools
from iosweep.tools.axes import TARGET

if TYPE_CHECKING:
    from iosweep.plan.forecast import RepetitionNeeds


class SweepFacts(Part, frozen=True, kw_only=True):
    """A sweep, as the report needs it."""

    axes: dict[str, tuple[bool | Integer | str, ...]]  # axis -> its values
    description: str | None = None
    name: Name
    one_pass: bool = False
    phase_time_s: Seconds | None = None  # None: a count bounds the phases
    phases: tuple[str, ...]
    points: tuple[Name, ...]
    ramp: str | None = None  # the axis whose values are raised as long as that gains anything
    repetitions: RepetitionRule
    scaled: bool = False
    side_by_side: str | None = None  # the axis whose values are measured one right after the other
    source: str | None = None
    suite: str | None = None
    tool: str


class ConfigurationFile(Part, frozen=True):
    """A file of the configuration, with its text."""

    file: str
    text: str


#: The largest plan file that is read: a point takes about 1 kB, mostly for its options.
MOST_PLAN_BYTES = 1 << 30


# Settings that a plan copies from the configuration, because the models of config/sections.py are slow to load


class TargetSettings(Part, frozen=True, kw_only=True):
    """The section `target`, or one of `targets`. layout: arguments of the file system's command; None: inherited."""

    deadline: Deadline
    directory: PathText
    keep: Literal["none", "data_sets"]
    layout: tuple[str, ...] | None = None
    lock: PathText | None
    node_bandwidth: Count | None
    server_cache: Count | None = None
    type: str | None = None


class LimitSettings(Part, frozen=True, kw_only=True):
    """The section `limits`. bytes_written, time: None: no limit."""

    bytes_written: Count | None
    fill: Share
    grace: Seconds
    retried: Share
    share_of_free: Share
    shortest_phase: Seconds
    time: Seconds | None


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A combination of values of a sweep's axes."""

    id: Name  # expand.point_id, which depends on all fields except the last two
    tool: str
    phases: Annotated[tuple[str, ...], Meta(min_length=1)]
    nodes: Some
    options: Mapping[str, Value]  # resolved options that have an effect, sizes in bytes
    phase_time_s: Seconds | None
    repetitions: RepetitionRule
    sweeps: Annotated[tuple[Name, ...], Meta(min_length=1)]

    @cached_property
    def steps(self) -> list[Step]:
        """The commands of a repetition, in order: a command for each phase, or for all phases (`Tool.together`)."""
        groups = _groups(self.tool, self.phases)
        return [Step(self.options, group, self.nodes, self.phase_time_s) for group in groups]

    @cached_property
    def file_sets(self) -> list[FileSet]:
        """The file set of each step, for the first repetition."""
        return [file_set(self, step) for step in self.steps]

    @property
    def target(self) -> str:
        """Name of its target; "" where the campaign has one target only."""
        return str(self.options.get(TARGET.name) or "")

    @property
    def tasks(self) -> int:
        """Number of ranks or workers on all nodes together."""
        return self.nodes * int(self.options.get("threads_per_node") or 1)

    @property
    def volume_bytes(self) -> int:
        """Bytes of all its files, or of its parts of shared files, on all nodes together; 0 without a file size."""
        get = self.options.get
        factors = (get("threads_per_node") or 1, get("files_per_thread") or 1, get("file_size") or 0)
        return self.nodes * math.prod(int(factor) for factor in factors)

    def measured(self) -> list[Phase]:
        """The phases, in order."""
        return [phase for step in self.steps for phase in step.phases]


class Allocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch job and the points that run in it, all of them on at most `nodes` nodes. Allocations with equal `nodes`
    have the same points, which each of them measures in its session."""

    name: Name
    nodes: Some
    points: tuple[Point, ...]
    session: Some = 1

    @property
    def title(self) -> str:
        """`2 nodes`, or `2 nodes, session 3`"""
        return human_count(self.nodes, "node") + (f", session {self.session}" if self.session > 1 else "")


class Plan(documents.Part, frozen=True, kw_only=True, dict=True):
    """The whole work of a campaign, and the settings for it."""

    campaign: Name
    description: str | None
    targets: dict[str, TargetSettings]  # by name; the key `target` of the configuration has the name ""
    limits: LimitSettings
    cpus: CpuSettings
    seed: Integer
    sweeps: tuple[SweepFacts, ...]  # for the report
    allocations: tuple[Allocation, ...]  # session by session
    configuration: tuple[ConfigurationFile, ...]
    variables: tuple[str, ...] = ()  # tools.variables: environment variables that tools also get
    optional: tuple[str, ...] = ()  # tools.optional: tools whose points are skipped where they are not installed
    accept: tuple[Criterion, ...] = ()

    @property
    def points(self) -> list[Point]:
        """All points, allocation by allocation."""
        return [point for allocation in self.allocations if allocation.session == 1 for point in allocation.points]

    def target_of(self, point: Point) -> TargetSettings:
        """The settings of the target that a point is measured on."""
        return self.targets[point.target]

    @property
    def on(self) -> str:
        """Its targets in words (describe_targets)."""
        return describe_targets({name: target.directory for name, target in self.targets.items()})

    def directory_on(self, target: str) -> str:
        """Absolute path of the campaign's directory on a target."""
        return directory_of(self.targets[target].directory, self.campaign, target)

    @property
    def deadline(self) -> float:
        """The longest deadline of its targets, which one agent serves."""
        return max(target.deadline for target in self.targets.values())

    @cached_property
    def side_by_side(self) -> dict[str, tuple[str, ...]]:
        """Point -> all points that differ at most in the axis that its sweep compares side by side."""
        axis_of: dict[str, str] = {}
        for sweep in self.sweeps:
            if sweep.side_by_side:
                axis_of = (
                    dict.fromkeys(sweep.points, sweep.side_by_side) | axis_of
                )  # the first sweep of a point decides
        groups: dict[object, list[str]] = {}
        for point in self.points:
            if axis := axis_of.get(point.id):
                values = {"nodes": point.nodes, **point.options, axis: None}
                key = axis, point.tool, point.phases, point.phase_time_s, *sorted(values.items())
                groups.setdefault(key, []).append(point.id)
        return {id: tuple(sorted(members)) for members in groups.values() for id in members}

    def shortest_steady_s(self, point: Point) -> float:
        """Seconds below which a timed phase of a point is suspect; 0 if all sweeps with this point were scaled to a
        smaller machine."""
        return 0.0 if set(point.sweeps) <= self._scaled else self.limits.shortest_phase

    @cached_property
    def forecasts(self) -> dict[str, RepetitionNeeds]:
        """Point -> the needs of a repetition: a cache of forecast.repetition_needs."""
        return {}

    @cached_property
    def _scaled(self) -> set[str]:
        return {sweep.name for sweep in self.sweeps if sweep.scaled}

    def content(self) -> bytes:
        """The plan as JSON."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=2)

    def document(self) -> bytes:
        """The plan file, from which allocations and tables work: the content with its digest (documents.py)."""
        return documents.seal(self.content())

    @cached_property
    def digest(self) -> str:
        """Hash of the content, for file names."""
        return hashlib.sha256(self.content()).hexdigest()[:12]


@cache
def _groups(name: str, phases: tuple[str, ...]) -> tuple[tuple[Phase, ...], ...]:
    """The phases of each command of a point."""
    tool = tools()[name]
    resolved = tuple(tool.phases[phase] for phase in phases)
    return (resolved,) if tool.together else tuple((phase,) for phase in resolved)


def plan_files(results: Path) -> list[Path]:
    """The plan files of a campaign, the newest last. Links are not resolved, so that `read_plan` refuses them. Raises
    Damaged if the files cannot be listed."""
    dated = []
    try:
        names = safe_paths.names(results, "plans")
    except OSError as error:
        raise documents.Damaged(results / "plans", f"it cannot be read: {error.strerror}") from None
    for file in (results / "plans" / name for name in names if name.endswith(".json")):
        with contextlib.suppress(OSError):
            dated.append((file.lstat().st_mtime_ns, file.name, file))
    return [file for *_, file in sorted(dated)]


def read_plan(file: Path) -> Plan:
    """The plan in a file that is named by its digest. Raises FileNotFoundError, Damaged."""
    plan = documents.decode(documents.content(file, MOST_PLAN_BYTES), Plan, file)
    if plan.digest != file.stem:
        raise documents.Damaged(file, "its content is not what its name says")
    return plan


def file_set(point: Point, step: Step, repetition: int = 1) -> FileSet:
    """The files that a step of a repetition works on."""
    return tools()[point.tool].file_set(step, f"fresh/{point.id}-r{repetition}")


def describe_targets(directories: Mapping[str, str]) -> str:
    """`/mnt/a`, or of several targets `a (/mnt/a) and b (/mnt/b)`."""
    texts = [f"{name} ({directory})" if name else directory for name, directory in directories.items()]
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def target_key(target: str, key: str) -> str:
    """A key of a target as the configuration has it: `target.lock`, `targets.a.lock`."""
    return f"targets.{target}.{key}" if target else f"target.{key}"


def draw_order(plan: Plan, points: Iterable[Point], session: int, number: int) -> list[list[str]]:
    """The order in which a round measures its points: groups in a drawn order, members of a group in a drawn order.

    A group consists of the points that are measured side by side: what disturbs one of them for a while disturbs the
    others too. Any other point is a group of its own. `session`, `number`: of the round. The order depends on them and
    the plan's seed alone.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for id in sorted(point.id for point in points):
        groups.setdefault(plan.side_by_side.get(id, (id,)), []).append(id)
    drawn = random.Random(f"{plan.seed}:{session}:{number}")
    order = list(groups.values())
    drawn.shuffle(order)
    for members in order:
        drawn.shuffle(members)
    return order


def seed_of(seed: int, point: str, repetition: int, phase: str) -> int:
    """The seed of a tool: different for each repetition, equal when the campaign is run again."""
    digest = hashlib.sha256(f"{seed}:{point}:{repetition}:{phase}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
