"""The series and the rates of each node and each worker of a run of fio, into its evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iosweep.own_rate import OwnRate
from iosweep.series import Series
from iosweep.tools import Evidence, Parsed, Step
from iosweep.tools.fio import series_log
from iosweep.tools.fio.series_log import Log


def of_one(parsed: Parsed, logs: bytes, step: Step) -> Parsed:
    """What one node reported, with what its logs say."""
    log = _log(parsed, logs, step, "")
    if log is None:
        return parsed
    rates = _workers(log, parsed, "", 0.0)
    return replace(parsed, evidence=replace(parsed.evidence, series=_series(log), own_rates=rates))


def of_several(evidence: Evidence, logs: Sequence[bytes], step: Step) -> Evidence:
    """The evidence of several nodes, with each node's own rate, and what its logs say (none: there are no logs).

    Series begin when the first node's does.
    """
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
    runtime_s = parsed.figures.get("runtime_s")
    if not logs or not runtime_s or step.time_s is None:
        return None
    return series_log.read(logs, step.time_s, runtime_s, parsed.evidence.transferred_bytes or 0, host)


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
