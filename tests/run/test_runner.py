"""The runner with the real fio: what is stored, what is left on the target, and what happens when things go wrong."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.parquet
import pytest

from campaign import MANY_FILES, SWEEP, Allocation, said
from iosweep.commands.watch.snapshot import Campaign as Watched
from iosweep.errors import ExitCode
from iosweep.files.logged import ENDED
from iosweep.node import node_facts
from iosweep.node.node_facts import NodeFacts
from iosweep.node.procfs import user_name
from iosweep.plan.model import seed_of
from iosweep.results.campaign_documents import DataSet, Refusal
from iosweep.results.columns import NOT_YET
from iosweep.results.reasons import REASONS
from records import plain_records_of
from waiting import over, wait_for

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]


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
    lines = [msgspec.json.decode(line) for line in done.manifest.read_bytes().splitlines()]
    assert [(line["point"], line["repetition"], line["attempt"]) for line in lines] == [
        (p.id, n, 1) for p in done.plan.points for n in (1, 2)
    ]


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
        assert run["left_behind"] == []
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
    kept.configure(SWEEP | {"axes": {}})
    assert "note: the results are on the file system under test" in kept.measure()
    before = states(kept.ours / "sets" / "fio-read-256k-1")
    # what a repetition that was killed has left goes, too
    (kept.ours / "fresh" / "p-r1").mkdir(parents=True)
    (kept.ours / "fresh" / "p-r1" / "0.0").write_bytes(bytes(1 << 20))
    kept.configure(SWEEP | {"axes": {}, "repetitions": 2})
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


def remove_all(file: Path) -> None:
    """What a user does to free space."""
    shutil.rmtree(file.parents[2])


def test_a_damaged_set_is_prepared_again(kept: Allocation) -> None:
    """So is one that is gone with the campaign's directory. Each time, the next repetition finds it."""
    one = SWEEP | {"axes": {"threads_per_node": [2]}}
    kept.configure(one)
    kept.measure()
    victim = kept.ours / "sets" / "fio-read-256k-1" / "1.0"
    for number, harm in enumerate((shorten, punch, Path.unlink, remove_all), 2):
        harm(victim)
        kept.configure(one | {"repetitions": number})
        kept.measure()
        assert victim.stat().st_size == 256 << 10
        assert victim.stat().st_blocks * 512 >= 256 << 10
    rows = kept.rows()
    assert len(rows) == 10
    reasons = {reason for row in rows for reason in said(row).split(REASONS)}
    # five short phases on a busy machine need not agree
    assert not [reason for reason in reasons if reason and not reason.startswith("not repeatable: ")]


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
    107: ("Transport endpoint is not connected", "the target's client or server is gone"),
}


@pytest.mark.parametrize("number", SERVER_GONE)
def test_servers_that_fail_repeatedly_end_the_allocation(allocation: Allocation, number: int) -> None:
    """Otherwise all that is left would fail at once, and count as done."""
    words, cause = SERVER_GONE[number]
    says = f"fio: pid=7, err={number}/file:io_u.c:1876, func=io_u error, error={words}"
    points = {"axes": {"threads_per_node": [1, 2, 3]}, "phases": ["seq_write"]}
    allocation.configure(SWEEP | points, limits={"fill": "100%"})  # with a budget of tries
    allocation.fake(f'case "$*" in *--name=seq_write*) echo "{says}" >&2; exit 1;; esac; exec "$fio" "$@"')
    for _ in range(2):
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
    tries = [msgspec.json.decode((allocation.store.point(point.id) / f"r001-{n}.json").read_bytes()) for n in (1, 2)]
    assert "the target's client or server is gone" in tries[0]["retry"]
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
    first = msgspec.json.decode((allocation.store.point(point.id) / "r001-1.json").read_bytes())
    assert first["retry"] == "the tool was killed by signal 9"
    second = allocation.store.results()[point.id][1]
    assert (first["retried"], second.retried, second.attempt) == (False, True, 2)
    lines = output.splitlines()
    after = lines.index("1 repetition is repeated: another try may help")
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
    records = [msgspec.json.decode(f.read_bytes()) for f in sorted(allocation.store.point(point.id).glob("*.json"))]
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
    assert all(r["ops_per_s"] for r in allocation.rows())
    assert allocation.store.missing() == {}


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


def test_a_refusal_that_was_cured_is_not_shown_of_a_run_that_was_killed(allocation: Allocation) -> None:
    """Neither in the tables nor as the last words of the log, which both runs have."""
    why = "the target cannot be written to by user ann"
    allocation.configure(LONG)
    allocation.store.set_refusal("1-node", Refusal(why))
    log = allocation.results / f"logs/{allocation.plan.allocations[0].name}.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"{ENDED}{why}\n")
    running, below = in_its_middle(allocation, "--log", str(log))
    running.kill()
    running.communicate()
    psutil.wait_procs(below, timeout=300)
    assert allocation.store.documents(Refusal) == {}
    assert {row["reasons"] for row in allocation.rows() if row["left"]} == {NOT_YET}
    [seen] = Watched(allocation.results).look().allocations
    assert (seen.state, seen.why) == ("stopped", "")


def test_a_target_that_fills_up_ends_the_allocation(allocation: Allocation) -> None:
    """What was measured is kept; the rest is left to measure."""
    allocation.configure(SWEEP | {"axes": {"threads_per_node": [1, 2, 3]}, "phases": ["rand_read"]})
    program = (
        "import sys; from iosweep.commands import cli; from iosweep.target import space\n"
        "asked, real = [], space.too_much\n"
        "def too_much(*a):\n"
        "    asked.append(a)\n"
        "    return 'it is full' if len(asked) > 3 else real(*a)\n"
        "space.too_much = too_much\n"
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
        f"iosweep: user {user_name(os.getuid())} cannot write to the target /sys/kernel (mode 0755, owner root);"
        " give that user write permission, or name another directory"
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


LONG = SWEEP | {"phase_time": "300s", "axes": {}, "phases": ["rand_read"]}


def in_its_middle(allocation: Allocation, *arguments: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start a long measurement; returns the runner while its fio runs, and all processes below it."""
    allocation.configure(LONG)
    running = subprocess.Popen(
        allocation.command(*arguments), env=allocation.environment, cwd=allocation.place, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
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
    assert output.startswith(f"iosweep: campaign c is being measured by process {running.pid} of user ")
    assert all(c.is_running() for c in below)
    assert allocation.store.documents(Refusal) == {}  # the other one has the say
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
    assert said(rows["rand_read"]).endswith(
        f"{change[2:]}, which was not asked for | {moved:,} bytes were moved, not {ONCE:,}"
    )


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
