"""fio's JSON to figures: recorded outputs of real runs (samples/fio), good, bad and damaged.

Of files of others (samples/fio/read), expected.json has a line for every report: label, host, phase, operations,
operations per second, bytes per second, mean latency (ns) and its 99.5th percentile (ns). The numbers are those in the
files, put there by hand and by a script that has nothing in common with the reader. manifest.tsv has what a campaign
asked for, and what the verdict must be.
"""

import csv
import json
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from iosweep.tables.columns import result_columns
from iosweep.tools import Parsed, Step, tools
from iosweep.tools.fio.output import read
from iosweep.tools.fio.records import merged_percentiles
from iosweep.tools.reading import Reading
from readings import judged, measured, said, texts

FIO = tools()["fio"]
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


def _rows(manifest: str) -> list[list[str]]:
    with (SAMPLES / manifest).open(encoding="utf-8") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


#: sample -> stdout, an --output file and stderr together
FILES = {name: b"".join(map(_content, files.split(","))) for name, _, files, _ in _rows("read/manifest.tsv")}


# What a file alone says.


def edited(change: Callable[[Any], object]) -> Reading:
    """Reading of a sample whose first entry was changed."""
    document = json.loads(FILES["own_rand_read"])
    change(document["jobs"][0])
    return read(json.dumps(document, indent=2).encode())


def test_good_samples_give_their_figures(short_runs_are_good: None) -> None:
    assert GOOD.keys() | {*BAD} | {"v42_client2_sections"} == FILES.keys()
    columns = {column.name for column in result_columns()}
    for name, expected in GOOD.items():
        found = read(FILES[name])
        assert len(found.rows) == MERGED.get(name, len(expected)), name
        assert all(row.keys() <= columns for row in found.rows)
        known = [one for one in expected if one[2]] if name in MERGED else expected
        for column, place in (("ops", 3), ("ops_per_s", 4), ("bandwidth_bytes_per_s", 5)):
            total = sum(float(row.get(column, 0.0)) for row in found.rows)
            assert total == pytest.approx(sum(one[place] or 0 for one in known), rel=1e-6), name
        for row, (label, host, phase, _, _, _, mean_ns, p99_5_ns) in zip(found.rows, expected, strict=False):
            if name in MERGED:
                continue
            assert (row["label"], row.get("host"), row.get("phase")) == (label, host, phase), name
            clat = "latency" if row["kind"] == "metadata" else "completion_latency"
            assert row[f"{clat}_mean_s"] == pytest.approx(mean_ns / 1e9, rel=1e-6), name
            if p99_5_ns is not None and int(row["ops"]) >= 2000:
                assert row[f"{clat}_p99_5_s"] == pytest.approx(p99_5_ns / 1e9, rel=1e-9), name


def test_bad_samples_have_no_valid_row_and_say_why(short_runs_are_good: None, snapshot: SnapshotAssertion) -> None:
    documents = {
        "nothing": b"",
        "text": b"seq: (groupid=0, jobs=1): err= 0: pid=1: x\n",
        "3.17": b'{\n "fio version" : "fio-3.17",\n "jobs" : []\n}\n',
        "2.2.10": b'{\n "fio version" : "fio-2.2.10",\n "jobs" : []\n}\n',
        "3.18": b'{\n "fio version" : "fio-3.18",\n "jobs" : []\n}\n',
    }
    readings = {name: read(data) for name, data in ({name: FILES[name] for name in BAD} | documents).items()}
    for name, found in readings.items():
        assert all(found.verdict(at) != "valid" for at in range(len(found.rows))), name
        assert bool(measured(found)) == (name in EXPECTED["suspect"]), name
    assert "\n".join(f"{name}\n{said(found)}" for name, found in readings.items()) == snapshot


