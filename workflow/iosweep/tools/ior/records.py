"""IOR's output -> its runs: tables among the lines of a log, JSON summaries, and messages beside them. Pure.

JSON nests results by iteration in 3.3, and has a flat list without iterations from 4.0 on. IOR prints its command line
without quotes: an argument with blanks cannot be told from several.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

from iosweep.tools.messages import Messages

MIB = 1 << 20
OPERATIONS = ("write", "read")  # in IOR's own order within an iteration
#: Resolution of IOR's times in seconds: barriers are part of them, however many digits are printed.
CLOCK_S = 0.0001
#: Of whole numbers in tables, and of figures in any unit.
_LARGEST, _LARGEST_FIGURE = (1 << 63) - 1, 1e18

_SIZE = re.compile(r"(\d{1,19})\s*([bkmgt]?)(?:i?b|ytes)?", re.IGNORECASE)


def size(text: str | None) -> int | None:
    """The whole number in `16`, `16m`, `16 MiB` or `262144 bytes`; None of a rounded size (`1.50 MiB`), or no size."""
    match = _SIZE.fullmatch((text or "").strip())
    value = int(match[1]) << 10 * " kmgt".index(match[2].lower().strip("b") or " ") if match else -1
    return value if 0 <= value <= _LARGEST else None


class Command(dict[str, str]):
    """Options of a command line -> values, "" of a flag: letters, and lower-case names of -O and --name."""

    def on(self, flag: str, directive: str = "") -> bool:
        """Whether a flag is set, by its letter or by `-O directive=1`."""
        return flag in self or self.get(directive.lower(), "0") not in ("0", "")


_WITH_VALUE = frozenset("AabdDfGijJlMNoOQstTUX")


@lru_cache(maxsize=8)  # each test of a script has the same
def parse_command(line: str | None) -> Command | None:
    """The options in a command line as IOR prints it; None without one, and where a script (-f) may say otherwise."""
    if not line:
        return None
    command = Command()
    words = deque(line.split()[1:])
    while words:
        word = words.popleft()
        name, _, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            command[name.lower()] = value or "1"
        elif word.startswith("-") and name:
            if name[0] in _WITH_VALUE:
                value = name[1:] or value or (words.popleft() if words else "")
                pairs = [pair.partition("=")[::2] for pair in value.split(",")] if name[0] == "O" else []
                command |= {key.lower(): given for key, given in pairs} if pairs else {name[0]: value}
            elif value != "0":
                command |= dict.fromkeys(name, "")
    return None if "f" in command else command


@dataclass(frozen=True)
class Moved:
    """IOR's warning that it moved other than the expected bytes of the file; all ranks together."""

    expected: int
    stat: int
    moved: int
    stonewalled: bool = False  # IOR says that a time limit (-D) is why


@dataclass(frozen=True)
class Result:
    """A row: an operation of an iteration, from 0. Times in seconds. IOR's latency is left out: it ignores segments.

    bytes_moved: exact, None where the output does not tell.
    """

    access: str
    iteration: int
    bandwidth_bytes_per_s: float  # bytes / total_s
    ops_per_s: float | None  # transfers / io_s; early 3.3 does not print it
    open_s: float
    io_s: float
    close_s: float
    total_s: float
    moved: Moved | None = None
    bytes_moved: int | None = None

    @property
    def name(self) -> str:
        return f"{self.access} of iteration {self.iteration}"


#: Field of a result -> its column in tables, its key in JSON, and their unit.
_FIGURES = {
    "bandwidth_bytes_per_s": ("bw(MiB/s)", "bwMiB", MIB),
    "ops_per_s": ("IOPS", "iops", 1),
    "open_s": ("open(s)", "openTime", 1),
    "io_s": ("wr/rd(s)", "wrRdTime", 1),
    "close_s": ("close(s)", "closeTime", 1),
    "total_s": ("total(s)", "totalTime", 1),
}


def _result(row: Mapping[str, Any], iteration: int, is_json: bool = False) -> Result:
    """A row by the names of its columns. ValueError, KeyError or TypeError for what IOR does not write."""
    found: dict[str, Any] = {}
    for name, (column, key, unit) in _FIGURES.items():
        where = key if is_json else column
        found[name] = float(row[where]) * unit if where in row or name != "ops_per_s" else None
        if found[name] is not None and not 0 <= found[name] < _LARGEST_FIGURE:
            raise ValueError(f"{where} is {row[where]}")
    if row["access"] not in OPERATIONS:
        raise ValueError(f"access is {str(row['access'])[:40]}")
    return Result(row["access"], iteration, **found)


