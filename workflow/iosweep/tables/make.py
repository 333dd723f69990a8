"""Store -> the tables of a campaign and campaign.json.

Rows were judged where they were measured (judge.verdict). Only records with another judgment key, as after a fixed
parser, are judged again from their raw output, and stored with their new rows.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import struct
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict, replace

import iosweep
from iosweep.files.documents import Damaged
from iosweep.judge import agreement, verdict
from iosweep.judge.agreement import Headlines, verdict_columns
from iosweep.judge.best import selection
from iosweep.judge.remaining import Wanted, measures, still_wanted, wanted
from iosweep.node.cpus import listed, parse
from iosweep.node.facts import NodeFacts
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.programs import programs
from iosweep.store.record import DataSet, JudgedPhase, JudgedRecord, Missing, RecordHead, Refusal
from iosweep.store.store import RECORD_FILE, Store, unpack
from iosweep.tables.columns import NOT_YET
from iosweep.tables.reader import Job
from iosweep.tables.writer import CampaignTables, Cells, Values
from iosweep.target.identify import volume
from iosweep.text import printable
from iosweep.tools import tools
from iosweep.tools.axes import NODES

#: Points that are read at a time, and repetitions to judge again among them from which several processes start: each
#: takes half a second. At most so many processes: the file system and a login node are shared.
_POINTS, _WORTH_PROCESSES, _MOST_PROCESSES = 512, 200, 8

#: What a record or raw output with the right types but foreign content may raise.
_STRANGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError, RecursionError),
    *(struct.error, zlib.error, zipfile.BadZipFile),
)


def make_tables(plan: Plan, results: Path, judge_again: bool = False) -> None:
    """Write the tables of a campaign, each atomically. judge_again: also records whose judgment is current."""
    store = Store(results)
    nodes = store.documents(NodeFacts)
    judge = Judge(plan, results, {key: facts.memory_bytes for key, facts in nodes.items()}, judge_again)
    origins = Origins()
    with CampaignTables(results) as tables:
        ResultRows(plan, store, judge, tables, origins).write()
        for name, facts in nodes.items():
            tables.add_node(name, facts.row() | {"used_cpus": origins.used_cpus(name)})
        builds = _builds(store, origins.builds)
        tables.finish({**_about(plan, origins, results), "builds": builds, "damaged": _damaged_files(store)})


# The records of points, judged


class JudgedPoint(NamedTuple):
    """The stored repetitions of a point, in order, with their rows.

    alike: numbers of the repetitions on the target of the plan that were measured as the newest of them was; damaged:
    as in Store, of this point; unusable: repetition -> why it has no rows, though the next run does not measure it
    again.
    """

    point: Point
    repetitions: Sequence[JudgedRecord]
    alike: Collection[int]
    damaged: Mapping[str, str]
    unusable: Mapping[int, str] = MappingProxyType({})

    @property
    def counted(self) -> list[JudgedRecord]:
        """The repetitions that count."""
        return [r for r in self.repetitions if r.intact and r.repetition in self.alike]


@dataclass
class Judge:
    """Reads the records of points, and judges again those that another version of the code has judged.

    memory_bytes: key of a node's facts -> its memory; always: every record is judged again.
    """

    plan: Plan
    results: Path
    memory_bytes: Mapping[str, int | None]
    always: bool = False

    def points(self, points: Sequence[Point]) -> Iterator[JudgedPoint]:
        """All points in their order, each as it is stored now."""
        pool: ProcessPoolExecutor | None = None
        try:
            for first in range(0, len(points), _POINTS):
                read = [self._read(point) for point in points[first : first + _POINTS]]
                stale = [stored.point for stored in read if self._stale(stored)]
                repetitions = sum(point.repetitions.last for point in stale)
                processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
                if pool is None and repetitions >= _WORTH_PROCESSES and processes > 1:
                    spawned = multiprocessing.get_context("spawn")
                    pool = ProcessPoolExecutor(processes, spawned, initializer=_begin, initargs=(self,))
                again = pool.map(_judge_point, stale, chunksize=8) if pool and stale else map(self.point, stale)
                judged = {stored.point.id: stored for stored in again}
                yield from (judged.get(stored.point.id, stored) for stored in read)
        finally:
            if pool:
                pool.shutdown(cancel_futures=True)

    def _read(self, point: Point) -> JudgedPoint:
        """The stored repetitions that the plan has numbers for."""
        store = Store(self.results)
        stored = [r for r in store.records_of(point.id, JudgedRecord) if r.repetition <= point.repetitions.last]
        measured_with = [
            (r.started, r.tool.sha256, r.target.directory, volume(r.target.facts), r.bound or "") for r in stored
        ]
        newest = max(measured_with, default=())[1:]
        like_newest = (r for r, how in zip(stored, measured_with, strict=True) if how[1:] == newest)
        alike = {r.repetition for r in like_newest if measures(r.target, self.plan)}
        return JudgedPoint(point, stored, alike, store.damaged)

    def _stale(self, read: JudgedPoint) -> list[JudgedRecord]:
        """The repetitions that this code has to judge."""
        key = verdict.key(self.plan, read.point)
        return [r for r in read.counted if self.always or r.judged != key]

    def point(self, point: Point) -> JudgedPoint:
        """A point whose repetitions are judged again, and stored, where the results can be written to."""
        store, key, read = Store(self.results), verdict.key(self.plan, point), self._read(point)
        again = {r.repetition: self._again(store, point, r, key) for r in self._stale(read)}
        judged = {number: made for number, made in again.items() if isinstance(made, JudgedRecord)}
        return read._replace(
            repetitions=[judged.get(r.repetition, r) for r in read.repetitions],
            damaged={**read.damaged, **store.damaged},
            unusable={number: why for number, why in again.items() if isinstance(why, str)},
        )

    def _again(self, store: Store, point: Point, r: JudgedRecord, key: str) -> JudgedRecord | str:
        """A repetition with new rows; not intact where its archive was changed, and set aside; or why it cannot be
        judged."""
        raw = f"points/{point.id}/{r.raw.name}"
        try:
            archive = store.raw(r)
            if archive is None:
                if store.set_aside(r) or not store.changed(r):
                    return replace(r, intact=False)
                return f"{_DAMAGED}: {raw}; `iosweep rerun {point.id}` measures it again"
            record = store.record(point.id, r.repetition, r.attempt)
            memory_bytes = {host: self.memory_bytes.get(name) for host, name in r.facts_of.items()}
            rows = verdict.judge(self.plan, point, record, unpack(archive), memory_bytes)
        except Damaged as error:  # of the record, in a part that does not decide what is left
            store.damaged[error.path] = error.reason
            return f"{os.path.relpath(error.path, self.results)}: {error.reason}; `iosweep rerun {point.id}` opens it"
        except _STRANGE as error:  # received from others, or a fault of ours: the other rows are still written
            why = f"{type(error).__name__} {error}"
            store.damaged[str(self.results / raw)] = f"it cannot be judged: {why}"
            return f"{raw} and its record cannot be judged: {why}"
        if (rows, key) != (record.rows, record.judged):
            retry = record.retry and verdict.retry(finding for row in rows for finding in row.findings.values())
            with contextlib.suppress(OSError):  # read-only results are judged each time
                store.keep_rows(replace(record, rows=rows, judged=key, retry=retry))
        return replace(r, rows=rows, judged=key)


def _begin(judge: Judge) -> None:
    """Begin a process that judges."""
    global _judge
    _judge = judge
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends the pool
    parent = multiprocessing.parent_process()
    assert parent

    def end_with_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()  # a pool does not see that its parent was killed


_judge: Judge


def _judge_point(point: Point) -> JudgedPoint:
    return _judge.point(point)


# The rows of results.parquet

#: Why there is no result, and whether it is `left` or `unneeded`; else "".
_Absent = tuple[str, str]
_DAMAGED = "the stored raw output is damaged"
_AGAIN = "the next run measures it again"


class _StoredPoint(NamedTuple):
    """A point. base: the values that its rows share; rows: repetition -> its rows; reasons: repetition -> why it is
    stored and has none."""

    point: Point
    base: Values
    rows: dict[int, list[Cells]]
    reasons: dict[int, str]


@dataclass
class ResultRows:
    """Writes the rows of a campaign: those of every stored repetition, and a row for each that is missing."""

    plan: Plan
    store: Store
    judge: Judge
    tables: CampaignTables
    origins: Origins

    def write(self) -> None:
        refusals, lacking = self.store.documents(Refusal), self.store.missing()
        ramps = {sweep.ramp for sweep in self.plan.sweeps if sweep.ramp}
        depends = ramps or any(point.repetitions.confirm for point in self.plan.points)
        intact: dict[str, Mapping[int, RecordHead]] = {}
        if NODES.name in ramps:  # its steps are in several allocations
            known = self.store.repetitions()
            intact = {p.id: {n: r for n, r in known.get(p.id, {}).items() if r.intact} for p in self.plan.points}
        for allocation in self.plan.allocations:
            # the points of an allocation tell each other how much a phase scatters, so their rows wait for each other
            headlines: Headlines = {}
            stored: list[_StoredPoint] = []
            for judged in self.judge.points(allocation.points):
                self.store.damaged.update(judged.damaged)
                intact[judged.point.id] = {r.repetition: r.head() for r in judged.counted}
                for r in judged.counted:
                    agreement.add(headlines, judged.point, r)
                stored.append(self._stored(judged))
            chose = {p.id: selection(p, intact[p.id]) for p in allocation.points}
            choosing = still_wanted(allocation, chose, allocation.points)
            needs = wanted(self.plan, intact, lacking) if depends else Wanted({}, {}, {})
            absent = _absent(allocation, refusals.get(allocation.name), lacking, choosing, needs)
            agreements = agreement.agreements(headlines)
            for of_point in stored:
                for cells in self._rows(of_point, absent.get(of_point.point.id, {})):
                    self.tables.add(cells, agreements)
            if not ramps:
                intact.clear()

    def _stored(self, judged: JudgedPoint) -> _StoredPoint:
        """The rows of a point's stored repetitions. Writes their rows of the companion tables."""
        point = judged.point
        stored = _StoredPoint(point, _base_values(self.plan, point), {}, {})
        for r in judged.repetitions:
            raw = f"points/{point.id}/{r.raw.name}"
            if r.repetition not in judged.alike:  # a mean over two builds or two file systems would describe neither
                what = f"another build of {point.tool}, on another target, or with another layout or placement"
                stored.reasons[r.repetition] = f"measured with {what}"
            elif not r.intact:
                stored.reasons[r.repetition] = f"{_DAMAGED}: {raw}"
            elif why := judged.unusable.get(r.repetition):
                stored.reasons[r.repetition] = why
            else:
                self.origins.add(point, r)
                values = stored.base | _record_values(point, r, raw)
                stored.rows[r.repetition] = [self._row(point, values, row) for row in r.rows]
        return stored

    def _row(self, point: Point, values: Values, row: JudgedPhase) -> Cells:
        """A row of a stored repetition. values: those that all rows of the repetition share."""
        columns = _phase_values(point.tool, row.phase, tuple(point.options))
        judgment = verdict_columns(row.verdict, row.reasons, row.findings)
        values = {**values, **row.values, **columns, "started": row.started, **judgment}
        self.tables.add_companions(values, row)
        return self.tables.cells(values)

    def _rows(self, stored: _StoredPoint, absent: Mapping[int, _Absent]) -> Iterator[Cells]:
        """All rows of a point. absent: its repetitions without a result that counts."""
        damaged = _damaged_records(self.store, stored.point.id) if absent else {}
        reasons = {number: why for number, why in damaged.items() if number in absent} | stored.reasons
        if absent and not stored.rows and not reasons:
            yield from self._missing(stored, None, *next(iter(absent.values())))
            return
        for number in sorted({*stored.rows, *reasons, *absent}):
            if rows := stored.rows.get(number):
                yield from rows
                continue
            why, state = absent.get(number, ("", ""))
            if reason := reasons.get(number):
                why = "; ".join(filter(None, (reason, _AGAIN if state == "left" else why)))
            yield from self._missing(stored, number, why, state)

    def _missing(self, stored: _StoredPoint, repetition: int | None, reason: str, state: str) -> Iterator[Cells]:
        """Rows without figures, one for each phase. state: `left`, `unneeded` or empty."""
        point = stored.point
        for phase in point.measured():
            yield self.tables.cells(
                {
                    **stored.base,
                    **_phase_values(point.tool, phase.name, tuple(point.options)),
                    **verdict_columns("missing", [reason], {}),
                    "repetition": repetition,
                    "left": state == "left",
                    "unneeded": state == "unneeded",
                    "confirms": repetition is not None and point.repetitions.confirms(repetition),
                }
            )


