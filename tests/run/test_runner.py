"""One allocation on a scripted machine: what is stored, what is left on the target, and what goes wrong."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import scripted
from campaign import MANY_FILES, SWEEP
from iosweep.errors import AGENT_ENDED, ExitCode, TargetError
from iosweep.node import environment, process
from iosweep.node.facts import NodeFacts
from iosweep.node.process import Stopped
from iosweep.plan.model import seed_of
from iosweep.store.record import DataSet, Refusal
from machine import Scripted
from records import plain_records_of

ONE: dict[str, Any] = SWEEP | {"axes": {}}
READ: dict[str, Any] = ONE | {"phases": ["rand_read"]}
WRITE: dict[str, Any] = ONE | {"phases": ["seq_write"]}
FILES: dict[str, Any] = MANY_FILES | {"options": {"files_per_thread": 100}}
Run = Callable[[], process.Completed]


def states(directory: Path) -> dict[str, tuple[int, int]]:
    """(size, mtime) of every file below a directory."""
    return {
        str(f.relative_to(directory)): (f.stat().st_size, f.stat().st_mtime_ns)
        for f in directory.rglob("*")
        if f.is_file()
    }


def verdicts(made: Scripted) -> list[str]:
    return [row["verdict"] for row in made.rows()]


def records(made: Scripted) -> list[dict[str, Any]]:
    """The stored tries of the first point, those that do not count included."""
    files = sorted(made.store.point(made.plan.points[0].id).glob("*.json"))
    return [msgspec.json.decode(file.read_bytes()) for file in files]


def prepared(made: Scripted) -> int:
    return sum("--name=prepare" in line for line in made.machine.ran)


# What is stored


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    """Measured once, for the tests that only look."""
    made = Scripted(tmp_path_factory.mktemp("done"), SWEEP | {"repetitions": 2}, keep="data_sets")
    made.measure()
    return made


def test_every_repetition_is_stored_and_in_the_manifest(done: Scripted) -> None:
    expected = [f"{p.id}/r00{n}-1.{kind}" for p in done.plan.points for n in (1, 2) for kind in ("json", "zip")]
    assert done.files() == sorted(expected)
    lines = [msgspec.json.decode(line) for line in done.manifest.read_bytes().splitlines()]
    assert [(line["point"], line["repetition"], line["attempt"]) for line in lines] == [
        (p.id, n, 1) for p in done.plan.points for n in (1, 2)
    ]


def test_a_record_says_what_was_run_and_a_row_what_it_did(done: Scripted) -> None:
    point, program = done.plan.points[1], f"{done.place}/bin/fio"
    record = next(record for record in plain_records_of(done.store, point.id) if record["repetition"] == 2)
    assert (record["tool"]["path"], record["tool"]["version"]) == (program, "fio-3.33")
    assert record["target"]["directory"] == str(done.target)
    assert set(record["environment"]) <= set(environment.RECORDED)
    assert record["node"] in done.store.documents(NodeFacts)
    assert [run["phase"] for run in record["phases"]] == ["seq_write", "rand_read"]
    for run in record["phases"]:
        assert run["argv"][0] == program
        assert f"--randseed={seed_of(1, point.id, 2, run['phase'])}" in run["argv"]
        assert (run["exit_code"], run["left_behind"], run["files"]["wrong"]) == (0, [], [])
    found = [(row["repetition"], row["threads_per_node"], row["phase"], row["verdict"]) for row in done.rows()]
    assert sorted(found) == sorted((n, t, p, "valid") for n in (1, 2) for t in (1, 2) for p in SWEEP["phases"])
    assert {row["ops_per_s"] / row["threads_per_node"] for row in done.rows()} == {scripted.PER_WORKER}


def test_reads_and_writes_have_sets_of_their_own(done: Scripted) -> None:
    assert {f: size for f, (size, _) in states(done.ours).items() if f != "iosweep.json"} == {
        f"sets/fio-{role}-256k-1/{job}.0": 256 << 10 for role in ("read", "write") for job in (0, 1)
    }
    assert set(done.store.documents(DataSet)) == {"sets.fio-read-256k-1", "sets.fio-write-256k-1"}
    assert [f.name for f in done.target.iterdir()] == ["iosweep-c"]


def test_with_nothing_left_nothing_runs_and_no_target_is_needed(done: Scripted) -> None:
    manifest, files, ran = done.manifest.read_bytes(), done.files(), len(done.machine.ran)
    done.manifest.unlink()
    away = done.target.rename(done.place / "away")
    try:
        done.measure()
    finally:
        away.rename(done.target)
    assert (done.manifest.read_bytes(), done.files(), len(done.machine.ran)) == (manifest, files, ran)


def test_a_relative_target_is_that_of_the_working_directory(made: Scripted) -> None:
    made.configure(READ, target={"directory": "target", "keep": "data_sets"})
    made.measure()
    [row] = made.rows()
    assert row["verdict"] == "valid"
    assert f" --directory={made.ours}/sets/" in row["command"]
    assert {f.split("/")[0] for f in states(made.ours)} == {"iosweep.json", "sets"}


# Files on the target


def test_a_set_is_prepared_once_and_files_of_a_killed_repetition_go(tmp_path: Path) -> None:
    made = Scripted(tmp_path, READ, keep="data_sets")
    made.measure()
    before = states(made.ours / "sets")
    (made.ours / "fresh" / "p-r1").mkdir(parents=True)
    (made.ours / "fresh" / "p-r1" / "0.0").write_bytes(bytes(1 << 20))
    made.configure(READ | {"repetitions": 2})
    made.measure()
    assert list((made.ours / "fresh").iterdir()) == []
    assert (states(made.ours / "sets"), prepared(made), verdicts(made)) == (before, 1, ["valid"] * 2)


def shorten(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(1000)


def punch(file: Path) -> None:
    size = file.stat().st_size
    file.unlink()
    with file.open("wb") as handle:
        handle.truncate(size)


def test_a_damaged_set_is_prepared_again_before_it_is_read(tmp_path: Path) -> None:
    made = Scripted(tmp_path, READ, keep="data_sets")
    made.measure()
    victim = made.ours / "sets" / "fio-read-256k-1" / "0.0"
    harms = (shorten, punch, Path.unlink, lambda file: shutil.rmtree(file.parents[2]))
    for number, harm in enumerate(harms, 2):
        harm(victim)
        made.configure(READ | {"repetitions": number})
        made.measure()
        assert (victim.stat().st_size, prepared(made)) == (256 << 10, number)
        assert victim.stat().st_blocks * 512 >= 256 << 10
    assert verdicts(made) == ["valid"] * 5


def rewritten(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def test_a_set_that_changes_while_it_is_read_makes_that_repetition_invalid(tmp_path: Path) -> None:
    harms = [shorten, punch, Path.unlink, rewritten]
    made = Scripted(tmp_path, READ | {"repetitions": len(harms) + 1})

    def during(call: scripted.Call, run: Run) -> process.Completed:
        done = run()
        if not call.prepares and left:
            left.pop(0)(next(Path(call.options["directory"]).iterdir()))
        return done

    left, made.machine.during = list(harms), during
    made.measure()
    assert verdicts(made) == ["invalid"] * len(harms) + ["valid"]
    found = {row["repetition"]: row["outcome"] for row in made.checks("unchanged")}
    assert [found[n + 1] for n in range(len(harms) + 1)] == ["fail"] * len(harms) + ["pass"]
    assert prepared(made) == len(harms) + 1


def test_a_file_that_is_lost_after_create_is_seen(made: Scripted) -> None:
    made.configure(FILES)
    made.machine.play({"when": "--name=create", "remove": "0.17"})
    made.measure()
    assert {r["phase"]: r["verdict"] for r in made.rows()}["create"] == "invalid"
    assert "create" in {row["phase"] for row in made.checks("file_count") if row["outcome"] == "fail"}
    assert not made.ours.exists()


# What fails


SERVER_GONE: scripted.Rule = {
    "when": "--name=seq_write",
    "exit_code": 1,
    "stderr": "fio: pid=7, err=107/file:io_u.c:1876, func=io_u error, error=Transport endpoint is not connected\n",
}


def test_servers_that_fail_repeatedly_end_the_allocation_and_nothing_is_stored(made: Scripted) -> None:
    """Otherwise all that is left would fail at once, and count as done."""
    made.configure(SWEEP | {"phases": ["seq_write"]})
    made.machine.play(SERVER_GONE)
    for runs in (2, 4):
        made.measure(code=ExitCode.REFUSED)
        assert (made.files(), list(made.ours.glob("fresh/*"))) == ([], [])
        assert sum("--name=seq_write" in line for line in made.machine.ran) == runs


#: What has a limit of the node, or somebody who kills our processes, fail a tool: its start, or what it says.
LIMITS: dict[str, OSError | str] = {
    "fork": BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable", "fio"),
    "files of ours": OSError(errno.EMFILE, "Too many open files", "fio"),
    "agent": TargetError(0, f"{AGENT_ENDED} (killed by signal 9)"),
    "threads": "pthread_create: Resource temporarily unavailable\nfio: 1 job failed to start\n",
    "processes": "fio: job startup hung? exiting.\nfio: 9 jobs failed to start\n",
    "files": "fio: try reducing/setting openfiles (failed at 53 of 100)\n",
    "files of the node": "fio: pid=7, err=23/file:filesetup.c:240, func=open, error=Too many open files in system\n",
    "memory": "[proxy:0@n1] HYDU_create_process: fork failed (Cannot allocate memory)\n",
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_the_node_end_the_allocation_and_leave_repetitions_open(made: Scripted, name: str) -> None:
    said = LIMITS[name]

    def fails(_: scripted.Call, run: Run) -> process.Completed:
        if isinstance(said, OSError):
            raise said
        return replace(run(), exit_code=1, stdout=b"", stderr=said.encode())

    made.configure(WRITE | {"repetitions": 3})
    made.machine.during = fails
    made.measure(code=ExitCode.REFUSED)
    [refusal] = made.store.documents(Refusal).values()
    assert not refusal.lasting
    assert records(made) == []
    made.machine.during = lambda _, run: run()
    made.measure()
    assert verdicts(made) == ["valid"] * 3


def test_a_server_that_fails_once_uses_no_try(made: Scripted) -> None:
    made.configure(WRITE)
    made.machine.play(SERVER_GONE | {"times": 1})
    made.measure()
    first, second = records(made)
    assert first["retry"] and [first["retried"], second["retried"]] == [False, False]
    [point] = made.plan.points
    assert made.store.repetitions()[point.id][1].attempt == 2
    assert verdicts(made) == ["valid"]


def killed(**more: Any) -> scripted.Rule:
    return {"when": "--name=rand_read", "signal": 9, **more}


def test_a_killed_tool_is_tried_once_more_and_the_second_try_counts(made: Scripted) -> None:
    made.configure(READ, limits={"fill": "100%"})
    made.machine.play(killed(times=1))
    made.measure()
    first, second = records(made)
    assert [first["phases"][0]["exit_code"], first["retried"], second["retried"]] == [-9, False, True]
    assert first["retry"] and not second["retry"]
    assert [(row["attempt"], row["verdict"]) for row in made.rows()] == [(2, "valid")]


def test_tries_end_after_the_second_and_another_build_has_its_own(made: Scripted) -> None:
    made.configure(READ, limits={"fill": "100%"})
    made.machine.play(killed())
    made.measure()
    made.measure()
    assert [r["retried"] for r in records(made)] == [False, True]
    assert verdicts(made) == ["invalid"]
    program = made.place / "bin/fio"
    program.write_text(f"{program.read_text()}# another build\n")
    made.measure()
    assert [r["retried"] for r in records(made)] == [False, True, False, True]
    assert len({r["tool"]["sha256"] for r in records(made)}) == 2


# What cannot be measured


def test_results_on_the_target_are_refused_before_anything_is_written(made: Scripted) -> None:
    made.results = made.ours / "results" / "c"
    made.measure(code=ExitCode.REFUSED)
    assert made.machine.ran == [] and made.files() == [] and not (made.ours / "sets").exists()


def test_a_refusal_that_was_cured_is_withdrawn_before_a_tool_runs(made: Scripted) -> None:
    made.configure(READ)
    made.store.mark()
    for name in ("1-node", "2-nodes"):
        made.store.set_refusal(name, Refusal("the target was away"))
    seen: list[set[str]] = []

    def during(call: scripted.Call, run: Run) -> process.Completed:
        seen.append(set(made.store.documents(Refusal)))
        return run()

    made.machine.during = during
    made.measure()
    assert seen == [{"2-nodes"}] * 2  # of the set, and of the phase: were we killed, it would still be shown


# CPUs


def test_workers_are_looked_at_and_bound_only_where_that_is_asked_for(made: Scripted) -> None:
    made.configure(READ)
    made.measure()
    [run] = records(made)[0]["phases"]
    assert (run["cpus"]["pinning"], run["cpus"].get("planned")) == ("verify", None)
    assert run["cpus"]["nodes"][0]["seen"] == 1
    assert not [word for word in run["argv"] if "cpus_allowed" in word]
    assert {row["outcome"] for row in made.checks("pinned")} == {"not checked"}
    made.configure(READ, pinning="enforce")
    made.measure()
    [run] = records(made)[1]["phases"]
    assert [word for word in run["argv"] if "cpus_allowed" in word]
    assert {row["outcome"] for row in made.checks("pinned")} == {"pass"}
    assert verdicts(made) == ["valid"]


def test_workers_that_ran_on_other_cpus_than_they_were_bound_to_are_invalid(made: Scripted) -> None:
    made.configure(READ, pinning="enforce")
    made.machine.mask = "500-501"
    made.measure()
    assert verdicts(made) == ["invalid"]
    assert "pinned" in made.failed()


def test_a_node_without_a_cpu_that_is_not_reserved_is_refused(made: Scripted) -> None:
    made.configure(READ, pinning="enforce", cpus={"reserved": f"0-{max(os.sched_getaffinity(0))}"})
    made.measure(code=ExitCode.REFUSED)
    assert not made.ours.exists()


def test_what_a_signal_interrupts_leaves_no_files(made: Scripted) -> None:
    def stopped(call: scripted.Call, run: Run) -> process.Completed:
        run()
        if "--name=prepare" in call.line:
            return run()
        assert any((made.ours / "fresh").rglob("0.*"))
        raise Stopped("SIGINT")

    made.configure(FILES)
    made.machine.during = stopped
    made.measure(code=ExitCode.INTERRUPTED)
    assert not list((made.ours / "fresh").rglob("*"))
