"""The sections of a configuration beside its sweeps (target, limits, CPUs, tools), and the types of single values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from iosweep import text, units
from iosweep.node import cpus, environment
from iosweep.target.directory import layout_refused
from iosweep.tools import tools
from iosweep.tools.reading import SHORTEST_STEADY_S

#: The phase time of phases that a volume bounds, and the layout of a target whose layout is not set.
UNTIMED, INHERIT = "one_pass", "inherit"
#: Values of an axis, entries of `sweeps` and of `exclude`; their product is bounded in sweep_file.py.
MOST_VALUES = 1000
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
TARGET_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"


# -- single values: what each accepts, and the error that says what would be right -------------------------------------


def _schema(*patterns: tuple[str, str]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind} | ({"pattern": p} if p else {}) for kind, p in patterns]})


def _text(pattern: str, wrong: str) -> Any:
    """The type of texts that match a pattern."""

    def validate(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return value
        raise ValueError(wrong)

    return Annotated[str, BeforeValidator(validate), _schema(("string", pattern))]


def count(minimum: int, maximum: int) -> Any:
    """The type of whole numbers in a range."""

    def validate(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
            return value
        raise ValueError(f"not a whole number from {minimum} to {maximum}")

    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return Annotated[int, BeforeValidator(validate), WithJsonSchema(schema)]


def size(minimum: int) -> Any:
    """The type of sizes in bytes from `minimum`."""

    def validate(value: object) -> int:
        size = units.parse_size(value)
        if size < minimum:
            raise ValueError(f"smaller than {units.size_name(minimum)}")
        return size

    return Annotated[int, BeforeValidator(validate), _schema(("integer", ""), ("string", units.SIZE_PATTERN))]


def _duration(minimum_s: float = 0.0) -> Any:
    """The type of durations in seconds."""

    def validate(value: object) -> float:
        seconds = units.parse_duration(value)
        if seconds < minimum_s:
            raise ValueError(f"shorter than {minimum_s * 1000:.0f}ms")
        return seconds

    return Annotated[float, BeforeValidator(validate), _schema(("string", units.DURATION_PATTERN))]


def _phase_time(value: object) -> object:
    if value != UNTIMED:
        try:
            units.parse_duration(value)
        except units.NotADuration as error:
            raise ValueError(f"{error}; or {UNTIMED}, which needs none") from None
    return None if value == UNTIMED else value


def _path(value: object) -> str:
    if isinstance(value, str) and value and "\n" not in value and "\t" not in value:
        if value.startswith("~"):
            raise ValueError("starts with `~`, which is not expanded; write the path out")
        return value
    raise ValueError("not a path; write the directory as text, in quotes if it has special characters")


def _layout(value: object) -> tuple[str, ...] | None:
    if value == INHERIT:
        return None
    if isinstance(value, list) and value and all(isinstance(v, str) and v for v in value):
        arguments = tuple(str(v) for v in value)
        if wrong := layout_refused(arguments):
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


def _cpus(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError('not a list of CPUs; write it as text, such as "24-27" or "0,8-11"')
    try:
        return cpus.listed(cpus.parse(text))
    except ValueError as error:
        raise ValueError(f"not a list of CPUs: {error}") from None


Size: Any = size(1)
SizeOrZero: Any = size(0)
Count: Any = count(1, units.MOST_COUNT)
Name: Any = _text(
    NAME_PATTERN, "not a name; write up to 64 letters, digits, dots, dashes and underscores (a letter or digit first)"
)
TargetName: Any = _text(
    TARGET_PATTERN,
    "not a name of a target; write up to 32 letters, digits, dashes and underscores (a letter or digit first)",
)
FileSystemType: Any = _text(
    NAME_PATTERN, "not a type of a file system; write it as /proc/self/mountinfo does, for example lustre or wekafs"
)
Variable = Annotated[str, BeforeValidator(_variable), _schema(("string", environment.NAME_PATTERN))]
Duration: Any = _duration()
Deadline: Any = _duration(0.1)
TimeOfAPhase: Any = _duration(0.01)
PhaseTime = Annotated[
    TimeOfAPhase | None, BeforeValidator(_phase_time), _schema(("string", f"{units.DURATION_PATTERN}|^{UNTIMED}$"))
]  # None: one pass over the files
Share = Annotated[float, BeforeValidator(units.parse_share), _schema(("string", units.SHARE_PATTERN))]  # fraction
PathText = Annotated[str, BeforeValidator(_path)]
CpuList = Annotated[str, BeforeValidator(_cpus), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})]
Layout = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(_layout),
    WithJsonSchema({"anyOf": [{"const": INHERIT}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class UnknownName(ValueError):
    """A value that must be one of several names. The message quotes it."""


def suggest_known(what: str, name: str, known: Iterable[object]) -> str:
    """`unknown key `thread`; did you mean `threads`? (known: ...)`"""
    names = [str(k) for k in known]
    hint = text.did_you_mean(name, names)
    return f"unknown {what} `{text.shortened(name)}`{hint}" + (f" (known: {', '.join(names)})" if names else "")


class Strict(BaseModel):
    """Unknown keys are errors; values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Target(Strict):
    """The file system under test."""

    directory: PathText = Field(
        description="A directory on it. Everything is written below `iosweep-<campaign>/` in there, or"
        " `iosweep-<campaign>-<name>/` for one of `targets`. A relative path counts from where snakemake is run."
    )
    type: FileSystemType | None = Field(
        None,
        description="Type of its file system, as /proc/self/mountinfo names it: lustre, wekafs, gpfs, beegfs, nfs (also"
        " nfs4), xfs ... (`glusterfs` is also fuse.glusterfs). A directory on another type, such as an empty mount"
        " point, is refused by `iosweep plan` and a run on the machine that measures, and on every node before"
        " anything is written. Default: any type.",
    )
    server_cache: SizeOrZero | None = Field(
        None,
        description="Memory that the servers may cache with, all together. Phases that read less than twice that, each"
        " byte counted once, are suspect; without it the check says `not checked`. 0 where there is no server.",
    )
    node_bandwidth: Size | None = Field(
        None,
        description="Bytes per second that one node can move at most (its links). Faster reads are suspect. It"
        " also limits the forecast of the bytes that timed phases write; without it the forecast assumes 4g.",
    )
    layout: Layout = Field(
        None,
        description="Striping of what is written: `inherit`, as the directory has it, or the arguments of the file"
        " system's own command, which is run on the campaign's directory: `lfs setstripe` on Lustre, `beegfs-ctl"
        ' --setpattern` on BeeGFS. For example ["-c", "4", "-S", "1m"]. Default: inherit.',
    )
    keep: Literal["none", "data_sets"] = Field(
        "none",
        description="What stays on the target once everything is measured: `none`, or `data_sets`, which another run is"
        " then spared writing. `iosweep clean --yes` removes them. Default: none.",
    )
    deadline: Deadline = Field(
        30.0,
        description="An operation on the target that makes no progress for this time counts as hanging, and the"
        " campaign stops. Default: 30s.",
    )
    lock: PathText | None = Field(
        None,
        description="A directory, not on the target, for the lock that keeps a second campaign off the same file"
        " system. All campaigns must see the same one; a relative path counts from where snakemake is run."
        " Default: a lock of this machine.",
    )