def test_columns_are_those_of_the_options() -> None:
    for name, expected in {
        "w_ext4": {
            "tool": "fio", "tool_version": "fio-3.33", "kind": "data", "metric": "bandwidth_bytes_per_s", "tasks": 4,
            "transfer_size_bytes": 2**20, "queue_depth": 1, "file_size_bytes": 32 * 2**20, "ioengine": "posixaio",
            "o_direct": True, "phase_time_s": 2.0, "runtime_s": 2.006, "bytes_read": 2588934144,
            "read_bandwidth_bytes_per_s": 1290595286.0, "read_ops_per_s": 1230.807577, "sampled_ops_per_s": 1272.0,
        },
        "h6": {"queue_depth": 4, "metric": "ops_per_s", "bytes_written": 83812352, "o_direct": True},
        "md14_delete": {"kind": "metadata", "metric": "ops_per_s", "tasks": 2, "transfer_size_bytes": None},
        "s2_nj4_nogr": {"tasks": 4, "threads_per_node": 4, "nodes": 1},
        "ss1": {"phase_time_s": None},  # ended when it was steady
        "own_rand_mixed": {"read_ops_per_s": 38031.87251, "bytes_read": 38184 * 4096, "latency_p99_s": None},
    }.items():  # fmt: skip
        row = read(FILES[name]).rows[0]
        assert {key: row.get(key) for key in expected} == expected, name


@pytest.mark.parametrize(
    ("change", "expected", "why"),
    [
        (lambda job: job.update(error=5), "invalid", "error 5"),
        (lambda job: job["read"].update(short_ios=2), "invalid", "2 short"),
        (lambda job: job["job options"].update(rw="randwrite"), "invalid", "no write"),
        (lambda job: job["job options"].update(rw="trim"), "invalid", "rw=trim"),
        (lambda job: job["job options"].update(ioengine="dirstat"), "invalid", "ioengine=dirstat"),
        (lambda job: job.pop("job options"), "invalid", "options"),
        (lambda job: job.update(job_runtime=9 * job["job_runtime"]), "invalid", "merged"),
        (lambda job: job["read"]["lat_ns"].update(mean=1e9), "invalid", "contradict"),
        (lambda job: job["read"].pop("iops"), "", "missing"),
        (lambda job: job["job options"].update(rate_iops="100"), "suspect", "rate_iops=100"),
        (lambda job: job["job options"].update(runtime="9"), "suspect", "interrupted"),
        (lambda job: job["job options"].update(runtime="900ms"), "suspect", "of 0.90 s"),
        (lambda job: job.update({"iodepth_level": {"1": 100.0}}), "suspect", "depth 4"),
        (lambda job: job["job options"].update(rw="randread:8"), "invalid", "randread:8"),
        (lambda job: job["job options"].update(percentage_random="0"), "invalid", "percentage_random=0"),
        (lambda job: job.pop("read"), "invalid", "unified_rw_reporting"),
        (lambda job: job["job options"].update(flow="8"), "suspect", "flow=8"),
        (lambda job: job["read"].update(bw_bytes=1), "invalid", "do not agree"),
        (lambda job: job["read"].update(io_bytes=1 << 20), "invalid", "do not agree"),
        (lambda job: job["job options"].update(numjobs="4"), "suspect", "not all of 4 workers"),
        (lambda job: job["job options"].update(latency_target="2ms"), "invalid", "latency_target=2ms"),
        (lambda job: job.update(write=job["read"], job_runtime=4000)
         or job["job options"].update(rw="randwrite", verify="md5", numjobs="2"), "suspect", "verify=md5"),
        (lambda job: job.update(job_runtime=9000) or job["read"].update(io_bytes=1), "invalid", "group_reporting"),
    ],
)  # fmt: skip
def test_what_makes_a_row_invalid_or_suspect(
    short_runs_are_good: None, change: Callable[[Any], object], expected: str, why: str
) -> None:
    found = edited(change)
    assert [found.verdict(at) for at, _ in enumerate(found.rows)] == [expected] * bool(expected)
    assert any(why in text for text in texts(found)), texts(found)
    assert any("ops_per_s" in row for row in found.rows) == (expected == "suspect")


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        # of two names of one setting, the last one counts
        ({"direct": "1", "buffered": "1"}, {"o_direct": False}),
        ({"buffered": "1", "direct": "1"}, {"o_direct": True}),
        ({"buffered": "0"}, {"o_direct": True}),
        ({"rw": "randrw", "rwmixwrite": "30"}, {"phase": "rand_mixed", "read_percent": 70}),
        ({"rw": "randrw", "rwmixread": "60", "rwmixwrite": "30"}, {"read_percent": 70}),
        ({"rw": "randrw", "rwmixwrite": "0"}, {"phase": "rand_read"}),
        ({"bs": "4KiB"}, {"transfer_size_bytes": 4000}),
        ({}, {"phase": "seq_read"}),
        (None, {"phase": "seq_read", "o_direct": False}),
    ],
)  # fmt: skip
def test_options_mean_what_fio_makes_of_them(given: dict[str, str] | None, columns: dict[str, object]) -> None:
    row = edited(lambda job: job.update({"job options": given})).rows[0]
    assert {name: row.get(name) for name in columns} == columns


