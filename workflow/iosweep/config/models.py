"""Typed models of a configuration file. The JSON Schema, the key reference and every error come from them.

The models of a sweep are made from each tool's table of options, so a new tool needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, StrictBool, Tag, WithJsonSchema, create_model

from iosweep.config.criteria import SUITES
from iosweep.config.sections import (
    MOST_VALUES,
    Count,
    Cpus,
    Limits,
    Name,
    PhaseTime,
    Share,
    Size,
    Strict,
    Target,
    TargetName,
    TimeOfAPhase,
    Tools,
    UnknownName,
    count,
    size,
    suggest_known,
)
from iosweep.config.sweeps import MAX_CONFIRM, MAX_REPETITIONS, MAX_SESSIONS, RepetitionRule
from iosweep.tools import Option, Tool, parameters, tools
from iosweep.tools.axes import TARGET, settable

RepetitionCount: Any = count(1, MAX_REPETITIONS)


class Repetitions(Strict):
    """How often a point is measured: at least `min`, then until the interval is narrow enough, at most `max`."""

    min: RepetitionCount = Field(5, description="Smallest number of repetitions. Default: 5.")
    max: RepetitionCount = Field(10, description="Largest number of repetitions. Default: 10.")
    until_ci95_half_width: Share = Field(
        0.05,
        description="Stop when the 95 % confidence interval of every phase's headline is within this share. Default:"
        " 5%.",
    )

    def rule(self, confirm: int) -> RepetitionRule:
        return RepetitionRule(self.min, self.max, self.until_ci95_half_width, confirm)


def _repetitions(value: object) -> object:
    if isinstance(value, dict | Repetitions):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_REPETITIONS:
        return Repetitions.model_construct(min=value, max=value, until_ci95_half_width=None)  # type: ignore[arg-type]
    allowed = f"a whole number from 1 to {MAX_REPETITIONS}, or {{min, max, until_ci95_half_width}}"
    raise ValueError(f"not a number of repetitions; write {allowed}")


#: Axes that may be climbed until nothing more is gained.
RampAxis: Any = Literal["queue_depth", "threads_per_node", "nodes"]
RepetitionsField = Annotated[
    Repetitions,
    BeforeValidator(_repetitions),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_REPETITIONS}, Repetitions.model_json_schema()]}
    ),
]


#: Fresh repetitions of each best point.
Confirm: Any = count(0, MAX_CONFIRM)
Sessions: Any = count(1, MAX_SESSIONS)
Seed: Any = count(0, 2**31 - 1)
#: criteria.py validates them: each has its own errors, which depend on its figure.
Criteria: Any = Annotated[
    object, WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1})
]


#: Upper bounds that make a suite fit a smaller machine, with those that tools declare.
_BOUNDS = [option for option in parameters().values() if option.bound]
_FIELDS: dict[str, Any] = {
    "phase_time": (TimeOfAPhase | None, Field(None, description="Longest phase time.")),
    "repetitions": (Count | None, Field(None, description="Most repetitions.")),
    **{o.name: ((Size if o.kind == "size" else Count) | None, Field(None, description=o.bound)) for o in _BOUNDS},
}
Scale: Any = create_model(
    "Scale",
    __base__=Strict,
    __doc__="Upper bounds that make a suite fit a smaller machine. A scaled suite compares with no published figure.",
    **_FIELDS,
)
LAPTOP = Scale.model_validate({"phase_time": "1s", "repetitions": 3} | {o.name: o.laptop for o in _BOUNDS})


def _scale(value: object) -> object:
    if value == "laptop":
        return LAPTOP
    if isinstance(value, (dict, Scale)):
        return value
    raise ValueError("not a scale; write `laptop`, or upper bounds such as {phase_time: 5s, file_size: 256m}")


def _suite(value: object) -> str:
    known = sorted(file.stem for file in SUITES.glob("*.yaml"))
    if value in known:
        return str(value)
    raise UnknownName(suggest_known("suite", str(value), known))


class SuiteEntry(Strict):
    """A ready set of sweeps from config/suites/."""

    suite: Annotated[str, BeforeValidator(_suite), WithJsonSchema({"type": "string"})] = Field(
        description="Name of the suite: a file in config/suites/, without `.yaml`."
    )
    scale: (
        Annotated[
            Scale, BeforeValidator(_scale), WithJsonSchema({"anyOf": [{"const": "laptop"}, Scale.model_json_schema()]})
        ]
        | None
    ) = Field(None, description="`laptop`, or upper bounds, so that the suite fits a smaller machine.")
    nodes: list[Count] | None = Field(
        None, description="Node counts, in place of the suite's own.", min_length=1, max_length=MOST_VALUES
    )
    repetitions: RepetitionsField | None = Field(None, description="In place of the suite's own.")
    confirm: Confirm | None = Field(None, description="In place of the suite's own.")


def value_type(option: Option) -> Any:
    """The type of an option's values."""
    match option.kind:
        case "size":
            return size(option.minimum)
        case "count":
            return count(option.minimum, option.most)
        case "flag":
            return StrictBool
        case "choice":
            return Literal[option.choices] if option.choices else TargetName


