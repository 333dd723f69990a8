"""What is behind a row of the table of results: figures over time, latencies."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import results_factory as factory
from iosweep.analysis import formats
from iosweep.analysis.summary import summarize, summarize_campaign
from iosweep.histograms import Series
from iosweep.report import answer, results_table
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


def test_a_percentile_is_the_same_wherever_it_is_shown(tmp_path: Path) -> None:
    made = factory.make(tmp_path, [sweep("one", ["rand_read"], {"queue_depth": [1, 4]})])
    campaign = load(made)
    results = summarize_campaign(campaign)
    figure = results[0].figure("latency_p99_s")
    assert figure and figure != pytest.approx(summarize(campaign.rows)[0].figure("latency_p99_s"), rel=1e-4)
    found = results_table.list_latencies([results[0], RESULT])
    (of, none) = found.of
    assert (of, none) == (sorted(of), [])
    table = results_table.make_payload(results, [], {})
    (cell,) = (cell for column, cell in zip(table.columns, table.rows[0], strict=True) if column.title == "p99")
    assert [of[found.percents.index(99)], cell * 1e-6] == pytest.approx([figure] * 2, rel=1e-3)  # type: ignore[operator]
    notes = [note for group in answer.make_groups(results) for one in group.figures for note in one.notes]
    assert f"p99 {formats.quantity(figure, formats.LATENCY)}" in notes
