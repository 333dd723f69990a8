"""The lock of the results: who has the campaign, where the kernel's lock decides and where it does not."""

import errno
import fcntl
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mounts
from iosweep.errors import Held, Unanswered
from iosweep.node import procfs
from iosweep.results import campaign_lock
from iosweep.results.store import Store
from iosweep.target import lock_file, lock_owner
from iosweep.target.lock_owner import Observed, ended, read
from locks import left as left_by
from targets import as_root
from without_flock import _FLOCK

OURS = f"process {os.getpid()} on {socket.gethostname()}"
HOLDING = (
    "import sys; from pathlib import Path; from iosweep.results.store import Store\n"
    "with Store(Path(sys.argv[1])).locked(): print('held', flush=True); sys.stdin.read()"
)
WITHOUT = [sys.executable, str(Path(__file__).parents[1] / "support/without_flock.py")]
no_seccomp = pytest.mark.skipif(os.uname().machine not in _FLOCK, reason="seccomp: number of flock not known here")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results" / "c")
    made.path.mkdir(parents=True)
    return made


@pytest.fixture
def file(store: Store) -> Path:
    return store.path / "lock"


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock_file.fcntl, "flock", missing)
    monkeypatch.setattr(campaign_lock, "_SETTLE_S", 0.0)


class Other:
    """A process that holds the campaign."""

    def __init__(self, store: Store, *prefix: str):
        command = [*prefix, sys.executable, "-c", HOLDING, str(store.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        assert self.process.stdout.readline() == "held\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


# --- whether the one that is named has ended

THERE = read(left_by(host="h", machine="boot-1", processes="40", started="100").encode())
NAMELESS = read(left_by(host="h").encode())


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (Observed("h", "boot-1", "40", "100"), False),
        (Observed("h", "boot-1", "40", "101"), True),  # its number was given to another process
        (Observed("h", "boot-1", "40", ""), True),
        (Observed("h", "boot-1", "40", None), None),  # /proc hides processes of other users
        (Observed("h", "boot-1", "41", "100"), None),  # in a container
        (Observed("h", "boot-2", "40", "100"), True),  # started again
        (Observed("g", "boot-2", "40", ""), None),  # another machine
        (Observed("g", "boot-1", "40", "100"), False),  # its name was changed
    ],
)
def test_whether_it_has_ended(here: Observed, expected: bool | None) -> None:
    assert THERE
    assert NAMELESS
    assert ended(THERE, here) is expected
    assert ended(NAMELESS, here) is None


def test_the_text_is_read_back() -> None:
    written = read(lock_owner.mine({"campaign": "c", "results": "/r/c", "job": "12"}))
    assert written
    assert written.short == f"{OURS} (job 12)"
    assert (written.here, ended(written, lock_owner.observe(written.pid))) == (True, False)
    for wrong in ("", "x", "process 7 on h", "[]", "{}", '{"pid": 7}', "\0"):
        assert read(wrong.encode()) is None


@pytest.mark.local
def test_what_is_seen_of_processes() -> None:
    seen = lock_owner.observe(str(os.getpid()))
    assert seen.started
    assert seen.started.isdigit()
    assert lock_owner.observe("4194305").started == ""
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert lock_owner.observe(str(child.pid)).started == ""  # it has ended, and is still in /proc


# --- where the kernel decides


def test_one_runner_at_a_time(store: Store, file: Path) -> None:
    with store.locked() as note:
        assert note is None
        with pytest.raises(Held, match=f"^is being measured by {OURS}; wait for it, or stop it$"):
            Store(store.path).locked().__enter__()
        with Store(store.path.with_name("another")).locked():
            pass
        assert store.holder() == OURS
    assert file.read_text() == ""
    with store.locked():  # it is free again
        assert store.holder() == OURS


