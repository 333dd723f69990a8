"""Nodes in the report: their facts side by side, the node check, means over unlike nodes, CPUs, and builds of tools."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis import caveats
from iosweep.analysis.summary import PointSummary
from iosweep.programs.programs import build_key
from iosweep.report import answer, figures, quality, results_table, system
from iosweep.report.system import NodeCheck, NodeCpus, Nodes
from iosweep.tables.reader import Campaign
from report_nodes import node
from results_factory import G, sweep
from topologies import WEKA_56, machine

GIGABIT = 10**9


def nic(**changes: Any) -> dict[str, Any]:
    usual = {"name": "ib0", "state": "up", "speed_bits_per_s": 100 * GIGABIT, "driver": "mlx5_core", "numa_node": None}
    return usual | changes


def outliers(*values: float) -> str:
    """The nodes a, b, c ... that stand out, with one figure each."""
    compared = system.compare({chr(ord("a") + i): [value] for i, value in enumerate(values)})
    return "".join(sorted(filter(compared.stands_out, compared.values)))


def test_the_allowed_difference_grows_with_the_scatter() -> None:
    # deviations 0, 5, 5, 10, 30 %: three robust standard deviations of 5 % are 22 %
    assert outliers(100, 95, 105, 110, 70) == "e"
    assert outliers(100, 95, 105, 110, 80) == ""


def test_a_node_stands_out_only_where_most_agree_and_it_does_not() -> None:
    for values, expected in (
        ((100, 100, 100), ""),
        ((100, 100, 89), "c"),  # no deviation at all: the 10 % decide
        ((100, 100, 120), "c"),  # too fast is odd as well: a cache, another mount
        ((100, 80, 60), ""),  # three that all differ: none
        ((100, 100, 50, 50), ""),  # half and half: the rule cannot tell which
        ((100, 101, 99, 100, 60, 59), "ef"),
        ((100, 1), ""),  # too few nodes
    ):
        assert outliers(*values) == expected, values


def test_a_node_counts_once_however_often_it_was_measured() -> None:
    compared = system.compare({"slow": [50.0] * 9, **{host: [90.0, 100.0, 400.0] for host in "abc"}})
    assert (compared.median, compared.stands_out("slow")) == (100, True)


class TestNodes:
    def of(self, *changes: Mapping[str, Any]) -> Nodes:
        """The nodes node01, node02 ..., with these facts instead of NODE's."""
        rows = [{**node, **change} for node, change in zip(factory.nodes(len(changes)), changes, strict=True)]
        found = system.describe_nodes(factory.loaded(nodes=rows))
        assert found is not None
        return found

    def test_a_fact_is_marked_where_it_is_not_that_of_most_nodes(self) -> None:
        found = self.of({}, {"kernel": "5.14"}, {}, {"nics": [nic(speed_bits_per_s=25 * GIGABIT)]})
        assert found.differing == ("kernel", "network")
        assert [[row.host, *(cell.odd for cell in row.cells)] for row in found.rows] == [
            ["node02", True, False], ["node04", False, True], ["node01", False, False], ["node03", False, False]
        ]  # fmt: skip
        assert found.rows[1].cells[1].lines == ("ib0 up 25 Gbit/s (mlx5_core)",)
        assert "kernel" not in dict(found.alike)

    @pytest.mark.parametrize(
        ("change", "word"),
        [
            ({"governor": "powersave"}, "powersave"),
            ({"governor": "performance, powersave"}, "performance, powersave"),
            ({"memory_available_bytes": 25 * G}, "memory"),
            ({"memory_available_bytes": 26 * G}, None),
        ],
    )
    def test_what_may_spoil_figures_is_noted_with_its_nodes(self, change: dict[str, Any], word: str | None) -> None:
        for found, hosts in ((self.of(change), ""), (self.of({}, change, change), "node02, node03")):
            assert len(found.notes) == (word is not None)
            assert all(str(word) in note and hosts in note for note in found.notes)


def slow(*hosts: str, factor: float = 0.5, phases: Sequence[str] = factory.DATA_PHASES) -> factory.Speed:
    return lambda row: factor if row["host"] in hosts and row["phase"] in phases else 1.0


