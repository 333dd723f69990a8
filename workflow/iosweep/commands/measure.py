"""`iosweep measure`: measure what is left of an allocation, for the rule `measure`."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.errors import AllocationError, ExitCode, MeasuredElsewhere, Refused
from iosweep.files.safe_paths import open_log
from iosweep.node.process import Stopped
from iosweep.plan.launchers import launchers
from iosweep.plan.model import read_plan
from iosweep.run import allocation
from iosweep.run.progress import DetachedStream, Lines
from iosweep.store.record import Refusal
from iosweep.store.store import Store
from iosweep.text import printable


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=Path)
    parser.add_argument("--allocation", required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--log", dest="own_log", type=Path, required=True)
    parser.add_argument("--launcher", default="direct")
    parser.add_argument("--scheduler", choices=("slurm",))
    parser.add_argument("--only")
    parser.add_argument(
        "--tools",
        type=Path,
        metavar="FILE",
        nargs="?",
        help="tools.json of what Spack has built; default: the tools on PATH",
    )
    parser.add_argument("--works-for", type=int, metavar="PID", help="stop when this process ends")


def run(arguments: Namespace) -> int:
    made, results = read_plan(arguments.plan), arguments.plan.parent.parent
    gc.freeze()  # modules and plan stay: the garbage collector can skip them
    sys.stderr = DetachedStream(sys.stderr or io.StringIO())  # it may be closed (`2>&-`)
    works_for = [os.getppid(), *([arguments.works_for] if arguments.works_for else [])]
    refusal: Refusal | None = None
    lines: Lines | None = None
    try:
        with open_log(arguments.own_log, results) as log:
            lines = Lines(sys.stderr, log)
            allocation.measure(
                made,
                arguments.allocation,
                results,
                arguments.manifest,
                launchers(arguments.scheduler)[arguments.launcher],
                lines,
                arguments.only,
                works_for,
                allocation.slurm_job() if arguments.scheduler == "slurm" else None,
                arguments.tools,
            )
        return 0
    except AllocationError as error:
        why, code = str(error), error.code
        # The report need not show that another process measures; but the next job has to know which job to wait for.
        if not isinstance(error, MeasuredElsewhere) or arguments.scheduler:
            over = error.code == ExitCode.JOB_OVER
            refusal = Refusal(why, error.lasting, error.after, tuple(error.nodes), short_of_time=over)
    except Stopped as error:
        done = f"{lines.done} measured; " if lines else ""
        why, code = f"stopped by {error}; {done}the same command goes on", ExitCode.INTERRUPTED
        if arguments.scheduler:  # the report shows why the job ended
            refusal = Refusal(f"its job was {why}", stopped=True)
    except OSError as error:  # of the log, which is in the results
        why, code = allocation.cannot_be_written(error), ExitCode.STORE_FAILED
    line = printable(f"iosweep: {why}")
    print(line, file=sys.stderr)
    # the disk of the results may be full; or they were removed while they were measured, and are not ours
    with contextlib.suppress(OSError, Refused):
        if Store(results).uuid() is not None:
            if refusal:
                Store(results).set_refusal(arguments.allocation, refusal)
            with open_log(arguments.own_log, results) as log:
                print(line, file=log)
    return code
