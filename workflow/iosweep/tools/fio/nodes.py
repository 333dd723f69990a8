"""fio on one node or several: the reports of all nodes, combined exactly. Pure.

Bytes and I/Os are added up, histograms bin by bin. The rate of all is what all moved, over the time from the first
node's first I/O to the last node's last: rates of different windows do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from iosweep.tools import Parsed, Phase, Step, Streams
from iosweep.tools.fio import client_server
from iosweep.tools.fio import parse as _parse
from iosweep.tools.fio.malformed import DAMAGE, sentence
from iosweep.tools.fio.parse import Parts, added_up, of_direction

#: What a node reported: its own figures and evidence, and fio's blocks that they come from.
Node = tuple[Parsed, Parts]

#: By how much the windows of two nodes may be off, where fio tells its start and where it does not: see `_windows`.
_TOLD_ERROR_S, _END_ERROR_S = 0.002, 0.025
#: What fio tells is taken only where its process lived then, give or take this.
_SLACK_S = 0.01


class Window(NamedTuple):
    """First and last I/O of a node, in seconds on a clock that all nodes share."""

    begin_s: float
    end_s: float


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one phase on as many nodes as the step has. Raises nothing, whatever the streams hold."""
    asked_for = client_server.asked_for(step)
    if step.nodes == 1 and not asked_for:
        return _parse.parse(streams.get("stdout", streams.get("stdout@0", b"")), phase)
    try:
        hosts = _hosts(streams.get("hosts", b""), step.nodes)
    except _WrongError as error:
        return Parsed(evidence={"messages": []}, problems=[str(error)])
    if asked_for:
        version, nodes, problems = client_server.reported(streams.get("stdout", b""), hosts, phase)
    else:
        nodes = {
            host["host"]: _parse.parsed_parts(streams.get(f"stdout@{k}", b""), phase) for k, host in enumerate(hosts)
        }
        problems = [f"{name}: {problem}" for name, (parsed, _) in nodes.items() for problem in parsed.problems]
        versions = {parsed.version: name for name, (parsed, _) in nodes.items() if parsed.version}
        version = next(iter(versions), None)
        if len(versions) > 1:
            problems.append("the nodes ran different versions: " + ", ".join(f"{n} {v}" for v, n in versions.items()))
    evidence = _evidence(nodes, hosts)
    if problems:
        return Parsed(version, {}, evidence, problems)
    if len(hosts) == 1:
        ((alone, _),) = nodes.values()
        return Parsed(version, alone.figures, {**alone.evidence, **evidence}, [])
    try:
        windows, error_s = _windows(hosts, nodes)
        figures = together(nodes, windows, phase)
    except DAMAGE as error:
        return Parsed(version, {}, evidence, [f"the nodes' outputs cannot be put together: {sentence(error)}"])
    evidence |= {"each_node": {name: parsed for name, (parsed, _) in nodes.items()}}
    evidence |= {"windows": windows, "windows_error_s": error_s}
    return Parsed(version, figures, {"errors": [], **evidence}, [])


class _WrongError(ValueError):
    """Which nodes took part is not told, or they are not those asked for; the message is for the user."""


def _hosts(told: bytes, nodes: int) -> list[dict[str, Any]]:
    try:
        hosts = orjson.loads(told)
        names = [host["host"] for host in hosts]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise _WrongError("which nodes took part is not stored") from None
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise _WrongError(f"nodes took part more than once, or have no name: {names}")
    if len(names) != nodes:
        raise _WrongError(f"fio ran on {len(names)} nodes, {nodes} were asked for")
    return list(hosts)


