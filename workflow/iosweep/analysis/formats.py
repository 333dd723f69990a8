"""How figures, sizes and lists of nodes are written: one form for page, figures and terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from iosweep.analysis.aggregate import Statistics
from iosweep.hostlist import hosts as hosts
from iosweep.hostlist import natural as natural

#: An interval whose ends differ by this factor says nothing: of two repetitions that scatter, 0.005 to 228,000 %.
_USELESS = 100.0


@dataclass(frozen=True)
class Unit:
    """A unit to show a figure in."""

    name: str
    size: float  # in the column's SI base unit
    least: float = 1.0  # smallest figure, in this unit, that is shown in it


_BINARY = {"B": 2**0, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE = tuple(Unit(name, size) for name, size in _BINARY.items())
THROUGHPUT = tuple(Unit(f"{name}/s", size) for name, size in _BINARY.items())
IOPS = (Unit("IOPS", 1), Unit("k IOPS", 1e3, 10), Unit("M IOPS", 1e6))
OPS = (Unit("ops/s", 1), Unit("k ops/s", 1e3, 10), Unit("M ops/s", 1e6))
LATENCY = (Unit("ns", 1e-9), Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1))


def pick(units: Sequence[Unit], largest: float) -> Unit:
    """The unit in which a figure of this size (SI base unit) reads best."""
    fitting = [unit for unit in units if abs(largest) >= unit.size * unit.least]
    return fitting[-1] if fitting else units[0]


def units_of(column: str, kind: str) -> tuple[Unit, ...]:
    """The units that a figure column of a data or metadata phase is shown in."""
    if "bandwidth" in column:
        return THROUGHPUT
    if "latency" in column:
        return LATENCY
    return OPS if kind == "metadata" else IOPS


def number(value: float) -> str:
    """At least three significant digits, thousands set apart: 12,345 or 1.23 or 0.00123."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.9995 else f"{value:.3g}"


def quantity(value: float, units: Sequence[Unit]) -> str:
    """A figure in SI base units with the unit that suits it: `1.25 GiB/s`."""
    unit = pick(units, value)
    return f"{number(value / unit.size)} {unit.name}"


def size(value: float) -> str:
    """Bytes in the largest unit in which six digits are exact: `64 KiB`, `1.5 GiB`, `3,901 B`."""
    for unit in SIZE[:0:-1]:
        text = f"{value / unit.size:.6g}"
        if value >= unit.size and float(text) * unit.size == value:
            return f"{text} {unit.name}"
    return f"{value:,.0f} B"


def spread(statistics: Statistics, units: Sequence[Unit], interval: bool = True) -> str:
    """How far the repetitions agree: `± 2.1 % (95 % CI, n = 3)`, or their range where an interval says nothing."""
    if statistics.n == 1:
        return single(statistics, units)
    doubt = "" if not interval or statistics.repeatable else "not repeatable: "
    if interval and not doubt and statistics.ci95_share is not None:
        return f"± {100 * statistics.ci95_share:.1f} % (95 % CI, n = {statistics.n})"
    return f"{doubt}{span_of(statistics, units)} (n = {statistics.n})"


def single(statistics: Statistics, units: Sequence[Unit]) -> str:
    """What a figure of one repetition is over: `one repetition`, or `5 iterations: 1.21 to 1.25 k ops/s`."""
    if statistics.iterations == 1:
        return "one repetition"
    return f"{statistics.iterations} iterations: {span_of(statistics, units)}"


def span_of(statistics: Statistics, units: Sequence[Unit]) -> str:
    """The range of the repetitions: `1.21 to 1.25 GiB/s`."""
    unit = pick(units, statistics.high)
    low, high = (number(value / unit.size) for value in (statistics.low, statistics.high))
    return f"{low} to {high} {unit.name}"


def percent(share: float, ends: tuple[float, float] | None = None) -> str:
    """`92 %`, `92 % (89 to 95 %)`; without the interval where it is all the same, or where it says nothing."""
    text = f"{_hundredths(share)} %"
    if ends and ends[1] > _USELESS * ends[0]:
        return f"{text} (too uncertain to say)"
    return text if ends is None or span_of_shares(ends) == text else f"{text} ({span_of_shares(ends)})"


def span_of_shares(ends: tuple[float, float]) -> str:
    """`89 to 95 %`, or `92 %`."""
    low, high = map(_hundredths, ends)
    return f"{low} %" if low == high else f"{low} to {high} %"


def _hundredths(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.2g}"


def times(ratio: float) -> str:
    """`3.8x`, `25x`"""
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def listing(texts: Sequence[str]) -> str:
    """`fio, IOR and mdtest`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def span(times: Iterable[datetime]) -> str:
    """When it was measured, in UTC."""
    ordered = sorted(times)
    if not ordered:
        return ""
    first, last = ordered[0], ordered[-1]
    if f"{first:%Y%m%d%H%M}" == f"{last:%Y%m%d%H%M}":
        return f"{first:%Y-%m-%d %H:%M} UTC"
    if first.date() == last.date():
        return f"{first:%Y-%m-%d %H:%M} to {last:%H:%M} UTC"
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
