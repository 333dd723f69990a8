"""One allocation: every repetition of every point that is left, one after the other, each stored when it is whole."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import iosweep
from iosweep import forecast, manifest, node, process, programs, progress, target, verdict
from iosweep.agent import LONG_DEADLINE_S, Agent, TargetError, TargetHangs
from iosweep.checks import Seen
from iosweep.command import Commands, Scratch, needs_mpiexec
from iosweep.filesets import FileSets
from iosweep.forecast import METADATA_RATE, PREPARE_BANDWIDTH, fresh_bytes, repetition_cost
from iosweep.launch import Launcher, Mpiexec, candidates
from iosweep.plan import Allocation, Plan, Point, file_set
from iosweep.store import Held, Result, Store
from iosweep.tools import Parsed, Step, Streams, tools
from iosweep.units import human_count

#: Exit codes of `iosweep measure`. 0: every repetition has an outcome, failures included.
REFUSED, HANGS, STORE_FAILED, INTERRUPTED = 3, 4, 5, 130

#: Below the results: where tools are started.
SCRATCH = "scratch"
#: A tool may take so much longer than its phase before it is killed: start-up, flush, a slow end.
GRACE_S = 60.0
#: Phases slower than this share of the forecast's rate count as hung.
SLOWEST = 1 / 200


#: Ctrl-C, a scheduler, a terminal that is closed.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


#: Verdict and reasons.
Judged = tuple[verdict.Verdict, list[str]]


class Stopped(BaseException):
    """A signal asked us to stop. BaseException, so that nothing on the way takes it for a failure."""


class Refusal(Exception):
    """The allocation cannot go on; `code` is the exit code."""

    def __init__(self, code: int, message: str):
        self.code = code
        super().__init__(message)


class Watcher(Protocol):
    """Who is told what happens (display.py)."""

    def begin(self, allocation: Allocation, repetitions: int, cost_s: float) -> None: ...
    def say(self, text: str) -> None: ...
    def finished(self, result: Result, judged: Mapping[str, Judged], cost_s: float) -> None: ...
    def more(self, repetitions: int, cost_s: float) -> None: ...


@dataclass
class _Context:
    """What the phases of one allocation share."""

    plan: Plan
    store: Store
    agent: Agent
    sets: FileSets
    directory: str
    uuid: str
    target: dict[str, Any]
    programs: dict[str, programs.Program]
    node: dict[str, Any]
    commands: Commands


def measure(
    plan: Plan,
    name: str,
    results: Path,
    manifest_file: Path,
    launcher: Launcher,
    watcher: Watcher,
    only: str | None,
) -> None:
    """Measure what is left of an allocation, then write its manifest.

    Raises Refusal where it cannot go on, Stopped after a signal; what was measured until then is stored.
    """
    allocation = next(a for a in plan.allocations if a.name == name)
    store = Store(results)
    process.adopt_orphans()
    # Tools are started elsewhere: a relative directory on PATH would be another one there.
    os.environ["PATH"] = os.pathsep.join(str(Path(directory).absolute()) for directory in os.get_exec_path())
    with _signals(), Agent() as agent:
        try:
            with store.locked():
                try:
                    _measure(plan, allocation, store, agent, launcher, watcher, only)
                finally:
                    shutil.rmtree(store.path / SCRATCH, ignore_errors=True)
        except Held as error:
            busy = f"campaign {plan.campaign} is being measured by {error}; wait for it or stop it"
            raise Refusal(REFUSED, busy) from None
        except TargetHangs as error:
            raise Refusal(HANGS, str(error)) from None
        except (target.Refused, TargetError) as error:
            raise Refusal(REFUSED, str(error)) from None
    store.set_refusal(allocation.name, None)
    manifest.write(manifest_file, allocation, store)


def _measure(
    plan: Plan,
    allocation: Allocation,
    store: Store,
    agent: Agent,
    launcher: Launcher,
    watcher: Watcher,
    only: str | None,
) -> None:
    found, hydra = _programs(allocation, store, launcher, watcher)
    points = {p.id: p for p in allocation.points}
    here = progress.Here({t: p.sha256 for t, p in found.items()}, launcher, mpiexec=candidates())
    done = store.results()

    def left() -> dict[str, list[int]]:
        return progress.left(plan, done, store.missing(), here, only).get(allocation.name, {})

    def disturbed(point: str, number: int) -> bool:
        """Whether there is a result, but another try may cure it. (One of another tool build does not matter.)"""
        result = done.get(point, {}).get(number)
        return bool(result and result.retry and progress.current(result, plan, points[point], here))

    if not left():  # the manifest of what is measured already needs no target
        return
    facts = agent.call("identify", plan.target["directory"])
    mount = {k: facts[k] for k in ("source", "fstype", "fsid")}
    # not the fsid: of NFS, and of XFS on a device mapper, it may be another after each mount
    here = replace(here, target={k: facts[k] for k in ("source", "fstype")})
    if facts["device"] == results_device(store.path):
        watcher.say("note: the results are on the file system under test")
    todo = left()
    commands = Commands(agent, launcher, store.path / SCRATCH, hydra)
    cost = {p.id: repetition_cost(p, plan.target["node_bandwidth"]).time_s for p in points.values()}
    watcher.begin(allocation, sum(map(len, todo.values())), sum(cost[p] * len(n) for p, n in todo.items()))
    directory = target.directory_of(plan.target["directory"], plan.campaign)
    for tool in {points[p].tool for p in todo}:  # again: a relative one is another directory elsewhere
        if wrong := tools()[tool].check_directory(directory):
            raise Refusal(REFUSED, f"{tool} cannot work in {directory}: it {wrong}")
    uuid = _claim(plan, store, agent, directory, allocation, todo)
    memory = node.facts(facts)
    store.put("nodes", node.key(memory), memory)
    wanted = [points[p] for p in todo]
    context = _Context(
        plan,
        store,
        agent,
        FileSets(agent, directory, store, wanted, commands.run),
        directory,
        uuid,
        mount | {"directory": plan.target["directory"]},
        found,
        memory,
        commands,
    )
    while todo:
        # repetitions outermost, so that a drift of the system spreads over all points
        number = min(n[0] for n in todo.values())
        order = sorted(p for p, n in todo.items() if n[0] == number)
        random.Random(f"{plan.seed}:{number}").shuffle(order)
        for point in order:
            result, judged = _repetition(context, points[point], number, disturbed(point, number))
            done[point] = store.results_of(point)  # a second try does not always count
            watcher.finished(result, judged, cost[point])
        expected, todo = todo, left()
        news = {p: len(n) - len(expected.get(p, [])) + (p in order) for p, n in todo.items()}
        if again := sum(disturbed(p, n[0]) for p, n in todo.items()):
            watcher.say(f"{human_count(again, 'repetition')} disturbed, tried again")
        watcher.more(sum(news.values()), sum(cost[p] * n for p, n in news.items()))


def results_device(results: Path) -> int:
    """Device that the results are, or will be, on."""
    return next(p for p in (results.absolute(), *results.absolute().parents) if p.exists()).stat().st_dev


def _programs(
    allocation: Allocation, store: Store, launcher: Launcher, watcher: Watcher
) -> tuple[dict[str, programs.Program], Mpiexec | None]:
    """The tools that are here, and what starts their ranks. Points that lack something are recorded as missing."""
    asked = {name: programs.find(tools()[name]) for name in sorted({p.tool for p in allocation.points})}
    found = {name: program for name, program in asked.items() if not isinstance(program, str)}
    hydra = needs_mpiexec(launcher, [tools()[name] for name in found])
    said: dict[str, None] = {}
    for point in allocation.points:
        program, reason = asked[point.tool], ""
        needs: dict[str, Any] | None = None
        if lacks := launcher.lacks(point):
            needs, reason = lacks
        elif isinstance(program, str):
            needs, reason = {"tool": point.tool, "sha256": programs.sha256(point.tool)}, program
        elif isinstance(hydra, str) and tools()[point.tool].mpi:
            needs, reason = {"mpiexec": candidates()}, f"the launcher {launcher.name} cannot be used: {hydra}"
        store.set_missing(point.id, needs, reason)
        if needs:
            said[reason] = None
    for reason in said:
        watcher.say(f"missing: {reason}")
    return found, None if isinstance(hydra, str) else hydra


def _claim(
    plan: Plan,
    store: Store,
    agent: Agent,
    directory: str,
    allocation: Allocation,
    todo: Mapping[str, list[int]],
) -> str:
    """Make the campaign's directory ours, and refuse what cannot fit before the first byte. Returns its UUID."""
    if Path(directory) in [store.path.absolute(), *store.path.absolute().parents]:
        raise Refusal(REFUSED, f"the results {store.path} are inside the campaign's directory {directory}")
    mine = store.documents("").get("target", {})
    owner = {
        "uuid": mine.get("uuid"),
        "uid": os.getuid(),
        "host": socket.gethostname(),
        "results": str(store.path.absolute()),
        "campaign": plan.campaign,
    }
    cost = forecast.of(plan, {allocation.name: {point: len(n) for point, n in todo.items()}})
    parent = plan.target["directory"]
    present = agent.call("usage", directory, deadline_s=LONG_DEADLINE_S)["bytes"] if mine else 0
    wrong = target.too_much(
        agent.call("space", parent), present, cost.peak_bytes, cost.inodes, dict(plan.limits), first=True
    )
    if wrong:
        raise Refusal(REFUSED, f"refused, nothing was written to {parent}: {wrong}")
    uuid = agent.call("claim", directory, owner)
    store.put("", "target", {"uuid": uuid, "directory": directory})
    agent.call("remove", directory, "fresh", deadline_s=LONG_DEADLINE_S)  # what an interrupted repetition left
    return str(uuid)


