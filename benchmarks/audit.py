"""The statistics audited: simulated campaigns of known truth, judged as report, accept, compare and history judge them.

Each table asks whether a kind of statement is as certain as iosweep says. A noise makes the logarithms of a campaign's
figures, rounds x points, whose mean is 0: the true figure of every point is 1, unless it lost something.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy
from msgspec import structs
from numpy.random import Generator
from numpy.typing import NDArray

from iosweep.analysis import acceptance, comparison, headline
from iosweep.analysis.comparison import Comparison
from iosweep.analysis.headline import Best
from iosweep.analysis.summary import summarize
from iosweep.config import criteria
from iosweep.config.criteria import Criterion, Threshold
from iosweep.judge import agreement, statistics
from iosweep.judge.agreement import RepeatedFigure
from iosweep.judge.best import reached
from iosweep.judge.statistics import GRADES, Estimate
from iosweep.tables.reader import ResultRow
from iosweep.text import human_count

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/support"))
import results_factory

#: Logarithms of figures.
Logs = NDArray[numpy.float64]
#: (random numbers, standard deviation, rounds, points) -> logarithms, rounds x points.
Noise = Callable[[Generator, float, int, int], Logs]
#: Points of a usual campaign, and of a large one.
POINTS, MANY = 24, 100
#: Repetitions by default: until the interval is narrow.
MIN, MAX, UNTIL = 5, 10, 0.05
#: Goals: intervals and grades that hold, comparisons without a false alarm, decisions that are not wrong on one side.
HOLD, QUIET, RIGHT = 0.94, 0.95, 0.975
#: Standard deviation of sessions.
BETWEEN = 0.05

# Noises


def lognormal(draw: Generator, sd: float, rounds: int, points: int) -> Logs:
    return sd * draw.standard_normal((rounds, points))


def slower(draw: Generator, probability: float, by: float, rounds: int, points: int) -> Logs:
    """Some repetitions are slower by this; the mean is 0."""
    return by * (probability - (draw.random((rounds, points)) < probability))


def autoregressive(draw: Generator, sd: float, rounds: int, points: int, keeps: float = 0.6) -> Logs:
    """Repetitions keep a share of what the one before was off by."""
    logs = lognormal(draw, sd, rounds, points)
    for number in range(1, rounds):
        logs[number] = keeps * logs[number - 1] + math.sqrt(1 - keeps**2) * logs[number]
    return logs


def drift(draw: Generator, sd: float, rounds: int, points: int) -> Logs:
    """All points drift by two standard deviations, up or down."""
    way = numpy.linspace(sd, -sd, rounds) * draw.choice((-1.0, 1.0))
    return lognormal(draw, sd, rounds, points) + way[:, None]


NOISES: Mapping[str, Noise] = {
    "normal": lambda draw, sd, n, k: numpy.log(numpy.maximum(1e-3, 1 + lognormal(draw, sd, n, k))),
    "log-normal": lognormal,
    "unlike points": lambda draw, sd, n, k: lognormal(draw, sd, n, k) * numpy.resize([0.2, 1.0], k),
    "one bad point": lambda draw, sd, n, k: lognormal(draw, 0.01, n, k) * numpy.where(numpy.arange(k), 1, 10),
    "two modes": lambda draw, sd, n, k: sd * draw.choice((-1.0, 1.0), (n, k)) + lognormal(draw, sd / 4, n, k),
    "outliers": lambda draw, sd, n, k: lognormal(draw, sd, n, k) + slower(draw, 0.1, 3 * sd, n, k),
    "rare slow mode": lambda draw, sd, n, k: lognormal(draw, sd, n, k) + slower(draw, 0.05, -math.log(0.7), n, k),
    "AR(1) 0.6": autoregressive,
    "round effects": lambda draw, sd, n, k: lognormal(draw, sd, n, 1) + lognormal(draw, 0.4 * sd, n, k),
    "disturbed rounds": lambda draw, sd, n, k: lognormal(draw, sd, n, k) + slower(draw, 0.1, 3 * sd, n, 1),
    "drift": drift,
    "session effect": lambda draw, sd, n, k: lognormal(draw, sd, n, k) + draw.normal(0, sd),
}
#: Nothing is promised of these, because the repetitions of a campaign cannot know.
UNKNOWABLE = ("rare slow mode", "AR(1) 0.6", "drift", "session effect")

# Campaigns

_ROW = results_factory.row(nodes=1, o_direct=True, host="n1", hosts="n1")
#: The true figure.
TRUE = 1000.0


def rows(logs: Logs, name: str = "", first: int = 1, **parameters: Any) -> list[ResultRow]:
    """The rows of a campaign. logs: sessions x rounds x points; name: of its sessions; first: its first repetition."""
    made = []
    for point in range(logs.shape[2]):
        place = _ROW.parameters | {"threads_per_node": 1 << point // 4, "queue_depth": 1 << point % 4} | parameters
        key = f"{'-'.join(map(str, parameters.values()))}{point:03}"
        for number, log in enumerate(logs[:, :, point].flat):
            session, figures = f"{name}{number // logs.shape[1]}", {"ops_per_s": TRUE * math.exp(log)}
            where = {"point": key, "parameters": place, "session": session, "repetition": first + number}
            made.append(structs.replace(_ROW, figures=figures, **where))
    return made


def find_best(made: Sequence[ResultRow]) -> Best:
    best = headline.find_highest(summarize(made))
    assert best is not None
    return best


def confirm(made: Sequence[ResultRow], fresh: Logs, session: str = "") -> list[ResultRow]:
    """The rows that confirm the best point. fresh: rounds x points."""
    best = find_best(made).result.point
    return [structs.replace(row, confirms=True) for row in rows(fresh[None], session, first=101) if row.point == best]


def estimate(figures: Sequence[Sequence[float]]) -> list[Estimate]:
    """Each point of a campaign, with its interval."""
    repeated = [RepeatedFigure(("fio", 1), "rand_read", {("", i): v for i, v in enumerate(own)}) for own in figures]
    return [one for one in agreement.estimates(repeated) if one]


def until_narrow(logs: Logs) -> list[list[float]]:
    """Each point's figures as the runner repeats them: in rounds, until its interval is narrow."""
    figures, numbers = numpy.exp(logs).T.tolist(), [MIN] * logs.shape[1]
    while True:
        repeated = [values[:n] for values, n in zip(figures, numbers, strict=True)]
        wide = [i for i, one in enumerate(estimate(repeated)) if one.half_width_share > UNTIL]
        if not (wide := [i for i in wide if numbers[i] < MAX]):
            return repeated
        for i in wide:
            numbers[i] += 1


