"""What one run of IOR says, whatever it was written as: the structure that the layouts fill and the checks judge."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from iosweep.tools.logs import WORDS, Heard, about_the_end, marked
from iosweep.tools.reading import ProblemSeverity

#: how a problem ends that says so; then no run of the same file is trusted
MIXED = "lines of several runs are mixed"
OPERATIONS = ("write", "read")  # in IOR's own order within an iteration

Layout = Literal["table", "csv", "json"]
#: Resolution at best of IOR's times in seconds: barriers are part of them, however many digits are printed.
CLOCK_S = 0.0001
#: of whole numbers in rows: 64 bits
LARGEST = (1 << 63) - 1
_LARGEST_FIGURE = 1e18  # beyond any figure in any unit; products of two stay finite


class Printed(float):
    """A figure as it was printed. `error` is half a unit of its last digit, in the figure's own unit."""

    error: float

    @classmethod
    def of(cls, text: str, scale: float = 1.0) -> Printed:
        """The number in `text` (plain decimals, as C's %f writes) times `scale`. ValueError where it is none."""
        value = float(text)
        if not abs(value) < _LARGEST_FIGURE:  # NaN is not either
            raise ValueError(f"{text[:40]} is not a figure")
        printed = cls(value * scale)
        printed.error = 0.5 * 10.0 ** -len(text.partition(".")[2]) * scale
        return printed

    def times(self, scale: float) -> Printed:
        scaled = Printed(self * scale)
        scaled.error = self.error * scale
        return scaled

    def near(self, other: float) -> bool:
        """Whether both may be the same figure, each rounded on its own."""
        error = self.error + (other.error if isinstance(other, Printed) else 0.0)
        return abs(self - other) <= error + 1e-9 * abs(self)


def same_in_64_bits(one: int, other: int) -> bool:
    """Whether two sizes are the same to IOR, whose products overflow where exabytes are asked for."""
    return (one - other) % (1 << 64) == 0


@dataclass(frozen=True)
class Moved:
    """IOR's warning that it moved other than the file's expected size (bytes, all ranks together)."""

    expected: int
    stat: int
    moved: int
    stonewalled: bool = False  # IOR says that a time limit (-D) is why


@dataclass(frozen=True)
class Result:
    """One row: an operation of one iteration. Times in seconds. IOR's latency is left out: it ignores the segments."""

    access: str  # write or read
    iteration: int  # from 0
    bandwidth_bytes_per_s: Printed  # bytes / total_s
    ops_per_s: Printed | None  # transfers / io_s; not printed by early 3.3
    block_bytes: Printed
    transfer_bytes: Printed
    open_s: Printed
    io_s: Printed
    close_s: Printed
    total_s: Printed
    tasks: int | None = None
    moved: Moved | None = None  # the warning that belongs to this row
    bytes_moved: int | None = None  # exact, where it is told; set by the checks


@dataclass(frozen=True)
class Remark:
    """A finding that leaves the run's other rows as they are. `row`: access and iteration; None: the run as a whole.

    Severities are those of ReadingProblem. An invalid one of a row takes its figures; one without a row names what is
    missing.
    """

    severity: ProblemSeverity
    text: str
    row: tuple[str, int] | None = None


@dataclass
class Printout:
    """What is printed of one run (one test of it, where a script has several): filled while its lines are read."""

    layout: Layout = "table"
    version: str | None = None
    command: str | None = None
    options: dict[str, str] = field(default_factory=dict)  # as IOR prints them under `Options`
    parameters: dict[str, str] = field(default_factory=dict)  # JSON only
    results: list[Result] = field(default_factory=list)
    most: dict[str, Printed] = field(default_factory=dict)  # access -> `Max Write`, `Max Read`
    moved: list[Moved] = field(default_factory=list)  # IOR's warnings on the bytes that it moved
    heard: Heard = field(default_factory=Heard)  # lines beside the results
    off: dict[str, str] = field(default_factory=dict)  # what IOR does without, as it says: `fsync`, `o_direct` -> line
    problems: list[str] = field(default_factory=list)  # why none of the figures can be trusted
    over: bool = False  # IOR said that it finished

    def option(self, name: str, value: str) -> None:
        """Take what the run says of itself; twice and otherwise is a problem."""
        if self.options.setdefault(name, value) != value:
            self.problems.append(f"says both {name} {self.options[name][:80]} and {value[:80]}: {MIXED}")


