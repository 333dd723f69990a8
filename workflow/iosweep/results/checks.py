"""The validity checks: what a run showed -> pass, fail, not checked or not applicable, each with its evidence.

Pure. A check passes only with evidence: `passed` takes what was seen. A fail makes the row invalid (its figure is
wrong) or suspect (it may be). "Not checked" says why and never makes a row suspect.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, NamedTuple

from iosweep.causes import Cause, cause
from iosweep.node import fs_types
from iosweep.node.process import MOST_BYTES
from iosweep.plan.model import Point
from iosweep.results.columns import REASONS
from iosweep.text import human_count, printable, shortened
from iosweep.tools import CLOCK_S, LEAST_RUNTIME_S, LEAST_TICKS, Parsed, Phase, tools
from iosweep.units import human_duration, human_size

Outcome = Literal["pass", "fail", "not checked", "not applicable"]
Severity = Literal["invalid", "suspect"]


@dataclass(frozen=True)
class Seen:
    """What a check may look at.

    run: the phase's entry in the stored result (exit code, files, load ...); parsed: what the tool's output says;
    target: the plan's target; memory_bytes: of each node that measured by its name, None if it is not known; fstype:
    the target's type of file system; mount: its mount line.
    """

    point: Point
    phase: Phase
    run: Mapping[str, Any]
    parsed: Parsed
    target: Mapping[str, Any]
    memory_bytes: Mapping[str, int | None]
    fstype: str | None = None
    mount: str | None = None


class Finding(NamedTuple):
    """Outcome of a check on one row, with what was seen or why it could not be looked at."""

    outcome: Outcome
    evidence: str
    curable: bool = False  # another try may help


@dataclass(frozen=True)
class Check:
    """A named check; `doc` is its line in docs/verdicts.md."""

    name: str
    severity: Severity
    doc: str
    look: Callable[[Seen], Finding]


#: Characters of a reason: what a tool prints, and it may cite, may have no end.
REASON_LENGTH = 500


def passed(evidence: str) -> Finding:
    """A pass; there is none without evidence."""
    if not evidence:
        raise ValueError("a check cannot pass without evidence")
    return Finding("pass", evidence)


def failed(reason: str, curable: bool = False) -> Finding:
    """A fail and its reason."""
    return Finding("fail", printable(shortened(reason, REASON_LENGTH)), curable)


def unchecked(reason: str) -> Finding:
    """Could not be looked at."""
    return Finding("not checked", reason)


NOT_APPLICABLE = Finding("not applicable", "")

CHECKS: list[Check] = []

#: Share of a node's CPU time that others may use while a phase runs.
OTHER_LOAD = 0.25
#: The tool must run for at least, and at most, so much of the time asked for (fio, 60 s: 0.98 to 1.05).
SHORTEST, LONGEST, SLACK_S = 0.98, 1.05, 0.1
#: Signals that others send; those of a crash come again.
FROM_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
#: So much may the nodes' own rates add up to above the rate of all.
WINDOW = 0.02


def check(severity: Severity, doc: str) -> Callable[[Callable[[Seen], Finding]], Callable[[Seen], Finding]]:
    """Register a check under its function's name."""

    def register(look: Callable[[Seen], Finding]) -> Callable[[Seen], Finding]:
        CHECKS.append(Check(look.__name__, severity, doc, look))
        return look

    return register


#: Nodes whose evidence is shown.
SHOWN_NODES = 4
_WORST_FIRST: tuple[Outcome, ...] = ("fail", "not checked", "pass", "not applicable")


