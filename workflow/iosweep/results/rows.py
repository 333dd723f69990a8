"""The rows of the result table: every repetition parsed and judged again, and a row for each that is missing."""

from __future__ import annotations

import pickle
import re
import shlex
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from iosweep.results.campaign_documents import Refusal
from iosweep.results.checks import CHECKS, caches
from iosweep.results.checks.finding import Finding, Seen
from iosweep.results.columns import NOT_YET
from iosweep.results.committed import Result
from iosweep.results.confirming import selection
from iosweep.results.origins import Origins, cpu_list, masks
from iosweep.results.precision import Headline
from iosweep.results.record import Record
from iosweep.results.remaining import Wanted, measures, still_wanted, wanted
from iosweep.results.repeated import Row, Values
from iosweep.results.store import Store
from iosweep.series import Series
from iosweep.target.filesystem import volume
from iosweep.tools import Parsed, tools
from iosweep.tools.axes import NODES

#: What becomes of a repetition without a result: the next run measures it, a ramp does not need it, or it lacks
#: something.
State = Literal["left", "unneeded", ""]

#: Why there is no result, and what becomes of it.
_Absent = tuple[str, State]

#: Of a plan in which no point depends on the results of others.
_NOTHING = Wanted({}, {}, {})

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


@dataclass(frozen=True)
class _Held:
    """A point while its allocation is read. rows: of each stored repetition, packed in a large allocation; none for one
    that does not count.

    headlines: of its measured rows, in order.
    """

    point: Point
    base: Values
    counted: Mapping[int, Result]
    rows: Mapping[int, bytes | Sequence[Row]]
    headlines: Sequence[Headline | None]


#: Repetitions of an allocation above which its rows are packed: that takes as long as a tenth of all else.
_MANY = 10_000


def _packed(rows: Sequence[Row]) -> bytes:
    """Rows in a third of the memory: an allocation may have 100,000."""
    return pickle.dumps([(row.values, [tuple(found) for _, found in row.findings]) for row in rows])


def _unpacked(packed: bytes | Sequence[Row]) -> Iterator[Row]:
    if not isinstance(packed, bytes):
        yield from packed
        return
    for values, findings in pickle.loads(packed):  # noqa: S301  our own, of a moment ago
        checks = CHECKS if findings else ()
        yield Row(values, [(check, Finding(*found)) for check, found in zip(checks, findings, strict=True)])


