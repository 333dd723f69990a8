"""The tools that measure, one folder each. Adding a tool is adding a folder: nothing here names one.

A folder `tools/<name>/` offers `TOOL`, an object with the attributes of `Tool`: a table of options (from which the
configuration's models, the schema, the documentation and the argv come), a table of phases, the argv of a phase, and
the parser of what the tool prints. Pure throughout: nothing in a tool folder touches a file system or starts a process.

| module | what it does |
|---|---|
| axes.py | axes, options and phases that tools share |
| <tool>/command.py | its options and phases; the command line of a phase, and of the data set that it needs |
| <tool>/output.py | its output -> figures, evidence, problems: `parse` for campaigns, `read` for files of others |
| ior/records.py, fio/records.py | the records in that output |
| fio/nodes.py | reports of several nodes -> one: histograms, windows, sums |
| fio/series.py | fio's logs of bandwidth over time: arguments, how fine, reading |
| messages.py | warnings and errors that IOR and mdtest print; tables of their ranks |
| reading.py | when a figure is not plausible or too short; a file of others, as it was read |
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import Literal, Protocol

import msgspec

from iosweep.histograms import Histogram, NodeRate, Series
from iosweep.node.cpus import CpuSet
from iosweep.tools.reading import Reading
from iosweep.units import LARGEST_SIZE, size_name

Kind = Literal["data", "metadata"]
OptionKind = Literal["size", "count", "flag", "choice"]
Value = int | bool | str | None


#: The role of an axis in figures: `x`, the horizontal axis wherever it varies; `x_alone`, the same where no `x` varies;
#: `color`, the color of the lines, then the panels; `condition`, nothing: results that differ in it share no figure.
Role = Literal["x", "x_alone", "color", "condition"]


@dataclass(frozen=True)
class Option:
    """A parameter of a tool: what a configuration may set under `options`, or vary under `axes`.

    The only place where it is described: the configuration's models, ids of points, columns of the tables, axes of
    figures and the documentation read this entry. Options of several tools are in axes.py.

    `kinds` are the kinds of phase that it has an effect on; it is an error to set it where it has none. An option
    without an effect on a point's phases is not part of the point's id.
    """

    name: str
    kind: OptionKind
    default: Value
    help: str
    unit: str = ""  # behind a value in reports: `70 %`; sizes need none
    kinds: frozenset[Kind] = frozenset({"data", "metadata"})
    choices: tuple[str, ...] = ()
    minimum: int = 1
    maximum: int | None = None
    phases: frozenset[str] | None = None  # only these phases use it; None: all of its kinds
    only_with: tuple[str, Value] | None = None  # it has an effect only where this other option has this value

    id_form: str = ""  # how a point's id shows it: `qd{}`; "": the hash alone tells
    title: str = ""  # in reports; "": the name with spaces
    singular: str = ""  # for something that is counted: `1 thread per node`, with the title as the plural
    labels: Mapping[Value, str] | None = None  # values that explain themselves, with their words where they differ
    zero: str = ""  # words for the value 0 in captions of figures: `empty files`
    role: Role = "color"
    color_order: int = 5  # of several axes that vary, the lowest is the color, the next makes panels
    captions: frozenset[Kind] = frozenset({"data", "metadata"})  # kinds of phase whose figures name its value
    bound: str = ""  # help of the upper bound of this name in a suite's `scale`; "": there is no such bound
    laptop: int | None = None  # its bound with `scale: laptop`
    brief: str | None = None  # how a few words say it: `QD {}`; "": not at all; None: as captions do

    @cached_property
    def column(self) -> str:
        """Its column in the tables; units are part of a column's name."""
        return self.name + {"size": "_bytes"}.get(self.kind, "_s" if self.unit == "s" else "")

    @property
    def shown(self) -> str:
        return self.title or self.name.replace("_", " ")

    def applies(self, phase: Phase) -> bool:
        """Whether it has an effect on a phase."""
        return phase.kind in self.kinds and (self.phases is None or phase.name in self.phases)

    def text(self, value: Value) -> str:
        """A value as a configuration has it: `64k`, `true`."""
        if isinstance(value, bool):
            return str(value).lower()
        return size_name(value) if self.kind == "size" and isinstance(value, int) else str(value)

    @property
    def default_text(self) -> str:
        """Its default as a configuration has it; a flag without a default is off."""
        return self.text(bool(self.default) if self.kind == "flag" else self.default)

    @property
    def most(self) -> int:
        return self.maximum or (2**31 - 1 if self.kind == "count" else LARGEST_SIZE)


