"""The agents of a job's nodes: one process on each node, which srun starts once and connects by stdin and stdout.

No port is opened, and nothing is started per point. srun sends its input to every agent, so a request names the hosts
that it is for. Answers come in short pieces, because srun cuts lines of more than a kilobyte and may mix lines of two
nodes. All agents start a command within a fraction of a millisecond.

The agent of target/agent.py, on the first node, touches the target and starts launchers. These agents report the facts
of their nodes, start tools that know nothing of other nodes (fio), and count the ranks that a launcher started.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self, TypeVar

from msgspec import convert, to_builtins

from iosweep import hostlist
from iosweep.errors import AllocationError, ExitCode, Refused, TargetError, TargetHangs, Unanswered
from iosweep.run import remote_agent
from iosweep.run.remote_agent import Ran, Request, Watching
from iosweep.slurm import broadcast, fan_out, query
from iosweep.target import protocol
from iosweep.target.protocol import Answer

T = TypeVar("T")

#: Time limit for all agents to start: a step on a thousand nodes takes seconds, and Python from a cold disk that all of
#: them read at once takes minutes.
_START_S = 300.0
#: Extra time for an agent to end a command that exceeds its time limit.
_SLACK_S = 30.0
#: Rounds in which clocks are compared at first, and again before each command.
_CLOCK_ROUNDS, _CLOCK_AGAIN = 5, 2
#: By how much clocks may have drifted apart per second since they were compared: NTP slews no faster.
_DRIFT = 500e-6
#: Share of the time for an answer after which an agent that waits for the target says so.
_REPORTED = 0.9
#: Time limit for ending the processes of killed agents; a node that is gone does not answer.
_SWEEP_S = 10.0


@dataclass(frozen=True)
class Clock:
    """An agent's clock minus ours, in seconds, and by how much that may be wrong."""

    offset_s: float
    error_s: float

    def with_another(self, later: Clock, after_s: float) -> Clock:
        """The better one of two comparisons; the later one where the clock was set in between. Pure."""
        aged = replace(self, error_s=self.error_s + _DRIFT * after_s)
        was_set = abs(later.offset_s - aged.offset_s) > later.error_s + aged.error_s
        return later if was_set or later.error_s <= aged.error_s else aged


class Silent(TargetHangs):
    """An agent, or the target that it touches, did not answer; the message says for how long."""


def _hanging(hosts: Sequence[str], answer: object) -> str:
    if isinstance(answer, Silent):
        return f"the agent on {hostlist.hosts(hosts)} does not answer: {answer}"
    return f"on {hostlist.hosts(hosts)}: {answer}"


def lost(why: str) -> AllocationError:
    """The error of an allocation whose agents, or whose Slurm, are gone."""
    return AllocationError(ExitCode.LOST, why)


