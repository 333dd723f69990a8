"""`iosweep tools`: list the benchmark tools, or fetch all that building them needs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from iosweep.commands.tools import build, list, mirror


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    list.add_arguments(actions.add_parser("list", help="list the tools that were built or are on PATH"))
    mirror.add_arguments(
        actions.add_parser("mirror", help="download what building the tools needs, for a cluster without a network")
    )
    build.add_arguments(actions.add_parser("build"))  # for the rule `tools`


def run(arguments: Namespace) -> int:
    return int(arguments.action(arguments))