@dataclass(frozen=True)
class Phase:
    """A step of a point. `metric` is the column that is its headline; `random`: I/Os go to random places."""

    name: str
    kind: Kind
    reads: bool
    writes: bool
    metric: str
    help: str
    title: str = ""  # in reports; "": the name
    random: bool = False
    plural: str = ""  # its operations as the subject of a sentence: `file creates`; "": `help`


class Step(msgspec.Struct, frozen=True):
    """One command of a point: its phases, with everything that determines the measurement.

    Several phases only where the tool measures them in one run (mdtest). `time_s` is how long each phase runs; None
    where a count or a volume bounds it.
    """

    options: Mapping[str, Value]
    phases: tuple[Phase, ...]
    nodes: int = 1
    time_s: float | None = None

    @property
    def phase(self) -> Phase:
        """Its first phase. Most tools measure one phase in a command."""
        return self.phases[0]

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self.phase.name

    @property
    def tasks(self) -> int:
        """Ranks or workers on all nodes together."""
        return self.nodes * self.number("threads_per_node")

    def number(self, name: str) -> int:
        """An option that counts something; 1 where the point does not have it."""
        value = self.options.get(name)
        return value if isinstance(value, int) else 1


#: The outputs of a command: `stdout`, `stderr`, and the files that `Tool.outputs` names. A tool that was started once
#: on each of several nodes has `stdout@0`, `stdout@1` ... by the node's index, `<stream>@0` ... for its files, and
#: `hosts`: JSON, for each node {host, started, ended (of its process, in seconds on one clock), clock_offset_s (the
#: node's clock minus that one), clock_error_s, exit_code}.
Streams = Mapping[str, bytes]


@dataclass(frozen=True)
class FileSet:
    """Files that a step works on, relative to the campaign's directory on the target.

    `role`: `read` (complete data that nothing writes to), `write` (complete files that write phases own and write
    over), or `fresh` (an empty directory of this repetition, removed with it). `of_all_nodes`: one set for all nodes,
    where otherwise each has its own.
    """

    directory: str
    role: Literal["read", "write", "fresh"]
    files: tuple[str, ...] = ()
    file_size_bytes: int = 0
    of_all_nodes: bool = False
    prepare: Callable[[str], list[str]] | None = field(default=None, compare=False)  # absolute directory -> argv
    prepare_tasks: int = 1  # ranks that this command wants, for a tool with MPI
    surplus_bytes: int = 0  # that it writes behind the end of each file, and that are cut off
    prepared: Callable[[Streams], str | None] = field(default=lambda _: None, compare=False)  # output -> its error

    def shares(self, nodes: int) -> list[FileSet]:
        """The file set of each node: a shared one, or one each. The first node's is also that of single nodes."""
        if self.of_all_nodes or nodes == 1:
            return [self]
        if self.role == "fresh":
            return [replace(self, directory=f"{self.directory}/node{k}") for k in range(nodes)]
        return [self, *(replace(self, directory=f"{self.directory}.node{k}") for k in range(1, nodes))]

    @property
    def size_bytes(self) -> int:
        return len(self.files) * self.file_size_bytes


#: Resolution of a tool's clock in seconds, where the tool does not say.
CLOCK_S = 0.001


