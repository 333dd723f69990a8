"""The agent of one node of an allocation; remote.py is the runner's side.

It reports the facts of its node, starts tools that know nothing of other nodes, and watches the ranks of a launcher.
srun starts it; it reads requests from stdin, answers on stdout, and ends when stdin does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

import msgspec
import psutil
from msgspec import structs

from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.hostlist import natural
from iosweep.node import environment, load, process, procfs
from iosweep.node.facts import NodeFacts, collect
from iosweep.node.load import Job
from iosweep.node.monitor import Watch, Watched
from iosweep.node.process import MOST_BYTES
from iosweep.node.ranks import Wanted
from iosweep.programs.path import absent, hash_of
from iosweep.slurm import broadcast, fan_out
from iosweep.target import directory, identify, lock, protocol

#: Time limit for a tool's server to listen.
_SERVER_S = 10.0


class Request(msgspec.Struct, frozen=True):
    """`each`: host -> what differs of its arguments (broadcast.py); other hosts ignore the request. report_s: after
    this time an operation that waits for the target is reported; 0: never.
    """

    number: int
    operation: str
    arguments: list[object] = []
    each: dict[str, list[broadcast.Change]] | None = None
    report_s: float = 0.0


class NodeAnswer(msgspec.Struct, frozen=True):
    """What identifies the target on a node, program -> hash of its binary, and the libraries that it needs and the node
    lacks, and the node's facts."""

    target: identify.FileSystem
    builds: dict[str, str | None]
    absent: dict[str, list[str]]
    node: NodeFacts


class Watching(msgspec.Struct, frozen=True):
    """What is watched. `wanted`: None to watch the node only; `bound`: the CPUs of each rank or worker, none where they
    may use all; `runner`: the process id of the runner, if it is on this node."""

    wanted: Wanted | None
    bound: list[str]
    runner: int | None


class Ran(msgspec.Struct, frozen=True):
    """What a command did, when it started and ended on the node's clock, in seconds, the streams of the files that it
    wrote, and what was watched meanwhile. Compressed on its way: what it printed, and the streams."""

    done: process.Completed
    started: float
    ended: float
    files: dict[str, bytes] = {}
    watched: Watched | None = None


_around = load.Around()
_watch: Watch | None = None


def watch(watching: Watching) -> None:
    """Begin to watch."""
    global _watch
    if _watch:
        _watch.end()
    there = set(procfs.pids())

    def new() -> list[str]:
        """Ranks are children of Slurm, not ours, but belong to our job."""
        return [pid for pid in procfs.pids() if pid not in there and procfs.is_of_job(pid)]

    around, job = replace(_around, bound=tuple(watching.bound)), Job.from_now(watching.runner)
    _watch = Watch(around, identify.counters_of(around.mount, around.fstype), job, watching.wanted, new)


def seen(silent_s: float) -> Watched:
    global _watch
    assert _watch
    ended, _watch = _watch, None
    return ended.end(silent_s)


def left_ranks() -> list[str]:
    """Processes of our job that belong to another step than we do."""
    return [procfs.named(pid) for pid in procfs.of_job() if procfs.variable(pid, "SLURM_STEP_ID") not in ("", hello())]


_servers: list[subprocess.Popen[bytes]] = []


def free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


def serve(argv: list[str], address: str, port: int) -> None:
    """Start a server and wait until it listens. Raises OSError.

    The check is on its own sockets: another user may have taken the port, and would receive the client's jobs.
    """
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _servers.append(server)
    end = time.monotonic() + _SERVER_S
    while server.poll() is None:
        with contextlib.suppress(psutil.Error):
            open_now = psutil.Process(server.pid).net_connections("tcp")
            if any(each.status == psutil.CONN_LISTEN and each.laddr == (address, port) for each in open_now):
                return
        if time.monotonic() > end:
            raise OSError(errno.ETIMEDOUT, f"the server does not listen after {_SERVER_S:g} s", argv[0])
        time.sleep(0.02)
    assert server.stderr
    raise OSError(errno.ECHILD, server.stderr.read(500).decode("utf-8", "replace").strip() or "it ended", argv[0])


def end_servers() -> None:
    for server in _servers:
        server.kill()
        server.wait()
        assert server.stderr
        server.stderr.close()
    _servers.clear()
    process.end_descendants()  # their jobs


def facts(directory: str, programs: dict[str, tuple[str, str]], reserved_cpus: str | None = None) -> NodeAnswer:
    """The facts of this node, and what identifies the target from here. `programs`: name -> path and version."""
    target, space = identify.identify(directory), identify.space(directory)
    builds = {name: hash_of(path) for name, (path, _) in programs.items()}
    lacks = {name: found for name, (path, _) in programs.items() if (found := absent(path))}
    known = collect(target, space, programs, reserved_cpus=reserved_cpus)
    global _around
    _around = load.Around.of_node(known)
    return NodeAnswer(target, builds, lacks, known)


class _Staged(msgspec.Struct, frozen=True):
    """A command that waits for `run`."""

    argv: list[str] = []
    cpus: list[int] | None = None
    outputs: dict[str, str] = {}
    watched: bool = False


_staged = _Staged()


def stage(argv: list[str], cpus: list[int] | None, outputs: dict[str, str], watching: Watching | None = None) -> None:
    """Keep a command, its CPUs and the files that it writes (Tool.outputs) for `run`, whose request to all nodes at
    once can then be short; and begin to watch."""
    global _staged
    _staged = _Staged(argv, cpus, outputs, watching is not None)
    if watching:
        watch(watching)


