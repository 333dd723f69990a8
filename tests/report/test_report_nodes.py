"""Nodes in the report: their facts side by side, the node check, and means over unlike nodes."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import results_factory as factory
from iosweep.analysis import caveats, formats
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.report import benchmark_tables, captions, headline, page, quality, results_table, system
from iosweep.report.system import NodeCheck, Nodes
from results_factory import NODE, G, sweep
from results_factory import node_check as suite

GIGABIT = 10**9


def nic(**changes: Any) -> dict[str, Any]:
    usual = {"name": "ib0", "state": "up", "speed_bits_per_s": 100 * GIGABIT, "driver": "mlx5_core", "numa_node": None}
    return usual | changes


def shown(*changes: Mapping[str, Any]) -> Nodes:
    """The nodes node01, node02 ..., with these facts instead of NODE's."""
    rows = [{**node, **change} for node, change in zip(factory.nodes(len(changes)), changes, strict=True)]
    found = system.of(factory.loaded(nodes=rows))
    assert found is not None
    return found


def where(**values: str | None) -> str:
    return results_table._where(factory.row(**values), with_build=False)


def column(found: Nodes, title: str) -> list[tuple[tuple[str, ...], bool]]:
    i = found.differing.index(title)
    return [(row.cells[i].lines, row.cells[i].odd) for row in found.rows]


class TestNodes:
    def test_one_node_has_all_its_facts_in_words(self) -> None:
        found = shown({})
        assert (found.differing, found.notes, [row.host for row in found.rows]) == ((), (), ["node01"])
        assert dict(found.alike) == {
            "system": ("Debian GNU/Linux 12 (bookworm)",),
            "kernel": ("6.1.0-28-amd64",),
            "CPU": ("AMD EPYC 7543P 32-Core Processor",),
            "CPUs": ("64 CPUs, 1 socket, 2 threads per core",),
            "allowed CPUs": ("0-63",),
            "reserved CPUs": ("none",),
            "NUMA nodes": ("0: CPUs 0-63, 256 GiB",),
            "frequency governor": ("performance",),
            "clock": ("tsc",),
            "transparent huge pages": ("madvise",),
            "memory": ("256 GiB",),
            "network": (
                "ens1f0np0 up 100 Gbit/s (mlx5_core), NUMA node 0",
                "ens1f1np1 off (mlx5_core), NUMA node 0",
            ),
            "mount of the target": (NODE["mount"],),
            "memory available": ("250 GiB (98 %)",),
            "load over 1, 5, 15 min": ("0.15, 0.08, 0.01",),
            "free on the target": ("3.00 TiB of 4.00 TiB", "268,001,112 of 268,435,456 inodes"),
            "tools": ("fio 3.33, /usr/bin/fio",),
            "read at": ("2025-06-02 11:00:00+02:00",),
        }

    def test_a_fact_that_differs_is_marked_where_it_is_not_that_of_most(self) -> None:
        found = shown({}, {"kernel": "5.14"}, {}, {"nics": [nic(speed_bits_per_s=25 * GIGABIT)]})
        assert found.differing == ("kernel", "network")
        assert [odd for _, odd in column(found, "kernel")] == [False, True, False, False]
        assert column(found, "network")[3] == (("ib0 up 25 Gbit/s (mlx5_core)",), True)
        assert "kernel" not in dict(found.alike)

    @pytest.mark.parametrize(
        ("change", "lines"),
        [
            ({"reserved_cpus": "24-27"}, ("24-27",)),
            ({"reserved_cpus": None}, ("not known which",)),
            ({"reserved_cpus": None, "reserved_sources": None}, ()),
        ],
    )
    def test_reserved_cpus(self, change: dict[str, Any], lines: tuple[str, ...]) -> None:
        assert dict(shown(change).alike)["reserved CPUs"] == lines

    def test_what_changes_from_run_to_run_is_shown_and_never_marked(self) -> None:
        found = shown({}, {}, {"load_1_min": 9.0, "target_free_bytes": 2**40, "read_at": "2025-06-03T11:00:00+02:00"})
        assert found.differing == ("load over 1, 5, 15 min", "free on the target", "read at")
        assert not any(cell.odd for row in found.rows for cell in row.cells)

    @pytest.mark.parametrize(
        ("change", "note"),
        [
            ({"governor": "powersave"}, "Frequency governor powersave, not performance"),
            ({"governor": "performance, powersave"}, "Frequency governor performance, powersave, not performance"),
            ({"memory_available_bytes": 25 * G}, "Less than 10 % of the memory was available"),
            ({"memory_available_bytes": 26 * G}, None),
            ({"nics": [nic(state="down")]}, "Network interface ib0 is on, but has no link"),
            ({"nics": [nic(state="off")]}, None),
            ({"nics": [nic(state="unknown")]}, None),
        ],
    )
    def test_notes(self, change: dict[str, Any], note: str | None) -> None:
        assert shown(change).notes == ((f"{note}.",) if note else ())
        assert shown({}, change, change).notes == ((f"{note}: node02, node03.",) if note else ())

    def test_the_section(self, tmp_path: Path) -> None:
        found = factory.nodes(3)
        found[1] |= {"governor": "powersave", "kernel": "<b>6.1"}
        text = section(page.render(factory.make(tmp_path, nodes=found, repetitions=1)), "system")
        assert "Frequency governor powersave, not performance: node02." in text
        assert '<td class="odd "><div>&lt;b&gt;6.1</div>' in text
        assert '<th scope="row">node03</th><td class="number">72</td>' in text  # its results
        assert "AMD EPYC 7543P" in text


