"""fio on several nodes: what nodes report is put together exactly, or refused; and fio's own client/server mode."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iosweep.config.sweeps import Repetitions
from iosweep.plan.model import Point
from iosweep.results import judging
from iosweep.results.checks.finding import Seen
from iosweep.tools import Parsed, Step, tools
from iosweep.tools.fio import client_server, series_log
from records import ON_TARGET, phase_run

FIO = tools()["fio"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/fio"
MIB = 1 << 20
OPTIONS: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 1, "file_size": MIB, "files_per_thread": 1,
    "o_direct": False, "fsync": False, "write_mode": "overwrite", "data": "tool_default", "read_percent": 70,
    "ioengine": "psync",
}  # fmt: skip
SAMPLED: dict[str, Any] = OPTIONS | {"o_direct": True, "queue_depth": 4, "ioengine": "libaio", "file_size": 1 << 30}
PERCENTILES = [f"completion_latency_{name}_s" for name in ("p50", "p99", "p99_5", "p99_9")]
#: In a job file each of these would be another name, or none.
NAMES = ("a b;c #d", "$ncpus ${HOME} $jobnum%n:'\"\\\u00e4")


def step(phase: str, nodes: int = 2, time_s: float | None = 1.0, **options: Any) -> Step:
    return Step(OPTIONS | options, (FIO.phases[phase],), nodes, time_s)


def parse(streams: dict[str, bytes], of: Step) -> Parsed:
    return FIO.parse(streams, of, of.phase)


def sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.out").read_bytes())


def printed(document: Any) -> bytes:
    return json.dumps(document, indent=2).encode()


def streams(*documents: Any, **hosts: Any) -> dict[str, bytes]:
    """Of nodes n1, n2 ... whose processes ran from 100 to 101.3; `hosts`: key -> its value for each node."""
    told = [{"host": f"n{k + 1}", "started": 100.0, "ended": 101.3, "clock_offset_s": 0.0, "clock_error_s": 0.0002,
             "exit_code": 0} | {key: values[k] for key, values in hosts.items()}
            for k in range(len(documents))]  # fmt: skip
    each = {f"stdout@{k}": d if isinstance(d, bytes) else printed(d) for k, d in enumerate(documents)}
    return each | {"hosts": json.dumps(told).encode()}


def judged(parsed: Parsed, of: Step, exit_code: int = 0) -> tuple[str, list[str]]:
    """The verdict on a run whose circumstances were all right."""
    point = Point("p", "fio", (of.name,), of.nodes, of.options, of.time_s, Repetitions(1, 1), ())
    files = {"role": "read", "wrong": [], "holes": "none", "files": 4, "file_size_bytes": MIB, "set_bytes": 1 << 40}
    run = {"exit_code": exit_code, "timed_out": False, "wall_s": 1.5, "stderr": "", "files": files}
    memory = dict.fromkeys(("n1", "n2"), 1 << 30)
    findings = judging.judge(Seen(point, of.phase, phase_run(run), parsed, ON_TARGET, memory, "ext4"))
    # the samples were recorded with files of other names and sizes
    return judging.verdict([(check, finding) for check, finding in findings if check.name != "as_asked"])


READ = sample("own_rand_read")
READS = step("rand_read", **{k: v for k, v in SAMPLED.items() if k not in ("threads_per_node",)}, threads_per_node=2)


def split(document: Any, share: dict[str, int]) -> list[Any]:
    """Two documents that share the I/Os of one: of each bin so many go to the first, as far as there are so many."""
    made = []
    bins = document["jobs"][0]["read"]["clat_ns"]["bins"]
    first = {key: min(share.get(key, 0), count) for key, count in bins.items()}
    for part in (first, {key: count - first[key] for key, count in bins.items()}):
        one = json.loads(json.dumps(document))
        read, total = one["jobs"][0]["read"], sum(part.values())
        read["clat_ns"] |= {"bins": {key: count for key, count in part.items() if count}, "N": total}
        read |= {"total_ios": total, "io_bytes": 4096 * total, "iops": total / (read["runtime"] / 1000)}
        read["bw_bytes"] = int(4096 * read["iops"])
        made.append(one)
    return made


@given(st.dictionaries(st.sampled_from(sorted(READ["jobs"][0]["read"]["clat_ns"]["bins"])), st.integers(0, 5000)))
def test_what_two_nodes_share_is_what_one_had(share: dict[str, int]) -> None:
    whole = parse({"stdout": printed(READ)}, replace(READS, nodes=1)).figures
    found = parse(streams(*split(READ, share)), READS).figures
    for name in (*PERCENTILES, "ops", "bytes_read", "runtime_s"):
        assert found[name] == whole[name], name
    for name in ("ops_per_s", "bandwidth_bytes_per_s", "read_ops_per_s", "read_bandwidth_bytes_per_s"):
        assert found[name] == pytest.approx(whole[name], rel=1e-6), name
    assert found["start_skew_s"] == 0


def test_figures_of_nodes_that_did_the_same() -> None:
    alone = parse({"stdout": printed(READ)}, replace(READS, nodes=1)).figures
    parsed = parse(streams(READ, READ, READ), replace(READS, nodes=3))
    assert judged(parsed, replace(READS, nodes=3)) == ("valid", [])
    assert alone.pop("within_run_sd_share") >= 0  # of one node
    for name, value in alone.items():
        same = "latency" in name or name == "runtime_s"
        assert parsed.figures[name] == pytest.approx(value if same else 3 * value), name
    assert set(parsed.figures) - set(alone) == {"start_skew_s", "sum_of_rates_ops_per_s", "sum_of_rates_bytes_per_s"}
    assert parsed.version == "fio-3.33" and parsed.problems == [] and parsed.evidence.errors == []


def test_histograms_of_nodes_are_added_up() -> None:
    document = json.loads(json.dumps(READ))
    read = document["jobs"][0]["read"]
    read["lat_ns"] |= {name: read["clat_ns"][name] for name in ("bins", "percentile", "N")}
    one = parse(streams(document), replace(READS, nodes=1)).evidence.latencies
    both = parse(streams(document, document), READS).evidence.latencies
    assert one and both and both.counts == tuple(2 * count for count in one.counts)
    assert parse(streams(document, READ), READS).evidence.latencies is None  # not of all


def test_one_node_that_is_not_the_first_of_the_job() -> None:
    one = replace(READS, nodes=1)
    assert parse(streams(READ), one) == parse({"stdout": printed(READ)}, one)


def test_mixed_directions() -> None:
    document = sample("own_rand_mixed")
    mixed = replace(READS, phases=(FIO.phases["rand_mixed"],))
    alone = parse({"stdout": printed(document)}, replace(mixed, nodes=1)).figures
    found = parse(streams(document, document, ended=[101.3, 101.3 + 1.004]), mixed).figures
    for name in ("bandwidth_bytes_per_s", "ops_per_s", "write_ops_per_s", "read_bandwidth_bytes_per_s"):
        assert found[name] == pytest.approx(alone[name], rel=1e-3), name  # one after the other
    for name in (*PERCENTILES, "write_latency_mean_s"):
        assert found[name] == pytest.approx(alone[name]), name
    assert found["sum_of_rates_bytes_per_s"] == 2 * alone["bandwidth_bytes_per_s"]


def test_nodes_that_began_apart() -> None:
    parsed = parse(streams(READ, READ, ended=[101.3, 101.35]), READS)
    assert parsed.figures["start_skew_s"] == pytest.approx(0.05)
    assert parsed.figures["ops_per_s"] == pytest.approx(2 * 65471 / (1.001 + 0.05))
    assert judged(parsed, READS) == (
        "suspect",
        [
            "the nodes did not work at the same time: their rates would add up to 5.0% more than what all did; n2 began"
            " last, 0.05 s after the first, and n1 ended 0.05 s before the last"
        ],
    )
    # 2 % and what the end of fio's process may be wrong by
    assert judged(parse(streams(READ, READ, ended=[101.3, 101.34]), READS), READS) == ("valid", [])
    unsure = streams(READ, READ, ended=[101.3, 101.35], clock_error_s=[0.001, 0.01])
    assert judged(parse(unsure, READS), READS) == ("valid", [])


@pytest.mark.parametrize(
    ("told", "skew_s"),
    [
        ({}, 0.3),  # by fio's own word, from 3.36 on
        ({"clock_offset_s": [0.2, 0.5]}, 0.0),  # a clock that is ahead
        ({"clock_offset_s": [0.2, None]}, 0.1),  # not known of one: the ends of the processes are taken
        ({"clock_offset_s": [0.2, -1000.0]}, 0.1),  # it was set meanwhile: not within the life of the process
        ({"clock_offset_s": [0.2, 0.3], "started": [None] * 2, "ended": [None] * 2}, 0.2),
    ],
)
def test_when_nodes_began(told: dict[str, Any], skew_s: float) -> None:
    documents = [json.loads(json.dumps(READ)) for _ in range(2)]
    for document, began_ms in zip(documents, (100_300, 100_600), strict=True):
        document["jobs"][0]["job_start"] = began_ms
    found = parse(streams(*documents, **{"ended": [101.4, 101.5]} | told), READS)
    assert found.figures["start_skew_s"] == pytest.approx(skew_s, abs=1e-6)
    assert found.evidence.windows_error_s == pytest.approx(0.0254 if skew_s == 0.1 else 0.0024)


def test_where_it_is_not_known_when_nodes_began_rates_are_added_up_and_the_check_says_so() -> None:
    parsed = parse(streams(READ, READ, ended=[None, 101.0]), READS)
    assert parsed.figures["ops_per_s"] == parsed.figures["sum_of_rates_ops_per_s"] == pytest.approx(2 * 65405.594406)
    assert "start_skew_s" not in parsed.figures
    assert judged(parsed, READS) == ("valid", [])
    [found] = [f for c, f in judging.judge(seen_of(parsed, READS)) if c.name == "common_window"]
    assert found == ("not checked", "fio-3.33 does not say when each node began", False)


def seen_of(parsed: Parsed, of: Step) -> Seen:
    point = Point("p", "fio", (of.name,), of.nodes, of.options, of.time_s, Repetitions(1, 1), ())
    run = {"exit_code": 0, "timed_out": False, "wall_s": 1.5, "stderr": ""}
    return Seen(point, of.phase, phase_run(run), parsed, ON_TARGET, dict.fromkeys(("n1", "n2"), 1 << 30), "ext4")


def test_metadata() -> None:
    document = sample("md14_delete")
    deletes = Step({"threads_per_node": 2, "files_per_thread": 2000}, (FIO.phases["delete"],), 2, None)
    parsed = parse(streams(document, document, ended=[101.3, 101.524]), deletes)
    assert parsed.figures["ops"] == 8000
    assert parsed.figures["ops_per_s"] == pytest.approx(8000 / 0.448)
    assert parsed.figures["sum_of_rates_ops_per_s"] == pytest.approx(2 * 17857.142857)
    assert not [name for name in parsed.figures if "bytes" in name]
    outcome, (reason,) = judged(parsed, deletes)  # the arithmetic of each node is right all the same
    assert outcome == "suspect" and "n2 began 0.22 s after the first" in reason


def changed(**read: Any) -> Any:
    document = json.loads(json.dumps(READ))
    document["jobs"][0]["read"] |= read
    return document


@pytest.mark.parametrize(
    ("second", "told", "reason"),
    [
        (b"", {}, "n2: fio printed nothing"),
        (printed(READ)[:5000], {}, "n2: fio's JSON is cut or damaged"),
        (printed(READ | {"jobs": []}), {}, "n2: expected one group of jobs"),
        (printed(READ | {"fio version": "fio-3.36"}), {}, "the nodes ran different versions: n1 fio-3.33, n2 fio-3.36"),
        (READ, {"exit_code": [0, 1]}, "the tool reports n2: fio ended with exit code 1"),
        (READ, {"host": ["n1", "n1"]}, "nodes took part more than once: n1, n1"),
        (READ, {"host": ["n1", None]}, "which nodes took part is not stored"),
        (changed(runtime=500, iops=2 * 65405.594406, bw_bytes=2 * 267901314), {}, "n2: ran for 0.50 s of 1.00 s"),
        (changed(bw_bytes=2 * 267901314), {}, "n2: 268,169,216 bytes moved, but rate x time is 536,338,4"),
        (changed(short_ios=2), {}, "the tool reports n2: 2 short and 0 dropped I/Os"),
        (changed(total_ios=0, io_bytes=0), {}, "n2: no read was done"),
    ],
)
def test_one_bad_node_makes_the_row_invalid_and_is_named(second: Any, told: dict[str, Any], reason: str) -> None:
    outcome, reasons = judged(parse(streams(READ, second, **told), READS), READS)
    assert outcome == "invalid"
    assert any(r.startswith(reason) for r in reasons), reasons


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"hosts": b""}, "which nodes took part is not stored"),
        ({"hosts": b"[5, 6]"}, "which nodes took part is not stored"),
        ({"hosts": streams(READ)["hosts"]}, "fio ran on 1 nodes, 2 were asked for"),
        ({"hosts": streams(READ, READ, READ)["hosts"]}, "fio ran on 3 nodes, 2 were asked for"),
        ({"stdout@1": None}, "n2: fio printed nothing"),
    ],
)
def test_the_nodes_are_those_that_were_asked_for(change: dict[str, Any], problem: str) -> None:
    parsed = parse({k: v for k, v in (streams(READ, READ) | change).items() if v is not None}, READS)
    assert not parsed.figures and list(parsed.problems) == [problem]


def test_the_run_time_is_the_longest() -> None:
    slow = changed(runtime=2002, iops=65405.594406 / 2, bw_bytes=267901314 // 2)
    figures = parse(streams(READ, slow, ended=[101.3, 102.301]), READS).figures
    assert figures["runtime_s"] == 2.002
    assert figures["ops_per_s"] == pytest.approx(2 * 65471 / 2.002)
    assert figures["sum_of_rates_ops_per_s"] == pytest.approx(1.5 * 65405.594406)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["host", "ended", "started", "clock_offset_s", "clock_error_s", "exit_code", "address"]),
            inner,
        )
    ),
)


@given(st.lists(JSON, max_size=3) | JSON, st.sampled_from([b"", b"{\n}", printed(READ)]), st.booleans())
def test_whatever_is_stored_can_be_parsed(hosts: Any, stdout: bytes, client: bool) -> None:
    kept = {"stdout": stdout, "stdout@0": stdout, "stdout@1": printed(READ), "hosts": json.dumps(hosts).encode()}
    assert isinstance(parse(kept, replace(READS, options=READS.options | {"client_server": client})), Parsed)


@given(JSON, st.sampled_from(["ended", "started", "clock_offset_s", "clock_error_s", "exit_code", "address", "port"]))
def test_whatever_is_told_of_a_node_can_be_parsed(value: Any, key: str) -> None:
    document = json.loads(json.dumps(READ))
    document["jobs"][0]["job_start"] = 100_300
    kept = streams(document, document, **{key: [0.0, value]})
    assert isinstance(parse(kept, READS), Parsed)
    clients = replace(READS, options=READS.options | {"client_server": True})
    kept |= {"stdout": printed({"fio version": "fio-3.33", "client_stats": [entry("10.0.0.1")]})}
    assert not parse(kept, clients).figures


# Real runs.


@pytest.fixture(scope="module")
def directories(fio: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A prepared set of files for each of two nodes."""
    made = [tmp_path_factory.mktemp("nodes") / name for name in NAMES]
    for directory in made:
        directory.mkdir()
        prepare = FIO.file_set(step("rand_read"), "fresh").prepare
        assert prepare
        subprocess.run(prepare(str(directory)), check=True, capture_output=True, timeout=300)
    return made


