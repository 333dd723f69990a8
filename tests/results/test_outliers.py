"""Outliers among nodes: worked cases, properties for all values, and the error rates of the rule."""

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.results.outliers import Comparison, Measured, Standing, compare


def one(*values: float) -> Comparison:
    """Nodes a, b, c ... with one value each."""
    (found,) = compare(("p", "seq_read", chr(ord("a") + i), value) for i, value in enumerate(values))
    return found


def named(found: Comparison) -> str:
    return "".join(sorted(standing.host for standing in found.standings if standing.outlier))


def test_a_worked_case() -> None:
    # deviations from 100: 0, 2, 2, 4, 30; their median is 2, so 3 x 1.4826 x 2 % = 8.9 %, and 10 % is more
    found = one(100, 98, 102, 104, 70)
    assert (found.median, found.allowed) == (100, 0.10)
    assert found.standings[0] == Standing("e", 70, 0.7, True)
    assert [s.host for s in found.standings] == ["e", "b", "a", "c", "d"]  # the slowest first
    assert named(found) == "e"


def test_allowed_difference_grows_with_the_scatter() -> None:
    # deviations 0, 5, 5, 10, 30 %: three robust standard deviations of 5 % are 22 %
    found = one(100, 95, 105, 110, 70)
    assert found.allowed == pytest.approx(3 * 1.4826 * 0.05)
    assert named(found) == "e"
    assert named(one(100, 95, 105, 110, 80)) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((100, 100, 100), ""),
        ((100, 100, 89), "c"),  # no deviation at all: the 10 % decide
        ((100, 100, 91), ""),
        ((100, 100, 120), "c"),  # too fast is odd as well: a cache, another mount
        ((100, 80, 60), ""),  # three that all differ: none
        ((100, 100, 50, 50), ""),  # half and half: the rule cannot tell which
        ((100, 50, 50, 50), "a"),  # most are slow: the good one stands out
        ((100, 101, 99, 100, 60, 59), "ef"),
    ],
)
def test_cases(values: tuple[float, ...], expected: str) -> None:
    assert named(one(*values)) == expected


@pytest.mark.parametrize("values", [(100,), (100, 1)])
def test_too_few_nodes_name_none(values: tuple[float, ...]) -> None:
    found = one(*values)
    assert (found.allowed, named(found)) == (None, "")
    assert [s.ratio for s in found.standings] == [value / median(values) for value in sorted(values)]


def test_a_node_counts_once_however_often_it_was_measured() -> None:
    rows: list[Measured] = [("p", "f", "slow", 50.0)] * 9
    rows += [("p", "f", host, value) for host in "abc" for value in (90.0, 100.0, 400.0)]
    (found,) = compare(rows)
    assert (found.median, named(found)) == (100, "slow")


def test_points_and_phases_are_compared_separately() -> None:
    rows: list[Measured] = [
        (point, phase, host, value * (50 if point == "q" else 1))
        for point, phase in (("p", "f"), ("p", "g"), ("q", "f"))
        for host, value in (("a", 10), ("b", 10), ("c", 5 if phase == "g" else 10))
    ]
    assert [(c.point, c.phase, named(c)) for c in compare(rows)] == [("p", "f", ""), ("p", "g", "c"), ("q", "f", "")]


def test_no_rows_give_no_comparison() -> None:
    assert compare([]) == []


rates = st.lists(st.floats(1, 1e9), min_size=1, max_size=12)


@given(rates)
def test_fewer_than_half_are_outliers(values: list[float]) -> None:
    assert 2 * len(named(one(*values))) < len(values)


@given(rates, st.randoms())
def test_the_order_of_rows_does_not_matter(values: list[float], draw: random.Random) -> None:
    rows: list[Measured] = [("p", "f", str(i), value) for i, value in enumerate(values)]
    shuffled = list(rows)
    draw.shuffle(shuffled)
    assert compare(rows) == compare(shuffled)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.integers(-20, 20))
def test_the_unit_does_not_matter(values: list[int], exponent: int) -> None:
    assert [(s.host, s.ratio, s.outlier) for s in one(*values).standings] == [
        (s.host, s.ratio, s.outlier) for s in one(*(value * 2.0**exponent for value in values)).standings
    ]


@given(st.lists(st.floats(98, 102), min_size=2, max_size=12), st.floats(1, 70) | st.floats(135, 1e6))
def test_single_outlier_is_the_only_one_named(good: list[float], odd: float) -> None:
    found = one(odd, *good)
    assert named(found) == "a"


@pytest.mark.parametrize(
    ("nodes", "scatter", "wrong", "caught"),
    # the table of docs/suites.md
    [(3, 0.02, 0.0, 0.96), (3, 0.05, 0.025, 0.61), (8, 0.05, 0.014, 0.94), (64, 0.05, 0.005, 1.0), (8, 0.1, 0.03, 0.4)],
)
def test_error_rates_of_the_rule(nodes: int, scatter: float, wrong: float, caught: float) -> None:
    """Nodes that differ by chance (a normal distribution), without and with one that is 30 % slow."""
    draw, found, seen, times = random.Random(1), 0, 0, 6000 // nodes
    for _ in range(times):
        values = [draw.gauss(100, 100 * scatter) for _ in range(nodes)]
        found += len(named(one(*values)))
        seen += "a" in named(one(0.7 * values[0], *values[1:]))
    assert found / (times * nodes) == pytest.approx(wrong, abs=0.006)
    assert seen / times == pytest.approx(caught, abs=0.06)
