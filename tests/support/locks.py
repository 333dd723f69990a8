"""Directories for the lock that keeps a second campaign off a file system: tests run beside each other, and beside
people's campaigns, on one disk. In memory, because a lock must not be on the file system under test."""

import atexit
import json
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


def left(pid: int | str = 7, host: str = "n1", job: str = "") -> str:
    """The text that a campaign leaves in a lock."""
    known = {"pid": str(pid), "user": "ann", "host": host, "campaign": "c", "results": "/r/c", "since": "then"}
    return json.dumps(known | {"job": job, "allocation": ""})
