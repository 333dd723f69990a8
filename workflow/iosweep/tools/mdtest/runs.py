"""mdtest's standard output -> its runs, judged.

mdtest has no JSON and no CSV of results; its table is all there is:

    SUMMARY rate (in ops/sec): (of 3 iterations)
       Operation                     Max            Min           Mean        Std Dev
       ---------                     ---            ---           ----        -------
       File creation                2938.216       1578.693       2232.146        681.287

Rates are operations per second. What Max, Min, Mean and Std Dev are over differs (summarize_results in mdtest.c): from
4.0.0 each iteration is all items over the slowest rank's time, and the statistics are over the iterations. Before,
every rank divides all items by its own time, and the statistics are over ranks and iterations together, so that one
iteration has a Max and a Min too.

Exit codes say little (0 with an all-zero table, 0 with thousands of failed operations), so the text has to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iosweep.tools.mdtest.command_line import Options, asked, parse, release, split
from iosweep.tools.mdtest.options import ROWS
from iosweep.tools.messages import FRAME, NOT_REMOVED, WORDS, Heard, about_the_end, marked, quote, said
from iosweep.tools.reading import ProblemSeverity

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
    options = parse(words, version)
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
