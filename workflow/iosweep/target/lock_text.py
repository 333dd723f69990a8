"""What the holder of a lock says about itself. Any process may have written it: it explains a lock, and is none."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from iosweep.slurm import query


@dataclass(frozen=True)
class Owner:
    """A holder of a lock by its own text, harmless on a terminal. `machine`, `namespace`: as `mine` has them."""

    pid: str
    user: str
    host: str
    campaign: str
    results: str
    since: str
    machine: str
    namespace: str
    job: str | None = None

    @property
    def here(self) -> bool:
        """Whether it was written on this machine since it was started: its flocks are the ones that we see."""
        return bool(machine()) and self.machine == machine()

    def __str__(self) -> str:
        job = f"job {self.job}, " if self.job else ""
        apart = ", in a mount namespace of its own" if self.here and self.namespace != namespace() else ""
        return (
            f"{job}process {self.pid} of user {self.user} on host {self.host}{apart} (campaign {self.campaign},"
            f" results in {self.results}, since {self.since})"
        )


@cache
def machine() -> str:
    """A digest of the boot id: which machine, since its last start."""
    try:
        return hashlib.sha256(Path("/proc/sys/kernel/random/boot_id").read_bytes()).hexdigest()[:12]
    except OSError:
        return ""


def namespace() -> str:
    """The number of our mount namespace: of two processes with different ones, each may have a /tmp of its own."""
    try:
        return str(Path("/proc/self/ns/mnt").readlink())[5:-1]
    except OSError:
        return ""


def user_name(uid: int) -> str:
    """The name of a user, or the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def mine(identity: str, owner: Mapping[str, Any]) -> bytes:
    """Our own text."""
    uid = os.getuid()
    found = {
        "user": user_name(uid),
        "uid": uid,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "machine": machine(),
        "namespace": namespace(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "file system": identity,
    }
    return json.dumps(found | dict(owner)).encode()


def read(content: bytes) -> Owner | None:
    """Who wrote a text; None where it is not one of ours."""
    try:
        found = json.loads(content.decode())  # of bytes json would guess the encoding
        job = str(found.get("job", ""))
        said = {field.name: _plain(found[field.name]) for field in fields(Owner) if field.name != "job"}
        return Owner(**said, job=job if re.fullmatch(r"[0-9]{1,12}", job) else None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def with_kernels(owner: Owner, pid: str, user: str) -> Owner:
    """The same with process and user as the kernel has them."""
    return replace(owner, pid=pid, user=user)


def is_its_job(job: query.Job, owner: Owner) -> bool:
    """Whether a job, as Slurm shows it, measures the campaign that a text names.

    Its user, comment (from Snakemake) and working directory are Slurm's word. A text can still name a campaign that
    measures another file system, so what follows from it ends with that job.
    """
    return (
        job.user == owner.user
        and job.comment.startswith(f"rule_measure_wildcards_{owner.campaign}_")
        and Path(job.directory).is_absolute()
        and Path(owner.results).is_relative_to(job.directory)
    )


def _plain(value: Any) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(value)[:200])
