"""Words and units of the table of results: those of the figures."""

from iosweep.analysis.aggregate import summarize
from iosweep.report import results_table
from results_factory import row


def test_columns_of_parameters_have_their_unit() -> None:
    rows = [
        row(point=f"p{time}", nodes=1, phase_time_s=time, transfer_size_bytes=size) for time, size in ((1, 1), (2, 2))
    ]
    units = {column.key: column.unit for column in results_table.payload(summarize(rows), []).columns}
    assert units["phase_time_s"] == "s"
    assert units["transfer_size_bytes"] == ""  # each value has its own


def test_written_data_is_named_in_words() -> None:
    rows = [row(point=data, phase="rand_write", data=data) for data in ("random", "tool_default")]
    table = results_table.payload(summarize(rows), [])
    at = [column.key for column in table.columns].index("data")
    assert {found[at] for found in table.rows} == {"random data", "the tool's own data"}
