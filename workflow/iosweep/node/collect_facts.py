"""Facts of the node that measures, read from /proc, /sys and /etc, none of them from the target."""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from iosweep.node import weka, weka_steps
from iosweep.node.cpus import Topology, listed, parsed
from iosweep.node.node_facts import Nic, NodeFacts, NumaNode, ToolOfNode, host
from iosweep.text import printable


def facts(
    target: Mapping[str, Any],
    space: Mapping[str, int] | None = None,
    tools: Mapping[str, tuple[str, str]] | None = None,
    root: Path = Path("/"),
    reserved_cpus: str | None = None,
    controller: Mapping[str, Any] | None = None,
) -> NodeFacts:
    """The facts of this node. None is what cannot be read.

    target, space: of identify.py. tools: name -> (path, version). reserved_cpus: the key cpus.reserved.
    controller: what cpu_probe.controller returned, None without Slurm.
    """
    topology = topology_of(root)
    kept = weka.find(topology, reserved_cpus, root)
    memory, load = _memory(root), (_text(root / "proc/loadavg") or "").split()
    cpus = _cpus(root)
    loads = [_number(load[i]) if i < len(load) else None for i in range(3)]
    total, free, inodes, free_inodes = _space(space)
    return NodeFacts(
        host=printable(_text(root / "proc/sys/kernel/hostname") or "") or host(),
        kernel=_text(root / "proc/sys/kernel/osrelease"),
        os=_os_name(root),
        cpu_model=_cpu_model(root),
        cpus=cpus[0],
        sockets=cpus[1],
        threads_per_core=cpus[2],
        cpus_allowed=(allowed := _cpu_list(_field(root / "proc/self/status", "Cpus_allowed_list"))),
        **topology.facts(),
        reserved_cpus=None if kept.cpus is None else listed(kept.cpus),
        reserved_sources=kept.stored(),
        numa=tuple(_numa(root)),
        governor=_governors(root),
        clocksource=_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        transparent_hugepages=_chosen(_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        memory_bytes=memory.get("MemTotal"),
        nics=tuple(sorted([*_interfaces(root), *_infiniband(root)], key=lambda nic: nic.name)),
        fstype=target["fstype"],
        mount=printable(target["mount"]),
        memory_available_bytes=memory.get("MemAvailable"),
        load_1_min=loads[0],
        load_5_min=loads[1],
        load_15_min=loads[2],
        read_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        target_bytes=total,
        target_free_bytes=free,
        target_inodes=inodes,
        target_free_inodes=free_inodes,
        cpu_findings=tuple(weka_steps.look(topology, kept, parsed(allowed), root, controller)),
        tools=tuple(
            ToolOfNode(name, printable(path), version) for name, (path, version) in sorted((tools or {}).items())
        ),
    )


def _space(space: Mapping[str, int] | None) -> tuple[int | None, int | None, int | None, int | None]:
    """Room on the target as df counts it: bytes, free bytes, inodes, free inodes. Of inodes None where the file system
    counts none."""
    if space is None:
        return None, None, None, None
    inodes = space["used_inodes"] + space["free_inodes"]
    total = space["used_bytes"] + space["free_bytes"]
    return total, space["free_bytes"], inodes or None, space["free_inodes"] if inodes else None


def _os_name(root: Path) -> str | None:
    for place in ("etc/os-release", "usr/lib/os-release"):
        for line in (_text(root / place) or "").splitlines():
            name, _, value = line.partition("=")
            if name == "PRETTY_NAME":
                return value.strip("\"'")
    return None


def _cpu_model(root: Path) -> str | None:
    # no line beyond the one that is found: the kernel asks each CPU for its frequency, which takes milliseconds
    return _field(root / "proc/cpuinfo", "model name", "Model", "cpu model") or platform.machine() or None


def _cpus(root: Path) -> tuple[int | None, int | None, int | None]:
    """How many CPUs are online, on how many sockets, with how many threads per core."""
    cpus = root / "sys/devices/system/cpu"
    online = parsed(_text(cpus / "online"))
    packages = {_text(cpus / f"cpu{n}/topology/physical_package_id") for n in online} - {None}
    siblings = [len(parsed(_text(cpus / f"cpu{n}/topology/thread_siblings_list"))) for n in online]
    return len(online) or None, len(packages) or None, max(siblings, default=0) or None


def topology_of(root: Path) -> Topology:
    """As hwloc has it, where it is installed, for Slurm goes by that; else as the kernel has it."""
    if root == Path("/") and (lstopo := shutil.which("lstopo-no-graphics")):
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            argv = [lstopo, "--of", "xml", "--disallowed"]
            said = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=True
            )
            return Topology.of_hwloc(said.stdout)
    return Topology.read(root)


