"""The strip of repetitions over time, and their dots in figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.report import figures, page, run_order, vega_lite
from results_factory import sweep

pytestmark = pytest.mark.unit
SWEEP = (sweep("threads", ["seq_read"], {"threads_per_node": [1, 2, 4]}),)


def test_a_drift_shows_over_all_points(tmp_path: Path) -> None:
    def slower(row: Any) -> float:
        return 1.0 - 0.2 * float(row["repetition"])

    results = factory.make(tmp_path, sweeps=SWEEP, repetitions=3, speed=slower)
    campaign = load(results)
    [strip] = run_order.strips(campaign, summarize(campaign.rows))
    assert (strip.sweep, len(strip.dots)) == ("threads", 9)
    assert all(0 <= dot.x <= run_order.WIDTH and 0 <= dot.y <= run_order.HEIGHT for dot in strip.dots)
    height = {number: [d.y for d in strip.dots if f"repetition {number}:" in d.text] for number in (1, 2, 3)}
    assert max(height[1]) < min(height[2]) <= max(height[2]) < min(height[3])
    assert page.render(results).count("<circle") >= 9


def test_nothing_repeated_has_no_strip(tmp_path: Path) -> None:
    campaign = load(factory.make(tmp_path, sweeps=SWEEP, repetitions=1))
    assert run_order.strips(campaign, summarize(campaign.rows)) == []


def test_many_repetitions_are_thinned_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_order, "_DOTS", 4)
    campaign = load(factory.make(tmp_path, sweeps=SWEEP, repetitions=3))
    [strip] = run_order.strips(campaign, summarize(campaign.rows))
    assert len(strip.dots) == 3


def test_every_repetition_is_a_dot_inside_its_panel(tmp_path: Path) -> None:
    campaign = load(factory.make(tmp_path, sweeps=SWEEP, repetitions=3))
    [figure] = figures.figures(campaign, summarize(campaign.rows))
    for mark in figure.marks:
        assert mark.each is not None
        assert mark.y is not None
        assert len(mark.each) == 3
        assert math.isclose(sum(mark.each) / 3, mark.y)
        assert max(mark.each) <= figure.panels[0].ticks[-1]
    dots = vega_lite.specification(figure)["concat"][0]["layer"][-1]  # type: ignore[index]
    assert {"flatten": ["each"], "as": ["one"]} in dots["transform"]
    [alone] = figures.figures(one := load(factory.make(tmp_path / "one", sweeps=SWEEP, repetitions=1)),
                              summarize(one.rows))  # fmt: skip
    assert {mark.each for mark in alone.marks} == {None}


def test_limits_have_their_units() -> None:
    limits = {"bytes_written": 4 << 30, "time": 900.0, "grace": 0.5, "fill": 0.8, "over_time": "trim", "later": None}
    assert page.limits_in_words(limits) == [
        ("bytes_written", "4 GiB"), ("time", "15 min"), ("grace", "0.5 s"), ("fill", "80 %"), ("over_time", "trim"),
    ]  # fmt: skip
