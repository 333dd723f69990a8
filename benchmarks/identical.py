"""Do campaigns that are the same say the same?

One configuration is measured twelve times, one campaign after the other, each with results and files of its own. Where
the intervals of two headlines exclude each other, one of the two reports is wrong: nothing was changed between them.
Then all pairs of campaigns are compared as `iosweep compare` does it: a difference is beyond the noise within the two,
and the machine's.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import fmean, median

import campaigns
from iosweep.analysis import headline
from iosweep.analysis.comparison import ALPHA, AT_LEAST, compare, match
from iosweep.analysis.summary import summarize, summarize_campaign
from iosweep.tables.make import make_tables
from iosweep.tables.reader import ResultRow, load
from measure import IOSWEEP, CannotRun, Row, Size, child

#: Smallest changes that matter, which campaigns are compared with.
_AT_LEAST = (AT_LEAST, 0.05, 0.10)
#: How often the repetitions of all campaigns are dealt out to as many others.
_DEALS = 20

#: Points of the same sweep differ less than their repetitions do, as on a plateau, so that the best is often another.
SWEEPS = (
    {
        "tool": "fio",
        "phases": ["rand_read"],
        "axes": {"queue_depth": [16, 32, 64, 96]},
        "options": {"file_size": "64m", "transfer_size": "4k", "threads_per_node": 2},
        "phase_time": "1s",
        "repetitions": 5,
        "confirm": 3,
    },
    {
        "tool": "fio",
        "phases": ["seq_write"],
        "axes": {"transfer_size": ["1m", "2m"]},
        "options": {"file_size": "64m", "threads_per_node": 2, "queue_depth": 2},
        "phase_time": "1s",
        "repetitions": 5,
        "confirm": 3,
    },
)
#: Two 95 % intervals of independent samples of one normal distribution exclude each other in less than 1 % of
#: pairs; what is more than this comes from choosing the best of several, and from drift.
BUDGET = 0.02


@dataclass(frozen=True)
class Told:
    """What the report of a campaign says of a phase: its best figure, with its 95 % interval, in the column's unit."""

    figure: float
    low: float
    high: float
    verdict: str
    point: str

    def excludes(self, other: Told) -> bool:
        """Whether the two intervals have no value in common."""
        return self.low > other.high or other.low > self.high


def run(size: Size, work: Path) -> Iterator[Row]:
    """A row for each phase, and one for both."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH")
    told: dict[str, list[Told]] = {}
    measured: list[Sequence[ResultRow]] = []
    for number in range(size.identical):
        results = _campaign(size, work, f"identical-{number + 1}")
        measured.append(load(results).rows)
        for phase, one in _headlines(results).items():
            told.setdefault(phase, []).append(one)
    excluded, pairs = 0, 0
    for phase, found in told.items():
        row, wrong, of = _row(phase, found)
        excluded, pairs = excluded + wrong, pairs + of
        yield row
    share = excluded / pairs
    yield Row(
        "identical", "headlines that exclude each other", f"{pairs} pairs", f"{excluded}, {share:.1%}",
        budget=f"≤ {BUDGET:.0%}", met=share <= BUDGET,
    )  # fmt: skip
    draw = Random(1)
    yield from _compared("each a session of its own", [measured])
    yield from _compared(
        "repetitions of several sessions in each", [_dealt(measured, draw) for _ in range(_DEALS)], ALPHA
    )


def _dealt(measured: Sequence[Sequence[ResultRow]], draw: Random) -> list[list[ResultRow]]:
    """As many campaigns of the same repetitions, dealt out at random, each with as many as before: as if all had been
    measured in turn, so that what differs between sessions is noise of each."""
    dealt: list[list[ResultRow]] = [[] for _ in measured]
    for repetition in sorted({row.repetition or 0 for rows in measured for row in rows}):
        for place, rows in zip(draw.sample(dealt, len(dealt)), measured, strict=True):
            place += [row for row in rows if row.repetition == repetition]
    return dealt


def _compared(what: str, deals: Sequence[Sequence[Sequence[ResultRow]]], budget: float | None = None) -> Iterator[Row]:
    """How many pairs of campaigns `iosweep compare` finds changed, in whatever direction. deals: sets of campaigns."""
    pairs = [pair for campaigns in deals for pair in combinations(map(summarize, campaigns), 2)]
    for at_least in _AT_LEAST:
        found = [compare(match(*pair), at_least=at_least) for pair in pairs]
        changed = [one.explained for one in found]
        alarms = sum(map(bool, changed))
        largest = max((abs(d.estimate.share) for own in changed for d in own if d.estimate), default=0.0)
        yield Row(
            "identical", f"comparisons that find a change of {at_least:.0%} or more, {what}", f"{len(pairs)} pairs",
            f"{alarms}, {alarms / len(pairs):.1%}" + (f"; the largest is {largest:.1%}" if alarms else ""),
            budget=f"≤ {budget:.0%}" if budget else "", met=alarms / len(pairs) <= budget if budget else None,
        )  # fmt: skip


def _row(phase: str, found: Sequence[Told]) -> tuple[Row, int, int]:
    """The row of a phase; how many pairs exclude each other, and of how many."""
    pairs = list(combinations(found, 2))
    wrong = sum(a.excludes(b) for a, b in pairs)
    middle = fmean(one.figure for one in found)
    width = median((one.high - one.low) / 2 / one.figure for one in found)
    most = max(found, key=lambda one: one.figure).figure / min(found, key=lambda one: one.figure).figure
    holds = sum(one.low <= middle <= one.high for one in found)
    measured = (
        f"{wrong} exclude each other, {wrong / len(pairs):.1%}; ± {width:.1%} (median), highest {most:.2f} × lowest,"
        f" the mean of all inside {holds} of {len(found)}, {len({one.point for one in found})} points are best"
    )
    return Row("identical", phase, f"{len(found)} campaigns, {len(pairs)} pairs", measured), wrong, len(pairs)


def _campaign(size: Size, work: Path, name: str) -> Path:
    """Measure a campaign as Snakemake starts it; returns its results."""
    made = campaigns.planned(work, name, SWEEPS if size.judged else SWEEPS[1:], keep="none")
    plan_file = campaigns.written(made, work, name)
    results = plan_file.parent.parent
    command = [*IOSWEEP, "measure", plan_file, "--allocation", made.allocations[0].name]
    child([*command, "--manifest", results / "m.jsonl", "--log", results / "m.log"], work)
    make_tables(made, results)
    for phase, one in _headlines(results).items():
        shown = f"{one.figure:.4g} ({one.low:.4g} to {one.high:.4g}) {one.verdict}, {one.point}"
        print(f"{name} {phase}: {shown}", file=sys.stderr)
    return results


def _headlines(results: Path) -> dict[str, Told]:
    """Phase -> what the first screen of the report says."""
    campaign = load(results)
    summary = summarize_campaign(campaign)
    found = {}
    for phase in dict.fromkeys(one.phase for one in summary):
        best = headline.find_highest([one for one in summary if one.phase == phase])
        if best and (interval := best.metric.interval):
            told = Told(best.metric.figure, interval.low, interval.high, best.verdict, best.result.point)
            found[phase] = told
    return found
