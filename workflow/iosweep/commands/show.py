"""`iosweep show`: the headline of a campaign, or every result of it."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from iosweep.analysis import acceptance, caveats, formats
from iosweep.analysis.summary import Metric, PointSummary, count_results, summarize_campaign
from iosweep.commands import accept, campaigns
from iosweep.commands.check import Condition, read_condition
from iosweep.commands.terminal import Printer, prose, say, table, to_json, working
from iosweep.files import documents
from iosweep.judge.findings import rank_reasons
from iosweep.judge.remaining import set_name
from iosweep.plan.model import Point, file_set, plan_files, read_plan
from iosweep.report import answer
from iosweep.report.results_table import sort_results
from iosweep.store.record import DataSet, Record
from iosweep.store.store import Store
from iosweep.tables.reader import Campaign
from iosweep.text import printable, some


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=f"{campaigns.NAMED}; with --commands, id of a point, or path of its results")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="print every point and phase, with reasons for verdicts")
    form.add_argument("--json", action="store_true", help="print the same as --all as JSON, with all statistics")
    form.add_argument(
        "--commands", action="store_true", help="print the commands of the last repetition of a point, for a shell"
    )


def run(arguments: Namespace) -> int:
    if arguments.commands:
        return _show_commands(Path(arguments.campaign))
    results = campaigns.find(arguments.campaign)
    campaign = campaigns.load_tables(results)
    with working(f"reading {results} ..."):
        condition, summary = read_condition(results), summarize_campaign(campaign)
    if arguments.json:
        sys.stdout.write(to_json(_document(campaign, sort_results(summary, campaign.about.sweeps), condition)))
    elif arguments.all:
        _show_table(sort_results(summary, campaign.about.sweeps), campaign.about.ingested is not None)
    else:
        printer = Printer()
        printer.print(answer.table(campaign, summary))
        if campaign.about.accept:
            accept.show(acceptance.decide(campaign, summary))
        if condition.stale:
            prose(condition.stale_tables)
        if (results / "report.html").exists():
            printer.print(f"report: {results / 'report.html'}", soft_wrap=True)
    # damage that is still there has its remedy in the condition
    damaged = campaigns.damage_in_tables(results, campaign.about)
    others = [line for line in damaged if not any(one.startswith(line) for one in condition.damaged)]
    for line in documents.few([*condition.damaged, *others]):
        prose(line, sys.stderr)
    return 0


# --- --commands


def _show_commands(wanted: Path) -> int:
    """Print the commands of a point. `wanted`: its id, or its folder in the store. Raises CommandError."""
    searched = [wanted.parent.parent] if wanted.parent.name == "points" else campaigns.list_known()
    results, name = campaigns.find_point(wanted.name, searched, "; name one as results/CAMPAIGN/points/ID")
    store = Store(results)
    *_, record = store.records_of(name, Record)
    if point := _planned(results, name):
        for line in _preparations(point, record, store.documents(DataSet)):
            say(line)
    else:
        say("# no plan that can be read has this point: how to prepare its data sets is not known")
    for line in _commands(record):
        say(line)
    return 0


def _planned(results: Path, name: str) -> Point | None:
    """A point, from any plan of the campaign: points with one id are equal."""
    with contextlib.suppress(OSError, documents.Damaged):
        for file in reversed(plan_files(results)):
            with contextlib.suppress(OSError, documents.Damaged):
                if point := next((point for point in read_plan(file).points if point.id == name), None):
                    return point
    return None


def _preparations(point: Point, record: Record, sets: Mapping[str, DataSet]) -> Iterator[str]:
    """Commands that make the directories and data sets of a repetition, which target.keep may have removed. Pure.

    The campaign's directory is taken from the commands of the repetition.
    """
    commands = [argv for run in record.phases for argv in (run.argvs or (run.argv,))]
    # fio's arguments have a backslash before each colon
    arguments = [argument.replace("\\:", ":") for argv in commands for argument in argv]
    shares = [s for step in point.steps for s in file_set(point, step, record.repetition).shares(point.nodes)]
    for directory, role in {share.directory: share.role for share in shares}.items():
        place = re.compile(rf"(/(?:.*/)?{re.escape(directory)})(?:/|$)")
        if not (at := next(filter(None, map(place.search, arguments)), None)):
            continue
        yield shlex.join(["mkdir", "-p", at[1]])
        if role != "fresh":
            known = sets.get(set_name(directory, point.target), DataSet())
            if known.argv:
                yield f"# {', '.join(filter(None, known.hosts)) or record.host}, prepares {directory}"
                yield shlex.join(known.argv)
            else:
                yield f"# {directory}: how it was prepared is not recorded; `target.keep: data_sets` keeps it"


def _commands(record: Record) -> Iterator[str]:
    """Each command of a repetition, below a comment with its node, CPUs and phases. Pure."""
    hosts = record.hosts or (record.host,)
    for argvs, group in groupby(record.phases, lambda run: run.argvs or (run.argv,)):
        runs = list(group)
        phases = ", ".join(run.phase for run in runs)
        for number, argv in enumerate(argvs):
            host = ", ".join(hosts) if len(argvs) == 1 else hosts[number]  # a command for all nodes, or for each node
            cpus = "CPUs not recorded"
            if bound := runs[0].cpus:  # to these the command was bound, or it could use them
                usable = next((node.usable for node in bound.nodes if host in node.hosts), "")
                cpus = f"CPUs {','.join(bound.planned or [usable])}"
            yield f"# {host}, {cpus}, {phases}"
            yield shlex.join(argv)


# --- results


def _show_table(summary: Sequence[PointSummary], ingested: bool) -> None:
    """Print a line for each result. `ingested`: with its files, since results may have equal parameters."""
    columns = ("point", "phase", "figure", "spread", "grade", "verdict", *(["file"] if ingested else []))
    whole = table(*columns, "reason", right=["figure"])
    for result in summary:
        headline, units = result.headline, formats.units_of(result.metric, result.kind)
        outputs = some(list(dict.fromkeys(row.raw for row in result.rows if row.raw)), 1)
        whole.add_row(
            result.point,
            result.phase,
            formats.quantity(headline.figure, units) if headline else "-",
            formats.spread(headline, units) if headline else "",
            (headline.grade or "") if headline else "",
            f"{caveats.VERDICT_SYMBOLS[result.state]} {result.state}",
            *([printable(outputs)] if ingested else []),
            printable("; ".join(text for text, *_ in rank_reasons((reason,) for reason in result.reasons))),
        )
    Printer(wide=True).print(whole)


def _figure(metric: Metric) -> dict[str, object]:
    """A figure with its interval, which is None if it has none to show."""
    interval = metric.interval
    return {
        **{
            name: getattr(metric, name)
            for name in ("figure", "low", "high", "sd", "values", "iterations", "n", "grade")
        },
        "ci95_low": interval.low if interval else None,
        "ci95_high": interval.high if interval else None,
    }


def _document(campaign: Campaign, found: Sequence[PointSummary], condition: Condition) -> dict[str, object]:
    """`show --json`: SI units, as in the column names; `figures`: column -> statistics over the repetitions."""
    shares = acceptance.published_shares(found, campaign.about.sweeps)
    return {
        "campaign": campaign.about.campaign,
        "target": campaign.about.on,
        "results_directory": str(condition.results),
        "tables_made": campaign.about.made.isoformat(),
        "tables_out_of_date": condition.stale,
        "verdicts": count_results(found),
        "acceptance": [acceptance.document(decision) for decision in acceptance.decide(campaign, found)],
        "results": [
            {
                "point": result.point,
                "sweeps": result.rows[0].sweeps.split(","),
                "phase": result.phase,
                "kind": result.kind,
                "tool": result.tool,
                "parameters": dict(result.own_parameters),
                "verdict": result.state,
                "reasons": list(result.reasons),
                "repetitions": {"measured": result.measured, "used": result.used, "missing": result.lacking},
                "metric": result.metric,
                "figures": {column: _figure(metric) for column, metric in result.metrics.items()},
                "published": [asdict(share) for share in shares.get((result.point, result.phase), ())],
            }
            for result in found
        ],
    }
