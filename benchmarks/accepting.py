"""How often criteria of acceptance are wrong, and how much better than the threshold a figure has to be to pass.

    python benchmarks/accepting.py [--campaigns 1000] [--only TEXT]

Each campaign has one phase, whose true figure is known. Criteria ask it for thresholds below, at and above that, and
are decided by iosweep's own code from the rows of its table. A pass at the threshold, or above it, is a false one, and
so is a fail at the threshold or below it. Promised is that neither is more than 2.5 %; not of five repetitions of a
lone point with two modes, which in 6 % of campaigns are all in the same one. Points of a headline are all
alike, which is the worst case. `decided by n`: of the campaigns that are undecided 3 % from the threshold and name 100
repetitions or fewer that would decide, the median of these, and the share that is decided once there are so many.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from statistics import median

from msgspec import structs

import coverage
from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision
from iosweep.analysis.summary import summarize
from iosweep.config import criteria
from iosweep.config.criteria import Criterion, Threshold
from iosweep.tables.columns import result_columns
from iosweep.tables.reader import Campaign, CampaignDocument, ResultRow, TargetDirectory, read_row

#: Thresholds as shares of the true figure: below it a pass is right, above it a fail.
THRESHOLDS = (0.90, 0.95, 0.98, 1.0, 1.02, 1.05, 1.10)
#: Cases that ask how many repetitions would decide.
NEAR = 0.97
PROMISED = 0.025
TRUE = 1000.0
REPETITIONS = 5


@dataclass(frozen=True)
class Form:
    """What a criterion asks for. points: that compete; confirmed: by so many repetitions; scaling: of two points."""

    what: str
    points: int = 1
    confirmed: int = 0
    scaling: bool = False
    figure: str = "read_iops"


FORMS = (
    Form("a point, alone"),
    Form("a point of 24", 24, figure="rand_read at threads_per_node 1"),
    Form("headline, best of 24, not confirmed", 24),
    Form("headline, best of 24, confirmed by 3", 24, 3),
    Form("headline, best of 24, confirmed by 5", 24, 5),
    Form("scaling, two points alone", scaling=True, figure="rand_read scaling nodes 1 -> 2"),
)
NOISES = (
    *((coverage.lognormal, sd) for sd in (0.02, 0.05, 0.10)),
    (coverage.two_modes, 0.05),
    (coverage.outliers, 0.05),
)
#: The most repetitions of points whose criteria say how many would decide.
MOST = 100

_BLANK = dict.fromkeys(column.name for column in result_columns())
_ROW = read_row(
    _BLANK
    | {"point": "p", "phase": "rand_read", "kind": "data", "tool": "fio", "metric": "ops_per_s", "sweeps": "s"}
    | {"verdict": "valid", "nodes": 1, "o_direct": True, "threads_per_node": 1}
)

_ABOUT = CampaignDocument(
    campaign="accepting", made=datetime.now(UTC), iosweep_version="", plan_digest="", seed=0,
    target=TargetDirectory("/"), limits={}, sweeps=(), configuration=(), jobs=(), results_of_nodes={},
    builds={}, tables={},
)  # fmt: skip


def campaign(
    draw: Random, form: Form, noise: coverage.Noise, sd: float, repetitions: int = REPETITIONS
) -> list[ResultRow]:
    """The rows of a campaign, whose figures have the true mean TRUE, of a scaling the true ratio 1."""
    sides = 2 if form.scaling else 1
    rows = []
    for side in range(sides):
        figures, truth = _drawn(draw, noise, sd, form.points, repetitions)
        for point, (own, true) in enumerate(zip(figures, truth, strict=True)):
            name = f"p{side}-{point:02}"
            values = {"nodes": side + 1, "threads_per_node": point + 1}
            rows += [_row(name, values, number, TRUE * value / true) for number, value in enumerate(own, 1)]
    if form.confirmed:
        results = summarize(rows)
        best = max(results, key=lambda one: one.metrics["ops_per_s"].mean)
        figures, truth = _drawn(draw, noise, sd, 1, form.confirmed)
        fresh = [_row(best.point, best.parameters, 100 + n, TRUE * v / truth[0]) for n, v in enumerate(figures[0])]
        rows += [structs.replace(one, confirms=True) for one in fresh]
    return rows


def _drawn(
    draw: Random, noise: coverage.Noise, sd: float, points: int, repetitions: int
) -> tuple[list[list[float]], list[float]]:
    """The noise makes coverage.MOST repetitions at once."""
    found: list[list[float]] = [[] for _ in range(points)]
    truth = [1.0] * points
    while len(found[0]) < repetitions:
        more, truth = noise(draw, sd, points)
        for own, new in zip(found, more, strict=True):
            own += new
    return [own[:repetitions] for own in found], truth


def _row(point: str, values: object, repetition: int, figure: float) -> ResultRow:
    parameters = _ROW.parameters | (values if isinstance(values, dict) else {})
    return structs.replace(
        _ROW, point=point, repetition=repetition, parameters=parameters, figures={"ops_per_s": figure}
    )


def first(rows: Sequence[ResultRow], repetitions: int) -> list[ResultRow]:
    """So many repetitions of each point, and those that confirm."""
    return [one for one in rows if one.confirms or (one.repetition or 0) <= repetitions]


def decide(rows: Sequence[ResultRow], form: Form, thresholds: Sequence[float]) -> list[Decision]:
    selector, unit = criteria.parse_selector(form.figure), "x" if form.scaling else "IOPS"
    true = 1.0 if form.scaling else TRUE
    wanted = [
        Criterion(name="c", selector=selector, threshold=Threshold(comparison=">=", amount=share * true, unit=unit))
        for share in thresholds
    ]
    return acceptance.decide(Campaign(tuple(rows), (), (), _ABOUT), summarize(rows), wanted)


@dataclass(frozen=True)
class Shares:
    """A row of the table. outcomes: threshold -> outcome -> share of the campaigns."""

    form: Form
    noise: str
    outcomes: dict[float, dict[str, float]]
    needed: int | None
    decided: float | None

    @property
    def false_pass(self) -> float:
        return max(self.outcomes[share]["pass"] for share in THRESHOLDS if share >= 1)

    @property
    def false_fail(self) -> float:
        return max(self.outcomes[share]["fail"] for share in THRESHOLDS if share <= 1)


def simulate(form: Form, noise: coverage.Noise, sd: float, campaigns: int) -> Shares:
    draw = Random(f"{form.what} {noise.__name__} {sd}")
    counts: dict[float, Counter[str]] = {share: Counter() for share in THRESHOLDS}
    needed: list[int] = []
    decided = 0
    for _ in range(campaigns):
        known = campaign(draw, form, noise, sd, MOST if form.points == 1 else REPETITIONS)
        *found, near = decide(first(known, REPETITIONS), form, (*THRESHOLDS, NEAR))
        for share, one in zip(THRESHOLDS, found, strict=True):
            counts[share][one.outcome] += 1
        if form.points == 1 and near.repetitions and near.repetitions <= MOST:
            needed.append(near.repetitions)
            [again] = decide(first(known, near.repetitions), form, [NEAR])
            decided += again.outcome != "undecided"
    shares = {share: {o: own[o] / campaigns for o in ("pass", "fail", "undecided")} for share, own in counts.items()}
    many = len(needed) >= 20
    return Shares(
        form,
        f"{noise.__name__.replace('_', ' ')}, {100 * sd:g} %",
        shares,
        round(median(needed)) if many else None,
        decided / len(needed) if many else None,
    )


def rows(campaigns: int, only: str = "") -> Iterator[Shares]:
    for form in (form for form in FORMS if only in form.what):
        for noise, sd in NOISES:
            yield simulate(form, noise, sd, campaigns)


def main() -> int:
    """Print the table as Markdown. Exit code 1 where a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--only", default="", metavar="TEXT", help="only criteria with this text")
    arguments = parser.parse_args()
    campaigns = arguments.campaigns
    margins = " | ".join(f"{'pass' if share < 1 else 'fail'} at {share:.0%}" for share in THRESHOLDS if share != 1)
    print(f"| criterion | noise | false pass | false fail | {margins} | decided by n |")
    print("|---" * 11 + "|")
    broken = False
    for found in rows(campaigns, arguments.only):
        right = [f"{found.outcomes[share]['pass' if share < 1 else 'fail']:.0%}" for share in THRESHOLDS if share != 1]
        more = f"{found.needed}: {found.decided:.0%}" if found.decided is not None else ""
        wrong = f"{found.false_pass:.1%} | {found.false_fail:.1%}"
        print(f"| {found.form.what} | {found.noise} | {wrong} | {' | '.join(right)} | {more} |", flush=True)
        promised = found.form.points > 1 or not found.noise.startswith("two modes")
        broken |= promised and max(found.false_pass, found.false_fail) > PROMISED
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