def test_what_changes_io_and_is_in_no_column_is_told_and_nothing_else() -> None:
    for options, others in (
        ({"randseed": "3", "filename": "/b", "write_lat_log": "x", "thread": "1", "bs": "8k", "direct": "0"}, ""),
        ({"sync": "dsync", "random_distribution": "zipf:1.2"}, "random_distribution=zipf:1.2 sync=dsync"),
        ({"verify": "md5", "refill_buffers": ""}, "refill_buffers verify=md5"),
        ({"bssplit": "4k/50:8k/50", "bs": "4k"}, "bs=4k bssplit=4k/50:8k/50"),
        ({"ioengine": "filecreate", "create_fsync": "1"}, "create_fsync=1"),
    ):
        row = edited(lambda job, options=options: job.update({"job options": {"rw": "randread"} | options})).rows[0]
        assert row["other_options"] == others


def test_a_setting_of_a_section_counts_whatever_the_global_ones_say() -> None:
    document = json.loads(FILES["own_rand_read"])
    document["jobs"][0]["job options"] = {"rw": "randread", "direct": "0"}
    document["global options"] = {"direct": "1", "buffered": "0"}
    assert read(json.dumps(document, indent=2).encode()).rows[0]["o_direct"] is False


def test_a_run_that_its_size_ends_before_its_time_was_not_interrupted(short_runs_are_good: None) -> None:
    moved = json.loads(FILES["own_rand_read"])["jobs"][0]["read"]["io_bytes"]
    for size in ({"size": str(moved)}, {"size": "1g", "io_size": str(moved // 2), "loops": "2"}, {"filesize": "1g"}):
        found = edited(
            lambda job, size=size: job.update(
                {"job options": {"rw": "randread", "iodepth": "4", "runtime": "9", "numjobs": "2"} | size}
            )
        )
        assert (texts(found), found.verdict(0)) == ([], "valid"), size


def test_sections_of_unlike_options_are_never_added_up(short_runs_are_good: None) -> None:
    for option in ("wait_for", "startdelay", "verify", "sync"):
        document = json.loads(FILES["own_rand_read"])
        (job,) = document["jobs"]
        document["jobs"] += [job | {"jobname": "two", "job options": job["job options"] | {option: "1"}}]
        rows = read(json.dumps(document, indent=2).encode()).rows
        assert [(row["label"], row["tasks"]) for row in rows] == [("rand_read", 2), ("two", 2)], option


LAST_BIN = dict.fromkeys(("50.000000", "99.000000"), 17_112_760_320)


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        (lambda job: job["job options"].update(verify="0", ramp_time="0"), {"phase": "rand_read"}),
        (lambda job: job["job options"].update(rw="randrw", rwmixread="100"), {"phase": "rand_read"}),
        (lambda job: job.update(write=job["read"], job_runtime=4000)
         or job["job options"].update(rw="readwrite", fdatasync="1", numjobs="4"),
         {"phase": "seq_mixed", "fsync": True}),
        (lambda job: job.update(write=job["read"], job_runtime=4000) or job["job options"].update(rw="rw", numjobs="4"),
         {"phase": "seq_mixed", "fsync": False}),
        (lambda job: job["read"]["clat_ns"].update(max=4e10, mean=1e10, percentile=LAST_BIN, bins=None),
         {"completion_latency_p50_s": None, "completion_latency_mean_s": 10.0}),
    ],
)  # fmt: skip
def test_what_makes_no_row_suspect_is_a_column(
    short_runs_are_good: None, change: Callable[[Any], object], columns: dict[str, object]
) -> None:
    found = edited(change)
    assert (texts(found), [{name: row.get(name) for name in columns} for row in found.rows]) == ([], [columns])


def test_flushes_that_latencies_leave_out_are_a_note(short_runs_are_good: None) -> None:
    found = edited(lambda job: job.update(sync={"lat_ns": job["read"]["lat_ns"]}))
    assert [(one.severity, "a flush took 0.122 ms" in one.text) for one in found.problems] == [("note", True)]


def test_every_whole_document_of_a_text_is_read(short_runs_are_good: None) -> None:
    whole = FILES["own_rand_read"]
    line = json.dumps(json.loads(whole)).encode()
    of_files = json.dumps({"a.fio": json.loads(whole), "b.fio": json.loads(whole)}).encode()
    noise = b'{\n "cluster": "a"\n}\n{"level": "info", "msg": "wra\nped"}\n'
    for text, rows, wrong in (
        (whole + whole, 2, 0), (noise + whole + noise, 1, 0), (whole[: len(whole) // 2] + b"\n" + whole, 1, 1),
        (noise + line + b"\nended\n" + whole, 2, 0), (of_files, 2, 0),
    ):  # fmt: skip
        found = read(text)
        assert (len(measured(found)), len(texts(found))) == (rows, wrong), text[:50]


def test_client_mode_takes_what_it_does_not_print_from_a_job_file(short_runs_are_good: None) -> None:
    """fio prints the options of the first section only."""
    without = FILES["v42_client2_sections"]
    jobs = (
        b"[global]\nrw=read\n[b_write]\nrw=randwrite\nblocksize=4ki\n[c_mix]\n; mixed\nstonewall\nrw = randrw\nbs=4kb\n"
    )
    expected = {"a_read": "seq_read", "b_write": "rand_write", "c_mix": "rand_mixed"}
    for text, known in (
        (without, ["a_read"]), (jobs + without, [*expected]), (without + jobs, [*expected]),
        (jobs + b"[c_mix]\nrw=read\n" + without, ["a_read", "b_write"]),  # two files, which differ
    ):  # fmt: skip
        rows = {row["label"]: row.get("phase") for row in read(text).rows}
        assert [row["tasks"] for row in read(text).rows if row["label"] == "a_read"] == [4]  # of both hosts
        assert rows == {name: expected[name] if name in known else None for name in expected}, text[:50]


# A campaign's own runs.


class Sample(
    namedtuple("Sample", "name exit_code phase threads transfer_size queue_depth phase_time_s expected command")
):
    """A line of manifest.tsv."""

    @property
    def step(self) -> Step:
        numbers = ("threads_per_node", "transfer_size", "queue_depth")
        options = dict(zip(numbers, map(int, self[3:6]), strict=True)) | {
            "file_size": 1 << 30, "files_per_thread": 1, "o_direct": True, "fsync": True, "write_mode": "overwrite",
            "ioengine": "libaio", "data": "tool_default", "read_percent": 70,
        }  # fmt: skip
        # without a time, where a count bounds the phase
        return Step(options, (FIO.phases[self.phase],), 1, float(self.phase_time_s) or None)

    def output(self) -> bytes:
        return (SAMPLES / f"{self.name}.out").read_bytes()

    def parsed(self, output: bytes | None = None) -> Parsed:
        return FIO.parse({"stdout": self.output() if output is None else output}, self.step, FIO.phases[self.phase])


RUNS = [Sample(*row) for row in _rows("manifest.tsv")]
SAMPLE = {one.name: one for one in reversed(RUNS)}
READS, MIXED = SAMPLE["own_rand_read"], SAMPLE["own_rand_mixed"]


def test_samples_are_valid_or_invalid_even_where_the_exit_code_is_lost() -> None:
    assert SAMPLE.keys() == {file.stem for file in SAMPLES.glob("*.out")}
    for one in RUNS:
        # fio's client mode, a full disk and a launcher can all turn a failure into exit code 0
        parsed = one.parsed()
        wall_s = parsed.figures.get("runtime_s", 1.0) + 0.5
        for exit_code in {int(one.exit_code), 0}:
            # what its command asked for is its own
            outcome, failed = judged("fio", parsed, one.step, but=["as_asked"], exit_code=exit_code, wall_s=wall_s)
            if one.expected == "valid":
                assert (outcome, failed, parsed.problems) == ("valid", [], []), one.name
            else:
                assert outcome == "invalid" and one.expected in failed, (one.name, failed)


def test_figures_are_those_of_the_file() -> None:
    """Numbers as they stand in the file, by hand; latencies in ns there."""
    mean_ns = (38184 * 124909.267101 + 16241 * 198408.645773) / 54425
    for name, figures in {
        "own_rand_read": {
            "bandwidth_bytes_per_s": 267901314.0, "read_bandwidth_bytes_per_s": 267901314.0, "bytes_read": 268169216,
            "ops": 65471, "ops_per_s": 65405.594406, "runtime_s": 1.001,
            "completion_latency_mean_s": 117780.596814e-9, "completion_latency_p50_s": 87552e-9,
            "completion_latency_p99_s": 1433600e-9,
            "latency_min_s": 36275e-9, "latency_max_s": 5458535e-9,
        },
        "own_rand_mixed": {
            "bandwidth_bytes_per_s": 155778549.0 + 66258103.0, "read_bandwidth_bytes_per_s": 155778549.0,
            "write_bandwidth_bytes_per_s": 66258103.0, "ops": 38184 + 16241, "ops_per_s": 38031.87251 + 16176.294821,
            "read_ops_per_s": 38031.87251, "runtime_s": 1.004, "bytes_read": 38184 * 4096,
            "bytes_written": 16241 * 4096,
            "completion_latency_mean_s": (38184 * 120430.257385 + 16241 * 193873.944646) / 54425 * 1e-9,
            "latency_min_s": 19656e-9, "latency_max_s": 7176220e-9, "latency_mean_s": mean_ns * 1e-9,
        },
    }.items():  # fmt: skip
        found = SAMPLE[name].parsed().figures
        assert {key: found[key] for key in figures} == pytest.approx(figures), name
    longer = json.loads(MIXED.output())
    longer["jobs"][0]["write"]["runtime"] = 1010
    assert MIXED.parsed(json.dumps(longer, indent=2).encode()).figures["runtime_s"] == 1.01  # of the longest
    # what was not asked for is absent, and not 0
    assert not [name for name in READS.parsed().figures if "write" in name or "written" in name]
    assert not [name for name in SAMPLE["md14_delete"].parsed().figures if "bandwidth" in name or "bytes" in name]


def test_percentiles_of_added_histograms_are_those_that_fio_gives() -> None:
    # once fio's own, once from the histogram of which one half is in each direction
    document = json.loads(READS.output())
    job = document["jobs"][0]
    bins = job["read"]["clat_ns"]["bins"]
    halves = [{k: v - v // 2 for k, v in bins.items()}, {k: v // 2 for k, v in bins.items()}]
    for direction, half in zip(("read", "write"), halves, strict=True):
        clat = job["read"]["clat_ns"] | {"bins": half, "N": sum(half.values())}
        job[direction] = job["read"] | {"clat_ns": clat}
    mixed = READS._replace(phase="rand_mixed").parsed(json.dumps(document, indent=2).encode()).figures
    names = [f"completion_latency_{p}_s" for p in ("p50", "p99", "p99_5", "p99_9")]
    assert [mixed[n] for n in names] == [READS.parsed().figures[n] for n in names]
    # the first bin that reaches the share; keys in the order of their numbers
    found = merged_percentiles([{"9": 500, "30": 5}, {"20": 485, "30": 10}])
    assert found == {"p50": 9, "p95": 20, "p99": 30, "p99_5": 30, "p99_9": 30}
    assert merged_percentiles([{"9": 99, "20": 1}])["p99"] == 9


def test_a_percentile_that_fewer_than_ten_ios_exceed_is_left_out() -> None:
    for name, ios, told in (("h8", 256, {"p50"}), ("own_rand_read", 65471, {"p50", "p99", "p99_5", "p99_9"})):
        (row,) = read(FILES[name]).rows
        names = {key.removeprefix("completion_latency_").removesuffix("_s") for key in row if "completion" in key}
        assert (row["ops"], names - {"mean"}) == (ios, told)


def test_the_histogram_holds_every_io_and_has_fios_percentiles() -> None:
    document = json.loads(READS.output())
    block = document["jobs"][0]["read"]
    block["lat_ns"] |= {name: block["clat_ns"][name] for name in ("bins", "percentile", "N")}  # --lat_percentiles=1
    parsed = READS.parsed(json.dumps(document, indent=2).encode())
    found = parsed.evidence.latencies
    assert found and found.total == parsed.figures["ops"]
    for name, value in zip(("p50", "p99"), found.percentiles([50, 99]), strict=True):
        assert value == pytest.approx(parsed.figures[f"latency_{name}_s"], rel=0.05)
    for wrong in ({"x": block["lat_ns"]["N"]}, {"5": block["lat_ns"]["N"] - 1}):
        block["lat_ns"]["bins"] = wrong
        assert READS.parsed(json.dumps(document, indent=2).encode()).problems


def test_what_is_no_document_of_one_run_has_no_figures(snapshot: SnapshotAssertion) -> None:
    text = READS.output()
    documents = (
        text + text, text + b"{\n", b"", b" \n", b"[]", b"{\n}", b'{\n"jobs": {}}', b'{\n"jobs": [5]}',
        b'{\n"jobs": ' + b"[" * 100_000, text.replace(b'"iops" :', b'"jops" :'), b"\xff\xfe\n" + text[:2000],
    )  # fmt: skip
    found = [READS.parsed(document) for document in documents]
    assert not any(one.figures for one in found)
    assert "\n".join(one.problems[0] for one in found) == snapshot


@given(st.sampled_from([*GOOD]), st.floats(0, 1, exclude_max=True))
def test_a_cut_output_has_no_figures(name: str, part: float) -> None:
    text = FILES[name][FILES[name].index(b"{\n") : FILES[name].rindex(b"\n}")]
    cut = text[: int(part * len(text))]
    assert not measured(read(cut))
    parsed = READS.parsed(cut)
    assert parsed.problems and not parsed.figures


@given(st.sampled_from([*GOOD]), st.binary(max_size=200), st.integers(0, 30_000), st.integers(0, 300))
def test_whatever_is_printed_can_be_read(name: str, junk: bytes, at: int, over: int) -> None:
    text = FILES[name][:at] + junk + FILES[name][at + over :]
    assert isinstance(read(text), Reading)
    assert isinstance(READS.parsed(text), Parsed) and isinstance(MIXED.parsed(b"{\n" + junk), Parsed)
