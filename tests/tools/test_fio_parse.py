"""fio's output to figures: against outputs of real runs (samples/fio), good and bad, and against damaged ones.

Every sample stands in the manifest with its command, its exit code, and what the verdict on it must be.
"""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.config.sweeps import Repetitions
from iosweep.plan.model import Point
from iosweep.results import judging
from iosweep.results.checks.finding import Seen
from iosweep.tools import Echo, Parsed, Step, tools
from records import ON_TARGET, phase_run

FIO = tools()["fio"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/fio"


class Sample(NamedTuple):
    name: str
    exit_code: str
    phase: str
    threads: str
    transfer_size: str
    queue_depth: str
    phase_time_s: str
    expected: str
    command: str

    @property
    def options(self) -> dict[str, Any]:
        return {
            "threads_per_node": int(self.threads), "transfer_size": int(self.transfer_size),
            "queue_depth": int(self.queue_depth), "file_size": 1 << 30, "files_per_thread": 1,
            "o_direct": True, "fsync": True, "write_mode": "overwrite", "ioengine": "libaio", "data": "tool_default",
            "read_percent": 70,
        }  # fmt: skip

    @property
    def time_s(self) -> float | None:
        return float(self.phase_time_s) or None  # none where a count bounds the phase

    def output(self) -> bytes:
        return (SAMPLES / f"{self.name}.out").read_bytes()

    def parsed(self, output: bytes | None = None) -> Parsed:
        phase = FIO.phases[self.phase]
        streams = {"stdout": self.output() if output is None else output}
        return FIO.parse(streams, Step(self.options, (phase,), 1, self.time_s), phase)

    def verdict(self, parsed: Parsed, exit_code: int) -> tuple[str, list[str]]:
        """On a run whose circumstances were all right. What its command asked for is its own."""
        as_asked = Echo((), frozenset({"o_direct", "fsync"}), 9)
        parsed = replace(parsed, evidence=replace(parsed.evidence, echo=parsed.evidence.echo and as_asked))
        point = Point("p", "fio", (self.phase,), 1, self.options, self.time_s, Repetitions(1, 1), ())
        files = {
            "role": "read",
            "wrong": [],
            "holes": "none",
            "files": 1,
            "file_size_bytes": 1 << 30,
            "set_bytes": 1 << 30,
        }
        wall_s = parsed.figures.get("runtime_s", 1.0) + 0.5
        run = {"exit_code": exit_code, "timed_out": False, "wall_s": wall_s, "stderr": "", "files": files}
        return judging.verdict(
            judging.judge(
                Seen(point, FIO.phases[self.phase], phase_run(run), parsed, ON_TARGET, {"n1": 1 << 30}, "ext4")
            )
        )


with (SAMPLES / "manifest.tsv").open(encoding="utf-8") as _file:
    ALL = [Sample(*row) for row in list(csv.reader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]]
GOOD = [s for s in ALL if s.expected == "good"]
BAD = [s for s in ALL if s.expected != "good"]


def sample(name: str) -> Sample:
    return next(s for s in ALL if s.name == name)


def test_every_sample_is_in_the_manifest() -> None:
    assert {s.name for s in ALL} == {f.stem for f in SAMPLES.glob("*.out")}
    assert len(GOOD) >= 9 and len(BAD) >= 12


@pytest.mark.parametrize("good", GOOD, ids=lambda s: f"{s.name}-{s.phase}")
def test_good_samples_are_valid(good: Sample) -> None:
    parsed = good.parsed()
    assert parsed.problems == []
    assert good.verdict(parsed, int(good.exit_code)) == ("valid", [])
    assert parsed.figures["ops_per_s"] > 0


@pytest.mark.parametrize("bad", BAD, ids=lambda s: f"{s.name}-{s.phase}")
def test_bad_samples_are_invalid_even_where_the_exit_code_is_lost(bad: Sample) -> None:
    # fio's client mode, a full disk and a launcher can all turn a failure into exit code 0
    for exit_code in {int(bad.exit_code), 0}:
        outcome, reasons = bad.verdict(bad.parsed(), exit_code)
        assert outcome == "invalid"
        assert any(bad.expected in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        # numbers as they stand in the file, by hand; latencies in ns there
        ("own_rand_read", {
            "bandwidth_bytes_per_s": 267901314.0, "read_bandwidth_bytes_per_s": 267901314.0, "bytes_read": 268169216,
            "ops": 65471, "ops_per_s": 65405.594406, "runtime_s": 1.001,
            "completion_latency_mean_s": 117780.596814e-9, "completion_latency_p50_s": 87552e-9,
            "completion_latency_p99_s": 1433600e-9,
        }),
        ("p1c_default_libaio", {
            "bandwidth_bytes_per_s": 184197242.0, "ops": 45015, "ops_per_s": 44970.02997, "runtime_s": 1.001,
            "completion_latency_mean_s": 171847.15517e-9, "completion_latency_p50_s": 112128e-9,
            "completion_latency_p99_s": 2572288e-9, "latency_mean_s": 177457.318538e-9,
        }),
        ("h6", {
            "bandwidth_bytes_per_s": 83728623.0, "write_bandwidth_bytes_per_s": 83728623.0,
            "bytes_written": 20462 * 4096, "ops": 20462, "write_ops_per_s": 20441.558442,
            "completion_latency_p99_s": 3555328e-9, "latency_mean_s": 195196.410175e-9,
        }),
        ("own_rand_mixed", {
            "bandwidth_bytes_per_s": 155778549.0 + 66258103.0, "read_bandwidth_bytes_per_s": 155778549.0,
            "write_bandwidth_bytes_per_s": 66258103.0, "ops": 38184 + 16241, "ops_per_s": 38031.87251 + 16176.294821,
            "read_ops_per_s": 38031.87251, "runtime_s": 1.004, "bytes_read": 38184 * 4096,
            "bytes_written": 16241 * 4096,
            "completion_latency_mean_s": (38184 * 120430.257385 + 16241 * 193873.944646) / 54425 * 1e-9,
        }),
        ("md16_tmpfs_filecreate", {"ops": 4000, "ops_per_s": 17467.248908, "runtime_s": 0.229,
                                   "latency_p99_s": 13760e-9}),
        ("md14_delete", {"ops": 4000, "ops_per_s": 17857.142857, "runtime_s": 0.224}),
    ],
)  # fmt: skip
def test_figures(name: str, figures: dict[str, float]) -> None:
    found = sample(name).parsed().figures
    assert {key: found[key] for key in figures} == pytest.approx(figures)


