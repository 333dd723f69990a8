"""Directories for the lock that keeps a second campaign off a file system: tests run beside each other, and beside
people's campaigns, on one disk. In memory, because a lock must not be on the file system under test."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def _all() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="iosweep-locks-", dir="/dev/shm"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def own() -> str:
    """A directory that no other campaign has for its lock."""
    return tempfile.mkdtemp(dir=_all())