def _repetition(c: _Context, point: Point, number: int, retried: bool) -> tuple[Result, dict[str, Judged]]:
    """Run all phases of a point once and store them; returns the result and phase -> verdict, reasons.

    `retried`: the try before this one was disturbed.
    """
    started = datetime.now(UTC)
    runs: list[dict[str, Any]] = []
    raw: dict[str, bytes] = {}
    judged: dict[str, Judged] = {}
    retry: str | None = None
    fault: Exception | None = None
    program = c.programs[point.tool]
    tool = tools()[point.tool]
    for step in point.steps():
        run, output = _step(c, point, step, number)
        raw |= {f"{step.name}.{stream}": data for stream, data in output.items()}
        for phase in step.phases:
            try:
                parsed = tool.parse(output, step, phase) if output else Parsed()
                findings = verdict.judge(Seen(point, phase, run, parsed, c.plan.target, c.node["memory_bytes"]))
            except (
                Exception
            ) as error:  # a fault of ours: what was measured is stored all the same, and merge judges anew
                parsed, findings, fault = Parsed(), [], error
            judged[phase.name] = verdict.verdict(findings)
            retry = retry or verdict.retry(findings)
            headline = parsed.figures.get(phase.metric) if judged[phase.name][0] != "invalid" else None
            runs.append({"phase": phase.name} | run | {"headline": headline})
    failed = any(run.get("not_run") or run["exit_code"] for run in runs)
    if failed and not c.agent.call("ours", c.directory, c.uuid):
        # no result: after an unmount everything that is left would fail in no time, and count as done
        raise target.Refused(f"the target went away: {c.directory} is no longer there; is it still mounted?")
    record = {
        "iosweep": iosweep.__version__,
        "point": point.id,
        "repetition": number,
        "campaign": c.plan.campaign,
        "started": started.isoformat(),
        "ended": datetime.now(UTC).isoformat(),
        "host": c.node["host"],
        "node": node.key(c.node),
        "launcher": {"name": c.commands.launcher.name, **(asdict(hydra) if (hydra := c.commands.mpiexec) else {})},
        "tool": {"path": program.path, "sha256": program.sha256, "version": program.version},
        "target": c.target,
        "environment": node.environment(),
        "phases": runs,
        "retry": retry,
        "retried": retried,
    }
    try:
        result = c.store.commit(point.id, number, record, raw)
    except OSError as error:
        raise Refusal(
            STORE_FAILED,
            f"the result of {point.id} cannot be stored: {error}; what was stored"
            " before is on disk, and the next run goes on from there",
        ) from None
    if fault:
        raise fault
    if any(run.get("left_behind") for run in runs):
        raise Refusal(HANGS, f"a process of {point.id} could not be killed: it hangs in the target")
    c.agent.call("remove", c.directory, f"fresh/{point.id}-r{number}", deadline_s=LONG_DEADLINE_S)
    return result, judged


