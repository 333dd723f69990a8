"""What another user may plant in the place of a lock, and what has to come of it. With real users and real files."""

import fcntl
import json
import os
import random
import signal
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from iosweep.errors import Busy
from iosweep.slurm import query
from iosweep.target import host_lock, identify, lock_owner
from locks import hold

#: Users that no process of ours is.
MALLORY, ANN, BOB = 65531, 65532, 65533
DISK = "ext4 /dev/sda1"
OWNER = {"campaign": "c", "results": "/home/ann/results/c"}
PASS, UNCHECKED, BUSY = "pass", "not checked", "busy"
#: Jobs that Slurm knows: 12 is mallory's victim's, 13 is a campaign of ann's, 14 has ended.
JOBS = {
    "12": ("RUNNING", "bob", "", "/home/bob"),
    "13": ("RUNNING", str(ANN), "rule_measure_wildcards_x_1n_0a_1", "/home/ann"),
    "14": ("COMPLETED", "bob", "rule_measure_wildcards_x_1n_0a_1", "/home/bob"),
}


@contextmanager
def as_user(uid: int, act: Callable[[], Any]) -> Iterator[Any]:
    """What a function returns (JSON) for a user, in a child that lives until the block ends."""
    said, say = os.pipe()
    stay, go = os.pipe()
    if not (child := os.fork()):
        try:
            os.close(go)
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(say, json.dumps(act()).encode())
            os.close(say)
            os.read(stay, 1)
        except BaseException as error:
            os.write(say, json.dumps(f"{type(error).__name__}: {error}").encode())
        finally:
            os._exit(0)
    os.close(say)
    os.close(stay)
    try:
        with os.fdopen(said) as file:
            yield json.loads(file.read())
    finally:
        os.close(go)
        os.waitpid(child, 0)


def _job(id: str) -> query.Job | None:
    if id not in JOBS:
        return None
    state, user, comment, directory = JOBS[id]
    return query.Job(id, "x", state, "", user, comment, directory, 1, ("n1",), None, None, "")


def text(**change: Any) -> bytes:
    """A text as a campaign on another machine would have left it."""
    said = {"pid": 12, "user": "bob", "host": "n7", "since": "2025-01-02T03:04:05+00:00"}
    said |= {"campaign": "x", "results": "/home/bob/results/x", "machine": "0" * 12, "namespace": "1"}
    return json.dumps(said | change).encode()


def _file(content: bytes = b"", mode: int = 0o666) -> Callable[[Path, str], None]:
    def plant(file: Path, name: str) -> None:
        file.write_bytes(content)
        file.chmod(mode)

    return plant


def _flock(how: int, content: bytes = b"") -> Callable[[Path, str], None]:
    def plant(file: Path, name: str) -> None:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        os.write(handle, content)
        fcntl.flock(handle, how)

    return plant


def _directory(file: Path, name: str) -> None:
    file.mkdir()
    (file / "kept").touch()


def _hard_link(file: Path, name: str) -> None:
    (file.parent / "other").touch()
    file.hardlink_to(file.parent / "other")


def _socket_file(file: Path, name: str) -> None:
    os.chdir(file.parent)  # the name of a socket is 107 characters at most
    socket.socket(socket.AF_UNIX).bind(file.name)


def _access_control_list(file: Path, name: str) -> None:
    """Everybody may read and write the file, by its mode; the user BOB may not, by its list."""
    file.touch()
    file.chmod(0o666)
    entries = ((1, 6, -1), (2, 0, BOB), (4, 6, -1), (0x10, 6, -1), (0x20, 6, -1))
    packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(file, "system.posix_acl_access", struct.pack("<I", 2) + packed)


