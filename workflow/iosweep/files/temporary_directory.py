"""Directories below the system's one for temporary files that go with the process, however it ends.

A process that is killed leaves its directory; the next one that makes one of this kind removes it, because a lock on
the directory tells whether its process lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A directory of this age in seconds has its lock, if its process lives.
_LOCKED_S = 60.0


@contextmanager
def made(kind: str) -> Iterator[Path]:
    """A new directory, removed at the end of the block. Raises OSError."""
    prefix = f"iosweep-{kind}-"
    _sweep(prefix)
    place = Path(tempfile.mkdtemp(prefix=prefix))
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(handle)


def _sweep(prefix: str) -> None:
    """Remove directories that killed processes of this user left."""
    with contextlib.suppress(OSError):
        for place in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                _remove_left(place)


def _remove_left(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        mine = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == stat.S_IRWXU
        if mine and time.time() - status.st_mtime > _LOCKED_S:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
    finally:
        os.close(handle)
