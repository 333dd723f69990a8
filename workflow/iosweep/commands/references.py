"""`iosweep references`: published figures with their sources, alone or beside the results of a campaign."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from iosweep.analysis import references as analysis
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import load
from iosweep.commands import campaigns, outcome
from iosweep.commands.terminal import Printer, prose, say, table, to_json
from iosweep.config import references
from iosweep.config.published import Reference
from iosweep.errors import ConfigError, Problem
from iosweep.report import references as report
from iosweep.text import printable


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "reference", nargs="*", help="name of a reference, or a file of your own that ends with .yaml; default: all"
    )
    parser.add_argument("--beside", metavar="CAMPAIGN", help="lay them beside the results of this campaign")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Print references; 1 if the campaign cannot be read. Raises ConfigError for one that is unknown or wrong."""
    if arguments.beside:
        return _beside(arguments.beside, arguments.reference, arguments.json)
    found = _named(arguments.reference or references.known())
    if arguments.json:
        sys.stdout.write(to_json([analysis.document(one) for one in found]))
    elif arguments.reference:
        for one in found:
            _figures(one)
    else:
        _list(found)
    return 0


def _named(texts: Sequence[str]) -> tuple[Reference, ...]:
    found, wrong = references.named(list(dict.fromkeys(texts)))
    if wrong:
        raise ConfigError([p if p.file else Problem("command line", 0, "", p.message) for _, p in wrong])
    return found


def _list(found: Sequence[Reference]) -> None:
    whole = table("reference", "figures", "systems", "source", right=["figures"], wrapped=["source"])
    for one in found:
        whole.add_row(one.name, f"{len(one.figures):,}", ", ".join(one.systems) or "-", printable(one.source))
    Printer().print(whole)


def _figures(reference: Reference) -> None:
    _head(reference)
    whole = table("figure", *(reference.systems or ["published"]), "where", wrapped=["where"])
    rows: dict[tuple[str, str], list[str]] = {}
    for figure in reference.figures:
        place = ", ".join(analysis.place(figure))
        rows.setdefault((report.row_title(figure), place), []).append(figure.printed)
    for (title, place), values in rows.items():
        whole.add_row(title, *map(printable, values), place)
    Printer().print(whole)


def _head(reference: Reference) -> None:
    prose(f"{reference.name}: {printable(reference.source)}")
    for text in (reference.url, reference.description):
        if text:
            prose(f"  {printable(text)}")


def _beside(name: str, texts: Sequence[str], as_json: bool) -> int:
    results = campaigns.find(name)
    if results is None:
        return 1
    try:
        campaign = load(results)
    except FileNotFoundError:
        say(outcome.no_tables(results, name), file=sys.stderr)
        return 1
    found = _named(texts) if texts else campaign.about.references
    summary = summarize(campaign.rows)
    laid = [(one, analysis.beside(one, summary, campaign.about.sweeps)) for one in found]
    if as_json:
        sys.stdout.write(to_json([analysis.compared(*one) for one in laid]))
    elif not laid:
        prose(f"{name} has no references; name some: {', '.join(references.known())}")
    for reference, every in laid if not as_json else ():
        _head(reference)
        _print(report.section(reference, campaign, summary))
        prose(f"  {analysis.summary(every)}")
    return 0


def _print(section: report.Section) -> None:
    """A table of what compares, and why the rest does not."""
    if section.table:
        whole = table("figure", *section.table.columns, "measured with", wrapped=["measured with"])
        for row in section.table.rows:
            mine, *others = row.cells
            verdict = f" ({mine.verdict})" if mine.verdict not in ("", "valid") else ""
            texts = ["\n".join((cell.value, *cell.lines)) or "-" for cell in others]
            whole.add_row(row.title, mine.value + verdict, *map(_lines, texts), printable(row.about))
        Printer().print(whole)
        prose(f"  all: {printable(section.common)}")
    for text in section.others:
        prose(f"  not comparable: {printable(text)}")


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
