"""Which CPUs WEKA keeps on this node, from its command, its mounts and its cgroups.

Pure functions parse what is read; only `find` reads the node.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from iosweep.errors import Unanswered
from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, parsed
from iosweep.node.kernel_files import text
from iosweep.node.process import without_token
from iosweep.node.reserved import FAILED, Reserved, Source, resolve, with_configured
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
    mounted = text(root / "proc/mounts") or ""
    named, silent = mounts(mounted), silent_mounts(mounted)
    sources = [*named, *cgroups(root, topology.cpus)]
    loaded = re.search(r"^wekafs", text(root / "proc/modules") or "", re.MULTILINE)
    try:
        sources = [*_ask_weka(ask or ask_weka), *sources]
    except FileNotFoundError:
        pass
    except Unanswered as error:
        uses_cores = silent or (loaded and not named) or any(s.kind == "cgroup" for s in sources)
        sources = [_unasked("weka local ps", None if uses_cores else NO_CPUS, error), *sources]
    else:
        silent = []  # what a mount does not say, WEKA has said
    unclear = "does not say which cores, or that it owns none (net=udp)"
    sources += [Source("mount", name, None, unclear, 1) for name in silent]
    return resolve(topology, with_configured(sources, configured))


def _ask_weka(ask: Ask) -> list[Source]:
    """The CPUs of its containers. Raises what `ask` raises if the containers cannot be listed."""
    end = time.monotonic() + DEADLINE_S

    def asked(*words: str) -> str:
        if time.monotonic() > end:
            raise Unanswered(f"WEKA took more than {DEADLINE_S:g} s")
        return ask(["weka", "local", *words])

    found = containers(asked("ps"))
    sources = [] if found else [Source("weka", "weka local ps", NO_CPUS, "no container is here")]
    for container, state in found:
        name, words = f"weka local resources -C {container}", ("resources", "-C", container, "--stable")
        if _PROTOCOLS.match(container):
            continue
        if state.lower() == "stopped":
            sources.append(Source("weka", name, NO_CPUS, "the container is stopped: reserves none"))
            continue
        try:
            try:
                sources += resources(name, asked(*words, "-J"))
            except (Unanswered, ValueError):  # an old one, without JSON
                sources += resources_text(name, asked(*words))
        except (Unanswered, ValueError) as error:
            sources.append(_unasked(name, None, error))
    return sources


def _unasked(name: str, cpus: CpuSet | None, error: Exception) -> Source:
    return Source("weka", name, cpus, f"{FAILED}{error}", 1, failed=True)


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


def resources(name: str, text: str) -> list[Source]:
    """The output of `weka local resources -C <container> --stable -J`. Raises ValueError."""
    document = orjson.loads(text)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict):
        raise ValueError("its resources have no `nodes`")
    rows = []
    for node in nodes.values():
        roles = "+".join(str(role) for role in node.get("roles") or ()) or "?"
        dedicated = node.get("dedicate_core", roles != "MANAGEMENT")
        shared = str(node.get("dedicated_mode") or "FULL").upper() == "NONE"
        rows.append((roles, int(node.get("core_id", _AUTOMATIC)), bool(dedicated) and not shared))
    return _of_rows(name, rows)


def resources_text(name: str, text: str) -> list[Source]:
    """The same without -J: a table `ROLES  NODE ID  CORE ID`. It does not show which cores are dedicated: all but
    MANAGEMENT count as dedicated. Raises ValueError."""
    _, there, table = text.partition("ROLES")
    if not there:
        raise ValueError("its resources have no table of ROLES")
    rows = []
    for m in re.finditer(r"^[ \t]*([A-Z][A-Z, +]*?)[ \t]+\d+[ \t]+(<auto>|auto|\d+)(?=\s|$)", table, re.MULTILINE):
        roles = "+".join(re.findall("[A-Z]+", m[1]))
        rows.append((roles, int(m[2]) if m[2].isdigit() else _AUTOMATIC, roles != "MANAGEMENT"))
    return _of_rows(name, rows)


def _of_rows(name: str, rows: Sequence[tuple[str, int, bool]]) -> list[Source]:
    """(roles, core, whether it is dedicated) of each process of a container."""
    kept = [(roles, core) for roles, core, dedicated in rows if dedicated]
    fixed = [(roles, core) for roles, core in kept if core != _AUTOMATIC]
    automatic = [(roles, core) for roles, core in kept if core == _AUTOMATIC]
    if not kept:
        others = Counter(roles for roles, _, _ in rows if roles != "MANAGEMENT")
        says = f"{_counted(others)}, not dedicated" if others else "no core of its own"
        return [Source("weka", name, NO_CPUS, f"{says}: reserves none")]
    sources = []
    if fixed:
        says = f"{_counted(Counter(roles for roles, _ in fixed))}, dedicated"
        sources.append(Source("weka", name, frozenset(core for _, core in fixed), says))
    if automatic:
        says = f"{_counted(Counter(roles for roles, _ in automatic))}, dedicated, which WEKA chooses itself (automatic)"
        sources.append(Source("weka", name, None, says, len(automatic)))
    return sources


def _counted(roles: Mapping[str, int]) -> str:
    """`4 FRONTEND cores`, `1 COMPUTE and 2 DRIVES cores`"""
    counts = " and ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"{counts} core{'s' if sum(roles.values()) > 1 else ''}"


def mounts(text: str) -> list[Source]:
    """The CPUs that WEKA's lines of /proc/mounts name; lines without cores are `silent_mounts`."""
    found: dict[tuple[CpuSet | None, str, int], list[str]] = {}
    for directory, options in _mounts(text):
        if kept := _of_options(options):
            found.setdefault(kept, []).append(directory)
    return [Source("mount", _of_mounts(where), cpus, says, least) for (cpus, says, least), where in found.items()]


