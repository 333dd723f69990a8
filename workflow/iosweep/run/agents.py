"""The agents of a job's nodes: one process per node, started once by srun, which connects its stdin and stdout.

No port is opened, and nothing is started per point. srun copies its stdin to every agent, so a request names the hosts
that must answer. Answers are sent in short lines, because srun cuts lines longer than a kilobyte and may interleave the
lines of two nodes. All agents start a command within a fraction of a millisecond.

The agent of target/agent.py, on the first node, accesses the target and starts launchers. The agents here report facts
about their nodes, start tools without MPI (fio), and count the ranks that a launcher started. The code that runs on a
node comes first, the runner's side (`RemoteAgents`) second."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, NoReturn, Self, TypeVar

import msgspec
from msgspec import convert, structs, to_builtins

from iosweep import hostlist
from iosweep.errors import AllocationError, ExitCode, Refused, TargetError, TargetHangs, Unanswered
from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.hostlist import natural
from iosweep.node import environment, load, process, procfs
from iosweep.node.facts import NodeFacts, collect
from iosweep.node.load import Job
from iosweep.node.monitor import NodeWatch, Watched
from iosweep.node.process import MOST_PRINTED_BYTES
from iosweep.node.ranks import ExpectedProcesses
from iosweep.programs.programs import absent, hash_of
from iosweep.slurm import query
from iosweep.target import directory, identify, lock, protocol
from iosweep.target.protocol import Answer

# Messages over the input and output of srun


def pack(value: object) -> bytes:
    """Encode and compress a value as one word: requests to many nodes are long."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 1))


def unpack(word: bytes) -> object:
    """Decode a word. Raises ValueError and zlib.error."""
    return json.loads(zlib.decompress(base64.b64decode(word)))


#: Characters per piece: srun cuts longer lines.
_PIECE = 700
_LINE = re.compile(rb"(\d+) (\S+) (\d+)/(\d+) (\S*)")


class Message(NamedTuple):
    number: int
    host: str
    value: object


class Messages:
    """Reassembles messages from lines that arrive in any order."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[bytes, bytes], dict[int, bytes]] = {}

    def add(self, line: bytes) -> Message | None:
        """Add a line; returns the message that it completes, or None if the message is incomplete or damaged."""
        if not (match := _LINE.fullmatch(line.strip())):
            return None
        number, host, index, count, piece = match.groups()
        pieces = self._pieces.setdefault((number, host), {})
        pieces[int(index)] = piece
        if len(pieces) < int(count):
            return None
        del self._pieces[number, host]
        try:
            value = unpack(b"".join(piece for _, piece in sorted(pieces.items())))
        except (ValueError, zlib.error):
            return None
        return Message(int(number), host.decode("utf-8", "replace"), value)


def send(number: int, host: str, value: object, descriptor: int = 1) -> None:
    """Write a message to a file descriptor."""
    text = pack(value).decode()
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    # start on a new line: scripts of the site may have printed an incomplete one
    lines = "\n" + "".join(f"{number} {host} {i}/{len(pieces)} {piece}\n" for i, piece in enumerate(pieces))
    data = memoryview(lines.encode())
    while data:
        data = data[os.write(descriptor, data) :]


# Agents


class Request(msgspec.Struct, frozen=True):
    number: int
    operation: str
    arguments: list[object] = []
    each: dict[str, list[object]] | None = None  # host -> its arguments; other hosts ignore the request


class NodeAnswer(msgspec.Struct, frozen=True):
    """A node's facts, its programs, and the target."""

    target: identify.FileSystem  # as this node sees it
    builds: dict[str, str | None]  # program -> hash of its binary
    absent: dict[str, list[str]]  # program -> shared libraries that are missing on this node
    node: NodeFacts


class Watching(msgspec.Struct, frozen=True):
    """The processes to watch on a node."""

    expected: ExpectedProcesses | None  # None: watch the node only
    bound: list[str]  # CPU list of each rank or worker; empty if they may use all CPUs
    runner: int | None  # process id of the runner, if it is on this node
    target: str  # directory of the target that is measured


class Staged(msgspec.Struct, frozen=True):
    """A command that waits for `run`."""

    argv: list[str]
    cpus: list[int] | None = None
    outputs: dict[str, str] = {}  # files that it writes, like Tool.outputs
    watching: Watching | None = None


class NodeRun(msgspec.Struct, frozen=True):
    """A command that ran on a node."""

    done: process.Completed
    started: float  # on the node's clock, in seconds
    ended: float
    streams: dict[str, bytes] = {}  # stdout, stderr and the files that it wrote; compressed for transfer


_surroundings: dict[str, load.Surroundings] = {}  # by directory of the target
_watch: NodeWatch | None = None


