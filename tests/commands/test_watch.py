"""`iosweep watch`: how far a campaign is, from its store, squeue and locks; nothing is changed by looking."""

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console, Group
from syrupy.assertion import SnapshotAssertion

from campaign import BEGAN, SWEEP, Made, iso, keep_plan, make
from iosweep.commands import cli, watch
from iosweep.commands.terminal import safe_console
from iosweep.commands.watch import AllocationProgress, Progress, read_progress
from iosweep.jobs.pending import Queue
from iosweep.judge.remaining import RunTimes, pace, run_times, to_go_s
from iosweep.plan.model import Plan
from iosweep.store.record import DataSet, Missing, Needs, Refusal
from machine import Scripted
from slurm import Cluster
from waiting import wait_for


class Watched(Made):
    """A made campaign that is watched."""

    def __init__(self, place: Path, plan: Plan):
        super().__init__(place, plan)
        keep_plan(plan, self.results)

    def read(self) -> Progress:
        return read_progress(self.results, Queue())


@pytest.fixture
def made(tmp_path: Path) -> Watched:
    return Watched(tmp_path, make(tmp_path))


def shown(snapshot: Progress, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    console.print(Group(*watch.draw(snapshot)))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


# --- how long it will take


def test_the_rest_of_a_steady_campaign_takes_as_long_as_its_first_points(tmp_path: Path) -> None:
    plan = make(tmp_path)
    for took_s in (1.2, 1.9, 4.0):
        found = pace(plan, [RunTimes(p.id, BEGAN, took_s) for p in plan.points[:3]])
        there = {"sets.fio-read-16m-1": DataSet(files=2)}
        rest_s = to_go_s(plan, found, {p.id: 2 for p in plan.points[3:]}, there)
        assert rest_s == pytest.approx(took_s * 2 * len(plan.points[3:]))


def test_data_sets_that_are_not_there_take_as_long_as_the_others_did(made: Watched) -> None:
    point = made.plan.points[0]
    sets = {"sets.fio-read-16m-1": DataSet(wall_s=20.0, files=1, file_size_bytes=16 << 20)}
    found = pace(made.plan, [run_times(made.record(point, 1.4, before_s=20.5))])  # its set was prepared before
    two = next(p for p in made.plan.points if p.options["threads_per_node"] == 2)
    assert to_go_s(made.plan, found, {point.id: 1}, sets) == pytest.approx(1.4)
    assert to_go_s(made.plan, found, {two.id: 1}, sets) == pytest.approx(1.4 + 40)


# --- what the store says


def test_nothing_measured_is_no_error(made: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [allocation] = made.read().allocations
    assert (allocation.state, allocation.repetitions_done, allocation.repetitions_left) == ("not begun", 0, 12)
    made.measure(made.plan.points[0])
    shutil.rmtree(made.results / "plans")
    assert cli.main(["watch", str(made.results), "--once"]) == 0
    assert "no plan" in capsys.readouterr().out
    assert cli.main(["watch", str(tmp_path / "none")]) == 1


def test_what_is_done_and_left_is_counted(
    made: Watched, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = made.plan.points
    for point in points[:6]:
        made.measure(point)
    busy = {"verdict": "suspect", "reasons": ["other processes used 40% of the CPU time"]}
    ran = {"phase": "rand_read", "started": iso(made.clock), "wall_s": 1.4, "headline": 5.0e6, "argv": ["fio"]}
    made.measure(points[6], phases=[ran | busy])
    made.measure(points[7], phases=[ran | {"headline": None, "verdict": "invalid", "reasons": ["x"]}])
    made.store.set_missing(points[8].id, Missing(Needs(tool="fio"), "fio is not on PATH"))
    made.store.put("", "spent", {"spent_s": 75.0})
    found = made.read()
    [a] = found.allocations
    assert (a.repetitions_done, a.repetitions_left) == (8, 3)
    assert found.counts == {"complete": 8, "missing": 1, "left": 3}
    assert a.to_go_s == pytest.approx(3 * 1.4, rel=0.1)
    assert [f.point for f in found.newest] == [p.id for p in points[7:2:-1]]
    assert not found.over
    in_utc(monkeypatch)
    assert shown(replace(found, now=BEGAN, results="results/quick"), 120) == snapshot


def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "local_time", lambda s: datetime.fromtimestamp(s, UTC))


def test_what_is_tried_again_or_of_another_build_is_not_done(made: Watched) -> None:
    made.measure(made.plan.points[0], retry="other processes used 40% of the CPU time")
    made.measure(made.plan.points[1], tool={"sha256": "old", "version": "1"})
    made.measure(made.plan.points[2])
    [a] = made.read().allocations
    assert (a.repetitions_done, a.repetitions_left) == (1, 11)


def test_damaged_results_are_named_and_not_counted_as_done(made: Watched) -> None:
    for point in made.plan.points[:4]:
        made.measure(point)
    folders = [made.store.point(p.id) for p in made.plan.points[:4]]
    (folders[0] / "r001-1.zip").unlink()
    (folders[1] / "r001-1.json").write_text("{")
    record = msgspec.json.decode((folders[2] / "r001-1.json").read_bytes())
    (folders[2] / "r001-1.json").write_bytes(msgspec.json.encode(record | {"started": "yesterday", "target": {}}))
    found = made.read()
    assert found.allocations[0].repetitions_done == 1
    for folder, kind in zip(folders, ("zip", "json", "json"), strict=False):
        assert f"{folder.name}/r001-1.{kind} is damaged" in " ".join(found.wrong)
    (made.results / "plans" / f"{made.plan.digest}.json").write_text("{}")
    [line] = made.read().wrong
    assert f"{made.plan.digest}.json is damaged" in line


def test_an_allocation_that_ended_says_why(made: Watched) -> None:
    def state() -> tuple[str, str]:
        [a] = made.read().allocations
        return a.state, a.why

    made.measure(made.plan.points[0])
    assert state() == ("stopped", "")
    made.store.set_refusal("1-node", Refusal("no /mnt\x1b[2J"))
    assert state() == ("refused", r"no /mnt\x1b[2J")
    for how in ("stopped", "short_of_time"):  # a job that was stopped was not refused
        made.store.set_refusal("1-node", Refusal("SIGTERM", **{how: True}))
        assert state() == ("stopped", "SIGTERM")


# --- who is at it


def job(cluster: Cluster, made: Watched, place: Path, *options: str) -> str:
    """A job like that of the rule; returns its number."""
    allocation = made.plan.allocations[0]
    comment = f"iosweep_quick_{allocation.name}"
    command = ["sbatch", "--parsable", f"--comment={comment}", "--exclusive", "-o", "/dev/null", "-D", str(place)]
    return cluster.run([*command, *options, "--wrap", "sleep 600"]).stdout.strip()


def test_jobs_of_the_campaign_are_seen_waiting_and_running(slurm: Cluster, made: Watched, tmp_path: Path) -> None:
    def seen() -> dict[str, Any]:
        command = [sys.executable, "-m", "iosweep", "watch", "--json", str(made.results)]
        found: dict[str, Any] = json.loads(slurm.run(command).stdout)["allocations"][0]
        return found

    other = tmp_path / "elsewhere"
    other.mkdir()
    job(slurm, made, other, "-N1", "-w", "n1", "-t9")  # of the same campaign in another directory
    assert seen()["state"] == "not begun"
    number = job(slurm, made, tmp_path, "-N1", "-w", "n1", "-t5")
    found = wait_for(lambda: (looked := seen())["why"] and looked)  # until Slurm has looked at it
    assert (found["state"], found["job"]) == ("waiting", number)
    running = job(slurm, made, tmp_path, "-N1", "-w", "n2", "-t5")
    found = wait_for(lambda: (looked := seen())["state"] == "measuring" and looked)
    assert (found["job"], found["hosts"]) == (running, ["n2"])
    slurm.cancel()
    assert seen()["state"] == "not begun"


# --- what a person sees

WAITING = AllocationProgress(
    "2-nodes", "2 nodes", 2, "waiting", "nodes are busy (Resources)", "12",
    starts=BEGAN + 3600, repetitions_left=12, to_go_s=120,
)  # fmt: skip
RUNNING = AllocationProgress("1-node", "1 node", 1, "measuring", "", "11", ("n1",), None, 3, 9, 90)


def test_what_a_person_sees_of_jobs(monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    in_utc(monkeypatch)
    done = AllocationProgress("4-nodes", "4 nodes", 4, "done")
    seen = Progress("c", "results/c", BEGAN, "/mnt/fs", "abc", (RUNNING, WAITING, done), limit_s=7200, spent_s=600,
                    counts={"complete": 5, "left": 30, "unneeded": 2})  # fmt: skip
    assert shown(seen, 120) == snapshot


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_redrawn_until_all_is_done_or_ctrl_c(made: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for point in made.plan.points[:-1]:
        made.measure(point)

    def watched(between: Callable[[float], None]) -> str:
        monkeypatch.setattr(watch, "time", SimpleNamespace(time=lambda: BEGAN, monotonic=lambda: 0.0, sleep=between))
        file = Terminal()
        watch.redraw(made.results, safe_console(file=file, width=80))
        return file.getvalue()

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    assert "91 % measured" in watched(interrupted)
    said = watched(lambda _: made.measure(made.plan.points[-1]))
    assert said.index("91 %") < said.index("100 %")
    assert re.search(r"\x1b\[\d*A", said), "not redrawn in place"


def test_looking_at_a_campaign_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Scripted(tmp_path, SWEEP | {"axes": {}})
    campaign.measure()
    before = {f: f.stat().st_mtime_ns for f in campaign.results.rglob("*")}
    assert cli.main(["watch", str(campaign.results), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [a] = found["allocations"]
    assert (a["state"], a["repetitions_done"], a["repetitions_left"]) == ("done", 1, 0)
    assert found["over"]
    assert {f["phase"] for f in found["newest"]} == {"seq_write", "rand_read"}
    assert {f: f.stat().st_mtime_ns for f in campaign.results.rglob("*")} == before
