"""Keeps runs off a campaign while `clean` works on it: takes its lock, and asks Slurm for its jobs.

The lock alone is not enough: it does not reach every node, and a job that waits has not taken it yet.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from iosweep.errors import Busy, Held, Unanswered
from iosweep.jobs import pending
from iosweep.results import campaign_lock
from iosweep.results.store import Store
from iosweep.slurm import query, words
from iosweep.text import printable


@contextmanager
def hold(folders: Sequence[Path], campaign: str) -> Iterator[str | None]:
    """Keep runs off a campaign until the end of the block; yields what could not be seen, or None.

    `folders`: its results, and others that its runs may have. Raises Busy, and OSError where one cannot be locked.
    """
    with ExitStack() as held:
        for folder in folders:
            with _explained(folder):
                held.enter_context(Store(folder).locked(lives=query.lives, certain=True))
        yield _ask(folders, campaign)


def look(folders: Sequence[Path], campaign: str) -> str | None:
    """Raise what `hold` would, and return what it yields. Nothing is taken or written."""
    for folder in folders:
        with _explained(folder):
            campaign_lock.look(folder / campaign_lock.NAME, query.lives)
    return _ask(folders, campaign)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except Held as error:
        raise Busy(f"{folder} {error}", error.job) from None
    except Unanswered as error:
        holder = printable(Store(folder).holder())
        raise Busy(
            f"{folder} may still be measured by {holder}: whether that job has ended cannot be seen ({error}); see"
            f" that it has, then remove {folder}/{campaign_lock.NAME}"
        ) from None


def _ask(folders: Sequence[Path], campaign: str) -> str | None:
    """Raise Busy if Slurm has jobs of the campaign; returns why it cannot be asked, or None."""
    if shutil.which("squeue") is None:
        return None
    try:
        known = query.jobs(_users(folders))
    except Unanswered as error:
        if words.has_no_cluster(error.said):  # as on a machine without squeue
            return None
        return f"{error}; jobs of the campaign {campaign} that wait are not seen"
    if found := pending.of_campaign(known, campaign, _above(folders)):
        several = ", ".join(f"{job.id} ({job.state.lower()})" for job in found)
        numbers = " ".join(job.id for job in found)
        raise Busy(
            f"the campaign {campaign} has {'jobs' if len(found) > 1 else 'a job'} in Slurm: {several}; wait for"
            f" {'them' if len(found) > 1 else 'it'}, or cancel with `scancel {numbers}`"
        )
    return None


def _users(folders: Sequence[Path]) -> list[str]:
    """Whose jobs may measure the campaign, by user id: ours, and those of the owners of its results."""
    return sorted({str(uid) for uid in (os.getuid(), *(folder.stat().st_uid for folder in folders))})


def _above(folders: Sequence[Path]) -> set[str]:
    """Directories that a run may have been started in, as Slurm knows them: `results` may be a symbolic link."""
    ways = [way for folder in folders for way in (folder.absolute(), folder.resolve())]
    return {os.path.realpath(parent) for way in ways for parent in way.parents}
