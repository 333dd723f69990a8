"""`iosweep clean`: show or remove what a campaign left on the target.

The results, not the configuration, say where that is and which UUID proves that it is ours. They are not changed. Only
the agent touches the target.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from rich.console import Console

from iosweep.commands import campaigns
from iosweep.commands.terminal import prose
from iosweep.errors import Busy, Refused, TargetError, TargetHangs, Unusable
from iosweep.jobs import undisturbed
from iosweep.node.node_facts import NodeFacts
from iosweep.results import target_file
from iosweep.results.campaign_documents import ClaimedTarget
from iosweep.results.store import Store
from iosweep.target import filesystem, foreign, identify, marker, ownership, removal, target_lock, trees
from iosweep.target.agent import Agent
from iosweep.target.handle import Place
from iosweep.text import human_count, printable
from iosweep.units import human_duration, human_size

#: Exit codes; 0: nothing is left, or --yes would leave nothing.
WRONG, HANGS, OUT_OF_TIME, INTERRUPTED = 1, 4, 6, 130

#: Directories in the campaign's directory, and what they hold.
_PARTS = {
    "sets": "data sets, reused by the next run",
    "fresh": "files of an interrupted repetition",
    "kept": "files of repetitions that were kept (target.keep)",
}
#: Seconds between updates of the progress.
_SLICE_S = 1.0
#: Time limit in seconds for the target, if the results do not have one.
_DEADLINE_S = 30.0


class _Done(Exception):
    """Ends a command early: its exit code, and lines for the user."""

    def __init__(self, code: int, *lines: str):
        self.code = code
        super().__init__("\n".join(map(printable, lines)))


@dataclass(frozen=True)
class _Directory:
    """The campaign's directory on the target, which exists and is ours. `folders`: where its runs may store results;
    `unseen`: where they may, too, but that is not visible from here."""

    agent: Agent
    known: ClaimedTarget
    whose: str
    facts: identify.FileSystem
    folders: list[Path]
    unseen: str | None

    @property
    def handle(self) -> Place:
        return Place(self.known.directory, self.known.uuid, filesystem.identity(self.facts))


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="+", help=campaigns.NAMED)
    parser.add_argument("--yes", action="store_true", help="remove the files; without this they are only listed")
    time_limit = "stop after this time, for example 10min"
    parser.add_argument("--time", type=campaigns.duration, metavar="TIME", help=time_limit)
    parser.add_argument(
        "--workers", type=_workers, metavar="N", default=8, help="threads that remove files; default: 8"
    )


def _workers(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 64:
        return int(text)
    raise ArgumentTypeError(f"`{text}` is not a number from 1 to 64")


def run(arguments: Namespace) -> int:
    found = [results for name in arguments.campaign if (results := campaigns.find(name))]
    if len(found) < len(arguments.campaign):
        return 1
    end = None if arguments.time is None else time.monotonic() + arguments.time
    code = 0
    for results in found:
        done = _clean(results, arguments.yes, end, arguments.workers)
        code = max(code, done)
        if done == INTERRUPTED:
            break
    return code


def _clean(results: Path, remove: bool, end: float | None, workers: int) -> int:
    """Show or remove what one campaign left, until `end` on the monotonic clock. Returns the exit code."""
    try:
        with _found(results) as ours:
            if not remove:
                _show(ours, results)
                return 0
            with _undisturbed(ours, results):
                _remove(ours, end, workers)
    except _Done as done:
        prose(str(done), sys.stderr if done.code else sys.stdout)
        if done.code or not remove:
            return done.code
    store = Store(results)
    if known := target_file.read(store):
        store.put("", "target", structs.replace(known, tidied=True))  # the next run may use another target
    return 0


def _show(ours: _Directory, results: Path) -> None:
    """List what is there, and say what --yes would: the checks are the same, but nothing is taken or written."""
    others = ours.agent.call(foreign.foreign, ours.handle)  # first, because it refuses what is not ours
    prose(f"{printable(ours.known.directory)} ({ours.whose})")
    for name in ours.agent.call(trees.parts, ours.handle):
        size = ours.agent.call(trees.usage, ours.handle, name)
        what = f"{human_count(size['files'], 'file')} of {human_size(size['bytes'])}"
        prose(f"  {printable(name):<6} {what:>28}  {_PARTS.get(name, 'not known to iosweep')}")
    _check_undisturbed(ours, results)
    shows = ours.agent.call(removal.preview, ours.handle)
    if owner := shows["owner"]:
        kind = ours.facts["fstype"]
        _note(f"only --yes can tell whether its owner, {owner}, is you on this file system ({kind}); if not, all stays")
    stays = [f"{wrong}, which --yes leaves alone" for wrong in shows["stays"]]
    if others["count"]:
        stays.append(f"{foreign.sentence(**others)}; --yes leaves that as well")
    if stays:
        raise _Done(WRONG, *stays, "nothing was removed; --yes removes the rest")
    prose("nothing was removed; --yes removes all of it")


def _remove(ours: _Directory, end: float | None, workers: int) -> None:
    began = time.monotonic()
    gone, more = Counter[str](), True
    with Console(stderr=True).status("") as status:
        while more:
            rest_s = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            answer = ours.agent.call(removal.remove_all, ours.handle, rest_s, workers)
            for what in ("files", "directories", "bytes", "linked"):
                gone[what] += answer[what]
            removed = f"{human_count(gone['files'], 'file')} of {human_size(gone['bytes'])}"
            status.update(f"removing: {removed}")
            more = answer["left"] and (end is None or time.monotonic() < end)
    prose(
        f"{printable(ours.known.directory)}: removed {removed} and"
        f" {human_count(gone['directories'], 'directory', 'directories')} in {human_duration(time.monotonic() - began)}"
    )
    if gone["linked"]:
        prose(f"{human_count(gone['linked'], 'file')} had another name (hard link) that stays")
    if answer["left"]:
        left = ", ".join(ours.agent.call(trees.parts, ours.handle))
        raise _Done(OUT_OF_TIME, f"the time limit is reached; left in {ours.known.directory}: {left}; run it again")
    if answer["wrong"]:
        lines = [f"not removed: {wrong}" for wrong in answer["wrong"]]
        if answer["foreign"]["count"]:
            lines.append(f"{foreign.sentence(**answer['foreign'])}; remove that by hand, then run this command again")
        raise _Done(WRONG, *lines)


@contextmanager
def _found(results: Path) -> Iterator[_Directory]:
    """The campaign's directory. Raises _Done, also for errors of the block."""
    store = Store(results)
    try:
        known = target_file.read(store)
    except Refused as error:
        raise _Done(WRONG, f"{error}. Nothing was removed") from None
    if known is None:
        if shows := target_file.proof(store):
            raise _without_target_file(store, shows)
        raise _Done(0, f"{results} has nothing on a target: nothing was measured")
    directory = known.directory
    try:
        with Agent(known.deadline) as agent:
            facts = agent.call(identify.identify, str(Path(directory).parent))
            there = agent.call(ownership.owner_of, directory)
            if there is None:
                was = known.file_system
                if was != filesystem.identity(facts):
                    raise Refused(
                        f"{directory} is not there, and was on {was}; is that mounted? (Now: {facts['mount']})"
                    )
                raise _Done(0, f"nothing is left: {directory} is not there (its place is on {facts['mount']})")
            if identify.holds(facts, directory, results):
                raise Refused(f"the results {results} are inside {directory}, and would go with it; move them")
            whose = marker.whose(there)
            if there.get("uuid") != known.uuid:
                raise Refused(f"{directory} belongs to another campaign ({whose}); it is left alone")
            if not filesystem.same_as_claimed(facts, known.file_system):
                raise Refused(target_file.elsewhere(known, filesystem.identity(facts)))
            yield _Directory(agent, known, whose, facts, *_folders(results, there, known.uuid))
    except TargetHangs as error:
        raise _Done(HANGS, str(error)) from None
    except (Refused, TargetError) as error:
        raise _Done(WRONG, str(error)) from None
    except KeyboardInterrupt:
        raise _Done(INTERRUPTED, f"stopped; run it again to remove what is left in {directory}") from None


