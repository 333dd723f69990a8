"""A comparison of two campaigns in words: its sentence, the names of its findings, what limits it. Pure.

Where nothing is known of how sessions differ, figures are lower or higher: that the system lost something is not shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from iosweep.analysis import findings, formats
from iosweep.analysis.changes import sessions
from iosweep.analysis.comparison import (
    Comparison,
    Finding,
    Learned,
    Like,
    Verdict,
    Versus,
    lower_is_better,
    most_elsewhere,
    told,
)
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.formats import listing
from iosweep.analysis.matching import Hint, Unmatched
from iosweep.analysis.summary import distinct
from iosweep.text import human_count, percent_change, some
from iosweep.tools import parameters, phases

#: Changes that the sentence names.
_NAMED = 3

SYMBOLS = {"regression": "▼", "improvement": "▲", "same": "=", "undecided": "?"}


def sentence(found: Comparison) -> str:
    """`Random reads at 4 KiB lost 6.1 % (4.0 to 8.2); nothing else changed by more than 2 %.` Without sessions:
    `Random reads at 4 KiB: 6.1 % lower (4.0 to 8.2); nothing else differs by more than 2 %.`"""
    changed = told(found)
    parts = [f"{subject(found, one)}{effect(one, found.column)}" for one in changed[:_NAMED]]
    if more := changed[_NAMED:]:
        covered = sum(len(one.pairs) for one in more)
        verb = "differ" if found.learned is None else "changed"
        parts.append(f"{human_count(covered, 'other result')} {verb}, too")
    parts += filter(None, [_rest(found, changed), _doubted(found)])
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _doubted(found: Comparison) -> str:
    """That most results are in doubt, with the most frequent reason; "" where most are not."""
    doubted = [one for one in found.singles if one.suspect]
    if not doubted or 2 * len(doubted) <= len(found.singles):
        return ""
    whole = len(doubted) == len(found.singles)
    which = f"{len(doubted):,} of {human_count(len(found.singles), 'result')}"
    if whole:
        which = f"all {human_count(len(doubted), 'result')}" if len(doubted) > 1 else "the result"
    reason, count = findings.most_frequent(one.reasons for one in doubted)
    in_how_many = "" if count == len(doubted) else f" (in {count:,})"
    return f"{which} {'is' if len(doubted) == 1 else 'are'} in doubt: {reason}{in_how_many}"


def sessions_known(one: Versus) -> list[str]:
    """What is known of how sessions of the first system differ; warnings of campaigns of `--like` that are of another
    system."""
    known = [
        _beyond(one.found, one.a.name),
        *(_unlike(one.a.name, other) for other in one.like),
    ]
    return list(filter(None, known))


def heads(one: Versus) -> tuple[str, str]:
    """The headings of the columns with figures."""
    first, other = one.names
    count = most_sessions(one.found)
    return (f"{first} (mean of {count})" if count else first), other


def _beyond(found: Comparison, name: str) -> str:
    """What a change is known to be beyond. name: of the first campaign."""
    if found.learned is None:
        if not told(found):
            return ""
        return (
            "This is beyond the noise within the campaigns. By how much sessions of one system differ is not known"
            f" here: measure {name} again, without a change, and name that campaign with --like."
        )
    return sessions_differ(found, name)


def sessions_differ(found: Comparison, name: str) -> str:
    """By how much sessions of the first system differ. name: of the first campaign."""
    most = most_sessions(found)
    if not most:
        return "The campaigns of --like have too few results in common to say by how much sessions differ."
    known = sorted(found.learned or (), key=lambda one: -one.sd_share)
    shares = [f"{100 * one.sd_share:.1f} % in {phase_name(found, one)}" for one in known[:_NAMED]]
    if more := len(known) - len(shares):
        shares.append(f"less in {human_count(more, 'other phase')}")
    over = f"standard deviation of a result over {most} campaigns"
    return f"Sessions of {name} differ by {listing(shares)} ({over}). A change counts only beyond that."


def most_sessions(found: Comparison) -> int:
    """Sessions of the first system, the first campaign's among them; 0 where they are not known."""
    return max((one.sessions for one in found.learned or ()), default=0)


