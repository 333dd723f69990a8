"""`iosweep doctor`: check this machine, the nodes of a job, or with --slurm a cluster, before a campaign."""

from __future__ import annotations

import os
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

import msgspec

import iosweep
from iosweep.commands import campaigns
from iosweep.commands.doctor import this_machine
from iosweep.findings import show

PROFILE = Path("profiles/slurm")


def add_arguments(parser: ArgumentParser) -> None:
    configuration = f"the configuration; default: {campaigns.CONFIG}, if it exists"
    parser.add_argument("--slurm", action="store_true", help="check the profile, Slurm and nodes, from a login node")
    parser.add_argument("--profile", type=Path, metavar="DIR", help=f"for Slurm; default: {PROFILE}")
    parser.add_argument("--configfile", type=Path, metavar="FILE", help=configuration)
    wait = "with --slurm: how long to wait for free nodes, for example 10min; default: 20s"
    parser.add_argument("--wait", type=campaigns.duration, metavar="TIME", help=wait)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--lines", type=Path, help=SUPPRESS)  # in the job of --slurm: where its findings go


def run(arguments: Namespace) -> int:
    configuration = arguments.configfile or (campaigns.CONFIG if campaigns.CONFIG.exists() else None)
    # where the working directory has no profile, that of the checkout
    places = (PROFILE, Path(iosweep.__file__).resolve().parents[2] / PROFILE)
    profile = arguments.profile or next((place for place in places if place.is_dir()), PROFILE)
    if arguments.slurm:
        from iosweep.commands.doctor import cluster

        return cluster.doctor(profile, configuration, arguments.wait, arguments.json)
    if arguments.wait is not None:
        arguments.refuse("--wait needs --slurm")
    configured, made, line = this_machine.plan(configuration)
    if "SLURM_JOB_ID" in os.environ:
        from iosweep.commands.doctor import nodes

        found = nodes.look(configured, made, profile)
    else:
        found = this_machine.look(configured, made)
    if arguments.lines:
        written = arguments.lines.with_suffix(".new")
        written.write_bytes(msgspec.json.encode(found))
        written.rename(arguments.lines)
        return 0
    return show([line, *this_machine.working_directory(submits=False), *found], arguments.json)