# Tables


#: A figure, and whether it meets the goal.
Found = tuple[str, bool]


@dataclass(frozen=True)
class Case:
    """A line of a table. judge: number of campaigns -> figures."""

    what: str
    judge: Callable[[int], Iterator[Found]]
    goal: str = ""


class Share:
    """A share of statements, with its standard error over campaigns. counts: of each campaign (those that hold, all)"""

    def __init__(self, counts: Sequence[tuple[float, float]]):
        held, made = numpy.array(counts, float).T
        self.made = made.sum()
        self.value = held.sum() / max(1, self.made)
        self.error = math.sqrt(((held - self.value * made) ** 2).sum()) / max(1, self.made)

    def reaches(self, goal: float) -> bool:
        """Whether it is at least the goal, but for chance."""
        return bool(self.value + 2 * self.error >= goal)


def share(held: Sequence[float]) -> Share:
    """Of one statement for each campaign."""
    return Share([(one, 1) for one in held])


def seed(*words: object) -> Generator:
    return numpy.random.default_rng(crc32(repr(words).encode()))


def coverage() -> Iterator[Case]:
    """The share of intervals that hold the true figure, and of grades that are true (it is within 5, 10, 20 %): the
    worst of three standard deviations, and in brackets the worst grade that 1 % of the points or more have."""
    for points in (POINTS, MANY):
        for name in NOISES:
            goal = "" if name in UNKNOWABLE else f"≥ {HOLD}"
            yield Case(f"{name}, {points} points", partial(_cover, name, points), goal)


def _cover(name: str, points: int, campaigns: int) -> Iterator[Found]:
    campaigns = math.ceil(campaigns * POINTS / points)
    for n in (3, 5, 10, None):
        worst: dict[str, Share] = {}
        for sd in (0.02, 0.05, 0.10):
            draw = seed(name, points, n, sd)
            counts = [_count_true(NOISES[name](draw, sd, n or MAX, points), n, name) for _ in range(campaigns)]
            for kind in ("all", *_GRADES):
                found = Share([(held[kind], made[kind]) for held, made in counts])
                seldom = found.made < 0.01 * sum(made["all"] for _, made in counts)
                if not seldom and (kind not in worst or found.value < worst[kind].value):
                    worst[kind] = found
        grade = min((kind for kind in worst if kind != "all"), key=lambda kind: worst[kind].value, default="")
        text = f"{worst['all'].value:.3f}{f' ({grade} {worst[grade].value:.3f})' if grade else ''}"
        yield f"{n or f'{MIN}-{MAX}'}: {text}", all(one.reaches(HOLD) for one in worst.values())


_GRADES: Mapping[str, float] = dict(GRADES)


def _count_true(logs: Logs, n: int | None, name: str) -> tuple[Counter[str], Counter[str]]:
    """(all, and each grade -> the points for which it is true; all of its points). Of one bad point, only that one."""
    found = estimate(numpy.exp(logs).T.tolist() if n else until_narrow(logs))
    held, made = Counter[str](), Counter[str]()
    for one in found[:1] if name == "one bad point" else found:
        if one.tells:
            made["all"] += 1
            held["all"] += not one.excludes(1)
        if grade := statistics.grade(one):
            made[grade] += 1
            held[grade] += abs(math.log(one.center)) <= math.log1p(_GRADES[grade])
    return held, made


def headlines() -> Iterator[Case]:
    """The share of intervals beside a headline that hold the true figure, how much too high it is, and the share of
    campaigns that call any point worse. All points are equal, which is the worst case."""
    goal = f"≥ {HOLD}, ≤ {1 - QUIET:.0%}"
    for points in (POINTS, MANY):
        for fresh in (0, 3, 5):
            how = f"confirmed by {fresh}" if fresh else "not confirmed"
            yield Case(f"best of {points}, {how}", partial(_headlines, "log-normal", points, fresh), goal)
    for name in ("two modes", "round effects"):
        yield Case(f"{name}, best of {POINTS}, not confirmed", partial(_headlines, name, POINTS, 0), goal)


def _headlines(name: str, points: int, fresh: int, campaigns: int) -> Iterator[Found]:
    for sd, n in ((0.05, 3), (0.10, 3), (0.10, 5), (0.05, 10)):
        draw, held, high, quiet = seed(name, points, fresh, sd, n), [], [], []
        for _ in range(campaigns):
            logs = NOISES[name](draw, sd, n + fresh, points)
            chose = rows(logs[None, :n])
            best = find_best([*chose, *(confirm(chose, logs[n:]) if fresh else ())])
            high.append(math.log(best.metric.figure / TRUE))
            interval = best.metric.interval
            held.append((interval is not None and not interval.excludes(TRUE), interval is not None))
            quiet.append(len(best.alike) == best.of - 1)
        found, apart = Share(held), share(quiet)
        shown = f" of {found.made / campaigns:.0%} shown" if found.made < campaigns else ""
        text = f"{sd:.0%}, {n}: {found.value:.3f}{shown} {numpy.mean(high):+.1%}, worse {1 - apart.value:.1%}"
        yield text, found.reaches(HOLD) and apart.reaches(QUIET)


