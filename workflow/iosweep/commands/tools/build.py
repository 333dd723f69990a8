"""`iosweep tools build`: build the tools, for the rule `tools`; a failure is one sentence."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import BuildError, Refused, TargetError, TargetHangs
from iosweep.node.process import adopt_orphans
from iosweep.node.stopping import Stopped, stoppable
from iosweep.plan.expand import make_plan
from iosweep.programs.spack import build as building
from iosweep.programs.spack import request
from iosweep.programs.spack.built import on_target
from iosweep.programs.spack.request import Request, seen
from iosweep.results.campaign_documents import Refusal
from iosweep.results.store import Store
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.text import printable

#: Exit code after a signal.
INTERRUPTED = 130


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("configfile", type=Path)
    parser.add_argument("--write", type=Path, required=True, metavar="FILE", help="the tools.json that is expected")
    parser.add_argument("--scheduler", choices=("slurm",))
    parser.add_argument("--works-for", type=int, metavar="PID", help="stop when this process ends")
    campaigns.add_overrides(parser)
    parser.set_defaults(action=run)


def run(arguments: Namespace) -> int:
    configured = sweep_file.read(arguments.configfile, campaigns.overrides(arguments))
    made = make_plan(configured)
    asked = request.read(configured, made, builds=True)
    if asked.place.file != arguments.write:
        print("the configuration or spack.yaml changed meanwhile; run snakemake again", file=sys.stderr)
        return 1
    stored = Store(campaigns.RESULTS / made.campaign)
    try:
        adopt_orphans()
        with stoppable([os.getppid(), *([arguments.works_for] if arguments.works_for else [])]):
            _spare_target(configured, asked, arguments.scheduler == "slurm")
            building.build(asked, say)
        for name, refusal in stored.documents(Refusal).items():
            if refusal.not_built:
                stored.set_refusal(name, None)
        return 0
    except BuildError as error:
        why, code = str(error), 1
    except Stopped as error:
        why, code = f"stopped by {error}; the next run goes on from there", INTERRUPTED
    why = f"the tools are not built: {why}"
    for allocation in made.allocations:  # the report shows why nothing was measured
        with contextlib.suppress(OSError):
            stored.set_refusal(allocation.name, Refusal(why, not_built=True))
    print(printable(f"iosweep: {why}"), file=sys.stderr)
    if seen(asked.place.log.exists):
        print(f"all that was run is in {asked.place.log}", file=sys.stderr)
    return code


def say(text: str) -> None:
    """Print a line of progress."""
    print(printable(f"tools: {text}"), file=sys.stderr, flush=True)


def _spare_target(configured: Config, asked: Request, slurm: bool) -> None:
    """Refuse to build on the file system under test, as far as that is seen from here. Raises BuildError."""
    with Agent(configured.target.deadline) as agent:
        try:
            facts = agent.call(identify.identify, configured.target.directory)
            place = asked.place.root.absolute()
            there = agent.call(identify.identify, next(str(p) for p in (place, *place.parents) if seen(p.is_dir)))
        except (TargetHangs, TargetError, Refused):
            return  # usually not mounted on a login node; the nodes check again
        if wrong := on_target(facts, there, place, slurm, configured.campaign):
            refused, sentence = wrong
            if refused:
                raise BuildError(sentence)
            say(f"note: {sentence}")
