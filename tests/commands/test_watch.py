"""`iosweep watch`: how far a campaign is, from its store, squeue and locks; nothing is changed by looking."""

import fcntl
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

import msgspec
import pytest
from rich.console import Console, Group

from campaign import BEGAN, SWEEP, Allocation, Made, document, iso, keep_plan, make
from iosweep.commands import cli
from iosweep.commands.watch import screen
from iosweep.commands.watch.snapshot import Campaign, Seen, Snapshot
from iosweep.files import documents
from iosweep.plan.model import Plan
from iosweep.results.campaign_documents import DataSet, Missing, Needs, Refusal
from iosweep.results.time_to_go import Pace, Ran, ran
from slurm import Cluster


class Watched(Made):
    """A made campaign that is watched."""

    def __init__(self, place: Path, plan: Plan):
        super().__init__(place, plan)
        keep_plan(plan, self.results)

    def look(self) -> Snapshot:
        return Campaign(self.results).look()


@pytest.fixture
def made(tmp_path: Path) -> Watched:
    return Watched(tmp_path, make(tmp_path))


def shown(snapshot: Snapshot, width: int = 80, bars: bool = False) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    console.print(Group(*screen.draw(snapshot, bars)))
    return console.export_text()


def words(snapshot: Snapshot) -> str:
    """The same on one line."""
    return " ".join(shown(snapshot, 1000).split())


# --- how long it will take


def steady(plan: Plan, seconds: dict[str, float]) -> float:
    """The estimate of the rest after three points, as a ratio to what it takes."""
    pace, runs, at = Pace(plan), [], BEGAN
    first, rest = plan.points[:3], plan.points[3:]
    for point in first:
        runs.append(Ran(point.id, at, at + seconds[point.id]))
        at += seconds[point.id] + 0.02  # what is between two of them
    pace.learn(runs)
    return pace.to_go_s({p.id: 1 for p in rest}, {"made": DataSet()}) / sum(seconds[p.id] + 0.02 for p in rest)


@pytest.mark.parametrize("more_s", [0.2, 0.9, 3.0])
def test_the_rest_of_a_steady_campaign(tmp_path: Path, more_s: float) -> None:
    plan = make(tmp_path)
    assert steady(plan, {p.id: 1 + more_s for p in plan.points}) == pytest.approx(1, rel=0.05)


def test_data_sets_are_prepared_once(made: Watched) -> None:
    point = made.plan.points[0]
    sets = {"sets.fio-read-16m-1": DataSet(wall_s=20.0, files=1, file_size_bytes=16 << 20)}
    first = ran(point, made.record(point, 1.4, before_s=20.5), sets)
    assert (first.ended - first.began, first.prepared_s) == (pytest.approx(21.9), 20.0)
    assert ran(point, made.record(point, 1.4, before_s=0.5), sets).prepared_s == 0
    pace = Pace(made.plan)
    pace.learn([first])
    assert pace.repetition_s(point.id) == pytest.approx(1.9)
    two = next(p for p in made.plan.points if p.options["threads_per_node"] == 2)
    # the set of two workers is still to be written, as fast as the first one was
    assert pace.to_go_s({two.id: 1}, sets) == pytest.approx(1.9 + 40, rel=0.1)


# --- what the store says


