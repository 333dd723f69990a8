"""`iosweep clean`: show or remove the files that a campaign left on the target.

The results, not the configuration, say where they are and which UUID proves that they are ours. The results are not
changed. Only the agent touches the target.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from rich.console import Console

from iosweep.commands import campaigns
from iosweep.commands.terminal import prose
from iosweep.errors import Busy, CommandError, ExitCode, Refused, TargetError, TargetHangs, Unanswered, Unusable
from iosweep.jobs import pending
from iosweep.slurm import query
from iosweep.store.record import ClaimedTarget
from iosweep.store.store import Store
from iosweep.target import directory, identify, lock, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
from iosweep.text import human_count, printable
from iosweep.units import human_duration, human_size

#: Directories in the campaign's directory, and their contents.
_PARTS = {
    "sets": "data sets, reused by the next run",
    "fresh": "files of an interrupted repetition",
}


@dataclass(frozen=True)
class _Directory:
    """The campaign's directory on the target, which exists and is ours."""

    agent: Agent
    known: ClaimedTarget
    whose: str
    facts: identify.FileSystem

    @property
    def place(self) -> Place:
        return Place(self.known.directory, self.known.uuid)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="+", help=campaigns.NAMED)
    parser.add_argument("--yes", action="store_true", help="remove the files; without this they are only listed")


def run(arguments: Namespace) -> int:
    code = 0
    for results in [campaigns.find(name) for name in arguments.campaign]:
        try:
            for known in _claimed(results):
                if code != ExitCode.INTERRUPTED:
                    code = max(code, _clean(known, results, arguments.yes))
        except CommandError as error:
            code = max(code, _report(error))
        if code == ExitCode.INTERRUPTED:
            break
    return code


def _report(error: CommandError) -> int:
    prose(str(error), sys.stderr)
    return error.exit_code


def _claimed(results: Path) -> list[ClaimedTarget]:
    """The directories of a campaign on its targets. Raises CommandError."""
    try:
        claimed = Store(results).claimed()
    except Refused as error:
        raise CommandError(f"{error}. Nothing was removed") from None
    if not claimed:
        prose(f"{results} has nothing on a target: it has no file in targets/, so nothing was measured")
    return [*claimed.values()]


def _clean(known: ClaimedTarget, results: Path, remove: bool) -> int:
    """Show or remove the files of a campaign on one of its targets; returns the exit code."""
    try:
        _clean_target(known, results, remove)
    except CommandError as error:
        return _report(error)
    return 0


def _clean_target(known: ClaimedTarget, results: Path, remove: bool) -> None:
    """Show or remove the files of a campaign on one of its targets. Raises CommandError."""
    store = Store(results)
    try:
        with Agent(known.deadline) as agent:
            if (ours := _directory(agent, known, store)) and remove:
                with _alone(ours, results):
                    _remove(ours)
            elif ours:
                parts = agent.call(trees.list_parts, ours.place)  # first: it refuses a directory that is not ours
                prose(f"{known.directory} ({ours.whose})")
                for name in sorted(parts):
                    if what := _PARTS.get(name):
                        size = agent.call(trees.measure_usage, ours.place, name)
                        amount = f"{human_count(size['files'], 'file')} of {human_size(size['bytes'])}"
                        prose(f"  {name:<6} {amount:>28}  {what}")
                    else:
                        prose(f"  {printable(name)} (not known to iosweep)")
                prose("nothing was removed; --yes removes what iosweep made")
    except TargetHangs as error:
        raise CommandError(str(error), ExitCode.HANGS) from None
    except (Refused, TargetError) as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        stopped = f"stopped; run it again to remove what is left in {known.directory}"
        raise CommandError(stopped, ExitCode.INTERRUPTED) from None
    if remove:  # the next run may use another target
        store.keep_claimed(structs.replace(known, tidied=True))


def _directory(agent: Agent, known: ClaimedTarget, store: Store) -> _Directory | None:
    """The campaign's directory; None, with a message, where it is gone. Raises Refused where it is not ours."""
    place = known.directory
    facts = agent.call(identify.identify, str(Path(place).parent))
    owner = agent.call(directory.read_owner, place)
    if owner is None:
        was = known.file_system
        if was != identify.identity(facts):
            raise Refused(f"{place} is not there, and was on {was}; is that mounted? (Now: {facts['mount']})")
        prose(f"nothing is left: {place} is not there (its place is on {facts['mount']})")
        return None
    if identify.contains_results(facts, place, store.path):
        raise Refused(f"the results {store.path} are inside {place}, and would go with it; move them")
    whose = directory.describe_owner(owner)
    if owner.get("uuid") != known.uuid:
        raise Refused(f"{place} belongs to another campaign ({whose}); it is left alone")
    store.check_original(place, str(owner.get("results")))
    if (here := identify.identity(facts)) != known.file_system:
        raise Refused(known.elsewhere(here))
    return _Directory(agent, known, whose, facts)


def _remove(ours: _Directory) -> None:
    """Raises CommandError if something cannot be removed."""
    began = time.monotonic()
    with Console(stderr=True).status("removing"):
        gone = ours.agent.call(trees.remove_all, ours.place)
    prose(
        f"{ours.known.directory}: removed {human_count(gone['files'], 'file')} of {human_size(gone['bytes'])} and"
        f" {human_count(gone['directories'], 'directory', 'directories')} in {human_duration(time.monotonic() - began)}"
    )
    if gone["wrong"]:
        raise CommandError("\n".join(f"not removed: {wrong}" for wrong in gone["wrong"]))


@contextmanager
def _alone(ours: _Directory, results: Path) -> Iterator[None]:
    """Keep other measurements off: of this campaign, and of all others on that file system."""
    campaign = ours.known.campaign
    mine = lock.Owner(f"{campaign}, which is being cleaned", str(results.absolute()))
    with ExitStack() as held:
        try:
            _note(held.enter_context(Store(results).locked()))
            _note(_see_no_jobs(results, campaign))
            exclusion = held.enter_context(lock.exclude(ours.known.lock, ours.facts, mine))
            _note(None if exclusion.enforced else exclusion.evidence)
        except Busy as error:
            raise CommandError(str(error)) from None
        except Unusable as error:  # the campaign may be old, and the directory of the lock gone
            _note(f"exclusion not checked: {error}")
        except OSError as error:
            raise CommandError(f"{results} cannot be locked: {error.strerror}") from None
        yield


def _see_no_jobs(results: Path, campaign: str) -> str | None:
    """Raise Busy if Slurm has jobs of the campaign: waiting jobs hold no lock yet. Returns None, or the reason why the
    jobs are not known."""
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
    if jobs := pending.select_measuring(known, campaign, above):
        several = ", ".join(f"{job.id} ({job.state.lower()})" for job in jobs)
        numbers = " ".join(job.id for job in jobs)
        raise Busy(
            f"the campaign {campaign} has {'jobs' if len(jobs) > 1 else 'a job'} in Slurm: {several}; wait for"
            f" {'them' if len(jobs) > 1 else 'it'}, or cancel with `scancel {numbers}`"
        )
    return None


def _note(text: str | None) -> None:
    if text:
        prose(f"note: {text}", sys.stderr)