def _step(c: _Context, point: Point, step: Step, number: int) -> tuple[dict[str, Any], Streams]:
    """Run one step; returns its entry in the record, and its streams."""
    tool = tools()[point.tool]
    files = file_set(point, step, number)
    path = str(Path(c.directory) / files.directory)
    seed = seed_of(c.plan.seed, point.id, number, step.name)
    command = tool.argv(step, path, seed)
    run: dict[str, Any] = {
        "argv": c.commands.argv(tool, command, step.tasks),
        "seed": seed,
        "started": datetime.now(UTC).isoformat(),
        "exit_code": 0,
        "timed_out": False,
        "wall_s": 0.0,
        "stderr": "",
    }
    try:
        _may_write(c, fresh_bytes(point, [step]) if files.role == "fresh" else 0, tool.inodes(step))
        if files.role == "fresh":
            makes = step.phase.writes and tool.inodes(step) > 0
            c.agent.call("ensure", c.directory, files.directory, makes, deadline_s=LONG_DEADLINE_S)
            run["files"] = {"role": "fresh"}
        else:
            run["files"] = c.sets.ready(files, point.tool, lambda size: _may_write(c, size, 0))
            if run["files"]["wrong"]:
                return run | {"not_run": "not run: " + "; ".join(run["files"]["wrong"])}, {}
    except Scratch as error:
        raise _no_scratch(error) from None
    except OSError as error:  # of the target, or the command that prepares files could not be started
        return run | {"not_run": f"not run: {error}"}, {}
    run["started"] = datetime.now(UTC).isoformat()
    try:
        done, streams = c.commands.run(tool, command, step.tasks, _timeout(step, tool.work(step), point))
    except Scratch as error:
        raise _no_scratch(error) from None
    except OSError as error:
        return run | {"not_run": f"could not be started: {error}"}, {}
    run |= {
        "exit_code": done.exit_code,
        "timed_out": done.timed_out,
        "wall_s": round(done.wall_s, 4),
        "load": done.load,
        "stderr": done.stderr.decode("utf-8", "replace")[:2000],
        "left_behind": done.left_behind,
    }
    expected = tool.leftover(step)
    if expected is not None:
        run |= {
            "leftover_expected": expected,
            "leftover": c.agent.call("count", c.directory, files.directory, deadline_s=LONG_DEADLINE_S),
        }
    return run, streams


