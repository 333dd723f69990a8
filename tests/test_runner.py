"""The runner with the real fio: what is stored, what is left on the target, and what happens when things go wrong."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from allocation import METADATA, SWEEP, Allocation, said
from iosweep.runner import seed_of

pytestmark = pytest.mark.usefixtures("fio")


@pytest.fixture
def allocation(tmp_path: Path) -> Allocation:
    return Allocation(tmp_path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, fio: Path) -> Allocation:
    """Measured once, for the tests that only look."""
    made = Allocation(tmp_path_factory.mktemp("done"), SWEEP | {"repetitions": 2})
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
    assert [(line["point"], line["repetition"], line["attempt"]) for line in lines] == [
        (p.id, n, 1) for p in done.plan.points for n in (1, 2)
    ]


def test_what_a_result_tells(done: Allocation, fio: Path) -> None:
    point = done.plan.points[1]
    record = done.store.record(done.store.results()[point.id][2])
    assert record is not None
    assert record["tool"]["path"] == str(fio)
    assert record["tool"]["version"].startswith("fio-3.")
    assert record["target"]["directory"] == str(done.target)
    assert set(record["environment"]) <= {
        "PATH",
        "LANG",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "OMP_NUM_THREADS",
        "TZ",
    }
    assert [run["phase"] for run in record["phases"]] == ["seq_write", "rand_read"]
    for run in record["phases"]:
        assert run["argv"][0] == "fio"
        assert f"--randseed={seed_of(1, point.id, 2, run['phase'])}" in run["argv"]
        assert run["exit_code"] == 0
        assert run["headline"] > 0
        assert run["left_behind"] == 0
        assert run["files"]["wrong"] == []
    assert record["node"] in done.store.documents("nodes")


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
    assert set(done.store.documents("sets")) == {"sets.fio-read-256k-1", "sets.fio-write-256k-1"}
    assert [f.name for f in done.target.iterdir()] == ["iosweep-c"]


def test_nothing_left_does_nothing(done: Allocation) -> None:
    before = states(done.place)
    done.measure()
    after = states(done.place)
    assert {f for f in after if after[f] != before.get(f)} <= {"log", "results/c/manifests/m.jsonl"} | {
        f for f in after if f.startswith("results/c/plans/")
    }


def test_sets_are_prepared_once(allocation: Allocation) -> None:
    allocation.measure()
    before = states(allocation.ours / "sets" / "fio-read-256k-1")
    allocation.configure(SWEEP | {"repetitions": 2})
    allocation.measure()
    assert states(allocation.ours / "sets" / "fio-read-256k-1") == before
    assert len(allocation.store.results()[allocation.plan.points[0].id]) == 2


def shorten(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(1000)


def punch(file: Path) -> None:
    file.unlink()
    with file.open("wb") as handle:
        handle.truncate(256 << 10)


@pytest.mark.parametrize("harm", [shorten, punch, Path.unlink])
def test_a_set_that_somebody_damaged_is_made_again(allocation: Allocation, harm: Any) -> None:
    allocation.measure()
    victim = allocation.ours / "sets" / "fio-read-256k-1" / "1.0"
    harm(victim)
    allocation.configure(SWEEP | {"repetitions": 2})
    allocation.measure()
    assert victim.stat().st_size == 256 << 10
    assert victim.stat().st_blocks * 512 >= 256 << 10
    assert [said(r) for r in allocation.rows()] == [""] * 8


def test_a_removed_campaign_directory_is_made_again(allocation: Allocation) -> None:
    # `rm -r` on the target is what a user does to free space
    allocation.measure()
    subprocess.run(["rm", "-r", str(allocation.ours)], check=True)
    allocation.configure(SWEEP | {"repetitions": 2})
    allocation.measure()
    assert [said(r) for r in allocation.rows()] == [""] * 8


def test_new_files_are_removed_with_their_repetition(allocation: Allocation) -> None:
    options = SWEEP["options"] | {"write_mode": "new", "file_size": "64m"}
    allocation.configure(SWEEP | {"phases": ["seq_write"], "options": options, "axes": {}})
    allocation.measure()
    assert list(states(allocation.ours)) == ["iosweep.json"]
    [row] = allocation.rows()
    assert row["write_mode"] == "new"
    assert said(row) == ""


def test_metadata_phases(allocation: Allocation) -> None:
    allocation.configure(METADATA)
    allocation.measure()
    rows = allocation.rows()
    assert [(r["phase"], r["ops"]) for r in rows] == [("create", 20_000), ("stat", 20_000), ("delete", 20_000)]
    assert [said(r) for r in rows] == ["", "", ""]
    assert list(states(allocation.ours)) == ["iosweep.json"]


def test_a_file_that_is_lost_after_create_is_seen(allocation: Allocation) -> None:
    allocation.configure(METADATA)
    allocation.fake("""