@pytest.mark.local
def test_two_runs_with_a_known_skew(directories: list[Path]) -> None:
    # both move 2 MiB in about two seconds, the second begins some 1.5 s later, or more where the machine is busy
    once, skew_s = step("seq_read", time_s=None), 1.5
    runs = []
    for k, directory in enumerate(directories):
        time.sleep(skew_s * k)
        argv = [*FIO.argv(once, str(directory), k), "--rate=1m"]
        runs.append((time.time(), subprocess.Popen(argv, stdout=subprocess.PIPE)))
    told, kept = [], {}
    for k, (started, run) in enumerate(runs):
        kept[f"stdout@{k}"] = run.communicate(timeout=300)[0]
        told.append({"host": f"n{k}", "started": started, "ended": time.time(), "exit_code": run.returncode})
    parsed = parse(kept | {"hosts": json.dumps(told).encode()}, once)
    figures = parsed.figures
    first_s, second_s = (json.loads(kept[f"stdout@{k}"])["jobs"][0]["read"]["runtime"] / 1000 for k in range(2))
    window_s = max(first_s, figures["start_skew_s"] + second_s)
    assert figures["bytes_read"] == 4 * MIB
    assert 0.1 < figures["start_skew_s"] < 60  # the machine is busy at times
    assert figures["bandwidth_bytes_per_s"] == pytest.approx(4 * MIB / window_s, rel=0.02)
    assert figures["sum_of_rates_bytes_per_s"] == pytest.approx(2 * MIB / first_s + 2 * MIB / second_s, rel=0.02)
    outcome, reasons = judged(parsed, once)
    assert outcome == "suspect" and any("the nodes did not work at the same time" in reason for reason in reasons)
    # percentiles by another way: all latencies one by one
    bins = [json.loads(kept[f"stdout@{k}"])["jobs"][0]["read"]["lat_ns"]["bins"] for k in range(2)]
    every = sorted(int(value) for own in bins for value, count in own.items() for _ in range(count))
    assert figures["latency_p99_s"] == every[-(-99 * len(every) // 100) - 1] / 1e9
    assert figures["latency_p50_s"] == every[(len(every) + 1) // 2 - 1] / 1e9


CLIENTS = step("rand_read", time_s=0.3, client_server=True)


@contextlib.contextmanager
def servers(directories: list[Path]) -> Iterator[list[tuple[str, int]]]:
    """A server in each directory, at an address of its own; gives their addresses and ports."""
    places, running = [], []
    try:
        for k, directory in enumerate(directories):
            with socket.create_server((f"127.0.0.{k + 2}", 0)) as free:
                places.append(free.getsockname())
            argv = client_server.server_argv(str(directory), *places[-1])
            running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True))
        for place in places:
            _wait_for(place)
        yield places
    finally:
        for server in running:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(300)


def _wait_for(place: tuple[str, int]) -> None:
    for _ in range(6000):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(place, 5).close()
            return
        time.sleep(0.05)
    pytest.fail(f"no server at {place}")


def run_client(places: list[tuple[str, int]], directory: Path) -> tuple[int, dict[str, bytes]]:
    argv, files = client_server.client_argv(CLIENTS, [(*place, k + 1) for k, place in enumerate(places)])
    for name, text in files.items():
        (directory / name).write_text(text)
    done = subprocess.run(argv, cwd=directory, stdout=subprocess.PIPE, timeout=300, check=False)
    told = [{"host": f"n{k + 1}", "address": a, "port": p} for k, (a, p) in enumerate(places)]
    return done.returncode, {"stdout": done.stdout, "hosts": json.dumps(told).encode()}


@pytest.mark.local
def test_client_and_servers(directories: list[Path], tmp_path: Path) -> None:
    with servers(directories) as places:
        with pytest.raises(ConnectionRefusedError):  # one address only
            socket.create_connection(("127.0.0.1", places[0][1]), 5)
        code, kept = run_client(places, tmp_path)
    parsed = parse(kept, CLIENTS)
    assert code == 0 and parsed.problems == []
    each = parsed.evidence.each_node
    assert list(each) == ["n1", "n2"]
    assert parsed.figures["bytes_read"] == sum(one.figures["bytes_read"] for one in each.values()) > 0
    means = [one.figures["latency_mean_s"] for one in each.values()]  # of percentiles a busy machine has too few I/Os
    assert min(means) <= parsed.figures["latency_mean_s"] <= max(means)
    assert judged(parsed, CLIENTS)[0] in ("valid", "suspect")  # suspect where the machine is busy
    for directory in directories:  # nothing but the files that were prepared
        assert sorted(file.name for file in directory.iterdir()) == ["0.0", "1.0"]
    # the same client, but the second server is gone
    with servers(directories[:1]) as living:
        code, kept = run_client([*living, places[1]], tmp_path)
    parsed = parse(kept, CLIENTS)
    assert code == 0 and not parsed.figures  # fio finds nothing wrong
    assert f"n2 ({places[1][0]}, port {places[1][1]}) did not report" in parsed.problems


def entry(address: str, **changes: Any) -> Any:
    return READ["jobs"][0] | {"jobname": "rand_read", "hostname": address, "port": 8765} | changes


def reported(*entries: Any, before: bytes = b"") -> Parsed:
    of = replace(READS, options=READS.options | {"client_server": True})
    told = [{"host": name, "address": address, "port": 8765} for name, address in (("n1", "10.0.0.1"), ("n2", "::2"))]
    document = printed({"fio version": "fio-3.33", "client_stats": list(entries)})
    return parse({"stdout": before + document, "hosts": json.dumps(told).encode()}, of)


def test_reports_of_servers() -> None:
    one, two = entry("10.0.0.1"), entry("::2")
    total = entry("10.0.0.1", jobname="All clients", error=5)
    noise = b"<n1> rand_read: (g=0): rw=randread\n<n1> Starting 2 processes\n\n"
    good = reported(two, one, total, before=noise)
    assert good.problems == [] and good.figures["ops"] == 2 * 65471
    assert good.evidence.messages == []


@pytest.mark.parametrize(
    ("entries", "before", "problem"),
    [
        ([entry("10.0.0.1")], b"", "n2 (::2, port 8765) did not report"),
        ([entry("::2")], b"client: host=10.0.0.1 disconnected\n", "n1 (10.0.0.1, port 8765) did not report"),
        ([], b"<n1> error: failed to setup shm segment\n", "<n1> error: failed to setup shm segment"),
        ([entry("10.0.0.1"), entry("::2"), entry("::2")], b"",
         "a report that was not asked for: rand_read of ::2, port 8765"),
        ([entry("10.0.0.1"), entry("::3")], b"", "a report that was not asked for: rand_read of ::3, port 8765"),
        ([entry("10.0.0.1"), entry("::2", port=1)], b"", "a report that was not asked for: rand_read of ::2, port 1"),
        ([entry("10.0.0.1"), entry("::2", jobname="x")], b"", "a report that was not asked for: x of ::2, port 8765"),
        ([entry("10.0.0.1"), entry("::2", read={})], b"",
         "fio's JSON has another form: client_stats[1].read: object missing"),
        ([entry("10.0.0.1"), 5], b"", "fio's JSON has another form: client_stats[1]: expected `object`"),
        ([entry("10.0.0.1"), entry(["::2"])], b"", "fio's JSON has another form: client_stats[1].hostname"),
    ],
)  # fmt: skip
def test_reports_that_are_missing_or_others(entries: list[Any], before: bytes, problem: str) -> None:
    parsed = reported(*entries, before=before)
    assert not parsed.figures
    assert any(p.startswith(problem) for p in parsed.problems), parsed.problems


def test_an_error_of_a_server_is_its_nodes() -> None:
    parsed = reported(entry("10.0.0.1"), entry("::2", error=28))
    assert parsed.evidence.errors == ["n2: error 28"]


@pytest.mark.local
@pytest.mark.parametrize("phase", [p for p in FIO.phases if FIO.phases[p].kind == "data"])
def test_a_job_asks_for_what_a_command_asks_for(fio: Path, tmp_path: Path, phase: str) -> None:
    of = step(phase, client_server=True, data="random")
    argv, files = client_server.client_argv(of, [("10.0.0.1", 8765, 7), ("fe80::2", 9000, 8)])
    assert argv == [
        *("fio", "--eta=never", "--output-format=json+"),
        *("--client=ip:10.0.0.1,8765", "job0.fio", "--client=ip6:fe80::2,9000", "job1.fio"),
    ]
    section, *lines = files["job1.fio"].splitlines()
    command = FIO.argv(of, "/t", 8)
    left_out = {"fio", "--directory=/t", f"--name={phase}", "--eta=never", "--output-format=json+"}
    left_out |= set(series_log.options(of))
    assert section == f"[{phase}]"
    assert [f"--{line}" for line in lines] == [argument for argument in command if argument not in left_out]
    (tmp_path / "job1.fio").write_text(files["job1.fio"])
    subprocess.run(["fio", "--parse-only", "job1.fio"], cwd=tmp_path, check=True, capture_output=True, timeout=300)


def test_a_server_works_where_its_files_are() -> None:
    argv = client_server.server_argv("/t/a;b", "10.0.0.1", 8765)
    assert argv == ["env", "--chdir=/t/a;b", "fio", "--server=ip:10.0.0.1,8765"]


def test_client_and_servers_are_for_data_on_request() -> None:
    assert client_server.asked_for(CLIENTS)
    assert not client_server.asked_for(step("rand_read"))
    assert not client_server.asked_for(step("create", client_server=True))
