"""The report and the comparison as pages: their whole text, what they may load, and names that stay text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.analysis.comparison import NamedCampaign, Versus, versus
from iosweep.analysis.summary import summarize
from iosweep.files.documents import Damaged
from iosweep.report import comparisons, page
from iosweep.tables.reader import load
from page_data import page_data
from report_nodes import node
from results_factory import DATA_PHASES, METADATA_PHASES, K, M, sweep
from topologies import WEKA_56

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&"
#: The fastest page that has all parts of one.
SMALL = (sweep("small", ["seq_read"], {"threads_per_node": [1, 2]}),)


def text_of(document: str) -> str:
    """The lines of text of an HTML document, without scripts, styles and drawings."""
    bare = re.sub(r"<(script|style|svg)\b.*?</\1>", "", document, flags=re.DOTALL)
    bare = re.sub(r"</?(a|b|code|i|small|span)\b[^>]*>", "", bare.replace("\n", " "))
    lines = unescape(re.sub(r"<[^>]+>", "\n", bare)).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines if line.strip())


@pytest.fixture(scope="module", autouse=True)
def no_library() -> Iterator[None]:
    """Bundling the library that draws in a browser takes seconds; test_report_browser.py has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "library", lambda: "")
        yield


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of one node: fio and IOR, repetitions that are not valid, and two builds of fio."""
    sweeps = [
        sweep("threads", DATA_PHASES, {"threads_per_node": [1, 2, 8], "transfer_size": [4 * K, 64 * K]}),
        sweep("depth", ["rand_read"], {"queue_depth": [1, 4, 32]}, description="Of \N{GREEK SMALL LETTER MU}s"),
        sweep("metadata", METADATA_PHASES, {"threads_per_node": [1, 2]}),
        factory.ior(axes={"threads_per_node": [1, 8], "transfer_size": [M]}),
    ]

    def build(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return factory.SPACK if row["queue_depth"] == 4 else factory.PATH

    results = tmp_path_factory.mktemp("machine")
    return page.render(factory.make(results, sweeps, spoil=factory.spoil_some, build=build))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of four nodes that took turns in one Slurm job."""
    own = factory.nodes(4)
    own[1] |= {"governor": "powersave"}
    sweeps = [
        *factory.weka(nodes=(1, 4), scaled=["read-iops"]),
        sweep("scaling", ["seq_read"], {"nodes": [1, 2, 4]}),
    ]
    results = tmp_path_factory.mktemp("cluster")
    return page.render(factory.make(results, sweeps, nodes=own, place=factory.in_turn(own)))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the node check of three nodes, of which one is slow, and which all differ in their reserved CPUs."""
    sources = [{"source": "weka local resources", "cpus": "24-27", "says": "4 FRONTEND cores"}]
    facts = node(WEKA_56.topology, reserved_sources=sources, reserved_cpus="24-27")
    names = [{key: one[key] for key in ("host", "node")} for one in factory.nodes(3)]
    own = [facts | name | {"used_cpus": str(n)} for n, name in enumerate(names, 23)]
    results = tmp_path_factory.mktemp("checked")
    return page.render(
        factory.make(results, factory.node_check(), nodes=own, speed=lambda row: 0.5 if row["host"] == "node02" else 1)
    )


def test_the_text_of_a_page(machine: str, snapshot: SnapshotAssertion) -> None:
    assert text_of(machine) == snapshot


@pytest.mark.parametrize("of", ["cluster", "checked"])
def test_the_text_that_several_nodes_add(of: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    """The first screen, mdtest's rates, and the system."""
    page = request.getfixturevalue(of)
    parts = [page.partition('<section id="figures">')[0]]
    parts += [page.partition(f'<section id="{name}">')[2].partition("</section>")[0] for name in ("results", "system")]
    assert text_of("".join(parts)) == snapshot


