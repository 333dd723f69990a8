"""Typed models of a configuration file. The JSON Schema, the key reference and every error come from them.

The models of a sweep are made from each tool's table of options, so a new tool needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    WithJsonSchema,
    create_model,
)

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
    TimeOfAPhase,
    Tools,
    UnknownName,
    count,
    size,
    unknown,
)
from iosweep.tools import Option, Tool, parameters, tools
from iosweep.tools.axes import NODES

#: Suites that come with the project.
SUITES = Path(__file__).resolve().parents[3] / "config" / "suites"


class Repetitions(Strict):
    """How often a point is measured: at least `min`, then until the interval is narrow enough, at most `max`."""

    min: Count = Field(5, description="Smallest number of repetitions. Default: 5.")
    max: Count = Field(10, description="Largest number of repetitions. Default: 10.")
    until_ci95_half_width: Share = Field(
        0.05,
        description="Stop when the 95 % confidence interval of every phase's headline is within this share. Default:"
        " 5%.",
    )


def _repetitions(value: object) -> object:
    if isinstance(value, (dict, Repetitions)) or (
        isinstance(value, int) and not isinstance(value, bool) and value >= 1
    ):
        return value
    raise ValueError("not a number of repetitions; write a whole number from 1, or {min, max, until_ci95_half_width}")


#: Axes that may be climbed until nothing more is gained.
RampAxis: Any = Literal["queue_depth", "threads_per_node", "nodes"]
_RAMP = (
    "An axis whose values are climbed in ascending order, for each combination of the others, until two steps in a row"
    " gained nothing over the best one before, in any phase: at most 3 %, or not more than the repetitions' noise"
    " explains. Values above are not needed."
)

RepetitionsField = Annotated[
    Annotated[Count, Tag("a number")] | Annotated[Repetitions, Tag("a mapping")],
    Discriminator(lambda v: "a number" if isinstance(v, int) else "a mapping"),
    BeforeValidator(_repetitions),
]


#: Fresh repetitions of each best point.
Confirm: Any = count(0, 100)
_CONFIRM = (
    "How often the best point of each phase is measured again once all points are, in each allocation. The headline is"
    " then made of these repetitions alone: the best of many points is partly the luckiest one. 0: the headline says"
    " that it is not confirmed. Default: 0."
)


#: criteria.py reads them: an error belongs to one of them, and depends on its figure.
Criteria: Any = Annotated[
    object, WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1})
]
_ACCEPT = (
    'What the campaign has to show: figures and their thresholds, such as `read_bandwidth: ">= 20 GiB/s"`,'
    ' `rand_read p99 at queue_depth 1: "<= 300us"` or `create scaling nodes 1 -> 8: ">= 6x"`. Each is pass, fail or'
    " undecided, by its 95 % interval (docs/comparing.md). Changing them measures nothing again."
)


class _Scale(Strict):
    """Upper bounds that make a suite fit a smaller machine. A scaled suite does not compare with published figures."""

    phase_time: TimeOfAPhase | None = Field(None, description="Longest phase time.")
    repetitions: Count | None = Field(None, description="Most repetitions.")


_BOUNDS = [option for option in parameters().values() if option.bound]
if TYPE_CHECKING:

    class Scale(_Scale): ...

else:  # with the bounds that tools declare
    Scale = create_model(
        "Scale",
        __base__=_Scale,
        __doc__=_Scale.__doc__,
        **{o.name: ((Size if o.kind == "size" else Count) | None, Field(None, description=o.bound)) for o in _BOUNDS},
    )

LAPTOP = Scale.model_validate({"phase_time": "1s", "repetitions": 1} | {o.name: o.laptop for o in _BOUNDS})


def _scale(value: object) -> object:
    if value == "laptop":
        return LAPTOP
    if isinstance(value, (dict, Scale)):
        return value
    raise ValueError(
        "not a scale; write `laptop`, or a mapping of upper bounds such as {phase_time: 5s, file_size: 256m}"
    )


def _suite(value: object) -> str:
    known = sorted(file.stem for file in SUITES.glob("*.yaml"))
    if value in known:
        return str(value)
    raise UnknownName(unknown("suite", str(value), known))


class SuiteEntry(Strict):
    """A ready set of sweeps from config/suites/."""

    suite: Annotated[str, BeforeValidator(_suite), WithJsonSchema({"type": "string"})] = Field(
        description="Name of the suite: a file in config/suites/, without `.yaml`."
    )
    scale: (
        Annotated[
            Scale,
            BeforeValidator(_scale),
            WithJsonSchema({"anyOf": [{"const": "laptop"}, Scale.model_json_schema()]}),
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
            return Literal[option.choices]


def _help(option: Option) -> str:
    return f"{option.help} Default: {option.default_text}."


def _list_of(option: Option) -> Any:
    values: Any = list.__class_getitem__(value_type(option))
    return Annotated[values, Field(min_length=1, max_length=MOST_VALUES)]


def _one_or_more(kind: Any) -> Any:
    many: Any = list[kind]
    return Annotated[many, BeforeValidator(lambda v: v if isinstance(v, list) else [v]), WithJsonSchema({})]


def _groups(tool: Tool) -> tuple[type[Strict], type[Strict], type[Strict]]:
    """Models of a sweep's axes, of its options, and of some axes with values."""
    settable = {NODES.name: NODES, **tool.options}

    def group(suffix: str, doc: str, of: Callable[[Option], Any], names: Mapping[str, Option]) -> type[Strict]:
        fields: dict[str, Any] = {n: (of(o) | None, Field(None, description=_help(o))) for n, o in names.items()}
        return create_model(f"{tool.name.capitalize()}{suffix}", __base__=Strict, __doc__=doc, **fields)

    axes = group("Axes", "What varies: every combination is a point.", _list_of, settable)
    options = group("Options", "What does not vary.", value_type, tool.options)
    some = group(
        "Values", "Values of axes: a value or a list of them.", lambda o: _one_or_more(value_type(o)), settable
    )
    return axes, options, some