def per_node(look: Callable[[Seen], Finding]) -> Callable[[Seen], Finding]:
    """Of a tool that was started once on each of several nodes: every node must pass on its own."""

    @wraps(look)
    def each(s: Seen) -> Finding:
        nodes: Mapping[str, Parsed] = s.parsed.evidence.get("each_node") or {}
        if not nodes:
            return look(s)
        alone = replace(s.point, nodes=1)
        found = {host: look(replace(s, point=alone, parsed=parsed)) for host, parsed in nodes.items()}
        worst: Outcome = min((f.outcome for f in found.values()), key=_WORST_FIRST.index)
        if worst == "not applicable":
            return NOT_APPLICABLE
        same = {host: f for host, f in found.items() if f.outcome == worst}
        told = [f"{host}: {f.evidence}" for host, f in list(same.items())[:SHOWN_NODES]]
        more = f"; and {len(same) - SHOWN_NODES} more nodes" if len(same) > SHOWN_NODES else ""
        return Finding(worst, "; ".join(told) + more, any(f.curable for f in same.values()))

    return each


@check("invalid", "The tool ended by itself with exit code 0, within its time.")
def exit_status(s: Seen) -> Finding:
    run = s.run
    if run.get("left_behind"):
        return failed(f"the target hangs: processes of the tool could not be killed ({run['left_behind']} left)", True)
    if run.get("not_run"):
        why = cause(run["not_run"])
        return failed(_because(why) + run["not_run"], curable=why is None or why.curable)
    if run.get("flooded"):
        return failed(f"the tool was killed: it printed more than {human_size(MOST_BYTES)}")
    if run["timed_out"]:
        return failed(f"the tool was killed after {human_duration(run['wall_s'])}: it did not end by itself", True)
    if run["exit_code"] < 0:
        killed = -run["exit_code"]
        return failed(f"the tool was killed by signal {killed}", curable=killed in FROM_OUTSIDE)
    if run["exit_code"]:
        told = [run["stderr"], *s.parsed.evidence.get("errors", ()), *s.parsed.evidence.get("messages", ())]
        why = cause("\n".join([*told, *s.parsed.problems]))
        return failed(
            f"{_because(why)}the tool ended with exit code {run['exit_code']}{_first(run['stderr'])}",
            curable=bool(why and why.curable),
        )
    return passed(f"exit code 0 after {run['wall_s']:.2f} s")


def _because(why: Cause | None) -> str:
    return f"{why.text}: " if why else ""


@check("invalid", "The tool's output is complete and can be read.")
def output(s: Seen) -> Finding:
    if s.run.get("not_run"):
        return NOT_APPLICABLE
    if s.parsed.problems:
        return failed("; ".join(s.parsed.problems))
    if not s.parsed.evidence:
        return failed("no output is stored")
    return passed(f"one document of {printable((s.parsed.version or s.point.tool)[:REASON_LENGTH])}")


@check("invalid", "The tool reports no error: none of its own, no short and no dropped I/O, no rank that failed.")
def tool_errors(s: Seen) -> Finding:
    errors = s.parsed.evidence.get("errors")
    if errors is None:
        return unchecked("no output to look at")
    if errors:
        return failed("the tool reports " + "; ".join(errors).replace(REASONS, " / "))
    return passed("the tool reports no error")


@check("suspect", "No line that the tool printed puts its figures in doubt (IOR and mdtest: partial reads, warnings).")
def tool_doubts(s: Seen) -> Finding:
    doubts = s.parsed.evidence.get("doubts")
    if doubts is None:
        return NOT_APPLICABLE
    if doubts:
        return failed("; ".join(doubts).replace(REASONS, " / "))
    return passed("no line puts the figures in doubt")


@check("invalid", "I/O went in the directions that the phase asks for, and no other.")
@per_node
def direction(s: Seen) -> Finding:
    seen = s.parsed.evidence
    if s.phase.kind == "metadata" and seen and "silent_directions" not in seen:
        return NOT_APPLICABLE
    if "silent_directions" not in seen:
        return unchecked("no output to look at")
    if seen["silent_directions"]:
        return failed(f"no {' and no '.join(seen['silent_directions'])} was done")
    if seen["unasked_directions"]:
        return failed(f"a {' and a '.join(seen['unasked_directions'])} was done that the phase does not ask for")
    return passed(f"{s.parsed.figures['ops']:,} operations")


