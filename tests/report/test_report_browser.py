"""The page in a real browser, from a file, without a network: drawn, usable, and silent."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.report import behind_rows
from iosweep.report import page as report
from iosweep.tools import parameters
from report_nodes import HUGE, ONE, node, nodes
from results_factory import DATA_PHASES, K, M, sweep

pytestmark = pytest.mark.local

playwright = pytest.importorskip("playwright.sync_api", reason="playwright: not installed")

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: A browser takes its time where the machine is busy.
PATIENCE_MS = 300_000
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"

#: results directory, options of the browser's context -> the page, drawn
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Any]:
    with playwright.sync_playwright() as session:
        opened = session.chromium.launch(executable_path=str(chromium), args=list(FLAGS), timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Open]:
    """Opens a report that is written; whatever it complains of, asks for or pops up fails the test at its end."""
    contexts, complaints = [], []

    def opened(results: Path, script: str = "", fragment: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_offline(True)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        tab = context.new_page()
        tab.add_init_script(script)
        tab.on("console", lambda message: complaints.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        own = (results / "report.html").as_uri()
        tab.on(
            "request",
            lambda request: request.url.split("#")[0] == own or complaints.append(f"request: {request.url[:200]}"),
        )
        tab.goto(own + fragment)
        tab.wait_for_selector("html[data-drawn]", state="attached")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def written(directory: Path, **options: Any) -> Path:
    """A results directory with its report."""
    return report.write(factory.make(directory, **options)).parent


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("demo"), spoil=factory.spoil_some)


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


def test_every_figure_is_drawn(show: Open, demo: Path) -> None:
    tab = show(demo)
    charts = tab.locator(".chart")
    assert charts.count() == 5
    for i in range(5):
        assert charts.nth(i).locator("svg [aria-roledescription='point']").count() >= 10
        assert charts.nth(i).locator("svg [aria-roledescription='rule mark']").count() >= 1
    # 12 points a phase; the invalid one is missing, and four of 64 KiB are hollow
    assert charts.nth(0).locator("svg [aria-roledescription='point']").count() == 4 * 12 - 1
    assert charts.nth(0).locator("svg path[aria-roledescription='point'][fill='white']").count() == 4


def test_the_first_screen_is_the_answer(show: Open, demo: Path) -> None:
    tab = show(demo)
    assert tab.locator(".tile .count").all_inner_texts() == ["● 57", "○ 3", "✕ 3", "– 3", "630"]
    assert "GiB/s" in tab.locator(".card", has_text="Sequential read").inner_text()
    for card in tab.locator(".headline .cards").first.locator(".card").all():
        assert (box := card.bounding_box()) and box["y"] + box["height"] < 900
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280


def test_filters(show: Open, demo: Path) -> None:
    tab = show(demo)
    assert tab.locator("#shown").inner_text() == "72 of 72"
    tab.locator("#filter").fill("random READ 64 KiB")
    assert set(column(tab, "phase")) == {"Random read"}
    assert set(column(tab, "transfer_size_bytes")) == {"64 KiB"}
    tab.locator("#filter").fill("enospc")  # reasons are searched, too
    assert column(tab, "verdict") == ["✕ invalid"]
    tab.locator("#filter").fill("")
    tab.locator("#verdicts button", has_text="suspect").click()
    assert column(tab, "verdict") == ["○ suspect"] * 4
    tab.locator(".absent a", has_text="3 repetitions missing").click()
    assert column(tab, "verdict") == ["– missing"] * 2
    assert tab.locator("#shown").inner_text() == "2 of 72"


def test_sorts_numbers_as_numbers(show: Open, demo: Path) -> None:
    tab = show(demo)
    tab.locator("th[data-column='ops_per_s'] button").click()
    cells = column(tab, "ops_per_s")
    figures = [float(cell.replace(",", "")) for cell in cells if cell != "–"]
    assert figures == sorted(figures, reverse=True)
    assert cells[-3:] == ["–"] * 3  # what has no figure stands last
    tab.locator("th[data-column='ops_per_s'] button").click()
    assert column(tab, "ops_per_s") == [*reversed(cells[:-3]), *cells[-3:]]
    tab.locator("th[data-column='transfer_size_bytes'] button").click()
    sizes = list(dict.fromkeys(column(tab, "transfer_size_bytes")))
    assert sizes == ["4 KiB", "64 KiB", "1 MiB", "–"]
    assert tab.locator("th[aria-sort]").get_attribute("data-column") == "transfer_size_bytes"


def test_a_row_opens_to_its_repetitions(show: Open, demo: Path) -> None:
    tab = show(demo)
    tab.locator("#filter").fill("enospc")
    tab.locator("#table .open").click()
    behind = tab.locator("#table tr.behind")
    assert behind.locator("tbody tr").count() == 3
    assert "no_errors: fail, 3 I/O errors (ENOSPC) (repetition 1, 2, 3)" in behind.inner_text()
    assert "--name=seq_read" in behind.locator("pre").inner_text()
    tab.locator("#table .open").click()
    assert behind.count() == 0


def test_a_row_opens_to_its_figures_over_time(show: Open, tmp_path: Path) -> None:
    results = factory.make(tmp_path, sweeps=[sweep("one", ["seq_read"], {"threads_per_node": [1, 2]})])
    wanted = behind_rows.chosen(summarize(load(results).rows))
    (point, phase), repetition = next(iter(wanted.items()))
    run = {"point": point, "phase": phase, "repetition": repetition, "attempt": 1}
    hosts = ("node01", EVIL)
    series = [
        {**run, "host": host, "quantity": quantity, "begin_s": 0.0, "interval_s": 1.0, "values": [M, None, 3.0 * M]}
        for host in hosts
        for quantity in ("bandwidth_bytes_per_s", "dirty_bytes")
    ]
    parts = [{**run, "host": host, "bandwidth_bytes_per_s": n * M} for n, host in enumerate(hosts, 1)]
    factory.add_series(results, series, parts)
    tab = show(report.write(results).parent)
    tab.locator("#filter").fill("1")
    tab.locator(f"#table tr:nth-child({1 + list(wanted).index((point, phase))}) .open").click()
    figures_over_time = tab.locator(".series figure")
    assert figures_over_time.locator("h5").all_inner_texts() == [
        "Rate, sum of 2 nodes",
        "Rate of each node",
        "Dirty pages",
        "Latency by percentile, all repetitions that count",
    ]
    label = figures_over_time.nth(0).locator("svg").get_attribute("aria-label")
    assert label == "Rate, sum of 2 nodes over time, 0 to 3.00 s: 2.00 to 6.00 MiB/s"
    assert figures_over_time.nth(1).locator("span").all_inner_texts() == list(hosts)
    assert (
        figures_over_time.nth(0).locator("path").get_attribute("d").count("M") == 2
    )  # it breaks where nothing was read
    assert f"in repetition {repetition}" in tab.locator("#table tr.behind").inner_text()
    assert tab.locator("table.rates tbody td").all_inner_texts() == ["node01", "1.00 MiB/s", EVIL, "2.00 MiB/s"]
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280


def test_several_nodes(show: Open, tmp_path: Path) -> None:
    own = factory.nodes(8)
    sweeps = [*factory.weka(nodes=(1, 8))[:1], sweep("scaling", ["seq_read"], {"nodes": [1, 2, 8]})]
    place = factory.per_node_count({1: own[7:], 2: own[:2], 8: own})
    tab = show(written(tmp_path, sweeps=sweeps, nodes=own, place=place))
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280
    tab.locator("#table .open").nth(1).click()
    behind = tab.locator("#table tr.behind").inner_text()
    assert "on node[01-08], 32 processes seen on each, Slurm job 108 (repetition 1, 2, 3)" in behind
    assert "on its first node; the others have directories and offsets of their own" in behind
    tab.locator(".chart svg [aria-roledescription='point']").nth(1).hover()
    tab.wait_for_selector("#tip:not([hidden])")
    told = tab.locator("#tip").inner_text().splitlines()
    assert "on node[01-08]" in told
    assert any(line.endswith("% of 8 × 1 node") for line in told)


@pytest.mark.parametrize("script", ["", "delete Navigator.prototype.clipboard"], ids=["clipboard", "without"])
def test_copies_a_command(show: Open, demo: Path, script: str) -> None:
    tab = show(demo, script, permissions=["clipboard-read", "clipboard-write"])
    tab.locator("#table .open").first.click()
    tab.locator("#table pre + .copy").click()
    tab.wait_for_selector("#table .copy:has-text('copied')")
    tab.locator("#filter").press("Control+V")
    assert tab.locator("#filter").input_value().startswith("fio --name=seq_write")


def test_saves_what_is_shown_as_csv(show: Open, demo: Path) -> None:
    tab = show(demo)
    tab.locator("#filter").fill("stat")
    with tab.expect_download() as download:
        tab.locator("#csv").click()
    lines = download.value.path().read_text().splitlines()
    assert download.value.suggested_filename == "demo.csv"
    assert lines[0].startswith("verdict,phase,threads per node,transfer size (bytes)")
    assert len(lines) == 1 + 4


def test_a_saved_csv_has_no_formulas(show: Open, tmp_path: Path) -> None:
    def spoil(row: Mapping[str, Any]) -> tuple[str, str]:
        return "suspect", '=HYPERLINK("http://x")'

    report.write(factory.make(tmp_path, spoil=spoil))
    tab = show(tmp_path)
    with tab.expect_download() as download:
        tab.locator("#csv").click()
    assert ",=" not in download.value.path().read_text()


def test_saves_a_figure(show: Open, demo: Path) -> None:
    tab = show(demo)
    with tab.expect_download() as download:
        tab.locator(".save button", has_text="SVG").first.click()
    assert download.value.suggested_filename == "throughput-by-threads.threads.svg"
    text = download.value.path().read_text()
    assert text.startswith("<svg")
    assert "Campaign demo on /mnt/scratch/bench (ext4), measured 2025-06-02 (UTC)." in text


def test_tooltip_gives_the_exact_figure(show: Open, demo: Path) -> None:
    tab = show(demo)
    tab.locator(".chart svg path[aria-roledescription='point']").first.hover(force=True)
    tab.wait_for_selector("#tip:not([hidden])")
    lines = tab.locator("#tip").inner_text().splitlines()
    assert lines[0].endswith("GiB/s") or lines[0].endswith("MiB/s")
    assert lines[1].endswith("% (95 % CI, n = 3)")


def test_figures_are_legible_in_the_dark(show: Open, demo: Path) -> None:
    tab = show(demo, color_scheme="dark")
    # the ground of every figure is dark, and what is drawn on it is inverted
    grounds = tab.evaluate("[...document.querySelectorAll('figure')].map(f => getComputedStyle(f).backgroundColor)")
    assert set(grounds) == {"rgb(24, 29, 34)"}
    assert "invert" in tab.evaluate("getComputedStyle(document.querySelector('.chart svg')).filter")
    assert tab.locator(".chart svg > rect[fill='white']").count() == 0
    tab.emulate_media(color_scheme="dark", media="print")
    assert tab.evaluate("getComputedStyle(document.querySelector('.chart svg')).filter") == "none"


def test_without_its_script_the_page_has_its_figures(browser: Any, demo: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    context.set_default_timeout(PATIENCE_MS)
    tab = context.new_page()
    tab.goto((demo / "report.html").as_uri())
    assert tab.locator(".chart > svg").count() == 5
    assert tab.locator(".chart > svg").first.get_attribute("aria-label") == "Throughput against threads per node"
    for box in (svg.bounding_box() for svg in tab.locator(".chart > svg").all()):
        assert box["width"] > 300 and box["height"] > 200
    assert tab.locator(".chart > svg path[fill='white']").count() > 0  # hollow marks
    context.close()


def test_what_does_not_fit_is_behind_its_row(show: Open, demo: Path) -> None:
    tab = show(demo)
    tab.locator("#table .open").first.click()
    folded = tab.locator("#table tr.behind .folded div").all_inner_texts()
    heads = tab.locator("#table th[data-column]").evaluate_all("all => all.map(th => th.dataset.column)")
    assert {"throughput", "operations", "verdict", "phase"}.isdisjoint(text.split("\n")[0] for text in folded)
    assert len(heads) + len(folded) > 15
    whole = tab.locator("#table tr.behind code").first.inner_text()
    assert whole.startswith("fio.seq_write+3.1n.1t.4k.qd1.")
    assert tab.locator('#table tr.behind button[title="Copy the point\'s id"]').count() == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_no_table_of_results_scrolls_sideways(show: Open, results_of_all_tools: Path, width: int) -> None:
    """What has no column is in the cell of the phase, so that rows stay distinct, and can be sorted by."""
    tab = show(results_of_all_tools)
    tab.set_viewport_size({"width": width, "height": 900})
    if width < 1280:
        tab.locator("th[data-column='tool']").wait_for(state="detached")  # laid out anew
    tab.locator("#table .open").nth(1).click()
    boxes = ".frame" if width < 1280 else ".frame, .behind > td > div"  # on a telephone a row's detail may scroll
    too_wide = "all => all.filter(box => box.scrollWidth > box.clientWidth).length"
    assert tab.locator(boxes).evaluate_all(too_wide) == 0
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.locator("#sort").select_option(label=parameters()["api"].shown)
    first = tab.locator("#table tbody tr").first
    assert "MPI-IO" in first.inner_text()
    tab.locator("#direction").click()
    assert "POSIX" in first.inner_text()


def test_hostile_names_are_inert(show: Open, tmp_path: Path) -> None:
    axes = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M]}
    one = sweep("evil", DATA_PHASES, axes, description=EVIL, suite=EVIL, source=EVIL, scaled=True)
    results = written(
        tmp_path, sweeps=[one], campaign=EVIL, description=EVIL, spoil=lambda _: ("suspect", f"duration: {EVIL}")
    )
    tab = show(results)
    assert tab.locator("h1").inner_text() == EVIL
    assert tab.title() == f"{EVIL} – iosweep"
    tab.locator("#table .open").first.click()
    tab.locator(".chart svg path[aria-roledescription='point']").first.hover(force=True)
    assert tab.locator("img, iframe, object").count() == 0
    assert tab.locator("script").count() == 3  # the data, the library, and ours


def test_256_cpus_are_readable(show: Open, tmp_path: Path) -> None:
    tab = show(written(tmp_path, sweeps=ONE, nodes=nodes(node(HUGE, used_cpus="0-63"))))
    tab.locator("nav a", has_text="System").click()  # opens what is folded
    for width in (1280, 700):
        tab.set_viewport_size({"width": width, "height": 900})
        cells = tab.evaluate(
            """() => [...document.querySelectorAll(".cores b")].map(b => {
              const box = b.getBoundingClientRect(), frame = b.closest("figure").getBoundingClientRect();
              return [b.scrollWidth <= b.clientWidth, box.right < frame.right, box.bottom < frame.bottom,
                parseFloat(getComputedStyle(b).fontSize) >= 10];
            })"""
        )
        assert cells == [[True] * 4] * 256
        picture = tab.locator(".cpus").bounding_box()
        assert picture["height"] < 1000  # a page, or little more than a screen
    assert tab.locator("[role=img] b.used").first.get_attribute("title") == "P#0, L#0: used by ranks and workers"


def no_fio(_: Mapping[str, Any]) -> tuple[str, str]:
    return "missing", "fio is not installed"


PLANE = {"threads_per_node": [1, 2], "transfer_size": [4 * K, M]}
CUBE = {**PLANE, "queue_depth": [1, 4, 16]}
TOOLS = [
    factory.ior(),
    factory.ior("layouts", axes={"file_per_process": [True, False], "transfer_size": [M]}, api="MPIIO", o_direct=False),
    factory.mdtest(),
    *factory.weka(scaled=["read-throughput"]),
    sweep("files", factory.METADATA_PHASES, {"threads_per_node": [1, 2]}),
    factory.mdtest("sizes", axes={"file_size": [0, 4 * K], "unique_directory": [True, False]}),
]


@pytest.mark.parametrize(
    ("options", "charts"),
    [
        ({"sweeps": [sweep("one", ["rand_read"], {"threads_per_node": [1]})], "repetitions": 1}, 0),
        ({"spoil": no_fio}, 0),
        ({"repetitions": 1}, 5),
        ({"sweeps": [sweep("cube", DATA_PHASES, CUBE), sweep("shared", DATA_PHASES, PLANE)]}, 18),
        ({"sweeps": TOOLS}, 19),
        ({"sweeps": factory.weka(nodes=[1])}, 0),
        ({"sweeps": factory.node_check(), "nodes": factory.nodes(9)}, 0),
        ({"sweeps": [sweep("x" * 200, ["seq_read"], {"threads_per_node": [1, 2]}, description="y" * 900)]}, 1),
    ],
    ids=[
        "one-row",
        "nothing-measured",
        "one-repetition",
        "three-axes",
        "all-tools",
        "one-client",
        "node-check",
        "long-names",
    ],
)
def test_shapes_of_campaigns(show: Open, tmp_path: Path, options: dict[str, Any], charts: int) -> None:
    tab = show(written(tmp_path, **options))
    for width in (1280, 400):
        if width != 1280:
            tab.evaluate("delete document.documentElement.dataset.drawn")
            tab.set_viewport_size({"width": width, "height": 900})
            tab.wait_for_selector("html[data-drawn]", state="attached")  # figures are drawn anew
        assert tab.locator(".chart svg").count() == charts
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.locator("#table > tbody > tr").count() > 0


def test_thousands_of_results_are_shown_in_part(show: Open, tmp_path: Path) -> None:
    tab = show(written(tmp_path, sweeps=factory.sized(3000)))
    assert tab.locator("#table > tbody > tr").count() == 100
    tab.locator("#more").click()
    assert tab.locator("#table > tbody > tr").count() > 900
    assert not tab.locator("#more").is_visible()


@pytest.fixture(scope="module")
def results_of_all_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("all-tools"), sweeps=TOOLS)


@pytest.fixture
def all_tools(show: Open, results_of_all_tools: Path) -> Any:
    return show(results_of_all_tools)


def test_figures_of_ior_have_every_point(all_tools: Any) -> None:
    for name in ("throughput", "iops"):
        chart = all_tools.locator(f".chart[data-figure='{name}-by-threads.lustre-ior.threads-by-transfer']")
        assert chart.locator("svg [aria-roledescription='point']").count() == 4 * 6 * 3
        legend = chart.locator("svg [aria-roledescription='legend']").text_content()
        assert legend == "128 KiB1 MiB16 MiBtransfer size"
    # the sweeps that measure latency are named so; no queue depth varies, so there is no figure of latencies
    assert all_tools.locator(".chart[data-figure^='latency']").count() == 0


def test_what_the_filter_finds_of_ior_and_mdtest(all_tools: Any) -> None:
    tab = all_tools
    tab.locator("#filter").fill("IOR shared file")
    assert set(column(tab, "file_per_process")) == {"shared file"}
    assert set(column(tab, "tool")) == {"IOR"}
    tab.locator("#filter").fill("MPI-IO random read")
    assert set(column(tab, "api")) == {"MPI-IO"}
    tab.locator("#filter").fill("own directories rename")
    assert set(column(tab, "phase")) == {"Rename directories"}


def test_repetitions_have_the_columns_that_their_tool_has(all_tools: Any) -> None:
    tab = all_tools
    heads = {}
    for words in ("IOR sequential", "mdtest", "fio sequential"):
        tab.locator("#filter").fill(words)
        tab.locator("#table .open").first.click()
        heads[words] = [text.split("\n")[0] for text in tab.locator(".behind thead th").all_inner_texts()]
    common = ["checks", "started (UTC)"]
    assert heads["IOR sequential"] == [
        *("repetition", "verdict", "throughput", "operations", "time", "open", "transfers", "close"), *common,
    ]  # fmt: skip
    assert heads["mdtest"] == ["repetition", "verdict", "operations", "time", *common]
    assert {"mean latency", "p99", "max"} < set(heads["fio sequential"])
    assert "open" not in heads["fio sequential"]


def test_tables_of_weka_and_mdtest(all_tools: Any) -> None:
    weka = all_tools.locator("#weka ~ .scroll table.summary").first
    heads = weka.locator("thead tr").all()
    assert heads[0].locator("th").all_inner_texts() == ["", "Single client", "Aggregated cluster", ""]
    assert heads[1].locator("th").all_inner_texts() == ["test", "1 client", "8 clients", "measured with"]
    assert weka.locator("tbody th").all_inner_texts()[:2] == ["Read throughput scaled", "Write throughput"]
    texts = [text.split("\n") for text in weka.locator("tbody td:nth-of-type(2)").all_inner_texts()]
    assert [lines[0].split()[-1] for lines in texts] == [
        *("GiB/s", "GiB/s", "ops/s", "ops/s", "avg.", "avg.", "ops/s", "ops/s", "ops/s"),
    ]
    assert texts[2][1].startswith("(fio's iops avg: ")
    assert texts[4][2].startswith("99.5 % completed under ")
    rates = all_tools.locator("#metadata ~ .scroll table.summary")
    assert rates.count() == 4  # by nodes, WEKA's, and by file size for each kind of directory
    assert rates.nth(0).locator("tbody th").all_inner_texts()[0] == "Directory creation"
    assert "not comparable with mdtest" in all_tools.locator(".headline").inner_text()


def test_a_long_legend_does_not_shrink_a_figure(show: Open, tmp_path: Path) -> None:
    sizes = [4 * K * 2**i for i in range(8)]
    tab = show(
        written(tmp_path, sweeps=[sweep("one", ["rand_read"], {"threads_per_node": [1, 2], "transfer_size": sizes})])
    )
    tab.evaluate("delete document.documentElement.dataset.drawn")
    tab.set_viewport_size({"width": 390, "height": 900})
    tab.wait_for_selector("html[data-drawn]", state="attached")
    shares = tab.locator(".chart svg").evaluate_all(
        "all => all.map(svg => svg.clientWidth / Number(svg.getAttribute('width')))"
    )
    assert len(shares) > 1
    assert min(shares) > 0.95


def test_links_lead_to_sections(all_tools: Any) -> None:
    for link in all_tools.locator("nav a").all():
        link.click()  # also opens a folded one
        assert all_tools.locator(f"section{link.get_attribute('href')}").is_visible()


def test_switches_change_all_of_a_sweep(show: Open, demo: Path) -> None:
    tab = show(demo)
    article = tab.locator("article[data-sweep=threads]")
    before = article.locator("figure[data-slice]:visible").count()
    button = article.locator("[data-switch='p99']")
    button.focus()
    tab.keyboard.press("Enter")  # without a mouse
    article.locator(".chart", has_text="p99 (").first.wait_for()
    assert button.get_attribute("aria-pressed") == "true"
    assert article.locator("figure[data-slice]:visible").count() == 1  # throughput and IOPS would repeat each other
    assert article.locator("figure:visible h4").first.inner_text().startswith("p99 against threads per node")
    article.locator("[data-switch='']").click()
    assert article.locator("figure[data-slice]:visible").count() == before


def test_the_page_can_be_dark_on_a_light_system(show: Open, demo: Path) -> None:
    tab = show(demo)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(ground)
    tab.locator("#theme").click()
    assert tab.evaluate(ground) == "rgb(20, 24, 28)"
    assert "invert" in tab.evaluate("getComputedStyle(document.querySelector('.chart svg')).filter")
    tab.emulate_media(media="print")
    assert tab.evaluate(ground) == light
    tab.emulate_media(media="screen")
    tab.locator("#theme").click()
    assert tab.evaluate(ground) == light


def test_paper_has_the_answer_and_says_where_the_rest_is(show: Open, tmp_path: Path) -> None:
    tab = show(written(tmp_path, sweeps=factory.sized(1000), spoil=factory.spoil_some))
    wide = "all => all.filter(box => box.scrollWidth > box.clientWidth).length"
    assert tab.locator(".scroll, .frame").evaluate_all(wide) == 0  # also the tables beside the figures
    pdf = tab.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator(".told p:visible").count() == tab.locator(".told p").count() > 3
    assert tab.locator(".card:visible").count() == tab.locator(".card").count() > 3
    assert tab.locator(".chart:visible").count() == tab.locator(".chart").count() > 3
    assert tab.locator("#provenance").is_visible()
    for name in ("#table", "#quality", "#system", "details:not(.printed)", ".switches", "nav"):
        assert tab.locator(name).count() > 0
        assert tab.locator(f"{name}:visible").count() == 0
    rest = tab.locator("main > .paper").inner_text()
    assert "335 results" in rest
    assert "results.csv" in rest


def test_paper_is_not_shrunk_and_can_be_read(show: Open, tmp_path: Path) -> None:
    """What is wider than the paper shrinks the whole page. A figure is printed as it was drawn for the window."""
    tab = show(written(tmp_path, sweeps=[factory.mdtest(), *factory.weka(nodes=(1, 2, 4, 8))]))
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.set_viewport_size({"width": 718, "height": 1000})  # of A4 between the margins
    assert tab.evaluate("document.documentElement.scrollWidth") == 718
    points = """all => all.map(e => {
      const zoom = e.closest("svg") ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1;
      return 0.75 * zoom * parseFloat(getComputedStyle(e).fontSize);
    })"""
    assert min(tab.locator("p:visible, dd:visible").evaluate_all(points)) >= 8
    numbers, notes = (tab.locator(f"td {name}:visible").evaluate_all(points) for name in ("b", "small"))
    assert max(notes) < min(numbers)
    letters = tab.locator(".chart svg text").evaluate_all(points)
    assert len(letters) > 100
    assert min([*letters, *notes]) >= 5
