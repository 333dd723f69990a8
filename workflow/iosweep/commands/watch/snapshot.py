"""The progress of a campaign, from its results alone: what is done, what each allocation waits for, the time to go.

Nothing is changed, the target is not touched. Of the store only what is new is read, so that 100,000
results make only the first look long. Who measures is asked of squeue, or seen by the lock of the results.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from iosweep.files import documents, logged
from iosweep.files.documents import Damaged, cure
from iosweep.jobs.at_work import Queue, why
from iosweep.judge import remaining
from iosweep.judge.reasons import ranked
from iosweep.judge.time_to_go import Ran, pace, ran, to_go_s
from iosweep.plan.model import Allocation, Plan, Point, plan_files, read_plan
from iosweep.slurm.query import Job
from iosweep.store.campaign_documents import DataSet, Refusal, TotalSpent
from iosweep.store.committed import Result
from iosweep.store.record import Archive, Target
from iosweep.store.store import Store
from iosweep.target import lock
from iosweep.text import printable

#: Number of newest results.
NEWEST = 5
#: Number of most frequent reasons for verdicts.
REASONS = 3

#: The order in which a repetition is as bad as its phases.
_VERDICTS = ("valid", "suspect", "invalid")

State = Literal["measuring", "waiting", "ending", "done", "refused", "stopped", "not begun"]
#: States in which a job or process works on the allocation.
LIVE = frozenset({"measuring", "waiting", "ending"})


@dataclass(frozen=True)
class Seen:
    """The progress of an allocation. Times are in seconds since the epoch, None where they are not known.

    `why`: what it waits for, why it was refused or stopped, if that is known. `since`: when it began to measure, or to
    wait. `starts`: when Slurm expects it to begin. `ends`: when its job must have ended. `to_go_s`: time still needed
    once it is running.
    """

    name: str
    nodes: int
    state: State = "not begun"
    why: str = ""
    job: str | None = None
    hosts: tuple[str, ...] = ()
    since: float | None = None
    starts: float | None = None
    ends: float | None = None
    repetitions_done: int = 0
    repetitions_left: int = 0
    repetitions_missing: int = 0
    to_go_s: float = 0.0


@dataclass(frozen=True)
class Figure:
    """A phase of one of the newest results. `value`: its figure in the tables (column `metric`), or None."""

    ended: float
    point: str
    repetition: int
    phase: str
    metric: str
    value: float | None
    verdict: str


@dataclass(frozen=True)
class Snapshot:
    """A campaign at one moment.

    Counts are of repetitions. `verdicts`: verdict -> repetitions, each as good as its worst phase, and `missing`.
    `missing`: reason -> repetitions. `reasons`: those of what is not valid, causes first (reasons.py) -> repetitions.
    `wrong`: what could not be read or asked.
    """

    campaign: str
    results: str
    now: float
    target: str = ""
    plan: str | None = None
    allocations: tuple[Seen, ...] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    newest: tuple[Figure, ...] = ()
    missing: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    limit_s: float | None = None
    spent_s: float = 0.0
    wrong: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether all is measured, and no job or process works on it."""
        busy = any(a.repetitions_left or a.state in LIVE for a in self.allocations)
        return self.plan is not None and not busy

    @property
    def to_go_s(self) -> float:
        """Of all allocations, one after the other; without the time that jobs wait."""
        return sum(a.to_go_s for a in self.allocations)


@dataclass(slots=True)
class _Known:
    """A point as it was read. `changed`: when its directory had changed last, None if there was none."""

    changed: int | None
    settled: bool
    results: dict[int, Result] = field(default_factory=dict)
    runs: dict[int, Ran] = field(default_factory=dict)
    verdicts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    reasons: dict[int, tuple[str, ...]] = field(default_factory=dict)  # only of what has some
    missing: str | None = None


