"""Limits of a figure: verdicts and their reasons, different nodes and builds, missing repetitions. Pure.

judge/findings.py ranks the reasons (causes first) and merges those that differ only in numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from iosweep.analysis.formats import hosts, listing, tool, version
from iosweep.analysis.summary import PointSummary, Repetitions
from iosweep.judge.agreement import COUNTED
from iosweep.judge.findings import rank_reasons, reason_key
from iosweep.text import human_count

#: Keys of the reasons that all repetitions of a campaign share. The report states these reasons once.
Shared = frozenset[str]
NOTHING: Shared = frozenset()

VERDICT_MEANINGS = {
    "valid": "Every check that could be made passed.",
    "suspect": "A check that casts doubt on the number failed. The number is used, and drawn hollow in the figures.",
    "invalid": "A failed check shows that the number is wrong. It is in results.csv, and in no mean and no figure.",
    "missing": "Not measured, with the reason.",
    "left": "Not measured yet: the next run of snakemake measures it.",
    "unneeded": "Skipped by a ramp: earlier steps gained nothing certain, nor did the last one.",
}
VERDICT_SYMBOLS = {"valid": "●", "suspect": "○", "invalid": "✕", "missing": "–", "left": "…", "unneeded": "·"}

# reasons


def tell(groups: Iterable[Sequence[str]], most: int = 3) -> str:
    """Join the reasons of results or repetitions, causes first, with their counts: `2 × fio is not installed; 1 × too
    short`. A single reason has no count."""
    return join(rank(groups), most)


def rank(groups: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Rank the reasons, with the number of results or repetitions that have each."""
    reasons = ([reason or "no reason given" for reason in group or [""]] for group in groups)
    return [(text, len(having)) for text, having in rank_reasons(reasons)]


def join(reasons: Sequence[tuple[str, int]], most: int = 3) -> str:
    if len(reasons) == 1:
        return reasons[0][0]
    texts = [f"{count} × {text}" for text, count in reasons[:most]]
    if rest := len(reasons) - len(texts):
        texts.append(f"and {human_count(rest, 'other reason')}")
    return "; ".join(texts)


def find_shared(results: Iterable[PointSummary]) -> Shared:
    """The reasons that all counted repetitions share, if they are from several points and none is valid."""
    rows = [row for result in results for row in result.rows if row.verdict in COUNTED]
    if any(row.verdict == "valid" for row in rows) or len({row.point for row in rows}) < 2:
        return NOTHING
    return frozenset.intersection(*(frozenset(map(reason_key, row.reasons)) for row in rows))


def drop_shared(groups: Iterable[Sequence[str]], known: Shared) -> list[list[str]]:
    """Remove shared reasons from each group, and then the empty groups."""
    others = ([reason for reason in group if reason_key(reason) not in known] for group in groups)
    return [group for group in others if group]


def explain(repetitions: Iterable[Repetitions], outcome: str, known: Shared = NOTHING) -> str:
    """Join the reasons of the repetitions with an outcome, causes first; for `suspect`, shared reasons first."""
    matching = [repetition for repetition in repetitions if repetition.outcome == outcome]
    groups = [repetition.reasons for repetition in matching for _ in range(repetition.count)]
    if outcome != "suspect" or not known:
        return tell(groups, 2)
    common = "; ".join(text for text, _ in rank([r for r in group if reason_key(r) in known] for group in groups))
    specific = drop_shared(groups, known)
    suffix = f"; some also: {tell(specific, 2)}" if specific else ""
    return f"{common} (in all repetitions, so not repeated below){suffix}"


# nodes, builds, repetitions


def warn_unlike_hosts(results: Iterable[PointSummary]) -> Iterator[tuple[bool, str]]:
    """Yield sentences about means over repetitions on different nodes, with True if the nodes took turns."""
    mixed = [result for result in results if result.host_sets > 1]
    for in_turn in (False, True):
        if affected := [result for result in mixed if result.in_turn == in_turn]:
            count = human_count(len(affected), "result is a mean", "results are means")
            names = hosts(host for result in affected for host in result.hosts)
            over = f"{count} over repetitions on different nodes ({names})"
            if in_turn:
                yield True, f"{over}, which took turns: the spread includes what they differ by."
            else:
                yield False, f"{over}, which may differ: there is no confidence interval."


def warn_unlike_builds(results: Sequence[PointSummary]) -> Iterator[str]:
    """Yield sentences about tools whose results come from several builds."""
    for name in find_several_builds(results):
        affected = [result for result in results if result.tool == name]
        counts = Counter(build for result in affected for build in result.builds)
        versions = {
            row.tool_build: version(name, row.tool_version or "") for r in affected for row in r.rows if row.tool_build
        }
        which = listing([f"{versions[b]} of build {b} ({human_count(count, 'result')})" for b, count in counts.items()])
        mixed = sum(len(result.builds) > 1 for result in affected)
        means = f" {human_count(mixed, 'result is a mean', 'results are means')} over several of them." if mixed else ""
        yield f"results of {len(counts)} builds of {tool(name)}, which may differ: {which}.{means}"


def find_several_builds(results: Iterable[PointSummary]) -> list[str]:
    """Tools whose results come from several builds."""
    builds_of_tool: dict[str, set[str]] = {}
    for result in results:
        builds_of_tool.setdefault(result.tool, set()).update(result.builds)
    return [name for name, builds in builds_of_tool.items() if len(builds) > 1]


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