def _without_target_file(store: Store, shows: str) -> _Done:
    """The end if target.json is gone although the campaign was measured. Nothing is removed."""
    places = target_file.places(store)
    if not places:
        return _Done(
            WRONG,
            f"{store.path}/target.json is gone, although {shows} shows that the campaign was measured, and no plan or"
            f" result says where; look for {marker.name_of(store.path.name)} on the target, whose marker"
            f" {marker.MARKER} says whose it is",
        )
    # from the nodes: "SOURCE on POINT type TYPE"
    mounts = {node.mount.rpartition(" (")[0] for node in store.documents(NodeFacts).values() if node.mount}
    absent = []
    try:
        with Agent(_DEADLINE_S) as agent:
            for directory in places:
                facts = agent.call(identify.identify, str(Path(directory).parent))
                if agent.call(ownership.owner_of, directory) is not None:
                    return _Done(WRONG, target_file.gone(store, shows, directory))
                absent.append(f"{directory} is not there (its place is on {facts['mount']})")
                if mounts and facts["mount"].rpartition(" (")[0] not in mounts:
                    was = " or ".join(sorted(mounts))
                    return _Done(
                        WRONG, f"{directory} is not there, and was on {was}; is that mounted? (Now: {facts['mount']})"
                    )
    except TargetHangs as error:
        return _Done(HANGS, str(error))
    except (Refused, TargetError) as error:
        return _Done(WRONG, f"{store.path}/target.json is gone, although {shows} shows a run: {error}")
    return _Done(0, f"nothing is left: {'; '.join(absent)}")


