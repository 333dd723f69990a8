"""fio on one node or several: the reports of all nodes, combined exactly. Pure.

Bytes and I/Os are added up, histograms bin by bin. The rate of all is what all moved, over the time from the first
node's first I/O to the last node's last: rates of different windows do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from iosweep.histogram import summed
from iosweep.tools import Evidence, Parsed, Phase, Step, Streams
from iosweep.tools.fio import argv, client_server, echo, latency, own_output, own_rates, series_log
from iosweep.tools.fio.json_records import UNREADABLE, Host, reason
from iosweep.tools.fio.own_output import Parts

#: What a node reported: its own figures and evidence, and fio's blocks that they come from.
Node = tuple[Parsed, Parts]

#: By how much the windows of two nodes may be off, where fio prints its start and where it does not: see `_windows`.
_PRINTED_ERROR_S, _END_ERROR_S = 0.002, 0.025
#: A start that fio prints counts only where its process lived then, give or take this.
_SLACK_S = 0.01


class Window(NamedTuple):
    """First and last I/O of a node, in seconds on a clock that all nodes share."""

    begin_s: float
    end_s: float


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one phase on as many nodes as the step has. Raises nothing, whatever the streams hold."""
    asked_for = client_server.asked_for(step)
    asked = echo.options(argv.command(step, "", 0))
    if step.nodes == 1 and not asked_for:
        parsed = own_output.parse(streams.get("stdout", streams.get("stdout@0", b"")), phase, asked)[0]
        logs = streams.get(series_log.STREAM, streams.get(f"{series_log.STREAM}@0", b""))
        return own_rates.of_one(parsed, logs, step)
    hosts, wrong = _hosts(streams.get("hosts", b""), step.nodes)
    if wrong:
        return Parsed(evidence=Evidence(), problems=[wrong])
    if asked_for:
        version, nodes, problems = client_server.reported(streams.get("stdout", b""), hosts, phase, asked)
    else:
        nodes = {host.host: _node(streams.get(f"stdout@{k}", b""), host, phase, asked) for k, host in enumerate(hosts)}
        problems = [f"{name}: {problem}" for name, (parsed, _) in nodes.items() for problem in parsed.problems]
        versions = {parsed.version: name for name, (parsed, _) in nodes.items() if parsed.version}
        version = next(iter(versions), None)
        if len(versions) > 1:
            problems.append("the nodes ran different versions: " + ", ".join(f"{n} {v}" for v, n in versions.items()))
    errors = [f"{host.host}: fio ended with exit code {host.exit_code}" for host in hosts if host.exit_code]
    errors += [f"{name}: {error}" for name, (parsed, _) in nodes.items() for error in parsed.evidence.errors or ()]
    messages = [f"{name}: {line}" for name, (parsed, _) in nodes.items() for line in parsed.evidence.messages][:20]
    evidence = Evidence(errors=errors or None, messages=messages)
    if problems:
        return Parsed(version, {}, evidence, problems)
    if len(hosts) == 1:
        ((alone, _),) = nodes.values()
        return replace(alone, evidence=replace(alone.evidence, errors=errors, messages=messages))
    windows, error_s = _windows(hosts, nodes)
    try:
        figures = together(nodes, windows, phase)
    except UNREADABLE as error:
        return Parsed(version, {}, evidence, [f"the nodes' outputs cannot be put together: {reason(error)}"])
    each_node = {name: parsed for name, (parsed, _) in nodes.items()}
    own = [parsed.evidence.latencies for parsed in each_node.values()]
    latencies = None if None in own else summed(one for one in own if one)
    evidence = replace(
        evidence, errors=errors, each_node=each_node, windows=windows, windows_error_s=error_s, latencies=latencies
    )
    each = [] if asked_for else [streams.get(f"{series_log.STREAM}@{k}", b"") for k in range(len(hosts))]
    evidence = own_rates.of_several(evidence, each, step)
    return Parsed(version, figures, evidence, [])


def _node(stdout: bytes, host: Host, phase: Phase, asked: echo.Options) -> Node:
    """What a node reported, and how long its process was there by our clock."""
    parsed, parts = own_output.parse(stdout, phase, asked)
    if host.started is None or host.ended is None:
        return parsed, parts
    return replace(parsed, evidence=replace(parsed.evidence, wall_s=host.ended - host.started)), parts


_hosts_decoder = msgspec.json.Decoder(list[Host])


