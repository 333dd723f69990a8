"""A history in words: the line of a headline, its changes, and the sentence above all. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.analysis import formats
from iosweep.analysis.changes import Changed
from iosweep.analysis.history import History, Line, Step, units
from iosweep.results.change_points import LEAST
from iosweep.text import human_count, some

#: Things that changed with a level that are named.
_NAMED = 4


def sentence(found: History) -> str:
    """What there is to know first: `30 campaigns, ...: Random read fell by 6.1 % (4.0 to 8.2) on ...`."""
    first, last = found.nights[0].began, found.nights[-1].began
    days = list(dict.fromkeys(f"{one:%Y-%m-%d}" for one in (first, last)))
    over = f"{human_count(len(found.nights), 'campaign')}, {' to '.join(days)}"
    if len(found.nights) < 2 * LEAST:
        return f"{over}: too few to find a change; it takes {LEAST} campaigns before the change and {LEAST} after it."
    lost = [
        f"{line.name.partition(',')[0]} {moved(line.steps[-1])} on {when(found, line.steps[-1].night)}"
        for line in found.regressions
    ]
    if lost:
        rest = len(found.lines) - len(lost)
        others = f"; {human_count(rest, 'other headline')} did not lose" if rest else ""
        return f"{over}: {formats.listing(lost)}{others}."
    if changed_ := sum(bool(line.steps) for line in found.lines):
        loss = "its last change was no loss" if changed_ == 1 else "none of their last changes was a loss"
        return f"{over}: {human_count(changed_, 'headline')} changed, and {loss}."
    return f"{over}: no headline changed."


def date(found: History, step: Step) -> str:
    return f"{found.nights[step.night].began:%Y-%m-%d}"


def when(found: History, index: int) -> str:
    """The date of a campaign; where others have the same, with its name, and its time where they have that, too:
    `2025-06-20`, `2025-06-20 (night-19)`, `2025-06-20 23:14:05 (night-19)`."""
    one = found.nights[index]
    day = f"{one.began:%Y-%m-%d}"
    alike = [other.name for other in found.nights if f"{other.began:%Y-%m-%d}" == day]
    if len(alike) == 1:
        return day
    return f"{day} ({one.name})" if alike.count(one.name) == 1 else f"{day} {one.began:%H:%M:%S} ({one.name})"


def moved(step: Step) -> str:
    """`fell by 6.1 % (4.0 to 8.2)`"""
    share = step.split.change.share
    ends = sorted(abs(end) * (1 if end * share > 0 else -1) for end in step.split.change.within())
    verb = "rose by" if share > 0 else "fell by"
    low, high = (f"{100 * end:.1f}".replace("-", "\N{MINUS SIGN}") for end in ends)
    return f"{verb} {100 * abs(share):.1f} % ({low} to {high})"


def verdict(step: Step) -> str:
    return "worse" if step.worse else "better" if step.better else "too small to matter"


def level(line: Line) -> str:
    """The present level: `1.70 M IOPS ± 2.0 % over 12 campaigns`; without an interval where that says nothing."""
    count = sum(one.index >= line.since for one in line.figures)
    if line.level is None:
        return f"{formats.quantity(line.last.value, units(line))}, one campaign"
    figure = formats.quantity(line.level.center, units(line))
    share = line.level.half_width_share
    sure = f" ± {100 * share:.1f} %" if share < 1 else ""
    return f"{figure}{sure} over {human_count(count, 'campaign')}"


def last(line: Line) -> str:
    return formats.quantity(line.last.value, units(line))


def changed(told: Sequence[Changed]) -> str:
    """What was not the same any more: `fio fio-3.33 -> fio-3.36; kernel 6.1 -> 6.6`."""
    texts = [f"{one.what} {one.a} -> {one.b}" for one in told]
    return some(texts, _NAMED, separator="; ") if texts else "nothing that is recorded"
