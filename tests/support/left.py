"""A campaign for the executor and its attempts, in place of dag.Dag, and submission.Work of set times."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from iosweep.jobs.profile import Profile
from iosweep.jobs.submission import Work


class Timed(Work):
    """Work of so many nodes and seconds."""

    def __init__(self, nodes: int, time_s: float, site: Profile, first_min: int = 0):
        points = {"p": 1} if time_s else {}
        vars(self).update(plan=None, allocation=SimpleNamespace(nodes=nodes), points=points, site=site)
        vars(self).update(cost=SimpleNamespace(time_s=time_s), longest=None, first_min=first_min)

    def minutes(self, attempt: int = 1) -> int:
        first_min: int = vars(self)["first_min"]
        return first_min * attempt if first_min else super().minutes(attempt)


@dataclass(frozen=True)
class Campaign:
    """`left_s`: allocation -> seconds that are left of it. `first_min`: minutes that the first job asks for."""

    results: Path
    left_s: dict[str, float]
    first_min: int = 6
    plan_file: Path = Path("plan")
    site: Profile = field(default_factory=Profile)

    @property
    def work(self) -> dict[str, Any]:
        return {
            name: Timed(int(name.partition("-")[0]), time_s, self.site, self.first_min)
            for name, time_s in self.left_s.items()
        }

    @property
    def left(self) -> dict[str, Any]:
        return {name: work for name, work in self.work.items() if work.points}

    def text(self, allocation: str, minutes: int | None = None) -> str:
        return f"{self.left_s[allocation]} left"

    def report(self) -> bool:
        return False

    def settle(self, allocation: str) -> None: ...