class Limits(Strict):
    """Ceilings. A campaign that cannot fit is refused before anything is written."""

    bytes_written: Size | None = Field(
        None,
        description="Bytes that the campaign may write, data sets included, in all its runs. A larger forecast is"
        " refused. The campaign stops before a repetition whose forecast exceeds what is left. Only the first of a"
        " point can exceed the limit, if it is faster than its forecast, and it is the last one then. Must be"
        " given above 10t.",
    )
    time: Duration | None = Field(
        None,
        description="Time that the campaign may take, all allocations and runs together. A longer forecast is"
        " refused. When it is spent, the campaign stops before the next repetition.",
    )
    grace: Deadline = Field(
        60.0,
        description="Extra time beyond 1.5 x the phase time before a tool is killed (start-up, slow flush, shutdown)."
        " Default: 60s.",
    )
    share_of_free: Share = Field(
        0.10, description="Share of the target's free space and inodes that may be used. Default: 10%."
    )
    retried: Share = Field(
        0.10,
        description="Share of an allocation's repetitions (at least 3 of them, unless it is 0%) that may be measured a"
        " second time because something disturbed the first: other load, a kill. Default: 10%.",
    )
    shortest_phase: Duration = Field(
        SHORTEST_STEADY_S,
        description="Timed phases that are shorter are too short to judge whether they are steady, and suspect; for a"
        " trial or a demonstration, 0s. Suites with a `scale` are exempt. Default: 10s.",
    )
    fill: Share = Field(
        0.80, description="How full the target may get, in space and in inodes, as df counts. Default: 80%."
    )


class Cpus(Strict):
    """Which CPUs of a node measure (docs/pinning.md)."""

    reserved: CpuList | None = Field(
        None,
        description="CPUs that the file system's client keeps for itself, as the kernel numbers them (`24-27`). It"
        " takes the place of what the nodes say, and is checked against it; siblings of the same core are added."
        " Default: what WEKA says on each node.",
    )
    placement: Literal["spread", "pack"] = Field(
        "spread",
        description="`spread`: over NUMA nodes in turn, one per core before siblings; `pack`: NUMA node after NUMA"
        " node. Default: spread.",
    )
    width: Literal["cpu", "core"] = Field(
        "cpu", description="A rank gets one CPU, or all usable ones of a core. Default: cpu."
    )


class Tools(Strict):
    """Where the tools come from (docs/tools.md)."""

    provider: Literal["spack", "path"] | None = Field(
        None,
        description="`spack`: built from `environment`; `path`: what is on PATH where it is measured. Default: what the"
        " profile says, spack in profiles/slurm and path in profiles/local.",
    )
    environment: PathText | None = Field(
        None,
        description="The file that says what Spack builds. Default: spack.yaml where snakemake is run, or else the one"
        " that comes with iosweep.",
    )
    directory: PathText = Field(
        "tools",
        description="Where it is built: a directory that all nodes see, and not on the target. A relative path counts"
        " from where snakemake is run. Default: tools.",
    )
    spack: PathText | None = Field(
        None,
        description="Directory of the Spack that builds. Default: a clone of the release that iosweep is tried with.",
    )
    optional: list[Literal[*tools()]] = Field(  # type: ignore[valid-type]
        [], max_length=MOST_VALUES, description="Tools whose points are skipped where they are not installed."
    )
    variables: Annotated[list[Variable], Field(max_length=MOST_VALUES)] = Field(
        [],
        description="Names of variables of the environment that tools get, beside those that they always get"
        " (docs/tools.md). Names of secrets are refused. Default: none.",
    )