def _list_of(kind: Any) -> Any:
    return Annotated[list.__class_getitem__(kind), Field(min_length=1, max_length=MOST_VALUES)]


def _one_or_more(kind: Any) -> Any:
    many: Any = list[kind]
    return Annotated[many, BeforeValidator(lambda v: v if isinstance(v, list) else [v]), WithJsonSchema({})]


class Sweep(Strict):
    """A sweep; `sweep_model` has the values that a tool takes."""

    name: Name = Field(description="Name of the sweep, unique in the campaign.")
    tool: str = Field(description="Tool that measures.")
    description: str | None = Field(None, description="A sentence for the report.")
    phases: list[str] = Field(description="Steps of each point, in this order.")
    axes: Any = Field(None, description="What varies: lists of values; every combination is a point.")
    options: Any = Field(None, description="What does not vary.")
    exclude: Any = Field(
        [], max_length=MOST_VALUES, description="Combinations to leave out; one that names few axes leaves out many."
    )
    phase_time: PhaseTime = Field(
        60.0,
        description="How long each data phase runs; or `one_pass`: over every file once, however long that takes."
        " Default: 60s.",
    )
    repetitions: RepetitionsField = Field(
        default_factory=Repetitions,
        description="How often each point is measured: a number, or {min, max, until_ci95_half_width}. Default: 5"
        " times, then on to at most 10 until the interval is within 5%.",
    )
    confirm: Confirm = Field(
        0,
        description="How often the best point of each phase is measured again once all points are, in each allocation."
        " The headline is then made of these repetitions alone: the best of many points is partly the luckiest one. 0:"
        " the headline says that it is not confirmed. Default: 0.",
    )
    ramp: RampAxis | None = Field(
        None,
        description="An axis whose values are climbed in ascending order, for each combination of the others, until two"
        " steps in a row gained nothing over the best one before, in any phase: at most 3 %, or not more than the"
        " repetitions' noise explains. The last value is always measured; if it is a gain, the climb goes on. Values in"
        " between are skipped.",
    )
    side_by_side: str | None = Field(
        None,
        description="An axis to compare: within a round, points that differ in it alone are measured one right after"
        " the other, in a drawn order. Default: `target`, where the sweep has several.",
    )


@cache
def sweep_model(tool: Tool) -> type[Strict]:
    """The model of a sweep with this tool, made from its tables."""
    title, axes_of_tool = tool.name.capitalize(), settable(tool)

    def group(suffix: str, doc: str, of: Callable[[Any], Any], names: Mapping[str, Option]) -> type[Strict]:
        fields: dict[str, Any] = {
            name: (
                of(value_type(option)) | None,
                Field(None, description=f"{option.help} Default: {option.default_text}."),
            )
            for name, option in names.items()
        }
        return create_model(f"{title}{suffix}", __base__=Strict, __doc__=doc, **fields)

    axes = group("Axes", "What varies: every combination is a point.", _list_of, axes_of_tool)
    options = group("Options", "What does not vary.", lambda kind: kind, {TARGET.name: TARGET, **tool.options})
    some = group("Values", "Values of axes: a value or a list of them.", _one_or_more, axes_of_tool)
    fields = Sweep.model_fields
    phases: Any = _list_of(Literal[tuple(tool.phases)])
    made: dict[str, Any] = {
        "tool": (Literal[tool.name], fields["tool"]),
        "phases": (phases, Field(description=fields["phases"].description)),
        "axes": (axes, Field(default_factory=axes, description=fields["axes"].description)),
        "options": (options, Field(default_factory=options, description=fields["options"].description)),
        "exclude": (list.__class_getitem__(some), fields["exclude"]),
    }
    return create_model(f"{title}Sweep", __base__=Sweep, __doc__=f"A sweep with {tool.name}: {tool.help}.", **made)


