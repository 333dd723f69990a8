"""`iosweep rerun`: open stored repetitions again, so that the next run of snakemake measures them.

They are named by point, or chosen by verdict and by the parameters of the tables. Their results are kept as superseded.
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iosweep.commands import campaigns, outcome
from iosweep.commands.terminal import say
from iosweep.config.scalars import unknown
from iosweep.errors import CommandError
from iosweep.results import merged_tables
from iosweep.results.committed import Result
from iosweep.results.store import Store
from iosweep.text import did_you_mean, human_count, shortened
from iosweep.tools import parameters
from iosweep.units import parse_size, size_name

Cell = str | int | float | None
Row = Mapping[str, Cell]

#: Columns with several values in a row, joined by commas.
_LISTS = ("sweeps", "hosts")
_VERDICTS = ("suspect", "invalid")
#: Values of a parameter that are shown.
_SHOWN = 20


@cache
def names() -> Mapping[str, str]:
    """Name in a condition -> column."""
    own = {name: name for name in ("point", "tool", "phase", "slurm_job")} | {"sweep": "sweeps", "host": "hosts"}
    return own | {option.name: column for column, option in parameters().items()}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("point", nargs="*", help="id of a point; the hash at its end may be left out if one point fits")
    parser.add_argument("--missing", action="store_true", help="points that lacked a tool, a launcher or CPUs")
    for verdict, article in (("suspect", "a"), ("invalid", "an")):
        parser.add_argument(f"--{verdict}", action="store_true", help=f"repetitions with {article} {verdict} result")
    parser.add_argument(
        "--where",
        action="append",
        metavar="NAME=VALUE",
        default=[],
        help="repetitions whose row in the tables has this value, for example phase=create or transfer_size=4k,1m;"
        " repeat it to add conditions; with --suspect or --invalid, both must hold",
    )
    parser.add_argument("--campaign", metavar="NAME", help="the campaign; default: all in results/")


def run(arguments: Namespace) -> int:
    verdicts = [verdict for verdict in _VERDICTS if getattr(arguments, verdict)]
    chooses = bool(verdicts or arguments.where)
    if not arguments.point and not arguments.missing and not chooses:
        arguments.refuse("name points, --suspect, --invalid, --where or --missing")
    if chooses and (arguments.point or arguments.missing):
        arguments.refuse("--suspect, --invalid and --where go neither with points nor with --missing")
    if not arguments.campaign:
        stores = [Store(path) for path in campaigns.known()]
    elif results := campaigns.find(arguments.campaign):
        campaigns.refuse_ingested(results, "nothing can be measured again")
        stores = [Store(results)]
    else:
        return 1
    if not chooses:
        return _open_named(arguments, stores)
    if len(stores) > 1:
        known = ", ".join(store.path.name for store in stores)
        arguments.refuse(f"--suspect, --invalid and --where need --campaign NAME (there are: {known})")
    return max((_open_chosen(arguments, store, verdicts) for store in stores), default=1)


def _open_named(arguments: Namespace, stores: Sequence[Store]) -> int:
    """Open points that the user named, and with --missing those that something was lacking for."""
    named: dict[Path, list[str]] = {}
    for wanted in arguments.point:
        path, point = campaigns.find_point(wanted, [store.path for store in stores])
        named.setdefault(path, []).append(point)
    for store in stores if arguments.missing else ():
        for point in (missing := store.missing()):
            store.set_missing(point, None)
        say(f"{store.path}: {human_count(len(missing), 'missing point')} will be measured by the next run")
        if missing:
            _advise_report(arguments, store)
    for path, points in named.items():
        store = Store(path)
        for point in dict.fromkeys(points):
            results = store.results_of(point)
            for result in results.values():
                _supersede(store, result)
            say(f"{point}: {len(results)} superseded and kept; the next run of snakemake measures again")
        _advise_report(arguments, store)
    return 0


def _supersede(store: Store, result: Result) -> None:
    try:
        store.supersede(result)
    except OSError as error:  # a mount point, or no permission
        raise CommandError(f"a result of {result.point} cannot be superseded: {error.strerror or error}") from None


def _open_chosen(arguments: Namespace, store: Store, verdicts: Sequence[str]) -> int:
    """Open repetitions by what the tables know of them."""
    try:
        found = choose(store.path, verdicts, arguments.where)
    except OSError:
        raise CommandError(outcome.no_tables(store.path, _name(arguments, store))) from None
    counts = Counter(result.point for result in found.results)
    for result in found.results:
        _supersede(store, result)
    for point, count in counts.items():
        say(f"{point}: {human_count(count, 'repetition')} superseded and kept")
    if found.newer:
        many = human_count(found.newer, "repetition is", "repetitions are")
        say(f"not considered: {many} newer than the tables; `iosweep report {store.path}` makes them again")
    if not counts:
        hint = ""
        if found.missing:
            points = human_count(found.missing, "point that was chosen is", "points that were chosen are")
            command = f"iosweep rerun --campaign {_name(arguments, store)} --missing"
            hint = f"; {points} missing: `{command}` opens what is missing"
        say(f"{store.path}: no stored repetition is chosen{hint}", file=sys.stderr)
        return 1
    many = human_count(len(found.results), "repetition")
    say(f"{store.path}: {many} left again; the next run of snakemake measures them")
    _advise_report(arguments, store)
    return 0


def _advise_report(arguments: Namespace, store: Store) -> None:
    if (store.path / "results.parquet").exists():
        say(f"`iosweep report {_name(arguments, store)}` refreshes the tables and the report before that")


def _name(arguments: Namespace, store: Store) -> str:
    """The campaign as the user named it, or its own name where the user named none; quoted for a shell."""
    return shlex.quote(arguments.campaign or store.path.name)


@dataclass(frozen=True)
class Chosen:
    """Results of one campaign. `newer`: stored repetitions whose rows in the tables are of an earlier try, or absent.
    `missing`: points that meet the conditions, and were not measured because they lack something (a tool, nodes,
    time)."""

    results: Sequence[Result]
    newer: int = 0
    missing: int = 0


def choose(results: Path, verdicts: Sequence[str], conditions: Sequence[str]) -> Chosen:
    """Stored repetitions with a row of one of these verdicts (none: any) that meets all conditions.

    A condition is `NAME=VALUE` or `NAME=VALUE,VALUE`. Raises CommandError, FileNotFoundError, documents.Damaged.
    """
    rows = merged_tables.rows(results, "results.parquet", dict)
    meant = matching(rows, verdicts, conditions)
    store = Store(results)
    wanted = {(row["point"], row["repetition"]) for row in meant}
    archives = {(row["point"], row["repetition"]): row["raw_sha256"] for row in rows}
    stored = [result for _, found in sorted(store.results().items()) for _, result in sorted(found.items())]
    current = [one for one in stored if archives.get((one.point, one.repetition)) == one.raw.sha256]
    lacking = store.missing().keys() & {row["point"] for row in meant if row["verdict"] == "missing"}
    chosen = [one for one in current if (one.point, one.repetition) in wanted]
    return Chosen(chosen, len(stored) - len(current), len(lacking))


def matching(rows: Sequence[Row], verdicts: Sequence[str], conditions: Sequence[str]) -> list[Row]:
    """Rows with one of these verdicts (none: any) that meet all conditions. Pure. Raises CommandError."""
    tests = [_test(condition, rows) for condition in conditions]
    return [row for row in rows if (not verdicts or row["verdict"] in verdicts) and all(test(row) for test in tests)]


def _test(condition: str, rows: Iterable[Row]) -> Callable[[Row], bool]:
    name, equals, text = condition.partition("=")
    name = name.strip()
    if not equals or not text.strip():
        raise CommandError(f"--where {condition}: write NAME=VALUE, for example phase=create or transfer_size=4k")
    known = names()
    if (column := known.get(name, name if name in known.values() else None)) is None:
        raise CommandError(f"--where {condition}: {unknown('name', name, sorted(known))}")
    there = sorted({value for row in rows for value in _values(row, column)}, key=lambda v: (str(type(v)), v))
    wanted = set()
    for part in map(str.strip, text.split(",")):
        found = [value for value in there if _is(part, value)]
        if not found:
            shown = [_shown(value, column) for value in there]
            more = ", ..." if shown[_SHOWN:] else ""
            others = f"there are: {', '.join(shown[:_SHOWN])}{more}" if shown else "none has it"
            hint = did_you_mean(part, shown)
            raise CommandError(f"--where {condition}: no result has {name} `{shortened(part)}`{hint} ({others})")
        wanted.update(found)
    return lambda row: not wanted.isdisjoint(_values(row, column))


def _values(row: Row, column: str) -> Sequence[str | float]:
    value = row[column]
    if value is None:
        return []
    return str(value).split(",") if column in _LISTS else [value]


def _is(text: str, value: object) -> bool:
    """Whether a value of the table is the one that is written."""
    if isinstance(value, bool):
        return text == str(value).lower()
    try:
        if isinstance(value, int):
            return value == parse_size(int(text) if text.isdecimal() else text)
        return value == (float(text) if isinstance(value, float) else text)
    except ValueError:
        return False


def _shown(value: object, column: str) -> str:
    """As a configuration has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return size_name(value) if isinstance(value, int) and column.endswith("_bytes") else str(value)
