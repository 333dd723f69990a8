"""`iosweep parse fio`: what files alone say, against outputs of real runs and published reports.

The samples and what must be said about each are in fio_samples.py.
"""

from typing import Any

import pytest

from fio_readings import WHOLE, reading
from fio_samples import ALL, BAD, GOOD, SUSPECT
from iosweep.results.columns import result_columns
from iosweep.tools.fio.foreign import read
from readings import measured, texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")


TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "int": (int,), "float": (float, int), "bool": (bool,)}
COLUMN_TYPES = {column.name: TYPES.get(column.type, (str,)) for column in result_columns()}
#: samples with a rate limit
LIMITED = {"m1_nogr": ["slow: rate_iops=500 limits the rate"]}


# ---- every sample


def test_every_sample_is_decided() -> None:
    assert set(GOOD) | set(BAD) == set(ALL)
    assert not set(GOOD) & set(BAD)
    assert len(ALL) >= 94 + 8


@pytest.mark.parametrize("name", GOOD)
def test_good_samples_give_their_figures(name: str) -> None:
    found = WHOLE[name]
    assert texts(found) == LIMITED.get(name, [])
    assert len(found.rows) == len(GOOD[name])
    for row, (label, host, phase, ops, ops_per_s, bandwidth, mean_ns, p99_5_ns) in zip(
        found.rows, GOOD[name], strict=True
    ):
        assert (row["label"], row.get("host"), row.get("phase"), row["ops"]) == (label, host, phase, ops)
        assert row["ops_per_s"] == pytest.approx(ops_per_s, rel=1e-7)
        assert row.get("bandwidth_bytes_per_s") == (
            bandwidth if bandwidth is None else pytest.approx(bandwidth, rel=1e-7)
        )
        clat = "latency" if row.get("kind") == "metadata" else "completion_latency"
        assert row[f"{clat}_mean_s"] == pytest.approx(mean_ns / 1e9, rel=1e-6)
        if p99_5_ns is not None and ops >= 2000:
            assert row[f"{clat}_p99_5_s"] == pytest.approx(p99_5_ns / 1e9, rel=1e-9)
        elif "bins" not in ALL[name].files[ALL[name].report].decode():
            assert f"{clat}_p99_5_s" not in row


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_say_why_and_have_no_valid_row(name: str) -> None:
    found = reading(ALL[name])
    assert bool(measured(found)) == (name in SUSPECT)
    for at, row in enumerate(found.rows):
        assert found.verdict(at) != "valid"
        assert ("ops" in row) == (found.verdict(at) == "suspect"), row
    for part in BAD[name]:
        assert any(part in problem for problem in texts(found)), texts(found)


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_are_bad_even_where_the_exit_code_is_lost(name: str) -> None:
    # a launcher, a pipe and fio's own client mode lose it
    assert texts(read(ALL[name].files, None))


@pytest.mark.parametrize("name", ["c1_client2", "own_rand_read", "seed_read_iops", "s3_normaljson"])
def test_an_exit_code_makes_every_row_suspect(name: str) -> None:
    found = read(ALL[name].files, 137)
    assert (found.rows, texts(found)) == (WHOLE[name].rows, ["fio ended with exit code 137"])
    assert {found.verdict(at) for at in range(len(found.rows))} == {"suspect"}
    assert read(ALL[name].files, None).rows == WHOLE[name].rows


def test_rows_have_columns_of_the_result_table_and_their_types() -> None:
    for name, found in ((name, WHOLE[name]) for name in GOOD):
        for row in found.rows:
            for column, value in row.items():
                assert isinstance(value, COLUMN_TYPES[column]), (name, column, value)
                assert not isinstance(value, bool) or COLUMN_TYPES[column] == (bool,), (name, column)