# Two systems


@dataclass(frozen=True)
class Design:
    """How two systems are measured. sessions, rounds: of each; paired: in adjacent runs of the same sessions."""

    what: str
    sessions: int
    rounds: int
    paired: bool = False

    def draw(self, draw: Generator, noise: Noise, sd: float, between: float = BETWEEN, interaction: float = 0) -> Logs:
        """2 equal systems x sessions x rounds x points. between: standard deviation of sessions; interaction: of what a
        session does to the second system alone."""
        logs = [[noise(draw, sd, self.rounds, POINTS) for _ in range(self.sessions)] for _ in range(2)]
        found = numpy.array(logs) + draw.normal(0, between, (1 if self.paired else 2, self.sessions, 1, 1))
        found[1] += draw.normal(0, interaction, (self.sessions, 1, 1))
        return found

    def compare(self, logs: Logs) -> Comparison:
        """The second system against the first."""
        if self.paired:
            made = [row for side, name in zip(logs, "ab", strict=True) for row in rows(side, target=name)]
            return comparison.compare(comparison.match_over(summarize(made), "target", "a", "b"))
        a, b = (summarize(rows(side, name)) for side, name in zip(logs, "ab", strict=True))
        return comparison.compare(comparison.match(a, b))


DESIGNS = (
    Design("15 + 15 rounds in two sessions", 1, 15),
    Design("4 + 4 sessions of 4 rounds", 4, 4),
    Design("5 + 5 sessions of 3 rounds", 5, 3),
    Design("side by side, 3 sessions of 5 rounds", 3, 5, paired=True),
)


def alarms() -> Iterator[Case]:
    """The share of comparisons of equal systems that say worse or better, and that say `differs`. Sessions differ."""
    short = [Design(f"{n} + {n} rounds in two sessions", 1, n) for n in (3, 5)]
    one = Design("side by side, 1 session of 5 rounds", 1, 5, paired=True)
    for design in (*short, *DESIGNS, one):
        for name, sd, interaction in (
            *(("log-normal", sd, 0.0) for sd in (0.02, 0.10)),
            *((name, 0.05, 0.0) for name in ("round effects", "disturbed rounds", "drift", "rare slow mode")),
            *([("log-normal", 0.02, 0.01)] if design.paired else []),
        ):
            what = f"{design.what}: {name}, {sd:.0%}{', interaction 1%' if interaction else ''}"
            yield Case(what, partial(_alarms, design, name, sd, interaction), f"≤ {1 - QUIET:.0%}")


def _alarms(design: Design, name: str, sd: float, interaction: float, campaigns: int) -> Iterator[Found]:
    draw = seed(design, name, sd, interaction)
    drawn = (design.draw(draw, NOISES[name], sd, interaction=interaction) for _ in range(campaigns))
    told = [{diff.verdict for diff in design.compare(logs).explained} for logs in drawn]
    quiet = share([not verdicts & {"worse", "better"} for verdicts in told])
    differ = share(["differs" in verdicts for verdicts in told])
    yield f"{1 - quiet.value:.1%}" + (f", differs {differ.value:.1%}" if differ.value else ""), quiet.reaches(QUIET)


def one_loss() -> Iterator[Case]:
    """How often the loss of 15 % of a point is found whose repetitions scatter by 0.5 %, beside 23 of 10 %."""
    for n in (3, 4, 5, 10):
        for design in (Design("two campaigns", 1, n), Design("side by side", 1, n, paired=True)):
            yield Case(f"{design.what}, n = {n}", partial(_one_loss, design), "100 %")


