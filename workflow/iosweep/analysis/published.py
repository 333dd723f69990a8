"""The published figure that each result compares with, and its share of it. Pure, but for the suites' files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis import acceptance
from iosweep.analysis.summary import PointSummary
from iosweep.config import criteria
from iosweep.config.criteria import Published
from iosweep.plan.headline_groups import suites_of
from iosweep.plan.model import SweepFacts


@dataclass(frozen=True)
class Compared:
    """share: our figure over the published one; of a latency, more than 1 is slower."""

    published: Published
    share: float

    @property
    def text(self) -> str:
        """`42 % of the published 21.4 GiB/s (supermicro)`, `completion latency 120 % of the published 272 us (aws)`"""
        figure = self.published.selector.figure if self.published.lowest else ""
        return f"{figure} {100 * self.share:.3g} % of the published {self.published.text}".lstrip()


#: (point, phase) -> what it compares with.
Known = Mapping[tuple[str, str], Compared]
NOTHING: Known = {}


def of(results: Sequence[PointSummary], sweeps: Iterable[SweepFacts]) -> Known:
    """Of several published figures: that of the column which a phase is measured by, of the best system."""
    suites = suites_of(sweeps)
    known = [figure for suite in dict.fromkeys(suites.values()) for figure in criteria.published_of_suite(suite)]
    found: dict[tuple[str, str], Compared] = {}
    for result, subject in zip(results, acceptance.subjects(results), strict=True) if known else ():
        alike = [one for one in known if criteria.compares(one, subject, suites) and one.column in result.metrics]
        if not alike:
            continue
        column = result.metric if any(one.column == result.metric for one in alike) else alike[0].column
        own = [one for one in alike if one.column == column]
        best = (min if own[0].lowest else max)(own, key=lambda one: one.value)
        if (ours := result.typical(column)) is not None:
            found[result.point, result.phase] = Compared(best, ours / best.value)
    return found
