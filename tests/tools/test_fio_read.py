"""`iosweep parse fio`: what files alone say, against outputs of real runs, published reports, and damaged ones of both.

The samples and what must be said about each are in fio_samples.py.
"""

import base64
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_samples import ALL, BAD, GOOD, SUSPECT, Sample
from iosweep.results.columns import result_columns
from iosweep.tools.fio import latency
from iosweep.tools.fio.foreign import job_options, read
from iosweep.tools.fio.foreign.rows import Part
from iosweep.tools.fio.json_records import Latencies
from iosweep.tools.reading import Reading
from readings import measured, texts


@pytest.fixture(autouse=True, scope="module")
def short_runs_are_good() -> Iterator[None]:
    """The samples ran for a second or two; test_parse.py has what that makes of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_options, "too_short_to_be_steady", lambda time_s: "")
        yield


TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "int": (int,), "float": (float, int), "bool": (bool,)}
COLUMN_TYPES = {column.name: TYPES.get(column.type, (str,)) for column in result_columns()}

#: rows of one label and host are told apart by nothing else (workers without group_reporting)
IDENTITY = ("label", "host")
#: columns that come from the options alone, which stand nowhere twice
PARAMETERS = {
    "phase", "kind", "metric", "tasks", "transfer_size_bytes", "queue_depth", "file_size_bytes", "o_direct", "ioengine",
    "phase_time_s",
}  # fmt: skip


def reading(sample: Sample, report: bytes | None = None) -> Reading:
    return read(sample.files | ({} if report is None else {sample.report: report}), sample.exit_code)


Some = Callable[[Iterable[Any]], Iterator[Any]]


class _Readings(dict[str, Reading]):
    """Sample -> its reading, made when it is first asked for."""

    def __missing__(self, name: str) -> Reading:
        return self.setdefault(name, reading(ALL[name]))


WHOLE = _Readings()
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


# ---- what stands around, instead and beside


def edited(name: str, change: Callable[[Any], None]) -> Reading:
    """Reading of a sample whose JSON document was changed."""
    document = json.loads(ALL[name].files[ALL[name].report])
    change(document)
    return reading(ALL[name], json.dumps(document, indent=2).encode())


def first(document: Any) -> Any:
    return document["jobs" if "jobs" in document else "client_stats"][0]


@pytest.mark.parametrize("name", ["own_rand_read", "c1_client2", "seed_read_iops"])
@pytest.mark.parametrize(
    "around",
    [
        lambda text: b"note: both iodepth >= 1 and synchronous I/O engine are selected\n" + text,
        lambda text: text + b"\n\nsome launcher: done\n",
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\xff\xfe\n" + text,
    ],
)
def test_text_around_a_report_changes_nothing(name: str, around: Callable[[bytes], bytes]) -> None:
    assert reading(ALL[name], around(ALL[name].files[ALL[name].report])) == WHOLE[name]


def test_the_same_document_in_two_files_is_one() -> None:
    text = ALL["own_rand_read"].files["own_rand_read.out"]
    assert read({"stdout": text, "saved.json": text}, 0) == WHOLE["own_rand_read"]


def test_two_documents_are_two_runs() -> None:
    one, two = (ALL[name].files[f"{name}.out"] for name in ("own_rand_read", "p1c_default_libaio"))
    both = [*WHOLE["own_rand_read"].rows, *WHOLE["p1c_default_libaio"].rows]
    found = read({"a": one + two}, 0)
    assert (found.rows, texts(found)) == (both, [])
    # whoever gives two files at once says that they are of one run
    found = read({"a": one, "b": two}, 0)
    assert (found.rows, texts(found)) == (both, ["2 runs are in 2 files that were given as those of one"])
    assert [found.verdict(at) for at in range(2)] == ["suspect", "suspect"]


def test_what_is_wrong_with_one_of_two_runs_concerns_no_other() -> None:
    other = json.loads(_report("s2_nj4_nogr"))
    del other["jobs"][2], other["jobs"][0]["error"]
    found = read({"a": _report("own_rand_read") + json.dumps(other, indent=1).encode() + b"\n"}, 0)
    assert [found.verdict(at) for at in range(4)] == ["valid", "invalid", "suspect", "suspect"]
    assert {problem.row for problem in found.problems} == {1, 2, 3}


def at_time(ran_s: float, name: str = "own_rand_read") -> bytes:
    """What fio would have printed after a part of the run's time: counters in proportion, and no histogram."""
    document = json.loads(_report(name))
    (job,) = document["jobs"]
    begun_s = document["timestamp_ms"] / 1000 - job["elapsed"]
    part = job["read"]
    share = ran_s * 1000 / part["runtime"]
    ops = int(part["total_ios"] * share)
    part |= {"total_ios": ops, "io_bytes": ops * 4096, "io_kbytes": ops * 4}
    part["runtime"] = round(ran_s * 1000)
    part["bw_bytes"] = part["io_bytes"] * 1000 // part["runtime"]
    part["bw"], part["iops"] = part["bw_bytes"] // 1024, part["total_ios"] * 1000 / part["runtime"]
    for key in ("slat_ns", "clat_ns", "lat_ns"):
        part[key] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    job["job_runtime"] = round(job["job_runtime"] * share)
    job["elapsed"] = int(ran_s) + 1
    document["timestamp_ms"] = round((begun_s + ran_s + 0.3) * 1000)
    return json.dumps(document, indent=2).encode() + b"\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "fio printed nothing"),
        (b" \n\n", "fio printed nothing"),
        (b"hello\n", "no report of fio"),
        (b"[]", "no report of fio"),
        (b"{\n}\n", "does not say which version"),
        (b'{\n"fio version": 3}', "fio version: expected `str`, got `int`"),
        (b'{\n"fio version": "fio-3.33", "jobs": []}', "no job was reported"),
        (b'{\n"fio version": "fio-3.33", "jobs": {}}', "jobs: expected `array | null`, got `object`"),
        (b'{\n"fio version": "fio-3.33", "jobs": [5]}', "jobs[0]: expected `object`, got `int`"),
        (b'{\n"fio version": "fio-3.33", "client_stats": []}', "no host reported"),
        (b'{\n"fio version": "fio-3.33"}', "neither fio's jobs nor its client_stats"),
        (b'{\n"fio version": "fio-2.21", "jobs": [{}]}', "fio-2.21 is not read"),
        (b'{\n"jobs": ' + b"[" * 100_000, "cut or damaged"),
        (b'{\n"fio version": NaN}', "cut or damaged"),
        (b'{\n"a": 1, "a": 2}', "'a' is given twice with different values"),
        (b"x: (groupid=0, jobs=1): err= 0: pid=1: Mon\n  read : io=9MB, bw=9KB/s, iops=2, runt=  9msec\n", "is cut or"),
        (b"x: (groupid=0, jobs=1): err= 0: pid=1: Mon\n", "is cut or damaged"),
        (b"   iops        : min= 5908, max= 7858, avg=7043.58, stdev= 9.37, samples=19168\n", "a piece of a report"),
        (b'  "jobs" : [\n', "a piece of JSON"),
    ],
)  # fmt: skip
def test_what_is_no_report_says_so(text: bytes, problem: str) -> None:
    found = read({"stdout": text}, None)
    assert measured(found) == []
    assert any(problem in p for p in texts(found)), texts(found)


@pytest.mark.parametrize(
    "line",
    [
        "fio: terminating on signal 15",
        "client: host=n1 disconnected",
        "n1 error: failed to setup shm segment",
        "fio: failed to connect to n1:8765",
        "fio: pid=77, err=5/file:io_u.c:1876, func=io_u error, error=Input/output error",
    ],
)
@pytest.mark.parametrize("name", ["own_rand_read", "seed_read_iops"])
def test_what_fio_says_on_stderr_makes_every_row_suspect(name: str, line: str) -> None:
    found = read(ALL[name].files | {"stderr": line.encode()}, 0)
    assert found.rows == WHOLE[name].rows
    assert [(problem.severity, problem.row) for problem in found.problems] == [("suspect", None)]


def put(*path: str) -> Callable[[Any], Callable[[Any], None]]:
    """A change of one value in the first entry of a document."""

    def to(value: Any) -> Callable[[Any], None]:
        def change(document: Any) -> None:
            place = first(document)
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value

        return change

    return to


