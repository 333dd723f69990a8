"""How sessions of a system differ: changes of a phase, and of results against the rest of their phase."""

from __future__ import annotations

import math
import random
from statistics import fmean, variance

import pytest

from iosweep.results.between_sessions import Sessions, more_sessions
from iosweep.results.statistics import student_t

pytestmark = pytest.mark.unit


def sessions(seed: int, count: int, results: int = 12, common: float = 0.02, own: float = 0.0) -> Sessions:
    """Session effects with these standard deviations: of all results alike, and of each by itself."""
    draw = random.Random(seed)
    shared = [draw.gauss(0, common) for _ in range(count)]
    return Sessions(tuple(tuple(s + draw.gauss(i, own) for s in shared) for i in range(results)))


def test_the_change_of_a_phase_is_tested_against_the_scatter_of_its_mean_over_the_sessions() -> None:
    known = sessions(1, 4, own=0.01)
    other = [level - 0.1 for level in known.levels]
    found = known.change(other, range(12), 0.0, (5, 5))
    means = [fmean(column) for column in zip(*known.logs, strict=True)]
    assert found.log == pytest.approx(-0.1)
    assert found.error == pytest.approx(math.sqrt(variance(means) * (1 + 1 / 4)))
    assert found.freedom == 3


def test_many_results_that_share_what_a_session_does_do_not_make_it_better_known() -> None:
    few, many = sessions(2, 3, results=2), sessions(2, 3, results=200)
    changes = [
        one.change([level - 0.1 for level in one.levels], range(len(one.logs)), 0.0, (5, 5)) for one in (few, many)
    ]
    assert changes[0].error == pytest.approx(changes[1].error)
    assert changes[0].freedom == changes[1].freedom == 2


def test_an_error_is_never_smaller_than_that_of_the_repetitions() -> None:
    known = sessions(3, 5, common=0.0, own=1e-6)
    other = list(known.levels)
    beside = known.beside(other, [0], 0.01**2, (5, 5))
    assert beside
    assert known.change(other, [0], 0.01**2, (5, 5)).error == beside.error == 0.01


def test_what_a_session_does_to_a_whole_phase_cancels_against_the_rest_of_it() -> None:
    known = sessions(4, 4, common=0.2, own=0.005)
    shifted = [level + 0.3 - 0.1 * (i == 5) for i, level in enumerate(known.levels)]
    found = known.beside(shifted, [5], 0.0, (5, 5))
    assert found
    assert found.log == pytest.approx(-0.1)
    assert found.p < 1e-4
    assert known.change(shifted, [5], 0.0, (5, 5)).p > 0.1


def test_the_rest_does_not_follow_one_result_that_changed() -> None:
    known = sessions(5, 4, results=4, own=0.005)
    lost = [level - 0.5 * (i == 0) for i, level in enumerate(known.levels)]
    found = known.beside(lost, [1], 0.0, (5, 5))
    assert found
    assert found.log == pytest.approx(0.0)


def test_a_phase_of_one_result_has_no_rest() -> None:
    known = sessions(6, 3, results=1)
    assert known.beside(known.levels, [0], 0.0, (5, 5)) is None
    assert known.change([known.levels[0] + 0.1], [0], 0.0, (5, 5)).freedom == 2


def test_results_that_move_together_have_few_degrees_of_freedom() -> None:
    line = Sessions(tuple(tuple(i * s for s in (0.01, -0.02, 0.03, 0.0)) for i in range(12)))
    alike = line.beside(line.levels, [0], 0.0, (5, 5))
    free = [sessions(seed, 4, own=0.02) for seed in range(20)]
    apart = [one.beside(one.levels, [0], 0.0, (5, 5)) for one in free]
    assert alike
    assert alike.freedom == pytest.approx(3, rel=0.3)
    assert all(one and 3 <= one.freedom <= 33 for one in apart)
    assert fmean(one.freedom for one in apart if one) > 8


def test_two_sessions_have_one_degree_of_freedom() -> None:
    known = sessions(7, 2, own=0.02)
    beside = known.beside(known.levels, [0], 0.0, (5, 5))
    assert beside
    assert beside.freedom == known.change(known.levels, [0], 0.0, (5, 5)).freedom == 1


def test_more_sessions_are_as_many_as_make_the_interval_narrow() -> None:
    known = sessions(8, 3)
    change = known.change(known.levels, range(12), 0.0, (5, 5))
    one = change.error / math.sqrt(1 + 1 / 3)
    half = 1.01 * student_t(7) * one * math.sqrt(1 + 1 / 8)
    assert more_sessions(change, 3, half, 0.05, 20) == 5
    assert more_sessions(change, 3, one, 0.05, 20) is None  # no number of sessions makes the other campaign less one
