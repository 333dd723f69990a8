"""`iosweep doctor`: what a campaign needs on this machine, and whether the CPUs of this node can be used."""

from __future__ import annotations

import os
from pathlib import Path

from iosweep.commands.doctor import campaign
from iosweep.findings import Line, inapplicable, ok, show, unchecked, warning, wrong
from iosweep.node.collect_facts import of_cpus
from iosweep.node.cpus import named, parse
from iosweep.node.node_facts import NodeFacts
from iosweep.node.reserved import Reserved, overlap


def doctor(configuration: Path | None, as_json: bool) -> int:
    """Print what was found; 0 if nothing is wrong, else 1."""
    configured, made, line = campaign.plan(configuration)
    lines = [line, *campaign.working_directory(submits=False)]
    if configured and made:
        lines += campaign.look(configured, made)
    facts = of_cpus(configured.cpus.reserved if configured else None)
    return show([*lines, *cpus(facts, in_job="SLURM_JOB_ID" in os.environ)], as_json)


def cpus(facts: NodeFacts, in_job: bool) -> list[Line]:
    """Which CPUs are reserved, and in a job whether it may use some of them. Pure."""
    found = Reserved.of_node(facts)
    lines = [warning("reserved CPUs", problem, "all of them are kept free") for problem in found.problems]
    problem = overlap(parse(facts.cpus_allowed or ""), found) if in_job or found.cpus is None else None
    if problem:
        return [*lines, (wrong if problem.fatal else warning)("reserved CPUs", problem.seen, problem.change)]
    said = "; ".join(f"{one.source}: {one.says}" for one in found.sources)
    if found.cpus:
        return [*lines, ok("reserved CPUs", f"{named(found.cpus)} ({said})")]
    if found.unasked and found.configured is None:
        why = f"nothing here says that CPUs are reserved, but {found.unasked}"
        return [*lines, unchecked("reserved CPUs", why, "ask as root, or name them with cpus.reserved")]
    return [*lines, ok("reserved CPUs", f"none ({said})") if said else inapplicable("reserved CPUs", "none")]
