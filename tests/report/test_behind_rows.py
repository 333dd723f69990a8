"""Small figures over time and tables of own rates behind a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import results_factory as factory
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import OwnRateRow, SeriesRow, load, load_series
from iosweep.files import embedded
from iosweep.report import behind_rows, page
from results_factory import sweep

pytestmark = pytest.mark.unit
MIB = 2**20
SWEEP = (sweep("threads", ["seq_read"], {"threads_per_node": [1, 2]}),)


def results_of(directory: Path) -> list[Result]:
    return summarize(load(factory.make(directory, sweeps=SWEEP, repetitions=3)).rows)


def line(result: Result, values: tuple[float | None, ...], quantity: str = "bandwidth_bytes_per_s", **more: Any) -> Any:
    key = {"point": result.point, "phase": result.phase, "repetition": 1, "begin_s": 0.0, "interval_s": 0.5}
    return SeriesRow(**{**key, "quantity": quantity, "values": values, **more})


def drawn(result: Result, *rows: SeriesRow) -> dict[str, behind_rows.Drawing]:
    [found] = behind_rows.series([result], rows, [])
    return {drawing.title: drawing for drawing in found.drawings} if found else {}


def test_the_repetition_nearest_to_the_median_is_chosen(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    for result in results:
        by_size = sorted(result.rows, key=lambda row: row.figures[result.metric])
        assert behind_rows.chosen(results)[result.point, result.phase] == by_size[1].repetition


def test_the_whole_is_the_sum_of_the_nodes(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    found = drawn(result, *(line(result, (n * MIB, 2.0 * n * MIB), host=f"n{n}") for n in (1.0, 2.0)))
    assert [*found] == ["Rate, sum of 2 nodes", "Rate of each node"]
    assert (found["Rate, sum of 2 nodes"].unit, found["Rate, sum of 2 nodes"].lines[0].values) == ("MiB/s", (3.0, 6.0))
    assert [one.name for one in found["Rate of each node"].lines] == ["n1.0", "n2.0"]


def test_of_many_workers_the_slowest_and_the_fastest_are_drawn(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    found = drawn(result, *(line(result, (float(n),), worker=n) for n in range(1, 21)))["Rate of each worker"]
    assert [one.values for one in found.lines] == [(float(n),) for n in (1, 2, 3, 4, 17, 18, 19, 20)]
    assert (found.left, found.thin) == (12, True)


def test_lines_are_short_and_rounded_and_have_gaps(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    values = (None, 0.123456, *(0.5,) * 298)
    [found] = drawn(result, line(result, values, "measuring_cpus_busy_share")).values()
    assert (found.unit, len(found.lines[0].values), found.lines[0].interval_s) == ("%", 60, 2.5)
    assert found.lines[0].values[:2] == (None, 50.0)
    [short] = drawn(result, line(result, values[:3], "measuring_cpus_busy_share")).values()
    assert short.lines[0].values == (None, 12.3, 50.0)


def test_what_was_always_zero_or_never_read_is_not_drawn(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    rows = (line(result, (0.0, 0.0), "client_read_bytes_per_s"), line(result, (None, None), "dirty_bytes"))
    assert drawn(result, *rows) == {}


def test_a_host_is_named_where_there_are_several(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    rate = line(result, (1.0,))  # of a tool that does not tell nodes apart
    busy = [line(result, (0.5,), "measuring_cpus_busy_share", host=host) for host in ("n1", "n2")]
    cpus = "CPUs that measure, busy"
    assert [one.name for one in drawn(result, rate, busy[0])[cpus].lines] == [""]
    assert [one.name for one in drawn(result, rate, *busy)[cpus].lines] == ["n1", "n2"]


def test_own_rates_have_the_slowest_first(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    key: Any = {"point": result.point, "phase": result.phase, "repetition": 1}
    nodes = [OwnRateRow(**key, host=f"n{n}", bandwidth_bytes_per_s=n * MIB) for n in (3.0, 1.0, 2.0)]
    workers = [OwnRateRow(**key, host="n3.0", worker=n, ops_per_s=100.0 - n) for n in range(20)]
    [found] = behind_rows.series([result], [], [*nodes, *workers])
    assert found
    assert [rate[:2] for rate in found.rates[:3]] == [(f"n{n}.0", f"{n}.00 MiB/s") for n in (1, 2, 3)]
    assert found.rates[3] == ("n3.0, worker 19", "", "81.0 IOPS")
    assert (len(found.rates), found.rates_left) == (16, 7)
    [alone] = behind_rows.series([result], [], nodes[:1])
    assert alone and alone.rates == ()


def test_the_page_is_bounded(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    rows = [line(result, (1.0, 2.0)) for result in results]
    whole = behind_rows.series(results, rows, [])
    first, second = behind_rows.series(results, rows, [], most=len(msgspec.json.encode(whole[0])) + 1)
    assert first == whole[0]
    assert second == behind_rows.OfResult(1, elsewhere=True)


def test_the_page_has_the_chosen_repetition_only(tmp_path: Path) -> None:
    result = results_of(tmp_path)[0]
    wanted = behind_rows.chosen([result])
    rows = [line(result, (1.0,), repetition=n, host="</script>") for n in (1, 2, 3)]
    factory.add_series(tmp_path, [{**msgspec.to_builtins(row), "attempt": 1} for row in rows])
    series, rates = load_series(tmp_path, wanted)
    assert ([row.repetition for row in series], rates) == ([*wanted.values()], [])
    text = page.render(tmp_path)
    carried = json.loads(embedded.data(text))["series"]
    assert [found["repetition"] for found in carried if "none" not in found] == [*wanted.values()]


def test_a_thousand_rows_with_series_stay_small(tmp_path: Path) -> None:
    results = factory.make(tmp_path, sweeps=factory.sized(1000))
    quantities = ("bandwidth_bytes_per_s", "measuring_cpus_busy_share", "dirty_bytes", "sent_bytes_per_s")
    run: Any = {"attempt": 1, "host": "node01", "begin_s": 0.0, "interval_s": 1.0}
    rows = [
        {**run, "point": point, "phase": phase, "repetition": repetition, "quantity": quantity}
        | {"values": [1e5 + n * 7919.0 for n in range(60)]}
        for (point, phase), repetition in behind_rows.chosen(summarize(load(results).rows)).items()
        for quantity in quantities
    ]
    factory.add_series(results, rows)
    text = page.render(results)
    assert '"elsewhere":true' in embedded.opened(text)
    assert len(text.encode()) <= 3_000_000


def test_a_row_says_why_it_has_no_series(tmp_path: Path) -> None:
    results = factory.make(tmp_path, sweeps=factory.DEMO, spoil=factory.spoil_some)
    found = summarize(load(results).rows)
    reasons = {
        bool(result.measured): made.none for result, made in zip(found, behind_rows.series(found, [], []), strict=True)
    }
    assert reasons[False] == "nothing was measured"
    assert reasons[True].startswith("series.parquet has none of its repetitions")
