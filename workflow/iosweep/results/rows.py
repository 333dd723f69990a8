"""The rows of the result table: every repetition parsed and judged again, and a row for each that is missing."""

from __future__ import annotations

import re
import shlex
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from iosweep.node.cpu_record import CpuRecord
from iosweep.own_rate import OwnRate
from iosweep.plan.model import Plan, Point
from iosweep.results import parts, series, table_values, verdict
from iosweep.results.campaign_documents import Refusal
from iosweep.results.checks import caches
from iosweep.results.checks.finding import Check, Finding, Seen
from iosweep.results.columns import NOT_YET
from iosweep.results.committed import Result
from iosweep.results.origins import Origins, cpu_list, masks
from iosweep.results.reasons import REASONS
from iosweep.results.record import Record
from iosweep.results.remaining import measures, still_wanted
from iosweep.results.store import Store
from iosweep.series import Series
from iosweep.target.filesystem import volume
from iosweep.tools import Parsed, tools

Values = dict[str, object]

#: What a record or raw output with the right types but foreign content may raise.
_STRANGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError, RecursionError),
    *(struct.error, zlib.error),
)


class Row(NamedTuple):
    """A row of the result table: column -> value, the findings of all checks (none where nothing was measured), its
    series, and the rates of its nodes and workers."""

    values: Values
    findings: Sequence[tuple[Check, Finding]] = ()
    attempt: int | None = None
    series: Sequence[Series] = ()
    parts: Sequence[OwnRate] = ()


@dataclass(frozen=True)
class Rows:
    """The rows of a campaign's result table.

    memory: key of a node's facts -> bytes of its memory; origins: collects where the rows come from.
    """

    plan: Plan
    store: Store
    memory: Mapping[str, int | None]
    origins: Origins

    def __iter__(self) -> Iterator[Row]:
        refusals = self.store.documents(Refusal)
        for allocation in self.plan.allocations:
            refusal = refusals.get(allocation.name)
            for point in allocation.points:
                yield from self._point(point, refusal.reason if refusal else NOT_YET)

    def _point(self, point: Point, refusal: str) -> Iterator[Row]:
        """The rows of a point. One point is in memory at a time."""
        base = _base(self.plan, point)
        found = [f for f in self.store.records_of(point.id) if f[0].repetition <= point.repetitions.max]
        counted = self._counted(found)
        wanted = still_wanted(point, counted)
        lacks = self.store.missing_of(point.id) if wanted else None
        for result, record in found:
            if result.repetition in counted:
                yield from self._measured(point, result, record, base)
            else:  # a mean over two builds or two file systems would describe neither
                other = f"measured with another build of {point.tool}, on another target, or with another layout"
                left = result.repetition in wanted and not lacks
                yield from _missing(point, base, result.repetition, f"{other} or placement", left)
        if absent := sorted(set(wanted) - {result.repetition for result, _ in found}):
            damaged = _damaged(self.store, point.id)
            for number in absent if found or damaged else [None]:
                why = damaged.get(number or 0) or (lacks.reason if lacks else refusal)
                yield from _missing(point, base, number, why, not lacks)

    def _counted(self, found: Sequence[tuple[Result, Record]]) -> dict[int, Result]:
        """repetition -> result, of those on the plan's target that were measured as the newest one was."""
        measured_with = [_measured_with(result, record) for result, record in found]
        newest = max(measured_with, default=())[1:]
        return {
            result.repetition: result
            for (result, _), own in zip(found, measured_with, strict=True)
            if own[1:] == newest and measures(result.target, self.plan)
        }

    def _measured(self, point: Point, result: Result, record: Record, base: Values) -> list[Row]:
        """The rows of a repetition; missing ones where its raw output is damaged or cannot be judged."""
        raw = f"points/{point.id}/{result.raw.name}"
        try:
            printed = self.store.printed(result)
            if printed is None:
                again = f"`iosweep rerun {point.id}`" if result.intact else "the next run"
                why = f"the stored raw output is damaged: {raw}; {again} measures it again"
                made = list(_missing(point, base, result.repetition, why, left=not result.intact))
            else:
                made = list(self._judged(point, record, printed, base | _of_record(result, record, raw)))
            self.origins.add(point, record)
        except _STRANGE as error:  # received from others, or a fault of ours: the other rows are still written
            self.store.damaged[str(self.store.path / raw)] = f"it cannot be judged: {type(error).__name__} {error}"
            why = f"{raw} and its result cannot be judged: {type(error).__name__} {error}"
            made = list(_missing(point, base, result.repetition, why, left=False))
        return made

    def _judged(
        self, point: Point, record: Record, printed: Mapping[str, Mapping[str, bytes]], shared: Values
    ) -> Iterator[Row]:
        """A row for each phase of a repetition, parsed and judged again. `shared`: what these rows have in common."""
        tool = tools()[point.tool]
        steps = {phase.name: (step, phase) for step in point.steps() for phase in step.phases}
        memory_bytes = {host: self.memory.get(key) for host, key in record.facts_of.items()}
        fstype, mount = record.target.fstype, record.target.mount
        shortest_s = self.plan.shortest_steady_s(point)
        for run in record.phases:
            step, phase = steps[run.phase]
            streams = printed.get(step.name)
            parsed = Parsed() if streams is None else tool.parse(streams, step, phase)
            kept = series.of_row(parsed, streams or {})
            parsed = replace(parsed, evidence=replace(parsed.evidence, series=kept))
            seen = Seen(point, phase, run, parsed, self.plan.target, memory_bytes, fstype, mount, shortest_s)
            findings = verdict.judge(seen)
            outcome, reasons = verdict.verdict(findings)
            outcomes = [f.outcome for _, f in findings]
            values = shared.copy()
            values.update(table_values.bounded(parsed.figures))
            values["label"] = parsed.label
            values["passes"] = caches.passes(seen)
            values.update(parts.columns(parsed.evidence))
            values.update(_unused(point.tool, phase.name, tuple(point.options)))
            values |= {
                "phase": phase.name,
                "kind": phase.kind,
                "metric": phase.metric,
                "wall_s": run.wall_s,
                "settled_s": run.settled_s,
                "verdict": outcome,
                "reasons": REASONS.join(reasons),
                "checks_passed": outcomes.count("pass"),
                "checks_failed": outcomes.count("fail"),
                "checks_not_checked": outcomes.count("not checked"),
                "started": run.started,
                "ran_on": _ran_on(run.ran_on),
                **_cpus(run.cpus, record.host),
                "command": " ".join(map(_quote, run.argv)),
            }
            own = parsed.evidence.own_rates
            yield Row(values, findings, record.attempt, series.kept(kept), series.kept_rates(own))


