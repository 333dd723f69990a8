"""What a plan and campaign.json say of sweeps and limits, for the report: types, which check what is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from iosweep.files.documents import misfit
from iosweep.files.fields import Name, Number, Part, Seconds, Share, Some
from iosweep.text import shortened
from iosweep.tools import parameters, tools


class RepetitionFacts(Part, frozen=True, kw_only=True):
    """How often each point is measured. `until_ci95_half_width`: a fraction of the mean, None where min is max."""

    min: Some
    max: Some
    until_ci95_half_width: Share | None


class SweepFacts(Part, frozen=True, kw_only=True):
    """A sweep. `axes`: axis -> its values; `phase_time_s`: None where a count bounds the phases."""

    name: str
    tool: str
    phases: tuple[str, ...]
    points: tuple[Name, ...]
    axes: dict[str, tuple[bool | Number | str, ...]]
    repetitions: RepetitionFacts
    description: str | None = None
    suite: str | None = None
    scaled: bool = False
    source: str | None = None
    phase_time_s: Seconds | None = None
    one_pass: bool = False

    def __post_init__(self) -> None:
        if self.tool not in tools():
            raise ValueError(f"`{shortened(self.tool)}` is not a tool")
        for phase in self.phases:
            if phase not in tools()[self.tool].phases:
                raise ValueError(f"`{shortened(phase)}` is not a phase of {self.tool}")
        options = {option.name: option for option in parameters().values()}
        for axis, values in self.axes.items():
            if axis not in options:
                raise ValueError(f"`{shortened(axis)}` is not an axis")
            wanted = {"flag": bool, "choice": str}.get(options[axis].kind, float)
            if not all(isinstance(value, wanted) for value in values):
                raise ValueError(f"a value of the axis {axis} has another type")


class CpuFacts(Part, frozen=True):
    """What the report says of the settings of pinning."""

    pinning: str | None = None


class PlanFacts(Part, frozen=True, kw_only=True):
    """The part of a plan that campaign.json repeats as it is."""

    description: str | None = None
    limits: dict[str, bool | Number | str | None]
    cpus: CpuFacts = CpuFacts()
    sweeps: tuple[SweepFacts, ...]


def check(plan: Any) -> str | None:
    """What is wrong with the stored document of a plan, or None."""
    try:
        msgspec.convert(plan, PlanFacts)
    except msgspec.ValidationError as error:
        return misfit(error)
    return None
