"""What a fault is, and the table of all of them."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import mounts
from faults.case import SWEEP, Case, Run

#: What is done while the runner runs.
Meanwhile = Callable[[Run], None]
#: Before its `yield`: what is there when the runner starts. After it: what mends that, so that the next run completes.
Happening = Generator[Meanwhile | None, None, None]
Happen = Callable[[Case], Happening]


class Fault(NamedTuple):
    """`happen`s to a case whose target is on a file system `on`.

    still: it leaves what is outside the campaign's directory as it is, and to be seen. mpi: it is about ranks.
    """

    happen: Happen
    on: Callable[[Path], AbstractContextManager[None]]
    sweep: dict[str, Any]
    target: dict[str, Any]
    limits: dict[str, Any]
    still: bool
    mpi: bool


#: key in fault_outcomes.tsv -> fault
FAULTS: dict[str, Fault] = {}


def fault(
    on: Callable[[Path], AbstractContextManager[None]] = mounts.ext4,
    sweep: dict[str, Any] = SWEEP,
    target: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    still: bool = True,
    mpi: bool = False,
) -> Callable[[Happen], Happen]:
    """Register a fault under its function's name, with dashes. `target` and `limits` are added to the case's."""

    def register(happen: Happen) -> Happen:
        key = happen.__name__.replace("_", "-")
        assert key not in FAULTS
        FAULTS[key] = Fault(happen, on, sweep, target or {}, limits or {}, still, mpi)
        return happen

    return register