Layout = Literal["table", "json"]


@dataclass
class Run:
    """One run of IOR, or one test of a script; a property is None where the output does not tell.

    options: as IOR prints them, with the command line; parameters: of JSON; moved: warnings on bytes that belong to no
    row yet; messages: lines beside the results; off: what IOR does without, as it says (`fsync`, `o_direct`) -> that
    line; problems: why no figure can be trusted.
    """

    layout: Layout = "table"
    version: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    messages: Messages = field(default_factory=Messages)
    off: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take_beside(self, other: Run) -> None:
        """Add the messages and warnings of lines outside of runs."""
        self.messages.add(other.messages)
        self.moved += other.moved
        self.off = {**other.off, **self.off}

    @property
    def command_line(self) -> str | None:
        return self.options.get("Command line")

    @cached_property
    def asked(self) -> Command | None:
        return parse_command(self.command_line)

    @property
    def command(self) -> Command:
        return self.asked or Command()

    def _told(self, parameter: str = "", option: str = "", letter: str = "") -> int | None:
        """A whole number: of a parameter, else of an option, else of the command line."""
        texts = self.parameters.get(parameter), self.options.get(option), self.command.get(letter)
        return next((number for text in texts if (number := size(text)) is not None), None)

    def _flag(self, parameter: str) -> bool | None:
        number = size(self.parameters.get(parameter))
        return None if number is None else number != 0

    @property
    def api(self) -> str | None:
        return self.options.get("api") or self.parameters.get("api")

    @property
    def tasks(self) -> int | None:
        return self._told(option="tasks")

    @property
    def nodes(self) -> int | None:
        return self._told("nodes", "nodes")

    @property
    def clients_per_node(self) -> int | None:
        """Ranks on each node. IOR prints those of rank 0's; other nodes may have another number."""
        clients, nodes = self._told("tasksPerNode", "clients per node"), self.nodes
        unequal = clients and nodes and self.tasks and clients * nodes != self.tasks
        return None if unequal else clients

    @property
    def shifts(self) -> bool:
        """Whether each rank reads the data of a rank of the next node (-C)."""
        return bool(self._flag("reorderTasks")) or self.command.on("C", "reorderTasks")

    @property
    def repetitions(self) -> int | None:
        return self._told("repetitions", "repetitions", "i") or (None if self.asked is None else 1)

    @property
    def segments(self) -> int | None:
        return self._told("segmentCount", "segments") or None

    @property
    def block_bytes(self) -> int | None:
        return self._told("blockSize", "blocksize", "b")

    @property
    def transfer_bytes(self) -> int | None:
        return self._told("transferSize", "xfersize", "t")

    @property
    def file_per_process(self) -> bool | None:
        told = {"file-per-process": True, "single-shared-file": False}.get(self.options.get("access", ""))
        return self._flag("filePerProc") if told is None else told

    @property
    def collective(self) -> bool | None:
        told = {"collective": True, "independent": False}.get(self.options.get("type", ""))
        return self._flag("collective") if told is None else told

    @property
    def random(self) -> bool | None:
        if order := self.options.get("ordering in a file", "").partition(" ")[0]:
            return order == "random"
        told = self._flag("randomOffset")
        return self.command.on("z", "randomOffset") if told is None and self.asked is not None else told

    @property
    def o_direct(self) -> bool | None:
        if "o_direct" in self.off:
            return False
        known = self.asked is not None and self.api in (None, "POSIX")
        return self.command.on("B", "useO_DIRECT") or self.command.on("B", "posix.odirect") if known else None

    @property
    def fsync(self) -> bool | None:
        if "fsync" in self.off:
            return False
        if (told := self._flag("fsync")) is not None:
            return told or bool(self._flag("fsyncperwrite"))
        return (
            self.command.on("e", "fsync") or self.command.on("Y", "fsyncPerWrite") if self.asked is not None else None
        )

    @property
    def stonewall_s(self) -> int | None:
        return self._told("deadlineForStonewall") or self._told(option="stonewallingTime", letter="D") or None

    @property
    def time_bounded(self) -> bool:
        """Whether a time limit may end an operation, or a least time repeat it."""
        return bool(self.stonewall_s or size(self.command.get("mintimeduration")))

    @property
    def status_file(self) -> bool:
        """Whether the status file of an earlier write bounds reads."""
        return bool(self.command.get("stonewallingstatusfile"))

    @property
    def operations(self) -> tuple[str, ...] | None:
        """The operations of the command; without any of -w -r -W -R: both."""
        if "readFile" in self.parameters:
            read, write = self._flag("readFile") or self._flag("checkRead"), self._flag("writeFile")
        elif self.asked is not None:
            read = self.command.on("r", "readFile") or self.command.on("R", "checkRead")
            write = self.command.on("w", "writeFile")
            if not (read or write):
                return None if self.command.on("W", "checkWrite") else OPERATIONS
        else:
            return None
        return tuple(name for name, wanted in (("write", write), ("read", read)) if wanted)


