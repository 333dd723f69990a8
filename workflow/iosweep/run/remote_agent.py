"""The agent of one node of an allocation; remote.py is the runner's side.

It reports the facts of its node, starts tools that know nothing of other nodes, and watches the ranks of a launcher.
srun starts it; it reads requests from stdin, answers on stdout, and ends when stdin does.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec
import psutil

from iosweep.files import safe_paths
from iosweep.node import collect_facts, load, process, procfs, watching
from iosweep.node.cpu_record import Looks, NodeLoad
from iosweep.node.io_record import Moved
from iosweep.node.meter import Meter, Rates, nodes_of_step
from iosweep.node.node_facts import NodeFacts
from iosweep.node.probe_record import Controller
from iosweep.node.sampling import Sampler, Wanted
from iosweep.programs.find import hash_of
from iosweep.run import tool_files
from iosweep.slurm import fan_out
from iosweep.target import counters, handle, identify, ownership, probe, protocol

#: The number of messages that nobody has asked for: rates of a node, while a command runs (node/meter.py).
NEWS = 0
#: Time limit for a tool's server to listen.
_SERVER_S = 10.0


class Request(msgspec.Struct, frozen=True):
    """`each`: host -> its own arguments, in place of `arguments`; other hosts ignore the request."""

    number: int
    operation: str
    arguments: list[object] = []
    each: dict[str, list[object]] | None = None


class NodeAnswer(msgspec.Struct, frozen=True):
    """What identifies the target on a node, tool -> hash of its binary, and the node's facts."""

    target: identify.FileSystem
    builds: dict[str, str | None]
    node: NodeFacts


class Watched(msgspec.Struct, frozen=True):
    """The most ranks at once, the load by others, what Sampler.end saw, what was moved, what the node did each second
    (watching.Watched), and what each rank had moved at times (progress.py)."""

    ranks: int
    load: NodeLoad | None
    cpus: Looks | None
    moved: Moved
    monitor: bytes = b""
    progress: bytes = b""


class Ran(msgspec.Struct, frozen=True):
    """What a command did, when it started and ended on the node's clock, and its output (fan_out.packed); files: the
    same of the files that it wrote, by stream."""

    done: process.Completed
    started: float
    ended: float
    stdout: str
    stderr: str
    files: dict[str, str] = {}


class _Watch:
    """Observes a command on this node: its ranks or workers (sampling.py), and the node (watching.py).

    Ranks are children of Slurm, not ours, but belong to our job. `runner`: the process id of the runner, if it is on
    this node.
    """

    def __init__(self, wanted: Wanted | None, bound: Sequence[str], runner: int | None):
        self._io = counters.Around(_around.mount, _around.fstype)
        around, job = replace(_around, bound=tuple(bound)), watching.Job.from_now(runner)
        self._sampler: Sampler | None = None
        meter = Meter(self._of_tool, _tell, nodes_of_step())
        self._node = watching.Watch(around, job, self._io.counters, meter)
        there = set(procfs.pids())

        def new() -> list[str]:
            return [pid for pid in procfs.pids() if pid not in there and procfs.is_of_job(pid)]

        self._sampler = Sampler(wanted, new) if wanted else None

    def _of_tool(self) -> set[str]:
        """The tool's processes: those that we have started, and ranks."""
        ranks = self._sampler.pids if self._sampler else ()
        return {*procfs.below(str(os.getpid())), *ranks}

    def end(self) -> Watched:
        moved, node = self._io.end(), self._node.end()
        moved = msgspec.structs.replace(moved, dirty_bytes=node.dirty_bytes)
        if not self._sampler:
            return Watched(0, node.load, None, moved, node.monitor)
        seen, progress = self._sampler.end(), self._sampler.progress
        ranks = progress.stream() if progress else b""
        return Watched(self._sampler.most, node.load, seen, moved, node.monitor, ranks)


#: Held while a message is sent: lines of two would mix.
_sending = threading.Lock()


def _tell(rates: Rates) -> None:
    """Send rates to the runner, unless an answer is being sent."""
    if _sending.acquire(blocking=False):
        try:
            with contextlib.suppress(OSError):
                fan_out.send(NEWS, _name(), msgspec.to_builtins(rates))
        finally:
            _sending.release()


def _name() -> str:
    return os.environ.get("SLURMD_NODENAME", "")


_around = load.Around()
_watch: _Watch | None = None


def watch(wanted: Wanted | None, bound: list[str], runner: int | None) -> None:
    """Begin to watch. `wanted`: None to watch the node only; `bound`: the CPUs of each rank or worker, none where they
    may use all; `runner`: as for _Watch."""
    global _watch
    if _watch:
        _watch.end()
    _watch = _Watch(wanted, bound, runner)


def seen() -> Watched:
    global _watch
    assert _watch
    ended, _watch = _watch, None
    return ended.end()


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


def facts(
    directory: str,
    programs: dict[str, tuple[str, str]],
    reserved_cpus: str | None = None,
    controller: Controller | None = None,
) -> NodeAnswer:
    """The facts of this node, and what identifies the target from here. `programs`: name -> path and version."""
    target, space = identify.identify(directory), identify.space(directory)
    builds = {name: hash_of(path) for name, (path, _) in programs.items()}
    known = collect_facts.facts(target, space, programs, reserved_cpus=reserved_cpus, controller=controller)
    global _around
    _around = load.Around.of_node(known)
    return NodeAnswer(target, builds, known)


class _Staged(msgspec.Struct, frozen=True):
    """A command that waits for `run`."""

    argv: list[str] = []
    cpus: list[int] | None = None
    outputs: dict[str, str] = {}


_staged = _Staged()


def stage(argv: list[str], cpus: list[int] | None, outputs: dict[str, str]) -> None:
    """Keep a command, its CPUs and the files that it writes (Tool.outputs) for `run`, whose request to all nodes at
    once can then be short."""
    global _staged
    _staged = _Staged(argv, cpus, outputs)


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
        printed = []
        for stream in (stdout, stderr):
            stream.seek(0)
            printed.append(stream.read(process.MOST_BYTES))
        files: dict[str, bytes] = {}
        if scratch and scratch != _NOWHERE:
            with safe_paths.folder(Path(scratch)) as place:
                files = tool_files.collected(place, staged.outputs)
    written = {stream: fan_out.packed(content) for stream, content in files.items()}
    return Ran(done, started, ended, fan_out.packed(printed[0]), fan_out.packed(printed[1]), written)


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
        *(hello, clock, facts, hash_of, free_port, serve, end_servers, stage, run, watch, seen, process.keep_to),
        *(identify.identify, ownership.ours, probe.state, handle.check),
    ]
)


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
    os.environ.pop(process.TOKEN, None)  # of the srun that started us: we start tools, and never ask Slurm
    process.adopt_orphans()
    signal.signal(signal.SIGTERM, _leave)
    name, received = _name(), b""
    while part := os.read(0, 1 << 16):
        *lines, received = (received + part).split(b"\n")
        for line in lines:
            request = msgspec.convert(json.loads(line), Request)
            if request.each is None or name in request.each:
                arguments = request.arguments if request.each is None else request.each[name]
                try:
                    answer = protocol.answer(OPERATIONS[request.operation], arguments)
                except process.Abandoned:
                    _leave()
                with _sending:
                    fan_out.send(request.number, name, msgspec.to_builtins(answer))
    _leave()


def _leave(*_: object) -> NoReturn:
    process.end_descendants(tidy=True)
    os._exit(0)


if __name__ == "__main__":
    main()
