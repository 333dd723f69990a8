"""Whether limits.time, limits.bytes_written and the job leave room for the next step of an allocation."""

from __future__ import annotations

import time
from collections.abc import Callable

from iosweep.errors import AllocationError, ExitCode
from iosweep.files.documents import Damaged
from iosweep.jobs.submission import JOB_RESERVE_S
from iosweep.judge.remaining import set_rate
from iosweep.plan.forecast import Cost
from iosweep.plan.model import Plan
from iosweep.slurm import query
from iosweep.store.record import DataSet, TotalSpent
from iosweep.store.store import Store
from iosweep.units import human_duration, human_size

#: Least seconds between writes of spent.json. A kill loses what was spent since the last write.
_KEEP_S = 1.0


class Budget:
    """Time and bytes that all runs of a campaign have spent, compared with its limits and the end of the job.

    Raises AllocationError if there are limits, and the amounts spent by earlier runs are unknown.
    """

    def __init__(self, plan: Plan, store: Store, job: query.Job | None, note: Callable[[str], None]):
        self._plan, self._store, self._job, self._limits = plan, store, job, plan.limits
        self._began = self._kept = time.monotonic()
        self._expected_s = self._took_s = 0.0  # forecast and real time of the repetitions that ended
        try:
            self._before = store.document(TotalSpent) or TotalSpent(0.0)  # by earlier runs
        except Damaged as error:
            if plan.limits.time is not None or plan.limits.bytes_written is not None:
                unknown = "what limits.time and limits.bytes_written have counted so far is not known"
                wrong = f"{error}: {unknown}; remove the file to count from 0 again"
                raise AllocationError(ExitCode.REFUSED, wrong, lasting=True) from None
            note(f"{error}; it counts from 0 again")
            self._before = TotalSpent(0.0)
        self.written_bytes = 0  # by steps that ended
        self.in_flight_bytes = 0  # forecast of the step that runs; it stays if the step does not end
        self.prepared_bytes = 0  # for data sets, including failed attempts
        self.prepared_s = 0.0
        self._began_bytes = 0  # written_bytes when the current repetition began
        self._most_bytes: dict[str, int] = {}  # point -> most bytes that one of its repetitions wrote in this run

    def keep(self) -> None:
        """Store the time and bytes spent. Results do not tell: some are superseded, and a run may end without any."""
        self._store.put("", "spent", TotalSpent(round(self._spent_s(), 3), self._written()))
        self._kept = time.monotonic()

    def clock_s(self) -> float:
        """Seconds of a clock that stops while data sets are prepared, because these would distort the pace."""
        return time.monotonic() - self.prepared_s

    def finished(self, point: str, cost: Cost, began_s: float) -> None:
        """A repetition of a point ended; `began_s`: clock_s() when it began."""
        written = self.written_bytes - self._began_bytes
        self._most_bytes[point] = max(written, self._most_bytes.get(point, 0))
        self._expected_s, self._took_s = self._expected_s + cost.time_s, self._took_s + self.clock_s() - began_s
        if time.monotonic() - self._kept > _KEEP_S:  # a file that is synced takes longer than a short repetition
            self.keep()

    def allow_repetition(self, point: str, cost: Cost) -> None:
        """Raise AllocationError if the next repetition of a point does not fit into limits or the job."""
        pace = max(1.0, self._took_s / self._expected_s) if self._expected_s else 1.0  # real time / forecast
        self._fits_job("next repetition", cost.time_s * pace)
        limit, spent_s = self._limits.time, self._spent_s()
        if limit is not None and spent_s + cost.time_s > limit:
            raise AllocationError(
                ExitCode.LIMIT_SPENT,
                f"limits.time {human_duration(limit)} is spent: {human_duration(spent_s)} are used, and the next"
                f" repetition takes {human_duration(cost.time_s)}; raise it, and the next run goes on from there",
                lasting=True,
            )
        self._fits_bytes("repetition may write", max(cost.bytes_written, self._most_bytes.get(point, 0)))
        self._began_bytes = self.written_bytes

    def allow_second_try(self, cost: Cost) -> None:
        """Raise AllocationError if a repetition that a server spoiled cannot be tried again in this job."""
        self._fits_job("second try", cost.time_s)
        self._fits_bytes("try may write", cost.bytes_written)

    def allow_data_set(self, size: int) -> None:
        """Raise AllocationError if a data set does not fit into limits.bytes_written or the job.

        A job that has done nothing yet writes the set in any case: the next job may have no more time. Otherwise it is
        left to the next job, which would have to start over if this job ended before the set is complete.
        """
        self._fits_bytes("data set has", size)
        if self._took_s or self.prepared_s:
            rate = set_rate(self._store.documents(DataSet), self._plan.target.node_bandwidth)
            self._fits_job("next data set", size / rate)

    def _written(self) -> int:
        """Bytes that the campaign has written to the target."""
        return self._before.bytes_written + self.prepared_bytes + self.written_bytes + self.in_flight_bytes

    def _spent_s(self) -> float:
        return self._before.spent_s + time.monotonic() - self._began

    def _fits_job(self, what: str, time_s: float) -> None:
        if self._job and self._job.ends is not None:
            rest_s = self._job.ends - time.time()
            if rest_s - JOB_RESERVE_S < time_s:
                raise AllocationError(
                    ExitCode.JOB_OVER,
                    f"job {self._job.id} ends in {human_duration(max(0.0, rest_s))}, too soon for the {what}"
                    f" ({human_duration(time_s)}); another job goes on from there",
                )

    def _fits_bytes(self, what: str, size: int) -> None:
        """Raise AllocationError if `size` more bytes exceed limits.bytes_written. `what`: subject and verb.

        The bytes of a timed phase are a forecast: a phase that is faster than forecast, and than in all earlier
        repetitions, may exceed the limit by the difference.
        """
        limit, written = self._limits.bytes_written, self._written()
        if size and limit is not None and written + size > limit:
            raise AllocationError(
                ExitCode.LIMIT_SPENT,
                f"limits.bytes_written {human_size(limit)} is spent: {human_size(written)} were written, and the next"
                f" {what} {human_size(size)}; raise it, and the next run goes on from there",
                lasting=True,
            )