# -- text --------------------------------------------------------------------------------------------------------------

_BANNER_WORDS = "MPI Coordinated Test of Parallel I/O"
_BANNER = re.compile(r"IOR-(\S{0,80}): " + _BANNER_WORDS)
_OPTION = re.compile(
    r"(Command line|Began|Machine|StartTime|TestID|Participating tasks|api|access|type|segments|ordering in a file"
    r"|nodes|tasks|clients per node|repetitions|xfersize|blocksize|stonewallingTime)\s*: (.*)"
)
_MOVED = re.compile(
    r"WARNING: (Expected|Stat\(\) of|Using actual) aggregate (?:file size|bytes moved)\s*= (-?\d{1,30})\.?"
)
_STONEWALLED = re.compile(r"WARNING: maybe caused by deadlineForStonewalling\.?", re.IGNORECASE)
#: IOR does without the fsync that it was asked for.
_FSYNC_OFF = re.compile(r"fsync\(\) (?:only available in|not supported in) .{1,80}Using value of 0\b")
_CSV = "access,bw(MiB/s),"
#: Columns of the table in every version; IOPS and latency came during 3.3.
_TABLE = frozenset({"access", "iter", *(column for column, *_ in _FIGURES.values())} - {"IOPS"})
#: Columns of the summary of all tests, which says nothing that the rows do not.
_SUMMARY = ("Operation",)


