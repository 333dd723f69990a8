"""How much the page carries: what is left out of a large campaign, how it is chosen, and that the page says so."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

import results_factory as factory
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import Campaign, load
from iosweep.report import bounds, chosen, headline, html, notable, page
from iosweep.report.bounds import Limits
from iosweep.report.drawings import drawings


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More results than the table of a page has."""
    place = tmp_path_factory.mktemp("large")
    return factory.make(place, sweeps=factory.sized(13_000), spoil=factory.spoil_some)


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, list[Result]]:
    found = load(factory.make(tmp_path_factory.mktemp("some"), sweeps=factory.sized(1000), spoil=factory.spoil_some))
    return found, summarize(found.rows)


def test_a_large_campaign_has_a_page_of_limited_size_that_says_what_it_shows(large: Path) -> None:
    text = page.render(large)
    assert len(text.encode()) <= bounds.MOST_BYTES
    count = len(summarize(load(large).rows))
    assert count > Limits().results
    assert f"The table of this page has {Limits().results:,} of {count:,} results" in text
    assert re.search(r"Drawn here: \d+ of \d+ values of threads per node", text)


def test_a_campaign_that_fits_is_shown_whole(some: tuple[Campaign, list[Result]]) -> None:
    campaign, results = some
    found = chosen.of(results, [], campaign.about.sweeps, len(results))
    assert (found.table, found.told) == (results, "")


@pytest.mark.parametrize("below", [0.98, 0.9])
def test_a_page_that_is_too_large_is_made_smaller(tmp_path: Path, below: float) -> None:
    results = factory.make(tmp_path, sweeps=factory.sized(1000))
    # the scripts alone are most of it
    room = len(html.library()) + 300_000
    whole = len(page.render(results).encode())
    most = max(room, int(below * whole))
    assert whole > most
    assert len(page.render(results, most).encode()) <= most


def test_what_matters_most_is_in_the_table(some: tuple[Campaign, list[Result]]) -> None:
    campaign, results = some
    groups = headline.groups(results, campaign.checks)
    keys = notable.keys(groups, drawings(campaign, results), results)
    found = chosen.of(results, keys, campaign.about.sweeps, 100)
    shown = {(result.point, result.phase) for result in found.table}
    assert len(found.table) <= 100
    assert set(keys) <= shown
    assert {result.state for result in found.table} == {result.state for result in results}
    assert [result for result in results if (result.point, result.phase) in shown] == found.table


def test_more_results_that_matter_than_the_table_has(some: tuple[Campaign, list[Result]]) -> None:
    """The first ones are shown, and the sentence counts what is shown."""
    campaign, results = some
    keys = [(result.point, result.phase) for result in reversed(results)]
    found = chosen.of(results, keys, campaign.about.sweeps, 10)
    assert found.table == results[-10:]
    assert f"has 10 of {len(results)} results: 10 of {len(results)} that matter most" in found.told


def test_a_result_of_a_figure_has_a_number_beyond_the_table(some: tuple[Campaign, list[Result]]) -> None:
    campaign, results = some
    found = chosen.of(results, [], campaign.about.sweeps, 50)
    other = next(result for result in results if result not in found.table)
    assert found.number(found.table[3]) == 3
    assert [found.number(other), found.number(other)] == [len(found.table)] * 2
    assert found.all[-1] is other


def test_a_figure_with_many_marks_keeps_its_ends_and_its_highest_values(some: tuple[Campaign, list[Result]]) -> None:
    campaign, results = some
    figure = max(drawings(campaign, results), key=lambda figure: len(figure.marks))
    found = bounds.thinned(figure, len(figure.marks) // 2)
    assert 0 < len(found.marks) <= len(figure.marks) // 2 + len(figure.panels) * len(figure.series) * 2
    assert {figure.x_values[0], figure.x_values[-1]} <= set(found.x_values) < set(figure.x_values)
    for panel in range(len(figure.panels)):
        highest = max(mark.y for mark in figure.marks if mark.panel == panel and mark.y is not None)
        assert highest in {mark.y for mark in found.marks if mark.panel == panel}
    assert f"figures/{figure.name}.svg" in found.notes[-1]


def test_a_figure_says_that_it_has_the_highest_values_only_where_it_has(
    some: tuple[Campaign, list[Result]],
) -> None:
    whole = max(drawings(*some), key=lambda figure: len(figure.marks))
    at: dict[object, int] = {}
    for mark in whole.marks:
        at[mark.x] = at.get(mark.x, 0) + 1
    highest = max((mark.y, mark.x) for mark in whole.marks if mark.y is not None and mark.x in whole.x_values[1:-1])
    top = [structs.replace(mark, y=2 * highest[0]) if mark.x == highest[1] else mark for mark in whole.marks]
    found = bounds.thinned(replace(whole, marks=tuple(top)), 2 * max(at.values()))
    assert len(found.x_values) == 2
    assert "highest" not in found.notes[-1]


def test_the_last_of_many_figures_are_files_alone(some: tuple[Campaign, list[Result]]) -> None:
    whole = drawings(*some)
    found = bounds.drawings(whole, Limits(figures=2))
    assert len([figure for figure in found if figure.panels]) == 2
    assert "Not drawn here" in found[-1].notes[-1]


@pytest.mark.parametrize(("count", "most"), [(5, 5), (10, 3), (1000, 7), (3, 2)])
def test_evenly_chosen_items_have_both_ends(count: int, most: int) -> None:
    found = bounds.spread(range(count), most)
    assert (found[0], found[-1], len(found)) == (0, count - 1, min(count, most))
    assert len(set(found)) == len(found)
