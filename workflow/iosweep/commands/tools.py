"""`iosweep tools`: the benchmark tools, built or on PATH; `iosweep tools build`: builds them, for the rule `tools`."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.config import sweep_file
from iosweep.errors import BuildError, ExitCode, Refused, Unusable
from iosweep.node.process import Stopped, adopt_orphans, stoppable
from iosweep.plan.expand import make_plan
from iosweep.programs import spack
from iosweep.programs.programs import Mpiexec, Program, find, mpiexec
from iosweep.store.record import Refusal
from iosweep.store.store import Store
from iosweep.target.agent import Agent
from iosweep.text import printable
from iosweep.tools import tools


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the tools that were built or are on PATH")
    default = campaigns.CONFIG
    configuration = f"the configuration; default: {default}"
    listing.add_argument("--configfile", type=Path, metavar="FILE", default=default, help=configuration)
    listing.set_defaults(action=show)
    building = actions.add_parser("build")  # for the rule `tools`
    building.add_argument("configfile", type=Path)
    building.add_argument("--works-for", type=int, metavar="PID", help="stop when this process ends")
    campaigns.add_overrides(building)
    building.set_defaults(action=build)


def run(arguments: Namespace) -> int:
    return int(arguments.action(arguments))


def show(arguments: Namespace) -> int:
    """Print the tools of a configuration. Returns 0 if Spack has built them, or one is on PATH, else 1."""
    configured = sweep_file.read(arguments.configfile)
    if (configured.settings.tools.provider or "path") == "path":
        with Agent() as agent:
            found = {name: find(tool, agent.run) for name, tool in tools().items()}
        for name, one in (found | {"mpiexec": mpiexec()}).items():
            if isinstance(one, Program | Mpiexec):
                _print(name, one.version, one.path, "")
            else:
                _print(name, "", "", str(one))
        return 0 if any(isinstance(one, Program) for one in found.values()) else 1
    wanted = spack.read(configured)
    try:
        built = spack.read_built(wanted.file)
    except Unusable as error:
        print(f"iosweep: {error}", file=sys.stderr)
        return 1
    if built is None:
        print(f"the tools are not built yet ({wanted.file}); `snakemake tools` builds them", file=sys.stderr)
        return 1
    for name, tool in (built.content.tools | ({"mpi": built.content.mpi} if built.content.mpi else {})).items():
        _print(name, tool.version or "", tool.path, tool.package or "")
    print(f"for a shell: export PATH={built.search}:$PATH")
    return 0


def _print(name: str, version: str, path: str, origin: str) -> None:
    print(printable("  ".join(part for part in (f"{name:8}", version, path, origin) if part)))


def build(arguments: Namespace) -> int:
    """Build the tools. The reason of a failure is printed, and stored for the report."""
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
