"""What disturbed a phase: other campaigns, others on the CPUs and the target, a hypervisor, quotas and limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from iosweep.judge.checks.caches import no_counter, total, trusts, work_by_node
from iosweep.judge.findings import NOT_APPLICABLE, SHOWN_NODES, Observation, failed, passed, unchecked
from iosweep.node import fs_types
from iosweep.node.counters import Moved
from iosweep.node.load import Other
from iosweep.store.record import Finding
from iosweep.text import human_percent
from iosweep.tools import CLOCK_S, Parsed
from iosweep.units import human_size


def exclusive(s: Observation) -> Finding:
    """No other campaign measured the file system at the same time (enforced by a lock)."""
    lock = s.run.exclusive
    if lock is None:
        return unchecked("no record of whether other campaigns were kept off")
    return passed(lock.evidence) if lock.enforced else unchecked(lock.evidence)


#: Share of CPU time that other processes may use, of a node and of the CPUs of a rank or worker: daemons use a few
#: percent, another job far more.
OTHER_LOAD = 0.25
#: Shares of periods and of the time for which a CPU quota may throttle the tool: the error that a figure may have.
_STOPPED, _STOPPED_TIME = 0.05, 0.02
#: At this share of an I/O limit, the limit is measured and not the storage: limits let short bursts through.
_LIMITED = 0.9
#: Bytes that others may move, as a share of the tool's bytes: as OTHER_LOAD.
OTHER_IO = 0.25
#: Bytes that others may move in addition, in total and per second: logs and a desktop's background I/O.
_BYTES, _BYTES_PER_S = 16 << 20, 4 << 20
#: Maximum number of copies that a file system is assumed to write, whatever was counted while a data set was written: a
#: mirror with a data journal.
_MAX_COPIES = 4.0
#: Maximum metadata bytes per write (journal, inode, bitmaps: a block of 4 KiB each), and maximum bytes that a client
#: reads for a small read.
_WRITE_BYTES, _READ_BYTES = 16 << 10, 64 << 10


def other_load(s: Observation) -> Finding:
    """No node was busy with anything but the tool and the target's client, nor any CPU that a rank or worker was bound
    to, and no hypervisor withheld CPU time."""
    load = s.run.load
    needs_time = "it takes runs of half a second"
    if not load:
        return unchecked(f"the node's load was not read ({needs_time})")
    if load.steal > OTHER_LOAD:
        return failed(f"the hypervisor withheld {human_percent(load.steal)} of the CPU time", True)
    where, usage, bound = _on_node(s, load.host), "", load.bound
    if load.other is not None and load.other > OTHER_LOAD:
        usage = f"{human_percent(load.other)} of the CPU time{where}{_top_processes(load.top)}"
    elif bound and bound.other > OTHER_LOAD:
        cpus = f"CPU{'' if bound.cpus.isdecimal() else 's'} {bound.cpus}{_on_node(s, bound.host)}"
        usage = f"{human_percent(bound.other)} of {cpus}, where a rank or worker was bound{_top_processes(bound.top)}"
    if usage:
        if load.client is None:
            why = "its processes were not found"
            return unchecked(f"others used {usage}, and the client of {s.fstype} may be one of them: {why}")
        return failed(f"other processes used {usage}", True)
    if unread := load.unread:
        return unchecked(f"the load of {', '.join(unread[:SHOWN_NODES])} was not read ({needs_time})")
    if load.other is None:
        return unchecked(
            "the CPU time of others cannot be told from that of the kernel's threads, which are hidden here"
        )
    by_client = f", the target's client {human_percent(load.client)}" if load.client else ""
    others = f"others used {human_percent(load.other)}{where}{_top_processes(load.top)}{by_client}"
    of_bound = f"; at most {human_percent(bound.other)} of the CPUs of a rank or worker" if bound else ""
    return passed(f"{others}, the hypervisor withheld {human_percent(load.steal)} of the CPU time{of_bound}")


def _on_node(s: Observation, host: str) -> str:
    return f" on {host}" if s.point.nodes > 1 and host else ""


def _top_processes(top: Sequence[Other]) -> str:
    """` (NAME of USER 30 %, ...)`: the other processes that used the most CPU time."""
    each = (f"{other.name}{f' of {other.user}' if other.user else ''} {human_percent(other.share)}" for other in top)
    return f" ({', '.join(each)})" if top else ""


def cpu_quota(s: Observation) -> Finding:
    """No CPU quota stopped the tool's control group in more than 5 % of its periods and more than 2 % of the time."""
    if not (load := s.run.load):
        return unchecked("what CPU quotas did was not read (it takes runs of half a second)")
    if not (quota := load.throttled):
        return unchecked("the control groups of a node could not be read")
    if not quota.stopped:
        return passed("no CPU quota throttled the tool")
    periods = f"{quota.stopped} of {quota.periods} periods"
    sentence = (
        f"a CPU quota throttled the tool{_on_node(s, quota.host)} in {periods}, for {quota.stopped_s:.2f} s in total"
    )
    if quota.stopped > _STOPPED * quota.periods and quota.stopped_s > _STOPPED_TIME * load.window_s:
        return failed(sentence)
    return passed(sentence)


