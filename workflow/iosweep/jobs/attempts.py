"""The jobs of one run of Snakemake: what the next job of an allocation asks for after the last one failed.

The Snakefile makes one `Attempts`; the executor plugin, in the same process, takes it from here.
"""

from __future__ import annotations

import contextlib
import enum
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from iosweep.errors import ConfigError
from iosweep.files import safe_paths
from iosweep.jobs import submission
from iosweep.jobs.profile import Profile
from iosweep.store.campaign_documents import Refusal
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
    """What is known of an allocation from its jobs.

    `attempt`: 1, and 1 more for each job that was too short to measure anything. `after`: the job of another campaign
    that the next one waits for; `waited`: those that one has waited for. `bad`: nodes that could not work on the
    target. `refusal`: why the last job failed.
    """

    attempt: int = 1
    after: str | None = None
    waited: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    refusal: Refusal | None = None


class Attempts:
    """The jobs of a campaign in one run. `again`: looks at the store once more; raises ConfigError."""

    def __init__(self, campaign: Dag, again: Callable[[], Dag]):
        self.campaign = campaign
        self._again = again
        self._tried: dict[str, _Tried] = defaultdict(_Tried)

    @property
    def _store(self) -> Store:
        return Store(self.campaign.results)

    def minutes(self, allocation: str) -> int:
        """The wall time that the next job asks for."""
        return self.campaign.minutes(allocation, self._tried[allocation].attempt)

    def least_minutes(self, allocation: str) -> int | None:
        """The wall time to which Slurm may shorten it; None, not at all, after a job that was too short."""
        return self.campaign.least_minutes(allocation) if self._tried[allocation].attempt == 1 else None

    def asks(self, allocation: str) -> tuple[Profile, int, int]:
        """What the profile says for the next job, its nodes, and its wall time in minutes."""
        nodes = self.campaign.nodes(allocation)
        return self.campaign.site.at(nodes), nodes, self.minutes(allocation)

    def after(self, allocation: str) -> str | None:
        """Number of a job that must be over before the next one."""
        return self._tried[allocation].after

    def text(self, allocation: str) -> str:
        """What is left of an allocation, and what its next job asks for."""
        asks = self.campaign.site.slurm and self.left(allocation)
        return self.campaign.text(allocation, self.minutes(allocation) if asks else None)

    def bad_nodes(self, allocation: str) -> frozenset[str]:
        """Nodes that the next job must not get."""
        return frozenset(self._tried[allocation].bad)

    def left(self, allocation: str) -> bool:
        return allocation in self.campaign.left_s

    def begin(self, allocations: Iterable[str]) -> None:
        """Remove the refusals of an earlier run."""
        for allocation in allocations:
            self._store.set_refusal(allocation, None)

    def refusal(self, allocation: str) -> Refusal | None:
        """Why the last job could not go on, if its runner stored that."""
        return self._store.documents(Refusal).get(allocation)

    def reasons(self, failed: Iterable[tuple[str, str | None, Path]]) -> list[str]:
        """Why jobs of Snakemake failed, sorted sentences. `failed`: rule, allocation if it has one, and log of each."""
        stored = self._store.documents(Refusal)
        found = set()
        for rule, allocation, log in failed:
            if allocation is not None:
                why = stored[allocation].reason if allocation in stored else f"see {log}"
                found.add(f"{submission.spoken(allocation)}: {why}")
            elif rule == "tools" and stored:  # what could not be built is stored for each allocation
                found |= {refusal.reason for refusal in stored.values()}
            else:
                found.add(f"{rule}: {_last_line(log)}")
        return [printable(sentence) for sentence in sorted(found)]

    def measured_since(self, before: Dag) -> bool:
        """Whether less is left than was, by the store."""
        self.look_again()
        return self.campaign.left_s != before.left_s

    def end(self, failed: Iterable[tuple[str, str | None, Path]], measured: bool) -> list[str]:
        """The last lines of a run that failed or was stopped. `measured`: whether it has measured anything."""
        failed = list(failed)
        # On one machine, the reason of a runner that measured nothing stands right above.
        lines = self.reasons(job for job in failed if self.campaign.site.slurm or measured or job[1] is None)
        if not failed:  # stopped
            lines = [self.campaign.text(allocation) for allocation in sorted(self.campaign.left_s)]
        stored = "what was measured is stored; " if measured else ""
        return [
            *lines,
            f"{stored}the same command {'tries again' if failed and not measured else 'goes on from there'}",
        ]

    def give_up(self, allocation: str, why: str) -> None:
        """Store that a job was canceled, and that another one would not help. Raises OSError."""
        self._store.set_refusal(allocation, Refusal(why, lasting=True, stopped=True))

    def look_again(self) -> None:
        """Ask the store what is left, unless the configuration is another one by now."""
        try:
            now = self._again()
        except ConfigError:
            return
        if now.plan_file == self.campaign.plan_file:
            self.campaign = now

    def failed(self, allocation: str, state: str | None, more: bool) -> Next:
        """What follows a job that failed. `state`: Slurm's, None if it forgot the job. `more`: retries are left."""
        tried, refusal = self._tried[allocation], self.refusal(allocation)
        again = submission.repeated(refusal, tried.refusal, self.campaign.nodes(allocation))
        tried.refusal = refusal
        if (refusal and refusal.lasting) or again or not more:
            return Next.NONE
        self._store.set_refusal(allocation, None)  # the next job has reasons of its own
        after = tried.after = refusal.after if refusal else None
        before_s = self.campaign.left_s.get(allocation, 0.0)
        self.look_again()
        # To wait for another job, or to have measured something, is not a failure. Once for each job that is waited
        # for: Slurm may not know it (another cluster's), or it has ended and left its lock.
        waits = after is not None and after not in tried.waited
        progress = self.campaign.left_s.get(allocation, 0.0) < before_s
        if not (waits or progress) and submission.too_short(state, refusal):
            tried.attempt += 1
        tried.bad.update(submission.avoidable(refusal))
        if after is not None:
            tried.waited.add(after)
        return Next.FREE if waits or progress else Next.RETRY


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        if line := safe_paths.last_line(log.parent, log.name):
            return line
    return f"see {log}"


#: The jobs of this run: the Snakefile sets it before the executor is made. None where another workflow runs.
of_this_run: Attempts | None = None
