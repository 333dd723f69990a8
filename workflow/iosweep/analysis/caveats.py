"""Limits of a figure: verdicts and their reasons, different nodes and builds, missing repetitions. Pure.

judge/findings.py ranks the reasons (causes first) and merges those that differ only in numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iosweep.analysis.formats import hosts, listing, tool, version
from iosweep.analysis.summary import PointSummary
from iosweep.judge.agreement import REMEDIES
from iosweep.judge.findings import FOLLOWS, rank_reasons, reason_key
from iosweep.judge.statistics import MIN_REPETITIONS
from iosweep.tables.reader import CheckRow
from iosweep.text import human_count, shortened

#: Maximum length of a cause on the first screen.
_LONGEST = 220
#: Outcome -> what to do about it, if the check that failed has no remedy.
_NEXT = {
    "invalid": "fix that, then `iosweep rerun --invalid` and run the same command again",
    "missing": "fix that and run the same command again",
    "left": "run the same command again",
}

VERDICT_MEANINGS = {
    "valid": "Every check that could be made passed.",
    "suspect": "A check that casts doubt on the number failed. The number is used, and drawn hollow in the figures.",
    "invalid": "A failed check shows that the number is wrong. It is in results.csv, but in no mean and no figure.",
    "missing": "Not measured, with the reason.",
    "left": "Not measured yet: the next run of snakemake measures it.",
    "unneeded": "Skipped: its ramp gained nothing certain before it, or its tool is optional and not installed.",
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
    return [(text, len(having)) for text, having, _ in rank_reasons(reasons)]


def join(reasons: Sequence[tuple[str, int]], most: int = 3) -> str:
    if len(reasons) == 1:
        return reasons[0][0]
    texts = [f"{count} × {text}" for text, count in reasons[:most]]
    if rest := len(reasons) - len(texts):
        texts.append(f"and {human_count(rest, 'other reason')}")
    return "; ".join(texts)


# causes


@dataclass(frozen=True)
class Cause:
    """A reason why results are not valid, or (outcome "note") why figures need care. count: number of results that it
    affects, 0 for all figures; remedy: what to do about it; anchor: the part of the report that tells more."""

    outcome: str
    text: str
    count: int = 0
    remedy: str = ""
    anchor: str = "results"


def find_causes(results: Sequence[PointSummary], checks: Iterable[CheckRow]) -> Iterator[Cause]:
    """Yield each reason once: of invalid, missing, left and suspect results, the most urgent first. A reason names its
    cause only; the table of results has the consequences."""
    check_of = {reason_key(row.evidence or ""): row.check for row in checks if row.outcome == "fail"}
    for outcome in ("invalid", "missing", "left", "suspect"):
        groups = [list(_find_reasons(result, outcome)) for result in results if result.state == outcome]
        for text, having, key in rank_reasons(groups):
            cause = shortened(text.partition(FOLLOWS)[0], _LONGEST)
            remedy = REMEDIES.get(check_of.get(key, ""), "") or _NEXT.get(outcome, "")
            yield Cause(outcome, cause, len(having), remedy)


def _find_reasons(result: PointSummary, outcome: str) -> Iterator[str]:
    """The reasons of the rows that give a result its outcome; the first reason makes a row invalid
    (judge/verdict.py)."""
    for row in result.rows:
        if row.left if outcome == "left" else row.verdict == outcome:
            yield from row.reasons[:1] if outcome == "invalid" else row.reasons or ("no reason given",)


def find_cautions(results: Sequence[PointSummary]) -> Iterator[Cause]:
    """Yield what limits figures without making them suspect: few repetitions, different nodes, different builds."""
    counted = [result for result in results if result.headline]
    if few := sum(result.measured + result.lacking < MIN_REPETITIONS for result in counted):
        which = "" if few == len(counted) else f" in {few:,} of {len(counted):,} results"
        text = f"Fewer than {MIN_REPETITIONS} repetitions{which}: no interval, so do not rank points"
        yield Cause("note", text, remedy=f"set `repetitions: {MIN_REPETITIONS}` or more")
    for in_turn, text in warn_unlike_hosts(counted):
        if not in_turn:
            yield Cause(
                "note", text.removesuffix("."), remedy="for an interval, repeat on the same nodes", anchor="nodes"
            )
    for text in warn_unlike_builds(counted):
        yield Cause("note", text[0].upper() + text[1:].removesuffix("."), anchor="builds")


# nodes, builds, repetitions


def warn_unlike_hosts(results: Iterable[PointSummary]) -> Iterator[tuple[bool, str]]:
    """Yield sentences about means over repetitions on different nodes, with True if the nodes took turns."""
    mixed = [result for result in results if result.host_sets > 1]
    for in_turn in (False, True):
        if affected := [result for result in mixed if result.in_turn == in_turn]:
            count = human_count(len(affected), "result averages", "results average")
            names = hosts(host for result in affected for host in result.hosts)
            text = f"{count} repetitions on different nodes ({names})"
            if in_turn:
                yield True, f"{text}, which took turns: intervals include what the nodes differ by."
            else:
                yield False, f"{text}: ranges include what the nodes differ by, and there is no 95 % interval."


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


def describe_incomplete(result: PointSummary) -> str:
    """`2 of 3 repetitions, 1 invalid`; "" if all repetitions count."""
    planned, invalid = result.measured + result.lacking, result.invalid
    if not (result.lacking or invalid):
        return ""
    counted = f"{result.measured - invalid:,} of {human_count(planned, 'repetition')}"
    return f"{counted}, {invalid:,} invalid" if invalid else counted
