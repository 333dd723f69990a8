"""What `iosweep watch` shows (pure): a campaign at one moment, its allocations and its newest figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from iosweep.commands.watch.rates import Running

State = Literal["measuring", "waiting", "ending", "done", "refused", "stopped", "unseen", "not begun"]
#: States in which a job or process works on the allocation.
LIVE = frozenset({"measuring", "waiting", "ending"})


@dataclass(frozen=True)
class Seen:
    """The progress of an allocation. Times are in seconds since the epoch, None where they are not known.

    `why`: what it waits for, why it was refused or stopped, if that is known. `since`: when it began to measure, or to
    wait. `starts`: when Slurm expects it to begin. `ends`: when its job must have ended. `to_go_s`: time still needed
    once it is running. `repetitions_again`: those of `repetitions_left` that were measured and are repeated.
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
    points: int = 0
    points_done: int = 0
    points_missing: int = 0
    to_go_s: float = 0.0
    repetitions_again: int = 0
    rates: Running | None = None


@dataclass(frozen=True)
class Figure:
    """A phase of one of the newest results. `value`: its figure in the tables (column `metric`), or None.

    `verdict`: what the runner judged; "" in a result that does not say it.
    """

    ended: float
    point: str
    repetition: int
    again: bool
    phase: str
    metric: str
    value: float | None
    verdict: str


@dataclass(frozen=True)
class Snapshot:
    """A campaign at one moment.

    Counts are of repetitions. `verdicts`: verdict -> repetitions, each as good as its worst phase ("": not recorded in
    the result), and `missing`. `missing`: reason -> repetitions. `reasons`: those of what is not valid, causes first
    (reasons.py) -> repetitions. `damaged`: results that are damaged, and are measured again. `unread`: points
    that are to be read before there is more to show. `wrong`: what could not be read or asked.
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
    damaged: int = 0
    limit_s: float | None = None
    spent_s: float = 0.0
    unread: int = 0
    wrong: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether all is measured, and no job or process works on it."""
        busy = any(a.repetitions_left or a.state in LIVE for a in self.allocations)
        return self.plan is not None and not self.unread and not busy

    @property
    def to_go_s(self) -> float:
        """Of all allocations, one after the other; without the time that jobs wait."""
        return sum(a.to_go_s for a in self.allocations)


def of_allocation(running: Running | None, a: Seen) -> bool:
    """Whether what runs is measured in this allocation, as far as is known."""
    return running is not None and running.allocation == a.name and a.state in ("measuring", "unseen")