def missing(_: Mapping[str, Any]) -> tuple[str, str]:
    return "missing", "fio is not installed"


def section(html: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', html, re.DOTALL)
    assert found
    return found[0]


def checked(tmp_path: Path, count: int, **options: Any) -> NodeCheck | None:
    campaign = load(factory.make(tmp_path, sweeps=suite(), nodes=factory.nodes(count), **options))
    return system.node_check(campaign, summarize(campaign.rows))


def slow(*hosts: str, factor: float = 0.5, phases: Sequence[str] = factory.DATA_PHASES) -> factory.Speed:
    return lambda row: factor if row["host"] in hosts and row["phase"] in phases else 1.0


class TestNodeCheck:
    def test_a_slow_node_is_named_and_stands_first(self, tmp_path: Path) -> None:
        found = checked(tmp_path, 8, speed=slow("node05", phases=["seq_read"]))
        assert found is not None
        assert re.fullmatch(
            r"1 of 8 nodes stands out from the nodes' median: node05 \((49|50|51) % in sequential read 1 MiB\)\.",
            found.sentence,
        )
        assert found.odd == ("node05",)
        assert [row.title for row in found.table.rows][:3] == ["median of the nodes", "node05", "node01"]
        assert found.table.columns == (
            *("Sequential write 1 MiB", "Sequential read 1 MiB", "Random write 4 KiB", "Random read 4 KiB"),
        )
        median, slowest, *others = found.table.rows
        assert [cell.lines[0].startswith("slow ") for cell in slowest.cells] == [False, True, False, False]
        assert not any("slow" in cell.lines[0] for row in others for cell in row.cells)
        assert median.cells[1].value.endswith(" GiB/s")
        assert median.cells[1].lines == ("± 10 % allowed",)
        assert slowest.cells[1].value.endswith(" GiB/s")

    def test_two_nodes_differ_and_none_is_odd(self, tmp_path: Path) -> None:
        found = checked(tmp_path, 2, speed=slow("node01", factor=0.3, phases=["rand_write"]))
        assert found is not None
        assert re.fullmatch(
            r"node01 reaches (29|30|31) % of node02 in random write 4 KiB, where they differ most\."
            r" Fewer than 3 nodes do not tell which one is odd\.",
            found.sentence,
        )
        assert found.odd == ()
        assert {cell.lines for cell in found.table.rows[0].cells} == {()}

    def test_one_node_has_nothing_to_compare_with(self, tmp_path: Path) -> None:
        found = checked(tmp_path, 1)
        assert found is not None
        assert found.sentence == "Only node01 was measured: there is nothing to compare it with."
        assert [cell.lines for cell in found.table.rows[0].cells] == [("100 %",)] * 4

    def test_a_node_without_a_figure_is_named_and_does_not_count(self, tmp_path: Path) -> None:
        def fails(row: Mapping[str, Any]) -> tuple[str, str] | None:
            broken = row["host"] == "node04" and row["phase"] == "rand_read"
            return ("invalid", "no_errors: 3 I/O errors") if broken else None

        found = checked(tmp_path, 4, spoil=fails, speed=slow("node04", factor=1e-3, phases=["rand_read"]))
        assert found is not None
        assert found.sentence.endswith(" No figure: node04 (random read 4 KiB).")
        assert found.odd == ()
        assert (found.table.rows[4].cells[3].value, found.table.rows[4].cells[3].verdict) == ("", "invalid")

    def test_suspect_repetitions_count_and_mark(self, tmp_path: Path) -> None:
        found = checked(
            tmp_path,
            3,
            spoil=lambda row: ("suspect", "duration: short") if row["host"] == "node02" else None,
            speed=slow("node02"),
        )
        assert found is not None
        assert found.odd == ("node02",)
        assert {cell.verdict for cell in found.table.rows[1].cells} == {"suspect"}

    def test_nothing_measured_and_other_suites_have_none(self, tmp_path: Path) -> None:
        assert checked(tmp_path / "a", 1, spoil=missing) is None
        campaign = load(factory.make(tmp_path / "b", nodes=factory.nodes(3)))
        assert system.node_check(campaign, summarize(campaign.rows)) is None

    def test_page_and_terminal_say_it(self, tmp_path: Path) -> None:
        results = factory.make(tmp_path, sweeps=suite(), nodes=factory.nodes(4), speed=slow("node02"))
        html = page.render(results)
        banner = '<p class="banner"><b><a href="#node-check">Node check.</a></b> 1 of 4 nodes stands out'
        assert banner in html
        assert section(html, "system").count("<small>slow ") == 4
        assert "Node check: 1 of 4 nodes stands out" in terminal(results)

    def test_one_that_was_made_to_fit_compares_as_well(self) -> None:
        sweeps = [factory.sweep_facts(name="node-check.throughput", suite="node-check", scaled=True)]
        assert headline.scaled(sweeps) == []


def terminal(results: Path) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(headline.table(results))
    return console.export_text()


class TestUnlikeNodes:
    """One point that was measured on several nodes, as on a cluster whose allocations get other ones."""

    SWEEP = (sweep("threads", ["seq_read"], {"threads_per_node": [1, 2]}),)

    def campaign(self, tmp_path: Path, count: int = 2, **options: Any) -> Path:
        speed = slow("node02", factor=0.25)
        return factory.make(tmp_path, sweeps=self.SWEEP, nodes=factory.nodes(count), speed=speed, **options)

    def test_their_mean_has_no_confidence_interval(self, tmp_path: Path) -> None:
        for result in summarize(load(self.campaign(tmp_path / "two")).rows):
            assert result.hosts == ("node01", "node02")
            assert result.headline is not None
            assert (result.headline.n, result.headline.interval, result.headline.ci95_share) == (6, None, None)
            assert result.headline.low < result.headline.high / 3
        for result in summarize(load(self.campaign(tmp_path / "one", count=1)).rows):
            assert result.headline is not None
            assert result.headline.interval is not None

    def test_a_node_whose_repetitions_do_not_count_has_no_part(self, tmp_path: Path) -> None:
        results = self.campaign(tmp_path, spoil=lambda r: ("invalid", "x: y") if r["host"] == "node02" else None)
        for result in summarize(load(results).rows):
            assert result.hosts == ("node01",)
            assert result.headline is not None
            assert result.headline.interval is not None

    def test_it_is_said_everywhere(self, tmp_path: Path) -> None:
        results = self.campaign(tmp_path)
        campaign = load(results)
        found = summarize(campaign.rows)
        said = "2 results are means over repetitions on different nodes (node01, node02), which may differ:"
        said += " there is no confidence interval."
        assert system.unlike(campaign, found) == [(False, said)]
        assert f"Unlike nodes:</b> {said}" in page.render(results)
        assert said in terminal(results)
        assert said in list(captions.notes(found, found, "range", "rate", None))
        assert said in list(benchmark_tables.notes(found))
        (entry,) = headline.groups(found)[0].entries
        assert entry.spread.endswith("(n = 6), 2 nodes")
        shown = results_table.payload(found, [])
        place = [c.key for c in shown.columns].index("hosts")
        assert [row[place] for row in shown.rows] == [2, 2]

    def test_the_node_check_compares_its_nodes_itself(self, tmp_path: Path) -> None:
        campaign = load(factory.make(tmp_path, sweeps=suite(), nodes=factory.nodes(3)))
        assert system.unlike(campaign, summarize(campaign.rows)) == []


class TestNodesInTurn:
    """`allocation: campaign`: repetitions of smaller counts go round the nodes of one job."""

    def campaign(self, tmp_path: Path, **options: Any) -> Path:
        own = factory.nodes(4)
        sweeps = [sweep("scaling", ["seq_read"], {"nodes": [1, 2, 4]}, threads_per_node=8)]
        return factory.make(tmp_path, sweeps=sweeps, nodes=own, **{"place": factory.in_turn(own)} | options)

    def test_the_interval_is_there_and_what_it_includes_is_said(self, tmp_path: Path) -> None:
        results = self.campaign(tmp_path)
        found = summarize(load(results).rows)
        assert [len(result.hosts) for result in found] == [3, 4, 4]
        assert [(result.host_sets, result.in_turn) for result in found] == [(3, True), (2, True), (1, False)]
        assert all(result.headline and result.headline.interval is not None for result in found)
        said = "2 results are means over repetitions on different nodes (node[01-04]), which took turns:"
        said += " the spread includes what they differ by."
        assert system.unlike(load(results), found) == [(True, said)]
        assert f"<b>Nodes in turn:</b> {said}" in page.render(results)
        (entry,) = headline.groups(found[:1])[0].entries
        assert entry.spread.endswith("% (95 % CI, n = 3), nodes in turn")

    def test_repetitions_of_several_jobs_took_no_turns(self, tmp_path: Path) -> None:
        """A job went on where another one had ended, on whatever nodes it got."""
        own = factory.nodes(4)

        def place(count: int, repetition: int) -> tuple[str, Sequence[Mapping[str, Any]]]:
            first = 0 if repetition < 3 else 4 - count
            return str(repetition // 3), own[first : first + count]

        found = summarize(load(self.campaign(tmp_path, place=place)).rows)
        assert [(r.host_sets, r.in_turn, caveats.over_hosts(r)) for r in found] == [
            (2, False, "2 nodes"), (2, False, "2 sets of nodes"), (1, False, ""),
        ]  # fmt: skip
        assert [result.headline and result.headline.interval is None for result in found] == [True, True, False]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n2", "n10", "n1", "n2"], "n1, n2, n10"),
        (["n9", "n10", "n11", "n8", "login"], "login, n[8-11]"),
        ([f"node{i:02}" for i in (1, 2, 3, 7, 99, 100, 101)], "node[01-03,07,99-101]"),
        ([f"c{i}.cluster" for i in range(1, 1001)], "c[1-1000].cluster"),
        (["a", "b", "c", "d"], "a, b, c, d"),
        (["r1-n0", "r1-n1", "r2-n0", "r2-n1"], "r1-n[0-1], r2-n[0-1]"),
        (
            [f"r{r}n{n}" for r in range(1, 9) for n in range(9)],
            "r1n[0-8], r2n[0-8], r3n[0-8], r4n[0-8], r5n[0-8], r6n[0-8], ... 72 in all",
        ),
        ([f"n{2 * i}" for i in range(500)], "n[0,2,4,6,8,10,12,14,16,18,20,22,... 500 in all]"),
    ],
)
def test_names_of_nodes_are_written_as_slurm_does(names: list[str], text: str) -> None:
    assert formats.hosts(names) == text


