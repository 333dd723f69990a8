"""`Histogram`: how long the I/Os of a phase took, in bins that are even on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Bins in which a latency doubles: each is 9 % wide.
BINS_PER_OCTAVE = 8
#: How much larger the upper bound of a bin is than that of the one before.
FACTOR = 2 ** (1 / BINS_PER_OCTAVE)


@dataclass(frozen=True)
class Histogram:
    """Counts of I/Os by latency.

    first: number of the first bin; bin b reaches to FACTOR**b nanoseconds; counts: of this bin and those after it.
    """

    first: int
    counts: tuple[int, ...]

    @property
    def lowest_s(self) -> float:
        """Upper bound of the first bin in seconds."""
        return float(FACTOR**self.first * 1e-9)

    @property
    def total(self) -> int:
        """Number of I/Os."""
        return sum(self.counts)

    def percentiles(self, wanted: Sequence[float], beyond: int) -> list[float]:
        """The latencies in seconds below which these percents of the I/Os are, in ascending order.

        Between the bounds of a bin on its logarithmic scale. They end where fewer than `beyond` I/Os are slower.
        """
        found: list[float] = []
        total, seen, bin_ = self.total, 0, -1
        for percent in wanted:
            target = percent / 100 * total
            if total - target < beyond - 1e-9 * total:
                break
            while seen < target and bin_ + 1 < len(self.counts):
                bin_ += 1
                seen += self.counts[bin_]
            own = self.counts[bin_] if bin_ >= 0 else 0
            part = 1 - (seen - target) / own if own else 1.0
            found.append(FACTOR ** (self.first + max(bin_, 0) - 1 + part) * 1e-9)
        return found


def made(bins: Mapping[int, int]) -> Histogram | None:
    """Of the counts by number of bin; None where there are none."""
    full = {number: count for number, count in bins.items() if count}
    if not full:
        return None
    first, last = min(full), max(full)
    return Histogram(first, tuple(full.get(number, 0) for number in range(first, last + 1)))


def read(lowest_s: float, factor: float, counts: Sequence[float | None]) -> Histogram:
    """One that was written with the upper bound of its first bin. Raises ValueError for what we have not written."""
    if not lowest_s > 0 or abs(factor - FACTOR) > 1e-9 or not all(count is not None and count >= 0 for count in counts):
        raise ValueError("a histogram has bins or counts that merge does not write")
    return Histogram(round(BINS_PER_OCTAVE * math.log2(lowest_s * 1e9)), tuple(int(count or 0) for count in counts))


def summed(histograms: Iterable[Histogram]) -> Histogram | None:
    """All as one, exactly; None of none."""
    bins: dict[int, int] = {}
    for one in histograms:
        for number, count in enumerate(one.counts, one.first):
            bins[number] = bins.get(number, 0) + count
    return made(bins)


def bin_of(latency_ns: float) -> int:
    """The number of the bin that holds a latency."""
    return math.ceil(BINS_PER_OCTAVE * math.log2(latency_ns) - 1e-9) if latency_ns > 1 else 0
