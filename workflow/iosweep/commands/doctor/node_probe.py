"""The doctor's program on each node: sends its facts.

Python gets its text with -c, after that of slurm/fan_out.py, so that it also runs where the package is missing, which
is one of the things to find out. It uses the standard library only, until it tries the package.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

#: Time limits in seconds: of a probe, and for an answer of the target.
LIFE_S, TARGET_S = 55, 10


class Shared(TypedDict):
    """A directory that should be shared. `same`: the login node's file is here."""

    error: "str | None"
    same: bool


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


class Facts(TypedDict):
    """The facts of a node. `lock`: whether the login node's lock is seen; `cpus`: node_facts.NodeFacts."""

    node: str
    python: str
    package: Package
    places: list[Shared]
    lock: "bool | None"
    target: "Target | None"
    lock_on: "Target | None"
    programs: dict[str, Found]
    cpus: object


def places(wanted: list[str], token: str, node: str) -> list[Shared]:
    """Look for the files that were written elsewhere, and write one to be found elsewhere."""
    found: list[Shared] = []
    for place in map(Path, wanted):
        seen: Shared = {"error": None, "same": False}
        try:
            seen["same"] = (place / "here").read_text() == token
            (place / f"node-{node}").write_text(token)
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


def facts(wanted: "dict[str, Any]") -> Facts:
    """`wanted`: the fields of judge_nodes.Asked, with the directories that were made in its places, and the text of the
    files there (token)."""
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    return {
        "node": node,
        "python": sys.executable,
        "package": package(),
        "places": places(wanted["places"], wanted["token"], node),
        "lock": locked(Path(wanted["lock"])) if wanted["lock"] else None,
        "target": target(wanted["target"]) if wanted["target"] else None,
        "lock_on": target(str(Path(wanted["lock"]).parent)) if wanted["lock"] else None,
        "programs": programs([*wanted["programs"]] or ["fio", "ior", "mdtest"], wanted["search"] or None),
        "cpus": cpus(wanted["reserved"]) if wanted["pinned"] else None,
    }


def main(send: "Callable[[int, str, object], None]") -> None:
    """`send`: fan_out.send."""
    signal.alarm(LIFE_S)
    send(0, os.environ.get("SLURM_PROCID", "0"), facts(json.loads(sys.argv[1])))