def without(*path: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        place = first(document)
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("error")(5), "fio reports error 5"),
        (put("read", "short_ios")(1), "1 I/Os were short"),
        (put("read", "drop_ios")(2), "2 were dropped"),
        (put("read", "io_bytes")(268169216 - 4096), "do not agree"),
        (put("read", "bw_bytes")(267901314 * 2), "bandwidth, bytes and time"),
        (put("read", "bw")(261622 * 2), "bandwidth, bytes and time"),
        (put("read", "iops")(65406.6), "operations, bytes and time"),
        (put("read", "runtime")(2001), "bandwidth, bytes and time"),
        (put("read", "total_ios")(True), "read.total_ios: expected `int`, got `bool`"),
        (put("read", "total_ios")("65471"), "read.total_ios: expected `int`, got `str`"),
        (put("job options", "bs")("8k"), "operations of 8192 bytes are not"),
        (put("job options", "iodepth")("16"), "queue depth is given as 16 and as 4"),
        (put("job options", "rw")("randwrite"), "no write was done"),
        (put("job options", "rw")("randrw"), "no write was done"),
        (put("job options", "rw")("randtrim"), "rw=randtrim has no columns"),
        (put("read", "clat_ns", "N")(65470), "latencies of 65470 I/Os for 65471"),
        (put("read", "clat_ns", "bins", "1")(1), "rand_read: the histogram does not hold every I/O"),
        (put("read", "clat_ns", "percentile", "99.000000")(1433601), "percentiles are not those of the histogram"),
        (put("read", "clat_ns", "percentile", "99.990000")(1), "percentiles of the latency do not agree"),
        (put("read", "clat_ns", "mean")(1.0), "minimum, mean and maximum"),
        (put("read", "clat_ns", "mean")(300000.0), "are not those of the histogram"),
        (put("read", "clat_ns", "mean")(117780.597 * 0.99), "are not those of the histogram"),
        (put("read", "lat_ns", "mean")(300000.0), "the means of the latencies do not add up"),
        (put("read", "total_ios")(0), "no read was done, but its io_bytes is 268169216"),
        (put("write", "iops")(0.5), "no write was done, but its iops is 0.5"),
        (put("write", "bw")(1), "no write was done, but its bw is 1"),
        (put("trim", "io_bytes")(4096), "no trim was done, but its io_bytes is 4096"),
        (put("read", "total_ios")(2**63), "read.total_ios: expected `int` <= 9223372036854775807"),
        (put("job options", "iodepth")(str(2**63)), 'the option iodepth is "9223372036854775808"; a whole number'),
        (put("read", "lat_ns", "min")(1), "completion took longer than the whole I/O"),
        (put("read", "clat_ns", "lat_ns")({}), "holds what does not belong there"),
        (put("trim", "total_ios")(1), "trims have no columns"),
        (without("error"), "missing required field `error`"),
        (without("read", "bw_bytes"), "`bw_bytes` is missing in the JSON"),
        (without("job_runtime"), "`job_runtime` is missing in the JSON"),
        (without("read"), "`read` is missing in the JSON"),
    ],
)
def test_numbers_that_do_not_agree_give_no_row(change: Callable[[Any], None], problem: str) -> None:
    found = edited("own_rand_read", change)
    assert measured(found) == []
    assert len(texts(found)) == 1
    assert problem in texts(found)[0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("job options", "runtime")("20"), "ran for 1.00 s of 20.00 s: interrupted"),
        (put("job options", "runtime")("0.5"), "ran for 1.00 s of 0.50 s"),
        (put("job options", "numjobs")("1"), "about 2 workers, but numjobs is 1: group_reporting merged sections"),
        (put("job options", "rate_iops")("40000"), "rate_iops=40000 limits the rate"),
        (put("job options", "rate")(",1m"), "rate=,1m limits the rate"),
        (
            put("iodepth_level")({"1": 90.0, "2": 4.0, "4": 6.0, ">=64": 0.0}),
            "asked for depth 4, engine libaio had that many in flight in 6 % of its I/O only",
        ),
        (put("iodepth_level")({"1": 100.0, "2": 0.0}), "asked for depth 4, engine libaio does one at a time"),
    ],
)
def test_what_makes_a_figure_suspect_keeps_it(change: Callable[[Any], None], problem: str) -> None:
    found = edited("own_rand_read", change)
    (row,) = found.rows
    assert row["ops_per_s"] == WHOLE["own_rand_read"].rows[0]["ops_per_s"]
    name = "completion_latency_p99_s"
    assert row[name] == WHOLE["own_rand_read"].rows[0][name]
    assert [(one.severity, one.row) for one in found.problems] == [("suspect", 0)]
    assert problem in texts(found)[0]


def test_more_in_flight_than_asked_for_is_no_figure() -> None:
    def ten_times(document: Any) -> None:
        part = first(document)["read"]
        part["total_ios"], part["io_bytes"] = 10 * part["total_ios"], 10 * part["io_bytes"]
        part["io_kbytes"], part["iops"] = part["io_bytes"] // 1024, part["total_ios"] * 1000 / part["runtime"]
        part["bw_bytes"] = part["io_bytes"] * 1000 // part["runtime"]
        part["bw"] = part["bw_bytes"] // 1024
        for name in ("slat_ns", "clat_ns", "lat_ns"):
            part[name] = {key: value for key, value in part[name].items() if key in ("min", "max", "mean", "stddev")}
            part[name]["N"] = part["total_ios"]

    found = edited("own_rand_read", ten_times)
    assert "in flight, and 8 were asked for" in " ".join(texts(found)) and not measured(found)


def test_libaio_that_waits_at_the_submission_is_suspect() -> None:
    def waits(document: Any) -> None:
        part = first(document)["read"]
        first(document)["job options"]["direct"] = "0"
        whole = part["lat_ns"]["mean"]
        part["slat_ns"]["mean"], part["clat_ns"] = (
            whole / 4,
            {"min": 1, "max": 10**6, "mean": whole * 3 / 4, "stddev": 1},
        )
        part["clat_ns"]["N"] = part["total_ios"]

    found = edited("own_rand_read", waits)
    assert "without O_DIRECT libaio waits for each" in texts(found)[0] and found.verdict(0) == "suspect"