@pytest.mark.parametrize(
    ("left", "lives", "held"),
    [
        (left_by(job="12"), {"12"}, True),
        (left_by(job="12"), set(), False),
        (left_by(job="99"), {"99"}, False),  # that is us, again: Slurm has begun our job anew
        (left_by(), {"7", "12"}, False),
        (left_by(job="12") + " or so", {"12"}, False),
        (left_by(job="x"), {"x"}, False),
        ("", set(), False),
    ],
)
def test_a_job_that_was_killed_may_live_where_locks_do_not_reach(
    store: Store, file: Path, left: str, lives: set[str], held: bool
) -> None:
    # not every mount takes its locks to the other nodes: whoever it names is asked for
    file.write_text(left)
    if held:
        with pytest.raises(Held, match=r"^is being measured by process 7 on n1 \(job 12\); ") as caught:
            store.locked("99", lives.__contains__).__enter__()
        assert caught.value.job == "12"
        assert store.holder() == "process 7 on n1 (job 12)"
        return
    with store.locked("99", lives.__contains__):
        ours = f"{OURS} (job 99)"
        assert store.holder() == ours
        with pytest.raises(Held, match=re.escape(ours)) as caught:
            Store(store.path).locked("100").__enter__()
        assert caught.value.job == "99"
    assert store.holder() == ""


def blind(job: str) -> bool:
    raise Unanswered("squeue did not answer")


def test_what_cannot_be_seen_holds_it(store: Store, file: Path) -> None:
    file.write_text(left_by(job="12"))
    with pytest.raises(Unanswered), store.locked("99", blind):
        pass
    assert store.holder() == "process 7 on n1 (job 12)"  # for the next one, too
    with store.locked("99", lambda _: False):
        pass


def test_the_end_of_its_process_is_enough_where_slurm_is_silent(store: Store, file: Path) -> None:
    seen = lock_owner.observe(str(os.getpid()))
    file.write_text(left_by(4194305, "h", "12", machine=seen.machine, processes=seen.processes, started="5"))
    with store.locked("99", blind):
        pass


@pytest.mark.parametrize("text", [left_by(), "rubbish"])
def test_an_owner_on_another_machine(store: Store, file: Path, text: str) -> None:
    """A run goes on by the kernel's lock, and says so; who deletes wants to be certain."""
    file.write_text(text)
    named = text if text == "rubbish" else "process 7 on n1"
    with pytest.raises(Held, match=rf"^may still be measured by .*{named}.*then remove {file}$"):
        store.locked(certain=True).__enter__()
    assert file.read_text() == text
    with store.locked() as note:
        assert note
        assert named in note
        assert "whose end cannot be seen from here; nothing else holds it" in note


@pytest.mark.local
@pytest.mark.parametrize("prefix", [(), pytest.param(WITHOUT, marks=no_seccomp)])
def test_a_runner_that_was_killed_holds_nothing(store: Store, prefix: list[str]) -> None:
    """With the kernel's lock, and for two processes that have none."""
    other = Other(store, *prefix)
    with pytest.raises(Held, match=f"process {other.process.pid} on "):
        store.locked(certain=True).__enter__()
    other.kill()
    with store.locked(certain=True):
        assert store.holder() == OURS


# --- where there are no locks


def test_without_locks_the_text_keeps_others_out(store: Store, file: Path, no_flock: None) -> None:
    with store.locked() as note:
        assert note
        assert note.startswith("the file system of the results has no locks (No locks available): other runs")
        with pytest.raises(Held, match=f"^is being measured by {OURS}; "):
            Store(store.path).locked().__enter__()
        assert store.holder() == OURS
    assert file.read_text() == ""


@pytest.mark.parametrize("text", [left_by(), "rubbish"])
def test_without_locks_nothing_is_taken_from_an_owner_that_cannot_be_seen(
    store: Store, file: Path, no_flock: None, text: str
) -> None:
    file.write_text(text)
    with pytest.raises(Held, match="may still be measured by"):
        store.locked().__enter__()
    file.unlink()
    with store.locked():
        pass


