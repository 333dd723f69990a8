"""Repetitions of an allocation that are left, and results that are measured again: of another tool or target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from iosweep.judge import remaining
from iosweep.plan.forecast import Cost, repetition_cost
from iosweep.plan.model import Point
from iosweep.programs.path import Program
from iosweep.run.request import Setup
from iosweep.store.committed import Result
from iosweep.text import human_count

#: point -> repetition -> its result, and point -> repetitions that are left.
Done = dict[str, dict[int, Result]]
Left = dict[str, list[int]]


@dataclass
class Work:
    """`here`: what this machine offers. `done`: the results of the campaign so far."""

    setup: Setup
    here: remaining.Here
    done: Done

    @cached_property
    def points(self) -> dict[str, Point]:
        return {point.id: point for point in self.setup.allocation.points}

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """Forecast of one repetition of each point."""
        bandwidth = self.setup.plan.target.node_bandwidth
        return {id: repetition_cost(point, bandwidth) for id, point in self.points.items()}

    def remaining(self) -> remaining.Remaining:
        """What remains of the plan."""
        request, missing = self.setup.request, self.setup.store.missing()
        return remaining.find(request.plan, self.done, missing, self.here, request.only)

    def left(self) -> Left:
        """point -> numbers of the repetitions of this allocation that are left."""
        return self.remaining().left.get(self.setup.request.name, {})

    def expected(self) -> dict[str, int]:
        """point -> how many repetitions of this allocation are still to come, as far as it can be said."""
        return self.remaining().expected.get(self.setup.request.name, {})

    def unneeded(self) -> list[str]:
        """Why ramps do not need what this allocation has not measured: the distinct reasons."""
        return list(dict.fromkeys(self.remaining().unneeded.get(self.setup.request.name, {}).values()))

    def seconds(self, todo: Mapping[str, int]) -> float:
        """Forecast of some repetitions. `todo`: point -> how many."""
        return sum(self.costs[point].time_s * count for point, count in todo.items())

    def disturbed(self, point: str, number: int) -> bool:
        """Whether a result counts, but another try may cure its failure."""
        result = self.done.get(point, {}).get(number)
        plan = self.setup.plan
        return bool(result and result.retry and remaining.current(result, plan, self.points[point], self.here))

    def outdated(self, todo: Left, programs: Mapping[str, Program]) -> list[str]:
        """Sentences on results that are measured again: those of other builds, and those of another target."""

        def build(point: str, result: Result) -> str | None:
            tool = self.points[point].tool
            return tool if tool in programs and result.tool_sha256 != programs[tool].sha256 else None

        def target(_: str, result: Result) -> str | None:
            elsewhere = remaining.elsewhere(result, self.here)
            return _place(result.target.directory, result.target.facts) if elsewhere else None

        found = []
        if many := self._counted(todo, build):
            found.append(f"measured again, because their tool is another build now: {many}")
        if self.here.target and (many := self._counted(todo, target)):
            now = _place(self.setup.plan.target.directory, self.here.target)
            found.append(f"measured again, because the target has changed: {many}; the target is {now} now")
        return found

    def _counted(self, todo: Left, label: Callable[[str, Result], str | None]) -> str:
        """How many results that are left have which label: `2 results of fio, 1 result of ior`."""
        found = Counter(
            name
            for point, numbers in todo.items()
            for number in numbers
            if (result := self.done.get(point, {}).get(number)) and (name := label(point, result))
        )
        return ", ".join(f"{human_count(count, 'result')} of {name}" for name, count in sorted(found.items()))


def _place(directory: str, facts: Mapping[str, object]) -> str:
    """A target's directory, and the file system that it is on."""
    return f"{directory} on {facts.get('source')} ({facts.get('fstype')})"
