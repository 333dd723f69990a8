"""`iosweep watch`: the progress of a campaign: repetitions done and left, what each allocation waits for, time to go.

Nothing is changed, and the target is not touched. What is done is in the store; squeue and the lock of the results say
who measures. The store is read as a whole for each refresh: 10,000 repetitions take 2 s.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

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
from iosweep.jobs.pending import Queue, explain
from iosweep.judge import remaining
from iosweep.judge.findings import ranked
from iosweep.judge.remaining import Ran, pace, ran, to_go_s
from iosweep.plan.model import Allocation, Plan, Point, plan_files, read_plan
from iosweep.slurm.query import Job
from iosweep.store.record import DataSet, JudgedRecord, RecordHead, Refusal, TotalSpent
from iosweep.store.store import Store
from iosweep.target import lock
from iosweep.text import human_count, printable, shortened
from iosweep.units import human_duration, human_rate, local_time

#: Minimum refresh interval in seconds; after a slow read, ten times its duration.
EVERY_S = 2.0
_DAY_S = 86400
#: Numbers of newest repetitions, of their phases in the table, and of most frequent reasons for verdicts.
_NEWEST, _ROWS, _REASONS = 5, 10, 3
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
    results = campaigns.find(arguments.campaign)
    campaigns.refuse_ingested(results, "it has no plan, and nothing is measured")
    console = safe_console()
    if arguments.json:
        progress = read_progress(results, Queue())
        sys.stdout.write(to_json(asdict(progress) | {"to_go_s": progress.to_go_s, "over": progress.over}))
    elif arguments.once or not console.is_terminal:
        with console.capture() as captured:
            console.print(Group(*draw(read_progress(results, Queue()), bars=False)))
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    else:
        redraw(results, console)
    return 0


def redraw(results: Path, console: Console) -> None:
    queue = Queue()
    try:
        with working("reading the store ..."):  # of 100,000 results it takes a while
            progress, took_s = read_progress(results, queue), 0.0
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(Group(*draw(progress)), refresh=True)
                if progress.over:
                    return
                time.sleep(max(EVERY_S, 10 * took_s))
                began = time.monotonic()
                progress = read_progress(results, queue)
                took_s = time.monotonic() - began
    except KeyboardInterrupt:
        return


# --- progress, as it is known


@dataclass(frozen=True)
class AllocationProgress:
    """Times are in seconds since the epoch, None if unknown.

    `why`: the reason why it waits, was refused or has stopped, if known. `since`: when it began to measure or to wait.
    `starts`: when Slurm expects it to begin. `ends`: when the time limit of its job is reached. `to_go_s`: time that
    its repetitions will take.
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
    """A phase of one of the newest repetitions. `value`: its headline figure (column `metric`), or None."""

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

    Counts are of repetitions. `verdicts`: verdict -> repetitions, each with the verdict of its worst phase, and
    `missing`. `missing`: reason -> repetitions. `reasons`: why repetitions are not valid, causes first -> repetitions.
    `wrong`: why something could not be read or asked.
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
        """Whether everything is measured, and no job or process works on the campaign."""
        busy = any(a.repetitions_left or a.state in LIVE for a in self.allocations)
        return self.plan is not None and not busy

    @property
    def to_go_s(self) -> float:
        """Time of all allocations, one after the other, without the time that jobs wait."""
        return sum(a.to_go_s for a in self.allocations)


class _Stored(NamedTuple):
    """A stored repetition. `reasons`: why it is not valid."""

    point: Point
    repetition: RecordHead
    ran: Ran
    reasons: tuple[str, ...]