@pytest.mark.parametrize(
    ("count", "there"),
    [(19, []), (20, ["p50"]), (1000, ["p50", "p95", "p99"]), (9999, ["p50", "p95", "p99", "p99_5"]),
     (10_000, ["p50", "p95", "p99", "p99_5", "p99_9"])],
)  # fmt: skip
def test_percentiles_take_ten_ios_beyond_them(count: int, there: list[str]) -> None:
    percentile = dict.fromkeys(latency.PERCENTILES.values(), 5.0)
    block = Latencies(1, 9, 5.0, 1.0, count, percentile, {"5": count})
    found = latency.columns({"read": [Part(count, 1.0, 1.0, completion=block, whole=block)]}, files=False)
    assert [name for name in latency.PERCENTILES if f"latency_{name}_s" in found] == there
    halves = [Part(count, 1.0, 1.0, completion=None, whole=msgspec.structs.replace(block, count=n, bins={"5": n}))
              for n in (count // 2, count - count // 2)]  # fmt: skip
    found = latency.columns({"read": halves}, files=False)
    assert [name for name in latency.PERCENTILES if f"latency_{name}_s" in found] == there
    assert not [name for name in found if name.startswith("completion")]


def test_a_limit_of_0_is_none() -> None:
    for value in ("0", "0,0", ","):
        assert texts(edited("own_rand_read", put("job options", "rate_iops")(value))) == []


def test_numbers_of_more_than_64_bits_give_no_row() -> None:
    # consistent in themselves
    def larger(document: Any) -> None:
        document["jobs"] = [first(document)]
        part, factor = first(document)["read"], 10**15
        for key in ("total_ios", "io_bytes", "bw", "iops"):
            part[key] = int(part[key] * factor) if key != "iops" else part["total_ios"] / part["runtime"] * 1000

    found = edited("old_2.2.10_json", larger)
    assert measured(found) == []
    assert "expected `int` <= 9223372036854775807" in texts(found)[0]

    text = _report("own_text").replace(b"total=18606,", b"total=18606000000000000000000,")
    assert measured(reading(ALL["own_text"], text)) == WHOLE["own_text"].rows[1:]


@pytest.mark.parametrize(
    ("moved", "problem"),
    [
        ("35632", "the histogram has a bin at 35632 ns, which fio's have not"),
        ("402", "minimum, mean and maximum of the latency are not those of the histogram"),
    ],
)
def test_a_bin_that_was_moved_is_noticed(moved: str, problem: str) -> None:
    def move(document: Any) -> None:
        bins = first(document)["read"]["clat_ns"]["bins"]
        bins[moved] = bins.pop("325632" if moved == "35632" else max(bins, key=bins.__getitem__))

    found = edited("c2_client2_jsonp", move)
    assert [problem in p for p in texts(found)] == [True], texts(found)
    assert found.problems[0].row == 0
    assert measured(found) == WHOLE["c2_client2_jsonp"].rows[1:]


def test_operations_of_one_job_that_stand_in_another_give_no_row() -> None:
    lines = _report("old_2.2.10_json").splitlines(keepends=True)
    lines[496], lines[763] = lines[763], lines[496]
    found = reading(ALL["old_2.2.10_json"], b"".join(lines))
    assert [row["label"] for row in measured(found)] == ["seqread", "randwrite"]
    assert texts(found)[0].startswith("mix: no write was done, but its io_bytes is")


JSON_SAMPLES = [name for name in GOOD if ALL[name].report.endswith(("out", "json")) and b'"fio version"' in
                ALL[name].files[ALL[name].report]]  # fmt: skip


@pytest.mark.parametrize("form", [{"sort_keys": True}, {"separators": (",", ":"), "sort_keys": True}, {"indent": 0}])
def test_the_form_of_the_json_does_not_matter(form: Any) -> None:
    assert len(JSON_SAMPLES) > 40
    for name in JSON_SAMPLES:
        text = _report(name)
        begin, end = text.index(b"{\n"), text.rindex(b"\n}") + 2
        again = json.dumps(json.loads(text[begin:end]), **form).encode()
        assert reading(ALL[name], text[:begin] + again + text[end:]) == WHOLE[name], name


def test_json_that_is_not_read_says_why() -> None:
    document = json.loads(_report("own_rand_read"))
    compact = json.dumps(document, sort_keys=True).encode()
    log = b'{"level": "info", "message": "done"}\n'
    sample = ALL["own_rand_read"]
    for whole in (compact + b"\n" + log, log + compact, b"\xef\xbb\xbf" + compact):
        assert reading(sample, whole) == WHOLE["own_rand_read"]
    for text, problem in (
        (b"stdout: " + compact, "does not begin on a line of its own"),
        (b"[" + compact + b"]", "does not begin on a line of its own"),
        (compact[:5000], "cut or damaged"),
        (log, "no report of fio"),
    ):
        found = reading(sample, text)
        assert measured(found) == []
        assert [problem in p for p in texts(found)] == [True], texts(found)


def test_no_latency_is_absent_and_not_zero() -> None:
    # as with gtod_reduce
    def untimed(document: Any) -> None:
        for name in ("slat_ns", "clat_ns", "lat_ns"):
            first(document)["read"][name] = {"min": 0, "max": 0, "mean": 0, "stddev": 0, "N": 0}

    found = edited("p1c_default_libaio", untimed)
    assert texts(found) == []
    assert not [column for column in found.rows[0] if "latency" in column]
    assert found.rows[0]["ops_per_s"] == 44970.02997


def test_files_that_were_looked_up_are_no_bytes_where_the_engine_is_not_told() -> None:
    def forget(document: Any) -> None:
        options = first(document)["job options"]
        del options["ioengine"]
        options["rw"] = "read"

    row = edited("md14_delete", forget).rows[0]
    assert row["ops_per_s"] == 17857.142857
    assert not [column for column in row if "bandwidth" in column or "bytes" in column or column in ("kind", "phase")]


def test_one_bad_entry_leaves_the_others() -> None:
    found = edited("w_ext4", put("error")(5))
    assert texts(found) == ["read_throughput: fio reports error 5"]
    assert measured(found) == WHOLE["w_ext4"].rows[1:]
    assert not [column for column in found.rows[0] if column.endswith(("_per_s", "ops"))]


def failed(document: Any) -> None:
    for entry in document["jobs"]:
        entry["error"] = 28


def test_a_row_without_figures_has_the_parameters_of_its_point() -> None:
    whole, short = WHOLE["s2_nj4_nogr"], edited("s2_nj4_nogr", failed)
    assert {short.verdict(index) for index in range(4)} == {"invalid"}
    for good, bad in zip([*whole.rows, whole.sums[0].row], [*short.rows, short.sums[0].row], strict=True):
        names = ("phase", "kind", "metric", "nodes", "tasks", "threads_per_node", "transfer_size_bytes", "queue_depth")
        assert [bad.get(name) for name in names] == [good[name] for name in names]
        assert not [name for name in bad if name.endswith("_per_s")]
    assert short.jobs == whole.jobs
    assert short.sums[0].parts == (0, 1, 2, 3), "workers of one run are no repetitions of each other"


def test_a_text_without_figures_has_the_parameters_of_its_point() -> None:
    whole = WHOLE["own_text"]
    text = ALL["own_text"].files[ALL["own_text"].report]
    short = reading(ALL["own_text"], re.sub(rb"/\d+msec\)", b"/13msec)", text))
    assert short.verdict(0) == "invalid"
    names = ("phase", "kind", "metric", "nodes", "tasks", "transfer_size_bytes", "queue_depth", "ioengine")
    assert [short.rows[0].get(name) for name in names] == [whole.rows[0][name] for name in names]
    assert not [name for name in short.rows[0] if name.endswith("_per_s")]


def test_options_of_another_job_are_no_parameters_of_a_row() -> None:
    found = edited("w_ext4", put("job options", "name")("other"))
    assert found.verdict(0) == "invalid"
    assert "phase" not in found.rows[0]


@pytest.mark.parametrize(
    ("start", "elapsed_s", "started"),
    [
        (None, 2, "2026-11-20T08:00:00.500+00:00"),
        (1795161605000, 2, "2026-11-20T08:00:05.000+00:00"),
        (None, None, None),
        (None, "2", None),
        (1 << 62, 2, None),
        (None, 1 << 62, None),
    ],
)
def test_when_a_job_started(start: int | None, elapsed_s: object, started: str | None) -> None:
    def dated(document: Any) -> None:
        document.update(timestamp_ms=1795161602500, time="Fri Nov 20 09:00:02 2026")
        first(document).update(job_start=start, elapsed=elapsed_s)

    row = edited("own_rand_read", dated).rows[0]
    assert (row.get("started"), row["ended_local"]) == (started, "2026-11-20T09:00:02")


def test_a_sum_began_with_the_first_of_its_parts() -> None:
    def apart(document: Any) -> None:
        for number, entry in enumerate(document["jobs"]):
            entry["job_start"] = 1795161605000 + number

    assert edited("s2_nj4_nogr", apart).sums[0].row["started"] == "2026-11-20T08:00:05.000+00:00"


def test_sections_that_only_lay_out_files_are_no_rows() -> None:
    (layout,) = json.loads(ALL["h1"].files["h1.out"])["jobs"]

    def add(document: Any) -> None:
        document["jobs"].insert(0, layout)

    assert edited("s1_single_json", add) == WHOLE["s1_single_json"]
    del layout["job options"]["create_only"]
    found = edited("s1_single_json", add)
    assert texts(found) == ["h: no write was done"]
    assert measured(found) == WHOLE["s1_single_json"].rows


def test_figures_of_unified_directions_are_totals() -> None:
    def unify(document: Any) -> None:
        job = first(document)
        job["mixed"] = job.pop("read")
        del job["write"], job["trim"]

    row = edited("p1c_default_libaio", unify).rows[0]
    assert row["bandwidth_bytes_per_s"] == 184197242.0
    assert not [column for column in row if column.startswith(("read_", "write_", "bytes_"))]


def test_up_to_3_17_fio_does_not_print_how_many_were_timed() -> None:
    def old(document: Any) -> None:
        document["fio version"] = "fio-3.16"
        for name in ("slat_ns", "clat_ns", "lat_ns"):
            for direction in ("read", "write"):
                del first(document)[direction][name]["N"]

    found = edited("p1c_default_libaio", old)
    assert found.rows == [WHOLE["p1c_default_libaio"].rows[0] | {"tool_version": "fio-3.16"}]


# ---- what fio really writes


def test_reports_in_between_count_for_nothing_once_there_is_a_later_one() -> None:
    last = _report("own_rand_read")
    whole = at_time(0.2) + at_time(0.6) + last
    assert read({"stdout": whole}, 0) == WHOLE["own_rand_read"]
    # the run was killed: the last report that is whole counts, and says that it is of a part of the run
    for rest in (b"", last[:3000]):
        found = read({"stdout": at_time(0.2) + at_time(0.6) + rest}, None)
        (row,) = found.rows
        assert row["runtime_s"] == 0.6
        assert found.verdict(0) == "suspect"
        assert any("ran for 0.60 s of 1.00 s: interrupted" in text for text in texts(found))


def test_equal_runs_one_after_the_other_are_not_reports_in_between() -> None:
    document = json.loads(_report("own_rand_read"))
    document["timestamp_ms"] += 1400
    document["timestamp"] += 1
    found = read({"stdout": _report("own_rand_read") + json.dumps(document, indent=1).encode()}, 0)
    assert (len(found.rows), texts(found)) == (2, [])


def test_text_reports_in_between_count_for_nothing_once_there_is_a_later_one() -> None:
    text = _report("own_text")
    head, body = text[: text.index(b"\nreads: (groupid")], text[text.index(b"\nreads: (groupid") :]
    early = (
        body[: body.index(b"\nstat: (groupid")]
        .replace(b"total=18606,", b"total=9303,")
        .replace(b"1001msec", b"500msec")
    )
    assert early != body[: len(early)]
    assert read({"stdout": head + early + b"\nRun status group 0 (all jobs):\n" + body}, 0) == WHOLE["own_text"]
    # nor does one after it that is cut
    found = read({"stdout": text + body[: len(body) // 3]}, None)
    assert found.rows == WHOLE["own_text"].rows
    assert "the last reports are cut or damaged: those before them are given" in texts(found)
    assert [found.verdict(at) for at in range(len(found.rows))] == ["suspect"] * len(found.rows)


GAPS = [
    # (lat, slat, clat) in ns, whether they can be those of the same I/Os
    (12_000.0, 2_000.0, 9_790.0, True),  # fast, 3.x with libaio: 0.2 us between
    (12_000.0, 2_000.0, 6_000.0, True),
    (12_000.0, 2_000.0, 1_000.0, False),
    (250_000.0, 5_000.0, 241_000.0, True),
    (250_000.0, 5_000.0, 200_000.0, False),
    (13_420_208.0, 218_011.0, 13_158_256.0, True),  # 64 workers on few CPUs
    (250_000.0, 5_000.0, 245_500.0, False),  # more than the whole
]


@pytest.mark.parametrize(("whole", "before", "after", "good"), GAPS)
def test_what_lies_between_submission_and_wait_is_no_contradiction(
    whole: float, before: float, after: float, good: bool
) -> None:
    def change(document: Any) -> None:
        part = first(document)["read"]
        asked = round(part["iops"] * whole / 1e9 / 2) or 1  # of each of two workers
        first(document)["job options"]["iodepth"] = str(asked)
        first(document)["latency_depth"] = asked
        first(document)["iodepth_level"] = {">=64": 100.0}
        for block, mean in (("lat_ns", whole), ("slat_ns", before), ("clat_ns", after)):
            counted = part[block]["N"] if block == "clat_ns" else part["clat_ns"]["N"]
            part[block] = {"min": 1, "max": 10**9, "mean": mean, "stddev": 5.0, "N": counted}

    found = edited("own_rand_read", change)
    assert ("the means of the latencies do not add up" in " ".join(texts(found))) is not good
    assert (texts(found) == []) is good


@pytest.mark.parametrize("between_us", [0.5, 4.0])
def test_the_same_in_a_text_report(between_us: float) -> None:
    lines = b"    slat (usec): min=1, max=9, avg= 2.00, stdev= 1.00\n"
    lines += b"    clat (usec): min=2, max=99, avg=7.00, stdev= 1.00\n"
    whole = b"     lat (usec): min=3, max=99, avg=%.2f, stdev= 1.00\n" % (9.0 + between_us)
    text = only_reads(_report("own_text"), lines + whole)
    found = read({"page": text}, None)
    assert texts(found) == [] and found.rows[0]["completion_latency_mean_s"] == pytest.approx(7e-6)
    assert found.rows[0]["latency_mean_s"] == pytest.approx((9 + between_us) * 1e-6)


def only_reads(text: bytes, latencies: bytes) -> bytes:
    """The first report of own_text alone, with other latencies."""
    report = text[text.index(b"reads: (groupid") : text.index(b"stat: (groupid")]
    return re.sub(rb"(?m)^ +([sc]?lat \([num]sec\): min.*|[cs]?lat percentiles.*|\|.*)\n", b"", report).replace(
        b"\n   bw", b"\n" + latencies + b"   bw", 1
    )


def test_a_place_that_fio_did_not_use_is_no_report() -> None:
    # where only some sections have group_reporting: no name, no figures, and -1 as 32 bits for a group
    unused = json.loads(_report("p1c_default_libaio"))["jobs"][0]
    for name in ("read", "write", "trim"):
        unused[name] = {key: 0 for key, value in unused[name].items() if isinstance(value, int | float)}
    del unused["jobname"]
    unused |= {"groupid": 4294967295, "job_runtime": 0}

    def add(document: Any) -> None:
        document["jobs"].append(unused)

    assert edited("own_rand_read", add) == WHOLE["own_rand_read"]


@pytest.mark.parametrize("group", [4294967295, 2**62, 10**9])
def test_a_large_number_in_a_file_takes_no_memory(group: int) -> None:
    found = edited("own_rand_read", put("groupid")(group))
    assert len(found.rows) == 1
    assert "a group of jobs is missing" in texts(found)[0]


def test_a_name_that_fio_cut_is_the_same_name() -> None:
    long = "n" * 140

    def cut(document: Any) -> None:
        first(document)["jobname"] = long[:127]
        first(document)["job options"]["name"] = long

    found = edited("own_rand_read", cut)
    assert (texts(found), found.rows[0]["label"]) == ([], long[:127])
    text = _report("own_text").replace(b"reads: (g=0)", long.encode() + b": (g=0)")
    text = text.replace(b"reads: (groupid", long[:127].encode() + b": (groupid")
    found = read({"stdout": text}, 0)
    assert (texts(found), found.rows[0]["label"]) == ([], long[:127])
    assert {**found.rows[0], "label": "reads"} == WHOLE["own_text"].rows[0]


SYNCED = b"""\
sync: (g=0): rw=write, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1
fio-3.33
Starting 1 process

sync: (groupid=0, jobs=1): err= 0: pid=4711: Sun Nov 22 12:00:00 2026
  write: IOPS=5000, BW=19.5MiB/s (20.5MB/s)(39.1MiB/2000msec); 0 zone resets
    clat (usec): min=20, max=900, avg=40.10, stdev=11.00
     lat (usec): min=20, max=901, avg=40.20, stdev=11.00
    clat percentiles (usec):
     |  1.00th=[   25],  5.00th=[   30], 10.00th=[   31], 20.00th=[   35],
     | 99.00th=[   80], 99.50th=[   90], 99.90th=[  200], 99.95th=[  300],
     | 99.99th=[  700]
   bw (  KiB/s): min=19000, max=21000, per=100.00%, avg=20000.00, stdev=500.00, samples=3
   iops        : min= 4750, max= 5250, avg=5000.00, stdev=125.00, samples=3
  lat (usec)   : 50=90.00%, 100=9.90%, 250=0.05%, 500=0.03%, 1000=0.02%
  fsync/fdatasync/sync_file_range:
    sync (usec): min=60, max=1500, avg=150.00, stdev=20.00
    sync percentiles (usec):
     |  1.00th=[   70],  5.00th=[   80], 10.00th=[   90], 20.00th=[  100],
     | 99.00th=[  300]
  cpu          : usr=1.00%, sys=5.00%, ctx=20000, majf=0, minf=10
  IO depths    : 1=200.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued rwts: total=0,10000,0,10000 short=10000,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=1

Run status group 0 (all jobs):
  WRITE: bw=19.5MiB/s (20.5MB/s), 19.5MiB/s-19.5MiB/s (20.5MB/s-20.5MB/s), io=39.1MiB (41.0MB), run=2000-2000msec
"""


def test_syncs_that_fio_counts_as_short_reads_are_none() -> None:
    found = read({"stdout": SYNCED}, 0)
    assert texts(found) == []
    (row,) = found.rows
    assert (row["ops"], row["ops_per_s"], row["latency_mean_s"]) == (10000, 5000.0, pytest.approx(40.2e-6))
    for real in (b"short=10000,1,0,0", b"short=0,1,0,0"):
        assert "short or dropped" in texts(read({"stdout": SYNCED.replace(b"short=10000,0,0,0", real)}, 0))[0]
    assert "short or dropped" in texts(read({"stdout": SYNCED.replace(b"dropped=0,0", b"dropped=1,0")}, 0))[0]


def test_a_report_of_merged_sections_is_their_sum_and_says_so() -> None:
    line = SYNCED.splitlines(keepends=True)[0]
    other = line.replace(b"sync: (g", b"other: (g").replace(b"rw=write", b"rw=randwrite")
    merged = SYNCED.replace(line, line + other).replace(b"jobs=1", b"jobs=2").replace(b"1 process", b"2 processes")
    found = read({"stdout": merged}, 0)
    assert texts(found) == ["sync: group_reporting merged the sections sync, other, whose options may differ"]
    (row,) = found.rows
    assert (row["ops"], row["tasks"], found.verdict(0)) == (10000, 2, "suspect")
    assert not {"phase", "ioengine", "transfer_size_bytes"} & set(row)


def test_half_a_character_in_a_name_can_be_printed() -> None:
    found = edited("own_rand_read", put("jobname")("a\ud800b"))
    assert orjson.dumps([*found.rows]) and orjson.dumps([problem.text for problem in found.problems])


#: words of Python and not of a person
PYTHON = re.compile(
    r"Error\b|Error\(|Exception|Traceback|NoneType|object (has no|is not)|\bnot subscriptable|<class|\bdict\b"
)


def mutated(document: Any) -> Iterator[Any]:
    """The document with each of its values removed, and replaced by others; it is changed in place and restored."""
    places = [document]
    seen: set[tuple[str, ...]] = set()
    paths: list[tuple[str, ...]] = [()]
    while places:
        place, path = places.pop(), paths.pop()
        for key, value in list(place.items()) if isinstance(place, dict) else list(enumerate(place)):
            here = (*path, str(key) if isinstance(place, dict) and len(place) < 40 else "*")
            if isinstance(value, dict | list):
                places.append(value)
                paths.append(here)
            if here in seen:
                continue
            seen.add(here)
            for other in (None, "x", -1, 2**70, [], {"x": "y"}):
                place[key] = other
                yield document
            place[key] = value
            if isinstance(place, dict):
                del place[key]
                yield document
                place[key] = value


@pytest.mark.parametrize("name", ["own_rand_mixed", "c1_client2", "md14_delete", "old_2.8_json"])
def test_every_value_removed_or_replaced_gives_sentences(name: str, some: Some) -> None:
    text = _report(name)
    document = json.loads(text[text.index(b"{\n") : text.rindex(b"\n}") + 2])
    found = 0
    for changed in some(mutated(document)):
        result = read({"stdout": b"{\n" + orjson_or_json(changed)[1:]}, 0)
        found += 1
        for problem in result.problems:
            assert not PYTHON.search(problem.text), problem
            assert problem.text != "the files do not have the form that fio writes", changed
    assert found > 100


def orjson_or_json(document: Any) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # numbers of more than 64 bits
        return json.dumps(document).encode()


# ---- fio 2


def slower(document: Any) -> None:
    """The run time in microseconds, and the rates that fio computes from it."""
    for direction in ("read", "write"):
        part = first(document)[direction]
        part |= {"runtime": part["runtime"] * 1000, "bw": part["bw"] // 1000, "iops": round(part["iops"] / 1000, 2)}


def relabel(version: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        document["fio version"] = version

    return change


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("old_2.8_json", slower, "run time of 1001 s would be more than the 6 s that fio ran"),
        ("old_2.8_json", without("elapsed"), "nothing in its JSON tells whether its run times are ms or us"),
        ("old_2.8_json", without("read", "total_ios"), "read: object missing required field `total_ios`"),
        # bytes where KiB are expected, and the other way round
        ("old_2.8_json", put("read", "io_bytes")(59692 * 65536), "bandwidth, bytes and time do not agree"),
        ("old_2.21_json", put("read", "io_bytes")(134764 * 64), "bandwidth, bytes and time do not agree"),
        ("old_2.21_json", relabel("fio-2.20"), "bytes have the layout of another version"),
        ("old_2.16_json", relabel("fio-2.21"), "bandwidth, bytes and time do not agree"),
        ("old_3.1_json", relabel("fio-2.21"), "latencies have the layout of another version"),
        ("old_2.21_json", relabel("fio-3.0"), "`clat_ns` is missing in the JSON"),
        ("old_2.8_json", relabel("fio-2.0.14"), "fio-2.0.14 is not read: what its JSON means is not known"),
        ("old_2.8_json", put("read", "iops")(59634.0), "operations, bytes and time do not agree"),
        ("old_2.8_json", put("read", "bw")(3816471 + 30), "bandwidth, bytes and time do not agree"),
        ("old_2.8_json", put("read", "lat", "mean")(14.0), "the means of the latencies do not add up"),
        (
            "old_2.8_json",
            put("read", "clat", "percentile", "0.00")(3),
            "percentiles have the layout of another version",
        ),
        ("old_2.21_plus", put("read", "clat", "bins", "1")(7), "the histogram does not hold every I/O"),
        ("old_2.8_json", put("error")(5), "fio reports error 5"),
        ("old_2.8_json", put("read", "short_ios")(1), "1 I/Os were short"),
    ],
)
def test_json_of_fio_2_in_units_that_are_not_certain(name: str, change: Callable[[Any], None], problem: str) -> None:
    found = edited(name, change)
    assert any(problem in p for p in texts(found)), texts(found)
    assert not [row for row in measured(found) if row["label"] == first(json.loads(_report(name)))["jobname"]]


def _report(name: str) -> bytes:
    return ALL[name].files[ALL[name].report]


def test_clients_of_fio_2_are_not_read() -> None:
    def client(document: Any) -> None:
        document["client_stats"] = document.pop("jobs")

    assert "no client mode" in texts(edited("old_2.8_json", client))[0]


def test_so_few_kib_are_no_rate() -> None:
    def few(document: Any) -> None:
        part = first(document)["read"]
        part |= {"total_ios": 1998, "io_bytes": 999, "bw": 991, "iops": 1998 * 1000 / 1008}
        document["jobs"] = [first(document)]

    assert "999 KiB, of which fio counts whole ones" in texts(edited("old_2.2.10_json", few))[0]

    def exact(document: Any) -> None:
        few(document)
        document["jobs"][0]["job options"] = {"rw": "read", "bs": "512"}

    # 1998 times 512 bytes are 999 KiB: with the size of an I/O it is certain
    assert edited("old_2.2.10_json", exact).rows[0]["bytes_read"] == 1998 * 512


@pytest.mark.parametrize(
    "values",
    [
        # two decimals of an iops of 248.0159, and KiB of which 1000 bytes were cut off
        {"total_ios": 250, "io_bytes": 1000, "bw": 992, "iops": 248.02},
        {"total_ios": 250, "io_bytes": 1000, "bw": 5004, "iops": 1250.0, "runtime": 200},
    ],
)
def test_what_fio_2_cuts_off_is_no_contradiction(values: dict[str, float]) -> None:
    def change(document: Any) -> None:
        first(document)["read"] |= values
        document["jobs"] = [first(document)]

    (row,) = edited("old_2.2.10_json", change).rows
    assert (row["bytes_read"], row["ops"]) == (1000 * 1024, 250)


@pytest.mark.parametrize(("extra_us", "good"), [(0.9, True), (30.0, False)])
def test_latencies_of_fio_2_are_cut_to_microseconds(extra_us: float, good: bool) -> None:
    # up to 1 us more than the sum of the two parts, both of which were cut off
    def change(document: Any) -> None:
        part = first(document)["read"]
        part["lat"]["mean"] = part["slat"]["mean"] + part["clat"]["mean"] + extra_us

    assert (texts(edited("old_2.21_plus", change)) == []) is good


def test_a_job_of_fio_2_whose_latency_as_a_whole_was_not_timed_is_no_job_of_files() -> None:
    untimed = put("read", "lat")({"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0})
    for found, row in zip(edited("old_2.2.10_json", untimed).rows, WHOLE["old_2.2.10_json"].rows, strict=True):
        assert {k: v for k, v in row.items() if not k.startswith(("latency", "read_latency"))}.items() <= found.items()


def test_fio_2_2_does_not_tell_what_a_job_did() -> None:
    row = WHOLE["old_2.2.10_json"].rows[3]
    assert row["kind"] == "data"  # engines whose operations are files came with 3.2
    assert not {"phase", "metric", "tasks", "transfer_size_bytes", "ioengine"} & set(row)


MS_OR_US = "nothing shows whether its run time is ms or us"
LAT = b"     lat (usec): min=2, max=10851, avg=51.77, stdev=384.34\n"
CLAT_2 = b"    clat (usec): min=2, max=10851, avg=51.76, stdev=384.33\n"


def only_seqread(text: bytes) -> bytes:
    """The first report alone, as it is quoted: what ran is not told."""
    return text[text.index(b"seqread: (groupid=0") : text.index(b"randwrite: (groupid=1")]


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        # the run time in microseconds, with the rates that fio computes from it
        ([(b"bw=1190.9MB/s, iops=19053, runt=  1001msec", b"bw=1219.5KB/s, iops=19, runt=1001000msec")], MS_OR_US),
        ([(LAT, b""), (CLAT_2, b"")], MS_OR_US),
        ([(b"io=1192.7MB", b"io=1292.7MB"), (b"bw=1190.9MB/s", b"bw=1291.4MB/s")], "operations of 65536 bytes are not"),
        ([(b"io=1192.7MB", b"io=1195.7MB")], "bandwidth, bytes and time do not agree"),
        ([(b"bw=1190.9MB/s", b"bw=1993.9MB/s")], "bandwidth, bytes and time do not agree"),
        ([(b"iops=19053", b"iops=19056")], "are not IOPS=19056"),
        ([(b"total=r=19073/w=0", b"total=r=0/w=19073")], "directions printed are not those that had I/O"),
        ([(b"short=r=0/w=0", b"short=r=1/w=0")], "short or dropped"),
        ([(b"err= 0: pid=618", b"err= 5 (x): pid=618")], "error 5"),
        ([(b"lat (usec): min=2, max=10851, avg=51.77", b"lat (usec): min=2, max=10851, avg=41.77")], "add up"),
        # digits after the point are no fraction, so they may be any
        ([(b"bw=1190.9MB/s", b"bw=1190.1MB/s"), (b"io=1192.7MB", b"io=1192.9MB")], None),
        ([(b"max=6109, avg=163.39", b"max=6109, avg=163.99")], None),  # each is cut to whole microseconds
        # KB of 1000 bytes
        ([(b"io=1192.7MB", b"io=1249.1MB"), (b"bw=1190.9MB/s", b"bw=1248.8MB/s")], None),
        ([(b"io=1192.7MB", b"io=1249.1MB")], "bandwidth, bytes and time do not agree"),
    ],
)
def test_text_reports_of_fio_2(edits: list[tuple[bytes, bytes]], problem: str | None) -> None:
    text = _report("old_2.1.11_text")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    found = reading(ALL["old_2.1.11_text"], text)
    expected = WHOLE["old_2.1.11_text"].rows
    assert [problem in p for p in texts(found)] == ([] if problem is None else [True]), texts(found)
    rows = measured(found)
    if not all(new for _, new in edits) or b"avg" in edits[0][0]:  # a line of latencies is gone, or another
        rows, expected = (
            [{k: v for k, v in r.items() if "latency" not in k} for r in some] for some in (rows, expected)
        )
    assert rows == (expected if problem is None else expected[1:])


def test_which_kb_is_meant_without_the_size_of_an_io() -> None:
    alone = only_seqread(_report("old_2.1.11_text"))
    (row,) = read({"page": alone}, None).rows
    assert row["bandwidth_bytes_per_s"] == pytest.approx(19073 * 65536 / 1.001, rel=1e-3)
    assert (row["tasks"], row["kind"]) == (1, "data")  # engines whose operations are files came with 3.2
    # 1192 of 1000^2 bytes for 19073 I/Os would be 62.5 kB each, and 1250 are 65536 bytes
    (row,) = read({"page": alone.replace(b"1192.7MB", b"1249.1MB").replace(b"1190.9MB", b"1248.8MB")}, None).rows
    assert row["bandwidth_bytes_per_s"] == pytest.approx(19073 * 65536 / 1.001, rel=1e-3)
    # no power of two in either: sizes may have been mixed
    (row,) = read({"page": alone.replace(b"1192.7MB", b"1300.0MB").replace(b"1190.9MB", b"1298.7MB")}, None).rows
    assert not [column for column in row if "bandwidth" in column or "bytes" in column]
    assert row["ops_per_s"] == pytest.approx(19073 / 1.001)


def test_a_sum_over_all_clients_of_fio_2_is_no_report() -> None:
    text = _report("old_2.1.11_text")
    head, tail = only_seqread(text).partition(b"     latency")[0].split(b"\n", 1)
    everything = b"All clients: (groupid=0, jobs=4): err= 0: pid=0: " + head.rsplit(b": ", 1)[1] + b"\n" + tail
    found = reading(ALL["old_2.1.11_text"], text.replace(b"\nRun status", everything + b"\nRun status", 1))
    assert found == WHOLE["old_2.1.11_text"]


def test_a_report_of_another_version_than_its_jobs_is_suspect() -> None:
    text = _report("old_2.1.11_text").replace(b"Starting", b"fio-2.1.10\nStarting")
    found = reading(ALL["old_2.1.11_text"], text)
    assert {found.verdict(at) for at in range(len(found.rows))} == {"suspect"}
    assert "no report of four (group 3)" in texts(found)
    assert "the line that says what four does is missing" in " ".join(texts(found))


def test_up_to_2_19_the_digits_after_the_point_are_a_remainder() -> None:
    text = _report("old_2.21_text").replace(b"fio-2.21", b"fio-2.17")
    assert b"IOPS=97.3k" in text
    found = reading(ALL["old_2.21_text"], text.replace(b"IOPS=97.3k", b"IOPS=97.9k"))
    assert texts(found) == []
    assert [row | {"tool_version": "fio-2.21"} for row in found.rows] == WHOLE["old_2.21_text"].rows
    three = _report("old_3.0_text")
    assert b"IOPS=25.3k" in three
    assert "are not IOPS=25.9k" in texts(reading(ALL["old_3.0_text"], three.replace(b"IOPS=25.3k", b"IOPS=25.9k")))[0]


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (
            "v42_client2_sections",
            lambda d: d["global options"].append({"hostname": "n3", "port": 1}),
            "n3 (port 1) did not",
        ),
        ("c1_client2", lambda d: d["client_stats"].pop(0), "of other reports"),
        ("c8b_client2_sections_nogr", lambda d: d["client_stats"].pop(0), "do not add up to fio's sum"),
        ("c1_client2", lambda d: d["client_stats"].pop(), "not every host reported"),
        ("w_ext4", lambda d: d["jobs"].pop(2), "a group of jobs is missing"),
        ("s2_nj4_nogr", lambda d: d["jobs"].pop(2), "3 reports of workers, where numjobs=4"),
    ],
)
def test_what_is_missing_is_noticed(name: str, change: Callable[[Any], Any], problem: str) -> None:
    found = edited(name, change)
    assert [found.verdict(at) for at in range(len(found.rows))] == ["suspect"] * len(found.rows)
    assert all(problem in p for p in texts(found)), texts(found)
    assert {row["ops"] for row in found.rows} <= {row["ops"] for row in WHOLE[name].rows}


def test_a_host_with_one_server_has_no_port_in_its_name() -> None:
    def rename(document: Any) -> None:
        for entry in document["client_stats"]:
            entry["hostname"] = f"n{entry['port']}"

    assert [row["host"] for row in edited("c1_client2", rename).rows] == ["n18761", "n18762"]


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("seed_read_iops", b"err= 0", b"err=28 (file:io_u.c:1876, func=io_u error, error=No space left)", "error 28"),
        ("seed_read_iops", b"short=0", b"short=1", "short or dropped"),
        ("seed_read_iops", b"IOPS=390k", b"IOPS=389k", "are not IOPS=389k"),
        ("seed_read_iops", b"(447GiB", b"(440GiB", "bandwidth, bytes and time"),
        ("seed_read_iops", b"BW=1525M", b"BW=1500M", "bandwidth, bytes and time"),
        ("seed_read_iops", b"total=117088775,0", b"total=0,117088775", "directions printed are not those that had I/O"),
        ("seed_read_iops", b"avg=486.61", b"avg=520.00", "the means of the latencies do not add up"),
        ("seed_read_iops", b"50.00th=[  482]", b"50.00th=[  465]", None),
        ("seed_read_iops", b"50.00th=[  482]", b"50.00th=[  782]", "percentiles of the latency do not agree"),
        ("own_text", b"ioengine=libaio, iodepth=4", b"ioengine=libaio, iodepth=8", "queue depth is given as 4 and"),
        ("own_text", b"rw=randread", b"rw=randwrite", "rw=randwrite was asked for, read was done"),
        ("own_text", b"bs=(R) 4096B-4096B", b"bs=(R) 8192B-8192B", "operations of 8192 bytes are not"),
        ("own_text", b"stat: (g=1)", b"stat: (g=7)", "no report of stat (group 7)"),
        ("own_text_client", b"jobs=4", b"jobs=6", "sum over all clients is of 6 reports, 4 are here"),
    ],
)  # fmt: skip
def test_text_reports_that_do_not_agree(name: str, old: bytes, new: bytes, problem: str | None) -> None:
    text = ALL[name].files[ALL[name].report]
    assert old in text
    found = reading(ALL[name], text.replace(old, new, 1))
    assert bool(texts(found)) is (problem is not None)
    assert problem is None or any(problem in p for p in texts(found)), texts(found)


CLAT = b"    clat (usec): min=213, max=15496, avg=486.61, stdev=80.30\n"
PERCENTS = b"     | 99.99th=[ 1106]\n"
CPU = b"  cpu          : usr=1.24%, sys=1.52%, ctx=117366459, majf=0, minf=3051\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (CLAT, CLAT * 2, "a line is repeated: clat (usec): min=213"),
        (CLAT, CLAT.replace(b"486.61", b"386.61") + CLAT, "a line is repeated: clat (usec): min=213"),
        (CLAT, PERCENTS + CLAT, "a line is out of place: | 99.99th"),
        (PERCENTS, PERCENTS * 2, "a percentile is repeated"),
        (CPU, b"", "lines of the report are missing"),
        (
            CPU,
            b"some launcher: still running\n",
            "read_iops: a line that does not belong into the report: some launcher",
        ),
    ],
)
def test_every_line_of_a_text_report_is_known_and_stands_once(old: bytes, new: bytes, problem: str) -> None:
    text = ALL["seed_read_iops"].files["seed_read_iops.out"]
    assert old in text
    found = reading(ALL["seed_read_iops"], text.replace(old, new))
    assert measured(found) == []
    assert [problem in p for p in texts(found)] == [True]


