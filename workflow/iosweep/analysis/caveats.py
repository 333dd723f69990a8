"""What limits a figure: verdicts and their reasons, unlike nodes and builds, missing repetitions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from iosweep.analysis.aggregate import Repetitions, Result
from iosweep.analysis.formats import hosts, listing
from iosweep.analysis.titles import tool, version
from iosweep.results.precision import COUNTED
from iosweep.results.reasons import REASONS, bare, cause, ranked, without_processes
from iosweep.text import human_count

#: Reasons that all repetitions of a campaign share, which are named once: their causes without numbers.
Shared = frozenset[str]

VERDICT_MEANINGS = {
    "valid": "Every check that could be made passed.",
    "suspect": "A check that casts doubt on the number failed. The number is used, and drawn hollow in the figures.",
    "invalid": "A check failed that makes the figure wrong. It is kept in the table of repetitions, and used nowhere.",
    "missing": "Not measured, with the reason.",
    "left": "Not measured yet: the next run of snakemake measures it.",
    "unneeded": "Not measured, because a ramp does not need it: nothing more was gained before it, or it is far below.",
}


VERDICT_SYMBOLS = {"valid": "●", "suspect": "○", "invalid": "✕", "missing": "–", "left": "…", "unneeded": "·"}


def unlike_hosts(results: Iterable[Result]) -> Iterator[tuple[bool, str]]:
    """Sentences about means over repetitions that ran on different nodes, and whether the nodes took turns."""
    mixed = [result for result in results if result.host_sets > 1]
    for in_turn in (False, True):
        own = [result for result in mixed if result.in_turn == in_turn]
        if own:
            are = "1 result is a mean" if len(own) == 1 else f"{len(own):,} results are means"
            names = hosts(host for result in own for host in result.hosts)
            over = f"{are} over repetitions on different nodes ({names})"
            if in_turn:
                yield True, f"{over}, which took turns: the spread includes what they differ by."
            else:
                yield False, f"{over}, which may differ: there is no confidence interval."


def unlike_builds(results: Sequence[Result]) -> Iterator[str]:
    """What is to know of results of several builds of a tool."""
    for name in several_builds(results):
        own = [result for result in results if result.tool == name]
        counts = Counter(build for result in own for build in result.builds)
        versions = {
            row.tool_build: version(name, row.tool_version or "") for r in own for row in r.rows if row.tool_build
        }
        which = listing([f"{versions[b]} of build {b} ({human_count(count, 'result')})" for b, count in counts.items()])
        mixed = sum(len(result.builds) > 1 for result in own)
        means = f" {human_count(mixed, 'result is a mean', 'results are means')} over several of them." if mixed else ""
        yield f"results of {len(counts)} builds of {tool(name)}, which may differ: {which}.{means}"


def several_builds(results: Iterable[Result]) -> list[str]:
    """Tools whose results are of several builds."""
    found: dict[str, set[str]] = {}
    for result in results:
        found.setdefault(result.tool, set()).update(result.builds)
    return [name for name, builds in found.items() if len(builds) > 1]


def of_builds(result: Result) -> str:
    """`build 3fa9c1d2e0ab`; "" where it is not known."""
    return " and ".join(f"build {name}" for name in result.builds)


def over_hosts(result: Result) -> str:
    """On which kind of nodes the repetitions ran, where not all on the same: `2 nodes`, `nodes in turn`."""
    if result.host_sets < 2:
        return ""
    if result.in_turn:
        return "nodes in turn"
    return f"{len(result.hosts)} nodes" if result.nodes == 1 else f"{result.host_sets} sets of nodes"


def commonest(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Texts with their counts, the commonest first. Those that differ in numbers alone count as one."""
    found: dict[str, list[str]] = {}  # text without its numbers -> texts
    for text in texts:
        found.setdefault(bare(text), []).append(text)
    ordered = sorted(found.values(), key=lambda alike: -len(alike))
    return [
        (alike[0] if len(set(alike)) == 1 else f"{alike[0]} and {len(set(alike)) - 1} similar", len(alike))
        for alike in ordered
    ]


def reasons(results: Sequence[Result], most: int = 3) -> str:
    """The reasons of some results, causes first: `2 × fio is not installed; 1 × too short`. One alone has no count."""
    return summed((REASONS.join(result.reasons).split(REASONS) for result in results), most)


def shared(results: Iterable[Result]) -> Shared:
    """The reasons that all repetitions with a figure have, where there are several points and none is valid."""
    rows = [row for result in results for row in result.rows if row.verdict in COUNTED]
    if any(row.verdict == "valid" for row in rows) or len({row.point for row in rows}) < 2:
        return frozenset()
    own = [{bare(cause(text)) for text in (row.reasons or "").split(REASONS) if text} for row in rows]
    return frozenset.intersection(*map(frozenset, own))


def others(reasons: Iterable[str], known: Shared) -> list[str]:
    """Reasons that are not among the shared ones."""
    return [reason for reason in reasons if bare(cause(reason)) not in known]


def why(repetitions: Iterable[Repetitions], outcome: str, known: Shared = frozenset(), most: int = 2) -> str:
    """The reasons of the repetitions with an outcome, causes first; of suspect ones, those that all share are first."""
    own = [one for one in repetitions if one.outcome == outcome]
    groups = [REASONS.join(one.reasons).split(REASONS) for one in own for _ in range(one.count)]
    if outcome != "suspect" or not known:
        return summed(groups, most)
    shares = ranked([reason for reason in group if bare(cause(reason)) in known] for group in groups)
    text = f"{'; '.join(text for text, _ in shares)} (in all repetitions, so not repeated below)"
    left = [found for group in groups if (found := others(group, known))]
    return f"{text}; some also: {summed(left, most)}" if left else text


def measured(counts: Mapping[str, int]) -> str:
    """How much of a campaign is measured: `29 of 89 repetitions measured`."""
    planned = sum(counts.values()) - counts["unneeded"]
    return f"{planned - counts['missing'] - counts['left']:,} of {human_count(planned, 'repetition')} measured"


def incomplete(result: Result) -> str:
    """How many of its repetitions a figure has, where not all: `2 of 3 repetitions`; else ""."""
    planned = result.measured + result.lacking
    return f"{result.measured:,} of {human_count(planned, 'repetition')}" if result.lacking else ""


def most_frequent(groups: Iterable[Sequence[str]]) -> tuple[str, int]:
    """The reason that most results or repetitions give, without the processes that one names, and how many do."""
    found = ranked([without_processes(text) for text in group] or ["no reason given"] for group in groups)
    return max(found, key=lambda one: one[1])


def summed(groups: Iterable[Sequence[str]], most: int = 3) -> str:
    """The reasons of some results or repetitions, causes first, with the number of those that give each.

    One alone has no count.
    """
    found = ranked([reason or "no reason given" for reason in group] for group in groups)
    if len(found) == 1:
        return found[0][0]
    texts = [f"{count} × {text}" for text, count in found[:most]]
    if len(found) > most:
        texts.append(f"and {human_count(len(found) - most, 'other reason')}")
    return "; ".join(texts)
