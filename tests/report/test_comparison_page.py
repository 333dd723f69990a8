"""A comparison as a page: its figures and its text; in a real browser drawn, silent and not wider than the window."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from test_report_browser import EVIL, FLAGS, PATIENCE_MS

import results_factory as factory
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.analysis.findings import AT_LEAST
from iosweep.analysis.matching import ignored
from iosweep.analysis.versus import Side, Versus, like, versus
from iosweep.report import comparison_page, figure_files
from iosweep.report.overlaid import overlaid

SIZES = factory.sweep("sizes", ["rand_read"], {"threads_per_node": [1, 2, 4], "transfer_size": [4096, 65536]})
DEPTHS = factory.sweep("depths", ["rand_write"], {"queue_depth": [1, 2, 4]})


def side(place: Path, name: str, **options: Any) -> Side:
    made = factory.make(place / name.replace("/", "_")[:20], repetitions=4, campaign=name, **options)
    campaign = load(made)
    return Side(name, made, campaign, tuple(summarize(campaign.rows)))


def pair(place: Path, a: str = "before", b: str = "after", factor: float = 0.8, column: str = "") -> Versus:
    sweeps = [SIZES, DEPTHS]
    first = side(place, a, sweeps=sweeps, seed=1)
    second = side(place, b, sweeps=sweeps, seed=2, speed=lambda row: factor if row["phase"] == "rand_read" else 1.0)
    return versus(first, second, None, column, AT_LEAST)


def test_a_figure_with_several_lines_has_both_campaigns_as_dashes(tmp_path: Path) -> None:
    figure = overlaid(pair(tmp_path))[0]
    assert figure.measures == ("before", "after")
    assert figure.series == ("4 KiB", "64 KiB")
    assert len(figure.marks) == 2 * 6
    assert figure.subtitle.startswith("before and after: ")


def test_a_figure_with_one_line_has_both_campaigns_as_colors(tmp_path: Path) -> None:
    [figure] = [one for one in overlaid(pair(tmp_path)) if one.sweep == "depths"]
    assert (figure.series, figure.series_title, figure.measures) == (("before", "after"), "campaign", ("",))
    assert {mark.series for mark in figure.marks} == {"before", "after"}


def test_campaigns_in_different_units_share_an_axis(tmp_path: Path) -> None:
    for factor in (0.001, 1000.0):
        figure = overlaid(pair(tmp_path / str(factor), factor=factor))[0]
        top = figure.panels[0].ticks[-1]
        highest = {name: max(m.y or 0 for m in figure.marks if m.measure == name) for name in figure.measures}
        assert max(highest.values()) <= top < 3 * max(highest.values())
        assert highest["after"] / highest["before"] == pytest.approx(factor, rel=0.2)


def test_latencies_are_drawn_where_they_are_compared(tmp_path: Path) -> None:
    assert not any("latency" in one.title for one in overlaid(pair(tmp_path / "a")))
    found = overlaid(pair(tmp_path / "b", column="latency_p99_s"))
    assert found
    assert all("atency" in one.title for one in found)


def test_points_that_differ_in_what_is_ignored_share_a_figure(tmp_path: Path) -> None:
    first = side(tmp_path, "a", sweeps=[SIZES])
    second = side(tmp_path, "b", sweeps=[factory.sweep("s", SIZES["phases"], SIZES["axes"], queue_depth=8)])
    found = versus(first, second, ignored(["queue_depth"]), "", AT_LEAST)
    assert len(overlaid(found)[0].marks) == 2 * 6


def test_a_line_breaks_where_a_campaign_has_no_figure(tmp_path: Path) -> None:
    def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
        return {1: ("suspect", "short"), 4: ("invalid", "errors: 3")}.get(row["queue_depth"])

    depths = factory.sweep("depths", ["rand_read"], {"queue_depth": [1, 4, 16]}, transfer_size_bytes=4096)
    first = side(tmp_path, "before", sweeps=[depths])
    found = versus(first, side(tmp_path, "after", sweeps=[depths], spoil=spoil), None, "", AT_LEAST)
    [figure] = overlaid(found)
    assert [(mark.series, mark.x, mark.y is None) for mark in figure.marks] == [
        *(("before", depth, False) for depth in (1, 4, 16)),
        *(("after", depth, depth == 4) for depth in (1, 4, 16)),
    ]
    assert "after: Hollow: 1 not valid (short)." in figure.notes
    assert "after: Not drawn: 1 invalid (errors: 3)." in figure.notes


def test_panels_that_one_campaign_lacks_do_not_take_the_others_with_them(tmp_path: Path) -> None:
    def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
        return ("missing", "time limit") if row["phase"] == "seq_read" else None

    both = factory.sweep("both", ["rand_read", "seq_read"], {"threads_per_node": [1, 2, 4]})
    first = side(tmp_path, "before", sweeps=[both])
    found = versus(first, side(tmp_path, "after", sweeps=[both], spoil=spoil), None, "", AT_LEAST)
    figure = overlaid(found)[0]
    assert [panel.title for panel in figure.panels] == ["Random read"]
    assert [mark.panel for mark in figure.marks] == [0] * 6
    assert any("time limit" in note for note in figure.notes)


def test_the_text_says_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    text = comparison_page.render([pair(tmp_path)])
    bare = re.sub(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
    words = " ".join(bare.split())
    for part in ("after against before", "Random reads: 2", "6 worse", "What else changed Nothing", "Figures"):
        assert part in words
    assert text.count("<svg class=") == text.count('role="img" aria-label="')


@pytest.mark.parametrize(("factor", "edge"), [(0.8, "±25 %"), (0.6, "±50 %"), (0.2, "±100 %"), (4.0, "±100 %")])
def test_large_changes_are_not_all_drawn_at_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, edge: str
) -> None:
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    text = comparison_page.render([pair(tmp_path, factor=factor)])
    assert f"{edge}; shaded: does not matter" in text
    assert ("<path d=" in re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)) == (factor > 1)


def test_the_page_says_what_sessions_differ_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    found = pair(tmp_path)
    further = [side(tmp_path, f"again {seed}", sweeps=[SIZES, DEPTHS], seed=seed) for seed in (3, 4, 5)]
    alike = tuple(like(found.a, one, None, "") for one in further)
    text = comparison_page.render([versus(found.a, found.b, None, "", AT_LEAST, alike)])
    bare = " ".join(re.sub(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL).split())
    for part in ("Random reads lost 2", "Sessions of before differ by ", "over 4 campaigns", "before (mean of 4)"):
        assert part in bare
    assert "again 3 (--like)" in bare
    assert "is not known here" not in bare


def test_names_cannot_become_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    text = comparison_page.render([pair(tmp_path, b=EVIL)])
    assert "<img" not in re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright: not installed")
    with playwright.sync_playwright() as session:
        opened = session.chromium.launch(executable_path=str(chromium), args=list(FLAGS), timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.mark.local
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_in_a_browser_it_is_drawn_and_silent(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(comparison_page.render([pair(tmp_path, b=EVIL), pair(tmp_path / "more")]), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_offline(True)
    context.set_default_timeout(PATIENCE_MS)
    tab, complaints = context.new_page(), []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    tab.on("request", lambda request: request.url == page.as_uri() or complaints.append(request.url[:200]))
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-drawn]", state="attached")
    charts = tab.locator(".chart")
    assert charts.count() == tab.locator("figure").count() >= 4
    for i in range(charts.count()):
        assert charts.nth(i).locator("svg [aria-roledescription='point']").count() >= 6
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.locator(".chart svg [aria-roledescription='point']").first.hover(force=True)
    assert EVIL in tab.locator("#tip").inner_text() or "before" in tab.locator("#tip").inner_text()
    context.close()
    assert complaints == []
