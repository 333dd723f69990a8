"""`iosweep compare`: what changed between campaigns, and which of their figures got worse or better."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from iosweep.analysis import comparison
from iosweep.analysis.comparison import AT_LEAST, Comparison, Difference, NamedCampaign, Verdict, Versus, values_over
from iosweep.analysis.summary import FIGURES, summarize_campaign
from iosweep.commands import campaigns
from iosweep.commands.terminal import Printer, prose, say, table, to_json, write_output
from iosweep.config import criteria
from iosweep.errors import CommandError, ExitCode
from iosweep.text import did_you_mean, human_count
from iosweep.tools import parameters

#: Name of a figure in criteria, or of a column -> column.
_COLUMNS = {name: metric.column for name, metric in criteria.METRICS.items()} | {name: name for name in FIGURES}
#: Rows of the table of changes without `--all`.
_MOST_CHANGES = 12
#: Argument of --fail-on -> verdicts of results that fail.
_FAILING: dict[str | None, tuple[Verdict, ...]] = {
    None: (),
    "regression": ("worse",),
    "undecided": ("worse", "undecided"),
}


def add_arguments(parser: ArgumentParser) -> None:
    several = f"two or more campaigns, each against the first; or one, with --over: {campaigns.NAMED}"
    parser.add_argument("campaign", nargs="+", help=several)
    parser.add_argument(
        "--over", metavar="AXIS",
        help="compare the values of an axis or option within one campaign, such as target, each with the first",
    )  # fmt: skip
    parser.add_argument(
        "--at-least", type=campaigns.share, default=AT_LEAST, metavar="SHARE",
        help=f"smallest change that matters; default: {100 * AT_LEAST:g}%%",
    )  # fmt: skip
    parser.add_argument(
        "--figure", choices=_COLUMNS, metavar="FIGURE",
        help="compare this, such as p99, as criteria name it, or a column, instead of each phase's own rate",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="print every result, and every change of the configuration")
    form.add_argument("--json", action="store_true", help="print the comparison as JSON, with all results")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page that opens without a network")
    parser.add_argument(
        "--fail-on", choices=tuple(filter(None, _FAILING)),
        help="exit with 1 if a figure got worse (undecided: or if it may have); needs --over, or several sessions",
    )  # fmt: skip


def run(arguments: Namespace) -> int:
    """Exit codes: 0 compared; 1 what `--fail-on` names was found; 2 not comparable."""
    compared = _compare(arguments)
    if arguments.fail_on and any(pair.found.design == "rounds" for pair in compared):
        needed = "sessions of both campaigns (`sessions: 3`), or values that were measured in turn (--over)"
        raise CommandError(f"--fail-on needs {needed}: another day alone may look like a change", ExitCode.USAGE)
    if arguments.html:  # first: whoever reads the text may stop before its end
        from iosweep.report import comparisons  # late: most runs write none

        write_output(arguments.html, lambda: comparisons.compare_page(compared).encode(), ExitCode.USAGE)
    if arguments.json:
        # SI units, shares as fractions
        known = {"at_least_share": arguments.at_least, "comparisons": [_comparison(pair) for pair in compared]}
        sys.stdout.write(to_json(known))
    else:
        for number, pair in enumerate(compared):
            if number:
                say("")
            _show(pair, arguments.all)
    if arguments.html and not arguments.json:
        prose(f"\npage: {arguments.html}")
    return int(any(pair.found.count(verdict) for pair in compared for verdict in _FAILING[arguments.fail_on]))


def _compare(arguments: Namespace) -> list[Versus]:
    """Compare what the arguments name. Raises CommandError if nothing can be compared."""
    paths = [campaigns.find(name, ExitCode.USAGE) for name in arguments.campaign]
    if arguments.over and len(paths) > 1:
        raise CommandError("--over compares the values of an axis within one campaign: name one", ExitCode.USAGE)
    if not arguments.over and len({path.resolve() for path in paths}) < max(2, len(paths)):
        within = "to compare the values of an axis within one campaign, name the axis: --over AXIS"
        raise CommandError(f"there must be two different campaigns or more; {within}", ExitCode.USAGE)
    unique = len({path.name for path in paths}) == len(paths)
    tables = [campaigns.load_tables(path, ExitCode.USAGE) for path in paths]
    first, *others = (
        NamedCampaign(path.name if unique else str(path), path, campaign, tuple(summarize_campaign(campaign)))
        for path, campaign in zip(paths, tables, strict=True)
    )
    column = _COLUMNS.get(arguments.figure, "")
    if arguments.over:
        axis = _find_axis(first, arguments.over)
        compared = comparison.versus_over(first, axis, column, arguments.at_least)
        if not compared:
            wrong = f"no two points of {first.name} differ in `{arguments.over}` only"
            raise CommandError(wrong, ExitCode.USAGE)
    else:
        compared = [comparison.versus(first, other, column, arguments.at_least) for other in others]
    for pair in compared:
        if not pair.found.singles:
            why = " ".join(comparison.absences(pair.found, pair.names)) or "there are no results"
            both = " and ".join(pair.names)
            raise CommandError(f"{both} have no result in common that has a figure: {why}", ExitCode.USAGE)
    return compared


def _find_axis(one: NamedCampaign, name: str) -> str:
    """The column of an axis, by its name in configurations. Raises CommandError if it does not vary."""
    varying = {o.name: column for column, o in parameters().items() if len(values_over(one, column)) > 1}
    if name not in varying:
        known = f"these vary: {', '.join(varying)}" if varying else "nothing does"
        hint = did_you_mean(name, varying)
        raise CommandError(f"`{name}` does not vary in {one.name}{hint or f'; {known}'}", ExitCode.USAGE)
    return varying[name]


def _show(pair: Versus, everything: bool) -> None:
    printer, found = Printer(), pair.found
    printer.print(comparison.title([pair]))
    prose(f"\n{comparison.sentence(found)} {comparison.caution(pair)}".rstrip())
    if changes := pair.changes if everything else pair.changes[:_MOST_CHANGES]:
        changed = table("changed", "", *pair.names, wrapped=["", *pair.names])
        for before, change in zip((None, *changes), changes, strict=False):
            topic = "" if before and before.topic == change.topic else change.topic
            changed.add_row(topic, change.what, change.a, change.b)
        say("")
        printer.print(changed)
        if more := len(pair.changes) - len(changes):
            prose(f"and {more:,} more: --all lists them")
    elif not pair.within:
        prose("\nNothing else changed: tools, nodes, target and configuration are the same.")
    alone = {diff.pairs for diff in found.explained if diff.single}
    others = [single for single in found.singles if everything and single.pairs not in alone]
    if rows := [*found.explained, *others]:
        heads = (*pair.names, "change (95 %)")
        figures = table("", "result", *heads, right=heads, wrapped=["result", *pair.names])
        for row in rows:
            mark = f"{comparison.SYMBOLS[row.verdict]} {row.verdict}{' ○' * row.suspect}"
            shown = (comparison.subject(found, row), *comparison.figures(row, found.column))
            figures.add_row(mark, *shown, comparison.describe_change(row))
        say("")
        printer.print(figures)
    counts = [f"{count:,} {name}" for _, count, name in comparison.count_verdicts(found)]
    listed = "" if everything else " (--all lists them)"
    prose(f"\n{human_count(len(found.singles), 'result')} compared{listed}: {', '.join(counts)}.")
    for line in comparison.notes(pair):
        prose(line)


def _comparison(pair: Versus) -> dict[str, object]:
    found = pair.found
    absent = [
        {"campaign": pair.names[lone.side], "point": lone.result.point, "phase": lone.result.phase}
        | {"why": lone.why or "only there"}
        for lone in found.absent
    ]
    return {
        "first": {"name": pair.names[0], "results": str(pair.a.path), "sessions": found.sessions[0]},
        "other": {"name": pair.names[1], "results": str(pair.b.path), "sessions": found.sessions[1]},
        "design": found.design,
        "sentence": comparison.sentence(found),
        "caution": comparison.caution(pair),
        "changes": [asdict(change) for change in pair.changes],
        "counts": {verdict: count for verdict, count, _ in comparison.count_verdicts(found)},
        "groups": [_difference(group, found) for group in found.groups],
        "results": [_difference(single, found) for single in found.singles],
        "not_compared": absent,
        "notes": list(comparison.notes(pair)),
    }


def _difference(difference: Difference, found: Comparison) -> dict[str, object]:
    """n: repetitions that enter a figure."""
    pair, estimate = difference.pairs[0], difference.estimate
    column = found.column or pair.a.metric
    first, other = (
        {"point": one.point, "verdict": one.verdict, "n": one.metrics[column].n, "figure": one.figure(column)}
        for one in (pair.a, pair.b)
    )
    return {
        "subject": comparison.subject(found, difference),
        "tool": pair.a.tool,
        "phase": None if difference.name else difference.kind[1],
        "where": comparison.parameters_of(found, difference),
        "column": column,
        "results": len(difference.pairs),
        "first": first if difference.single else None,
        "other": other if difference.single else None,
        "change_share": estimate.share if estimate else None,
        "ci95_share": comparison.ends(estimate) if estimate else None,
        "p_holm": difference.p if estimate else None,
        "verdict": difference.verdict,
        "suspect": difference.suspect,
        "why": difference.why,
    }
