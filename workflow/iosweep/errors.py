"""The exceptions that rooms raise to each other, the problems of a user's file, and known causes of failures.

The message of an exception is for the user and is not parsed: what code decides by is a field.
"""

from __future__ import annotations

import errno
import os
import re
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
    """What is wrong, and what to do about it; `remedy` is empty if that is not known. `lasting`: another attempt would
    meet it, too. `key`: of the configuration, if it is not the target's directory (Config.target_problem)."""

    what: str
    remedy: str = ""
    lasting: bool = True
    key: str = "directory"

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
    """Something on the target is not ours, or it or the CPUs of nodes are not as required. `lasting`: another job
    would meet it, too."""

    def __init__(self, message: str, lasting: bool = True):
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
    """Exit codes of commands. 0: done, all is well; 1: something is wrong, as `run` of the command says; `accept`
    has 3 if something is undecided. Of `measure`, 0: every repetition has an outcome, failures included; after JOB_OVER
    and LOST another job continues."""

    USAGE = 2  # wrong arguments, or nothing that the command can work on
    REFUSED = 3
    HANGS = 4
    STORE_FAILED = 5
    LIMIT_SPENT = 6
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


# Why something failed, by the message of the system in the output


@dataclass(frozen=True)
class Cause:
    """`text`: for the user. `retry`: another try may help without any change.

    `server`: the file system's server, or the connection to it, failed. `node`: a limit of the node, or the end of our
    own process there, which says nothing about the target. `full`: the target takes no more data.
    """

    text: str
    retry: bool = False
    server: bool = False
    node: bool = False
    full: bool = False

    @property
    def elsewhere(self) -> bool:
        """Whether the failure says nothing about what was measured."""
        return self.server or self.node


def _node(text: str) -> Cause:
    return Cause(text, retry=True, node=True)


def _server(text: str) -> Cause:
    return Cause(text, retry=True, server=True)


#: In order of precedence: the first that is found counts.
_CAUSES = {
    errno.EDQUOT: Cause("a quota on the target is used up", full=True),
    errno.ENOSPC: Cause("the target, or one of its servers, is full (space or inodes)", full=True),
    errno.EROFS: Cause("the target is read-only"),
    errno.ENOTCONN: _server("the target's client or server is gone"),
    errno.ESHUTDOWN: _server("the target's server has cut this node off"),
    errno.ESTALE: _server("the target's server does not know its own files any more"),
    errno.ETIMEDOUT: _server("the target's server did not answer in time"),
    errno.ECONNABORTED: _server("the target's file system client was ended while a request was in flight"),
    errno.ECONNRESET: _server("the target's server closed the connection"),
    errno.EHOSTUNREACH: _server("the target's server cannot be reached"),
    errno.EHOSTDOWN: _server("the target's server is down"),
    errno.ENXIO: _server("a data server of the target cannot be reached"),
    errno.EIO: Cause("the target reports an I/O error"),
    errno.EACCES: Cause("permission on the target is lacking"),
    errno.EPERM: Cause("permission on the target is lacking"),
    errno.EMFILE: _node("too many files are open (ulimit -n; files_per_thread is what one worker of fio opens)"),
    errno.ENFILE: _node("too many files are open on this node"),
    errno.ENOMEM: _node("the node's memory is used up"),
    errno.EAGAIN: _node("no more processes, threads or asynchronous I/Os may be started here (ulimit -u, pids.max)"),
}
#: Error numbers about the file system's server, not about the file that was asked for.
SERVER_ERRORS = frozenset({errno.EIO, *(number for number, known in _CAUSES.items() if known.server)})
#: What our agent, fio 3.33 and Slurm's PMI say in place of the system's message. (Slurm reads lines of MPI of
#: at most 1,024 bytes, and those of an MPI for PMI-1 may be longer.)
AGENT_ENDED = "the agent ended by itself"
_SAID = {
    "value not properly terminated in client request": Cause(
        "Slurm's PMI and this MPI do not fit each other: take the launcher mpiexec, or an MPI built for PMI-2"
    ),
    AGENT_ENDED: _node("the process that starts the tools was ended from outside"),
    "try reducing/setting openfiles": _CAUSES[errno.EMFILE],
    "job startup hung? exiting": _CAUSES[errno.EAGAIN],
}

_TEXTS = tuple(f"{known.text}: " for known in (*_CAUSES.values(), *_SAID.values()))


def cause(text: str) -> Cause | None:
    """The cause that a text names: a message of the C library, fio's `err=28/`, or a message of Slurm's PMI."""
    if said := next((known for words, known in _SAID.items() if words in text), None):
        return said
    numbers = {int(number) for number in re.findall(r"\berr=(\d+)/", text)}
    return next((c for number, c in _CAUSES.items() if number in numbers or os.strerror(number) in text), None)


def cause_of_number(number: int | None) -> Cause | None:
    """The cause that an error number names, or None."""
    return _CAUSES.get(number) if number else None


def names_cause(reason: str) -> bool:
    """Whether a reason begins with a known cause, as checks.exit_status writes it."""
    return reason.startswith(_TEXTS)
