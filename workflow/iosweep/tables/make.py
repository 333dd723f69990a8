"""Making the tables of a campaign and campaign.json from the store.

Rows were judged when they were measured (judge.verdict). Only records whose judgment key is outdated, for example
because a parser was fixed, are judged again from their raw output, and stored with their new rows.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict, replace

import iosweep
from iosweep.files.documents import Damaged
from iosweep.judge import agreement, verdict
from iosweep.judge.agreement import Headlines, verdict_columns
from iosweep.judge.best import selection
from iosweep.judge.remaining import NOTHING_OPEN, find_retries, measures, open_before_confirming, open_repetitions
from iosweep.node.cpus import listed, parse
from iosweep.node.facts import NodeFacts
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.programs import programs
from iosweep.store.record import DataSet, JudgedRecord, MeasuredTarget, RecordHead, Refusal
from iosweep.store.store import RECORD_FILE, Store, unpack_archive
from iosweep.tables.columns import NOT_YET
from iosweep.tables.reader import Job
from iosweep.tables.writer import CampaignTables, Cells, Values
from iosweep.target.identify import volume
from iosweep.text import printable
from iosweep.tools import tools
from iosweep.tools.axes import NODES, settable

#: Exceptions that a record or raw output may cause although its types are right, because its content is not.
_CONTENT_ERRORS = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError, RecursionError),
    *(struct.error, zlib.error, zipfile.BadZipFile),
)


def make_tables(plan: Plan, results: Path, judge_again: bool = False) -> None:
    """Write the tables of a campaign, each atomically. judge_again: judge records even if their judgment is current."""
    store = Store(results)
    nodes = store.documents(NodeFacts)
    reader = RecordReader(plan, store, {key: facts.memory_bytes for key, facts in nodes.items()}, judge_again)
    origins = Origins()
    with CampaignTables(results) as tables:
        _write_results(plan, store, reader, tables, origins)
        for name, facts in nodes.items():
            tables.add_node(name, facts.row() | {"used_cpus": origins.used_cpus(name)})
        builds = _builds(store, origins.builds)
        tables.finish({**_about(plan, origins, results), "builds": builds, "damaged": _damaged_files(store)})


# Judged records

_DAMAGED = "the stored raw output is damaged"


class PointRecords(NamedTuple):
    """The stored repetitions of a point."""

    judged: list[JudgedRecord]  # with current rows, in order
    done: dict[int, RecordHead]  # repetitions that the next run does not measure again, even if they cannot be judged
    reasons: dict[int, str]  # repetition -> why it is stored but has no rows


@dataclass
class RecordReader:
    """Reads the records of points, and judges those again that another version of the code has judged."""

    plan: Plan
    store: Store
    memory_bytes: Mapping[str, int | None]  # key of a node's facts -> its memory
    always: bool = False  # judge every record again

    def read(self, point: Point) -> PointRecords:
        """Read the stored repetitions of a point."""
        stored = list(self.store.records_of(point.id, JudgedRecord))
        measured_with = [
            (r.started, r.tool.sha256, r.target.directory, _volume(r.target), r.bound or "") for r in stored
        ]
        newest = max(measured_with, default=())[1:]
        key = verdict.key(self.plan, point)
        read = PointRecords([], {}, {})
        for r, (_, *measured) in zip(stored, measured_with, strict=True):
            why = ""
            # a mean over two builds or file systems would describe neither
            if tuple(measured) != newest or not measures(r.target, self.plan.target_of(point)):
                other = f"another build of {point.tool}, on another target, or with another layout or placement"
                why = f"measured with {other}"
            else:
                if r.intact and (self.always or r.judged != key):
                    r, why = self._judge_again(point, r, key)
                if r.intact:
                    read.done[r.repetition] = r.head()
                else:
                    why = f"{_DAMAGED}: points/{point.id}/{r.raw.name}"
            if why:
                read.reasons[r.repetition] = why
            else:
                read.judged.append(r)
        return read

    def _judge_again(self, point: Point, r: JudgedRecord, key: str) -> tuple[JudgedRecord, str]:
        """Judge a record again; returns it with its new rows, or as it was and why it cannot be judged. New rows are
        stored if the results are writable. A record whose archive was changed is set aside, and returned as not intact.
        """
        raw = f"points/{point.id}/{r.raw.name}"
        try:
            archive = self.store.raw(r)
            if archive is None:
                if self.store.set_aside(r) or not self.store.changed(r):
                    return replace(r, intact=False), ""
                return r, f"{_DAMAGED}: {raw}; `iosweep rerun {point.id}` measures it again"
            record = self.store.record(point.id, r.repetition, r.attempt)
            memory_bytes = {host: self.memory_bytes.get(name) for host, name in r.facts_of.items()}
            rows = verdict.judge(self.plan, point, record, unpack_archive(archive), memory_bytes)
        except Damaged as error:  # in a part of the record that does not decide which repetitions are left
            self.store.damaged[error.path] = error.reason
            file = os.path.relpath(error.path, self.store.path)
            return r, f"{file}: {error.reason}; `iosweep rerun {point.id}` opens it"
        except _CONTENT_ERRORS as error:  # foreign content or a bug of ours: the other rows are still written
            why = f"{type(error).__name__} {error}"
            self.store.damaged[str(self.store.path / raw)] = f"it cannot be judged: {why}"
            return r, f"{raw} and its record cannot be judged: {why}"
        retry = record.retry and verdict.retry(finding for row in rows for finding in row.findings.values())
        if (rows, key) != (record.rows, record.judged):
            with contextlib.suppress(OSError):  # then they are judged again each time
                self.store.keep_rows(replace(record, rows=rows, judged=key, retry=retry))
        return replace(r, rows=rows, judged=key, retry=retry), ""


@cache
def _volume(target: MeasuredTarget) -> str:
    return volume(target.facts)


# The rows of results.parquet


def _write_results(plan: Plan, store: Store, reader: RecordReader, tables: CampaignTables, origins: Origins) -> None:
    """Write the rows of every stored repetition, and a row for each that is missing."""
    refusals = store.documents(Refusal)
    directories = {name: str(Path(target.directory).absolute()) for name, target in plan.targets.items()}
    shared = {"campaign": plan.campaign, "left": False, "unneeded": False}
    by_nodes: dict[int, list[Allocation]] = {}  # the sessions of the same points
    for allocation in plan.allocations:
        by_nodes.setdefault(allocation.nodes, []).append(allocation)
    ramps = {sweep.ramp for sweep in plan.sweeps if sweep.ramp}
    depends = ramps or any(point.repetitions.confirm for point in plan.points)
    done: dict[str, Mapping[int, RecordHead]] = {}
    if NODES.name in ramps:  # the steps of such a ramp are in several allocations
        heads = store.repetitions()
        done = {p.id: {n: r for n, r in heads.get(p.id, {}).items() if r.intact} for p in plan.points}
    for nodes, sessions in by_nodes.items():
        # how much a phase scatters is estimated from all points of so many nodes, so their rows are written together
        points = sessions[0].points
        headlines: Headlines = {}
        stored: list[tuple[dict[int, list[Cells]], dict[int, str]]] = []
        for point in points:
            records = reader.read(point)
            done[point.id] = records.done
            rows = {}
            base = _base_values(shared, directories, point)
            for r in records.judged:
                agreement.add(headlines, point, r)
                origins.add(point, r)
                rows[r.repetition] = _add_judged(tables, point, base, r)
            stored.append((rows, records.reasons))
        selecting = {p.id: selection(p, done[p.id]) for p in points}
        to_select = {a.name: open_before_confirming(a, selecting, points) for a in sessions}
        retries = find_retries(plan, sessions, done, ())
        wanted = {point for needed in to_select.values() for point in needed} | {point for point, _ in retries}
        lacking = store.missing(None if depends else wanted)
        retries = find_retries(plan, sessions, done, lacking) if lacking else retries
        still_open = open_repetitions(plan, done, lacking, nodes=nodes) if depends else {}
        cells: list[Cells] = []
        for point, (rows, reasons) in zip(points, stored, strict=True):
            absent: dict[int, tuple[str, str]] = {}  # number -> why it is missing, and the state
            missing, skipped = lacking.get(point.id), "unneeded" if point.tool in plan.optional else ""
            for allocation in sessions:
                of_session = still_open.get(allocation.name, NOTHING_OPEN)
                refusal = refusals.get(allocation.name)
                later = (refusal.reason if refusal else NOT_YET, "left")
                unneeded = of_session.unneeded.get(point.id)
                why_missing = (unneeded, "unneeded") if unneeded else (missing.reason, skipped) if missing else later
                absent |= dict.fromkeys(to_select[allocation.name].get(point.id, ()), why_missing)
                fresh = (n for n in of_session.now.get(point.id, ()) if point.repetitions.confirms(n))
                absent |= dict.fromkeys(fresh, later)
            damaged = _damaged_records(store, point.id) if absent else {}
            reasons = {number: why for number, why in damaged.items() if number in absent} | reasons
            if absent and not rows and not reasons:
                values = _base_values(shared, directories, point)
                cells += _missing_rows(values, tables, point, None, *next(iter(absent.values())))
                continue
            for number in sorted({*rows, *reasons, *absent}):
                if number in rows:
                    if (point.id, number) in retries:
                        tables.mark_left(rows[number])
                    cells += rows[number]
                    continue
                why, state = absent.get(number, ("", ""))
                if reason := reasons.get(number):
                    again = "the next run measures it again" if state == "left" else why
                    why = "; ".join(filter(None, (reason, again)))
                cells += _missing_rows(_base_values(shared, directories, point), tables, point, number, why, state)
        tables.add(cells, agreement.agreements(headlines))
        if not ramps:
            done.clear()


def _add_judged(tables: CampaignTables, point: Point, base: Values, r: JudgedRecord) -> list[Cells]:
    """Build the rows of a repetition, and write its companion rows. base: values common to the point's rows."""
    values = base | _record_values(point, r)
    rows = []
    for row in r.rows:
        phase = _phase_values(point.tool, row.phase, tuple(point.options))
        judgment = verdict_columns(row.verdict, row.reasons, row.findings)
        cells = {**values, **row.values, **phase, "started": row.started, **judgment}
        tables.add_companions(cells, row)
        rows.append(tables.cells(cells))
    return rows


