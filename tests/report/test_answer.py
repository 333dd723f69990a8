"""The first screen: the grade and its causes, the best figure of each phase, what stands out; the terminal."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.analysis.summary import OUTCOMES, summarize
from iosweep.report import answer, quality
from iosweep.report.answer import Figure
from iosweep.tables import columns
from iosweep.tables.reader import Campaign, CheckRow, ResultRow, load
from results_factory import DATA_PHASES, K, M, check, loaded, row, sweep


def groups(*rows: ResultRow) -> dict[str, list[Figure]]:
    return {group.title: [*group.figures] for group in answer.make_groups(summarize(rows))}


def figures(*rows: ResultRow) -> list[Figure]:
    (found,) = groups(*rows).values()
    return found


def values(*rows: ResultRow) -> dict[str, dict[str, str]]:
    return {title: {figure.label: figure.value for figure in found} for title, found in groups(*rows).items()}


class TestBest:
    def test_a_valid_figure_goes_before_a_larger_suspect_one_and_that_before_an_invalid_one(self) -> None:
        (figure,) = figures(row(), row(point="q", ops_per_s=99.0, verdict="suspect"))
        assert (figure.value, figure.verdict, figure.spread) == ("10.0 IOPS", "valid", "one repetition")
        (figure,) = figures(row(verdict="suspect"), row(point="q", ops_per_s=99.0, verdict="invalid"))
        assert (figure.value, figure.verdict) == ("10.0 IOPS", "suspect")

    def test_the_page_cache_and_tools_that_do_not_compare_stand_apart(self) -> None:
        assert values(row(o_direct=True), row(point="q", o_direct=False, ops_per_s=1e6)) == {
            "fio, O_DIRECT": {"Random read": "10.0 IOPS"},
            "fio, through the page cache": {"Random read": "1.00 M IOPS"},
        }
        told = {"o_direct": True, "other_options": "sync=1"}
        assert {*values(row(**told), row(point="q", **told | {"other_options": ""}))} == {
            "fio, O_DIRECT", "fio, O_DIRECT, sync=1",
        }  # fmt: skip
        # what is not told is a group of its own, and so are writes that were not flushed
        write = {"phase": "seq_write", "metric": "bandwidth_bytes_per_s", "bandwidth_bytes_per_s": 1e6}
        several = [{"o_direct": True, "fsync": True}, {"o_direct": True, "fsync": False}, {"o_direct": True}, {}]
        assert set(values(*(row(point=str(k), **write, **own) for k, own in enumerate(several)))) == {
            "fio, O_DIRECT",
            "fio, O_DIRECT, not flushed",
            "fio, O_DIRECT, flush not told",
            "fio, O_DIRECT not told, flush not told",
        }
        same = {"kind": "metadata", "phase": "create"}
        found = values(row(point="p", **same), row(point="q", tool="mdtest", **same, ops_per_s=1e6))
        assert [*found.values()] == [{"Create files": "10.0 ops/s"}, {"Create files": "1.00 M ops/s"}]

    def test_latency_is_the_lowest_at_the_lowest_queue_depth_on_the_fewest_nodes(self) -> None:
        depths = [(1, 90e-6), (1, 80e-6), (8, 10e-6)]
        _, latency = figures(*(
            row(point=str(i), queue_depth=depth, latency_mean_s=mean, latency_p99_s=3 * mean)
            for i, (depth, mean) in enumerate(depths)
        ))  # fmt: skip
        wanted = ("Random read latency (mean)", "80.0 µs", ("p99 240 µs",))
        assert (latency.label, latency.value, latency.notes) == wanted
        nodes = [row(point=str(n), nodes=n, queue_depth=1, latency_mean_s=80e-6 / n) for n in (1, 4)]
        rate, latency = figures(*nodes)
        assert (latency.value, rate.notes) == ("80.0 µs", ())  # the first of equals
        (title,) = groups(*nodes)
        assert title == "fio, O_DIRECT not told; 1 node, QD 1"  # what the places of both have in common

    def test_the_figure_of_a_cluster_has_that_of_one_node_beside_it(self) -> None:
        (figure,) = figures(row(nodes=1), row(point="q", nodes=8, ops_per_s=70.0))
        assert (figure.value, figure.notes) == ("70.0 IOPS", ("1 node: 10.0 IOPS",))

    def test_a_figure_says_how_many_of_its_repetitions_count(self) -> None:
        (figure,) = figures(*(row(repetition=n, verdict=v) for n, v in enumerate(("invalid", "suspect", "valid"), 1)))
        assert (figure.verdict, figure.spread) == (
            "invalid",
            "2 of 3 repetitions, 1 invalid, 10.0 to 10.0 IOPS (n = 2)",
        )

    def test_a_confirmed_headline_is_of_the_fresh_repetitions(self) -> None:
        chose, fresh = (row(repetition=n, ops_per_s=rate, confirms=n > 1) for n, rate in ((1, 200.0), (2, 150.0)))
        (figure,) = figures(chose, fresh)
        assert (figure.value, figure.spread) == ("150 IOPS", "one repetition")


class TestTargets:
    def test_each_target_has_its_headlines_and_its_card_names_it(self) -> None:
        both = [
            row(point=f"{target}{depth}", target=target, queue_depth=depth, ops_per_s=rate * depth, latency_mean_s=1e-3)
            for target, rate in (("a", 10.0), ("b", 99.0))
            for depth in (1, 2)
        ]
        assert [(figure.label, figure.value) for figure in figures(*both)] == [
            ("Random read on a", "20.0 IOPS"),
            ("Random read on b", "198 IOPS"),
            ("Random read latency (mean) on a", "1.00 ms"),
            ("Random read latency (mean) on b", "1.00 ms"),
        ]

    def test_a_caution_names_the_target_that_it_is_about(self) -> None:
        rows = [row(target="a", target_fstype="tmpfs"), row(point="q", target="b", target_fstype="lustre")]
        found = loaded(rows, targets={"a": {"directory": "/dev/shm"}, "b": {"directory": "/mnt/b"}})
        told = cautions(found)
        assert "a (/dev/shm) is in memory" in told and "/mnt/b" not in told
        assert found.about.on == "a (/dev/shm) and b (/mnt/b)"

    def test_the_first_screen_says_by_how_much_they_differ(self) -> None:
        rows = [
            row(point=target, target=target, repetition=n, ops_per_s=rate * (1 + n / 1000))
            for target, rate in (("a", 100.0), ("b", 80.0))
            for n in range(1, 6)
        ]
        found = loaded(
            rows,
            targets={"a": {"directory": "/a"}, "b": {"directory": "/b"}},
            sweeps=[factory.sweep_facts(5, "a", "b")],
        )
        (said,) = answer.answer(found, summarize(rows), {})["findings"]
        assert said.startswith("Target b against target a: random reads: −20.0 %")


def cautions(campaign: Campaign) -> str:
    return " ".join(cause.text for cause in answer.find_causes(campaign, summarize(campaign.rows)))


class TestCauses:
    def of(self, fstype: str = "ext4", mount: str = "", **about: Any) -> str:
        rows = [row(target_fstype=fstype, target_source=mount.partition(" on ")[0])]
        return cautions(loaded(rows, nodes=[factory.NODE | {"mount": mount}], **about))

    def test_what_limits_every_figure_is_said(self) -> None:
        assert "in memory" in self.of("tmpfs", "tmpfs on / type tmpfs (rw)")
        assert "in memory" in self.of("ramfs")
        assert "on the system disk" in self.of("ext4", "/dev/vda1 on / type ext4 (rw)")
        assert "to the file system under test" in self.of(results_on_target=True)
        assert "points/x.json (torn)" in self.of(damaged={"points/x.json": "torn"})

    def test_each_cause_is_said_once_with_its_results_its_range_and_what_to_do(self) -> None:
        others = [
            f"other processes used {n} % of the CPU time ({name} {n} %)"
            for n, name in ((31, "cc1"), (88, "dd"), (40, "dd"))
        ]
        rows = [row(point=str(n), verdict="suspect", reasons=reason) for n, reason in enumerate(others)]
        # a suspect phase does not explain an invalid one, nor a consequence its cause
        rows.append(row(point="x", verdict="invalid", reasons=f"no space left → fio printed nothing | {others[0]}"))
        rows.append(row(point="y", verdict="missing", reasons="fio is not installed"))
        rows.append(row(point="z", verdict="missing", left=True, reasons="not measured yet"))
        checks = [check(check="other_load", outcome="fail", evidence=text) for text in others]
        found = answer.find_causes(loaded(rows, checks), summarize(rows))
        assert [(cause.outcome, cause.count, cause.text) for cause in found[:4]] == [
            ("invalid", 1, "no space left"),
            ("missing", 1, "fio is not installed"),
            ("left", 1, "not measured yet"),
            ("suspect", 3, "other processes used 31 to 88 % of the CPU time (mostly dd)"),
        ]
        assert found[3].remedy == "measure on idle nodes"

    def test_a_grade_says_whether_to_use_the_figures(self) -> None:
        def said(cautions: int = 0, examples: bool = False, **counts: int) -> str:
            return answer.judge(dict.fromkeys(OUTCOMES, 0) | counts, cautions, examples).text

        assert [
            said(valid=33),
            said(valid=1),
            said(valid=33, cautions=2),
            said(valid=24, suspect=9, unneeded=3),
            said(suspect=17),
            said(valid=33, examples=True),
            said(valid=17, invalid=1, missing=21),
            said(valid=20, left=13),
            said(missing=5),
            said(),
        ] == [
            "Use these figures: all 33 results are valid.",
            "Use these figures: 1 of 1 result is valid.",
            "Use with care: all 33 results are valid, with 2 limits.",
            "Use with care: 24 of 33 results are valid, 9 suspect.",
            "Examples only: all 17 results are suspect.",
            "Examples only: all 33 results are valid.",
            "Incomplete: 17 of 39 results are valid, 1 invalid, 21 missing.",
            "Incomplete: 20 of 33 results are valid, 13 left to measure.",
            "No figures: all 5 results are missing.",
            "No figures: nothing is planned.",
        ]


class TestChecks:
    def test_they_are_counted_by_outcome_and_what_failed_stands_first(self) -> None:
        checks = [check(check="a", outcome=outcome, evidence="e") for outcome in ("pass", "not checked", "fail")]
        checks += [check(check="duration", outcome="fail", evidence=f"0.{n} s of 1 s", repetition=n) for n in (1, 2)]
        checks.append(check(check="a", outcome="not applicable"))
        found = {one.name: one for one in quality.summarize_checks(checks)}
        assert [*found] == ["duration", "a"]
        assert [count for _, count in found["duration"].failed] == [2]
        assert found["a"].not_checked == (("e", 1),)

    def test_whether_repetitions_agree_is_one_finding_although_it_is_in_the_row_of_each(self) -> None:
        of_all: list[CheckRow] = [
            check(point=point, check="precise", severity="suspect", outcome=outcome, evidence=why, repetition=n)
            for point, outcome, why in (("p", "fail", "not repeatable"), ("q", "not checked", "too few"))
            for n in range(1, 11)
        ]
        (found,) = quality.summarize_checks(of_all)
        assert found.counts == {"fail": 1, "not checked": 1}


def shown(results: Path, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    campaign = load(results)
    console.print(answer.table(campaign, summarize(campaign.rows)))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_what_a_terminal_says_of_a_machine(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Of tools side by side, of what is not valid, and of names that are no markup."""
    sweeps = [
        sweep("threads", DATA_PHASES, {"threads_per_node": [1, 2, 8], "transfer_size": [4 * K, 64 * K]}),
        sweep("depth", ["rand_read"], {"queue_depth": [1, 32]}, suite="weka", scaled=True),
        factory.ior(api="MPIIO", o_direct=False, axes={"nodes": [4], "threads_per_node": [128], "transfer_size": [M]}),
        factory.mdtest(axes={"nodes": [1, 4]}),
    ]
    results = factory.make(tmp_path, sweeps=sweeps, spoil=factory.spoil_some, campaign="[red]x[/red]")
    assert shown(results, 100) == snapshot


def test_what_a_terminal_says_of_a_cluster(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Of several nodes at 80 columns, some of which are slow, and of what is left."""
    own = factory.nodes(4)

    def speed(row: Any) -> float:
        return 0.3 if row["host"] == "node02" else 1.0

    def one_of_two(row: Any) -> tuple[str, str] | None:
        return ("missing", columns.NOT_YET) if row["repetition"] == 2 and row["tool"] == "mdtest" else None

    sweeps = [*factory.node_check(), *factory.weka(nodes=(1, 4))[::3]]
    results = factory.make(tmp_path, sweeps=sweeps, nodes=own, speed=speed, repetitions=1, spoil=one_of_two)
    assert shown(results, 80) == snapshot