@cache
def sweep_model(tool: Tool) -> type[Strict]:
    """The model of a sweep with this tool, made from its tables."""
    axes, options, some = _groups(tool)
    phase: Any = Literal[tuple(tool.phases)]
    name: Any = Literal[tool.name]
    one_of: Any = Annotated[list[phase], Field(min_length=1, max_length=MOST_VALUES)]
    excluded: Any = list.__class_getitem__(some)
    fields: dict[str, Any] = {
        "name": (Name, Field(description="Name of the sweep, unique in the campaign.")),
        "tool": (name, Field(description="Tool that measures.")),
        "description": (str | None, Field(None, description="A sentence for the report.")),
        "phases": (one_of, Field(description="Steps of each point, in this order.")),
        "axes": (
            axes,
            Field(default_factory=axes, description="What varies: lists of values; every combination is a point."),
        ),
        "options": (options, Field(default_factory=options, description="What does not vary.")),
        "exclude": (
            excluded,
            Field(
                [],
                max_length=MOST_VALUES,
                description="Combinations to leave out; one that names few axes leaves out many.",
            ),
        ),
        "phase_time": (
            PhaseTime,
            Field(
                60.0,
                description="How long each data phase runs; or `one_pass`: over every file once, however long that"
                " takes. Default: 60s.",
            ),
        ),
        "repetitions": (
            RepetitionsField,
            Field(
                default_factory=Repetitions,
                description="How often each point is measured: a number, or {min, max, until_ci95_half_width}."
                " Default: 5 times, then on to at most 10 until the interval is within 5%; always 5 times, or 3, where"
                " `limits` do not allow that.",
            ),
        ),
        "confirm": (Confirm, Field(0, description=_CONFIRM)),
        "ramp": (RampAxis | None, Field(None, description=_RAMP)),
    }
    title = f"{tool.name.capitalize()}Sweep"
    return create_model(title, __base__=Strict, __doc__=f"A sweep with {tool.name}: {tool.help}.", **fields)