class Reader:
    """Reads a file into `runs`. beside: what lines before the first run say; is_log: whether IOR's own messages are
    among the lines."""

    def __init__(self, content: bytes) -> None:
        self.runs: list[Run] = []
        self.beside = Run()
        self.is_log = False
        self._over = True  # no run is being read
        self._columns: Sequence[str] = ()
        self._warned: dict[str, int] = {}
        for piece in _pieces(content.decode("utf-8", "replace")):
            if isinstance(piece, str):
                for line in piece.split("\n"):
                    if not (text := line.strip()) or self._line(text):
                        continue
                    run = self._current
                    run.messages.take(text)
                    if _FSYNC_OFF.search(text):
                        run.off.setdefault("fsync", text)
                    if "WARNING: cannot use O_DIRECT" in text:
                        run.off.setdefault("o_direct", text)
            else:
                for run in piece:
                    run.take_beside(self.beside)
                    self.beside, self._over = Run(), True
                    self.runs.append(run)
        if self.runs:  # nothing follows
            self.runs[-1].take_beside(self.beside)

    @property
    def _current(self) -> Run:
        """The run that lines belong to: the last table, else the next run."""
        return self.runs[-1] if self.runs and self.runs[-1].layout != "json" else self.beside

    def _open(self, layout: Layout, version: str | None = None) -> Run:
        run = Run(layout, version)
        if self._current is self.beside:
            run, self.beside = self.beside, Run()
            run.layout, run.version = layout, version
        self.runs.append(run)
        self._columns, self._over = (), False
        return run

    def _table(self) -> Run:
        """The run whose table is being read; one without its beginning where there is none."""
        return self._open("table") if self._over or self._current.layout != "table" else self._current

    def _line(self, text: str) -> bool:
        """Whether a line is part of a run or of a warning on its bytes."""
        words = text.split()
        if _BANNER_WORDS in text and (banner := _BANNER.search(text)):
            self._open("table", banner[1] or None)
            self.is_log = True
        elif (option := _OPTION.fullmatch(text)) and (not self._over or text.startswith(f"{option[1]:20}:")):
            name, run = option[1], self._table()
            if name == "TestID" and name in run.options:  # the next test of a script
                first, run = run, self._open("table", run.version)
                run.options |= {key: first.options[key] for key in ("Command line", "Machine") if key in first.options}
            run.options.setdefault("tasks" if name == "Participating tasks" else name, option[2].strip())
        elif words[0] == "access" and "bw(MiB/s)" in words:
            if lost := sorted(_TABLE.difference(words)):
                self._table().problems.append(f"the table's header lacks {', '.join(lost)}")
            self._columns = words
        elif text.startswith(_CSV):
            self._open("table").problems.append("not read: IOR's CSV, which does not tell what ran; its JSON does")
        elif text.startswith("Writing output to"):
            self.is_log = True
        elif words[0] == "Operation" and "Max(MiB)" in words:
            self._columns = _SUMMARY
        elif words[0] == "Finished" and not self._over:
            self._current.options["Finished"] = text.partition(":")[2].strip()
            self._over = True
        elif words[0] in OPERATIONS:
            return self._row(words)
        else:
            return words[0] == "remove" or self._warning(text)
        return True

    def _row(self, cells: Sequence[str]) -> bool:
        if len(cells) < (5 if self._columns else 9) or not re.match(r"-?\d", cells[1]):
            return False
        if self._columns == _SUMMARY:
            return True
        run = self._current if self._columns else self._table()
        try:
            row = dict(zip(self._columns, cells, strict=True))
            result = _result(row, int(row["iter"]))
        except (ValueError, KeyError):
            wrong = "a damaged result" if self._columns else "a result without its header"
            run.problems.append(f"{wrong}: {' '.join(cells)[:80]}")
            return True
        run.results.append(replace(result, moved=run.moved.pop(0) if run.moved else None))
        return True

    def _warning(self, text: str) -> bool:
        """IOR's warning on the bytes that it moved, before their row: three lines, and later a fourth on the reason."""
        moved = self._current.moved
        if match := _MOVED.fullmatch(text):
            self._warned[match[1][:4]] = max(-_LARGEST, min(int(match[2]), _LARGEST))
            if match[1].startswith("Using") and len(self._warned) == 3:
                moved.append(Moved(self._warned["Expe"], self._warned["Stat"], self._warned["Usin"]))
                self._warned = {}
            return True
        if moved and _STONEWALLED.fullmatch(text):
            moved[-1] = replace(moved[-1], stonewalled=True)
            return True
        return False


# -- JSON --------------------------------------------------------------------------------------------------------------

_START = re.compile(r'^\{[ \t]*\r?\n(?=[ \t]*"Version")', re.MULTILINE)
#: The value in the summary for iterations that a time limit left out (hpc/ior#542).
_NO_NUMBER = re.compile(r'(?<=": )-?nan(?=[ ,\r\n])')
_DECODER = json.JSONDecoder()


def _pieces(text: str) -> Iterator[str | list[Run]]:
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
            damage = f"the JSON is damaged (-v of IOR 4.0 or a quote in a path makes it so): {error}"
            if '"Finished"' not in text[start.start() : at]:
                damage = "the JSON is cut: the run did not end"
            yield [Run("json", problems=[damage])]
    yield text[at:]


def _runs(document: Any) -> list[Run]:
    """The tests of a document."""
    runs = []
    try:
        shared = {key: str(document[key]) for key in ("Command line", "Began", "Machine", "Finished")}
        version = str(document["Version"]) or None
        for test in document["tests"]:
            started = {"StartTime": test["StartTime"]} if "StartTime" in test else {}
            run = Run("json", version)
            run.options = {key: str(value) for key, value in (test["Options"] | shared | started).items()}
            run.parameters = {key: str(value) for key, value in test["Parameters"].items()}
            seen: Counter[str] = Counter()
            for entry in test["Results"]:
                for row in entry if isinstance(entry, list) else [entry]:
                    if row["access"] != "remove":
                        run.results.append(_result(row, seen[row["access"]], is_json=True))
                        seen[row["access"]] += 1
            runs.append(run)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return [Run("json", problems=[f"the JSON lacks what is expected: {error}"[:200]])]
    return runs
