"""fio on one node or several: the reports of all nodes, combined exactly. Pure.

Bytes and I/Os are added up, histograms bin by bin. The rate of all is what all moved, over the time from the first
node's first I/O to the last node's last: rates of different windows do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from iosweep.histograms import Histogram, NodeRate, Series
from iosweep.tools import Evidence, Parsed, Phase, Step, Streams
from iosweep.tools.fio import output, series
from iosweep.tools.fio.command import argv
from iosweep.tools.fio.output import NodeReport, figures_of
from iosweep.tools.fio.records import UNREADABLE, Host, reason
from iosweep.tools.fio.series import Log, Unreadable
from iosweep.units import human_size

#: Shares of what fio moved by which its logs may add up to more, and to less, what came after the last entry aside. Of
#: 526 phases of 0.1 to 11 s the extremes were 11 % and 6 %.
_MORE, _LESS = 0.25, 0.15

#: By how much the windows of two nodes may be off, where fio prints its start and where it does not: see `_windows`.
_PRINTED_ERROR_S, _END_ERROR_S = 0.002, 0.025
#: A start that fio prints counts only where its process lived then, give or take this.
_SLACK_S = 0.01


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one phase on as many nodes as the step has. Raises nothing, whatever the streams hold."""
    asked = output.asked_for(argv(step, "", 0))
    if step.nodes == 1:
        parsed = output.parse(streams.get("stdout", streams.get("stdout@0", b"")), phase, asked)[0]
        logs = streams.get(series.STREAM, streams.get(f"{series.STREAM}@0", b""))
        evidence = replace(parsed.evidence, tasks=series.workers(logs))
        return replace(parsed, evidence=with_logs(evidence, {"": parsed}, [logs], step))
    try:
        hosts = _hosts_decoder.decode(streams.get("hosts", b""))
    except (ValueError, RecursionError):
        return Parsed(problems=["which nodes took part is not stored"])
    names = [host.host for host in hosts]
    if len(set(names)) != len(names):
        return Parsed(problems=[f"nodes took part more than once: {', '.join(names)}"])
    if len(names) != step.nodes:
        return Parsed(problems=[f"fio ran on {len(names)} nodes, {step.nodes} were asked for"])
    nodes: dict[str, NodeReport] = {}
    for k, host in enumerate(hosts):
        parsed, parts = output.parse(streams.get(f"stdout@{k}", b""), phase, asked)
        tasks = series.workers(streams.get(f"{series.STREAM}@{k}", b""))
        evidence = replace(parsed.evidence, tasks=tasks, wall_s=host.ended - host.started)
        nodes[host.host] = replace(parsed, evidence=evidence), parts
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
    windows, error_s = _windows(hosts, nodes)
    try:
        begins, ends = ([window[at] for window in windows.values()] for at in (0, 1))
        window_s = max(ends) - min(begins)  # from the first I/O of any to the last
        figures = figures_of([parts for _, parts in nodes.values()], phase, window_s)
    except UNREADABLE as error:
        return Parsed(version, {}, evidence, [f"the nodes' outputs cannot be put together: {reason(error)}"])
    figures["start_skew_s"] = max(begins) - min(begins)
    each_node = {name: parsed for name, (parsed, _) in nodes.items()}
    own = [parsed.evidence.latencies for parsed in each_node.values()]
    latencies = None if None in own else Histogram.merged([one for one in own if one])
    evidence = replace(
        evidence, errors=errors, each_node=each_node, windows=windows, windows_error_s=error_s, latencies=latencies
    )
    each = [streams.get(f"{series.STREAM}@{k}", b"") for k in range(len(hosts))]
    return Parsed(version, figures, with_logs(evidence, each_node, each, step), [])


_hosts_decoder = msgspec.json.Decoder(list[Host])


def _windows(hosts: Sequence[Host], nodes: Mapping[str, NodeReport]) -> tuple[dict[str, tuple[float, float]], float]:
    """Each node's first and last I/O on the common clock, and by how much their difference may be wrong; in seconds.

    From 3.36 on fio tells when its workers began (`job_start`, ms, by the node's clock): within 2 ms of the first I/O
    in 20 runs of 3.42. Before, it is the end of the process minus the run time. That is late by the time that fio takes
    to end, in 24 runs of 3.33 20 to 34 ms with 1 to 4 workers and 21 to 46 with 16: what counts is the difference of
    two nodes, at most 14 (25) ms. `timestamp_ms`, when fio makes its output, is no better (12 to 22, 14 to 35) and of
    another clock; from the start of the process to the first I/O it took 190 to 340 ms, more with more files. All must
    be of one kind: they are late differently (3.42 takes 150 ms to end).
    """
    printed: dict[str, tuple[float, float]] = {}
    from_end: dict[str, tuple[float, float]] = {}
    for host in hosts:
        parsed, _ = nodes[host.host]
        runtime_s, began_s = parsed.figures["runtime_s"], parsed.evidence.began_s
        if began_s is not None:
            begin_s, slack_s = began_s - host.clock_offset_s, _SLACK_S + host.clock_error_s
            if host.started - slack_s <= begin_s <= host.ended + slack_s:  # not where a clock was set meanwhile
                printed[host.host] = (begin_s, begin_s + runtime_s)
        from_end[host.host] = (host.ended - runtime_s, host.ended)
    clocks_s = max(host.clock_error_s for host in hosts)
    if len(printed) == len(hosts):
        return printed, _PRINTED_ERROR_S + 2 * clocks_s
    return from_end, _END_ERROR_S + 2 * clocks_s


def with_logs(evidence: Evidence, nodes: Mapping[str, Parsed], logs: Sequence[bytes], step: Step) -> Evidence:
    """The evidence with each node's rate over time, and the rates of nodes and workers; `logs` of each node.

    Series begin when the first node's does. Where the logs of one node are damaged, those of the others are not used:
    their sum would not be that of all. `nodes` has one without a name where there is no other.
    """
    first_s = min((begin for begin, _ in evidence.windows.values()), default=0.0)
    rates = [
        NodeRate(host, None, *map(parsed.figures.get, ("bandwidth_bytes_per_s", "ops_per_s")))
        for host, parsed in nodes.items()
        if host
    ]
    every: list[Series] = []
    workers: list[NodeRate] = []
    for (host, parsed), text in zip(nodes.items(), logs, strict=False):
        try:
            log = _log(parsed, text, step, host)
        except Unreadable as why:
            on = f"on {host} " if host else ""
            return replace(evidence, node_rates=rates, lost=f"fio's logs are damaged: {on}{why}")
        if log:
            begin_s = evidence.windows[host][0] - first_s if host in evidence.windows else 0.0
            every.append(replace(log.node, begin_s=begin_s))
            moved, ops = parsed.evidence.transferred_bytes or 0, parsed.figures.get("ops", 0.0)
            each = ops / moved if moved else 0.0  # all I/Os of a phase have one size
            if len(log.moved_bytes) > 1:  # a single worker's rate is the node's
                rates_of = {worker: bytes_ / log.covered_s for worker, bytes_ in log.moved_bytes.items()}
                workers += [NodeRate(host, worker, rate, rate * each) for worker, rate in rates_of.items()]
    return replace(evidence, series=every, node_rates=[*rates, *workers])


def _log(parsed: Parsed, logs: bytes, step: Step, host: str) -> Log | None:
    """The logs of a node; None where there are none. Raises Unreadable, also where they are not of this run."""
    runtime_s, moved = parsed.figures.get("runtime_s"), parsed.evidence.transferred_bytes or 0
    if not logs or not runtime_s or step.time_s is None:
        return None
    log = series.read(logs, step.time_s, runtime_s, moved, host)
    if log is None:
        return None
    if len(log.moved_bytes) != (workers := step.number("threads_per_node")):
        raise Unreadable(f"{len(log.moved_bytes)} of {workers} workers have one")
    logged = sum(log.moved_bytes.values())
    rest = max(log.node.values) * (max(0.0, runtime_s - log.covered_s) + log.node.interval_s)
    if logged > (1 + _MORE) * moved or logged + rest < (1 - _LESS) * moved:
        raise Unreadable(f"they add up to {human_size(round(logged))}, and fio moved {human_size(moved)}")
    return log
