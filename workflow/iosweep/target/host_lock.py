"""A lock that every process of this machine sees: the name of an abstract Unix socket.

Why not a file: /tmp is private to a job (Slurm's job_container/tmpfs), to a service (systemd's PrivateTmp) and in a
container, /run/lock is root's alone on some distributions, and other users may plant anything there. The name of an
abstract socket belongs to the network namespace, which all of these share except a container with a network of its own;
its sockets are seen from outside (`in_another_network`), and ours are not from inside.
The kernel frees it with the process that holds it, names that process and its user (SO_PEERCRED), and it has no mode,
owner or type to be tampered with. Another user may take the name first; that is seen, with process and user.

A process that connects is sent the text of the holder; nothing is read from the connection.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iosweep.node import procfs

#: Time for a holder to answer; one that is stopped (SIGSTOP) does not.
ANSWER_S = 1.0
#: Time between taking a name and listening on it, at most; a holder that does not listen is not one of ours.
LISTEN_S = 1.0
#: Bytes of a text, sent and read. They fit into a socket's buffer: a reader that does not read blocks nothing.
LONGEST = 1 << 14


class Taken(Exception):
    """Another process has the name. `pid`, `uid`: from the kernel, None if it does not know; `text`: from it."""

    def __init__(self, pid: int | None, uid: int | None, text: bytes):
        self.pid, self.uid, self.text = pid, uid, text
        super().__init__(f"taken by process {pid}")


@contextmanager
def held(name: str, text: bytes) -> Iterator[int]:
    """Have the name, and answer with the text to whoever asks; gives the socket's inode. Raises Taken, and OSError
    where that cannot be."""
    with _bound(name) as listening:
        thread = threading.Thread(target=_answer, args=(listening, text[:LONGEST]), daemon=True)
        thread.start()
        try:
            yield os.fstat(listening.fileno()).st_ino
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # ends accept
            thread.join()


def look(name: str) -> None:
    """Raise Taken where another process has the name; it is not tried."""
    with contextlib.suppress(ConnectionRefusedError):
        raise _holder(name)


def unseen(name: str, inode: int, proc: Path = Path("/proc")) -> str | None:
    """Why processes of this machine may not see a name that is held here; None where it is proven that they do.

    Proven: process 1 of the machine, not of a container, has our socket in its network. All users may read that. The
    name alone proves nothing: the campaign that is to be kept off, or another user, may have it there.
    """
    try:
        if not procfs.shows_machine(proc):
            return "this process runs in a container (a PID namespace), from which the machine cannot be seen"
        sockets = (proc / "1/net/unix").read_bytes()
    except OSError as error:
        return f"process 1 of this machine cannot be looked at ({error.strerror})"
    if f" {inode} @{name}\n".encode() not in sockets:
        return "this process has a network namespace of its own"
    return None


def in_another_network(name: str, proc: Path = Path("/proc")) -> int | None:
    """A process of another network namespace in which the name is taken, too; None where there is none.

    A campaign in a container with a network of its own has it. Each namespace has a file of its own at net/unix, which
    every user may read; of a container, only its own processes are seen.
    """
    known: set[int] = set()
    for process in ("self", *sorted((entry.name for entry in os.scandir(proc) if entry.name.isdigit()), key=int)):
        table = proc / process / "net/unix"
        with contextlib.suppress(OSError):  # it has ended, or is hidden
            if (inode := table.stat().st_ino) not in known:
                known.add(inode)
                if process != "self" and f" @{name}\n".encode() in table.read_bytes():
                    return int(process)
    return None


def _bound(name: str) -> socket.socket:
    end = time.monotonic() + LISTEN_S
    while True:
        mine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            mine.bind(f"\0{name}")
            mine.listen()
            return mine
        except OSError as error:
            mine.close()
            if error.errno != errno.EADDRINUSE:
                raise
        try:
            raise _holder(name)
        except ConnectionRefusedError:  # it has just gone, or does not listen yet
            if time.monotonic() > end:
                raise OSError(errno.EADDRINUSE, "another process has the name, and does not listen") from None
        time.sleep(0.02)


def _holder(name: str) -> Taken:
    """Who has the name. Raises ConnectionRefusedError where no process listens."""
    pid = uid = None
    text = b""
    end = time.monotonic() + ANSWER_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.settimeout(ANSWER_S)
        try:
            asking.connect(f"\0{name}")
            pid, uid, _ = struct.unpack("iII", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            while len(text) < LONGEST and time.monotonic() < end and (part := asking.recv(LONGEST - len(text))):
                text += part
        except ConnectionRefusedError:
            raise
        except OSError:  # too many wait for its answer, or it is stopped
            pass
    return Taken(pid or None, uid, text)  # process 0: it is not in our PID namespace


def _answer(listening: socket.socket, text: bytes) -> None:
    while True:
        try:
            asking, _ = listening.accept()
        except OSError as error:
            if error.errno == errno.EINVAL:  # shut down
                return
            time.sleep(0.1)  # no file handles left
            continue
        with asking, contextlib.suppress(OSError):
            asking.setblocking(False)
            asking.send(text)
