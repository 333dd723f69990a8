"""The settings of a campaign that its plan keeps: target and limits as in the configuration (config/sections.py).

Jobs and merge read them without the models of the configuration, which take longer to load. The digest of a plan
depends on the order of the fields.
"""

from __future__ import annotations

from typing import Literal

from iosweep.files.fields import Count, Deadline, Part, PathText, Seconds, Share
from iosweep.tools.reading import SHORTEST_STEADY_S


class TargetSettings(Part, frozen=True, kw_only=True):
    """The file system under test. layout: arguments of its command, None where it is inherited."""

    deadline: Deadline
    directory: PathText
    keep: Literal["none", "failed", "all"]
    layout: tuple[str, ...] | None = None
    lock: PathText | None
    node_bandwidth: Count | None
    server_cache: Count | None = None
    settle: Seconds
    type: str | None = None


class LimitSettings(Part, frozen=True, kw_only=True):
    """Ceilings; bytes_written and time are None where they are not limited."""

    bytes_written: Count | None
    fill: Share = 0.80
    grace: Seconds
    over_time: Literal["refuse", "trim"] = "refuse"
    retried: Share
    share_of_free: Share = 0.10
    shortest_phase: Seconds = SHORTEST_STEADY_S
    time: Seconds | None
