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
#: Micron's corners: (phase, queue depth) -> figures.
MICRON: dict[tuple[str, int], dict[str, float]] = {
    ("rand_read", 32): {"ops_per_s": 4.6e6, "latency_mean_s": 487e-6},
    ("rand_write", 4): {"ops_per_s": 626e3},
    ("rand_write", 8): {"latency_mean_s": 830e-6},
    ("rand_write", 16): {"ops_per_s": 696e3, "latency_mean_s": 1.6e-3},
    ("rand_mixed", 16): {"ops_per_s": 1.6e6},
    ("seq_read", 16): {"bandwidth_bytes_per_s": 62e9, "latency_mean_s": 2.3e-3},
}
#: The Lustre notes' summary of IOR: (phase, MiB of a transfer) -> MiB/s, operations per second.
LUSTRE_IOR = {
    ("seq_write", 16): (27135.9688, 1696.0195),
    ("rand_read", 16): (39275.2087, 2454.7904),
    ("seq_read", 64): (43203.6925, 675.0791),
    ("rand_write", 64): (40580.2781, 634.0792),
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
                parts = [f"100 % of the published {ours} {unit} ({name})"]
            place = {"nodes": nodes, "threads_per_node": threads, "transfer_size_bytes": size}
            rows.append(row("fio" if size else "mdtest", phase, f"weka.{sweep}", **place, **measured))
            behind.append(parts)
        table = shown("weka", rows)
        assert all(set(parts) <= set(cells["behind"]) for parts, cells in zip(behind, table, strict=True))
        assert all(cells["published"].endswith("(supermicro)") for cells in table)  # the best system
        assert system == 0 or {cells["share"] for cells in table} == {100}

    def test_wekas_small_write_latency(self) -> None:
        clat = {"mean": 529, "p50": 529, "p99": 717, "p99_5": 766, "p99_9": 1020}  # us
        figures = {f"completion_latency_{name}_s": value * 1e-6 for name, value in clat.items()}
        figures |= {"latency_mean_s": 531.15e-6, "ops_per_s": 1879.0, "bandwidth_bytes_per_s": 7518.0 * K}
        suite = "weka-small-write-latency"
        (cells,) = shown(suite, [row("fio", "rand_write", f"{suite}.write-latency", nodes=1, **figures)])
        assert (cells["ops_per_s"], cells["latency_mean_s"]) == (1879, 531.15)
        assert (cells["published"], cells["share"]) == ("1879 IOPS", 100)
        assert len(cells["behind"]) == 8 and all("100 % of" in text for text in cells["behind"])

    def test_microns_corners_over_queue_depth(self) -> None:
        place = {"nodes": 9, "threads_per_node": 8}
        rows = [
            row("fio", phase, "four-corners.blocks", queue_depth=depth, **place, **figures)
            for (phase, depth), figures in MICRON.items()
        ]
        table = shown("four-corners", rows)
        assert [(cells["queue_depth"], len(cells["behind"])) for cells in table] == [
            (depth, len(figures)) for (_, depth), figures in MICRON.items()
        ]
        assert all("100 % of" in text for cells in table for text in cells["behind"])

    def test_ior_of_the_lustre_notes_over_transfer_sizes(self) -> None:
        place = {"nodes": 2, "threads_per_node": 32, "file_size_bytes": 16 * G}
        rows = [
            row("ior", phase, "lustre-ior.threads-by-transfer", transfer_size_bytes=size * M, **place,
                bandwidth_bytes_per_s=throughput * M, ops_per_s=rate)
            for (phase, size), (throughput, rate) in LUSTRE_IOR.items()
        ]  # fmt: skip
        table = shown("lustre-ior", rows)
        assert [cells["transfer_size_bytes"] // M for cells in table] == [size for _, size in LUSTRE_IOR]
        measured = [value for cells in table for value in (cells["bandwidth_bytes_per_s"], cells["ops_per_s"])]
        assert measured == pytest.approx([value for both in LUSTRE_IOR.values() for value in both], 1e-5)
        assert {cells["share"] for cells in table} == {100}

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
