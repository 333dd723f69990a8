"""Facts of the node that measures, and the environment that a result keeps.

All is read from /proc, /sys and /etc, none of it from the target. What cannot be read (in a container, a virtual
machine) is None: not recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from iosweep.node import reserved, weka_steps
from iosweep.node.cpus import Topology, parsed
from iosweep.text import printable

#: Variables that may change what a tool does, MPI's choice of network and MPI-IO's hints among them. Nothing else is
#: stored, and nothing by its prefix: an environment holds secrets.
ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "TZ"),
    *("HWLOC_COMPONENTS", "FI_PROVIDER", "HYDRA_IFACE", "UCX_NET_DEVICES", "UCX_TLS"),
    *("MPICH_MPIIO_HINTS", "ROMIO_FSTYPE_FORCE", "ROMIO_HINTS"),
)

#: Facts that may be others in each run on the same node. The rest tells one node from another.
VOLATILE = (
    *("memory_available_bytes", "load_1_min", "load_5_min", "load_15_min", "read_at"),
    *("target_bytes", "target_free_bytes", "target_inodes", "target_free_inodes", "tools", "cpu_findings"),
)


def facts(
    target: Mapping[str, Any],
    space: Mapping[str, int] | None = None,
    tools: Mapping[str, tuple[str, str]] | None = None,
    root: Path = Path("/"),
    reserved_cpus: str | None = None,
    controller: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Keys as columns.NODE_COLUMNS, without the key `node`. None is what cannot be read.

    target, space: what target.identify and target.space say. tools: name -> (path, version). reserved_cpus: what the
    configuration says of them (cpus.reserved). controller: what cores_probe.controller returned, None without Slurm.
    """
    topology = topology_of(root)
    kept = reserved.find(topology, reserved_cpus, root)
    memory, load = _memory(root), (_text(root / "proc/loadavg") or "").split()
    return {
        "host": printable(_text(root / "proc/sys/kernel/hostname") or "") or host(),
        "kernel": _text(root / "proc/sys/kernel/osrelease"),
        "os": _os_name(root),
        "cpu_model": _cpu_model(root),
        **_cpus(root),
        "cpus_allowed": (allowed := _field(root / "proc/self/status", "Cpus_allowed_list")),
        **topology.facts(),
        **kept.facts(),
        "numa": _numa(root),
        "governor": _governors(root),
        "clocksource": _text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "transparent_hugepages": _chosen(_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "memory_bytes": memory.get("MemTotal"),
        "nics": sorted([*_interfaces(root), *_infiniband(root)], key=lambda nic: str(nic["name"])),
        "fstype": target["fstype"],
        "mount": printable(target["mount"]),
        # from here on: VOLATILE
        "memory_available_bytes": memory.get("MemAvailable"),
        **{f"load_{minutes}_min": _number(load[i]) if i < len(load) else None for i, minutes in enumerate((1, 5, 15))},
        "read_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        **_space(space),
        "cpu_findings": weka_steps.look(topology, kept, parsed(allowed), root, controller),
        "tools": [
            {"name": name, "path": printable(path), "version": version}
            for name, (path, version) in sorted((tools or {}).items())
        ],
    }


def host() -> str:
    """This node's name."""
    return printable(socket.gethostname())


def key(node: Mapping[str, Any]) -> str:
    """Hash of the facts that stay the same from run to run: the key of the table `nodes`."""
    stable = {name: value for name, value in node.items() if name not in VOLATILE}
    # a reboot moves the total by a few pages, and a virtual machine may get the memory of its NUMA nodes as it goes
    stable["memory_bytes"] = round((node["memory_bytes"] or 0) / 2**30)
    stable["numa"] = [one["cpus"] for one in node["numa"]]
    return hashlib.sha256(orjson.dumps(stable, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def environment() -> dict[str, str]:
    """The allow-listed variables that are set."""
    return {name: printable(os.environ[name]) for name in ENVIRONMENT if name in os.environ}


def keep_hwloc_still() -> None:
    """Have MPI libraries learn what the CPUs are like without binding themselves to one after the other, as hwloc does
    while MPI starts: to those, too, that a file system keeps for itself. What the site has set stays."""
    os.environ.setdefault("HWLOC_COMPONENTS", "-x86")


def _space(space: Mapping[str, int] | None) -> dict[str, int | None]:
    """Room on the target as df counts it. Of inodes None where the file system counts none."""
    if space is None:
        return dict.fromkeys(("target_bytes", "target_free_bytes", "target_inodes", "target_free_inodes"))
    inodes = space["used_inodes"] + space["free_inodes"]
    return {
        "target_bytes": space["used_bytes"] + space["free_bytes"],
        "target_free_bytes": space["free_bytes"],
        "target_inodes": inodes or None,
        "target_free_inodes": space["free_inodes"] if inodes else None,
    }


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


def _cpus(root: Path) -> dict[str, int | None]:
    """CPUs that are online, and how they hang together."""
    cpus = root / "sys/devices/system/cpu"
    online = parsed(_text(cpus / "online"))
    packages = {_text(cpus / f"cpu{n}/topology/physical_package_id") for n in online} - {None}
    siblings = [len(parsed(_text(cpus / f"cpu{n}/topology/thread_siblings_list"))) for n in online]
    return {
        "cpus": len(online) or None,
        "sockets": len(packages) or None,
        "threads_per_core": max(siblings, default=0) or None,
    }


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


def _numa(root: Path) -> list[dict[str, Any]]:
    """NUMA nodes: {node, cpus, memory_bytes}."""
    places = [(int(p.name[4:]), p) for p in _entries(root / "sys/devices/system/node") if p.name[4:].isdecimal()]
    found = []
    for number, place in sorted(places):
        total = _field(place / "meminfo", f"Node {number} MemTotal")
        found.append({"node": number, "cpus": _text(place / "cpulist"), "memory_bytes": _kib(total)})
    return found


def _governors(root: Path) -> str | None:
    """The governors of the CPUs' frequency; None in most virtual machines."""
    policies = [p for p in _entries(root / "sys/devices/system/cpu/cpufreq") if p.name.startswith("policy")]
    return ", ".join(sorted({name for p in policies if (name := _text(p / "scaling_governor"))})) or None


def _memory(root: Path) -> dict[str, int | None]:
    return {name: _kib(_field(root / "proc/meminfo", name)) for name in ("MemTotal", "MemAvailable")}


def _interfaces(root: Path) -> Iterator[dict[str, Any]]:
    """Network interfaces with a device behind them: none of lo, veth, bridges, bonds."""
    for place in _entries(root / "sys/class/net"):
        if _entries(place / "device"):
            flags = _text(place / "flags") or ""  # in hexadecimal; odd: IFF_UP, somebody has switched it on
            speed = _number(_text(place / "speed"))  # Mbit/s; -1, or nothing to read, where it is not known
            yield {
                "name": place.name,
                "state": "off" if flags[-1:] in tuple("02468ace") else _text(place / "operstate"),
                "speed_bits_per_s": round(speed * 10**6) if speed and speed > 0 else None,
                "driver": _driver(place),
                **_near(place),
            }


def _infiniband(root: Path) -> Iterator[dict[str, Any]]:
    """Ports of InfiniBand (and RoCE) adapters, named as in mlx5_0/1."""
    for place in _entries(root / "sys/class/infiniband"):
        for port in _entries(place / "ports"):
            state = (_text(port / "state") or "").rpartition(": ")[2].lower()  # 4: ACTIVE
            off = (_text(port / "phys_state") or "").endswith("Disabled")
            speed = _number((_text(port / "rate") or "").partition(" Gb/sec")[0])  # 100 Gb/sec (4X EDR)
            yield {
                "name": f"{place.name}/{port.name}",
                "state": "off" if off else {"active": "up", "": None}.get(state, state),
                "speed_bits_per_s": round(speed * 10**9) if speed else None,
                "driver": _driver(place),
                **_near(place),
            }


def _near(place: Path) -> dict[str, Any]:
    """The NUMA node and the CPUs that a device is near to; None where it does not matter, or is not known."""
    numa = _text(place / "device/numa_node")
    near = numa is not None and numa.isdecimal()  # -1: unknown
    return {"numa_node": int(numa or 0) if near else None, "cpus": _text(place / "device/local_cpulist")}


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
    return number if abs(number) < _MOST else None  # also of what is not finite


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
