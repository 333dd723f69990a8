"""The agent: one small process per node and allocation that accesses the target and runs the tools for the runner.

A system call on a hung file system may never return, and not even SIGKILL ends its process. So the runner never
accesses the target itself: it sends requests to this child over a socket, one JSON line each way, and waits for an
answer or a beat (protocol.beat) only until a deadline. An agent that misses it is killed and replaced. Starting a child
for each operation would cost 10 ms; a request costs 0.2 ms.

The tools are the agent's children, so that they end with the runner, however it ends: when the runner dies, the kernel
signals the agent, which kills its descendants (process.py). When the agent dies, the runner inherits its descendants
and kills them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from iosweep.errors import AGENT_ENDED, TargetError, TargetHangs
from iosweep.node import process, procfs
from iosweep.node.load import Surroundings
from iosweep.node.monitor import NodeWatch
from iosweep.node.ranks import ExpectedProcesses
from iosweep.target import directory, identify, protocol, space, trees
from iosweep.target.directory import Place
from iosweep.target.protocol import Answer

P = ParamSpec("P")
T = TypeVar("T")

#: Extra time after the timeout of a command, which the agent enforces, before the agent itself counts as hung.
_SLACK_S = 30.0
#: Time for the agent to end its tools after SIGTERM.
_END_S = 10.0
#: Upper limit for timeouts: a socket accepts slightly more than 24 days.
_MAX_TIMEOUT_S = 24 * 86400.0
#: Time for the child to start: long, because many nodes may load Python from one server at once.
_START_S = 60.0
#: The deadline after hurry().
_HURRY_S = 3.0
#: Minimum interval between beats.
_BEAT_S = 0.05


class Agent:
    """The runner's side. Use as a context manager.

    `deadline_s`: the longest time without an answer or a beat, once the child has started.
    """

    argv: tuple[str, ...] = (sys.executable, "-P", "-X", "utf8", "-m", "iosweep.target.agent")

    def __init__(self, deadline_s: float = 30.0) -> None:
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._siblings: set[int] = set()  # other children of this process
        self._start_s = _START_S

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def call(self, operation: Callable[P, T], *arguments: P.args, **_: P.kwargs) -> T:
        """Run one of OPERATIONS in the child; arguments by position only.

        Raises TargetHangs if the deadline passes (the child is killed, and the next call starts another), Refused if
        a directory is not ours, TargetError for an error of the file system.
        """
        return self._ask(operation, arguments, self._deadline_s)

    def hurry(self) -> None:
        """Wait only a few seconds for each answer from now on, because this process was asked to end."""
        self._deadline_s, self._start_s = min(self._deadline_s, _HURRY_S), _HURRY_S

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float,
        directory: Path | None = None,
        cpus: Collection[int] | None = None,
        expected: ExpectedProcesses | None = None,
        token: bool = False,
        around: Surroundings | None = None,
    ) -> process.Completed:
        """`process.run` in the child, which also watches the node (`around`) and its ranks or workers (`expected`).

        Raises TargetError if the command cannot be started. Even if a signal interrupts this call, no process of the
        command survives.
        """
        with process.memory("stdout") as stdout, process.memory("stderr") as stderr:
            path, cpu_list = str(directory) if directory else None, None if cpus is None else sorted(cpus)
            arguments = (argv, timeout_s, path, cpu_list, expected, token, around)
            printed = stdout.fileno(), stderr.fileno()
            done = self._ask(execute, arguments, timeout_s + _SLACK_S, printed)
            stdout.seek(0)
            stderr.seek(0)
            limit = process.MOST_PRINTED_BYTES
            return replace(done, stdout=stdout.read(limit), stderr=stderr.read(limit))

    def _ask(
        self,
        operation: Callable[..., T],
        arguments: Sequence[object],
        deadline_s: float,
        descriptors: Sequence[int] = (),
    ) -> T:
        connection = self._start()
        try:
            line = _exchange(connection, _encode_line((operation.__name__, arguments)), descriptors, deadline_s)
        except EOFError:
            code = self._stop()
            status = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            raise TargetError(0, f"{AGENT_ENDED} ({status})") from None
        except BaseException:
            self._stop(gently=bool(descriptors))
            raise
        if line is None:
            self._stop()
            subject = arguments[0].directory if isinstance(arguments[0], Place) else arguments[0]
            step = f"{operation.__name__} ({subject})" if isinstance(subject, str) else operation.__name__
            raise TargetHangs(f"the target does not answer: no progress for {deadline_s:g} s in {step}")
        return msgspec.convert(json.loads(line), Answer).value_of(operation)

    def _start(self) -> socket.socket:
        if self._process and self._process.poll() is not None:
            self._stop()
        if self._socket is None:
            self._siblings = process.children()
            try:
                self._socket, child_end = socket.socketpair()
                with child_end:
                    self._process = subprocess.Popen(
                        [*self.argv, str(os.getpid())],
                        stdin=child_end.fileno(),
                        stdout=subprocess.DEVNULL,
                        start_new_session=True,  # Ctrl-C is for the runner
                    )
            except OSError as error:
                raise TargetError(error.errno, f"the agent cannot be started: {error.strerror}") from None
            self._socket.settimeout(self._start_s)
            try:
                with contextlib.suppress(ConnectionError):  # the child has ended: _exchange will notice
                    self._socket.recv(1)  # the first beat
            except TimeoutError:
                self._stop()
                cause = f"{sys.executable} or {Path(__file__).parents[1]} is read too slowly, or all CPUs are busy"
                message = f"the agent did not start within {self._start_s:g} s: {cause}"
                raise TargetError(errno.ETIMEDOUT, message) from None
        return self._socket

    def _stop(self, gently: bool = False) -> int | None:
        """End the child and all its descendants; returns its exit code, if it ended. `gently`: let it clean up."""
        child, connection, self._process, self._socket = self._process, self._socket, None, None
        if connection:
            connection.close()
        if child is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            if gently:
                child.terminate()
                child.wait(_END_S)
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the file system: it ends when the call returns
            child.wait(1)
        process.end_descendants({*self._siblings, child.pid}, patience_s=1)
        return child.returncode


def _encode_line(value: object) -> bytes:
    """Encode a value as a line, with json: file names that are not UTF-8 have surrogates, which msgspec rejects."""
    return json.dumps(msgspec.to_builtins(value)).encode() + b"\n"


def _exchange(
    connection: socket.socket,
    line: bytes,
    descriptors: Sequence[int],
    deadline_s: float,
) -> bytes | None:
    """Send a request and wait for its answer; None if neither an answer nor a beat arrives in time. Raises EOFError."""
    timeout_s = min(deadline_s, _MAX_TIMEOUT_S)
    connection.settimeout(timeout_s)
    try:
        sent = socket.send_fds(connection, [line], list(descriptors)) if descriptors else 0
        connection.sendall(line[sent:])
        unread, end = b"", time.monotonic() + timeout_s
        while (remaining_s := end - time.monotonic()) > 0:
            connection.settimeout(remaining_s)
            chunk = connection.recv(1 << 16)
            if not chunk:
                raise EOFError
            *lines, unread = (unread + chunk).split(b"\n")
            if answers := [line for line in lines if line]:
                return answers[0]
            end = time.monotonic() + timeout_s  # also after a beat
        return None
    except TimeoutError:
        return None
    except ConnectionError:
        raise EOFError from None


def main() -> None:
    """The child: answers requests in order, and ends with its connection or its parent."""
    connection = socket.socket(fileno=os.dup(0))
    gc.freeze()  # excludes imported modules from garbage collection
    with contextlib.suppress(OSError):  # the parent has ended: _serve will notice
        connection.sendall(b"\n")
    _serve(connection, parent=int(sys.argv[1]))
    _exit()


def _exit(*_: object) -> None:
    process.end_descendants(tidy=True)
    os._exit(0)


def _serve(connection: socket.socket, parent: int) -> None:
    prctl = ctypes.CDLL(None).prctl  # looked up once, because that takes longer than a call

    def set_death_signal(number: signal.Signals) -> None:
        prctl(1, number)  # PR_SET_PDEATHSIG: also while a request is being answered

    process.adopt_orphans()
    process.allow_files()
    signal.signal(signal.SIGTERM, _exit)
    set_death_signal(signal.SIGKILL)  # no other signal ends a process that hangs in a network file system
    if os.getppid() != parent:
        return
    protocol.on_beat(_make_beat(connection))
    while request := _receive(connection):
        name, arguments, descriptors = request
        try:
            if descriptors:
                set_death_signal(signal.SIGTERM)  # so that _exit can end the command
                arguments[:0] = [*descriptors, connection.fileno()]
            answer = protocol.answer(OPERATIONS[name], arguments)
        except process.Abandoned:
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            if descriptors:
                set_death_signal(signal.SIGKILL)
        try:
            connection.sendall(_encode_line(answer))
        except ConnectionError:
            return


def execute(
    stdout: int,
    stderr: int,
    asker: int,
    argv: list[str],
    timeout_s: float,
    directory: str | None,
    cpus: list[int] | None,
    expected: ExpectedProcesses | None,
    token: bool,
    around: Surroundings | None,
) -> process.Completed:
    """Run a command for Agent.run. `stdout`, `stderr`: descriptors that came with the request. `asker`: descriptor of
    the connection."""
    watch, silent_s = None, 0.0
    if around:
        counters = identify.counters_of(around.mount, around.fstype)
        watch = NodeWatch(around, counters, expected=expected, among=lambda: procfs.below(str(os.getpid())))
    try:
        done = process.run(argv, timeout_s, directory, stdout, stderr, asker, cpus, token)
        silent_s = done.silent_s
    finally:
        watched = watch.end(silent_s) if watch else None
    return done.watched_on(around.host, watched) if around and watched else done


OPERATIONS = protocol.by_name(
    [
        *(identify.identify, identify.check_target, identify.find_open_directory, identify.read_space, space.read_room),
        *(
            directory.claim,
            directory.check_claim,
            directory.read_owner,
            directory.has_marker,
            directory.check_marker,
            directory.probe,
        ),
        *(directory.set_layout, directory.read_layout),
        *(trees.make_directories, trees.list_parts, trees.measure_usage, trees.count_files),
        *(trees.examine_files, trees.truncate_files, trees.sample_blocks, trees.remove, trees.remove_all),
        *(process.keep_to, execute),
    ]
)


def _receive(connection: socket.socket) -> tuple[str, list[object], list[int]] | None:
    """Receive the next request: its operation, arguments and descriptors; None at the end of the connection."""
    line, descriptors = b"", []
    while not line.endswith(b"\n"):
        try:
            chunk, received, _, _ = socket.recv_fds(connection, 1 << 16, 2)
        except ConnectionError:  # the runner was killed before it read the last answer
            return None
        if not chunk:
            return None
        line += chunk
        descriptors += received
    return (*msgspec.convert(json.loads(line), tuple[str, list[object]]), descriptors)


def _make_beat(connection: socket.socket) -> Callable[[], None]:
    """Return a function that reports progress to the runner: an empty line, at most every _BEAT_S."""
    last = 0.0

    def beat() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _BEAT_S:
            last = now
            with contextlib.suppress(OSError):
                connection.sendall(b"\n")

    return beat


if __name__ == "__main__":
    main()
