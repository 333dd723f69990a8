"""One repetition of a point: its steps one after the other, judged, stored whole, and tidied up after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import iosweep
from iosweep.causes import Cause, cause
from iosweep.node import node_facts, pinning
from iosweep.plan.forecast import METADATA_RATE, PREPARE_BANDWIDTH, fresh_bytes, step_cost
from iosweep.plan.launchers import subset
from iosweep.plan.model import Plan, Point, file_set, seed_of
from iosweep.programs import find as programs
from iosweep.results import verdict
from iosweep.results.checks.finding import Seen
from iosweep.results.store import Result, Store
from iosweep.run import target_check
from iosweep.run.campaign_directory import FRESH, Directory
from iosweep.run.datasets import FileSets
from iosweep.run.launching import Commands, Scratch
from iosweep.target.agent import Agent
from iosweep.tools import Parsed, Step, Streams, tools

#: Phases slower than this share of the forecast's rate count as hung.
SLOWEST = 1 / 200

#: Verdict and reasons.
Judged = tuple[verdict.Verdict, list[str]]


class StoreFailed(Exception):
    """The results' disk cannot be written to; the message is for the user."""


class Replaced(Exception):
    """A tool is another one than when the allocation began; the message is for the user."""


class LeftBehind(Exception):
    """Processes of a tool hang in the target and cannot be killed; the message is for the user."""


@dataclass
class Context:
    """What the repetitions of one allocation share."""

    plan: Plan
    store: Store
    agent: Agent
    directory: Directory
    sets: FileSets
    commands: Commands
    programs: Mapping[str, programs.Program]
    nodes: Mapping[str, node_facts.NodeFacts]  # host -> its facts; in the allocation's order, the first is where we are
    target: Mapping[str, Any]  # which file system it is
    exclusive: Callable[[], Mapping[str, Any]]  # enforced, evidence: whether others are kept off now
    pinning: pinning.Pinning
    build: str  # key of the build document of the programs (builds.py)
    written_bytes: int = 0  # by repetitions so far, data sets excluded
    in_flight_bytes: int = 0  # what the step in flight writes by the forecast; stays where it does not end
    before_again: Callable[[str], None] = lambda _: None  # raises where no time or bytes are left to try a point again


@dataclass
class _Try:
    """A repetition that has run, and is not stored yet. `fault`: what our own code raised when it judged."""

    record: dict[str, Any]
    raw: dict[str, bytes]
    judged: dict[str, Judged]
    hung: bool
    why: Cause | None
    fault: Exception | None = None

    @property
    def invalid(self) -> bool:
        return any(verdict == "invalid" for verdict, _ in self.judged.values())

    @property
    def server_failed(self) -> bool:
        """Whether it says nothing about the point, because a server of the target failed."""
        return bool(self.why and self.why.server and self.invalid and not self.hung and not self.fault)


def measure(c: Context, point: Point, number: int, retried: bool) -> tuple[Result, dict[str, Judged]]:
    """Run all phases of a point once and store them; returns the result and phase -> verdict, reasons.

    A failure of the target's server is tried again at once. Where the second try does not fail so, both are stored;
    where it does, neither is: each run would store one more failure, until no try is left.

    `retried`: the try before this one was disturbed. Raises Unfit and Refused where the target cannot be worked
    in any more, on this node or another (nothing is stored then: it says nothing about the point), Replaced,
    StoreFailed, LeftBehind, and what Agent.call raises.
    """
    tries = [_try(c, point, number, retried)]
    if tries[0].server_failed:
        c.before_again(point.id)
        c.directory.remove(f"{FRESH}/{point.id}-r{number}")
        tries.append(_try(c, point, number, retried))
        if tries[1].server_failed and tries[1].why:
            raise target_check.Unfit(
                f"two tries in a row failed, the last one of {point.id}, and a new file can be written and read:"
                f" {tries[1].why.text}; see whether all data servers of the target are up"
            )
    last = tries[-1]
    try:
        result = [c.store.commit(point.id, number, one.record, one.raw) for one in tries][-1]
    except OSError as error:
        raise StoreFailed(
            f"the result of {point.id} cannot be stored: {error.strerror or error}; what was stored"
            " before is on disk, and the next run goes on from there"
        ) from None
    if last.fault:
        raise last.fault
    if last.hung:
        raise LeftBehind(
            f"the target hangs: processes of {point.id} hang in it and cannot be killed (unless another user's)"
        )
    _tidy(c, point, result, last.invalid)
    return result, last.judged


