"""mdtest's command line as it prints it, and what it means to the version that printed it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from iosweep.details import NodeRate
from iosweep.tools import Echo, Evidence, Parsed, Phase, Step, Streams, logs
from iosweep.tools.logs import FRAME, NOT_REMOVED, WORDS, Heard, about_the_end, marked, quote, said
from iosweep.tools.mdtest import command
from iosweep.tools.mdtest.command import RANKS, ROWS
from iosweep.tools.reading import (
    Cell,
    ProblemSeverity,
    Reading,
    ReadingProblem,
    clock_too_fast,
    iso_date,
    parse_date,
    seconds_between,
    too_short,
)

_FLAGS = set("CTErUDFgkLPRSctuvXyYZ")
_VALUES = set("abdefGiIlnNpsVwWxz")
_LONG_VALUES = {
    "random-seed",
    "dataPacketType",
    "run-cmd-before-phase",
    "run-cmd-after-phase",
    "saveRankPerformanceDetails",
    "savePerOpDataCSV",
    "allocateBufferOnGPU",
    "GPUid",
}
#: The line is printed through a buffer of 1024 bytes (VerboseMessage): a longer one is cut without a word.
_COMMAND_LIMIT = 1000


@dataclass(frozen=True)
class Options:
    """A command line of mdtest's: flags that are set, and the values of the others, by letter."""

    flags: frozenset[str]
    values: Mapping[str, str]

    def number(self, letter: str) -> int | None:
        """An option's value as string_to_bytes reads it (64, 4k, 1m), or None where it is not given."""
        match = re.fullmatch(r"(\d{1,18})([kmgt]?)", self.values.get(letter, ""), re.IGNORECASE)
        return int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ") if match else None