@dataclass(frozen=True)
class Run:
    """A run with what its output tells of it; None where it does not. `problems`: why none of its figures can be
    trusted."""

    printout: Printout
    results: tuple[Result, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    log_seen: bool = True  # IOR's messages were among what was read
    api: str | None = None
    tasks: int | None = None
    nodes: int | None = None
    clients_per_node: int | None = None
    unequal: bool = False  # not all nodes have the same number of ranks
    shifts: bool = False  # each rank reads what one of the next node wrote (-C)
    repetitions: int | None = None
    segments: int | None = None
    block_bytes: int | None = None
    transfer_bytes: int | None = None
    file_per_process: bool | None = None
    collective: bool | None = None
    random: bool | None = None
    o_direct: bool | None = None
    fsync: bool | None = None
    stonewall_s: int | None = None
    time_bounded: bool = False  # a time limit may end an operation, or a minimum time repeat it
    status_file: bool = False  # reads are bounded by what a write before them recorded
    most_minutes: int = 0  # no iteration begins later (-T)
    within_file: bool = False  # random offsets are drawn within the size that the files have (-z -z)
    operations: tuple[str, ...] | None = None  # that were asked for


_WITH_VALUE = frozenset("AabdDfGijJlMNoOQstTUX")
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)(?:i?b|ytes)?", re.IGNORECASE)


def size(text: str | None) -> int | None:
    """Bytes of `16m`, `16 MiB` or `262144 bytes`; None where the text is rounded (`1.50 MiB`) or no size."""
    match = _SIZE.fullmatch(text.strip()) if text else None
    return min(_whole(match[1]) * _SIZES[match[2].lower()], LARGEST + 1) if match else None


def number(text: str | None) -> int | None:
    """The whole number that is the text, else None."""
    match = re.fullmatch(r"(-?)(\d+)", text.strip()) if text else None
    return _whole(match[2]) * (-1 if match[1] else 1) if match else None


def _whole(digits: str) -> int:
    """The number, or `LARGEST + 1` where it is larger: that is none of a run's, and is judged so."""
    digits = digits.lstrip("0")
    return min(int(digits or "0"), LARGEST + 1) if len(digits) < 20 else LARGEST + 1


@dataclass(frozen=True)
class Command:
    """Options of a command line."""

    flags: frozenset[str] = frozenset()  # letters, and `zz` for a second z
    values: dict[str, str] = field(default_factory=dict)  # letters, and lower-case names of -O and --name=value

    def on(self, flag: str, directive: str = "") -> bool:
        """Whether a flag is set, by its letter or by `-O directive=1`."""
        return flag in self.flags or self.values.get(directive.lower(), "0") not in ("0", "")

    def operations(self) -> tuple[str, ...] | None:
        """What is measured; None where the command line does not tell. Without any of -w -r -W -R: both."""
        write, read = self.on("w", "writeFile"), self.on("r", "readFile")
        check = self.on("R", "checkRead")
        read = read or check
        if not write and not read:
            return None if check or self.on("W", "checkWrite") else ("write", "read")
        return tuple(name for name, wanted in (("write", write), ("read", read)) if wanted)


@lru_cache(maxsize=8)  # each test of a script has the same
def parse_command(line: str | None) -> Command | None:
    """The options in a command line as IOR prints it; None without one, and where a script (-f) may say otherwise.
    Unknown words are skipped."""
    if not line:
        return None
    flags: set[str] = set()
    values: dict[str, str] = {}
    words = deque(line.split()[1:])
    while words:
        word = words.popleft()
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            values[name.lower()] = value or "1"
        elif word.startswith("-") and len(word) > 1:
            name, _, value = word[1:].partition("=")
            if name[0] in _WITH_VALUE:
                _value(name[0], name[1:] or value or (words.popleft() if words else ""), values)
            elif value != "0":
                if name.count("z") + ("z" in flags) > 1:  # -z -z draws offsets within the size that the files have
                    flags.add("zz")
                flags |= set(name)
    return None if "f" in values else Command(frozenset(flags), values)


def _value(letter: str, value: str, values: dict[str, str]) -> None:
    if letter != "O":
        values[letter] = value
        return
    for pair in value.split(","):
        key, _, given = pair.partition("=")
        values[key.lower()] = given