class TestNodeCheck:
    def of(self, count: int, **options: Any) -> NodeCheck:
        campaign, results = factory.measured(*factory.node_check(), nodes=factory.nodes(count), **options)
        found = system.node_check(campaign, results)
        assert found is not None
        return found

    def test_of_two_nodes_none_is_odd_and_one_has_nothing_to_compare_with(self) -> None:
        found = self.of(2, speed=slow("node01", factor=0.3, phases=["rand_write"]))
        assert found.odd == ()
        assert "fewer do not tell which one is odd" in found.sentence
        assert {cell.lines for cell in found.table.rows[0].cells} == {()}
        alone = self.of(1)
        assert [cell.lines for cell in alone.table.rows[0].cells] == [("100 %",)] * 4

    def test_a_node_without_a_figure_is_named_and_is_not_odd(self) -> None:
        def fails(row: Mapping[str, Any]) -> tuple[str, str] | None:
            broken = row["host"] == "node04" and row["phase"] == "rand_read"
            return ("invalid", "no_errors: 3 I/O errors") if broken else None

        found = self.of(4, spoil=fails, speed=slow("node04", factor=1e-3, phases=["rand_read"]))
        assert found.odd == ()
        assert "node04 (random read 4 KiB)" in found.sentence
        assert (found.table.rows[4].cells[3].value, found.table.rows[4].cells[3].verdict) == ("", "invalid")


class TestUnlikeNodes:
    def of(self, count: int, nodes: Sequence[int], **options: Any) -> tuple[Campaign, list[PointSummary]]:
        one = sweep("scaling", ["seq_read"], {"nodes": [*nodes]}, threads_per_node=8)
        return factory.measured(one, nodes=factory.nodes(count), **options)

    def test_a_mean_over_nodes_that_may_differ_has_no_confidence_interval(self) -> None:
        _, (result,) = self.of(2, [1], speed=slow("node02", factor=0.25))
        assert (result.hosts, result.host_sets, result.in_turn) == (("node01", "node02"), 2, False)
        assert result.headline is not None
        assert (result.headline.n, result.headline.interval, result.headline.ci95_share) == (6, None, None)
        assert result.headline.low < result.headline.high / 3
        assert [in_turn for in_turn, _ in caveats.warn_unlike_hosts([result])] == [False]
        (entry,) = answer.make_groups([result])[0].figures
        assert entry.spread.endswith("(n = 6)")
        shown = results_table.make_payload([result], [], {})
        assert shown.rows[0][[column.key for column in shown.columns].index("hosts")] == 2


# CPUs

TWO = machine(1, 1, 2).topology
WEKA = {"source": "weka local resources -C client0", "cpus": "24-27", "says": "4 FRONTEND cores, dedicated"}


def nodes(*rows: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**row, "host": f"n{k}", "node": f"key{k}"} for k, row in enumerate(rows, 1)]


def weka_56(**more: Any) -> dict[str, Any]:
    kept = {"reserved_cpus": "24-27", "reserved_sources": [WEKA], "cpus_allowed": "0-23,28-55"}
    return node(WEKA_56.topology, **kept | {"used_cpus": "0-11"} | more)


class TestCpus:
    def of(self, row: Mapping[str, Any]) -> NodeCpus:
        found = system.describe_cpus(factory.loaded(nodes=nodes(row)))
        assert found
        (group,) = found.nodes
        return group

    def states(self, found: NodeCpus) -> dict[str, str]:
        return {state: which for state, _, _, which in found.states}

    def test_what_escaped_from_the_allocation_or_ran_on_a_reserved_cpu_is_wrong(self) -> None:
        found = self.of(node(TWO, cpus_allowed="1", used_cpus="0-1"))
        assert (self.states(found), found.wrong) == ({"stray": "0", "used": "1"}, True)
        found = self.of(weka_56(used_cpus="0-24"))
        assert (self.states(found)["conflict"], found.wrong) == ("24", True)


BOUND = {"pinning": "enforce", "placement": "spread"}
VERIFIED = {"pinning": "verify", "placement": None}
GOOD = (BOUND, {"reserved_cpus": "pass", "pinned": "pass"})
UNSEEN = (BOUND, {"reserved_cpus": "not checked: 2 looks", "pinned": "not checked: 2 looks"})
FAILED = (BOUND, {"reserved_cpus": "fail: 1 rank could run on CPU 24", "pinned": "fail: not bound"})
UNBOUND = (VERIFIED, {"reserved_cpus": "not applicable", "pinned": "not checked: nothing was bound"})
ALONE = (BOUND, {"reserved_cpus": "not applicable", "pinned": "pass"})


