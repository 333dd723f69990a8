"""Sizes, durations and shares, as a configuration writes them and as a person reads them.

Sizes are read as IOR and fio read them: k, m, g, t and p are binary. Inside the package everything is SI base units:
bytes, seconds, fractions.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

#: Upper limits: a size in 64 bits, a duration of a century, a number of nodes or repetitions.
LARGEST_SIZE, MOST_SECONDS = (1 << 63) - 1, 36525 * 86400.0
MOST_COUNT = 65536

SIZE_PATTERN = r"^[0-9]+[kmgtpKMGTP]?$"
DURATION_PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|m|min|h|d)$"
SHARE_PATTERN = r"^[0-9]+(\.[0-9]+)?%$"


def parse_size(value: object) -> int:
    """Bytes of `4096`, `"4k"`, `"16g"`. Raises ValueError with what would be right."""
    size = None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        size = value
    if isinstance(value, str) and re.fullmatch(SIZE_PATTERN, value):
        digits = value.rstrip("kmgtpKMGTP")
        unit = _BINARY[value[len(digits) :].lower()]
        digits = digits.lstrip("0")
        # Python refuses to convert thousands of digits; more than 20 are too many anyway
        size = int(digits[:20] or "0") * unit
    if size is not None and size <= LARGEST_SIZE:
        return size
    if size is not None:
        raise ValueError(f"larger than {LARGEST_SIZE:,} bytes (8 EiB), the most that a size may be")
    raise ValueError("not a size; write bytes, or a whole number with k, m, g, t or p (binary), for example 4k or 16g")


class NotADuration(ValueError):
    """The value is not a number with a unit of time."""


def parse_duration(value: object) -> float:
    """Seconds of `"60s"`, `"5min"`, `"2h"`, `"500ms"`. Raises ValueError with what would be right."""
    if isinstance(value, str) and (match := re.fullmatch(DURATION_PATTERN, value)):
        seconds = float(value.removesuffix(match[2])) * _SECONDS[match[2]]
        if seconds > MOST_SECONDS:
            raise ValueError(f"larger than {MOST_SECONDS / 86400:.0f}d, the most that a duration may be")
        if len(value) <= 20:
            return seconds
    raise NotADuration("not a duration; write a number with its unit ms, s, min, h or d, for example 60s or 2h")


def parse_share(value: object) -> float:
    """Fraction of `"10%"`. Raises ValueError with what would be right."""
    short = value if isinstance(value, str) and len(value) <= 20 else ""
    if re.fullmatch(SHARE_PATTERN, short) and float(short[:-1]) <= 100:
        return float(short[:-1]) / 100
    raise ValueError("not a share; write a percentage from 0% to 100%, for example 5%")


def size_name(size: int) -> str:
    """A size as the configuration writes it, exactly: 4096 -> 4k, 1000 -> 1000."""
    for unit in "ptgmk":
        if size >= _BINARY[unit] and size % _BINARY[unit] == 0:
            return f"{size // _BINARY[unit]}{unit}"
    return str(size)


def human_size(size: float) -> str:
    """Bytes for a person: 4.1 TiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"


def human_rate(value: float, of_bytes: bool) -> str:
    """`2.0 GiB/s`, or I/Os or files: `27,494/s`"""
    return f"{human_size(value)}/s" if of_bytes else f"{value:,.0f}/s"


def local_time(epoch_s: float | None = None) -> datetime:
    """A moment (None: now) in this machine's time zone, or in UTC where that is a day or more away (TZ=X+30)."""
    moment = datetime.now(UTC) if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC)
    try:
        return moment.astimezone()
    except ValueError:
        return moment


def human_duration(seconds: float) -> str:
    """Seconds for a person: 45 s, 3 min 5 s, 3 h 10 min, 2 d 4 h."""
    s = round(seconds)
    for big, small, span, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if s >= span:
            rest = s % span // part
            return f"{s // span} {big} {rest} {small}" if rest else f"{s // span} {big}"
    return f"{s} s"
