"""The lines of an output to launches of mdtest, each with its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from iosweep.tools import wall_clock
from iosweep.tools.loglines import Heard, about_the_end, marked
from iosweep.tools.mdtest.messages import FRAME, WORDS, judged
from iosweep.tools.mdtest.table import TITLE, TORN_OUTSIDE, Table, may_be_of_a_table
from iosweep.tools.reading import MOST_RUNS

_STARTED = re.compile(r"-- started at (.*) --")
_FINISHED = re.compile(r"-- finished at (.*) --")
_BANNER = re.compile(r"mdtest-(\S*) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node(?:s|\(s\))")
_COMMAND = re.compile(r"Command line used:.*")
_SHIFT = re.compile(r"Shifting ranks by (\d{1,9}) for each phase")
#: How mdtest's own lines begin. All others are looked at where they have a word of signs.WORDS, or inside a table.
_MAY_BE = re.compile(
    r"-- (?:started|finished) at |mdtest-|Command line used:|\d{1,9} tasks, |SUMMARY|Directory|File|Tree"
)
_COUNT = re.compile(r"(\d{1,9}) tasks, (\d{1,18}) (files/directories|files|directories|file)")

#: How mdtest prints a date.
DATE = "%m/%d/%Y %H:%M:%S"
MIXED = "lines of several runs or ranks are mixed, so that no figure can be told whose it is"


@dataclass
class Launch:
    """What the lines from one start of mdtest to the next say."""

    heard: Heard = field(default_factory=lambda: Heard(judged))
    shifts: set[int] = field(default_factory=set)  # by how many ranks phases are shifted
    started: bool = False
    finished: bool = False
    banner: tuple[str, int, int] | None = None
    command: str | None = None
    count: tuple[int, int, str] | None = None  # not yet followed by its table
    tables: list[Table] = field(default_factory=list)
    began: str | None = None  # the dates as printed
    ended: str | None = None
    uncounted: bool = False  # whether a table of rates has no count

    @property
    def headed(self) -> bool:
        return self.started or self.banner is not None or self.command is not None

    @property
    def touched(self) -> bool:
        return self.headed or self.count is not None or bool(self.tables)

    @property
    def over(self) -> bool:
        """Whether a line of a beginning (without `-- started at`, which was lost) must be another run's."""
        return self.finished or (not self.headed and bool(self.tables) and self.tables[-1].closed)

    @property
    def lasted(self) -> float | None:
        """Seconds from the start to the end, to one second; None where the dates do not tell."""
        return wall_clock.seconds(wall_clock.date(self.began, DATE), wall_clock.date(self.ended, DATE))


def scan(text: str) -> tuple[list[Launch], str]:
    """(the launches in the text, what makes all of them unusable: lines are mixed, or are too many).

    A launch that is cut and followed by another is no mixture; two heads, two closing lines, two tables of one count,
    or a row outside of a table are. What is said between two launches is of the second, but for how processes ended.
    """
    launches = [Launch()]
    mixed = False
    before = ""  # the line before
    between: list[str] = []
    may_be, words = _MAY_BE.match, (*WORDS, "shifting ranks")
    for raw, is_marked in marked(text.replace("\r\n", "\n"), words):
        line = raw.strip()
        launch = launches[-1]
        if is_marked and not (FRAME.fullmatch(before) and "WARNING" in line):
            if shift := _SHIFT.search(line):
                launch.shifts.add(int(shift[1]))
            elif launch.finished and not about_the_end(line):
                between.append(line)
            else:
                launch.heard.take(0, 0, line)
        before = line or before
        in_table = launch.tables and not launch.tables[-1].closed and not launch.finished
        if not (may_be(line) or (in_table and may_be_of_a_table(line))):
            continue
        beginning = _STARTED.fullmatch(line)
        head = _BANNER.fullmatch(line) or _COMMAND.fullmatch(line) or _COUNT.fullmatch(line)
        title = TITLE.fullmatch(line)
        if title and launch.tables and launch.tables[-1].closed:
            belongs = launch.tables[-1].kind == "rate" and title[1] == "time"
        else:
            belongs = False
        if (beginning and launch.touched) or ((head or title) and launch.over and not belongs):
            launch = Launch()
            launches.append(launch)
            if len(launches) > MOST_RUNS:
                return launches[:1], f"the file has more than {MOST_RUNS:,} runs"
            for one in between:
                launch.heard.take(0, 0, one)
            between = []
        if beginning:
            launch.started = True
            launch.began = beginning[1]
        elif head:
            mixed |= not _take_head(launch, line)
        elif title:
            mixed |= not _take_title(launch, title)
        elif end := _FINISHED.fullmatch(line):
            # where the beginning of a text is lost, its first closing line has no head
            mixed |= launch.finished or not (launch.headed or (len(launches) == 1 and launch.tables))
            launch.finished = True
            launch.ended = end[1]
        elif launch.tables and not launch.tables[-1].closed and not launch.finished:
            launch.tables[-1].add(line)
        elif TORN_OUTSIDE.match(line):
            mixed = True
    for one in between:  # nothing follows
        launches[-1].heard.take(0, 0, one)
    return [launch for launch in launches if launch.touched], MIXED if mixed else ""


def _take_head(launch: Launch, line: str) -> bool:
    """Whether a line of the head (banner, command, count of files) fits what the launch has."""
    if match := _BANNER.fullmatch(line):
        fits = launch.banner is None and not launch.tables
        launch.banner = launch.banner or (match[1], int(match[2]), int(match[3]))
    elif match := _COUNT.fullmatch(line):
        # a table before that had no count is another's
        fits = launch.count is None and not launch.uncounted
        launch.count = (int(match[1]), int(match[2]), match[3])
    else:
        fits = launch.command is None and not launch.tables
        launch.command = launch.command or line
    return fits


def _take_title(launch: Launch, title: re.Match[str]) -> bool:
    """Whether a table may begin here: the first, the times of the rates before it (-P), or another count (-f, -l)."""
    table = Table(title[1] or "rate", title[2] or "", int(title[3]), launch.count)
    before = launch.tables[-1] if launch.tables else None
    fits = before is None or launch.count is not None
    if before and not fits:
        fits = (before.kind, table.kind, before.iterations) == ("rate", "time", table.iterations) and before.closed
    if before and launch.count is None and (before.kind, table.kind) == ("rate", "time"):
        before.times = table
    launch.tables.append(table)
    launch.uncounted |= table.kind == "rate" and table.count is None
    launch.count = None
    return fits