def _base_values(plan: Plan, point: Point) -> Values:
    """The values that all rows of a point share."""
    columns = _columns(point.tool)
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
        **{columns[name]: value for name, value in point.options.items() if name in columns},
    }


@cache
def _columns(tool: str) -> dict[str, str]:
    """Option of a tool -> its column."""
    return {name: option.column for name, option in tools()[tool].options.items()}


@cache
def _absolute(directory: str) -> str:
    return str(Path(directory).absolute())


def _record_values(point: Point, r: JudgedRecord, raw: str) -> Values:
    """The values that all rows of a repetition share. `raw`: path of its archive."""
    hosts, job = r.ran
    return {
        "repetition": r.repetition,
        "attempt": r.attempt,
        "session": r.session,
        "confirms": point.repetitions.confirms(r.repetition),
        "host": r.host,
        "hosts": hosts,
        "node": r.node,
        "slurm_job": job,
        "tool_version": r.tool.version,
        "tool_sha256": r.tool.sha256,
        "build": r.build,
        "target_source": r.target.source,
        "target_fstype": r.target.fstype,
        "target_layout": r.target.layout_is,
        "raw_sha256": r.raw.sha256,
        "raw": raw,
    }


@cache
def _phase_values(tool: str, phase: str, options: tuple[str, ...]) -> Values:
    """The values that all rows of a phase share: null for those of the point's options that it does not use."""
    known, measured = tools()[tool].options, tools()[tool].phases[phase]
    unused = (name for name in options if (used := known[name].phases) is not None and phase not in used)
    return {
        **{known[name].column: None for name in unused},
        "phase": phase,
        "kind": measured.kind,
        "metric": measured.metric,
    }


