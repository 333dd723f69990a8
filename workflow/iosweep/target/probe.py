"""Whether the campaign's directory on the target can be worked in: a file is written there, read back, and removed.

This runs inside the agent.
"""

from __future__ import annotations

import contextlib
import errno
import os

from iosweep.errors import Refused
from iosweep.target.accounts import user
from iosweep.target.handle import Opened, Place, gone
from iosweep.target.ownership import DENIED, PROBE, clear_probes

#: The size of a probe: file systems keep the data of smaller files with their metadata (Lustre: up to 1 MiB as a rule).
_PROBE_BYTES = 1 << 20


def state(place: Place, node: str = "", data: bool = True) -> str | None:
    """Why the campaign's directory cannot be worked in any more, or None. A lack of space, or a limit on
    the size of files, is not such a reason.

    A small file is written to stable storage and read back: an empty one needs no data server. `node`: goes into its
    name, because all nodes look at the same time. `data`: False makes an empty file instead. Raises OSError for other
    errors of the file system.
    """
    directory = place.directory
    try:
        ours = Opened(place)
    except (FileNotFoundError, NotADirectoryError):
        return gone(place)
    except PermissionError:
        return _denied(directory)
    except Refused as error:
        return str(error)
    with ours:
        try:
            _probe(ours.handle, f"{PROBE}.{node}" if node else PROBE, os.urandom(_PROBE_BYTES if data else 0))
            return None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # EFBIG: a limit on the size of files
                return None
            if error.errno == errno.EROFS:
                return f"the target is read-only now: nothing can be written to {directory}"
            if error.errno in DENIED:
                return _denied(directory)
            raise


def remove_probes(place: Place) -> None:
    """Remove probes that a kill has left in the campaign's directory."""
    with Opened(place, use="remove") as ours:
        clear_probes(ours.handle)


def _probe(handle: int, name: str, content: bytes) -> None:
    """Write a file to stable storage, read it back past this node's cache as far as that can be had, remove it."""
    with contextlib.suppress(FileNotFoundError):  # left by a kill
        os.unlink(name, dir_fd=handle)
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=handle)
    try:
        try:
            done = 0
            while done < len(content):
                done += os.write(file, content[done:])
            if content:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            done = 0
            while part := os.pread(file, len(content), done):
                if part != content[done : done + len(part)]:
                    break
                done += len(part)
            if done != len(content):
                raise OSError(errno.EIO, f"of {len(content)} bytes, {done} are read back as they were written", name)
        finally:
            os.close(file)
    finally:
        os.unlink(name, dir_fd=handle)


def _denied(directory: str) -> str:
    return f"{directory} cannot be written to any more by {user(os.getuid())}"
