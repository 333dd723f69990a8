"""Locks: of a campaign's results, of a file system, and Slurm's licenses. Real processes that want the same lock."""

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
from iosweep.results.store import Store
from iosweep.slurm import query
from iosweep.target import lock, mounts
from iosweep.target.lock import Exclusion, Owner
from locks import left
from slurm import Cluster
from targets import NOBODY, as_root, everybodys

MINE = Owner("mine", "/home/me/results/mine")
DISK = {"fstype": "ext4", "source": "/dev/sda1", "fsid": "0", "mounted": "8:1", "device": 0}
NETWORK = {"fstype": "nfs4", "source": "server:/export", "fsid": "0", "mounted": "0:9", "device": 0}
OURS = f"process {os.getpid()} of user "

#: Holds a lock until its standard input ends, with a child that lives on, as an agent starts a tool.
HOLDER = """
import subprocess, sys
from pathlib import Path
from iosweep.target.lock import Owner, take
held = take(Path(sys.argv[1]), Owner("theirs", "/r/theirs", sys.argv[2]), "it", shared=True)
print(subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
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
def other(file: Path) -> Iterator[Callable[..., Other]]:
    started: list[Other] = []

    def start(job: str = "", **more: Any) -> Other:
        started.append(Other(file, job, **more))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", missing)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool | None], None]:
    """What Slurm says of the only job: whether it lives, None where it does not answer."""

    def says(alive: bool | None) -> None:
        def lives(id: str) -> bool:
            assert id == "12"
            if alive is None:
                raise Unanswered("scontrol cannot be run")
            return alive

        monkeypatch.setattr(query, "lives", lives)
        monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/scontrol")

    return says


def refused(file: Path) -> Busy:
    with pytest.raises(Busy) as caught:
        lock.take(file, MINE, "campaign c")
    return caught.value


# Held


@pytest.mark.local
def test_the_second_is_refused_with_who_holds_it(file: Path, other: Callable[..., Other]) -> None:
    first = other(job="12")
    said = refused(file)
    assert str(said).startswith(f"campaign c is being measured by process {first.process.pid} of user ")
    assert f" on host {socket.gethostname()} (job 12, campaign theirs, results in /r/theirs, since 20" in str(said)
    assert said.job == "12"
    found = lock.holder(file)
    assert found
    assert (found.pid, found.job) == (str(first.process.pid), "12")


@pytest.mark.local
def test_a_killed_owner_holds_nothing_nor_does_its_child(file: Path, other: Callable[..., Other]) -> None:
    other().kill()
    assert lock.read(file.read_bytes())  # its text is still there
    assert lock.holder(file) is None
    with lock.hold(file, MINE, "campaign c") as held:
        assert held.note is None
        assert json.loads(file.read_text())["campaign"] == "mine"
        assert str(refused(file)).startswith(f"campaign c is being measured by {OURS}")
    assert file.read_text() == ""
    assert lock.holder(file) is None


@pytest.mark.local
def test_a_killed_run_is_not_blamed_on_another_campaign(tmp_path: Path) -> None:
    """Two campaigns of one checkout: the lock of each names its own process only."""
    killed, runs = Other(tmp_path / "a"), Other(tmp_path / "b")
    killed.kill()
    with lock.hold(tmp_path / "a", MINE, "campaign a"):
        assert f"is being measured by process {runs.process.pid} " in str(refused(tmp_path / "b"))
    for each in (killed, runs):
        each.end()


@pytest.mark.local
def test_a_forked_child_does_not_hold_it_after_its_end(file: Path) -> None:
    reading, writing = os.pipe()
    held = lock.take(file, MINE, "it")
    if not (child := os.fork()):
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    held.close()
    lock.take(file, MINE, "it").close()
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)


@pytest.mark.local
def test_twenty_at_once(file: Path) -> None:
    start, go = os.pipe()
    said, say = os.pipe()
    children = []
    for _ in range(20):
        if not (child := os.fork()):
            os.close(go)
            os.read(start, 1)  # ends for all of them at once
            try:
                with lock.hold(file, MINE, "it"):
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


def test_a_look_at_the_same_moment_refuses_no_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.touch()
    looks = os.open(file, os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)
    monkeypatch.setattr(lock.time, "sleep", lambda _: os.close(looks))
    lock.take(file, MINE, "it").close()


@pytest.mark.parametrize("content", [b"x", b"\0\xff", b"[1]", b"{}", b'{"pid": ' + b"[" * 9999])
def test_a_text_that_names_nobody(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    lock.take(file, MINE, "it").close()
    file.write_bytes(content)
    handle = os.open(file, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert str(refused(file)) == "campaign c is being measured by another process; wait for it, or stop it"
    os.close(handle)


def test_nothing_in_it_reaches_a_terminal(file: Path) -> None:
    with lock.hold(file, Owner("\x1b[2J" * 999, "\n\a", job="1; rm"), "it"):
        said = refused(file)
    assert str(said).isprintable()
    assert len(str(said)) < 1000
    assert said.job is None


def test_a_lock_that_was_removed_is_not_the_lock(tmp_path: Path) -> None:
    store = Store(tmp_path / "results" / "c")
    with store.locked():
        assert store._lock and store._lock.in_place()
        (store.path / "lock").rename(tmp_path / "away")
        assert not store._lock.in_place()
        (store.path / "lock").symlink_to(tmp_path / "away")
        assert not store._lock.in_place()


@pytest.mark.parametrize("what", ["link", "hard link", "directory", "fifo"])
def test_something_else_in_its_place_is_left_alone(file: Path, what: str) -> None:
    precious = file.with_name("precious")
    precious.write_text("of somebody else")
    plant: dict[str, Callable[[], object]] = {
        "link": lambda: file.symlink_to(precious),
        "hard link": lambda: file.hardlink_to(precious),
        "directory": file.mkdir,
        "fifo": lambda: os.mkfifo(file),
    }
    plant[what]()
    with pytest.raises(OSError, match=r"no plain file with one name|symbolic links|a directory"):
        lock.take(file, MINE, "it")
    with lock.exclude(str(file.parent), DISK, MINE) as found:
        assert found.enforced  # it is named after the file system
    assert precious.read_text() == "of somebody else"


def test_a_full_disk_keeps_the_lock(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with lock.hold(file, MINE, "it"):
        assert refused(file)


# Where a flock does not reach


def test_without_flock_it_is_not_checked(file: Path, no_flock: None) -> None:
    with lock.hold(file, MINE, "it") as held:
        assert held.note == f"exclusion not checked: the file system of {file} has no locks (No locks available)"
        lock.take(file, MINE, "it").close()
    with lock.exclude(str(file.parent), DISK, MINE) as found:
        assert (found.enforced, found.evidence[:22]) == (False, "exclusion not checked:")


@pytest.mark.parametrize(("alive", "said"), [(True, "is being measured by"), (None, "may still be measured by")])
def test_a_job_that_a_free_lock_names(
    file: Path, job: Callable[[bool | None], None], alive: bool | None, said: str
) -> None:
    """Its node may keep its flock to itself."""
    file.write_text(left(job="12"))
    job(alive)
    assert str(refused(file)).startswith(f"campaign c {said} process 7 of user ann on host n1 (job 12, ")
    lock.take(file, Owner("c", "/r/c", "12"), "it").close()  # that is us
    file.write_text(left(job="12"))
    job(False)
    lock.take(file, MINE, "it").close()


@pytest.mark.parametrize("installed", [True, False])
def test_no_job_holds_a_free_lock_without_a_cluster(
    file: Path, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a machine that was in a cluster, or of results that were copied from one."""

    def lives(_: str) -> bool:
        raise Unanswered("failed", "scontrol: error: resolve_ctls_from_dns_srv: Unknown host" if installed else "")

    monkeypatch.setattr(query, "lives", lives)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/scontrol" if installed else None)
    file.write_text(left(job="12"))
    lock.take(file, MINE, "it").close()