def io_limit(s: Observation) -> Finding:
    """No control group limited I/O on the block devices below the target (io.max): less than 90 % of a limit was
    reached."""
    if not fs_types.lookup(s.fstype).local:
        return NOT_APPLICABLE
    devices = ""
    for host, parsed, moved in work_by_node(s):
        devices = devices or ", ".join(dict.fromkeys(node.device for node in moved if node.device))
        ops, window_s = parsed.figures.get("ops_per_s", 0.0), max((node.window_s for node in moved), default=0.0)
        rates = {
            "rbps": (total(moved, "device_read_bytes") or 0) / max(window_s, CLOCK_S),
            "wbps": (total(moved, "device_written_bytes") or 0) / max(window_s, CLOCK_S),
            "riops": 0.0 if s.phase.writes else ops,
            "wiops": 0.0 if s.phase.reads else ops,
        }
        for name, rate in rates.items():
            limit = sum(node.io_limits.get(name, math.inf) * (node.device.count(",") + 1) for node in moved)
            if moved and rate >= _LIMITED * limit:
                return failed(f"a control group limits I/O on {devices}{_on_node(s, host)}: io.max {name}={limit}")
    return passed(f"no limit on {devices} was reached") if devices else unchecked("the block devices are not known")


def other_io(s: Observation) -> Finding:
    """Others moved little on the target: its block device or client counted at most 25 % more than the tool moved (more
    where small writes cost metadata, or earlier writes waited in memory)."""
    if s.phase.kind == "metadata":
        return unchecked("a file system writes a journal and inodes of its own, which no counter tells from others")
    kind = fs_types.lookup(s.fstype)
    counter = "device" if kind.local else "client"
    if kind.memory:
        return unchecked(f"the target is memory ({s.fstype}): no counter sees what others do")
    if not s.run.moved or not trusts(s, counter):
        return unchecked(no_counter(s))
    any_counted, evidence = False, []
    for host, parsed, moved in work_by_node(s):
        name = (moved[0].device if kind.local else f"the client ({moved[0].client})") if moved else ""
        for verb, seen, by_tool, allowed in _moved_by_direction(s, counter, parsed, moved):
            any_counted, others = True, max(0.0, seen - by_tool)
            sentence = f"others {verb} {human_size(round(others))} of {human_size(seen)} on {name}{_on_node(s, host)}"
            if others > allowed:
                return failed(sentence, True)
            evidence += [sentence] if seen else []
    if not any_counted:
        return unchecked("what the tool or the target moved was not counted, or cannot be told from the file system's")
    return passed("; ".join(evidence[: 2 * SHOWN_NODES]) or f"the {counter} counted no bytes that may be others'")


def _moved_by_direction(
    s: Observation, counter: str, parsed: Parsed, moved: Sequence[Moved]
) -> Iterator[tuple[str, int, float, float]]:
    """(verb, bytes that a counter saw, the tool's bytes, bytes that others may move) for each direction."""
    is_only_phase = any([phase.name for phase in step.phases] == [s.phase.name] for step in s.point.steps)
    transfer = max(1, int(s.point.options.get("transfer_size") or 1))
    background = sum(_BYTES + _BYTES_PER_S * node.window_s for node in moved)
    for verb, key in (("read", "read_bytes"), ("wrote", "written_bytes")):
        seen, tool_counted = total(moved, f"{counter}_{key}"), total(moved, f"tool_{key}")
        reported = parsed.figures.get(f"bytes_{key.removesuffix('_bytes')}", 0.0) if is_only_phase else None
        if seen is None or (tool_counted is None and reported is None):
            continue
        by_tool = max(tool_counted or 0.0, reported or 0.0)
        allowed = OTHER_IO * by_tool + background
        if verb == "read":
            if counter == "client" and not s.point.options.get("o_direct"):  # readahead, and whole pages
                allowed += max(by_tool, by_tool / transfer * _READ_BYTES)
        elif s.fstype in fs_types.COPY_ON_WRITE and by_tool:
            continue
        else:
            by_tool *= _copies(s, counter, moved)
            allowed = (
                OTHER_IO * by_tool + background + by_tool / transfer * _WRITE_BYTES + (total(moved, "dirty_bytes") or 0)
            )
        yield verb, seen, by_tool, allowed


def _copies(s: Observation, counter: str, moved: Sequence[Moved]) -> float:
    """How often a file system writes each byte, as counted while a data set was written. A local file system writes a
    byte more than once only to several devices or a data journal; otherwise others wrote, and may still write."""
    if counter == "device" and not any("," in node.device for node in moved) and "data=journal" not in (s.mount or ""):
        return 1.0
    return min(_MAX_COPIES, max(1.0, getattr(s.run.files.counted, counter, None) or 1.0))
