"""When a figure is not plausible (too short a run, more I/Os in flight than asked for), and `Reading`: the rows and
problems of a file that others made (`iosweep ingest`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, get_args

from iosweep.text import human_percent

#: A value of a row that a tool's reader makes.
Cell = str | int | float | bool

#: Figures of runs with fewer ticks of the tool's clock are wrong.
LEAST_TICKS = 20
#: Figures of shorter runs are mostly barriers and ticks of the scheduler, which are 1 to 10 ms.
LEAST_RUNTIME_S = 0.02

#: A timed phase has to be this long for its rate to be judged steady, unless limits.shortest_phase says otherwise.
SHORTEST_STEADY_S = 10.0

ProblemSeverity = Literal["invalid", "suspect", "note"]
SEVERITIES: tuple[ProblemSeverity, ...] = get_args(ProblemSeverity)


@dataclass(frozen=True)
class ReadingProblem:
    """A finding about a file.

    `severity`: `invalid` (a figure is wrong or missing and is left out), `suspect` (a figure may not be what it seems;
    it stays) or `note` (context that says nothing against the figures). `row`: index into `Reading.rows`. None means
    the file as a whole: an invalid one says what `rows` does not have, a suspect one concerns every row.
    """

    severity: ProblemSeverity
    text: str
    row: int | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Reading:
    """The results in a file, as far as the file alone tells them (`iosweep ingest`).

    `rows`: columns of the result table (columns.py) as far as the file tells, without `verdict`. A figure that cannot
    be trusted is left out, and an invalid problem gives the reason.
    """

    rows: Sequence[Mapping[str, Cell]]
    problems: Sequence[ReadingProblem]

    @classmethod
    def of_runs(cls, runs: Sequence[tuple[Sequence[Mapping[str, Cell]], Sequence[ReadingProblem]]]) -> Reading:
        """The reading of a file with several runs: the rows and problems of each. `row` of a problem is an index into
        the rows of its run; without one, a suspect problem concerns the rows of its run."""
        rows: list[Mapping[str, Cell]] = []
        problems: list[ReadingProblem] = []
        for number, (of_run, said) in enumerate(runs, 1):
            where = f"run {number} of {len(runs)}: " if len(runs) > 1 else ""
            first = len(rows)
            rows += of_run
            for one in said:
                places: Iterable[int | None] = [None if one.row is None else first + one.row]
                if where and one.row is None and one.severity == "suspect":
                    places = range(first, len(rows))
                problems += [ReadingProblem(one.severity, f"{where}{one.text}", place) for place in places]
        return cls(rows, list(dict.fromkeys(problems)))

    def verdict(self, row: int) -> Literal["valid", "suspect", "invalid"]:
        """The verdict on the row with this index: the worst of its problems and those of all rows."""
        return "invalid" if self.against(row, "invalid") else "suspect" if self.against(row, "suspect") else "valid"

    def against(self, row: int, severity: ProblemSeverity) -> list[str]:
        """The problems of a row with this severity. Suspect problems of all rows are included."""
        of_all = self._texts.get((None, severity), []) if severity == "suspect" else []
        return [*self._texts.get((row, severity), ()), *of_all]

    @cached_property
    def _texts(self) -> Mapping[tuple[int | None, ProblemSeverity], list[str]]:
        found: dict[tuple[int | None, ProblemSeverity], list[str]] = {}
        for problem in self.problems:
            found.setdefault((problem.row, problem.severity), []).append(problem.text)
        return found


def too_short(runtime_s: float, clock_s: float, name: str, row: int) -> list[ReadingProblem]:
    """The problem of a row whose run was too short for a rate, by the thresholds of the checks `duration` and
    `long_enough`. `name`: of the operation."""
    if runtime_s >= max(LEAST_RUNTIME_S, LEAST_TICKS * clock_s):
        return []
    severity: ProblemSeverity = "invalid" if runtime_s < LEAST_TICKS * clock_s else "suspect"
    why = f"{name} was over after {runtime_s * 1000:.3g} ms, which is mostly its start, its end and ticks of the clock"
    return [ReadingProblem(severity, why, row)]


def too_short_to_be_steady(time_s: float, shortest_s: float = SHORTEST_STEADY_S) -> str:
    """The reason why a timed phase of `time_s` seconds does not show whether its rate is steady; "" where it does."""
    if time_s >= shortest_s:
        return ""
    return f"phases of {time_s:g} s are too short to show a steady rate: {shortest_s:g} s or more are needed"


#: Share of what was asked for that may be exceeded: of a worker's time no I/O takes more than all, but rates and times
#: are rounded, and times to whole ticks of the tool's clock.
_EXCESS = 0.05
_TICKS = 2
#: Share of the workers' time in the submission of I/Os from which on they wait there.
_SUBMITTING = 0.5


def too_many_in_flight(ops_per_s: float, latency_s: float, asked: float, runtime_s: float, clock_s: float) -> str:
    """The contradiction of rate, mean latency and at most `asked` I/Os in flight (workers x depth); "" without one."""
    found = ops_per_s * latency_s
    if found <= asked * (1 + _EXCESS + _TICKS * clock_s / max(runtime_s, clock_s)):
        return ""
    return (
        f"{ops_per_s:,.0f} I/Os a second of {latency_s * 1e6:,.1f} µs each are {found:.1f} in flight,"
        f" and {asked:.0f} were asked for"
    )


def waits_at_submission(ops_per_s: float, latency_s: float, completion_s: float, workers: int) -> str:
    """The sentence for workers that wait at the submission of each I/O, so that a queue depth has no effect; "" else.

    libaio does so without O_DIRECT, and its own count of I/Os in flight says that the depth was reached.
    """
    share = ops_per_s * (latency_s - completion_s) / workers
    if share < _SUBMITTING:
        return ""
    return (
        f"the workers spent {human_percent(min(share, 1))} of their time submitting I/Os: without O_DIRECT libaio waits"
        " for each, whatever the queue depth"
    )


#: How C's ctime, and with it fio and IOR, prints a date.
CTIME = "%a %b %d %H:%M:%S %Y"


def local_date(text: str | None, form: str = CTIME) -> str | None:
    """A date as the columns `began_local` and `ended_local` have it; a tool prints its node's time without the zone."""
    try:
        return datetime.strptime(text or "", form).isoformat()
    except ValueError:
        return None