def _one_loss(design: Design, campaigns: int) -> Iterator[Found]:
    draw, found = seed(design), []
    for _ in range(campaigns):
        logs = design.draw(draw, lognormal, 0.10, between=0)
        logs[..., 0] *= 0.05
        found.append(design.compare(_lose(logs, 0.15, 0)).singles[0].changed)
    yield f"{share(found).value:.1%}", all(found)


#: The largest loss that is tried.
MAX_LOSS = 0.4


def power() -> Iterator[Case]:
    """The smallest losses of a phase and of a point that are found with 80 % power, with 30 runs of a point."""
    for design in DESIGNS:
        for sd in (0.02, 0.10):
            goal = 0.035 if design.paired and sd == 0.02 else math.inf
            what = f"{design.what}, noise {sd:.0%}"
            yield Case(what, partial(_power, design, sd, goal), f"phase ≤ {goal:.1%}" if goal < 1 else "")


def _power(design: Design, sd: float, goal: float, campaigns: int) -> Iterator[Found]:
    draw = seed(design, sd)
    drawn = [design.draw(draw, lognormal, sd) for _ in range(math.ceil(campaigns / 4))]
    for what, point in (("phase", None), ("point", 0)):
        low, high = 0.0, MAX_LOSS
        while high - low > 0.002:
            loss = (low + high) / 2
            compared = (design.compare(_lose(logs, loss, point)) for logs in drawn)
            found = [one.groups[0].changed if point is None else one.singles[point].changed for one in compared]
            low, high = (low, loss) if share(found).value >= 0.8 else (loss, high)
        text = f"{high:.1%}" if high < MAX_LOSS else f"> {MAX_LOSS:.0%}"
        yield f"{what} {text}", point is not None or high <= goal


def _lose(logs: Logs, loss: float, point: int | None) -> Logs:
    """The second system loses a share of a point; None: of all points."""
    lost = logs.copy()
    lost[1, ..., slice(None) if point is None else point] += math.log1p(-loss)
    return lost


# Looks again and again

#: Nights without a change, and those that a loss has to be found in; the night before the loss of 10 %.
NIGHTS, LATER, BEFORE = 30, 30, 20


def nights() -> Iterator[Case]:
    """The share of histories with a false change of any headline in 30 nights, looked at every night, and the median of
    nights until a loss of one headline is found. All headlines of a night are alike but for 2 %."""
    for headlines in (1, 8):
        for keeps in (0.0, 0.5):
            what = f"{human_count(headlines, 'headline')}, sessions AR(1) {keeps:g}"
            yield Case(what, partial(_nights, headlines, keeps), f"≤ {1 - QUIET:.0%}")


def _nights(headlines: int, keeps: float, histories: int) -> Iterator[Found]:
    draw, quiet, delays = seed(headlines, keeps), [], []
    for _ in range(histories):
        logs = autoregressive(draw, BETWEEN, NIGHTS + LATER, 1, keeps)
        logs = logs + lognormal(draw, 0.02, *logs.shape[:1], headlines)
        quiet.append(not any(_find_changes(logs[:night]) for night in range(6, NIGHTS + 1)))
        logs[BEFORE:, 0] += math.log(0.9)
        found = (night - BEFORE for night in range(BEFORE + 1, len(logs) + 1) if 0 in _find_changes(logs[:night], -1))
        delays.append(next(found, math.inf))
    yield f"{1 - share(quiet).value:.1%}, delay {numpy.median(delays):.0f}", share(quiet).reaches(QUIET)


def _find_changes(logs: Logs, sign: int = 0) -> set[int]:
    """The headlines with a change. sign: -1: with a loss."""
    shifts = statistics.level_shifts({str(i): dict(enumerate(row)) for i, row in enumerate(logs.T.tolist())})
    return {int(name) for shift in shifts if shift.ratio.log * sign >= 0 for name in shift.names}


#: Sessions, after each of which a criterion is looked at, and the share of campaigns that decide right over all looks.
LOOKS, RIGHT_OFTEN = 4, 0.95