def release(text: str | None) -> tuple[int, ...]:
    """(4, 0, 0) of "4.0.0rc1"; () where unknown, which is less than every version."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6})*", text or "")
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def split(line: str) -> tuple[str, ...] | None:
    """The words of a `Command line used` line."""
    if len(line) >= _COMMAND_LIMIT:
        return None
    text = line.partition(":")[2].strip()
    program, found, rest = text.partition(" '")
    if not found:
        return tuple(text.split()) or None
    # mdtest escapes nothing, so a quote inside a word is only a quote
    return (program, *rest[:-1].split("' '")) if rest.endswith("'") else None


def parse_command(words: tuple[str, ...] | None, version: tuple[int, ...]) -> Options | None:
    """What the words mean to mdtest's option.c, or None where that is not certain.

    3.3 reads only the first letter of `-Fu`; from 4.0 it reads every letter, also those of a value that is written
    against its option (`-d/tmp` sets -t). `-B` takes a value in some versions.
    """
    if words is None:
        return None
    flags: set[str] = set()
    values: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            if name[2:] in _LONG_VALUES and not equals and next(rest, None) is None:
                return None
        elif name[:1] != "-" or len(name) < 2:
            return None
        elif name[1] in _VALUES:
            if not equals:
                value = name[2:] or next(rest, "")
                if name[2:] and not value.isdecimal():
                    return None
            values[name[1]] = value
        elif set(name[1:]) <= _FLAGS and not equals and (len(set(name[1:])) == 1 or version >= (4,)):
            flags |= set(name[1:])
        else:
            return None
    return Options(frozenset(flags), values)


def asked(options: Options, version: tuple[int, ...]) -> set[str]:
    """The operations that these options run (md_validate_tests)."""
    steps = {"C": "creation", "T": "stat", "E": "read", "r": "removal", "U": "rename"}
    chosen = {steps[letter] for letter in options.flags & set(steps)}
    if not chosen:
        chosen = {*steps.values()} if version >= (3, 4) else {*steps.values()} - {"rename"}
    if 1 in (options.number("n"), options.number("I") if "n" not in options.values else None):
        chosen -= {"rename"}  # a single directory is not renamed
    kinds = {"Directory": "D", "File": "F"}
    families = {family for family, letter in kinds.items() if letter in options.flags} or set(kinds)
    if "S" in options.flags:
        families -= {"Directory"}
    return {name for name in ROWS.values() if name.split()[0] in families and name.split()[1] in chosen}


#: MPI's clock counts in far less; of barriers, a phase of a millisecond is mostly made.
CLOCK_S = 0.00005
#: Before 4.0, with one iteration: the ranks' own rates may differ by this factor before their mean is no rate of the
#: run.
_RANKS_AGREE = 1.1
#: A table without any line above it.
ALONE = (
    "the table comes without the lines above it: which version ran what on how many tasks is not known, and before 4.0"
    " a mean is over the rates of single ranks"
)
_STARTED = re.compile(r"-- started at (.*) --")
_FINISHED = re.compile(r"-- finished at (.*) --")
_BANNER = re.compile(r"mdtest-(\S*) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node(?:s|\(s\))")
_COMMAND = re.compile(r"Command line used:.*")
_SHIFT = re.compile(r"Shifting ranks by (\d{1,9}) for each phase")
_STONEWALL = re.compile(r"Continue stonewall hit min: \d{1,18} max: (\d{1,18}) avg: .*")
#: With -v, of rank 0 in one iteration: before 4.0 all items over its time, then its own.
_OF_RANK_0 = re.compile(r"V-1: .{0,40}?((?:File|Directory) \w+) +: +\d{1,18}\.\d{3} sec, +(\d{1,18}\.\d{3}) ops/sec")
_COUNT = re.compile(r"(\d{1,9}) tasks, (\d{1,18}) (files/directories|files|directories|file)")
_NAME = rf"({'|'.join(ROWS.values())})"
# the unit of "time" is ms/op or ops/sec in the title and seconds in the rows
_TITLE = re.compile(r"SUMMARY(?: (rate|time))?(?: \(in ([^)]*)\))?: \(of (\d{1,9}) iterations\)")
# time in proportion to the line: no two parts beside each other match the same blanks
_ROW = re.compile(rf"{_NAME}(?:\s*:)?((?:\s+\d{{1,300}}\.\d{{3}}){{4}}(?:(?:\s+\d{{1,300}}\.\d{{3}}){{3}})?)")
_TORN = re.compile(rf"{_NAME}(?:\s*:)?\s+[\d.](?!.*\bsec\b)")
#: How mdtest's own lines begin. All others are looked at where they have a word of WORDS.
_MAY_BE = re.compile(
    r"V-1: |-- (?:started|finished) at |mdtest-|Command line used:|\d{1,9} tasks, |Continue stonewall|SUMMARY"
    r"|Directory|File|Tree"
)
#: The last row of every table. Rates of trees are those of a handful of directories: nobody compares them.
_LAST = "Tree removal"


class Rate(NamedTuple):
    """A row of the table, in operations per second, in the table's own order."""

    maximum: float
    minimum: float
    mean: float
    stddev: float


@dataclass
class _Table:
    """A table while its lines are read. `count`: the tasks and items that the line before it tells."""

    unit: str  # as the title has it
    iterations: int
    count: tuple[int, int, str] | None
    rates: dict[str, Rate] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    closed: bool = False  # its last row is there
    times: _Table | None = None  # the table of times that follows (-P)

    def add(self, line: str) -> None:
        self.closed |= line.startswith(_LAST)
        if row := _ROW.fullmatch(line):
            if row[1] in self.rates:
                self.problems.append(f"the row {row[1]} is there twice")
            figures = [float(figure) for figure in row[2].split()]
            self.rates.setdefault(row[1], Rate(*figures[-4:]))  # --showRankStatistics: the last are per iteration
        elif "(stonewall)" not in line and _TORN.match(line):
            self.problems.append(f"a row of the table is damaged: {quote(line)}")


@dataclass
class _Launch:
    """What the lines from one start of mdtest to the next say."""

    heard: Heard = field(default_factory=Heard)
    shifts: set[int] = field(default_factory=set)  # by how many ranks phases are shifted
    began: str | None = None  # the dates as printed
    ended: str | None = None
    banner: tuple[str, int, int] | None = None
    command: str | None = None
    count: tuple[int, int, str] | None = None  # not yet followed by its table
    stonewalled: int = 0  # files of the fastest task at the deadline (-W), which the others then create, too
    of_rank_0: dict[str, float] = field(default_factory=dict)  # rates that -v prints
    tables: list[_Table] = field(default_factory=list)
    times_only: bool = False

    @property
    def headed(self) -> bool:
        return bool(self.began or self.banner or self.command)

    @property
    def touched(self) -> bool:
        return self.headed or bool(self.count or self.tables or self.times_only)


