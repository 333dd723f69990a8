"""The runner with the real fio: what is stored, what is left on the target, and what happens when things go wrong."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pyarrow.parquet
import pytest

import mounts
import tool_folders
from campaign import MANY_FILES, SWEEP, Allocation, said
from iosweep.errors import ExitCode
from iosweep.node import node_facts
from iosweep.node.node_facts import NodeFacts
from iosweep.plan.launchers import LAUNCHERS, Mpiexec, mpiexec
from iosweep.plan.model import seed_of
from iosweep.results import remaining
from iosweep.results.campaign_documents import ClaimedTarget, DataSet, Missing, Needs, Refusal
from iosweep.results.raw_output import unpack
from iosweep.target.accounts import user
from records import plain_records_of
from waiting import over, wait_for

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]


@pytest.fixture
def allocation(tmp_path: Path) -> Allocation:
    return Allocation(tmp_path)


@pytest.fixture
def kept(tmp_path: Path) -> Allocation:
    """One whose data sets stay."""
    return Allocation(tmp_path, keep="all")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, fio: Path) -> Allocation:
    """Measured once, for the tests that only look."""
    made = Allocation(tmp_path_factory.mktemp("done"), SWEEP | {"repetitions": 2}, keep="all")
    made.measure()
    return made


def states(directory: Path) -> dict[str, tuple[int, int]]:
    """(size, mtime) of every file below a directory."""
    return {
        str(f.relative_to(directory)): (f.stat().st_size, f.stat().st_mtime_ns)
        for f in directory.rglob("*")
        if f.is_file()
    }


def test_every_repetition_is_stored(done: Allocation) -> None:
    expected = [f"{p.id}/r00{n}-1.{kind}" for p in done.plan.points for n in (1, 2) for kind in ("json", "zip")]
    assert done.files() == sorted(expected)
    lines = [orjson.loads(line) for line in done.manifest.read_bytes().splitlines()]
    assert [(line["point"], line["repetition"], line["attempt"]) for line in lines[:-1]] == [
        (p.id, n, 1) for p in done.plan.points for n in (1, 2)
    ]
    before = b"".join(done.manifest.read_bytes().splitlines(keepends=True)[:-1])
    assert lines[-1] == {"sha256": hashlib.sha256(before).hexdigest()}


def test_the_record_of_a_result(done: Allocation, fio: Path) -> None:
    point = done.plan.points[1]
    record = next(record for result, record in plain_records_of(done.store, point.id) if result.repetition == 2)
    assert record["tool"]["path"] == str(fio)
    assert record["tool"]["version"].startswith("fio-3.")
    assert record["target"]["directory"] == str(done.target)
    assert set(record["environment"]) <= set(node_facts.ENVIRONMENT)
    assert [run["phase"] for run in record["phases"]] == ["seq_write", "rand_read"]
    for run in record["phases"]:
        assert run["argv"][0] == str(fio)  # the one whose hash is stored, whatever comes to stand before it on PATH
        assert f"--randseed={seed_of(1, point.id, 2, run['phase'])}" in run["argv"]
        assert run["exit_code"] == 0
        assert run["headline"] > 0
        assert run["left_behind"] == 0
        assert run["files"]["wrong"] == []
    assert record["node"] in done.store.documents(NodeFacts)


def test_rows_are_valid_on_evidence(done: Allocation) -> None:
    rows = done.rows()
    assert len(rows) == 2 * 2 * 2
    for row in rows:
        assert said(row) == ""
        assert row["verdict"] in ("valid", "suspect")  # suspect on a busy machine
        assert row["checks_passed"] >= 8
        assert row["ops_per_s"] > 0


def test_reads_and_writes_have_sets_of_their_own(done: Allocation) -> None:
    assert {f: size for f, (size, _) in states(done.ours).items() if f != "iosweep.json"} == {
        f"sets/fio-{role}-256k-1/{job}.0": 256 << 10 for role in ("read", "write") for job in (0, 1)
    }
    assert set(done.store.documents(DataSet)) == {"sets.fio-read-256k-1", "sets.fio-write-256k-1"}
    assert [f.name for f in done.target.iterdir()] == ["iosweep-c"]


def test_nothing_left_does_nothing(done: Allocation) -> None:
    before = states(done.place)
    done.measure()
    after = states(done.place)
    assert {f for f in after if after[f] != before.get(f)} <= {
        "log", "results/c/manifests/m.jsonl", "results/c/lock",
    } | {f for f in after if f.startswith("results/c/plans/")}  # fmt: skip


def test_nothing_left_needs_no_target(done: Allocation) -> None:
    manifest = done.manifest.read_bytes()
    done.manifest.unlink()
    away = done.target.rename(done.place / "away")
    try:
        done.measure()
    finally:
        away.rename(done.target)
    assert done.manifest.read_bytes() == manifest


def test_sets_are_prepared_once(kept: Allocation) -> None:
    assert "note: the results are on the file system under test" in kept.measure()
    before = states(kept.ours / "sets" / "fio-read-256k-1")
    # what a repetition that was killed has left goes, too
    (kept.ours / "fresh" / "p-r1").mkdir(parents=True)
    (kept.ours / "fresh" / "p-r1" / "0.0").write_bytes(bytes(1 << 20))
    kept.configure(SWEEP | {"repetitions": 2})
    kept.measure()
    assert not (kept.ours / "fresh").exists()
    assert states(kept.ours / "sets" / "fio-read-256k-1") == before
    assert len(kept.store.results()[kept.plan.points[0].id]) == 2


def shorten(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(1000)


def punch(file: Path) -> None:
    file.unlink()
    with file.open("wb") as handle:
        handle.truncate(256 << 10)


@pytest.mark.parametrize("harm", [shorten, punch, Path.unlink])
def test_a_damaged_set_is_prepared_again(kept: Allocation, harm: Any) -> None:
    kept.measure()
    victim = kept.ours / "sets" / "fio-read-256k-1" / "1.0"
    harm(victim)
    kept.configure(SWEEP | {"repetitions": 2})
    kept.measure()
    assert victim.stat().st_size == 256 << 10
    assert victim.stat().st_blocks * 512 >= 256 << 10
    assert [said(r) for r in kept.rows()] == [""] * 8


def test_a_removed_campaign_directory_is_made_again(kept: Allocation) -> None:
    # `rm -r` on the target is what a user does to free space
    kept.measure()
    subprocess.run(["rm", "-r", str(kept.ours)], check=True)
    kept.configure(SWEEP | {"repetitions": 2})
    kept.measure()
    assert [said(r) for r in kept.rows()] == [""] * 8


def test_new_files_are_removed_with_their_repetition(allocation: Allocation) -> None:
    options = SWEEP["options"] | {"write_mode": "new", "file_size": "64m"}
    allocation.configure(SWEEP | {"phases": ["seq_write"], "options": options, "axes": {}})
    allocation.measure()
    assert not allocation.ours.exists()
    [row] = allocation.rows()
    assert row["write_mode"] == "new"
    assert said(row) == ""


def test_metadata_phases(allocation: Allocation) -> None:
    allocation.configure(MANY_FILES)
    allocation.measure()
    rows = allocation.rows()
    assert [(r["phase"], r["ops"]) for r in rows] == [("create", 50_000), ("stat", 50_000), ("delete", 50_000)]
    assert [said(r) for r in rows] == ["", "", ""]
    assert not allocation.ours.exists()


def test_a_file_that_is_lost_after_create_is_seen(allocation: Allocation) -> None:
    allocation.configure(MANY_FILES)
    allocation.fake("""