def _hosts(stored: bytes, nodes: int) -> tuple[list[Host], str]:
    """(the nodes that took part, why they are not those that were asked for)"""
    try:
        hosts = _hosts_decoder.decode(stored)
    except (ValueError, RecursionError):
        return [], "which nodes took part is not stored"
    names = [host.host for host in hosts]
    if len(set(names)) != len(names):
        return [], f"nodes took part more than once: {', '.join(names)}"
    return hosts, "" if len(names) == nodes else f"fio ran on {len(names)} nodes, {nodes} were asked for"


def _windows(hosts: Sequence[Host], nodes: Mapping[str, Node]) -> tuple[dict[str, Window], float]:
    """Each node's window of I/O on the common clock, and by how much their difference may be wrong in seconds; none
    where one of them is not known.

    From 3.36 on fio tells when its workers began (`job_start`, ms, by the node's clock): within 2 ms of the first I/O
    in 20 runs of 3.42. Before, it is the end of the process minus the run time. That is late by the time that fio takes
    to end, in 24 runs of 3.33 20 to 34 ms with 1 to 4 workers and 21 to 46 with 16: what counts is the difference of
    two nodes, at most 14 (25) ms. `timestamp_ms`, when fio makes its output, is no better (12 to 22, 14 to 35) and of
    another clock; from the start of the process to the first I/O it took 190 to 340 ms, more with more files. All must
    be of one kind: they are late differently (3.42 takes 150 ms to end).
    """
    runtimes = {name: parsed.figures["runtime_s"] for name, (parsed, _) in nodes.items()}
    clocks_s = max(host.clock_error_s for host in hosts)
    for begins, error_s in ((_printed_begin, _PRINTED_ERROR_S), (_begin_from_end, _END_ERROR_S)):
        found = {host.host: begins(host, nodes[host.host][0]) for host in hosts}
        known = {name: begin for name, begin in found.items() if begin is not None}
        if len(known) == len(hosts):
            windows = {name: Window(begin, begin + runtimes[name]) for name, begin in known.items()}
            return windows, error_s + 2 * clocks_s
    return {}, 0.0


def _printed_begin(host: Host, parsed: Parsed) -> float | None:
    if host.clock_offset_s is None or parsed.evidence.began_s is None:
        return None
    begin_s = parsed.evidence.began_s - host.clock_offset_s
    if host.started is None or host.ended is None:
        return begin_s
    slack_s = _SLACK_S + host.clock_error_s
    within = host.started - slack_s <= begin_s <= host.ended + slack_s  # not where a clock was set meanwhile
    return begin_s if within else None


def _begin_from_end(host: Host, parsed: Parsed) -> float | None:
    return None if host.ended is None else host.ended - parsed.figures["runtime_s"]


def together(nodes: Mapping[str, Node], windows: Mapping[str, Window], phase: Phase) -> dict[str, float]:
    """Figures of all nodes. Without windows rates are the sums of the nodes' own, as fio and WEKA's page have them."""
    figures = added([parsed.figures for parsed, _ in nodes.values()])
    figures["sum_of_rates_ops_per_s"] = figures["ops_per_s"]
    if phase.kind == "data":
        figures["sum_of_rates_bytes_per_s"] = figures["bandwidth_bytes_per_s"]
    if windows:
        begins = [window.begin_s for window in windows.values()]
        figures["start_skew_s"] = max(begins) - min(begins)
        window_s = max(window.end_s for window in windows.values()) - min(begins)
        figures |= _rates(nodes, window_s, phase) if window_s > 0 else {}
    blocks = {name: [parts[name] for _, parts in nodes.values()] for name in next(iter(nodes.values()))[1]}
    return figures | latency.columns(blocks, phase.kind == "metadata")


def added(every: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The figures that add up, as far as all have them, and the longest run time."""
    figures = {
        name: sum(figures[name] for figures in every)
        for name in every[0]
        if name in ("ops", "bytes_read", "bytes_written") or name.endswith("ops_per_s") or "bandwidth" in name
        if all(name in figures for figures in every)
    }
    return figures | {"runtime_s": max(figures["runtime_s"] for figures in every)}


def _rates(nodes: Mapping[str, Node], window_s: float, phase: Phase) -> dict[str, float]:
    """What all moved, over the time that all took."""
    rates = {"ops_per_s": 0.0} | ({"bandwidth_bytes_per_s": 0.0} if phase.kind == "data" else {})
    for name in next(iter(nodes.values()))[1]:
        ops = sum(parts[name].total_ios for _, parts in nodes.values())
        size = sum(parts[name].io_bytes for _, parts in nodes.values())
        rates["ops_per_s"] += ops / window_s
        if phase.kind == "data":
            rates["bandwidth_bytes_per_s"] += size / window_s
            rates |= {f"{name}_ops_per_s": ops / window_s, f"{name}_bandwidth_bytes_per_s": size / window_s}
    return rates