def _evidence(nodes: Mapping[str, Node], hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the nodes say beside their figures."""
    errors = [f"{h['host']}: fio ended with exit code {code}" for h in hosts if (code := h.get("exit_code"))]
    errors += [f"{name}: {error}" for name, (parsed, _) in nodes.items() for error in parsed.evidence.get("errors", ())]
    messages = [f"{name}: {line}" for name, (parsed, _) in nodes.items() for line in parsed.evidence["messages"]]
    return ({"errors": errors} if errors else {}) | {"messages": messages[:20]}


def _windows(
    hosts: Sequence[Mapping[str, Any]], nodes: Mapping[str, Node]
) -> tuple[dict[str, Window] | None, float | None]:
    """Each node's window of I/O on the common clock, and by how much their difference may be wrong in seconds; None
    where that is not known of all.

    From 3.36 on fio tells when its workers began (`job_start`, ms, by the node's clock): within 2 ms of the first I/O
    in 20 runs of 3.42. Before, it is the end of the process minus the run time. That is late by the time that fio takes
    to end, in 24 runs of 3.33 20 to 34 ms with 1 to 4 workers and 21 to 46 with 16: what counts is the difference of
    two nodes, at most 14 (25) ms. `timestamp_ms`, when fio makes its output, is no better (12 to 22, 14 to 35) and of
    another clock; from the start of the process to the first I/O it took 190 to 340 ms, more with more files. All must
    be of one kind: they are late differently (3.42 takes 150 ms to end).
    """
    runtimes = {name: parsed.figures["runtime_s"] for name, (parsed, _) in nodes.items()}
    clocks_s = max(host.get("clock_error_s", 0.0) for host in hosts)
    for begins, error_s in ((_told_begin, _TOLD_ERROR_S), (_begin_from_end, _END_ERROR_S)):
        found = {h["host"]: begins(h, nodes[h["host"]][0]) for h in hosts}
        known = {name: begin for name, begin in found.items() if begin is not None}
        if len(known) == len(hosts):
            windows = {name: Window(begin, begin + runtimes[name]) for name, begin in known.items()}
            return windows, error_s + 2 * clocks_s
    return None, None


def _told_begin(host: Mapping[str, Any], parsed: Parsed) -> float | None:
    offset_s, told_s = host.get("clock_offset_s"), parsed.evidence.get("began_s")
    if not isinstance(offset_s, int | float) or not isinstance(told_s, int | float):
        return None
    begin_s = told_s - offset_s
    started, ended = host.get("started"), host.get("ended")
    if isinstance(started, int | float) and isinstance(ended, int | float):  # not where a clock was set meanwhile
        slack_s = _SLACK_S + host.get("clock_error_s", 0.0)
        return begin_s if started - slack_s <= begin_s <= ended + slack_s else None
    return begin_s


def _begin_from_end(host: Mapping[str, Any], parsed: Parsed) -> float | None:
    ended = host.get("ended")
    return ended - parsed.figures["runtime_s"] if isinstance(ended, int | float) else None


def together(nodes: Mapping[str, Node], windows: Mapping[str, Window] | None, phase: Phase) -> dict[str, Any]:
    """Figures of all nodes. Without windows rates are the sums of the nodes' own, as fio and WEKA's page have them."""
    every = [parsed.figures for parsed, _ in nodes.values()]
    figures: dict[str, Any] = {
        name: sum(figures[name] for figures in every)
        for name in every[0]
        if name in ("ops", "bytes_read", "bytes_written") or name.endswith("ops_per_s") or "bandwidth" in name
        if all(name in figures for figures in every)
    }
    figures["runtime_s"] = max(figures["runtime_s"] for figures in every)
    figures["sum_of_rates_ops_per_s"] = figures["ops_per_s"]
    if phase.kind == "data":
        figures["sum_of_rates_bytes_per_s"] = figures["bandwidth_bytes_per_s"]
    if windows:
        begins = [window.begin_s for window in windows.values()]
        figures["start_skew_s"] = max(begins) - min(begins)
        window_s = max(window.end_s for window in windows.values()) - min(begins)
        figures |= _rates(nodes, window_s, phase) if window_s > 0 else {}
    blocks = {name: [parts[name]["clat_ns"] for _, parts in nodes.values()] for name in next(iter(nodes.values()))[1]}
    if phase.kind == "data":
        for name, clat in blocks.items():
            figures |= of_direction(name, added_up(clat))
    return figures | added_up([block for clat in blocks.values() for block in clat])


def _rates(nodes: Mapping[str, Node], window_s: float, phase: Phase) -> dict[str, float]:
    """What all moved, over the time that all took."""
    rates = {"ops_per_s": 0.0} | ({"bandwidth_bytes_per_s": 0.0} if phase.kind == "data" else {})
    for name in next(iter(nodes.values()))[1]:
        ops, size = (sum(parts[name][key] for _, parts in nodes.values()) for key in ("total_ios", "io_bytes"))
        rates["ops_per_s"] += ops / window_s
        if phase.kind == "data":
            rates["bandwidth_bytes_per_s"] += size / window_s
            rates |= {f"{name}_ops_per_s": ops / window_s, f"{name}_bandwidth_bytes_per_s": size / window_s}
    return rates
