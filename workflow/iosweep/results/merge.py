"""Store -> results.parquet, results.csv, checks.parquet, nodes.parquet, campaign.json.

Everything is parsed and judged again from the raw output, so a mended parser or a changed check needs no cluster.
"""

from __future__ import annotations

import gc
import hashlib
import io
import os
import re
import shlex
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import iosweep
from iosweep.files import documents, safe_paths
from iosweep.files.safe_paths import Folder
from iosweep.node.cpus import listed, parse
from iosweep.plan.model import Plan, Point
from iosweep.programs import builds
from iosweep.results import cells, leftovers, merged_tables, verdict
from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import Check, Finding, Seen
from iosweep.results.columns import CHECK_COLUMNS, COLUMNS, NODE_COLUMNS, NOT_YET, Column, arrow_schema
from iosweep.results.reasons import REASONS
from iosweep.results.remaining import still_wanted
from iosweep.results.store import Result, Store
from iosweep.target.filesystem import on_root, volume
from iosweep.tools import Parsed, tools

#: Rows are written in batches, so that memory does not grow with the campaign.
BATCH = 10_000

Row = dict[str, Any]
Findings = Sequence[tuple[Check, Finding]]

#: Option of a tool -> column, where the names differ.
_OPTION_COLUMNS = {"transfer_size": "transfer_size_bytes", "file_size": "file_size_bytes"}
_NAMES = {column.name for column in COLUMNS}


def merge(plan: Plan, results: Path, repair: str | None = None) -> None:
    """Write the tables of a campaign, each whole. `repair`: the name of this repair; None: that of the last one."""
    gc.disable()  # millions of small values and no circles among them: looking for those took a sixth of the time
    try:
        _write(plan, results, merged_tables.last_repair(results) if repair is None else repair)
    finally:
        gc.enable()


def _write(plan: Plan, results: Path, repair: str) -> None:
    store = Store(results)
    leftovers.remove(results)
    nodes = store.documents("nodes")
    memory = {key: facts.get("memory_bytes") for key, facts in nodes.items()}
    where = _Where()
    built: Counter[str | None] = Counter()  # key of a build document -> rows
    with (  # the first to be begun is the last to be there: campaign.json describes the tables, and is never newer
        safe_paths.folder(results, make=True) as place,
        place.replaced(merged_tables.ABOUT) as about,
        _Table(place, "results.parquet", COLUMNS, "results.csv") as rows,
        _Checks(place, "checks.parquet", CHECK_COLUMNS) as checks,
        _Table(place, "nodes.parquet", NODE_COLUMNS) as table,
    ):
        for row, findings in _rows(plan, store, memory, where):
            rows.add([tuple(map(row.get, rows.names))])
            built[row.get("build")] += 1
            key = (row["point"], row.get("repetition"), row["phase"])
            checks.find(key, findings)
        for name, facts in nodes.items():
            known = {**facts, "used_cpus": where.used(name)}
            own = (name, *map(known.get, table.names[1:]))
            if wrong := table.unfit(own):
                store.damaged[str(results / "nodes" / f"{name}.json")] = wrong
            else:
                table.add([own])
        described = {
            "builds": _builds(store, built),
            "tables": rows.finish() | checks.finish() | table.finish(),
            "repair": repair,
            **_damage(store),
        }
        about.write(documents.dump(_about(plan, where, results) | described, indent=True))


def _about(plan: Plan, where: _Where, results: Path) -> dict[str, Any]:
    """What campaign.json says."""
    return {
        "campaign": plan.campaign,
        "description": plan.description,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "iosweep_version": iosweep.__version__,
        "plan_digest": plan.digest,
        "seed": plan.seed,
        "target": {**plan.target, "directory": _absolute(plan)},
        "limits": plan.limits,
        "cpus": plan.cpus,
        "sweeps": plan.sweeps,
        "configuration": plan.configuration,
        "jobs": where.jobs(),
        "trusted_writers": sorted(where.trusted),
        "results_of_nodes": where.rows,
        "target_on_root": where.on_root,
        "results_on_target": f"{os.statvfs(results).f_fsid:016x}" in where.fsids,
    }