@dataclass(frozen=True)
class Rows:
    """The rows of a campaign's result table.

    memory: key of a node's facts -> bytes of its memory; origins: collects where the rows come from;
    aside: takes the series and own rates of rows, which are too many to be held.
    """

    plan: Plan
    store: Store
    memory: Mapping[str, int | None]
    origins: Origins
    aside: Callable[[Aside], None]

    def __iter__(self) -> Iterator[Row]:
        refusals, lacking = self.store.documents(Refusal), self.store.missing()
        ramps = {sweep.ramp for sweep in self.plan.sweeps if sweep.ramp}
        depends = ramps or any(point.repetitions.confirm for point in self.plan.points)
        counted: dict[str, Mapping[int, Result]] = {}
        if NODES.name in ramps:  # its steps are in several allocations
            counted = {point.id: _whole(self._counted(self._found(point))) for point in self.plan.points}
        for allocation in self.plan.allocations:
            # an allocation is in memory at a time: its points tell how much a phase scatters
            pack = sum(point.repetitions.last for point in allocation.points) > _MANY
            held = [self._held(point, pack) for point in allocation.points]
            agreements = repeated.agreements(one for point in held for one in point.headlines)
            counted |= {h.point.id: _whole(h.counted) for h in held}
            chose = {h.point.id: selection(h.point, counted[h.point.id]) for h in held}
            choosing = still_wanted(allocation, chose, allocation.points)
            needs = wanted(self.plan, counted, lacking) if depends else _NOTHING
            refusal = refusals.get(allocation.name)
            for h in held:
                fresh = [n for n in needs.now.get(h.point.id, ()) if h.point.repetitions.confirms(n)]
                lacks, unneeded = lacking.get(h.point.id), needs.unneeded.get(h.point.id)
                later: _Absent = (refusal.reason if refusal else NOT_YET, "left")
                chooses: _Absent = (unneeded, "unneeded") if unneeded else (lacks.reason, "") if lacks else later
                absent = dict.fromkeys(choosing.get(h.point.id, ()), chooses) | dict.fromkeys(fresh, later)
                for row in self._point(h, absent):
                    if row.findings:
                        repeated.judge(row, agreements)
                    yield row
            if not ramps:
                counted.clear()

    def _held(self, point: Point, pack: bool) -> _Held:
        base = _base(self.plan, point)
        found = self._found(point)
        counted = self._counted(found)
        rows = {
            result.repetition: self._measured(point, result, record, base) if result.repetition in counted else []
            for result, record in found
        }
        headlines = [repeated.headline(row) for own in rows.values() for row in own if row.findings]
        kept = {number: _packed(own) if pack else own for number, own in rows.items()}
        return _Held(point, base, counted, kept, headlines)

    def _found(self, point: Point) -> list[tuple[Result, Record]]:
        """The stored repetitions that the plan has numbers for."""
        return [found for found in self.store.records_of(point.id) if found[0].repetition <= point.repetitions.last]

    def _point(self, held: _Held, absent: Mapping[int, _Absent]) -> Iterator[Row]:
        """The rows of a point. absent: its repetitions without a result that counts."""
        point, base = held.point, held.base
        for number, rows in held.rows.items():
            yield from _unpacked(rows)
            result, (why, state) = held.counted.get(number), absent.get(number, ("", ""))
            if result is None:  # a mean over two builds or two file systems would describe neither
                other = f"measured with another build of {point.tool}, on another target, or with another layout"
                yield from _missing(point, base, number, f"{other} or placement", state)
            elif not result.intact:
                again = "the next run measures it again" if state == "left" else why
                reasons = filter(None, (_raw_is_damaged(point, result), again))
                yield from _missing(point, base, number, "; ".join(reasons), state)
        if rest := {number: found for number, found in absent.items() if number not in held.rows}:
            damaged = _damaged(self.store, point.id)
            if held.rows or damaged:
                for number, (why, state) in rest.items():
                    yield from _missing(point, base, number, damaged.get(number) or why, state)
            else:
                yield from _missing(point, base, None, *next(iter(rest.values())))

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
        """The rows of a repetition; missing ones where its raw output is damaged or cannot be judged. None where its
        archive is not there as it was committed: `_point` knows what becomes of it."""
        raw = f"points/{point.id}/{result.raw.name}"
        try:
            printed = self.store.printed(result)
            if printed is None:
                why = f"{_raw_is_damaged(point, result)}; `iosweep rerun {point.id}` measures it again"
                made = list(_missing(point, base, result.repetition, why, state="")) if result.intact else []
            else:
                judged = list(self._judged(point, record, printed, base | _of_record(point, result, record, raw)))
                made = [row for row, _ in judged]
                for _, aside in judged:
                    self.aside(aside)
            self.origins.add(point, record)
        except _STRANGE as error:  # received from others, or a fault of ours: the other rows are still written
            self.store.damaged[str(self.store.path / raw)] = f"it cannot be judged: {type(error).__name__} {error}"
            why = f"{raw} and its result cannot be judged: {type(error).__name__} {error}"
            made = list(_missing(point, base, result.repetition, why, state=""))
        return made

    def _judged(
        self, point: Point, record: Record, printed: Mapping[str, Mapping[str, bytes]], shared: Values
    ) -> Iterator[tuple[Row, Aside]]:
        """A row for each phase of a repetition, parsed and judged again. `shared`: what these rows have in common."""
        tool = tools()[point.tool]
        steps = {phase.name: (step, phase) for step in point.steps() for phase in step.phases}
        memory_bytes = {host: self.memory.get(key) for host, key in record.facts_of.items()}
        fstype, mount = record.target.fstype, record.target.mount
        shortest_s = self.plan.shortest_steady_s(point)
        hosts = record.hosts or (record.host,)
        for run in record.phases:
            step, phase = steps[run.phase]
            streams = printed.get(step.name)
            parsed = (
                Parsed() if streams is None else series.with_nodes(tool.parse(streams, step, phase), streams, hosts)
            )
            seen = Seen(point, phase, run, parsed, self.plan.target, memory_bytes, fstype, mount, shortest_s)
            findings = verdict.judge(seen)
            outcome, _ = verdict.verdict(findings)
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
                "verdict": outcome,
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
            yield Row(values, findings), aside


def _missing(point: Point, base: Values, repetition: int | None, reason: str, state: State) -> Iterator[Row]:
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


def _raw_is_damaged(point: Point, result: Result) -> str:
    return f"the stored raw output is damaged: points/{point.id}/{result.raw.name}"


def _whole(results: Mapping[int, Result]) -> dict[int, Result]:
    """Those that decide what is left; the others are measured again."""
    return {number: result for number, result in results.items() if result.intact}


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
        "unneeded": False,
        **{options[name].column: value for name, value in point.options.items() if name in options},
    }


@cache
def _absolute(directory: str) -> str:
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
