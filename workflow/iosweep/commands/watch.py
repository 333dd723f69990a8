"""`iosweep watch`: the progress of a campaign: its share and results done, what each allocation waits for, time to go.

Nothing is changed, and the target is not touched. What is done is in the store; squeue and the lock of the results say
who measures. The store is read as a whole for each refresh: 10,000 repetitions take 2 s.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from iosweep.commands import campaigns
from iosweep.commands.terminal import Printer, facts, safe_console, to_json, working
from iosweep.files import documents
from iosweep.files.documents import Damaged, cure
from iosweep.hostlist import hosts
from iosweep.jobs.pending import Queue, explain
from iosweep.judge import remaining
from iosweep.judge.remaining import RunTimes, pace, run_times, to_go_s
from iosweep.plan.model import Allocation, Point, plan_files, read_plan
from iosweep.store.record import DataSet, JudgedRecord, RecordHead, Refusal, TotalSpent
from iosweep.store.store import Store
from iosweep.target import lock
from iosweep.text import printable
from iosweep.units import human_duration, human_rate, local_time

#: Minimum refresh interval in seconds; after a slow read, ten times its duration.
EVERY_S = 2.0
#: Numbers of newest repetitions, and of their phases in the table: what fits below the allocations on a screen.
_NEWEST, _ROWS = 5, 10

State = Literal["measuring", "waiting", "ending", "done", "refused", "stopped", "not begun"]
_STATES = {"measuring": "bold green", "waiting": "cyan", "refused": "bold red", "stopped": "yellow"}
_VERDICTS = {"valid": "green", "suspect": "yellow", "invalid": "red"}
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
    if arguments.json:
        progress = read_progress(results, Queue())
        sys.stdout.write(to_json(asdict(progress) | {"to_go_s": progress.to_go_s, "over": progress.over}))
    elif arguments.once or not (console := safe_console()).is_terminal:
        Printer().print(*draw(read_progress(results, Queue())))
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
    """`why`: the reason why it waits, was refused or has stopped, if known. `starts`: when Slurm expects it to begin
    (epoch), None if unknown. `to_go_s`: time that its repetitions will take.
    """

    name: str
    title: str
    nodes: int
    state: State = "not begun"
    why: str = ""
    job: str | None = None
    hosts: tuple[str, ...] = ()
    starts: float | None = None
    repetitions_done: int = 0
    repetitions_left: int = 0
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
    """A campaign at one moment. `counts`: number of results (a phase of a point) that are complete, left, missing or
    unneeded. `wrong`: why something could not be read or asked."""

    campaign: str
    results: str
    now: float
    target: str = ""
    plan: str | None = None
    allocations: tuple[AllocationProgress, ...] = ()
    newest: tuple[NewestPhase, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
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
    """A stored repetition."""

    point: Point
    repetition: RecordHead
    times: RunTimes


def read_progress(results: Path, queue: Queue) -> Progress:
    """Read plan and store, and ask Slurm and the lock who measures."""
    store = Store(results)
    progress = Progress(results.resolve().name, str(results), time.time())
    store.read_campaign_documents()
    try:
        if not (plans := plan_files(results)):
            return replace(progress, wrong=_damage(store))
        plan = read_plan(plans[-1])  # each run writes its plan again, so it is the newest
        records = ((point, judged) for point in plan.points for judged in store.records_of(point.id, JudgedRecord))
        stored = [_Stored(point, judged.head(), run_times(judged)) for point, judged in records]
        stored.sort(key=lambda each: each.times.ended)
        absent = store.missing().keys()
        spent, refusals, sets = store.whole(TotalSpent), store.documents(Refusal), store.documents(DataSet)
    except OSError as error:
        return replace(progress, wrong=(f"{error.filename or results} cannot be read: {error.strerror or error}",))
    except Damaged as error:
        return replace(progress, wrong=(f"{error}{cure(error.path)}",))
    # the build that measured last is the tool that is used; this machine may have another one, or none
    builds = {each.point.tool: each.repetition.tool.sha256 for each in stored}
    targets = {each.point.target: each.repetition.target.facts for each in stored}
    machine = remaining.LocalMachine(tools=builds, targets=targets)
    by_point: dict[str, dict[int, RecordHead]] = {}
    for each in stored:
        by_point.setdefault(each.point.id, {})[each.repetition.repetition] = each.repetition
    rest = remaining.find(plan, by_point, {}, machine)
    again = {(p, n) for points in rest.left.values() for p, numbers in points.items() for n in numbers}
    done = Counter(
        (each.point.id, each.point.repetitions.session_of(each.repetition.repetition))
        for each in stored
        if remaining.current(each.repetition, plan, each.point, machine)
        and (each.point.id, each.repetition.repetition) not in again
    )
    paces = pace(plan, [each.times for each in stored])
    holder = lock.holder(results / lock.NAME)
    queue.update(holder)

    def follow(allocation: Allocation) -> AllocationProgress:
        own_done = {point.id: done[point.id, allocation.session] for point in allocation.points}
        left = {p: n for p, n in rest.expected.get(allocation.name, {}).items() if p not in absent}
        counted = AllocationProgress(
            allocation.name,
            allocation.title,
            allocation.nodes,
            repetitions_done=sum(own_done.values()),
            repetitions_left=sum(left.values()),
            to_go_s=to_go_s(plan, paces, left, sets),
        )
        if jobs := queue.jobs_of(plan.campaign, allocation, results):
            job = jobs[-1]
            counted = replace(counted, job=job.id, hosts=job.hosts)
            if job.state == "COMPLETING":
                return replace(counted, state="ending")
            if job.hosts:
                odd = "" if job.state == "RUNNING" else f"Slurm says {job.state}"
                return replace(counted, state="measuring", why=odd)
            return replace(counted, state="waiting", why=printable(explain(job)), starts=job.starts)
        if holder and holder.allocation in ("", allocation.name):
            return replace(counted, state="measuring", why=holder.short)
        if not left:
            return replace(counted, state="done")
        if refusal := refusals.get(allocation.name):
            # a job that began, and whose time or signal ended it, was not refused
            stopped = refusal.stopped or refusal.short_of_time
            return replace(counted, state="stopped" if stopped else "refused", why=printable(refusal.reason))
        return replace(counted, state="stopped") if any(own_done.values()) else counted

    unneeded = {point for points in rest.unneeded.values() for point in points}
    measurable = {point for points in rest.left.values() for point in points} - absent
    measured = {point for point, _ in done}
    counts: Counter[str] = Counter()
    for point in plan.points:
        lacks = "unneeded" if point.tool in plan.optional else "missing"
        otherwise = lacks if point.id in absent else "unneeded" if point.id in unneeded else "left"
        outcome = "left" if point.id in measurable else "complete" if point.id in measured else otherwise
        counts[outcome] += len(point.measured())
    allocations = tuple(map(follow, plan.allocations))
    # without squeue, the state is a guess only if work is left that no job or process is seen to do
    guessed = any(a.repetitions_left and a.state not in LIVE for a in allocations)
    return replace(
        progress,
        campaign=plan.campaign,
        target=plan.on,
        plan=plan.digest,
        allocations=allocations,
        newest=tuple(_newest_phases(stored)),
        counts=dict(counts),
        limit_s=plan.limits.time,
        spent_s=spent.spent_s if spent else 0.0,
        wrong=((queue.wrong,) if queue.wrong and guessed else ()) + _damage(store),
    )


def _damage(store: Store) -> tuple[str, ...]:
    """Stored files that are damaged, a few of them by name."""
    return tuple(map(printable, documents.few(store.damage())))


def _newest_phases(stored: Sequence[_Stored]) -> Iterator[NewestPhase]:
    for point, repetition, times in stored[: -_NEWEST - 1 : -1]:
        metrics = {phase.name: phase.metric for phase in point.measured()}
        for row in repetition.rows:
            metric = metrics.get(row.phase, "")
            yield NewestPhase(
                times.ended, point.id, repetition.repetition, row.phase, metric, row.headline, row.verdict
            )


# --- on the screen


def draw(progress: Progress) -> Iterator[RenderableType]:
    """Parts of the screen, for any width of terminal."""
    head = Text.assemble((progress.campaign, "bold"), f" on {progress.target}" if progress.target else "")
    yield head.append(f"  {local_time(progress.now):%H:%M:%S}", style="dim")
    for wrong in progress.wrong:
        yield Text(wrong, style="yellow")
    if progress.plan is None:
        if not progress.wrong:
            yield Text(f"there is no plan in {progress.results} yet; snakemake writes it first")
        return
    for a in progress.allocations:
        total = a.repetitions_done + a.repetitions_left
        measured = f"{100 * a.repetitions_done // total} % measured" if total else "nothing to measure"
        to_go = f", about {human_duration(a.to_go_s)} to go" if a.repetitions_left else ""
        yield Text.assemble((a.title, "bold"), f": {measured}{to_go}")
        why = f": {a.why}" if a.why else ""
        where = (f" on {hosts(a.hosts)}" if a.hosts else "") + (f" (job {a.job})" if a.job else "")
        expected = f"; Slurm expects it to begin at {local_time(a.starts):%F %H:%M}" if a.starts is not None else ""
        yield Padding(Text.assemble((a.state, _STATES.get(a.state, "")), where, why, expected), (0, 0, 0, 2))
    table = facts()
    planned = sum(progress.counts.values()) - progress.counts.get("unneeded", 0)
    missing = f", {count:,} missing" if (count := progress.counts.get("missing", 0)) else ""
    table.add_row("results", f"{progress.counts.get('complete', 0):,} of {planned:,} complete{missing}")
    if len(progress.allocations) > 1 and progress.to_go_s:
        table.add_row("in all", f"about {human_duration(progress.to_go_s)} to go, plus the time that jobs wait")
    if progress.limit_s is not None:
        spent = f"{human_duration(progress.spent_s)} of {human_duration(progress.limit_s)} spent"
        table.add_row("limits.time", spent)
    yield Text()
    yield table
    if progress.newest:
        yield Text("\nnewest results", style="italic")
        yield _newest_table(progress)


def _newest_table(progress: Progress) -> RenderableType:
    table = facts()
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    before = None
    for f in progress.newest[:_ROWS]:
        name = f.point.rpartition(".")[0]  # without the hash at its end
        first = ("", "") if (f.point, f.ended) == before else (f"{local_time(f.ended):%H:%M}", name)
        figure = "no figure" if f.value is None else human_rate(f.value, f.metric == "bandwidth_bytes_per_s")
        table.add_row(*first, f.phase, figure, Text(f.verdict, style=_VERDICTS.get(f.verdict, "")))
        before = f.point, f.ended
    return table
