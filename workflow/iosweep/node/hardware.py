"""A node's CPU topology and network adapters, from hwloc and /sys."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from iosweep.node.cpus import Topology
from iosweep.node.kernel_files import entries, number, value
from iosweep.node.node_facts import Nic


def topology(root: Path = Path("/")) -> Topology:
    """As hwloc has it, where it is installed, because Slurm uses hwloc; else as the kernel has it."""
    if root == Path("/") and (lstopo := shutil.which("lstopo-no-graphics")):
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            argv = [lstopo, "--of", "xml", "--disallowed"]
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=True
            )
            return Topology.of_hwloc(done.stdout)
    return Topology.read(root)


def interfaces(root: Path) -> Iterator[Nic]:
    """Network interfaces with a device behind them: none of lo, veth, bridges, bonds."""
    for adapter in entries(root / "sys/class/net"):
        if entries(adapter / "device"):
            flags = value(adapter / "flags") or ""  # in hexadecimal; odd: IFF_UP, it is switched on
            speed = number(value(adapter / "speed"))  # Mbit/s; -1, or nothing to read, where it is not known
            state = "off" if flags[-1:] in tuple("02468ace") else value(adapter / "operstate")
            yield _nic(adapter, adapter.name, state, round(speed * 10**6) if speed and speed > 0 else None)


def infiniband(root: Path) -> Iterator[Nic]:
    """Ports of InfiniBand (and RoCE) adapters, named as in mlx5_0/1."""
    for adapter in entries(root / "sys/class/infiniband"):
        for port in entries(adapter / "ports"):
            state = (value(port / "state") or "").rpartition(": ")[2].lower()  # 4: ACTIVE
            off = (value(port / "phys_state") or "").endswith("Disabled")
            speed = number((value(port / "rate") or "").partition(" Gb/sec")[0])  # 100 Gb/sec (4X EDR)
            shown = "off" if off else {"active": "up", "": None}.get(state, state)
            yield _nic(adapter, f"{adapter.name}/{port.name}", shown, round(speed * 10**9) if speed else None)


def _nic(adapter: Path, name: str, state: str | None, bits_per_s: int | None) -> Nic:
    """With the NUMA node and the CPUs that the device is near to; None where it does not matter, or is not known."""
    numa = value(adapter / "device/numa_node") or ""  # -1: unknown
    return Nic(
        name,
        state,
        bits_per_s,
        _driver(adapter),
        int(numa) if numa.isdecimal() else None,
        value(adapter / "device/local_cpulist"),
    )


def _driver(adapter: Path) -> str | None:
    try:
        return (adapter / "device/driver").readlink().name
    except OSError:
        return None
