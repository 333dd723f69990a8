"""What can go wrong around a campaign, done for real on a file system of its own: how the run ends, that nothing else
is harmed, that what was measured stays as it was, and that the next run completes it."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import foreign
import mounts
import scripted
from iosweep.commands import cli
from iosweep.errors import ExitCode
from iosweep.node import process
from iosweep.store.record import Refusal
from iosweep.target import identify, lock
from machine import Scripted
from targets import mounted

pytestmark = pytest.mark.local

#: Two points of one phase that writes new files: nothing has to be prepared.
SWEEP: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["seq_write"],
    "axes": {"threads_per_node": [1, 2]},
    "options": {"file_size": "2m", "transfer_size": "64k", "write_mode": "new"},
    "phase_time": "5s",
    "repetitions": 1,
}
#: One of them, for what happens before the first.
ONE = SWEEP | {"axes": {}}
#: Two points that read the files of one set.
READS = SWEEP | {"phases": ["rand_read"], "options": {"file_size": "256k", "transfer_size": "4k"}}
WRITING, READING, PREPARING = "--name=seq_write", "--name=rand_read", "--name=prepare"
Do = Callable[[], Any]


class Case(Scripted):
    """The target is a directory on the file system that is mounted at `mount`, with things of others on it."""

    def __init__(self, place: Path, sweep: dict[str, Any], limits: dict[str, Any]):
        self._sweep = sweep
        self._limits, self.mount = limits, place / "mount"
        (place / "locks").mkdir()
        super().__init__(place, self._sweep)
        self.target, self.beside = self.mount / "scratch", place / "beside"
        self.ours = self.target / "iosweep-c"
        self.path = f"{self.path}{os.pathsep}{os.environ['PATH']}"
        self.play()
        self.theirs = False  # what has the name of the campaign's directory is somebody else's
        self.stays = False  # something of the campaign stays on the target in the end
        self.planned: list[str] = []  # the command, where its plan must not be written again
        self.reset()

    def reset(self, **limits: Any) -> None:
        """Configure anew, with these limits changed."""
        self.configure(
            self._sweep,
            target={"directory": str(self.target), "lock": str(self.place / "locks")},
            limits={"retried": "0%", "fill": "100%", "share_of_free": "100%"} | self._limits | limits,
        )

    def play(self, *rules: scripted.Rule) -> None:
        """These rules, and no phase that writes a new file twice."""
        self.machine.play(*rules, {"when": WRITING, "ops_per_s": 6})

    def command(self, *arguments: str) -> list[str]:
        return self.planned or super().command(*arguments)

    def plan_now(self) -> None:
        self.planned = self.command()

    def plant(self) -> None:
        """Make the target, and things of others that nobody may touch."""
        self.target.mkdir()
        self.beside.mkdir()
        foreign.plant(self.mount, self.target, self.beside)
        mounts.sync(self.mount)

    def at_call(
        self, do: Do | str, nth: int = 2, call: str = WRITING, after: bool = False, fails: bool = False
    ) -> None:
        """Have something happen (a function, or a shell's commands) before or after the nth run with this argument;
        `fails`: the tool fails then."""
        act = do if callable(do) else partial(subprocess.run, ["sh", "-ec", do], check=True)
        calls = 0

        def during(made: scripted.Call, run: Callable[[], process.Completed]) -> process.Completed:
            nonlocal calls
            calls += call in made.line
            if call not in made.line or calls != nth:
                return run()
            if not after:
                act()
            done = run()
            if after:
                act()
            return replace(done, exit_code=1, stdout=b"") if fails else done

        self.machine.during = during

    def outside(self) -> dict[Path, Any]:
        """Everything on the target's file system and beside it, but the campaign's own directory."""
        ours = None if self.theirs else self.ours
        found = foreign.states(self.mount, ours) | foreign.states(self.beside)
        # the campaign's directory is made in the one, and faults make files in the other
        del found[self.target], found[self.mount]
        return found


#: Before its `yield`: what is there when the runner starts. After it: what mends that, so that the next run completes.
Happen = Callable[[Case], Iterator[None]]


class Fault(NamedTuple):
    """`ends`: exit code; `check`: of the rows that are invalid, "" where none is; `word`: of what is said; `still`: it
    leaves what is outside the campaign's directory as it is, and to be seen."""

    happen: Happen
    ends: int
    check: str
    word: str
    on: Callable[[Path], AbstractContextManager[None]]
    sweep: dict[str, Any]
    limits: dict[str, Any]
    still: bool


FAULTS: dict[str, Fault] = {}


def fault(
    ends: int = 0,
    check: str = "",
    word: str = "",
    on: Callable[[Path], AbstractContextManager[None]] = mounts.disk,
    sweep: dict[str, Any] = SWEEP,
    limits: dict[str, Any] | None = None,
    still: bool = True,
) -> Callable[[Happen], Happen]:
    def register(happen: Happen) -> Happen:
        made = Fault(happen, ends, check, word, on, sweep, limits or {}, still)
        FAULTS[happen.__name__.replace("_", " ")] = made
        return happen

    return register


refused = partial(fault, ExitCode.REFUSED)
unstored = partial(fault, ExitCode.STORE_FAILED)


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    if reason := mounts.missing():
        pytest.skip(reason)
    happens = FAULTS[request.node.callspec.params["name"]]
    made = Case(tmp_path, happens.sweep, happens.limits)
    made.mount.mkdir()
    with happens.on(made.mount):
        made.plant()
        yield made


def run_through(name: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    happens, planted = FAULTS[name], case.outside()
    happening = happens.happen(case)
    next(happening)
    arranged = case.outside() if happens.still else {}
    said = case.measure(code=happens.ends)
    assert happens.word in said
    assert "Traceback" not in said
    if happens.still:
        assert case.outside() == arranged
    next(happening, None)
    committed = case.committed()
    hit = [row for row in case.rows() if row["verdict"] not in ("valid", "suspect")]
    invalid = sorted({row["point"] for row in hit if row["verdict"] == "invalid"})
    assert case.failed() >= ({happens.check} if happens.check else set())
    assert bool(invalid) == bool(happens.check)
    if happens.ends == ExitCode.REFUSED and case.store.documents(Refusal):
        assert {row["reasons"] for row in hit} & {one.reason for one in case.store.documents(Refusal).values()}
    case.machine.during = lambda call, run: run()
    case.play()
    if invalid:
        monkeypatch.chdir(case.place)
        assert cli.main(["rerun", "--campaign", "c", *invalid]) == 0
    case.planned = []
    case.measure()
    # every repetition once, and what was stored is as it was
    rows = case.rows()
    assert sorted((r["point"], r["repetition"], r["phase"]) for r in rows) == sorted(
        (p.id, 1, phase.name) for p in case.plan.points for phase in p.measured()
    )
    assert {row["verdict"] for row in rows} == {"valid"}, [row["reasons"] for row in rows]
    stored = case.committed()
    assert {name: stored.get(name) for name in committed} == committed
    assert len([name for name in stored if name.endswith(".json")]) == len(case.plan.points) + len(invalid)
    assert case.outside() == planted
    assert case.ours.exists() == case.stays
    assert not (case.results / "scratch").exists()


# The tool


@fault(check="exit_status")
def tool_fails(case: Case) -> Iterator[None]:
    case.play({"times": 1, "ops_per_s": 6}, {"exit_code": 1, "stderr": "fio: engine went away", "times": 1})
    yield


@fault(check="output")
def rubbish_printed(case: Case) -> Iterator[None]:
    case.play({"times": 1, "ops_per_s": 6}, {"stdout": "Bus error\0\x1b[31m}{\n", "times": 1})
    yield


@refused(word="was replaced")
def tool_replaced(case: Case) -> Iterator[None]:
    program = Path(case.path.partition(os.pathsep)[0]) / "fio"
    case.at_call(f"cp {program} {program}.new; mv {program}.new {program}", nth=1)
    yield


# The target, at the start


@refused(still=False, word="is that mounted?")
def root_file_system_there(case: Case) -> Iterator[None]:
    case.at_call(f"umount -l {case.mount}")
    case.measure(code=ExitCode.REFUSED)
    above = next(p for p in (case.place, Path("/var/tmp"), Path("/")) if p.stat().st_dev == Path("/").stat().st_dev)
    with tempfile.TemporaryDirectory(dir=above) as root, mounted("mount", "--bind", root, str(case.mount)):
        case.target.mkdir()
        yield
    mounts.mount_image(case.mount)


@refused(sweep=ONE, word="read-only")
def target_read_only(case: Case) -> Iterator[None]:
    mounts.remount(case.mount, "ro")
    yield
    mounts.remount(case.mount, "rw")


@refused(sweep=ONE, word="iosweep.json")
def directory_of_somebody_else(case: Case) -> Iterator[None]:
    case.theirs = True
    case.ours.mkdir()
    (case.ours / "precious").write_text("x")
    yield
    shutil.rmtree(case.ours)
    case.theirs = False


@refused(sweep=ONE, word="another campaign")
def directory_of_another_campaign(case: Case) -> Iterator[None]:
    case.theirs = True
    (case.ours / "sets").mkdir(parents=True)
    marker = {"uuid": "7", "uid": 1, "host": "elsewhere", "results": "/r", "campaign": "c"}
    (case.ours / "iosweep.json").write_text(json.dumps(marker))
    yield
    shutil.rmtree(case.ours)
    case.theirs = False


@refused(still=False, word="another file system")
def copy_on_another_file_system(case: Case) -> Iterator[None]:
    """After a run that ended in the middle: path, marker and owner are those of the campaign."""
    case.at_call(f"umount -l {case.mount}")
    case.measure(code=ExitCode.REFUSED)
    mounts.mount_image(case.mount)
    copy = case.place / "copy"
    shutil.copytree(case.ours, copy)
    mounts.run("mount", "-t", "tmpfs", "backup", str(case.target))
    shutil.copytree(copy, case.ours)
    (case.ours / "fresh").mkdir(exist_ok=True)
    (precious := case.ours / "fresh" / "precious").write_text("x")
    yield
    assert precious.read_text() == "x"
    mounts.unmount(case.target)


@refused(sweep=ONE, word="symbolic link")
def link_in_its_place(case: Case) -> Iterator[None]:
    case.theirs = True
    case.ours.symlink_to(case.beside)
    yield
    case.ours.unlink()
    case.theirs = False


# The target, in the middle


@refused(word="read-only")
def read_only_in_the_middle(case: Case) -> Iterator[None]:
    case.at_call(f"mount -o remount,ro {case.mount}")
    yield
    mounts.remount(case.mount, "rw")


@refused(still=False, word=os.strerror(errno.EIO))
def disk_lost(case: Case) -> Iterator[None]:
    case.at_call(lambda: mounts.shut_down(case.mount))
    yield
    mounts.unmount(case.mount)
    mounts.mount_image(case.mount)


@refused(still=False, word="no longer there")
def unmounted_in_the_middle(case: Case) -> Iterator[None]:
    case.at_call(f"umount -l {case.mount}")
    yield
    mounts.mount_image(case.mount)


@refused(on=mounts.fuse, still=False, word=os.strerror(errno.ENOTCONN))
def server_gone(case: Case) -> Iterator[None]:
    case.at_call(f"kill -KILL {mounts.server(case.mount)}; while stat {case.mount}; do sleep 0.01; done 2> /dev/null")
    yield
    mounts.unmount(case.mount)
    mounts.serve(case.mount)


@refused(word="iosweep.json")
def marker_removed(case: Case) -> Iterator[None]:
    marker, away = case.ours / "iosweep.json", case.place / "marker"
    case.at_call(f"mv {marker} {away}", fails=True)
    yield
    shutil.move(away, marker)


@refused(word="iosweep.json")
def directory_swapped(case: Case) -> Iterator[None]:
    """Somebody renames it, and another directory has its name."""
    away = case.place / "away"
    case.at_call(
        f"mv {case.ours} {away}; cp -a {case.beside}/foreign {case.ours}; mkdir {case.ours}/fresh",
        after=True,
        fails=True,
    )
    yield
    assert (case.ours / "precious").stat().st_size == 5000
    assert (case.ours / "fresh").is_dir()
    shutil.rmtree(case.ours)
    shutil.move(away, case.ours)


@fault(sweep=READS)
def file_system_mounted_inside(case: Case) -> Iterator[None]:
    """Somebody shows another part of the same file system where the campaign removes its files when it is done."""
    case.stays = True
    inside = case.ours / "sets" / "inside"
    case.at_call(f"mkdir {inside}; mount --bind {case.mount}/foreign {inside}", call=READING)
    yield
    mounts.unmount(inside)


@fault(sweep=READS)
def foreign_files_inside(case: Case) -> Iterator[None]:
    """Somebody keeps files of his own in the campaign's directory."""
    case.stays = True
    case.at_call(f"echo x > {case.ours}/notes", call=READING)
    yield
    assert (case.ours / "notes").exists()


@fault(check="exit_status", sweep=READS)
def set_that_leads_elsewhere(case: Case) -> Iterator[None]:
    """Where the files were is a symbolic link to a directory of somebody else."""
    files = case.ours / "sets/fio-read-256k-1"
    case.at_call(f"rm -r {files}; ln -s {case.beside} {files}", nth=1, call=READING, after=True)
    yield


# Space


@refused(limits={"fill": "50%"}, still=False, word="limits.fill")
def filled_by_somebody_between(case: Case) -> Iterator[None]:
    filler = case.mount / "filler"
    case.at_call(f"fallocate -l 40M {filler}", nth=1, after=True)
    yield
    filler.unlink()


def while_full(case: Case, nth: int, call: str) -> None:
    """Have the tool run while somebody else has all the space."""
    filler = case.mount / "filler"
    case.at_call(f"cat /dev/zero > {filler} 2> /dev/null || :", nth, call)
    before = case.machine.during

    def during(made: scripted.Call, run: Callable[[], process.Completed]) -> process.Completed:
        try:
            return before(made, run)
        finally:
            filler.unlink(missing_ok=True)

    case.machine.during = during


@fault(check="exit_status")
def full_while_it_writes(case: Case) -> Iterator[None]:
    while_full(case, 2, WRITING)
    yield


@fault(check="data_complete", sweep=READS | {"axes": {}})
def full_while_a_set_is_written(case: Case) -> Iterator[None]:
    while_full(case, 1, PREPARING)
    yield


# The results


@unstored(word=os.strerror(errno.ENOSPC))
def results_disk_full(case: Case) -> Iterator[None]:
    case.results.mkdir(parents=True)
    with mounts.tmpfs(case.results, size="1m"):
        filler = case.results / "filler"
        case.at_call(f"cat /dev/zero > {filler} 2> /dev/null || :", after=True)
        yield
        filler.unlink()
        case.plan_now()
        kept = shutil.copytree(case.results, case.place / "kept")
    shutil.copytree(kept, case.results, dirs_exist_ok=True)


@unstored(sweep=ONE, word=os.strerror(errno.EROFS))
def results_read_only(case: Case) -> Iterator[None]:
    case.results.mkdir(parents=True)
    mounts.run("mount", "-t", "tmpfs", "results", str(case.results))
    case.plan_now()
    mounts.remount(case.results, "ro")
    yield
    mounts.unmount(case.results)


@unstored()
def results_removed_in_the_middle(case: Case) -> Iterator[None]:
    case.at_call(f"rm -r {case.results}", after=True)
    yield
    shutil.rmtree(case.ours)  # by hand: nothing says any more whose it is


# Limits


@fault(ExitCode.LIMIT_SPENT, limits={"time": "10s"}, word="limits.time")
def time_spent(case: Case) -> Iterator[None]:
    yield
    case.reset(time=None)


# Others


@refused(sweep=ONE, word="being measured")
def file_system_measured_by_another(case: Case) -> Iterator[None]:
    with lock.exclude(str(case.place / "locks"), identify.identify(str(case.target)), lock.Owner("x", "/r")):
        (file,) = (case.place / "locks").glob("*.lock")
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    assert not case.store.documents(Refusal)  # it ends by itself, and is no news for the report


# at the end of the module: every fault is registered by now
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_as_it_should_and_harms_nothing_else(
    case: Case, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_through(name, case, monkeypatch)