def run(timeout_s: float) -> Ran:
    """Run the command that `stage` kept, in a directory of its own if it writes files."""
    staged = _staged
    with (
        process.memory("stdout") as stdout,
        process.memory("stderr") as stderr,
        _scratch() if staged.outputs else contextlib.nullcontext() as scratch,
    ):
        started = time.time()
        done = process.run(staged.argv, timeout_s, scratch, stdout.fileno(), stderr.fileno(), asker=0, cpus=staged.cpus)
        ended = time.time()
        watched = seen(done.silent_s) if staged.watched else None
        printed = []
        for stream in (stdout, stderr):
            stream.seek(0)
            printed.append(stream.read(process.MOST_BYTES))
        files: dict[str, bytes] = {}
        if scratch and scratch != _NOWHERE:
            with safe_paths.folder(Path(scratch)) as place:
                files = collected(place, staged.outputs)
    return coded(
        Ran(replace(done, stdout=printed[0], stderr=printed[1]), started, ended, files, watched), zlib.compress
    )


def coded(ran: Ran, by: Callable[[bytes], bytes]) -> Ran:
    """With other bytes in place of what was printed and written."""
    done = replace(ran.done, stdout=by(ran.done.stdout), stderr=by(ran.done.stderr))
    return structs.replace(ran, done=done, files={stream: by(content) for stream, content in ran.files.items()})


#: Where nothing can be written: a tool goes without its files then.
_NOWHERE = "/proc"


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A directory in this node's memory, or else on its disk, for what a tool writes where it is started."""
    made = _NOWHERE
    for place in ("/dev/shm", tempfile.gettempdir()):  # noqa: S108 - a directory of ours within
        with contextlib.suppress(OSError):
            made = tempfile.mkdtemp(prefix="iosweep-", dir=place)
            break
    try:
        yield made
    finally:
        if made != _NOWHERE:
            shutil.rmtree(made, ignore_errors=True)


def hello() -> str:
    """The step that this agent is part of."""
    return os.environ.get("SLURM_STEP_ID", "")


def clock() -> float:
    return time.time()


OPERATIONS = protocol.by_name(
    [
        *(hello, clock, facts, hash_of, free_port, serve, end_servers, stage, run, watch, seen, left_ranks),
        *(process.keep_to, identify.identify, directory.ours, directory.state, directory.check, lock.holder),
    ]
)


#: Operations that touch the target, and may hang in it.
_TOUCHING = frozenset({facts, identify.identify, directory.ours, directory.state, directory.check})


class _Reply:
    """The one answer to a request. Where an operation waits in the target, it is the report of that: the kernel may not
    let go of our main thread for hours, and the runner must not take us for dead."""

    def __init__(self, request: Request, name: str):
        self._request, self._name = request, name
        self._sent = threading.Lock()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> _Reply:
        if self._request.report_s and OPERATIONS[self._request.operation] in _TOUCHING:
            self._timer = threading.Timer(self._request.report_s, self._report)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer:
            self._timer.cancel()

    def send(self, answer: protocol.Answer) -> None:
        """Send an answer, unless one was sent."""
        if self._sent.acquire(blocking=False):
            fan_out.send(self._request.number, self._name, msgspec.to_builtins(answer))

    def _report(self) -> None:
        operation = OPERATIONS[self._request.operation]
        self.send(protocol.Answer(hangs=protocol.hangs(operation, self._request.report_s)))


def _sweep(step: str) -> None:
    """Kill the remaining processes of a step of this job on this node."""
    for each in procfs.of_job():
        if procfs.has(each, f"SLURM_STEP_ID={step}"):
            with contextlib.suppress(OSError):
                os.kill(int(each), signal.SIGKILL)


def main() -> None:
    """Answer one request after the other until stdin ends. With an argument: `_sweep`."""
    if len(sys.argv) > 1:
        return _sweep(sys.argv[1])
    os.environ.pop(environment.TOKEN, None)  # of the srun that started us: we start tools, and never ask Slurm
    process.adopt_orphans()
    process.allow_files()
    signal.signal(signal.SIGTERM, _leave)
    name, received = os.environ.get("SLURMD_NODENAME", ""), b""
    while part := os.read(0, 1 << 16):
        *lines, received = (received + part).split(b"\n")
        for line in lines:
            request = msgspec.convert(broadcast.request(line), Request)
            if request.each is None or name in request.each:
                arguments = broadcast.changed(request.arguments, (request.each or {}).get(name, ()))
                assert isinstance(arguments, list)
                with _Reply(request, name) as reply:
                    try:
                        reply.send(protocol.answer(OPERATIONS[request.operation], arguments))
                    except process.Abandoned:
                        _leave()
    _leave()


def _leave(*_: object) -> NoReturn:
    process.end_descendants(tidy=True)
    os._exit(0)


def collected(place: Folder, outputs: Mapping[str, str]) -> dict[str, bytes]:
    """stream -> content, without what is absent, is not a file, or is too large.

    Files whose names fit a name with `*` are one stream, each after a line `==> name <==`, in order of their numbers.
    """
    streams: dict[str, bytes] = {}
    names = place.names() if any("*" in wanted for wanted in outputs.values()) else []
    for stream, wanted in outputs.items():
        with contextlib.suppress(OSError):
            if "*" not in wanted:
                streams[stream] = place.read(wanted, MOST_BYTES)
                continue
            room, parts = MOST_BYTES, []
            for name in sorted((name for name in names if fnmatchcase(name, wanted)), key=natural):
                parts.append(f"==> {name} <==\n".encode() + place.read(name, room))
                room -= len(parts[-1])
                if room <= 0:
                    break
            else:
                if parts:
                    streams[stream] = b"".join(parts)
    return streams


if __name__ == "__main__":
    main()
