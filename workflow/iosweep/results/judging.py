"""The stored repetitions of a point, parsed and judged: all that its rows have of it alone. `rows` compares them with
each other and with those of other points."""

from __future__ import annotations

import shlex
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from iosweep.histogram import Histogram
from iosweep.node.cpu_record import CpuRecord
from iosweep.own_rate import OwnRate
from iosweep.plan.model import Plan, Point
from iosweep.results import parts, repeated, series, table_values, verdict
from iosweep.results.checks import caches
from iosweep.results.checks.finding import Seen
from iosweep.results.committed import Result
from iosweep.results.origins import Origins, cpu_list, masks
from iosweep.results.record import Record
from iosweep.results.remaining import measures
from iosweep.results.repeated import Row, Values
from iosweep.results.store import Store
from iosweep.series import Series
from iosweep.target.filesystem import volume
from iosweep.tools import Parsed, tools

#: What becomes of a repetition without a result: the next run measures it, a ramp does not need it, or it lacks
#: something.
State = Literal["left", "unneeded", ""]

#: What a record or raw output with the right types but foreign content may raise.
_STRANGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError, RecursionError),
    *(struct.error, zlib.error),
)


class Aside(NamedTuple):
    """What the companion tables have of a row: `key` is its point, repetition, attempt and phase."""

    key: tuple[str, int, int, str]
    series: Sequence[Series]
    parts: Sequence[OwnRate]
    latencies: Histogram | None


class Repetition(NamedTuple):
    """A stored repetition, and the number of its rows; none for one that does not count."""

    result: Result
    counts: bool
    rows: int


@dataclass(frozen=True)
class Judged:
    """A point's repetitions in order. rows: of those that count, with the findings of all checks but `precise`;
    damaged, replaced: as in Store, of this point; aside: names of its files that were set aside."""

    point: Point
    repetitions: Sequence[Repetition]
    rows: Sequence[Row]
    asides: Sequence[Aside]
    origins: Origins
    damaged: Mapping[str, str]
    replaced: Mapping[str, str]
    aside: Sequence[str]

    @property
    def clean(self) -> bool:
        """Whether nothing of it is damaged."""
        return not self.damaged and not self.replaced


class Judge:
    """Parses and judges what is stored. memory: key of a node's facts -> bytes of its memory."""

    def __init__(self, plan: Plan, results: Path, memory: Mapping[str, int | None]):
        self._plan, self._results, self._memory = plan, results, memory
        self._store = Store(results)

    def point(self, point: Point) -> Judged:
        """A point as it is stored now."""
        self._store = Store(self._results)  # its notes are those of this point
        base = base_values(self._plan, point)
        found = self.found(point)
        counted = self.counted(found)
        origins = Origins()
        repetitions: list[Repetition] = []
        rows: list[Row] = []
        asides: list[Aside] = []
        for result, record in found:
            counts = result.repetition in counted
            own = self._measured(point, result, record, base, origins) if counts else []
            repetitions.append(Repetition(result, counts, len(own)))
            rows += [row for row, _ in own]
            asides += [aside for _, aside in own if aside]
        aside = [path.rpartition("/")[2] for path in self._store.set_aside()]
        return Judged(point, repetitions, rows, asides, origins, self._store.damaged, self._store.replaced, aside)

    def found(self, point: Point) -> list[tuple[Result, Record]]:
        """The stored repetitions that the plan has numbers for."""
        return [found for found in self._store.records_of(point.id) if found[0].repetition <= point.repetitions.last]

    def counted(self, found: Sequence[tuple[Result, Record]]) -> dict[int, Result]:
        """repetition -> result, of those on the plan's target that were measured as the newest one was."""
        measured_with = [_measured_with(result, record) for result, record in found]
        newest = max(measured_with, default=())[1:]
        return {
            result.repetition: result
            for (result, _), own in zip(found, measured_with, strict=True)
            if own[1:] == newest and measures(result.target, self._plan)
        }

    def _measured(
        self, point: Point, result: Result, record: Record, base: Values, origins: Origins
    ) -> list[tuple[Row, Aside | None]]:
        """The rows of a repetition; missing ones where its raw output is damaged or cannot be judged. None where its
        archive is not there as it was committed: `rows` knows what becomes of it."""
        raw = f"points/{point.id}/{result.raw.name}"
        made: list[tuple[Row, Aside | None]]
        try:
            printed = self._store.printed(result)
            if printed is None:
                why = f"{raw_is_damaged(point, result)}; `iosweep rerun {point.id}` measures it again"
                missed = missing(point, base, result.repetition, why, state="") if result.intact else ()
                made = [(row, None) for row in missed]
            else:
                made = [*self._judged(point, record, printed, base | _of_record(point, result, record, raw))]
            origins.add(point, record)
        except _STRANGE as error:  # received from others, or a fault of ours: the other rows are still written
            self._store.damaged[str(self._results / raw)] = f"it cannot be judged: {type(error).__name__} {error}"
            why = f"{raw} and its result cannot be judged: {type(error).__name__} {error}"
            made = [(row, None) for row in missing(point, base, result.repetition, why, state="")]
        return made

    def _judged(
        self, point: Point, record: Record, printed: Mapping[str, Mapping[str, bytes]], shared: Values
    ) -> Iterator[tuple[Row, Aside]]:
        """A row for each phase of a repetition, parsed and judged again. `shared`: what these rows have in common."""
        tool = tools()[point.tool]
        steps = {phase.name: (step, phase) for step in point.steps() for phase in step.phases}
        memory_bytes = {host: self._memory.get(key) for host, key in record.facts_of.items()}
        fstype, mount = record.target.fstype, record.target.mount
        shortest_s = self._plan.shortest_steady_s(point)
        hosts = record.hosts or (record.host,)
        for run in record.phases:
            step, phase = steps[run.phase]
            streams = printed.get(step.name)
            parsed = (
                Parsed() if streams is None else series.with_nodes(tool.parse(streams, step, phase), streams, hosts)
            )
            seen = Seen(point, phase, run, parsed, self._plan.target, memory_bytes, fstype, mount, shortest_s)
            findings = verdict.judge(seen)
            values = shared.copy()
            values.update(table_values.bounded(parsed.figures))
            values["label"] = parsed.label
            values["passes"] = caches.passes(seen)
            values.update(table_values.bounded(parts.columns(parsed.evidence)))
            values.update(_unused(point.tool, phase.name, tuple(point.options)))
            values |= {
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
            key = (point.id, record.repetition, record.attempt, phase.name)
            own_rates = series.kept_rates(parsed.evidence.own_rates)
            for rate in own_rates:
                table_values.bounded(vars(rate))
            aside = Aside(key, series.kept(parsed.evidence.series), own_rates, parsed.evidence.latencies)
            row = Row(values, findings)
            repeated.count(row)
            yield row, aside


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