def _builds(store: Store, rows: Mapping[str | None, int]) -> dict[str, Any]:
    """The build documents that rows are of, with the number of these rows, and of packages what the report shows.

    A document's name is the hash of its content: one that says something else than what measured is none.
    """
    found = store.documents("builds")
    for name in found:
        if builds.key(found[name]) != name:
            store.damaged[str(store.path / "builds" / f"{name}.json")] = "its name is not the hash of its content"
    return {
        name: document | {"packages": [_package(one) for one in document.get("packages", ())], "results": rows[name]}
        for name, document in found.items()
        if name in rows and builds.key(document) == name
    }


def _damage(store: Store) -> dict[str, Any]:
    """Paths below the results: what was gone without, with the reasons; and what was measured again because of that."""
    for folder in ("", "sets", "tools"):  # the others were read
        store.documents(folder)
    # campaign.json is the one that is written now
    damaged = {os.path.relpath(path, store.path): reason for path, reason in sorted(store.damaged.items())}
    damaged.pop("campaign.json", None)
    return {"damaged": damaged, "set_aside": [os.path.relpath(path, store.path) for path in store.set_aside()]}


def _package(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.get(name) for name in ("name", "version", "hash", "external")}


@dataclass
class _Job:
    """What a Slurm job measured. Times as the records have them: UTC in one format, so that they compare as text."""

    hosts: Sequence[str]
    launcher: str
    started: str
    ended: str
    repetitions: int = 0
    points: dict[str, int] = field(default_factory=dict)  # id -> nodes


class _Where:
    """Which nodes and Slurm jobs the rows come from, and which CPUs of the nodes."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()  # key of a node's facts -> rows
        self.trusted: set[str] = set()  # who could have led tools elsewhere (target.trust_other_writers)
        self.on_root = False  # by the results themselves: the file of a node may be gone
        self.fsids: set[str] = set()  # of the targets, where the system has one
        self._masks: dict[str, set[str]] = {}  # key of a node's facts -> CPUs of ranks and workers, as texts
        self._jobs: dict[str, _Job] = {}

    def add(self, point: Point, record: Mapping[str, Any]) -> None:
        """Count a repetition."""
        self.trusted.update(record["target"].get("trusted_writers", ()))
        self.on_root = self.on_root or on_root(record["target"].get("mount"))
        if (fsid := record["target"].get("fsid")) and int(fsid, 16):
            self.fsids.add(fsid)
        keys = _nodes_of(record)
        for key in keys.values():
            self.rows[key] += len(record["phases"])
        for run in record["phases"]:
            for nodes in (run.get("cpus") or _NOT_SEEN)["nodes"]:
                masks = _masks(nodes)
                for host in nodes["hosts"]:
                    self._masks.setdefault(keys.get(host, ""), set()).update(masks)
        if slurm := record.get("slurm"):
            started, ended = record["started"], record["ended"]
            new = _Job(slurm["allocation_hosts"], record["launcher"]["name"], started, ended)
            job = self._jobs.setdefault(slurm["job"], new)
            job.started, job.ended = min(job.started, started), max(job.ended, ended)
            job.repetitions += 1
            job.points[point.id] = point.nodes

    def used(self, key: str) -> str | None:
        """CPUs that ranks and workers had on a node, or None where none was looked at."""
        return _union(frozenset(self._masks.get(key, ())))

    def jobs(self) -> list[dict[str, Any]]:
        """The Slurm jobs in the order in which they began to measure, their nodes in Slurm's order."""
        return [
            {
                "job": name,
                "launcher": job.launcher,
                "hosts": job.hosts,
                "node_counts": sorted(set(job.points.values())),
                "points": len(job.points),
                "repetitions": job.repetitions,
                "started": job.started,
                "ended": job.ended,
            }
            for name, job in sorted(self._jobs.items(), key=lambda found: found[1].started)
        ]


class _Hashed(io.RawIOBase):
    """What is written to a file, with its hash."""

    def __init__(self, file: BinaryIO):
        self._file, self._hash, self._size, self._over = file, hashlib.sha256(), 0, False

    def writable(self) -> bool:
        return True

    def forget(self) -> None:
        """Write nothing more: a writer that has failed tries again when it is forgotten itself."""
        self._over = True

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            if self._over:
                return view.nbytes
            self._file.write(view)
            self._hash.update(view)
            self._size += view.nbytes
            return view.nbytes

    def seen(self) -> dict[str, Any]:
        """What campaign.json says of the file."""
        return {"bytes": self._size, "sha256": self._hash.hexdigest()}