def read_progress(results: Path, queue: Queue) -> Progress:
    """Read plan and store, and ask Slurm and the lock who measures."""
    store = Store(results)
    progress = Progress(results.resolve().name, str(results), time.time())
    store.read_campaign_documents()
    try:
        if not (plans := plan_files(results)):
            return replace(progress, wrong=_damage(store))
        plan = read_plan(plans[-1])  # each run writes its plan again, so it is the newest
        stored = sorted(_read_stored(store, plan), key=lambda each: each.ran.ended)
        absent = {point: printable(lacks.reason or "no reason is given") for point, lacks in store.missing().items()}
        spent, refusals, sets = store.whole(TotalSpent), store.documents(Refusal), store.documents(DataSet)
    except OSError as error:
        return replace(progress, wrong=(f"{error.filename or results} cannot be read: {error.strerror or error}",))
    except Damaged as error:
        return replace(progress, wrong=(f"{error}{cure(error.path)}",))
    # the build that measured last is the tool that is used; this machine may have another one, or none
    builds = {each.point.tool: each.repetition.tool.sha256 for each in stored}
    machine = remaining.LocalMachine(tools=builds, target=stored[-1].repetition.target.facts if stored else None)
    by_point: dict[str, dict[int, RecordHead]] = {}
    for each in stored:
        by_point.setdefault(each.point.id, {})[each.repetition.repetition] = each.repetition
    rest = remaining.find(plan, by_point, {}, machine)
    still = {p: numbers for points in rest.left.values() for p, numbers in points.items()}
    current = [each for each in stored if remaining.current(each.repetition, plan, each.point, machine)]
    done = Counter(each.point.id for each in current if each.repetition.repetition not in still.get(each.point.id, ()))
    missing = {p.id: max(0, p.repetitions.min - done[p.id]) for p in plan.points if p.id in absent}
    paces = pace(plan, [each.ran for each in stored])
    holder = lock.holder(results / lock.NAME)
    queue.update(holder)

    def follow(allocation: Allocation) -> AllocationProgress:
        ids = [point.id for point in allocation.points]
        left = {p: n for p, n in rest.expected.get(allocation.name, {}).items() if p not in absent}
        counted = AllocationProgress(
            allocation.name,
            allocation.nodes,
            repetitions_done=sum(done[p] for p in ids),
            repetitions_left=sum(left.values()),
            repetitions_missing=sum(missing.get(p, 0) for p in ids),
            to_go_s=to_go_s(plan, paces, left, sets),
        )
        if jobs := queue.jobs_of(plan.campaign, allocation, results):
            return _with_job(counted, jobs[-1])
        if holder and holder.allocation in ("", allocation.name):
            return replace(counted, state="measuring", why=holder.short)
        if not left:
            return replace(counted, state="done")
        if refusal := refusals.get(allocation.name):
            # a job that began, and whose time or signal ended it, was not refused
            stopped = refusal.stopped or refusal.short_of_time
            return replace(counted, state="stopped" if stopped else "refused", why=printable(refusal.reason))
        return replace(counted, state="stopped") if by_point.keys() & set(ids) else counted

    allocations = tuple(map(follow, plan.allocations))
    # without squeue, the state is a guess only if work is left that no job or process is seen to do
    guessed = any(a.repetitions_left and a.state not in LIVE for a in allocations)
    reasons = Counter[str]()
    for point, number in missing.items():
        reasons[absent[point]] += number
    return replace(
        progress,
        campaign=plan.campaign,
        target=plan.target.directory,
        plan=plan.digest,
        allocations=allocations,
        verdicts={**_count_verdicts(current), "missing": reasons.total()},
        newest=tuple(_newest_phases(stored)),
        missing=dict(reasons.most_common()),
        # with the numbers of the newest repetition, which comes first
        reasons={printable(why): n for why, n in ranked([each.reasons for each in reversed(current)])[:_REASONS]},
        limit_s=plan.limits.time,
        spent_s=spent.spent_s if spent else 0.0,
        wrong=((queue.wrong,) if queue.wrong and guessed else ()) + _damage(store),
    )


def _read_stored(store: Store, plan: Plan) -> Iterator[_Stored]:
    for point in plan.points:
        for judged in store.records_of(point.id, JudgedRecord):
            reasons = tuple(reason for row in judged.rows for reason in row.reasons)
            yield _Stored(point, judged.head(), ran(judged), reasons)


def _damage(store: Store) -> tuple[str, ...]:
    """Stored files that are damaged, a few of them by name."""
    return tuple(map(printable, documents.few(store.damage())))


def _count_verdicts(current: Iterable[_Stored]) -> dict[str, int]:
    verdicts = ([row.verdict for row in each.repetition.rows] for each in current)
    counts = Counter(max(those, key=_VERDICTS.index, default=_VERDICTS[-1]) for those in verdicts)
    return {verdict: counts[verdict] for verdict in _VERDICTS}


def _newest_phases(stored: Sequence[_Stored]) -> Iterator[NewestPhase]:
    for point, repetition, times, _ in stored[: -_NEWEST - 1 : -1]:
        metrics = {phase.name: phase.metric for phase in point.measured()}
        for row in repetition.rows:
            metric = metrics.get(row.phase, "")
            yield NewestPhase(
                times.ended, point.id, repetition.repetition, row.phase, metric, row.headline, row.verdict
            )


def _with_job(progress: AllocationProgress, job: Job) -> AllocationProgress:
    """The progress of an allocation with the state of its job."""
    progress = replace(progress, job=job.id, hosts=job.hosts)
    if job.state == "COMPLETING":
        return replace(progress, state="ending")
    if job.hosts:
        odd = "" if job.state == "RUNNING" else f"Slurm says {job.state}"
        return replace(progress, state="measuring", why=odd, since=job.starts, ends=job.ends)
    return replace(progress, state="waiting", why=printable(explain(job)), since=job.submitted, starts=job.starts)


# --- on the screen


def draw(progress: Progress, bars: bool = True) -> Iterator[RenderableType]:
    """Parts of the screen, for any width of terminal."""
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
    """A time of day, with the date if it is half a day away or more."""
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