def test_a_figure_that_is_not_asked_for_is_absent_and_not_zero() -> None:
    reads, files = sample("own_rand_read").parsed().figures, sample("md14_delete").parsed().figures
    assert not [name for name in reads if "write" in name or "written" in name]
    assert not [name for name in files if "bandwidth" in name or "bytes" in name]
    assert "fio-3.33" in str(sample("own_rand_read").parsed().version)


def test_percentiles_of_bins_added_up_are_those_that_fio_gives() -> None:
    # once fio's own, once from the histogram of which one half is in each direction
    one = sample("own_rand_read")
    document = json.loads(one.output())
    job = document["jobs"][0]
    bins = job["read"]["clat_ns"]["bins"]
    halves = [{k: v - v // 2 for k, v in bins.items()}, {k: v // 2 for k, v in bins.items()}]
    for direction, half in zip(("read", "write"), halves, strict=True):
        clat = job["read"]["clat_ns"] | {"bins": half, "N": sum(half.values())}
        job[direction] = job["read"] | {"clat_ns": clat}
    mixed = one._replace(phase="rand_mixed").parsed(json.dumps(document, indent=2).encode()).figures
    names = [f"completion_latency_{p}_s" for p in ("p50", "p99", "p99_5", "p99_9")]
    assert [mixed[n] for n in names] == [one.parsed().figures[n] for n in names]


def test_the_histogram_holds_every_io_and_has_fios_percentiles() -> None:
    one = sample("own_rand_read")
    document = json.loads(one.output())
    read = document["jobs"][0]["read"]
    read["lat_ns"] |= {
        name: read["clat_ns"][name] for name in ("bins", "percentile", "N")
    }  # as --lat_percentiles=1 does
    parsed = one.parsed(json.dumps(document, indent=2).encode())
    found = parsed.evidence.latencies
    assert found and found.total == parsed.figures["ops"]
    for name, value in zip(("p50", "p99"), found.percentiles([50, 99], 0), strict=True):
        assert value == pytest.approx(parsed.figures[f"latency_{name}_s"], rel=0.1)
    read["lat_ns"]["bins"] = {"x": read["lat_ns"]["N"]}
    assert one.parsed(json.dumps(document, indent=2).encode()).problems


def test_without_bins_there_is_no_histogram() -> None:
    text = re.sub(rb'"bins" : \{[^}]*\}', b'"was" : {}', sample("own_rand_read").output())
    assert sample("own_rand_read").parsed(text).evidence.latencies is None


def test_a_mixed_phase_without_histograms_has_no_percentiles() -> None:
    text = re.sub(rb'"bins" : \{[^}]*\}', b'"was" : {}', sample("own_rand_mixed").output())
    figures = sample("own_rand_mixed").parsed(text).figures
    assert "latency_mean_s" in figures
    assert not [name for name in figures if name.startswith("latency_p")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: b"note: something\n" + text, None),
        (lambda text: text + b"\n\nfio: a note after it\n", None),
        (lambda text: text.replace(b"\n", b"\r\n"), None),
        (lambda text: text + text, "more than one JSON document in fio's output"),
        (lambda text: text + b"{\n", "more than one JSON document in fio's output"),
        (lambda text: b"", "fio printed nothing"),
        (lambda text: b" \n", "fio printed nothing"),
        (lambda text: b"[]", "no JSON in fio's output"),
        (lambda text: b"{\n}", "expected one group of jobs in fio's JSON, found 0"),
        (lambda text: b'{\n"jobs": {}}', "jobs: expected `array | null`, got `object`"),
        (lambda text: b'{\n"jobs": [5]}', "jobs[0]: expected `object`, got `int`"),
        (lambda text: b'{\n"jobs": ' + b"[" * 100_000, "jobs[0]: expected `object`, got `array`"),
        (lambda text: text.replace(b'"iops" :', b'"jops" :'), "jobs[0].read: object missing required field `iops`"),
        (lambda text: b"\xff\xfe\n" + text[:2000], "fio's JSON is cut or damaged"),
    ],
)
def test_what_stands_around_and_instead_of_the_document(change: Any, problem: str | None) -> None:
    one = sample("own_rand_read")
    parsed = one.parsed(change(one.output()))
    if problem is None:
        assert parsed.problems == []
        assert parsed.figures == one.parsed().figures
    else:
        assert problem in parsed.problems[0]
        assert not parsed.figures


