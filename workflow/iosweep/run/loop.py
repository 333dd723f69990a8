"""Measuring what is left of an allocation, repetition by repetition, as far as its budget goes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence

from iosweep.errors import LeftBehind, Refused, TargetError, TargetHangs
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import FRESH
from iosweep.run.repetition import Context
from iosweep.run.repetition import measure as measure_repetition
from iosweep.run.work import Work
from iosweep.text import human_count
from iosweep.units import human_size

#: Time limit for deleting the files of an interrupted repetition.
CLEANUP_S = 10.0


class Loop:
    """The repetitions of one allocation."""

    def __init__(self, work: Work, context: Context, budget: Budget):
        self._work, self._context, self._budget = work, context, budget
        self._confirming = False
        self._setup, self._say = work.setup, work.setup.request.reporter.say

    def measure(self) -> None:
        """Measure all that is left, repetitions outermost, so that a drift of the system affects all points alike."""
        todo, expected = self._work.left(), self._work.expected()
        while todo:
            if fresh := [p for p, n in todo.items() if self._work.points[p].repetitions.confirms(n[0])]:
                self._announce(fresh)
            number = min(n[0] for n in todo.values())
            order = sorted(p for p, n in todo.items() if n[0] == number)
            random.Random(f"{self._setup.plan.seed}:{number}").shuffle(order)
            for point in order:
                if reason := self._budget.allow_repetition(self._work.points[point], self._work.costs[point]):
                    return self._leave_out(reason)
                self._repetition(point, number)
            before, expected, todo = expected, self._work.expected(), self._work.left()
            changed = {p: expected.get(p, 0) - before.get(p, 0) + (p in order) for p in {*before, *expected}}
            if again := sum(self._work.disturbed(p, n[0]) for p, n in todo.items()):
                self._say(f"{human_count(again, 'repetition is', 'repetitions are')} repeated: another try may help")
            self._setup.request.reporter.more(sum(changed.values()), self._work.seconds(changed))

    def _announce(self, fresh: Sequence[str]) -> None:
        """Say once that what follows confirms the best points."""
        if not self._confirming:
            self._confirming = True
            best = "the best point is" if len(fresh) == 1 else f"the {len(fresh):,} best points are"
            self._say(f"{best} measured again, to confirm the choice")

    def _leave_out(self, reason: str) -> None:
        """Record what is left as missing, because limits.time is spent (limits.over_time: trim)."""
        count = 0
        while todo := self._work.left():  # what cannot be measured, ramps and the choice of best points do not wait for
            for point in todo:
                self._setup.store.set_missing(point, Missing(Needs(time_s=self._setup.plan.limits.time), reason))
            count += sum(map(len, todo.values()))
        self._setup.missing(f"{human_count(count, 'repetition')}: {reason}")

    def _repetition(self, point: str, number: int) -> None:
        work, budget = self._work, self._budget
        cost, began_s = work.costs[point], budget.clock_s()

        def before_second_try() -> None:
            self._say(f"a server of the target failed {point}, which is tried again at once")
            budget.allow_second_try(work.points[point], cost)

        try:
            result, judged = measure_repetition(
                self._context, work.points[point], number, work.disturbed(point, number), before_second_try
            )
        except (LeftBehind, TargetHangs):
            with contextlib.suppress(OSError):
                budget.keep()
            raise
        except BaseException:  # also a signal: the files of an interrupted repetition do not stay on the target
            self._setup.agent.hurry()
            with contextlib.suppress(OSError):
                budget.keep()
            self._clean_up()
            raise
        budget.finished(cost, began_s)
        if result.attempt == 1:
            work.done.setdefault(point, {})[number] = result
        else:  # a second try does not always count
            work.done[point] = self._setup.store.results_of(point)
        self._setup.request.reporter.finished(result, judged, cost.time_s)

    def _clean_up(self) -> None:
        """Remove what can be removed in a short time; the next run removes the rest."""
        with contextlib.suppress(TargetHangs, TargetError, Refused):
            self._context.directory.remove(FRESH, CLEANUP_S)
        if stays := self._context.directory.present_bytes:
            self._setup.note(
                f"{human_size(stays)} stay on the target for the next run;"
                f" `iosweep clean {self._setup.plan.campaign}` removes them"
            )