@check("invalid", "The tool's figures agree with each other: bytes = rate x time = operations x transfer size.")
@per_node
def arithmetic(s: Seen) -> Finding:
    seen, figures = s.parsed.evidence, s.parsed.figures
    if s.phase.kind == "metadata" and figures:
        if "transferred_bytes" not in seen:
            return unchecked(f"{s.point.tool} prints rates, and no times")
        rate = figures["ops"] / figures["runtime_s"] if figures["runtime_s"] else 0.0
        if abs(rate - figures["ops_per_s"]) > 0.02 * rate:
            return failed(
                f"{figures['ops']:,} operations in {figures['runtime_s']:.3f} s are not {figures['ops_per_s']:,.0f}/s"
            )
        return passed("operations = rate x time")
    if "transferred_bytes" not in seen:
        return unchecked("no output to look at")
    moved = seen["transferred_bytes"]
    by_rate, by_ops = (
        seen["rate_times_runtime_bytes"],
        figures["ops"] * int(s.point.options["transfer_size"] or 0),
    )
    # the times have the resolution of the tool's clock
    slack = 0.01 + 2 * seen.get("clock_s", CLOCK_S) / max(figures["runtime_s"], 0.001)
    if abs(by_rate - moved) > slack * moved or abs(by_ops - moved) > slack * moved:
        return failed(f"{moved:,} bytes moved, but rate x time is {by_rate:,.0f} and operations x size {by_ops:,}")
    return passed("bytes = rate x time = operations x transfer size")


@check("invalid", "As many ranks and nodes took part as were asked for; every worker ran for the whole time.")
@per_node
def workers(s: Seen) -> Finding:
    seen = s.parsed.evidence
    threads = int(s.point.options["threads_per_node"] or 1)
    if "tasks" in seen:
        ranks, nodes, wanted = seen["tasks"], seen.get("nodes") or s.point.nodes, threads * s.point.nodes
        if ranks is None:
            return unchecked("the tool does not say")
        if ranks != wanted:
            another = "was it built with another MPI than its launcher?"
            return failed(f"the tool ran with {human_count(ranks, 'rank')}, {wanted} were asked for: {another}")
        if nodes != s.point.nodes:
            return failed(f"the tool ran on {human_count(nodes, 'node')}, {s.point.nodes} were asked for")
        ran_on = s.run.get("ran_on") or {}
        if odd := {host: ranks for host, ranks in ran_on.items() if ranks > threads or (not ranks and threads)}:
            told = ", ".join(f"{ranks} on {host}" for host, ranks in sorted(odd.items()))
            return failed(f"{human_count(threads, 'rank')} were asked for on each node, and {told} were seen")
        return passed(f"{human_count(ranks, 'rank')} on {human_count(nodes, 'node')}, as asked")
    if s.phase.kind == "metadata" or s.point.phase_time_s is None:
        return NOT_APPLICABLE
    ran = seen.get("worker_seconds")
    if not ran:
        return unchecked("the tool does not say")
    asked = threads * s.point.nodes * s.point.phase_time_s
    if ran < SHORTEST * asked:
        return failed(
            f"the workers ran for {ran:.1f} s in all, {asked:.1f} s were asked for: fewer ran, or not to the end"
        )
    return passed(f"{ran:.1f} worker seconds of {asked:.1f}")


@check("invalid", "A phase that is bounded by a volume moved all of it, once.")
@per_node
def volume(s: Seen) -> Finding:
    if s.phase.kind == "metadata" or s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    moved = s.parsed.evidence.get("transferred_bytes")
    if moved is None:
        return unchecked("no output to look at")
    o = s.point.options
    asked = (
        int(o["threads_per_node"] or 1) * s.point.nodes * int(o.get("files_per_thread") or 1) * int(o["file_size"] or 0)
    )
    if moved != asked:
        return failed(f"{moved:,} bytes were moved, not {asked:,}")
    return passed(f"{human_size(moved)} moved")


