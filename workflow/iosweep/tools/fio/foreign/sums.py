"""Reports of one run of fio that are parts of one measurement, added up: workers without group_reporting, jobs of one
group with the same options, and clients.

Counts and rates are sums. Latencies are those of all I/Os together: percentiles from the histograms that json+ prints,
added up bin by bin; without these there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iosweep.text import human_count
from iosweep.tools import Parsed
from iosweep.tools.fio import several_nodes
from iosweep.tools.fio.foreign.rows import SAME_WINDOW, Row
from iosweep.tools.fio.json_records import UNREADABLE, Direction
from iosweep.tools.fio.options import PHASES
from iosweep.tools.reading import Cell, Job, Sum

#: Columns that tell one worker or client from another, or belong to one of them.
_OF_ONE = ("label", "host", "nodes", "threads_per_node", "tasks", "started", "ended_local", "command")
#: Figures that are whole numbers.
_COUNTS = ("ops", "bytes_read", "bytes_written")


@dataclass(frozen=True)
class Report:
    """A report, and where it is: `index` of its row; `group`: fio's number, whose jobs run at the same time.
    `directions`: with their latencies, none of a text; None where the row has no figures."""

    index: int
    group: int
    host: str
    row: Row
    directions: Mapping[str, Direction] | None
    job: Job | None = None


def sums(reports: Sequence[Report]) -> list[Sum]:
    """One row for each set of reports that did the same at the same time.

    One without figures belongs to the first set of its group that has its name: it may not be missed silently. Without
    such a set, those that were to do the same are one.
    """
    alike: dict[tuple[object, ...], list[Report]] = {}
    named: dict[tuple[int, object], list[Report]] = {}
    for report in reports:
        if report.directions is not None:
            own = alike.setdefault((report.group, _asked(report.row)), [])
            own.append(report)
            named.setdefault((report.group, report.row.get("label")), own)
    for report in reports:
        if report.directions is None:
            own = named.get((report.group, report.row.get("label")), [])
            if not own and "phase" in report.row:
                own = alike.setdefault((report.group, "no figures", _asked(report.row)), [])
            own.append(report)
    return [_sum(ones) for ones in alike.values() if len(ones) > 1]


def _asked(row: Row) -> tuple[tuple[str, Cell], ...]:
    """What tells one workload from another: the columns of its parameters."""
    found = [(name, value) for name, value in row.items() if name == "phase_time_s" or not isinstance(value, float)]
    return tuple(sorted((name, value) for name, value in found if name not in (*_OF_ONE, *_COUNTS)))


def _sum(reports: Sequence[Report]) -> Sum:
    parts = tuple(report.index for report in reports)
    shared = dict(_asked(reports[0].row))
    hosts = list(dict.fromkeys(report.host for report in reports if report.host))
    labels = list(dict.fromkeys(str(report.row["label"]) for report in reports))
    own: Row = {"label": labels[0] if len(labels) == 1 else human_count(len(labels), "job")}
    own |= {"nodes": len(hosts) or 1}
    own |= {"host": hosts[0], "hosts": ",".join(hosts)} if hosts else {}
    for column, pick in (("started", min), ("ended_local", max)):
        if dates := [str(report.row[column]) for report in reports if column in report.row]:
            own[column] = pick(dates)
    tasks = [value for report in reports if isinstance(value := report.row.get("tasks"), int)]
    if len(tasks) == len(reports):
        own["tasks"] = sum(tasks)
        if not sum(tasks) % (len(hosts) or 1):
            own["threads_per_node"] = sum(tasks) // (len(hosts) or 1)
    doubts: list[str] = []
    figures = _figures(reports, shared, doubts)
    return Sum({**shared, **own, **figures}, parts, tuple(doubts), _job(reports))


def _job(reports: Sequence[Report]) -> Job | None:
    """The jobs of all reports as one; None where one is not known."""
    jobs = [report.job for report in reports if report.job]
    options = sorted({option for job in jobs for option in job.options})
    return Job(tuple(options), all(job.whole for job in jobs)) if len(jobs) == len(reports) else None


def _figures(reports: Sequence[Report], shared: Row, doubts: list[str]) -> Mapping[str, float]:
    """The figures of all reports together; none where one has none, or they cannot be put together."""
    phase = PHASES.get(str(shared.get("phase")))
    if phase is None or any(report.directions is None for report in reports):
        return {}
    nodes = {
        str(report.index): (Parsed(figures=_numbers(report.row)), dict(report.directions or {})) for report in reports
    }
    runtimes = [float(report.row["runtime_s"]) for report in reports]
    if max(runtimes) - min(runtimes) > SAME_WINDOW * max(runtimes):
        doubts.append(
            f"the {len(reports)} reports ran for {min(runtimes):.2f} to {max(runtimes):.2f} s: their rates, which are"
            " added up, are not of the same time"
        )
    if not all(report.directions for report in reports):
        return several_nodes.added([_numbers(report.row) for report in reports])
    try:
        return several_nodes.together(nodes, {}, phase)
    except (*UNREADABLE, KeyError) as error:
        doubts.append(f"its reports cannot be put together: {error}")
        return {}


def _numbers(row: Row) -> dict[str, float]:
    return {
        name: value for name, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
