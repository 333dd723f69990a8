"""Why something failed, by the system's own message in its output: ENOSPC, EROFS ... Pure."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """`text`: for the user. `curable`: another try may help without any change.

    `server`: the file system's server, or the connection to it, failed. `node`: a limit of the node, or the end of our
    own process there, which says nothing about the target. `full`: the target takes no more data.
    """

    text: str
    curable: bool = False
    server: bool = False
    node: bool = False
    full: bool = False

    @property
    def elsewhere(self) -> bool:
        """Whether the failure says nothing about what was measured."""
        return self.server or self.node


def _node(text: str) -> Cause:
    return Cause(text, curable=True, node=True)


def _server(text: str) -> Cause:
    return Cause(text, curable=True, server=True)


#: In order of precedence: the first that is found counts.
_CAUSES = {
    errno.EDQUOT: Cause("a quota on the target is used up", full=True),
    errno.ENOSPC: Cause("the target is full (space or inodes)", full=True),
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
#: What our agent and fio 3.33 say in place of the system's message.
AGENT_ENDED = "the agent ended by itself"
_SAID = {
    AGENT_ENDED: _node("the process that starts the tools was ended from outside"),
    "try reducing/setting openfiles": _CAUSES[errno.EMFILE],
    "job startup hung? exiting": _CAUSES[errno.EAGAIN],
}


#: Slurm reads MPI's requests in lines of at most 1,024 bytes, and those of an MPI for PMI-1 may be longer.
_PMI = "value not properly terminated in client request"
_PMI_CAUSE = Cause(
    "Slurm's PMI and this MPI do not fit each other: take the launcher mpiexec, or an MPI built for PMI-2"
)


def cause(text: str) -> Cause | None:
    """The cause that a text names: a message of the C library, fio's `err=28/`, or a message of Slurm's PMI."""
    if _PMI in text:
        return _PMI_CAUSE
    numbers = {int(number) for number in re.findall(r"\berr=(\d+)/", text)}
    known = (known for number, known in _CAUSES.items() if number in numbers or os.strerror(number) in text)
    return next(known, None) or next((known for words, known in _SAID.items() if words in text), None)


def of_number(number: int | None) -> Cause | None:
    """The cause that an error number names, or None."""
    return _CAUSES.get(number) if number else None


def named(reason: str) -> bool:
    """Whether a reason begins with a known cause, as checks.exit_status writes it."""
    return reason.startswith(_TEXTS)


#: The same of a file system whose files are each on some of its servers: df may show space that is on the others.
_OF_SEVERAL = Cause(f"{_CAUSES[errno.ENOSPC].text}, or one of its servers is", full=True)


def of_several_servers(known: Cause | None) -> Cause | None:
    """The same cause, as it is on a file system that may have several servers."""
    return _OF_SEVERAL if known is _CAUSES[errno.ENOSPC] else known


_TEXTS = tuple(f"{known.text}: " for known in (*_CAUSES.values(), *_SAID.values(), _PMI_CAUSE, _OF_SEVERAL))