@dataclass(frozen=True)
class Run:
    """One table of rates and what the output says about it; without a table, what is wrong.

    `rates` has every row as printed, also the zeros of operations that were not run. With a problem none of them can
    be trusted; `doubts` says of single operations why they cannot be. What the output does not tell is None.
    """

    version: str | None = None
    tasks: int | None = None
    nodes: int | None = None
    shift: int | None = None  # ranks from the one that makes a file to the one that works on it next (-N)
    iterations: int | None = None
    rates: Mapping[str, Rate] = field(default_factory=dict)
    times_s: Mapping[str, float] = field(default_factory=dict)  # of one iteration, where -P has them printed
    problems: Sequence[str] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[tuple[ProblemSeverity, str]] = ()  # suspect: of all rows; note
    items: int | None = None  # files (or directories) of each task
    command: tuple[str, ...] | None = None  # as mdtest prints it, program first
    options: Options | None = None
    began: str | None = None  # the dates as printed
    ended: str | None = None


def runs(text: str) -> tuple[list[Run], Heard]:
    """(the runs in one output, in its order: one for each table of rates, and one for each start without any; what
    lines say that are of no run)"""
    launches = _launches(text)
    found = [run for launch in launches if launch.touched for run in _judged(launch)]
    return found, launches[-1].heard


def _launches(text: str) -> list[_Launch]:
    """What is said between two launches is of the second, but for how processes ended."""
    launch, last = _Launch(), _Launch()
    launches = [launch]
    before = ""  # the line before
    may_be, words = _MAY_BE.match, (*WORDS, "shifting ranks")
    for raw, is_marked in marked(text.replace("\r\n", "\n"), words):
        line = raw.strip()
        if is_marked and not (FRAME.fullmatch(before) and "WARNING" in line):
            if shift := _SHIFT.search(line):
                launch.shifts.add(int(shift[1]))
            elif "inconsistent file size" not in line:  # IOR's alone, of its own runs in the same log
                (last if not launch.touched and about_the_end(line) else launch).heard.take(line)
        before = line or before
        if not may_be(line):
            continue
        if _begins(line, launch):
            last, launch = launch, _Launch()
            launches.append(launch)
        _take(launch, line)
        if launch.ended:
            last, launch = launch, _Launch()
            launches.append(launch)
    if len(launches) > 1 and not launch.touched:
        launches.pop()
        launches[-1].heard.add(launch.heard)  # nothing follows
    return launches


def _begins(line: str, launch: _Launch) -> bool:
    """Whether a line is of another launch: mdtest prints its start, banner and command once."""
    return bool(
        (_STARTED.fullmatch(line) and launch.touched)
        or (_BANNER.fullmatch(line) and (launch.banner or launch.tables))
        or (_COMMAND.fullmatch(line) and (launch.command or launch.tables))
    )


def _take(launch: _Launch, line: str) -> None:
    if match := _STARTED.fullmatch(line):
        launch.began = match[1]
    elif match := _FINISHED.fullmatch(line):
        launch.ended = match[1]
    elif match := _BANNER.fullmatch(line):
        launch.banner = match[1], int(match[2]), int(match[3])
    elif _COMMAND.fullmatch(line):
        launch.command = line
    elif match := _COUNT.fullmatch(line):
        launch.count = int(match[1]), int(match[2]), match[3]
    elif match := _STONEWALL.fullmatch(line):
        launch.stonewalled = int(match[1])
    elif match := _OF_RANK_0.fullmatch(line):
        launch.of_rank_0[match[1]] = float(match[2])
    elif match := _TITLE.fullmatch(line):
        table = _Table(match[2] or "", int(match[3]), launch.count)
        if match[1] != "time":
            launch.tables.append(table)
            launch.count = None
        elif launch.tables and launch.tables[-1].times is None:
            launch.tables[-1].times = table
        else:
            launch.times_only = True
    elif launch.tables:
        (launch.tables[-1].times or launch.tables[-1]).add(line)


