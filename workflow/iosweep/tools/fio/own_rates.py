"""The series and the rates of each node and each worker of a run of fio, into its evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iosweep.own_rate import OwnRate
from iosweep.series import Series
from iosweep.tools import Evidence, Parsed, Step
from iosweep.tools.fio import series_log
from iosweep.tools.fio.series_log import Log, Unreadable
from iosweep.units import human_size

#: Shares of what fio moved by which its logs may add up to more, and to less, what came after the last entry aside. Of
#: 526 phases of 0.1 to 11 s the extremes were 11 % and 6 %.
_MORE, _LESS = 0.25, 0.15


def of_one(parsed: Parsed, logs: bytes, step: Step) -> Parsed:
    """What one node reported, with what its logs say."""
    try:
        log = _log(parsed, logs, step, "")
    except Unreadable as why:
        return replace(parsed, evidence=replace(parsed.evidence, lost=f"fio's logs are damaged: {why}"))
    if log is None:
        return parsed
    rates = _workers(log, parsed, "", 0.0)
    return replace(parsed, evidence=replace(parsed.evidence, series=_series(log), own_rates=rates))


def of_several(evidence: Evidence, logs: Sequence[bytes], step: Step) -> Evidence:
    """The evidence of several nodes, with each node's own rate, and what its logs say (none: there are no logs).

    Series begin when the first node's does. Where the logs of one node are damaged, those of the others are not used:
    their sum would not be that of all.
    """
    try:
        return _of_several(evidence, logs, step)
    except Unreadable as why:
        return replace(_of_several(evidence, (), step), lost=f"fio's logs are damaged: {why}")


def _of_several(evidence: Evidence, logs: Sequence[bytes], step: Step) -> Evidence:
    first_s = min((begin for begin, _ in evidence.windows.values()), default=0.0)
    series, rates = [], []
    for k, (host, parsed) in enumerate(evidence.each_node.items()):
        window = evidence.windows.get(host)
        began_s, ended_s = (window[0] - first_s, window[1] - first_s) if window else (None, None)
        figures = parsed.figures
        moved, ops, latency = map(figures.get, ("bandwidth_bytes_per_s", "ops_per_s", "latency_mean_s"))
        rates.append(OwnRate(host, None, moved, ops, latency, began_s, ended_s))
        log = _log(parsed, logs[k], step, host) if logs else None
        if log is not None:
            series += [replace(one, begin_s=began_s or 0.0) for one in _series(log)]
            rates += _workers(log, parsed, host, began_s)
    return replace(evidence, series=series, own_rates=rates)


def _log(parsed: Parsed, logs: bytes, step: Step, host: str) -> Log | None:
    """The logs of a node; None where there are none. Raises Unreadable, also where they are not of this run."""
    runtime_s, moved = parsed.figures.get("runtime_s"), parsed.evidence.transferred_bytes or 0
    if not logs or not runtime_s or step.time_s is None:
        return None
    on = f"on {host} " if host else ""
    try:
        log = series_log.read(logs, step.time_s, runtime_s, moved, host)
    except Unreadable as why:
        raise Unreadable(f"{on}{why}") from None
    if log is None:
        return None
    if len(log.workers) != (workers := step.number("threads_per_node")):
        raise Unreadable(f"{on}{len(log.workers)} of {workers} workers have one")
    logged = sum(log.moved_bytes)
    rest = max(log.node.values) * (max(0.0, runtime_s - log.covered_s) + log.node.interval_s)
    if logged > (1 + _MORE) * moved or logged + rest < (1 - _LESS) * moved:
        raise Unreadable(f"{on}they add up to {human_size(round(logged))}, and fio moved {human_size(moved)}")
    return log


def _series(log: Log) -> list[Series]:
    """Of the node first; a single worker's is the node's."""
    return [log.node, *(log.workers if len(log.workers) > 1 else ())]


def _workers(log: Log, parsed: Parsed, host: str, began_s: float | None) -> list[OwnRate]:
    """The workers' rates while fio logged; a single worker's is the node's."""
    if len(log.workers) < 2:
        return []
    moved, ops = parsed.evidence.transferred_bytes or 0, parsed.figures.get("ops", 0.0)
    each = ops / moved if moved else 0.0  # all I/Os of a phase have one size
    return [
        OwnRate(host, one.worker, bytes_ / log.covered_s, bytes_ * each / log.covered_s, None, began_s)
        for one, bytes_ in zip(log.workers, log.moved_bytes, strict=True)
    ]
