"""fio on several nodes: what nodes report is put together exactly, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from iosweep.tools import Parsed, Step, tools
from readings import judged

FIO = tools()["fio"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/fio"
#: As the samples were recorded.
OPTIONS: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 4, "file_size": 1 << 30, "files_per_thread": 1,
    "o_direct": True, "fsync": False, "write_mode": "overwrite", "data": "tool_default", "read_percent": 70,
    "ioengine": "libaio",
}  # fmt: skip
PERCENTILES = [f"completion_latency_{name}_s" for name in ("p50", "p99", "p99_5", "p99_9")]


def step(phase: str, nodes: int = 2, time_s: float | None = 1.0, **options: Any) -> Step:
    return Step(OPTIONS | options, (FIO.phases[phase],), nodes, time_s)


def parse(streams: dict[str, bytes], of: Step) -> Parsed:
    return FIO.parse(streams, of, of.phase)


def printed(document: Any) -> bytes:
    return json.dumps(document, indent=2).encode()


def streams(*documents: Any, **hosts: Any) -> dict[str, bytes]:
    """Of nodes n1, n2 ... whose processes ran from 100 to 101.3; `hosts`: key -> its value for each node."""
    told = [{"host": f"n{k + 1}", "started": 100.0, "ended": 101.3, "clock_offset_s": 0.0, "clock_error_s": 0.0002,
             "exit_code": 0} | {key: values[k] for key, values in hosts.items()}
            for k in range(len(documents))]  # fmt: skip
    each = {f"stdout@{k}": d if isinstance(d, bytes) else printed(d) for k, d in enumerate(documents)}
    return each | {"hosts": json.dumps(told).encode()}


def verdict(parsed: Parsed, of: Step) -> tuple[str, list[str]]:
    # the samples were recorded with files of other names and sizes
    return judged("fio", parsed, of, but=["as_asked"])


def sample(name: str, **job: Any) -> Any:
    """A recorded document, with keys of its job changed."""
    document = json.loads((SAMPLES / f"{name}.out").read_bytes())
    document["jobs"][0] |= job
    return document


def changed(**read: Any) -> Any:
    document = sample("own_rand_read")
    document["jobs"][0]["read"] |= read
    return document


READ = sample("own_rand_read")
READS = step("rand_read")


def test_figures_of_nodes_that_did_the_same() -> None:
    alone = parse({"stdout": printed(READ)}, replace(READS, nodes=1)).figures
    parsed = parse(streams(READ, READ, READ), replace(READS, nodes=3))
    assert verdict(parsed, replace(READS, nodes=3)) == ("valid", [])
    for name, value in alone.items():
        same = "latency" in name or name == "runtime_s"
        assert parsed.figures[name] == pytest.approx(value if same else 3 * value), name
    assert set(parsed.figures) - set(alone) == {"start_skew_s", "sum_of_rates_ops_per_s", "sum_of_rates_bytes_per_s"}
    assert parsed.version == "fio-3.33" and parsed.problems == [] and parsed.evidence.errors == []
    # one node that is not the first of the job
    one = replace(READS, nodes=1)
    assert parse(streams(READ), one) == parse({"stdout": printed(READ)}, one)


def test_histograms_of_nodes_are_added_up() -> None:
    clat = READ["jobs"][0]["read"]["clat_ns"]
    document = changed(lat_ns=READ["jobs"][0]["read"]["lat_ns"] | {k: clat[k] for k in ("bins", "percentile", "N")})
    one = parse(streams(document), replace(READS, nodes=1)).evidence.latencies
    both = parse(streams(document, document), READS).evidence.latencies
    assert one and both and both.counts == tuple(2 * count for count in one.counts)
    assert parse(streams(document, READ), READS).evidence.latencies is None  # not of all


def test_the_rate_of_all_is_what_all_moved_from_the_first_begin_to_the_last_end() -> None:
    parsed = parse(streams(READ, READ, ended=[101.3, 101.35]), READS)
    assert parsed.figures["start_skew_s"] == pytest.approx(0.05)
    assert parsed.figures["ops_per_s"] == pytest.approx(2 * 65471 / (1.001 + 0.05))
    assert verdict(parsed, READS) == ("suspect", ["common_window"])
    # 2 % and what the end of fio's process may be wrong by
    assert verdict(parse(streams(READ, READ, ended=[101.3, 101.34]), READS), READS) == ("valid", [])
    unsure = streams(READ, READ, ended=[101.3, 101.35], clock_error_s=[0.001, 0.01])
    assert verdict(parse(unsure, READS), READS) == ("valid", [])
    slow = changed(runtime=2002, iops=65405.594406 / 2, bw_bytes=267901314 // 2)
    figures = parse(streams(READ, slow, ended=[101.3, 102.301]), READS).figures
    assert (figures["runtime_s"], figures["ops_per_s"]) == (2.002, pytest.approx(2 * 65471 / 2.002))
    assert figures["sum_of_rates_ops_per_s"] == pytest.approx(1.5 * 65405.594406)


def test_mixed_directions_and_metadata_of_nodes_that_worked_in_turn() -> None:
    document, mixed = sample("own_rand_mixed"), step("rand_mixed")
    alone = parse({"stdout": printed(document)}, replace(mixed, nodes=1)).figures
    found = parse(streams(document, document, ended=[101.3, 101.3 + 1.004]), mixed).figures
    for name in ("bandwidth_bytes_per_s", "ops_per_s", "write_ops_per_s", "read_bandwidth_bytes_per_s"):
        assert found[name] == pytest.approx(alone[name], rel=1e-3), name
    for name in (*PERCENTILES, "write_latency_mean_s"):
        assert found[name] == pytest.approx(alone[name]), name
    assert found["sum_of_rates_bytes_per_s"] == 2 * alone["bandwidth_bytes_per_s"]
    document = sample("md14_delete")
    deletes = Step({"threads_per_node": 2, "files_per_thread": 2000}, (FIO.phases["delete"],), 2, None)
    parsed = parse(streams(document, document, ended=[101.3, 101.524]), deletes)
    expected = {"ops": 8000, "ops_per_s": 8000 / 0.448, "sum_of_rates_ops_per_s": 2 * 17857.142857}
    assert {name: parsed.figures[name] for name in expected} == pytest.approx(expected)
    assert not [name for name in parsed.figures if "bytes" in name]
    # the arithmetic of each node is right all the same
    assert verdict(parsed, deletes) == ("suspect", ["common_window"])


@pytest.mark.parametrize(
    ("told", "skew_s"),
    [
        ({}, 0.3),  # by fio's own word, from 3.36 on
        ({"clock_offset_s": [0.2, 0.5]}, 0.0),  # a clock that is ahead
        # it was set meanwhile, and is not within the life of the process: the ends of the processes are taken
        ({"clock_offset_s": [0.2, -1000.0]}, 0.1),
    ],
)
def test_when_nodes_began_is_told_on_one_clock(told: dict[str, Any], skew_s: float) -> None:
    documents = [sample("own_rand_read", job_start=began_ms) for began_ms in (100_300, 100_600)]
    found = parse(streams(*documents, **{"ended": [101.4, 101.5]} | told), READS)
    assert found.figures["start_skew_s"] == pytest.approx(skew_s, abs=1e-6)
    assert found.evidence.windows_error_s == pytest.approx(0.0254 if skew_s == 0.1 else 0.0024)


@pytest.mark.parametrize(
    ("second", "told", "check", "node"),
    [
        (b"", {}, "output", "n2: "),
        (printed(READ)[:5000], {}, "output", "n2: "),
        (READ | {"jobs": []}, {}, "output", "n2: "),
        (READ | {"fio version": "fio-3.36"}, {}, "output", "n1 fio-3.33, n2 fio-3.36"),
        (READ, {"host": ["n1", "n1"]}, "output", "n1, n1"),
        (READ, {"host": ["n1", None]}, "output", ""),
        (READ, {"exit_code": [0, 1]}, "tool_errors", "n2: "),
        (changed(short_ios=2), {}, "tool_errors", "n2: "),
        (changed(runtime=500, iops=2 * 65405.594406, bw_bytes=2 * 267901314), {}, "duration", ""),
        (changed(bw_bytes=2 * 267901314), {}, "arithmetic", ""),
        (changed(total_ios=0, io_bytes=0), {}, "direction", ""),
    ],
)
def test_one_bad_node_makes_the_row_invalid_and_is_named(
    second: Any, told: dict[str, Any], check: str, node: str
) -> None:
    parsed = parse(streams(READ, second, **told), READS)
    outcome, failed = verdict(parsed, READS)
    assert outcome == "invalid" and check in failed, failed
    assert any(node in text for text in (*parsed.problems, *(parsed.evidence.errors or [""])))


def test_the_nodes_are_those_that_were_asked_for(snapshot: SnapshotAssertion) -> None:
    said = []
    for change in (
        {"hosts": b""},
        {"hosts": b"[5, 6]"},
        {"hosts": streams(READ)["hosts"]},
        {"hosts": streams(READ, READ, READ)["hosts"]},
        {"stdout@1": b""},
    ):
        parsed = parse(streams(READ, READ) | change, READS)
        assert not parsed.figures
        said += parsed.problems
    assert "\n".join(said) == snapshot
