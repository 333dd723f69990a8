"""SIGKILL at any moment: of the runner, of its agent, of all of them; while it claims, measures and tidies up."""

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from allocation import SWEEP, Allocation, said
from campaign import over, wait_for
from iosweep import target
from iosweep.report import page

pytestmark = pytest.mark.usefixtures("fio")

#: 60 points of one tiny phase: nearly all of the time is fio's start-up.
SIXTY: dict[str, Any] = SWEEP | {
    "phases": ["rand_write"],
    "axes": {
        "threads_per_node": [1, 2, 3],
        "transfer_size": ["4k", "8k", "16k", "32k", "64k"],
        "queue_depth": [1, 2, 3, 4],
    },
    "options": {"file_size": "256k"},
    "phase_time": "50ms",
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


class Killed(Allocation):
    """An allocation whose runners are killed."""

    def wants(self, sweep: dict[str, Any], repetitions: int, **document: Any) -> None:
        self.configure(sweep | {"repetitions": repetitions}, **document)
        self.again = lambda: self.wants(sweep, 2 * repetitions, **document)

    def was_quicker(self, runner: subprocess.Popen[bytes]) -> bool:
        """Whether a runner was done before it could be killed; then there is more to do from now on."""
        if runner.poll() is None:
            return False
        assert runner.returncode == 0
        self.again()
        return True

    def start(self) -> subprocess.Popen[bytes]:
        with (self.place / "said").open("ab") as stderr:
            return subprocess.Popen(
                self.command(), env=self.environment | {MARK: str(self.place)}, cwd=self.place, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

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

    def stored(self) -> dict[str, bytes]:
        """What is committed: results, and the archives that they name."""
        found = {}
        for file in self.results.glob("points/*/r*.json"):
            content = file.read_bytes()
            raw = orjson.loads(content)["raw"]
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


def test_sixty_points_and_a_runner_that_is_killed(killed: Killed, rounds: Callable[[int, int], int]) -> None:
    killed.wants(SIXTY, rounds(1, 10))
    moments = random.Random(1)
    kept: dict[str, bytes] = {}
    kills = 0
    while kills < rounds(20, 200):
        runner = killed.start()
        time.sleep(moments.uniform(0.2, 1.4))
        if killed.was_quicker(runner):
            continue
        kills += 1
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        killed.everything_ended()
        stored = killed.stored()
        assert {name: stored.get(name) for name in kept} == kept
        kept = stored
        entries = {file.name for file in killed.ours.glob("*")} | {"iosweep.json"}
        assert entries <= {"iosweep.json", "iosweep.json.tmp", "fresh", "sets"}
        assert [file.name for file in killed.target.iterdir()] in ([], ["iosweep-c"])
    assert killed.start().wait(900) == 0
    killed.ends_well(kept)
    left = r"note: the lock \S+ was left by process \d+ of user .*, which is gone; taken over"
    assert re.search(left, (killed.place / "said").read_text())
    assert page.write(killed.results).stat().st_size > 0


SIX: dict[str, Any] = SIXTY | {"axes": {"transfer_size": ["4k", "8k", "16k"], "threads_per_node": [1, 2]}}


def all_stopped(runner: psutil.Process) -> set[psutil.Process]:
    """A runner and all below it, stopped, so that none starts another that would not be killed."""
    found: set[psutil.Process] = set()
    while new := {runner, *runner.children(recursive=True)} - found:
        for process in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        found |= new
    return found


def test_all_processes_are_killed(killed: Killed, rounds: Callable[[int, int], int]) -> None:
    """As when memory is out, or a node is rebooted."""
    killed.wants(SIX, rounds(2, 20))
    moments = random.Random(2)
    kept: dict[str, bytes] = {}
    kills = 0
    while kills < rounds(4, 40):
        runner = killed.start()
        time.sleep(moments.uniform(0.3, 1.3))
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
                if "iosweep.agent" in child.cmdline():
                    return child
        time.sleep(0.01)
    return None


def test_agents_are_killed(killed: Killed, rounds: Callable[[int, int], int]) -> None:
    """The runner goes on with another one, and tries again what was in flight; or it ends in good order."""
    killed.wants(SIX, rounds(4, 40), limits={"retried": "100%", "fill": "100%"})
    moments = random.Random(3)
    runner = killed.start()
    kills = 0
    while kills < rounds(4, 40):
        if agent := agent_of(runner):
            time.sleep(moments.uniform(0, 0.6))
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


def test_killed_while_it_claims(killed: Killed, rounds: Callable[[int, int], int]) -> None:
    killed.configure(SWEEP | {"axes": {}, "phases": ["rand_read"]})
    moments = random.Random(3)
    for _ in range(rounds(5, 50)):
        runner = killed.start()
        while not killed.ours.exists():
            assert runner.poll() is None
        time.sleep(moments.uniform(0, 0.01))
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        killed.everything_ended()
        # or it was quicker than we, and has tidied up
        found = sorted(file.name for file in killed.ours.iterdir()) if killed.ours.exists() else []
        probes = [name for name in found if name.startswith(target.PROBE)]  # of the look at the target
        assert len(probes) <= 1
        found = [name for name in found if name not in probes]
        assert found in ([], ["iosweep.json.tmp"], ["iosweep.json"], ["iosweep.json", "sets"])
        if "iosweep.json" in found:  # it would be claimed already
            subprocess.run(["rm", "-r", str(killed.ours)], check=True)
    killed.ends_well({})


def test_killed_while_it_tidies_up(killed: Killed, rounds: Callable[[int, int], int]) -> None:
    killed.configure(MANY)
    moments = random.Random(4)
    for n in range(rounds(4, 40)):
        runner = killed.start()
        wait_for(lambda: len(killed.stored()) == 4, over=over(runner))
        # when it is started again it goes on where it was killed, and takes a while to get there
        time.sleep(moments.uniform(0.2, 0.6) if n else moments.uniform(0, 0.1))
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        killed.everything_ended()
    kept = killed.stored()
    killed.ends_well(kept)
