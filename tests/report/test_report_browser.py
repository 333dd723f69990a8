"""The pages in a real browser, from a file, without a network: drawn, usable, and silent."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis.comparison import NamedCampaign, versus
from iosweep.analysis.summary import summarize
from iosweep.report import comparisons, results_table
from iosweep.report import page as report
from iosweep.tables.reader import load
from page_data import page_data
from results_factory import DATA_PHASES, METADATA_PHASES, K, M, sweep

pytestmark = pytest.mark.local

playwright = pytest.importorskip("playwright.sync_api", reason="playwright: not installed")

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: A browser takes its time where the machine is busy.
PATIENCE_MS = 300_000
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"
FORMULA = '=HYPERLINK("http://x")'
WIDTHS, SCHEMES = (1280, 700, 390), ("light", "dark")
WIDTH = "document.documentElement.scrollWidth"
GROUND = "getComputedStyle(document.body).backgroundColor"
FILTER = "getComputedStyle(document.querySelector('.chart svg')).filter"

#: page, options of the browser's context -> the page, drawn
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Any]:
    with playwright.sync_playwright() as session:
        opened = session.chromium.launch(executable_path=str(chromium), args=list(FLAGS), timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Open]:
    """Opens a page; whatever it complains of, asks for or pops up fails the test at its end."""
    contexts, complaints = [], []

    def opened(page: Path, drawn: str = "html[data-drawn]", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_offline(True)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        tab, own = context.new_page(), page.as_uri()
        tab.on("console", lambda message: complaints.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda asked: asked.url.split("#")[0] == own or complaints.append(asked.url[:200]))
        tab.goto(own)
        tab.wait_for_selector(drawn, state="attached")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def resize(tab: Any, width: int) -> None:
    """Another width of the window; figures are drawn anew for it."""
    if width != tab.viewport_size["width"]:
        tab.evaluate("delete document.documentElement.dataset.drawn")
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_selector("html[data-drawn]", state="attached")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """33 results, of which four are suspect, one invalid and one missing."""
    sweeps = [
        sweep("threads", DATA_PHASES, {"threads_per_node": [1, 2, 8], "transfer_size": [4 * K, 64 * K]}),
        sweep("depth", ["rand_read"], {"queue_depth": [1, 4, 32]}),
        sweep("metadata", METADATA_PHASES, {"threads_per_node": [1, 2]}),
    ]
    return report.write(factory.make(tmp_path_factory.mktemp("demo"), sweeps, spoil=factory.spoil_some))


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every name and reason is hostile; its rows have series of two hosts."""
    axes = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M]}
    one = sweep("evil", ["seq_read"], axes, description=EVIL, suite=EVIL, source=EVIL, scaled=True)
    results = factory.make(
        tmp_path_factory.mktemp("evil"), [one], campaign=EVIL, description=EVIL,
        spoil=lambda _: ("suspect", f"duration: {EVIL}"),
    )  # fmt: skip
    (point, phase), repetition = next(
        iter(results_table.find_typical_repetitions(summarize(load(results).rows)).items())
    )
    run = {"point": point, "phase": phase, "repetition": repetition, "attempt": 1}
    of_rate = {"quantity": "bandwidth_bytes_per_s", "begin_s": 0.0, "interval_s": 1.0, "values": [M, None, 3.0 * M]}
    series = [{**run, "host": host, **of_rate} for host in ("node01", EVIL)]
    factory.add_series(results, series)
    page = report.write(results)
    text = page.read_text(encoding="utf-8")
    carried = json.loads(page_data(text))
    carried["table"]["details"][0]["command"] = FORMULA  # the first word of a command is the path of a tool
    changed = re.sub(report.data({}).partition(">")[0] + ".*?</script>", report.data(carried), text)
    page.write_text(changed, encoding="utf-8")
    return page


def column(tab: Any, name: str) -> list[str]:
    """The table's values of one column as shown, in a window that is wide enough for all columns."""
    tab.evaluate("document.querySelector('main').style.maxWidth = 'none'")
    tab.set_viewport_size({"width": 4000, "height": 900})
    tab.locator(f"#table th[data-column={name}]").wait_for()
    cells: list[str] = tab.evaluate(
        """name => {
          const at = [...document.querySelectorAll("#table th")].findIndex(th => th.dataset.column === name);
          const cells = [...document.querySelectorAll("#table > tbody > tr:not(.behind)")].map(tr => tr.cells[at]);
          return cells.map(cell => (cell.querySelector("span:only-of-type") ?? cell).textContent);
        }""",
        name,
    )
    return cells


