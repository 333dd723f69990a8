"""`iosweep rerun`: open stored repetitions again, so that the next run of snakemake measures them.

They are named by point, or chosen by verdict. Their results are kept as superseded.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.store.record import RecordHead
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
    if named := next(filter(campaigns.search, arguments.point), None):
        arguments.refuse(f"{named} is a campaign; name it with --campaign {shlex.quote(named)}")
    if not arguments.point and not arguments.missing and not verdicts:
        arguments.refuse("name points, --suspect, --invalid or --missing")
    if verdicts and (arguments.point or arguments.missing):
        arguments.refuse("--suspect and --invalid go neither with points nor with --missing")
    if not arguments.campaign:
        stores = [Store(path) for path in campaigns.list_known()]
    else:
        results = campaigns.find(arguments.campaign)
        campaigns.refuse_ingested(results, "nothing can be measured again")
        stores = [Store(results)]
    if verdicts:
        if len(stores) > 1:
            known = ", ".join(store.path.name for store in stores)
            arguments.refuse(f"--suspect and --invalid need --campaign NAME (there are: {known})")
        chosen = [(store, repetition) for store in stores for repetition in _of_verdict(store, verdicts)]
        if not chosen:
            say("no stored repetition is chosen", file=sys.stderr)
            return 1
    else:
        named = [campaigns.find_point(point, [store.path for store in stores]) for point in arguments.point]
        chosen = [
            (store, repetition)
            for path, point in dict.fromkeys(named)
            for store in [Store(path)]
            for repetition in store.repetitions_of(point).values()
        ]
    opened = {store.path for store, _ in chosen}
    for store in stores if arguments.missing else ():
        for point in (missing := store.missing()):
            store.set_missing(point, None)
            opened.add(store.path)
        say(f"{store.path}: {human_count(len(missing), 'missing point')} will be measured by the next run")
    counts: Counter[str] = Counter()
    for store, repetition in _with_sides(chosen):
        try:
            store.supersede(repetition)
        except OSError as error:  # a mount point, or no permission
            why = error.strerror or error
            raise CommandError(f"a result of {repetition.point} cannot be superseded: {why}") from None
        counts[repetition.point] += 1
    for point, count in counts.items():
        say(
            f"{point}: {human_count(count, 'repetition')} superseded and kept; the next run of snakemake measures again"
        )
    for path in sorted(opened):
        if (path / "results.parquet").exists():
            name = shlex.quote(arguments.campaign or path.name)
            say(f"`iosweep report {name}` refreshes the tables and the report before that")
    return 0


def _with_sides(chosen: Sequence[tuple[Store, RecordHead]]) -> list[tuple[Store, RecordHead]]:
    """With the same repetitions of points side by side: pairs are measured at one time."""
    sides: dict[Path, Mapping[str, Sequence[str]]] = {}
    for path in {store.path for store, _ in chosen}:
        with contextlib.suppress(CommandError):  # no plan: nothing is known of it
            sides[path] = campaigns.plan_of(path).side_by_side
    found = {
        (store.path, point, one.repetition): (store, member)
        for store, one in chosen
        for point in sides.get(store.path, {}).get(one.point, (one.point,))
        if (member := store.repetitions_of(point).get(one.repetition))
    }
    return list(found.values())


def _of_verdict(store: Store, verdicts: Sequence[str]) -> list[RecordHead]:
    """Stored repetitions with one of these verdicts in the tables. Repetitions that are newer than the tables are not
    chosen, and a message counts them. Raises CommandError."""
    try:
        rows = reader.read_rows(store.path, "results.parquet", dict)
    except OSError:
        raise CommandError(campaigns.no_tables(store.path)) from None
    wanted = {(row["point"], row["repetition"]) for row in rows if row["verdict"] in verdicts}
    archives = {(row["point"], row["repetition"]): row["raw_sha256"] for row in rows}
    stored = [one for _, found in sorted(store.repetitions().items()) for _, one in sorted(found.items())]
    current = [one for one in stored if archives.get((one.point, one.repetition)) == one.raw.sha256]
    if newer := len(stored) - len(current):
        many = human_count(newer, "repetition is", "repetitions are")
        say(f"not considered: {many} newer than the tables; `iosweep report {store.path}` makes them again")
    return [one for one in current if (one.point, one.repetition) in wanted]
