"""Estimates the remaining time: the forecast, as much slower as the newest repetitions were. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from iosweep.plan.forecast import PREPARE_BANDWIDTH, data_sets, each
from iosweep.plan.model import Plan, Point
from iosweep.store.campaign_documents import DataSet
from iosweep.store.record import Judged

#: Number of newest repetitions of a kind that count: a system may change within hours.
NEWEST = 30


class Ran(NamedTuple):
    """When a repetition ended, in seconds since the epoch, and how long its commands took."""

    point: str
    ended: float
    took_s: float


def ran(judged: Judged) -> Ran:
    """The times of a stored repetition; phases of one command have the same."""
    commands = {(row.started, row.values.get("wall_s")) for row in judged.rows}
    return Ran(judged.point, judged.ended.timestamp(), sum(float(wall_s or 0) for _, wall_s in commands))


def pace(plan: Plan, runs: Iterable[Ran]) -> dict[object, float]:
    """kind -> how many times as long as forecast its newest repetitions took. `runs`: in order."""
    points = {point.id: point for point in plan.points}
    times: dict[object, list[tuple[float, float]]] = {}
    for run in runs:
        if point := points.get(run.point):
            times.setdefault(_kind(point), []).append((run.took_s, each(plan, point).cost.time_s))
    newest = {kind: [sum(column) for column in zip(*found[-NEWEST:], strict=True)] for kind, found in times.items()}
    return {kind: took_s / forecast_s for kind, (took_s, forecast_s) in newest.items()}


def to_go_s(plan: Plan, paces: Mapping[object, float], left: Mapping[str, int], sets: Mapping[str, DataSet]) -> float:
    """Seconds that repetitions (point -> number) of one allocation will take, with the data sets that are not there."""
    points = [point for point in plan.points if left.get(point.id)]
    rate = set_rate(sets, plan.target.node_bandwidth)
    lacking = (
        files.size_bytes
        for directory, files in data_sets(points).items()
        if sets.get(set_name(directory), DataSet()).files < len(files.files)
    )
    times_s = (each(plan, p).cost.time_s * paces.get(_kind(p), 1.0) * left[p.id] for p in points)
    return sum(lacking) / rate + sum(times_s)


def set_rate(sets: Mapping[str, DataSet], node_bandwidth: int | None) -> float:
    """Write rate of data sets in bytes/s: that of the sets in the store, else the forecast's."""
    made_bytes = sum(s.files * (s.file_size_bytes or 0) for s in sets.values())
    made_s = sum(s.wall_s for s in sets.values())
    if made_bytes and made_s > 1:
        return made_bytes / made_s
    return min(node_bandwidth or PREPARE_BANDWIDTH, PREPARE_BANDWIDTH)


def set_name(directory: str) -> str:
    """Name of a data set's document. `directory`: where the set is, below the campaign's directory."""
    return directory.replace("/", ".")


def _kind(point: Point) -> object:
    """Points that are as much slower than forecast: the time of timed phases is known, that of others is assumed."""
    return point.tool, point.phase_time_s is not None