@dataclass(frozen=True)
class Form:
    """What a criterion asks for. points: that compete; confirmed: by five fresh repetitions; sides: of a ratio."""

    what: str
    points: int = 1
    confirmed: bool = False
    sides: int = 1
    figure: str = "read_iops"


_RATIO = "rand_read scaling nodes 1 -> 2"
FORMS = (
    Form("a point, alone"),
    Form("a point of 24", POINTS, figure="rand_read at threads_per_node 1, queue_depth 1"),
    Form("best of 24, not confirmed", POINTS),
    Form("best of 24, confirmed", POINTS, confirmed=True),
    Form("ratio of two points", sides=2, figure=_RATIO),
    Form("ratio, best of 24 pairs", POINTS, sides=2, figure=_RATIO),
)


def accept() -> Iterator[Case]:
    """Wrong decisions (pass / fail) where the true figure is the threshold: after one session of five repetitions, and
    after each of four until it is decided; and right decisions where it is 5 % away."""
    for form in FORMS:
        for name in ("log-normal", "outliers", "two modes"):
            goal = f"≤ {1 - RIGHT:.1%} each, then ≤ {1 - RIGHT_OFTEN:.0%}"
            yield Case(f"{form.what}: {name}, 5 %", partial(_accept, form, name), goal)


def _accept(form: Form, name: str, campaigns: int) -> Iterator[Found]:
    draw, ends = seed(form, name), []
    for _ in range(campaigns):
        made: list[ResultRow] = []
        looks = []
        for number in map(str, range(LOOKS)):
            for nodes in range(1, form.sides + 1):
                made += rows(NOISES[name](draw, 0.05, MIN, form.points)[None], number, nodes=nodes)
            if form.confirmed:
                chose = [row for row in made if not row.confirms]
                made += confirm(chose, NOISES[name](draw, 0.05, MIN, form.points), number)
            looks.append(_decide(form, made))
        decided = (next((one for one in outcomes if one != "undecided"), "") for outcomes in zip(*looks, strict=True))
        ends.append((looks[0][0], *decided))
    wrong = [share([end[how] != outcome for end in ends]) for how in (0, 1) for outcome in ("pass", "fail")]
    once, often = (" / ".join(f"{1 - one.value:.1%}" for one in pair) for pair in (wrong[:2], wrong[2:]))
    right = share([end[2] == "pass" for end in ends])
    met = all(one.reaches(goal) for one, goal in zip(wrong, (RIGHT, RIGHT, RIGHT_OFTEN, RIGHT_OFTEN), strict=True))
    yield f"once {once}, often {often}, right {right.value:.0%}", met


def _decide(form: Form, made: Sequence[ResultRow]) -> tuple[str, str]:
    """Outcomes with the threshold at the true figure, and 5 % below it."""
    selector, (true, unit) = criteria.parse_selector(form.figure), (1.0, "x") if form.sides > 1 else (TRUE, "IOPS")
    wanted = [
        Criterion(name="c", selector=selector, threshold=Threshold(comparison=">=", amount=amount * true, unit=unit))
        for amount in (1.0, 0.95)
    ]
    at, below = acceptance.decide(results_factory.loaded(made), summarize(made), wanted)
    return at.outcome, below.outcome


# Ramps

_STEPS = 12
#: Curve -> its true rate at each step of a ramp; the depths of a queue are powers of 2.
CURVES: Mapping[str, Sequence[float]] = {
    "knee at step 4": [min(2.0**i, 8) for i in range(_STEPS)],
    "smooth saturation": [2.0**i / (2.0**i + 16) for i in range(_STEPS)],
    "4 % a step": [1.04**i for i in range(_STEPS)],
    "5 % a step": [1.05**i for i in range(_STEPS)],
    "flat, then doubled": [1.0] * 6 + [2.0] * 6,
    "dip": [1, 2, 4, 8, 6, 6, 8, 12, 12, 12, 12, 12],
    "late knee": [1, 1, 1, 1, 1, 1, 1, 1, 1.5, 2, 2, 2],
    "hill, then half": [1, 1, 1, 1, 1, 2, 4, 4, 4, 3, 2, 2],
    "hill, then as before": [1, 1, 1, 1, 1, 2, 4, 4, 4, 2, 1, 1],
}
#: A step with this share of the peak is as good; the peak may be left out in this share of ramps.
AS_GOOD, LEFT_OUT = 0.95, 0.03


