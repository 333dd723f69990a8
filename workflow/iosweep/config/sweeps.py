"""A validated configuration: sweeps and the settings of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iosweep.config.criteria import Criterion
from iosweep.errors import Problem
from iosweep.files.documents import Count, Part, Share, Some
from iosweep.tools import Value

if TYPE_CHECKING:  # jobs and tables work from the plan alone, and start sooner without the models
    from iosweep.config.models import Campaign
    from iosweep.config.sections import Target
    from iosweep.config.yaml_lines import Document, KeyPath


@dataclass(frozen=True)
class Sweep:
    """One sweep, with its suite's scale applied. Sizes in bytes, times in seconds.

    `axes` holds the values of every axis in the order written; `options` only what was set. `path` is its place
    in `document`, so that later problems can name the line.
    """

    name: str
    tool: str
    phases: tuple[str, ...]
    axes: Mapping[str, tuple[Value, ...]]
    options: Mapping[str, Value]
    exclude: tuple[Mapping[str, tuple[Value, ...]], ...]
    phase_time_s: float | None  # None: one pass over the files
    repetitions: RepetitionRule
    ramp: str | None = None  # axis that is climbed until nothing more is gained
    side_by_side: str | None = None  # axis whose values are measured one right after the other
    description: str | None = None
    suite: str | None = None
    scaled: bool = False
    source: str | None = None
    phase_time_given: bool = False
    document: Document = field(repr=False, default=None)  # type: ignore[assignment]
    path: KeyPath = ()

    def problem(self, message: str, *keys: str | int) -> Problem:
        """A problem with this sweep, or with one of its keys."""
        return self.document.problem((*self.path, *keys), message)


@dataclass(frozen=True)
class Config:
    """A validated configuration: the file's own settings, its sweeps with those of suites, and the files read."""

    settings: Campaign
    sweeps: tuple[Sweep, ...]
    documents: tuple[Document, ...]
    accept: tuple[Criterion, ...] = ()

    @property
    def targets(self) -> Mapping[str, Target]:
        """Name -> target; `target` has the name ""."""
        settings = self.settings
        return settings.targets or ({"": settings.target} if settings.target else {})

    def target_problem(self, name: str, key: str, message: str) -> Problem:
        """A problem with a key of a target, or with a key that has a dot, such as `limits.fill`."""
        path = (*(("targets", name) if name else ("target",)), key)
        return self.documents[0].problem(tuple(key.split(".")) if "." in key else path, message)


#: Minimum repetitions for an interval that is shown and graded: that of two is far too wide.
MIN_REPETITIONS = 3
#: Maximum repetitions of a point in a session, fresh repetitions of a best point, and sessions of a campaign.
MAX_REPETITIONS, MAX_CONFIRM, MAX_SESSIONS = 1000, 100, 100
#: Numbers of repetitions that are kept for each session.
_NUMBERS = 10_000


class RepetitionRule(Part, frozen=True, forbid_unknown_fields=True):
    """How often a point is measured in each session. `half_width` is a fraction of the mean; None: always `min` times.

    confirm: fresh repetitions of a point that is the best of its phase.

    Session s has the numbers after 10,000 (s - 1): 1 to 1,000 choose the best point, and those after 1,000 confirm it.
    A number never depends on the rule: with another rule, what is stored stays what it was, and the same number is the
    same round of all points.
    """

    min: Some
    max: Some
    half_width: Share | None = None
    confirm: Count = 0
    sessions: Some = 1

    @property
    def most(self) -> int:
        """The most repetitions that choose the best point, in all sessions."""
        return self.sessions * (self.min if self.half_width is None else self.max)

    def session_of(self, number: int) -> int:
        """The session of a repetition."""
        return (number - 1) // _NUMBERS + 1

    def round_of(self, number: int) -> int:
        """The round of a repetition within its session."""
        return (number - 1) % _NUMBERS + 1

    def confirms(self, number: int) -> bool:
        """Whether a repetition has no part in the choice of the best point."""
        return self.round_of(number) > MAX_REPETITIONS

    def selecting(self, session: int, count: int) -> range:
        """The numbers of the first `count` repetitions of a session."""
        first = (session - 1) * _NUMBERS + 1
        return range(first, first + count)

    def confirming(self, session: int) -> range:
        """The numbers of the repetitions of a session that confirm."""
        return self.selecting(session, MAX_REPETITIONS + self.confirm)[MAX_REPETITIONS:]
