"""mdtest's standard output -> figures, evidence and problems. Pure, and never raises.

mdtest has no JSON and no CSV of results; its table is all there is:

    SUMMARY rate (in ops/sec): (of 3 iterations)
       Operation                     Max            Min           Mean        Std Dev
       ---------                     ---            ---           ----        -------
       File creation                2938.216       1578.693       2232.146        681.287

Rates are operations per second. From 4.0.0 on each iteration is all items over the slowest rank's time, and the
statistics are over the iterations. Before, every rank divides all items by its own time, and the statistics are over
ranks and iterations together (summarize_results in mdtest.c): one iteration has a Max and a Min, too.

Exit codes say little (0 with an all-zero table, 0 with thousands of failed operations), so the text has to tell.
`parse` is for campaigns, which ask for one run of one iteration; `read` is for a file of others (`iosweep ingest`).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from iosweep.histograms import NodeRate
from iosweep.tools import Echo, Evidence, Parsed, Phase, Step, Streams, contradictions
from iosweep.tools.mdtest import command
from iosweep.tools.mdtest.command import RANKS
from iosweep.tools.messages import NOT_REMOVED, Messages, quote, rank_column, rank_total
from iosweep.tools.reading import Cell, ProblemSeverity, Reading, ReadingProblem, local_date, too_short

#: MPI's clock counts in far less; of barriers, a phase of a millisecond is mostly made.
CLOCK_S = 0.00005
#: mdtest sleeps before it starts (4.x).
_SLEEP_S = 1.0
#: Before 4.0, with one iteration: the ranks' own rates may differ by this factor before their mean is no rate of the
#: run.
_RANKS_AGREE = 1.1
#: The iterations of a mean may scatter by this share of it, as their standard deviation.
_SCATTER = 0.5
#: By how much the rate of a run may differ from that in the file of its ranks.
_SLACK = 0.01
#: Phase -> how many shifts of ranks lie between it and the creation (mdtest.c: names come from the rank).
_SHIFTS = {"dir_stat": 1, "stat": 1, "read": 2}
#: Phase -> the row of mdtest's table.
ROWS = {
    "dir_create": "Directory creation",
    "dir_stat": "Directory stat",
    "dir_rename": "Directory rename",
    "dir_delete": "Directory removal",
    "create": "File creation",
    "stat": "File stat",
    "read": "File read",
    "delete": "File removal",
}
_PHASES = {row: phase for phase, row in ROWS.items()}
#: How mdtest prints a date.
_DATE = "%m/%d/%Y %H:%M:%S"
#: A table without any line above it.
ALONE = (
    "the table comes without the lines above it: which version ran what on how many tasks is not known, and before 4.0"
    " a mean is over the rates of single ranks"
)

# -- the command line --------------------------------------------------------------------------------------------------

_FLAGS = set("CTErUDFgkLPRSctuvXyYZ")
_VALUES = set("abdefGiIlnNpsVwWxz")
_LONG_VALUES = {
    "random-seed", "dataPacketType", "run-cmd-before-phase", "run-cmd-after-phase", "saveRankPerformanceDetails",
    "savePerOpDataCSV", "allocateBufferOnGPU", "GPUid",
}  # fmt: skip
#: The line is printed through a buffer of 1024 bytes (VerboseMessage): a longer line is cut silently.
_COMMAND_LIMIT = 1000


class Options(dict[str, str]):
    """A command line of mdtest: letter of an option -> its value, "" of a flag."""

    def number(self, letter: str) -> int | None:
        """An option's value as string_to_bytes reads it (64, 4k, 1m), or None where it is not given."""
        match = re.fullmatch(r"(\d{1,18})([kmgt]?)", self.get(letter, ""), re.IGNORECASE)
        return int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ") if match else None

    @property
    def named(self) -> dict[str, str]:
        """Option -> its value, "" of a flag; without the directory."""
        return {f"-{letter}": value for letter, value in self.items() if letter != "d"}


def parse_command(words: Sequence[str] | None, version: tuple[int, ...]) -> Options | None:
    """The options as mdtest's option.c reads the words, or None where that is not certain.

    3.3 reads only the first letter of `-Fu`; from 4.0 it reads every letter, also those of a value that is written
    against its option (`-d/tmp` sets -t). `-B` takes a value in some versions.
    """
    if words is None:
        return None
    options = Options()
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
            options[name[1]] = value
        elif set(name[1:]) <= _FLAGS and not equals and (len(set(name[1:])) == 1 or version >= (4,)):
            options |= dict.fromkeys(name[1:], "")
        else:
            return None
    return options