@dataclass(frozen=True)
class Echo:
    """The options that a tool reports, compared with those of its command.

    contradictions: a sentence each; confirmed: options of the point (`o_direct`, `fsync`) that it says it followed;
    compared: how many options and parameters; place: the argument of its command that names its files, None where it
    does not repeat it (the parser does not know where the step was to work: the check compares it).
    """

    contradictions: Sequence[str]
    confirmed: frozenset[str]
    compared: int
    place: str | None = None


@dataclass(frozen=True)
class Evidence:
    """Facts from a tool's output beside its figures, for the checks. None, or empty: the output does not say."""

    errors: Sequence[str] | None = None  # that the tool itself reports, a sentence each
    doubts: Sequence[str] | None = None  # reasons to doubt figures, a sentence each; None: lines are not judged
    silent_directions: Sequence[str] | None = None  # `read`, `write`: asked for and not done
    unasked_directions: Sequence[str] = ()
    transferred_bytes: int | None = None
    rate_times_runtime_bytes: float = 0.0  # the same, counted in another way
    clock_s: float = CLOCK_S
    worker_seconds: float = 0.0  # run times of all workers added up
    computing: float = 0.0  # share of its time that a worker may have been outside of I/Os, at depth 1
    depth_percent: Mapping[str, float] = field(default_factory=dict)  # fio's iodepth_level
    tasks: int | None = None  # ranks and nodes that the tool says took part, or workers that have logs
    nodes: int | None = None
    shifts: bool = False  # ranks read what other ranks wrote
    shift: int | None = None  # by how many ranks
    repeats: str = ""  # why random data holds duplicates all the same
    not_flushed: str = ""  # why writes were not flushed, though it was asked for
    began_s: float | None = None  # first I/O, by the clock of the node
    each_node: Mapping[str, Parsed] = field(default_factory=dict)  # of a tool that was started once on each node
    windows: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # host -> first and last I/O, on one clock
    windows_error_s: float = 0.0  # by how much their difference may be wrong
    series: Sequence[Series] = ()  # rates over time that the tool itself logged
    node_rates: Sequence[NodeRate] = ()  # of each node and worker
    latencies: Histogram | None = None  # histogram of the time that callers waited
    lost: str = ""  # why recorded series or node rates are missing
    messages: Sequence[str] = ()  # lines beside the figures
    echo: Echo | None = None
    timed_s: float | None = None  # of the whole command, by the tool's clock
    untimed_s: float = 0.0  # that the tool is known to wait beside that
    wall_s: float | None = None  # of the tool's process on its node, by our clock; None: that of the command

    def confirms(self, option: str) -> bool:
        """Whether the tool, on every node, says that it followed an option (`o_direct`, `fsync`)."""
        every = [parsed.evidence.echo for parsed in self.each_node.values()] or [self.echo]
        return all(echo is not None and option in echo.confirmed for echo in every)


@dataclass(frozen=True)
class Parsed:
    """A tool's output as figures by column name, evidence for the checks, and problems.

    Without any output it is `Parsed()`. `label`: the tool's own name of the operation.
    """

    version: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    problems: Sequence[str] = ()
    label: str | None = None


