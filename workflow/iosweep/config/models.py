"""Typed models of a configuration file. The JSON Schema, the key reference and every error come from them.

The models of a sweep are made from each tool's table of options, so a new tool needs no change here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
)

from iosweep import text, units
from iosweep.node import cpus, environment
from iosweep.target import striping as layout
from iosweep.tools import Option, Tool, tools
from iosweep.tools.axes import NODES

#: Suites that come with the project.
SUITES = Path(__file__).resolve().parents[3] / "config" / "suites"

#: The phase time of phases that a volume bounds.
UNTIMED = "one_pass"

#: The layout of a target whose layout is not set.
INHERIT = "inherit"

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


#: Values of an axis, entries of `sweeps` and of `exclude`; what is multiplied out of them is bounded in sweep_file.py.
MOST_VALUES = 1000

FSTYPE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _schema(*patterns: tuple[str, str]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind} | ({"pattern": p} if p else {}) for kind, p in patterns]})


def _count(minimum: int, maximum: int | None) -> Any:
    def validate(value: object) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, int) and whole and value >= minimum and (maximum is None or value <= maximum):
            return value
        raise ValueError(
            f"not a whole number from {minimum}" + (f" to {maximum}" if maximum is not None else " upwards")
        )

    schema = {"type": "integer", "minimum": minimum} | ({"maximum": maximum} if maximum is not None else {})
    return Annotated[int, BeforeValidator(validate), WithJsonSchema(schema)]


def _size(minimum: int) -> Any:
    def validate(value: object) -> int:
        size = units.parse_size(value)
        if size < minimum:
            raise ValueError(f"smaller than {units.size_name(minimum)}")
        return size

    return Annotated[int, BeforeValidator(validate), _schema(("integer", ""), ("string", units.SIZE_PATTERN))]


def _name(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(NAME_PATTERN, value):
        return value
    raise ValueError(
        "not a name; write up to 64 letters, digits, dots, dashes and underscores (a letter or digit first)"
    )


def _path(value: object) -> str:
    if isinstance(value, str) and value and "\n" not in value and "\t" not in value:
        if value.startswith("~"):
            raise ValueError("starts with `~`, which is not expanded; write the path out")
        return value
    raise ValueError("not a path; write the directory as text, in quotes if it has special characters")


def _fstype(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(FSTYPE_PATTERN, value):
        return value
    raise ValueError("not a type of a file system; write it as /proc/self/mountinfo does, for example lustre or wekafs")


def _layout(value: object) -> list[str] | None:
    if value == INHERIT:
        return None
    if isinstance(value, list) and value and all(isinstance(v, str) and v for v in value):
        arguments = [str(v) for v in value]
        if wrong := layout.refused(arguments):
            raise ValueError(f"not a layout: {wrong}")
        return arguments
    raise ValueError(
        f"not a layout; write {INHERIT}, or the arguments of `lfs setstripe` (Lustre) or `beegfs-ctl --setpattern`"
        ' (BeeGFS) as a list of texts, for example ["-c", "4", "-S", "1m"]'
    )


def _variable(value: object) -> str:
    if wrong := environment.refused(value):
        raise ValueError(wrong)
    return str(value)


def _phase_time(value: object) -> float | None:
    if value == UNTIMED:
        return None
    try:
        return _time_of_a_phase(value)
    except ValueError as error:
        other = f"; or {UNTIMED}, which needs none" if str(error).startswith("not a duration") else ""
        raise ValueError(f"{error}{other}") from None


def _time_of_a_phase(value: object) -> float:
    seconds = units.parse_duration(value)
    if seconds < 0.01:
        raise ValueError("shorter than 10ms")
    return seconds


def _cpus(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    try:
        found = cpus.parse(text) if isinstance(text, str) else None
    except ValueError as error:
        raise ValueError(f"not a list of CPUs: {error}") from None
    if found is None:
        raise ValueError('not a list of CPUs; write it as text, such as "24-27" or "0,8-11"')
    return cpus.listed(found)


def _deadline(value: object) -> float:
    seconds = units.parse_duration(value)
    if seconds < 0.1:
        raise ValueError("shorter than 100ms")
    return seconds


if TYPE_CHECKING:  # made at run time, so a type checker sees what comes out
    Size: TypeAlias = int
    Count: TypeAlias = int
else:
    Size = _size(1)
    Count = _count(1, units.MOST_COUNT)
Name = Annotated[str, BeforeValidator(_name), _schema(("string", NAME_PATTERN))]
Variable = Annotated[str, BeforeValidator(_variable), _schema(("string", environment.NAME_PATTERN))]
Duration = Annotated[
    float, BeforeValidator(units.parse_duration), _schema(("string", units.DURATION_PATTERN))
]  # seconds
TimeOfAPhase = Annotated[
    float, BeforeValidator(_time_of_a_phase), _schema(("string", units.DURATION_PATTERN))
]  # seconds
PhaseTime = Annotated[
    float | None, BeforeValidator(_phase_time), _schema(("string", f"{units.DURATION_PATTERN}|^{UNTIMED}$"))
]  # seconds; None: one pass over the files
Deadline = Annotated[float, BeforeValidator(_deadline), _schema(("string", units.DURATION_PATTERN))]  # seconds
Share = Annotated[float, BeforeValidator(units.parse_share), _schema(("string", units.SHARE_PATTERN))]  # fraction


def unknown(what: str, name: str, known: Iterable[object]) -> str:
    """`unknown key `thread`; did you mean `threads`? (known: ...)`"""
    names = [str(k) for k in known]
    near = difflib.get_close_matches(name, names, 1, 0.6)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"unknown {what} `{text.shortened(name)}`{hint}" + (f" (known: {', '.join(names)})" if names else "")


class Strict(BaseModel):
    """Unknown keys are errors; values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Target(Strict):
    """The file system under test."""

    directory: Annotated[str, BeforeValidator(_path)] = Field(
        description="A directory on it. Everything is written below `iosweep-<campaign>/` in there. A relative path"
        " counts from where snakemake is run."
    )
    type: Annotated[str, BeforeValidator(_fstype), _schema(("string", FSTYPE_PATTERN))] | None = Field(
        None,
        description="Type of its file system, as /proc/self/mountinfo names it: lustre, wekafs, gpfs, beegfs, nfs (also"
        " nfs4), xfs ... (`glusterfs` is also fuse.glusterfs). A directory on another type, such as an empty mount"
        " point, is refused by `iosweep plan` and `snakemake -n` on the machine that measures, and on every node before"
        " anything is written. Default: any type.",
    )
    server_cache: (
        Annotated[int, BeforeValidator(units.parse_size), _schema(("integer", ""), ("string", units.SIZE_PATTERN))]
        | None
    ) = Field(
        None,
        description="Memory that the servers may cache with, all together. Reads whose files are smaller than twice"
        " that are suspect; without it the check says `not checked`. 0 where there is no server.",
    )
    node_bandwidth: Size | None = Field(
        None,
        description="Bytes per second that one node can move at most (its links). Faster reads are suspect; the"
        " forecast of what timed writes write uses it too (4g where it is not given).",
    )
    layout: Annotated[
        list[str] | None,
        BeforeValidator(_layout),
        WithJsonSchema({"anyOf": [{"const": INHERIT}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    ] = Field(
        None,
        description="Striping of what is written: `inherit`, as the directory has it, or the arguments of the file"
        " system's own command, which is run on the campaign's directory: `lfs setstripe` on Lustre, `beegfs-ctl"
        ' --setpattern` on BeeGFS. For example ["-c", "4", "-S", "1m"]. Default: inherit.',
    )
    keep: Literal["none", "failed", "all"] = Field(
        "none",
        description="What stays on the target: `none`, nothing once everything is measured; `failed`, what repetitions"
        " that failed have written; `all`, data sets (another run is then spared writing them) and the new files of"
        " every repetition. `iosweep clean` removes it. Default: none.",
    )
    settle: Duration = Field(
        0.0,
        description="Time that passes after files were deleted before something is measured: a file system may work on"
        " a deletion long after it is done. Default: 0s.",
    )
    trust_other_writers: bool = Field(
        False,
        description="Whether you trust all other users who could put another directory in the place of the"
        " campaign's: those who own a directory on the way to it, or may write to one without the sticky bit (a project"
        " directory of a group). Otherwise such a target is refused, because tools follow symbolic links and could be"
        " led to any file of yours. Never accepted from root. Default: false.",
    )
    deadline: Deadline = Field(
        30.0,
        description="A look at the target that makes no progress for so long counts as hanging, and the campaign"
        " stops. Default: 30s.",
    )
    lock: Annotated[str, BeforeValidator(_path)] | None = Field(
        None,
        description="A directory, not on the target, for the lock that keeps a second campaign off the same file"
        " system. All campaigns must see the same one; a relative path counts from where snakemake is run."
        " Default: a lock of this machine.",
    )


class Limits(Strict):
    """Ceilings. What cannot fit is refused before anything is written."""

    bytes_written: Size | None = Field(
        None,
        description="Bytes that the campaign may write, data sets included, in all its runs. A larger forecast is"
        " refused; where a tool writes more than its forecast, the campaign stops before the next repetition. Must be"
        " given above 10t.",
    )
    time: Duration | None = Field(
        None,
        description="Time that the campaign may take, all allocations and runs together. When it is spent, the"
        " campaign stops before the next repetition.",
    )
    over_time: Literal["refuse", "trim"] = Field(
        "refuse",
        description="Where `time` is not enough: `refuse`, a longer forecast is refused, and a campaign whose time is"
        " spent fails; `trim`, as many repetitions are measured as fit, in each allocation the first of every point"
        " before the second of any, and the rest is missing with this reason. Default: refuse.",
    )
    grace: Deadline = Field(
        60.0,
        description="A tool may take so much longer than half as long again as its phases before it is killed: for its"
        " start, a slow flush, its end. Default: 60s.",
    )
    share_of_free: Share = Field(
        0.10, description="Share of the target's free space and inodes that may be used. Default: 10%."
    )
    retried: Share = Field(
        0.10,
        description="Share of an allocation's repetitions (at least 3 of them, unless it is 0%) that may be measured a"
        " second time because something disturbed the first: other load, a kill. Default: 10%.",
    )
    fill: Share = Field(
        0.80, description="How full the target may get, in space and in inodes, as df counts. Default: 80%."
    )


class Cpus(Strict):
    """Which CPUs of a node measure (docs/pinning.md)."""

    reserved: (
        Annotated[str, BeforeValidator(_cpus), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})]
        | None
    ) = Field(
        None,
        description="CPUs that the file system's client keeps for itself, as the kernel numbers them (`24-27`). It"
        " takes the place of what the nodes say, and is checked against it; siblings of the same core are added."
        " Default: what WEKA says on each node.",
    )
    placement: Literal["spread", "pack", "near_nic"] = Field(
        "spread",
        description="`spread`: over NUMA nodes in turn, one per core before siblings; `pack`: NUMA node after NUMA"
        " node; `near_nic`: the NUMA node of the network interface first. Default: spread.",
    )
    nic: Annotated[str, BeforeValidator(_name)] | None = Field(
        None,
        description="The interface for near_nic, such as ib0. Default: that of WEKA's mount, or the fastest one up.",
    )

    @field_validator("nic")
    @classmethod
    def _of_near_nic(cls, nic: str | None, info: ValidationInfo) -> str | None:
        if nic is not None and info.data.get("placement", "near_nic") != "near_nic":
            raise ValueError("without effect; it is for `placement: near_nic`")
        return nic

    width: Literal["cpu", "core"] = Field(
        "cpu", description="A rank gets one CPU, or all usable ones of a core. Default: cpu."
    )
    oversubscribe: StrictBool = Field(
        False,
        description="Whether a node may run more MPI ranks than it has usable CPUs. Without it such points are missing."
        " (fio's workers may always share CPUs.) Default: false.",
    )


class Tools(Strict):
    """Where the tools come from (docs/tools.md)."""

    provider: Literal["spack", "path"] | None = Field(
        None,
        description="`spack`: built from `environment`; `path`: what is on PATH where it is measured. Default: what the"
        " profile says, spack in profiles/slurm and path in profiles/local.",
    )
    environment: Annotated[str, BeforeValidator(_path)] | None = Field(
        None,
        description="The file that says what Spack builds. Default: spack.yaml where snakemake is run, or else the one"
        " that comes with iosweep.",
    )
    directory: Annotated[str, BeforeValidator(_path)] = Field(
        "tools",
        description="Where it is built: a directory that all nodes see, and not on the target. A relative path counts"
        " from where snakemake is run. Default: tools.",
    )
    spack: Annotated[str, BeforeValidator(_path)] | None = Field(
        None,
        description="Directory of the Spack that builds. Default: that of SPACK_ROOT, else that on PATH, else a clone"
        " of the release that iosweep is tried with.",
    )
    mirror: Annotated[str, BeforeValidator(_path)] | None = Field(
        None, description="A directory that `iosweep tools mirror` has made; then nothing is fetched from a network."
    )
    variables: Annotated[
        list[Variable],
        Field(max_length=MOST_VALUES),
    ] = Field(
        [],
        description="Names of variables of the environment that tools get, beside those that they always get"
        " (docs/tools.md). Names of secrets are refused. Default: none.",
    )


class Repetitions(Strict):
    """How often a point is measured: at least `min`, then until the interval is narrow enough, at most `max`."""

    min: Count = Field(3, description="At least so many. Default: 3.")
    max: Count = Field(10, description="At most so many. Default: 10.")
    until_ci95_half_width: Share = Field(
        0.05,
        description="Stop when the 95 % confidence interval of every phase's headline is within this share.",
    )


def _repetitions(value: object) -> object:
    if isinstance(value, (dict, Repetitions)) or (
        isinstance(value, int) and not isinstance(value, bool) and value >= 1
    ):
        return value
    raise ValueError("not a number of repetitions; write a whole number from 1, or {min, max, until_ci95_half_width}")


RepetitionsField = Annotated[
    Annotated[Count, Tag("a number")] | Annotated[Repetitions, Tag("a mapping")],
    Discriminator(lambda v: "a number" if isinstance(v, int) else "a mapping"),
    BeforeValidator(_repetitions),
]


class Scale(Strict):
    """Upper bounds that make a suite fit a smaller machine. A scaled suite does not compare with published figures."""

    phase_time: TimeOfAPhase | None = Field(None, description="Longest phase time.")
    repetitions: Count | None = Field(None, description="Most repetitions.")
    threads_per_node: Count | None = Field(None, description="Most workers per node.")
    transfer_size: Size | None = Field(None, description="Largest transfer.")
    queue_depth: Count | None = Field(None, description="Greatest queue depth.")
    file_size: Size | None = Field(None, description="Largest file.")
    files_per_thread: Count | None = Field(None, description="Most files per worker.")


LAPTOP = Scale(
    phase_time="1s",  # type: ignore[arg-type]
    repetitions=1,
    threads_per_node=2,
    transfer_size=16 << 20,
    queue_depth=8,
    file_size=64 << 20,
    files_per_thread=10_000,
)


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
    raise ValueError(unknown("suite", str(value), known))


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


def _value_type(option: Option) -> Any:
    match option.kind:
        case "size":
            return _size(option.minimum)
        case "count":
            return _count(option.minimum, option.most)
        case "flag":
            return StrictBool
        case "choice":
            return Literal[option.choices]


def _help(option: Option) -> str:
    return f"{option.help} Default: {option.default_text}."


def _list_of(option: Option) -> Any:
    values: Any = list.__class_getitem__(_value_type(option))
    return Annotated[values, Field(min_length=1, max_length=MOST_VALUES)]


def _one_or_more(kind: Any) -> Any:
    many: Any = list[kind]
    return Annotated[many, BeforeValidator(lambda v: v if isinstance(v, list) else [v]), WithJsonSchema({})]


@cache
def sweep_model(tool: Tool) -> type[Strict]:
    """The model of a sweep with this tool, made from its tables."""
    title = tool.name.capitalize()
    settable = {NODES.name: NODES, **tool.options}

    def group(suffix: str, doc: str, of: Any, names: Mapping[str, Option]) -> Any:
        fields: dict[str, Any] = {n: (of(o) | None, Field(None, description=_help(o))) for n, o in names.items()}
        return create_model(f"{title}{suffix}", __base__=Strict, __doc__=doc, **fields)

    axes = group("Axes", "What varies: every combination is a point.", _list_of, settable)
    options = group("Options", "What does not vary.", _value_type, tool.options)
    some = group(
        "Values",
        "Values of axes: a value or a list of them.",
        lambda o: _one_or_more(_value_type(o)),
        settable,
    )
    when = group("When", "Axes that vary only where others have these values.", lambda o: some, settable)
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
        "when": (
            when,
            Field(
                default_factory=when,
                description="An axis varies only where others have these values; elsewhere it has its default.",
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
                3,
                description="How often each point is measured: a number, or {min, max, until_ci95_half_width}."
                " Default: 3.",
            ),
        ),
    }
    return create_model(f"{title}Sweep", __base__=Strict, __doc__=f"A sweep with {tool.name}: {tool.help}.", **fields)


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
            _count(0, 2**31 - 1),
            Field(1, description="Seed of the order of points and of random offsets. Default: 1."),
        ),
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
        "sweeps": (_entries(kinds), Field(description="Its sweeps.")),
    }
    return create_model("Suite", __base__=Strict, __doc__="A ready set of sweeps.", **fields)