def _missing_rows(
    base: Values, tables: CampaignTables, point: Point, repetition: int | None, reason: str, state: str
) -> Iterator[Cells]:
    """Rows without figures, one for each phase. base: values common to the point's rows; state: the column to
    set, `left` or `unneeded`; empty for neither."""
    for phase in point.measured():
        yield tables.cells(
            {
                **base,
                **_phase_values(point.tool, phase.name, tuple(point.options)),
                **verdict_columns("missing", [reason], {}),
                "repetition": repetition,
                "left": state == "left",
                "unneeded": state == "unneeded",
                "confirms": repetition is not None and point.repetitions.confirms(repetition),
                "session_number": None if repetition is None else point.repetitions.session_of(repetition),
            }
        )


def _base_values(shared: Values, directories: Mapping[str, str], point: Point) -> Values:
    """Values common to all rows of a point. directories: target -> its directory."""
    options = settable(tools()[point.tool])
    return {
        **shared,
        "target_directory": directories[point.target],
        "sweeps": ",".join(point.sweeps),
        "point": point.id,
        "tool": point.tool,
        "nodes": point.nodes,
        "phase_time_s": point.phase_time_s,
        **{options[name].column: value for name, value in point.options.items() if name in options},
    }


def _record_values(point: Point, r: JudgedRecord) -> Values:
    """Values common to all rows of a repetition."""
    hosts, job = r.measured_on
    return {
        "repetition": r.repetition,
        "attempt": r.attempt,
        "session": r.session,
        "confirms": point.repetitions.confirms(r.repetition),
        "session_number": point.repetitions.session_of(r.repetition),
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
        "raw": f"points/{point.id}/{r.raw.name}",
    }