class Tool(Protocol):
    """The base class of `TOOL` in a tool folder. Values and bodies here are defaults."""

    name: str
    help: str
    program: str  # looked up on PATH
    get_it: str  # how to get the program, for a person
    version_argv: tuple[str, ...]
    version_pattern: str = r"(\S+)"  # the version in what that prints: its first group
    #: Pattern of versions that cannot be used, and why, with `{}` for the version.
    too_old: tuple[str, str] = ("(?!)", "")
    mpi: bool = False  # its processes are MPI ranks, started by a launcher
    latency: bool = False  # it measures how long each I/O takes
    together: bool = False  # one command measures all phases of a point
    #: Stream -> name of the file that the command writes where it is started; `*` in it: those of all its workers.
    outputs: Mapping[str, str] = MappingProxyType({})
    title: str = ""  # in reports; "": the name
    own_metadata: str = ""  # description of metadata rates that do not compare with those of other tools
    signs: Sequence[bytes] = ()  # patterns of lines that its output has, and no other text; any text may stand before
    options: Mapping[str, Option]
    phases: Mapping[str, Phase]

    def __hash__(self) -> int:
        return object.__hash__(self)

    def version(self, printed: str) -> str:
        """The version in what `version_argv` prints; `unknown` if it is not there."""
        found = re.search(self.version_pattern, printed, re.MULTILINE)
        return found[1] if found else "unknown"

    def unfit(self, version: str) -> str | None:
        """The reason why this version cannot be used, or None."""
        pattern, why = self.too_old
        return why.format(version) if re.match(pattern, version) else None

    def check(self, options: Mapping[str, Value], phases: Sequence[str], time_s: float | None) -> str | None:
        """The error in a combination of options, or None."""
        return None

    def check_directory(self, directory: str) -> str | None:
        """The reason why the tool cannot work below a directory of this name, or None."""
        return None

    def file_set(self, step: Step, fresh: str) -> FileSet:
        """The files a step works on. `fresh` names the directory of this repetition."""

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        """The exact command of a step, without its launcher. `directory` is the absolute path of its file set."""

    def bound(self, workers: Sequence[CpuSet]) -> list[str]:
        """Arguments that keep the workers of a command to these CPUs; none where the launcher does that."""
        return []

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        """Figures and problems of one phase of a run. Never raises, whatever the streams hold."""

    def read(self, data: bytes) -> Reading:
        """The reading of a file of others (stdout, a summary, a log of several runs). Never raises for its content."""

    def leftover(self, step: Step) -> int | None:
        """Files that must be in the file set's directory after the step, or None where the count says nothing."""
        return None

    def inodes(self, step: Step) -> int:
        """Files and directories that the step itself creates beside its file set, at most."""
        return 0

    def work(self, step: Step) -> int:
        """Operations that a count bounds, all phases together; 0 where time or a volume bounds them."""
        return 0


@cache
def tools() -> dict[str, Tool]:
    """All tools by name, found by their folders."""
    found: dict[str, Tool] = {}
    for module in (module for module in pkgutil.iter_modules(__path__) if module.ispkg):
        tool: Tool = importlib.import_module(f"{__name__}.{module.name}").TOOL
        found[tool.name] = tool
    return dict(sorted(found.items()))


@cache
def phases() -> dict[str, Phase]:
    """All phases by name, in the order of each tool."""
    found: dict[str, Phase] = {}
    for tool in tools().values():
        names = list(found)
        at = len(names)
        for name in reversed(list(tool.phases)):
            if name in found:
                at = names.index(name)
            else:
                names.insert(at, name)
        found = {name: found.get(name) or tool.phases[name] for name in names}
    return found


@cache
def parameters() -> dict[str, Option]:
    """Column of the tables -> the axis or option that it holds: common options first, then those of each tool."""
    from iosweep.tools.axes import COMMON, PHASE_TIME  # late: it imports this module

    found = {option.column: option for option in COMMON}
    for tool in tools().values():
        for option in tool.options.values():
            found.setdefault(option.column, replace(option, help=f"{tool.name}: {option.help}"))
    return {**found, PHASE_TIME.column: PHASE_TIME}


def contradictions(tool: str, asked: Mapping[str, str], told: Mapping[str, str]) -> list[str]:
    """Differences between the options of a command and those that its tool repeats: option -> value, "" of a flag."""
    found = []
    for name in sorted(asked.keys() | told.keys()):
        wanted, used = asked.get(name), told.get(name)
        if wanted is None:
            found.append(f"{tool} ran with {name} {used}".rstrip() + ", which was not asked for")
        elif used is None:
            found.append(f"{tool} ran without {name} {wanted}".rstrip())
        elif used != wanted:
            found.append(f"{tool} ran with {name} {used}, asked for was {wanted}")
    return found
