"""The text in a lock: its holder, as JSON. Both the lock of the target and that of the results have one.

Any process may have written it: it explains a lock. Whether the process that it names has ended is decided by the
kernel's facts (`ended`), never by the text alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from pathlib import Path

from iosweep.node import procfs
from iosweep.slurm import job_comment, query
from iosweep.text import printable


@dataclass(frozen=True)
class Owner:
    """A holder by its own text, harmless on a terminal.

    machine: digest of the boot id. namespace, processes: its mount and its PID namespace. started: in clock ticks since
    the machine's start. Empty where unknown.
    """

    pid: str
    user: str
    host: str
    campaign: str
    results: str
    since: str
    machine: str
    namespace: str
    processes: str = ""
    started: str = ""
    job: str | None = None

    @property
    def here(self) -> bool:
        """Whether it was written on this machine since its last start: its flocks are the ones that we see."""
        return bool(machine()) and self.machine == machine()

    @property
    def short(self) -> str:
        return f"process {self.pid} on {self.host}" + (f" (job {self.job})" if self.job else "")

    def __str__(self) -> str:
        job = f"job {self.job}, " if self.job else ""
        apart = ", in a mount namespace of its own" if self.here and self.namespace != namespace("mnt") else ""
        return (
            f"{job}process {self.pid} of user {self.user} on host {self.host}{apart} (campaign {self.campaign},"
            f" results in {self.results}, since {self.since})"
        )


@dataclass(frozen=True)
class Observed:
    """This machine, and the process with the owner's id. `started`: empty if there is none, None if /proc hides when it
    started."""

    host: str
    machine: str
    processes: str
    started: str | None


def observe(pid: str) -> Observed:
    return Observed(_host(), machine(), namespace("pid"), _started(pid))


def ended(owner: Owner, seen: Observed) -> bool | None:
    """Whether the process that a lock names has ended; None where that cannot be seen from here. Pure."""
    if not owner.machine:
        return None
    if owner.machine != seen.machine:
        return True if owner.host == seen.host else None  # this machine has been restarted since
    if not owner.started or owner.processes != seen.processes or seen.started is None:
        return None
    return owner.started != seen.started


@cache
def machine() -> str:
    """A digest of the boot id: which machine, since its last start."""
    try:
        return hashlib.sha256(Path("/proc/sys/kernel/random/boot_id").read_bytes()).hexdigest()[:12]
    except OSError:
        return ""


def mine(about: Mapping[str, object]) -> bytes:
    """The text of this process. `about`: {campaign, results, and more for people who read it}."""
    uid, pid = os.getuid(), os.getpid()
    found = {
        "user": procfs.user_name(uid),
        "uid": uid,
        "pid": pid,
        "host": _host(),
        "machine": machine(),
        "namespace": namespace("mnt"),
        "processes": namespace("pid"),
        "started": _started(str(pid)) or "",
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    return json.dumps(found | dict(about)).encode()


def read(content: bytes) -> Owner | None:
    """The owner that a text names; None if the text is not one of ours."""
    try:
        found = json.loads(content.decode())  # of bytes json would guess the encoding
        job = str(found.get("job", ""))
        optional = {"processes": "", "started": ""}
        values = {field.name: _plain((optional | found)[field.name]) for field in fields(Owner) if field.name != "job"}
        return Owner(**values, job=job if re.fullmatch(r"[0-9]{1,12}", job) else None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def is_its_job(job: query.Job, owner: Owner) -> bool:
    """Whether a job, as Slurm shows it, measures the campaign that a text names.

    Its user, comment (from Snakemake) and working directory are Slurm's word. A text can still name a campaign that
    measures another file system, so what follows from it ends with that job.
    """
    return (
        job.user == owner.user
        and job_comment.is_of(job.comment, owner.campaign)
        and Path(job.directory).is_absolute()
        and Path(owner.results).is_relative_to(job.directory)
    )


def _host() -> str:
    return printable(socket.gethostname())


def _started(pid: str) -> str | None:
    """When a process started; empty if there is none, None if /proc hides it (hidepid)."""
    if not re.fullmatch("[0-9]{1,10}", pid):
        return ""
    stat = procfs.stat(pid)
    if len(stat) > 19:
        return "" if stat[0] in (b"Z", b"X") else stat[19].decode()
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return ""
    except (PermissionError, OverflowError):
        pass
    return None


def namespace(kind: str) -> str:
    """The number of one of our namespaces: of two mount namespaces, each may have a /tmp of its own."""
    try:
        return str(Path(f"/proc/self/ns/{kind}").readlink()).partition("[")[2].rstrip("]")
    except OSError:
        return ""


def _plain(value: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(value)[:200])
