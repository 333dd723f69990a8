"""A plan that measures one point of another plan again, as a campaign of its own. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import structs

from iosweep.config.sweeps import Repetitions
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.plan.settings import LimitSettings

#: How the names of such campaigns begin.
NAMES = "replay-"


def replay(plan: Plan, point: Point, phases: Sequence[str], directory: str, repetitions: int) -> Plan:
    """The plan of the campaign `replay-<hash>`, whose name depends on what it measures, and where.

    The point keeps its id, so that its steps have the seeds and the files that they had; phases: those that are
    measured, all of the point or some. Limits of time and bytes of the whole campaign do not apply to one point.
    """
    own = structs.replace(point, phases=tuple(phases), repetitions=Repetitions(repetitions, repetitions))
    digest = hashlib.sha256("\0".join([plan.campaign, point.id, *phases, directory]).encode()).hexdigest()[:12]
    sweeps = tuple(
        structs.replace(
            sweep,
            points=(point.id,),
            ramp=None,
            phases=tuple(phases),
            repetitions=structs.replace(sweep.repetitions, min=repetitions, max=repetitions, confirm=0),
        )
        for sweep in plan.sweeps
        if sweep.name in point.sweeps
    )
    return structs.replace(
        plan,
        campaign=f"{NAMES}{digest}",
        description=f"{point.id} of {plan.campaign}, measured again",
        target=structs.replace(plan.target, directory=directory, keep="none"),
        limits=structs.replace(plan.limits, time=None, bytes_written=None),
        sweeps=sweeps,
        allocations=(Allocation(name=f"{point.nodes}-node", nodes=point.nodes, points=(own,), digest=digest),),
    )


def renamed(plan: Plan, number: int) -> Plan:
    """The plan of the campaign that measures the same again, for the second or a later time."""
    return structs.replace(plan, campaign=f"{plan.campaign}-{number}")


def trusted(plan: Plan) -> Plan:
    """A plan of somebody else, without what it says about this machine: a lock, whom to trust, variables of the
    environment, and how much of a file system may be filled."""
    defaults = {one.name: one.default for one in structs.fields(LimitSettings) if one.name in _OWN_LIMITS}
    target = structs.replace(plan.target, lock=None, trust_other_writers=False)
    return structs.replace(plan, target=target, limits=structs.replace(plan.limits, **defaults), variables=())


_OWN_LIMITS = ("fill", "share_of_free")
