"""Judges what is stored: raw output, record and facts of the nodes -> rows with verdict, reasons and evidence.

`judge_phase` is the one way from raw output to findings, for the runner and for the tables. `Judge` makes the rows of a
point of it. What only all repetitions show together (`precise`) is added by `compare_row`.
"""

from __future__ import annotations

import shlex
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from iosweep.details import Histogram, NodeRate, Series
from iosweep.judge import node_rates, precision, series, statistics
from iosweep.judge.checks import CHECKS, OF_A_ROW, caches
from iosweep.judge.checks.files import data_complete, no_holes
from iosweep.judge.checks.finding import NOT_APPLICABLE, Check, Finding, Seen
from iosweep.judge.checks.output import exit_status
from iosweep.judge.checks.repetitions import precise
from iosweep.judge.origins import Origins, cpu_list, masks
from iosweep.judge.precision import COUNTED, Headline
from iosweep.judge.reasons import REASONS, chained
from iosweep.judge.remaining import measures
from iosweep.judge.statistics import Interval
from iosweep.node import monitor
from iosweep.node.pinning import CpuRecord
from iosweep.plan.model import Plan, Point
from iosweep.store.committed import Result
from iosweep.store.record import PhaseRun, Record, Target
from iosweep.store.store import Store
from iosweep.target.identify import volume
from iosweep.tools import Parsed, Phase, Step, Streams, tools

Verdict = Literal["valid", "suspect", "invalid", "missing"]
#: What becomes of a repetition without a result: the next run measures it, a ramp does not need it, or it lacks
#: something.
State = Literal["left", "unneeded", ""]
Values = dict[str, object]

#: What a record or raw output with the right types but foreign content may raise.
_STRANGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError, RecursionError),
    *(struct.error, zlib.error, zipfile.BadZipFile),
)
#: Integers of the tables have 64 bits, and the square of a float has to be finite.
_MOST = float(1 << 63)


class Row(NamedTuple):
    """A row of the result table: column -> value, and the findings of OF_A_ROW in order (without the last one until
    repetitions are compared; none where nothing was measured)."""

    values: Values
    findings: list[Finding]


class Beside(NamedTuple):
    """What the companion tables have of a row. key: its point, repetition, attempt and phase."""

    key: tuple[str, int, int, str]
    series: Sequence[Series]
    own_rates: Sequence[NodeRate]
    latencies: Histogram | None


# A phase


def judge_phase(
    plan: Plan,
    point: Point,
    step: Step,
    phase: Phase,
    run: PhaseRun,
    streams: Streams,
    target: Target,
    memory_bytes: Mapping[str, int | None],
    hosts: Sequence[str],
    version: str = "",
) -> tuple[Seen, list[Finding]]:
    """What a phase printed, parsed, and the findings of CHECKS on it. Pure.

    memory_bytes: host -> its memory; hosts: the nodes that ran it, in order; version: of `Seen`.
    """
    tool = tools()[point.tool]
    parsed = _with_nodes(tool.parse(streams, step, phase), streams, hosts) if streams else Parsed()
    shortest_s = plan.shortest_steady_s(point)
    seen = Seen(point, phase, run, parsed, plan.target, memory_bytes, target.fstype, target.mount, shortest_s, version)
    return seen, [finding for _, finding in judge(seen)]


def _with_nodes(parsed: Parsed, streams: Mapping[str, bytes], hosts: Sequence[str]) -> Parsed:
    """What a tool printed, with the series of its nodes beside the tool's own, and the own rates of ranks and nodes.

    hosts: the nodes of the run, in their order.
    """
    stream, lost = streams.get("monitor", b""), parsed.evidence.lost
    if not monitor.is_whole(stream):
        lost = "; ".join(filter(None, (lost, "what the nodes counted is damaged")))
    found = [*parsed.evidence.series, *monitor.series(stream)]
    own_rates = node_rates.rates_of_run(parsed, streams, hosts)
    return replace(parsed, evidence=replace(parsed.evidence, series=found, own_rates=own_rates, lost=lost))


def judge(seen: Seen) -> list[tuple[Check, Finding]]:
    """The findings of CHECKS on one row, in order.

    For a phase that was not run only those apply that explain why: the checks of its files, or `exit_status`.
    """
    if seen.run.not_run:
        explain = (data_complete, no_holes) if seen.run.files.wrong else (exit_status,)
        return [(c, c.look(seen) if c.look in explain else NOT_APPLICABLE) for c in CHECKS]
    return [(c, c.look(seen)) for c in CHECKS]