# -- text -> runs ------------------------------------------------------------------------------------------------------

_STARTED = re.compile(r"-- started at (.*) --")
_FINISHED = re.compile(r"-- finished at (.*) --")
_BANNER = re.compile(r"mdtest-(\S*) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node(?:s|\(s\))")
_COMMAND = "Command line used:"
_SHIFT = re.compile(r"Shifting ranks by (\d{1,9}) for each phase")
_COUNT = re.compile(r"(\d{1,9}) tasks, (\d{1,18}) (files/directories|files|directories|file)")
# the unit of "time" is ms/op or ops/sec in the title and seconds in the rows
_TITLE = re.compile(r"SUMMARY(?: (rate|time))?(?: \(in [^)]*\))?: \(of (\d{1,9}) iterations\)")
_NAME = rf"({'|'.join(ROWS.values())})"
# time in proportion to the line: no two parts beside each other match the same blanks
_ROW = re.compile(rf"{_NAME}(?:\s*:)?((?:\s+\d{{1,300}}\.\d{{3}}){{4}}(?:(?:\s+\d{{1,300}}\.\d{{3}}){{3}})?)")
_TORN = re.compile(rf"{_NAME}(?:\s*:)?\s+[\d.](?!.*\bsec\b)")
#: The last row of every table. Rates of trees are of a few directories, and are not compared.
_LAST = "Tree removal"


class Rate(NamedTuple):
    """A row of the table, in operations per second, in the order of its columns."""

    maximum: float
    minimum: float
    mean: float
    stddev: float


@dataclass
class Table:
    """A table of rates. count: tasks, items and what they are, of the line before it; times_s: of one iteration, from
    the table of times that may follow (-P); closed: its last row is there."""

    iterations: int
    count: tuple[int, int, str] | None
    rates: dict[str, Rate] = field(default_factory=dict)
    times_s: dict[str, float] = field(default_factory=dict)
    torn: list[str] = field(default_factory=list)
    closed: bool = False
    times_follow: bool = False

    def add(self, line: str) -> bool:
        """Whether a line is one of its rows."""
        self.closed |= line.startswith(_LAST)
        if row := _ROW.fullmatch(line):
            rate = Rate(*[float(figure) for figure in row[2].split()][-4:])  # --showRankStatistics: per iteration
            if self.times_follow:
                self.times_s |= {row[1]: rate.mean} if self.iterations == 1 else {}
            else:
                self.rates.setdefault(row[1], rate)
        elif "(stonewall)" not in line and _TORN.match(line):
            self.torn.append(f"a row of the table is damaged: {quote(line)}")
        else:
            return False
        return True