def _try(c: Context, point: Point, number: int, retried: bool) -> _Try:
    """Run all phases of a point once, and judge them. Raises as `measure` does."""
    started = datetime.now(UTC)
    runs: list[dict[str, Any]] = []
    raw: dict[str, bytes] = {}
    judged: dict[str, Judged] = {}
    hosts = subset(tuple(c.nodes), point.nodes, number)
    memory = {host: c.nodes[host].memory_bytes for host in hosts}
    retry: str | None = None
    fault: Exception | None = None
    program = c.programs[point.tool]
    tool = tools()[point.tool]
    for step in point.steps():
        run, output = _step(c, point, step, number, hosts)
        raw |= {f"{step.name}.{stream}": data for stream, data in output.items()}
        written: list[float | None] = []
        for phase in step.phases:
            try:
                parsed = tool.parse(output, step, phase) if output else Parsed()
                seen = Seen(point, phase, run, parsed, c.plan.target, memory, c.target["fstype"], c.target["mount"])
                findings = verdict.judge(seen)
            except (
                Exception
            ) as error:  # a fault of ours: what was measured is stored all the same, and merge judges anew
                parsed, findings, fault = Parsed(), [], error
            written += [parsed.figures.get("bytes_written")] if phase.writes else []
            judged[phase.name] = verdict.verdict(findings)
            retry = retry or verdict.retry(findings)
            headline = parsed.figures.get(phase.metric) if judged[phase.name][0] != "invalid" else None
            said, reasons = judged[phase.name]  # for who looks on meanwhile; merge judges anew
            runs.append({"phase": phase.name} | run | {"headline": headline, "verdict": said, "reasons": reasons})
        c.written_bytes, c.in_flight_bytes = c.written_bytes + _written(c, point, step, run, written), 0
        if run.get("left_behind"):  # whatever comes next would hang as well
            break
    hung = any(run.get("left_behind") for run in runs)
    why = _why(runs)
    if not hung and any(verdict == "invalid" for verdict, _ in judged.values()):
        # no result: after an unmount everything that is left would fail in no time, and count as done
        target_check.look(c.directory, c.commands.remote, data=not (why and why.full))
    if program.replaced():
        raise Replaced(
            f"{program.path} was replaced while it was measured; the next run measures with what is there now"
        )
    record = {
        "iosweep": iosweep.__version__,
        "point": point.id,
        "repetition": number,
        "campaign": c.plan.campaign,
        "started": started.isoformat(),
        "ended": datetime.now(UTC).isoformat(),
        "host": hosts[0],
        "node": node_facts.key(c.nodes[hosts[0]]),
        "hosts": hosts,
        "nodes": {host: node_facts.key(c.nodes[host]) for host in hosts},
        "launcher": {"name": c.commands.launcher.name, **(asdict(hydra) if (hydra := c.commands.mpiexec) else {})},
        "slurm": _job(c),
        "bound": pinning.bound(c.plan.cpus, c.commands.launcher.allocated, tool.mpi),
        "build": c.build,
        "tool": {"path": program.path, "sha256": program.sha256, "version": program.version},
        "target": {**c.target, **c.directory.recorded()},
        "environment": node_facts.environment(),
        "phases": runs,
        "retry": retry,
        "retried": retried,
    }
    return _Try(record, raw, judged, hung, why, fault)


def _why(runs: Sequence[Mapping[str, Any]]) -> Cause | None:
    """The cause that the phases of a repetition that are invalid give. Pure."""
    bad = [run for run in runs if run["verdict"] == "invalid"]
    return cause("\n".join(text for run in bad for text in (run.get("not_run", ""), run["stderr"], *run["reasons"])))


def _written(c: Context, point: Point, step: Step, run: Mapping[str, Any], figures: Sequence[float | None]) -> int:
    """Bytes that a step has written to the target: what the tool reports, or else the forecast."""
    if run.get("not_run"):
        return 0
    reported = [figure for figure in figures if figure is not None]
    if reported and len(reported) == len(figures):
        return int(sum(reported))
    return step_cost(point, step, c.plan.target["node_bandwidth"]).bytes_written


def _tidy(c: Context, point: Point, result: Result, failed: bool) -> None:
    """What becomes of the new files of a repetition."""
    below, keep = f"{FRESH}/{point.id}-r{result.repetition}", c.plan.target["keep"]
    # of a second try nothing is kept: the forecast of space counts each repetition once
    if (keep == "all" or (keep == "failed" and failed)) and not result.retried:
        c.directory.keep(below, f"{point.id}-r{result.repetition:03d}-{result.attempt}")
    else:
        c.directory.remove(below)