def renamed(text: bytes) -> bytes:
    """The two servers of own_text_client with hostnames of their own."""
    lines, seen = text.splitlines(keepends=True), dict[bytes, int]()
    for at, line in enumerate(lines):
        if b"client01" in line:
            seen[line] = seen.get(line, 0) + 1
            lines[at] = line.replace(b"client01", b"n%d" % seen[line])
    return b"".join(lines)


def test_every_host_of_a_text_report_must_be_there() -> None:
    sample, text = ALL["own_text_client"], _report("own_text_client")
    for whole in (text, renamed(text)):
        for at in (4810, len(whole) // 2 - 200, whole.index(b"All clients")):
            found = reading(sample, whole[:at])
            assert "valid" not in {found.verdict(at) for at in range(len(found.rows))}
            assert texts(found)
    assert "2 hosts were to report a (group 0), 1 did" in texts(reading(sample, text[:4810]))
    assert texts(reading(sample, text[: text.index(b"All clients")])) == [
        "fio's sum over all clients is missing: not every host reported"
    ]
    second = [line for line in renamed(text).splitlines(keepends=True) if not line.startswith(b"<n2> b")]
    assert texts(reading(sample, b"".join(second))) == []
    unsaid = [line for line in second if not line.startswith(b"<n2> a")]
    assert texts(reading(sample, b"".join(unsaid))) == ["host n2 did not say what its jobs do"]


def test_hosts_of_text_reports_where_they_are_told() -> None:
    sample, text = ALL["own_text_client"], renamed(_report("own_text_client"))
    assert [row["host"] for row in reading(sample, text).rows] == ["n1", "n1", "n2", "n2"]
    # both ended together: their reports follow both of the empty lines, and either may be the first
    both = text.replace(b"<n2> \na: (g", b"a: (g").replace(b"<n1> \na: (g", b"<n1> \n<n2> \na: (g")
    assert both != text
    found = reading(sample, both)
    assert texts(found) == []
    assert [dict(row) | {"host": "client01"} for row in found.rows] == WHOLE["own_text_client"].rows
    assert not any("host" in row for row in found.rows)


@pytest.mark.parametrize("name", ["own_text", "own_text_client", "seed_read_iops", "old_2.1.11_text", "old_3.0_text"])
def test_a_text_report_that_stands_twice_is_one(name: str) -> None:
    text = _report(name)
    for whole in (text + text, text + b"\n" + text.replace(b"\n", b"\r\n")):
        assert reading(ALL[name], whole) == WHOLE[name]
    assert read({"stdout": text, "saved.txt": text}, 0) == WHOLE[name]


def test_reports_that_contradict_each_other_are_suspect() -> None:
    sample, text = ALL["own_text"], _report("own_text")
    for other, problem in (
        (text.replace(b"usr=", b"usr=1"), "differ: a damaged one"),
        (
            text[text.index(b"\nreads: (groupid") :].replace(b" pid=", b" pid=9"),
            "workers were started, the reports are of",
        ),
    ):
        found = reading(sample, text + other)
        assert any(problem in p for p in texts(found)), texts(found)
        assert "valid" not in {found.verdict(at) for at in range(2, len(found.rows))}


def test_a_text_of_several_runs_has_the_rows_of_each() -> None:
    one, two = _report("own_text"), _report("old_2.16_text")
    again = one.replace(b" pid=", b" pid=9")
    for whole, names in (
        (one + again, ["own_text", "own_text"]),
        (b"# first\n" + one + b"\n# second\n" + two, ["own_text", "old_2.16_text"]),
    ):
        found = read({"notes.txt": whole}, None)
        assert (found.rows, texts(found)) == ([row for name in names for row in WHOLE[name].rows], [])
    # what is wrong with one of them concerns no other
    cut = two[: two.index(b"Run status") // 2]
    found = read({"notes.txt": cut + b"\n" + one}, None)
    good = len(WHOLE["own_text"].rows)
    assert list(found.rows[-good:]) == WHOLE["own_text"].rows
    assert [found.verdict(at) for at in range(len(found.rows))][-good:] == ["valid"] * good
    assert texts(found)


def test_rates_of_unlike_windows_are_not_added_up() -> None:
    def longer(document: Any) -> None:
        del first(document)["job options"]["runtime"]
        write = first(document)["write"]
        write |= {"runtime": 1054, "iops": 16241 / 1.054, "bw_bytes": int(16241 * 4096 / 1.054)}
        write["bw"] = write["bw_bytes"] // 1024

    row = edited("own_rand_mixed", longer).rows[0]
    assert row["write_ops_per_s"] == 16241 / 1.054
    assert not {"ops_per_s", "bandwidth_bytes_per_s"} & set(row)


def test_a_last_digit_0_says_nothing() -> None:
    # 16.97 MiB/s would be printed as 16.0: only bytes / time tell
    text = ALL["seed_read_latency"].files["seed_read_latency.out"].replace(b"BW=16.9MiB", b"BW=16.0MiB")
    assert reading(ALL["seed_read_latency"], text) == WHOLE["seed_read_latency"]


def test_a_rate_of_two_digits_is_not_taken_where_a_better_one_is_there() -> None:
    # fio prints 16.9 MiB/s and 5061 MiB in 300.001 s; and 17.95 MB/s as 17.0
    row = WHOLE["seed_read_latency"].rows[0]
    assert row["bandwidth_bytes_per_s"] == pytest.approx(5061 * 2**20 / 300.001)
    assert row["bandwidth_bytes_per_s"] == pytest.approx(1295643 * 4096 / 300.001, rel=1e-4)


# ---- damage


def lies(sample: Sample, report: bytes, *others: Sample, parameters: bool = True) -> list[str]:
    """Values of a damaged report that no row of the same identity has in the whole one, with no problem to tell so."""
    found = reading(sample, report)
    if texts(found):
        return []
    honest = [row for one in (sample, *others) for row in WHOLE[one.name].rows]
    return [why for row in found.rows if (why := _lie(row, honest, parameters))]


def _lie(row: Mapping[str, Any], honest: list[Mapping[str, Any]], parameters: bool) -> str:
    same = [one for one in honest if all(one.get(key) == row.get(key) for key in IDENTITY)]
    wrong = [
        [key for key, value in row.items() if one.get(key) != value and (parameters or key not in PARAMETERS)]
        for one in same
    ]
    return "" if [] in wrong else f"{row.get('label')}: {min(wrong, key=len) if wrong else 'a row that is not there'}"


def damages(
    sample: Sample, rng: random.Random, cuts: int, others: int
) -> Iterator[tuple[str, bytes, tuple[Sample, ...], bool]]:
    """(what was done, the damaged report, whose rows may come out, whether parameters must be right too)"""
    text = sample.files[sample.report]
    lines = text.splitlines(keepends=True)
    for _ in range(cuts):
        yield "cut", text[: rng.randrange(len(text))], (), True
    for _ in range(others):
        lost = sorted(rng.sample(range(len(lines)), rng.randint(1, 3)), reverse=True)
        # an option that a section sets against the global one stands nowhere else: without it the global one is taken
        options = any(re.match(rb'\s*"\w+" : "', lines[at]) for at in lost)
        yield f"lines {lost} lost", b"".join(_changed(lines, lost, 0)), (), not options
        twice = sorted(rng.sample(range(len(lines)), rng.randint(1, 3)), reverse=True)
        yield f"lines {twice} doubled", b"".join(_changed(lines, twice, 2)), (), True
        yield f"{lost} lost, {twice} doubled", b"".join(_changed(_changed(lines, lost, 0), twice, 2)), (), not options
    for _ in range(others):
        other = ALL[rng.choice(list(GOOD))]
        theirs = other.files[other.report].splitlines(keepends=True)
        changed, foreign = list(lines), rng.choices(theirs, k=rng.randint(1, 3))
        for line in foreign:
            changed.insert(rng.randrange(len(changed) + 1), line)
        # an option that another run had looks like one of this run's
        options = any(re.match(rb'\s*"\w+" : "', line) for line in foreign)
        yield f"lines of {other.name} inserted", b"".join(changed), (), not options
        yield f"interleaved with {other.name}", b"".join(_interleaved(lines, theirs, rng)), (other,), True


def _changed(lines: list[bytes], at: list[int], times: int) -> list[bytes]:
    changed = list(lines)
    for number in at:  # from the last one on
        if number < len(changed):
            changed[number : number + 1] = [changed[number]] * times
    return changed


def _interleaved(ours: list[bytes], theirs: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """Two writers of one file."""
    sources = [list(reversed(ours)), list(reversed(theirs))]
    while any(sources):
        source = rng.choice([source for source in sources if source])
        for _ in range(rng.choice([1, 1, 2, 5, 20, 100])):
            if source:
                yield source.pop()


@pytest.mark.parametrize("name", GOOD)
def test_a_damaged_report_never_gives_a_wrong_number_without_a_problem(
    name: str, rounds: Callable[[int, int], int]
) -> None:
    sample = ALL[name]
    # 200 cuts and 200 (400) other damages; fewer where a report has more than 40 kB (a reading takes 2-4 ms), and of
    # the old releases, of which there are many of one kind
    small = len(sample.files[sample.report]) < 40_000 and not name.startswith("old_")
    cuts, others = (200, rounds(40, 80)) if small else (40, rounds(10, 16))
    found = [
        (what, wrong)
        for what, report, theirs, parameters in damages(sample, random.Random(name), cuts, others)
        if (wrong := lies(sample, report, *theirs, parameters=parameters))
    ]
    assert found == []


@pytest.mark.parametrize(
    "name",
    [
        "own_rand_read",
        "md14_delete",
        "s3_stonewall",
        "seed_write_throughput",
        "own_text",
        "old_2.21_plus",
        "old_2.16_text",
    ],
)
@pytest.mark.parametrize("times", [0, 2])
def test_every_single_line_lost_or_doubled(name: str, times: int, some: Some) -> None:
    lines = ALL[name].files[ALL[name].report].splitlines(keepends=True)
    found = {n: why for n in some(range(len(lines))) if (why := lies(ALL[name], b"".join(_changed(lines, [n], times))))}
    assert found == {}


def test_the_damages_do_damage_and_what_survives_is_read() -> None:
    # that the test above is not green because everything is refused
    sample = ALL["w_ext4"]
    outcomes = [not texts(reading(sample, report)) for _, report, _, _ in damages(sample, random.Random(1), 40, 16)]
    assert 0.05 < sum(outcomes) / len(outcomes) < 0.8


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=300), max_size=3), st.none() | st.integers())
def test_whatever_the_files_hold_can_be_read(files: dict[str, bytes], exit_code: int | None) -> None:
    assert isinstance(read(files, exit_code), Reading)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.binary(max_size=60), st.floats(0, 1, exclude_max=True), st.integers(0, 300))
