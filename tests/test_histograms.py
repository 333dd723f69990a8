"""Histograms of latencies in logarithmic bins."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.histograms import FACTOR, LAST_BIN_NS, Histogram, bin_of

LATENCIES = st.lists(st.integers(0, 10**12), min_size=1, max_size=60)


def of(latencies: list[int]) -> Histogram:
    counts: dict[int, int] = {}
    for one in latencies:
        counts[bin_of(one)] = counts.get(bin_of(one), 0) + 1
    found = Histogram.of_bins(counts)
    assert found
    return found


@given(st.integers(1, 2**62))
def test_a_latency_is_in_its_bin(latency_ns: int) -> None:
    number = bin_of(latency_ns)
    assert FACTOR ** (number - 1) * (1 - 1e-6) <= latency_ns <= FACTOR**number * (1 + 1e-6)


@given(LATENCIES, LATENCIES)
def test_sums_are_exact(some: list[int], others: list[int]) -> None:
    assert Histogram.merged([of(some), of(others)]) == of(some + others)


@given(LATENCIES, st.floats(1, 99))
def test_a_percentile_is_within_a_bin_of_the_latency(latencies: list[int], percent: float) -> None:
    found = of(latencies).percentile(percent)
    exact = sorted(latencies)[max(0, math.ceil(percent / 100 * len(latencies) - 1e-9) - 1)]
    assert max(exact, 1) / FACTOR * 0.999 <= found * 1e9 <= max(exact, 1) * FACTOR * 1.001


def test_percentiles_end_where_few_are_beyond_and_in_the_last_bin_of_fio() -> None:
    assert len(of([100] * 800 + [LAST_BIN_NS] * 200).percentiles([50, 79, 81])) == 2
    assert [len(of([100] * n).percentiles([50, 99, 99.9])) for n in (999, 1000, 10_000)] == [1, 2, 3]


@given(LATENCIES, LATENCIES)
def test_a_sum_without_a_part_is_the_other_part(some: list[int], others: list[int]) -> None:
    total = Histogram.merged([of(some), of(others)])
    rest = total.without(of(others)) if total else None
    assert rest and Histogram.of_bins(dict(enumerate(rest.counts, rest.first))) == of(some)


def test_nothing_has_no_histogram() -> None:
    assert Histogram.of_bins({}) is Histogram.of_bins({3: 0}) is Histogram.merged([]) is None


def test_it_is_read_as_it_was_written_and_nothing_else_is() -> None:
    one = of([90_000, 110_000, 2_000_000])
    assert Histogram.of_table(one.lowest_s, FACTOR, one.counts) == one
    wrong: list[tuple[float, float, list[float | None]]] = [
        (0.0, FACTOR, [1.0]), (1e-6, 2.0, [1.0]), (1e-6, FACTOR, [-1.0]), (1e-6, FACTOR, [None]), (1e-6, FACTOR, []),
    ]  # fmt: skip
    for lowest_s, factor, counts in wrong:
        with pytest.raises(ValueError, match="do not write"):
            Histogram.of_table(lowest_s, factor, counts)
