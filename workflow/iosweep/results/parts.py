"""How unequal the nodes and the workers of a phase were. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from iosweep.own_rate import OwnRate
from iosweep.results.series import summed
from iosweep.tools import Evidence


class Slowest(NamedTuple):
    """The slowest of the nodes or of the workers, and its rate as a fraction of the median of all."""

    one: OwnRate
    share: float

    @property
    def name(self) -> str:
        """`n1`, `n1/5`, or `5` where the tool does not tell nodes apart."""
        if self.one.worker is None:
            return self.one.host
        return f"{self.one.host}/{self.one.worker}" if self.one.host else str(self.one.worker)


def rate(one: OwnRate) -> float:
    """Its bytes per second, or operations where it moves none."""
    return one.bandwidth_bytes_per_s or one.ops_per_s or 0.0


def nodes(rates: Sequence[OwnRate]) -> list[OwnRate]:
    return [one for one in rates if one.worker is None]


def workers(rates: Sequence[OwnRate]) -> list[OwnRate]:
    return [one for one in rates if one.worker is not None]


def slowest(rates: Sequence[OwnRate]) -> Slowest | None:
    """The slowest; None of fewer than two, or where most did nothing."""
    if len(rates) < 2:
        return None
    middle = median(map(rate, rates))
    one = min(rates, key=rate)
    return Slowest(one, rate(one) / middle) if middle else None


def columns(evidence: Evidence) -> Mapping[str, str | float | None]:
    """The columns of the results that say how even a phase was, over nodes, workers and time."""
    found: dict[str, str | float | None] = {}
    for name, rates in (("node", nodes(evidence.own_rates)), ("worker", workers(evidence.own_rates))):
        if lowest := slowest(rates):
            found |= {f"slowest_{name}": lowest.name, f"slowest_{name}_share": lowest.share}
    own = ("bandwidth_bytes_per_s", "ops_per_s")
    whole = [one for one in evidence.series if one.worker is None and one.name in own]
    together = whole[0] if len(whole) == 1 else summed(whole) if whole else None
    if together and len(together.values) > 1 and (mean := fmean(together.values)) > 0:
        squares = math.fsum((value - mean) ** 2 for value in together.values)  # pstdev takes four times as long
        found["rate_deviation"] = math.sqrt(squares / len(together.values)) / mean
    return found