@check(
    "invalid",
    "A timed phase ran as long as asked; one bounded by a count or a volume ran long enough for the tool's clock.",
)
@per_node
def duration(s: Seen) -> Finding:
    runtime = s.parsed.figures.get("runtime_s")
    if runtime is None:
        return unchecked("no output to look at")
    clock_s = s.parsed.evidence.get("clock_s", CLOCK_S)
    clock = "ms" if clock_s == CLOCK_S else f"{clock_s * 1000:g} ms"
    too_short = f"over after {runtime * 1000:.3g} ms; the tool counts in {clock}"
    if s.point.phase_time_s is None:
        if runtime < LEAST_TICKS * clock_s:
            return failed(f"{too_short}: raise {'files_per_thread' if s.phase.kind == 'metadata' else 'file_size'}")
        return passed(f"{runtime:.3f} s")
    asked = s.point.phase_time_s
    if runtime < SHORTEST * asked:
        return failed(f"ran for {runtime:.2f} s of {asked:.2f} s")
    if runtime < LEAST_TICKS * clock_s:
        return failed(f"{too_short}: raise phase_time")
    return passed(f"{runtime:.2f} s of {asked:.2f} s")


@check("suspect", "A phase that a count or a volume bounds was more than ticks and barriers: it took 20 ms or more.")
@per_node
def long_enough(s: Seen) -> Finding:
    runtime = s.parsed.figures.get("runtime_s")
    if s.point.phase_time_s is not None:
        return NOT_APPLICABLE
    if runtime is None:
        return unchecked("no output to look at")
    if runtime < LEAST_RUNTIME_S:
        more = "files_per_thread" if s.phase.kind == "metadata" else "file_size"
        return failed(f"over after {runtime * 1000:.3g} ms, which is mostly ticks and barriers: raise {more}")
    return passed(f"{runtime:.3f} s")


@check("suspect", "A timed phase did not run on long after its time (a slow flush, a worker that hung).")
@per_node
def overtime(s: Seen) -> Finding:
    runtime, asked = s.parsed.figures.get("runtime_s"), s.point.phase_time_s
    if asked is None:
        return NOT_APPLICABLE
    if runtime is None:
        return unchecked("no output to look at")
    if runtime > max(LONGEST * asked, asked + SLACK_S):
        return failed(f"ran for {runtime:.2f} s where {asked:.2f} s were asked for")
    return passed(f"{runtime:.2f} s of {asked:.2f} s")


@check(
    "suspect",
    "Nodes that a tool is started on one by one worked at the same time: their own rates add up to what all did, from"
    " the first I/O of the first to the last of the last, within 2 %. Of phases that a volume bounds only the start"
    " counts: one node is done before the others.",
)
def common_window(s: Seen) -> Finding:
    if s.point.nodes == 1 or tools()[s.point.tool].mpi:
        return NOT_APPLICABLE
    seen, figures = s.parsed.evidence, s.parsed.figures
    if "each_node" not in seen:
        return unchecked("no output to look at")
    if not seen["windows"]:
        return unchecked(f"{s.parsed.version} does not say when each node began")
    error_s = seen["windows_error_s"]
    skew_s = figures["start_skew_s"]
    within = f"all began within {skew_s:.3f} s, which may be {error_s:.3f} s off"
    if s.point.phase_time_s is None:
        took_s = max(end for _, end in seen["windows"].values()) - min(begin for begin, _ in seen["windows"].values())
        if skew_s > WINDOW * took_s + error_s:
            last = max(seen["windows"], key=lambda host: seen["windows"][host][0])
            return failed(f"the nodes did not work at the same time: {last} began {skew_s:.2f} s after the first")
        return passed(within)
    unit, metric = ("bytes", "bandwidth_bytes_per_s") if s.phase.kind == "data" else ("ops", "ops_per_s")
    rate = figures[metric]
    excess = figures[f"sum_of_rates_{unit}_per_s"] / rate - 1 if rate else 0.0
    unsure = error_s * figures["ops_per_s"] / figures["ops"] if rate else 0.0  # its share of the time that all took
    if excess > WINDOW + unsure:
        began, ended = ({host: window[i] for host, window in seen["windows"].items()} for i in (0, 1))
        return failed(
            f"the nodes did not work at the same time: their rates would add up to {excess:.1%} more than what all did;"
            f" {max(began, key=began.__getitem__)} began last, {skew_s:.2f} s after the first, and"
            f" {min(ended, key=ended.__getitem__)} ended {max(ended.values()) - min(ended.values()):.2f} s before the"
            " last"
        )
    return passed(within)


