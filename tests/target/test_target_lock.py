"""One campaign at a time per file system: real processes that want the same lock."""

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Busy, Unusable
from iosweep.node import procfs
from iosweep.target import filesystem, identify, lock_file, lock_owner
from iosweep.target.target_lock import Exclusion
from iosweep.text import printable
from locks import hold, named
from slurm import Cluster

DISK = "ext4 /dev/sda1"
NETWORK = "nfs4 server:/export"
OWNER = {"campaign": "c", "results": "/home/me/results/c"}
NOBODY = 65534
#: In a text, of a campaign on another machine.
AWAY = {"machine": "0" * 12, "namespace": "1"}

#: Holds a lock until its standard input ends; says what came of it.
HOLDER = """
import json, subprocess, sys
from iosweep.errors import Busy
from iosweep.target.target_lock import hold
directory, facts, tool = sys.argv[1:]
try:
    with hold(directory, json.loads(facts), {"campaign": "theirs", "results": "/r"}) as found:
        if tool:  # as an agent starts one; it outlives us
            print(subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid)
        print("held", found.note, flush=True)
        sys.stdin.read()
except Busy as error:
    print("busy", error, flush=True)
"""


class Other:
    """Another process that wants a lock."""

    def __init__(self, directory: Path, identity: str = DISK, tool: str = "", umask: int = -1) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(directory), json.dumps(named(identity)), tool],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, umask=umask,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate(timeout=300)