def _unlike(name: str, other: Like) -> str:
    """That a campaign of `--like` is not of the same system as the first one; "" if it is."""
    if not other.changes:
        return ""
    texts = [f"{one.what} ({one.a}, there {one.b})" for one in other.changes]
    return f"Warning: {other.side.name} (--like) differs from {name} in {some(texts, _NAMED, separator='; ')}."


def legend(found: Comparison) -> str:
    """What the symbols and the last column of the table mean."""
    symbols = "▼ worse, ▲ better, = no difference that matters, ? undecided, ○ in doubt"
    return (
        f"{symbols}; more: repetitions in each campaign that would decide." if found.learned is None else f"{symbols}."
    )


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
        name += f" ({formats.describe(one.conditions, one.pairs[0].a.kind, [one.phase])})"
    return name


def where(found: Comparison, one: Finding) -> str:
    """The parameters that tell a finding from the others of its phase, with their values: `4 KiB, queue depth 16`; ""
    where none do."""
    return ", ".join(formats.named(name, value) for name, value in parameters_of(found, one).items())


def parameters_of(found: Comparison, one: Finding) -> dict[str, Value]:
    """The same as columns with their values."""
    if not one.single:
        return dict(one.where)
    alike = [other.pairs[0].a for other in found.singles if other.kind == one.kind]
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
        return human_count(value, "rank" if formats.is_mpi(one.pairs[0].a.tool) else "thread")
    return option.brief.format(formats.parameter(column, value)) if option.brief else formats.named(column, value)


def effect(one: Finding, column: str) -> str:
    """` lost 6.1 % (4.0 to 8.2)`, of several `... in the mean of 8 results`; of latencies `rose`, `fell`. Without
    sessions: `: 6.1 % lower (4.0 to 8.2)`."""
    change = one.change
    if change is None:
        return " has no interval"
    more = change.share > 0
    low, high = change.within()
    ends = sorted((low, high) if more else (-high, -low))
    mean = "" if one.single else f" in the mean of {human_count(len(one.pairs), 'result')}"
    share, interval = f"{_percent(abs(change.share))} %", f"({_percent(ends[0])} to {_percent(ends[1])}){mean}"
    if not one.sessions:
        return f": {share} {'higher' if more else 'lower'} {interval}"
    verbs = ("fell", "rose") if lower_is_better(column) else ("lost", "gained")
    return f" {verbs[more]} {share} {interval}"


def interval(one: Finding) -> str:
    """`−6.1 % (−8.2 to −4.0)`, or why there is none."""
    if one.change is None:
        return one.why
    low, high = one.change.within()
    return f"{_signed(one.change.share)} % ({_signed(low)} to {_signed(high)})"


def figures(one: Finding, column: str) -> tuple[str, str]:
    """The figures of both campaigns, of one result; of several there are none: geometric means of the repetitions, as
    the change is one of these. With sessions, the first is the mean of theirs."""
    if not one.single:
        return "", ""
    pair, own = one.pairs[0], column or one.pairs[0].a.metric
    units = formats.units_of(own, pair.a.kind)
    first, other = (result.center(own) or 0.0 for result in (pair.a, pair.b))
    if one.sessions and one.change:
        first = other / math.exp(one.change.log)
    return formats.quantity(first, units), formats.quantity(other, units)


def counted(at_least: float) -> list[tuple[Verdict, str]]:
    """The verdicts with what a number of them is called."""
    return [
        ("regression", "worse"),
        ("improvement", "better"),
        ("same", f"without a difference > {100 * at_least:g} %"),
        ("undecided", "undecided"),
    ]


def verdict(one: Finding, at_least: float) -> str:
    """`regression`, `no difference > 3 %`, `undecided`; without sessions `worse`."""
    if one.verdict == "same":
        return f"no difference > {100 * at_least:g} %"
    plain = {"regression": "worse", "improvement": "better"}
    return one.verdict if one.sessions else plain.get(one.verdict, one.verdict)


