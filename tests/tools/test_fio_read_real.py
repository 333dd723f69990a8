"""`iosweep parse fio`: what fio really writes, and looks wrong."""

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from fio_readings import WHOLE, Some, at_time, edited, first, put, report_of
from iosweep.tools.fio.foreign import read
from readings import texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")


# ---- what fio really writes


def test_reports_in_between_count_for_nothing_once_there_is_a_later_one() -> None:
    last = report_of("own_rand_read")
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
    document = json.loads(report_of("own_rand_read"))
    document["timestamp_ms"] += 1400
    document["timestamp"] += 1
    found = read({"stdout": report_of("own_rand_read") + json.dumps(document, indent=1).encode()}, 0)
    assert (len(found.rows), texts(found)) == (2, [])


def test_text_reports_in_between_count_for_nothing_once_there_is_a_later_one() -> None:
    text = report_of("own_text")
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
    text = only_reads(report_of("own_text"), lines + whole)
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
    unused = json.loads(report_of("p1c_default_libaio"))["jobs"][0]
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
    text = report_of("own_text").replace(b"reads: (g=0)", long.encode() + b": (g=0)")
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
    text = report_of(name)
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
