"""Why something failed, as far as the system's own words tell: ENOSPC, EROFS ... in what was printed. Pure."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """`text` for the user; `curable`: another try may help although nobody does anything about it."""

    text: str
    curable: bool = False


#: In the order in which they are looked for: the first that is found is told.
_CAUSES = {
    errno.EDQUOT: Cause("a quota on the target is used up"),
    errno.ENOSPC: Cause("the target is full (space or inodes)"),
    errno.EROFS: Cause("the target is read-only"),
    errno.ENOTCONN: Cause("the target's file system server is gone", curable=True),
    errno.ESTALE: Cause("the target's server does not know its own files any more", curable=True),
    errno.ETIMEDOUT: Cause("the target's server did not answer in time", curable=True),
    errno.EIO: Cause("the target reports an I/O error"),
    errno.EACCES: Cause("permission on the target is lacking"),
    errno.EPERM: Cause("permission on the target is lacking"),
    errno.EMFILE: Cause("too many files are open (ulimit -n)"),
    errno.ENFILE: Cause("too many files are open on this node"),
    errno.ENOMEM: Cause("the node's memory is used up"),
}


#: Slurm reads MPI's requests in lines of at most 1,024 bytes, and those of an MPI for PMI-1 may be longer.
_PMI = "value not properly terminated in client request"
_PMI_CAUSE = Cause(
    "Slurm's PMI and this MPI do not fit each other: take the launcher mpiexec, or an MPI built for PMI-2"
)


def cause(text: str) -> Cause | None:
    """The cause that a text tells: in the C library's words for an error number, as fio's `err=28/`, or as Slurm's."""
    if _PMI in text:
        return _PMI_CAUSE
    numbers = {int(number) for number in re.findall(r"\berr=(\d+)/", text)}
    return next((told for number, told in _CAUSES.items() if number in numbers or os.strerror(number) in text), None)
