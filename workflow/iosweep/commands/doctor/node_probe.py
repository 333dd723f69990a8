"""The doctor's program on each node: prints facts, then answers with its clock until its input ends.

Python gets its text with -c, after that of slurm/fan_out.py, so that it also runs where the package is missing, which
is one of the things to find out. It uses the standard library only, until it tries the package.

Input: lines, each with a number from 1. Output: message 0 with the facts, then one with the time of this node's clock
for each line.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

#: Time limits in seconds: of a probe, and for an answer of the target.
LIFE_S, TARGET_S = 55, 10
TMP = "/tmp"  # noqa: S108 - tools and MPI use it, regardless of TMPDIR
INFINIBAND = Path("/sys/class/infiniband")
#: Programs that a campaign starts.
_OURS = ("fio", "ior", "mdtest", "hydra_pmi_proxy")


class Shared(TypedDict):
    """A directory that should be shared. `same`: the login node's file is here; `locked`: its lock is seen here."""

    error: "str | None"
    same: bool
    locked: "bool | None"


class Package(TypedDict, total=False):
    """The package as jobs import it, or the error."""

    version: str
    file: "str | None"
    error: str


class Target(TypedDict, total=False):
    """A file system, or `error` and its `kind`: hangs, absent, denied, failed. `blind`: the package is missing.

    identity, lock_name: as target.filesystem has them.
    """

    identity: str
    lock_name: str
    writable: bool
    error: str
    kind: str
    blind: bool


class Found(TypedDict):
    """A program that PATH finds, and the first digits of its hash."""

    path: "str | None"
    sha256: "str | None"


class Temporary(TypedDict):
    """Free bytes in /tmp, and whether it can be written to."""

    free: int
    writable: bool


class Facts(TypedDict):
    """The facts of a node. Sizes are in bytes; a limit is None if there is none; `cpus`: node_facts.NodeFacts."""

    node: str
    host: str
    uid: int
    python: str
    package: Package
    places: list[Shared]
    lock: "bool | None"
    target: "Target | None"
    lock_on: "Target | None"
    programs: dict[str, Found]
    cpus: object
    limits: "dict[str, int | None]"
    infiniband: bool
    memory: dict[str, int]
    tmp: Temporary
    processes: list[str]


class Wanted(TypedDict):
    """The questions of ask_nodes.py. `token`: the text of the login node's files."""

    places: list[str]
    token: str
    lock: "str | None"
    target: "str | None"
    programs: list[str]
    search: "str | None"
    pinned: bool
    reserved: "str | None"


def places(wanted: list[str], token: str, node: str) -> list[Shared]:
    """Look for the files that were written elsewhere, and write one to be found elsewhere."""
    found: list[Shared] = []
    for place in map(Path, wanted):
        seen: Shared = {"error": None, "same": False, "locked": None}
        try:
            seen["same"] = (place / "here").read_text() == token
            (place / f"node-{node}").write_text(token)
            seen["locked"] = locked(place / "lock")
        except FileNotFoundError:
            pass
        except OSError as error:
            seen["error"] = f"{error.filename or place}: {error.strerror}"
        found.append(seen)
    return found


def locked(file: Path) -> "bool | None":
    """Whether another process holds the flock of a file; None where there is no file, or no lock."""
    try:
        with file.open("r+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def package() -> Package:
    """Import the package as jobs do."""
    try:
        import iosweep

        return {"version": iosweep.__version__, "file": iosweep.__file__}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def target(directory: str) -> Target:
    """Which file system it is on. A child looks, which can be abandoned if it hangs."""
    try:
        from iosweep.errors import Refused, TargetError, TargetHangs
        from iosweep.target import identify
        from iosweep.target.agent import Agent
    except Exception:
        return {"blind": True}
    try:
        with Agent(TARGET_S) as agent:
            facts = agent.call(identify.identify, directory)
        return {
            "identity": identify.identity(facts),
            "lock_name": identify.lock_name(facts),
            "writable": facts["writable"],
        }
    except TargetHangs as error:
        return {"error": str(error), "kind": "hangs"}
    except Refused as error:
        return {"error": str(error), "kind": "absent"}
    except TargetError as error:
        kinds = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ENOENT: "absent", errno.ENOTDIR: "absent"}
        return {"error": str(error), "kind": kinds.get(error.errno or 0, "failed")}


def programs(names: list[str], search: "str | None" = None) -> dict[str, Found]:
    """name -> what PATH, or `search` in place of it, finds."""
    found: dict[str, Found] = {}
    for name in names:
        path = shutil.which(name, path=search)
        digest = None
        with contextlib.suppress(OSError):
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12] if path else None
        found[name] = {"path": path, "sha256": digest}
    return found


def cpus(configured: "str | None") -> object:
    """This node's CPUs (node_facts.NodeFacts); None without the package. `configured`: cpus.reserved."""
    try:
        import msgspec

        from iosweep.node.collect_facts import of_cpus

        return msgspec.to_builtins(of_cpus(configured))
    except Exception:
        return None


def processes(ours: set[int]) -> list[str]:
    """Processes of this user that belong to a campaign, or that one left behind."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or int(entry.name) in ours or entry.stat().st_uid != os.getuid():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            name = Path(os.fsdecode(words[0])).name
            campaign = b"iosweep.target.agent" in words or (b"iosweep" in words and b"measure" in words)
            if name in _OURS or campaign:
                found.append(f"{'iosweep' if campaign else name} ({entry.name})")
    return found


def memory() -> dict[str, int]:
    """Total and available bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
    return {"total": values.get("MemTotal", 0), "available": values.get("MemAvailable", 0)}


def temporary() -> Temporary:
    space = os.statvfs(TMP)
    return {"free": space.f_bavail * space.f_frsize, "writable": os.access(TMP, os.W_OK | os.X_OK)}


def facts(wanted: Wanted) -> Facts:
    names = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    limits = {name: resource.getrlimit(number) for name, number in names.items()}
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    others = processes({os.getpid(), os.getppid()})  # before the agent is started
    return {
        "node": node,
        "host": socket.gethostname(),
        "uid": os.getuid(),
        "python": sys.executable,
        "package": package(),
        "places": places(wanted["places"], wanted["token"], node),
        "lock": locked(Path(wanted["lock"])) if wanted["lock"] else None,
        "target": target(wanted["target"]) if wanted["target"] else None,
        "lock_on": target(str(Path(wanted["lock"]).parent)) if wanted["lock"] else None,
        "programs": programs(wanted["programs"], wanted["search"]),
        "cpus": cpus(wanted["reserved"]) if wanted["pinned"] else None,
        "limits": {name: None if soft == resource.RLIM_INFINITY else soft for name, (soft, _) in limits.items()},
        "infiniband": INFINIBAND.is_dir() and any(INFINIBAND.iterdir()),
        "memory": memory(),
        "tmp": temporary(),
        "processes": others,
    }


def main(send: "Callable[[int, str, object], None]") -> None:
    """Send the facts, then the time for each line of input. `send`: fan_out.send."""
    signal.alarm(LIFE_S)
    task = os.environ.get("SLURM_PROCID", "0")
    send(0, task, facts(json.loads(sys.argv[1])))
    for line in sys.stdin:
        now = time.time()
        send(int(line), task, now)
