"""The rule that names what is unsteady: its shapes with their figures, and noise that has none."""

import random

import pytest

from iosweep.results.steadiness import shape, stall


def words(rate: float) -> str:
    return f"{rate:.0f}"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1200.0] * 14 + [300.0] * 46, "fell from 1200 to 300 after 14.0 s"),
        ([300.0] * 12 + [1200.0] * 48, "started slowly: 300 for 12.0 s, then 1200"),
        ([300.0] * 40 + [1200.0] * 20, "rose from 300 to 1200 after 40 s"),
        ([1000.0 + 400.0 * k / 59 for k in range(60)], "rose steadily by 36% over the phase, from 1017 to 1383"),
        (([1000.0] * 3 + [300.0] * 3) * 10, "two modes: 300 for 50% of the time, 1000 otherwise"),
    ],
)
def test_a_shape_has_its_words(values: list[float], said: str) -> None:
    found = shape(values, 1.0, 1000.0, words)
    assert found and found.text == said


@pytest.mark.parametrize("deviation", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_noise_has_no_shape(deviation: float, correlation: float) -> None:
    draw = random.Random(1)
    named = 0
    for _ in range(200):
        level, values = 0.0, []
        for _ in range(60):
            level = correlation * level + draw.gauss(0, (1 - correlation**2) ** 0.5)
            values.append(max(10.0, 1000.0 * (1 + deviation * level)))
        named += bool(shape(values, 1.0, 1000.0, words) or stall(values, 1.0, 1000.0))
    assert named <= 4


@pytest.mark.parametrize(
    ("values", "interval_s", "ops_per_s", "said"),
    [
        ([100.0] * 11 + [0.0] * 9, 0.1, 1000.0, "stood still for 0.9 s of 2.0 s"),
        ([100.0] * 100 + [0.0] * 6 + [100.0] * 194, 1.0, 1000.0, "stood still for 6.0 s of 300 s"),
        ([100.0] * 3 + ([0.0] * 3 + [100.0] * 3) * 3, 0.1, 1000.0,
         "stood still for 0.9 s of 2.1 s, the longest time for 0.3 s"),
        ([100.0] * 19 + [0.0], 0.1, 1000.0, None),
        ([0.0, 0.0, 0.0, 100.0] * 5, 0.1, 2.5, None),  # large I/Os, one in 0.4 s
        ([0.0] * 20, 0.1, 1000.0, None),
    ],
)  # fmt: skip
def test_a_standstill(values: list[float], interval_s: float, ops_per_s: float, said: str | None) -> None:
    found = stall(values, interval_s, ops_per_s)
    assert (found and found.text) == said
