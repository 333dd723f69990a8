"""Whether a campaign fits the target, as it is seen from here: before anything is planned, submitted or run."""

from __future__ import annotations

import os

from msgspec.structs import asdict

from iosweep.errors import Refused, TargetError, TargetHangs
from iosweep.findings import Line, ok, unchecked, wrong
from iosweep.node import procfs
from iosweep.plan.forecast import Forecast
from iosweep.plan.model import Plan
from iosweep.run import target_check
from iosweep.target import directory as campaign_directory
from iosweep.target import free_space, quota, striping, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
from iosweep.units import human_size


def space(made: Plan, cost: Forecast) -> Line:
    """Whether a plan fits the target's space, quota and layout, asked through an agent."""
    check = "space"
    target = made.target.directory
    try:
        with Agent(target_check.DEADLINE_S) as agent:
            room = agent.call(quota.room, target)
            directory = campaign_directory.directory_of(target, made.campaign)
            found = agent.call(campaign_directory.owner_of, directory)
            present = agent.call(trees.usage, Place(directory, str(found.get("uuid"))))["bytes"] if found else 0
    except (Refused, TargetError, TargetHangs) as error:
        return unchecked(check, str(error))
    if not (room["file_system"]["writable"] or found):  # measured elsewhere: target_check would have refused it
        return unchecked(check, f"user {procfs.user_name(os.getuid())} cannot write to {target} here")
    obstacle = free_space.too_much(room["space"], present, cost.peak_bytes, cost.inodes, asdict(made.limits))
    obstacle = obstacle or free_space.over_quota(room["quotas"], max(0, cost.peak_bytes - present), cost.inodes)
    if made.target.layout:
        obstacle = striping.unsettable(room["file_system"]["fstype"]) or obstacle
    if obstacle:
        return wrong(check, f"does not fit {target}: {obstacle.what}", obstacle.remedy)
    return ok(check, f"fits ({human_size(room['space']['free_bytes'])} free)")