class _Table:
    """A parquet file (and the same as CSV) that has its name at the end of the block."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...], csv: str | None = None):
        self._schema = arrow_schema(columns)
        self._rows: list[tuple[Any, ...]] = []
        self._place, self._names = place, [parquet, *([csv] if csv else [])]
        self.names = [column.name for column in columns]

    def __enter__(self) -> Self:
        with ExitStack() as files:
            self._files = [_Hashed(files.enter_context(self._place.replaced(name))) for name in self._names]
            makers = (pa.parquet.ParquetWriter, pa.csv.CSVWriter)
            self._writers = [make(file, self._schema) for make, file in zip(makers, self._files, strict=False)]
            self._stack = files.pop_all()
        return self

    def unfit(self, row: tuple[Any, ...]) -> str | None:
        """Why a row has no place in the table, or None."""
        try:
            _arrays([row], list(self._schema))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return f"it does not fit into the table: {error}"
        return None

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        """Rows, their values in the order of `names`."""
        self._rows += rows
        if len(self._rows) >= BATCH:
            self._flush()

    def finish(self) -> dict[str, dict[str, Any]]:
        """Write what is left; returns file -> its size and hash."""
        self._flush()
        for writer in self._writers:
            writer.close()
        return {name: file.seen() for name, file in zip(self._names, self._files, strict=True)}

    def _flush(self) -> None:
        if not self._rows:
            return
        self._write(_arrays(self._rows, list(self._schema)))
        self._rows.clear()

    def _write(self, arrays: list[Any]) -> None:
        parquet, *csv = self._writers
        parquet.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        for writer in csv:
            harmless = [cells.harmless_array(array) for array in arrays]
            writer.write_table(pa.Table.from_arrays(harmless, schema=self._schema))

    def __exit__(self, *error: Any) -> None:
        for file in self._files:
            file.forget()
        self._stack.__exit__(*error)


class _Checks(_Table):
    """The table of checks. Five of its seven columns repeat, which Arrow does at a third of the price."""

    def __init__(self, place: Folder, parquet: str, columns: tuple[Column, ...]):
        super().__init__(place, parquet, columns)
        self._keys: list[tuple[Any, ...]] = []
        self._findings: list[Finding] = []

    def find(self, key: tuple[Any, ...], findings: Findings) -> None:
        """What was found of the row with this key: every check, in order, or nothing of one that is missing."""
        if findings:
            self._keys.append(key)
            self._findings += [finding for _, finding in findings]
        if len(self._findings) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._keys:
            return
        rows, checks = len(self._keys), len(CHECKS)
        keys = [array.take(np.repeat(np.arange(rows), checks)) for array in _arrays(self._keys, list(self._schema)[:3])]
        names, severities = (
            pa.array(values, pa.string()).take(np.tile(np.arange(checks), rows))
            for values in ([c.name for c in CHECKS], [c.severity for c in CHECKS])
        )
        outcomes, evidence = (pa.array([f[i] for f in self._findings], pa.string()) for i in (0, 1))
        self._write([*keys, names, outcomes, severities, evidence])
        self._keys.clear()
        self._findings.clear()


def _arrays(rows: Sequence[tuple[Any, ...]], fields: Sequence[Any]) -> list[Any]:
    """Rows as Arrow's columns."""
    return [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), fields, strict=True)]