@check("suspect", "The queue depth asked for was reached.")
@per_node
def queue_depth(s: Seen) -> Finding:
    depth = int(s.point.options.get("queue_depth") or 1)
    levels = s.parsed.evidence.get("depth_percent")
    if s.phase.kind == "metadata" or depth == 1:
        return NOT_APPLICABLE
    if not levels:
        return unchecked("the tool does not say")
    if s.point.options.get("ioengine") == "libaio" and not s.point.options.get("o_direct"):
        return unchecked("without O_DIRECT libaio waits for each I/O, and fio's own queue says nothing")
    # fio's levels: 1, 2, 4 ... >=64; each counts what was from there up to the next
    level = min(1 << (depth.bit_length() - 1), 64)
    reached = sum(percent for name, percent in levels.items() if int(name.lstrip(">=")) >= level)
    if reached < 50:
        return failed(f"queue depth {depth} was asked for, but only {reached:.0f} % of the I/O had it")
    return passed(f"{reached:.0f} % of the I/O at depth {level} or more")


@check("invalid", "The files to work on were there, complete, and without unwritten extents.")
def data_complete(s: Seen) -> Finding:
    files = s.run.get("files", {})
    if files.get("role") == "fresh" or s.run.get("not_run"):
        return NOT_APPLICABLE
    if "wrong" not in files:
        return unchecked("the files were not looked at")
    if files["wrong"]:
        return failed("files are not as they must be: " + "; ".join(files["wrong"]))
    return passed(f"{files['files']} files of {human_size(files['file_size_bytes'])}, all of full size")


@check(
    "invalid",
    "What is read was written before: no holes (asked of the file system after a sparse file has shown that it tells).",
)
def no_holes(s: Seen) -> Finding:
    files = s.run.get("files", {})
    if files.get("role") == "fresh" or s.run.get("not_run"):
        return NOT_APPLICABLE
    match files.get("holes"):
        case "none":
            return passed("no hole; a sparse file shows one")
        case "found":
            return failed("unwritten extents: reading them does not touch the storage")
        case other:
            return unchecked(str(other or "not looked at"))


@check("suspect", "Files that were to be new stayed new: the phase did not start over on them.")
@per_node
def stayed_new(s: Seen) -> Finding:
    if s.phase.kind == "metadata" or not s.phase.writes or s.point.options.get("write_mode") != "new":
        return NOT_APPLICABLE
    room = s.point.volume_bytes
    written = s.parsed.figures.get("bytes_written")
    if written is None:
        return unchecked("no output to look at")
    if written > room:
        return failed(
            f"{human_size(written)} were written into {human_size(room)} of new files: later passes were"
            " overwrites; raise file_size"
        )
    return passed(f"{human_size(written)} of {human_size(room)}")


@check("invalid", "After create every file is there, after delete none.")
def file_count(s: Seen) -> Finding:
    expected = s.run.get("leftover_expected")
    if expected is None:
        return NOT_APPLICABLE
    if s.run.get("leftover") is None:
        return unchecked("the files were not counted")
    if s.run["leftover"] != expected:
        return failed(f"{s.run['leftover']:,} files are there after {s.phase.name}, not {expected:,}")
    return passed(f"{expected:,} files counted after {s.phase.name}")


