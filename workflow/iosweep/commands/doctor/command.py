"""`iosweep doctor`: check this machine, or with --slurm a cluster, before a campaign."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import iosweep
from iosweep.commands import campaigns

PROFILE = Path("profiles/slurm")


def add_arguments(parser: ArgumentParser) -> None:
    configuration = f"the configuration; default: {campaigns.CONFIG}, if it exists"
    parser.add_argument("--slurm", action="store_true", help="check the profile, Slurm and nodes, from a login node")
    parser.add_argument("--profile", type=Path, metavar="DIR", help=f"with --slurm; default: {PROFILE}")
    parser.add_argument("--configfile", type=Path, metavar="FILE", help=configuration)
    wait = "with --slurm: how long to wait for free nodes, for example 10min; default: 20s"
    parser.add_argument("--wait", type=campaigns.duration, metavar="TIME", help=wait)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    configuration = arguments.configfile or (campaigns.CONFIG if campaigns.CONFIG.exists() else None)
    if arguments.slurm:
        from iosweep.commands.doctor import cluster

        # where the working directory has no profile, that of the checkout
        places = (PROFILE, Path(iosweep.__file__).resolve().parents[2] / PROFILE)
        profile = arguments.profile or next((place for place in places if place.is_dir()), PROFILE)
        return cluster.doctor(profile, configuration, arguments.wait, arguments.json)
    for name in ("profile", "wait"):
        if getattr(arguments, name) is not None:
            arguments.refuse(f"--{name} needs --slurm")
    from iosweep.commands.doctor import this_machine

    return this_machine.doctor(configuration, arguments.json)
