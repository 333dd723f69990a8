"""Locks: of a campaign's results, of a file system, and Slurm's licenses. Real processes that want the same lock."""

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Busy, Unanswered, Unusable
from iosweep.slurm import query
from iosweep.store.store import Store
from iosweep.target import identify, lock
from iosweep.target.lock import Exclusion, Owner
from locks import left
from targets import NOBODY, as_root, everybodys

MINE = Owner("mine", "/home/me/results/mine")
DISK = {"fstype": "ext4", "source": "/dev/sda1", "fsid": "0", "mounted": "8:1", "device": 0}
NETWORK = {"fstype": "nfs4", "source": "server:/export", "fsid": "0", "mounted": "0:9", "device": 0}

#: Holds a lock until its standard input ends, with a child that lives on, as an agent starts a tool.
HOLDER = """
import subprocess, sys
from pathlib import Path
from iosweep.target.lock import Owner, take
held = take(Path(sys.argv[1]), Owner("theirs", "/r/theirs", sys.argv[2]), "it", shared=True)
print(subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
sys.stdin.read()
"""


class Other:
    """Another process that holds a lock."""

    def __init__(self, file: Path, job: str = "", umask: int = -1) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(file), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            umask=umask,
        )  # fmt: skip
        assert self.process.stdout
        self.child = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=300)

    def end(self) -> None:
        self.kill()
        os.kill(self.child, signal.SIGKILL)


@pytest.fixture
def other() -> Iterator[Callable[..., Other]]:
    started: list[Other] = []

    def start(file: Path, *how: str, **more: Any) -> Other:
        started.append(Other(file, *how, **more))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def refused(file: Path) -> Busy:
    with pytest.raises(Busy) as caught:
        lock.take(file, MINE, "campaign c")
    return caught.value


# Held


@pytest.mark.local
def test_the_second_is_refused_with_who_holds_it(file: Path, other: Callable[..., Other]) -> None:
    first = other(file, "12")
    said, pid = refused(file), str(first.process.pid)
    assert said.job == "12"
    for word in ("campaign c", f"process {pid} ", socket.gethostname(), "job 12", "theirs", "/r/theirs"):
        assert word in str(said)
    found = lock.holder(file)
    assert found
    assert (found.pid, found.job) == (pid, "12")


@pytest.mark.local
def test_a_killed_owner_holds_nothing_nor_does_its_child(file: Path, other: Callable[..., Other]) -> None:
    runs = other(file.with_name("another"))  # a campaign of the same checkout: each lock names its own process only
    other(file).kill()
    assert lock.read(file.read_bytes())  # its text is still there
    assert lock.holder(file) is None
    with contextlib.closing(lock.take(file, MINE, "campaign c")) as held:
        assert held.note is None
        assert json.loads(file.read_text())["campaign"] == "mine"
        assert f"process {os.getpid()} " in str(refused(file))
        assert f"process {runs.process.pid} " in str(refused(file.with_name("another")))
    assert file.read_text() == ""
    assert lock.holder(file) is None


def test_the_text_of_a_lock_neither_holds_it_nor_drives_a_terminal(file: Path) -> None:
    file.write_bytes(b'{"pid": ' + b"[" * 9999)
    lock.take(file, MINE, "it").close()
    with contextlib.closing(lock.take(file, Owner("\x1b[2J" * 999, "\n\a", job="1; rm"), "it")):
        said = refused(file)
    assert str(said).isprintable()
    assert len(str(said)) < 1000
    assert said.job is None


def test_a_lock_that_was_removed_or_replaced_is_not_the_lock(tmp_path: Path) -> None:
    store = Store(tmp_path / "results" / "c")
    with store.locked():
        assert store._lock and store._lock.in_place()
        (store.path / "lock").rename(tmp_path / "away")
        assert not store._lock.in_place()
        (store.path / "lock").symlink_to(tmp_path / "away")
        assert not store._lock.in_place()


@pytest.mark.parametrize("what", ["link", "hard link", "fifo"])
def test_something_else_in_its_place_is_left_alone(file: Path, what: str) -> None:
    precious = file.with_name("precious")
    precious.write_text("of somebody else")
    plant: dict[str, Callable[[], object]] = {
        "link": lambda: file.symlink_to(precious),
        "hard link": lambda: file.hardlink_to(precious),
        "fifo": lambda: os.mkfifo(file),
    }
    plant[what]()
    with pytest.raises(OSError, match=r"no plain file with one name|symbolic links"):
        lock.take(file, MINE, "it")
    assert precious.read_text() == "of somebody else"


# Where a flock does not reach