def test_the_first_screen_is_the_answer_every_figure_is_drawn_and_nothing_is_wider_than_the_window(
    show: Open, demo: Path
) -> None:
    tab = show(demo)
    headline = tab.locator(".headline")
    assert "MiB/s" in headline.locator("tr", has_text="Sequential read").first.inner_text()
    assert (box := headline.bounding_box()) and box["y"] + box["height"] < 900
    assert tab.evaluate(WIDTH) == 1280
    charts = tab.locator(".chart")
    marks = [chart.locator("svg [aria-roledescription='point']").count() for chart in charts.all()]
    # 6 points of 4 phases, of which one is invalid, also with p99; 3 depths, of which one is missing
    assert marks == [4 * 6 - 1, 4 * 6 - 1, 2 * (4 * 6 - 1), 2, 2 * 2]
    assert all("highest" in str(chart.get_attribute("aria-label")) for chart in charts.all())
    assert all(chart.locator("svg [aria-roledescription='rule mark']").count() for chart in charts.all())
    assert charts.first.locator("svg path[aria-roledescription='point'][fill='white']").count() == 4  # hollow
    charts.locator("svg path[aria-roledescription='point']").first.hover(force=True)
    tab.wait_for_selector("#tip:not([hidden])")
    tip = tab.locator("#tip").inner_text()
    assert re.match(r"[\d.]+ [GM]iB/s\n.*% \(n = 3\)", tip) and not re.search("undefined|null", tip)


def test_hostile_names_stay_text_and_a_saved_table_has_no_formula(show: Open, evil: Path) -> None:
    tab = show(evil)
    assert (tab.locator("h1").inner_text(), tab.title()) == (EVIL, f"{EVIL} – iosweep")
    tab.locator("#table .open").first.click()
    over_time = tab.locator(".series figure")
    label = over_time.nth(0).locator("svg").get_attribute("aria-label")
    assert label.startswith("Throughput over time, sum of 2 nodes: 2.00 to 6.00 MiB/s in repetition ")
    assert over_time.nth(0).locator("path").get_attribute("d").count("M") == 2  # it breaks where nothing was read
    assert over_time.nth(1).locator("span").all_inner_texts() == ["node01", EVIL]
    tab.locator(".chart svg path[aria-roledescription='point']").first.hover(force=True)
    assert tab.locator("img, iframe, object").count() == 0
    assert tab.locator("script").count() == 3  # the data, the library, and ours
    with tab.expect_download() as download:
        tab.locator("#csv").click()
    saved = download.value.path().read_text()
    assert "HYPERLINK" in saved
    assert not re.search(r'(^|,)"?=', saved, re.MULTILINE)


def test_the_table_can_be_filtered_sorted_opened_copied_and_saved(show: Open, demo: Path) -> None:
    tab = show(demo, permissions=["clipboard-read", "clipboard-write"])
    assert tab.locator("#shown").inner_text() == "33 of 33"
    tab.locator("#filter").fill("sequential READ 64 KiB")
    assert {*column(tab, "phase"), *column(tab, "transfer_size_bytes")} == {"Sequential read", "64 KiB"}
    tab.locator("#filter").fill("enospc")  # reasons are searched, too
    assert column(tab, "verdict") == ["✕ invalid"]
    tab.locator("#table .open").click()
    behind = tab.locator("#table tr.behind")
    assert behind.locator("tbody tr").count() == 3
    assert "3 I/O errors (ENOSPC)" in behind.inner_text()
    behind.locator("pre + .copy").click()
    tab.wait_for_selector("#table .copy:has-text('copied')")
    tab.locator("#filter").press("Control+A")
    tab.locator("#filter").press("Control+V")
    assert "--name=seq_read" in tab.locator("#filter").input_value()
    tab.locator("#filter").fill("stat")
    with tab.expect_download() as download:
        tab.locator("#csv").click()
    assert download.value.suggested_filename == "demo.csv"
    assert len(download.value.path().read_text().splitlines()) == 1 + 2
    tab.locator("#filter").fill("")
    tab.locator("#verdicts button", has_text="suspect").click()
    assert column(tab, "verdict") == ["○ suspect"] * 4
    tab.locator("#verdicts button[data-verdict='']").click()
    tab.locator("th[data-column='ops_per_s'] button").click()
    cells = column(tab, "ops_per_s")
    values = [float(cell.replace(",", "")) for cell in cells if cell != "–"]
    assert values == sorted(values, reverse=True)
    assert cells[-2:] == ["–"] * 2  # what has no figure stands last
    tab.locator("th[data-column='transfer_size_bytes'] button").click()
    assert [*dict.fromkeys(column(tab, "transfer_size_bytes"))] == ["4 KiB", "64 KiB", "–"]


