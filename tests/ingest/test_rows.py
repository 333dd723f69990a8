"""Outputs of others as points and repetitions: the same parameters are one point, what is not known is never mixed."""

from hashlib import sha256
from pathlib import Path

import pytest

from iosweep.ingest.outputs import readings
from iosweep.ingest.rows import Made, campaign_rows
from iosweep.results.checks import OF_A_ROW
from iosweep.results.ingested import IngestedFile
from iosweep.tools.reading import Cell, Reading, ReadingProblem

SAMPLES = Path(__file__).parents[1] / "samples"
IOR: dict[str, Cell] = {
    "tool": "ior",
    "tool_version": "4.0.0",
    "label": "write",
    "phase": "seq_write",
    "tasks": 64,
    "threads_per_node": 32,
    "transfer_size_bytes": 1 << 20,
    "bandwidth_bytes_per_s": 1e9,
    "ops_per_s": 1e3,
}
MDTEST: dict[str, Cell] = {"tool": "mdtest", "phase": "create", "tasks": 2, "ops_per_s": 7.0, "max_ops_per_s": 7.0}


def made(*found: Reading) -> Made:
    """Rows of files with these readings, one each."""
    return campaign_rows(
        "c",
        [(IngestedFile(f"{n}.out", sha256(b"%d" % n).hexdigest(), 1), [reading]) for n, reading in enumerate(found)],
    )


def reading(*rows: dict[str, Cell], problems: tuple[ReadingProblem, ...] = ()) -> Reading:
    return Reading("4.0.0", rows, problems)


def content(data: bytes) -> list[Reading]:
    found = readings(data)
    assert isinstance(found, dict)
    return [*found.values()]


def points(found: Made) -> list[tuple[object, object]]:
    return [(row.values["point"], row.values["repetition"]) for row in found.rows]


def test_several_runs_of_one_point_are_repetitions_in_the_order_of_their_dates() -> None:
    late = IOR | {"began_local": "2026-03-02T00:00:00", "bandwidth_bytes_per_s": 2e9}
    early = IOR | {"began_local": "2026-03-01T00:00:00", "bandwidth_bytes_per_s": 3e9}
    found = made(reading(IOR), reading(late), reading(early))
    assert [row.values["bandwidth_bytes_per_s"] for row in found.rows] == [3e9, 2e9, 1e9]
    assert {point for point, _ in points(found)} == {found.rows[0].values["point"]}
    assert [number for _, number in points(found)] == [1, 2, 3]
    assert [sweep.name for sweep in found.sweeps] == ["ior-data"]
    assert found.rows[0].values["nodes"] == 2


@pytest.mark.parametrize(
    "other", [{"transfer_size_bytes": 4096}, {"o_direct": True}, {"tool_version": "3.3.0"}, {"segments": 4}]
)
def test_other_parameters_conditions_and_versions_are_other_points(other: dict[str, Cell]) -> None:
    found = made(reading(IOR), reading(IOR | other | {"bandwidth_bytes_per_s": 2e9}))
    assert len({point for point, _ in points(found)}) == 2
    assert [number for _, number in points(found)] == [1, 1]


def test_an_id_depends_on_the_parameters_alone() -> None:
    one = made(reading(IOR)).rows[0].values["point"]
    many = made(reading(IOR | {"transfer_size_bytes": 1}), reading(IOR), reading(IOR | {"phase": "seq_read"}))
    assert one in {row.values["point"] for row in many.rows}
    assert str(one).startswith("ior.data.2n.32t.1m.")


def test_outputs_that_do_not_tell_their_ranks_are_repetitions_of_nothing() -> None:
    unknown = {name: value for name, value in IOR.items() if name not in ("tasks", "threads_per_node")}
    found = made(reading(unknown), reading(unknown | {"bandwidth_bytes_per_s": 2e9}))
    assert len({point for point, _ in points(found)}) == 2
    assert [sweep.name for sweep in found.sweeps] == ["ior-data-1", "ior-data-2"]
    assert "1.out" in (found.sweeps[1].description or "")


def test_verdicts_come_from_what_the_reader_says_and_other_checks_are_not_checked() -> None:
    found = made(
        reading(IOR, IOR | {"ops_per_s": 5.0}, problems=(ReadingProblem("suspect", "a | b", 0),)),
        reading(IOR | {"ops_per_s": 6.0}, problems=(ReadingProblem("invalid", "wrong", 0),)),
    )
    assert [row.values["verdict"] for row in found.rows] == ["suspect", "valid", "invalid"]
    assert [row.values["reasons"] for row in found.rows] == ["a / b", "", "wrong"]
    outcomes = {check.name: finding for check, finding in zip(OF_A_ROW, found.rows[1].findings, strict=True)}
    assert outcomes["pinned"].outcome == "not checked"
    assert {name for name, finding in outcomes.items() if finding.outcome == "pass"} == {"output", "tool_doubts"}


