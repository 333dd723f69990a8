"""`iosweep compare`: what changed between campaigns, and which of their figures got worse or better."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from iosweep.analysis import comparison_words as words
from iosweep.analysis import matching
from iosweep.analysis.changes import Changed
from iosweep.analysis.comparison import (
    AT_LEAST,
    Comparison,
    Finding,
    Like,
    Side,
    Versus,
    like,
    names,
    told,
    versus,
)
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
        "--like", nargs="+", action="extend", default=[], metavar="CAMPAIGN",
        help="further campaigns of the first one's system, unchanged: a change must be beyond what these differ by",
    )  # fmt: skip
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
        ignore = matching.ignored(arguments.ignore) if arguments.ignore else None
    except matching.NeverMixed as error:
        raise CommandError(str(error), NOT_COMPARABLE) from None
    column = _COLUMNS.get(arguments.figure, "")
    sides = _sides([*arguments.campaign, *arguments.like])
    (first, *compared), further = sides[: len(arguments.campaign)], sides[len(arguments.campaign) :]
    found = [versus(first, other, ignore, column, arguments.at_least) for other in compared]
    if apart := [one for one in found if not one.found.singles]:
        raise CommandError("; ".join(map(_nothing, apart)), NOT_COMPARABLE)
    if twice := [one.path for one in further if [other.path for other in sides].count(one.path) > 1]:
        raise CommandError(f"{twice[0]} is named twice: a campaign is no other session of itself", NOT_COMPARABLE)
    if alike := tuple(_like(first, one, ignore, column) for one in further):
        found = [versus(first, other, ignore, column, arguments.at_least, alike) for other in compared]
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
    forms = names([(results.name, campaign) for results, campaign in loaded])
    return [
        Side(name, results, campaign, tuple(summarize(campaign.rows)))
        for name, (results, campaign) in zip(forms, loaded, strict=True)
    ]


def _like(first: Side, side: Side, ignore: frozenset[str] | None, column: str) -> Like:
    """A campaign of `--like`. Raises CommandError where it says nothing of how sessions differ."""
    found = like(first, side, ignore, column)
    if not found.results:
        named = replace(side, name=f"{side.name} (--like)")
        raise CommandError(_nothing(versus(first, named, ignore, column, AT_LEAST)), NOT_COMPARABLE)
    return found


def _nothing(one: Versus) -> str:
    """Why two campaigns have nothing to compare."""
    why = words.advice(one.hint) or " ".join(words.absent(one.found, one.names)) or "there are no results"
    return f"{one.a.name} and {one.b.name} have no result in common that has a figure: {why}"


def _fails(found: Comparison, on: str | None) -> bool:
    return bool(on and (found.regressions or (on == "undecided" and found.undecided)))


def _show(one: Versus, everything: bool) -> None:
    printer = Printer()
    printer.print(_title(one))
    prose(f"\n{words.sentence(one.found)}")
    for line in words.sessions_known(one):
        prose(line)
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


def _rows(found: Comparison, everything: bool) -> Iterator[Finding]:
    """Changes first, then what is undecided, the largest first; with `everything` all results in their order."""
    changed = told(found)
    yield from changed
    if everything:
        yield from (one for one in found.singles if not any(one is other for other in changed))
        return
    undecided = [one for one in found.undecided if one.change]
    undecided.sort(key=lambda one: -abs(one.change.log) if one.change else 0.0)
    yield from undecided[:_MOST_UNDECIDED]


def _figures(rows: Sequence[Finding], one: Versus) -> Table:
    named = words.heads(one)
    heads = (*named, "change (95 %)", "more")
    found = table("", "result", *heads, right=heads, wrapped=["result", *named])
    for row in rows:
        mark = words.SYMBOLS[row.verdict] + ("○" if row.suspect else "")
        shown = words.figures(row, one.found.column)
        found.add_row(mark, words.brief(one.found, row), *shown, words.interval(row), words.more(row))
    return found


def _closing(one: Versus) -> Iterator[str]:
    found = one.found
    counts = [f"{found.count(verdict):,} {name}" for verdict, name in words.counted(found.at_least)]
    yield f"{human_count(len(found.singles), 'result')} compared: {', '.join(counts)}."
    yield words.legend(found)
    yield from filter(None, [words.to_decide(found)])
    yield from words.absent(found, one.names)
    yield from filter(None, [words.advice(one.hint)])
    yield from words.limits(one.a.campaign, one.b.campaign, found)


def _document(found: Sequence[Versus]) -> dict[str, object]:
    """`compare --json`: SI units, shares as fractions."""
    first = found[0].found
    return {
        "at_least_share": first.at_least,
        "ignored": sorted(first.matching.ignored or ()),
        "comparisons": [_comparison(one) for one in found],
    }


def _comparison(one: Versus) -> dict[str, object]:
    found = one.found
    absent = [(one.names[lone.side], lone.result, lone.why) for lone in found.matching.unmatched]
    absent += [(one.names[side], pair.a, why) for pair, side, why in found.without]
    return {
        **{key: {"name": side.name, "results": str(side.path)} for key, side in (("first", one.a), ("other", one.b))},
        "sentence": words.sentence(found),
        "changes": [asdict(change) for change in one.changes],
        "counts": {verdict: found.count(verdict) for verdict, _ in words.counted(found.at_least)},
        "groups": [_finding(group, one) for group in found.groups],
        "results": [_finding(single, one) for single in found.singles],
        "not_compared": [
            {"campaign": name, "point": result.point, "phase": result.phase, "why": why} for name, result, why in absent
        ],
    }


def _finding(finding: Finding, versus: Versus) -> dict[str, object]:
    pair, change = finding.pairs[0], finding.change
    column = versus.found.column or pair.a.metric
    return {
        "subject": words.subject(versus.found, finding),
        "tool": pair.a.tool,
        "phase": finding.phase,
        "where": words.parameters_of(versus.found, finding),
        "column": column,
        "first": _figure(pair.a, column) if finding.single else None,
        "other": _figure(pair.b, column) if finding.single else None,
        "change_share": change.share if change else None,
        "ci95_share": change.within() if change else None,
        "p": change.p if change else None,
        "p_holm": finding.p if change else None,
        "verdict": finding.verdict,
        "suspect": finding.suspect,
        "why": finding.why,
    }


def _figure(result: PointSummary, column: str) -> dict[str, object]:
    """n: repetitions that enter the figure, which is their geometric mean."""
    values = result.values(column)
    return {"point": result.point, "verdict": result.verdict, "n": len(values), "figure": result.center(column)}


def _page(found: Sequence[Versus]) -> bytes:
    from iosweep.report import comparison_page  # late: most runs write none

    return comparison_page.render(found).encode()
