"""IOR's tables and CSV in text that may hold other things, and several runs: logs, stdout, summary files."""

from __future__ import annotations

import re
from dataclasses import replace

from iosweep.tools.ior import messages, text_before_3_2
from iosweep.tools.ior.byte_warnings import Warned
from iosweep.tools.ior.records import MIXED, OPERATIONS, Layout, Moved, Printed, Run, Total
from iosweep.tools.ior.table_rows import CSV_HEADER, MIB, NOTES, TABLE, csv_row, summary_line, table_row
from iosweep.tools.ior.unfinished_run import Segment
from iosweep.tools.loglines import Heard, marked
from iosweep.tools.reading import MOST_LINES

_BANNER = re.compile(r"IOR-(\S{0,80}): MPI Coordinated Test of Parallel I/O")
_OPTION = re.compile(
    r"(Command line|Began|Machine|StartTime"
    r"|TestID|Participating tasks|api|access|type|segments|ordering in a file|nodes|tasks|clients per node"
    r"|repetitions|xfersize|blocksize|aggregate filesize|dryRun|verbose|stonewallingTime|stoneWallingWearOut)\s*: (.*)"
)
_MAX = re.compile(r"Max (Write|Read):\s+(\d+\.\d+) MiB/sec \(\d+\.\d+ MB/sec\)")
_CSV_330 = re.compile(r"\d[\w.+-]*(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d [\d:]{8} \d{4}\S+ .*")
#: How lines begin that may be IOR's own. All others are looked at only where they have a word of messages.WORDS.
_MAY_BE = re.compile(
    r"access|api|aggregate|Began|blocksize|clients|Command line|dryRun|Finished|Machine|Max |nodes|Operation|ordering"
    r"|Participating|pattern|rank,|rand_|read|remove|repetitions|segments|seq_|StartTime|stone[Ww]alling|tasks|Test"
    r"|time,|type|Using stonewalling|verbose|write|Writing output to|xfersize"
    r"|WARNING: (?:Expected|Stat\(\)|Using actual|[Mm]aybe caused)"
    r"|\d(?:\.\d+e[+-]|[\w.+-]*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )"
)
_BANNERS = "MPI Coordinated Test"
_ROW_START = re.compile(r"(write|read)[\s,]+-?\d+(\.\d*)?[\s,]")