def more(one: Finding, noun: str = "") -> str:
    """How many more repetitions would decide a finding; "" where none are needed. noun: of one of them."""
    if one.verdict != "undecided" or one.change is None or one.sessions:
        return ""
    if one.more is None:
        return f"> 100 {noun + 's' if noun else ''}".rstrip()
    return human_count(one.more, noun).rstrip() if noun else f"{one.more}"


def to_decide(found: Comparison) -> str:
    """How many more repetitions would decide what is undecided; "" where nothing is, and where it is sessions that are
    too few."""
    undecided = [one for one in found.undecided if one.change]
    if not undecided or found.learned is not None:
        return ""
    known = [one.more for one in undecided if one.more is not None]
    cure = f"{human_count(max(known, default=100), 'more repetition')} in each campaign"
    text = f"{human_count(len(undecided), 'result is', 'results are')} undecided"
    if not known:
        return f"{text}, and {cure} would not decide {'it' if len(undecided) == 1 else 'them'}."
    which = "it" if len(undecided) == 1 else "them" if len(known) == len(undecided) else f"{len(known):,} of them"
    return f"{text}; {cure} would decide {which}."


def limits(a: Campaign, b: Campaign, found: Comparison) -> Iterator[str]:
    """What the reader of a comparison has to know of it, a sentence each."""
    tested = sum(one.change is not None for one in found.findings)
    if found.learned is None:
        yield (
            "Intervals are 95 % of each result, of the noise within the campaigns; verdicts allow for"
            f" {human_count(tested, 'comparison')}, so that of 100 pairs that differ by this noise alone at most 5 show"
            " a difference."
        )
    else:
        yield (
            "Changes are from the mean of the sessions. Intervals are 95 % of each result, differences between sessions"
            f" included; verdicts allow for {human_count(tested, 'result and group', 'results and groups')}, so that of"
            " 100 comparisons where nothing changed at most 5 show a change, if sessions scatter normally."
        )
    if found.learned is None and not told(found) and min(sessions(a), sessions(b)) < 2:
        yield (
            "What sessions of one system differ by (other load, the state of the file system) is not in the intervals:"
            " further campaigns of the first system, named with --like, show it."
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
                verb = "is" if len(own) == 1 else "are"
                there = f"{verb} only in {name}" if why == "only there" else f"of {name} {verb} not compared: {why}"
                yield f"{_counted(own)} {there}."
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
        parts.append(f"no two results have the same {listing(list(hint.conditions))}, without which no figures compare")
    return "; ".join(parts)


def _rest(found: Comparison, changed: Sequence[Finding]) -> str:
    """What is known of the results that no change is about."""
    covered = {id(pair) for one in changed for pair in one.pairs}
    others = [one for one in found.singles if id(one.pairs[0]) not in covered]
    if not others:
        return "" if changed else "nothing was compared"
    bound, least = most_elsewhere(others), f"{100 * found.at_least:g} %"
    verb, noun = ("differs", "difference") if found.learned is None else ("changed", "change")
    if bound is not None and bound <= found.at_least:
        most = f"{math.ceil(1000 * bound) / 10:g} %"
        return f"nothing {'else ' if changed else ''}{verb} by more than {most}"
    undecided = sum(one.verdict == "undecided" for one in others)
    what = f"no {'other ' if changed else ''}{noun}"
    are = "is" if undecided == 1 else "are"
    of = f"{'the other ' if changed else ''}{human_count(len(others), 'result')}"
    who = f"all {of}" if undecided == len(others) > 1 else f"{undecided:,} of {of}"
    if undecided == len(others):  # what was found may be large, as the table shows
        return f"{what} of {least} or more can be shown: {who} {are} undecided"
    doubt = f", but {who} {are} undecided" if undecided else ""
    return f"{what} of {least} or more was found{doubt}"


def phase_name(found: Comparison, one: Learned) -> str:
    """The name of a phase, with its conditions where it has several."""
    like = next(other for other in found.singles if other.kind == (one.conditions, one.phase))
    return _name(found, like)


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
    text = f"{100 * share:.1f}" if abs(share) < 0.995 else f"{100 * share:.0f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _signed(share: float) -> str:
    return percent_change(share, 1 if abs(share) < 0.995 else 0) if abs(share) >= 0.0005 else _percent(abs(share))
