"""`iosweep check`: whether campaigns are complete and valid, for scripts and for a glance.

Verdicts are those of the tables; the store says how many repetitions are left.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iosweep.analysis.summary import OUTCOMES, VERDICTS, Repetitions, count_repetitions, repetitions
from iosweep.commands import campaigns
from iosweep.commands.terminal import prose
from iosweep.errors import CommandError
from iosweep.files import documents
from iosweep.judge import remaining
from iosweep.judge.findings import rank_reasons
from iosweep.plan.model import Plan, plan_files
from iosweep.store import ingested
from iosweep.store.store import Store
from iosweep.tables import reader
from iosweep.tables.reader import CampaignDocument, RowVerdict
from iosweep.text import human_count, some

#: Verdicts with which a campaign fails.
_FAILING = ("invalid", "missing")
#: So many points are listed behind a reason.
_NAMED = 3
#: A reason, the number of its repetitions, and their points.
Reason = tuple[str, int, list[str]]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="*", help=f"{campaigns.NAMED}; default: all in {campaigns.RESULTS}/")
    parser.add_argument("--suspect", action="store_true", help="exit with 1 for suspect results, too")


def run(arguments: Namespace) -> int:
    """Exit codes: 0 complete and valid; 1 something is invalid, missing, left or damaged, or nothing is valid, or the
    tables are stale."""
    checked = [campaigns.find(name) for name in arguments.campaign] or campaigns.list_known()
    if not checked:
        raise CommandError("no campaigns here; snakemake measures one")
    code = 0
    for results in checked:
        try:
            outcome = read_outcome(results)
        except CommandError as error:
            prose(str(error), sys.stderr)
            code = 1
            continue
        for line in _lines(outcome):
            prose(line)
        code = max(code, outcome.fails(arguments.suspect))
    return code


@dataclass(frozen=True)
class Outcome:
    """The repetitions of a campaign. The verdict of a repetition is the worst of its phases.

    `verdicts`: verdict -> repetitions. `left`: repetitions that the next run measures; one that is tried again has a
    verdict, too. `reasons`: by verdict, or `left`. `stale`: the campaign has changed since the tables were made.
    `damaged`: damaged files, as sentences.
    """

    campaign: str
    results: Path
    verdicts: Mapping[str, int] | None  # None: no readable tables
    left: int = 0
    reasons: Mapping[str, list[Reason]] = field(default_factory=dict)
    stale: bool = False
    damaged: Sequence[str] = ()

    def fails(self, suspect: bool = False) -> bool:
        """Whether `iosweep check` exits with 1. `suspect`: suspect results fail, too."""
        if self.verdicts is None or self.stale or self.left or self.damaged:
            return True
        failing = (*_FAILING, "suspect") if suspect else _FAILING
        return not self.verdicts["valid"] or any(self.verdicts[verdict] for verdict in failing)


def read_outcome(results: Path) -> Outcome:
    """The outcome of a campaign; from its tables alone where its plan cannot be read. Raises CommandError where there
    is neither."""
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
    left = count_left(plan, store)
    store.read_documents()
    damaged = list(dict.fromkeys([*lost, *_damage(store, remade=not lost)]))
    if tables is None and plan is None:
        raise CommandError("\n".join(damaged) or campaigns.no_tables(results))
    name = tables.campaign if tables else plan.campaign if plan else ""
    outcome = Outcome(name, results, None, left, damaged=damaged)
    if tables is None:
        return outcome
    columns = RowVerdict.__struct_fields__
    try:
        found = repetitions(reader.read_rows(results, "results.parquet", reader.read_verdict, columns), tables.sweeps)
        stale = tables.plan_digest != digest if digest else _stale(store, tables, plan)
    except (FileNotFoundError, documents.Damaged):  # `damaged` names the table
        return outcome
    counts, reasons = count_repetitions(found), _reasons(found)
    if stale:
        reasons.pop("left", None)
    verdicts = {verdict: counts[verdict] for verdict in VERDICTS}
    return replace(outcome, verdicts=verdicts, left=left if plan else counts["left"], reasons=reasons, stale=stale)


def count_left(plan: Plan | None, store: Store) -> int:
    """Repetitions without a result. Points that lack something (a tool, CPUs) are not left: they are missing."""
    stored, missing = store.repetitions(), store.missing()
    left = remaining.find(plan, stored, {}, remaining.LocalMachine()).left if plan else {}
    return sum(len(n) for points in left.values() for id, n in points.items() if id not in missing)


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


def _reasons(found: Sequence[Repetitions]) -> dict[str, list[Reason]]:
    """Verdict or `left` -> its reasons, in the order of the report."""
    reasons: dict[str, list[Reason]] = {}
    for outcome in OUTCOMES[1:]:
        having = [repetition for repetition in found if repetition.outcome == outcome]
        for text, indexes, _ in rank_reasons(one.reasons or ("no reason given",) for one in having):
            repetitions = [having[index] for index in indexes]
            points = list(dict.fromkeys(repetition.point for repetition in repetitions))
            count = sum(repetition.count for repetition in repetitions)
            reasons.setdefault(outcome, []).append((text, count, points))
    return reasons


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


def sentence(outcome: Outcome) -> str:
    """`quick: 20 valid repetitions, 0 suspect, 4 invalid, 0 missing, 3 left`"""
    if outcome.verdicts is None:
        tables = (outcome.results / name for name in ("results.parquet", reader.ABOUT))
        why = "tables that cannot be read" if any(file.exists() for file in tables) else "no tables yet"
        return f"{outcome.campaign}: {why}; {human_count(outcome.left, 'repetition')} left"
    valid, *others = {**outcome.verdicts, "left": outcome.left}.items()
    counts = [human_count(valid[1], "valid repetition"), *(f"{count:,} {verdict}" for verdict, count in others)]
    return f"{outcome.campaign}: {', '.join(counts)}"


def _lines(outcome: Outcome) -> Iterable[str]:
    """The sentence, and each reason with its number of repetitions and some of their points."""
    yield sentence(outcome)
    for verdict in reversed(OUTCOMES[1:]):
        for reason, count, points in outcome.reasons.get(verdict, ()):
            yield f"  {count:,} {verdict}: {reason} ({some(points, _NAMED)})"
    if outcome.verdicts is None or outcome.stale:
        newer = "the campaign has changed since the tables were made, or was copied without the times of its files"
        why = newer if outcome.stale else "there are no readable tables"
        yield f"  not checked: {why}; `iosweep report {outcome.campaign}` makes them"
    elif not outcome.verdicts["valid"]:
        yield "  none is valid"
    yield from (f"  {line}" for line in outcome.damaged)
    if outcome.left:
        yield "  left: the same snakemake command measures them"
