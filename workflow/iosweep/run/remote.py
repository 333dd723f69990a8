"""The agents of an allocation's nodes: one process on each, started once by srun, that talk over its stdin and stdout.

No port is opened, and nothing is started per point. srun hands what it reads to every agent, so a request says whom it
is for; answers come back in short pieces, because srun cuts lines of more than a kilobyte and may mix those of two
nodes. What all agents are told to start they start within a fraction of a millisecond.

They are not the agent of agent.py, which touches the target and starts the launchers on the first node. These say what
their node is like, start the tools that know nothing of other nodes (fio), and count what a launcher started.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from iosweep.errors import AllocationError, ExitCode, Refused, TargetError, TargetHangs, Unanswered
from iosweep.node import process
from iosweep.slurm import query
from iosweep.text import some

_ANSWER = re.compile(rb"^(\d+) (\S+) (\d+)/(\d+) (\S*)$")
#: Start of all agents: on a thousand nodes a step takes seconds, and Python from a cold file system more.
_START_S = 120.0
#: A command is ended by its agent; this is for an agent that does not even manage that.
_SLACK_S = 30.0
_CLOCK_ROUNDS = 5
#: To end what agents that were killed have left; a node that is gone does not answer.
_SWEEP_S = 10.0


@dataclass(frozen=True)
class Clock:
    """An agent's clock minus ours, in seconds, and by how much that may be wrong."""

    offset_s: float
    error_s: float


class Silent(TargetHangs):
    """An agent, or the target that it touches, does not answer; the message says for how long."""


def lost(why: str) -> AllocationError:
    """The error of an allocation whose agents, or whose Slurm, are gone."""
    return AllocationError(ExitCode.LOST, f"{why}; what was measured is stored, and another job goes on from there")


