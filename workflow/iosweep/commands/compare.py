"""`iosweep compare`: what changed between campaigns, and which of their figures got worse or better."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from iosweep.analysis import comparison
from iosweep.analysis.comparison import AT_LEAST, Changed, Comparison, Difference, Side, Versus, versus
from iosweep.analysis.summary import FIGURES, PointSummary, summarize
from iosweep.commands import campaigns
from iosweep.commands.report import write_output
from iosweep.commands.terminal import Printer, prose, say, table, to_json
from iosweep.config import selectors
from iosweep.errors import CommandError
from iosweep.text import human_count

if TYPE_CHECKING:
    from rich.table import Table

NOT_COMPARABLE = 2
#: Names of figures, as criteria have them, and of columns -> column.
_COLUMNS = {name: figure.column for name, figure in selectors.FIGURES.items()} | {name: name for name in FIGURES}
#: Rows of the table of changes of everything else, and of what is undecided, without `--all`.
_MOST_CHANGES, _MOST_UNDECIDED = 12, 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="+", help=f"two or more campaigns, each against the first: {campaigns.NAMED}")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="PARAMETER",
        help="compare points that differ in this parameter, such as transfer_size; may be repeated",
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
        "--fail-on", choices=("regression", "undecided"),
        help="exit with 1 if a figure got worse (undecided: or if it may have)",
    )  # fmt: skip


def run(arguments: Namespace) -> int:
    """Exit codes: 0 compared; 1 what `--fail-on` names was found; 2 not comparable."""
    if len(arguments.campaign) < 2:
        raise CommandError("there must be two campaigns or more to compare", NOT_COMPARABLE)
    try:
        ignore = comparison.ignored(arguments.ignore) if arguments.ignore else None
    except comparison.NeverMixed as error:
        raise CommandError(str(error), NOT_COMPARABLE) from None
    first, *others = _sides(arguments.campaign)
    column = _COLUMNS.get(arguments.figure, "")
    found = [versus(first, other, column, arguments.at_least, ignore) for other in others]
    if apart := [one for one in found if not one.found.singles]:
        raise CommandError("; ".join(map(_nothing, apart)), NOT_COMPARABLE)
    if arguments.html:  # first: whoever reads the text may stop before its end
        write_output(arguments.html, lambda: _page(found), NOT_COMPARABLE)
    if arguments.json:
        sys.stdout.write(to_json(_document(found)))
    else:
        for number, one in enumerate(found):
            if number:
                say("")
            _show(one, arguments.all)
    if arguments.html and not arguments.json:
        prose(f"\npage: {arguments.html}")
    return int(any(_fails(one.found, arguments.fail_on) for one in found))


def _sides(named: Sequence[str]) -> list[Side]:
    """All campaigns, in their order. Raises CommandError."""
    paths = [campaigns.find(name, NOT_COMPARABLE) for name in named]
    loaded = [(results, campaigns.load_tables(results, NOT_COMPARABLE)) for results in paths]
    forms = comparison.names([(results.name, campaign) for results, campaign in loaded])
    return [
        Side(name, results, campaign, tuple(summarize(campaign.rows)))
        for name, (results, campaign) in zip(forms, loaded, strict=True)
    ]


def _nothing(one: Versus) -> str:
    """Why two campaigns have nothing to compare."""
    why = one.found.advice or " ".join(comparison.absences(one.found, one.names)) or "there are no results"
    return f"{one.a.name} and {one.b.name} have no result in common that has a figure: {why}"


def _fails(found: Comparison, on: str | None) -> bool:
    return bool(on and (found.regressions or (on == "undecided" and found.undecided)))


def _show(one: Versus, everything: bool) -> None:
    printer = Printer()
    printer.print(_title(one))
    prose(f"\n{comparison.sentence(one.found)}")
    say("")
    changed = one.changes if everything else one.changes[:_MOST_CHANGES]
    if changed:
        printer.print(_changes(changed, one.names))
        if more := len(one.changes) - len(changed):
            prose(f"and {more:,} more: --all lists them")
    else:
        prose("Nothing else changed: tools, nodes, target and configuration are the same.")
    rows = list(_rows(one.found, everything))
    if rows:
        say("")
        printer.print(_figures(rows, one))
    if hidden := len(one.found.singles) - sum(row.single for row in rows):
        prose(f"{human_count(hidden, 'more result')}: --all lists {'it' if hidden == 1 else 'them'}")
    say("")
    for line in _closing(one):
        prose(line)


def _title(one: Versus) -> str:
    return f"{one.b.name} against {one.a.name}"


def _changes(changed: Sequence[Changed], named: tuple[str, str]) -> Table:
    found = table("changed", "", *named, wrapped=["", *named])
    last = ""
    for one in changed:
        found.add_row(one.topic if one.topic != last else "", one.what, one.a, one.b)
        last = one.topic
    return found


def _rows(found: Comparison, everything: bool) -> Iterator[Difference]:
    """Certain differences first, then undecided ones, the largest first; with `everything` all results in their
    order."""
    changed = comparison.explained(found)
    yield from changed
    if everything:
        yield from (one for one in found.singles if not any(one is other for other in changed))
        return
    undecided = [one for one in found.undecided if one.change]
    undecided.sort(key=lambda one: -abs(one.change.log) if one.change else 0.0)
    yield from undecided[:_MOST_UNDECIDED]


def _figures(rows: Sequence[Difference], one: Versus) -> Table:
    heads = (*one.names, "change (95 %)", "more")
    found = table("", "result", *heads, right=heads, wrapped=["result", *one.names])
    for row in rows:
        mark = comparison.SYMBOLS[row.verdict] + ("○" if row.suspect else "")
        shown = comparison.figures(row, one.found.column)
        subject = comparison.brief(one.found, row)
        found.add_row(mark, subject, *shown, comparison.interval(row), comparison.more(row))
    return found


def _closing(one: Versus) -> Iterator[str]:
    counts = [f"{count:,} {name}" for _, count, name in comparison.counted(one.found)]
    yield f"{human_count(len(one.found.singles), 'result')} compared: {', '.join(counts)}."
    yield comparison.LEGEND
    yield from comparison.notes(one)


def _document(found: Sequence[Versus]) -> dict[str, object]:
    """`compare --json`: SI units, shares as fractions."""
    first = found[0].found
    return {
        "at_least_share": first.at_least,
        "ignored": sorted(first.ignored or ()),
        "comparisons": [_comparison(one) for one in found],
    }


def _comparison(one: Versus) -> dict[str, object]:
    found = one.found
    return {
        **{key: {"name": side.name, "results": str(side.path)} for key, side in (("first", one.a), ("other", one.b))},
        "sentence": comparison.sentence(found),
        "changes": [asdict(change) for change in one.changes],
        "counts": {verdict: count for verdict, count, _ in comparison.counted(found)},
        "groups": [_difference(own, one) for own in found.groups],
        "results": [_difference(own, one) for own in found.singles],
        "not_compared": [
            {
                "campaign": one.names[own.side],
                "point": own.result.point,
                "phase": own.result.phase,
                "why": own.why or "only there",
            }
            for own in found.absent
        ],
        "notes": list(comparison.notes(one)),
    }


def _difference(one: Difference, of: Versus) -> dict[str, object]:
    pair, change = one.pairs[0], one.change
    column = of.found.column or pair.a.metric
    return {
        "subject": comparison.subject(of.found, one),
        "tool": pair.a.tool,
        "phase": one.phase,
        "where": comparison.parameters_of(of.found, one),
        "column": column,
        "results": len(one.pairs),
        "first": _figure(pair.a, column) if one.single else None,
        "other": _figure(pair.b, column) if one.single else None,
        "change_share": change.share if change else None,
        "ci95_share": change.within() if change else None,
        "p": change.p if change else None,
        "p_holm": one.p if change else None,
        "verdict": one.verdict,
        "suspect": one.suspect,
        "why": one.why,
    }


def _figure(result: PointSummary, column: str) -> dict[str, object]:
    """n: repetitions that enter the figure, which is their geometric mean."""
    values = result.values(column)
    return {"point": result.point, "verdict": result.verdict, "n": len(values), "figure": result.center(column)}


def _page(found: Sequence[Versus]) -> bytes:
    from iosweep.report import comparisons  # late: most runs write none

    return comparisons.compare_page(found).encode()