def entry_kind(entry: object) -> str | None:
    """The kind of an entry of `sweeps`; never the name of a key, so that it can be told apart in an error's path."""
    if isinstance(entry, SuiteEntry) or (isinstance(entry, dict) and "suite" in entry):
        return "a suite"
    tool = entry.get("tool") if isinstance(entry, dict) else getattr(entry, "tool", None)
    return f"a {tool} sweep" if isinstance(tool, str) else None


@cache
def entry_models() -> dict[str, type[Strict]]:
    """Tag -> model of each kind of entry of `sweeps`."""
    found: dict[str, type[Strict]] = {"a suite": SuiteEntry}
    return found | {f"a {name} sweep": sweep_model(tool) for name, tool in tools().items()}


def _entries(kinds: dict[str, type[Strict]]) -> Any:
    """A list of entries of these kinds."""
    entry: Any = None
    for tag, model in kinds.items():
        part: Any = Annotated[model, Tag(tag)]
        entry = part if entry is None else entry | part
    if len(kinds) > 1:  # a discriminated union needs two members
        entry = Annotated[entry, Discriminator(entry_kind)]
    return Annotated[list[entry], Field(min_length=1, max_length=MOST_VALUES)]


@cache
def campaign_model() -> type[Strict]:
    """The model of a configuration file."""
    fields: dict[str, Any] = {
        "campaign": (Name, Field(description="Name of the campaign; results go to results/<campaign>/.")),
        "description": (str | None, Field(None, description="A sentence for the report.")),
        "target": (Target, Field(description=Target.__doc__)),
        "limits": (Limits, Field(default_factory=Limits, description=Limits.__doc__)),
        "pinning": (
            Literal["off", "verify", "enforce", "strict"] | None,
            Field(
                None,
                description="`enforce`: bind ranks and workers to CPUs that are not reserved, and read their masks back"
                " while they run; `strict`: the same, and refuse an allocation whose job may use reserved CPUs that"
                " `cpus.reserved` does not name; `verify`: only read the masks; `off`: neither. Default: enforce under"
                " Slurm, verify on one machine.",
            ),
        ),
        "cpus": (Cpus, Field(default_factory=Cpus, description=Cpus.__doc__)),
        "tools": (Tools, Field(default_factory=Tools, description=Tools.__doc__)),
        "allow_open_port": (
            StrictBool,
            Field(
                False,
                description="Whether a tool may listen on the network without a password, as fio does with"
                " `client_server: true`: whoever reaches a node's address can then run commands as you while a phase"
                " runs (docs/security.md). Default: false.",
            ),
        ),
        "allocation": (
            Literal["per_node_count", "campaign"],
            Field(
                "per_node_count",
                description="Batch jobs: one for each node count, or one for the whole campaign, with as many nodes as"
                " its largest point; smaller ones then run on a subset of the same nodes, another one for each"
                " repetition. That makes scaling figures exact, and keeps nodes idle. Default: per_node_count.",
            ),
        ),
        "seed": (
            count(0, 2**31 - 1),
            Field(1, description="Seed of the order of points and of random offsets. Default: 1."),
        ),
        "accept": (Criteria, Field(default=None, description=_ACCEPT)),
        "sweeps": (_entries(entry_models()), Field(description="Sweeps and suites.")),
    }
    return create_model(
        "Campaign", __base__=Strict, __doc__="What to measure, on what, and what it may cost.", **fields
    )


@cache
def suite_model() -> type[Strict]:
    """The model of a file in config/suites/."""
    kinds = {tag: model for tag, model in entry_models().items() if model is not SuiteEntry}
    fields: dict[str, Any] = {
        "description": (str, Field(description="What it measures.")),
        "source": (str, Field(description="Where the tests come from.")),
        "published": (
            dict[str, str | dict[str, str]],
            Field(
                {},
                description="Published figures of these tests: a figure as in `accept`, with `at` and what of its axes"
                " it was measured at -> value and unit, or one for each system of the source.",
            ),
        ),
        "sweeps": (_entries(kinds), Field(description="Its sweeps.")),
    }
    return create_model("Suite", __base__=Strict, __doc__="A ready set of sweeps.", **fields)