def test_without_flock_exclusion_is_not_checked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", missing)
    with contextlib.closing(lock.take(file, MINE, "it")) as held:
        assert held.note and held.note.startswith("exclusion not checked:")
        lock.take(file, MINE, "it").close()
    with lock.exclude(str(file.parent), DISK, MINE) as found:
        assert not found.enforced
        assert found.evidence.startswith("exclusion not checked:")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What Slurm says of the only job: whether it lives, or why it does not answer."""

    def says(answer: bool | Unanswered, installed: bool = True) -> None:
        def lives(id: str) -> bool:
            assert id == "12"
            if isinstance(answer, Unanswered):
                raise answer
            return answer

        monkeypatch.setattr(query, "lives", lives)
        monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/scontrol" if installed else None)

    return says


@pytest.mark.parametrize("answer", [True, Unanswered("scontrol cannot be run")])
def test_a_free_lock_of_a_job_that_lives_or_may_live_is_held(
    file: Path, job: Callable[..., None], answer: bool | Unanswered
) -> None:
    """Its node may keep its flock to itself."""
    file.write_text(left(job="12"))
    job(answer)
    assert refused(file).job == "12"
    lock.take(file, Owner("c", "/r/c", "12"), "it").close()  # that is us
    file.write_text(left(job="12"))
    job(False)
    lock.take(file, MINE, "it").close()


# A file system


def test_each_file_system_has_one_lock(tmp_path: Path) -> None:
    with lock.exclude(str(tmp_path), DISK, MINE) as found, lock.exclude(str(tmp_path), NETWORK, MINE):
        assert found.enforced
        assert len(list(tmp_path.glob("iosweep-*.lock"))) == 2
        for facts in (DISK, NETWORK):
            with pytest.raises(Busy, match=f"process {os.getpid()} "), lock.exclude(str(tmp_path), facts, MINE):
                pass
    with pytest.raises(Unusable), lock.exclude(f"{tmp_path}/none", DISK, MINE):
        pass


@pytest.mark.parametrize(
    ("mount", "facts", "private", "enforced"),
    [
        ("ext4 on / type ext4 (rw)", DISK, False, True),
        ("ext4 on / type ext4 (rw)", DISK, True, False),
        ("ext4 on / type ext4 (rw)", DISK, None, False),  # in a container
        ("s:/x on /x type nfs4 (rw,vers=4.2)", NETWORK, None, True),
        ("s:/x on /x type nfs4 (rw,vers=3,local_lock=all)", NETWORK, None, False),
    ],
)
def test_a_lock_keeps_off_only_those_who_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str, facts: dict[str, object], private: bool | None,
    enforced: bool,
) -> None:  # fmt: skip
    there = lock.identify.identify(str(tmp_path)) | {"fstype": mount.split()[4], "mount": mount}
    monkeypatch.setattr(lock.identify, "identify", lambda _: there)
    monkeypatch.setattr(identify, "is_private", lambda _: private)
    monkeypatch.setattr(lock, "MACHINE", str(tmp_path))
    for directory in (str(tmp_path), None):
        with lock.exclude(directory, facts, MINE) as found:
            assert found.enforced == enforced
            assert found.evidence.startswith("no other campaign" if enforced else "exclusion not checked:")


@pytest.mark.local
@as_root
def test_all_users_may_lock_whatever_the_umask(other: Callable[..., Other]) -> None:
    """In a sticky directory, as /tmp is one."""
    with everybodys() as shared:
        file = shared / "lock"
        first = other(file, umask=0o077)
        assert stat.S_IMODE(file.stat().st_mode) == 0o666
        assert refused(file)
        first.kill()
        os.chown(file, NOBODY, NOBODY)
        lock.take(file, MINE, "it", shared=True).close()  # another user's


# Licenses

#: `scontrol --oneliner show licenses` of 22.05.8, with a second and a remote one.
PRINTED = """LicenseName=matlab Total=40 Used=3 Free=37 Reserved=0 Remote=no
LicenseName=pfs Total=1 Used=1 Free=0 Reserved=0 Remote=no
LicenseName=pfs2@slurmdb Total=2 Used=0 Free=2 Reserved=0 Remote=yes
"""
NOT = Exclusion(False, "evidence")


def test_only_all_there_are_of_a_license_keep_others_off() -> None:
    assert not lock.judge_licenses("pfs", "No licenses configured in Slurm.\n", NOT).enforced
    for asked in ("pfs:1", "pfs", "matlab:1,pfs:1", "matlab:40", "pfs2@slurmdb:2"):
        assert lock.judge_licenses(asked, PRINTED, NOT).enforced, asked
    for asked in ("matlab:3", "pfs2:2", "gone:1", "pfs:1|matlab:1", "pfs:x", ",", "pfs:0"):
        found = lock.judge_licenses(asked, PRINTED, NOT)
        assert not found.enforced, asked
        assert found.evidence.startswith("evidence; ")
        assert lock.judge_licenses(asked, PRINTED, Exclusion(True, "locked")).enforced


def test_the_locks_of_several_targets_are_taken_in_one_order_and_each_once(tmp_path: Path) -> None:
    for place in ("x", "y"):
        (tmp_path / place).mkdir()
    x, y = (str(tmp_path / place) for place in ("x", "y"))
    targets = {"a": (y, NETWORK), "b": (x, DISK), "c": (y, NETWORK)}
    with lock.exclude_all(targets, MINE) as found:
        assert [*found] == [*targets] and found["a"] is found["c"] and found["b"].enforced
        assert len(list(tmp_path.glob("*/iosweep-*.lock"))) == 2
        with pytest.raises(Busy), lock.exclude_all({"d": (y, NETWORK)}, MINE):
            pass
    (held,) = (tmp_path / "x").glob("*")
    with contextlib.closing(lock.take(held, MINE, "it")):
        # whoever has the first lock gets all of them: the other one holds none
        with pytest.raises(Busy), lock.exclude_all(targets, MINE):
            pass
        with lock.exclude_all({"a": targets["a"]}, MINE):
            pass
