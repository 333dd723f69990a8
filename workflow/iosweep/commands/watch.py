"""`iosweep watch`: the progress of a campaign: repetitions done and left, what each allocation waits for, time to go.

Nothing is changed, and the target is not touched. The results say what is done; squeue and the lock of the results say
who measures. Only points that have changed are read again, so that of 100,000 results only the first look is long.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from iosweep.commands import campaigns
from iosweep.commands.terminal import facts, safe_console, to_json, working
from iosweep.files import documents
from iosweep.files.documents import Damaged, cure
from iosweep.hostlist import hosts
from iosweep.jobs.pending import Queue, words
from iosweep.judge import remaining
from iosweep.judge.findings import ranked
from iosweep.judge.remaining import Ran, pace, ran, to_go_s
from iosweep.plan.model import Allocation, Plan, Point, plan_files, read_plan
from iosweep.slurm.query import Job
from iosweep.store.record import DataSet, Judged, Refusal, Repetition, TotalSpent
from iosweep.store.store import Store
from iosweep.target import lock
from iosweep.text import human_count, printable, shortened
from iosweep.units import human_duration, human_rate, local_time

#: Minimum refresh interval in seconds; after a slow read, ten times its duration.
EVERY_S = 2.0
_DAY_S = 86400
#: Number of newest results, of their phases that are shown, and of most frequent reasons for verdicts.
_NEWEST, _ROWS, _REASONS = 5, 10, 3
#: A clock of a file system may be this coarse: a directory that changed so lately is read again.
_COARSE_NS = 5 * 10**9
#: Verdicts of repetitions, from best to worst.
_VERDICTS = ("valid", "suspect", "invalid")
_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", "missing": "bright_black"}

State = Literal["measuring", "waiting", "ending", "done", "refused", "stopped", "not begun"]
_STATES = {"measuring": "bold green", "waiting": "cyan", "refused": "bold red", "stopped": "yellow"}
#: States in which a job or process works on the allocation.
LIVE = frozenset({"measuring", "waiting", "ending"})


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print the progress once, also on a terminal")
    form.add_argument("--json", action="store_true", help="print the progress once, as JSON")


def run(arguments: Namespace) -> int:
    """Show progress until the campaign ends, or Ctrl-C. Without a terminal, print it once."""
    results = campaigns.find_begun(arguments.campaign)
    campaigns.refuse_ingested(results, "it has no plan, and nothing is measured")
    watched, console = WatchedCampaign(results), safe_console()
    if arguments.json:
        progress = watched.read()
        sys.stdout.write(to_json(asdict(progress) | {"to_go_s": progress.to_go_s, "over": progress.over}))
    elif arguments.once or not console.is_terminal:
        with console.capture() as captured:
            console.print(Group(*draw(watched.read(), bars=False)))
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    else:
        redraw(watched, console)
    return 0


def redraw(watched: WatchedCampaign, console: Console) -> None:
    try:
        with working("reading the store ..."):  # of 100,000 results it takes a while
            progress, took_s = watched.read(), 0.0
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(Group(*draw(progress)), refresh=True)
                if progress.over:
                    return
                time.sleep(max(EVERY_S, 10 * took_s))
                began = time.monotonic()
                progress = watched.read()
                took_s = time.monotonic() - began
    except KeyboardInterrupt:
        return


# --- what is known


@dataclass(frozen=True)
class AllocationProgress:
    """Times are in seconds since the epoch, None where they are not known.

    `why`: the reason why it waits, was refused or has stopped, if that is known. `since`: when it began to measure or
    to wait. `starts`: when Slurm expects it to begin. `ends`: the time limit of its job. `to_go_s`: time still needed
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
class NewestPhase:
    """A phase of one of the newest results. `value`: its headline figure (column `metric`), or None."""

    ended: float
    point: str
    repetition: int
    phase: str
    metric: str
    value: float | None
    verdict: str


@dataclass(frozen=True)
class Progress:
    """A campaign at one moment.

    Counts are of repetitions. `verdicts`: verdict -> repetitions, each as good as its worst phase, and `missing`.
    `missing`: reason -> repetitions. `reasons`: why results are not valid, causes first -> repetitions.
    `wrong`: what could not be read or asked.
    """

    campaign: str
    results: str
    now: float
    target: str = ""
    plan: str | None = None
    allocations: tuple[AllocationProgress, ...] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    newest: tuple[NewestPhase, ...] = ()
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
        """Time of all allocations, one after the other, without the time that jobs wait."""
        return sum(a.to_go_s for a in self.allocations)


