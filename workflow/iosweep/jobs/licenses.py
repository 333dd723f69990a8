"""Slurm's licenses as what keeps two campaigns off one file system."""

from __future__ import annotations

from dataclasses import replace

from iosweep.errors import Unanswered
from iosweep.slurm import query
from iosweep.target.target_lock import Exclusion


def exclusion(asked: str, without: Exclusion) -> Exclusion:
    """What the licenses of our job are worth: `asked`, as `pfs:1,other:2`. `without`: what is enforced without them."""
    if not asked:
        return without
    try:
        totals = parse(query.ask(["scontrol", "show", "licenses"]))
    except Unanswered:
        return without
    return judge(asked, totals, without)


def judge(asked: str, totals: dict[str, int], without: Exclusion) -> Exclusion:
    """The same with what there is of each. Pure."""
    for license in asked.split(",") if "|" not in asked else ():  # one or the other: who knows which
        name, _, count = license.partition(":")
        if str(totals.get(name)) == (count or "1"):
            return Exclusion(True, f"no other job has the license {name}: all there are ({count or 1}) are ours")
    evidence = f"{without.evidence}; of the license {asked} there are more, which other jobs may have"
    return replace(without, evidence=evidence)


def parse(printed: str) -> dict[str, int]:
    """license -> how many there are, from `scontrol show licenses`."""
    found: dict[str, int] = {}
    name = ""
    for word in printed.split():
        key, _, value = word.partition("=")
        if key == "LicenseName":
            name = value
        elif key == "Total" and value.isdigit():
            found[name] = int(value)
    return found