def _numa(root: Path) -> Iterator[NumaNode]:
    places = [(int(p.name[4:]), p) for p in _entries(root / "sys/devices/system/node") if p.name[4:].isdecimal()]
    for number, place in sorted(places):
        total = _field(place / "meminfo", f"Node {number} MemTotal")
        yield NumaNode(number, _cpu_list(_text(place / "cpulist")), _kib(total))


def _cpu_list(text: str | None) -> str | None:
    """A list of CPUs that the kernel says; None where it is none."""
    return listed(parsed(text)) or None


def _governors(root: Path) -> str | None:
    """The governors of the CPUs' frequency; None in most virtual machines."""
    policies = [p for p in _entries(root / "sys/devices/system/cpu/cpufreq") if p.name.startswith("policy")]
    return ", ".join(sorted({name for p in policies if (name := _text(p / "scaling_governor"))})) or None


def _memory(root: Path) -> dict[str, int | None]:
    return {name: _kib(_field(root / "proc/meminfo", name)) for name in ("MemTotal", "MemAvailable")}


def _interfaces(root: Path) -> Iterator[Nic]:
    """Network interfaces with a device behind them: none of lo, veth, bridges, bonds."""
    for place in _entries(root / "sys/class/net"):
        if _entries(place / "device"):
            flags = _text(place / "flags") or ""  # in hexadecimal; odd: IFF_UP, it is switched on
            speed = _number(_text(place / "speed"))  # Mbit/s; -1, or nothing to read, where it is not known
            yield Nic(
                place.name,
                "off" if flags[-1:] in tuple("02468ace") else _text(place / "operstate"),
                round(speed * 10**6) if speed and speed > 0 else None,
                _driver(place),
                *_near(place),
            )


def _infiniband(root: Path) -> Iterator[Nic]:
    """Ports of InfiniBand (and RoCE) adapters, named as in mlx5_0/1."""
    for place in _entries(root / "sys/class/infiniband"):
        for port in _entries(place / "ports"):
            state = (_text(port / "state") or "").rpartition(": ")[2].lower()  # 4: ACTIVE
            off = (_text(port / "phys_state") or "").endswith("Disabled")
            speed = _number((_text(port / "rate") or "").partition(" Gb/sec")[0])  # 100 Gb/sec (4X EDR)
            yield Nic(
                f"{place.name}/{port.name}",
                "off" if off else {"active": "up", "": None}.get(state, state),
                round(speed * 10**9) if speed else None,
                _driver(place),
                *_near(place),
            )


def _near(place: Path) -> tuple[int | None, str | None]:
    """The NUMA node and the CPUs that a device is near to; None where it does not matter, or is not known."""
    numa = _text(place / "device/numa_node")
    near = numa is not None and numa.isdecimal()  # -1: unknown
    return int(numa or 0) if near else None, _text(place / "device/local_cpulist")


def _driver(place: Path) -> str | None:
    try:
        return (place / "device/driver").readlink().name
    except OSError:
        return None


def _chosen(text: str | None) -> str | None:
    """always [madvise] never -> madvise"""
    return text.partition("[")[2].partition("]")[0] or None if text else None


def _kib(text: str | None) -> int | None:
    """24684092 kB -> bytes"""
    number = _number((text or "").partition(" kB")[0])
    return None if number is None else round(number * 1024)


#: No count of anything here, and with kilobytes made bytes of it still an integer for JSON.
_MOST = 2.0**52


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < _MOST else None  # NaN and infinity, too


def _field(path: Path, *names: str) -> str | None:
    """The value of the first line `name: value` with one of these names."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found, _, value = line.partition(":")
                if found.strip() in names:
                    return value.strip() or None
    except OSError:
        pass
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []
