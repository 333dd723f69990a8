"""Knees in figures: marked where one can be shown."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from iosweep.analysis.aggregate import summarize
from iosweep.report import figures, vega_lite
from iosweep.report.figures import Figure
from results_factory import loaded, row, sweep_facts


def drawn(rates: dict[int, float], noise: Sequence[float] = (0.99, 1.0, 1.01), ramp: str | None = None) -> Figure:
    rows = [
        row(point=f"p{depth}", queue_depth=depth, nodes=1, repetition=i + 1, ops_per_s=rate * factor)
        for depth, rate in rates.items()
        for i, factor in enumerate(noise)
    ]
    facts = structs.replace(
        sweep_facts(1, *(f"p{depth}" for depth in rates)), axes={"queue_depth": (*rates,)}, ramp=ramp
    )
    campaign = loaded(rows, sweeps=[structs.asdict(facts)])
    return figures.figures(campaign, summarize(rows))[0]


def test_the_knee_of_an_axis_that_flattens_is_marked() -> None:
    figure = drawn({1: 10e3, 2: 20e3, 4: 39.5e3, 8: 40e3, 16: 40e3})
    (bent,) = (mark for mark in figure.marks if mark.knee)
    assert (bent.x, bent.knee, bent.label) == (4, "knee: 95 % of the peak at queue depth 4", "95 % at 4")
    assert figures._KNEES in figure.notes
    assert "95 % at 4" in str(vega_lite.with_values(figure))


@pytest.mark.parametrize(
    ("rates", "noise"),
    [
        ({1: 10e3, 2: 20e3, 4: 40e3}, (0.99, 1.0, 1.01)),  # the axis ends before
        ({1: 40e3, 2: 40e3, 4: 40e3}, (0.99, 1.0, 1.01)),  # flat: nothing bends
        ({1: 10e3, 2: 20e3, 4: 40e3, 8: 40e3}, (1.0,)),  # no interval
        ({1: 30e3, 2: 36e3, 4: 40e3, 8: 41e3}, (0.5, 1.0, 1.7)),  # it may be anywhere
    ],
)
def test_a_knee_in_doubt_is_not(rates: dict[int, float], noise: tuple[float, ...]) -> None:
    figure = drawn(rates, noise)
    assert not any(mark.knee for mark in figure.marks)
    assert figures._KNEES not in figure.notes


def test_a_ramp_has_its_knee_all_the_same() -> None:
    figure = drawn({1: 10e3, 2: 20e3, 4: 40e3, 8: 40e3}, (1.0,), ramp="queue_depth")
    assert [mark.label for mark in figure.marks if mark.label] == ["95 % at 4"]
