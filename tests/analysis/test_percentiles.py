"""A percentile of several repetitions is that of all their I/Os together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from math import exp, log
from statistics import NormalDist

import pytest

from iosweep.analysis.summary import Metric, summarize
from iosweep.histograms import FACTOR, Histogram, bin_of
from iosweep.tables.reader import ResultRow, RowKey
from results_factory import row

P99 = "latency_p99_s"
#: Standard normal deviate of the 99th percentile.
Z99 = NormalDist().inv_cdf(0.99)


def spread(median_s: float, ios: int = 100_000, sigma: float = 0.4) -> Histogram:
    """A log-normal distribution of latencies."""
    normal = NormalDist(log(median_s * 1e9), sigma)
    first = bin_of(exp(normal.mean - 6 * sigma))
    below = [
        ios * normal.cdf(number * log(FACTOR)) for number in range(first - 1, bin_of(exp(normal.mean + 6 * sigma)))
    ]
    return Histogram(first, tuple(round(b) - round(a) for a, b in pairwise(below)))


def measured(
    parts: Sequence[Histogram | None], column: str = P99, percent: float = 99.0, **more: object
) -> Metric | None:
    """A percentile of repetitions with these histograms, or without one."""
    rows: list[ResultRow] = []
    known: dict[RowKey, Histogram] = {}
    for number, part in enumerate(parts, 1):
        found = part.percentiles([percent]) if part else [number * 1e-3]
        values: dict[str, object] = {"latency_mean_s": 1e-3, "session": "a", column: found[0] if found else None}
        rows.append(row(repetition=number, **values | more))
        if part:
            known["p", "rand_read", number] = part
    (result,) = summarize(rows, lambda keys: {key: known[key] for key in keys if key in known})
    return result.metrics.get(column)


def test_it_is_that_of_the_distribution() -> None:
    # medians of 1 and 3 ms, three and one parts of the I/Os: 99 % of all are below x
    low, high = 1e-3, 100e-3
    for _ in range(60):
        x = (low * high) ** 0.5
        below = sum(w * NormalDist(log(m), 0.4).cdf(log(x)) for w, m in ((0.75, 1e-3), (0.25, 3e-3)))
        low, high = (x, high) if below < 0.99 else (low, x)
    found = measured([spread(1e-3), spread(3e-3), spread(1e-3), spread(1e-3)])
    assert found and found.figure == pytest.approx(low, rel=0.01)


def test_a_slow_mode_decides_the_tail_and_widens_the_interval() -> None:
    found = measured([spread(1e-3), spread(1e-3), spread(20e-3), spread(1e-3), spread(1e-3)])
    assert found and found.figure > 25e-3  # the geometric mean of the repetitions is 4.6 ms
    assert (found.n, found.estimate is None, found.interval, found.grade) == (5, False, None, None)


def test_a_percentile_between_two_modes_has_no_narrow_interval() -> None:
    shares = (0.005, 0.005, 0.02, 0.02, 0.02)  # of slow I/Os: 1.4 % of all, 1.25 to 1.6 % without one repetition
    parts = [Histogram.merged([spread(1e-3, round(1e5 * (1 - s))), spread(0.02, round(1e5 * s))]) for s in shares]
    found = measured(parts)
    assert found and found.estimate and found.interval is None


def test_equal_repetitions_have_exactly_their_own_percentile() -> None:
    found = measured([spread(1e-3)] * 3, latency_p99_s=2.5e-3)
    assert found and found.figure == pytest.approx(2.5e-3, rel=1e-12)
    assert found.estimate and found.estimate.center == pytest.approx(found.figure, rel=1e-12)


def test_intervals_hold_what_they_say() -> None:
    draw, misses, campaigns = random.Random(1), 0, 200
    for _ in range(campaigns):
        found = measured([spread(1e-3 * exp(draw.gauss(0, 0.05)), 20_000) for _ in range(5)])
        assert found and found.estimate
        misses += found.estimate.excludes(1e-3 * exp(Z99 * (0.4**2 + 0.05**2) ** 0.5))
    assert misses <= 0.08 * campaigns


def test_repetitions_with_few_ios_count_and_a_percentile_of_few_is_left_out() -> None:
    few = measured([spread(1e-3, 400)] * 3)  # none of them has 10 I/Os above it, all together have 12
    assert few and few.n == 3
    stalled = measured([spread(1e-3), spread(1e-3), spread(5e-3, 400)])
    assert stalled and stalled.n == 3 and stalled.high > 2 * stalled.low
    assert measured([spread(1e-3, 300)] * 3) is None


@pytest.mark.parametrize(
    ("parts", "column", "figure"),
    [
        ([None, None, None], P99, 6e-9 ** (1 / 3)),  # the geometric mean of 1, 2 and 3 ms
        ([None], P99, 1e-3),
        ([spread(1e-3)] * 3, "completion_latency_p99_s", None),  # no histogram has these
    ],
)
def test_without_histograms_it_is_the_mean_of_the_repetitions(
    parts: Sequence[Histogram | None], column: str, figure: float | None
) -> None:
    found = measured(parts, column)
    own = spread(1e-3).percentile(99)
    assert found and found.figure == pytest.approx(figure or own)
