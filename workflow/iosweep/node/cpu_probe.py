"""Reads what a node's kernel, WEKA and Slurm say of its CPUs, for weka_steps.py.

As a program it prints that as JSON (fan_out.py) for `iosweep doctor` in an allocation.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from iosweep.errors import Unanswered
from iosweep.hostlist import folded
from iosweep.node import hardware, reserved, weka
from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, parse
from iosweep.node.kernel_files import field, text
from iosweep.node.node_facts import NumaNode
from iosweep.node.probe_record import Controller, Cpuset, Probe, SlurmFacts
from iosweep.slurm import fan_out, query, words

Ask = Callable[[Sequence[str], float], str]
#: Time limit for Slurm's answer on each node.
ANSWER_S = 5.0
_SAMPLE_S = 0.5
SERVICE = "/etc/wekaio/service.conf"
_CONFIG = ("TaskPlugin", "ProctrackType", "SelectType", "ConstrainCores", "SchedulerParameters",
           "AllowSpecResourcesUsage", "SLURM_CONF")  # fmt: skip
_NODE = ("CPUTot", "CPUEfctv", "CoreSpecCount", "CPUSpecList", "Sockets", "CoresPerSocket", "ThreadsPerCore")


def gather(
    topology: Topology,
    found: reserved.Reserved,
    allowed: CpuSet,
    root: Path = Path("/"),
    controller: Controller | None = None,
    sample_s: float = 0.0,
) -> Probe:
    """`allowed`: the CPUs that this process may use. `controller`: what Slurm's says, None if it was not asked.

    `sample_s`: how long to sample how busy the CPUs are; not at all if 0.
    """
    return Probe(
        host=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        **topology.facts(),
        numa=tuple(NumaNode(number, listed(cpus)) for number, cpus in sorted(topology.numa.items())),
        reserved_cpus=found.listed,
        reserved_sources=found.stored(),
        cpus_allowed=listed(allowed),
        in_job="SLURM_JOB_ID" in os.environ,
        isolate_cpusets=isolate_cpusets(text(root / SERVICE[1:])),
        nics=tuple(hardware.interfaces(root)),
        nets=tuple(weka.net_of_mounts(text(root / "proc/mounts") or "")),
        cgroups=tuple(_cgroups(root)),
        slurm=_slurm(root, controller) if controller else None,
        busy=_busy(root, sample_s) if sample_s else None,
    )


def isolate_cpusets(service: str | None) -> str | None:
    """The value in WEKA's service.conf (spaces or not); "" without one, None without the file."""
    if service is None:
        return None
    values = re.findall(r"^\s*isolate_cpusets\s*[=:]\s*(\S*)", service, re.MULTILINE)
    return values[-1].strip("\"'").lower() if values else ""


def _cgroups(root: Path) -> Iterator[Cpuset]:
    """The cpusets of Slurm's jobs, and of slurmd (cgroup v1: slurm/system), of either version."""
    top = root / "sys/fs/cgroup"
    patterns = (
        *("cpuset/slurm*/system", "cpuset/slurm*/uid_*/job_*", "cpuset/slurm/system/*"),
        *("system.slice/*slurmstepd.scope/job_*", "unified/system.slice/*slurmstepd.scope/job_*"),
        *("system.slice/slurmd.service", "system.slice/*slurmstepd.scope/system"),
    )
    for group in (group for pattern in patterns for group in sorted(top.glob(pattern))):
        if cpus := weka.cpuset(group):
            yield Cpuset(f"/{group.relative_to(root)}", cpus)


def controller(names: Sequence[str], ask: Ask) -> Controller | None:
    """What Slurm's controller says of some nodes, in two questions however many there are; None without a cluster.

    `ask` runs a command of Slurm's with a deadline in seconds.
    """
    try:
        printed = ask(["scontrol", "show", "config"], ANSWER_S)
    except Unanswered as error:
        return None if words.has_no_cluster(error.said) else Controller(error=str(error))
    found = {m[1]: m[2].strip() for m in re.finditer(r"^(\S+)\s*= ?(.*)$", printed, re.MULTILINE)}
    config = {key: found[key] for key in (*_CONFIG, "SlurmdPidFile") if key in found}
    try:
        lines = ask(["scontrol", "--oneliner", "show", "node", folded(names)], ANSWER_S).splitlines()
    except Unanswered as error:
        return Controller(config, error=str(error), refused=bool(error.said))
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in map(query.fields, lines):
        if "NodeName" in node:
            alike.setdefault(tuple((key, node[key]) for key in _NODE if key in node), []).append(node["NodeName"])
    return Controller(config, tuple((tuple(hosts), dict(fields)) for fields, hosts in alike.items()))


