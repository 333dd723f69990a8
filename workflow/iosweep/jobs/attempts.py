"""The jobs of one run of Snakemake: what the next job of an allocation asks for after the last one failed.

The Snakefile makes one `Attempts`; the executor plugin, in the same process, takes it from here.
"""

from __future__ import annotations

import enum
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from iosweep.errors import ConfigError
from iosweep.jobs import submission
from iosweep.jobs.submission import Work
from iosweep.store.record import Refusal
from iosweep.store.store import Store
from iosweep.text import printable

if TYPE_CHECKING:
    from iosweep.dag import Dag


class Next(enum.Enum):
    """What follows a job that failed. FREE: another job, which does not count as a retry."""

    NONE = enum.auto()
    RETRY = enum.auto()
    FREE = enum.auto()


@dataclass
class _Tried:
    """The jobs of an allocation in this run.

    `attempt`: 1, and 1 more for each job that was too short to measure anything. `after`: the job of another campaign
    that the next job waits for; `waited`: jobs of other campaigns that earlier jobs waited for. `bad`: nodes that could
    not work on the target; `last_bad`: those of the last job.
    """

    attempt: int = 1
    after: str | None = None
    waited: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    last_bad: frozenset[str] = frozenset()


class Attempts:
    """The jobs of a campaign in one run. `again`: reads configuration and store again; raises ConfigError."""

    def __init__(self, campaign: Dag, again: Callable[[], Dag]):
        self.campaign = campaign
        self._again = again
        self._tried: dict[str, _Tried] = defaultdict(_Tried)

    @property
    def store(self) -> Store:
        return Store(self.campaign.results)

    def work(self, allocation: str) -> Work:
        return self.campaign.work[allocation]

    def minutes(self, allocation: str) -> int:
        """The wall time that the next job asks for."""
        return self.work(allocation).minutes(self._tried[allocation].attempt)

    def after(self, allocation: str) -> str | None:
        """Number of the job that the next job waits for."""
        return self._tried[allocation].after

    def text(self, allocation: str) -> str:
        """What is left of an allocation, and the request of its next job."""
        asks = self.campaign.site.slurm and self.work(allocation).points
        return self.campaign.text(allocation, self.minutes(allocation) if asks else None)

    def bad_nodes(self, allocation: str) -> frozenset[str]:
        """Nodes that the next job must not get."""
        return frozenset(self._tried[allocation].bad)

    def refusal(self, allocation: str) -> Refusal | None:
        """Why the last job could not go on, if its runner stored that."""
        return self.store.documents(Refusal).get(allocation)

    def fail(self, logs: Iterable[str]) -> NoReturn:
        """End a run that failed or was stopped: with a report of what is stored, and the reasons."""
        begun, reported = self.campaign, self.campaign.report()
        self.reload()
        to_come, before = ([work.points for work in run.work.values()] for run in (self.campaign, begun))
        measured = to_come != before
        if reported and measured:
            begun.show_headline()
        lines = [*(f"complete log: {log}" for log in logs), *self.last_words(measured)]
        sys.exit("\n".join(printable(f"iosweep: {line}") for line in lines))

    def last_words(self, measured: bool) -> list[str]:
        """Why allocations are left, and how the run goes on. `measured`: whether it has measured anything."""
        refusals, lines = self.store.documents(Refusal), []
        for allocation in sorted(self.campaign.left):
            if refusal := refusals.get(allocation):
                # what could not be built is stored for each allocation
                where = "" if refusal.not_built else f"{submission.spoken(allocation)}: "
                lines.append(f"{where}{refusal.reason}")
            else:
                lines.append(self.campaign.text(allocation))
        stored, again = "what was measured is stored; ", "the same command goes on from there"
        return [*dict.fromkeys(lines), stored + again if measured else "the same command tries again"]

    def reload(self) -> None:
        """Read again what is left, unless the configuration has changed."""
        try:
            now = self._again()
        except ConfigError:
            return
        if now.plan_file == self.campaign.plan_file:
            self.campaign = now

    def after_failure(self, allocation: str, state: str | None, more: bool) -> Next:
        """What follows a job that failed. `state`: Slurm's, None if it forgot the job. `more`: retries are left."""
        tried, refusal = self._tried[allocation], self.refusal(allocation)
        bad, before = frozenset(refusal.nodes if refusal else ()), tried.last_bad
        tried.last_bad = bad
        # all nodes of two jobs in a row, or nodes that Slurm has no others for: a third job would fail, too
        again = bad and (bad == before or len(bad) == len(before) == self.work(allocation).nodes)
        if (refusal and refusal.lasting) or again or not more:
            return Next.NONE
        self.store.set_refusal(allocation, None)  # the next job has reasons of its own
        after = tried.after = refusal.after if refusal else None
        before_s = self.work(allocation).cost.time_s
        self.reload()
        # To wait for another job, or to have measured something, is not a failure. Once for each job that is waited
        # for: Slurm may not know it (another cluster's), or it has ended and left its lock.
        waits = after is not None and after not in tried.waited
        progress = self.work(allocation).cost.time_s < before_s
        # more time does not cure a fault of a node or of the target
        too_short = state in ("TIMEOUT", "DEADLINE") or (refusal.short_of_time if refusal else state is None)
        if too_short and not (waits or progress):
            tried.attempt += 1
        tried.bad.update(bad)
        if after is not None:
            tried.waited.add(after)
        return Next.FREE if waits or progress else Next.RETRY


#: The jobs of this run: the Snakefile sets it before the executor is made. None where another workflow runs.
current: Attempts | None = None
