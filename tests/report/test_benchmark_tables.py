"""Tables of mdtest's rates by operation."""

from collections.abc import Mapping
from typing import Any

import results_factory as factory
from iosweep.report import tables
from iosweep.report.tables import Table

OPERATIONS = [
    *("Directory creation", "Directory stat", "Directory rename", "Directory removal"),
    *("File creation", "File stat", "File read", "File removal"),
]


def metadata_of(*sweeps: factory.Sweep, **options: Any) -> list[Table]:
    return tables.metadata_tables(*factory.measured(*sweeps, **options))


class TestMetadata:
    def test_other_axes_have_a_table_each(self) -> None:
        axes = {"threads_per_node": [1, 8], "unique_directory": [True, False], "file_size": [0, 4096]}
        found = metadata_of(factory.mdtest("s", axes=axes))
        assert {table.title for table in found} == {
            f"{files}, {place}"
            for files in ("empty files", "file size 4 KiB")
            for place in ("own directories", "shared directory")
        }
        for table in found:
            assert table.columns == ("1 thread per node", "8 threads per node")
            assert [row.title for row in table.rows] == OPERATIONS  # also those that no file size has an effect on
            assert all(cell.value for row in table.rows for cell in row.cells)

    def test_what_is_not_valid_is_marked_with_its_reason(self) -> None:
        def spoil(row: Mapping[str, Any]) -> tuple[str, str] | None:
            verdicts = {2: ("suspect", "duration: short"), 3: ("invalid", "no_errors: 1"), 4: ("missing", "no nodes")}
            return verdicts.get(row["nodes"]) if row["phase"] == "stat" or row["nodes"] == 4 else None

        (table,) = metadata_of(factory.mdtest(), spoil=spoil)
        assert table.columns == ("1 node", "2 nodes", "3 nodes")  # of four nodes there is nothing to show
        (of_stat,) = (row.cells for row in table.rows if row.title == "File stat")
        assert [(bool(cell.value), cell.verdict) for cell in of_stat] == [
            (True, "valid"), (True, "suspect"), (False, "invalid"),
        ]  # fmt: skip
        assert [note[0] for note in table.notes] == ["○", "✕", "–"]
        reasons = ("duration: short", "no_errors: 1", "no nodes")
        assert all(reason in note for note, reason in zip(table.notes, reasons, strict=True))