def begin_watch(watching: Watching) -> None:
    global _watch
    if _watch:
        _watch.end()
    existing = set(procfs.pids())

    def find_new() -> list[str]:
        """Find processes of our job that started since: ranks are children of Slurm, not of this agent."""
        return [pid for pid in procfs.pids() if pid not in existing and procfs.is_of_job(pid)]

    known, job = _surroundings.get(watching.target, load.Surroundings()), Job.from_now(watching.runner)
    around = replace(known, bound=tuple(watching.bound), host=_node_name())
    _watch = NodeWatch(around, identify.counters_of(around.mount, around.fstype), job, watching.expected, find_new)


def end_watch(silent_s: float) -> Watched:
    global _watch
    assert _watch
    watch, _watch = _watch, None
    return watch.end(silent_s)


def idle_load(around: load.Surroundings, runner: int | None, seconds: float) -> load.NodeLoad | None:
    """The load of this node before anything is measured. `runner`: as in Watching."""
    reader = load.Reader(around, Job.from_now(runner) if slurm_step() else None)
    first = reader.snapshot()
    time.sleep(seconds)
    return load.shares([first, reader.snapshot()], reader.client_is_process)


def find_left_ranks() -> list[str]:
    """Find processes of our job outside the agents' step."""
    job_pids = filter(procfs.is_of_job, procfs.pids())
    return [procfs.named(pid) for pid in job_pids if procfs.variable(pid, "SLURM_STEP_ID") not in ("", slurm_step())]


def facts(directory: str, programs: dict[str, str], reserved_cpus: str | None = None) -> NodeAnswer:
    """Collect the facts of this node, with its target and programs. `programs`: name -> path."""
    target, space = identify.identify(directory), identify.read_space(directory)
    builds = {name: hash_of(path) for name, path in programs.items()}
    missing_libraries = {name: libraries for name, path in programs.items() if (libraries := absent(path))}
    node = collect(target, space, reserved_cpus=reserved_cpus)
    _surroundings[directory] = load.Surroundings.of_node(node)
    return NodeAnswer(target, builds, missing_libraries, node)


_staged = Staged([])


def stage(staged: Staged) -> None:
    """Store a command for `run`, whose request to all nodes is then short, and start to watch."""
    global _staged
    _staged = staged
    if staged.watching:
        begin_watch(staged.watching)


def run(timeout_s: float) -> NodeRun:
    """Run the staged command. If it writes files, it runs in a temporary directory, in memory if possible."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - only a directory of ours within it
    with (
        process.memory("stdout") as stdout,
        process.memory("stderr") as stderr,
        tempfile.TemporaryDirectory(prefix="iosweep-", dir=memory, ignore_cleanup_errors=True)
        if _staged.outputs
        else nullcontext() as scratch,
    ):
        started = time.time()
        printed = stdout.fileno(), stderr.fileno()
        done = process.run(_staged.argv, timeout_s, scratch, *printed, asker=0, cpus=_staged.cpus)
        ended = time.time()
        if _staged.watching:
            done = done.watched_on(_node_name(), end_watch(done.silent_s))
        stdout.seek(0)
        stderr.seek(0)
        streams = {"stdout": stdout.read(process.MOST_PRINTED_BYTES), "stderr": stderr.read(process.MOST_PRINTED_BYTES)}
        if scratch:
            with safe_paths.folder(Path(scratch)) as place:
                streams |= read_outputs(place, _staged.outputs)
    return NodeRun(done, started, ended, {stream: zlib.compress(content) for stream, content in streams.items()})


def slurm_step() -> str:
    """The Slurm step of this agent."""
    return os.environ.get("SLURM_STEP_ID", "")


def _node_name() -> str:
    """The name of this node in Slurm."""
    return os.environ.get("SLURMD_NODENAME", "")


def clock() -> float:
    return time.time()


OPERATIONS = protocol.by_name(
    [
        *(slurm_step, clock, facts, hash_of, stage, run, begin_watch, end_watch, idle_load, find_left_ranks),
        *(process.keep_to, identify.identify, directory.has_marker, directory.probe, directory.check_marker),
        lock.holder,
    ]
)


def _kill_step(step: str) -> None:
    """Kill the remaining processes of a step of this job on this node."""
    for pid in filter(procfs.is_of_job, procfs.pids()):
        if procfs.variable(pid, "SLURM_STEP_ID") == step:
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)


def main() -> None:
    """Answer requests in order until stdin ends. With a step as argument: only kill its processes."""
    if len(sys.argv) > 1:
        return _kill_step(sys.argv[1])
    # set by the srun that started us: tools must not have it, and agents never query Slurm
    os.environ.pop(environment.TOKEN, None)
    process.adopt_orphans()
    process.allow_files()
    signal.signal(signal.SIGTERM, _exit)
    name, unread = _node_name(), b""
    while chunk := os.read(0, 1 << 16):
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            request = msgspec.convert(unpack(line), Request)
            if request.each is None or name in request.each:
                arguments = request.arguments if request.each is None else request.each[name]
                try:
                    answer = protocol.answer(OPERATIONS[request.operation], arguments)
                except process.Abandoned:
                    _exit()
                send(request.number, name, to_builtins(answer))
    _exit()


def _exit(*_: object) -> NoReturn:
    process.end_descendants(tidy=True)
    os._exit(0)


def read_outputs(place: Folder, outputs: Mapping[str, str]) -> dict[str, bytes]:
    """Read output files; returns stream -> content, without files that are absent, not regular or too large.

    Files that match a pattern with `*` form one stream, each after a line `==> name <==`, sorted by their numbers.
    """
    streams: dict[str, bytes] = {}
    names = place.names() if any("*" in pattern for pattern in outputs.values()) else []
    for stream, pattern in outputs.items():
        with contextlib.suppress(OSError):
            if "*" not in pattern:
                streams[stream] = place.read(pattern, MOST_PRINTED_BYTES)
                continue
            remaining_bytes, parts = MOST_PRINTED_BYTES, []
            for name in sorted((name for name in names if fnmatchcase(name, pattern)), key=natural):
                parts.append(f"==> {name} <==\n".encode() + place.read(name, remaining_bytes))
                remaining_bytes -= len(parts[-1])
                if remaining_bytes <= 0:
                    break
            else:
                if parts:
                    streams[stream] = b"".join(parts)
    return streams


T = TypeVar("T")

#: Time limit for all agents to start: srun takes seconds on a thousand nodes, and Python minutes if all nodes load
#: it from a cold disk at once.
_START_S = 300.0
#: Extra time for an agent to end a command that exceeds its time limit.
_SLACK_S = 30.0
#: Rounds of clock comparison before each command.
_CLOCK_ROUNDS = 3
#: Time limit for ending the processes of killed agents: a lost node does not answer.
_KILL_S = 10.0


@dataclass(frozen=True)
class Clock:
    """An agent's clock minus ours, and the largest possible error."""

    offset_s: float
    error_s: float


