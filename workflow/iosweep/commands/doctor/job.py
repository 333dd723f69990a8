"""The doctor's job: it asks Slurm for what the campaign's jobs ask, runs the doctor on its nodes, and is ended."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from iosweep.errors import Unanswered
from iosweep.files import safe_paths
from iosweep.findings import Line, unchecked, wrong
from iosweep.hostlist import hosts
from iosweep.jobs import pending, submission
from iosweep.slurm import query

#: Its name, another one for each doctor: it is cancelled by it, for sbatch may not have said the job's number.
NAME = f"iosweep-doctor-{uuid.uuid4()}"
#: Its time limit in minutes, and time limits in seconds: for what it does, and for its file to appear here (NFS).
MINUTES, WORK_S, SEEN_S = 5, 240.0, 35.0
#: Pauses between two questions to Slurm.
_FIRST_S, _LAST_S = 0.3, 2.0
#: The file of lines, and what the job prints, in its directory.
LINES, LOG = "lines.json", "job.log"
_SHARED = "the checkout with its .venv, and the working directory, must be the same on all nodes"


def look(sbatch: Callable[[str], Sequence[str]], doctor: Sequence[str], wait_s: float) -> list[Line]:
    """Run `doctor` in a job and return its lines. `sbatch`: the command that submits it, from the name of its log.

    `wait_s`: for free nodes; then the job is cancelled. Raises OSError if the working directory cannot be written to.
    """
    with (
        _ended_by_signals(),
        tempfile.TemporaryDirectory(prefix=".iosweep-doctor-", dir=Path.cwd(), ignore_cleanup_errors=True) as made,
    ):
        place = Path(made)
        script = f"#!/bin/sh\nexec {shlex.join([*doctor, '--lines', str(place / LINES)])}\n"
        (place / LOG).write_text("\n")  # a full disk is seen here
        try:
            return _wait(query.submit(sbatch(str(place / LOG)), script), place, wait_s)
        except Unanswered as error:
            change = "ask again when other jobs of yours are over" if submission.is_full(error.said) else ""
            return [unchecked("nodes", str(error), change)]
        finally:
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--quiet", f"--name={NAME}"])


def _wait(number: str, place: Path, wait_s: float) -> list[Line]:
    """The lines of the job, or why there are none. Raises Unanswered."""
    began, pause_s, job = time.monotonic(), _FIRST_S, None
    while (job := query.job(number)) and job.alive and job.state != "COMPLETING":
        waits, late_s = job.state == "PENDING", time.monotonic() - began
        believed = waits and late_s > pending.BELIEVED_S
        if believed and (change := pending.remedy(job.reason) or pending.too_many_nodes(job)):
            return [wrong("nodes", f"a job like the campaign's would wait forever ({job.reason})", change)]
        if waits and late_s > wait_s:
            more = "try --wait 10min"
            return [unchecked("nodes", f"no free nodes within {wait_s:.0f} s: {pending.words(job)}", more)]
        if not waits and late_s > wait_s + WORK_S:
            return [wrong("nodes", f"job {number} on {hosts(job.hosts)} has not answered in {WORK_S:.0f} s", _SHARED)]
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LAST_S)
    end = time.monotonic() + (SEEN_S if job and job.state != "FAILED" else _LAST_S)
    while (place / LINES) not in set(place.iterdir()):
        if time.monotonic() > end:
            where = f" on {hosts(job.hosts)}" if job and job.hosts else ""
            return [wrong("nodes", f"the job{where} left nothing here: {_last_words(place / LOG)}", _SHARED)]
        time.sleep(_FIRST_S)
    return [Line(**line) for line in json.loads((place / LINES).read_text(encoding="utf-8"))]


def _last_words(log: Path) -> str:
    try:
        return safe_paths.last_line(log.parent, log.name) or "it printed nothing"
    except OSError:
        return "its output is not here"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Exit on signals, so that nothing of ours stays in the queue or in a directory."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda received, _: sys.exit(128 + received)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
