"""`iosweep list`: the campaigns below results/."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from iosweep.analysis.aggregate import VERDICTS
from iosweep.commands import campaigns, outcome
from iosweep.commands.terminal import Printer, prose, table, to_json
from iosweep.files import documents
from iosweep.text import printable
from iosweep.units import local_time

#: The counts of a campaign.
_COUNTS = (*VERDICTS, "left")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Print the campaigns, the newest last; 1 if one cannot be read."""
    known: list[outcome.Outcome] = []
    wrong: list[str] = []
    for results in campaigns.known():
        try:
            known.append(outcome.of(results))
        except outcome.Unreadable as error:
            known.append(outcome.Outcome(results.name, "", results, None))
            wrong += error.lines
    known.sort(key=lambda one: (one.measured or 0, one.campaign))
    if arguments.json:
        sys.stdout.write(to_json([_document(one) for one in known]))
    elif known:
        _print([_cells(one) for one in known])
        if any(one.stale for one in known):
            prose("* changed since its tables were made; `iosweep report CAMPAIGN` makes them again")
    else:
        print("no campaigns here; snakemake measures one")
    for line in [*(line for one in known for line in documents.few(one.damaged)), *wrong]:
        prose(line, sys.stderr)
    return int(bool(wrong))


def _document(one: outcome.Outcome) -> dict[str, object]:
    when = local_time(one.measured).isoformat(timespec="seconds") if one.measured else None
    return {
        "campaign": one.campaign,
        "target": one.target,
        "results": str(one.results),
        "measured": when,
        "repetitions": one.verdicts,
        "repetitions_left": one.left if one.target else None,
        "tables_out_of_date": one.stale,
        "damaged": list(one.damaged),
    }


def _cells(one: outcome.Outcome) -> list[str]:
    """Campaign, when it was measured, _COUNTS, target, results directory."""
    counts = [f"{one.verdicts[v]:,}" if one.verdicts else "-" for v in VERDICTS]
    mark = "*" if one.stale else ""
    when = f"{local_time(one.measured):%F %H:%M}{mark}" if one.measured else "-"
    left = f"{one.left:,}" if one.target else "-"  # neither is known where nothing can be read
    return [one.campaign, when, *counts, left, printable(one.target) or "-", printable(str(one.results))]


def _print(rows: Sequence[Sequence[str]]) -> None:
    whole = table("campaign", "measured", *_COUNTS, "target", "results", right=_COUNTS, wrapped=["target", "results"])
    for row in rows:
        whole.add_row(*row)
    Printer().print(whole)