def test_figures_are_legible_in_the_dark_and_can_be_saved(show: Open, demo: Path) -> None:
    tab = show(demo)
    light = tab.evaluate(GROUND)
    tab.locator("#theme").click()
    assert tab.evaluate(GROUND) == "rgb(20, 24, 28)"
    assert "invert" in tab.evaluate(FILTER)
    tab.emulate_media(media="print")
    assert (tab.evaluate(GROUND), tab.evaluate(FILTER)) == (light, "none")
    assert tab.locator("#table").is_visible()
    tab.emulate_media(media="screen", color_scheme="dark")
    tab.locator("#theme").click()
    assert tab.evaluate(GROUND) != "rgb(20, 24, 28)"
    with tab.expect_download() as download:
        tab.locator(".save button", has_text="SVG").first.click()
    assert download.value.suggested_filename == "throughput-by-threads.threads.svg"
    text = download.value.path().read_text()
    assert text.startswith("<svg")
    assert "Campaign demo on /mnt/scratch/bench" in text


def compared(place: Path) -> Path:
    """The page of a comparison with a campaign of a hostile name."""
    one = sweep("sizes", ["rand_read"], {"threads_per_node": [1, 2, 4]})
    sides = []
    for name, speed in (("before", 1.0), (EVIL, 0.8)):
        made = factory.make(place / str(speed), [one], campaign=name, speed=lambda _, by=speed: by)
        campaign = load(made)
        sides.append(NamedCampaign(name, made, campaign, tuple(summarize(campaign.rows))))
    page = place / "comparison.html"
    page.write_text(comparisons.compare_page([versus(*sides)]), encoding="utf-8")
    return page


def test_a_comparison_is_drawn_and_fits_in_light_and_dark(show: Open, tmp_path: Path) -> None:
    page = compared(tmp_path)
    for width, scheme in ((1280, "light"), (390, "dark")):
        tab = show(page, "svg", viewport={"width": width, "height": 900}, color_scheme=scheme)
        assert tab.evaluate(WIDTH) == width
        assert tab.locator("svg[role=img]").count() > 0
        assert {side.is_visible() for side in tab.locator("td[data-side]").all()} == {True}
        assert tab.locator("img").count() == 0


# at all widths, in light and dark, and on paper

PLANE = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M]}
CUBE = {**PLANE, "queue_depth": [1, 4, 16]}
TOOLS = [
    factory.ior(),
    factory.ior("layouts", axes={"file_per_process": [True, False], "transfer_size": [M]}, api="MPIIO", o_direct=False),
    factory.mdtest(),
    *factory.weka(scaled=["read-throughput"]),
    sweep("files", METADATA_PHASES, {"threads_per_node": [1, 2]}),
    factory.mdtest("sizes", axes={"file_size": [0, 4 * K], "unique_directory": [True, False]}),
]
#: Campaigns, and how many figures each has.
SHAPES: dict[str, tuple[dict[str, Any], int]] = {
    "three axes": ({"sweeps": [sweep("cube", DATA_PHASES, CUBE), sweep("shared", DATA_PHASES, PLANE)]}, 13),
    "all tools": ({"sweeps": TOOLS}, 6),
    "node check": ({"sweeps": factory.node_check(), "nodes": factory.nodes(9)}, 1),
    "long names": (
        {"sweeps": [sweep("x" * 200, ["stat"], {"threads_per_node": [1, 2, 4]}, description="y" * 900)]},
        1,
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_wider_than_the_window_whatever_was_measured(show: Open, tmp_path: Path, shape: str) -> None:
    options, charts = SHAPES[shape]
    page = report.write(factory.make(tmp_path, **options))
    for scheme in SCHEMES:
        tab = show(page, color_scheme=scheme)
        for width in WIDTHS:
            resize(tab, width)
            assert tab.locator(".chart svg").count() == charts
            assert tab.evaluate(WIDTH) == width
            assert tab.locator("#table > tbody > tr").count() > 0
            sideways = "all => all.filter(box => box.scrollWidth > box.clientWidth).length"
            assert tab.locator(".frame").evaluate_all(sideways) == 0
