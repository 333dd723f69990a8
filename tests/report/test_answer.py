"""The first screen: best figures of each phase with their doubts, remarks about the target, checks, the terminal."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.analysis.summary import summarize
from iosweep.report import answer, quality
from iosweep.report.answer import Card
from iosweep.tables import columns
from iosweep.tables.reader import CheckRow, ResultRow, load
from results_factory import DATA_PHASES, K, M, check, loaded, row, sweep


def groups(*rows: ResultRow) -> dict[str, list[Card]]:
    return {group.title: [*group.cards] for group in answer.make_groups(summarize(rows))}


def cards(*rows: ResultRow) -> list[Card]:
    (found,) = groups(*rows).values()
    return found


def values(*rows: ResultRow) -> dict[str, dict[str, str]]:
    return {title: {card.label: card.value for card in found} for title, found in groups(*rows).items()}


class TestBest:
    def test_a_valid_figure_goes_before_a_larger_suspect_one_and_that_before_an_invalid_one(self) -> None:
        (card,) = cards(row(), row(point="q", ops_per_s=99.0, verdict="suspect"))
        assert (card.value, card.verdict, card.spread) == ("10.0 IOPS", "valid", "one repetition")
        (card,) = cards(row(verdict="suspect"), row(point="q", ops_per_s=99.0, verdict="invalid"))
        assert (card.value, card.verdict) == ("10.0 IOPS", "suspect")

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
        _, latency = cards(*(
            row(point=str(i), queue_depth=depth, latency_mean_s=mean, latency_p99_s=3 * mean)
            for i, (depth, mean) in enumerate(depths)
        ))  # fmt: skip
        assert (latency.label, latency.value, latency.more) == ("Random read latency", "80.0 µs", "p99 240 µs")
        nodes = [row(point=str(n), nodes=n, queue_depth=1, latency_mean_s=80e-6 / n) for n in (1, 4)]
        rate, latency = cards(*nodes)
        assert (latency.value, latency.place) == ("80.0 µs", "1 node, QD 1")
        assert (rate.more, rate.place) == ("", "1 node, QD 1")  # the first of equals

    def test_an_invalid_repetition_is_not_in_the_figure_and_its_reason_is_why(self) -> None:
        def judged(*reasons: tuple[str, str]) -> Card:
            made = (row(repetition=n, verdict=verdict, reasons=why) for n, (verdict, why) in enumerate(reasons, 1))
            return cards(*made)[0]

        card = judged(("invalid", "over after 16 ms | memory"), ("suspect", "memory"), ("suspect", "memory | noisy"))
        assert (card.incomplete, card.verdict) == ("2 of 3 repetitions, 1 invalid", "invalid")
        assert card.reason == "over after 16 ms"
        card = judged(("suspect", "memory"), ("suspect", "memory"), ("valid", ""))
        assert (card.incomplete, card.verdict, card.reason) == ("", "suspect", "memory")
        assert judged(*[("valid", "")] * 3).reason == ""

    def test_a_confirmed_headline_is_of_the_fresh_repetitions(self) -> None:
        chose, fresh = (row(repetition=n, ops_per_s=rate, confirms=n > 1) for n, rate in ((1, 200.0), (2, 150.0)))
        (card,) = cards(chose, fresh)
        assert (card.value, card.incomplete) == ("150 IOPS", "")


class TestTargets:
    def test_each_target_has_its_headlines_and_its_card_names_it(self) -> None:
        both = [
            row(point=f"{target}{depth}", target=target, queue_depth=depth, ops_per_s=rate * depth, latency_mean_s=1e-3)
            for target, rate in (("a", 10.0), ("b", 99.0))
            for depth in (1, 2)
        ]
        assert [(card.label, card.value) for card in cards(*both)] == [
            ("Random read on a", "20.0 IOPS"),
            ("Random read on b", "198 IOPS"),
            ("Random read latency on a", "1.00 ms"),
            ("Random read latency on b", "1.00 ms"),
        ]

    def test_a_warning_names_the_target_that_it_is_about(self) -> None:
        rows = [row(target="a", target_fstype="tmpfs"), row(point="q", target="b", target_fstype="lustre")]
        found = loaded(rows, targets={"a": {"directory": "/dev/shm"}, "b": {"directory": "/mnt/b"}})
        (told,) = answer.warn_about_target(found)
        assert "a (/dev/shm)" in told and "/mnt/b" not in told
        assert found.about.on == "a (/dev/shm) and b (/mnt/b)"


class TestRemarks:
    def of(self, fstype: str = "ext4", mount: str = "", **about: Any) -> str:
        rows = [
            row(target_fstype=fstype, target_source=mount.partition(" on ")[0], verdict=about.pop("verdict", "valid"))
        ]
        nodes = [factory.NODE | {"mount": mount}]
        return " ".join(answer.warn_about_target(loaded(rows, nodes=nodes, **about)))

    def test_what_spoils_every_figure_is_said(self) -> None:
        assert "in memory (tmpfs)" in self.of("tmpfs", "tmpfs on / type tmpfs (rw)")
        assert "in memory (ramfs)" in self.of("ramfs")
        assert "root file system" in self.of("ext4", "/dev/vda1 on / type ext4 (rw)")
        assert "on the file system under test" in self.of(results_on_target=True)
        assert "points/x.json (torn)" in self.of(damaged={"points/x.json": "torn"})


class TestChecks:
    def test_they_are_counted_by_outcome_and_what_failed_stands_first(self) -> None:
        checks = [check(check="a", outcome=outcome, evidence="e") for outcome in ("pass", "not checked", "fail")]
        checks += [check(check="duration", outcome="fail", evidence=f"0.{n} s of 1 s", repetition=n) for n in (1, 2)]
        checks.append(check(check="a", outcome="not applicable"))
        found = {one.name: one for one in quality.summarize_checks(checks)}
        assert [*found] == ["duration", "a"]
        assert [count for _, count in found["duration"].failed] == [2]
        assert found["a"].not_checked == (("e", 1),)
        assert quality.count_not_checked(checks) == (1, 5)

    def test_whether_repetitions_agree_is_one_finding_although_it_is_in_the_row_of_each(self) -> None:
        of_all: list[CheckRow] = [
            check(point=point, check="precise", severity="suspect", outcome=outcome, evidence=why, repetition=n)
            for point, outcome, why in (("p", "fail", "not repeatable"), ("q", "not checked", "too few"))
            for n in range(1, 11)
        ]
        (found,) = quality.summarize_checks(of_all)
        assert found.counts == {"fail": 1, "not checked": 1}
        assert quality.count_not_checked(of_all) == (1, 2)


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