def entry_kind(entry: object) -> str | None:
    """The kind of an entry of `sweeps`; never the name of a key, so that it can be told apart in an error's path."""
    if isinstance(entry, SuiteEntry) or (isinstance(entry, dict) and "suite" in entry):
        return "a suite"
    tool = entry.get("tool") if isinstance(entry, dict) else getattr(entry, "tool", None)
    return f"a {tool} sweep" if isinstance(tool, str) else None


@cache
def entry_models() -> dict[str, type[Strict]]:
    """Tag -> model of each kind of entry of `sweeps`."""
    return {"a suite": SuiteEntry} | {f"a {name} sweep": sweep_model(tool) for name, tool in tools().items()}


def _entries(kinds: Iterable[str]) -> Any:
    """A list of entries of these kinds."""
    tagged: Any = Union[tuple(Annotated[entry_models()[kind], Tag(kind)] for kind in kinds)]  # noqa: UP007
    return _list_of(Annotated[tagged, Discriminator(entry_kind)])


_Entries: Any = _entries(entry_models())
_Sweeps: Any = _entries(kind for kind in entry_models() if kind != "a suite")


class Campaign(Strict):
    """What to measure, on what, and what it may cost."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["target"]}, {"required": ["targets"]}]})

    campaign: Name = Field(description="Name of the campaign; results go to results/<campaign>/.")
    description: str | None = Field(None, description="A sentence for the report.")
    target: Target | None = Field(None, description=Target.__doc__)
    targets: Annotated[dict[TargetName, Target], Field(min_length=1, max_length=MOST_VALUES)] | None = Field(
        None,
        description="Several targets in place of `target`: name -> its settings. `target` is then an axis, whose values"
        " are the names: every sweep measures all of them, side by side, unless it names some.",
    )
    limits: Limits = Field(default_factory=Limits, description=Limits.__doc__)
    pinning: Literal["verify", "enforce", "strict"] | None = Field(
        None,
        description="`enforce`: bind ranks and workers to CPUs that are not reserved, and read their masks back while"
        " they run; `strict`: the same, and refuse an allocation whose job may use reserved CPUs that `cpus.reserved`"
        " does not name; `verify`: only read the masks. Default: enforce under Slurm, verify on one machine.",
    )
    cpus: Cpus = Field(default_factory=Cpus, description=Cpus.__doc__)
    tools: Tools = Field(default_factory=Tools, description=Tools.__doc__)
    allocation: Literal["per_node_count", "campaign"] = Field(
        "per_node_count",
        description="Batch jobs: one for each node count, or one for the whole campaign, with as many nodes as its"
        " largest point; smaller ones then run on a subset of the same nodes, another one for each repetition. That"
        " makes scaling figures exact, and keeps nodes idle. Default: per_node_count.",
    )
    sessions: Sessions = Field(
        1,
        description="How often the whole campaign is measured, each time in jobs of its own; `repetitions` and"
        " `confirm` hold for each session. Comparisons need several, on different days: raise it and run snakemake"
        " again. Default: 1.",
    )
    seed: Seed = Field(1, description="Seed of the order of points and of random offsets. Default: 1.")
    accept: Criteria = Field(
        None,
        description='What the campaign has to show: figures and their thresholds, such as `read_bandwidth: ">= 20'
        ' GiB/s"`, `rand_read p99 at queue_depth 1: "<= 300us"`, `create scaling nodes 1 -> 8: ">= 6x"` or `rand_read'
        ' ratio ioengine libaio -> io_uring: ">= 1.1x"`. Each is pass, fail or undecided, by its interval'
        " (docs/comparing.md). Changing them measures nothing again.",
    )
    sweeps: _Entries = Field(description="Sweeps and suites.")


class Suite(Strict):
    """A ready set of sweeps: a file in config/suites/."""

    description: str = Field(description="What it measures.")
    source: str = Field(description="Where the tests come from.")
    published: dict[str, str | dict[str, str]] = Field(
        {},
        description="Published figures of these tests: a figure as in `accept`, with `at` and what of its axes it was"
        " measured at -> value and unit, or one for each system of the source.",
    )
    sweeps: _Sweeps = Field(description="Its sweeps.")
