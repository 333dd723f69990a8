"""What is behind a row of the table of results: figures over time, latencies."""

from __future__ import annotations

import math
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis.summary import PointSummary, summarize, summarize_campaign
from iosweep.histograms import Series
from iosweep.report import results_table
from iosweep.tables.reader import load
from results_factory import row, sweep

MIB = 2**20
#: Three repetitions, of which the third is nearest to the median.
(RESULT,) = summarize(row(repetition=n, ops_per_s=rate) for n, rate in ((1, 9.0), (2, 12.0), (3, 10.0)))
PHASE = ("p", "rand_read")
CHOSEN = {PHASE: 3}


def line(values: tuple[float, ...], quantity: str = "bandwidth_bytes_per_s", host: str = "") -> Series:
    return Series(quantity, values, 0.5, host=host)


def drawn(*series: Series) -> dict[str, results_table.Drawing]:
    [found] = results_table.draw_over_time([RESULT], CHOSEN, {PHASE: series})
    return {drawing.title: drawing for drawing in found.drawings} if found else {}


def test_the_repetition_nearest_to_the_median_is_chosen() -> None:
    assert results_table.find_typical_repetitions([RESULT]) == CHOSEN
    doubt = [row(repetition=n, verdict=v, ops_per_s=10.0) for n, v in ((1, "invalid"), (2, "suspect"))]
    assert results_table.find_typical_repetitions(summarize(doubt)) == {("p", "rand_read"): 2}
    assert results_table.find_typical_repetitions(summarize(doubt[:1])) == {("p", "rand_read"): 1}


def test_the_rate_of_the_whole_is_the_sum_of_the_nodes() -> None:
    whole, each = drawn(*(line((n * MIB, 2.0 * n * MIB), host=f"n{n}") for n in (1.0, 2.0))).values()
    assert (whole.unit, whole.lines[0].values) == ("MiB/s", (3.0, 6.0))
    assert [(one.name, one.values) for one in each.lines] == [("n1.0", (1.0, 2.0)), ("n2.0", (2.0, 4.0))]


def test_lines_are_short_and_rounded_and_have_gaps_where_nothing_was_read() -> None:
    values = (math.nan, 0.123456 * MIB, *(0.5 * MIB,) * 298)
    [found] = drawn(line(values)).values()
    assert (found.unit, len(found.lines[0].values), found.lines[0].interval_s) == ("KiB/s", 60, 2.5)
    assert found.lines[0].values[:2] == (None, 512.0)
    [short] = drawn(line(values[:3])).values()
    assert short.lines[0].values == (None, 126.0, 512.0)
    assert drawn(line((math.nan, math.nan))) == {}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> PointSummary:
    one = sweep("one", ["rand_read"], {"threads_per_node": [1]})
    directory = factory.make(tmp_path_factory.mktemp("measured"), [one])
    (result,) = summarize_campaign(load(directory))
    return result


def test_latencies_by_percentile_are_those_of_the_figures(measured: PointSummary) -> None:
    found: Any = results_table.list_latencies([measured, RESULT])
    (of, none) = found["of"]
    assert (of, none) == (sorted(of), [])
    for percent, name in ((50, "p50"), (99, "p99"), (99.9, "p99_9")):
        assert of[found["percents"].index(percent)] == pytest.approx(measured.figure(f"latency_{name}_s"), rel=1e-3)
