"""Ends at any moment: signals, SIGKILL of the runner, its agent or all of them, a target that hangs. Nothing measured
is lost, nothing of others is changed, no process stays, and the next run completes what is left."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.parquet
import pytest

import foreign
import mounts
import scripted
from campaign import SWEEP, Allocation
from commits import committing
from iosweep.errors import ExitCode
from iosweep.judge import remaining
from iosweep.store.store import Store
from iosweep.target import directory as directories
from processes import all_killed, all_stopped
from waiting import PATIENCE_S, over, wait_for

pytestmark = pytest.mark.local

Rounds = Callable[[int, int], int]
#: Four points of one phase over complete files.
FOUR: dict[str, Any] = SWEEP | {
    "phases": ["rand_write"],
    "axes": {"threads_per_node": [1, 2], "queue_depth": [1, 2]},
}
ONE: dict[str, Any] = FOUR | {"axes": {}}
#: New files, which are removed after their repetition, and a set of files, which is removed in the end.
REMOVED: dict[str, Any] = ONE | {
    "axes": {"write_mode": ["new", "overwrite"]},
    "options": {"file_size": "4k", "transfer_size": "4k", "files_per_thread": 20},
}
#: Longer than any test waits.
FOREVER_S = 10_000
#: As `sitecustomize`: an agent kills its runner and itself before it does something (an audit event) with a name.
KILLS = """
import os, sys
def see(event, arguments):
    if event == "{event}" and arguments[0] == "{name}":
        os.kill(os.getppid(), 9)
        os.kill(os.getpid(), 9)
if "iosweep.target.agent" in sys.orig_argv:
    sys.addaudithook(see)