def _absent(
    allocation: Allocation,
    refusal: Refusal | None,
    lacking: Mapping[str, Missing],
    choosing: Mapping[str, Sequence[int]],
    needs: Wanted,
) -> dict[str, dict[int, _Absent]]:
    """point -> its absent repetitions, and why they are. choosing: as `still_wanted` returns it."""
    later: _Absent = (refusal.reason if refusal else NOT_YET, "left")
    absent: dict[str, dict[int, _Absent]] = {}
    for point in allocation.points:
        fresh = [n for n in needs.now.get(point.id, ()) if point.repetitions.confirms(n)]
        lacks, unneeded = lacking.get(point.id), needs.unneeded.get(point.id)
        chooses: _Absent = (unneeded, "unneeded") if unneeded else (lacks.reason, "") if lacks else later
        absent[point.id] = dict.fromkeys(choosing.get(point.id, ()), chooses) | dict.fromkeys(fresh, later)
    return absent


def _damaged_records(store: Store, point: str) -> dict[int, str]:
    """repetition -> why its record is damaged."""
    damaged, folder = {}, str(store.point(point))
    for path, reason in store.damaged.items():
        place, _, name = path.rpartition("/")
        if place == folder and (match := RECORD_FILE.match(name)):
            damaged[int(match[1])] = f"its record points/{point}/{name} is damaged ({reason})"
    return damaged