@dataclass(slots=True)
class _Repetition:
    """A stored repetition. `reasons`: why it is not valid."""

    stored: Repetition
    ran: Ran
    reasons: tuple[str, ...]


@dataclass(slots=True)
class _PointState:
    """A point as it was read. `changed_ns`: when its directory had changed last, None if there was none."""

    changed_ns: int | None
    repetitions: dict[int, _Repetition] = field(default_factory=dict)
    missing: str | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)


class WatchedCampaign:
    """A campaign whose progress is read again and again."""

    def __init__(self, results: Path):
        self._store = Store(results)
        self._queue = Queue()
        self._plan: Plan | None = None
        self._plan_file: tuple[Path, int | None] | None = None
        self._points: dict[str, _PointState] = {}
        self._changed = True

    def read(self) -> Progress:
        progress = Progress(self._store.path.resolve().name, str(self._store.path), time.time())
        self._store = Store(self._store.path)  # whose damage is that of this reading
        self._store.read_campaign_documents()
        try:
            if (plan := self._newest_plan()) is None:
                return replace(progress, wrong=self._damage())
            progress = replace(progress, campaign=plan.campaign, target=plan.target.directory, plan=plan.digest)
            self._read_changes(plan)
            if self._changed:
                self._count(plan)
                self._changed = False
            spent = self._store.whole(TotalSpent)
            refusals, sets = self._store.documents(Refusal), self._store.documents(DataSet)
        except OSError as error:
            wrong = f"{error.filename or self._store.path} cannot be read: {error.strerror or error}"
            return replace(progress, wrong=(wrong,))
        except Damaged as error:
            return replace(progress, wrong=(f"{error}{cure(error.path)}",))
        holder, missing = lock.holder(self._store.path / lock.NAME), Counter[str]()
        for point in plan.points:
            if (lacks := self._points[point.id].missing) is not None:
                missing[lacks] += self._missing_of(point)
        self._queue.update(holder)
        allocations = tuple(self._allocation(plan, a, sets, refusals, holder) for a in plan.allocations)
        # without squeue, the state is a guess only if work is left that nothing is seen to do
        guessed = any(a.repetitions_left and a.state not in LIVE for a in allocations)
        return replace(
            progress,
            allocations=allocations,
            verdicts={**self._verdicts, "missing": missing.total()},
            newest=self._newest,
            missing=dict(missing.most_common()),
            reasons=self._reasons,
            limit_s=plan.limits.time,
            spent_s=spent.spent_s if spent else 0.0,
            wrong=((self._queue.wrong,) if self._queue.wrong and guessed else ()) + self._damage(),
        )

    def _damage(self) -> tuple[str, ...]:
        """Stored files that are damaged, a few of them by name."""
        for state in self._points.values():
            self._store.damaged.update(state.damaged)
        return tuple(map(printable, documents.few(self._store.damage())))

    def _newest_plan(self) -> Plan | None:
        """The plan that is measured: each run writes it again, so it is the newest."""
        plans = plan_files(self._store.path)
        if not plans:
            return None
        newest = plans[-1], _changed_ns(plans[-1])
        if self._plan is None or self._plan_file != newest:
            self._plan = read_plan(plans[-1])
            self._plan_file, self._points, self._changed = newest, {}, True
        return self._plan

    def _read_changes(self, plan: Plan) -> None:
        """Read the points whose directories have changed in the store."""
        changes = [(_changed_ns(self._store.point(point.id)), point) for point in plan.points]
        lately_ns = max((changed or 0 for changed, _ in changes), default=0) - _COARSE_NS
        for changed, point in changes:
            known = self._points.get(point.id)
            if known and known.changed_ns == changed and (changed is None or changed < lately_ns):
                continue
            self._points[point.id] = state = self._read_point(point, changed)
            self._changed = self._changed or state != known

    def _read_point(self, point: Point, changed_ns: int | None) -> _PointState:
        state = _PointState(changed_ns)
        if changed_ns is None:
            return state
        store = Store(self._store.path)
        for judged in store.records_of(point.id, Judged):
            reasons = tuple(reason for row in judged.rows for reason in row.reasons)
            state.repetitions[judged.repetition] = _Repetition(judged.lightened(), ran(judged), reasons)
        if lacks := store.missing_of(point.id):
            state.missing = printable(lacks.reason or "no reason is given")
        state.damaged = store.damaged
        return state

    def _count(self, plan: Plan) -> None:
        """Derive from the results: repetitions left, pace, verdicts, newest figures."""
        points = {p.id: p for p in plan.points}
        stored = [(r, p, n) for p, state in self._points.items() for n, r in state.repetitions.items()]
        stored.sort(key=lambda entry: entry[0].ran.ended)
        self._pace = pace(plan, [r.ran for r, _, _ in stored])
        # the build that measured last is the tool that is used; this machine may have another one, or none
        builds = {p.partition(".")[0]: r.stored.tool.sha256 for r, p, _ in stored}
        target = stored[-1][0].stored.target.facts if stored else None
        here = remaining.LocalMachine(tools=builds, target=target)
        results = {p: {n: r.stored for n, r in state.repetitions.items()} for p, state in self._points.items()}
        rest = remaining.find(plan, results, {}, here)
        left = {p: n for allocation in rest.left.values() for p, n in allocation.items()}
        self._left = {
            p: n
            for allocation in rest.expected.values()
            for p, n in allocation.items()
            if self._points[p].missing is None
        }
        current = [entry for entry in stored if remaining.current(entry[0].stored, plan, points[entry[1]], here)]
        self._done = Counter(p for _, p, n in current if n not in left.get(p, ()))
        verdicts = ([row.verdict for row in r.stored.rows] for r, _, _ in current)
        worst = Counter(max(each, key=_VERDICTS.index, default=_VERDICTS[-1]) for each in verdicts)
        self._verdicts = dict.fromkeys(_VERDICTS, 0) | worst
        # in the newest words, so the newest repetition comes first
        reasons = ranked([r.reasons for r, _, _ in reversed(current)])
        self._reasons = {printable(reason): count for reason, count in reasons[:_REASONS]}
        self._begun = {p for _, p, _ in stored}
        self._newest = tuple(
            NewestPhase(r.ran.ended, p, n, row.phase, metrics.get(row.phase, ""), row.headline, row.verdict)
            for r, p, n in stored[: -_NEWEST - 1 : -1]
            for metrics in [{phase.name: phase.metric for phase in points[p].measured()}]
            for row in r.stored.rows
        )

    def _allocation(
        self,
        plan: Plan,
        allocation: Allocation,
        sets: Mapping[str, DataSet],
        refusals: Mapping[str, Refusal],
        holder: lock.Owner | None,
    ) -> AllocationProgress:
        ids = [p.id for p in allocation.points]
        left = {p: self._left[p] for p in ids if p in self._left}
        progress = AllocationProgress(
            allocation.name,
            allocation.nodes,
            repetitions_done=sum(self._done[p] for p in ids),
            repetitions_left=sum(left.values()),
            repetitions_missing=sum(map(self._missing_of, allocation.points)),
            to_go_s=to_go_s(plan, self._pace, left, sets),
        )
        if jobs := self._queue.jobs_of(plan.campaign, allocation, self._store.path):
            return _with_job(progress, jobs[-1])
        if holder and holder.allocation in ("", allocation.name):
            return replace(progress, state="measuring", why=holder.short)
        if not left:
            return replace(progress, state="done")
        if refusal := refusals.get(allocation.name):
            # a job that began, and whose time or signal ended it, was not refused
            stopped = refusal.stopped or refusal.short_of_time
            return replace(progress, state="stopped" if stopped else "refused", why=printable(refusal.reason))
        return replace(progress, state="stopped") if any(p in self._begun for p in ids) else progress

    def _missing_of(self, point: Point) -> int:
        """The number of repetitions of a point that cannot be measured."""
        if self._points[point.id].missing is None:
            return 0
        return max(0, point.repetitions.min - self._done[point.id])


