"""`iosweep parse fio`: outputs of fio 2, in JSON and as text."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fio_readings import WHOLE, edited, first, put, reading, report_of, without
from fio_samples import ALL
from iosweep.tools.fio.foreign import read
from readings import measured, texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")


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
    assert not [row for row in measured(found) if row["label"] == first(json.loads(report_of(name)))["jobname"]]


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
    text = report_of("old_2.1.11_text")
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
    alone = only_seqread(report_of("old_2.1.11_text"))
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
    text = report_of("old_2.1.11_text")
    head, tail = only_seqread(text).partition(b"     latency")[0].split(b"\n", 1)
    everything = b"All clients: (groupid=0, jobs=4): err= 0: pid=0: " + head.rsplit(b": ", 1)[1] + b"\n" + tail
    found = reading(ALL["old_2.1.11_text"], text.replace(b"\nRun status", everything + b"\nRun status", 1))
    assert found == WHOLE["old_2.1.11_text"]


def test_a_report_of_another_version_than_its_jobs_is_suspect() -> None:
    text = report_of("old_2.1.11_text").replace(b"Starting", b"fio-2.1.10\nStarting")
    found = reading(ALL["old_2.1.11_text"], text)
    assert {found.verdict(at) for at in range(len(found.rows))} == {"suspect"}
    assert "no report of four (group 3)" in texts(found)
    assert "the line that says what four does is missing" in " ".join(texts(found))


def test_up_to_2_19_the_digits_after_the_point_are_a_remainder() -> None:
    text = report_of("old_2.21_text").replace(b"fio-2.21", b"fio-2.17")
    assert b"IOPS=97.3k" in text
    found = reading(ALL["old_2.21_text"], text.replace(b"IOPS=97.3k", b"IOPS=97.9k"))
    assert texts(found) == []
    assert [row | {"tool_version": "fio-2.21"} for row in found.rows] == WHOLE["old_2.21_text"].rows
    three = report_of("old_3.0_text")
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
    sample, text = ALL["own_text_client"], report_of("own_text_client")
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
    sample, text = ALL["own_text_client"], renamed(report_of("own_text_client"))
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
    text = report_of(name)
    for whole in (text + text, text + b"\n" + text.replace(b"\n", b"\r\n")):
        assert reading(ALL[name], whole) == WHOLE[name]
    assert read({"stdout": text, "saved.txt": text}, 0) == WHOLE[name]


def test_reports_that_contradict_each_other_are_suspect() -> None:
    sample, text = ALL["own_text"], report_of("own_text")
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
    one, two = report_of("own_text"), report_of("old_2.16_text")
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