def test_messages_before_the_document_are_kept() -> None:
    assert sample("e3_enospc_nj4").parsed().evidence.messages == [
        f"fio: pid={pid}, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device"
        for pid in (32447, 32449)
    ]


def lies(one: Sample, output: bytes) -> list[str]:
    """Figures that differ from those of the whole output, with no problem to tell so."""
    parsed = one.parsed(output)
    if parsed.problems:
        return []
    whole = one.parsed().figures
    return [name for name, value in parsed.figures.items() if value != whole.get(name)]


@given(st.sampled_from(GOOD), st.floats(0, 1, exclude_max=True))
def test_a_cut_output_has_no_figures(good: Sample, part: float) -> None:
    text = good.output().rstrip()
    parsed = good.parsed(text[: int(part * len(text))])
    assert parsed.problems
    assert not parsed.figures


@pytest.mark.parametrize("name", ["own_rand_read", "own_rand_mixed", "md14_delete"])
@pytest.mark.parametrize("times", [0, 2])
def test_a_line_that_is_lost_or_doubled_changes_no_figure(name: str, times: int, some: Any) -> None:
    one = sample(name)
    lines = one.output().splitlines(keepends=True)
    found = {
        number: wrong
        for number in some(range(len(lines)))
        if (wrong := lies(one, b"".join([*lines[:number], *[lines[number]] * times, *lines[number + 1 :]])))
    }
    assert found == {}


@given(st.sampled_from(GOOD), st.binary(max_size=200), st.integers(0, 30_000), st.integers(0, 300))
def test_whatever_is_printed_can_be_parsed(good: Sample, junk: bytes, at: int, over: int) -> None:
    text = good.output()
    assert isinstance(good.parsed(text[:at] + junk + text[at + over :]), Parsed)
    assert isinstance(good.parsed(b"{\n" + junk), Parsed)