@dataclass
class Launch:
    """The lines from one start of mdtest to the next. banner: version, tasks and nodes; began, ended: dates as
    printed; shifts: by how many ranks phases are shifted (-N)."""

    messages: Messages = field(default_factory=Messages)
    shifts: set[int] = field(default_factory=set)
    began: str | None = None
    ended: str | None = None
    banner: tuple[str, int, int] | None = None
    command: str | None = None
    count: tuple[int, int, str] | None = None  # not yet followed by its table
    tables: list[Table] = field(default_factory=list)

    @property
    def headed(self) -> bool:
        return bool(self.began or self.banner or self.command)

    @property
    def version(self) -> str | None:
        return (self.banner[0] if self.banner else "") or None

    @property
    def release(self) -> tuple[int, ...]:
        """(4, 0, 0) of "4.0.0rc1"; () where unknown, which is less than every version."""
        match = re.match(r"\d{1,6}(?:\.\d{1,6})*", self.version or "")
        return tuple(int(part) for part in match[0].split(".")) if match else ()

    @property
    def words(self) -> tuple[str, ...] | None:
        """The command, program first. mdtest quotes its words without escaping anything."""
        text = (self.command or "").partition(":")[2].strip()
        program, quoted, rest = text.partition(" '")
        if len(self.command or "") >= _COMMAND_LIMIT or (quoted and not rest.endswith("'")):
            return None
        return (program, *rest[:-1].split("' '")) if quoted else tuple(text.split()) or None

    @property
    def options(self) -> Options | None:
        return parse_command(self.words, self.release)

    @property
    def shift(self) -> int | None:
        """Distance in ranks from the rank that makes a file to the next rank that works on it (-N)."""
        return min(self.shifts) if len(self.shifts) == 1 else None

    @property
    def touched(self) -> bool:
        return self.headed or bool(self.ended or self.count or self.tables)

    def begins_before(self, line: str) -> bool:
        """Whether a line is of another launch: mdtest prints its start, banner and command once."""
        over = bool(self.tables or self.ended)
        return bool(
            (self.touched and _STARTED.fullmatch(line))
            or ((over or self.banner) and _BANNER.fullmatch(line))
            or ((over or self.command) and line.startswith(_COMMAND))
            or (self.ended and (_COUNT.fullmatch(line) or _TITLE.fullmatch(line)))
        )

    def take(self, line: str) -> None:
        if match := _STARTED.fullmatch(line):
            self.began = match[1]
        elif match := _FINISHED.fullmatch(line):
            self.ended = match[1]
        elif match := _BANNER.fullmatch(line):
            self.banner = match[1], int(match[2]), int(match[3])
        elif line.startswith(_COMMAND):
            self.command = line
        elif match := _SHIFT.search(line):
            self.shifts.add(int(match[1]))
        elif match := _COUNT.fullmatch(line):
            self.count = int(match[1]), int(match[2]), match[3]
        elif match := _TITLE.fullmatch(line):
            if match[1] != "time":
                self.tables.append(Table(int(match[2]), self.count))
                self.count = None
            elif self.tables:
                self.tables[-1].times_follow = True
        elif not (self.tables and self.tables[-1].add(line)):
            self.messages.take(line)


@dataclass(frozen=True)
class Run:
    """A table of rates of a launch with the facts and problems that the output has about it.

    tasks, nodes, items (files, or directories, of each task): None where it does not tell; problems: why no rate can be
    trusted; doubts: row -> why it cannot be; remarks: suspect (of all rows) or a note.
    """

    launch: Launch
    table: Table
    tasks: int | None
    nodes: int | None
    items: int | None
    problems: Sequence[str]
    doubts: Mapping[str, str]
    remarks: Sequence[tuple[ProblemSeverity, str]]


def launches(text: str) -> list[Launch]:
    """The launches in an output; without any, a single one that is not touched."""
    found = [Launch()]
    for line in filter(None, map(str.strip, text.split("\n"))):
        if found[-1].begins_before(line):
            found.append(Launch())
        found[-1].take(line)
    return found


def runs(launch: Launch) -> Iterator[Run]:
    """The runs of a launch: one for each table of rates, or one without any."""
    options, release = launch.options, launch.release
    said = [*launch.messages]
    left = [str(one) for one in said if one.meaning == NOT_REMOVED]
    wrong = [str(one) for one in said if one.severity == "invalid" and one.meaning != NOT_REMOVED]
    remarks: list[tuple[ProblemSeverity, str]] = [("suspect", text) for text in left]
    remarks += [(one.severity, str(one)) for one in said if one.severity != "invalid"]
    for table in launch.tables or [Table(0, None)]:
        _, tasks, nodes = launch.banner or ("", None, None)
        items = None
        if table.count:
            if tasks is not None and table.count[0] != tasks and nodes != 1:
                nodes = None  # -f, -l: the first ranks only; on how many nodes is not told
            tasks, total, what = table.count
            # mdtest does not print how -W and -x change -n
            open_ended = options is None or {"W", "x"} & options.keys()
            if what != "file" and tasks and not total % tasks and not open_ended:
                items = total // tasks
        problems = [*_problems(launch, table), *wrong]
        if () < release < (3, 3) and " '" not in (launch.command or ""):  # what led to 3.3, as IO500 had it, quotes so
            problems = [f"not read: mdtest {launch.version} (3.3 and newer are; 3.2 prints 1.9.3)"]
        doubts: dict[str, str] = {}
        if release < (4,) and table.iterations == 1:  # the mean is over the ranks' own rates
            doubts = {
                name: f"{name}: the ranks' own rates differ by more than {_RANKS_AGREE - 1:.0%} (from"
                f" {rate.minimum:.3f} to {rate.maximum:.3f} ops/s), so that their mean, which this version prints, is"
                " no rate of the run"
                for name, rate in table.rates.items()
                if rate.maximum > _RANKS_AGREE * rate.minimum
            }
        if left and "Directory removal" in table.rates:
            doubts["Directory removal"] = f"Directory removal: {left[0]}"
        alone: list[tuple[ProblemSeverity, str]] = [] if launch.headed or table.count else [("suspect", ALONE)]
        yield Run(launch, table, tasks, nodes, items, tuple(dict.fromkeys(problems)), doubts, [*remarks, *alone])