def _no_scratch(error: Scratch) -> Refusal:
    return Refusal(STORE_FAILED, f"the results' disk cannot be written to: {error}")


def _timeout(step: Step, work: int, point: Point) -> float:
    """Seconds after which a step counts as hung."""
    if step.time_s is not None:
        return GRACE_S + 1.5 * step.time_s
    return (
        GRACE_S + work / (METADATA_RATE * SLOWEST) + (0 if work else point.volume_bytes / (PREPARE_BANDWIDTH * SLOWEST))
    )


def _may_write(c: _Context, size: int, inodes: int) -> None:
    """Raise target.Refused if so much more must not be written now: that ends the allocation, and is not a result."""
    now = c.agent.call("space", c.directory)
    if wrong := target.too_much(now, 0, size, inodes, dict(c.plan.limits), first=False):
        raise target.Refused(wrong)


def seed_of(seed: int, point: str, repetition: int, phase: str) -> int:
    """The tool's seed: another pattern for every repetition, the same one when the campaign is run again."""
    digest = hashlib.sha256(f"{seed}:{point}:{repetition}:{phase}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@contextmanager
def _signals() -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into Stopped, and ignore what follows while we end in good order."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in _STOPPING:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(signal.Signals(number).name)

    # what is ignored stays ignored (nohup)
    before = {each: signal.signal(each, stop) for each in _STOPPING if signal.getsignal(each) != signal.SIG_IGN}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
