"""Checks that the next step of an allocation fits limits.time, limits.bytes_written and the time left in the job."""

from __future__ import annotations

import time
from collections.abc import Callable

from iosweep.errors import AllocationError, ExitCode
from iosweep.files.documents import Damaged
from iosweep.jobs.submission import JOB_RESERVE_S
from iosweep.plan.forecast import Cost
from iosweep.plan.model import Plan
from iosweep.slurm import query
from iosweep.store.record import TotalSpent
from iosweep.store.store import Store
from iosweep.units import human_duration, human_size

#: Minimum interval between writes of spent.json, in seconds. A kill loses the amounts since the last write.
_SAVE_S = 1.0


class Budget:
    """Tracks the time and bytes that all runs of a campaign spend, and enforces its limits and the end of the job.

    Raises AllocationError if there are limits, but the amounts that earlier runs spent are unknown.
    """

    def __init__(self, plan: Plan, store: Store, job: query.Job | None, note: Callable[[str], None]):
        self._store, self._job, self._limits = store, job, plan.limits
        self._start = self._saved = time.monotonic()
        self._expected_s = self._actual_s = 0.0  # forecast and actual time of completed repetitions
        try:
            self._earlier = store.document(TotalSpent) or TotalSpent(0.0)  # by earlier runs
        except Damaged as error:
            if plan.limits.time is not None or plan.limits.bytes_written is not None:
                consequence = "what limits.time and limits.bytes_written have counted so far is not known"
                message = f"{error}: {consequence}; remove the file to count from 0 again"
                raise AllocationError(ExitCode.REFUSED, message, lasting=True) from None
            note(f"{error}; it counts from 0 again")
            self._earlier = TotalSpent(0.0)
        self.written_bytes = 0  # by completed steps
        self.in_flight_bytes = 0  # forecast of the running step; it still counts if the step is interrupted
        self.prepared_bytes = 0  # for data sets, including failed attempts
        self.prepared_s = 0.0
        self._start_bytes = 0  # written_bytes when the current repetition began
        self._max_bytes: dict[str, int] = {}  # point -> most bytes that one of its repetitions wrote in this run

    def keep(self) -> None:
        """Store the time and bytes spent. Results do not show them: some are superseded, some runs have none."""
        self._store.put("", "spent", TotalSpent(round(self._spent_s(), 3), self._spent_bytes()))
        self._saved = time.monotonic()

    def clock_s(self) -> float:
        """The time of a clock that stops while data sets are prepared, because that would distort the pace."""
        return time.monotonic() - self.prepared_s

    def finished(self, point: str, cost: Cost, start_s: float) -> None:
        """Count a completed repetition of a point; `start_s`: clock_s() at its start."""
        written = self.written_bytes - self._start_bytes
        self._max_bytes[point] = max(written, self._max_bytes.get(point, 0))
        self._expected_s, self._actual_s = self._expected_s + cost.time_s, self._actual_s + self.clock_s() - start_s
        if time.monotonic() - self._saved > _SAVE_S:  # a sync may take longer than a short repetition
            self.keep()

    def allow_repetition(self, point: str, cost: Cost, beside_s: float = 0.0) -> None:
        """Raise AllocationError if the next repetition of a point does not fit into limits or the job.

        beside_s: forecast of what is measured right after it. Parts in two jobs would not compare, but a job that has
        done nothing yet begins in any case: the next one may be no longer.
        """
        pace = max(1.0, self._actual_s / self._expected_s) if self._expected_s else 1.0  # actual time / forecast
        self._check_job("next repetition", (cost.time_s + (beside_s if self._expected_s else 0.0)) * pace)
        limit, spent_s = self._limits.time, self._spent_s()
        if limit is not None and spent_s + cost.time_s > limit:
            raise AllocationError(
                ExitCode.LIMIT_SPENT,
                f"limits.time {human_duration(limit)} is spent: {human_duration(spent_s)} are used, and the next"
                f" repetition takes {human_duration(cost.time_s)}; raise it, and the next run goes on from there",
                lasting=True,
            )
        self._check_bytes("repetition may write", max(cost.bytes_written, self._max_bytes.get(point, 0)))
        self._start_bytes = self.written_bytes

    def allow_second_try(self, cost: Cost) -> None:
        """Raise AllocationError if this job has no room to retry a repetition that failed because of a server."""
        self._check_job("second try", cost.time_s)
        self._check_bytes("try may write", cost.bytes_written)

    def allow_data_set(self, size: int, rate: float) -> None:
        """Raise AllocationError if a data set does not fit into limits.bytes_written or the job. `rate`: in bytes/s.

        A job that has done nothing yet writes the set in any case: the next job may be no longer. Otherwise the next
        job writes it: a set that this job could not complete would have to be written again.
        """
        self._check_bytes("data set has", size)
        if self._actual_s or self.prepared_s:
            self._check_job("next data set", size / rate)

    def _spent_bytes(self) -> int:
        """Bytes that the campaign has written to the target."""
        return self._earlier.bytes_written + self.prepared_bytes + self.written_bytes + self.in_flight_bytes

    def _spent_s(self) -> float:
        return self._earlier.spent_s + time.monotonic() - self._start

    def _check_job(self, subject: str, time_s: float) -> None:
        if self._job and self._job.ends is not None:
            remaining_s = self._job.ends - time.time()
            if remaining_s - JOB_RESERVE_S < time_s:
                raise AllocationError(
                    ExitCode.JOB_OVER,
                    f"job {self._job.id} ends in {human_duration(max(0.0, remaining_s))}, too soon for the {subject}"
                    f" ({human_duration(time_s)}); another job goes on from there",
                )

    def _check_bytes(self, what: str, size: int) -> None:
        """Raise AllocationError if `size` more bytes exceed limits.bytes_written. `what`: subject and verb.

        The bytes of a timed phase are a forecast: a phase that is faster than forecast, and than in all earlier
        repetitions, may exceed the limit by the difference.
        """
        limit, written = self._limits.bytes_written, self._spent_bytes()
        if size and limit is not None and written + size > limit:
            raise AllocationError(
                ExitCode.LIMIT_SPENT,
                f"limits.bytes_written {human_size(limit)} is spent: {human_size(written)} were written, and the next"
                f" {what} {human_size(size)}; raise it, and the next run goes on from there",
                lasting=True,
            )
