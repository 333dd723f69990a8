"""Which CPUs WEKA keeps on this node, from its command, its mounts and its cgroups.

Pure functions parse what is read; only `find` reads the node.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from iosweep.errors import Unanswered
from iosweep.node.cpus import CpuSet, Topology, listed, parsed
from iosweep.node.node_facts import ReservedSource
from iosweep.node.process import without_token
from iosweep.node.procfs import text
from iosweep.node.reserved import FAILED, Reserved, resolve
from iosweep.text import printable, some

#: The core id of a core that WEKA chooses itself.
_AUTOMATIC = 4294967295
#: Deadline of one question to WEKA; after it no further question is asked.
DEADLINE_S = 5.0
#: Names of protocol containers; they own no core and have no such resources.
_PROTOCOLS = re.compile(r"(ganesha|samba|smb|smbw|s3|envoy|nfs|nfsw|dataserv)\d*$")

Ask = Callable[[Sequence[str]], str]


def find(topology: Topology, configured: str | None, root: Path = Path("/"), ask: Ask | None = None) -> Reserved:
    """The reserved CPUs of this node. `configured`: the key `cpus.reserved`.

    `ask` runs a command of WEKA's and returns its output; it raises Unanswered, or FileNotFoundError without WEKA.
    """
    mounted = mounts(text(root / "proc/mounts") or "")
    confined = cgroups(root, topology.cpus)
    try:
        asked = _ask_weka(ask or ask_weka)
    except FileNotFoundError:
        asked = []
    except Unanswered as error:
        unmounted = re.search(r"^wekafs", text(root / "proc/modules") or "", re.MULTILINE) and not mounted
        asked = [_unasked("weka local ps", None if unmounted else "", error)]
    else:  # what a mount does not say, WEKA has said
        mounted = [one for one in mounted if one.cpus is not None]
    return resolve(topology, [*asked, *mounted, *confined], configured)


def _ask_weka(ask: Ask) -> list[ReservedSource]:
    """The CPUs of its containers. Raises what `ask` raises if the containers cannot be listed."""
    end = time.monotonic() + DEADLINE_S

    def asked(*words: str) -> str:
        if time.monotonic() > end:
            raise Unanswered(f"WEKA took more than {DEADLINE_S:g} s")
        return ask(["weka", "local", *words])

    found = containers(asked("ps"))
    sources = [] if found else [ReservedSource("weka local ps", "", "no container is here")]
    for container, state in found:
        name, words = f"weka local resources -C {container}", ("resources", "-C", container, "--stable")
        if _PROTOCOLS.match(container):
            continue
        if state.lower() == "stopped":
            sources.append(ReservedSource(name, "", "the container is stopped: reserves none"))
            continue
        try:
            sources += resources(name, asked(*words, "-J"))
        except (Unanswered, ValueError) as error:
            sources.append(_unasked(name, None, error))
    return sources


def _unasked(name: str, cpus: str | None, error: Exception) -> ReservedSource:
    return ReservedSource(name, cpus, f"{FAILED}{error}")


def ask_weka(argv: Sequence[str]) -> str:
    """The output of a command of WEKA's. Raises Unanswered, FileNotFoundError."""
    if not shutil.which(argv[0]):
        raise FileNotFoundError(argv[0])
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
            env={**without_token(), "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"no answer within {DEADLINE_S:g} s") from None
    except OSError as error:
        raise Unanswered(str(error.strerror)) from None
    if done.returncode:
        reason = next((line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()), "no reason")
        raise Unanswered(f"exit code {done.returncode}, {printable(reason)[:200]}")
    return done.stdout


def containers(text: str) -> list[tuple[str, str]]:
    """The output of `weka local ps` -> name and state of each container (`client0`, `Running`)."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [(printable(row[0]), row[1] if row[1:] else "") for row in rows if row[0] not in ("CONTAINER", "NAME")]


def resources(name: str, text: str) -> list[ReservedSource]:
    """The output of `weka local resources -C <container> --stable -J`. Raises ValueError."""
    document = msgspec.json.decode(text)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict):
        raise ValueError("its resources have no `nodes`")
    fixed, automatic, shared = Counter[str](), Counter[str](), Counter[str]()
    cores = set()
    for node in nodes.values():
        roles = "+".join(str(role) for role in node.get("roles") or ()) or "?"
        core = int(node.get("core_id", _AUTOMATIC))
        dedicated = node.get("dedicate_core", roles != "MANAGEMENT")
        if not dedicated or str(node.get("dedicated_mode") or "FULL").upper() == "NONE":
            shared[roles] += roles != "MANAGEMENT"
        elif core == _AUTOMATIC:
            automatic[roles] += 1
        else:
            fixed[roles] += 1
            cores.add(core)
    sources = []
    if fixed:
        sources.append(ReservedSource(name, listed(cores), f"{_counted(fixed)}, dedicated"))
    if automatic:
        says = f"{_counted(automatic)}, dedicated, which WEKA chooses itself (automatic)"
        sources.append(ReservedSource(name, None, says))
    if not sources:
        says = f"{_counted(shared)}, not dedicated" if shared.total() else "no core of its own"
        sources.append(ReservedSource(name, "", f"{says}: reserves none"))
    return sources


def _counted(roles: Counter[str]) -> str:
    """`4 FRONTEND cores`, `1 COMPUTE and 2 DRIVES cores`"""
    counts = " and ".join(f"{count} {role}" for role, count in sorted(roles.items()) if count)
    return f"{counts} core{'s' if roles.total() > 1 else ''}"


def mounts(text: str) -> list[ReservedSource]:
    """What WEKA's lines of /proc/mounts say of CPUs, those that say the same together."""
    found: dict[tuple[str | None, str], list[str]] = {}
    for line in text.splitlines():
        if len(words := line.split(" ")) >= 4 and words[2] == "wekafs":
            found.setdefault(_of_options(words[3]), []).append(printable(words[1]))
    return [ReservedSource(f"/proc/mounts {some(where, 1)}", *said) for said, where in found.items()]


def _of_options(options: str) -> tuple[str | None, str]:
    """The CPUs that mount options name, None where they do not, and the options."""
    pairs = [(name, value) for name, _, value in (one.partition("=") for one in options.split(","))]
    given = dict(pairs)
    for name, value in (("net", "udp"), ("dedicated_mode", "none"), ("num_cores", "0")):
        if given.get(name, "").lower() == value:
            return "", f"{name}={value}: reserves none"
    cores = [value for name, value in pairs if name == "core"]
    if cores and all(value.isdecimal() for value in cores):
        return listed(map(int, cores)), ",".join(f"core={value}" for value in cores)
    if "num_cores" in given:
        return None, f"num_cores={given['num_cores']}, and not which"
    return None, "does not say which cores, or that it owns none (net=udp)"


def cgroups(root: Path, online: CpuSet) -> list[ReservedSource]:
    """The CPUs that cgroups (v1 or v2) confine WEKA to."""
    top = root / "sys/fs/cgroup"
    found: dict[Path, ReservedSource] = {}
    for folder in (top / "cpuset", top, top / "unified", top / "system.slice", top / "unified/system.slice"):
        for group in (g for pattern in ("weka*", "weka*/*") for g in sorted(folder.glob(pattern)) if g.is_dir()):
            cpus = parsed(_cpuset(group))
            if cpus and group not in found and not (online and cpus >= online):  # else it confines nothing
                own = listed(cpus)
                found[group] = ReservedSource(f"/{group.relative_to(root)}", own, f"its cpuset is {own}")
    return list(found.values())


def _cpuset(group: Path) -> str | None:
    """The CPUs of a cgroup; None where it has no set of its own: what is effective then is its parent's."""
    if text(group / "cpuset.cpus") == "":
        return None
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    return next(filter(None, (text(group / name) for name in names)), None)