# campaign.json


@dataclass
class Origins:
    """The nodes, CPUs and Slurm jobs that rows come from, collected repetition by repetition.

    rows: key of a node's facts -> rows; builds: key of a build document -> rows; fsids: of the targets, where the file
    system has one; cpus: key of a node's facts -> CPU lists of ranks and workers; runs: a job with its hosts and
    launcher -> start, end, point and nodes of its repetitions.
    """

    rows: Counter[str] = field(default_factory=Counter)
    builds: Counter[str] = field(default_factory=Counter)
    fsids: set[str] = field(default_factory=set)
    cpus: dict[str, set[str]] = field(default_factory=dict)
    runs: dict[tuple[str, tuple[str, ...], str], list[tuple[datetime, datetime, str, int]]] = field(
        default_factory=dict
    )

    def add(self, point: Point, r: JudgedRecord) -> None:
        """Count a repetition."""
        if (fsid := r.target.fsid) and int(fsid, 16):
            self.fsids.add(fsid)
        self.builds[r.build or ""] += len(r.rows)
        keys = r.facts_of
        for key in keys.values():
            self.rows[key] += len(r.rows)
        for row in r.rows:
            for hosts, cpus in row.used_cpus.items():
                for host in hosts.split(",") if cpus else ():
                    self.cpus.setdefault(keys.get(host, ""), set()).add(cpus or "")
        if slurm := r.slurm:
            job = slurm.job, slurm.allocation_hosts, r.launcher.name if r.launcher else slurm.launcher
            self.runs.setdefault(job, []).append((r.started, r.ended, point.id, point.nodes))

    def used_cpus(self, key: str) -> str | None:
        """CPUs that ranks and workers had on a node, None where no masks were read."""
        return listed(parse(",".join(self.cpus.get(key, ())))) or None

    def jobs(self) -> list[Job]:
        """The Slurm jobs, ordered by the start of their first repetition; hosts in Slurm's order."""
        jobs = []
        for (name, hosts, launcher), runs in self.runs.items():
            started, ended, points, nodes = zip(*runs, strict=True)
            counts = tuple(sorted(set(nodes)))
            jobs.append(
                Job(
                    job=name,
                    launcher=launcher,
                    hosts=hosts,
                    node_counts=counts,
                    points=len(set(points)),
                    repetitions=len(runs),
                    started=min(started),
                    ended=max(ended),
                )
            )
        return sorted(jobs, key=lambda job: job.started)