class RemoteAgents:
    """Starts the agents of a job, and calls them. Use as a context manager.

    `hosts`: the nodes by Slurm's names, in Slurm's order. `deadline_s`: time limit for an answer.
    """

    argv: tuple[str, ...] = (sys.executable, "-P", "-X", "utf8", "-m", "iosweep.run.agents")

    def __init__(self, job: str, hosts: Sequence[str], deadline_s: float):
        self.hosts = tuple(hosts)
        self._job, self._deadline_s = job, deadline_s
        self._number = 0
        self._read, self._messages = b"", Messages()
        self._answered: dict[str, float] = {}  # host -> when its last answer arrived, by our clock
        self.step = ""

    def __enter__(self) -> Self:
        count = str(len(self.hosts))
        options = [
            f"--nodes={count}",
            f"--ntasks={count}",
            "--ntasks-per-node=1",
            f"--nodelist={hostlist.folded(self.hosts)}",
        ]
        self._start = ["srun", "--overlap", "--mpi=none", "--cpu-bind=none", "--job-name=agents", *options]
        self._errors = tempfile.TemporaryFile()
        try:
            self._srun = subprocess.Popen(
                [*self._start, "--kill-on-bad-exit=1", *self.argv],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C is for the runner
            )
        except OSError as error:
            raise AllocationError(ExitCode.LOST, f"srun cannot be run: {error.strerror}") from None
        try:
            steps = set(self.call(slurm_step, deadline_s=_START_S).values())
        except BaseException:
            self.__exit__()
            raise
        self.step = f"{self._job}.{steps.pop()}"
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self._srun.stdin, self._srun.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()  # end of input ends the agents
        try:
            self._srun.wait(3)
        except subprocess.TimeoutExpired:
            self._srun.kill()
            self._srun.wait()
        if self._srun.returncode and self.step:  # srun or an agent was killed: without cgroups the tools continue
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--signal=KILL", self.step])
            with contextlib.suppress(Unanswered):
                query.ask([*self._start, "--kill-on-bad-exit=0", *self.argv, self.step.rpartition(".")[2]], _KILL_S)
        self._errors.close()

    def call(
        self,
        operation: Callable[..., T],
        *arguments: object,
        each: Mapping[str, Sequence[object]] | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, T]:
        """Run one of OPERATIONS on all nodes, or on those in `each` (host -> arguments); returns host -> answer.

        Raises AllocationError, TargetHangs if a node does not answer in time, TargetError or Refused if one fails.
        """
        answers = self.answers(operation, *arguments, each=each, deadline_s=deadline_s)
        if silent_hosts := [host for host, answer in answers.items() if isinstance(answer, TargetHangs)]:
            raise TargetHangs(f"on {hostlist.hosts(silent_hosts)}: {answers[silent_hosts[0]]}", silent_hosts)
        values = {}
        for host, answer in answers.items():
            if isinstance(answer, Refused):
                raise Refused(f"on {host}: {answer}", answer.lasting)
            if isinstance(answer, TargetError):
                error = TargetError(answer.errno, f"on {host}: {answer.strerror}")
                error.node = host
                raise error
            assert not isinstance(answer, TargetHangs)
            values[host] = answer
        return values

    def answers(
        self,
        operation: Callable[..., T],
        *arguments: object,
        each: Mapping[str, Sequence[object]] | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, T | Refused | TargetError | TargetHangs]:
        """Like `call`, but returns a node's exception as its answer. Raises AllocationError."""
        hosts = list(self.hosts if each is None else each)
        self._number += 1
        limit_s = self._deadline_s if deadline_s is None else deadline_s
        each_arguments = None if each is None else {host: list(values) for host, values in each.items()}
        request = Request(self._number, operation.__name__, list(arguments), each_arguments)
        end = time.monotonic() + limit_s
        self._send(pack(to_builtins(request)) + b"\n", end)
        answers = self._receive(set(hosts), end)
        silence = f"no answer for {limit_s:g} s in {operation.__name__}"
        timeout = TargetHangs(f"the target, or the agent there, does not answer: {silence}")
        return {host: answers[host].outcome(operation) if host in answers else timeout for host in hosts}

    def clocks(self) -> dict[str, Clock]:
        """Compare each node's clock with ours in a few rounds, of which the fastest counts; returns host -> clock."""
        best: dict[str, Clock] = {}
        for _ in range(_CLOCK_ROUNDS):
            before = time.time()
            for host, remote_s in self.call(clock).items():
                half_s = (self._answered[host] - before) / 2
                if host not in best or half_s < best[host].error_s:
                    best[host] = Clock(remote_s - before - half_s, half_s)
        return best

    def run_at_once(
        self,
        commands: Mapping[str, Sequence[str]],
        timeout_s: float,
        cpus: Collection[int] | None = None,
        outputs: Mapping[str, str] = MappingProxyType({}),
        watched: Mapping[str, Watching] = MappingProxyType({}),
    ) -> dict[str, NodeRun]:
        """Run a command on each of these nodes with `process.run`, all started simultaneously.

        `outputs`: files that it writes, like Tool.outputs. `watched`: host -> processes and CPUs to watch.
        """
        cpu_list = None if cpus is None else sorted(cpus)
        staged = {h: [Staged(list(argv), cpu_list, dict(outputs), watched.get(h))] for h, argv in commands.items()}
        self.call(stage, each=staged)
        answers = self.call(run, each=dict.fromkeys(commands, (timeout_s,)), deadline_s=timeout_s + _SLACK_S)
        runs = {}
        for host, ran in answers.items():
            streams = {stream: zlib.decompress(content) for stream, content in ran.streams.items()}
            done = replace(ran.done, stdout=streams["stdout"], stderr=streams["stderr"])
            runs[host] = structs.replace(ran, done=done, streams=streams)
        return runs

    def _send(self, data: bytes, end: float) -> None:
        """Send a request; give up at `end` (monotonic) if srun does not read it, as no answer will come then."""
        assert self._srun.stdin
        descriptor = self._srun.stdin.fileno()
        os.set_blocking(descriptor, False)
        while data:
            remaining_s = end - time.monotonic()
            if remaining_s <= 0 or not select.select([], [descriptor], [], remaining_s)[1]:
                return
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._loss_error() from None

    def _receive(self, hosts: set[str], end: float) -> dict[str, Answer]:
        """Collect the answers of these hosts that arrive before `end` (monotonic)."""
        assert self._srun.stdout
        answers: dict[str, Answer] = {}
        while hosts - set(answers):
            if not select.select([self._srun.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                break
            chunk = os.read(self._srun.stdout.fileno(), 1 << 16)
            if not chunk:
                raise self._loss_error()
            now = time.time()
            *lines, self._read = (self._read + chunk).split(b"\n")
            for message in filter(None, map(self._messages.add, lines)):
                if message.number == self._number:  # otherwise it is late
                    answers[message.host] = convert(message.value, Answer)
                    self._answered[message.host] = now
        return answers

    def _loss_error(self) -> AllocationError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._srun.wait(2)
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read(1 << 16).decode("utf-8", "replace").splitlines()]
        message = "; ".join(line for line in lines if line)[:300] or "srun says nothing"
        return AllocationError(ExitCode.LOST, f"the agents on {hostlist.hosts(self.hosts)} ended: {message}")


if __name__ == "__main__":
    main()
