"""What runs on each node for the doctor: says what it sees, then answers with its clock until its input ends.

Its text is given to Python with -c, so that it also runs where the package is not: that is one of the things to find
out. Standard library only, until it tries the package.

In: lines, each of them echoed with the time on this node's clock. Out: lines of less than 1,000 characters, for srun
mixes longer ones of several nodes: `<task> <piece>` of a JSON document, `<task> .` at its end, `<task> <line> <time>`.
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
from pathlib import Path
from typing import Any

#: A probe ends by itself, and a process that it waits for.
LIFE_S, TARGET_S = 55, 10
_PIECE = 700
TMP = "/tmp"  # noqa: S108 - tools and MPI use it, whatever TMPDIR says
INFINIBAND = Path("/sys/class/infiniband")
#: Programs that a campaign starts.
_OURS = ("fio", "ior", "mdtest", "hydra_pmi_proxy")


def places(wanted: list[str], token: str, node: str) -> list[dict[str, Any]]:
    """Whether what was written elsewhere is here, and a file to be found elsewhere."""
    found: list[dict[str, Any]] = []
    for place in map(Path, wanted):
        seen: dict[str, Any] = {"error": None, "same": False, "locked": None}
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


def package() -> dict[str, Any]:
    """The package, as jobs import it."""
    try:
        import iosweep

        return {"version": iosweep.__version__, "file": iosweep.__file__}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def target(directory: str) -> dict[str, Any]:
    """Which file system it is on, or `error` and its `kind`: hangs, absent, denied, failed.

    A child looks, which can be left alone if it never comes back.
    """
    try:
        from iosweep.errors import Refused, TargetError, TargetHangs
        from iosweep.target import target_lock
        from iosweep.target.agent import Agent
    except Exception:
        return {"blind": True}
    try:
        with Agent(TARGET_S) as agent:
            facts = agent.call("identify", directory)
        return {"identity": target_lock.identity(facts), "writable": facts["writable"]}
    except TargetHangs as error:
        return {"error": str(error), "kind": "hangs"}
    except Refused as error:
        return {"error": str(error), "kind": "absent"}
    except TargetError as error:
        kinds = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ENOENT: "absent", errno.ENOTDIR: "absent"}
        return {"error": str(error), "kind": kinds.get(error.errno or 0, "failed")}


def programs(names: list[str], search: "str | None" = None) -> dict[str, Any]:
    """name -> path and hash of what PATH, or `search` in place of it, finds."""
    found = {}
    for name in names:
        path = shutil.which(name, path=search)
        digest = None
        with contextlib.suppress(OSError):
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12] if path else None
        found[name] = {"path": path, "sha256": digest}
    return found


def cpus(configured: "str | None", told: "dict[str, Any] | None" = None) -> "dict[str, Any] | None":
    """This node's CPUs, and what is reserved of them; None without the package. `configured`: cpus.reserved.

    `told`: what cores_probe.controller returned elsewhere; without it the controller is asked from here.
    """
    try:
        from iosweep.node.cpu_probe import here

        return here(configured, told)
    except Exception:
        return None


def processes(ours: set[int]) -> list[str]:
    """Of this user: what a campaign runs, or has left behind."""
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


def temporary() -> dict[str, Any]:
    """Room in /tmp, and whether it can be written to."""
    space = os.statvfs(TMP)
    return {"free": space.f_bavail * space.f_frsize, "writable": os.access(TMP, os.W_OK | os.X_OK)}


def facts(wanted: dict[str, Any]) -> dict[str, Any]:
    """All that is seen here."""
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
        "cpus": cpus(wanted["reserved"], wanted["slurm"]) if wanted["pinned"] else None,
        "limits": {name: None if soft == resource.RLIM_INFINITY else soft for name, (soft, _) in limits.items()},
        "infiniband": INFINIBAND.is_dir() and any(INFINIBAND.iterdir()),
        "memory": memory(),
        "tmp": temporary(),
        "processes": others,
    }


def main() -> None:
    """Facts first, then the clock, as often as it is asked."""
    signal.alarm(LIFE_S)
    task = os.environ.get("SLURM_PROCID", "0")
    text = json.dumps(facts(json.loads(sys.argv[1])))
    for start in range(0, len(text), _PIECE):
        print(task, text[start : start + _PIECE])
    print(task, ".", flush=True)
    for line in sys.stdin:
        print(task, line.strip(), repr(time.time()), flush=True)


if __name__ == "__main__":
    main()