def verdict(findings: Iterable[tuple[Check, Finding]]) -> tuple[Verdict, list[str]]:
    """The verdict of a row and its reasons: those that make it invalid first, a cause before its consequences."""
    fails = [(c, f) for c, f in findings if f.outcome == "fail"]
    fails.sort(key=lambda fail: fail[0].severity != "invalid")
    reasons = chained([(c.name, f.evidence) for c, f in fails])
    if any(c.severity == "invalid" for c, _ in fails):
        return "invalid", reasons
    return ("suspect" if fails else "valid"), reasons


def retry(findings: Iterable[Finding]) -> str | None:
    """The finding because of which another try may help, or None."""
    return next((f.evidence for f in findings if f.outcome == "fail" and f.curable), None)


# The repetitions of a point


class Repetition(NamedTuple):
    """A stored repetition and its rows; None where it does not count, none where its archive is not there."""

    result: Result
    rows: Sequence[Row] | None


@dataclass(frozen=True)
class JudgedPoint:
    """A point's stored repetitions in order. beside: what the companion tables have of their rows; damaged: as
    in Store, of this point."""

    point: Point
    repetitions: Sequence[Repetition]
    beside: Sequence[Beside]
    origins: Origins
    damaged: Mapping[str, str]

    @property
    def intact(self) -> dict[int, Result]:
        """The repetitions that decide what is left; the others are measured again."""
        return {one.result.repetition: one.result for one in self.repetitions if one.rows and one.result.intact}


class Judge:
    """Parses and judges what is stored. memory: key of a node's facts -> bytes of its memory."""

    def __init__(self, plan: Plan, results: Path, memory: Mapping[str, int | None]):
        self._plan, self._results, self._memory = plan, results, memory
        self._store = Store(results)

    def point(self, point: Point) -> JudgedPoint:
        """A point as it is stored now."""
        self._store = Store(self._results)  # its notes are those of this point
        base = base_values(self._plan, point)
        found = self._found(point)
        counted = self._counted(found)
        origins = Origins()
        repetitions: list[Repetition] = []
        beside: list[Beside] = []
        for result, record in found:
            rows = None
            if result.repetition in counted:
                rows = self._measured(point, result, record, base, origins, beside)
            repetitions.append(Repetition(result, rows))
        return JudgedPoint(point, repetitions, beside, origins, self._store.damaged)

    def intact(self, point: Point) -> dict[int, Result]:
        """`JudgedPoint.intact` of a point, for which nothing is judged."""
        return {number: one for number, one in self._counted(self._found(point)).items() if one.intact}

    def _found(self, point: Point) -> list[tuple[Result, Record]]:
        """The stored repetitions that the plan has numbers for."""
        return [found for found in self._store.records_of(point.id) if found[0].repetition <= point.repetitions.last]

    def _counted(self, found: Sequence[tuple[Result, Record]]) -> dict[int, Result]:
        """repetition -> result, of those on the plan's target that were measured as the newest one was."""
        measured_with = [_measured_with(result, record) for result, record in found]
        newest = max(measured_with, default=())[1:]
        return {
            result.repetition: result
            for (result, _), own in zip(found, measured_with, strict=True)
            if own[1:] == newest and measures(result.target, self._plan)
        }

    def _measured(
        self, point: Point, result: Result, record: Record, base: Values, origins: Origins, beside: list[Beside]
    ) -> list[Row]:
        """The rows of a repetition; missing ones where its raw output is damaged or cannot be judged. None where its
        archive is not there as it was committed, or was set aside as damaged: merge knows what becomes of it."""
        raw = f"points/{point.id}/{result.raw.name}"
        try:
            printed = self._store.printed(result)
            if printed is None:
                rows: list[Row] = []
                if result.intact and not self._store.set_aside(result):
                    why = f"{raw_is_damaged(point, result)}; `iosweep rerun {point.id}` measures it again"
                    rows = [*missing(point, base, result.repetition, why, state="")]
            else:
                judged = [*self._judged(point, record, printed, base | _of_record(point, result, record, raw))]
                rows = [row for row, _ in judged]
                beside += [own for _, own in judged]
            origins.add(point, record)
            return rows
        except _STRANGE as error:  # received from others, or a fault of ours: the other rows are still written
            self._store.damaged[str(self._results / raw)] = f"it cannot be judged: {type(error).__name__} {error}"
            why = f"{raw} and its result cannot be judged: {type(error).__name__} {error}"
            return [*missing(point, base, result.repetition, why, state="")]

    def _judged(
        self, point: Point, record: Record, printed: Mapping[str, Streams], shared: Values
    ) -> Iterator[tuple[Row, Beside]]:
        """A row for each phase of a repetition. shared: what these rows have in common."""
        steps = {phase.name: (step, phase) for step in point.steps() for phase in step.phases}
        memory_bytes = {host: self._memory.get(key) for host, key in record.facts_of.items()}
        hosts = record.hosts or (record.host,)
        for run in record.phases:
            step, phase = steps[run.phase]
            streams = printed.get(step.name, {})
            seen, findings = judge_phase(
                self._plan, point, step, phase, run, streams, record.target, memory_bytes, hosts, record.tool.version
            )
            evidence = seen.parsed.evidence
            values = {
                **shared,
                **_bounded(seen.parsed.figures),
                "label": seen.parsed.label,
                "passes": caches.passes(seen),
                **_bounded(node_rates.columns(evidence)),
                **_unused(point.tool, phase.name, tuple(point.options)),
                "phase": phase.name,
                "kind": phase.kind,
                "metric": phase.metric,
                "wall_s": run.wall_s,
                "settled_s": run.settled_s,
                "started": run.started,
                "ran_on": _ran_on(run.ran_on),
                **_cpus(run.cpus, record.host),
                "command": " ".join(map(_quote, run.argv)),
            }
            row = Row(values, findings)
            _count(row)
            key = (point.id, record.repetition, record.attempt, phase.name)
            own_rates = series.kept_rates(evidence.own_rates)
            yield row, Beside(key, series.kept(evidence.series), own_rates, evidence.latencies)


