"""A machine for tests of the runner: `iosweep measure` in this process, with scripted tools, a clock that a test sets,
and counters, load and masks as a test wants them. The target, the results and all decisions are the real ones."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

import scripted
from campaign import SWEEP, Allocation
from iosweep.commands import cli
from iosweep.errors import ExitCode, Obstacle
from iosweep.files import safe_paths
from iosweep.node import process
from iosweep.node.counters import Moved
from iosweep.node.cpus import listed
from iosweep.node.load import MachineCounters, NodeLoad, Surroundings
from iosweep.node.monitor import Watched
from iosweep.node.ranks import ExpectedProcesses, Looks, Processes
from iosweep.programs import programs
from iosweep.programs.programs import Mpiexec
from iosweep.run import agents as node_agent
from iosweep.run import allocation, budget, campaign_directory, repetition
from iosweep.slurm import query
from iosweep.target import protocol
from iosweep.target.agent import Agent

BEGAN_S = 1_800_000_000.0
QUIET = NodeLoad(
    busy=0.5,
    ours=0.5,
    client=0.0,
    steal=0.0,
    window_s=1.0,
    machine=(MachineCounters(1, 1, 1), MachineCounters(1, 2, 2)),
)
HYDRA = Mpiexec("/usr/bin/mpiexec", "4.3.0")
#: Calls the function that runs a tool's command. It may do something before and after, raise, or change what is known.
During = Callable[[scripted.Call, Callable[[], process.Completed]], process.Completed]


class Clock:
    """Seconds that pass only when a tool runs, or when a test says so."""

    def __init__(self) -> None:
        self.now_s = BEGAN_S

    def time(self) -> float:
        return self.now_s

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def now(self, zone: tzinfo = UTC) -> datetime:
        return datetime.fromtimestamp(self.now_s, zone)


@dataclass
class Machine:
    """`rules`: of the tools (scripted.py). `load`, `moved`: changes of what is seen beside a run; `during`: what
    happens before and after one. `ran`: the command lines that measured or prepared, in order."""

    rules: list[scripted.Rule] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    load: dict[str, Any] = field(default_factory=dict)
    moved: dict[str, Any] = field(default_factory=dict)
    mask: str | None = None  # CPU list of every worker or rank; default: those that it was bound to
    during: During = lambda call, run: run()
    mpiexec: Mpiexec | Obstacle = HYDRA
    hosts: tuple[str, ...] = ()  # of the job that measures; none: this machine, without Slurm
    ran: list[str] = field(default_factory=list)
    _used: dict[int, int] = field(default_factory=dict)

    def play(self, *rules: scripted.Rule) -> None:
        """The tools go by these rules from now on."""
        self.rules, self._used = list(rules), {}

    def _use(self, k: int) -> int:
        self._used[k] = self._used.get(k, 0) + 1
        return self._used[k] - 1

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float,
        directory: Path | None,
        around: Surroundings | None,
        wanted: ExpectedProcesses | None,
    ) -> process.Completed:
        program = next(word for word in argv if Path(word).name in scripted.TOOLS)
        if not Path(program).exists():
            raise FileNotFoundError(2, "No such file or directory", program)
        call = scripted.Call.of(argv)

        def play() -> process.Completed:
            rule = {} if call.asks_version else scripted.rule_of(call, self.rules, self._use)
            try:
                printed = scripted.play(call, rule)
            except OSError as error:  # of the target, as fio tells it
                said = f"fio: pid=7, err={error.errno}/file:filesetup.c:243, func=open, error={error.strerror}\n"
                printed = scripted.Printed(stderr=said.encode(), exit_code=1, wall_s=scripted.START_S)
            for name, content in printed.files.items():
                assert directory
                (directory / name).write_bytes(content)
            late, wall_s = printed.wall_s > timeout_s, min(printed.wall_s, timeout_s)
            self.clock.now_s += wall_s
            code = -int(rule["signal"]) if "signal" in rule else printed.exit_code
            done = process.Completed(
                tuple(argv),
                -signal.SIGTERM if late else code,
                late,
                False,
                wall_s,
                stdout=b"" if "signal" in rule else printed.stdout,
                stderr=printed.stderr,
                storage_read_bytes=printed.read_bytes,
                storage_written_bytes=printed.written_bytes,
            )
            watched = {around.host: self._watched(printed, wall_s, around, wanted)} if around else {}
            return replace(done, watched=watched)

        if not call.asks_version:
            self.ran.append(call.line)
        return play() if call.asks_version else self.during(call, play)

    def _watched(
        self, printed: scripted.Printed, wall_s: float, around: Surroundings, wanted: ExpectedProcesses | None
    ) -> Watched:
        read, written = printed.read_bytes, printed.written_bytes
        moved = Moved(
            tool_read_bytes=read,
            tool_written_bytes=written,
            device="vda",
            device_read_bytes=read,
            device_written_bytes=written,
            received_bytes=0,
            sent_bytes=0,
            window_s=wall_s,
            dirty_bytes=0,
        )
        looks = None
        if wanted:
            one = listed(frozenset(os.sched_getaffinity(0)))
            masks = [self.mask] * wanted.processes if self.mask else list(around.bound) or [one]
            looks = Looks(
                looks=6,
                expected=wanted.processes,
                seen=wanted.processes,
                gap_s=wall_s / 6,
                wall_s=wall_s,
                processes=tuple(
                    Processes(
                        role="rank" if wanted.ranks else "worker",
                        masks=(mask,),
                        thread_masks=(mask,),
                        count=len(range(k, wanted.processes, len(masks))),
                    )
                    for k, mask in enumerate(masks)
                ),
            )
        return Watched(
            moved=structs.replace(moved, **self.moved),
            ranks=wanted.processes if wanted else 0,
            load=structs.replace(QUIET, window_s=wall_s, **self.load) if printed.wall_s > 0.3 else None,
            cpus=looks,
        )


class InProcess(Agent):
    """The agent in this process. What an operation answers goes through the protocol, as between processes."""

    machine: Machine

    def call(self, operation: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return protocol.answer(operation, [msgspec.to_builtins(one) for one in arguments]).value_of(operation)

    def hurry(self) -> None:
        pass

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float,
        directory: Path | None = None,
        cpus: Any = None,
        expected: ExpectedProcesses | None = None,
        token: bool = False,
        around: Surroundings | None = None,
    ) -> process.Completed:
        return self.machine.run(argv, timeout_s, directory, around, expected)


class Agents:
    """The agents of a job's nodes (run.agents.RemoteAgents), which are this process: for tools without MPI. What a tool
    does on a node is played by the rules with its `node`, and by those that have none."""

    machine: Machine
    step = "7.0"

    def __init__(self, job: str, hosts: Sequence[str], deadline_s: float):
        self.hosts = tuple(hosts)

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answers(
        self, operation: Callable[..., Any], *arguments: Any, each: Any = None, deadline_s: float | None = None
    ) -> dict[str, Any]:
        found = {}
        for host, own in (each or dict.fromkeys(self.hosts, arguments)).items():
            asked = [msgspec.to_builtins(one) for one in own]
            found[host] = protocol.answer(operation, asked).outcome(operation)
        return found

    def call(self, operation: Callable[..., Any], *arguments: Any, **how: Any) -> dict[str, Any]:
        found = self.answers(operation, *arguments, **how)
        if errors := [one for one in found.values() if isinstance(one, Exception)]:
            raise errors[0]
        return found

    def clocks(self) -> dict[str, node_agent.Clock]:
        return dict.fromkeys(self.hosts, node_agent.Clock(0.0, 1e-4))

    def run_at_once(
        self,
        commands: dict[str, Sequence[str]],
        timeout_s: float,
        cpus: Any = None,
        outputs: Any = None,
        watched: Any = None,
    ) -> dict[str, node_agent.NodeRun]:
        found, clock, rules = {}, self.machine.clock, self.machine.rules
        began = ended = clock.now_s
        for host, argv in commands.items():
            clock.now_s, self.machine.rules = began, [one for one in rules if one.get("node", host) == host]
            with tempfile.TemporaryDirectory() as place:
                around, wanted = SimpleNamespace(bound=watched[host].bound, host=host), watched[host].expected
                done = self.machine.run(argv, timeout_s, Path(place), around, wanted)  # type: ignore[arg-type]
                with safe_paths.folder(Path(place)) as folder:
                    files = node_agent.read_outputs(folder, outputs)
            streams = {"stdout": done.stdout, "stderr": done.stderr, **files}
            found[host] = node_agent.NodeRun(done, began, clock.now_s, streams)
            ended = max(ended, clock.now_s)
        clock.now_s, self.machine.rules = ended, rules
        return found


def _keep_to(cpus: list[int]) -> None:
    """In place of process.keep_to: this process keeps its CPUs."""


class Scripted(Allocation):
    """A campaign that `measure` runs in this process, on a scripted machine."""

    def __init__(self, place: Path, sweep: dict[str, Any] = SWEEP, keep: str = "none", **document: Any):
        super().__init__(place, sweep, keep, **document)
        self.machine = Machine()
        self.path = str(scripted.install(place / "bin"))

    def measure(self, *arguments: str, code: int = 0) -> str:
        """`iosweep measure` of the first allocation; returns its messages."""
        if self.machine.hosts:
            arguments = ("--scheduler", "slurm", "--launcher", "srun", *arguments)
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with self._here(said):
            found = cli.main(self.command(*arguments)[3:])
        said.seek(0)
        text = said.read()
        assert found == code, text
        return text

    def stopped_at(self, phase: int) -> None:
        """A run that ends in the middle of a phase, the first of which is 0."""
        phases = itertools.count()

        def during(call: scripted.Call, run: Callable[[], process.Completed]) -> process.Completed:
            if not call.prepares and next(phases) == phase:
                raise KeyboardInterrupt
            return run()

        self.machine.during = during
        self.measure(code=ExitCode.INTERRUPTED)
        self.machine.during = lambda call, run: run()

    @contextlib.contextmanager
    def _here(self, said: io.TextIOWrapper) -> Iterator[None]:
        """This process as that of a runner, and as it was again afterwards."""
        before, where, stderr = dict(os.environ), Path.cwd(), sys.stderr
        machine, clock = self.machine, self.machine.clock
        time = SimpleNamespace(time=clock.time, monotonic=clock.monotonic, sleep=clock.sleep)
        agent, agents = (type("OfMachine", (kind,), {"machine": machine}) for kind in (InProcess, Agents))
        hosts = machine.hosts
        job = query.Job("7", "c", "RUNNING", "", "me", "", "/", len(hosts), hosts, clock.now_s, None, "")
        os.environ["PATH"], os.environ["COLUMNS"] = self.path, "300"
        os.chdir(self.place)
        programs.sha256.cache_clear()  # a runner remembers no program of another one
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "stderr", said)
                patch.setattr(gc, "freeze", lambda: None)
                patch.setattr(allocation, "Agent", agent)
                patch.setattr(allocation, "RemoteAgents", agents)
                patch.setattr(allocation, "slurm_job", lambda: job)
                patch.setattr(budget, "time", time)
                patch.setattr(campaign_directory, "time", time)
                patch.setattr(repetition, "datetime", clock)
                patch.setattr(process, "keep_to", _keep_to)
                patch.setattr(process, "adopt_orphans", lambda: None)
                patch.setattr(programs, "mpiexec", lambda *_: machine.mpiexec)
                patch.setattr(programs, "output", lambda *_: "")  # no package manager knows the scripted tools
                patch.setattr(programs, "libraries", lambda *_: "")
                patch.setattr(node_agent, "absent", lambda path: [])  # they have no libraries
                patch.setattr(programs, "libraries", lambda path: "")
                yield
        finally:
            sys.stderr = stderr
            os.chdir(where)
            os.environ.clear()
            os.environ.update(before)