@check(
    "suspect",
    "The client's cache had no part: O_DIRECT on a file system that is known to keep to it, or each node reads twice"
    " its memory or more.",
)
def client_cache(s: Seen) -> Finding:
    direct, doubt = bool(s.point.options.get("o_direct")), fs_types.direct(s.fstype, s.mount)
    if s.phase.kind == "metadata" or not (direct or s.phase.reads):
        return NOT_APPLICABLE  # whether writes reach the storage is `durable`
    if direct:
        if s.run["exit_code"]:
            return unchecked("the run failed")
        if doubt is None:
            return passed("O_DIRECT was asked for and the file system accepted it")
    accepted = f"O_DIRECT was accepted, and is no proof on {s.fstype or 'an unknown file system'}: {doubt}"
    if not s.phase.reads:
        return unchecked(accepted)
    share = (s.run.get("files", {}).get("set_bytes") or s.point.volume_bytes) // s.point.nodes
    known = {host: size for host, size in s.memory_bytes.items() if size}
    small = {host: size for host, size in known.items() if share < 2 * size}
    if small and direct:
        return unchecked(accepted)
    if small:
        host = max(small, key=small.__getitem__)
        where = "a node" if s.point.nodes == 1 else host
        return failed(f"reads without O_DIRECT of {human_size(share)} on {where} with {_memory(small[host])}")
    if len(known) < s.point.nodes:
        unknown = ", ".join(sorted(set(s.memory_bytes) - set(known))[:SHOWN_NODES]) or "the nodes"
        whose = "the node's memory" if s.point.nodes == 1 else f"the memory of {unknown}"
        return unchecked(accepted if direct else f"{whose} is not known")
    most = _memory(max(known.values()))
    if s.point.nodes == 1:
        return passed(f"{human_size(share)} are more than twice the node's {most}")
    return passed(f"each node reads {human_size(share)}, twice its memory or more ({most} at most)")


def _memory(size: int) -> str:
    return f"{human_size(size)} of memory"


@check("suspect", "Reads are not served from the servers' memory: files of twice target.server_cache.")
def server_cache(s: Seen) -> Finding:
    if s.phase.kind == "metadata" or not s.phase.reads:
        return NOT_APPLICABLE
    cache = s.target.get("server_cache")
    if cache is None:
        return unchecked("target.server_cache is not given")
    size = s.run.get("files", {}).get("set_bytes", 0)
    if cache and size < 2 * cache:
        return failed(f"{human_size(size)} of files fit the servers' memory ({human_size(cache)}) twice or less")
    return passed(f"{human_size(size)} of files against {human_size(cache)} of server memory")


@check(
    "suspect",
    "Writes were durable inside the timing: flushed at the end, and with O_DIRECT where files were written over.",
)
def durable(s: Seen) -> Finding:
    if s.phase.kind == "metadata" or not s.phase.writes:
        return NOT_APPLICABLE
    if not s.point.options.get("fsync"):
        return failed("writes were not flushed inside the timing (fsync: false)")
    if not_flushed := s.parsed.evidence.get("not_flushed"):
        return failed(f"writes were not flushed inside the timing: {not_flushed}")
    written, room = s.parsed.figures.get("bytes_written"), s.point.volume_bytes
    if written and written > room and not s.point.options.get("o_direct"):
        # pages that are written again before they are flushed reach the storage once
        return failed(
            f"{human_size(written)} were written through the page cache into {human_size(room)} of files, and flushed"
            " once, at the end: what was written over meanwhile may not have reached the storage"
        )
    return passed("flushed at the end, inside the timing")


@check("suspect", "What is written neither compresses nor deduplicates.")
def incompressible(s: Seen) -> Finding:
    if s.phase.kind == "metadata" or not s.phase.writes:
        return NOT_APPLICABLE
    if s.point.options.get("data") == "random":
        if repeats := s.parsed.evidence.get("repeats"):
            return unchecked(f"{repeats}; it matters where the file system deduplicates")
        return passed("fresh random buffers")
    return unchecked(f"{tools()[s.point.tool].own_data} (data: tool_default)")


_OWN = unchecked("nodes read what they had written themselves, past their caches (O_DIRECT)")