class TestProvenMasks:
    """What is said of the CPU masks of ranks and workers, by the checks of all rows."""

    def of(self, *rows: Any, pinning: str | None = None) -> Campaign:
        made, checks = [], []
        for repetition, (row, outcomes) in enumerate(rows, 1):
            made.append(factory.row(**{"repetition": repetition, "wall_s": 1.0, **row}))
            for name, text in outcomes.items():
                outcome, _, evidence = text.partition(": ")
                checks.append(factory.check(repetition=repetition, check=name, outcome=outcome, evidence=evidence))
        return factory.loaded(made, checks, cpus={"pinning": pinning})

    @pytest.mark.parametrize(
        ("rows", "said"),
        [([GOOD], "each had the CPUs"), ([GOOD, UNSEEN], "1 row not checked"), ([ALONE], "each had the CPUs"),
         ([GOOD, FAILED], "did not have the CPUs"), ([UNBOUND], ""),
         ([(FAILED[0] | {"wall_s": None}, FAILED[1])], "")],
    )  # fmt: skip
    def test_the_page_says_whether_masks_were_wrong(self, rows: list[Any], said: str) -> None:
        told = system.prove_pinning(self.of(*rows))
        assert said in told and bool(said) == bool(told)


# builds

PATH, SPACK = (build["tools"]["fio"]["sha256"][:12] for build in (factory.PATH, factory.SPACK))
IOR_SPACK = f"{factory.SPACK['tools']['ior']['sha256'][:12]} with MPI {factory.SPACK['mpi']['version']}"
FIO = sweep("depth", ["rand_read"], {"queue_depth": [1, 2, 4]})
IOR = factory.ior("ior", axes={"threads_per_node": [1, 8], "transfer_size": [2**20]})


class TestBuilds:
    def changed(self, document: Mapping[str, Any], **parts: Mapping[str, Any]) -> dict[str, Any]:
        made = copy.deepcopy(dict(document))
        for name, part in parts.items():
            made[name] |= part
        return made

    def test_figures_of_two_builds_of_a_tool_name_theirs(self) -> None:
        def build(row: Mapping[str, Any]) -> Mapping[str, Any]:
            return factory.PATH if row["queue_depth"] == 4 else factory.SPACK

        campaign, results = factory.measured(FIO, IOR, build=build)
        assert caveats.find_several_builds(results) == ["fio"]
        section = quality.describe_builds(campaign, results)
        assert {(row.tool, row.name): row.results for row in section} == {
            ("fio", SPACK): 2, ("fio", PATH): 1, ("IOR", IOR_SPACK): 8
        }  # fmt: skip
        assert PATH in figures.figures(campaign, results)[0].notes[1]
        shown = results_table.make_payload(results, (), {})
        place = [column.key for column in shown.columns].index("build")
        assert [row[place] for row in shown.rows[:3]] == [SPACK, SPACK, PATH]
        places = {one.label: one.place for group in answer.make_groups(results) for one in group.figures}
        assert places["Random read"].endswith(f"build {PATH}")
        assert "build" not in places["Sequential write"]  # of IOR there is one

        _, results = factory.measured(FIO)
        assert caveats.find_several_builds(results) == []
        assert "build" not in [column.key for column in results_table.make_payload(results, (), {}).columns]

    def test_a_build_is_its_binary_and_its_mpi_whatever_else_was_built_with_it(self) -> None:
        other = self.changed(factory.SPACK, environment={"digest": "another"})
        campaign, results = factory.measured(
            IOR, build=lambda row: other if row["threads_per_node"] == 8 else factory.SPACK
        )
        assert caveats.find_several_builds(results) == []
        section = quality.describe_builds(campaign, results)
        assert [set(row.documents) for row in section] == [{build_key(factory.SPACK), build_key(other)}]
        # the binary is the same where the system's MPI was updated below it; fio has none
        other = self.changed(factory.PATH, mpi={"version": "4.1.0"})
        _, results = factory.measured(IOR, FIO, build=lambda row: other if row["repetition"] == 2 else factory.PATH)
        assert caveats.find_several_builds(results) == ["ior"]
        assert all(len(result.builds) == 2 for result in results if result.tool == "ior")