MIB = float(1 << 20)
_BANNER = re.compile(r"IOR-(\S{0,80}): MPI Coordinated Test of Parallel I/O")
_BANNERS = "MPI Coordinated Test"
_OPTION = re.compile(
    r"(Command line|Began|Machine|StartTime"
    r"|TestID|Participating tasks|api|access|type|segments|ordering in a file|nodes|tasks|clients per node"
    r"|repetitions|xfersize|blocksize|aggregate filesize|dryRun|verbose|stonewallingTime|stoneWallingWearOut)\s*: (.*)"
)
_MAX = re.compile(r"Max (Write|Read):\s+(\d+\.\d+) MiB/sec \(\d+\.\d+ MB/sec\)")
_WARNING = re.compile(
    r"WARNING: (Expected|Stat\(\) of|Using actual) aggregate (?:file size|bytes moved)\s*= (-?\d+)\.?"
)
_STONEWALLED = re.compile(r"WARNING: maybe caused by deadlineForStonewalling\.?", re.IGNORECASE)
#: How lines begin that may be IOR's own. All others are looked at only where they have a word of WORDS.
_MAY_BE = re.compile(
    r"access|api|aggregate|Began|blocksize|clients|Command line|dryRun|Finished|Machine|Max |nodes|Operation|ordering"
    r"|Participating|read|remove|repetitions|segments|StartTime|stone[Ww]alling|tasks|TestID|type|verbose|write"
    r"|Writing output to|xfersize|WARNING: (?:Expected|Stat\(\)|Using actual|[Mm]aybe caused)"
)
#: IOR does without the fsync that it was asked for.
_FSYNC_OFF = re.compile(r"fsync\(\) (?:only available in|not supported in) .{1,80}Using value of 0\b")
_SIZES_AND_TIMES = ("block(KiB)", "xfer(KiB)", "open(s)", "wr/rd(s)", "close(s)", "total(s)")
_CSV = ("access", "bw(MiB/s)", "IOPS", "Latency", *_SIZES_AND_TIMES, "numTasks", "iter")
#: Columns of the table in every version; IOPS and latency came during 3.3.
_TABLE = ("access", "bw(MiB/s)", *_SIZES_AND_TIMES, "iter")
#: That of the summary of all tests, which says nothing that the rows do not.
_SUMMARY = ("Operation",)