@check("suspect", "Readers are other nodes than the writers.")
def other_reader(s: Seen) -> Finding:
    shifts = "shift" in s.parsed.evidence
    if not s.phase.reads or s.phase.writes or (s.phase.kind == "metadata" and not shifts):
        return NOT_APPLICABLE
    if s.point.nodes == 1:
        return unchecked("one node reads what it wrote itself")
    own = s.run.get("files", {}).get("own")
    if own and not s.point.options.get("o_direct"):
        return failed(f"{', '.join(own)} read what they had written themselves, and not past their caches")
    if not shifts:
        if own is None:
            return unchecked("it is not known which node wrote what it reads")
        return passed("each node reads what another one wrote") if not own else _OWN
    if own:
        return _OWN
    shift = s.parsed.evidence["shift"]
    if shift is None:
        return failed("the tool does not say that other nodes read than wrote")
    per_node = int(s.point.options["threads_per_node"] or 1)
    ranks = per_node * s.point.nodes
    if not per_node <= shift % ranks <= ranks - per_node:  # ranks are placed node by node
        why = f"ranks are shifted by {shift}, with {per_node} on each node: some read what their node wrote"
        two = "; mdtest shifts reads by twice as many nodes as others: take three nodes or more"
        return failed(why + two * (s.point.tool == "mdtest" and s.phase.name == "read" and s.point.nodes == 2))
    return passed(f"each rank reads what the rank {shift} after it wrote, on another node")


@check("suspect", "Nobody moved more than the node's links can carry (target.node_bandwidth).")
def plausible(s: Seen) -> Finding:
    if s.phase.kind == "metadata":
        return NOT_APPLICABLE
    links = s.target.get("node_bandwidth")
    rate = s.parsed.figures.get("bandwidth_bytes_per_s")
    if not links or rate is None:
        return unchecked("target.node_bandwidth is not given" if not links else "no output to look at")
    if rate > links * s.point.nodes:
        return failed(
            f"{human_size(rate)}/s are more than the links carry ({human_size(links * s.point.nodes)}/s): a cache"
        )
    return passed(f"{human_size(rate)}/s of {human_size(links * s.point.nodes)}/s")


@check(
    "suspect",
    "No node was busy with something else than the tool and the target's client, and its hypervisor gave it its CPUs.",
)
def other_load(s: Seen) -> Finding:
    load = s.run.get("load")
    short = "it takes runs of half a second"
    if not load:
        return unchecked(f"the node's load was not read ({short})")
    where = f" on {load['host']}" if s.point.nodes > 1 and "host" in load else ""
    if load["steal"] > OTHER_LOAD:
        return failed(f"the hypervisor withheld {load['steal']:.0%} of the CPU time", True)
    client = load.get("client", 0.0)
    if load["other"] > OTHER_LOAD:
        used = f"{load['other']:.0%} of the CPU time{where}"
        if client is None:
            why = "its processes were not found"
            return unchecked(f"others used {used}, and the client of {s.fstype} may be one of them: {why}")
        return failed(f"other processes used {used}", True)
    if unread := load.get("unread"):
        return unchecked(f"the load of {', '.join(unread[:SHOWN_NODES])} was not read ({short})")
    by_client = f", the target's client {client:.0%}" if client else ""
    user_only = (
        " (others' in user mode only: the kernel's threads cannot be seen here)" if load.get("user_only") else ""
    )
    others = f"others used {load['other']:.0%}{where}{by_client}"
    return passed(f"{others}, the hypervisor withheld {load['steal']:.0%} of the CPU time{user_only}")


@check("suspect", "No other campaign measured the file system at the same time (a lock).")
def exclusive(s: Seen) -> Finding:
    found = s.run.get("exclusive")
    if found is None:
        return unchecked("whether others were kept off is not recorded")
    return passed(found["evidence"]) if found["enforced"] else unchecked(found["evidence"])


def _first(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f": {line[:200].replace(REASONS, ' / ')}" if line else ""
