"""A process and all below it, stopped at one moment."""

import contextlib

import psutil


def all_stopped(runner: psutil.Process) -> set[psutil.Process]:
    """A runner and all below it, stopped, so that none starts another that would not be killed."""
    found: set[psutil.Process] = set()
    while new := {runner, *runner.children(recursive=True)} - found:
        for process in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        found |= new
    return found


def all_killed(processes: set[psutil.Process]) -> None:
    """Kill processes, and wait until they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=300)