def test_without_locks_two_at_the_same_moment(
    store: Store, file: Path, no_flock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = left_by(machine="b", processes="4", started="5")
    monkeypatch.setattr(campaign_lock.time, "sleep", lambda _: file.write_text(other))
    with pytest.raises(Held, match=r"^is being measured by process 7 on n1;"):
        store.locked().__enter__()
    assert file.read_text() == other


# --- what is no lock of ours


def plant(file: Path, what: str) -> Path:
    """Put something in the lock's place; returns what it leads to."""
    precious = file.with_name("precious")
    precious.write_text("of somebody else")
    if what == "symbolic link":
        file.symlink_to(precious)
    elif what == "dangling":
        file.symlink_to(file.with_name("nowhere"))
    elif what == "hard link":
        os.link(precious, file)
    elif what == "directory":
        file.mkdir()
    else:
        os.mkfifo(file)
    return precious


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("symbolic link", "is a symbolic link (of user "),
        ("dangling", "is a symbolic link (of user "),
        ("hard link", "is a file with 2 names (of user "),
        ("directory", "is a directory (of user "),
        ("FIFO", "is a FIFO (of user "),
    ],
)
def test_it_is_a_file_of_its_own(store: Store, file: Path, what: str, said: str) -> None:
    precious = plant(file, what)
    with pytest.raises(OSError, match=re.escape(said)) as caught:
        store.locked().__enter__()
    assert caught.value.filename == str(file)
    assert "remove it, and the next run makes another" in str(caught.value)
    assert store.holder() == ""
    assert precious.read_text() == "of somebody else"
    assert not file.with_name("nowhere").exists()


@pytest.mark.local
@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_a_file_that_is_mounted_over_it_is_not_emptied(store: Store, file: Path) -> None:
    precious = file.with_name("precious")
    precious.write_text("of somebody else")
    file.touch()
    subprocess.run(["mount", "--bind", precious, file], check=True)
    try:
        with pytest.raises(OSError, match=r"the lock is a mount point .* left alone; unmount it"):
            store.locked().__enter__()
    finally:
        subprocess.run(["umount", file], check=True)
    assert precious.read_text() == "of somebody else"
    with store.locked():
        pass


def test_a_link_in_its_place_is_not_the_lock(store: Store, file: Path) -> None:
    """What somebody puts there while we measure leads to the same file, and keeps nothing off."""
    with store.locked():
        file.rename(file.with_name("moved"))
        file.symlink_to("moved")
        with pytest.raises(OSError, match="removed or replaced while they were measured"):
            store.commit("p", 1, {}, {})


@pytest.fixture
def stranger(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another user, who has opened the lock for reading, and holds it."""
    program = (
        "import fcntl, os, sys; file = open(sys.argv[1]); os.setuid(12345)\n"
        "fcntl.flock(file, fcntl.LOCK_SH); print('held', flush=True); sys.stdin.read()"
    )
    file.touch()
    command = [sys.executable, "-c", program, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate()


@pytest.mark.local
@as_root
def test_a_stranger_that_holds_it_is_named(store: Store, file: Path, stranger: subprocess.Popen[str]) -> None:
    said = f"^cannot be locked: process {stranger.pid} of user 12345 holds {file}, and has not written into it as"
    for text in ("", left_by()):
        file.write_text(text)
        with pytest.raises(Held, match=said):
            store.locked().__enter__()
        assert file.read_text() == text
    file.unlink()  # the way round
    with store.locked():
        pass


def test_others_see_what_is_written(store: Store, file: Path) -> None:
    """The kernel's list, of which at_work.py tells who measures."""
    with store.locked(), file.open() as handle:
        status = os.fstat(handle.fileno())
        assert procfs.flocks(status, str(os.getpid())) == [str(os.getpid())]
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert procfs.flocks(status) == []
