"""What a node says of its CPUs, of WEKA's and of Slurm's part in them -> facts for weka_steps.py. It only reads.

As a program it prints these facts, for here.py: lines of less than 1,000 characters, for srun mixes longer ones of
several nodes: `<task> <piece>` of a JSON document.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iosweep.errors import Unanswered
from iosweep.node import reserved, weka
from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, parse
from iosweep.slurm import fan_out, query

Facts = dict[str, Any]
Ask = Callable[[Sequence[str], float], str]
#: Time limit for Slurm's answer on each node.
ANSWER_S = 5.0
_SAMPLE_S = 0.5
_ALLOWED = r"^Cpus_allowed_list:\s*(\S+)$"
SERVICE = "/etc/wekaio/service.conf"
_CONFIG = ("TaskPlugin", "ProctrackType", "SelectType", "ConstrainCores", "SchedulerParameters",
           "AllowSpecResourcesUsage", "SLURM_CONF")  # fmt: skip
_NODE = ("CPUTot", "CPUEfctv", "CoreSpecCount", "CPUSpecList", "Sockets", "CoresPerSocket", "ThreadsPerCore")


def gather(
    topology: Topology,
    found: reserved.Reserved,
    allowed: CpuSet,
    root: Path = Path("/"),
    told: Facts | None = None,
    sample_s: float = 0.0,
) -> Facts:
    """`allowed`: the CPUs that this process may use, in a job the job's. `told`: what `controller` returned; None: it
    was not asked. `sample_s`: how long to sample how busy the CPUs are; not at all if 0."""
    mounted = _read(root / "proc/mounts") or ""
    return {
        "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        **topology.facts(),
        "numa": [{"node": number, "cpus": listed(cpus)} for number, cpus in sorted(topology.numa.items())],
        **found.facts(),
        "cpus_allowed": listed(allowed),
        "in_job": "SLURM_JOB_ID" in os.environ,
        "isolate_cpusets": isolate_cpusets(_read(root / SERVICE[1:])),
        "nics": list(_nics(root)),
        "nets": weka.net_of_mounts(mounted),
        "cgroups": list(_cgroups(root)),
        "slurm": _slurm(root, told) if told else None,
        "busy": _busy(root, sample_s) if sample_s else None,
    }


def isolate_cpusets(text: str | None) -> str | None:
    """The value in WEKA's service.conf (spaces or not); "" without one, None without the file."""
    if text is None:
        return None
    values = re.findall(r"^\s*isolate_cpusets\s*[=:]\s*(\S*)", text, re.MULTILINE)
    return values[-1].strip("\"'").lower() if values else ""


def _nics(root: Path) -> Iterator[Facts]:
    """Interfaces with a device behind them, and which CPUs are near it."""
    for place in sorted((root / "sys/class/net").glob("*")):
        if (near := _read(place / "device/local_cpulist")) is not None:
            yield {
                "name": place.name,
                "up": (_read(place / "operstate") or "").strip() == "up",
                "mbit_per_s": _int(_read(place / "speed")),
                "numa_node": _int(_read(place / "device/numa_node")),
                "cpus": near.strip(),
            }


def _cgroups(root: Path) -> Iterator[Facts]:
    """The cpusets of Slurm's jobs, and of slurmd (cgroup v1: slurm/system), of either version."""
    top = root / "sys/fs/cgroup"
    patterns = (
        *("cpuset/slurm*/system", "cpuset/slurm*/uid_*/job_*", "cpuset/slurm/system/*"),
        *("system.slice/*slurmstepd.scope/job_*", "unified/system.slice/*slurmstepd.scope/job_*"),
        *("system.slice/slurmd.service", "system.slice/*slurmstepd.scope/system"),
    )
    for group in (group for pattern in patterns for group in sorted(top.glob(pattern))):
        own = _read(group / "cpuset.cpus")
        if own is not None and not own.strip():
            continue  # it has no set of its own
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            if text := (_read(group / name) or "").strip():
                yield {"path": f"/{group.relative_to(root)}", "job": group.name.startswith("job_"), "cpus": text}
                break


def controller(names: Sequence[str], ask: Ask) -> Facts | None:
    """What Slurm's controller says of itself and of some nodes, in two questions however many there are.

    {config, nodes: [[names, fields], ...]} with nodes that are alike together, and `error` where it does not answer;
    None where Slurm's commands have no cluster. `ask` runs a command of Slurm's with a deadline in seconds.
    """
    try:
        said = ask(["scontrol", "show", "config"], ANSWER_S)
    except Unanswered as error:
        return None if re.search("resolve_ctls_from_dns|configuration source", error.said) else {"error": str(error)}
    config = {m[1]: m[2].strip() for m in re.finditer(r"^(\S+)\s*= ?(.*)$", said, re.MULTILINE)}
    told: Facts = {"config": {k: config[k] for k in (*_CONFIG, "SlurmdPidFile") if k in config}, "nodes": []}
    try:
        lines = ask(["scontrol", "--oneliner", "show", "node", ",".join(names)], ANSWER_S).splitlines()
    except Unanswered as error:
        return told | {"error": str(error)}
    for node in map(query.fields, lines):
        kept = {key: node[key] for key in _NODE if key in node}
        alike = next((hosts for hosts, fields in told["nodes"] if fields == kept), None)
        if "NodeName" in node and alike is not None:
            alike.append(node["NodeName"])
        elif "NodeName" in node:
            told["nodes"].append([[node["NodeName"]], kept])
    return told