@pytest.fixture
def other() -> Iterator[Callable[..., Other]]:
    started: list[Other] = []

    def start(*arguments: Any, **more: Any) -> Other:
        started.append(Other(*arguments, **more))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory as /tmp is one: everybody's, sticky, and all users get there."""
    directory = Path(tempfile.mkdtemp(prefix="iosweep-test-"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


def lock(directory: Path) -> Path:
    (found,) = directory.glob("iosweep-*.lock")
    return found


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def a_lock(directory: Path, identity: str = DISK) -> Path:
    """The lock's file, as it is when nobody holds it."""
    with hold(str(directory), identity, OWNER):
        return lock(directory)


def write_owner(directory: Path, **change: Any) -> Path:
    for left in directory.glob("iosweep-*.lock"):
        left.write_bytes(b"")
    file = a_lock(directory)
    mine = {"pid": 12, "user": "ann", "host": socket.gethostname(), "since": "2025-01-02T03:04:05+00:00"}
    where = {"machine": lock_owner.machine(), "namespace": lock_owner.namespace("mnt")}
    file.write_text(json.dumps(mine | where | OWNER | change))
    return file


# Which file system


@pytest.mark.parametrize(
    ("source", "fstype", "expected"),
    [
        ("/dev/sda1", "ext4", "ext4 /dev/sda1"),
        ("server:/export", "nfs4", "nfs4 server:/export"),
        ("10.0.0.1@tcp:/scratch", "lustre", "lustre /scratch"),
        ("backend/fs", "wekafs", "wekafs fs"),
        ("tmpfs", "tmpfs", "tmpfs tmpfs 0a"),
        ("overlay", "overlay", "overlay overlay 0a"),
        ("none", "tmpfs", "tmpfs none 0a"),
        ("a/b:c", "tmpfs", "tmpfs a/b:c 0a"),  # whoever mounts it writes that
        ("beegfs_nodev", "beegfs", "beegfs beegfs_nodev 0a"),
    ],
)
def test_identity(source: str, fstype: str, expected: str) -> None:
    facts = {"source": source, "fstype": fstype, "fsid": "0a", "device": 5, "mount": "x", "writable": True}
    assert filesystem.identity(facts) == expected


def test_one_lock_for_each_file_system(tmp_path: Path) -> None:
    with (
        hold(str(tmp_path), DISK, OWNER),
        hold(str(tmp_path), NETWORK, OWNER),
        hold(str(tmp_path), "x \udcff\n/", OWNER),
    ):
        assert all(re.fullmatch(r"iosweep-[0-9a-f]{16}\.lock", f.name) for f in tmp_path.iterdir())
        assert len(list(tmp_path.iterdir())) == 3


# Held


@pytest.mark.local
def test_the_second_is_refused_with_who_holds_it(tmp_path: Path, other: Callable[..., Other]) -> None:
    first = other(tmp_path)
    assert first.line() == "held None"
    with pytest.raises(Busy) as caught, hold(str(tmp_path), DISK, OWNER):
        pass
    said = str(caught.value)
    assert said.startswith(f"the file system {DISK} is being measured by process {first.process.pid} of user ")
    assert f" on host {socket.gethostname()} (campaign theirs, results in /r, since 20" in said
    assert (
        f"wait for it, or stop it (it holds the lock {lock(tmp_path)}); if it is not a campaign, set target.l" in said
    )
    with hold(str(tmp_path), NETWORK, OWNER):  # another file system is another matter
        pass
    first.end()
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.note is None


def test_the_content_of_the_lock(tmp_path: Path) -> None:
    with hold(str(tmp_path), DISK, OWNER):
        found = json.loads(lock(tmp_path).read_text())
        said = {"user", "uid", "pid", "host", "machine", "namespace", "since", "file system", "campaign", "results"}
        said |= {"processes", "started"}
        assert set(found) == said
        assert (found["pid"], found["uid"], found["file system"]) == (os.getpid(), os.getuid(), DISK)
        with pytest.raises(Busy), hold(str(tmp_path), DISK, OWNER):  # not twice in one process, either
            pass
        assert json.loads(lock(tmp_path).read_text()) == found
    assert lock(tmp_path).read_bytes() == b""


def test_an_end_by_a_signal_of_ours_is_in_good_order(tmp_path: Path) -> None:
    class Stopped(BaseException):
        pass

    with pytest.raises(Stopped), hold(str(tmp_path), DISK, OWNER):
        raise Stopped
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.note is None


@pytest.mark.local
def test_a_killed_owner_is_taken_over_and_said(tmp_path: Path, other: Callable[..., Other]) -> None:
    first = other(tmp_path)
    assert first.line() == "held None"
    first.process.kill()
    first.process.wait()
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert re.fullmatch(
            rf"the lock {lock(tmp_path)} was left by process {first.process.pid} of user \S+ on host \S+ \(campaign"
            r" theirs, results in /r, since \S+\), which is gone; taken over",
            str(found.note),
        )
        assert found.enforced
    with hold(str(tmp_path), DISK, OWNER) as found:  # that is said once
        assert found.note is None


@pytest.mark.local
def test_what_an_owner_started_does_not_hold_it_for_him(tmp_path: Path, other: Callable[..., Other]) -> None:
    first = other(tmp_path, tool="yes")
    tool = int(first.line())
    try:
        assert first.line() == "held None"
        first.process.kill()
        first.process.wait()
        os.kill(tool, 0)  # it lives
        with hold(str(tmp_path), DISK, OWNER) as found:
            assert "which is gone" in str(found.note)
    finally:
        os.kill(tool, signal.SIGKILL)


@pytest.mark.local
def test_a_forked_child_does_not_hold_it_after_its_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with hold(str(tmp_path), DISK, OWNER):
        if not (child := os.fork()):
            os.read(reading, 1)
            os._exit(0)
    try:
        with hold(str(tmp_path), DISK, OWNER) as found:
            assert found.note is None
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@pytest.mark.local
def test_twenty_at_once(tmp_path: Path) -> None:
    # children of ours and not new interpreters: they arrive at the same time
    start, go = os.pipe()
    said, say = os.pipe()
    children = []
    for _ in range(20):
        if not (child := os.fork()):
            os.close(go)
            os.read(start, 1)  # ends for all of them at once
            try:
                with hold(str(tmp_path), DISK, OWNER):
                    os.write(say, b"h")
                    signal.pause()
            except Busy:
                os.write(say, b"b")
            finally:
                os._exit(1)
        children.append(child)
    try:
        os.close(go)
        answers = b""
        while len(answers) < 20:
            answers += os.read(said, 20)
        assert sorted(answers) == sorted(b"h" + b"b" * 19)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for handle in (start, said, say):
            os.close(handle)
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert "which is gone" in str(found.note)


@pytest.mark.parametrize("goes", [True, False])
def test_a_look_from_a_container_refuses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes: bool) -> None:
    """It has the lock for a moment, shared, because the kernel does not list there who holds it."""
    file = tmp_path / "lock"
    file.touch()
    looking = os.open(file, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(lock_file.time, "sleep", lambda _: goes and fcntl.flock(looking, fcntl.LOCK_UN))
    try:
        if goes:
            lock_file.take(file).close()
        else:
            with pytest.raises(lock_file.Taken):
                lock_file.take(file)
    finally:
        os.close(looking)


@pytest.mark.parametrize("machine", [True, False])
def test_a_look_leaves_the_lock_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: bool) -> None:
    monkeypatch.setattr(procfs, "shows_machine", lambda: machine)
    monkeypatch.setattr(procfs, "flocks", lambda *_: [])
    (tmp_path / "lock").write_bytes(b"text")
    assert lock_file.look(tmp_path / "lock") == b"text"
    taken = lock_file.take(tmp_path / "lock")
    try:
        if machine:  # it goes by the kernel's list alone
            assert lock_file.look(tmp_path / "lock") == b"text"
        else:
            with pytest.raises(lock_file.Taken):
                lock_file.look(tmp_path / "lock")
    finally:
        taken.close()


def test_a_lock_that_is_tidied_away_before_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # whoever held the removed file would hold nothing: the next one makes another
    real, times = fcntl.flock, [0]

    def late(handle: int, how: int) -> None:
        if how & fcntl.LOCK_EX and times[0] < 2:
            times[0] += 1
            lock(tmp_path).unlink()
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.enforced
        with pytest.raises(Busy), hold(str(tmp_path), DISK, OWNER):
            pass
    times[0], before = -1000, handles()  # forever
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert not found.enforced
    assert handles() == before


# Whose file it is


@pytest.mark.local
def test_all_users_may_lock_whatever_the_umask(shared: Path, other: Callable[..., Other]) -> None:
    first = other(shared, umask=0o077)
    assert first.line() == "held None"
    assert stat.S_IMODE(lock(shared).stat().st_mode) == 0o666
    before = os.umask(0o027)
    assert os.umask(before) == 0o027
    with hold(str(shared), NETWORK, OWNER):
        assert os.umask(before) == before  # ours is as it was


def as_nobody(act: Callable[[], str]) -> str:
    """What a function gives for another user, in a child."""
    if os.getuid():
        pytest.skip("root: needed to become another user")
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, act().encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def take(directory: Path) -> str:
    with hold(str(directory), DISK, OWNER) as found:
        if not found.enforced:
            return found.evidence
        return f"{found.note} {json.loads(lock(directory).read_text() or '{}').get('uid')}"


@pytest.fixture(params=["0", "2"])
def protected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways of the kernel with files of others in directories of all (most distributions: 2)."""
    setting = Path("/proc/sys/fs/protected_regular")
    if os.getuid() or not os.access(setting, os.W_OK):
        pytest.skip("root: needed for fs.protected_regular")
    before = setting.read_text()
    setting.write_text(request.param)
    yield
    setting.write_text(before)


@pytest.mark.local
@pytest.mark.usefixtures("protected")
def test_another_users_lock(shared: Path) -> None:
    with hold(str(shared), DISK, OWNER):
        assert as_nobody(lambda: take(shared)).startswith(f"Busy: the file system {DISK} is being measured by process")
    assert as_nobody(lambda: take(shared)) == f"None {NOBODY}"
    lock(shared).chmod(0o644)  # only to be read: locked all the same, but nobody can write who it is
    assert as_nobody(lambda: take(shared)) == "None None"
    lock(shared).chmod(0o600)
    assert as_nobody(lambda: take(shared)).startswith(
        f"the lock {lock(shared)} cannot be taken: Permission denied (a file of user root, mode 0600); set target.l"
    )


def test_a_lock_that_others_do_not_see_any_more(shared: Path) -> None:
    """What its owner does to the file while it is held: no pass, and the lock is left as it is."""
    with hold(str(shared), DISK, OWNER) as found:
        file, way = lock(shared), "; set target.lock to a directory that only trusted users may write to"
        before = found.now()
        assert before == {"enforced": True, "evidence": found.evidence}
        said = f"the lock {file} may not keep others off: "
        file.chmod(0o600)
        why = "other users cannot open it (a file of user root, mode 0600)"
        assert found.now() == {"enforced": False, "evidence": f"{said}{why}{way}"}
        file.chmod(0o666)
        assert found.now() == before
        file.rename(shared / "away")
        why = "it cannot be found any more (No such file or directory)"
        assert found.now() == {"enforced": False, "evidence": f"{said}{why}{way}"}
        file.touch()
        assert found.now() == {"enforced": False, "evidence": f"{said}another file of user root is in its place{way}"}
        (shared / "away").rename(file)
        assert found.now() == before


@pytest.mark.local
@pytest.mark.usefixtures("protected")
def test_root_takes_another_users_lock(shared: Path) -> None:
    assert as_nobody(lambda: take(shared)) == f"None {NOBODY}"
    assert lock(shared).stat().st_uid == NOBODY
    assert take(shared) == "None 0"


@pytest.mark.local
def test_no_right_to_make_it(shared: Path) -> None:
    shared.chmod(0o755)
    said = as_nobody(lambda: take(shared))
    made = rf"the lock {shared}/iosweep-\w+\.lock cannot be made: "
    assert re.match(rf"{made}user (id )?\S*.* cannot write to {shared} \(mode 0755, owner root \(0\)\); let all ", said)
    assert said.endswith("who measure write there, or set target.lock to a directory in which they can")


# What another user planted: test_planted_locks.py. What is in it


JUNK = [b"x", b"\xff\xfe", b"{}", b"[]", b"null", b"7", b'{"pid": 5}', b"[" * 20000, b"\0" * (1 << 20)]


@pytest.mark.parametrize("content", JUNK, ids=range(len(JUNK)))
def test_rubbish_in_it(tmp_path: Path, content: bytes) -> None:
    file = a_lock(tmp_path)
    file.write_bytes(content)
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.note == f"the lock {file} was left by another process, which is gone; taken over"
        file.write_bytes(content)
        with pytest.raises(Busy, match=rf"is being measured by process {os.getpid()} \(\S+\) of user \S+; two"), hold(
            str(tmp_path), DISK, OWNER
        ):  # fmt: skip
            pass


def test_an_owner_that_is_about_to_write(tmp_path: Path) -> None:
    with hold(str(tmp_path), DISK, OWNER):
        lock(tmp_path).write_bytes(b"")
        with pytest.raises(Busy, match=rf"by process {os.getpid()} "), hold(str(tmp_path), DISK, OWNER):
            pass


def test_nothing_in_it_reaches_a_terminal(tmp_path: Path) -> None:
    write_owner(tmp_path, user="\x1b[2J", campaign="a\nb" * 1000, pid={"a": 1})
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.note
        assert found.note.isprintable()
        assert "of user ?[2J on" in found.note
        assert len(found.note) < 1500


# What it is worth


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the lock's directory be on a file system of another type."""

    def made(fstype: str = "nfs4", options: str = "rw,vers=4.2,local_lock=none") -> None:
        real = identify.identify
        there = {"fstype": fstype, "mount": f"s:/locks on /locks type {fstype} ({options})"}
        monkeypatch.setattr(identify, "identify", lambda place: real(place) | there)

    return made


@pytest.mark.parametrize(
    ("identity", "fstype", "options", "evidence"),
    [
        (DISK, "tmpfs", "rw", None),
        (DISK, "nfs4", "rw,local_lock=all", None),
        (DISK, "fuse.x", "rw", None),
        (NETWORK, "nfs4", "rw,local_lock=none", None),
        (NETWORK, "lustre", "rw,flock", None),
        (NETWORK, "nfs", "rw,vers=3,nolock", "nfs with the mount option nolock, which keeps its locks from"),
        (NETWORK, "nfs4", "rw,local_lock=flock", "nfs4 with the mount option local_lock=flock, which"),
        (NETWORK, "nfs4", "rw,local_lock=posix", None),
        (NETWORK, "lustre", "rw,localflock", "lustre with the mount option localflock, which keeps its locks"),
        (NETWORK, "beegfs", "rw", "beegfs, whose locks may not reach the other nodes"),
        (NETWORK, "ext4", "rw", "ext4, which only this machine uses"),
        ("fuse.x y", "tmpfs", "rw", "tmpfs, which only this machine uses"),
    ],
)
def test_how_far_it_reaches(
    tmp_path: Path, on: Callable[..., None], identity: str, fstype: str, options: str, evidence: str | None
) -> None:
    on(fstype, options)
    with hold(str(tmp_path), identity, OWNER) as found:
        assert (found.enforced, found.note) == (evidence is None, None)
        if evidence:
            assert found.evidence.startswith(
                f"only campaigns on this machine are kept off: {tmp_path} is on {evidence}"
            )
        else:
            assert found.evidence == f"no other campaign that locks in {tmp_path} ({lock(tmp_path).name})"


def test_an_owner_on_another_host_may_live(tmp_path: Path, on: Callable[..., None]) -> None:
    # a mount that keeps its locks to itself lets us have the lock of a campaign that runs
    on()
    file = write_owner(tmp_path, host="n7", **AWAY)
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert not found.enforced
        assert found.evidence == f"{file} names a campaign on host n7; from here its end cannot be seen"
        assert "process 12 of user ann on host n7" in str(found.note)
        assert "which is gone" not in str(found.note)
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.enforced


# In a Slurm job


JOB = OWNER | {"job": "99"}
USER = procfs.user_name(os.getuid())
SHOWN = f"echo JobId=12 UserId={USER}\\(0\\) Comment=rule_measure_wildcards_c_1n WorkDir=/home/me"
#: What a stand-in for scontrol says of job 12.
SAYS = {
    "runs": f"{SHOWN} JobState=RUNNING NodeList=n1",
    "waits": f"{SHOWN} JobState=PENDING NodeList=",
    "over": f"{SHOWN} JobState=COMPLETED NodeList=n1",
    "other": "echo JobId=12 UserId=ann\\(7\\) Comment=rule_x WorkDir=/home/me JobState=RUNNING NodeList=n1",
    "ann's": "echo JobId=12 UserId=ann\\(7\\) Comment=rule_measure_wildcards_c_1n WorkDir=/home/me JobState=RUNNING",
    "gone": "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1",
    "blind": "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1",
}


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts one on PATH, which keeps its arguments in a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def made(script: str) -> Path:
        file = folder / "scontrol"
        file.write_text(f'#!/bin/sh\necho "$@" >> {folder}/called\n{script}\n')
        file.chmod(0o755)
        return folder / "called"

    return made


@pytest.mark.local
@pytest.mark.parametrize("says", ["runs", "waits", "ann's"])
def test_a_lock_that_names_a_job_that_lives(
    tmp_path: Path, scontrol: Callable[[str], Path], says: str, on: Callable[..., None]
) -> None:
    # a mount that keeps its locks to itself: we have it, and so has a job on another node
    on()
    called = scontrol(SAYS[says])
    user = "ann" if says == "ann's" else USER
    file = write_owner(tmp_path, host="n7", job="12", user=user, **AWAY)
    before = file.read_bytes()
    with pytest.raises(Busy) as caught, hold(str(tmp_path), DISK, JOB):
        pass
    assert caught.value.job == "12"
    stop = ", or stop it with `scancel 12`" * (user == USER)  # never a job of another user's
    assert str(caught.value) == (
        f"the file system {DISK} is being measured by job 12, process 12 of user {user} on host n7 (campaign c, results"
        " in /home/me/results/c, since 2025-01-02T03:04:05+00:00), a job that lives, as Slurm says; two at once would"
        f" falsify each other: wait for it{stop} (its lock is {file}); if it is not of this file system, set"
        " target.lock to a directory that only trusted users may write to"
    )
    assert file.read_bytes() == before  # its owner's still
    assert called.read_text() == "--oneliner show job 12\n"
    scontrol(SAYS["over"])
    with hold(str(tmp_path), DISK, JOB):  # what was refused held nothing back
        pass


@pytest.mark.local
@pytest.mark.parametrize(
    ("says", "job", "away", "user", "enforced", "note"),
    [
        ("over", "12", True, "ann", True, "which is gone; taken over"),
        ("gone", "12", True, USER, True, "which is gone; taken over"),
        ("gone", "12", True, "ann", False, "and was free from here; taken over"),  # Slurm may hide jobs of others
        ("other", "12", True, "ann", False, "and was free from here; taken over"),  # not of that campaign
        ("runs", "12", True, "ann", False, "and was free from here; taken over"),  # of another user than it says
        ("runs", "99", True, USER, True, "which is gone; taken over"),  # our own job, which Slurm has begun anew
        ("blind", "12", True, USER, False, "and was free from here; taken over"),  # it may live
        ("runs", "12", False, USER, True, "which is gone; taken over"),  # on this machine a lock is enough
        ("runs", "12; rm", True, USER, False, "and was free from here; taken over"),  # no number: Slurm is not asked
        ("runs", "9" * 13, True, USER, False, "and was free from here; taken over"),
    ],
)
def test_a_lock_that_names_a_job(
    tmp_path: Path,
    scontrol: Callable[[str], Path],
    on: Callable[..., None],
    says: str,
    job: str,
    away: bool,
    user: str,
    enforced: bool,
    note: str,
) -> None:
    on()
    called = scontrol(SAYS[says])
    file = write_owner(tmp_path, host="n7", job=job, user=user, **(AWAY if away else {}))
    with hold(str(tmp_path), DISK, JOB) as found:
        assert found.enforced is enforced
        assert str(found.note).endswith(note)
        assert (" names a campaign on host n7; " in found.evidence) is not enforced
        assert json.loads(file.read_text())["job"] == "99"
    assert called.exists() == (job == "12" and away)


@pytest.mark.local
@pytest.mark.parametrize(("says", "job"), [("runs", "12"), ("over", None), ("ann's", None), ("blind", None)])
def test_a_job_that_holds_it(tmp_path: Path, scontrol: Callable[[str], Path], says: str, job: str | None) -> None:
    """The next job waits for one that Slurm shows, of the user who holds the lock."""
    scontrol(SAYS[says])
    with (
        hold(str(tmp_path), DISK, OWNER | {"job": "12"}),
        pytest.raises(Busy, match="is being measured by job 12, process ") as caught,
        hold(str(tmp_path), DISK, OWNER),
    ):
        pass
    assert caught.value.job == job


def test_a_real_job(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: Callable[..., None]) -> None:
    comment = "--comment=rule_measure_wildcards_c_1n_0a_1"
    options = ["--parsable", "--hold", "--output=/dev/null", "--chdir=/home", "--wrap=true"]
    job = slurm.run(["sbatch", *options, comment]).stdout.strip()
    with slurm.popen([str(shutil.which("scontrol")), "--version"], stdout=subprocess.DEVNULL) as process:
        inside = process.args
    assert isinstance(inside, list)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/scontrol").write_text(f'#!/bin/sh\nexec {shlex.join(inside[:-1])} "$@"\n')
    (tmp_path / "bin/scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    on()
    write_owner(tmp_path, host="n7", job=job, user=USER, **AWAY)
    with pytest.raises(Busy, match=f"stop it with `scancel {job}`"), hold(str(tmp_path), DISK, JOB):
        pass
    write_owner(tmp_path, host="n7", job=job, user=USER, campaign="d", **AWAY)
    with hold(str(tmp_path), DISK, JOB) as found:
        assert f"job {job} is of user {USER}, and Slurm does not show it as that campaign's" in found.evidence
    slurm.cancel()
    write_owner(tmp_path, host="n7", job=job, user=USER, **AWAY)
    with hold(str(tmp_path), DISK, JOB) as found:
        assert found.enforced
        assert f"was left by job {job}, process 12 of user {USER} on host n7" in str(found.note)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF])
def test_a_directory_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def missing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", missing)
    before = handles()
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found == Exclusion(
            False,
            f"the lock {lock(tmp_path)} cannot be taken: {os.strerror(number)}; set target.lock to a directory that"
            " only trusted users may write to",
        )
    assert handles() == before


def test_a_full_disk_keeps_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with hold(str(tmp_path), DISK, OWNER) as found:
        assert found.enforced
        with pytest.raises(Busy, match=rf"by process {os.getpid()} "), hold(str(tmp_path), DISK, OWNER):
            pass


def test_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("none", "file"):
        with pytest.raises(Unusable, match=f"^target.lock {tmp_path}/{name} is not a directory; make it where"), hold(
            f"{tmp_path}/{name}", DISK, OWNER
        ):  # fmt: skip
            pass


def test_a_directory_with_a_relative_or_strange_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-rf", "a b$(x)", "é\udcff"):
        Path(name).mkdir()
        with hold(name, DISK, OWNER) as found:
            assert printable(f"{tmp_path}/{name}") in found.evidence
