"""A campaign for the executor and its attempts, in place of dag.Dag."""

from dataclasses import dataclass, field
from pathlib import Path

from iosweep.jobs.profile import Profile


@dataclass(frozen=True)
class Campaign:
    """`left`: allocation -> seconds that are left of it. `first_min`: minutes that the first job asks for."""

    results: Path
    left: dict[str, float]
    first_min: int = 6
    plan_file: Path = Path("plan")
    site: Profile = field(default_factory=Profile)

    def text(self, allocation: str, minutes: int | None = None) -> str:
        return f"{self.left[allocation]} left"

    def left_s(self, allocation: str) -> float:
        return self.left.get(allocation, 0.0)

    def report(self) -> bool:
        return False

    def nodes(self, allocation: str) -> int:
        return int(allocation.partition("-")[0])

    def minutes(self, allocation: str, attempt: int = 1) -> int:
        return self.first_min * attempt

    def least_minutes(self, allocation: str) -> int:
        return 2

    def longest(self, allocation: str) -> None:
        """A repetition fits any job."""

    def settle(self, allocation: str) -> None: ...