# ---- the published figures


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("seed_read_throughput", "bandwidth_bytes_per_s", 9167 * 2**20),
        ("seed_read_iops", "sampled_ops_per_s", 390494.54),
        ("seed_write_iops", "sampled_ops_per_s", 288215.11),
        ("seed_read_latency", "completion_latency_mean_s", 229.09e-6),
        ("seed_read_latency", "completion_latency_p99_5_s", 334e-6),
        ("seed_write_latency", "completion_latency_mean_s", 226.21e-6),
        ("seed_write_latency", "completion_latency_p99_5_s", 293e-6),
        ("seed_small_write_latency", "completion_latency_mean_s", 529.0e-6),
        ("seed_small_write_latency", "completion_latency_p99_5_s", 766e-6),
        ("seed_small_write_latency_markdown", "completion_latency_p99_5_s", 766e-6),
        ("seed_small_write_latency_markdown", "runtime_s", 70.001),
        ("seed_read_throughput", "tasks", 32),
        ("seed_read_throughput", "queue_depth", 1),
        ("seed_read_throughput", "latency_max_s", 14949e-6),
    ],
)
def test_published_figures(name: str, column: str, value: float) -> None:
    assert WHOLE[name].rows[0][column] == pytest.approx(value)


def test_published_bandwidths_as_they_are_quoted() -> None:
    quoted = {
        n: round(WHOLE[f"seed_{n}_throughput"].rows[0]["bandwidth_bytes_per_s"] / 2**30, 2) for n in ("read", "write")
    }
    assert quoted == {"read": 8.95, "write": 6.87}


def test_a_published_report_does_not_say_what_its_job_did() -> None:
    # only its name does, and a name is no evidence
    assert not {"phase", "metric", "kind", "transfer_size_bytes"} & set(WHOLE["seed_read_throughput"].rows[0])


# ---- parameters and columns of single samples


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("w_ext4", 0, {
            "tool": "fio", "tool_version": "fio-3.33", "kind": "data", "metric": "bandwidth_bytes_per_s", "tasks": 4,
            "transfer_size_bytes": 2**20, "queue_depth": 1, "file_size_bytes": 32 * 2**20, "ioengine": "posixaio",
            "o_direct": True, "phase_time_s": 2.0, "runtime_s": 2.006, "bytes_read": 2588934144,
            "read_bandwidth_bytes_per_s": 1290595286.0, "read_ops_per_s": 1230.807577, "sampled_ops_per_s": 1272.0,
        }),
        ("h6", 0, {"queue_depth": 4, "metric": "ops_per_s", "bytes_written": 83812352, "o_direct": True}),
        ("md14_delete", 0, {"kind": "metadata", "metric": "ops_per_s", "tasks": 2, "ioengine": "filedelete"}),
        ("s2_nj4_nogr", 3, {"tasks": 1}),
        ("rt1", 0, {"ops": 46206, "bytes_read": 189272064}),  # with a ramp three I/Os are in one count only
        ("own_rand_mixed", 0, {
            "read_ops_per_s": 38031.87251, "write_ops_per_s": 16176.294821, "bytes_read": 38184 * 4096,
            "completion_latency_p99_s": 2441216e-9, "latency_p99_s": None,  # a histogram of clat alone
        }),
    ],
)  # fmt: skip
def test_columns(name: str, row: int, expected: dict[str, Any]) -> None:
    found = WHOLE[name].rows[row]
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "row", "absent"),
    [
        (
            "md14_delete",
            0,
            {"bandwidth_bytes_per_s", "bytes_read", "transfer_size_bytes", "queue_depth", "read_ops_per_s"},
        ),
        ("w_ext4", 1, {"sampled_ops_per_s", "bytes_read", "read_ops_per_s"}),  # 3225 sampled, 2910 done in the time
        ("v20_client2_sections", 1, {"phase", "metric", "transfer_size_bytes"}),  # fio does not print its options
        ("ss1", 0, {"phase_time_s"}),  # ended when it was steady
        ("e7_badfile", 0, set()),
        ("p1_plist", 0, {"o_direct", "tasks"}),  # not told
        ("c1_client2", 0, {"latency_p99_s"}),  # percentiles of two directions do not add up without histograms
    ],
)
def test_what_the_file_does_not_tell_is_absent(name: str, row: int, absent: set[str]) -> None:
    assert not absent & set(reading(ALL[name]).rows[row] if name in GOOD else {})
