"""A comparison as a page: its text; in a real browser silent and not wider than the window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_report_browser import EVIL, FLAGS, PATIENCE_MS

import results_factory as factory
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.comparison import AT_LEAST, Side, Versus, like, versus
from iosweep.analysis.data import load
from iosweep.report import comparison_page

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


def test_the_text_says_it_all(tmp_path: Path) -> None:
    text = comparison_page.render([pair(tmp_path)])
    bare = re.sub(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
    words = " ".join(bare.split())
    for part in ("after against before", "Random reads: 2", "6 worse", "What else changed Nothing"):
        assert part in words
    assert text.count("<svg class=") == text.count('role="img" aria-label="')


@pytest.mark.parametrize(("factor", "edge"), [(0.8, "±25 %"), (0.6, "±50 %"), (0.2, "±100 %"), (4.0, "±100 %")])
def test_large_changes_are_not_all_drawn_at_the_same_place(tmp_path: Path, factor: float, edge: str) -> None:
    text = comparison_page.render([pair(tmp_path, factor=factor)])
    assert f"{edge}; shaded: does not matter" in text
    assert ("<path d=" in re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)) == (factor > 1)


def test_the_page_says_what_sessions_differ_by(tmp_path: Path) -> None:
    found = pair(tmp_path)
    further = [side(tmp_path, f"again {seed}", sweeps=[SIZES, DEPTHS], seed=seed) for seed in (3, 4, 5)]
    alike = tuple(like(found.a, one, None, "") for one in further)
    text = comparison_page.render([versus(found.a, found.b, None, "", AT_LEAST, alike)])
    bare = " ".join(re.sub(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL).split())
    for part in ("Random reads lost 2", "Sessions of before differ by ", "over 4 campaigns", "before (mean of 4)"):
        assert part in bare
    assert "again 3 (--like)" in bare
    assert "is not known here" not in bare


def test_names_cannot_become_html(tmp_path: Path) -> None:
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
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    context.close()
    assert complaints == []
