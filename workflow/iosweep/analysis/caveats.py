"""Limits of a figure: verdicts and their reasons, different nodes and builds, missing repetitions. Pure.

judge/findings.py ranks reasons, causes first, and counts reasons that differ only in numbers as the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from iosweep.analysis.formats import hosts, listing, tool, version
from iosweep.analysis.summary import PointSummary, Repetitions
from iosweep.judge.agreement import COUNTED
from iosweep.judge.findings import rank_reasons, reason_key
from iosweep.text import human_count

#: Causes, without numbers, that all repetitions of a campaign share. The report states these once.
Shared = frozenset[str]
NOTHING: Shared = frozenset()

VERDICT_MEANINGS = {
    "valid": "Every check that could be made passed.",
    "suspect": "A check that casts doubt on the number failed. The number is used, and drawn hollow in the figures.",
    "invalid": "A failed check shows that the number is wrong. It is in results.csv, and in no mean and no figure.",
    "missing": "Not measured, with the reason.",
    "left": "Not measured yet: the next run of snakemake measures it.",
    "unneeded": "Not measured, as a ramp does not need it: earlier steps gained nothing.",
}
VERDICT_SYMBOLS = {"valid": "●", "suspect": "○", "invalid": "✕", "missing": "–", "left": "…", "unneeded": "·"}

# reasons


def tell(groups: Iterable[Sequence[str]], most: int = 3) -> str:
    """Join the reasons of results or repetitions, causes first, with the number that give each: `2 × fio is not
    installed; 1 × too short`. A single reason has no number."""
    return join(rank(groups), most)


def rank(groups: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Rank the reasons, with the number of results or repetitions that give each."""
    return rank_reasons([reason or "no reason given" for reason in group or [""]] for group in groups)


def join(reasons: Sequence[tuple[str, int]], most: int = 3) -> str:
    if len(reasons) == 1:
        return reasons[0][0]
    texts = [f"{count} × {text}" for text, count in reasons[:most]]
    if more := len(reasons) - len(texts):
        texts.append(f"and {human_count(more, 'other reason')}")
    return "; ".join(texts)


def find_shared(results: Iterable[PointSummary]) -> Shared:
    """Reasons that all repetitions with a figure have, if there are several points and no repetition is valid."""
    rows = [row for result in results for row in result.rows if row.verdict in COUNTED]
    if any(row.verdict == "valid" for row in rows) or len({row.point for row in rows}) < 2:
        return NOTHING
    return frozenset.intersection(*(frozenset(map(reason_key, row.reasons)) for row in rows))


def drop_shared(groups: Iterable[Sequence[str]], known: Shared) -> list[list[str]]:
    """Remove shared reasons from each group, and groups that are then empty."""
    others = ([reason for reason in group if reason_key(reason) not in known] for group in groups)
    return [group for group in others if group]


def explain(repetitions: Iterable[Repetitions], outcome: str, known: Shared = NOTHING) -> str:
    """Join the reasons of the repetitions with an outcome, causes first; of suspect ones, shared reasons first."""
    own = [one for one in repetitions if one.outcome == outcome]
    groups = [one.reasons for one in own for _ in range(one.count)]
    if outcome != "suspect" or not known:
        return tell(groups, 2)
    told = "; ".join(text for text, _ in rank([r for r in group if reason_key(r) in known] for group in groups))
    others = drop_shared(groups, known)
    also = f"; some also: {tell(others, 2)}" if others else ""
    return f"{told} (in all repetitions, so not repeated below){also}"


# nodes, builds, repetitions


def warn_unlike_hosts(results: Iterable[PointSummary]) -> Iterator[tuple[bool, str]]:
    """Sentences about means over repetitions on different nodes; True if the nodes took turns."""
    mixed = [result for result in results if result.host_sets > 1]
    for in_turn in (False, True):
        if own := [result for result in mixed if result.in_turn == in_turn]:
            are = human_count(len(own), "result is a mean", "results are means")
            names = hosts(host for result in own for host in result.hosts)
            over = f"{are} over repetitions on different nodes ({names})"
            if in_turn:
                yield True, f"{over}, which took turns: the spread includes what they differ by."
            else:
                yield False, f"{over}, which may differ: there is no confidence interval."


def warn_unlike_builds(results: Sequence[PointSummary]) -> Iterator[str]:
    """Sentences about tools whose results come from several builds."""
    for name in find_several_builds(results):
        own = [result for result in results if result.tool == name]
        counts = Counter(build for result in own for build in result.builds)
        versions = {
            row.tool_build: version(name, row.tool_version or "") for r in own for row in r.rows if row.tool_build
        }
        which = listing([f"{versions[b]} of build {b} ({human_count(count, 'result')})" for b, count in counts.items()])
        mixed = sum(len(result.builds) > 1 for result in own)
        means = f" {human_count(mixed, 'result is a mean', 'results are means')} over several of them." if mixed else ""
        yield f"results of {len(counts)} builds of {tool(name)}, which may differ: {which}.{means}"


def find_several_builds(results: Iterable[PointSummary]) -> list[str]:
    """Tools whose results come from several builds."""
    found: dict[str, set[str]] = {}
    for result in results:
        found.setdefault(result.tool, set()).update(result.builds)
    return [name for name, builds in found.items() if len(builds) > 1]


def name_builds(result: PointSummary) -> str:
    """`build 3fa9c1d2e0ab`; "" if unknown."""
    return " and ".join(f"build {name}" for name in result.builds)


def describe_progress(counts: Mapping[str, int]) -> str:
    """Progress of a campaign: `29 of 89 repetitions measured`."""
    planned = sum(counts.values()) - counts["unneeded"]
    return f"{planned - counts['missing'] - counts['left']:,} of {human_count(planned, 'repetition')} measured"


def describe_incomplete(result: PointSummary) -> str:
    """`2 of 3 repetitions, 1 invalid`; "" if all repetitions count."""
    planned, invalid = result.measured + result.lacking, result.invalid
    if not (result.lacking or invalid):
        return ""
    counted = f"{result.measured - invalid:,} of {human_count(planned, 'repetition')}"
    return f"{counted}, {invalid:,} invalid" if invalid else counted
