"""Faults that are other runners: of the same campaign, or of another one on the same file system."""

import fcntl
import os
import shutil
import signal
import sys
from pathlib import Path

import locks
import without_flock
from faults.case import ONE, Case
from faults.registry import Happening, fault
from iosweep.target import identify, target_lock


@fault(sweep=ONE)
def measured_already(case: Case) -> Happening:
    case.measure_for_long()
    with case.running() as run:
        run.tool()
        yield None
    yield None


@fault(sweep=ONE)
def measured_already_without_locks(case: Case) -> Happening:
    """Neither can take the kernel's lock: each finds the other by the text of the lock file."""
    case.prefix = [sys.executable, str(Path(without_flock.__file__))]
    case.measure_for_long()
    with case.running() as run:
        run.tool()
        yield None
    yield None


@fault(sweep=ONE)
def lock_of_the_results_leads_elsewhere(case: Case) -> Happening:
    case.planned = case.command()
    lock = case.results / "lock"
    lock.symlink_to(case.beside / "foreign" / "precious")
    yield None
    lock.unlink()


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
    with target_lock.hold(str(case.place / "locks"), _facts(case), {"campaign": "x", "results": "/r"}):
        (file,) = (case.place / "locks").glob("*.lock")
    return file


def _facts(case: Case) -> identify.FileSystem:
    return identify.identify(str(case.target))


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


@fault(sweep=ONE)
def lock_that_names_a_job(case: Case) -> Happening:
    _lock(case).write_text('{"job": "1", "pid": 1, "user": "root", "campaign": "x"}')
    yield None


@fault(sweep=ONE)
def measured_in_a_private_tmp(case: Case) -> Happening:
    case.reset(target={"lock": None})
    with locks.Campaign(target_lock.PREFIX, _facts(case), private=True):
        yield None
    case.reset()