class Reader:
    """Reads the lines of one file in order into `runs`. `beside`: what is said before the first run, if there is none;
    `is_log`: whether IOR's own messages are among the lines."""

    def __init__(self) -> None:
        self.runs: list[Printout] = []
        self.beside = Printout()  # lines between two runs are of the second: it becomes that
        self.is_log = False
        self._columns: Sequence[str] = ()
        self._warned: dict[str, int] = {}

    def document(self, run: Printout) -> None:
        """A run of a JSON document between the texts."""
        run.heard.add(self.beside.heard)
        run.moved[:0], run.off = self.beside.moved, {**self.beside.off, **run.off}
        self.runs.append(run)
        self.beside, self._columns = Printout(), ()

    def text(self, text: str) -> None:
        """Text between documents, line by line."""
        may_be, words = _MAY_BE.match, (_BANNERS.lower(), *WORDS)
        for line, is_marked in marked(text, words):
            stripped = line.strip()
            own = may_be(stripped) or (is_marked and _BANNERS in stripped)
            if not (own and self._line(stripped)) and is_marked:
                self._hear(stripped)

    def end(self) -> None:
        if self.runs:  # nothing follows
            last, rest = self.runs[-1], self.beside
            last.heard.add(rest.heard)
            last.moved += rest.moved
            last.off |= rest.off

    @property
    def _current(self) -> Printout:
        """The run that lines belong to: the last one until it is over, then the next."""
        return self.runs[-1] if self.runs and not self.runs[-1].over else self.beside

    def _open(self, layout: Layout, version: str | None = None) -> Printout:
        if self.runs:
            self.runs[-1].over = True
        run, self.beside = self.beside, Printout()
        run.layout, run.version = layout, version
        self.runs.append(run)
        self._columns = ()
        return run

    def _table_run(self) -> Printout:
        """The run whose table is being read; one without its beginning where there is none."""
        run = self._current
        return run if run is not self.beside and run.layout == "table" else self._open("table")

    def _hear(self, line: str) -> None:
        ended = self.runs and self.runs[-1].over and about_the_end(line)
        run = self.runs[-1] if ended else self._current
        run.heard.take(line)
        if _FSYNC_OFF.search(line):
            run.off.setdefault("fsync", line)
        if "WARNING: cannot use O_DIRECT" in line:
            run.off.setdefault("o_direct", line)

    def _line(self, text: str) -> bool:
        """Whether a line is part of a run or of a warning on its bytes."""
        words = text.split()
        running = self._current is not self.beside
        if banner := _BANNER.search(text):
            self._open("table", banner[1] or None)
            self.is_log = True
        elif (option := _OPTION.fullmatch(text)) and (running or text.startswith(f"{option[1]:20}:")):
            self._option(option[1], option[2].strip())
        elif words[0] == "access" and "bw(MiB/s)" in words:
            if lost := sorted(set(_TABLE) - set(words)):
                self._table_run().problems.append(f"the table's header lacks {', '.join(lost)}")
            self._columns = words
        elif text == ",".join(_CSV):
            self._open("csv")
            self._columns = _CSV
        elif match := _MAX.fullmatch(text):
            self._table_run().most[match[1].lower()] = Printed.of(match[2], MIB)
        elif text.startswith("Writing output to"):
            self.is_log = True
        elif words[0] == "Operation" and "Max(MiB)" in words:
            self._columns = _SUMMARY
        elif words[0] in OPERATIONS and len(words) > 4 and self._columns != _CSV:
            return self._columns == _SUMMARY or self._row(words)
        elif re.match(r"(write|read),[-\d.]+,", text):
            return self._row(text.split(","))
        elif words[0] in ("Finished", "remove") and running:
            if words[0] == "Finished":
                self._current.option("Finished", text.partition(":")[2].strip())
                self._current.over = True
        else:
            return self._warning(text)
        return True

    def _option(self, name: str, value: str) -> None:
        run = self._table_run()
        if name == "TestID" and "TestID" in run.options:  # the next test of a script
            following = self._open("table", run.version)
            following.options |= {key: run.options[key] for key in ("Command line", "Machine") if key in run.options}
            run = following
        run.option("tasks" if name == "Participating tasks" else name, value)

    def _row(self, cells: Sequence[str]) -> bool:
        if not self._columns:
            if len(cells) < 9 or not re.match(r"-?\d", cells[1]):
                return False
            self._table_run().problems.append(f"a result without its header: {' '.join(cells)[:80]}: {MIXED}")
            return True
        run = self._current
        try:
            if len(cells) != len(self._columns):
                raise ValueError("columns")
            run.results.append(_row_result(dict(zip(self._columns, cells, strict=True)), csv=self._columns == _CSV))
        except (ValueError, KeyError):
            run.problems.append(f"a damaged result: {' '.join(cells)[:80]}")
        return True

    def _warning(self, text: str) -> bool:
        """IOR's warning on the bytes that it moved: three lines, and in later versions a fourth on the reason."""
        run = self._current
        if not (match := _WARNING.fullmatch(text)):
            if not (run.moved and _STONEWALLED.fullmatch(text)):
                return False
            run.moved[-1] = replace(run.moved[-1], stonewalled=True)
            return True
        self._warned[match[1][:4]] = min(number(match[2]) or 0, LARGEST)
        if match[1].startswith("Using"):
            if self._warned.keys() == {"Expe", "Stat", "Usin"}:
                run.moved.append(Moved(self._warned["Expe"], self._warned["Stat"], self._warned["Usin"]))
            else:
                run.problems.append("IOR's warning on the bytes moved is not whole")
            self._warned = {}
        return True


def _row_result(row: Mapping[str, str], csv: bool) -> Result:
    """A row by its columns' names. ValueError or KeyError where something in it is not as IOR writes it."""
    if row["access"] not in OPERATIONS:
        raise ValueError(row["access"])
    form = r"\d+\.\d{4}" if csv else r"\d+(\.\d+)?"  # of CSV, anything else is cut
    counts = ("iter", "numTasks")
    if not all(re.fullmatch(form, row[name]) for name in row if name not in ("access", *counts)):
        raise ValueError("a cell is not a figure")
    return Result(
        access=row["access"],
        iteration=_count(row["iter"]),
        bandwidth_bytes_per_s=Printed.of(row["bw(MiB/s)"], MIB),
        ops_per_s=Printed.of(row["IOPS"]) if "IOPS" in row else None,
        block_bytes=Printed.of(row["block(KiB)"], 1024.0),
        transfer_bytes=Printed.of(row["xfer(KiB)"], 1024.0),
        open_s=Printed.of(row["open(s)"]),
        io_s=Printed.of(row["wr/rd(s)"]),
        close_s=Printed.of(row["close(s)"]),
        total_s=Printed.of(row["total(s)"]),
        tasks=_count(row["numTasks"]) if csv else None,
    )


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text} is not a count")
    return int(text)


