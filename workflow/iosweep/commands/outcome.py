"""The outcome of a campaign: repetitions by verdict, and those that are left. `check` and `show` print it."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec

from iosweep.analysis.data import Campaign, PhaseOutcome, load
from iosweep.analysis.summary import OUTCOMES, VERDICTS, Repetitions, count_repetitions, repetitions
from iosweep.commands import campaigns
from iosweep.commands.terminal import working
from iosweep.errors import CommandError
from iosweep.files import documents
from iosweep.judge import remaining
from iosweep.judge.reasons import REASONS, bare, rank
from iosweep.plan.model import Plan, plan_files, read_plan
from iosweep.store import ingested
from iosweep.store.committed import RESULT_FILE
from iosweep.store.store import Store
from iosweep.tables import merged_tables
from iosweep.tables.campaign_form import CampaignForm
from iosweep.text import human_count, some

#: Verdicts with which a campaign fails `iosweep check`.
FAILING = ("invalid", "missing")
#: Points that are named behind a reason.
_NAMED = 3
#: A reason, its repetitions, and their points.
Reason = tuple[str, int, list[str]]


@dataclass(frozen=True)
class Outcome:
    """A campaign's repetitions. The verdict of one is the worst of its phases.

    `verdicts`: verdict -> repetitions. `left`: repetitions that the next run measures, counted in the tables, or in the
    store where the tables are absent or stale. `reasons`: by verdict, or `left`.
    `stale`: the campaign has changed since the tables were made.
    `again`: repetitions with a verdict that the next run tries once more; they are not counted as left.
    `damaged`: damaged files, as sentences.
    """

    campaign: str
    results: Path
    verdicts: Mapping[str, int] | None  # None: no tables yet
    left: int = 0
    again: int = 0
    reasons: Mapping[str, list[Reason]] = field(default_factory=dict)
    stale: bool = False
    damaged: Sequence[str] = ()

    def fails(self, suspect: bool = False) -> bool:
        """Whether `iosweep check` exits with 1. `suspect`: suspect results fail, too."""
        if self.verdicts is None or self.stale or self.left or self.again or self.damaged:
            return True
        return not self.verdicts["valid"] or any(
            self.verdicts[verdict] for verdict in (*FAILING, *(("suspect",) if suspect else ()))
        )


class Unreadable(CommandError):
    """Neither the plan nor the tables of a campaign can be read. `lines`: sentences for the user."""

    def __init__(self, lines: Sequence[str]):
        self.lines = list(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


def loaded(name: str, exit_code: int) -> tuple[Path, Campaign]:
    """The results of a campaign that a user names, and its tables. Raises CommandError with this exit code."""
    if (results := campaigns.there(name)) is None:
        raise CommandError(campaigns.not_known(name), exit_code)
    try:
        with working(f"reading {results} ..."):
            return results, load(results)
    except FileNotFoundError:
        raise CommandError(no_tables(results, name), exit_code) from None
    except documents.Damaged as error:
        lost = no_plan(results) or f"`iosweep report {name}` makes it again"
        raise CommandError(f"{error}; {lost}", exit_code) from None


def of(results: Path) -> Outcome:
    """The outcome of a campaign, from its tables and its store; from its tables alone where its plan cannot be read.
    Raises Unreadable where there is neither."""
    try:
        return _of(results)
    except documents.Damaged as error:
        cure = documents.cure(error.path)
        if not cure and not no_plan(results):
            cure = f"; `iosweep report {shlex.quote(str(results))}` makes it again"
        raise Unreadable([f"{error}{cure}", *damage(results, Store(results))]) from None
    except FileNotFoundError as error:
        raise Unreadable(damage(results, Store(results)) or [f"{results}: {error}"]) from None
    except (OSError, ValueError, KeyError, TypeError) as error:  # another program's files
        raise Unreadable([f"{results}: its plan or tables cannot be read: {error}"]) from None


def _of(results: Path) -> Outcome:
    tables, store = _tables(results), Store(results)
    table = (results / "results.parquet").exists()
    if ingested.there(results):
        return _of_ingested(results, tables if table else None)
    try:
        plan = _plan(results, tables)
    except (FileNotFoundError, documents.Damaged):
        if tables is None:
            raise
        lost = _once([*damage(results, store), *damage_of_tables(results, planned=False)])
        known = Outcome(tables.campaign, results, None, damaged=lost)
        return _with_tables(known, tables, None, store) if table else known
    known = Outcome(
        plan.campaign,
        results,
        None,
        left=left(plan, store),
        damaged=_once([*store.damage(), *damage_of_tables(results)]),
    )
    try:
        return known if tables is None or not table else _with_tables(known, tables, plan, store)
    except documents.Damaged:  # the table, which is named; what is left, the store knows
        return known


def _of_ingested(results: Path, tables: CampaignForm | None) -> Outcome:
    """The outcome of a campaign that others measured: nothing is left, and nothing can be measured again."""
    document, digest = ingested.load(results)
    lost = [*ingested.damage(results, document), *damage_of_tables(results)]
    known = Outcome(document.campaign, results, None, damaged=_once(lost))
    if tables is None:
        return known
    return replace(_counted(known, tables), stale=tables.plan_digest != digest)


def _once(lines: Iterable[str]) -> list[str]:
    """Without repetitions: what is in place of a folder is met more than once."""
    return list(dict.fromkeys(lines))


def damage_of_tables(results: Path, planned: bool = True) -> list[str]:
    """Damage of the tables; that of campaign.json is named by the store.
    `planned`: the plan could be read, so all of them can be made again."""
    tables = _tables(results)
    found = merged_tables.damage(results) if tables else []
    about = results / merged_tables.ABOUT
    if not os.path.lexists(about) and any((results / name).exists() for name in merged_tables.FILES):
        found = [f"{about} is gone"]
    again = f"; `iosweep report {shlex.quote(str(results))}` makes it again" if planned else ""
    return [line + again for line in found]


def damage(results: Path, store: Store) -> list[str]:
    """Damage of the plan, the results and the documents, as sentences with remedies."""
    if lost := no_plan(results):  # and nothing can be made again
        return [
            lost,
            *(line.removesuffix(documents.cure(str(results / merged_tables.ABOUT))) for line in store.damage()),
        ]
    return store.damage()


def no_plan(results: Path) -> str | None:
    """Why tables cannot be made again, as a sentence; None where they can."""
    if ingested.there(results):
        return "; ".join(ingested.damage(results)) or None
    try:
        _plan(results, _tables(results))
    except documents.Damaged as error:
        return f"{error}{documents.cure(error.path)}"
    except FileNotFoundError:
        return f"{results} has results but no plan{documents.cure(str(results / 'plans' / '*.json'))}"
    return None


def no_tables(results: Path, name: str) -> str:
    """Why not all tables are there, as a sentence. `name`: what the user calls the campaign."""
    files = [results / file for file in (*merged_tables.FILES, merged_tables.ABOUT)]
    gone, lost = [file for file in files if not file.exists()], no_plan(results)
    quoted = shlex.quote(name)
    if len(gone) < len(files):  # none is gone any more: merge has just replaced it
        named = f"{gone[0]} is gone" if gone else f"{results} was being made anew"
        return f"{named}; {lost or f'`iosweep report {quoted}` makes it again'}"
    return lost or f"{results} has no tables yet; `iosweep report {quoted}` makes them"


def left(plan: Plan, store: Store) -> int:
    """Repetitions without a result. Points that lack something (a tool, CPUs) are not left: they are missing."""
    missing = store.missing()
    found = remaining.find(plan, store.results(), {}, remaining.Here()).left
    return sum(len(n) for points in found.values() for id, n in points.items() if id not in missing)


def _stale(store: Store, tables: CampaignForm, plan: Plan | None) -> bool:
    """Whether something was stored or damaged, or another plan was written, since the tables were made."""
    results = store.path
    made = (results / "results.parquet").stat().st_mtime
    points = {point.id for point in plan.points} if plan else set()
    lost = [Path(path) for path in store.damaged if RESULT_FILE.match(Path(path).name)]
    if any(file.parent.name in points and os.path.relpath(file, results) not in tables.damaged for file in lost):
        return True
    with_plans = [file for file in plan_files(results) if file.stem != tables.plan_digest]
    newest = _newest([*with_plans, *(store.point(point) for point in store.points())])
    return newest is not None and newest > made


def _newest(files: Iterable[Path]) -> float | None:
    """The time of the newest file; None without one. A result may get another name meanwhile."""
    times = []
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            times.append(file.lstat().st_mtime)
    return max(times, default=None)


def sentence(outcome: Outcome) -> str:
    """`quick: 27 repetitions: 20 valid, 0 suspect, 4 invalid, 0 missing, 3 left`"""
    if outcome.verdicts is None:
        tables = (outcome.results / name for name in ("results.parquet", merged_tables.ABOUT))
        why = "tables that cannot be read" if any(file.exists() for file in tables) else "no tables yet"
        return f"{outcome.campaign}: {why}; {human_count(outcome.left, 'repetition')} left"
    counts = {**outcome.verdicts, "left": outcome.left}
    many = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    if outcome.stale:  # what is left may be in the tables, too
        measured = human_count(sum(outcome.verdicts.values()), "repetition")
        return f"{outcome.campaign}: {measured} in the tables: {many}"
    return f"{outcome.campaign}: {human_count(sum(counts.values()), 'repetition')}: {many}"


def lines(outcome: Outcome) -> list[str]:
    """The sentence, and what is behind it: each reason with its number of repetitions and some of their points."""
    found = [sentence(outcome)]
    for verdict in reversed(OUTCOMES[1:]):
        for reason, count, points in outcome.reasons.get(verdict, ()):
            found.append(f"  {count:,} {verdict}: {reason} ({some(points, _NAMED)})")
    if outcome.verdicts is None or outcome.stale:
        newer = "the campaign has changed since the tables were made, or was copied without the times of its files"
        why = newer if outcome.stale else "there are no readable tables"
        found.append(f"  not checked: {why}; `iosweep report {outcome.campaign}` makes them")
    elif not outcome.verdicts["valid"]:
        found.append("  none is valid")
    found += [f"  {sentence}" for sentence in outcome.damaged]
    if outcome.left:
        found.append("  left: the same snakemake command measures them")
    if outcome.again:
        many = human_count(outcome.again, "repetition")
        found.append(f"  {many} will be measured again by the same snakemake command")
    return found


def _tables(results: Path) -> CampaignForm | None:
    """campaign.json. None before merge has made tables, and where it cannot be read, which Outcome.damaged names."""
    try:
        return merged_tables.about(results)
    except (FileNotFoundError, documents.Damaged):
        return None


def _plan(results: Path, tables: CampaignForm | None) -> Plan:
    """The plan of the tables; without tables, the newest."""
    files = plan_files(results)
    chosen = [file for file in files if tables and file.stem == tables.plan_digest] or files[-1:]
    if not chosen:
        documents.see(str(results / "plans"))
        raise FileNotFoundError(2, "no plan", str(results / "plans"))
    return read_plan(chosen[0])


def _with_tables(known: Outcome, tables: CampaignForm, plan: Plan | None, store: Store) -> Outcome:
    """`plan`: None if it cannot be read, so that the store cannot say what is left."""
    counted = _counted(known, tables)
    stale = _stale(store, tables, plan)
    if plan is None:
        return replace(counted, stale=stale)
    if stale:  # the store knows better what is left
        reasons = {verdict: found for verdict, found in counted.reasons.items() if verdict != "left"}
        return replace(counted, left=known.left, reasons=reasons, stale=True)
    return replace(counted, again=max(0, known.left - counted.left))


def _counted(known: Outcome, tables: CampaignForm) -> Outcome:
    """The outcome with what its tables count."""
    read, columns = partial(msgspec.convert, type=PhaseOutcome), PhaseOutcome.__struct_fields__
    rows = merged_tables.rows(known.results, "results.parquet", read, columns)
    found = repetitions(rows, tables.sweeps)
    counts = count_repetitions(found)
    return replace(
        known,
        verdicts={verdict: counts[verdict] for verdict in VERDICTS},
        left=counts["left"],
        reasons=_reasons(found),
    )


def _reasons(found: Sequence[Repetitions]) -> dict[str, list[Reason]]:
    """Verdict or `left` -> reasons, causes first, then by frequency. Reasons that differ in numbers only are one."""
    alike: dict[tuple[str, str], list[Repetitions]] = {}  # verdict and reason without its numbers
    texts: dict[tuple[str, str], str] = {}
    for one in found:
        if one.outcome in OUTCOMES[1:]:
            for reason in dict.fromkeys(REASONS.join(one.reasons or ("no reason given",)).split(REASONS)):
                kind = one.outcome, bare(reason)
                texts.setdefault(kind, reason)
                same = alike.setdefault(kind, [])
                if not same or same[-1] is not one:  # its phases may have the same reason
                    same.append(one)
    count = {kind: sum(one.count for one in same) for kind, same in alike.items()}
    reasons: dict[str, list[Reason]] = {}
    for kind in sorted(alike, key=lambda kind: (rank(texts[kind]), -count[kind])):
        points = list(dict.fromkeys(one.point for one in alike[kind]))
        reasons.setdefault(kind[0], []).append((texts[kind], count[kind], points))
    return reasons
