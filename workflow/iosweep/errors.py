"""The exceptions that rooms raise to each other, and the problems of a file that a user wrote.

The message of an exception is for the user and is not parsed: what code decides by is a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from iosweep.text import printable, shortened


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file. `line` counts from 1, 0: there are no lines; `where` is the dotted path of the
    key."""

    file: str
    line: int
    where: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{shortened(self.where, 120)}: " if self.where else ""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return printable(f"{place}: {where}{self.message}" + (f"; {self.remedy}" if self.remedy else ""))


class Obstacle(NamedTuple):
    """What is wrong, and what to do about it; `remedy` is empty if that is not known."""

    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


#: Problems that a message has lines for: a generated file may have one on each of its lines.
_MOST_LINES = 100


class ConfigError(Exception):
    """Everything that is wrong with a configuration, at once. The message has the first hundred problems."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        lines = [str(p) for p in problems[:_MOST_LINES]]
        if more := len(problems) - len(lines):
            lines.append(f"and {more:,} more")
        super().__init__("\n".join(lines))


class Unanswered(Exception):
    """A command of Slurm or WEKA gave no answer.

    `said`: the command's own words about it, empty if the command did not start or did not end in time.
    """

    def __init__(self, message: str, said: str = ""):
        self.said = said
        super().__init__(message)


class Busy(Exception):
    """Another process measures the same campaign or file system. `job`: its Slurm job, if it has one."""

    def __init__(self, message: str, job: str | None = None):
        self.job = job
        super().__init__(message)


class Unusable(Exception):
    """A file or directory that the user named cannot be used: a profile, the directory of locks, the built tools."""

    def __init__(self, what: str, remedy: str = ""):
        self.obstacle = Obstacle(what, remedy)
        super().__init__(str(self.obstacle))


class BuildError(Exception):
    """The tools cannot be built. The message is a sentence with the next step."""


class Refused(Exception):
    """Something on the target is not ours, or is not as required. `lasting`: another job would meet it, too."""

    def __init__(self, message: str, lasting: bool = True):
        self.lasting = lasting
        super().__init__(message)


class Conflict(Exception):
    """Ranks cannot be bound to CPUs that are not reserved. `lasting`: it is so on every node."""

    def __init__(self, message: str, lasting: bool):
        self.lasting = lasting
        super().__init__(message)


class TargetHangs(Exception):
    """The target did not answer in time. `nodes`: where, if known."""

    def __init__(self, message: str, nodes: Sequence[str] = ()):
        self.nodes = tuple(nodes)
        super().__init__(message)


class TargetError(OSError):
    """The target, or a program that was to be started, failed. `node`: where, if not on the first node."""

    node = ""


class ExitCode(IntEnum):
    """Exit codes of `iosweep measure`. 0: every repetition has an outcome, failures included.

    After JOB_OVER and LOST another job continues where this one ended.
    """

    REFUSED = 3
    HANGS = 4
    STORE_FAILED = 5
    OUT_OF_TIME = 6
    JOB_OVER = 7
    LOST = 8
    INTERRUPTED = 130


class AllocationError(Exception):
    """An allocation cannot continue.

    `lasting`: another job could not either, until the cause is removed. `after`: the Slurm job that must end first.
    `nodes`: nodes at fault, which another job should not be given.
    """

    def __init__(
        self,
        code: ExitCode,
        message: str,
        lasting: bool = False,
        after: str | None = None,
        nodes: Sequence[str] = (),
    ):
        self.code, self.lasting, self.after, self.nodes = code, lasting, after, tuple(nodes)
        super().__init__(message)


class LeftBehind(AllocationError):
    """Processes of a tool hang in the target and cannot be killed: nothing more is tried there."""


class MeasuredElsewhere(AllocationError):
    """Another process measures the same campaign or file system, which is no lack of the allocation."""


class CommandError(Exception):
    """A command cannot do what it was asked to do."""

    def __init__(self, message: str, exit_code: int = 1):
        self.exit_code = exit_code
        super().__init__(message)