class Campaign:
    """A campaign, read again for each snapshot."""

    def __init__(self, results: Path):
        self._store = Store(results)
        self._queue = Queue()
        self._plan: Plan | None = None
        self._plan_file: tuple[Path, int] | None = None
        self._known: dict[str, _Known] = {}
        self._news = True
        self._targets: dict[Target, Target] = {}

    def look(self) -> Snapshot:
        """Its state now."""
        snapshot = Snapshot(self._store.path.resolve().name, str(self._store.path), time.time())
        self._store.see_folders()
        try:
            if (made := self._planned()) is None:
                return replace(snapshot, wrong=self._damage())
            snapshot = replace(snapshot, campaign=made.campaign, target=made.target.directory, plan=made.digest)
            self._read(made)
            if self._news:
                self._learn(made)
            self._store.look("")
            spent = None
            with self._store.noting():
                spent = self._store.document(TotalSpent)
            refusals, sets = self._store.documents(Refusal), self._store.documents(DataSet)
        except OSError as error:
            why = f"{error.filename or self._store.path} cannot be read: {error.strerror or error}"
            return replace(snapshot, wrong=(why,))
        except Damaged as error:
            return replace(snapshot, wrong=(f"{error}{cure(error.path)}",))
        holder, reasons = lock.holder(self._store.path / lock.NAME), Counter[str]()
        for point in made.points:
            if (lacks := self._known[point.id].missing) is not None:
                reasons[lacks] += self._missing_of(point)
        self._queue.look(holder)
        allocations = tuple(self._allocation(made, a, sets, refusals, holder) for a in made.allocations)
        # without squeue, the state is a guess only if work is left that nothing is seen to do
        guessed = any(a.repetitions_left and a.state not in LIVE for a in allocations)
        return replace(
            snapshot,
            allocations=allocations,
            verdicts={**self._verdicts, "missing": reasons.total()},
            newest=self._newest,
            missing=dict(reasons.most_common()),
            reasons=self._reasons,
            limit_s=made.limits.time,
            spent_s=spent.spent_s if spent else 0.0,
            wrong=((self._queue.wrong,) if self._queue.wrong and guessed else ()) + self._damage(),
        )

    def _damage(self) -> tuple[str, ...]:
        """Stored files that are damaged, a few of them by name."""
        return tuple(map(printable, documents.few(self._store.named())))

    def _planned(self) -> Plan | None:
        """The plan that is measured: each run writes it again, so it is the newest."""
        plans = plan_files(self._store.path)
        if not plans:
            return None
        chosen = plans[-1], _changed(plans[-1]) or 0
        if self._plan is None or self._plan_file != chosen:
            made = read_plan(chosen[0])
            self._plan, self._plan_file, self._known, self._news = made, chosen, {}, True
        return self._plan

    def _read(self, made: Plan) -> None:
        """Read what has changed in the store."""
        changes = [(_changed(self._store.point(point.id)), point) for point in made.points]
        # a file system's clock may be coarse: what has just changed is read once more
        lately = max((changed or 0 for changed, _ in changes), default=0) - 5 * 10**9
        for changed, point in changes:
            known = self._known.get(point.id)
            again = known is not None and known.changed == changed
            if known and known.settled and again:
                continue
            settled = again or changed is None or changed < lately
            found = self._point(point, _Known(changed, settled))
            self._news = self._news or not known or (known.results, known.missing) != (found.results, found.missing)
            self._known[point.id] = found

    def _point(self, point: Point, known: _Known) -> _Known:
        if known.changed is None:
            return known
        for result, record in self._store.records_of(point.id):
            # there may be 100,000: what is the same in all is kept once, and nothing that is not needed
            where = self._targets.setdefault(result.target, result.target)
            if reasons := tuple(reason for run in record.phases for reason in run.reasons):
                known.reasons[result.repetition] = reasons
            known.runs[result.repetition] = ran(record)
            known.verdicts[result.repetition] = tuple(run.verdict for run in record.phases)
            known.results[result.repetition] = replace(result, raw=_NO_ARCHIVE, target=where)
        if lacks := self._store.missing_of(point.id):
            known.missing = printable(lacks.reason or "no reason is given")
        return known

    def _learn(self, made: Plan) -> None:
        """Derive from the results: repetitions left, pace, verdicts, newest figures."""
        self._news, points = False, {p.id: p for p in made.points}
        runs = [(run, p, n) for p, known in self._known.items() for n, run in known.runs.items()]
        runs.sort(key=lambda found: found[0].ended)
        self._pace = pace(made, [run for run, _, _ in runs])
        # the build that measured last is the tool that is used; this machine may have another one, or none
        last = [self._known[p].results[n] for _, p, n in runs]
        builds = {r.point.partition(".")[0]: r.tool_sha256 for r in last}
        where = last[-1].target.facts if last else None
        here = remaining.Here(tools=builds, target=where)
        results = {p: known.results for p, known in self._known.items()}
        still = remaining.find(made, results, {}, here)
        left = {p: n for found in still.left.values() for p, n in found.items()}
        self._left = {
            p: n for found in still.expected.values() for p, n in found.items() if self._known[p].missing is None
        }
        valid = {
            p: {n for n, result in found.items() if remaining.current(result, made, points[p], here)}
            for p, found in results.items()
        }
        self._done = {p: len(numbers - set(left.get(p, ()))) for p, numbers in valid.items()}
        counts = Counter(_worst(self._known[p].verdicts[n]) for p, numbers in valid.items() for n in numbers)
        self._verdicts = dict.fromkeys(_VERDICTS, 0) | counts
        # in the newest words, so the newest repetition comes first
        given = [self._known[p].reasons.get(n, ()) for _, p, n in reversed(runs) if n in valid[p]]
        self._reasons = {printable(reason): count for reason, count in ranked(given)[:REASONS]}
        self._begun = {p for _, p, _ in runs}
        self._newest = tuple(f for run, p, n in runs[: -NEWEST - 1 : -1] for f in self._figures(points[p], n, run))

    def _figures(self, point: Point, number: int, run: Ran) -> list[Figure]:
        known, metrics = self._known[point.id], {phase.name: phase.metric for phase in point.measured()}
        result = known.results[number]
        return [
            Figure(run.ended, point.id, number, phase, metrics.get(phase, ""), value, verdict)
            for (phase, value), verdict in zip(result.headlines, known.verdicts[number], strict=True)
        ]

    def _allocation(
        self,
        made: Plan,
        allocation: Allocation,
        sets: Mapping[str, DataSet],
        refusals: Mapping[str, Refusal],
        holder: lock.Owner | None,
    ) -> Seen:
        ids = [p.id for p in allocation.points]
        left = {p: self._left[p] for p in ids if p in self._left}
        seen = Seen(
            allocation.name,
            allocation.nodes,
            repetitions_done=sum(self._done.get(p, 0) for p in ids),
            repetitions_left=sum(left.values()),
            repetitions_missing=sum(map(self._missing_of, allocation.points)),
            to_go_s=to_go_s(made, self._pace, left, sets),
        )
        begun = any(p in self._begun for p in ids)
        jobs = self._queue.jobs_of(made.campaign, allocation, self._store.path)
        refusal = refusals.get(allocation.name)
        if jobs:
            seen = _with_job(seen, jobs[-1])
        elif holder and holder.allocation in ("", allocation.name):
            seen = replace(seen, state="measuring", why=holder.short)
        elif not left:
            seen = replace(seen, state="done")
        elif refusal:
            # a job that began, and whose time or signal ended it, was not refused
            stopped = refusal.stopped or refusal.short_of_time
            seen = replace(seen, state="stopped" if stopped else "refused", why=printable(refusal.reason))
        elif (words := _last_words(self._store, allocation)) is not None or begun:
            seen = replace(seen, state="stopped", why=words or "")
        return seen

    def _missing_of(self, point: Point) -> int:
        """The number of repetitions of a point that cannot be measured."""
        lacking = point.id in self._known and self._known[point.id].missing is not None
        return max(0, point.repetitions.min - self._done.get(point.id, 0)) if lacking else 0


