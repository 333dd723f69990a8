"""Faults that are other runners: of the same campaign, or of another one on the same file system."""

import shutil
import signal
import sys
from pathlib import Path

import without_flock
from faults.case import ONE, Case
from faults.registry import Happening, fault


@fault(sweep=ONE)
def measured_already(case: Case) -> Happening:
    case.measure_for_long()
    with case.running() as run:
        run.tool()
        yield None
    yield None


@fault(sweep=ONE)
def measured_already_without_locks(case: Case) -> Happening:
    """The kernel's lock cannot be had by either: they see each other by what stands in the file."""
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
