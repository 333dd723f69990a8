"""Faults that are other runners: of the same campaign, or of another one on the same file system."""

import fcntl
import os
import shutil
import signal
from pathlib import Path

from faults.case import ONE, Case
from faults.registry import Happening, fault
from iosweep.target import identify, lock


@fault(sweep=ONE)
def measured_already(case: Case) -> Happening:
    case.measure_for_long()
    with case.running() as run:
        run.tool()
        yield None
    yield None


@fault(sweep=ONE)
def lock_of_the_results_leads_elsewhere(case: Case) -> Happening:
    case.planned = case.command()
    file = case.results / "lock"
    file.symlink_to(case.beside / "foreign" / "precious")
    yield None
    file.unlink()


@fault(sweep=ONE, still=False)
def file_system_measured_by_another(case: Case) -> Happening:
    case.measure_for_long()
    other = case.elsewhere()
    with other.running() as run:
        run.tool()
        yield None
    shutil.rmtree(other.target)
    yield None


@fault(sweep=ONE, still=False)
def lock_of_the_dead(case: Case) -> Happening:
    case.measure_for_long()
    other = case.elsewhere()
    with other.running() as run:
        run.tool()
        run.process.send_signal(signal.SIGKILL)
        run.end()
    yield None
    shutil.rmtree(other.target)


@fault(sweep=ONE)
def lock_directory_missing(case: Case) -> Happening:
    case.reset(target={"lock": str(case.place / "nowhere")})
    yield None
    case.reset()


@fault(sweep=ONE)
def lock_on_the_target(case: Case) -> Happening:
    case.reset(target={"lock": str(case.target)})
    yield None
    case.reset()


def _lock(case: Case) -> Path:
    """The file of the lock, which is made."""
    with lock.exclude(str(case.place / "locks"), identify.identify(str(case.target)), lock.Owner("x", "/r")):
        (file,) = (case.place / "locks").glob("*.lock")
    return file


@fault(sweep=ONE)
def lock_planted(case: Case) -> Happening:
    file = _lock(case)
    file.unlink()
    file.mkdir()
    os.chown(file, 65531, 65531)
    yield None
    file.rmdir()


@fault(sweep=ONE)
def lock_held_by_a_stranger(case: Case) -> Happening:
    with _lock(case).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield None
    yield None
