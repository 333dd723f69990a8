"""`iosweep collect`: write the manifest of an allocation, where Snakemake runs.

A job of Slurm has measured by now. On one machine, this measures what is left, and removes leftovers as well.
"""

from __future__ import annotations

from argparse import Namespace

from iosweep.commands.rules import measure
from iosweep.plan.model import read_plan
from iosweep.results import manifest
from iosweep.results.store import Store

add_arguments = measure.add_arguments


def run(arguments: Namespace) -> int:
    if not arguments.scheduler:
        return measure.run(arguments)
    made, store = read_plan(arguments.plan), Store(arguments.plan.parent.parent)
    allocation = next(a for a in made.allocations if a.name == arguments.allocation)
    store.set_refusal(allocation.name, None)
    manifest.write(arguments.manifest, allocation, store)
    return 0
