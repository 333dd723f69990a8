"""`iosweep rerun`: open stored repetitions again, so that the next run of snakemake measures them.

They are named by point, or chosen by verdict. Their results are kept as superseded.
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.store.record import Repetition
from iosweep.store.store import Store
from iosweep.tables import reader
from iosweep.text import human_count

_VERDICTS = ("suspect", "invalid")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("point", nargs="*", help="id of a point; the hash at its end may be left out if one point fits")
    parser.add_argument("--missing", action="store_true", help="points that lacked a tool, a launcher or CPUs")
    for verdict, article in (("suspect", "a"), ("invalid", "an")):
        parser.add_argument(f"--{verdict}", action="store_true", help=f"repetitions with {article} {verdict} result")
    parser.add_argument("--campaign", metavar="NAME", help="the campaign; default: all in results/")


def run(arguments: Namespace) -> int:
    verdicts = [verdict for verdict in _VERDICTS if getattr(arguments, verdict)]
    if named := next(filter(campaigns.there, arguments.point), None):
        arguments.refuse(f"{named} is a campaign; name it with --campaign {shlex.quote(named)}")
    if not arguments.point and not arguments.missing and not verdicts:
        arguments.refuse("name points, --suspect, --invalid or --missing")
    if verdicts and (arguments.point or arguments.missing):
        arguments.refuse("--suspect and --invalid go neither with points nor with --missing")
    if not arguments.campaign:
        stores = [Store(path) for path in campaigns.known()]
    else:
        results = campaigns.find(arguments.campaign)
        campaigns.refuse_ingested(results, "nothing can be measured again")
        stores = [Store(results)]
    if not verdicts:
        return _open_named(arguments, stores)
    if len(stores) > 1:
        known = ", ".join(store.path.name for store in stores)
        arguments.refuse(f"--suspect and --invalid need --campaign NAME (there are: {known})")
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
            results = store.repetitions_of(point)
            for result in results.values():
                _supersede(store, result)
            say(f"{point}: {len(results)} superseded and kept; the next run of snakemake measures again")
        _advise_report(arguments, store)
    return 0


def _supersede(store: Store, result: Repetition) -> None:
    try:
        store.supersede(result)
    except OSError as error:  # a mount point, or no permission
        raise CommandError(f"a result of {result.point} cannot be superseded: {error.strerror or error}") from None


def _open_chosen(arguments: Namespace, store: Store, verdicts: Sequence[str]) -> int:
    """Open repetitions by what the tables know of them."""
    try:
        chosen, newer = choose(store.path, verdicts)
    except OSError:
        raise CommandError(campaigns.no_tables(store.path)) from None
    counts = Counter(result.point for result in chosen)
    for result in chosen:
        _supersede(store, result)
    for point, count in counts.items():
        say(f"{point}: {human_count(count, 'repetition')} superseded and kept")
    if newer:
        many = human_count(newer, "repetition is", "repetitions are")
        say(f"not considered: {many} newer than the tables; `iosweep report {store.path}` makes them again")
    if not counts:
        say(f"{store.path}: no stored repetition is chosen", file=sys.stderr)
        return 1
    many = human_count(len(chosen), "repetition")
    say(f"{store.path}: {many} left again; the next run of snakemake measures them")
    _advise_report(arguments, store)
    return 0


def _advise_report(arguments: Namespace, store: Store) -> None:
    if (store.path / "results.parquet").exists():
        say(f"`iosweep report {_name(arguments, store)}` refreshes the tables and the report before that")


def _name(arguments: Namespace, store: Store) -> str:
    """The campaign as the user named it, or its own name where the user named none; quoted for a shell."""
    return shlex.quote(arguments.campaign or store.path.name)


def choose(results: Path, verdicts: Sequence[str]) -> tuple[list[Repetition], int]:
    """Stored repetitions with a row of one of these verdicts; and how many others have a newer try than the tables, or
    are not in them. Raises FileNotFoundError, documents.Damaged."""
    rows = reader.rows(results, "results.parquet", dict)
    wanted = {(row["point"], row["repetition"]) for row in rows if row["verdict"] in verdicts}
    archives = {(row["point"], row["repetition"]): row["raw_sha256"] for row in rows}
    stored = [
        result for _, found in sorted(Store(results).repetitions().items()) for _, result in sorted(found.items())
    ]
    current = [one for one in stored if archives.get((one.point, one.repetition)) == one.raw.sha256]
    return [one for one in current if (one.point, one.repetition) in wanted], len(stored) - len(current)