"""


class Killed(Allocation):
    """An allocation of scripted tools whose runners are ended. Others have files in its target and beside it."""

    def __init__(self, place: Path, target: str = "target"):
        super().__init__(place)
        self.target = place / target
        self.target.mkdir(exist_ok=True)
        self.ours = self.target / "iosweep-c"
        self.tools, self.beside = place / "tools", place / "beside"
        foreign.plant(self.target, self.beside)
        self.theirs = self.outside()
        self.play({"sleep_s": 0.03})

    def play(self, *rules: scripted.Rule) -> None:
        self.path = f"{scripted.install(self.tools, rules)}{os.pathsep}{os.environ['PATH']}"

    def outside(self) -> dict[Path, Any]:
        """What is not the campaign's."""
        found = foreign.states(self.target, self.ours) | foreign.states(self.beside)
        del found[self.target]  # the campaign's directory is made in it
        return found

    def start(self, *prefix: str) -> subprocess.Popen[bytes]:
        with (self.place / "said").open("ab") as stderr:
            return subprocess.Popen(
                [*prefix, *self.command()], env=self.environment, cwd=self.place, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def dies_before(self, event: str, name: str) -> set[str]:
        """Run until the agent kills all before it does something; returns what is in the campaign's directory."""
        (self.place / "sitecustomize.py").write_text(KILLS.format(event=event, name=name))
        # no bytecode: of a program as long, and of the same second, it would be that of the step before
        runner = self.start("env", f"PYTHONPATH={self.place}", "PYTHONDONTWRITEBYTECODE=1")
        assert runner.wait(PATIENCE_S) == -signal.SIGKILL
        self.everything_ended()
        return self.names()

    def called(self) -> int:
        """How often a tool was called, but for its version."""
        return sum("--version" not in call for call in scripted.calls(self.tools))

    def names(self) -> set[str]:
        """What is in the campaign's directory."""
        return {file.name for file in self.ours.glob("*")}

    def everything_ended(self) -> None:
        wait_for(lambda: not self.processes())
        assert self.outside() == self.theirs

    def ends_well(self, kept: dict[str, bytes], tries: int = 1) -> None:
        """Run to the end: all is there, each once (or tried again), as it was, and nothing on the target."""
        self.play()
        self.measure()
        stored = self.committed()
        assert {name: stored.get(name) for name in kept} == kept
        wanted = {(p.id, n) for p in self.plan.points for n in range(1, p.repetitions.min + 1)}
        first, *more = (
            {f"{p}/r{n:03d}-{t}.{kind}" for p, n in wanted for kind in ("json", "zip")} for t in range(1, tries + 1)
        )
        assert first <= set(stored) <= first.union(*more)
        assert self.files() == sorted(stored)
        assert not self.ours.exists()
        assert not (self.results / "scratch").exists()
        rows = self.rows()
        assert len(rows) == len(wanted)
        assert tries > 1 or all(row["ops_per_s"] for row in rows)
        assert "Traceback" not in (self.place / "said").read_text()
        self.everything_ended()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    made = Killed(tmp_path)
    yield made
    all_killed(set(made.processes()))  # of a test that failed


def in_its_middle(killed: Killed) -> subprocess.Popen[bytes]:
    """A runner whose second point does not end."""
    killed.configure(FOUR)
    killed.play({"when": "rand_write", "times": 1}, {"when": "rand_write", "sleep_s": FOREVER_S})
    runner = killed.start()
    wait_for(lambda: len(killed.committed()) == 2 and killed.called() >= 3, over=over(runner))  # a set, two points
    return runner


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_all_its_processes_and_keeps_what_was_measured(
    killed: Killed, number: signal.Signals
) -> None:
    runner = in_its_middle(killed)
    runner.send_signal(number)
    assert runner.wait(PATIENCE_S) == ExitCode.INTERRUPTED
    assert number.name in (killed.place / "said").read_text()
    killed.everything_ended()
    killed.ends_well(killed.committed())


def test_a_second_runner_is_refused_and_harms_nothing(killed: Killed) -> None:
    runner = in_its_middle(killed)
    kept, below = killed.committed(), killed.processes()
    assert str(runner.pid) in killed.measure(code=ExitCode.REFUSED)
    assert killed.committed() == kept
    assert set(below) <= set(killed.processes())
    runner.kill()
    runner.wait(PATIENCE_S)
    killed.ends_well(kept)


def test_a_repetition_whose_agent_is_killed_is_tried_again(killed: Killed) -> None:
    killed.configure(ONE, limits={"retried": "100%", "fill": "100%"})
    killed.play({"when": "rand_write", "times": 1, "sleep_s": FOREVER_S})
    runner = killed.start()
    wait_for(lambda: killed.called() >= 2, over=over(runner))
    [agent] = killed.processes("iosweep.target.agent")
    agent.kill()
    assert runner.wait(PATIENCE_S) == 0
    killed.everything_ended()
    # the second try is tried again, too, where other programs disturb it
    assert {name[-6:] for name in killed.committed()} >= {"-1.zip", "-2.zip", "1.json", "2.json"}
    killed.ends_well(killed.committed(), tries=2 + remaining.RETRIED_LEAST)


def test_a_run_killed_at_any_moment_loses_nothing_it_stored(
    killed: Killed, rounds: Rounds, draw: random.Random
) -> None:
    kept: dict[str, bytes] = {}
    for repetitions in range(1, 1 + rounds(3, 100)):
        killed.configure(FOUR | {"repetitions": repetitions})
        calls = killed.called() + draw.randint(0, 4)  # there are four more at least
        runner = killed.start()
        wait_for(lambda calls=calls: killed.called() >= calls, over=over(runner))
        time.sleep(draw.uniform(0, 0.6))
        if draw.random() < 0.5:  # all of it, as when a node runs out of memory
            all_killed(all_stopped(psutil.Process(runner.pid)) if runner.poll() is None else set())
        runner.kill()
        runner.wait(PATIENCE_S)
        killed.everything_ended()
        stored = killed.committed()
        assert {name: stored.get(name) for name in kept} == kept
        kept = stored
        assert killed.names() <= {"iosweep.json", "iosweep.json.tmp", "fresh", "sets"}
    killed.ends_well(kept)


def test_a_claim_killed_at_any_step_is_made_by_the_next_run(killed: Killed) -> None:
    killed.configure(ONE)
    assert killed.dies_before("os.mkdir", "iosweep-c") == set()
    assert killed.dies_before("os.remove", "iosweep.json.tmp") == set()
    assert killed.dies_before("os.rename", "iosweep.json.tmp") == {"iosweep.json.tmp"}
    assert killed.dies_before("os.remove", directories.PROBE) == {"iosweep.json", "fresh"}
    killed.ends_well({})


def test_a_removal_killed_at_any_step_is_ended_by_the_next_run(killed: Killed) -> None:
    """The marker goes last: what is left is ours. The steps from the last to the first, so that none of them is taken
    before, to make room for a new set."""
    killed.configure(REMOVED)
    (new,) = (point.id for point in killed.plan.points if point.options["write_mode"] == "new")
    steps = {
        ("os.rmdir", "iosweep-c"): set(),
        ("os.remove", "iosweep.json"): {"iosweep.json"},
        ("os.rmdir", "sets"): {"iosweep.json", "sets"},
        ("os.rmdir", "fio-write-4k-20"): {"iosweep.json", "sets"},
        ("os.remove", "0.7"): {"iosweep.json", "sets"},
        ("os.rmdir", f"{new}-r6"): {"iosweep.json", "sets", "fresh"},
    }
    for repetitions, (step, left) in enumerate(steps.items(), 1):
        killed.configure(REMOVED | {"repetitions": repetitions})  # so that there is a set again
        assert left <= killed.dies_before(*step) <= left | {"fresh"}, step
    killed.ends_well(killed.committed())


def test_a_store_killed_at_any_moment_has_what_it_announced(
    tmp_path: Path, rounds: Rounds, draw: random.Random
) -> None:
    store = Store(tmp_path / "results")
    for _ in range(rounds(4, 60)):
        with committing(store) as process:
            time.sleep(draw.uniform(0, 0.1))
            process.kill()
        assert len(list(store.point("p").glob(".*"))) <= 1


def assert_whole(results: Path) -> None:
    """Each table that is there can be read, to its end."""
    for file in results.glob("*.parquet"):
        pyarrow.parquet.read_table(file)
    for file in results.glob("campaign.json"):
        msgspec.json.decode(file.read_bytes())
    assert all(file.read_bytes().endswith(b"\n") for file in results.glob("results.csv"))


def kill_while(command: list[str], results: Path, pattern: str, draw: random.Random) -> None:
    """Kill a command a moment after it has made a new file of the results. It may have been quicker."""
    before = set(results.glob(pattern))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None and before.issuperset(results.glob(pattern)):
            time.sleep(0.0005)
        time.sleep(draw.uniform(0, 0.03))
        process.kill()


def test_tables_whose_merge_is_killed_are_whole_or_as_they_were(
    killed: Killed, rounds: Rounds, draw: random.Random
) -> None:
    killed.configure(FOUR)
    killed.play()
    killed.measure()
    stored, plan_file = killed.committed(), killed.command()[4]
    merge = [sys.executable, "-m", "iosweep", "tables", plan_file]
    for _ in range(rounds(2, 40)):
        kill_while(merge, killed.results, ".*.tmp", draw)
        assert_whole(killed.results)
    subprocess.run(merge, check=True)
    assert_whole(killed.results)
    assert len(pyarrow.parquet.read_table(killed.results / "results.parquet")) == 4
    assert killed.committed() == stored


# A target that does not answer


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Killed]:
    """Its target is on a FUSE file system whose server can be stopped."""
    if reason := mounts.missing():
        pytest.skip(reason)
    (tmp_path / "mount").mkdir()
    with mounts.fuse(tmp_path / "mount"):
        yield Killed(tmp_path, "mount/scratch")


@pytest.mark.parametrize("moment", ["before", "under a tool"])
def test_a_target_that_hangs_ends_the_run_and_loses_nothing(hanging: Killed, moment: str) -> None:
    server = mounts.server(hanging.target.parent)
    if moment == "before":
        hanging.configure(FOUR, target={"deadline": "1s"})
        os.kill(server, signal.SIGSTOP)
        runner = hanging.start()
    else:
        hanging.configure(FOUR, target={"deadline": "30s"})  # it is also for what must succeed before
        hanging.play({"when": "rand_write", "times": 1}, {"when": "rand_write", "sleep_s": FOREVER_S})
        runner = hanging.start()
        wait_for(lambda: len(hanging.committed()) == 2 and hanging.called() >= 3, over=over(runner))
        os.kill(server, signal.SIGSTOP)
        all_killed(set(hanging.processes("--name=rand_write")))  # the tool fails, and the runner looks at the target
    assert runner.wait(PATIENCE_S) == ExitCode.HANGS
    kept = hanging.committed()
    os.kill(server, signal.SIGCONT)
    wait_for(lambda: not hanging.processes())
    hanging.configure(FOUR, target={"deadline": "60s"})
    hanging.ends_well(kept)