def silent_mounts(text: str) -> list[str]:
    """The source name of the mounts that name no cores: one name, or none."""
    where = [directory for directory, options in _mounts(text) if not _of_options(options)]
    return [_of_mounts(where)] if where else []


def net_of_mounts(text: str) -> list[str]:
    """The network interfaces that mounts of WEKA name (`net=ib0`)."""
    nets = [value.partition("/")[0] for _, options in _mounts(text) for key, value in options if key == "net"]
    return list(dict.fromkeys(net for net in nets if net and net != "udp"))


def _mounts(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for line in text.splitlines():
        if len(words := line.split(" ")) >= 4 and words[2] == "wekafs":
            yield printable(words[1]), [(o.partition("=")[0], o.partition("=")[2]) for o in words[3].split(",")]


def _of_mounts(directories: Sequence[str]) -> str:
    return f"/proc/mounts {some(directories, 1)}"


def _of_options(options: Sequence[tuple[str, str]]) -> tuple[CpuSet | None, str, int] | None:
    given = dict(options)
    if given.get("net") == "udp":
        return NO_CPUS, "net=udp: reserves none", 0
    if given.get("dedicated_mode", "").lower() == "none":
        return NO_CPUS, "dedicated_mode=none: reserves none", 0
    cores = [value for key, value in options if key == "core"]
    if cores and all(value.isdecimal() for value in cores):
        says = ",".join(f"core={value}" for value in cores)
        return frozenset(map(int, cores)), says if len(cores) <= 8 else f"{len(cores)} times core=", 0
    number = given.get("num_cores", "")
    if number.isdecimal() and not int(number):
        return NO_CPUS, "num_cores=0: reserves none", 0
    if number.isdecimal() or cores:
        says = f"num_cores={number}" if number else f"core={cores[0]}"
        return None, f"{says}, and not which", int(number or len(cores))
    return None


def cgroups(root: Path, online: CpuSet) -> list[Source]:
    """The CPUs that cgroups (v1 or v2) confine WEKA to."""
    top = root / "sys/fs/cgroup"
    found: dict[Path, Source] = {}
    for folder in (top / "cpuset", top, top / "unified", top / "system.slice", top / "unified/system.slice"):
        for group in (g for pattern in ("weka*", "weka*/*") for g in sorted(folder.glob(pattern)) if g.is_dir()):
            cpus = parsed(cpuset(group))
            if cpus and group not in found and not (online and cpus >= online):  # else it confines nothing
                found[group] = Source("cgroup", f"/{group.relative_to(root)}", cpus, f"its cpuset is {listed(cpus)}")
    return list(found.values())


def cpuset(group: Path) -> str | None:
    """The CPUs of a cgroup; None where it has no set of its own: what is effective then is its parent's."""
    if text(group / "cpuset.cpus") == "":
        return None
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    return next(filter(None, (text(group / name) for name in names)), None)