def test_the_policy_of_a_page_allows_nothing_from_elsewhere(machine: str, cluster: str) -> None:
    for text in (machine, cluster):
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy
        assert policy[1].startswith("default-src &#39;none&#39;;")
        assert "unsafe" not in policy[1]
        assert not re.search(r'(src|href)="(?!#|builds/[0-9a-f]{12}\.)', text[: text.index("<script")])


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    one = sweep("evil", ["seq_read"], {"threads_per_node": [1, 2]}, description=EVIL, suite=EVIL, scaled=True)
    files = factory.mdtest("files", axes={"nodes": [1, 2]}, source=EVIL)
    evil_tool = {"path": EVIL, "package": EVIL, "version": EVIL, "sha256": EVIL}
    built = factory.SPACK | {
        "tools": dict.fromkeys(("fio", "mdtest"), evil_tool),
        "mpi": {"path": EVIL, "version": EVIL, "package": EVIL},
        "spack": factory.SPACK["spack"] | {"version": EVIL, "path": EVIL, "changed": True},
    }
    facts = node(WEKA_56.topology, reserved_sources=[{"source": EVIL, "cpus": "24-27", "says": EVIL}], kernel=EVIL)
    nodes = [facts | {"node": host, "host": host} for host in (EVIL, "b")]
    nodes[0] |= {"governor": EVIL, "reserved_cpus": "24-27"}
    results = factory.make(
        tmp_path, [one, files], campaign=EVIL, description=EVIL, nodes=nodes, build=lambda _: built,
        spoil=lambda row: ("suspect", f"duration: {EVIL}"),
    )  # fmt: skip
    text = page.render(results)
    body = text[: text.index("<script")]
    assert "<h1>&lt;/script&gt;" in body
    assert body.count("&lt;img src=x onerror=alert(2)&gt;") > 20
    assert "<script>alert" not in text
    assert "<img" not in body
    assert json.loads(page_data(text))["campaign"] == EVIL


def test_the_same_results_make_the_same_page_and_its_data_are_those_of_its_table(tmp_path: Path) -> None:
    results = factory.make(tmp_path, SMALL)
    text = page.render(results)
    assert page.render(results) == text
    carried = json.loads(page_data(text))
    assert len(carried["series"]) == len(carried["table"]["rows"]) == 2
    assert [*carried["figures"]] == re.findall(r'class="chart" data-figure="([^"]*)"', text[: text.index("<script")])


def test_a_failure_leaves_the_page_that_was(tmp_path: Path) -> None:
    results = factory.make(tmp_path, SMALL)
    before = page.write(results).read_text()
    (results / "campaign.json").write_text("{}")
    with pytest.raises(Damaged):
        page.write(results)
    assert (results / "report.html").read_text() == before
    assert not [path for path in results.iterdir() if path.name.startswith(".")]
    (results / "campaign.json").unlink()
    with pytest.raises(FileNotFoundError):
        page.render(results)


# a comparison


def side(place: Path, name: str, **options: Any) -> NamedCampaign:
    sweeps = [
        sweep("sizes", ["rand_read"], {"threads_per_node": [1, 2, 4], "transfer_size": [4 * K, 64 * K]}),
        sweep("depths", ["rand_write"], {"queue_depth": [1, 2, 4]}),
    ]
    made = factory.make(place / name.replace("/", "_")[:20], sweeps, repetitions=4, campaign=name, **options)
    campaign = load(made)
    return NamedCampaign(name, made, campaign, tuple(summarize(campaign.rows)))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> NamedCampaign:
    return side(tmp_path_factory.mktemp("before"), "before")


def changed(before: NamedCampaign, place: Path, factor: float, name: str = "after") -> Versus:
    """Against a campaign whose reads are faster by this factor."""
    after = side(place, name, seed=2, speed=lambda row: factor if row["phase"] == "rand_read" else 1.0)
    return versus(before, after)


def drawn(text: str) -> Iterator[str]:
    yield from re.findall(r"<svg class=.*?</svg>", text, re.DOTALL)


def test_the_text_of_a_comparison(before: NamedCampaign, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    found = changed(before, tmp_path, 0.8)
    text = comparisons.compare_page([found])
    assert text_of(text) == snapshot
    assert [*drawn(text)]
    assert all('role="img" aria-label="' in svg for svg in drawn(text))


def test_hostile_names_stay_text_in_a_comparison(before: NamedCampaign, tmp_path: Path) -> None:
    text = comparisons.compare_page([changed(before, tmp_path, 0.8, EVIL)])
    assert "<img" not in re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