def _problems(launch: Launch, table: Table) -> Iterator[str]:
    """Problems of a launch and its table of rates, without the figures of single rows."""
    if launch.headed and not launch.ended:
        yield "the output is cut: mdtest's closing line '-- finished at' is missing"
    if launch.ended and not launch.headed:
        yield "the output is cut: its beginning is missing"
    if not launch.tables:
        yield "there is no table of rates (SUMMARY)"
        return
    options = launch.options
    yield from table.torn
    if not table.closed:
        yield "the table is cut: its last row is missing"
    if not any(rate.maximum for rate in table.rates.values()):
        without = options is not None and not {"n", "I"} & options.keys()
        yield "nothing was measured: every rate is 0" + (" (mdtest was run without -n)" if without else "")
    if options and options.number("W") and any(name.startswith("Directory") for name in table.rates):
        yield "with -W mdtest counts directories that it did not create"  # directory_test keeps the number of -n


# -- a campaign's own runs ---------------------------------------------------------------------------------------------


@lru_cache(1)  # each phase of a command reads the same output
def _runs(stdout: bytes) -> list[Run]:
    found = launches(stdout.decode("utf-8", "replace"))
    return [run for launch in found if launch.touched for run in runs(launch)]


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one iteration.

    `runtime_s` is operations / rate: mdtest prints rates alone.
    """
    stdout = streams["stdout"]
    found = _runs(stdout)
    if len(found) != 1:
        many = f"{len(found)} runs in mdtest's output: its ranks did not find each other"
        why = many if found else "no run of mdtest" if stdout.strip() else "mdtest printed nothing"
        return Parsed(problems=[why])
    (run,), row = found, ROWS[phase.name]
    launch, table, ops = run.launch, run.table, step.tasks * step.number("files_per_thread")
    ranks = rank_column(streams.get("ranks", b""), f"rate-{row}", step.tasks)
    # of all phases of the command; 0 where a rate is missing
    rates = [table.rates[of].mean if (of := ROWS[each.name]) in table.rates else 0.0 for each in step.phases]
    asked, told, echo = parse_command(command.argv(step, "", 0), launch.release), launch.options, None
    if asked is not None and told is not None:
        echo = Echo(contradictions("mdtest", asked.named, told.named), frozenset(), len(asked.named), told.get("d"))
    evidence = Evidence(
        errors=list(run.problems),
        doubts=[text for severity, text in run.remarks if severity == "suspect"],
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=True,
        shift=None if launch.shift is None else launch.shift * _SHIFTS.get(phase.name, 0),
        clock_s=CLOCK_S,
        echo=echo,
        timed_s=sum(ops / rate for rate in rates) if all(rates) else None,
        untimed_s=_SLEEP_S,
        node_rates=[NodeRate("", rank, None, rate) for rank, rate in enumerate(ranks)],
    )
    problem = run.doubts.get(row, "")
    rate = table.rates[row].mean if row in table.rates else 0.0
    if row not in table.rates:
        problem = f"mdtest's table has no row `{row}`"
    elif table.iterations != 1:
        problem = f"mdtest ran {table.iterations} iterations, not one"
    elif not problem and rate <= 0:
        problem = f"mdtest's rate of `{row}` is {rate:g}"
    elif ranks:
        most = sum(ranks) * (1 + _SLACK)  # a run is over when its slowest rank is
        took_s = rank_total(streams["ranks"], f"time-{row}")  # some rows of 4.0.0 have the rate of a single rank
        if rate > most or (took_s and abs(ops - rate * took_s) > _SLACK * ops):
            problem = f"mdtest's table has {rate:,.0f} ops/s, and the times of its ranks ({RANKS}) give another rate"
    if problem:
        return Parsed(launch.version, {}, evidence, [problem])
    figures = {"ops": ops, "ops_per_s": rate, "runtime_s": ops / rate}
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(launch.version, figures, evidence, [], row)


# -- files of others ---------------------------------------------------------------------------------------------------


def read(data: bytes) -> Reading:
    """The rows of the runs in a file. A run with a problem gives no row, and one whose doubts concern single operations
    gives these rows without figures. The column `command` tells the runs of a log apart; runs with the same or an
    unknown command have their number in the log as `repetition`."""
    every = launches(data.decode("utf-8", "replace"))
    found = [run for launch in every if launch.touched for run in runs(launch)]
    if not found:
        texts = ("there is no table of rates (SUMMARY)", *map(str, every[0].messages))
        return Reading([], [ReadingProblem("invalid", text) for text in texts])
    numbers: Counter[object] = Counter()
    readings: list[tuple[list[dict[str, Cell]], list[ReadingProblem]]] = []
    for run in found:
        same = run.launch.command, run.tasks
        numbers[same] += 1
        problems = [ReadingProblem("invalid", problem) for problem in run.problems]
        rows = [] if problems else list(_rows(run, numbers[same] if len(found) > 1 else None))
        readings.append((rows, problems or list(_of_rows(run, [str(row["label"]) for row in rows]))))
    return Reading.of_runs(readings)


def _rows(run: Run, repetition: int | None) -> Iterator[dict[str, Cell]]:
    """The rows of a run without problems; what is not told is left out, and figures that are in doubt."""
    launch, options, words = run.launch, run.launch.options, run.launch.words
    per_node = run.tasks // run.nodes if run.tasks and run.nodes and not run.tasks % run.nodes else None
    size = options.number("w") if options is not None else None
    if options is not None and size is None and ("C" in options or not options.keys() & set("TErU")):
        size = 0  # it makes the files itself
    deadline = options.number("W") if options else None  # when ranks stop to create files
    for name, rate in run.table.rates.items():
        if rate.maximum == 0 and name not in run.doubts:
            continue
        row: dict[str, Cell | None] = {
            "tool": "mdtest",
            "tool_version": launch.version,
            "label": name,
            "phase": _PHASES[name],
            "kind": "metadata",
            "metric": "ops_per_s",
            "repetition": repetition,
            "command": shlex.join(words) if words else None,
            "tasks": run.tasks,
            "nodes": run.nodes,
            "threads_per_node": per_node,
            "files_per_thread": run.items,
            "unique_directory": None if options is None else "u" in options,
            "file_size_bytes": size if name.startswith("File") else None,
            "phase_time_s": float(deadline) if deadline else None,
            "iterations": run.table.iterations,
            "began_local": local_date(launch.began, _DATE),
            "ended_local": local_date(launch.ended, _DATE),
        }
        if name not in run.doubts:
            row |= {
                "ops_per_s": rate.mean,
                "min_ops_per_s": rate.minimum,
                "max_ops_per_s": rate.maximum,
                "stddev_ops_per_s": rate.stddev,
                "runtime_s": run.table.times_s.get(name),
            }
        yield {column: value for column, value in row.items() if value is not None}


def _of_rows(run: Run, names: Sequence[str]) -> Iterator[ReadingProblem]:
    """Problems of a run's rows, by their names."""
    for name, doubt in run.doubts.items():
        yield ReadingProblem("invalid", doubt, names.index(name) if name in names else None)
    for severity, text in run.remarks:
        yield ReadingProblem(severity, text)
    for at, name in enumerate(names):
        rate, many = run.table.rates[name], run.table.iterations
        scatter = rate.stddev / rate.mean if rate.mean else 0.0
        if many > 1 and scatter > _SCATTER:
            why = f"{name}: a mean of {many} iterations that scatter by {100 * scatter:.0f} % (standard deviation)"
            yield ReadingProblem("suspect", why, at)
        if name in ("File stat", "Directory stat", "File read") and not run.launch.shift:
            what = "each rank may find in its node's cache what it created itself"
            if run.nodes == 1:
                yield ReadingProblem("note", f"{name}: on one node, {what}", at)
            elif run.nodes and not (run.launch.options and run.launch.options.number("N")):
                yield ReadingProblem("suspect", f"{name}: without -N {what}", at)
        if rate.mean and name not in run.doubts and run.items and run.tasks:
            yield from too_short(run.items * run.tasks / rate.mean, CLOCK_S, name, at)
