"""Changes of level in rows of nights."""

import random

import pytest

from iosweep.results import change_points
from iosweep.results.change_points import ALPHA, LEAST


def row(nights: int, noise: float, seed: int, **losses: float) -> list[float]:
    """Nightly figures around 100; losses: n18=0.05, from night 18 on."""
    draw, level, made = random.Random(seed), 100.0, []
    for night in range(nights):
        level *= 1 - losses.get(f"n{night}", 0.0)
        made.append(level * (1 + noise * draw.gauss(0, 1)))
    return made


def test_a_loss_is_found_with_its_night_and_size() -> None:
    [split] = change_points.found({"a": row(30, 0.01, 1, n18=0.05)})["a"]
    assert abs(split.at - 18) <= 1
    low, high = split.change.within()
    assert low < -0.05 < high < 0
    assert split.change.p < ALPHA


def test_two_changes() -> None:
    splits = change_points.found({"a": row(60, 0.01, 2, n20=0.06, n40=-0.06), "b": row(60, 0.01, 3)})
    assert [abs(split.at - at) <= 1 for split, at in zip(splits["a"], (20, 40), strict=True)] == [True, True]
    assert [split.change.share > 0 for split in splits["a"]] == [False, True]
    assert splits["b"] == []


def test_false_alarms() -> None:
    """A smaller version of benchmarks/changes.py: histories of ten headlines in which nothing changed."""
    alarms = sum(
        any(change_points.found({str(n): row(20, 0.02, 100 * k + n) for n in range(10)}).values()) for k in range(200)
    )
    assert alarms / 200 <= 0.05


def test_headlines_that_change_together() -> None:
    rows = {str(n): row(60, 0.01, n, n20=0.05, n40=0.05) for n in range(8)}
    assert all(len(splits) == 2 for splits in change_points.found(rows).values())
    few = {str(n): row(10, 0.01, n, n5=0.10) for n in range(8)}
    assert all(len(splits) == 1 for splits in change_points.found(few).values())


@pytest.mark.parametrize("nights", [*range(1, 2 * LEAST)])
def test_few_nights_say_nothing(nights: int) -> None:
    assert change_points.found({"a": [100.0] * (nights - 1) + [1.0]}) == {"a": []}


def test_a_night_alone_is_no_change() -> None:
    figures = row(20, 0.01, 4)
    figures[-1] *= 0.5
    assert change_points.found({"a": figures})["a"] == []


def test_equal_figures() -> None:
    assert change_points.found({"a": [5.0] * 20}) == {"a": []}
    [split] = change_points.found({"a": [5.0] * 10 + [4.0] * 10})["a"]
    assert split.at == 10
