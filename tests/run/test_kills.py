"""SIGKILL at any moment: of the runner, its agent, or all of them; while it claims, measures, stores, tidies up, merges
and reports. Nothing measured is lost, nothing of others is changed, and the next run completes what is left."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.parquet
import pytest

import foreign
from campaign import COMMITS, SIX, SIXTY, SWEEP, Allocation, Campaign, said
from iosweep.report import page
from iosweep.results.store import Store
from iosweep.target import directory as directories
from stopped import all_stopped
from tables import damaged
from waiting import over, wait_for

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]

SIXTEEN: dict[str, Any] = SIXTY | {
    "axes": {"threads_per_node": [1, 2], "transfer_size": ["4k", "16k"], "queue_depth": [1, 2, 3, 4]}
}
#: New files, and sets of many.
MANY: dict[str, Any] = SWEEP | {
    "phases": ["rand_write"],
    "axes": {"write_mode": ["new", "overwrite"]},
    "options": {"file_size": "4k", "transfer_size": "4k", "files_per_thread": 3000},
    "phase_time": "50ms",
}
#: In the environment of a runner, and so of all that it starts.
MARK = "IOSWEEP_TEST_OF_KILLS"


Rounds = Callable[[int, int], int]


class Killed(Allocation):
    """An allocation whose runners are killed. Others have files in its target and beside it."""

    def __init__(self, place: Path):
        super().__init__(place)
        self.beside = place / "beside"
        foreign.plant(self.target, self.beside)
        self.theirs = self.outside()

    def outside(self) -> dict[Path, Any]:
        """What is not the campaign's."""
        found = foreign.states(self.target, self.ours) | foreign.states(self.beside)
        del found[self.target]  # the campaign's directory is made in it
        return found

    def wants(self, sweep: dict[str, Any], repetitions: int, **document: Any) -> None:
        self.configure(sweep | {"repetitions": repetitions}, **document)
        self.again = lambda: self.wants(sweep, 2 * repetitions, **document)

    def was_quicker(self, runner: subprocess.Popen[bytes]) -> bool:
        """Whether a runner ended before it could be killed; if nothing is left, more is planned."""
        if runner.poll() is None:
            return False
        assert runner.returncode == 0
        # it leaves all points to the next run where its agent was killed while it asked the tool for its version
        if sum(map(len, self.store.results().values())) >= sum(p.repetitions.min for p in self.plan.points):
            self.again()
        return True

    def start(self) -> subprocess.Popen[bytes]:
        with (self.place / "said").open("ab") as stderr:
            return subprocess.Popen(
                self.command(), env=self.environment | {MARK: str(self.place)}, cwd=self.place, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def moment(self, runner: subprocess.Popen[bytes], draw: random.Random) -> None:
        """Wait until a moment that is drawn: mostly once it works on the target, however slow this machine is."""
        if draw.random() < 0.8:
            while not self.ours.exists() and runner.poll() is None:
                time.sleep(0.01)
        time.sleep(draw.uniform(0, 1.2))

    def left_running(self) -> list[str]:
        """Processes of a runner of ours, itself included."""
        mark = f"{MARK}={self.place}".encode()
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in environment.read_bytes().split(b"\0"):
                    found.append(environment.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:  # it ended meanwhile
                continue
        return found

    def everything_ended(self) -> None:
        wait_for(lambda: not self.left_running())
        assert self.outside() == self.theirs

    def stored(self) -> dict[str, bytes]:
        """What is committed: results, and the archives that they name."""
        found = {}
        for file in self.results.glob("points/*/r*.json"):
            content = file.read_bytes()
            raw = msgspec.json.decode(content)["raw"]
            found[f"{file.parent.name}/{file.name}"] = content
            found[f"{file.parent.name}/{raw['name']}"] = archive = file.with_name(raw["name"]).read_bytes()
            assert len(archive) == raw["bytes"]
        return found

    def ends_well(self, kept: dict[str, bytes], tries: int = 1, reasons: Sequence[str] = ()) -> None:
        """Run to the end: all is there, each once (or tried again), as it was, and nothing on the target. `reasons`:
        why a row may be invalid."""
        output = self.measure()
        stored = self.stored()
        assert {name: stored.get(name) for name in kept} == kept
        wanted = {(p.id, n) for p in self.plan.points for n in range(1, p.repetitions.min + 1)}
        first, *more = (
            {f"{p}/r{n:03d}-{t}.{kind}" for p, n in wanted for kind in ("json", "zip")} for t in range(1, tries + 1)
        )
        assert first <= set(stored) <= first.union(*more)
        assert self.files() == sorted(stored)
        assert not list(self.ours.glob("*"))
        assert not (self.results / "scratch").exists()
        rows = self.rows()
        assert len(rows) == len(wanted)
        found = {said(row) for row in rows}
        # phases of 50 ms: where the machine has no time for them, a queue is hardly ever full
        assert {reason for reason in found if not reason.startswith("queue depth ")} <= {"", *reasons}
        assert "Traceback" not in (self.place / "said").read_text() + output
        self.everything_ended()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    made = Killed(tmp_path)
    yield made
    for process in psutil.process_iter():  # of a test that failed
        try:
            if process.environ().get(MARK) == str(tmp_path):
                process.kill()
        except psutil.Error:
            continue


def test_many_points_and_a_runner_that_is_killed(
    killed: Killed, soak: bool, rounds: Rounds, draw: random.Random
) -> None:
    killed.wants(SIXTY if soak else SIXTEEN, rounds(1, 10))
    kept: dict[str, bytes] = {}
    kills = 0
    while kills < rounds(5, 200):
        runner = killed.start()
        killed.moment(runner, draw)
        if killed.was_quicker(runner):
            continue
        kills += 1
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        killed.everything_ended()
        stored = killed.stored()
        assert {name: stored.get(name) for name in kept} == kept
        kept = stored
        entries = {file.name for file in killed.ours.glob("*") if not directories.is_probe(file.name)}
        assert entries <= {"iosweep.json", "iosweep.json.tmp", "fresh", "sets"}
    assert killed.start().wait(900) == 0
    killed.ends_well(kept)
    assert page.write(killed.results).stat().st_size > 0


def test_all_processes_are_killed(killed: Killed, rounds: Rounds, draw: random.Random) -> None:
    """As when a node runs out of memory, or is rebooted."""
    killed.wants(SIX, rounds(2, 20))
    kept: dict[str, bytes] = {}
    kills = 0
    while kills < rounds(2, 40):
        runner = killed.start()
        killed.moment(runner, draw)
        if killed.was_quicker(runner):
            continue
        kills += 1
        for process in all_stopped(psutil.Process(runner.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        runner.wait()
        killed.everything_ended()
        kept |= killed.stored()
    killed.ends_well(kept)


def agent_of(runner: subprocess.Popen[bytes]) -> psutil.Process | None:
    """Its agent, once there is one; None if the runner has ended."""
    while runner.poll() is None:
        for child in psutil.Process(runner.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "iosweep.target.agent" in child.cmdline():
                    return child
        time.sleep(0.01)
    return None


def test_agents_are_killed(killed: Killed, rounds: Rounds, draw: random.Random) -> None:
    """The runner goes on with another one, and tries again what was in flight; or it ends cleanly."""
    killed.wants(SIX, rounds(2, 40), limits={"retried": "100%", "fill": "100%"})
    runner = killed.start()
    kills = 0
    while kills < rounds(2, 40):
        if agent := agent_of(runner):
            time.sleep(draw.uniform(0, 0.6))
            with contextlib.suppress(psutil.NoSuchProcess):  # it may be the one before, which was not quite gone
                agent.kill()
                agent.wait(300)
                kills += 1
        else:
            assert runner.returncode == 3 or killed.was_quicker(runner)
            killed.everything_ended()
            runner = killed.start()
    assert runner.wait(300) in (0, 3)
    killed.everything_ended()
    # one whose second try was in flight, too, is not tried a third time
    killed.ends_well(killed.stored(), 2, ["not run: the agent ended by itself (killed by signal 9)"])


def test_killed_while_it_claims(killed: Killed, rounds: Rounds, draw: random.Random) -> None:
    killed.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    for _ in range(rounds(3, 50)):
        runner = killed.start()
        while not killed.ours.exists():
            assert runner.poll() is None
        time.sleep(draw.uniform(0, 0.01))
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        killed.everything_ended()
        # or it was quicker than we, and has tidied up
        found = sorted(file.name for file in killed.ours.iterdir()) if killed.ours.exists() else []
        probes = [name for name in found if name.startswith(directories.PROBE)]  # of the look at the target
        assert len(probes) <= 1
        found = [name for name in found if name not in probes]
        assert found in ([], ["iosweep.json.tmp"], ["iosweep.json"], ["iosweep.json", "sets"])
        if "iosweep.json" in found:  # it would be claimed already
            subprocess.run(["rm", "-r", str(killed.ours)], check=True)
    killed.ends_well({})


def test_killed_while_it_tidies_up(killed: Killed, rounds: Rounds, draw: random.Random) -> None:
    killed.configure(MANY)
    for n in range(rounds(3, 40)):
        runner = killed.start()
        wait_for(lambda: len(killed.stored()) == 4, over=over(runner))
        # when it is started again it goes on where it was killed, and takes a while to get there
        time.sleep(draw.uniform(0.2, 0.6) if n else draw.uniform(0, 0.1))
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        killed.everything_ended()
    kept = killed.stored()
    killed.ends_well(kept)


def test_killed_while_it_stores(tmp_path: Path, rounds: Rounds, draw: random.Random) -> None:
    store = Store(tmp_path / "results")
    told = 0
    for _ in range(rounds(5, 60)):
        command = [sys.executable, COMMITS, str(store.path), str(told)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            first = process.stdout.readline()
            time.sleep(draw.uniform(0, 0.1))
            process.kill()
            told = max(map(int, (first + process.stdout.read()).split()))
        found = {result.repetition: (result, record) for result, record in store.records_of("p")}
        # what was committed and not told any more is written again, as another try
        assert set(found) in (set(range(1, told + 1)), set(range(1, told + 2)))
        for number, (result, record) in found.items():
            assert result.intact
            assert record.campaign == str(number)
            assert store.raw(result)
        assert len(list(store.point("p").glob(".*"))) <= 1


@pytest.fixture
def measured(killed: Killed) -> Killed:
    """An allocation that is measured, and has no tables yet."""
    killed.configure(SIX)
    killed.measure()
    return killed


def kill_while(command: list[str], begun: Callable[[], bool], draw: random.Random) -> None:
    """Kill a command a moment after it has begun something. It may have been quicker."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None and not begun():
            time.sleep(0.0005)
        time.sleep(draw.uniform(0, 0.03))
        process.kill()


def begun(directory: Path, pattern: str, before: int) -> bool:
    """Whether a file is being written, in a directory that has changed since."""
    return any(directory.glob(pattern)) and directory.stat().st_mtime_ns > before


def test_killed_while_it_merges(measured: Killed, rounds: Rounds, draw: random.Random) -> None:
    """Each table is the one before, or the new one, or not there yet."""
    stored, plan_file = measured.stored(), measured.command()[4]
    merge = [sys.executable, "-m", "iosweep", "tables", plan_file]
    for _ in range(rounds(3, 40)):
        kill_while(merge, lambda: any(measured.results.glob(".*.tmp")), draw)
        assert not damaged(measured.results)
        if draw.random() < 0.3:
            for table in measured.results.glob("*.parquet"):
                table.unlink()
    (measured.results / ".results.csv.4194305.tmp").touch()
    for file in measured.results.glob(".*"):  # younger ones may be of another that is still at work
        os.utime(file, (0, 0))
    subprocess.run(merge, check=True)
    assert not damaged(measured.results)
    assert not list(measured.results.glob(".*"))
    assert len(pyarrow.parquet.read_table(measured.results / "results.parquet")) == 6
    assert measured.stored() == stored
    measured.everything_ended()


@pytest.mark.parametrize("what", ["page", "figures"])
def test_killed_while_it_reports(measured: Killed, what: str, rounds: Rounds, draw: random.Random) -> None:
    measured.rows()
    command = [sys.executable, "-m", "iosweep", "report", f"--{what}", str(measured.results)]
    made = measured.results / ("figures" if what == "figures" else "")
    pattern = "*.*" if what == "figures" else ".report.html.*.tmp"
    for _ in range(rounds(1, 25)):
        before = made.stat().st_mtime_ns if made.exists() else 0
        kill_while(command, partial(begun, made, pattern, before), draw)
        # each is written whole, where it is written at all
        assert not damaged(measured.results)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert not damaged(measured.results)
    measured.everything_ended()


@pytest.mark.soak
def test_a_workflow_is_killed_while_it_makes_tables(tmp_path: Path, rounds: Rounds, draw: random.Random) -> None:
    """All of it, as when memory is out. What is measured is not measured again."""
    campaign = Campaign(tmp_path, phases=["rand_write"], repetitions=1)
    campaign.tables()
    stored = campaign.stored()
    for _ in range(rounds(1, 20)):
        (campaign.results / "results.parquet").unlink()
        with subprocess.Popen(
            campaign.command(), env=campaign.environment, cwd=tmp_path, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            wait_for(lambda: any(campaign.results.glob(".*.tmp")), over=over(process), pause_s=0.001)
            time.sleep(draw.choice([draw.uniform(0, 0.05), draw.uniform(0, 3)]))
            for one in all_stopped(psutil.Process(process.pid)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        assert "measure 1 node" not in campaign.tables()
        assert not damaged(campaign.results)
        assert campaign.stored() == stored
    assert campaign.settled()
