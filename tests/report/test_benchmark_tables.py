"""Tables of mdtest's rates by operation; what the sources of the suites publish, read off the table of results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis import acceptance
from iosweep.analysis.summary import summarize
from iosweep.report import results_table
from iosweep.report.results_table import Table
from iosweep.tables import reader
from iosweep.tools import tools
from results_factory import G, K, M

OPERATIONS = [
    *("Directory creation", "Directory stat", "Directory rename", "Directory removal"),
    *("File creation", "File stat", "File read", "File removal"),
]


def metadata_of(*sweeps: factory.Sweep, **options: Any) -> list[Table]:
    return results_table.make_metadata_tables(*factory.measured(*sweeps, **options))


class TestMetadata:
    def test_other_axes_have_a_table_each(self) -> None:
        axes = {"threads_per_node": [1, 8], "unique_directory": [True, False], "file_size": [0, 4096]}
        found = metadata_of(factory.mdtest("s", axes=axes))
        assert {table.title for table in found} == {
            f"s, {files}, {place}"
            for files in ("empty files", "file size 4 KiB")
            for place in ("own directories", "shared directory")
        }
        for table in found:
            assert table.columns == ("1 thread per node", "8 threads per node")
            assert [row.title for row in table.rows] == OPERATIONS  # also those that no file size has an effect on
            assert all(cell.value for row in table.rows for cell in row.cells)

    def test_what_is_not_valid_is_marked(self) -> None:
        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            verdicts = {2: ("suspect", "duration: short"), 3: ("invalid", "no_errors: 1"), 4: ("missing", "no nodes")}
            return verdicts.get(row["nodes"]) if row["phase"] == "stat" or row["nodes"] == 4 else None

        (table,) = metadata_of(factory.mdtest(), spoil=spoil)
        assert table.columns == ("1 node", "2 nodes", "3 nodes")  # of four nodes there is nothing to show
        (of_stat,) = (row.cells for row in table.rows if row.title == "File stat")
        assert [(bool(cell.value), cell.verdict) for cell in of_stat] == [
            (True, "valid"), (True, "suspect"), (False, "invalid"),
        ]  # fmt: skip


SAMPLES = Path(__file__).resolve().parents[1] / "samples/mdtest/seeds"
#: WEKA's tables of one client and of the cluster: (nodes, sweep, phase, threads, bytes of an I/O) -> AWS, SuperMicro in
#: GiB/s, operations per second, or microseconds: mean and 99.5th percentile.
WEKA: dict[tuple[int, str, str, int, int | None], Sequence[Any]] = {
    (1, "read-throughput", "seq_read", 32, M): (8.9, 21.4),
    (1, "write-throughput", "seq_write", 32, M): (9.4, 17.2),
    (1, "read-iops", "rand_read", 192, 4 * K): (393_333, 563_667),
    (1, "write-iops", "rand_write", 192, 4 * K): (302_333, 378_667),
    (1, "read-latency", "rand_read", 1, 4 * K): ((272, 459), (144.76, 260)),
    (1, "write-latency", "rand_write", 1, 4 * K): ((298, 432), (107.12, 142)),
    (8, "read-throughput", "seq_read", 32, M): (36.2, 123),
    (8, "write-throughput", "seq_write", 32, M): (11.6, 37.6),
    (8, "read-iops", "rand_read", 192, 4 * K): (1_978_330, 4_346_330),
    (8, "write-iops", "rand_write", 192, 4 * K): (404_670, 1_317_000),
    (8, "metadata", "create", 136, None): (79_599, 234_472),
    (8, "metadata", "stat", 136, None): (1_930_721, 3_257_394),
    (8, "metadata", "delete", 136, None): (117_644, 361_755),
}


def row(tool: str, phase: str, sweep: str, **values: Any) -> reader.ResultRow:
    known = tools()[tool].phases[phase]
    about = {"tool": tool, "phase": phase, "kind": known.kind, "metric": known.metric, "sweeps": sweep}
    return factory.row(**{"point": f"{sweep}.{values}", "ops_per_s": None, **about, **values})


def shown(suite: str, rows: Sequence[reader.ResultRow]) -> list[dict[str, Any]]:
    """Key of a column -> cell, for each row of the table of results; `behind`: the shares that a row opens to."""
    results = summarize(rows)
    facts = [factory.sweep_facts(name=sweep, suite=suite) for sweep in {row.sweeps for row in rows}]
    payload = results_table.make_payload(results, [], acceptance.published_shares(results, facts))
    keys = [column.key for column in payload.columns]
    return [
        {**dict(zip(keys, cells, strict=True)), "behind": details.published}
        for cells, details in zip(payload.rows, payload.details, strict=True)
    ]


class TestSources:
    @pytest.mark.parametrize("system", [0, 1], ids=["aws", "supermicro"])
    def test_wekas_tables_of_one_client_and_of_the_cluster(self, system: int) -> None:
        rows, behind = [], []
        for (nodes, sweep, phase, threads, size), figures in WEKA.items():
            ours, name = figures[system], ("aws", "supermicro")[system]
            if isinstance(ours, tuple):
                measured = {f"completion_latency_{k}_s": v * 1e-6 for k, v in zip(("mean", "p99_5"), ours, strict=True)}
                parts = [f"completion {k} 100 % of the published {v} us ({name})"
                         for k, v in zip(("latency", "p99.5"), ours, strict=True)]  # fmt: skip
            else:
                measured = {"bandwidth_bytes_per_s" if size == M else "ops_per_s": ours * (G if size == M else 1)}
                unit = "GiB/s" if size == M else "IOPS" if size else "ops/s"
                parts = [f"100 % of the published {ours:,} {unit} ({name})"]
            place = {"nodes": nodes, "threads_per_node": threads, "transfer_size_bytes": size}
            rows.append(row("fio" if size else "mdtest", phase, f"weka.{sweep}", **place, **measured))
            behind.append(parts)
        table = shown("weka", rows)
        assert all(set(parts) <= set(cells["behind"]) for parts, cells in zip(behind, table, strict=True))
        assert all(cells["published"].endswith("(supermicro)") for cells in table)  # the best system
        assert system == 0 or {cells["share"] for cells in table} == {100}

    def test_outputs_of_mdtest_in_the_lustre_notes_from_one_to_four_nodes(self) -> None:
        place = {"threads_per_node": 32, "files_per_thread": 1024, "unique_directory": True, "file_size_bytes": 0}
        rows = []
        for nodes in (1, 2, 3, 4):
            for parsed in tools()["mdtest"].read((SAMPLES / f"lustre_{nodes}_nodes.out").read_bytes()).rows:
                if parsed.get("phase") in tools()["mdtest"].phases:
                    values = {key: value for key, value in parsed.items() if key not in ("tool", "label", "phase")}
                    rows.append(row("mdtest", str(parsed["phase"]), "mdtest.lustre", **values, **place, nodes=nodes))
        table = shown("mdtest", rows)
        stats = [cells["ops_per_s"] for cells in table if cells["phase"] == "Stat files"]
        assert stats == pytest.approx([100_070.848, 203_713.008, 230_463.001, 445_087.492], 1e-5)
        assert [cells["share"] for cells in table] == [100] * 32
