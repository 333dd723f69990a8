"""`iosweep check`: whether campaigns are complete and valid, for scripts and for a glance.

Results and causes are those of the report; the store tells whether the tables still describe it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iosweep.analysis import caveats
from iosweep.analysis.summary import count_results, summarize_campaign
from iosweep.commands import campaigns
from iosweep.commands.terminal import prose
from iosweep.errors import CommandError
from iosweep.files import documents
from iosweep.plan.model import Plan, plan_files
from iosweep.report.answer import judge
from iosweep.store import ingested
from iosweep.store.store import Store
from iosweep.tables import reader
from iosweep.tables.reader import Campaign, CampaignDocument
from iosweep.text import human_count


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="*", help=f"{campaigns.NAMED}; default: all in {campaigns.RESULTS}/")
    parser.add_argument("--suspect", action="store_true", help="exit with 1 for suspect results, too")


def run(arguments: Namespace) -> int:
    """Exit codes: 0 complete and valid; 1 something is invalid, missing, left or damaged, or nothing is valid, or the
    tables are stale."""
    checked = [campaigns.find(name) for name in arguments.campaign] or campaigns.list_known()
    if not checked:
        raise CommandError("no campaigns here; snakemake measures one")
    return max([_check(results, arguments.suspect) for results in checked])


def _check(results: Path, suspect: bool) -> int:
    """Print the results of a campaign, and what is wrong; returns the exit code. suspect: suspect results fail, too."""
    condition = None
    try:
        condition = read_condition(results)
        campaign = campaigns.load_tables(results)
    except CommandError as error:
        for line in (condition and condition.damaged) or [str(error)]:
            prose(line, sys.stderr)
        return 1
    counts = count_results(summarize_campaign(campaign))
    for line in (*describe(campaign), *condition.wrong):
        prose(line)
    failing = ("invalid", "missing", "left", *(["suspect"] if suspect else []))
    return int(bool(condition.wrong) or not counts["valid"] or any(counts[outcome] for outcome in failing))


def describe(campaign: Campaign) -> Iterator[str]:
    """`quick: 20 of 27 results are valid, 4 invalid, 3 left to measure`, and the causes."""
    results = summarize_campaign(campaign)
    yield f"{campaign.about.campaign}: {', '.join(text for _, text in judge(count_results(results)).parts)}"
    for cause in caveats.find_causes(results, campaign.checks):
        remedy = f"; {cause.remedy}" if cause.remedy else ""
        yield f"  {cause.outcome}, {human_count(cause.count, 'result')}: {cause.text}{remedy}"


@dataclass(frozen=True)
class Condition:
    """Whether the tables of a campaign describe its store. stale: it has changed since they were made; damaged: damaged
    files, as sentences."""

    results: Path
    stale: bool
    damaged: Sequence[str]

    @property
    def wrong(self) -> list[str]:
        """Sentences on what is wrong."""
        return [*([self.stale_tables] if self.stale else []), *self.damaged]

    @property
    def stale_tables(self) -> str:
        newer = "the campaign has changed since these tables were made, or was copied without the times of its files"
        return f"{newer}; `iosweep report {shlex.quote(str(self.results))}` makes them again"


def read_condition(results: Path) -> Condition:
    """Raises CommandError where there is neither a plan nor a table."""
    store, tables, plan, digest = Store(results), None, None, None
    with contextlib.suppress(FileNotFoundError, documents.Damaged):
        tables = reader.read_about(results)
    if ingested.exists(results):
        lost = ingested.find_damage(results)
        with contextlib.suppress(FileNotFoundError, documents.Damaged):
            digest = ingested.load(results)[1]
    else:
        try:
            plan, lost = campaigns.plan_of(results), []
        except CommandError as error:
            lost = [str(error)]
    store.repetitions()
    store.missing()
    store.read_documents()
    damaged = list(dict.fromkeys([*lost, *_damage(store, remade=not lost)]))
    if tables is None and plan is None:
        raise CommandError("\n".join(damaged) or campaigns.no_tables(results))
    stale = False
    if tables:
        with contextlib.suppress(FileNotFoundError):  # `damaged` names the table
            stale = tables.plan_digest != digest if digest else _stale(store, tables, plan)
    return Condition(results, stale, damaged)


def _stale(store: Store, tables: CampaignDocument, plan: Plan | None) -> bool:
    """Whether something was stored or damaged, or another plan was written, since the tables were made."""
    results = store.path
    points = {point.id for point in plan.points} if plan else set()
    for file in map(Path, store.damaged):
        if file.parent.name in points and os.path.relpath(file, results) not in tables.damaged:
            return True
    other_plans = [file for file in plan_files(results) if file.stem != tables.plan_digest]
    made_ns = (results / "results.parquet").stat().st_mtime_ns
    for file in (*other_plans, *map(store.point, store.points())):
        with contextlib.suppress(FileNotFoundError):  # a run may rename it
            if file.lstat().st_mtime_ns > made_ns:
                return True
    return False


def _damage(store: Store, remade: bool) -> list[str]:
    """Damage of stored files that were read, and of tables, as sentences. `remade`: tables can be made again."""
    results, again = store.path, f"; `iosweep report {shlex.quote(str(store.path))}` makes it again"
    about = results / reader.ABOUT
    if os.path.lexists(about):
        tables = reader.find_damage(results)
    else:
        tables = [f"{about} is gone"] if any((results / name).exists() for name in reader.FILES) else []
    if not remade:
        return [*(line.removesuffix(again) for line in store.damage()), *tables]
    return [*store.damage(), *(line + again for line in tables)]
