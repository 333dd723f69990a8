"""Directories for the lock that keeps a second campaign off a file system: tests run beside each other, and beside
people's campaigns, on one disk. In memory, because a lock must not be on the file system under test."""

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from iosweep.target import target_lock

#: Holds the lock until its standard input ends; says what came of it. With a /tmp of its own, as a job has one with
#: job_container/tmpfs: mounted after the imports, since the interpreter may be below /tmp.
_HOLDER = """
import ctypes, json, subprocess, sys
from iosweep.errors import Busy
from iosweep.target import target_lock
prefix, facts, directory, private = sys.argv[1:]
target_lock.PREFIX = prefix
if private:
    assert ctypes.CDLL(None).unshare(0x20000) == 0  # CLONE_NEWNS
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp"], check=True)
try:
    with target_lock.hold(directory or None, json.loads(facts), {"campaign": "theirs", "results": "/r"}) as found:
        print(json.dumps([found.enforced, found.evidence]), flush=True)
        sys.stdin.read()
except Busy as busy:
    print(json.dumps([None, str(busy)]), flush=True)
"""


def named(identity: str) -> dict[str, object]:
    """Facts of a file system of this identity (filesystem.identity)."""
    fstype, _, source = identity.partition(" ")
    return {"fstype": fstype, "source": source, "fsid": "0", "mounted": source, "device": 0}


def hold(
    directory: str | None, identity: str, owner: Mapping[str, str | None], make: bool = True
) -> AbstractContextManager[target_lock.Exclusion]:
    """target_lock.hold of a file system of this identity."""
    return target_lock.hold(directory, named(identity), owner, make)


class Campaign:
    """Another campaign on a file system, in a process of its own. `within`: what goes before its command.

    `enforced`: whether others are kept off, None where it was refused; `said`: the evidence, or why.
    """

    def __init__(
        self,
        prefix: str,
        facts: Mapping[str, object],
        directory: str = "",
        private: bool = False,
        within: tuple[str, ...] = (),
    ) -> None:
        program = [sys.executable, "-c", _HOLDER, prefix, json.dumps(facts), directory, "private" * private]
        self.process = subprocess.Popen([*within, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.enforced, self.said = json.loads(self.process.stdout.readline())

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=300)


@cache
def _all() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="iosweep-locks-", dir="/dev/shm"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def own() -> str:
    """A directory that no other campaign has for its lock."""
    return tempfile.mkdtemp(dir=_all())


def left(pid: int | str = 7, host: str = "n1", job: str | None = None, **more: str) -> str:
    """The text that a campaign leaves in the lock of its results, of a machine that is not known."""
    known = {"pid": pid, "user": "ann", "host": host, "campaign": "c", "results": "/r/c", "since": "", "machine": ""}
    return json.dumps(known | {"namespace": "", "job": job} | more)
