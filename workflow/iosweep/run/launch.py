"""Starts a tool through the launcher, or once on each node."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from iosweep.errors import AllocationError, ExitCode, Unanswered
from iosweep.files import safe_paths
from iosweep.hostlist import folded
from iosweep.node import environment
from iosweep.node.cpus import listed
from iosweep.node.load import Surroundings
from iosweep.node.pinning import Binding, Pinning
from iosweep.node.process import Completed
from iosweep.node.ranks import ExpectedProcesses
from iosweep.plan.launchers import OPEN_MPI, SLURM_LAUNCHERS, Launcher
from iosweep.programs.programs import Mpiexec, Program, mpi
from iosweep.run import agents
from iosweep.run.agents import RemoteAgents, Watching
from iosweep.slurm import query
from iosweep.target.agent import Agent
from iosweep.tools import Step, Streams, Tool
from iosweep.tools.messages import cause_in

#: Time limit for a file that a rank wrote on another node to become visible here (NFS caches names).
_VISIBLE_S = 10.0
#: Time limit for Slurm's controller to restart, and seconds between tries to start ranks.
_RESTART_S, _RETRY_S = 60.0, 5.0
#: srun's messages when it could not start anything.
_NOT_STARTED = re.compile(
    "srun: (error: Unable to (confirm allocation|create step|contact slurm controller)"
    "|error: Task launch for .* failed|Job step creation (still|temporarily) disabled).*"
)
#: Time limit for ranks that only print their version.
_RANKS_S = 120.0
#: Sampling sees all ranks of a run that takes at least this long, in seconds.
_LONG_S = 2.5


@dataclass(frozen=True)
class Commands:
    """Starts the commands of an allocation."""

    agent: Agent
    launcher: Launcher
    scratch: Path  # working directory of tools; below the results, which every node sees
    mpiexec: Mpiexec | None
    programs: Mapping[str, Program]
    job: str | None = None  # the Slurm job that we run in
    remote: RemoteAgents | None = None  # the agents of its nodes
    pinning: Pinning | None = None
    target: str = ""  # directory of the target, whose counters are watched

    def argv(
        self,
        tool: Tool,
        command: Sequence[str],
        tasks: int,
        hosts: Sequence[str] = (),
        binding: Binding | None = None,
    ) -> list[str]:
        """Build the command line to start, with the launcher and the path of the program whose hash is stored."""
        command = [self.programs[tool.name].path if command[0] == tool.program else command[0], *command[1:]]
        if binding:
            command += tool.bound(binding.ranks)
        if tool.mpi and self.launcher.allocated and environment.TOKEN in os.environ:
            command = ["/usr/bin/env", "-u", environment.TOKEN, *command]  # for srun only, not for ranks
        manager = self.mpiexec.path if self.mpiexec else "mpiexec"
        argv = self.launcher.argv(command, tool.mpi, tasks, manager, hosts, binding)
        if not (tool.mpi and self.launcher.manager is OPEN_MPI and self.remote):
            return argv
        all_hosts = self.remote.hosts  # Open MPI needs more of Slurm's variables than we keep
        job = {
            "SLURM_JOBID": self.job,
            "SLURM_NODELIST": folded(all_hosts),
            "SLURM_TASKS_PER_NODE": f"{tasks // len(hosts)}(x{len(all_hosts)})",
        }
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in job.items()), *argv]

    def binding(self, tool: Tool, tasks: int, hosts: Sequence[str]) -> Binding | None:
        """The CPUs of each node's ranks or workers; None if they are not bound."""
        return self.pinning.binding(tasks // max(1, len(hosts)), tool.mpi) if self.pinning else None

    def run(
        self,
        tool: Tool,
        commands: Sequence[Sequence[str]],
        tasks: int,
        timeout_s: float,
        hosts: Sequence[str] = (),
        step: Step | None = None,
    ) -> tuple[Completed, Streams]:
        """Run one command across all hosts, or one on each host, for at most `timeout_s` seconds.

        `step`: the step that is measured; None to prepare a data set. Raises OSError if it cannot be started,
        AllocationError if there is no scratch directory.
        """
        make_scratch(self.scratch)
        # tools that prepare data sets inherit our CPUs, the usable ones
        binding = self.binding(tool, tasks, hosts) if step or tool.mpi else None
        argvs = [self.argv(tool, command, tasks, hosts, binding) for command in commands]
        watching, cpus = self._choose_watching(tool, tasks, hosts, step, binding), binding.union if binding else None
        if not tool.mpi and self.remote and tuple(hosts) != self.remote.hosts[:1]:  # otherwise the host is this node
            clocks = self.remote.clocks()
            by_host = dict(zip(hosts, argvs, strict=True))
            runs = self.remote.run_at_once(by_host, timeout_s, cpus, tool.outputs, watching)
            nodes = [
                {
                    "host": host,
                    "started": ran.started - clocks[host].offset_s,
                    "ended": ran.ended - clocks[host].offset_s,
                    "clock_offset_s": clocks[host].offset_s,
                    "clock_error_s": clocks[host].error_s,
                    "exit_code": ran.done.exit_code,
                }
                for host, ran in runs.items()
            ]
            streams = {f"{s}@{k}": data for k, ran in enumerate(runs.values()) for s, data in ran.streams.items()}
            merged = merge({host: ran.done for host, ran in runs.items()})
            return merged, streams | {"hosts": msgspec.json.encode(nodes)}
        (argv,) = argvs
        if tool.mpi and self.launcher.allocated:
            done = self._run_launcher(argv, timeout_s, watching)
        else:
            (watched,) = watching.values() or [Watching(None, [], None, self.target)]
            facts = next(iter(self.pinning.nodes.values()), None) if self.pinning else None
            surroundings = Surroundings.of_node(facts, tuple(watched.bound))
            done = self.agent.run(argv, timeout_s, self.scratch, cpus, watched.expected, around=surroundings)
        streams = {"stdout": done.stdout, "stderr": done.stderr}
        if tool.mpi and self.remote and not done.exit_code:
            for name in tool.outputs.values():
                if any(name in word for word in argv):
                    end = time.monotonic() + _VISIBLE_S
                    while not (self.scratch / name).is_file() and time.monotonic() < end:
                        time.sleep(0.05)
        if tool.outputs:
            with contextlib.suppress(OSError), safe_paths.folder(self.scratch.parent, self.scratch.name) as place:
                streams |= agents.read_outputs(place, tool.outputs)
        return done, streams

    def launcher_problem(self, tool: Tool) -> str | None:
        """Why the launcher cannot start ranks of a tool as one MPI program on all nodes of the job; None if it can.
        Starts ranks that print their version: they are bound like those that measure, and access no file."""
        assert self.remote
        hosts = self.remote.hosts
        tasks = max(2, len(hosts))
        binding = self.binding(tool, tasks, hosts)
        make_scratch(self.scratch)
        argv = self.argv(tool, tool.version_argv, tasks, hosts, binding)
        for _ in range(2):  # a first failure may be transient
            done = self._run_launcher(argv, _RANKS_S, self._choose_watching(tool, tasks, hosts, None, binding))
            singletons = len(re.findall(tool.version_pattern, done.stdout.decode("utf-8", "replace"), re.MULTILINE)) > 1
            if not done.exit_code and not singletons:
                return None
        symptom = "each rank runs alone" if singletons else f"exit code {done.exit_code}: {cause_in(done.stderr)}"
        symptom = f"not done within {_RANKS_S:g} s" if done.timed_out else symptom
        library = mpi(self.programs[tool.name].path)
        mpi_note = f", whose MPI is {library}" if library else ""
        others = [launcher for launcher in SLURM_LAUNCHERS.values() if launcher.name != self.launcher.name]
        alternatives = " or ".join(launcher.name for launcher in others if library in (None, launcher.mpi))
        remedy = f"set launcher to {alternatives} in the profile"
        if "run as root" in symptom:
            remedy = "be another user, or export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
        return f"the launcher {self.launcher.name} cannot start {tool.name}{mpi_note}: {remedy} ({symptom})"

    def _choose_watching(
        self, tool: Tool, tasks: int, hosts: Sequence[str], step: Step | None, binding: Binding | None
    ) -> dict[str, Watching]:
        """Determine the processes and CPUs to watch on each host while a command runs."""
        expected, bound = None, list[str]()
        if (step and self.pinning) or (tool.mpi and self.launcher.allocated):
            time_s = step.time_s if step and len(step.phases) == 1 else None
            expected = ExpectedProcesses(self.programs[tool.name].path, tasks // max(1, len(hosts)), tool.mpi, time_s)
        if binding:
            bound = list(dict.fromkeys(map(listed, binding.ranks)))
        elif self.pinning and self.pinning.usable != self.pinning.topology.cpus:
            bound = [listed(self.pinning.usable)]
        first = self.remote.hosts[0] if self.remote else None  # the node that we are on
        return {h: Watching(expected, bound, os.getpid() if h == first else None, self.target) for h in hosts}

    def _run_launcher(self, argv: Sequence[str], timeout_s: float, watching: Mapping[str, Watching]) -> Completed:
        """Run a launcher, count its ranks on the nodes of the job, and end them with it. Raises AllocationError if
        Slurm starts no ranks for a minute."""
        assert self.remote and self.job
        end = time.monotonic() + _RESTART_S
        while True:
            self.remote.call(agents.begin_watch, each={host: [watched] for host, watched in watching.items()})
            done, leftover = None, 0
            try:
                done = self.agent.run(argv, timeout_s, self.scratch, token=True)
            finally:
                if done is None or done.exit_code:  # the ranks of a killed launcher would continue
                    with contextlib.suppress(Unanswered):
                        leftover = query.end_steps(self.job, self.remote.step)
            if leftover:
                answers = self.remote.answers(agents.find_left_ranks, each=dict.fromkeys(watching, ()))
                ranks = [f"{rank} on {host}" for host, rs in answers.items() if isinstance(rs, list) for rank in rs]
                done = replace(done, left_behind=(*done.left_behind, *(ranks or ["ranks that Slurm cannot end"])))
            watched = self.remote.call(agents.end_watch, each=dict.fromkeys(watching, (done.silent_s,)))
            ranks_seen = {host: node.ranks for host, node in watched.items()}
            refusal = _NOT_STARTED.search(done.stderr.decode("utf-8", "replace")) if done.exit_code else None
            if not refusal or any(ranks_seen.values()):
                # sampling may miss the ranks of a short run on one node
                counted = all(ranks_seen.values()) or (any(ranks_seen.values()) and done.wall_s > _LONG_S)
                return replace(done, watched=watched, ran_on=ranks_seen if counted else None)
            if time.monotonic() > end:
                raise AllocationError(ExitCode.LOST, f"Slurm starts no ranks: {refusal[0]}")
            time.sleep(_RETRY_S)


def make_scratch(scratch: Path) -> None:
    """Create an empty scratch directory. Raises AllocationError."""
    try:
        with safe_paths.folder(scratch.parent) as results:
            with contextlib.suppress(OSError), results.folder(scratch.name) as place:
                if not place.names():
                    return
            remove_scratch(scratch)
            with results.folder(scratch.name, make=True):
                pass
    except OSError as error:
        message = f"the results' disk cannot be written to: {scratch}: {error.strerror}"
        raise AllocationError(ExitCode.STORE_FAILED, message, lasting=True) from None


def remove_scratch(scratch: Path) -> None:
    """Remove the scratch directory, or a link in its place, but not a file: it would not be ours. Raises OSError."""
    with safe_paths.folder(scratch.parent) as results:
        if results.obstacle(scratch.name) != "a file":
            results.remove_tree(scratch.name)


def merge(done: Mapping[str, Completed]) -> Completed:
    """Merge concurrent commands of several hosts into one, with the worst value of each field.

    Each line of stderr gets its host as a prefix; stdout is in the streams.
    """
    runs = list(done.values())
    failed = next((run for run in runs if run.exit_code), runs[0])
    return Completed(
        argv=failed.argv,
        exit_code=failed.exit_code,
        timed_out=any(run.timed_out for run in runs),
        flooded=any(run.flooded for run in runs),
        wall_s=max(run.wall_s for run in runs),
        left_behind=tuple(f"{process} on {host}" for host, run in done.items() for process in run.left_behind),
        argvs=tuple(run.argv for run in runs) if len(runs) > 1 else (),
        watched={host: node for run in runs for host, node in run.watched.items()},
        stderr=b"".join(
            f"{host}: ".encode() + line for host, run in done.items() for line in run.stderr.splitlines(keepends=True)
        ),
    )
