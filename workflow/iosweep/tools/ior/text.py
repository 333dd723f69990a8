"""IOR's tables and CSV in text that may hold other things, and several runs: logs, stdout, summary files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from iosweep.tools.ior.command_line import number
from iosweep.tools.ior.records import LARGEST, MIXED, OPERATIONS, Layout, Moved, Printed, Printout, Result
from iosweep.tools.messages import WORDS, about_the_end, marked

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
            run.results.append(_result(dict(zip(self._columns, cells, strict=True)), csv=self._columns == _CSV))
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


def _result(row: Mapping[str, str], csv: bool) -> Result:
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
