"""Estimates the remaining time: the forecast, corrected by the times of finished repetitions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iosweep.plan.forecast import PREPARE_BANDWIDTH, START_UP_S, data_sets, repetition_cost
from iosweep.plan.model import Plan, Point
from iosweep.results.campaign_documents import DataSet
from iosweep.results.record import Record

#: Number of newest repetitions of a kind, and of one point, that count: a system may change within hours.
OF_A_KIND, OF_A_POINT = 30, 3
#: Seconds between two repetitions after which the second one belongs to another run.
_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Ran:
    """When a repetition began and ended, in seconds since the epoch.

    prepared_s: seconds of it spent on data sets; by: host and job that measured.
    """

    point: str
    began: float
    ended: float
    prepared_s: float = 0.0
    by: str = ""


def ran(point: Point, record: Record, sets: Mapping[str, DataSet]) -> Ran:
    """The times of a stored repetition. `sets`: the data sets of the store."""
    began, ended = record.started.timestamp(), record.ended.timestamp()
    runs = {run.phase: run for run in record.phases}
    prepared_s, at = 0.0, began
    for step, files in zip(point.steps(), point.file_sets(), strict=True):
        if (run := runs.get(step.name)) is None:
            break
        took_s = sets.get(set_name(files.directory), _NONE).wall_s
        start = run.started.timestamp()
        if start - at >= took_s:  # long enough: the set was prepared here
            prepared_s += took_s
        at = start + run.wall_s
    return Ran(point.id, began, ended, prepared_s, f"{record.host} {record.slurm.job if record.slurm else ''}")


class Pace:
    """Seconds that repetitions of a plan's points take.

    A point that has been measured takes as long again. For others, points of the same kind decide: timed phases exceed
    the forecast by the same number of seconds, phases with a fixed count or volume by the same factor.
    """

    def __init__(self, plan: Plan):
        bandwidth, settle = plan.target.node_bandwidth, plan.target.settle
        self._points = {p.id: p for p in plan.points}
        self._fixed_s: dict[str, float] = {}
        self._work_s: dict[str, float] = {}
        for point in plan.points:
            cost_s = repetition_cost(point, bandwidth).time_s
            self._fixed_s[point.id] = cost_s if _timed(point) else START_UP_S * len(point.steps())
            self._work_s[point.id] = cost_s - self._fixed_s[point.id]
            if any(files.role == "fresh" for files in point.file_sets()):
                self._fixed_s[point.id] += settle
        self._bandwidth = bandwidth

    def learn(self, runs: Iterable[Ran]) -> None:
        """Learn from these repetitions, and from no earlier ones."""
        self._own: dict[str, list[float]] = {}
        kinds: dict[object, list[tuple[float, float]]] = {}  # work, and seconds beyond the fixed ones
        last = None
        for run in sorted((run for run in runs if run.point in self._points), key=lambda run: run.ended):
            # cleaning up after the repetition before counts as well
            pause = run.began - last.ended if last and last.by == run.by else 0.0
            took_s = max(0.0, run.ended - run.began - run.prepared_s + (pause if 0 < pause < _PAUSE_S else 0.0))
            self._own.setdefault(run.point, []).append(took_s)
            for kind in _kinds(self._points[run.point]):
                kinds.setdefault(kind, []).append((self._work_s[run.point], took_s - self._fixed_s[run.point]))
            last = run
        self._more_s: dict[object, float] = {}
        self._times: dict[object, float] = {}
        for kind, found in kinds.items():
            works, beyond = zip(*found[-OF_A_KIND:], strict=True)
            if sum(works):
                self._times[kind] = max(0.0, sum(beyond)) / sum(works)
            else:
                self._more_s[kind] = sum(beyond) / len(beyond)

    def repetition_s(self, point: str) -> float:
        """Seconds that one repetition of a point will take."""
        if own := self._own.get(point):
            return sum(own[-OF_A_POINT:]) / len(own[-OF_A_POINT:])
        fixed_s, kinds = self._fixed_s[point], _kinds(self._points[point])
        more_s = next((self._more_s[kind] for kind in kinds if kind in self._more_s), 0.0)
        times = next((self._times[kind] for kind in kinds if kind in self._times), 1.0)
        return max(fixed_s / 2, fixed_s + more_s) + times * self._work_s[point]

    def to_go_s(self, left: Mapping[str, int], sets: Mapping[str, DataSet]) -> float:
        """Seconds that repetitions (point -> number) of one allocation will take, including missing data sets."""
        wanted = data_sets([self._points[point] for point in left])
        lacking = (
            files.size_bytes
            for directory, files in wanted.items()
            if sets.get(set_name(directory), _NONE).files < len(files.files)
        )
        prepare_s = sum(lacking) / set_rate(sets, self._bandwidth)
        return prepare_s + sum(self.repetition_s(p) * n for p, n in left.items())


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


#: Of a data set that was not prepared.
_NONE = DataSet()


def _timed(point: Point) -> bool:
    return point.phase_time_s is not None


def _kinds(point: Point) -> tuple[object, object]:
    """Kinds of a point, the more specific one first."""
    return (point.tool, point.phases, point.phase_time_s, point.nodes), _timed(point)