def _judged(launch: _Launch) -> Iterator[Run]:
    text = launch.banner[0] if launch.banner else ""
    version, words = release(text), split(launch.command) if launch.command else None
    options = parse_command(words, version)
    told = list(said(one for one in launch.heard if one.meaning != NOT_REMOVED))
    left = [sentence for _, sentence in said(one for one in launch.heard if one.meaning == NOT_REMOVED)]
    tables: Sequence[_Table | None] = launch.tables or [None]
    for table in tables:
        tasks, nodes = launch.banner[1:] if launch.banner else (None, None)
        items = None
        if table and table.count:
            if tasks is not None and table.count[0] != tasks and nodes != 1:
                nodes = None  # -f, -l: the first ranks only; on how many nodes is not told
            tasks = table.count[0]
            # what -W and -x make of -n is not printed
            if table.count[2] != "file" and tasks and not table.count[1] % tasks and not _open_ended(options):
                items = table.count[1] // tasks
        problems = [*_problems(launch, table, options), *(text for severity, text in told if severity == "invalid")]
        doubts: dict[str, str] = {}
        remarks = [one for one in told if one[0] != "invalid"]
        if table:
            problems += _zeros(table, version, options, doubts)
            doubts |= _means_of_ranks(table, version)
            if tasks and len(launch.tables) == 1:
                doubts |= _beyond_deadline(table, launch.stonewalled * tasks, options)
                if not _open_ended(options):
                    doubts |= _beyond_rank_0(table, launch.of_rank_0, tasks if version >= (4,) else 1)
            for sentence in left:
                doubts |= {name: f"{name}: {sentence}" for name in table.rates if name == "Directory removal"}
                remarks.append(("suspect", sentence))
            if not (launch.headed or table.count):
                remarks.append(("suspect", ALONE))
        if () < version < (3, 3) and " '" not in (launch.command or ""):  # what led to 3.3, as IO500 had it, quotes so
            problems = [f"not read: mdtest {text} (3.3 and newer are; 3.2 prints 1.9.3)"]
        times = table.times if table and table.iterations == 1 else None  # of several, the means are of no run
        yield Run(
            version=text or None,
            tasks=tasks,
            nodes=nodes,
            shift=min(launch.shifts) if len(launch.shifts) == 1 else None,
            iterations=table.iterations if table else None,
            rates=table.rates if table else {},
            times_s={name: time.mean for name, time in times.rates.items()} if times else {},
            problems=tuple(dict.fromkeys(problems)),
            doubts=doubts,
            remarks=tuple(dict.fromkeys(remarks)),
            items=items,
            command=words,
            options=options,
            began=launch.began,
            ended=launch.ended,
        )


def _open_ended(options: Options | None) -> bool:
    return options is None or bool({"W", "x"} & set(options.values))


def _problems(launch: _Launch, table: _Table | None, options: Options | None) -> Iterator[str]:
    """What is wrong with a launch and its table of rates, without the figures themselves."""
    if launch.headed and not launch.ended:
        yield "the output is cut: mdtest's closing line '-- finished at' is missing"
    if launch.ended and not launch.headed:
        yield "the output is cut: its beginning is missing"
    if table is None:
        times = "the output has times only (-Z), no rates"
        yield times if launch.times_only else "there is no table of results (SUMMARY)"
        return
    yield from table.problems
    if not table.closed:
        yield "the table is cut: its last row is missing"
    if table.unit not in ("", "ops/sec"):
        yield f"the rates are in {quote(table.unit)}, which no known version prints"
    if table.count and not table.count[0]:
        yield f"the output counts 0 tasks ({table.count[1]} {table.count[2]})"
    asked_for = None if options is None else options.number("i") if "i" in options.values else 1
    if asked_for is not None and asked_for != table.iterations:
        yield f"the table is over {table.iterations} iterations, and the command line asks for {asked_for}"
    if options and (options.number("W") or 0) and any(name.startswith("Directory") for name in table.rates):
        yield "with -W mdtest counts directories that it did not create"  # directory_test keeps the number of -n


