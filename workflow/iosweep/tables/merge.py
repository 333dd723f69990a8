"""Store -> the tables of a campaign and campaign.json.

Everything is parsed and judged again from the raw output, so that a fixed parser or a changed check needs no cluster.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import re
import signal
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import asdict

import iosweep
from iosweep import collector
from iosweep.judge.best import selection
from iosweep.judge.judging import (
    Judge,
    JudgedPoint,
    Repetition,
    Row,
    State,
    agreements,
    base_values,
    compare_row,
    headline,
    missing,
    raw_is_damaged,
)
from iosweep.judge.origins import Origins
from iosweep.judge.precision import Headline
from iosweep.judge.remaining import Wanted, still_wanted, wanted
from iosweep.node.facts import NodeFacts
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.programs import builds
from iosweep.store.campaign_documents import Build, Missing, Refusal
from iosweep.store.committed import Result
from iosweep.store.store import Store
from iosweep.tables.columns import NOT_YET
from iosweep.tables.table_writer import CampaignTables
from iosweep.text import printable
from iosweep.tools.axes import NODES

#: Repetitions for each process that judges: it takes half a second to start. At most so many processes, on however many
#: CPUs: the file system is shared, and so is a login node.
_WORTH_A_PROCESS, _MOST_PROCESSES = 1000, 8
#: Points that a process is sent at a time, and how many of these are on their way: their rows are in memory.
_CHUNK, _CHUNKS = 8, 8

#: Why there is no result, and what becomes of it.
_Absent = tuple[str, State]
Judging = Callable[[Sequence[Point]], Iterable[JudgedPoint]]


def merge(plan: Plan, results: Path) -> None:
    """Write the tables of a campaign, each atomically."""
    store = Store(results)
    nodes = store.documents(NodeFacts)
    judge = Judge(plan, results, {key: facts.memory_bytes for key, facts in nodes.items()})
    processes = _processes(plan, results)
    with collector.paused(), CampaignTables(results) as tables, _judging(judge, processes) as judging:
        rows = _Rows(plan, store, judge, judging, tables)
        rows.write()
        origins = rows.origins
        for name, facts in nodes.items():
            tables.add_node(name, facts.row() | {"used_cpus": origins.used_cpus(name)})
        tables.finish(
            lambda: (
                _about(plan, origins, results)
                | {"builds": _builds(store, tables.built)}
                | {"damaged": _damaged_files(store)}
            )
        )


# Judging


def _processes(plan: Plan, results: Path) -> int:
    """How many processes judge."""
    repetitions = sum(p.repetitions.max for p in plan.points if (results / "points" / p.id).is_dir())
    return max(1, min(len(os.sched_getaffinity(0)), _MOST_PROCESSES, repetitions // _WORTH_A_PROCESS))


@contextlib.contextmanager
def _judging(judge: Judge, processes: int) -> Iterator[Judging]:
    """Points -> the same judged, in their order; here, or by several processes."""
    if processes == 1:
        yield lambda points: map(judge.point, points)
        return
    spawned = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, spawned, initializer=_begin, initargs=(judge,))

    def judging(points: Sequence[Point]) -> Iterator[JudgedPoint]:
        ahead: Iterable[JudgedPoint] = ()
        size = processes * _CHUNK * _CHUNKS
        for first in range(0, len(points), size):
            following = pool.map(_judge_point, points[first : first + size], chunksize=_CHUNK)
            yield from ahead
            ahead = following
        yield from ahead

    try:
        yield judging
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(judge: Judge) -> None:
    """What a process that judges begins with."""
    global _judge
    _judge = judge
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # merge gets it, too, and ends the pool
    parent = multiprocessing.parent_process()
    assert parent

    def end_with_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()  # a pool does not see that merge was killed


_judge: Judge


def _judge_point(point: Point) -> JudgedPoint:
    return _judge.point(point)


# The rows


@dataclass
class _Rows:
    """Writes the rows of a campaign: those of every stored repetition, and a row for each that is missing."""

    plan: Plan
    store: Store
    judge: Judge
    judging: Judging
    tables: CampaignTables
    origins: Origins = field(default_factory=Origins)

    def write(self) -> None:
        """Write all rows."""
        refusals, lacking = self.store.documents(Refusal), self.store.missing()
        ramps = {sweep.ramp for sweep in self.plan.sweeps if sweep.ramp}
        depends = ramps or any(point.repetitions.confirm for point in self.plan.points)
        counted: dict[str, Mapping[int, Result]] = {}
        if NODES.name in ramps:  # its steps are in several allocations
            counted = {point.id: self.judge.intact(point) for point in self.plan.points}
        for allocation in self.plan.allocations:
            # an allocation is in memory at a time: its points tell how much a phase scatters
            packed: list[bytes] = []
            headlines: list[Headline | None] = []
            intact: dict[str, dict[int, Result]] = {}
            for one in self.judging(allocation.points):
                self._note(one)
                headlines += [headline(row) for own in one.repetitions for row in own.rows or ()]
                intact[one.point.id] = one.intact
                packed.append(zlib.compress(pickle.dumps(one.repetitions), 1))  # a tenth of the memory
            counted |= intact
            chose = {
                point.id: selection(point, intact[point.id]) if point.repetitions.confirm else intact[point.id]
                for point in allocation.points
            }
            choosing = still_wanted(allocation, chose, allocation.points)
            needs = wanted(self.plan, counted, lacking) if depends else Wanted({}, {}, {})
            absent = _absent(allocation, refusals.get(allocation.name), lacking, choosing, needs)
            found = agreements(headlines)
            for point, data in zip(allocation.points, packed, strict=True):
                repetitions = pickle.loads(zlib.decompress(data))  # noqa: S301 - it never left the memory
                for row in self._rows_of(point, repetitions, absent.get(point.id, {})):
                    if row.findings:
                        compare_row(row, found)
                    self.tables.add(row)
            if not ramps:
                counted.clear()

    def _note(self, judged: JudgedPoint) -> None:
        """Note what of a point is damaged, and where its rows come from; write what is beside them."""
        self.store.damaged.update(judged.damaged)
        self.origins.join(judged.origins)
        for one in judged.beside:
            self.tables.add_beside(one)

    def _rows_of(self, point: Point, repetitions: Sequence[Repetition], absent: Mapping[int, _Absent]) -> Iterator[Row]:
        """The rows of a point. absent: its repetitions without a result that counts."""
        base = base_values(self.plan, point)
        for one in repetitions:
            yield from one.rows or _instead(point, base, one, absent)
        stored = {one.result.repetition for one in repetitions}
        if rest := {number: found for number, found in absent.items() if number not in stored}:
            damaged = _damaged(self.store, point.id)
            if not stored and not damaged:
                yield from missing(point, base, None, *next(iter(rest.values())))
                return
            for number, (why, state) in rest.items():
                yield from missing(point, base, number, damaged.get(number) or why, state)


def _instead(point: Point, base: dict[str, object], one: Repetition, absent: Mapping[int, _Absent]) -> Iterator[Row]:
    """The rows of a stored repetition that does not count, or whose archive is damaged."""
    number = one.result.repetition
    why, state = absent.get(number, ("", ""))
    if one.rows is None:  # a mean over two builds or two file systems would describe neither
        other = f"measured with another build of {point.tool}, on another target, or with another layout or placement"
        yield from missing(point, base, number, other, state)
    else:
        again = "the next run measures it again" if state == "left" else why
        reasons = filter(None, (raw_is_damaged(point, one.result), again))
        yield from missing(point, base, number, "; ".join(reasons), state)


def _absent(
    allocation: Allocation,
    refusal: Refusal | None,
    lacking: Mapping[str, Missing],
    choosing: Mapping[str, Sequence[int]],
    needs: Wanted,
) -> dict[str, dict[int, _Absent]]:
    """point -> its repetitions that are not there, and why. choosing: those of `still_wanted`."""
    later: _Absent = (refusal.reason if refusal else NOT_YET, "left")
    found: dict[str, dict[int, _Absent]] = {}
    for point in allocation.points:
        fresh = [n for n in needs.now.get(point.id, ()) if point.repetitions.confirms(n)]
        lacks, unneeded = lacking.get(point.id), needs.unneeded.get(point.id)
        chooses: _Absent = (unneeded, "unneeded") if unneeded else (lacks.reason, "") if lacks else later
        found[point.id] = dict.fromkeys(choosing.get(point.id, ()), chooses) | dict.fromkeys(fresh, later)
    return found


def _damaged(store: Store, point: str) -> dict[int, str]:
    """repetition -> why its result is damaged."""
    found, points = {}, str(store.point(point))
    for path, reason in store.damaged.items():
        folder, _, name = path.rpartition("/")
        if folder == points and (match := re.match(r"r(\d+)-\d+\.json$", name)):
            found[int(match[1])] = f"its result points/{point}/{name} is damaged ({reason}), and is measured again"
    return found


# campaign.json


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


def _builds(store: Store, rows: Mapping[object, int]) -> dict[str, object]:
    """The build documents that rows refer to, what the report says of each, with the number of these rows.

    A document whose name is not the hash of its content does not describe what measured, and is left out.
    """
    found: dict[str, object] = {}
    for name, document in store.builds().items():
        if builds.key(document) != name:
            store.damaged[str(store.path / "builds" / f"{name}.json")] = "its name is not the hash of its content"
        elif name in rows:
            found[name] = msgspec.structs.replace(msgspec.convert(document, Build), results=rows[name])
    return found


def _damaged_files(store: Store) -> dict[str, str]:
    """Damaged files that were ignored, with the reasons."""
    store.look("", "sets")  # the other folders have been read
    # names of files may hold any bytes, and a document only UTF-8
    damaged = {printable(os.path.relpath(path, store.path)): why for path, why in sorted(store.damaged.items())}
    damaged.pop("campaign.json", None)  # it is being rewritten
    return damaged