def test_what_has_no_place_is_counted() -> None:
    unknown = {name: value for name, value in IOR.items() if name != "phase"}
    found = made(reading(IOR, IOR, unknown))
    assert len(found.rows) == 1
    assert sorted(found.left_out.values()) == [1, 1]
    assert "it is there twice, with the same figures" in found.left_out


@pytest.mark.parametrize(
    "name",
    [
        "mdtest/main/md_both_i1.out",
        "mdtest/seeds/lustre_1_nodes.out",  # no dates
        "fio/own_rand_read.out",
        "fio/s2_nj4_nogr.out",
    ],
)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_a_copy_of_an_output_is_no_repetition(name: str, ends: bytes) -> None:
    data = (SAMPLES / name).read_bytes()
    copy = b"srun job 1\n" + data if ends == b"\n" else data.replace(b"\r\n", b"\n").replace(b"\n", ends)
    both = [content(data), content(copy)]
    found = campaign_rows("c", [(IngestedFile(f"{n}", f"{n}" * 64, 1), one) for n, one in enumerate(both)])
    assert found.rows
    assert found.left_out["it is there twice, with the same figures"] == len(found.rows)


@pytest.mark.parametrize("other", [{"began_local": "2026-03-01T00:00:07"}, {"ops_per_s": 7.001}])
def test_mdtest_with_another_date_or_rate_is_a_repetition(other: dict[str, Cell]) -> None:
    one = MDTEST | {"began_local": "2026-03-01T00:00:00"}
    assert [number for _, number in points(made(reading(one), reading(one | other), reading(one)))] == [1, 2]


def test_mdtest_with_one_rate_and_no_date_may_be_a_repetition() -> None:
    assert len(made(reading(MDTEST), reading(MDTEST)).rows) == 2
    both = reading(MDTEST, MDTEST | {"phase": "dir_create", "ops_per_s": 5.0})
    assert len(made(both, both).rows) == 2


def test_an_invalid_row_without_a_phase_is_left_out_for_what_is_wrong_with_it() -> None:
    unknown = {name: value for name, value in IOR.items() if name != "phase"}
    found = made(reading(unknown, problems=(ReadingProblem("invalid", "write: it broke", 0),)))
    assert found.left_out == {"ior: write: it broke": 1}


def test_values_that_a_table_cannot_hold_are_null() -> None:
    odd: dict[str, Cell] = {"ops_per_s": 1e300, "nodes": 1 << 70, "host": "a\x1b[1m"}
    values = made(reading(IOR | odd)).rows[0].values
    assert values.get("ops_per_s") is None
    assert values["nodes"] == 2
    assert values["host"] == "a\\x1b[1m"


def test_jobs_of_fio_with_other_names_are_other_points() -> None:
    fio: dict[str, Cell] = {"tool": "fio", "tool_version": "fio-3.36", "label": "a", "phase": "rand_read", "tasks": 1,
                            "transfer_size_bytes": 4096, "queue_depth": 8, "latency_mean_s": 1e-5}  # fmt: skip
    found = made(*(reading(fio | {"label": name, "ops_per_s": float(n)}) for n, name in enumerate("aab", 1)))
    assert sorted(number for _, number in points(found)) == [1, 1, 2]


def test_a_sweep_of_outputs_of_io500_has_the_name_of_their_workload() -> None:
    other = {"transfer_size_bytes": 47008}
    names = {
        "a/ior-easy-write.txt": IOR,
        "a/ior-easy-read.txt": IOR | {"phase": "seq_read"},
        "a/ior_hard_write.txt": IOR | other,
        "a/mdtest-hard-stat.txt": IOR | other,  # of IOR all the same
        "b/ior-hard-write.txt": IOR | other | {"tool_version": "4.1.0"},
        "b/own.txt": IOR,
    }
    files = [(IngestedFile(name, sha256(name.encode()).hexdigest(), 1), row) for name, row in names.items()]
    found = campaign_rows(
        "c", [(file, [reading(row | {"ops_per_s": float(at)})]) for at, (file, row) in enumerate(files)]
    )
    assert {(str(row.values["raw"]), str(row.values["sweeps"])) for row in found.rows} == {
        ("a/ior-easy-write.txt", "ior-easy"),
        ("a/ior-easy-read.txt", "ior-easy"),
        ("a/ior_hard_write.txt", "ior-hard-1"),
        ("b/ior-hard-write.txt", "ior-hard-2"),
        ("a/mdtest-hard-stat.txt", "ior-data"),
        ("b/own.txt", "ior-data"),
    }
    of_point = {str(row.values["point"]): str(row.values["sweeps"]) for row in found.rows}
    assert all(of_point[str(row.values["point"])] == row.values["sweeps"] for row in found.rows)
    described = {sweep.name: sweep.description for sweep in found.sweeps}
    assert described["ior-easy"] == "Ingested: ior-easy of IO500, IOR 4.0.0."