def node_name() -> str:
    """What Slurm calls this node; outside of a job its short host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def _slurm(root: Path, told: Facts) -> Facts:
    """What the controller says of this node, with what the node itself knows of Slurm; or why it does not."""
    if "config" not in told:
        return told
    name, config = node_name(), told["config"]
    found: Facts = {"name": name, "config": {k: config[k] for k in _CONFIG if k in config}, "line": None}
    found["slurmd"] = _slurmd(root, config.get("SlurmdPidFile", ""), name)
    found["node"] = next((fields for hosts, fields in told["nodes"] if name in hosts), None)
    if found["node"] is None:
        found["error"] = told.get("error", f"scontrol show node says nothing of {name}")
    file = config.get("SLURM_CONF", "/etc/slurm/slurm.conf")
    if text := _read(root / file.lstrip("/")):
        found["line"] = node_line(text, name)
    found["file"] = file
    return found


def _slurmd(root: Path, pid_file: str, name: str) -> str | None:
    """The CPUs that slurmd itself may use: scontrol of 22.05 does not show SlurmdOffSpec, though it has effect."""
    file = pid_file.replace("%n", name).replace("%h", name).lstrip("/")
    pid = (_read(root / file) or "").strip() if file else ""
    allowed = re.search(_ALLOWED, (_read(root / "proc" / pid / "status") or "") if pid else "", re.MULTILINE)
    return allowed[1] if allowed else None


def node_line(text: str, name: str) -> Facts | None:
    """What slurm.conf says of a node: {NodeName: as written, CpuSpecList, CoreSpecCount}, without what it does not."""
    defaults: Facts = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        fields = dict(re.findall(r"(?i)\b(NodeName|CpuSpecList|CoreSpecCount)\s*=\s*(\S+)", line.partition("#")[0]))
        said = {key: value for wanted in ("NodeName", "CpuSpecList", "CoreSpecCount")
                for key, value in ((wanted, v) for k, v in fields.items() if k.lower() == wanted.lower())}  # fmt: skip
        if not re.match(r"(?i)\s*NodeName\s*=", line):
            continue
        if said["NodeName"].upper() == "DEFAULT":
            defaults |= said
        elif covers(said["NodeName"], name):
            return defaults | said
    return None


def covers(hosts: str, name: str) -> bool:
    """Whether `n[1-2,07],m` names a node."""
    return any(_covers(one, name) for one in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hosts))


def _covers(pattern: str, name: str) -> bool:
    parts = re.split(r"\[([^\]]*)\]", pattern)
    wanted = "".join(re.escape(part) if k % 2 == 0 else r"(\d+)" for k, part in enumerate(parts))
    match = re.fullmatch(wanted, name)
    return match is not None and all(map(_within, parts[1::2], match.groups()))


def _within(ranges: str, digits: str) -> bool:
    for first, _, last in (part.partition("-") for part in ranges.split(",")):
        if len(digits) >= len(first) and int(first) <= int(digits) <= int(last or first):
            # as wide as it is written: n[01-10] has no n1
            return len(digits) == len(first) or (not first.startswith("0") and not digits.startswith("0"))
    return False


def _busy(root: Path, seconds: float) -> dict[str, float]:
    before = _ticks(root)
    time.sleep(seconds)
    return shares(before, _ticks(root))


def shares(before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]]) -> dict[str, float]:
    """CPU -> share of the time that it was not idle."""
    found = {}
    for cpu, (idle, total) in after.items():
        idle_before, total_before = before.get(cpu, (idle, total))
        if total > total_before:
            found[str(cpu)] = round(1 - (idle - idle_before) / (total - total_before), 3)
    return found


def _ticks(root: Path) -> dict[int, tuple[int, int]]:
    """CPU -> ticks that it was idle, and all."""
    found = {}
    for m in re.finditer(r"^cpu(\d+) (.*)$", _read(root / "proc/stat") or "", re.MULTILINE):
        ticks = [int(value) for value in m[2].split()[:8]]
        found[int(m[1])] = (ticks[3] + ticks[4], sum(ticks))
    return found


def _int(text: str | None) -> int | None:
    try:
        return int((text or "").strip())
    except ValueError:
        return None


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def here(configured: str | None, told: Facts | None = None) -> Facts:
    """The facts of the node that we are on; where CPUs are reserved it takes _SAMPLE_S. `told`: what `controller`
    returned; without it the controller is asked."""
    from iosweep.node.collect_facts import topology_of  # it imports weka_steps.py

    topology = topology_of(Path("/"))
    found = weka.find(topology, configured)
    allowed = re.search(_ALLOWED, _read(Path("/proc/self/status")) or "", re.MULTILINE)
    sample_s = 0.0 if found.cpus == NO_CPUS else _SAMPLE_S
    if told is None and shutil.which("scontrol"):
        told = controller([node_name()], query.ask)
    return gather(topology, found, parse(allowed[1]) if allowed else topology.cpus, told=told, sample_s=sample_s)


def main() -> None:
    """argv[1]: `cpus.reserved` and what `controller` returned, as JSON."""
    fan_out.send(0, os.environ.get("SLURM_PROCID", "0"), here(*json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
