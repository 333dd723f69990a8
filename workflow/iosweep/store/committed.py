"""A committed repetition: what decides whether it counts, and the names of its files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from sys import intern

from iosweep.store.record import Archive, Record, Target

RESULT_FILE = re.compile(r"r([0-9]{3,6})-([0-9]{1,6})\.json\Z")


@dataclass(frozen=True, slots=True)
class Result:
    """What decides whether a committed repetition counts; `Store.records_of` gives the whole records.

    intact: the archive is there with the size that was committed. headlines: (phase, its headline figure or None);
    latencies, verdicts: of the same phases, mean latency in seconds or None, and the verdict that it got when it was
    measured. ran: its nodes, joined by commas, and its Slurm job.
    """

    point: str
    repetition: int
    attempt: int
    intact: bool
    raw: Archive
    tool_sha256: str
    target: Target
    bound: str | None  # how its ranks were bound (pinning.bound)
    retry: str | None  # why another try may help
    retried: bool  # it is that other try
    headlines: tuple[tuple[str, float | None], ...]
    latencies: tuple[float | None, ...] = ()
    verdicts: tuple[str, ...] = ()
    ran: tuple[str | None, str | None] = (None, None)


def tries_of(names: Iterable[str], repetition: int) -> list[int]:
    """The tries of a repetition that have a result of this name, in order."""
    return sorted(int(match[2]) for match in map(RESULT_FILE.match, names) if match and int(match[1]) == repetition)


def file_name(repetition: int, attempt: int, suffix: str) -> str:
    return f"r{repetition:03d}-{attempt}.{suffix}"


def figures_of(result: Result) -> int:
    return sum(value is not None for _, value in result.headlines) if result.intact else 0


def counting(last: Result | None, before: Result | None) -> Result | None:
    """Of the newest two tries of a repetition, the one that counts; None: neither. None stands for a try whose JSON is
    damaged, or that is not there.

    A second try that went worse than the disturbed first one does not count, and there is no third. A damaged one is no
    reason to go back: it is measured again, so its repetition has no outcome.
    """
    if last and last.intact and last.retried and before and figures_of(before) > figures_of(last):
        return replace(before, retried=True)
    return last


def result_of(record: Record, intact: bool) -> Result:
    return Result(
        record.point,
        record.repetition,
        record.attempt,
        intact,
        raw=record.raw,
        tool_sha256=record.tool.sha256,
        target=record.target,
        bound=record.bound,
        retry=record.retry,
        retried=record.retried,
        headlines=tuple((run.phase, run.headline) for run in record.phases),
        latencies=tuple(run.latency_mean_s for run in record.phases),
        verdicts=tuple(run.verdict for run in record.phases),
        ran=ran(record),
    )


def ran(record: Record) -> tuple[str, str | None]:
    """The nodes of a repetition, joined by commas, and its Slurm job. Thousands of results share these texts."""
    return intern(",".join(record.hosts or (record.host,))), intern(record.slurm.job) if record.slurm else None