def _bounded(figures: Mapping[str, object]) -> Mapping[str, object]:
    """The same figures. Raises ValueError for one that no column can hold."""
    for name, value in figures.items():
        if isinstance(value, int | float) and not -_MOST <= value < _MOST:  # also what is not a number
            raise ValueError(f"{name} is {value:g}")
    return figures


def missing(point: Point, base: Values, repetition: int | None, reason: str, state: State) -> Iterator[Row]:
    """Rows without figures, one per phase. `state`: what becomes of them."""
    for phase in point.measured():
        values = base | {
            "repetition": repetition,
            "phase": phase.name,
            "kind": phase.kind,
            "metric": phase.metric,
            "verdict": "missing",
            "reasons": reason,
            "left": state == "left",
            "unneeded": state == "unneeded",
            "confirms": repetition is not None and point.repetitions.confirms(repetition),
            "checks_passed": 0,
            "checks_failed": 0,
            "checks_not_checked": 0,
        }
        yield Row(values | _unused(point.tool, phase.name, tuple(point.options)), [])


def raw_is_damaged(point: Point, result: Result) -> str:
    """What its rows say where its archive is."""
    return f"the stored raw output is damaged: points/{point.id}/{result.raw.name}"


def _measured_with(result: Result, record: Record) -> tuple[datetime, str, str, str, str]:
    """(when, build, directory, file system, how ranks were bound)"""
    target = result.target
    return record.started, result.tool_sha256, target.directory, volume(target.facts), result.bound or ""


def base_values(plan: Plan, point: Point) -> Values:
    """The values that all rows of a point share."""
    options = tools()[point.tool].options
    return {
        "campaign": plan.campaign,
        "sweeps": ",".join(point.sweeps),
        "point": point.id,
        "tool": point.tool,
        "nodes": point.nodes,
        "phase_time_s": point.phase_time_s,
        "target_directory": absolute(plan.target.directory),
        "left": False,
        "unneeded": False,
        **{options[name].column: value for name, value in point.options.items() if name in options},
    }


@cache
def absolute(directory: str) -> str:
    return str(Path(directory).absolute())