class RemoteAgents:
    """The runner's side; a context manager. `hosts`: the nodes by their names in Slurm, in its order.

    `deadline_s`: time limit for an answer.
    """

    argv: tuple[str, ...] = (sys.executable, "-P", "-X", "utf8", "-m", "iosweep.run.remote_agent")

    def __init__(self, job: str, hosts: Sequence[str], deadline_s: float):
        self.hosts = tuple(hosts)
        self._job, self._deadline_s = job, deadline_s
        self._number = 0
        self._read, self._messages = b"", fan_out.Messages()
        self._at: dict[str, float] = {}  # host -> when its last answer arrived, by our clock
        self._clocks: dict[str, tuple[Clock, float]] = {}  # host -> its clock, and when that was known (monotonic)
        self.step = ""

    def __enter__(self) -> Self:
        many = str(len(self.hosts))
        place = [
            f"--nodes={many}",
            f"--ntasks={many}",
            "--ntasks-per-node=1",
            f"--nodelist={hostlist.folded(self.hosts)}",
        ]
        self._start = ["srun", "--overlap", "--mpi=none", "--cpu-bind=none", "--job-name=agents", *place]
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
            raise lost(f"srun cannot be run: {error.strerror}") from None
        try:
            steps = set(self.call(remote_agent.hello, deadline_s=_START_S).values())
        except BaseException:
            self._end()
            raise
        self.step = f"{self._job}.{steps.pop()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def call(
        self,
        operation: Callable[..., T],
        *arguments: object,
        each: Mapping[str, Sequence[object]] | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, T]:
        """Run one of remote_agent.OPERATIONS on all nodes, or (`each`: host -> arguments) on some; host -> answer.

        Raises AllocationError, TargetHangs where an answer does not come in time, TargetError for an error on a node.
        """
        answers = self.answers(operation, *arguments, each=each, deadline_s=deadline_s)
        if late := [host for host, answer in answers.items() if isinstance(answer, TargetHangs)]:
            raise TargetHangs(_hanging(late, answers[late[0]]), late)
        found = {}
        for host, answer in answers.items():
            if isinstance(answer, Refused):
                raise Refused(f"on {host}: {answer}", answer.lasting)
            if isinstance(answer, TargetError):
                error = TargetError(answer.errno, f"on {host}: {answer.strerror}")
                error.node = host
                raise error
            assert not isinstance(answer, TargetHangs)
            found[host] = answer
        return found

    def answers(
        self,
        operation: Callable[..., T],
        *arguments: object,
        each: Mapping[str, Sequence[object]] | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, T | Refused | TargetError | TargetHangs]:
        """As `call`, but what it raises for a node is that node's answer. Raises AllocationError."""
        wanted = list(self.hosts if each is None else each)
        self._number += 1
        common, own = to_builtins(list(arguments)), None
        if each is not None:
            common, own = broadcast.split({host: to_builtins(list(values)) for host, values in each.items()})
            if tuple(each) == self.hosts and not any(own.values()):
                own = None
        limit_s = self._deadline_s if deadline_s is None else deadline_s
        request = Request(self._number, operation.__name__, common, own, _REPORTED * limit_s)
        end = time.monotonic() + limit_s
        self._send(broadcast.line(to_builtins(request)), end)
        answers = self._answers(set(wanted), end)
        late = Silent(f"nothing for {limit_s:g} s while {protocol.doing(operation)}")
        return {host: answers[host].outcome(operation) if host in answers else late for host in wanted}

    def clocks(self) -> dict[str, Clock]:
        """host -> its clock against ours; the best of some rounds, and of those before earlier commands."""
        for _ in range(_CLOCK_AGAIN if self._clocks else _CLOCK_ROUNDS):
            before, now = time.time(), time.monotonic()
            for host, theirs in self.call(remote_agent.clock).items():
                half = (self._at[host] - before) / 2
                clock = Clock(theirs - before - half, half)
                if host in self._clocks:
                    known, at = self._clocks[host]
                    clock = known.with_another(clock, now - at)
                self._clocks[host] = clock, now
        return {host: clock for host, (clock, _) in self._clocks.items()}

    def run(
        self,
        commands: Mapping[str, Sequence[str]],
        timeout_s: float,
        cpus: Collection[int] | None = None,
        outputs: Mapping[str, str] = MappingProxyType({}),
        watched: Mapping[str, Watching] = MappingProxyType({}),
    ) -> dict[str, Ran]:
        """Run a command on each of some nodes, all started at once, as `process.run` does.

        `outputs`: files that it writes, as Tool.outputs. `watched`: host -> what is watched on it meanwhile.
        """
        places = None if cpus is None else sorted(cpus)
        staged = {host: [list(argv), places, dict(outputs), watched.get(host)] for host, argv in commands.items()}
        self.call(remote_agent.stage, each=staged)
        each = dict.fromkeys(commands, (timeout_s,))
        answers = self.call(remote_agent.run, each=each, deadline_s=timeout_s + _SLACK_S)
        return {host: remote_agent.coded(ran, zlib.decompress) for host, ran in answers.items()}

    def _send(self, data: bytes, end: float) -> None:
        """Send a request, unless srun does not read it before `end` (monotonic): then there will be no answer."""
        assert self._srun.stdin
        to = self._srun.stdin.fileno()
        os.set_blocking(to, False)
        while data:
            rest = end - time.monotonic()
            if rest <= 0 or not select.select([], [to], [], rest)[1]:
                return
            try:
                data = data[os.write(to, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._lost() from None

    def _answers(self, wanted: set[str], end: float) -> dict[str, Answer]:
        """The answers of the wanted hosts that arrive before `end` (monotonic)."""
        whole: dict[str, Answer] = {}
        while wanted - set(whole):
            if (found := self._arrived(end)) is None:
                break
            now = time.time()
            for message in found:
                if message.number == self._number:  # else a late answer
                    whole[message.who] = convert(message.value, Answer)
                    self._at[message.who] = now
        return whole

    def _arrived(self, end: float) -> list[fan_out.Message] | None:
        """Messages that arrive next; None where nothing arrives before `end` (monotonic)."""
        assert self._srun.stdout
        rest = max(0.0, end - time.monotonic())
        if not select.select([self._srun.stdout], [], [], rest)[0]:
            return None
        part = os.read(self._srun.stdout.fileno(), 1 << 16)
        if not part:
            raise self._lost()
        *lines, self._read = (self._read + part).split(b"\n")
        return [message for line in lines if (message := self._messages.add(line))]

    def _lost(self) -> AllocationError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._srun.wait(2)
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read(1 << 16).decode("utf-8", "replace").splitlines()]
        message = "; ".join(line for line in lines if line)[:300] or "srun says nothing"
        return lost(f"the agents on {hostlist.hosts(self.hosts)} ended: {message}")

    def _end(self) -> None:
        for stream in (self._srun.stdin, self._srun.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()  # the agents end with it
        try:
            self._srun.wait(3)
        except subprocess.TimeoutExpired:
            self._srun.kill()
            self._srun.wait()
        if self._srun.returncode and self.step:  # srun or an agent was killed: without cgroups the tools continue
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--signal=KILL", self.step])
            with contextlib.suppress(Unanswered):
                query.ask([*self._start, "--kill-on-bad-exit=0", *self.argv, self.step.rpartition(".")[2]], _SWEEP_S)
        self._errors.close()