for argument; do case "$argument" in --directory=*) directory=${argument#--directory=};; esac; done
"$fio" "$@"; code=$?
case "$*" in *--name=create*) rm "$directory/0.17";; esac
exit $code""")
    allocation.measure()
    rows = {r["phase"]: r for r in allocation.rows()}
    assert rows["create"]["verdict"] == "invalid"
    assert said(rows["create"]) == "50,000 files expected after create, 49,999 found"
    assert rows["delete"]["verdict"] == "invalid"  # fio stops at the one that is not there
    assert not allocation.ours.exists()


def test_a_tool_that_fails_is_invalid_and_the_next_point_runs(allocation: Allocation) -> None:
    allocation.fake("""
case "$*" in *--name=rand_read*--numjobs=1*) exec "$fio" "$@" --no-such-option=1;; esac
exec "$fio" "$@" """)
    allocation.measure()
    rows = {(r["threads_per_node"], r["phase"]): r for r in allocation.rows()}
    bad = rows[1, "rand_read"]
    assert bad["verdict"] == "invalid"
    assert bad["ops_per_s"] is None
    assert bad["reasons"].startswith("the tool ended with exit code 1: ")
    assert "unrecognized option '--no-such-option=1'" in bad["reasons"]
    assert [said(r) for key, r in rows.items() if key != (1, "rand_read")] == ["", "", ""]
    before = allocation.files()
    allocation.measure()  # it would fail again: it is not left
    assert allocation.files() == before


SERVER_GONE = {
    6: ("No such device or address", "a data server of the target cannot be reached"),
    107: ("Transport endpoint is not connected", "the target's file system server is gone"),
}


@pytest.mark.parametrize("number", SERVER_GONE)
def test_servers_that_fail_repeatedly_end_the_allocation(allocation: Allocation, number: int) -> None:
    """Otherwise all that is left would fail at once, and count as done."""
    words, cause = SERVER_GONE[number]
    says = f"fio: pid=7, err={number}/file:io_u.c:1876, func=io_u error, error={words}"
    points = {"axes": {"threads_per_node": [1, 2, 3]}, "phases": ["seq_write"]}
    allocation.configure(SWEEP | points, limits={"fill": "100%"})  # with a budget of tries
    allocation.fake(f'case "$*" in *--name=seq_write*) echo "{says}" >&2; exit 1;; esac; exec "$fio" "$@"')
    for _ in range(4):
        said = allocation.measure(code=ExitCode.REFUSED)
        assert "two tries in a row failed" in said
        assert f"{cause}; see whether all data servers of the target are up" in said
        assert allocation.files() == []
        assert not list(allocation.ours.glob("fresh/*"))


def test_a_server_that_fails_once(allocation: Allocation) -> None:
    """Both tries are stored, and none of the budget of tries is used."""
    says = "fio: pid=7, err=107/file:io_u.c:1876, func=io_u error, error=Transport endpoint is not connected"
    allocation.configure(SWEEP | {"axes": {}, "phases": ["seq_write"]})
    allocation.fake(f"""