def _about(plan: Plan, origins: Origins, results: Path) -> dict[str, object]:
    """The part of campaign.json that does not depend on the tables."""
    return {
        "campaign": plan.campaign,
        "description": plan.description,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "iosweep_version": iosweep.__version__,
        "plan_digest": plan.digest,
        "seed": plan.seed,
        "target": asdict(plan.target) | {"directory": str(Path(plan.target.directory).absolute())},
        "limits": plan.limits,
        "cpus": plan.cpus,
        "sweeps": plan.sweeps,
        "accept": plan.accept,
        "configuration": plan.configuration,
        "jobs": origins.jobs(),
        "results_of_nodes": origins.rows,
        "results_on_target": f"{os.statvfs(results).f_fsid:016x}" in origins.fsids,
    }


def _builds(store: Store, rows: Mapping[str, int]) -> dict[str, object]:
    """The build documents that rows refer to, what the report says of each, with the number of these rows.

    A document whose name is not the hash of its content does not describe what measured, and is left out.
    """
    known: dict[str, object] = {}
    for name, document in store.builds().items():
        if programs.build_key(document) != name:
            store.damaged[str(store.path / "builds" / f"{name}.json")] = "its name is not the hash of its content"
        elif name in rows:
            known[name] = replace(msgspec.convert(document, programs.BuildDocument), results=rows[name])
    return known


def _damaged_files(store: Store) -> dict[str, str]:
    """Damaged files that were ignored, with the reasons."""
    store.read_campaign_documents()
    store.documents(DataSet)  # the other folders have been read
    # names of files may hold any bytes, and a document only UTF-8
    damaged = {printable(os.path.relpath(path, store.path)): why for path, why in sorted(store.damaged.items())}
    damaged.pop("campaign.json", None)  # it is being rewritten
    return damaged