def _with_job(progress: AllocationProgress, job: Job) -> AllocationProgress:
    """The progress with what Slurm knows of its job."""
    progress = replace(progress, job=job.id, hosts=job.hosts)
    if job.state == "COMPLETING":
        return replace(progress, state="ending")
    if job.hosts:
        odd = "" if job.state == "RUNNING" else f"Slurm says {job.state}"
        return replace(progress, state="measuring", why=odd, since=job.starts, ends=job.ends)
    return replace(progress, state="waiting", why=printable(words(job)), since=job.submitted, starts=job.starts)


def _changed_ns(path: Path) -> int | None:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return None


# --- what is drawn


def draw(progress: Progress, bars: bool = True) -> Iterator[RenderableType]:
    """The progress for a person, for any width of terminal."""
    head = Text.assemble((progress.campaign, "bold"), f" on {progress.target}" if progress.target else "")
    head.append(f"  {local_time(progress.now):%H:%M:%S}", style="dim")
    yield head
    for wrong in progress.wrong:
        yield Text(wrong, style="yellow")
    if progress.plan is None:
        if not progress.wrong:
            yield Text(f"there is no plan in {progress.results} yet; snakemake writes it first")
        return
    for allocation in progress.allocations:
        yield from _draw_allocation(allocation, progress.now, bars)
    yield Text()
    yield _summary(progress)
    if progress.newest:
        yield Text("\nnewest results", style="italic")
        yield _newest_table(progress)


