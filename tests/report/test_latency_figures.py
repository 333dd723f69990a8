"""Distributions of latencies in the report."""

import re
from pathlib import Path

import results_factory as factory
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load, load_latencies
from iosweep.report import headline, latency_figures, page


def test_all_repetitions_that_count_are_one_distribution(tmp_path: Path) -> None:
    results = factory.make(tmp_path, spoil=factory.spoil_some)
    summary = summarize(load(results).rows)
    known = load_latencies(results, latency_figures.counted(summary))
    assert {(r.point, r.phase) for r in summary if r.used} == set(known)
    alone = load_latencies(results, {(row.point, row.phase, 1) for row in load(results).rows})
    assert all(2.5 < known[key].total / one.total < 3.5 for key, one in alone.items() if key in known)


def test_the_cards_points_are_drawn_and_each_row_has_its_own(tmp_path: Path) -> None:
    results = factory.make(tmp_path)
    campaign = load(results)
    summary = summarize(campaign.rows)
    known = load_latencies(results, latency_figures.counted(summary))
    first, second = latency_figures.pictures(headline.groups(summary, campaign.checks), known)
    assert [line.name for line in second.lines] == [
        "Create files: 8 threads", "Stat files: 8 threads", "Delete files: 8 threads",
    ]  # fmt: skip
    assert len(first.lines) == 6
    told = dict(re.findall(r"p(\S+) (\S+ \S+?)(?:,|$)", first.lines[-1].told))
    assert {"50", "90", "99"} <= set(told)
    places = [tuple(map(float, place.split())) for place in first.lines[0].path[1:].split("L")]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)  # slower is higher up
    of = latency_figures.payload(summary, known)["of"]
    assert isinstance(of, list)
    assert len(of) == len(summary)
    assert all(own == sorted(own) for own in of)


def test_ior_has_no_distributions(tmp_path: Path) -> None:
    assert 'id="latencies"' not in page.render(factory.make(tmp_path, sweeps=[factory.ior()]))
