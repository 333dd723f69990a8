"""A tool's own clock against another one. Pure; for campaigns and `iosweep parse`."""

from __future__ import annotations

from datetime import datetime

#: Shares of its run time by which the tool's clock may be ahead, and behind, start-up aside; seconds that it may be
#: ahead in any case.
_AHEAD, _BEHIND, _SLACK_S = 0.02, 0.5, 0.05
#: A tool must time so many times what its start-up may take for its clock to be judged slow.
_COMPARABLE = 4 / 3


#: How C's ctime, and with it fio and IOR, prints a date.
CTIME = "%a %b %d %H:%M:%S %Y"


def date(text: str | None, form: str = CTIME) -> datetime | None:
    """A date that a tool printed by its node's clock, whose time zone it does not print; None where it is none."""
    try:
        return datetime.strptime(text or "", form)
    except ValueError:
        return None


def seconds(first: datetime | None, last: datetime | None) -> float | None:
    """From one date to a later one; None where they do not tell."""
    return (last - first).total_seconds() if first and last and last >= first else None


def iso(found: datetime | None) -> str | None:
    """A date as the columns `began_local` and `ended_local` have it."""
    return found.isoformat() if found else None


def fast(timed_s: float, wall_s: float, slack_s: float = _SLACK_S) -> str:
    """Why a tool cannot have timed so much in this time of another clock (off by `slack_s` at most); else nothing."""
    if timed_s <= wall_s * (1 + _AHEAD) + slack_s:
        return ""
    return f"the tool timed {timed_s:.2f} s, and all of it took {wall_s:.2f} s: its clock is fast"


def slow(timed_s: float, beside_s: float, start_s: float) -> bool | None:
    """Whether the tool's clock is slow: it timed so much, and `beside_s` more went by, of which `start_s` may be its
    start-up and end. None: too short to tell."""
    if beside_s <= _BEHIND * timed_s:
        return False
    return True if timed_s >= _COMPARABLE * start_s and beside_s > _BEHIND * timed_s + start_s else None