case "$*" in *--name=seq_write*) [ -e "$0.failed" ] || {{ : > "$0.failed"; echo "{says}" >&2; exit 1; }};; esac
exec "$fio" "$@" """)
    allocation.measure()
    [point] = allocation.plan.points
    tries = [orjson.loads((allocation.store.point(point.id) / f"r001-{n}.json").read_bytes()) for n in (1, 2)]
    assert "the target's file system server is gone" in tries[0]["retry"]
    assert [one["retried"] for one in tries] == [False, False]
    assert allocation.store.results()[point.id][1].attempt == 2
    assert [said(r) for r in allocation.rows()] == [""]


def test_a_killed_tool_is_tried_again(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]}, limits={"fill": "100%"})
    allocation.fake("""
case "$*" in *--name=rand_read*) [ -e "$0.killed" ] || { : > "$0.killed"; kill -KILL $$; };; esac
exec "$fio" "$@" """)
    output = allocation.measure()
    [point] = allocation.plan.points
    first = orjson.loads((allocation.store.point(point.id) / "r001-1.json").read_bytes())
    assert first["retry"] == "the tool was killed by signal 9"
    second = allocation.store.results()[point.id][1]
    assert (first["retried"], second.retried, second.attempt) == (False, True, 2)
    lines = output.splitlines()
    after = lines.index("1 repetition disturbed, tried again")
    assert f"1/1 {point.id} r1  " in lines[after - 2]
    assert lines[after - 1].strip() == "invalid: the tool was killed by signal 9 → fio printed nothing"
    assert f"2/2 {point.id} r1 again  " in lines[after + 1]
    assert [said(r) for r in allocation.rows()] == [""]


def test_tries_end(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]}, limits={"fill": "100%"})
    allocation.fake("""
case "$*" in *--name=rand_read*) kill -KILL $$;; esac
exec "$fio" "$@" """)
    allocation.measure()
    [point] = allocation.plan.points
    assert allocation.files() == [f"{point.id}/r001-{n}.{kind}" for n in (1, 2) for kind in ("json", "zip")]
    [row] = allocation.rows()
    assert row["reasons"].startswith("the tool was killed by signal 9 → fio printed nothing")
    assert allocation.store.results()[point.id][1].retried


def test_another_build_has_a_second_try_of_its_own(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]}, limits={"fill": "100%"})
    for build in ("one", "two"):
        allocation.fake(f"""