def _rows(plan: Plan, store: Store, memory: Mapping[str, int | None], where: _Where) -> Iterator[tuple[Row, Findings]]:
    """Every row of the results with the findings of its checks."""
    refusals = store.documents("refusals")
    directory = _absolute(plan)
    place = plan.target["directory"], plan.target["layout"]
    for allocation in plan.allocations:
        for point in allocation.points:
            base = _base(plan, point, directory)
            # one point at a time, so that memory does not grow with the campaign
            found = [f for f in store.records_of(point.id) if f[0].repetition <= point.repetitions.max]
            measured_with = [_measured_with(f) for f in found]
            newest = max(measured_with, default=())[1:]
            counted = {
                result.repetition: result
                for (result, _), own in zip(found, measured_with, strict=True)
                if own[1:] == newest and (result.target["directory"], result.target["layout"]) == place
            }
            wanted = still_wanted(point, counted)
            lacks = store.missing_of(point.id) if wanted else None
            for result, record in found:
                if result.repetition in counted:
                    try:
                        printed = store.printed(result)
                        made = list(_repetition(plan, point, result, record, printed, memory, base))
                        where.add(point, record)
                    except _STRANGE as error:  # received from others, or of a fault of ours: the rest goes on
                        file = f"points/{point.id}/{result.raw['name']}"
                        why = f"{file} and its result cannot be judged: {type(error).__name__} {error}"
                        made = list(_missing(point, base | {"repetition": result.repetition}, why, left=False))
                        store.damaged[str(store.path / file)] = f"it cannot be judged: {type(error).__name__} {error}"
                    yield from made
                else:  # one mean over two builds or two file systems would be neither's
                    other = f"measured with another build of {point.tool}, on another target, or with another layout"
                    other += " or placement"
                    left = result.repetition in wanted and not lacks
                    yield from _missing(point, base | {"repetition": result.repetition}, other, left)
            there = {result.repetition for result, _ in found}
            lacking = [number for number in wanted if number not in there]
            if lacking:
                reason = lacks or refusals.get(allocation.name) or {"reason": NOT_YET}
                bad = _damaged(store, point.id)
                for number in lacking if found or bad else [None]:
                    why = bad.get(number or 0) or reason["reason"]
                    yield from _missing(point, base | {"repetition": number}, why, not lacks)


#: What a record or raw output of the right types, but of other content than ours, may raise.
_STRANGE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError, RecursionError),
    *(struct.error, zlib.error),
)


def _damaged(store: Store, point: str) -> dict[int, str]:
    """repetition -> that its result is damaged, and why."""
    found = {}
    for path, reason in store.damaged.items():
        folder, _, name = path.rpartition("/")
        if folder == str(store.point(point)) and (match := re.match(r"r(\d+)-\d+\.json$", name)):
            found[int(match[1])] = f"its result points/{point}/{name} is damaged ({reason}), and is measured again"
    return found


def _measured_with(found: tuple[Result, Mapping[str, Any]]) -> tuple[str, ...]:
    """(when, build, directory, file system, how ranks were bound)"""
    result, record = found
    target = result.target
    started, bound = str(record.get("started", "")), result.bound or ""
    return started, result.tool_sha256, target["directory"], volume(target), bound


def _missing(point: Point, base: Row, reason: str, left: bool) -> Iterator[tuple[Row, Findings]]:
    """Rows of what has no figures. `left`: whether the next run measures it."""
    checks = {"checks_passed": 0, "checks_failed": 0, "checks_not_checked": 0}
    for phase in point.measured():
        row = {"phase": phase.name, "kind": phase.kind, "metric": phase.metric}
        verdict_of = {"verdict": "missing", "reasons": reason, "left": left}
        yield base | row | verdict_of | checks | _only_for(phase.name, point), []


def _absolute(plan: Plan) -> str:
    return str(Path(plan.target["directory"]).absolute())


def _base(plan: Plan, point: Point, directory: str) -> Row:
    options = {_OPTION_COLUMNS.get(name, name): value for name, value in point.options.items()}
    return {
        "campaign": plan.campaign,
        "sweeps": ",".join(point.sweeps),
        "point": point.id,
        "tool": point.tool,
        "nodes": point.nodes,
        "phase_time_s": point.phase_time_s,
        "target_directory": directory,
        "left": False,
        **{name: value for name, value in options.items() if name in _NAMES},
    }


