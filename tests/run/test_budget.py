"""limits.bytes_written against a target that is faster than the forecast assumes; the end of the job."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from campaign import document, read
from iosweep.errors import AllocationError, ExitCode
from iosweep.jobs.submission import JOB_RESERVE_S
from iosweep.plan.expand import make_plan
from iosweep.plan.forecast import repetition_needs
from iosweep.plan.model import Plan, Point
from iosweep.run.budget import Budget
from iosweep.store.record import TotalSpent

GIB = 1 << 30
#: Four points: 4 KiB in flight to 4 MiB in flight on one node; phases of 1 s.
SWEEP: dict[str, Any] = {
    "phases": ["seq_write"], "axes": {"transfer_size": ["4k", "1m"], "queue_depth": [1, 4]},
    "options": {"file_size": "16m"}, "phase_time": "1s",
}  # fmt: skip
#: One point that is limited by the node alone.
LARGE: dict[str, Any] = {"transfer_size": ["1m"], "queue_depth": [4]}


def plan_of(tmp_path: Path, limit: str, **sweep: Any) -> Plan:
    return make_plan(read(tmp_path, document(**SWEEP | sweep) | {"limits": {"bytes_written": limit}}))


class Run:
    """A run of a campaign whose points write at these rates, in bytes/s per node."""

    def __init__(self, plan: Plan, rates: Sequence[float], before: TotalSpent | None = None):
        self.kept: dict[str, TotalSpent] = {}
        store: Any = SimpleNamespace(
            put=lambda _folder, name, found: self.kept.update({name: found}), document=lambda _: before
        )
        self.plan, self.rates = plan, {p.id: rate for p, rate in zip(plan.points, rates, strict=True)}
        self.budget = Budget(plan, store, None, lambda _: None)
        self.measured: list[str] = []

    def repetition(self, point: Point) -> None:
        cost, began_s = repetition_needs(self.plan, point).cost, self.budget.clock_s()
        self.budget.allow_repetition(point.id, cost)
        self.measured.append(point.id)
        for step in point.steps:
            self.budget.written_bytes += int(self.rates[point.id] * point.nodes * (step.time_s or 0))
        self.budget.finished(point.id, cost, began_s)

    def _forever(self) -> None:
        while True:
            for point in self.plan.points:
                self.repetition(point)

    def until_refused(self) -> tuple[int, str]:
        """Bytes that were written, and why nothing more is."""
        with pytest.raises(AllocationError) as refused:
            self._forever()
        assert refused.value.code == ExitCode.LIMIT_SPENT
        self.budget.keep()
        return self.kept["spent"].bytes_written, str(refused.value)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(tmp_path_factory.mktemp("four"), "1g")


@given(st.lists(st.floats(0.05, 60), min_size=4, max_size=4), st.integers(5, 300))
def test_only_the_last_repetition_may_exceed_it_if_it_is_the_first_of_its_point(
    four: Plan, rates: list[float], limit: int
) -> None:
    limits = structs.replace(four.limits, bytes_written=limit * GIB)
    run = Run(structs.replace(four, limits=limits), [rate * GIB for rate in rates])
    written, _ = run.until_refused()
    first = run.measured.count(run.measured[-1]) == 1 if run.measured else False
    assert written - limit * GIB <= (run.rates[run.measured[-1]] if first else 0)


def test_the_next_run_goes_on_from_what_was_written(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "40g", axes=LARGE)
    first = Run(plan, [16 * GIB])
    first.repetition(plan.points[0])
    first.budget.keep()
    assert Run(plan, [16 * GIB], first.kept["spent"]).until_refused()[0] == 32 * GIB


def test_the_end_of_a_job_does_not_part_what_is_side_by_side(four: Plan) -> None:
    point, store = four.points[0], SimpleNamespace(document=lambda _: None)
    cost = repetition_needs(four, point).cost
    job: Any = SimpleNamespace(id="7", ends=time.time() + JOB_RESERVE_S + 1.5 * cost.time_s)
    budget = Budget(four, store, job, print)  # type: ignore[arg-type]
    budget.allow_repetition(point.id, cost, cost.time_s)  # of a job too short for both, which would never begin
    budget.finished(point.id, cost, budget.clock_s())
    budget.allow_repetition(point.id, cost)
    with pytest.raises(AllocationError) as refused:
        budget.allow_repetition(point.id, cost, cost.time_s)
    assert refused.value.code == ExitCode.JOB_OVER