def _step(c: Context, point: Point, step: Step, number: int, hosts: Sequence[str]) -> tuple[dict[str, Any], Streams]:
    """Run one step; returns its entry in the record, and its streams."""
    tool = tools()[point.tool]
    files = file_set(point, step, number)
    shares = files.shares(len(hosts))
    commands = tool_commands(c.plan, point, step, number, c.directory.path)
    binding = c.commands.binding(tool, step.tasks, hosts)
    # of what is not run, the command that would have been; else what was executed replaces it
    planned = [c.commands.argv(tool, command, step.tasks, hosts, binding) for command in commands]
    run: dict[str, Any] = {
        **_argvs(planned),
        "started": datetime.now(UTC).isoformat(),
        "exit_code": 0,
        "timed_out": False,
        "wall_s": 0.0,
        "stderr": "",
        "exclusive": c.exclusive(),
    }
    try:
        c.directory.may_write(fresh_bytes(point, [step]) if files.role == "fresh" else 0, tool.inodes(step))
        if files.role == "fresh":
            c.directory.ensure(files.directory, empty=step.phase.writes and tool.inodes(step) > 0)
            for share in shares[len(shares) == 1 :]:
                c.directory.ensure(share.directory, empty=False)
            run["files"] = {"role": "fresh"}
        else:
            run["files"] = c.sets.ready(files, point.tool, hosts)
            if run["files"]["wrong"]:
                return run | {"not_run": "not run: " + "; ".join(run["files"]["wrong"])}, {}
        run["settled_s"] = c.directory.settle()
        target_check.before_tools(c.directory, c.commands.remote, hosts)
        run["started"] = datetime.now(UTC).isoformat()
        grace_s = c.plan.limits["grace"]
        c.in_flight_bytes = step_cost(point, step, c.plan.target["node_bandwidth"]).bytes_written
        timeout_s = _timeout(step, tool.work(step), point, grace_s)
        if tool.client_server and tool.client_server.asked_for(step):
            done, streams = c.commands.serve(
                tool, step, places(c.plan, point, step, number, c.directory.path), timeout_s, hosts
            )
        else:
            done, streams = c.commands.run(tool, commands, step.tasks, timeout_s, hosts, step)
    except Scratch as error:
        raise StoreFailed(f"the results' disk cannot be written to: {error.strerror}") from None
    except OSError as error:  # of the target, or a command could not be started
        return run | {"not_run": f"not run: {error.strerror or error}"}, {}
    run.pop("argvs", None)
    run |= {
        **_argvs(done.argvs or [done.argv]),
        "exit_code": done.exit_code,
        "timed_out": done.timed_out,
        "flooded": done.flooded,
        "wall_s": round(done.wall_s, 4),
        "load": done.load,
        "stderr": done.stderr.decode("utf-8", "replace")[:2000],
        "left_behind": done.left_behind,
        "ran_on": done.ran_on,
        "exclusive": c.exclusive(),
        "cpus": c.pinning.record(binding, done.cpus, tool.mpi),
    }
    if any(phase.name.endswith("delete") for phase in step.phases):
        c.directory.deleted()
    expected = tool.leftover(step)
    if expected is not None and not done.left_behind:
        run |= {
            "leftover_expected": expected,
            "leftover": c.agent.call("count", c.directory.place, files.directory),
        }
    return run, streams


def _argvs(argvs: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The commands of a step as the record has them: the first, and all of them where there are several."""
    every = [list(argv) for argv in argvs]
    return {"argv": every[0], **({"argvs": every} if len(every) > 1 else {})}


def _job(c: Context) -> dict[str, Any] | None:
    """The Slurm job that we are in, for the record."""
    if c.commands.job is None:
        return None
    return {"job": c.commands.job, "launcher": c.commands.launcher.name, "allocation_hosts": tuple(c.nodes)}


def tool_commands(plan: Plan, point: Point, step: Step, repetition: int, directory: str) -> list[list[str]]:
    """A step's commands without their launcher: one, or one for each node where the tool knows nothing of others.

    `directory`: the campaign's on the target. Pure.
    """
    tool = tools()[point.tool]
    return [tool.argv(step, path, seed) for path, seed in places(plan, point, step, repetition, directory)]


def places(plan: Plan, point: Point, step: Step, repetition: int, directory: str) -> list[tuple[str, int]]:
    """Absolute directory and seed of each command of a step: another pattern on each node. Pure."""
    files = file_set(point, step, repetition)
    shares = [files] if tools()[point.tool].mpi else files.shares(point.nodes)
    return [
        (
            str(Path(directory) / share.directory),
            seed_of(plan.seed, point.id, repetition, step.name + (f"@{k}" if k else "")),
        )
        for k, share in enumerate(shares)
    ]


def _timeout(step: Step, work: int, point: Point, grace_s: float) -> float:
    """Seconds after which a step counts as hung."""
    if step.time_s is not None:
        return grace_s + 1.5 * step.time_s
    return (
        grace_s + work / (METADATA_RATE * SLOWEST) + (0 if work else point.volume_bytes / (PREPARE_BANDWIDTH * SLOWEST))
    )
