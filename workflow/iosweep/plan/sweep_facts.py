"""Sweeps, limits and the configuration as plans and campaign.json store them for the report.

The digest of a plan depends on the order of the fields.
"""

from __future__ import annotations

from iosweep.config.criteria import Criterion
from iosweep.files.fields import Count, Integer, Name, Number, Part, Seconds, Share, Some


class RepetitionFacts(Part, frozen=True, kw_only=True):
    """How often each point is measured. `until_ci95_half_width`: a fraction of the mean, None where min is max."""

    max: Some
    min: Some
    until_ci95_half_width: Share | None
    confirm: Count = 0


class SweepFacts(Part, frozen=True, kw_only=True):
    """A sweep. `axes`: axis -> its values; `phase_time_s`: None where a count bounds the phases; `ramp`: the axis that
    is climbed until nothing more is gained."""

    axes: dict[str, tuple[bool | Integer | str, ...]]
    description: str | None = None
    name: Name
    one_pass: bool = False
    phase_time_s: Seconds | None = None
    phases: tuple[str, ...]
    points: tuple[Name, ...]
    ramp: str | None = None
    repetitions: RepetitionFacts
    scaled: bool = False
    source: str | None = None
    suite: str | None = None
    tool: str


class ConfigurationFile(Part, frozen=True):
    """A file of the configuration, with its text."""

    file: str
    text: str


class CpuFacts(Part, frozen=True):
    """What the report says of the settings of pinning."""

    pinning: str | None = None


class PlanFacts(Part, frozen=True, kw_only=True):
    """The part of a plan that campaign.json repeats as it is."""

    description: str | None = None
    limits: dict[str, bool | Integer | Number | str | None]
    cpus: CpuFacts = CpuFacts()
    sweeps: tuple[SweepFacts, ...]
    accept: tuple[Criterion, ...] = ()
