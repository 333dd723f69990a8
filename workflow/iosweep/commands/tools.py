"""`iosweep tools`: build the benchmark tools with Spack, for the rule `tools`."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.config import sweep_file
from iosweep.errors import BuildError, ExitCode, Refused
from iosweep.node.process import Stopped, adopt_orphans, stoppable
from iosweep.plan.expand import make_plan
from iosweep.programs import spack
from iosweep.store.record import Refusal
from iosweep.store.store import Store
from iosweep.text import printable


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("configfile", type=Path)
    parser.add_argument("--works-for", type=int, metavar="PID", help="stop when this process ends")
    campaigns.add_overrides(parser)


def run(arguments: Namespace) -> int:
    """The reason of a failure is printed, and stored for the report."""
    configured = sweep_file.read(arguments.configfile, campaigns.overrides(arguments))
    wanted, plan = spack.read(configured), make_plan(configured)
    store = Store(campaigns.RESULTS / plan.campaign)
    try:
        adopt_orphans()
        with stoppable([os.getppid(), *([arguments.works_for] if arguments.works_for else [])]):
            say = functools.partial(print, file=sys.stderr, flush=True)
            spack.build(wanted, configured.settings.tools.spack, lambda text: say(printable(f"tools: {text}")))
        for name, refusal in store.documents(Refusal).items():
            if refusal.not_built:
                store.set_refusal(name, None)
        return 0
    except BuildError as error:
        why, code = str(error), 1
    except OSError as error:
        why, code = f"{error.filename or wanted.root} cannot be made or written ({error.strerror})", 1
    except Stopped as error:
        why, code = f"stopped by {error}; the next run goes on from there", ExitCode.INTERRUPTED
    first, *last = why.splitlines()
    sentence = printable(f"the tools are not built: {first}; all that was run is in {wanted.log}")
    with contextlib.suppress(OSError, Refused):
        store.mark()
        for allocation in plan.allocations:
            store.set_refusal(allocation.name, Refusal(sentence, not_built=True))
    print("\n".join([f"iosweep: {sentence}", *last]), file=sys.stderr)
    return code