class TestJobs:
    def test_which_job_measured_what(self, tmp_path: Path) -> None:
        own = factory.nodes(8)
        sweeps = [sweep("scaling", ["seq_read", "rand_read"], {"nodes": [1, 8], "threads_per_node": [1, 2]})]
        place = factory.per_node_count({1: own[:1], 8: own})
        text = section(page.render(factory.make(tmp_path, sweeps=sweeps, nodes=own, place=place)), "provenance")
        table = text[text.index("Slurm jobs") : text.index("Sweeps")]
        cells = re.findall(r"<td[^>]*>([^<]*)</td>", table)
        assert sorted([cells[:7], cells[8:15]]) == [
            ["101", "1", "node01", "srun", "1", "2", "6"],
            ["108", "8", "node[01-08]", "srun", "8", "2", "6"],
        ]

    def test_without_slurm_there_is_none(self, tmp_path: Path) -> None:
        assert "Slurm" not in section(page.render(factory.make(tmp_path)), "provenance")

    def test_what_kept_other_benchmarks_off(self, tmp_path: Path) -> None:
        checks = [
            factory.check(check="exclusive", outcome=outcome, evidence=evidence)
            for outcome, evidence in [("pass", "job 1 has the license"), ("pass", "job 2 has the license"),
                                      ("not checked", "no lock"), ("not applicable", "")]
        ]  # fmt: skip
        assert quality.exclusion([*checks, factory.check(check="workers", outcome="fail", evidence="")]) == [
            ("pass", "job 1 has the license (numbers differ)", 2),
            ("not checked", "no lock", 1),
        ]
        text = section(page.render(factory.make(tmp_path)), "provenance")
        assert "not known to be kept off: exclusion is not enforced on one machine (216 rows)" in text

    @pytest.mark.parametrize(
        ("ran_on", "text"),
        [
            ("n1:32,n2:32,n3:32,n4:32", "on n[1-4], 32 processes seen on each, Slurm job 9"),
            ("n1:32,n2:31,n3:32", "on n[1-4], processes seen: 32 on n1, n3, 31 on n2, none on n4, Slurm job 9"),
            (None, "on n[1-4], Slurm job 9"),
        ],
    )
    def test_where_a_repetition_ran(self, ran_on: str | None, text: str) -> None:
        assert where(hosts="n1,n2,n3,n4", ran_on=ran_on, slurm_job="9") == text