def test_a_real_job(slurm: Cluster, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that works on after its snakemake was killed is seen."""
    job = slurm.run(["sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true"]).stdout.strip()
    monkeypatch.setattr(query, "ask", lambda argv, *_, **__: slurm.run(argv).stdout)
    file.write_text(left(job=job))
    assert refused(file).job == job
    slurm.cancel()
    lock.take(file, MINE, "it").close()


# A file system


def test_one_lock_for_each_file_system(tmp_path: Path) -> None:
    with lock.exclude(str(tmp_path), DISK, MINE), lock.exclude(str(tmp_path), NETWORK, MINE):
        assert len(list(tmp_path.glob("iosweep-*.lock"))) == 2
        with (
            pytest.raises(Busy, match=f"^the file system nfs4 server:/export is being measured by {OURS}"),
            lock.exclude(str(tmp_path), NETWORK, MINE),
        ):
            pass


@pytest.mark.parametrize(
    ("mount", "facts", "private", "enforced"),
    [
        ("ext4 on / type ext4 (rw)", DISK, False, True),
        ("ext4 on / type ext4 (rw)", DISK, True, False),
        ("ext4 on / type ext4 (rw)", DISK, None, False),  # in a container
        ("ext4 on / type ext4 (rw)", NETWORK, False, False),
        ("s:/x on /x type nfs4 (rw,vers=4.2)", NETWORK, None, True),
        ("s:/x on /x type nfs4 (rw,vers=3,local_lock=all)", NETWORK, None, False),
    ],
)
def test_how_far_it_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str, facts: dict[str, object], private: bool | None,
    enforced: bool,
) -> None:  # fmt: skip
    there = lock.identify.identify(str(tmp_path)) | {"fstype": mount.split()[4], "mount": mount}
    monkeypatch.setattr(lock.identify, "identify", lambda _: there)
    monkeypatch.setattr(mounts, "private", lambda _: private)
    for directory in (str(tmp_path), None):
        monkeypatch.setattr(lock, "MACHINE", str(tmp_path))
        with lock.exclude(directory, facts, MINE) as found:
            assert found.enforced == enforced
            assert found.evidence.startswith("no other campaign" if enforced else "exclusion not checked:")


def test_a_lock_that_is_removed_while_it_is_held(tmp_path: Path) -> None:
    with lock.exclude(str(tmp_path), NETWORK, MINE) as found:
        held = Exclusion(True, "e", found.lock)
        assert held.now() == {"enforced": True, "evidence": "e"}
        next(tmp_path.glob("iosweep-*.lock")).unlink()
        assert not held.now()["enforced"]


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="is not a directory"), lock.exclude(f"{tmp_path}/none", DISK, MINE):
        pass


@pytest.mark.local
@as_root
def test_all_users_may_lock_whatever_the_umask() -> None:
    """In a sticky directory, as /tmp is one."""
    with everybodys() as shared:
        file = shared / "lock"
        first = Other(file, umask=0o077)
        assert stat.S_IMODE(file.stat().st_mode) == 0o666
        assert refused(file)
        first.end()
        os.chown(file, NOBODY, NOBODY)
        lock.take(file, MINE, "it", shared=True).close()  # another user's


# Licenses

#: `scontrol show licenses` of 22.05.8, with a second and a remote one.
PRINTED = """LicenseName=matlab
    Total=40 Used=3 Free=37 Reserved=0 Remote=no
LicenseName=pfs
    Total=1 Used=1 Free=0 Reserved=0 Remote=no
LicenseName=pfs2@slurmdb
    Total=2 Used=0 Free=2 Reserved=0 Remote=yes
"""
TOTALS = {"matlab": 40, "pfs": 1, "pfs2@slurmdb": 2}
NOT = Exclusion(False, "evidence")


def test_the_licenses_there_are() -> None:
    assert lock.license_totals(PRINTED) == TOTALS
    assert lock.license_totals("No licenses configured in Slurm.\n") == {}


@pytest.mark.parametrize("asked", ["pfs:1", "pfs", "matlab:1,pfs:1", "matlab:40", "pfs2@slurmdb:2"])
def test_all_there_are_keep_others_off(asked: str) -> None:
    assert lock.judge_licenses(asked, TOTALS, NOT).enforced


@pytest.mark.parametrize("asked", ["matlab:3", "pfs2:2", "gone:1", "pfs:1|matlab:1", "pfs:x", ",", "pfs:0"])
def test_others_may_have_what_is_left(asked: str) -> None:
    found = lock.judge_licenses(asked, TOTALS, NOT)
    assert found.evidence == f"evidence; of the license {asked} there are more, which other jobs may have"
    assert not found.enforced
    assert lock.judge_licenses(asked, TOTALS, Exclusion(True, "locked")).enforced


def test_the_license_of_a_real_one(slurm: Cluster) -> None:
    assert lock.license_totals(slurm.run(["scontrol", "show", "licenses"]).stdout) == {"pfs": 1}