def _zeros(table: _Table, version: tuple[int, ...], options: Options | None, doubts: dict[str, str]) -> Iterator[str]:
    """Zeros of operations that were asked for, into `doubts`. Others are zero because they were not run."""
    zero = {name for name, rate in table.rates.items() if rate.maximum == 0}
    if table.rates.keys() <= zero:
        without = options and not {"n", "I"} & set(options.values)
        yield "nothing was measured: every rate is 0" + (" (mdtest was run without -n)" if without else "")
    elif options:
        doubts |= {name: f"{name} was asked for and has the rate 0" for name in zero & asked(options, version)}


def _beyond_deadline(table: _Table, files: int, options: Options | None) -> dict[str, str]:
    """A rate at which all files that mdtest counted at its deadline (-W) were created before that."""
    deadline_s, rate = options.number("W") or 0 if options else 0, table.rates.get("File creation")
    if table.iterations != 1 or not (files and rate and rate.mean) or files / rate.mean > 0.99 * deadline_s:
        return {}
    why = f"{files:,} files at {rate.mean:,.0f} ops/s take {files / rate.mean:.3g} s, and -W ended them after"
    return {"File creation": f"File creation: {why} {deadline_s} s"}


def _beyond_rank_0(table: _Table, rates: Mapping[str, float], factor: int) -> dict[str, str]:
    """A rate at which all would be done before rank 0 was."""
    return {
        name: f"{name}: the table has {table.rates[name].minimum:,.0f} ops/s, and the lines of -v {rate * factor:,.0f}"
        for name, rate in rates.items()
        if table.iterations == 1 and name in table.rates and rate * factor < 0.99 * table.rates[name].minimum
    }


def _means_of_ranks(table: _Table, version: tuple[int, ...]) -> dict[str, str]:
    """Operations whose mean is over the ranks' own rates, which differ too much for it to be a rate of the run."""
    if version >= (4,) or table.unit == "ops/sec" or table.iterations != 1:
        return {}
    return {
        name: f"{name}: the ranks' own rates differ by more than {_RANKS_AGREE - 1:.0%} (from {rate.minimum:.3f} to"
        f" {rate.maximum:.3f} ops/s), so that their mean, which this version prints, is no rate of the run"
        for name, rate in table.rates.items()
        if rate.maximum > _RANKS_AGREE * rate.minimum
    }


#: How many times the shift the ranks of a phase are after those that created (mdtest.c: names come from the rank).
_SHIFTS = {"dir_stat": 1, "stat": 1, "read": 2}
#: By how much the rate of a run may differ from what its ranks' file has.
_SLACK = 0.01
#: The iterations of a mean may scatter by this share of it, as their standard deviation.
_SCATTER = 0.5
#: mdtest sleeps before it starts (4.x).
_SLEEP_S = 1.0
_PHASES = {row: phase for phase, row in ROWS.items()}
#: How mdtest prints a date, and how exact that is.
_DATE, _DATE_S = "%m/%d/%Y %H:%M:%S", 1.0