class RemoteAgents:
    """The runner's side. Use as a context manager. `hosts`: names of the nodes as Slurm has them, in its order.

    `deadline_s`: how long an answer may take.
    """

    argv: tuple[str, ...] = (sys.executable, "-P", "-X", "utf8", "-m", "iosweep.run.remote_agent")

    def __init__(self, job: str, hosts: Sequence[str], deadline_s: float):
        self.hosts = tuple(hosts)
        self._job, self._deadline_s = job, deadline_s
        self._number = 0
        self._read = b""
        self.step = ""

    def __enter__(self) -> Self:
        many = str(len(self.hosts))
        place = [f"--nodes={many}", f"--ntasks={many}", "--ntasks-per-node=1", f"--nodelist={','.join(self.hosts)}"]
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
            steps = set(self.call("hello", deadline_s=_START_S).values())
        except BaseException:
            self._end()
            raise
        self.step = f"{self._job}.{steps.pop()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def call(
        self,
        operation: str,
        *arguments: Any,
        each: Mapping[str, Sequence[Any]] | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, Any]:
        """Run one of OPERATIONS on all nodes, or (`each`: host -> arguments) on some; returns host -> answer.

        Raises AllocationError, TargetHangs where an answer does not come in time, TargetError for an error on a node.
        """
        answers = self.answers(operation, *arguments, each=each, deadline_s=deadline_s)
        if late := sorted(host for host, answer in answers.items() if isinstance(answer, TargetHangs)):
            raise TargetHangs(f"the agent on {some(late, 4)} does not answer: {answers[late[0]]}", late)
        for host, answer in answers.items():
            if isinstance(answer, Refused):
                raise Refused(f"on {host}: {answer}")
            if isinstance(answer, TargetError):
                error = TargetError(answer.errno, f"on {host}: {answer.strerror}")
                error.node = host
                raise error
        return answers

    def answers(
        self,
        operation: str,
        *arguments: Any,
        each: Mapping[str, Sequence[Any]] | None = None,
        deadline_s: float | None = None,
    ) -> dict[str, Any]:
        """As `call`, but what it raises for a node is that node's answer. Raises AllocationError."""
        wanted = list(self.hosts if each is None else each)
        self._number += 1
        request: dict[str, Any] = {"number": self._number, "operation": operation, "arguments": arguments}
        if each is not None and tuple(each) == self.hosts and all(own == each[wanted[0]] for own in each.values()):
            request["arguments"] = each[wanted[0]]  # sent once, however many nodes there are
        elif each is not None:
            request["each"] = each
        limit_s = self._deadline_s if deadline_s is None else deadline_s
        end = time.monotonic() + limit_s
        self._send(json.dumps(request).encode() + b"\n", end)
        answers = self._answers(set(wanted), end)
        late = Silent(f"nothing for {limit_s:g} s ({operation})")
        return {host: _value(answers[host]) if host in answers else late for host in wanted}

    def clocks(self) -> dict[str, Clock]:
        """Every agent's clock against ours; the best of some rounds."""
        best: dict[str, Clock] = {}
        for _ in range(_CLOCK_ROUNDS):
            before = time.time()
            told = self.call("clock")
            after = time.time()
            for host, theirs in told.items():
                clock = Clock(theirs - (before + after) / 2, (after - before) / 2)
                if host not in best or clock.error_s < best[host].error_s:
                    best[host] = clock
        return best

    def run(
        self, commands: Mapping[str, Sequence[str]], timeout_s: float, cpus: Collection[int] | None = None
    ) -> dict[str, tuple[process.Completed, float, float]]:
        """Run a command on each of some nodes, all started at once, as `process.run` does.

        Returns host -> what it did, and when it was started and had ended on its node's clock, in seconds.
        """
        places = None if cpus is None else sorted(cpus)
        self.call("stage", each={host: [list(argv), places] for host, argv in commands.items()})
        told = self.call("run", each=dict.fromkeys(commands, (timeout_s,)), deadline_s=timeout_s + _SLACK_S)
        return {
            host: (
                process.Completed(
                    **done["completed"] | {"argv": tuple(commands[host])},
                    stdout=_unpacked(done["stdout"]),
                    stderr=_unpacked(done["stderr"]),
                ),
                done["started"],
                done["ended"],
            )
            for host, done in told.items()
        }

    def _send(self, data: bytes, end: float) -> None:
        """All of it, unless srun does not read: then there will be no answer."""
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

    def _answers(self, wanted: set[str], end: float) -> dict[str, Any]:
        """What comes before `end` (monotonic) from the wanted hosts."""
        pieces: dict[str, dict[int, bytes]] = {}
        whole: dict[str, Any] = {}
        assert self._srun.stdout
        while wanted - set(whole):
            rest = end - time.monotonic()
            if rest <= 0 or not select.select([self._srun.stdout], [], [], rest)[0]:
                break
            part = os.read(self._srun.stdout.fileno(), 1 << 16)
            if not part:
                raise self._lost()
            *lines, self._read = (self._read + part).split(b"\n")
            for line in lines:
                match = _ANSWER.match(line)
                if not match or int(match[1]) != self._number:  # a site's own lines, a late answer
                    continue
                host = match[2].decode()
                pieces.setdefault(host, {})[int(match[3])] = match[5]
                if len(pieces[host]) == int(match[4]):
                    text = b"".join(piece for _, piece in sorted(pieces[host].items()))
                    whole[host] = json.loads(_unpacked(text))
        return whole

    def _lost(self) -> AllocationError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._srun.wait(2)
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read(1 << 16).decode("utf-8", "replace").splitlines()]
        said = "; ".join(line for line in lines if line)[:300] or "srun says nothing"
        return lost(f"the agents on {some(self.hosts, 4)} ended: {said}")

    def _end(self) -> None:
        for stream in (self._srun.stdin, self._srun.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()  # they end with it
        try:
            self._srun.wait(3)
        except subprocess.TimeoutExpired:
            self._srun.kill()
            self._srun.wait()
        if self._srun.returncode and self.step:  # it, or an agent, was killed: without cgroups the tools live on
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--signal=KILL", self.step])
            with contextlib.suppress(Unanswered):
                query.ask([*self._start, "--kill-on-bad-exit=0", *self.argv, self.step.rpartition(".")[2]], _SWEEP_S)
        self._errors.close()


def _value(answer: Mapping[str, Any]) -> Any:
    """What a node answered, or the exception that it stands for."""
    if "refused" in answer:
        return Refused(answer["refused"])
    return TargetError(answer["errno"], answer["error"]) if "error" in answer else answer["value"]


def _unpacked(text: str | bytes) -> bytes:
    return zlib.decompress(base64.b64decode(text))
