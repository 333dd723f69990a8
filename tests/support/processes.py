"""Processes that a test has started, on whatever node they are: found by their environment, stopped and killed."""

import contextlib
import os
from pathlib import Path

import psutil


def with_variables(word: str = "", **variables: str) -> list[psutil.Process]:
    """Those that have these variables, and this word in their command or a program of that name."""
    wanted = {os.fsencode(f"{name}={value}") for name, value in variables.items()}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, psutil.Error):
            if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                process = psutil.Process(int(entry.name))
                if not word or word in {Path(each).name for each in process.cmdline()}:
                    found.append(process)
    return found


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
