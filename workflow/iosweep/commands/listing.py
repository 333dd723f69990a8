"""What is measured, as lists: `iosweep list` of campaigns, `iosweep show --all | --json | --csv` of results."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from rich.markup import escape
from rich.table import Table

from iosweep.commands import outcome
from iosweep.commands.plain import Printer, prose
from iosweep.files import documents
from iosweep.files.documents import Damaged
from iosweep.report import words
from iosweep.report.data import Campaign, load
from iosweep.report.summary import FIGURES, PARAMETERS, VERDICTS, Result, Statistics, count_results, summarise
from iosweep.report.table import ordered
from iosweep.results import safe_csv
from iosweep.results.store import Store
from iosweep.text import printable

#: Figures whose spread over the repetitions is in `show --csv`.
_WITH_SPREAD = ("bandwidth_bytes_per_s", "ops_per_s")
#: The counts of a campaign in `list`.
_COUNTS = (*VERDICTS, "left")
#: The narrowest that a column of reasons is made, in characters.
_REASON_WIDTH = 40
#: What reading a plan or a table raises when it is not one of ours.
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


def campaigns(found: Iterable[Path], as_json: bool) -> int:
    """Print the campaigns of some results directories, those measured last at the end; 1 if one cannot be read."""
    known, unread = [], []
    for results in found:
        try:
            known.append(outcome.of(results))
        except Damaged as error:
            unread += _unread(results, error)
        except _UNREADABLE as error:
            unread.append(f"{results}: its plan or tables cannot be read: {error}")
    known.sort(key=lambda one: (one.measured or 0, one.campaign))
    if as_json:
        print(orjson.dumps([_campaign(one) for one in known], option=orjson.OPT_INDENT_2).decode())
    elif known:
        _list([_cells(one) for one in known])
        if any(one.stale for one in known):
            prose(
                "* opened again, measured or planned since its tables were made; `iosweep report CAMPAIGN` makes them"
            )
    elif not unread:
        print("no campaigns here; snakemake measures one")
    for line in [*(line for one in known for line in one.damaged), *unread]:
        prose(line, sys.stderr)
    return int(bool(unread))


def check(results: Path, suspect: bool) -> int:
    """Print what became of a campaign; 1 if something is invalid, missing, left or not checked."""
    try:
        found = outcome.of(results)
    except Damaged as error:
        for line in _unread(results, error):
            prose(line, sys.stderr)
        return 1
    except _UNREADABLE as error:
        prose(f"{results}: its plan or tables cannot be read: {error}", sys.stderr)
        return 1
    for line in outcome.lines(found):
        prose(line)
    return int(found.fails(suspect))


def _unread(results: Path, error: Damaged) -> list[str]:
    """Why a campaign cannot be read, and what else of it is damaged."""
    cure = documents.cure(error.path)
    if not cure and not outcome.no_plan(results):
        cure = f"; `iosweep report {shlex.quote(str(results))}` makes it again"
    return list(dict.fromkeys([f"{error}{cure}", *outcome.damage(results, Store(results))]))


def show(results: Path, form: str) -> None:
    """Print every result of a campaign. `form`: all (for a person), json or csv. Raises FileNotFoundError."""
    campaign = load(results)
    found = ordered(summarise(campaign.rows), campaign.about["sweeps"])
    if form == "json":
        print(orjson.dumps(_document(campaign, found, results), option=orjson.OPT_INDENT_2).decode())
    elif form == "csv":
        safe_csv.write(sys.stdout, _csv_columns(), map(_csv_row, found))
    else:
        _table(found)
    for file, reason in campaign.about.get("damaged", {}).items():
        prose(documents.sentence(f"{results}/{file}", reason), sys.stderr)


def _campaign(one: outcome.Outcome) -> dict[str, Any]:
    when = datetime.fromtimestamp(one.measured).astimezone().isoformat(timespec="seconds") if one.measured else None
    return {
        "campaign": one.campaign,
        "target": one.target,
        "results": str(one.results),
        "measured": when,
        "repetitions": one.verdicts,
        "repetitions_left": one.left,
        "tables_out_of_date": one.stale,
        "damaged": list(one.damaged),
    }


def _cells(one: outcome.Outcome) -> list[str]:
    """Campaign, when it was measured, _COUNTS, target, results directory."""
    counts = [f"{one.verdicts[v]:,}" if one.verdicts else "-" for v in VERDICTS]
    mark = "*" if one.stale else ""
    when = f"{datetime.fromtimestamp(one.measured):%F %H:%M}{mark}" if one.measured else "-"
    return [one.campaign, when, *counts, f"{one.left:,}", printable(one.target), printable(str(one.results))]


def _list(rows: Sequence[Sequence[str]]) -> None:
    """Print campaigns as a table; on a terminal that is narrower than it, each as a block."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("campaign", "measured", *_COUNTS, "target", "results"):
        table.add_column(name, justify="right" if name in _COUNTS else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    printer = Printer()
    if printer.excess(table) <= 0:
        printer.print(table)
        return
    for campaign, when, *counts, target, results in rows:
        prose(f"{campaign}  {when}")
        prose("  " + ", ".join(f"{count} {name}" for name, count in zip(_COUNTS, counts, strict=True)))
        prose(f"  target   {target}")
        prose(f"  results  {results}")


def _table(found: Sequence[Result]) -> None:
    """Print results as a table; on a terminal that leaves too little for its reasons, each as a block."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("point", "phase", "figure", "spread", "verdict"):
        table.add_column(name, justify="right" if name == "figure" else "left", no_wrap=True)
    table.add_column("reason")
    rows = []
    for result in found:
        headline, units = result.headline, words.units_of(result.metric, result.kind)
        figure = words.quantity(headline.mean, units) if headline else "-"
        verdict = f"{words.VERDICT_SYMBOLS[result.verdict]} {result.verdict}"
        reasons = printable("; ".join(result.reasons))
        spread = words.spread(headline, units) if headline else ""
        rows.append((result.point, result.phase, figure, spread, verdict, reasons))
        table.add_row(*map(escape, rows[-1]))
    printer = Printer()
    if printer.excess(table) <= max(0, max((len(row[-1]) for row in rows), default=0) - _REASON_WIDTH):
        printer.print(table)
        return
    for point, phase, figure, spread, verdict, reasons in rows:
        prose(f"{point}  {phase}")
        prose("  " + "  ".join(filter(None, (verdict, figure, spread))))
        if reasons:
            prose(f"    {reasons}")


def _document(campaign: Campaign, found: Sequence[Result], results: Path) -> dict[str, Any]:
    """`show --json`: SI units, as in the column names; `figures`: column -> statistics over the repetitions."""
    return {
        "campaign": campaign.about["campaign"],
        "target": campaign.about["target"]["directory"],
        "results_directory": str(results),
        "tables_made": campaign.about["made"],
        "tables_out_of_date": outcome.stale(results),
        "verdicts": count_results(found),
        "results": [
            {
                "point": result.point,
                "sweeps": _sweeps(result).split(","),
                "phase": result.phase,
                "kind": result.kind,
                "tool": result.tool,
                "parameters": dict(result.parameters),
                "verdict": result.verdict,
                "reasons": list(result.reasons),
                "repetitions": {"measured": _measured(result), "used": result.used, "missing": result.lacking},
                "metric": result.metric,
                "figures": {column: _statistics(one) for column, one in result.statistics.items()},
            }
            for result in found
        ],
    }


def _statistics(one: Statistics) -> dict[str, Any]:
    return {
        "n": one.n,
        "mean": one.mean,
        "median": one.median,
        "min": one.low,
        "max": one.high,
        "sd": one.sd,
        "ci95_half_width": one.ci95,
    }


def _csv_columns() -> list[str]:
    return [
        *("point", "sweeps", "tool", "phase", *PARAMETERS, "verdict", "repetitions_measured", "repetitions_used"),
        *("metric", *_figure_columns(), "reasons"),
    ]


def _figure_columns() -> Iterator[str]:
    for column in FIGURES:
        yield column
        if column in _WITH_SPREAD:
            yield from (f"sd_{column}", f"ci95_half_width_{column}")


def _csv_row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {
        "point": result.point,
        "sweeps": _sweeps(result),
        "tool": result.tool,
        "phase": result.phase,
        **result.parameters,
        "verdict": result.verdict,
        "repetitions_measured": _measured(result),
        "repetitions_used": result.used,
        "metric": result.metric,
        "reasons": printable("; ".join(result.reasons)),
    }
    for column in FIGURES:
        row[column] = result.typical(column)
        if column in _WITH_SPREAD and (one := result.statistics.get(column)):
            row |= {f"sd_{column}": one.sd, f"ci95_half_width_{column}": one.ci95}
    return row


def _measured(result: Result) -> int:
    """Repetitions with an outcome."""
    return sum(row["verdict"] != "missing" for row in result.rows)


def _sweeps(result: Result) -> str:
    return str(result.rows[0]["sweeps"])