def _repetition(
    plan: Plan,
    point: Point,
    result: Result,
    record: Mapping[str, Any],
    printed: Mapping[str, Mapping[str, bytes]] | None,
    memory: Mapping[str, int | None],
    base: Row,
) -> Iterator[tuple[Row, Findings]]:
    """The rows of a repetition, parsed and judged anew."""
    if printed is None:
        name = f"points/{point.id}/{result.raw['name']}"
        again = f"`iosweep rerun {point.id}`" if result.intact else "the next run"
        reason = f"the stored raw output is damaged: {name}; {again} measures it again"
        yield from _missing(point, base | {"repetition": result.repetition}, reason, left=not result.intact)
        return
    tool = tools()[point.tool]
    steps = {phase.name: (step, phase) for step in point.steps() for phase in step.phases}
    memory_bytes = {host: memory.get(key) for host, key in _nodes_of(record).items()}
    fstype, mount = record["target"]["fstype"], record["target"].get("mount")
    shared = base | {
        "repetition": result.repetition,
        "host": record["host"],
        "hosts": ",".join(record.get("hosts") or [record["host"]]),
        "node": record["node"],
        "slurm_job": slurm["job"] if (slurm := record.get("slurm")) else None,
        "tool_version": record["tool"]["version"],
        "tool_sha256": record["tool"]["sha256"],
        "build": record.get("build"),
        "target_source": record["target"]["source"],
        "target_fstype": fstype,
        "target_layout": record["target"]["layout_is"],
        "raw_sha256": record["raw"]["sha256"],
        "raw": f"points/{point.id}/{record['raw']['name']}",
    }
    for run in record["phases"]:
        step, phase = steps[run["phase"]]
        streams = printed.get(step.name)
        parsed = Parsed() if streams is None else tool.parse(streams, step, phase)
        findings = verdict.judge(Seen(point, phase, run, parsed, plan.target, memory_bytes, fstype, mount))
        outcome, reasons = verdict.verdict(findings)
        outcomes = [f.outcome for _, f in findings]
        row = shared.copy()
        row.update(parsed.figures)
        row.update(_only_for(phase.name, point))
        row |= {
            "phase": phase.name,
            "kind": phase.kind,
            "metric": phase.metric,
            "wall_s": run["wall_s"],
            "settled_s": run.get("settled_s"),
            "verdict": outcome,
            "reasons": REASONS.join(reasons),
            "checks_passed": outcomes.count("pass"),
            "checks_failed": outcomes.count("fail"),
            "checks_not_checked": outcomes.count("not checked"),
            "started": datetime.fromisoformat(run["started"]),
            "ran_on": _ran_on(seen) if (seen := run.get("ran_on")) else None,
            **_cpus(run.get("cpus"), record["host"]),
            "command": " ".join(map(_quote, run["argv"])),
        }
        yield row, findings


def _nodes_of(record: Mapping[str, Any]) -> Mapping[str, str]:
    """Nodes that measured -> keys of their facts."""
    return record.get("nodes") or {record["host"]: record["node"]}


def _ran_on(seen: Mapping[str, int | None]) -> str | None:
    return ",".join(f"{host}:{count}" for host, count in seen.items() if count is not None) or None


#: Of a phase whose CPUs nobody looked at.
_NOT_SEEN: Mapping[str, Any] = {"nodes": ()}


def _cpus(seen: Mapping[str, Any] | None, host: str) -> Row:
    """What was seen of the CPUs; `host` is the first node."""
    if not seen:
        return {}
    nodes = seen["nodes"]
    first: Mapping[str, Any] = next((own for own in nodes if host in own["hosts"]), {})
    return {
        "pinning": seen["pinning"],
        "placement": seen["placement"] if seen["planned"] else None,
        "cpus": _union(_masks(first)),
        "reserved_cpus": first.get("reserved"),
        "cpu_looks": min((own["looks"] for own in nodes), default=None),
    }


def _masks(node: Mapping[str, Any]) -> frozenset[str]:
    """CPUs that ranks and workers of a node, and their threads, were allowed on."""
    own = (p for p in node.get("processes", ()) if p["role"] in ("rank", "worker"))
    return frozenset(mask for p in own for mask in (*p["masks"], *p["thread_masks"]))


@lru_cache(10_000)
def _union(masks: frozenset[str]) -> str | None:
    return listed(parse(",".join(masks))) or None


#: The same few arguments come again and again.
_quote = lru_cache(10_000)(shlex.quote)


def _only_for(phase: str, point: Point) -> Row:
    """Options of the point that this phase does not use are null in its row."""
    return _unused(point.tool, phase, tuple(point.options))


@cache
def _unused(tool: str, phase: str, names: tuple[str, ...]) -> Row:
    options = tools()[tool].options
    return {
        _OPTION_COLUMNS.get(name, name): None
        for name in names
        if (phases := options[name].phases) is not None and phase not in phases and name in _NAMES
    }