@contextmanager
def _undisturbed(ours: _Directory, results: Path) -> Iterator[None]:
    """Keep other measurements off: of this campaign, and of all others on that file system."""
    owner = {"campaign": f"{results.name}, which is being cleaned", "results": str(results.absolute())}
    _note(_not_seen(ours))
    with ExitStack() as held:
        with _refusing(results):
            _note(held.enter_context(undisturbed.hold(ours.folders, ours.known.campaign)))
            # make no lock directory: the results name it, and whoever measured left a lock in it
            with _without_lock():
                held.enter_context(target_lock.hold(ours.known.lock, ours.facts, owner, make=False))
        yield


def _check_undisturbed(ours: _Directory, results: Path) -> None:
    """Raise what `_undisturbed` would."""
    _note(_not_seen(ours))
    with _refusing(results):
        _note(undisturbed.look(ours.folders, ours.known.campaign))
        with _without_lock():
            target_lock.look(ours.known.lock, ours.facts)


@contextmanager
def _refusing(results: Path) -> Iterator[None]:
    """Errors of locks as the end of the command."""
    try:
        yield
    except Busy as error:
        raise _Done(WRONG, str(error)) from None
    except OSError as error:
        raise _Done(WRONG, f"{results} cannot be locked: {error.strerror}") from None


def _not_seen(ours: _Directory) -> str | None:
    if not ours.unseen:
        return None
    return f"a run that stores results in {ours.unseen}, as the marker says, is not seen by their lock"


@contextmanager
def _without_lock() -> Iterator[None]:
    """Go on without the lock of the target: the campaign may be old, and the lock's directory gone."""
    try:
        yield
    except Unusable as error:
        _note(f"no lock keeps measurements off: {error}")


def _note(text: str | None) -> None:
    if text:
        prose(printable(f"note: {text}"), sys.stderr)


def _folders(results: Path, there: Mapping[str, object], uuid: str) -> tuple[list[Path], str | None]:
    """Where runs of the campaign may store results: here, and where the marker says, if these results are a copy.

    Second, that place if it is not visible from here: on another machine, in another container, or gone.
    """
    named = Path(str(there.get("results")))
    try:
        if named.is_absolute() and not named.samefile(results):
            known = target_file.read(Store(named))
            return ([results, named] if known and known.uuid == uuid else [results]), None
    except Refused:  # it may be the same campaign
        return [results, named], None
    except OSError:
        return [results], marker.shown(f"{named} on {there.get('host')}")
    return [results], None
