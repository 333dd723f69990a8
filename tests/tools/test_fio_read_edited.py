"""`iosweep parse fio`: real outputs with values that were changed, moved or left out, and text around them."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fio_readings import WHOLE, edited, first, put, reading, report_of, without
from fio_samples import ALL, GOOD
from iosweep.tools.fio import latency
from iosweep.tools.fio.foreign import read
from iosweep.tools.fio.foreign.rows import Part
from iosweep.tools.fio.json_records import Latencies
from readings import measured, texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")


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
    other = json.loads(report_of("s2_nj4_nogr"))
    del other["jobs"][2], other["jobs"][0]["error"]
    found = read({"a": report_of("own_rand_read") + json.dumps(other, indent=1).encode() + b"\n"}, 0)
    assert [found.verdict(at) for at in range(4)] == ["valid", "invalid", "suspect", "suspect"]
    assert {problem.row for problem in found.problems} == {1, 2, 3}


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

    text = report_of("own_text").replace(b"total=18606,", b"total=18606000000000000000000,")
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
    lines = report_of("old_2.2.10_json").splitlines(keepends=True)
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
        text = report_of(name)
        begin, end = text.index(b"{\n"), text.rindex(b"\n}") + 2
        again = json.dumps(json.loads(text[begin:end]), **form).encode()
        assert reading(ALL[name], text[:begin] + again + text[end:]) == WHOLE[name], name


def test_json_that_is_not_read_says_why() -> None:
    document = json.loads(report_of("own_rand_read"))
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
