"""Outputs of others as points and repetitions: the same parameters are one point, what is not known is never mixed."""

from hashlib import sha256

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.ingest import outputs
from iosweep.ingest.foreign_campaign import Made, campaign_rows
from iosweep.store.ingested import IngestedFile
from iosweep.tools.reading import Cell, Reading, ReadingProblem

IOR: dict[str, Cell] = {
    "tool": "ior", "tool_version": "4.0.0", "label": "write", "phase": "seq_write", "tasks": 64,
    "threads_per_node": 32, "transfer_size_bytes": 1 << 20, "bandwidth_bytes_per_s": 1e9, "ops_per_s": 1e3,
}  # fmt: skip


def without(*names: str) -> dict[str, Cell]:
    return {name: value for name, value in IOR.items() if name not in names}


def file(name: str) -> IngestedFile:
    return IngestedFile(name, sha256(name.encode()).hexdigest(), 1)


def made(*found: Reading) -> Made:
    """Rows of files with these readings, one each."""
    return campaign_rows("c", [(file(f"{n}.out"), [reading]) for n, reading in enumerate(found)])


def reading(*rows: dict[str, Cell], problems: tuple[ReadingProblem, ...] = ()) -> Reading:
    return Reading(rows, problems)


def points(found: Made) -> set[object]:
    return {row.values["point"] for row in found.rows}


def numbers(found: Made) -> list[object]:
    return [row.values["repetition"] for row in found.rows]


def test_several_runs_of_one_point_are_repetitions_in_the_order_of_their_dates() -> None:
    late = IOR | {"began_local": "2026-03-02T00:00:00", "bandwidth_bytes_per_s": 2e9}
    early = IOR | {"began_local": "2026-03-01T00:00:00", "bandwidth_bytes_per_s": 3e9}
    found = made(reading(IOR), reading(late), reading(early))
    assert [row.values["bandwidth_bytes_per_s"] for row in found.rows] == [3e9, 2e9, 1e9]
    assert (len(points(found)), numbers(found)) == (1, [1, 2, 3])
    assert [sweep.name for sweep in found.sweeps] == ["ior-data"]
    assert found.rows[0].values["nodes"] == 2


def test_other_parameters_conditions_versions_and_names_are_other_points() -> None:
    others: list[dict[str, Cell]] = [
        {"transfer_size_bytes": 4096}, {"o_direct": True}, {"tool_version": "3.3.0"}, {"segments": 4},
        {"other_options": "-Y"},
    ]  # fmt: skip
    for other in others:
        found = made(reading(IOR), reading(IOR | other | {"bandwidth_bytes_per_s": 2e9}))
        assert (len(points(found)), numbers(found)) == (2, [1, 1]), other
    fio: dict[str, Cell] = {"tool": "fio", "tool_version": "fio-3.36", "phase": "rand_read", "tasks": 1,
                            "transfer_size_bytes": 4096, "queue_depth": 8, "latency_mean_s": 1e-5}  # fmt: skip
    jobs = made(*(reading(fio | {"label": name, "ops_per_s": float(n)}) for n, name in enumerate("aab", 1)))
    assert sorted(map(str, numbers(jobs))) == ["1", "1", "2"]


def test_outputs_that_do_not_tell_their_ranks_are_repetitions_of_nothing() -> None:
    unknown = without("tasks", "threads_per_node")
    found = made(reading(unknown), reading(unknown | {"bandwidth_bytes_per_s": 2e9}))
    assert len(points(found)) == 2


def test_verdicts_come_from_what_the_reader_says_and_other_checks_are_not_checked() -> None:
    found = made(
        reading(IOR, IOR | {"ops_per_s": 5.0}, problems=(ReadingProblem("suspect", "a | b", 0),)),
        reading(IOR | {"ops_per_s": 6.0}, problems=(ReadingProblem("invalid", "wrong \x1b[2J → or\nright", 0),)),
    )
    assert [row.values["verdict"] for row in found.rows] == ["suspect", "valid", "invalid"]
    assert [row.values["reasons"] for row in found.rows] == ["a / b", "", r"wrong \x1b[2J > or\nright"]
    outcomes = found.rows[1].findings
    assert outcomes["pinned"].outcome == "not checked"
    assert {name for name, finding in outcomes.items() if finding.outcome == "pass"} == {"output", "tool_doubts"}


def test_a_row_without_a_phase_is_left_out_and_counted() -> None:
    found = made(reading(IOR, IOR, without("phase")))
    assert len(found.rows) == 1 and found.left_out["it is there twice, with the same figures"] == 1
    assert sum(found.left_out.values()) == 2
    broken = made(reading(without("phase"), problems=(ReadingProblem("invalid", "write: it broke", 0),)))
    assert broken.left_out == {"ior: write: it broke": 1}


def test_a_file_of_more_runs_than_a_log_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MOST_SIGNS", 2)
    title = b"SUMMARY rate: (of 1 iterations)\n"
    assert isinstance(outputs.readings(2 * title), dict) and isinstance(outputs.readings(3 * title), str)


def test_a_file_that_is_no_output_of_a_tool_is_refused_with_the_reason(snapshot: SnapshotAssertion) -> None:
    title = b"SUMMARY rate: (of 1 iterations)\n"
    contents = {
        "empty": b" \n",
        "hello": b"hello",
        "utf16": "ab".encode("utf-16"),
        "zip": b"PK\x03\x04",
        "tar": b"fio.out".ljust(257, b"\0") + b"ustar\0" + title,
        "gzip": b"\x1f\x8b\x08",
        "program": b"\x7fELF\x02\x01\x01\0" + title,
        "ranks": b"access,rank,runtime\n",
        "script": b"grep 'SUMMARY rate' run.out | awk '/MPI Coordinated/'\n",
    }
    assert "\n".join(f"{name} {outputs.readings(data)}" for name, data in contents.items()) == snapshot


def test_values_that_a_table_cannot_hold_are_null() -> None:
    odd: dict[str, Cell] = {"ops_per_s": 1e300, "nodes": 1 << 70, "host": "a\x1b[1m"}
    values = made(reading(IOR | odd)).rows[0].values
    assert (values.get("ops_per_s"), values["nodes"], values["host"]) == (None, 2, "a\\x1b[1m")