def _missing(point: Point, base: Values, repetition: int | None, reason: str, left: bool) -> Iterator[Row]:
    """Rows without figures, one per phase. `left`: whether the next run measures them."""
    for phase in point.measured():
        values = base | {
            "repetition": repetition,
            "phase": phase.name,
            "kind": phase.kind,
            "metric": phase.metric,
            "verdict": "missing",
            "reasons": reason,
            "left": left,
            "checks_passed": 0,
            "checks_failed": 0,
            "checks_not_checked": 0,
        }
        yield Row(values | _unused(point.tool, phase.name, tuple(point.options)))


def _damaged(store: Store, point: str) -> dict[int, str]:
    """repetition -> why its result is damaged."""
    found = {}
    for path, reason in store.damaged.items():
        folder, _, name = path.rpartition("/")
        if folder == str(store.point(point)) and (match := re.match(r"r(\d+)-\d+\.json$", name)):
            found[int(match[1])] = f"its result points/{point}/{name} is damaged ({reason}), and is measured again"
    return found


def _measured_with(result: Result, record: Record) -> tuple[datetime, str, str, str, str]:
    """(when, build, directory, file system, how ranks were bound)"""
    target = result.target
    return record.started, result.tool_sha256, target.directory, volume(target.facts), result.bound or ""


def _base(plan: Plan, point: Point) -> Values:
    """The values that all rows of a point share."""
    options = tools()[point.tool].options
    return {
        "campaign": plan.campaign,
        "sweeps": ",".join(point.sweeps),
        "point": point.id,
        "tool": point.tool,
        "nodes": point.nodes,
        "phase_time_s": point.phase_time_s,
        "target_directory": _absolute(plan.target.directory),
        "left": False,
        **{options[name].column: value for name, value in point.options.items() if name in options},
    }


@cache
def _absolute(directory: str) -> str:
    return str(Path(directory).absolute())


def _of_record(result: Result, record: Record, raw: str) -> Values:
    """The values that all rows of a repetition share. `raw`: path of its archive."""
    target = record.target
    return {
        "repetition": result.repetition,
        "host": record.host,
        "hosts": ",".join(record.hosts or (record.host,)),
        "node": record.node,
        "slurm_job": record.slurm.job if record.slurm else None,
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