@cache
def _phase_values(tool: str, phase: str, options: tuple[str, ...]) -> Values:
    """Values common to all rows of a phase. Options of the point that the phase does not use are null."""
    described, of_phase = settable(tools()[tool]), tools()[tool].phases[phase]
    unused = (name for name in options if (used := described[name].phases) is not None and phase not in used)
    return {
        **{described[name].column: None for name in unused},
        "phase": phase,
        "kind": of_phase.kind,
        "metric": of_phase.metric,
    }


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
    """The nodes, CPUs, builds and Slurm jobs that rows come from, collected repetition by repetition."""

    rows: Counter[str] = field(default_factory=Counter)  # key of a node's facts -> rows
    builds: Counter[str] = field(default_factory=Counter)  # key of a build document -> rows
    fsids: set[str] = field(default_factory=set)  # of the targets whose file system has an id
    cpus: dict[str, set[str]] = field(default_factory=dict)  # key of a node's facts -> CPU lists of ranks and workers
    #: (job, its hosts, launcher) -> start, end, point and number of nodes of each repetition.
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
        """CPUs that ranks and workers were allowed on at a node; None if no masks were read."""
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
        "targets": {
            name: asdict(target) | {"directory": str(Path(target.directory).absolute())}
            for name, target in plan.targets.items()
        },
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
    """The build documents that rows refer to, with the number of these rows.

    A document whose name is not the hash of its content is damaged, and left out.
    """
    documents: dict[str, object] = {}
    for name, document in store.builds().items():
        if programs.build_key(document) != name:
            store.damaged[str(store.path / "builds" / f"{name}.json")] = "its name is not the hash of its content"
        elif name in rows:
            documents[name] = replace(msgspec.convert(document, programs.BuildDocument), results=rows[name])
    return documents


def _damaged_files(store: Store) -> dict[str, str]:
    """Damaged files that were ignored, with the reasons."""
    store.read_campaign_documents()
    store.documents(DataSet)  # all other folders have been read already
    # file names may hold any bytes, JSON only UTF-8
    damaged = {printable(os.path.relpath(path, store.path)): why for path, why in sorted(store.damaged.items())}
    damaged.pop("campaign.json", None)  # it is being rewritten
    return damaged
