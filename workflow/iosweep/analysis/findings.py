"""What limits a figure: verdicts and their reasons, unlike nodes and builds, missing repetitions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosweep.analysis.formats import hosts, listing, tool, version
from iosweep.analysis.summary import PointSummary, Repetitions
from iosweep.judge.agreement import COUNTED
from iosweep.judge.reasons import REASONS, bare, cause, first_of, ranked, without_processes
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


@dataclass(frozen=True)
class Why:
    """A clause, and the reasons behind it with the number of results or repetitions that give each, causes first."""

    clause: str
    causes: tuple[tuple[str, int], ...] = ()

    def after(self, text: str) -> Why:
        """The same with words before its clause."""
        return Why(f"{text}{self.clause}", self.causes)

    def text(self, most: int | None = 1, apart: Collection[str] = ()) -> str:
        """`3 of 3 repetitions suspect: 3 × too short; and 2 other reasons`. most: reasons that are named, None for all;
        apart: reasons that are named elsewhere."""
        own = [one for one in self.causes if one[0] not in apart]
        return f"{self.clause}: {_joined(own, most, len(self.causes))}" if own else self.clause

    def hidden(self, apart: Collection[str] = ()) -> int:
        """How many reasons `text` does not name."""
        return max(0, sum(text not in apart for text, _ in self.causes) - 1)


def unlike_hosts(results: Iterable[PointSummary]) -> Iterator[tuple[bool, str]]:
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


def unlike_builds(results: Sequence[PointSummary]) -> Iterator[str]:
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


def several_builds(results: Iterable[PointSummary]) -> list[str]:
    """Tools whose results are of several builds."""
    found: dict[str, set[str]] = {}
    for result in results:
        found.setdefault(result.tool, set()).update(result.builds)
    return [name for name, builds in found.items() if len(builds) > 1]


def of_builds(result: PointSummary) -> str:
    """`build 3fa9c1d2e0ab`; "" where it is not known."""
    return " and ".join(f"build {name}" for name in result.builds)


def over_hosts(result: PointSummary) -> str:
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
    return [(first_of(alike), len(alike)) for alike in ordered]


def reasons(results: Sequence[PointSummary], most: int = 3) -> str:
    """The reasons of some results, causes first: `2 × fio is not installed; 1 × too short`. One alone has no count."""
    return summed(_of_results(results), most)


def why_of(results: Sequence[PointSummary], clause: str) -> Why:
    """A clause with the reasons of some results."""
    return Why(clause, causes(_of_results(results)))


def _of_results(results: Iterable[PointSummary]) -> Iterator[list[str]]:
    return (REASONS.join(result.reasons).split(REASONS) for result in results)


def shared(results: Iterable[PointSummary]) -> Shared:
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


def incomplete(result: PointSummary) -> str:
    """How many of its repetitions a figure has, where not all: `2 of 3 repetitions, 1 invalid`; "" where all count."""
    planned, invalid = result.measured + result.lacking, result.invalid
    if not (result.lacking or invalid):
        return ""
    counted = f"{result.measured - invalid:,} of {human_count(planned, 'repetition')}"
    return f"{counted}, {invalid:,} invalid" if invalid else counted


def most_frequent(groups: Iterable[Sequence[str]]) -> tuple[str, int]:
    """The reason that most results or repetitions give, without the processes that one names, and how many do."""
    found = ranked([without_processes(text) for text in group] or ["no reason given"] for group in groups)
    return max(found, key=lambda one: one[1])


def summed(groups: Iterable[Sequence[str]], most: int = 3) -> str:
    """The reasons of some results or repetitions, causes first, with the number of those that give each.

    One alone has no count.
    """
    found = causes(groups)
    return _joined(found, most, len(found))


def causes(groups: Iterable[Sequence[str]]) -> tuple[tuple[str, int], ...]:
    """The same reasons, each with its number."""
    return tuple(ranked([reason or "no reason given" for reason in group] for group in groups))


def _joined(found: Sequence[tuple[str, int]], most: int | None, known: int) -> str:
    """known: reasons that there are, with those that are named elsewhere."""
    if known == 1:
        return found[0][0]
    texts = [f"{count} × {text}" for text, count in found[:most]]
    if more := len(found) - len(texts):
        texts.append(f"and {human_count(more, 'other reason')}")
    return "; ".join(texts)