#: Placeholder for the archive of a result, which is not needed.
_NO_ARCHIVE = Archive("", "", 0)


def _with_job(seen: Seen, job: Job) -> Seen:
    """The same with what Slurm says of its job."""
    seen = replace(seen, job=job.id, hosts=job.hosts)
    if job.state == "COMPLETING":
        return replace(seen, state="ending")
    if job.hosts:
        odd = "" if job.state == "RUNNING" else f"Slurm says {job.state}"
        return replace(seen, state="measuring", why=odd, since=job.starts, ends=job.ends)
    return replace(seen, state="waiting", why=why(job), since=job.submitted, starts=job.starts)


def _last_words(store: Store, allocation: Allocation) -> str | None:
    """Why an allocation ended, by its log; "" if that does not say it, None without a log."""
    file = store.path / "logs" / f"{allocation.name}.log"
    store.damaged.pop(str(file), None)
    try:
        return logged.why_ended(store.path, f"logs/{file.name}")
    except FileNotFoundError:
        return None
    except OSError as error:
        store.damaged[str(file)] = f"it cannot be read: {error.strerror or error}"
        return ""


def _worst(verdicts: Iterable[str]) -> str:
    """The verdict of a repetition: that of its worst phase."""
    found = set(verdicts)
    return next((verdict for verdict in reversed(_VERDICTS) if verdict in found), _VERDICTS[-1])


def _changed(path: Path) -> int | None:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return None
