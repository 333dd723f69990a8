"""Facts of a node, from small trees like those of real machines."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from iosweep.node.facts import NodeFacts, collect, node_key

TARGET = {"source": "/dev/x", "fstype": "ext4", "mount": "/dev/x on /t type ext4 (rw)", "fsid": "1", "device": 1}
SPACE = {"used_bytes": 300, "free_bytes": 700, "used_inodes": 5, "free_inodes": 95}

#: Two sockets with hyper-threading, two NUMA nodes, a link that is up, one without a cable, one switched off, and an
#: InfiniBand adapter; loopback and a bridge beside them.
SERVER = {
    "proc/sys/kernel/hostname": "node01\n",
    "proc/sys/kernel/osrelease": "5.14.0-503.el9.x86_64\n",
    "etc/os-release": 'NAME="Rocky Linux"\nPRETTY_NAME="Rocky Linux 9.5 (Blue Onyx)"\n',
    "proc/cpuinfo": "processor\t: 0\nmodel\t\t: 106\nmodel name\t: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
    "proc/meminfo": "MemTotal:       264000000 kB\nMemFree:        1 kB\nMemAvailable:   132000000 kB\n",
    "sys/devices/system/cpu/online": "0-7\n",
    **{f"sys/devices/system/cpu/cpu{n}/topology/physical_package_id": f"{n % 4 // 2}\n" for n in range(8)},
    **{
        f"sys/devices/system/cpu/cpu{n}/topology/core_siblings_list": "2-3,6-7\n" if n % 4 // 2 else "0-1,4-5\n"
        for n in range(8)
    },
    **{f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}\n" for n in range(8)},
    **{f"sys/devices/system/cpu/cpufreq/policy{n}/scaling_governor": "performance\n" for n in range(8)},
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/node/node0/cpulist": "0-1,4-5\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       132000000 kB\nNode 0 MemFree: 1 kB\n",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7\n",
    "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       132000000 kB\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/class/net/lo/operstate": "unknown\n",
    "sys/class/net/br0/operstate": "up\n",
    "sys/class/net/ens1/device/driver": "-> ../../../bus/pci/drivers/ice",
    "sys/class/net/ens1/flags": "0x1003\n",
    "sys/class/net/ens1/operstate": "up\n",
    "sys/class/net/ens1/speed": "100000\n",
    "sys/class/net/ens1/device/numa_node": "1\n",
    "sys/class/net/ens2/device/numa_node": "-1\n",
    "sys/class/net/ens2/device/driver": "-> ../../../bus/pci/drivers/ice",
    "sys/class/net/ens2/flags": "0x1003\n",
    "sys/class/net/ens2/operstate": "down\n",
    "sys/class/net/ens2/speed": "-1\n",
    "sys/class/net/ens3/device/vendor": "0x8086\n",
    "sys/class/net/ens3/flags": "0x1002\n",
    "sys/class/net/ens3/operstate": "down\n",
    "sys/class/infiniband/mlx5_0/device/driver": "-> ../../../../bus/pci/drivers/mlx5_core",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/phys_state": "5: LinkUp\n",
    "sys/class/infiniband/mlx5_0/ports/2/rate": "2.5 Gb/sec (1X SDR)\n",
    "sys/class/infiniband/mlx5_0/ports/2/state": "1: DOWN\n",
    "sys/class/infiniband/mlx5_0/ports/2/phys_state": "3: Disabled\n",
}


def tree(directory: Path, files: Mapping[str, str]) -> Path:
    """The files below a directory; a text that begins with an arrow makes a symbolic link."""
    for name, text in files.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            file.symlink_to(text[3:])
        else:
            file.write_text(text)
    return directory


def server(directory: Path, changes: Mapping[str, str | None] = MappingProxyType({})) -> NodeFacts:
    """Facts of the server. `changes`: files by the end of their names, replaced, or left out where None."""
    kept = dict(SERVER)
    for end, text in changes.items():
        for name in [name for name in SERVER if name.endswith(end)]:
            del kept[name]
            if text is not None:
                kept[name] = text
    return collect(TARGET, SPACE, tree(directory, kept))


def test_facts_of_a_server_have_their_units(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert server(tmp_path).row() == snapshot


def test_what_cannot_be_read_is_not_recorded(tmp_path: Path) -> None:
    found = collect(TARGET, root=tmp_path).row()
    known = {"host", "cpu_model", "fstype", "mount"}
    assert {n for n, value in found.items() if value not in (None, [], "")} == known
    assert found["host"] == os.uname().nodename  # never without a name


def test_another_run_is_the_same_node(tmp_path: Path) -> None:
    found = server(tmp_path / "a")
    changes = {"proc/meminfo": "MemTotal: 264000004 kB\nMemAvailable: 5 kB\n"}
    changes["node1/meminfo"] = "Node 1 MemTotal: 66000000 kB"
    later = server(tmp_path / "b", changes)
    later = replace(later, target_free_bytes=1, target_free_inodes=1)
    assert node_key(found) == node_key(later)


def test_what_tells_nodes_apart(tmp_path: Path) -> None:
    found = server(tmp_path / "a")
    changes: list[dict[str, str | None]] = [
        {"hostname": "node02"},
        {"scaling_governor": "powersave"},
        {"proc/meminfo": "MemTotal: 231000000 kB"},
        {"ens1/speed": "25000"},
        {"status": "Cpus_allowed_list: 0-3"},
    ]
    for number, change in enumerate(changes):
        assert node_key(server(tmp_path / str(number), change)) != node_key(found), change
    assert node_key(replace(found, mount="/dev/x on /t type ext4 (rw,sync)")) != node_key(found)
