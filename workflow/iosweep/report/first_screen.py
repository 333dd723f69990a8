"""The first screen of the report: counts, reasons, remarks and the best figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.analysis import acceptance, acceptance_words, caveats, choice, formats, knees, sentences
from iosweep.analysis.aggregate import OUTCOMES, Result, count_repetitions, repetitions
from iosweep.analysis.data import Campaign
from iosweep.report import builds, checks_table, cpus, headline, node_check, notable, remarks

#: Sentences that are seen at once, unless the first sweep alone has more.
_SENTENCES = 13


def answer(campaign: Campaign, results: Sequence[Result], groups: Sequence[headline.Group]) -> dict[str, object]:
    """What the first screen shows. groups: the cards."""
    shared = caveats.shared(results)
    found = repetitions(campaign.rows, campaign.about.sweeps)
    counts = count_repetitions(found)
    decisions = acceptance.of(campaign, results)
    return {
        "about": campaign.about,
        "measured": formats.span(row.started for row in campaign.rows if row.started),
        "hosts": _hosts(results),
        "targets": _targets(campaign),
        "tools": builds.programs(campaign),
        "counts": {one: count for one, count in counts.items() if count or one not in ("left", "unneeded")},
        "progress": caveats.measured(counts),
        "shares": _shares(counts),
        "absent": {
            one: caveats.why(found, one, shared)
            for one in ("left", "missing", "unneeded", "invalid", "suspect")
            if counts[one]
        },
        "all_reasons": notable.reasons(found),
        "not_checked": checks_table.not_checked(campaign.checks),
        "scaled": headline.scaled(campaign.about.sweeps),
        "node_check": node_check.of(campaign, results),
        "pinned": cpus.in_brief(campaign),
        "remarks": remarks.of(campaign),
        "unlike": node_check.unlike(campaign, results),
        "unlike_builds": list(caveats.unlike_builds(results)),
        "acceptance": decisions,
        "acceptance_shared": acceptance_words.shared(decisions),
        "accepted": (acceptance.worst(decisions), acceptance.sentence(decisions)) if decisions else None,
        **_told(campaign, results, shared),
        "headline": groups,
        "knees": knees.of(results, campaign.about.sweeps),
        "latencies": any("latency_mean_s" in result.statistics for result in results),
    }


def _told(campaign: Campaign, results: Sequence[Result], shared: caveats.Shared) -> dict[str, object]:
    """The sentences of the sweeps: those that are seen at once, whole sweeps, and those that a click shows."""
    fails = choice.failed(campaign.checks)
    found = sentences.of(results, campaign.about.sweeps, fails, node_check.SUITE, shared)
    shown, lines = 0, 0
    for told in found:
        lines += len(told.sentences)
        if shown and lines > _SENTENCES:
            break
        shown += 1
    return {"told": found[:shown], "told_later": found[shown:]}


def _targets(campaign: Campaign) -> list[tuple[str | None, str]]:
    """Types and sources of the target's file system."""
    known = ((row.target_fstype, row.target_source) for row in campaign.rows if row.target_source is not None)
    return list(dict.fromkeys(known))


def _hosts(results: Sequence[Result]) -> str:
    """All nodes that measured; "" where none has."""
    names = {host for result in results for host in result.hosts}
    return f"{len(names):,} nodes: {formats.hosts(names)}" if len(names) > 3 else formats.hosts(names)


def _shares(counts: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """(outcome, start, width) of the bar that shows the outcomes' shares, in repetitions."""
    found, start = [], 0
    for one in OUTCOMES:
        found.append((one, start, counts[one]))
        start += counts[one]
    return found