: {build}
case "$*" in *--name=rand_read*) kill -KILL $$;; esac
exec "$fio" "$@" """)
        allocation.measure()
    [point] = allocation.plan.points
    records = [orjson.loads(f.read_bytes()) for f in sorted(allocation.store.point(point.id).glob("*.json"))]
    assert [r["retried"] for r in records] == [False, True, False, True]
    assert len({r["tool"]["sha256"] for r in records}) == 2


def test_workers_that_outlive_their_parent_are_ended(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    sleep = ["sleep", f"1234.{os.getpid()}"]  # no other test's, nor that of tests beside these
    allocation.fake(f'"$fio" "$@"; code=$?; setsid {" ".join(sleep)} > /dev/null 2>&1 & exit $code')
    allocation.measure()
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == sleep]
    assert [said(r) for r in allocation.rows()] == [""]


def test_a_missing_tool(allocation: Allocation, tmp_path: Path) -> None:
    path, allocation.path = allocation.path, str(tmp_path)
    output = allocation.measure()
    assert "missing: fio is not on PATH; get it with apt-get install fio" in output
    assert not list(allocation.target.iterdir())
    for row in allocation.rows():
        assert row["verdict"] == "missing"
        assert row["reasons"].startswith("fio is not on PATH")
    allocation.path = path  # it is back
    allocation.measure()
    assert [said(r) for r in allocation.rows()] == [""] * 4
    assert allocation.store.missing() == {}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Allocation:
    if reason := mounts.missing():
        pytest.skip(reason)
    (tmp_path / "mount").mkdir()
    made = Allocation(tmp_path)
    made.target = tmp_path / "mount"
    made.configure(SWEEP | {"phases": ["seq_write"]})
    return made


def seen_as(allocation: Allocation) -> tuple[str, ...]:
    known = allocation.store.document(ClaimedTarget)
    assert known
    return known.seen_as


def measured(allocation: Allocation, source: Path, kind: str = "glusterfs") -> tuple[int, str]:
    """How many results there are then, and what was printed, with the target on a FUSE file system by this name."""
    source.mkdir(parents=True, exist_ok=True)
    subprocess.run(["bindfs", f"-osubtype={kind}", source, allocation.target], check=True)
    try:
        said = allocation.measure()
    finally:
        mounts.unmount(allocation.target)
    return len([file for file in allocation.files() if re.search(r"/r\d+-\d+\.json$", file)]), said


def test_a_volume_by_another_of_its_servers(elsewhere: Allocation) -> None:
    """Results of before count, and where the target is another one it is printed what does not."""
    servers = elsewhere.place
    elsewhere.keep = "all"  # the marker stays
    elsewhere.configure(SWEEP | {"phases": ["seq_write"]})
    assert measured(elsewhere, servers / "s1:/dfs")[0] == 2
    (servers / "s1:").rename(servers / "s2:")
    longer = SWEEP | {"phases": ["seq_write"], "axes": {"threads_per_node": [1, 2, 3]}}
    elsewhere.configure(longer)
    assert measured(elsewhere, servers / "s2:/dfs")[0] == 3  # the new point only
    elsewhere.configure(longer | {"repetitions": 2})
    found, said = measured(elsewhere, servers / "s2:/other")
    assert found == 3 + 6
    assert (
        f"measured again, because the target has changed: 2 results of {elsewhere.target} on"
        f" {servers}/s1:/dfs (fuse.glusterfs), 1 result of {elsewhere.target} on {servers}/s2:/dfs (fuse.glusterfs);"
        f" the target is {elsewhere.target} on {servers}/s2:/other (fuse.glusterfs) now"
    ) in " ".join(said.split())


def test_a_volume_of_another_cluster_by_the_same_name(elsewhere: Allocation) -> None:
    """Without the marker, and without a common server, the name does not make results of before count."""
    assert measured(elsewhere, elsewhere.place / "s1:/dfs")[0] == 2
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 2})
    found, said = measured(elsewhere, elsewhere.place / "s9:/dfs")
    assert found == 2 + 4
    assert f"the target has changed: 2 results of {elsewhere.target} on {elsewhere.place}/s1:/dfs" in " ".join(
        said.split()
    )


def test_the_marker_proves_that_it_is_the_same_file_system(elsewhere: Allocation) -> None:
    """Where another server may be another file system, and is not."""
    first, second, third = (elsewhere.place / name for name in ("first", "second", "third"))
    elsewhere.keep = "all"  # the marker stays
    elsewhere.configure(SWEEP | {"phases": ["seq_write"]})
    assert measured(elsewhere, first, "x")[0] == 2
    first.rename(second)
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 2})
    assert measured(elsewhere, second, "x")[0] == 4
    assert seen_as(elsewhere) == (f"fuse.x {first}", f"fuse.x {second}")
    shutil.rmtree(second / "iosweep-c")
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 3})
    assert measured(elsewhere, second, "x")[0] == 6  # it was proven before
    shutil.rmtree(second / "iosweep-c")
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 4})
    found, said = measured(elsewhere, third, "x")
    assert found == 6 + 8
    before = (
        f"2 results of {elsewhere.target} on {first} (fuse.x), 4 results of {elsewhere.target} on {second} (fuse.x)"
    )
    assert f"measured again, because the target has changed: {before}; the target is " in " ".join(said.split())
    assert seen_as(elsewhere) == (f"fuse.x {third}",)


def test_more_nodes_than_there_are(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {"nodes": [2]}})
    assert "missing: 2 nodes are needed; the launcher direct reaches 1" in allocation.measure()
    assert {r["reasons"] for r in allocation.rows()} == {"2 nodes are needed; the launcher direct reaches 1"}


def no_space(allocation: Allocation) -> str:
    allocation.configure(limits={"share_of_free": "0%"})
    return "refused, nothing was written to"


def full(allocation: Allocation) -> str:
    allocation.configure(limits={"fill": "0%"})
    return "above limits.fill 0%; free space, or raise limits.fill"


@pytest.mark.parametrize("obstacle", [no_space, full])
def test_refused_before_anything_is_written(allocation: Allocation, obstacle: Any) -> None:
    sentence = obstacle(allocation)
    before = states(allocation.target)
    output = allocation.measure(code=3)
    [line] = [line for line in output.splitlines() if line.startswith("iosweep: ")]
    assert sentence in line
    assert "Traceback" not in output
    assert states(allocation.target) == before
    assert allocation.files() == []
    assert not allocation.manifest.exists()
    assert allocation.store.documents(Refusal)["1-node"].reason == line.removeprefix("iosweep: ")
    assert {r["reasons"] for r in allocation.rows()} == {line.removeprefix("iosweep: ")}


def test_a_refusal_is_removed_after_a_successful_run(allocation: Allocation) -> None:
    allocation.store.set_refusal("1-node", Refusal("the target was away"))
    allocation.store.set_refusal("2-nodes", Refusal("another one"))
    allocation.measure()
    assert set(allocation.store.documents(Refusal)) == {"2-nodes"}


def test_a_target_that_fills_up_ends_the_allocation(allocation: Allocation) -> None:
    """What was measured is kept; the rest is left to measure."""
    allocation.configure(SWEEP | {"axes": {"threads_per_node": [1, 2, 3]}, "phases": ["rand_read"]})
    program = (
        "import sys; from iosweep.commands import cli; from iosweep.target import free_space\n"
        "asked, real = [], free_space.too_much\n"
        "def too_much(*a):\n"
        "    asked.append(a)\n"
        "    return 'it is full' if len(asked) > 3 else real(*a)\n"
        "free_space.too_much = too_much\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *allocation.command()[3:]], env=allocation.environment, cwd=allocation.place,
        text=True, stderr=subprocess.PIPE, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "iosweep: it is full"
    assert not allocation.manifest.exists()
    rows = allocation.rows()
    missing = [r for r in rows if r["verdict"] == "missing"]
    assert 0 < len(missing) < 3
    assert {r["reasons"] for r in missing} == {"it is full"}
    assert [said(r) for r in rows if r not in missing] == [""] * (3 - len(missing))
    before = allocation.files()
    allocation.measure()
    assert set(before) < set(allocation.files())
    assert [said(r) for r in allocation.rows()] == [""] * 3


def test_a_target_that_cannot_be_written(allocation: Allocation) -> None:
    # sysfs lets nobody make a directory, not even root; empty files need no space, so that is all that is in the way
    allocation.target = Path("/sys/kernel")
    allocation.configure(MANY_FILES)
    output = allocation.measure(code=3)
    assert output.splitlines()[-1] == (
        f"iosweep: the target /sys/kernel cannot be written to by {user(os.getuid())};"
        " give it permission, or name another directory"
    )
    assert allocation.files() == []


def test_results_inside_the_campaigns_directory_are_refused(allocation: Allocation) -> None:
    allocation.results = allocation.ours / "results" / "c"
    assert "are inside the campaign's directory" in allocation.measure(code=3)


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return []


def in_its_middle(allocation: Allocation) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start a long measurement; returns the runner while its fio runs, and all processes below it."""
    allocation.configure(SWEEP | {"phase_time": "300s", "axes": {}, "phases": ["rand_read"]})
    running = subprocess.Popen(
        allocation.command(), env=allocation.environment, cwd=allocation.place, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    process = psutil.Process(running.pid)
    wait_for(
        lambda: len([c for c in process.children(recursive=True) if "--name=rand_read" in command_of(c)]) > 1,
        over=over(running),
    )  # fio and its worker
    return running, process.children(recursive=True)


def test_one_runner_at_a_time_and_no_process_of_a_killed_one(allocation: Allocation) -> None:
    running, below = in_its_middle(allocation)
    output = allocation.measure(code=3)
    busy = f"campaign c is being measured by process {running.pid} on {socket.gethostname()}; wait for it, or stop it"
    assert output == f"iosweep: {busy}\n"
    assert all(c.is_running() for c in below)
    running.kill()
    running.communicate()
    _, left = psutil.wait_procs(below, timeout=300)
    assert left == []
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    allocation.measure()
    assert [said(r) for r in allocation.rows()] == [""]
    assert allocation.store.documents(Refusal) == {}


# One pass

ONE_PASS = SWEEP | {"phase_time": "one_pass", "options": {"file_size": "256m", "transfer_size": "64k"}}
ONCE = 256 << 20  # so much is not over before fio's clock can tell, also on a fast device


def checks(allocation: Allocation, name: str) -> dict[tuple[int, str], tuple[str, str]]:
    """(workers, phase) -> outcome and evidence of a check."""
    threads = {p.id: int(p.options["threads_per_node"] or 0) for p in allocation.plan.points}
    found = pyarrow.parquet.read_table(allocation.results / "checks.parquet").to_pylist()
    return {(threads[c["point"]], c["phase"]): (c["outcome"], c["evidence"]) for c in found if c["check"] == name}


def test_one_pass_moves_every_file_once(allocation: Allocation) -> None:
    allocation.configure(ONE_PASS)
    allocation.measure()
    rows = {(r["threads_per_node"], r["phase"]): r for r in allocation.rows()}
    assert len(rows) == 4
    for (threads, phase), row in rows.items():
        assert said(row) == ""
        assert row["verdict"] in ("valid", "suspect")  # suspect on a busy machine
        moved = {"seq_write": "bytes_written", "rand_read": "bytes_read"}[phase]
        assert (row[moved], row["ops"], row["phase_time_s"]) == (threads * ONCE, threads << 12, None)
        assert "--time_based" not in row["command"]
    assert checks(allocation, "volume") == {key: ("pass", f"{256 * key[0]} MiB moved") for key in rows}
    # there is no time that it could have run for, or beyond
    for name in ("workers", "overtime"):
        assert {outcome for outcome, _ in checks(allocation, name).values()} <= {"not applicable"}


@pytest.mark.parametrize(("change", "moved"), [("--io_size=128m", ONCE // 2), ("--loops=2", 2 * ONCE)])
def test_another_volume_is_not_one_pass(allocation: Allocation, change: str, moved: int) -> None:
    allocation.configure(ONE_PASS | {"axes": {}})
    allocation.fake(f"""
case "$*" in *--name=rand_read*) exec "$fio" "$@" {change};; esac
exec "$fio" "$@" """)
    allocation.measure()
    rows = {r["phase"]: r for r in allocation.rows()}
    assert said(rows["seq_write"]) == ""
    assert rows["rand_read"]["verdict"] == "invalid"
    assert said(rows["rand_read"]) == f"{moved:,} bytes were moved, not {ONCE:,}"


# Where tools are started


def test_a_relative_target(allocation: Allocation) -> None:
    """Tools are started elsewhere, but what they work on is what the configuration names."""
    allocation.configure(target={"directory": "target", "keep": "all"})
    command = [argument.removeprefix(f"{allocation.place}/") for argument in allocation.command()]
    assert command != allocation.command()  # results, manifest and log as Snakemake names them
    subprocess.run(command, env=allocation.environment, cwd=allocation.place, check=True, timeout=600)
    rows = allocation.rows()
    assert [said(r) for r in rows] == [""] * 4
    assert {r["command"].split(" --directory=")[1].split("/sets/")[0] for r in rows} == {str(allocation.ours)}
    assert {f.split("/")[0] for f in states(allocation.ours)} == {"iosweep.json", "sets"}
    assert sorted(f.name for f in allocation.place.iterdir()) == ["log", "results", "sweep.yaml", "target"]
    assert not (allocation.results / "scratch").exists()


def test_a_relative_directory_on_path(allocation: Allocation) -> None:
    """The program whose hash is stored is the one that is started, not the next one on PATH."""
    allocation.configure(SWEEP | {"axes": {}})
    allocation.fake('echo it is this one >&2; exec "$fio" "$@"')
    allocation.path = os.pathsep.join(["bin", *allocation.path.split(os.pathsep)[1:]])
    allocation.measure()
    assert [said(r) for r in allocation.rows()] == ["", ""]
    [(_, record)] = plain_records_of(allocation.store, allocation.plan.points[0].id)
    assert record["tool"]["sha256"] == hashlib.sha256((allocation.place / "bin" / "fio").read_bytes()).hexdigest()
    assert [run["stderr"] for run in record["phases"]] == ["it is this one\n"] * 2


def test_files_that_a_tool_leaves_in_its_working_directory(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}})
    allocation.fake('case "$*" in *--name=*) ls -A >&2; echo x > left.behind;; esac; exec "$fio" "$@"')
    allocation.measure()
    assert not (allocation.results / "scratch").exists()
    assert not list(allocation.place.rglob("left.behind"))
    [(_, record)] = plain_records_of(allocation.store, allocation.plan.points[0].id)
    assert [run["stderr"] for run in record["phases"]] == ["", ""]  # each found it empty


@pytest.mark.parametrize("sweep", [SWEEP, MANY_FILES], ids=["while its files are prepared", "in its phase"])
def test_results_where_no_scratch_directory_can_be_made(allocation: Allocation, sweep: dict[str, Any]) -> None:
    allocation.configure(sweep)
    allocation.results.mkdir(parents=True)
    (allocation.results / "scratch").write_text("somebody's")
    output = allocation.measure(code=5)
    assert f"iosweep: the results' disk cannot be written to: {allocation.results}/scratch" in output
    assert "Traceback" not in output
    assert allocation.files() == []


# MPI

#: Four ranks of a tool that is nowhere on PATH, unless a test puts it there.
IOR: dict[str, Any] = {
    "name": "i",
    "tool": "ior",
    "phases": ["seq_write"],
    "options": {"threads_per_node": 4, "file_size": "1m", "transfer_size": "64k"},
    "phase_time": "1s",
    "repetitions": 1,
}
TOO_MANY = "4 MPI ranks are needed; the launcher direct starts 1"


def fake_ior(allocation: Allocation) -> None:
    """A program that prints the version of IOR."""
    folder = allocation.place / "bin"
    folder.mkdir()
    (folder / "ior").write_text("#!/bin/sh\necho 'IOR-4.0.0: MPI Coordinated Test of Parallel I/O'\n")
    (folder / "ior").chmod(0o755)
    allocation.path = f"{folder}{os.pathsep}{allocation.path}"


def test_more_ranks_than_the_launcher_starts(allocation: Allocation) -> None:
    allocation.configure(sweeps=[SWEEP | {"axes": {}}, IOR])
    fake_ior(allocation)
    assert f"missing: {TOO_MANY}\n" in allocation.measure("--launcher", "direct")
    rows = {r["tool"]: r for r in reversed(allocation.rows())}
    assert (rows["ior"]["verdict"], rows["ior"]["reasons"], rows["ior"]["phase"]) == ("missing", TOO_MANY, "seq_write")
    assert said(rows["fio"]) == ""  # what the launcher can start was measured
    [point] = [p for p in allocation.plan.points if p.tool == "ior"]
    assert allocation.store.missing() == {point.id: Missing(Needs(ranks=4), TOO_MANY)}
    # it is not left with this launcher, and it is with one that starts so many
    for name, left in (("direct", {}), ("mpiexec", {"1-node": {point.id: [1]}})):
        here = remaining.Here(launcher=LAUNCHERS[name])
        assert remaining.left(allocation.plan, allocation.store.results(), allocation.store.missing(), here) == left
    before = allocation.files()
    allocation.measure("--launcher", "direct")
    assert allocation.files() == before


def test_an_mpi_tool_that_is_not_there(allocation: Allocation) -> None:
    allocation.configure(IOR)
    folders = allocation.path.split(os.pathsep)
    allocation.path = os.pathsep.join(folder for folder in folders if not (Path(folder) / "ior").exists())
    output = allocation.measure("--launcher", "mpiexec")
    assert "missing: ior is not on PATH; get it with " in output
    assert not list(allocation.target.iterdir())
    assert [(r["verdict"], r["reasons"][:22]) for r in allocation.rows()] == [("missing", "ior is not on PATH; ge")]


#: The runner in an environment without the mpiexec that comes with the lock.
WITHOUT = "import sys, sysconfig; sysconfig.get_path = lambda *_: '/nonexistent'; from iosweep.commands import cli\n"


def without_mpiexec(allocation: Allocation, code: int) -> str:
    program = WITHOUT + "sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *allocation.command("--launcher", "mpiexec")[3:]]
    done = subprocess.run(
        command, env=allocation.environment, cwd=allocation.place, text=True, stderr=subprocess.PIPE, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.mark.parametrize("foreign", [False, True])
def test_no_mpiexec(allocation: Allocation, fio: Path, foreign: bool) -> None:
    allocation.configure(IOR)
    fake_ior(allocation)
    folder = allocation.place / "bin"
    allocation.path = os.pathsep.join([str(folder), "/bin"])
    if found := shutil.which("mpiexec", path="/bin"):
        pytest.skip(f"{found}: is on the PATH of the system")
    if foreign:
        (folder / "mpiexec").write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.4'\n")
        (folder / "mpiexec").chmod(0o755)
    output = without_mpiexec(allocation, 0)
    of = f" ({folder}/mpiexec is another's)" if foreign else ""
    why = (
        f"the launcher mpiexec cannot be used: there is no mpiexec of MPICH{of}; `make venv` installs one, as do"
        " apt-get install mpich and Spack"
    )
    assert f"missing: {why}\n" in output
    assert {(r["verdict"], r["reasons"]) for r in allocation.rows()} == {("missing", why)}
    assert not list(allocation.target.iterdir())
    # nobody else needs it
    allocation.configure(sweeps=[IOR, SWEEP | {"axes": {}}])
    allocation.path = os.pathsep.join([str(folder), str(fio.parent)])
    without_mpiexec(allocation, 0)
    assert [said(r) for r in allocation.rows() if r["tool"] == "fio"] == ["", ""]
    assert {r["reasons"] for r in allocation.rows() if r["tool"] == "ior"} == {why}
    # it is left once there is something new that could be it
    ior, missing = allocation.plan.points[-1], allocation.store.missing()
    assert ior.tool == "ior" and missing[ior.id].needs.mpiexec is not None
    seen = missing[ior.id].needs.mpiexec
    for found, left in ((seen, {}), ([*seen, "/new/mpiexec"], {"1-node": {ior.id: [1]}})):
        here = remaining.Here(launcher=LAUNCHERS["mpiexec"], mpiexec=found)
        assert remaining.left(allocation.plan, allocation.store.results(), missing, here) == left


TOOLS = Path(__file__).resolve().parents[1] / "support/tools"
RANKS: dict[str, Any] = {
    "name": "r",
    "tool": "ranks",
    "phases": ["create", "stat"],
    "options": {"threads_per_node": 3, "files_per_thread": 5},
    "repetitions": 2,
}


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Allocation]:
    """An allocation of a made-up tool with MPI, whose folder is in tests/support/tools."""
    with tool_folders.added(TOOLS):
        yield Allocation(tmp_path, RANKS)


def measure_ranks(allocation: Allocation, launcher: str, code: int = 0, before: str = "") -> str:
    """Measure with the tool known to the runner, after other lines of Python."""
    program = tool_folders.command(TOOLS, before)
    command = [sys.executable, "-c", program, *allocation.command("--launcher", launcher)[3:]]
    done = subprocess.run(
        command, env=allocation.environment, cwd=allocation.place, text=True, stderr=subprocess.PIPE, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr


def test_ranks_of_an_mpi_tool(ranks: Allocation) -> None:
    measure_ranks(ranks, "mpiexec")
    [point] = ranks.plan.points
    assert ranks.files() == [f"{point.id}/r00{n}-1.{kind}" for n in (1, 2) for kind in ("json", "zip")]
    rows = ranks.rows()
    assert [(r["repetition"], r["phase"], r["ops"]) for r in rows] == [
        (n, phase, 15) for n in (1, 2) for phase in ("create", "stat")
    ]
    assert [said(r) for r in rows] == [""] * 4
    hydra = mpiexec()
    assert isinstance(hydra, Mpiexec)
    for result, record in plain_records_of(ranks.store, point.id):
        assert record["launcher"] == {"name": "mpiexec", "path": hydra.path, "version": hydra.version}
        # one command for both phases, and its output once
        first, second = record["phases"]
        assert first["argv"] == second["argv"]
        assert first["argv"][0] == hydra.path
        assert first["argv"][-7:-3] == ["3", shutil.which("sh"), "-c", first["argv"][-4]]
        assert (first["leftover"], first["leftover_expected"]) == (15, 15)  # three directories of five
        archive = ranks.store.raw(result)
        assert archive
        [(step, streams)] = unpack(archive).items()
        assert (step, streams["summary"]) == ("create", b"3\n")
        assert sorted(streams["stdout"].splitlines()) == [b"rank 0", b"rank 1", b"rank 2"]
    assert not ranks.ours.exists()
    assert not (ranks.results / "scratch").exists()


def test_a_relative_directory_with_mpiexec(ranks: Allocation) -> None:
    """`PATH=.venv/bin:$PATH snakemake ...`; ranks are started elsewhere."""
    hydra = mpiexec()
    assert isinstance(hydra, Mpiexec)
    (ranks.place / "bin").mkdir()
    (ranks.place / "bin" / "mpiexec.hydra").write_text(f'#!/bin/sh\nexec {hydra.path} "$@"\n')
    (ranks.place / "bin" / "mpiexec.hydra").chmod(0o755)
    ranks.path = os.pathsep.join(["bin", ranks.path])
    measure_ranks(ranks, "mpiexec")
    assert [said(r) for r in ranks.rows()] == [""] * 4
    [(_, record), _] = plain_records_of(ranks.store, ranks.plan.points[0].id)
    assert record["launcher"]["path"].endswith("bin/mpiexec.hydra")


def test_what_is_left_only_on_this_target_has_its_mpiexec(ranks: Allocation) -> None:
    """Whether results are of this target is known after the first look at what is left."""
    both = [RANKS, SWEEP | {"axes": {}}]
    ranks.configure(sweeps=both)
    measure_ranks(ranks, "mpiexec")
    [point] = [p for p in ranks.plan.points if p.tool == "ranks"]
    for file in ranks.store.point(point.id).glob("*.json"):
        record = orjson.loads(file.read_bytes())
        file.write_bytes(
            orjson.dumps(
                record | {"target": record["target"] | {"source": "/dev/elsewhere", "volume": "/dev/elsewhere"}}
            )
        )
    ranks.configure(sweeps=[RANKS, SWEEP | {"axes": {}, "repetitions": 2}])
    measure_ranks(ranks, "mpiexec")
    found = [record for result, record in plain_records_of(ranks.store, point.id) if result.attempt == 2]
    assert len(found) == 2
    assert {record["launcher"].get("path") for record in found} == {mpiexec().path}  # type: ignore[union-attr]
    assert [said(r) for r in ranks.rows() if r["tool"] == "ranks"] == [""] * 4


def test_one_rank_needs_no_mpiexec(ranks: Allocation) -> None:
    ranks.configure(RANKS | {"options": {"threads_per_node": 1, "files_per_thread": 5}})
    measure_ranks(ranks, "direct", before="import sysconfig; sysconfig.get_path = lambda *_: '/nonexistent'")
    assert [said(r) for r in ranks.rows()] == [""] * 4
    [point] = ranks.plan.points
    for _, record in plain_records_of(ranks.store, point.id):
        assert record["launcher"]["name"] == "direct"
        assert {run["argv"][0] for run in record["phases"]} == {shutil.which("sh")}


def test_ranks_that_run_as_separate_programs(ranks: Allocation) -> None:
    """As with a program of another MPI: each of its processes runs as rank 0 of 1."""
    ranks.path = os.pathsep.join([str(ranks.place / "bin"), ranks.path])
    (ranks.place / "bin").mkdir()
    (ranks.place / "bin" / "sh").write_text('#!/bin/bash\nunset PMI_SIZE\nexec /bin/sh "$@"\n')
    (ranks.place / "bin" / "sh").chmod(0o755)
    measure_ranks(ranks, "mpiexec")
    wrong = "the tool ran with 1 rank, 3 were asked for: was it built with another MPI than its launcher?"
    assert {(r["verdict"], said(r)) for r in ranks.rows()} == {("invalid", wrong)}


def test_a_rank_that_fails(ranks: Allocation) -> None:
    ranks.path = os.pathsep.join([str(ranks.place / "bin"), ranks.path])
    (ranks.place / "bin").mkdir()
    (ranks.place / "bin" / "sh").write_text('#!/bin/bash\n[ "$PMI_RANK" != 1 ] || exit 9\nexec /bin/sh "$@"\n')
    (ranks.place / "bin" / "sh").chmod(0o755)
    measure_ranks(ranks, "mpiexec")
    for row in ranks.rows():
        assert row["verdict"] == "invalid"
        assert row["reasons"].startswith("the tool ended with exit code 9")
    assert not ranks.ours.exists()