def _of_record(point: Point, result: Result, record: Record, raw: str) -> Values:
    """The values that all rows of a repetition share. `raw`: path of its archive."""
    target, (hosts, job) = record.target, result.ran
    return {
        "repetition": result.repetition,
        "attempt": result.attempt,
        "session": record.session,
        "confirms": point.repetitions.confirms(result.repetition),
        "host": record.host,
        "hosts": hosts,
        "node": record.node,
        "slurm_job": job,
        "tool_version": record.tool.version,
        "tool_sha256": record.tool.sha256,
        "build": record.build,
        "target_source": target.source,
        "target_fstype": target.fstype,
        "target_layout": target.layout_is,
        "raw_sha256": record.raw.sha256,
        "raw": raw,
    }


def _ran_on(seen: Mapping[str, int]) -> str | None:
    return ",".join(f"{host}:{count}" for host, count in seen.items()) or None


def _cpus(seen: CpuRecord | None, host: str) -> Values:
    """The values of a phase's CPUs; `host` is the first node."""
    if not seen:
        return {}
    first = next((own for own in seen.nodes if host in own.hosts), None)
    return {
        "pinning": seen.pinning,
        "placement": seen.placement if seen.planned else None,
        "cpus": cpu_list(masks(first)) if first else None,
        "reserved_cpus": first.reserved if first else None,
        "cpu_looks": min((own.looks for own in seen.nodes), default=None),
    }


#: Most arguments occur in many commands.
_quote = lru_cache(10_000)(shlex.quote)


@cache
def _unused(tool: str, phase: str, names: tuple[str, ...]) -> Values:
    """Nulls for those of the point's options that the phase does not use."""
    options = tools()[tool].options
    return {
        options[name].column: None
        for name in names
        if (phases := options[name].phases) is not None and phase not in phases
    }


# Repetitions together


class Agreement(NamedTuple):
    """How far the repetitions of a point's phase agree."""

    finding: Finding
    interval: Interval | None


#: (point, phase, whether they confirm a best point) -> the agreement of these repetitions.
Agreements = Mapping[tuple[object, object, object], Agreement]


#: Times of fio and IOR that no two runs have alike.
_TIMES = ("latency_mean_s", "open_s", "io_s", "close_s")


def headline(row: Row) -> Headline | None:
    """None where the row does not count."""
    values = row.values
    if values["verdict"] not in COUNTED:
        return None
    figure, nodes = values.get(str(values["metric"])), values.get("nodes")  # None: an output of others does not tell
    return Headline(
        str(values["point"]),
        str(values["phase"]),
        bool(values.get("confirms")),
        (str(values["tool"]), nodes if isinstance(nodes, int) else 1),
        figure if isinstance(figure, float | int) else None,
        (_text(values, "hosts"), _text(values, "slurm_job")),
        tuple(values.get(name) for name in _TIMES),
    )


def agreements(headlines: Iterable[Headline | None]) -> Agreements:
    """How far the repetitions of an allocation's points agree."""
    samples = precision.samples(one for one in headlines if one)
    intervals = precision.intervals([*samples.values()])
    return {
        key: Agreement(precise(sample, interval), interval if len(sample.values) >= statistics.ENOUGH else None)
        for (key, sample), interval in zip(samples.items(), intervals, strict=True)
    }


def compare_row(row: Row, found: Agreements) -> None:
    """Add to a measured row the finding of `precise`, its columns, and what it makes of the verdict."""
    agreement = found.get((row.values["point"], row.values["phase"], bool(row.values.get("confirms"))))
    if agreement is None or row.values["verdict"] not in COUNTED:
        agreement = Agreement(NOT_APPLICABLE, None)
    row.findings.append(agreement.finding)
    if agreement.interval:
        row.values["precision_grade"] = statistics.grade(agreement.interval)
        row.values["ci95_half_width_share"] = agreement.interval.half_width_share
    _count(row)


def _text(values: Values, column: str) -> str | None:
    value = values.get(column)
    return None if value is None else str(value)


def _count(row: Row) -> None:
    """The verdict of a row and the number of its checks by outcome."""
    outcome, reasons = verdict(zip(OF_A_ROW, row.findings, strict=False))
    outcomes = [finding.outcome for finding in row.findings]
    row.values.update(
        {
            "verdict": outcome,
            "reasons": REASONS.join(reasons),
            "checks_passed": outcomes.count("pass"),
            "checks_failed": outcomes.count("fail"),
            "checks_not_checked": outcomes.count("not checked"),
        }
    )