def _lease(file: Path, name: str) -> None:
    file.touch()
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # sent when somebody opens it
    fcntl.fcntl(os.open(file, os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)


def _in_child(act: Callable[[], object]) -> None:
    """By a process that then ends, so that the kernel names one that is not there."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    act()
    os._exit(0)


def _flock_of_the_dead(file: Path, name: str) -> None:
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    _in_child(lambda: fcntl.flock(handle, fcntl.LOCK_EX))


#: Sockets of the child, which keeps them until it ends.
_KEPT: list[Any] = []


def _squat(listens: bool, content: bytes = b"") -> Callable[[Path, str], None]:
    def plant(file: Path, name: str) -> None:
        if content:
            stack = ExitStack()
            stack.enter_context(host_lock.held(name, content))
            _KEPT.append(stack)
            return
        _KEPT.append(held := socket.socket(socket.AF_UNIX))
        held.bind(f"\0{name}")
        if listens:
            held.listen()

    return plant


def _socket_of_the_dead(file: Path, name: str) -> None:
    _KEPT.append(held := socket.socket(socket.AF_UNIX))
    held.bind(f"\0{name}")
    _in_child(held.listen)


def _socket_that_is_full(file: Path, name: str) -> None:
    _KEPT.append(held := socket.socket(socket.AF_UNIX))
    held.bind(f"\0{name}")
    held.listen(0)
    for _ in range(3):
        _KEPT.append(asking := socket.socket(socket.AF_UNIX))
        asking.setblocking(False)
        with suppress(BlockingIOError):
            asking.connect(f"\0{name}")


class Plant(NamedTuple):
    """`said`: fragments of the message that the victim gets. `network`: the lock directory is on another machine's file
    system. `machine`: the lock is the one of the machine."""

    plant: Callable[[Path, str], None]
    outcome: str
    said: tuple[str, ...]
    network: bool = False
    machine: bool = False
    victim: int = ANN


WAY = "set target.lock to a directory that only trusted users may write to"
BY = f"of user {MALLORY}"
PLANTS = {
    "directory": Plant(_directory, UNCHECKED, (f"it is a directory {BY}", WAY)),
    "fifo": Plant(lambda file, _: os.mkfifo(file), UNCHECKED, (f"it is a FIFO {BY}", WAY)),
    "socket": Plant(_socket_file, UNCHECKED, (f"it is a socket {BY}", WAY)),
    "link": Plant(lambda f, _: f.symlink_to(f.parent / "p"), UNCHECKED, (f"it is a symbolic link {BY}", WAY)),
    "dangling link": Plant(lambda f, _: f.symlink_to("/none"), UNCHECKED, (f"it is a symbolic link {BY}", WAY)),
    "link to a device": Plant(lambda f, _: f.symlink_to("/dev/zero"), UNCHECKED, (f"a symbolic link {BY}", WAY)),
    "hard link": Plant(_hard_link, UNCHECKED, (f"it is a file with 2 names {BY}", WAY)),
    "mode 0600": Plant(_file(mode=0o600), UNCHECKED, (f"Permission denied (a file {BY}, mode 0600)", WAY)),
    "mode 0600, and root takes it": Plant(
        _file(mode=0o600), UNCHECKED, (f"other users cannot open it (a file {BY}, mode 0600)", WAY), victim=0
    ),
    "mode 0000": Plant(_file(mode=0), UNCHECKED, (f"Permission denied (a file {BY}, mode 0000)", WAY)),
    "a list that keeps a user out": Plant(
        _access_control_list, UNCHECKED, (f"access control list keeps users out (a file {BY}, mode 0666)", WAY)
    ),
    "a lease": Plant(_lease, UNCHECKED, (f"cannot be taken: Resource temporarily unavailable (a file {BY}", WAY)),
    "mode 0644": Plant(_file(mode=0o644), PASS, ("no other campaign that locks in",)),
    "held": Plant(_flock(fcntl.LOCK_EX), BUSY, ("by process ", BY, "if it is not a campaign", WAY)),
    "held shared": Plant(_flock(fcntl.LOCK_SH), BUSY, ("by process ", BY, WAY)),
    "held, and its taker has ended": Plant(
        _flock_of_the_dead, BUSY, ("which has ended and has passed the lock on (`fuser /", WAY)
    ),
    "held, and a text of another": Plant(
        _flock(fcntl.LOCK_EX, text(job="13", machine=lock_owner.machine())),
        BUSY,
        ("by process ", BY, "(the lock's text names another: job 13, process 12 of user bob", WAY),
    ),
    "text of a job of another user": Plant(
        _file(text(job="12")), UNCHECKED, ("job 12 is of user bob", "not show it as that campaign's"), network=True
    ),
    "text of a job, on this machine": Plant(_file(text(job="12")), PASS, ("which is gone; taken over",)),
    "text of a campaign that runs": Plant(
        _file(text(job="13", user=str(ANN), results="/home/ann/results/x")),
        BUSY,
        ("by job 13, ", "wait for it, or stop it with `scancel 13`", "if it is not of this file system", WAY),
        network=True,
    ),
    "text of a job that has ended": Plant(_file(text(job="14")), PASS, ("which is gone; taken over",), network=True),
    "text of a job that is not known": Plant(_file(text(job="15")), UNCHECKED, ("cannot be seen",), network=True),
    "text of another machine": Plant(_file(text()), UNCHECKED, ("names a campaign on host n7",), network=True),
    "text that steers a terminal": Plant(
        _file(text(campaign="\x1b[2J\n\x07" * 99)), PASS, ("(campaign ?[2J??",)
    ),
    "garbage": Plant(_file(b"\x1b[2J\0\xff" * (1 << 18)), PASS, ("left by another process",)),
    "deep garbage": Plant(_file(b'{"pid":' + b"[" * 50000), PASS, ("left by another process",)),
    "socket held, silent": Plant(
        _squat(listens=True), BUSY, ("by process ", BY, "does not say who it is", WAY), machine=True
    ),
    "socket held, and its taker has ended": Plant(
        _socket_of_the_dead, BUSY, (f"{BY}, which has ended and has passed the lock on", WAY), machine=True
    ),
    "socket held, and too many wait": Plant(
        _socket_that_is_full, BUSY, ("by another process", "(`ss -xlp` shows root which it is)", WAY), machine=True
    ),
    "socket held, not listening": Plant(
        _squat(listens=False), UNCHECKED, ("another process has the name, and does not listen", WAY), machine=True
    ),
    "socket held, a text of another": Plant(
        _squat(True, text(job="13", user="root")), BUSY, (BY, "campaign x", WAY), machine=True
    ),
    "socket held, garbage": Plant(_squat(True, b"\x1b[2J\xff"), BUSY, (BY, "does not say who it is"), machine=True),
}  # fmt: skip


def drawn(draw: random.Random) -> Plant:
    """One of them, or a text of which no two are alike: bits of a good one turned, or another value for a key."""
    if draw.random() < 0.5:
        return draw.choice(list(PLANTS.values()))
    content = bytearray(text(job=draw.choice(list(JOBS)), machine=draw.choice(["0" * 12, lock_owner.machine()])))
    if draw.random() < 0.5:
        for _ in range(draw.randint(1, 20)):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    else:
        key = draw.choice(list(json.loads(content)))
        value = draw.choice([None, True, -1, 1e308, 10**30, [], {}, [[]] * 999, "", "\0", "\x1b]0;x\a", "%s{}" * 99])
        content = bytearray(text(**{key: value}))
    return Plant(_file(bytes(content)), PASS, ("taken over",))


def attack(planted: Plant) -> None:
    """Plant it as one user, take the lock as another, and see that the outcome is as it has to be, that nothing else
    was changed, and that a directory of one's own is a way round. Needs root."""
    with tempfile.TemporaryDirectory(prefix="iosweep-planted-") as made:
        place = Path(made)
        place.chmod(0o1777)
        (own := place / "own").mkdir()
        os.chown(own, ANN, ANN)
        (precious := place / "p").write_text("precious")
        precious.chmod(0o644)
        identity = f"{DISK}{place}"
        if planted.network:
            identity = f"nfs4 server:{place}"
        with hold(str(own), identity, OWNER):
            (name,) = (file.stem for file in own.iterdir())
        file = place / f"{name}.lock"

        def plant() -> str:
            os.umask(0)
            planted.plant(file, name)
            return "planted"

        with as_user(MALLORY, plant) as did:
            assert did == "planted", did
            before = None if planted.machine else file.lstat()
            lock = None if planted.machine else str(place)
            with as_user(planted.victim, lambda: take(lock, identity, planted.network)) as found:
                assert len(found) == 3, found
                outcome, said, job = found
                assert outcome == planted.outcome, said
            for part in planted.said:
                assert part in said, said
            assert said.isprintable()
            assert len(said) < 3000
            assert "scancel" not in said or job == "13"
            assert job in (None, "13")
            if before:
                after = file.lstat()
                assert (before.st_ino, before.st_mode, before.st_uid) == (after.st_ino, after.st_mode, after.st_uid)
            assert precious.read_text() == "precious"
            with as_user(ANN, lambda: take(str(own), identity, planted.network)) as (outcome, said, _):
                assert outcome == PASS, said


def take(lock: str | None, identity: str, network: bool) -> tuple[str, str, str | None]:
    """Outcome, what is said, and the job to wait for. `network`: take the lock's directory for one of NFS."""
    query.job = _job
    if network:
        real = identify.identify
        identify.identify = lambda place: (
            real(place) | {"fstype": "nfs4", "mount": "s:/x on /x type nfs4 (rw,vers=4.2)"}
        )
    try:
        with hold(lock, identity, OWNER) as found:
            now = found.now()
            return PASS if now["enforced"] else UNCHECKED, f"{now['evidence']} {found.note or ''}", None
    except Busy as busy:
        return BUSY, str(busy), busy.job
