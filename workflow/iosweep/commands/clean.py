"""`iosweep clean`: show or remove what a campaign left on the target.

The results, not the configuration, say where that is and which UUID proves that it is ours. They are not changed. Only
the agent touches the target.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from rich.console import Console

from iosweep.commands import campaigns
from iosweep.commands.terminal import prose
from iosweep.errors import Busy, Refused, TargetError, TargetHangs, Unanswered, Unusable
from iosweep.jobs import pending
from iosweep.slurm import query
from iosweep.store.campaign_documents import ClaimedTarget
from iosweep.store.store import Store
from iosweep.target import directory, identify, lock, removal, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
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


class _Done(Exception):
    """Ends a command early: its exit code, and lines for the user."""

    def __init__(self, code: int, *lines: str):
        self.code = code
        super().__init__("\n".join(map(printable, lines)))


@dataclass(frozen=True)
class _Directory:
    """The campaign's directory on the target, which exists and is ours."""

    agent: Agent
    known: ClaimedTarget
    whose: str
    facts: identify.FileSystem

    @property
    def place(self) -> Place:
        return Place(self.known.directory, self.known.uuid, identify.identity(self.facts))


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
                _show(ours)
                return 0
            with _alone(ours, results):
                _remove(ours, end, workers)
    except _Done as done:
        prose(str(done), sys.stderr if done.code else sys.stdout)
        if done.code or not remove:
            return done.code
    store = Store(results)
    if known := store.claimed():
        store.put("", "target", structs.replace(known, tidied=True))  # the next run may use another target
    return 0


def _show(ours: _Directory) -> None:
    """List what is there."""
    parts = ours.agent.call(trees.parts, ours.place)  # first, because it refuses what is not ours
    prose(f"{printable(ours.known.directory)} ({ours.whose})")
    for name in parts:
        size = ours.agent.call(trees.usage, ours.place, name)
        what = f"{human_count(size['files'], 'file')} of {human_size(size['bytes'])}"
        prose(f"  {printable(name):<6} {what:>28}  {_PARTS.get(name, 'not known to iosweep')}")
    prose("nothing was removed; --yes removes what iosweep made")


def _remove(ours: _Directory, end: float | None, workers: int) -> None:
    began = time.monotonic()
    gone, more = Counter[str](), True
    with Console(stderr=True).status("") as status:
        while more:
            rest_s = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            answer = ours.agent.call(removal.remove_all, ours.place, rest_s, workers)
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
        left = ", ".join(ours.agent.call(trees.parts, ours.place))
        raise _Done(OUT_OF_TIME, f"the time limit is reached; left in {ours.known.directory}: {left}; run it again")
    if answer["wrong"]:
        lines = [f"not removed: {wrong}" for wrong in answer["wrong"]]
        if answer["foreign"]:
            lines.append(f"{removal.foreign(answer['foreign'])}; remove that by hand, then run this command again")
        raise _Done(WRONG, *lines)


@contextmanager
def _found(results: Path) -> Iterator[_Directory]:
    """The campaign's directory. Raises _Done, also for errors of the block."""
    store = Store(results)
    try:
        known = store.claimed()
    except Refused as error:
        raise _Done(WRONG, f"{error}. Nothing was removed") from None
    if known is None:
        raise _Done(0, f"{results} has nothing on a target: without its target.json nothing was measured")
    place = known.directory
    try:
        with Agent(known.deadline) as agent:
            facts = agent.call(identify.identify, str(Path(place).parent))
            there = agent.call(directory.owner_of, place)
            if there is None:
                was = known.file_system
                if was != identify.identity(facts):
                    raise Refused(f"{place} is not there, and was on {was}; is that mounted? (Now: {facts['mount']})")
                raise _Done(0, f"nothing is left: {place} is not there (its place is on {facts['mount']})")
            if identify.holds(facts, place, results):
                raise Refused(f"the results {results} are inside {place}, and would go with it; move them")
            whose = directory.whose(there)
            if there.get("uuid") != known.uuid:
                raise Refused(f"{place} belongs to another campaign ({whose}); it is left alone")
            store.check_original(place, str(there.get("results")))
            if not identify.same_as_claimed(facts, known.file_system):
                raise Refused(known.elsewhere(identify.identity(facts)))
            yield _Directory(agent, known, whose, facts)
    except TargetHangs as error:
        raise _Done(HANGS, str(error)) from None
    except (Refused, TargetError) as error:
        raise _Done(WRONG, str(error)) from None
    except KeyboardInterrupt:
        raise _Done(INTERRUPTED, f"stopped; run it again to remove what is left in {place}") from None


@contextmanager
def _alone(ours: _Directory, results: Path) -> Iterator[None]:
    """Keep other measurements off: of this campaign, and of all others on that file system."""
    campaign = ours.known.campaign
    mine = lock.Owner(f"{campaign}, which is being cleaned", str(results.absolute()))
    with ExitStack() as held:
        try:
            _note(held.enter_context(Store(results).locked()))
            _note(_see_no_jobs(results, campaign))
            found = held.enter_context(lock.exclude(ours.known.lock, ours.facts, mine))
            _note(None if found.enforced else found.evidence)
        except Busy as error:
            raise _Done(WRONG, str(error)) from None
        except Unusable as error:  # the campaign may be old, and the directory of the lock gone
            _note(f"exclusion not checked: {error}")
        except OSError as error:
            raise _Done(WRONG, f"{results} cannot be locked: {error.strerror}") from None
        yield


def _see_no_jobs(results: Path, campaign: str) -> str | None:
    """Raise Busy if Slurm has jobs of the campaign: those that wait hold no lock yet. Returns why it is not asked, or
    None."""
    if shutil.which("squeue") is None:
        return None
    try:
        known = query.jobs([str(uid) for uid in {os.getuid(), results.stat().st_uid}])
    except Unanswered as error:
        if query.has_no_cluster(error.said):  # as on a machine without squeue
            return None
        return f"{error}; jobs of the campaign {campaign} that wait are not seen"
    # directories that a run may have been started in, as Slurm knows them: `results` may be a symbolic link
    above = {os.path.realpath(parent) for way in (results.absolute(), results.resolve()) for parent in way.parents}
    if found := pending.of_campaign(known, campaign, above):
        several = ", ".join(f"{job.id} ({job.state.lower()})" for job in found)
        numbers = " ".join(job.id for job in found)
        raise Busy(
            f"the campaign {campaign} has {'jobs' if len(found) > 1 else 'a job'} in Slurm: {several}; wait for"
            f" {'them' if len(found) > 1 else 'it'}, or cancel with `scancel {numbers}`"
        )
    return None


def _note(text: str | None) -> None:
    if text:
        prose(printable(f"note: {text}"), sys.stderr)