def ramps() -> Iterator[Case]:
    """The share of ramps that measure no step as good as the peak, and the share of the full sweep's runs that is
    saved, by noise and repetitions."""
    for name in CURVES:
        seen = name != "hill, then as before"  # no ramp can see that
        yield Case(name, partial(_ramps, name), f"≤ {LEFT_OUT:.0%}" if seen else "")


def _ramps(name: str, campaigns: int) -> Iterator[Found]:
    truth = CURVES[name]
    good = [i for i, rate in enumerate(truth) if rate >= AS_GOOD * max(truth)]
    for sd, repetitions in product((0.02, 0.05, 0.10), (1, 3, 5)):
        draw = seed(name, sd, repetitions)
        climbs = [_climb(truth, sd, repetitions, draw) for _ in range(campaigns)]
        seen = share([any(figures[i] for i in good) for figures in climbs])
        saved = 1 - sum(len(of) for figures in climbs for of in figures) / (campaigns * _STEPS * repetitions)
        yield f"{sd:.0%}, {repetitions}: {1 - seen.value:.1%} (saved {saved:.0%})", seen.reaches(1 - LEFT_OUT)


def _climb(truth: Sequence[float], sd: float, repetitions: int, draw: Generator) -> list[list[float]]:
    """The figures of each step. Measures as the runner does: each round has all points that are needed by then."""
    figures: list[list[float]] = [[] for _ in truth]
    while True:
        needed = reached([{"rand_read": values} if values else None for values in figures]).needed
        first = next((i for i in range(needed) if not figures[i]), needed - 1)  # the climb waits for it
        open_ = [i for i in {*range(first + 1), _STEPS - 1} if len(figures[i]) < repetitions]
        if not open_:
            return figures
        number = min(len(figures[i]) for i in open_)
        for i in open_:
            if len(figures[i]) == number:
                figures[i].append(truth[i] * math.exp(draw.normal(0, sd)))


TABLES: Mapping[str, Callable[[], Iterator[Case]]] = {
    "coverage": coverage,
    "headlines": headlines,
    "one-loss": one_loss,
    "alarms": alarms,
    "power": power,
    "nights": nights,
    "accept": accept,
    "ramps": ramps,
}


def judge(campaigns: int, case: Case) -> list[Found]:
    return list(case.judge(campaigns))


def main() -> int:
    """Print the tables as Markdown. Exit code 1 where a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="*", default=list(TABLES), help=f"{', '.join(TABLES)}; default: all")
    parser.add_argument(
        "--campaigns", type=int, default=20, help="behind each figure; default: 20; 400 take ten minutes"
    )
    arguments = parser.parse_args()
    missed = False
    with ProcessPoolExecutor(2) as pool:
        for table in arguments.table:
            cases = list(TABLES[table]())
            about = " ".join((TABLES[table].__doc__ or "").split())
            print(f"\n{about}\n\n| {table} | found | goal | met |\n|---|---|---|---|")
            for case, found in zip(cases, pool.map(partial(judge, arguments.campaigns), cases), strict=True):
                texts, met = zip(*found, strict=True)
                missed |= bool(case.goal) and not all(met)
                verdict = "" if not case.goal else "yes" if all(met) else "NO"
                print(f"| {case.what} | {', '.join(texts)} | {case.goal} | {verdict} |", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
