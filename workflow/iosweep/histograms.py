"""What is known of a phase beyond its figures: `NodeRate`, `Series` over time, `Histogram` of latencies."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from operator import sub

#: Bytes or operations per second: a tool that reports more is wrong. Many of these can still be added up.
LARGEST_RATE = float(1 << 50)
#: Bins in which a latency doubles: each is 4.4 % wide. Percentiles are then within 1.1 % of fio's in nine of ten cases.
BINS_PER_OCTAVE = 16
#: I/Os that must be slower than a percentile: of fewer, it is the luck of a few, and the percentile is left out. So
#: p99 takes 1,000 I/Os and p99.9 takes 10,000.
SLOWER_IOS = 10
#: How much larger the upper bound of a bin is than that of the one before.
FACTOR = 2 ** (1 / BINS_PER_OCTAVE)
#: The last bin of fio's histograms: a percentile in it is this or more, and is left out.
LAST_BIN_NS = 17_112_760_320


@dataclass(frozen=True)
class NodeRate:
    """The rate of a node, or of one of its workers. None: the tool does not report it.

    host: empty where the tool does not tell nodes apart; worker: its number on that node, or the rank where the tool
    does not tell nodes apart; None for the whole node.
    """

    host: str
    worker: int | None = None
    bandwidth_bytes_per_s: float | None = None
    ops_per_s: float | None = None


@dataclass(frozen=True)
class Series:
    """A quantity of one node at even intervals of a phase.

    name: the quantity with its unit, as a column has it (`ops_per_s`); values: one for each interval of `interval_s`
    seconds, NaN where nothing was read; begin_s: when the first interval began, in seconds since the command's start;
    host: as in NodeRate.
    """

    name: str
    values: tuple[float, ...]
    interval_s: float
    begin_s: float = 0.0
    host: str = ""

    def coarser(self, most: int) -> Series:
        """A series with at most so many values, each the mean of several intervals."""
        if len(self.values) <= most:
            return self
        width = -(-len(self.values) // most)
        groups = [self.values[k : k + width] for k in range(0, len(self.values) - width + 1, width)]
        return replace(self, values=tuple(sum(g) / width for g in groups), interval_s=self.interval_s * width)


def summed(series: Sequence[Series]) -> Series | None:
    """The sum of series with the same intervals over the time that all of them cover; None where they do not meet."""
    if len({round(s.interval_s, 6) for s in series}) != 1:
        return None
    step_s = series[0].interval_s
    begin = max(round(s.begin_s / step_s) for s in series)
    shifted = [s.values[begin - round(s.begin_s / step_s) :] for s in series]
    number = min(map(len, shifted))
    values = tuple(map(sum, zip(*(values[:number] for values in shifted), strict=True)))
    return Series(series[0].name, values, step_s, begin * step_s) if values else None


@dataclass(frozen=True)
class Histogram:
    """Counts of I/Os by latency, in bins that are even on a logarithmic scale.

    first: number of the first bin; bin b reaches to FACTOR**b nanoseconds; counts: of this bin and those after it.
    """

    first: int
    counts: tuple[int, ...]

    @staticmethod
    def of_bins(bins: Mapping[int, int]) -> Histogram | None:
        """Number of bin -> count; None without any I/O."""
        full = {number: count for number, count in bins.items() if count}
        if not full:
            return None
        first, last = min(full), max(full)
        return Histogram(first, tuple(full.get(number, 0) for number in range(first, last + 1)))

    @staticmethod
    def of_table(lowest_s: float, factor: float, counts: Sequence[float | None]) -> Histogram:
        """From a row of the table of latencies. Raises ValueError for bins that iosweep does not write."""
        known = [count for count in counts if count is not None]
        valid = 0 < len(known) == len(counts) and lowest_s > 0 and abs(factor - FACTOR) < 1e-9
        if not valid or not min(known) >= 0:
            raise ValueError("a histogram has bins or counts that we do not write")
        return Histogram(round(BINS_PER_OCTAVE * math.log2(lowest_s * 1e9)), tuple(map(int, known)))

    @staticmethod
    def merged(histograms: Sequence[Histogram]) -> Histogram | None:
        """The exact sum; None of no histograms."""
        if not histograms:
            return None
        first = min(histogram.first for histogram in histograms)
        end = max(histogram.first + len(histogram.counts) for histogram in histograms)
        return Histogram(first, tuple(map(sum, zip(*(h._between(first, end) for h in histograms), strict=True))))

    def _between(self, first: int, end: int) -> tuple[int, ...]:
        """The counts of wider bounds."""
        return (0,) * (self.first - first) + self.counts + (0,) * (end - self.first - len(self.counts))

    @property
    def lowest_s(self) -> float:
        """Upper bound of the first bin in seconds."""
        return float(FACTOR**self.first * 1e-9)

    @property
    def total(self) -> int:
        """Number of I/Os."""
        return sum(self.counts)

    @cached_property
    def _cumulative(self) -> list[int]:
        return list(accumulate(self.counts))

    def without(self, part: Histogram) -> Histogram:
        """The rest of a sum of histograms without one of them."""
        counts = part._between(self.first, self.first + len(self.counts))
        return Histogram(self.first, tuple(map(sub, self.counts, counts)))

    def percentile(self, percent: float) -> float:
        """The latency in seconds below which this percent of the I/Os are, interpolated inside a bin on its logarithmic
        scale."""
        target = percent / 100 * self._cumulative[-1]
        index = min(bisect_left(self._cumulative, target), len(self.counts) - 1)
        part = 1 - (self._cumulative[index] - target) / (self.counts[index] or 1)
        return float(FACTOR ** (self.first + index - 1 + part) * 1e-9)

    def percentiles(self, wanted: Sequence[float]) -> list[float]:
        """The same of several percents, which ascend. The list ends where fewer than SLOWER_IOS I/Os are above, and at
        fio's last bin."""
        found, total = list[float](), self.total
        for percent in wanted:
            latency_s, above = self.percentile(percent), (1 - percent / 100) * total
            if above < SLOWER_IOS - 1e-9 * total or latency_s * FACTOR > LAST_BIN_NS * 1e-9:
                break
            found.append(latency_s)
        return found


def bin_of(latency_ns: float) -> int:
    """The number of the bin that holds a latency."""
    return math.ceil(BINS_PER_OCTAVE * math.log2(latency_ns) - 1e-9) if latency_ns > 1 else 0
