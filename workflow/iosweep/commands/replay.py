"""`iosweep replay`: the command of a stored point for a shell; with --run, the point measured again, and compared."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from iosweep.commands import campaigns, outcome, replay_run, replay_script
from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.plan.model import Plan, Point, plan_files, read_plan
from iosweep.plan.replaying import NAMES
from iosweep.results.campaign_documents import DataSet
from iosweep.results.store import Store

#: Repetitions of --run: as many as an interval needs.
_REPETITIONS = 3


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("point", help="id of a point; the hash at its end may be left out if one point fits")
    parser.add_argument(
        "campaign", nargs="?", help=f"{campaigns.NAMED_OR_ARCHIVE}; default: the one in results/ that has the point"
    )
    parser.add_argument("--phase", help="only this phase")
    parser.add_argument("--repetition", type=int, metavar="N", help="the repetition; default: the first one stored")
    parser.add_argument(
        "--run",
        dest="again",
        action="store_true",
        help="measure the point again, in a campaign of its own, and compare",
    )
    parser.add_argument("--target", metavar="DIR", help="with --run: the target; default: that of the campaign")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="with --run: also of results that were measured elsewhere, whose plan decides",
    )
    parser.add_argument(
        "--repetitions", type=int, metavar="N", default=_REPETITIONS, help=f"with --run; default: {_REPETITIONS}"
    )


def run(arguments: Namespace) -> int:
    if arguments.repetitions < 1:
        arguments.refuse("--repetitions: at least 1")
    found = campaigns.find(arguments.campaign) if arguments.campaign else None
    if arguments.campaign and found is None:
        return 1
    if found:
        campaigns.refuse_ingested(found, "their commands, as far as they tell them, are in the column `command`")
    store, name = _stored(arguments.point, [found] if found else campaigns.known())
    results = store.results_of(name)
    number = arguments.repetition or min(results)
    if number not in results:
        there = ", ".join(map(str, sorted(results)))
        raise CommandError(f"{name} has no repetition {number} (there are: {there})")
    record = next(own for result, own in store.records_of(name) if result.repetition == number)
    plan, point = _planned(store, name)
    if arguments.phase and arguments.phase not in point.phases:
        arguments.refuse(f"--phase {arguments.phase}: the point has {', '.join(point.phases)}")
    why = replay_run.unable(point, record) if arguments.again else ()
    if arguments.again and not why:
        return replay_run.again(arguments, store, plan, point, record)
    sets = store.documents(DataSet)
    for line in replay_script.lines(point, record, store.path.name, sets, arguments.phase):
        say(line)
    if why:
        raise CommandError(
            f"nothing was run: --run measures on this machine alone, and {point.id} ran on {' in '.join(why)}; the"
            " lines above are its commands, and"
            f" `iosweep rerun {point.id}` with snakemake measures it there"
        )
    return 0


def _stored(wanted: str, found: Sequence[Path]) -> tuple[Store, str]:
    """The store and the id of the one point that a name fits. Raises CommandError."""
    stores = [Store(path) for path in found]
    fits = campaigns.points_named(wanted, [(store, point) for store in stores for point in store.results()])
    if len(fits) > 1 and any(own := [not store.path.name.startswith(NAMES) for store, _ in fits]):
        fits = [one for one, measured in zip(fits, own, strict=True) if measured]  # not what --run has measured again
    if len(fits) != 1:
        several = "; ".join(sorted(f"{point} in {store.path}" for store, point in fits)[:5])
        raise CommandError(f"{wanted}: {f'is not one point: {several}' if fits else 'has no result'}")
    return fits[0]


def _planned(store: Store, name: str) -> tuple[Plan, Point]:
    """The newest plan with the point. Raises CommandError."""
    if lost := outcome.no_plan(store.path):
        raise CommandError(lost)
    for file in reversed(plan_files(store.path)):
        plan = read_plan(file)
        if point := next((one for one in plan.points if one.id == name), None):
            return plan, point
    raise CommandError(f"no plan of {store.path} has {name}, which an earlier configuration asked for")