def test_whatever_stands_in_a_report_can_be_read(name: str, junk: bytes, part: float, over: int) -> None:
    text = ALL[name].files[ALL[name].report]
    at = int(part * len(text))
    assert isinstance(reading(ALL[name], text[:at] + junk + text[at + over :]), Reading)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.sampled_from(["own_rand_mixed", "c1_client2", "v42_client2_sections", "md14_delete", "old_2.8_json"]), st.data()
)
def test_whatever_values_the_json_has_can_be_read(name: str, data: st.DataObject) -> None:
    document = json.loads(ALL[name].files[ALL[name].report])
    for _ in range(data.draw(st.integers(1, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 5)) == 0:
                place[key] = data.draw(JSON)
                break
            place = place[key]
    assert isinstance(reading(ALL[name], json.dumps(document, indent=2).encode()), Reading)


# ---- time


def _seconds(text: bytes) -> float:
    """CPU time of a reading, the least of two."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        read({"stdout": text}, 0)
        taken.append(time.process_time() - start)
    return min(taken)


def _grows_no_more_than_it_should(small: bytes, large: bytes) -> bool:
    """The machine may be busy with other things; what takes less than 5 ms is no quadratic one."""
    return any(_seconds(large) < 8 * max(_seconds(small), 0.005) for _ in range(3))


_HEADLINE = b"x: (groupid=0, jobs=1): err= 0 (x): pid=1: Fri Nov 20 13:48:03 2026"
_JOBLINE = b"x: (g=0): rw=read, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1"
LONG: dict[str, bytes] = {
    "digits": b"1",
    "blank lines": b"\n",
    "blanks": b" ",
    "braces": b"{",
    "lines of braces": b"{\n",
    "objects": b"{\n}\n",
    "unlike objects": b"",
    "base64": base64.b64encode(bytes(range(256))),
    "headlines": _HEADLINE + b"\n",
    "headlines in one line": _HEADLINE,
    "headlines without an end": b"x: (groupid=0, jobs=1): err= 0 (",
    "jobs": _JOBLINE + b"\n",
    "jobs in one line": _JOBLINE,
    "hostnames": b"hostname=n1, be=0, 64-bit, fio=fio-3.33, flags=1",
    "shm": b"n1 error: failed to setup shm segment",
    "disconnected": b"client: host=",
    "resolve": b"fio: failed to resolve <",
    "sections": b"fio: job ",
    "engines": b"fio: engine ",
    "pids": b"fio: pid=1",
    "quotes": b'"',
    "backticks": b"`_",
    "percentiles": b"|  1.00th=[    1],",
    "hosts": b"<n1> ",
}


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("what", LONG)
def test_four_times_as_long_takes_about_four_times_as_long(what: str) -> None:
    def text(length: int) -> bytes:
        if what == "unlike objects":
            return b"".join(b'{\n"a": %d}\n' % number for number in range(length // 14))
        return (LONG[what] * (length // len(LONG[what]) + 1))[:length]

    assert _grows_no_more_than_it_should(text(60_000), text(240_000))


@pytest.mark.usefixtures("no_gc")
def test_a_long_line_of_json_is_read_as_fast_as_many() -> None:
    text = _report("w_tmpfs")
    compact = json.dumps(json.loads(text[text.index(b"{\n") :]), sort_keys=True, separators=(",", ":")).encode()
    assert _grows_no_more_than_it_should(text, compact)