for argument; do case "$argument" in --directory=*) directory=${argument#--directory=};; esac; done
"$fio" "$@"; code=$?
case "$*" in *--name=create*) rm "$directory/0.17";; esac
exit $code""")
    allocation.measure()
    rows = {r["phase"]: r for r in allocation.rows()}
    assert rows["create"]["verdict"] == "invalid"
    assert said(rows["create"]) == "19,999 files are there after create, not 20,000"
    assert rows["delete"]["verdict"] == "invalid"  # fio stops at the one that is not there
    assert list(states(allocation.ours)) == ["iosweep.json"]


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


def test_a_killed_tool_is_tried_again(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]}, limits={"fill": "100%"})
    allocation.fake("""
case "$*" in *--name=rand_read*) [ -e "$0.killed" ] || { : > "$0.killed"; kill -KILL $$; };; esac
exec "$fio" "$@" """)
    allocation.measure()
    [point] = allocation.plan.points
    first = orjson.loads((allocation.store.point(point.id) / "r001-1.json").read_bytes())
    assert first["retry"] == "the tool was killed by signal 9"
    assert allocation.store.results()[point.id][1].attempt == 2
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
    assert row["reasons"].startswith("the tool was killed by signal 9; fio printed nothing")


def test_workers_that_outlive_their_parent_are_ended(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    allocation.fake('"$fio" "$@"; code=$?; setsid sleep 1234.5 > /dev/null 2>&1 & exit $code')
    allocation.measure()
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "1234.5"]]
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


def test_a_tool_that_does_not_run(allocation: Allocation) -> None:
    allocation.fake("echo broken >&2; exit 3")
    assert "does not run: exit code 3 broken" in allocation.measure()
    assert {r["verdict"] for r in allocation.rows()} == {"missing"}


def test_more_nodes_than_there_are(allocation: Allocation) -> None:
    allocation.configure(SWEEP | {"axes": {"nodes": [2]}})
    assert "missing: 2 nodes are needed; the launcher direct reaches 1" in allocation.measure()
    assert {r["reasons"] for r in allocation.rows()} == {"2 nodes are needed; the launcher direct reaches 1"}


def foreign(allocation: Allocation) -> str:
    allocation.ours.mkdir()
    (allocation.ours / "precious").write_text("x")
    return "exists, but has no marker iosweep.json of ours; it is left alone"


def linked(allocation: Allocation) -> str:
    (allocation.place / "precious").mkdir()
    allocation.ours.symlink_to(allocation.place / "precious")
    return "is a symbolic link; it is not followed"


def gone(allocation: Allocation) -> str:
    allocation.target.rmdir()
    return "does not exist; is the file system mounted?"


def a_file(allocation: Allocation) -> str:
    allocation.target.rmdir()
    allocation.target.write_text("x")
    return "is not a directory"


def no_space(allocation: Allocation) -> str:
    allocation.configure(limits={"share_of_free": "0%"})
    return "refused, nothing was written to"


def full(allocation: Allocation) -> str:
    allocation.configure(limits={"fill": "0%"})
    return "above limits.fill 0%; free space, or raise limits.fill"


@pytest.mark.parametrize("obstacle", [foreign, linked, gone, a_file, no_space, full])
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


def test_a_target_that_cannot_be_written(allocation: Allocation) -> None:
    # sysfs lets nobody make a directory, not even root; empty files need no space, so that is all that is in the way
    allocation.target = Path("/sys/kernel")
    allocation.configure(METADATA)
    output = allocation.measure(code=3)
    assert "iosweep: " in output
    assert "Operation not permitted" in output or "Read-only file system" in output or "Permission denied" in output
    assert "Traceback" not in output
    assert allocation.files() == []


def test_results_inside_the_campaigns_directory_are_refused(allocation: Allocation) -> None:
    allocation.results = allocation.ours / "results" / "c"
    assert "are inside the campaign's directory" in allocation.measure(code=3)


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_good_order(allocation: Allocation, number: int) -> None:
    allocation.configure(SWEEP | {"phase_time": "300s", "axes": {}, "phases": ["rand_read"]})
    running = subprocess.Popen(
        allocation.command(), env=allocation.environment, cwd=allocation.place, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    process = psutil.Process(running.pid)
    end = time.monotonic() + 60
    while not [c for c in process.children(recursive=True) if "--name=rand_read" in command_of(c)]:
        assert time.monotonic() < end
        time.sleep(0.02)
    time.sleep(0.2)  # its workers
    tools = process.children(recursive=True)
    running.send_signal(number)
    _, output = running.communicate(timeout=60)
    assert running.returncode == 130
    name = signal.Signals(number).name
    assert f"stopped by {name}; what was measured is stored, the next run goes on from there" in output
    assert "Traceback" not in output
    assert not [t for t in tools if t.is_running() and t.status() != psutil.STATUS_ZOMBIE]
    assert allocation.files() == []
    allocation.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    allocation.measure()
    assert [said(r) for r in allocation.rows()] == [""]