_START = re.compile(r'^\{[ \t]*\r?\n(?=[ \t]*"Version")', re.MULTILINE)
#: What the summary has for figures of iterations that were not run (-T).
_NO_NUMBER = re.compile(r'(?<=": )-?nan(?=[ ,\r\n])')
#: without these figures cannot be judged
_NEEDED = (
    "transferSize", "blockSize", "segmentCount", "deadlineForStonewall", "readFile", "writeFile", "tasks",
    "repetitions",
)  # fmt: skip


def pieces(text: str) -> Iterator[str | list[Printout]]:
    """The text in order, with the runs of each JSON document in its place. A damaged document is a run without
    results, and is skipped up to the next one."""
    at, text = 0, _NO_NUMBER.sub("null", text)
    while start := _START.search(text, at):
        yield text[at : start.start()]
        try:
            document, at = _DECODER.raw_decode(text, start.start())
            yield _runs(document)
        except (ValueError, RecursionError) as error:
            following = _START.search(text, start.end())
            at = following.start() if following else len(text)
            yield [Printout("json", problems=[_why(text[start.start() : at], error)])]
    yield text[at:]


class _UnlikeError(ValueError):
    """What is not as IOR writes it; the message is for the user."""


def _no_figure(text: str) -> None:
    raise ValueError(f"{text} is not a figure")


_DECODER = json.JSONDecoder(parse_float=Printed.of, parse_constant=_no_figure)


def _why(damaged: str, error: Exception) -> str:
    if '"Finished"' not in damaged:
        return "the JSON is cut: the run did not end"
    if re.search(r'"verbose": [1-9]', damaged):
        return "the JSON is damaged: IOR 4.0 with -v writes it invalid"
    return f"the JSON is damaged (a quote in a path makes it so, too): {str(error)[:120]}, from its beginning on"


def _runs(document: Any) -> list[Printout]:
    """The tests of a document. What is not as IOR writes it is a problem of the run."""
    try:
        if not document["tests"] or not document["Finished"]:
            raise _UnlikeError("no tests, or not finished")
        return [_test(document, test) for test in document["tests"]]
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        lacking = "a value is not of the kind that IOR writes there"
        if isinstance(error, _UnlikeError | KeyError):
            lacking = str(error.args[0])
        return [Printout("json", problems=[f"the JSON lacks what is expected: {lacking}"[:200]])]


def _test(document: dict[str, Any], test: dict[str, Any]) -> Printout:
    parameters = {key: str(value) for key, value in test["Parameters"].items()}
    options = {key: str(value) for key, value in test["Options"].items()}
    options |= {key: str(document[key]) for key in ("Began", "Machine", "Finished") if key in document}
    options |= {"StartTime": str(test["StartTime"])} if "StartTime" in test else {}
    if missing := [name for name in _NEEDED if name not in parameters and name not in options]:
        raise _UnlikeError(f"no {', '.join(missing)}")
    results: list[Result] = []
    seen: Counter[str] = Counter()
    for number, entry in enumerate(test["Results"]):
        nested = isinstance(entry, list)
        for one in entry if nested else [entry]:
            if one["access"] == "remove":
                continue
            results.append(_result(one, number if nested else seen[one["access"]]))
            seen[one["access"]] += 1
    return Printout(
        "json",
        version=str(document["Version"]) or None,
        command=str(document.get("Command line") or "") or None,
        options=options,
        parameters=parameters,
        results=results,
        over=True,
    )


def _result(entry: dict[str, Any], iteration: int) -> Result:
    def printed(name: str, scale: float = 1.0) -> Printed:
        if not isinstance(value := entry[name], Printed):
            raise _UnlikeError(f"{str(value)[:40]} is not a figure")
        return value.times(scale)

    if entry["access"] not in OPERATIONS:
        raise _UnlikeError(f"unknown access {str(entry['access'])[:40]}")
    return Result(
        access=entry["access"],
        iteration=iteration,
        bandwidth_bytes_per_s=printed("bwMiB", MIB),
        ops_per_s=printed("iops"),
        block_bytes=printed("blockKiB", 1024.0),
        transfer_bytes=printed("xferKiB", 1024.0),
        open_s=printed("openTime"),
        io_s=printed("wrRdTime"),
        close_s=printed("closeTime"),
        total_s=printed("totalTime"),
    )
