#!/usr/bin/env python3
"""An srun for one machine: it starts the agents of all nodes here. Each gets the input, all print where it prints; if
one fails the others are killed. `install(folder)` puts it into a directory for PATH."""

import contextlib
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import psutil

from iosweep.hostlist import unfolded
from iosweep.node import procfs


def install(folder: Path, before: str = "") -> None:
    """`before`: lines of shell that run first, such as a site's words."""
    (folder / "srun").write_text(f'#!/bin/sh\n{before}\nexec "{sys.executable}" "{__file__}" "$@"\n')
    (folder / "srun").chmod(0o755)


def of(job: str, words: str = "", node: str = "") -> list[psutil.Process]:
    """The processes of a job but us, with these words in their command, of one node."""
    found = []
    for pid in procfs.pids():
        if procfs.variable(pid, "SLURM_JOB_ID") == job and (
            not node or procfs.variable(pid, "SLURMD_NODENAME") == node
        ):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(int(pid))
                if process.pid != os.getpid() and words in " ".join(process.cmdline()):
                    found.append(process)
    return found


def main() -> int:
    first = next(k for k, word in enumerate(sys.argv[1:], 1) if not word.startswith("--"))
    hosts = unfolded(next(word.partition("=")[2] for word in sys.argv if word.startswith("--nodelist=")))
    step = {"SLURM_STEP_ID": str(os.getpid())}
    agents = []
    for host in hosts:
        variables = os.environ | step | {"SLURMD_NODENAME": host}
        agents.append(subprocess.Popen(sys.argv[first:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables))
    printing = [threading.Thread(target=_print, args=(agent.stdout,), daemon=True) for agent in agents]
    for thread in printing:
        thread.start()
    reading = True
    while any(agent.poll() is None for agent in agents):
        if select.select([0] if reading else [], [], [], 0.02)[0]:
            part = os.read(0, 1 << 16)
            reading = bool(part)
            for agent in agents:
                assert agent.stdin
                if reading:
                    agent.stdin.write(part)
                    agent.stdin.flush()
                else:
                    agent.stdin.close()
        for host, agent in zip(hosts, agents, strict=True):
            if agent.poll():
                print(f"srun: error: {host}: ended with {agent.returncode}", file=sys.stderr)
                for other in agents:
                    other.kill()
                return 1
    for thread in printing:
        thread.join()
    return 0


def _print(output: BinaryIO) -> None:
    """Whole lines, as the real one does."""
    for line in output:
        with _line:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


_line = threading.Lock()


if __name__ == "__main__":
    sys.exit(main())