class Reader:
    """Reads the lines of one file in order. The rest (`heard`) is what IOR or anything else said in between."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.segments: list[Segment] = []
        self.heard = Heard(messages.judged)
        self.is_log = False  # IOR's own messages are in it
        self.off: list[tuple[int, str, str]] = []  # number of a line, what it says is off (messages.switched_off), line
        self.refused: list[str] = []
        self.mixed = False  # a run goes on after another has begun
        self._at = self._own = 0
        self._place = 0  # the number of the last line that was part of a run
        self._warned = Warned()
        self._tests: dict[str, list[Segment]] = {}
        self._columns: list[str] = []
        self._summary: list[str] = []
        self._csv = ""

    def document(self, run: Run) -> None:
        """A run of a JSON document between the texts."""
        self._at += 1
        self._open("json", run)
        self._columns, self._summary, self._csv = [], [], ""

    def text(self, text: str) -> None:
        """Text between documents, line by line."""
        may_be, words = _MAY_BE.match, (_BANNERS.lower(), *messages.WORDS)
        for line, is_marked in marked(text, words):
            self._at += 1
            stripped = line.strip()
            own = may_be(stripped) or (is_marked and _BANNERS in stripped) or (stripped and self._csv == "notes")
            if own and self._line(line.rstrip(), stripped):
                self._own += 1
                if self._own > MOST_LINES:
                    self._refuse(f"has more than {MOST_LINES:,} lines of runs")
                    self.segments.clear()
                    return
                continue
            if is_marked:
                self._hear(stripped)

    def inside(self, text: str) -> None:
        """Text of a damaged document, of which only a warning or an error counts."""
        for line, is_marked in marked(text, messages.WORDS):
            self._at += 1
            if is_marked:
                self._hear(line.strip())

    def _line(self, text: str, stripped: str) -> bool:
        """Whether a line is part of a run or of a warning on its bytes."""
        if self._table(text, stripped) or self._comma(stripped):
            self._place = self._at
            return True
        return self._warned.take(self._at, stripped)

    def _hear(self, line: str) -> None:
        new = self.heard.take(self._at, self._place, line)
        if new and (what := messages.switched_off(line)):
            self.off.append((self._at, what, line))

    def _open(self, layout: Layout, run: Run | None = None) -> Segment:
        segment = Segment(layout, self._at, self._at, run or Run(self.source, layout))
        self.segments.append(segment)
        if layout == "table":
            self._is_test(segment, segment.test)
        return segment

    def _is_test(self, segment: Segment, test: str) -> None:
        """Take which test the last segment is."""
        segment.test = test
        self._tests.setdefault(test, []).append(segment)

    def _of_test(self, test: str) -> Segment | None:
        """The last table that is of a test."""
        found = self._tests.get(test, [])
        while found and found[-1].test != test:  # it turned out to be another's
            found.pop()
        return found[-1] if found else None

    def _current(self, layout: Layout) -> Segment:
        if not self.segments or self.segments[-1].layout != layout:
            self.mixed = self.mixed or bool(self.segments)
            return self._open(layout)
        self.segments[-1].last = self._at
        return self.segments[-1]

    # -- the default layout ---------------------------------------------------------------------------------------

    def _table(self, text: str, stripped: str) -> bool:
        words = stripped.split()
        if banner := _BANNER.search(stripped):
            self._columns, self._summary = [], []
            self._open("table", Run(self.source, "table", version=banner[1] or None))
        elif self._old(text, stripped):
            pass
        elif (option := _OPTION.fullmatch(stripped)) and (self._running() or stripped.startswith(f"{option[1]:20}:")):
            self._option(option[1], option[2].strip(), padded=stripped.startswith(f"{option[1]:20}:"))
        elif words[0] == "access" and "bw(MiB/s)" in words:
            segment = self._current("table")
            if set(TABLE) - set(words):
                segment.problems.append(f"the table's header lacks {', '.join(sorted(set(TABLE) - set(words)))}")
            self._columns, self._summary = words, []
        elif words[0] == "Operation" and "Max(MiB)" in words:
            self._current("table")
            self._columns, self._summary = [], words
        elif match := _MAX.fullmatch(stripped):
            segment = self._current("table")
            try:
                segment.totals.append(Total(match[1].lower(), Printed.of(match[2], MIB)))
            except ValueError:
                segment.problems.append(f"a damaged line of the summary: {stripped[:80]}")
        elif stripped.startswith("Writing output to"):
            self.is_log = True
        elif words[0] in OPERATIONS and len(words) > 4 and "," not in words[0]:
            return self._row(words)
        elif words[0] in ("Finished", "remove") and self._running():
            segment = self._current("table")
            segment.over = words[0] == "Finished"
            if segment.over:
                segment.option("Finished", stripped.partition(":")[2].strip())
        else:
            return False
        return True

    def _old(self, text: str, stripped: str) -> bool:
        """What IOR 3.1 and earlier say of a run."""
        values: dict[str, str] | None = {}
        problem = ""
        finished = bool(text_before_3_2.FINISHED.fullmatch(stripped))
        if command := text_before_3_2.COMMAND.fullmatch(stripped):
            if not self._running():
                return False  # mdtest has the same line; IOR's comes below its banner
            values = {"Command line": command[1].strip()}
        elif head := text_before_3_2.HEAD.fullmatch(stripped):
            if not self._running():
                return False
            values = {head[1]: head[2]}
        elif test := text_before_3_2.TEST.fullmatch(stripped):
            self._test(int(test[1]))
        elif finished and self._running():
            values = {"Finished": stripped.partition(":")[2].strip()}
        else:
            try:
                values = text_before_3_2.options(text)
            except ValueError as error:
                problem = f"a damaged option: {error}"
        if values is None:
            return False
        segment = self._current("table")
        segment.has_layout(True)
        segment.over = segment.over or finished
        segment.problems += [problem] if problem else []
        for name, value in values.items():
            segment.option(name, value)
        return True

    def _test(self, test: int) -> None:
        """`Test 0 started` of the old layout: the first or only test of a run, or the next."""
        segment = self._current("table")
        if segment.over:  # another run's, without its banner
            segment = self._open("table")
        elif segment.begun is not None:
            before = segment.begun
            segment = self._next_test(segment)
            if test != before + 1:
                segment.problems.append(f"test {test} starts within test {before}: {MIXED}")
        self._columns, self._summary = [], []
        segment.begun = test
        self._is_test(segment, str(test))

    def _next_test(self, segment: Segment) -> Segment:
        following = self._open("table", Run(self.source, "table", version=segment.run.version))
        for name in ("Command line", "Machine"):
            if name in segment.options:
                following.options[name] = segment.options[name]
        return following

    def _running(self) -> bool:
        """Whether a table's run has begun and not finished: a script's own `nodes: 4` is not IOR's."""
        return bool(self.segments) and self.segments[-1].layout == "table" and not self.segments[-1].over

    def _option(self, name: str, value: str, padded: bool) -> None:
        segment = self._current("table")
        if padded:
            segment.has_layout(False)
        if name == "TestID":
            if "TestID" in segment.options:
                segment = self._next_test(segment)
            self._is_test(segment, value)
        segment.option("tasks" if name == "Participating tasks" else name, value)

    def _row(self, words: list[str]) -> bool:
        if self._summary:
            return self._total(words)
        if not self._columns:
            if not _ROW_START.match(" ".join(words) + " ") or len(words) < 9:
                return False
            self._current("table").problems.append(
                f"a result without the table's header: {' '.join(words)[:80]}: {MIXED}"
            )
            return True
        segment = self._current("table")
        try:
            if len(words) != len(self._columns):
                raise ValueError("columns")
            segment.results.append(table_row(dict(zip(self._columns, words, strict=True))))
        except (ValueError, KeyError):
            segment.problems.append(f"a damaged result: {' '.join(words)[:80]}")
        return True

    def _total(self, words: list[str]) -> bool:
        segment = self._current("table")
        if len(words) != len(self._summary):
            segment.problems.append(f"a damaged line of the summary: {' '.join(words)[:80]}")
            return True
        cells = dict(zip(self._summary, words, strict=True))  # of the columns named StdDev the last remains; unused
        try:
            total = summary_line(cells)
            # a script's summary comes after its last test, with a line for each of them
            owner = self._of_test(cells["Test#"])
        except (ValueError, KeyError):
            segment.problems.append(f"a damaged line of the summary: {' '.join(words)[:80]}")
            return True
        if owner:
            owner.totals.append(total)
        else:
            segment.problems.append(f"the summary is of a test {cells['Test#']} that is not there")
        return True

    # -- comma-separated ------------------------------------------------------------------------------------------

    def _comma(self, text: str) -> bool:
        if text == CSV_HEADER:
            self._open("csv")
            self._csv = "csv"
        elif text == ",".join((*NOTES, CSV_HEADER)):
            self._csv = "notes"
        elif _CSV_330.match(text) and "ior" in text.lower():
            version = re.match(r"\d+(?:\.\d+)*(?:[a-z+]+\d*)?(?=Mon|Tue|Wed|Thu|Fri|Sat|Sun)", text)
            run = Run(self.source, "csv", version=version[0] if version else None)
            run = replace(run, problems=("IOR 3.3's CSV has neither separators nor results: use its JSON or table",))
            self._open("csv", run)
        elif re.match(r"access,rank,|(write|read),\d+(,\d\.\d{10}e[+-]\d+){4}$", text):
            self._refuse("holds the times of single ranks (saveRankPerformanceDetailsCSV), no results of the run")
        elif text == "time,runtime,tp" or re.fullmatch(r"(\d\.\d+e[+-]\d+,){2}\d\.\d+e[+-]\d+", text):
            self._refuse("holds the times of single operations (savePerOpDataCSV), no results of the run")
        elif re.match(r"rank,\w", text):
            self._refuse("holds a line for each rank, no results of the run")
        elif re.match(r"(seq|rand)_(write|read),\d*,\w*,", text) or (self._csv == "notes" and text.count(",") > 2):
            self._notes_row(text)
        elif re.match(r"(write|read),[-\d.]+,", text):
            self._csv_row(text)
        else:
            return False
        return True

    def _refuse(self, why: str) -> None:
        self.refused = list(dict.fromkeys([*self.refused, f"{self.source} {why}"]))

    def _csv_row(self, text: str) -> None:
        segment = self._current("csv")
        try:
            if self._csv != "csv":
                raise ValueError("header")
            segment.results.append(csv_row(text.split(",")))
        except (ValueError, KeyError):
            headless = f"a result without the header: {text[:80]}: {MIXED}"
            segment.problems.append(f"a damaged result: {text[:80]}" if self._csv == "csv" else headless)

    def _notes_row(self, text: str) -> None:
        cells = text.split(",")
        segment = self._open("notes")
        segment.run = replace(segment.run, notes=dict(zip(NOTES, cells, strict=False)))
        if self._csv != "notes":
            segment.problems.append(f"a result without the header: {text[:80]}")
            return
        try:
            segment.results.append(csv_row(cells[len(NOTES) :]))
        except (ValueError, KeyError):
            segment.problems.append(f"a damaged result: {text[:80]}")

    # -- messages -------------------------------------------------------------------------------------------------

    @property
    def moved(self) -> list[tuple[int, Moved]]:
        """IOR's warnings on the bytes that it moved, each with its line."""
        return self._warned.moved

    def end(self) -> None:
        self._warned.end(self._at)
        for at, line in self._warned.broken:
            self.heard.take(at, at, line)