def node_name() -> str:
    """What Slurm calls this node; outside of a job its short host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def _slurm(root: Path, controller: Controller) -> SlurmFacts:
    """What the controller says of this node, with what the node itself knows of Slurm; or why it does not."""
    if controller.config is None:
        return SlurmFacts(error=controller.error)
    name, config = node_name(), controller.config
    node = next((fields for hosts, fields in controller.nodes if name in hosts), None)
    file = config.get("SLURM_CONF", "/etc/slurm/slurm.conf")
    conf = text(root / file.lstrip("/"))
    return SlurmFacts(
        name=name,
        config={key: value for key, value in config.items() if key in _CONFIG},
        node=node,
        error="" if node else controller.error or f"scontrol show node says nothing of {name}",
        unknown=node is None and controller.refused,
        file=file,
        line=node_line(conf, name) if conf else None,
        slurmd=_slurmd(root, config.get("SlurmdPidFile", ""), name),
    )


def _slurmd(root: Path, pid_file: str, name: str) -> str | None:
    """The CPUs that slurmd itself may use: scontrol of 22.05 does not show SlurmdOffSpec, though it has effect."""
    file = pid_file.replace("%n", name).replace("%h", name).lstrip("/")
    pid = text(root / file) if file else None
    return field(root / "proc" / pid / "status", "Cpus_allowed_list") if pid else None


def node_line(conf: str, name: str) -> dict[str, str] | None:
    """What slurm.conf says of a node: {NodeName: as written, CpuSpecList, CoreSpecCount}, without what it does not."""
    keys = {key.lower(): key for key in ("NodeName", "CpuSpecList", "CoreSpecCount")}
    defaults: dict[str, str] = {}
    for line in conf.replace("\\\n", " ").splitlines():
        given = re.findall(rf"(?i)\b({'|'.join(keys)})\s*=\s*(\S+)", line.partition("#")[0])
        found = {keys[key.lower()]: value for key, value in given}
        if not re.match(r"(?i)\s*NodeName\s*=", line):
            continue
        if found["NodeName"].upper() == "DEFAULT":
            defaults |= found
        elif covers(found["NodeName"], name):
            return defaults | found
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
    for m in re.finditer(r"^cpu(\d+) (.*)$", text(root / "proc/stat") or "", re.MULTILINE):
        ticks = [int(value) for value in m[2].split()[:8]]
        found[int(m[1])] = (ticks[3] + ticks[4], sum(ticks))
    return found


def probe_here(configured: str | None, known: Controller | None = None) -> Probe:
    """The node that we are on; where CPUs are reserved it takes _SAMPLE_S. `known`: what `controller` returned
    elsewhere; without it the controller is asked."""
    topology = hardware.topology()
    found = weka.find(topology, configured)
    allowed = field(Path("/proc/self/status"), "Cpus_allowed_list")
    sample_s = 0.0 if found.cpus == NO_CPUS else _SAMPLE_S
    if known is None and shutil.which("scontrol"):
        known = controller([node_name()], query.ask)
    of_process = parse(allowed) if allowed else topology.cpus
    return gather(topology, found, of_process, controller=known, sample_s=sample_s)


def main() -> None:
    """argv[1]: `cpus.reserved` and what `controller` returned, as JSON."""
    configured, known = msgspec.json.decode(sys.argv[1], type=tuple[str | None, Controller | None])
    fan_out.send(0, os.environ.get("SLURM_PROCID", "0"), msgspec.to_builtins(probe_here(configured, known)))


if __name__ == "__main__":
    main()