@lru_cache(1)
def _runs(stdout: bytes) -> list[Run]:
    """What one command printed: its phases are asked for one by one."""
    return runs(stdout.decode("utf-8", "replace"))[0]


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one iteration.

    `runtime_s` is operations / rate: mdtest prints rates alone.
    """
    stdout = streams["stdout"]
    found = _runs(stdout)
    if len(found) != 1:
        many = (
            f"{len(found)} runs in mdtest's output: its ranks did not find each other" if found else "no run of mdtest"
        )
        return Parsed(problems=[many if stdout.strip() else "mdtest printed nothing"])
    (run,), row = found, ROWS[phase.name]
    evidence = Evidence(
        errors=list(run.problems),
        doubts=[text for severity, text in run.remarks if severity == "suspect"],
        mpi=True,
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=True,
        shift=None if run.shift is None else run.shift * _SHIFTS.get(phase.name, 0),
        clock_s=CLOCK_S,
        echo=_compared(command.command(step, ""), run),
        timed_s=_timed_s(run, step),
        untimed_s=_SLEEP_S,
        own_rates=_of_ranks(streams.get("ranks", b""), row, step.tasks),
    )
    problem = run.doubts.get(row, "")
    ops = step.tasks * step.number("files_per_thread")
    if row not in run.rates:
        problem = f"mdtest's table has no row `{row}`"
    elif run.iterations not in (None, 1):
        problem = f"mdtest ran {run.iterations} iterations, not one"
    elif not problem and run.rates[row].mean <= 0:
        problem = f"mdtest's rate of `{row}` is {run.rates[row].mean:g}"
    if problem:
        return Parsed(run.version, {}, evidence, [problem])
    rate = run.rates[row].mean
    if own := evidence.own_rates:
        most = sum(one.ops_per_s or 0.0 for one in own) * (1 + _SLACK)  # a run is over when its slowest rank is
        took_s = logs.rank_total(streams["ranks"], f"time-{row}")  # its rate is that of one rank in some rows (4.0.0)
        if rate > most or (took_s and abs(ops - rate * took_s) > _SLACK * ops):
            why = f"mdtest's table has {rate:,.0f} ops/s, and the times of its ranks ({RANKS}) give another rate"
            return Parsed(run.version, {}, evidence, [why])
    figures = {"ops": ops, "ops_per_s": rate, "runtime_s": ops / rate}
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(run.version, figures, evidence, [], row)


def _of_ranks(document: bytes, row: str, tasks: int) -> list[NodeRate]:
    """The rate of each rank, over the time until it was through."""
    rates = logs.rank_column(document, f"rate-{row}", tasks)
    return [NodeRate("", rank, None, rate) for rank, rate in enumerate(rates)]


def _timed_s(run: Run, step: Step) -> float | None:
    """Seconds of all phases of a command by its rates; None where one of them has none."""
    rates = [run.rates[row].mean if (row := ROWS[phase.name]) in run.rates else 0.0 for phase in step.phases]
    ops = step.tasks * step.number("files_per_thread")
    return sum(ops / rate for rate in rates) if all(rates) else None


def _compared(command: Sequence[str], run: Run) -> Echo | None:
    """How a run differs from the command that was asked for; None where its command line tells nothing."""
    asked, told = parse_command(tuple(command), release(run.version)), run.options
    if asked is None or told is None:
        return None
    wrong = [f"mdtest ran without -{flag}" for flag in sorted(asked.flags - told.flags)]
    wrong += [f"mdtest ran with -{flag}, which was not asked for" for flag in sorted(told.flags - asked.flags)]
    for name in sorted((asked.values.keys() | told.values.keys()) - {"d"}):
        wanted, used = (options.values.get(name, "none") for options in (asked, told))
        if wanted != used:
            wrong.append(f"mdtest ran with -{name} {used}, asked for was {wanted}")
    return Echo(tuple(wrong), frozenset(), len(asked.flags) + len(asked.values) - 1, told.values.get("d"))


# -- files of others -------------------------------------------------------------------------------------------------


def read(data: bytes) -> Reading:
    """The rows of the runs in a file. A run with a problem gives no row, and one whose doubts concern single operations
    gives these rows without figures. The column `command` tells the runs of a log apart; runs with the same or an
    unknown command have their number in the log as `repetition`."""
    found, beside = runs(data.decode("utf-8", "replace"))
    if not found:
        texts = ("there is no table of results (SUMMARY)", *(text for _, text in said(beside)))
        return Reading(None, [], [ReadingProblem("invalid", text) for text in texts])
    numbers: Counter[object] = Counter()
    rows: list[dict[str, Cell]] = []
    problems: list[ReadingProblem] = []
    for position, run in enumerate(found, 1):
        numbers[run.command, run.tasks] += 1
        where = f"run {position} of {len(found)}: " if len(found) > 1 else ""
        problems += [ReadingProblem("invalid", f"{where}{problem}") for problem in run.problems]
        if run.problems:
            continue
        first = len(rows)
        rows += _rows(run, numbers[run.command, run.tasks] if len(found) > 1 else None)
        places = {str(row["label"]): at for at, row in enumerate(rows[first:], first)}
        problems += _of_rows(run, where, places, alone=len(found) == 1)
    return Reading(next((run.version for run in found if run.version), None), rows, list(dict.fromkeys(problems)))


def _rows(run: Run, repetition: int | None) -> Iterator[dict[str, Cell]]:
    """The rows of a run without problems; what is not told is left out, and figures that are in doubt."""
    options = run.options
    per_node = run.tasks // run.nodes if run.tasks and run.nodes and not run.tasks % run.nodes else None
    size = None
    if options and "w" in options.values:
        size = options.number("w")
    elif options and ("C" in options.flags or not options.flags & set("TErU")):
        size = 0  # it makes the files itself
    deadline = options.number("W") if options and "W" in options.values else None  # when ranks stop to create files
    for name, rate in run.rates.items():
        if rate.maximum == 0 and name not in run.doubts:
            continue
        row: dict[str, Cell | None] = {
            "tool": "mdtest",
            "tool_version": run.version,
            "label": name,
            "phase": _PHASES[name],
            "kind": "metadata",
            "metric": "ops_per_s",
            "repetition": repetition,
            "command": shlex.join(run.command) if run.command else None,
            "tasks": run.tasks,
            "nodes": run.nodes,
            "threads_per_node": per_node,
            "files_per_thread": run.items,
            "unique_directory": "u" in options.flags if options else None,
            "file_size_bytes": size if name.startswith("File") else None,
            "phase_time_s": float(deadline) if deadline else None,
            "iterations": run.iterations,
            "began_local": iso_date(parse_date(run.began, _DATE)),
            "ended_local": iso_date(parse_date(run.ended, _DATE)),
        }
        if name not in run.doubts:
            row |= {
                "ops_per_s": rate.mean,
                "min_ops_per_s": rate.minimum,
                "max_ops_per_s": rate.maximum,
                "stddev_ops_per_s": rate.stddev,
                "runtime_s": run.times_s.get(name),
            }
        yield {column: value for column, value in row.items() if value is not None}


def _of_rows(run: Run, where: str, places: Mapping[str, int], alone: bool) -> Iterator[ReadingProblem]:
    """What is said of a run's rows. `places`: name -> index of its row; `alone`: there is no other run."""
    for name, doubt in run.doubts.items():
        yield ReadingProblem("invalid", f"{where}{doubt}", places.get(name))
    for severity, text in run.remarks:
        if severity == "note" or alone:
            yield ReadingProblem(severity, f"{where}{text}")
        else:
            yield from (ReadingProblem(severity, f"{where}{text}", index) for index in places.values())
    timed_s = 0.0
    for name, index in places.items():
        for severity, text in _of_row(run, name):
            yield ReadingProblem(severity, f"{where}{name}: {text}", index)
        rate = 0 if name in run.doubts else run.rates[name].mean
        if rate and run.items and run.tasks:
            runtime_s = run.items * run.tasks / rate
            timed_s += runtime_s * (run.iterations or 1)
            if short := too_short(runtime_s, CLOCK_S):
                why = f"was over after {runtime_s * 1000:.3g} ms, which is mostly barriers and ticks of the clock"
                yield ReadingProblem(short, f"{where}{name} {why}", index)
    dates = (parse_date(text, _DATE) for text in (run.began, run.ended))
    wall_s = seconds_between(*dates)
    if wall_s is not None and (why := clock_too_fast(timed_s, wall_s, _DATE_S)):
        yield from (ReadingProblem("suspect", f"{where}{why}", index) for index in places.values())


def _of_row(run: Run, name: str) -> Iterator[tuple[ProblemSeverity, str]]:
    """What its figures and the other lines say against a row."""
    rate = run.rates[name]
    many, scatter = run.iterations or 1, rate.stddev / rate.mean if rate.mean else 0.0
    if many > 1 and scatter > _SCATTER:
        yield "suspect", f"a mean of {many} iterations that scatter by {100 * scatter:.0f} % (standard deviation)"
    if name in ("File stat", "Directory stat", "File read") and not run.shift:
        what = "each rank may find in its node's cache what it created itself"
        if run.nodes == 1:
            yield "note", f"on one node, {what}"
        elif run.nodes and not (run.options and run.options.number("N")):
            yield "suspect", f"without -N {what}"