def test_before_anything_was_measured(made: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [allocation] = made.look().allocations
    assert (allocation.state, allocation.repetitions_done, allocation.repetitions_left) == ("not begun", 0, 12)
    assert "0 of 12 repetitions measured, 12 left, about 17 s to go" in shown(made.look())
    shutil.rmtree(made.results / "plans")
    assert cli.main(["watch", str(made.results), "--once"]) == 0
    assert "there is no plan in" in capsys.readouterr().out
    assert cli.main(["watch", str(tmp_path / "none")]) == 1


def test_half_of_it(made: Watched) -> None:
    points = made.plan.points
    for point in points[:6]:
        made.measure(point)
    busy = {"verdict": "suspect", "reasons": ["other processes used 40% of the CPU time"]}
    ran = {"phase": "rand_read", "started": iso(made.clock), "wall_s": 1.4, "headline": 5.0e6, "argv": ["fio"]}
    made.measure(points[6], phases=[ran | busy])
    made.measure(points[7], phases=[ran | {"headline": None, "verdict": "invalid", "reasons": ["x"]}])
    made.store.set_missing(points[8].id, Missing(Needs(tool="fio"), "fio is not on PATH"))
    made.store.put("", "spent", {"spent_s": 75.0})
    found = made.look()
    [a] = found.allocations
    assert (a.repetitions_done, a.repetitions_left, a.repetitions_missing) == (8, 3, 1)
    assert a.to_go_s == pytest.approx(3 * 1.4, rel=0.1)
    assert found.verdicts == {"valid": 6, "suspect": 1, "invalid": 1, "missing": 1}
    assert found.reasons == {"other processes used 40% of the CPU time": 1, "x": 1}
    assert found.missing == {"fio is not on PATH": 1}
    assert [f.point for f in found.newest] == [p.id for p in points[7:2:-1]]
    assert not found.over
    text = shown(found)
    for said in ("8 of 12 repetitions measured, 1 missing, 3 left", "6 valid, 1 suspect, 1 invalid",
                 "1 missing: fio is not on PATH", "no figure", "5,000,000/s"):  # fmt: skip
        assert said in text


def test_what_is_tried_again_is_not_done(made: Watched) -> None:
    made.measure(made.plan.points[0], retry="other processes used 40% of the CPU time")
    [a] = made.look().allocations
    assert (a.repetitions_done, a.repetitions_left) == (0, 12)


def test_results_of_another_build_do_not_count(made: Watched) -> None:
    made.measure(made.plan.points[0], tool={"sha256": "old", "version": "1"})
    made.measure(made.plan.points[1])
    assert made.look().allocations[0].repetitions_done == 1


def test_a_damaged_store(made: Watched) -> None:
    for point in made.plan.points[:5]:
        made.measure(point)
    folders = [made.store.point(p.id) for p in made.plan.points]
    (folders[0] / "r001-1.zip").unlink()
    (folders[1] / "r001-1.json").write_text("{")
    (folders[2] / "r001-1.json").write_bytes(msgspec.json.encode({"point": folders[2].name, "raw": {}, "phases": 3}))
    record = msgspec.json.decode((folders[3] / "r001-1.json").read_bytes())
    (folders[3] / "r001-1.json").write_bytes(msgspec.json.encode(record | {"started": "yesterday", "target": {}}))
    folders[6].mkdir(parents=True)
    folders[7].parent.joinpath(folders[7].name).write_text("a file")
    found = made.look()
    assert found.allocations[0].repetitions_done == 1
    assert [f"{folders[n].name}/r001-1.{kind} is damaged" in " ".join(found.wrong)
            for n, kind in ((0, "zip"), (1, "json"), (2, "json"), (3, "json"))] == [True] * 4  # fmt: skip
    (made.results / "plans" / f"{made.plan.digest}.json").write_text("{}")
    [wrong] = made.look().wrong
    assert f"{made.plan.digest}.json is damaged" in wrong
    assert f"{made.plan.digest}.json is damaged" in words(made.look())


def test_only_what_is_new_is_read(made: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    for point in made.plan.points[:10]:
        made.measure(point)
    for n, folder in enumerate((made.results / "points").iterdir()):
        os.utime(folder, (BEGAN - 10**9 + 60 * n, BEGAN - 10**9 + 60 * n))
    campaign, opened = Campaign(made.results), []
    for _ in range(2):
        campaign.look()
    read = documents.read_as
    monkeypatch.setattr(documents, "read_as", lambda file, kind: opened.append(Path(file)) or read(file, kind))

    def results() -> set[str]:
        found = {file.parent.name for file in opened if file.parent.parent.name == "points"}
        opened.clear()
        return found

    assert campaign.look().allocations[0].repetitions_done == 10
    assert results() == set()
    made.measure(made.plan.points[10])
    assert campaign.look().allocations[0].repetitions_done == 11
    assert results() == {made.plan.points[10].id}
    campaign.look()  # again: a second file may have the same time stamp
    assert results() == {made.plan.points[10].id}
    campaign.look()
    assert results() == set()
    made.store.supersede(made.store.results_of(made.plan.points[0].id)[1])
    assert campaign.look().allocations[0].repetitions_done == 10


def test_the_plan_that_is_measured(tmp_path: Path, made: Watched) -> None:
    other = make(tmp_path, document(axes={"threads_per_node": [3]}))
    file = made.results / "plans" / f"{other.digest}.json"
    file.write_bytes(other.document())
    os.utime(made.results / "plans" / f"{made.plan.digest}.json", (BEGAN - 60, BEGAN - 60))
    os.utime(file, (BEGAN, BEGAN))
    campaign = Campaign(made.results)
    assert campaign.look().plan == other.digest  # the newest
    os.utime(made.results / "plans" / f"{made.plan.digest}.json", (BEGAN + 1, BEGAN + 1))
    assert campaign.look().plan == made.plan.digest  # an older one that was taken up again


def test_why_it_ended(made: Watched) -> None:
    made.measure(made.plan.points[0])
    assert made.look().allocations[0].state == "stopped"
    (made.results / "logs").mkdir()
    log = made.results / "logs" / "1-node.log"
    result = "2027-01-15 09:00:00+0100    1/12 a r1\n"
    log.write_text(f"{result}removed from the target: 2 files, 32.0 MiB (target.keep: none)\n")
    assert made.look().allocations[0].why == ""  # no reason
    log.write_text(f"{result}iosweep: stopped by Ctrl-C; what was measured is stored\n")
    assert "stopped: stopped by Ctrl-C; what was" in shown(made.look())
    made.store.set_refusal("1-node", Refusal("the target /mnt does not exist\x1b[2J"))
    assert "refused: the target /mnt does not exist\\x1b[2J" in shown(made.look())


@pytest.mark.parametrize("how", ["stopped", "short_of_time"])
def test_a_job_that_was_stopped_was_not_refused(made: Watched, how: str) -> None:
    made.measure(made.plan.points[0])
    made.store.set_refusal("1-node", Refusal("its job was stopped by SIGTERM", **{how: True}))
    assert made.look().allocations[0].state == "stopped"
    text = shown(made.look())
    assert "stopped: its job was stopped by SIGTERM" in text
    assert "refused" not in text


# --- who is at it


@pytest.mark.local
def test_who_holds_the_lock_is_seen(made: Watched) -> None:
    holding = "import sys; from pathlib import Path; from iosweep.results.store import Store\n"
    holding += "with Store(Path(sys.argv[1])).locked(allocation='1-node'): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holding, str(made.results)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        [a] = made.look().allocations
        assert a.state == "measuring"
        assert f"measuring by process {holder.pid} on" in shown(made.look())
        holder.communicate("")
    assert made.look().allocations[0].state == "not begun"


def job(cluster: Cluster, made: Watched, place: Path, *options: str) -> str:
    """A job like that of the rule; returns its number."""
    allocation = made.plan.allocations[0]
    comment = f"iosweep_quick_{allocation.name}"
    command = ["sbatch", "--parsable", f"--comment={comment}", "--exclusive", "-o", "/dev/null", "-D", str(place)]
    return cluster.run([*command, *options, "--wrap", "sleep 600"]).stdout.strip()


def test_jobs(slurm: Cluster, made: Watched, tmp_path: Path) -> None:
    def seen() -> dict[str, Any]:
        command = [sys.executable, "-m", "iosweep", "watch", "--json", str(made.results)]
        found: dict[str, Any] = json.loads(slurm.run(command).stdout)["allocations"][0]
        return found

    other = tmp_path / "elsewhere"
    other.mkdir()
    job(slurm, made, other, "-N1", "-w", "n1", "-t9")  # of the same campaign in another directory
    assert seen()["state"] == "not begun"
    number = job(slurm, made, tmp_path, "-N1", "-w", "n1", "-t5")
    while not (found := seen())["why"]:  # Slurm has not looked at it yet
        time.sleep(0.1)
    assert (found["state"], found["job"]) == ("waiting", number)
    running = job(slurm, made, tmp_path, "-N1", "-w", "n2", "-t5")
    while (found := seen())["state"] != "measuring":
        time.sleep(0.1)
    assert (found["job"], found["hosts"]) == (running, ["n2"])
    assert found["ends"] - found["since"] == pytest.approx(300)
    assert abs(found["since"] - time.time()) < 600
    slurm.cancel()
    assert seen()["state"] == "not begun"


# --- what a person sees

WAITING = Seen("2-nodes", 2, "waiting", "nodes are busy (Resources)", "12", since=BEGAN - 60, starts=BEGAN + 3600,
               repetitions_left=12, to_go_s=120)  # fmt: skip
RUNNING = Seen("1-node", 1, "measuring", "", "11", ("n1",), BEGAN - 600, None, BEGAN + 60, 3, 9, 0, 90)


@pytest.mark.local
def test_the_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    snapshot = Snapshot("c", "results/c", BEGAN, "/mnt/fs", "abc", (RUNNING, WAITING), limit_s=7200, spent_s=600)
    text = shown(snapshot, 200, bars=True)
    assert "1 node: 3 of 12 repetitions measured, 9 left, about 1 min 30 s to go" in text
    assert (
        "measuring on n1 since 07:50, until 08:01 at the latest (job 11); it will not finish by then, another job"
        " continues" in text
    )
    assert "waiting since 07:59: nodes are busy (Resources); Slurm expects it to begin at 09:00 (job 12)" in text
    assert "in all       about 3 min 30 s to go, plus the time that jobs wait" in text
    assert "limits.time  10 min of 2 h spent" in text
    unneeded = replace(snapshot, allocations=(Seen("4-nodes", 4, "done"),))
    assert "4 nodes: nothing to measure: its ramps do not need it\n  done" in shown(unneeded, 200, bars=True)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.local
def test_on_a_terminal(made: Watched) -> None:
    """Redrawn in place, a quiet end with Ctrl-C, an end of its own when all is done."""
    for point in made.plan.points[:-1]:
        made.measure(point)
    with Terminal(["watch", str(made.results)]) as terminal:
        assert "11 of 12 repetitions" in terminal.until("about 1 s to go")
        terminal.type("\x03")
        said, code = terminal.end()
        assert (code, "Traceback" in said) == (0, False)
    with Terminal(["watch", str(made.results)]) as terminal:
        terminal.until("11 of 12")
        made.measure(made.plan.points[-1])
        said, code = terminal.end()
        assert "12 of 12 repetitions measured" in said
        assert code == 0
        assert re.search(r"\x1b\[\d*A", said), "not redrawn in place"


class Terminal:
    """The command on a terminal of 80 columns."""

    def __init__(self, arguments: list[str]):
        self._said = ""
        environment = os.environ | {"TERM": "xterm", "PATH": "/nonexistent"}  # without squeue
        environment.pop("COLUMNS", None)
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, pack("HHHH", 24, 80, 0, 0))
        command = [sys.executable, "-m", "iosweep", *arguments]

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(side, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self._process = subprocess.Popen(
            command, stdin=side, stdout=side, stderr=side, env=environment, preexec_fn=own_terminal, close_fds=True
        )
        os.close(side)
        self._main = main

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._main)

    def until(self, text: str) -> str:
        while text not in self._said:
            assert self._read(), f"{text!r} did not come: {self._said}"
        return self._said

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def end(self) -> tuple[str, int]:
        while self._read():
            pass
        return self._said, self._process.wait(300)

    def _read(self) -> bool:
        if not select.select([self._main], [], [], 300)[0]:
            return False
        try:
            data = os.read(self._main, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self._said += data.decode("utf-8", "replace")
        return bool(data)


@pytest.mark.local
def test_a_real_campaign(tmp_path: Path, fio: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allocation = Allocation(tmp_path, SWEEP | {"axes": {}})
    allocation.measure()
    before = {f: f.stat().st_mtime_ns for f in allocation.results.rglob("*")}
    assert cli.main(["watch", str(allocation.results), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [a] = found["allocations"]
    assert (a["state"], a["repetitions_done"], a["repetitions_left"]) == ("done", 1, 0)
    assert found["over"]
    assert sum(found["verdicts"].values()) == 1  # repetitions; it has two phases
    assert {f["phase"] for f in found["newest"]} == {"seq_write", "rand_read"}
    assert {f: f.stat().st_mtime_ns for f in allocation.results.rglob("*")} == before
