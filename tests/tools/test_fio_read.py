"""fio's JSON of others: what a file alone says, against outputs of real runs (samples/fio/read).

expected.json has a line for every report: label, host, phase, operations, operations per second, bytes per second,
mean latency (ns) and its 99.5th percentile (ns). The numbers are those in the files, put there by hand and by a script
of ten lines that has nothing in common with the reader.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.results.columns import result_columns
from iosweep.tools.fio.output import read
from iosweep.tools.reading import Reading
from readings import measured, texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")

SAMPLES = Path(__file__).resolve().parents[1] / "samples/fio"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
GOOD, BAD = EXPECTED["good"], EXPECTED["bad"]
#: Reports of several hosts or workers that are one row, and how many rows there are.
MERGED = {
    "c1_client2": 1, "c2_client2_jsonp": 1, "c7_client2_out": 1, "c8b_client2_sections_nogr": 3, "o3_out_before": 1,
    "rt3": 1, "s2_nj4_nogr": 1,
}  # fmt: skip


def _content(name: str) -> bytes:
    here = SAMPLES / "read" / name
    return (here if here.exists() else SAMPLES / name).read_bytes()


with (SAMPLES / "read" / "manifest.tsv").open(encoding="utf-8") as _file:
    #: sample -> stdout, an --output file and stderr together
    ALL = {
        name: b"".join(map(_content, files.split(",")))
        for name, _, files, _ in list(csv.reader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    }


def edited(name: str, change: Callable[[Any], object]) -> Reading:
    """Reading of a sample whose first entry was changed."""
    document = json.loads(ALL[name][ALL[name].index(b"{\n") :])
    change(document["jobs" if "jobs" in document else "client_stats"][0])
    return read(json.dumps(document, indent=2).encode())


def test_every_sample_is_decided() -> None:
    assert GOOD.keys() | BAD.keys() | {"v42_client2_sections"} == ALL.keys()


@pytest.mark.parametrize("name", GOOD)
def test_good_samples_give_their_figures(name: str) -> None:
    found, expected = read(ALL[name]), GOOD[name]
    assert len(found.rows) == MERGED.get(name, len(expected))
    columns = {column.name for column in result_columns()}
    assert all(row.keys() <= columns for row in found.rows)
    known = [one for one in expected if one[2]] if name in MERGED else expected
    for column, place in (("ops", 3), ("ops_per_s", 4), ("bandwidth_bytes_per_s", 5)):
        total = sum(float(row.get(column, 0.0)) for row in found.rows)
        assert total == pytest.approx(sum(one[place] or 0 for one in known), rel=1e-6)
    for row, (label, host, phase, _, _, _, mean_ns, p99_5_ns) in zip(found.rows, expected, strict=False):
        if name in MERGED:
            continue
        assert (row["label"], row.get("host"), row.get("phase")) == (label, host, phase)
        clat = "latency" if row["kind"] == "metadata" else "completion_latency"
        assert row[f"{clat}_mean_s"] == pytest.approx(mean_ns / 1e9, rel=1e-6)
        if p99_5_ns is not None and int(row["ops"]) >= 2000:
            assert row[f"{clat}_p99_5_s"] == pytest.approx(p99_5_ns / 1e9, rel=1e-9)


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_say_why_and_have_no_valid_row(name: str) -> None:
    found = read(ALL[name])
    assert all(found.verdict(at) != "valid" for at in range(len(found.rows)))
    assert bool(measured(found)) == (name in EXPECTED["suspect"])
    assert [part for part in BAD[name] if not any(part in text for text in texts(found))] == []


def test_jobs_whose_options_fio_did_not_print_are_rows_without_figures() -> None:
    found = read(ALL["v42_client2_sections"])  # client mode prints those of the first section alone
    assert [found.verdict(at) for at in range(len(found.rows))].count("valid") == 1
    assert all("ops" not in row for row in found.rows if row.get("phase") is None)


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
        ("md14_delete", 0, {"kind": "metadata", "metric": "ops_per_s", "tasks": 2, "transfer_size_bytes": None}),
        ("s2_nj4_nogr", 0, {"tasks": 4, "threads_per_node": 4, "nodes": 1}),
        ("ss1", 0, {"phase_time_s": None}),  # ended when it was steady
        ("own_rand_mixed", 0, {"read_ops_per_s": 38031.87251, "bytes_read": 38184 * 4096, "latency_p99_s": None}),
    ],
)  # fmt: skip
def test_columns(name: str, row: int, expected: dict[str, Any]) -> None:
    found = read(ALL[name]).rows[row]
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "fio printed nothing"),
        (b"seq: (groupid=0, jobs=1): err= 0: pid=1: x\n", "not read: a text report of fio, and no JSON"),
        (b'{\n "fio version" : "fio-3.17",\n "jobs" : []\n}\n', "not read: JSON of fio-3.17; that of fio-3.18"),
        (b'{\n "fio version" : "fio-2.2.10",\n "jobs" : []\n}\n', "not read: JSON of fio-2.2.10"),
        (b'{\n "fio version" : "fio-3.36",\n "jobs" : []\n}\n', "no job was reported"),
        (2 * ALL["own_rand_read"], "more than one JSON document"),
    ],
)
def test_what_is_not_read_has_one_sentence(data: bytes, why: str) -> None:
    found = read(data)
    assert not found.rows
    (text,) = texts(found)
    assert why in text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda job: job.update(error=5), "fio reports error 5"),
        (lambda job: job["read"].update(short_ios=2), "2 short and 0 dropped I/Os"),
        (lambda job: job["read"].update(bw_bytes=1), "do not agree"),
        (lambda job: job["read"].update(io_bytes=1 << 20), "do not agree"),
        (lambda job: job["job options"].update(rw="randwrite"), "no write was done"),
        (lambda job: job["job options"].update(rw="trim"), "not read: jobs with rw=trim"),
        (lambda job: job["job options"].update(ioengine="dirstat"), "not read: jobs with ioengine=dirstat"),
        (lambda job: job.pop("job options"), "did not print the options"),
        (lambda job: job.update(job_runtime=9 * job["job_runtime"]), "merged sections"),
        (lambda job: job["read"]["lat_ns"].update(mean=1e9), "contradict each other"),
        (lambda job: job["read"].pop("iops"), "missing required field"),
    ],
)  # fmt: skip
def test_what_makes_a_row_invalid(change: Callable[[Any], object], why: str) -> None:
    found = edited("own_rand_read", change)
    assert any(why in text for text in texts(found)), texts(found)
    assert not measured(found)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda job: job["job options"].update(rate_iops="100"), "rate_iops=100 limits the rate"),
        (lambda job: job["job options"].update(runtime="9"), "interrupted"),
        (lambda job: job.update({"iodepth_level": {"1": 100.0}}), "asked for depth 4"),
    ],
)
def test_what_makes_a_row_suspect_keeps_its_figures(change: Callable[[Any], object], why: str) -> None:
    found = edited("own_rand_read", change)
    assert found.verdict(0) == "suspect" and found.rows[0]["ops_per_s"]
    assert any(why in text for text in texts(found)), texts(found)


@given(st.sampled_from([*GOOD]), st.binary(max_size=200), st.integers(0, 30_000), st.integers(0, 300))
def test_whatever_a_file_holds_can_be_read(name: str, junk: bytes, at: int, over: int) -> None:
    text = ALL[name]
    assert isinstance(read(text[:at] + junk + text[at + over :]), Reading)


@given(st.sampled_from([*GOOD]), st.floats(0, 1, exclude_max=True))
def test_a_cut_file_has_no_figures(name: str, part: float) -> None:
    text = ALL[name][ALL[name].index(b"{\n") :].rstrip()
    assert not measured(read(text[: int(part * len(text))]))
