"""`iosweep tools build`: build the tools, for the rule `tools`; a failure is one sentence."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
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
from iosweep.results.store import Store
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.text import printable

#: Exit code after a signal.
INTERRUPTED = 130
_NOT_BUILT = "the tools are not built"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("configfile", type=Path)
    parser.add_argument("--write", type=Path, required=True, metavar="FILE")
    parser.add_argument("--scheduler", choices=("slurm",))
    parser.add_argument("--works-for", type=int, metavar="PID", help="stop when this process ends")
    campaigns.add_overrides(parser)
    parser.set_defaults(action=run)


def run(arguments: Namespace) -> int:
    works_for = [os.getppid(), *([arguments.works_for] if arguments.works_for else [])]
    slurm, given = arguments.scheduler == "slurm", campaigns.overrides(arguments)
    return build(arguments.configfile, arguments.write, campaigns.RESULTS, slurm, works_for, given)


def build(
    file: Path, wanted: Path, results: Path, slurm: bool, works_for: Sequence[int], given: Mapping[str, str]
) -> int:
    """Build the tools of a configuration; 0, or 1 with a sentence on standard error.

    `wanted`: the tools.json that the workflow expects. `results`: where reasons are kept for its report.
    `given`: values from the command line (sweep_file.GIVEN).
    Raises ConfigError.
    """
    configured = sweep_file.read(file, given)
    made = make_plan(configured)
    asked = request.read(configured, made, builds=True)
    if asked.place.file != wanted:
        print("the configuration or spack.yaml changed meanwhile; run snakemake again", file=sys.stderr)
        return 1
    stored = Store(results / made.campaign)
    try:
        adopt_orphans()
        with stoppable(works_for):
            _spare_target(configured, asked, slurm)
            building.build(asked, say)
        for name, refusal in stored.documents("refusals").items():
            if str(refusal.get("reason", "")).startswith(_NOT_BUILT):
                stored.set_refusal(name, None)
        return 0
    except BuildError as error:
        why, code = f"{_NOT_BUILT}: {error}", 1
    except Stopped as error:
        why, code = f"{_NOT_BUILT}: stopped by {error}; the next run goes on from there", INTERRUPTED
    for allocation in made.allocations:  # the report shows why nothing was measured
        with contextlib.suppress(OSError):
            stored.set_refusal(allocation.name, why)
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
