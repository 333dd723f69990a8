"""A comparison of two campaigns in words: its sentence, the names of its findings, what limits it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import distinct
from iosweep.analysis.changes import sessions
from iosweep.analysis.comparison import Comparison, Finding, Verdict, lower_is_better, most_elsewhere, told
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.formats import listing
from iosweep.analysis.matching import Hint, Unmatched
from iosweep.text import human_count
from iosweep.tools import parameters, phases

#: Changes that the sentence names.
_NAMED = 3

SYMBOLS = {"regression": "▼", "improvement": "▲", "same": "=", "undecided": "?"}
LEGEND = "▼ worse, ▲ better, = no difference that matters, ? undecided, ○ in doubt;"


def sentence(found: Comparison) -> str:
    """`Random reads at 4 KiB lost 6.1 % (4.0 to 8.2); nothing else changed by more than 2 %.`"""
    changed = told(found)
    parts = [f"{subject(found, one)} {effect(one, found.column)}" for one in changed[:_NAMED]]
    if more := changed[_NAMED:]:
        covered = sum(len(one.pairs) for one in more)
        parts.append(f"{human_count(covered, 'other result')} changed, too")
    parts += filter(None, [_rest(found, changed)])
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def subject(found: Comparison, one: Finding) -> str:
    """What a finding is about: `random reads at 4 KiB, 8 threads per node`, `create rate`."""
    name, place = _name(found, one), where(found, one)
    return f"{name} at {place}" if place else name


def _name(found: Comparison, one: Finding) -> str:
    known = phases().get(one.phase)
    name = known.help if known and known.kind == "data" else f"{one.phase.replace('_', ' ')} rate"
    if found.column:
        name = f"{_figure(found.column)} of {name.removesuffix(' rate')}"
    if len({other.conditions for other in found.singles if other.phase == one.phase}) > 1:
        name += f" ({titles.describe(one.conditions, one.pairs[0].a.kind, [one.phase])})"
    return name


def where(found: Comparison, one: Finding) -> str:
    """The parameters that tell a finding from the others of its phase, with their values: `4 KiB, queue depth 16`; ""
    where none do."""
    return ", ".join(titles.named(name, value) for name, value in parameters_of(found, one).items())


def parameters_of(found: Comparison, one: Finding) -> dict[str, Value]:
    """The same as columns with their values."""
    if not one.single:
        return dict(one.where)
    alike = [other.pairs[0].a for other in found.singles if (other.phase, other.conditions) == _kind(one)]
    own = one.pairs[0].a.parameters
    return {name: v for name in parameters() if len(distinct(alike, name)) > 1 and (v := own[name]) is not None}


def brief(found: Comparison, one: Finding) -> str:
    """The same as `subject` for a row of a table: `random reads, 8 threads, 4 KiB, QD 16`."""
    if not one.single:
        return subject(found, one)
    parts = [_brief(name, value, one) for name, value in parameters_of(found, one).items()]
    return ", ".join([_name(found, one), *parts])


def _brief(column: str, value: Value, one: Finding) -> str:
    option = parameters()[column]
    if column == "threads_per_node" and isinstance(value, int):
        return human_count(value, "rank" if titles.is_mpi(one.pairs[0].a.tool) else "thread")
    return option.brief.format(titles.parameter(column, value)) if option.brief else titles.named(column, value)


def effect(one: Finding, column: str) -> str:
    """`lost 6.1 % (4.0 to 8.2)`, of several `... in the mean of 8 results`; of latencies `rose`, `fell`."""
    change = one.change
    if change is None:
        return "changed by nobody knows what"
    verbs = ("fell", "rose") if lower_is_better(column) else ("lost", "gained")
    low, high = change.within()
    ends = sorted((low, high) if change.share > 0 else (-high, -low))
    mean = "" if one.single else f" in the mean of {human_count(len(one.pairs), 'result')}"
    return (
        f"{verbs[change.share > 0]} {_percent(abs(change.share))} % ({_percent(ends[0])} to {_percent(ends[1])}){mean}"
    )


def interval(one: Finding) -> str:
    """`-6.1 % (-8.2 to -4.0)`, or why there is none."""
    if one.change is None:
        return one.why
    low, high = one.change.within()
    return f"{_signed(one.change.share)} % ({_signed(low)} to {_signed(high)})"


def figures(one: Finding, column: str) -> tuple[str, str]:
    """The figures of both campaigns, of one result; of several there are none."""
    if not one.single:
        return "", ""
    pair, own = one.pairs[0], column or one.pairs[0].a.metric
    units = formats.units_of(own, pair.a.kind)
    first, other = (formats.quantity(result.typical(own) or 0.0, units) for result in (pair.a, pair.b))
    return first, other


def counted(at_least: float) -> list[tuple[Verdict, str]]:
    """The verdicts with what a number of them is called."""
    return [
        ("regression", "worse"),
        ("improvement", "better"),
        ("same", f"without a difference > {100 * at_least:g} %"),
        ("undecided", "undecided"),
    ]


def verdict(one: Finding, at_least: float) -> str:
    """`regression`, `no difference > 3 %`, `undecided`."""
    return f"no difference > {100 * at_least:g} %" if one.verdict == "same" else one.verdict


def more(one: Finding) -> str:
    """How many more repetitions would decide a finding; "" where none are needed, or would."""
    if one.verdict != "undecided" or one.change is None:
        return ""
    return f"{one.more}" if one.more is not None else "> 100"


def to_decide(found: Comparison) -> str:
    """How many more repetitions would decide what is undecided; "" where nothing is."""
    undecided = [one for one in found.undecided if one.change]
    if not undecided:
        return ""
    known = [one.more for one in undecided if one.more is not None]
    many = len(undecided) - len(known)
    text = f"{human_count(len(undecided), 'result is', 'results are')} undecided"
    if known:
        text += f": {human_count(math.ceil(median(known)), 'more repetition')} in each campaign would decide half of"
        text += f" {'them' if not many else f'{len(known):,} of them'}, {max(known):,} all of these"
    if many:
        text += f"; {many:,} would need more than 100"
    return f"{text}."


def limits(a: Campaign, b: Campaign, found: Comparison) -> Iterator[str]:
    """What the reader of a comparison has to know of it, a sentence each."""
    tested = sum(one.change is not None for one in found.findings)
    yield (
        f"Intervals are 95 % of each result; verdicts allow for {human_count(tested, 'comparison')} (Holm), so that of"
        " 100 pairs of equal campaigns at most 5 show any change."
    )
    if single := [name for name, one in (("first", a), ("other", b)) if sessions(one) < 2]:
        which = "Both campaigns are" if len(single) == 2 else f"The {single[0]} campaign is"
        yield (
            f"{which} of one session, as far as is recorded: what differs between sessions (other load, the state"
            " of the file system) is not in the intervals. Compare two campaigns of the same system to see how much"
            " that is."
        )
    if doubted := sum(one.suspect for one in found.singles):
        yield (
            f"{human_count(doubted, 'result has', 'results have')} repetitions that are suspect or were left out as"
            " invalid: ○."
        )
    if found.matching.ignored:
        names = listing([parameters()[column].shown for column in parameters() if column in found.matching.ignored])
        yield f"Points that differ in {names} are compared, because this was to be ignored."


def absent(found: Comparison, names: tuple[str, str]) -> Iterator[str]:
    """What is not compared, in short: a sentence for each reason."""
    for side, name in enumerate(names):
        for why in dict.fromkeys(one.why for one in found.matching.unmatched):
            own = [one for one in found.matching.unmatched if (one.side, one.why) == (side, why)]
            if own:
                reason = f"only in {name}" if why == "only there" else f"of {name} are not compared: {why}"
                yield f"{_counted(own)} {'are ' if why == 'only there' else ''}{reason}."
    for side, why in dict.fromkeys((side, why) for _, side, why in found.without):
        count = sum((other, reason) == (side, why) for _, other, reason in found.without)
        yield f"{human_count(count, 'result is', 'results are')} not compared: {why} in {names[side]}."


def advice(hint: Hint | None) -> str:
    """Why few points match, and what to do about it; "" where nothing is known."""
    if hint is None:
        return ""
    parts = []
    if hint.differ and not hint.matched:
        parts.append(f"the values of {listing(list(hint.differ))} differ everywhere")
    elif hint.differ:
        which = " ".join(f"--ignore {name}" for name in hint.differ)
        parts.append(f"`{which}` would compare {human_count(hint.matched, 'result')}: their values differ everywhere")
    if hint.conditions:
        parts.append(
            f"{listing(list(hint.conditions))} differ everywhere, and figures that differ in these never compare"
        )
    return "; ".join(parts)


def _rest(found: Comparison, changed: Sequence[Finding]) -> str:
    """What is known of the results that no change is about."""
    covered = {id(pair) for one in changed for pair in one.pairs}
    others = [one for one in found.singles if id(one.pairs[0]) not in covered]
    if not others:
        return "" if changed else "nothing was compared"
    bound, least = most_elsewhere(others), f"{100 * found.at_least:g} %"
    if bound is not None and bound <= found.at_least:
        most = f"{math.ceil(1000 * bound) / 10:g} %"
        return f"nothing else changed by more than {most}" if changed else f"nothing changed by more than {most}"
    undecided = sum(one.verdict == "undecided" for one in others)
    what = "no other change" if changed else "no change"
    are = "is" if undecided == 1 else "are"
    doubt = f", but {undecided:,} of {human_count(len(others), 'result')} {are} undecided" if undecided else ""
    return f"{what} of {least} or more was found{doubt}"


def _kind(one: Finding) -> tuple[object, object]:
    return one.phase, one.conditions


def _figure(column: str) -> str:
    """`latency_p99_s` -> `p99 latency`."""
    words = column.removesuffix("_s").removesuffix("_bytes_per").removesuffix("_per").split("_")
    if "latency" in words:
        at = words.index("latency")
        own = ".".join(words[at + 1 :])
        return " ".join([*words[:at], own, "latency"]).strip()
    return {"bandwidth": "throughput", "ops": "IOPS"}.get(words[0], " ".join(words))


def _counted(own: Sequence[Unmatched]) -> str:
    points = len({one.result.point for one in own})
    return f"{human_count(len(own), 'result')} of {human_count(points, 'point')}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if abs(share) < 0.995 else f"{100 * share:.0f}"


def _signed(share: float) -> str:
    sign = "" if abs(share) < 0.0005 else "+" if share > 0 else "\N{MINUS SIGN}"
    return f"{sign}{_percent(abs(share))}"
