"""Exceptions of other rooms as an AllocationError, which ends an allocation."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from iosweep.errors import (
    SERVER_ERRORS,
    AllocationError,
    Busy,
    Conflict,
    ExitCode,
    MeasuredElsewhere,
    Refused,
    TargetError,
    TargetHangs,
    Unanswered,
    Unusable,
    cause_of_number,
)
from iosweep.slurm import query


@contextmanager
def ending(job: query.Job | None) -> Iterator[None]:
    """Raise AllocationError for what ends an allocation; in a job, its message names the node where it happened."""
    first = job.hosts[:1] if job else ()
    try:
        yield
    except Busy as error:
        raise MeasuredElsewhere(ExitCode.REFUSED, str(error), after=error.job) from None
    except TargetHangs as error:
        where = f"on {first[0]}: " if first and not error.nodes else ""
        raise AllocationError(ExitCode.HANGS, f"{where}{error}", nodes=error.nodes or first) from None
    except TargetError as error:
        where = f"on {first[0]}: " if first and not error.node else ""
        nodes = ((error.node,) if error.node else first) if error.errno in SERVER_ERRORS else ()
        raise AllocationError(ExitCode.REFUSED, f"{where}{target_error(error)}", nodes=nodes) from None
    except Unanswered as error:
        raise AllocationError(ExitCode.REFUSED, str(error)) from None
    except Refused as error:
        raise AllocationError(ExitCode.REFUSED, str(error), lasting=error.lasting) from None
    except Conflict as error:
        raise AllocationError(ExitCode.REFUSED, f"pinning: {error}", lasting=error.lasting) from None
    except Unusable as error:
        raise AllocationError(ExitCode.REFUSED, str(error), lasting=True) from None
    except OSError as error:  # of the results' disk: errors of the target are TargetErrors
        raise AllocationError(ExitCode.STORE_FAILED, cannot_be_written(error), lasting=True) from None


def target_error(error: TargetError) -> str:
    """A sentence on an error of the target: what its number means, then the system's words."""
    known = cause_of_number(error.errno)
    return f"{known.text}: {error.strerror}" if known else str(error.strerror)


def cannot_be_written(error: OSError) -> str:
    """A sentence on an error of the disk that the results are on."""
    room = ": make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return (
        f"the results ({error.filename or 'on a disk of their own'}) cannot be written: {error.strerror or error}"
        f"{room}; what was stored before is on disk, and the next run goes on from there"
    )