def _draw_allocation(a: AllocationProgress, now: float, bars: bool) -> Iterator[RenderableType]:
    total = a.repetitions_done + a.repetitions_left + a.repetitions_missing
    line = Text.assemble((human_count(a.nodes, "node"), "bold"), ": ")
    measured = f"{a.repetitions_done:,} of {human_count(total, 'repetition')} measured"
    line.append(measured if total else "nothing to measure: its ramps do not need it")
    if a.repetitions_missing:
        line.append(f", {a.repetitions_missing:,} missing", style=_STYLES["missing"])
    if a.repetitions_left:
        line.append(f", {a.repetitions_left:,} left, about {human_duration(a.to_go_s)} to go")
    yield line
    if bars and a.repetitions_left:
        yield Padding(ProgressBar(total=total, completed=a.repetitions_done, width=40), (0, 0, 0, 2))
    yield Padding(Text.assemble((a.state, _STATES.get(a.state, "")), _state(a, now)), (0, 0, 0, 2))


def _state(a: AllocationProgress, now: float) -> str:
    """The text after the state."""
    parts = []
    if a.hosts:
        parts.append(f" on {hosts(a.hosts)}")
    if a.since is not None:
        parts.append(f" since {_clock(a.since, now)}")
    if a.ends is not None:
        parts.append(f", until {_clock(a.ends, now)} at the latest")
    if a.why:
        parts.append(f": {a.why}" if parts or a.state != "measuring" else f" by {a.why}")
    if a.starts is not None and a.state == "waiting":
        parts.append(f"; Slurm expects it to begin at {_clock(a.starts, now)}")
    if a.job:
        parts.append(f" (job {a.job})")
    if a.state == "measuring" and a.ends is not None and now + a.to_go_s > a.ends:
        parts.append("; it will not finish by then, another job continues")
    return "".join(parts)


def _clock(moment: float, now: float) -> str:
    """A time of day, with its date if it is not near."""
    local = local_time(moment)
    return f"{local:%H:%M}" if abs(moment - now) < _DAY_S / 2 else f"{local:%F %H:%M}"


def _summary(progress: Progress) -> RenderableType:
    table = facts()
    if len(progress.allocations) > 1 and progress.to_go_s:
        table.add_row("in all", f"about {human_duration(progress.to_go_s)} to go, plus the time that jobs wait")
    counts = {verdict: progress.verdicts.get(verdict, 0) for verdict in _VERDICTS}
    verdicts = (Text(f"{n:,} {verdict}", style=_STYLES[verdict] if n else "") for verdict, n in counts.items())
    table.add_row("repetitions", Text(", ").join(verdicts))
    for reason, repetitions in progress.reasons.items():
        table.add_row("", Text(f"{repetitions:,}: {shortened(reason, 200)}"))
    for reason, repetitions in progress.missing.items():
        table.add_row("", Text(f"{repetitions:,} missing: {shortened(reason, 200)}", style=_STYLES["missing"]))
    if progress.limit_s is not None:
        spent = f"{human_duration(progress.spent_s)} of {human_duration(progress.limit_s)} spent"
        table.add_row("limits.time", spent)
    return table


def _newest_table(progress: Progress) -> RenderableType:
    table = facts()
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    before = None
    for f in progress.newest[:_ROWS]:
        name = f"{f.point.rpartition('.')[0]} r{f.repetition}"  # without the hash at its end
        first = ("", "") if (f.point, f.ended) == before else (_clock(f.ended, progress.now), name)
        figure = "no figure" if f.value is None else human_rate(f.value, f.metric == "bandwidth_bytes_per_s")
        table.add_row(*first, f.phase, figure, Text(f.verdict, style=_STYLES.get(f.verdict, "")))
        before = f.point, f.ended
    return table
