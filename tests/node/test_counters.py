"""Which counters of the kernel belong to a target, and what their files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from iosweep.node.counters import Bytes, IoCounters, Moved, disk, interfaces, mountstats, osc_stats
from iosweep.node.procfs import Mount

pytestmark = pytest.mark.unit

STAT = "17522730 123553 403097970 5635656 10665211 1394342 822770536 1845093 0 1045088 7723367"
NET = """Inter-|   Receive                        |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 3521094    1855    0    0    0     0          0         0  3521094    1855    0    0
  eth0:{received} 147621    0    0    0     0          0         0  {sent}   65417    0    0
 bond0: 99 147621    0    0    0     0          0         0  99   65417    0    0
"""
NFS = """device /dev/vda mounted on / with fstype ext4
device filer:/home mounted on /home with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2,rsize=1048576
	age:	1234
	bytes:	1 2 3 4 5 6 7 8
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
device filer:/a\\040b mounted on /mnt/a\\040b with fstype nfs4 statvers=1.1
	bytes:	10 20 30 40 {read} {written} 70 80
	per-op statistics
"""
OSC = """snapshot_time             1600000000.123456789 secs.nsecs
req_waittime              12 samples [usecs] 33 12345 67890 1234567
read_bytes                3 samples [bytes] 4096 1048576 {read} 99
write_bytes               2 samples [bytes] 4096 1048576 {written} 99
ost_read                  3 samples [usecs] 33 12345 67890 1234567
"""


class Kernel:
    """A made-up /proc and /sys."""

    def __init__(self, root: Path):
        self.proc, self.sys = root / "proc", root / "sys"

    def write(self, path: str, content: str) -> None:
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def block(self, name: str, number: str, read: int = 0, written: int = 0) -> None:
        """A block device, which has moved this many bytes."""
        self.write(f"sys/devices/{name}/stat", f"1 1 {read // 512} 1 1 1 {written // 512} 1 0 1 1\n")
        for link in (self.sys / "dev/block" / number, self.sys / "class/block" / name):
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(self.sys / "devices" / name)

    def counters(self, point: str, device: str, fstype: str, source: str = "", options: str = "") -> IoCounters:
        return IoCounters(Mount(device, "/", point, fstype, source, options), [], self.proc, self.sys)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def test_counters_are_read_in_bytes_from_what_the_kernel_prints() -> None:
    assert disk(STAT) == Bytes(403097970 * 512, 822770536 * 512)
    assert disk("") is disk("1 2 x 4 5 6 7") is None
    assert interfaces(NET.format(received=5, sent=6)) == {"lo": (3521094, 3521094), "eth0": (5, 6), "bond0": (99, 99)}
    assert mountstats(NFS.format(read=50, written=60), "/mnt/a b") == Bytes(50, 60)
    assert mountstats(NFS.format(read=50, written=60), "/home") == Bytes(5, 6)
    assert mountstats(NFS, "/mnt") is None
    assert osc_stats(OSC.format(read=11, written=12)) == Bytes(11, 12)
    assert osc_stats("snapshot_time 1.0 secs.usecs\n") == Bytes(0, 0)
    assert osc_stats("") is None


def test_a_local_file_system_is_on_its_block_device(kernel: Kernel) -> None:
    kernel.block("sda1", "8:1", read=4096, written=8192)
    found = kernel.counters("/data", "8:1", "ext4", "/dev/sda1")
    assert (found.devices, found.memory, found.client) == (("sda1",), "", "")
    before = found.read()
    kernel.block("sda1", "8:1", read=8192, written=1 << 20)
    moved = found.moved(before, found.read())
    assert (moved.device, moved.device_read_bytes, moved.device_written_bytes) == ("sda1", 4096, (1 << 20) - 8192)
    assert moved.client_read_bytes is moved.received_bytes is moved.tool_read_bytes is None


def test_memory_is_named(kernel: Kernel) -> None:
    assert kernel.counters("/dev/shm", "0:24", "tmpfs").memory == "tmpfs"
    kernel.block("zram0", "252:0", read=512)
    kernel.block("dm-0", "253:0", read=512)
    kernel.write("sys/devices/dm-0/slaves/zram0", "")
    for device in ("252:0", "253:0"):
        assert kernel.counters("/data", device, "ext4").memory == "zram0"


def test_a_loop_device_counts_nothing_also_below_a_device_mapper(kernel: Kernel) -> None:
    """It may serve reads from the page cache of its file."""
    for name, number in (("loop3", "7:3"), ("dm-0", "253:0")):
        kernel.block(name, number, read=512)
    kernel.write("sys/devices/dm-0/slaves/loop3", "")
    kernel.write("sys/devices/loop3/loop/backing_file", "/image\n")
    for device in ("7:3", "253:0"):
        assert kernel.counters("/data", device, "ext4").devices == ()


def test_flushes_are_counted_where_a_disk_has_a_volatile_cache_and_counts_them(kernel: Kernel) -> None:
    kernel.block("sda", "8:0", read=512)
    back, through = "write back", "write through"
    for flushes, cache, counted in (("7 1", back, 2), ("0 0", back, None), ("7 1", through, None), ("", back, None)):
        kernel.write("sys/devices/sda/stat", f"{STAT} 0 0 0 0 {flushes}\n")
        kernel.write("sys/devices/sda/queue/write_cache", f"{cache}\n")
        found = kernel.counters("/data", "8:0", "ext4", "/dev/sda")
        before = found.read()
        kernel.write("sys/devices/sda/stat", f"{STAT} 0 0 0 0 {flushes.replace('7', '9')}\n")
        assert found.moved(before, found.read()).device_flushes == counted, (flushes, cache)


def test_nfs_is_counted_by_its_client(kernel: Kernel) -> None:
    kernel.write("proc/self/mountstats", NFS.format(read=50, written=60))
    found = kernel.counters("/mnt/a b", "0:60", "nfs4", "filer:/a b")
    before = found.read()
    kernel.write("proc/self/mountstats", NFS.format(read=80, written=160))
    moved = found.moved(before, found.read())
    assert (moved.client_read_bytes, moved.client_written_bytes) == (30, 100)
    assert moved.client.endswith("/self/mountstats") and moved.device == ""


@pytest.mark.parametrize("root", ["proc/fs/lustre/osc", "sys/kernel/debug/lustre/osc"])
def test_lustre_is_counted_by_what_its_osc_sent(kernel: Kernel, root: str) -> None:
    for name in ("scratch-OST0000-osc-ffff1", "scratch-OST0001-osc-ffff1"):
        kernel.write(f"{root}/{name}/stats", OSC.format(read=10, written=20))
    kernel.write(f"{root}/other-OST0000-osc-ffff2/stats", OSC.format(read=10, written=20))
    kernel.write(f"{root}/scratch-OST0000-osc-MDT0000/stats", OSC.format(read=10, written=20))
    found = kernel.counters("/scratch", "0:61", "lustre", "mgs@tcp:/scratch/project")
    assert found.read().client == Bytes(20, 40)
    assert found.client.endswith("lustre/osc")


def test_interfaces_that_carry_others_are_not_counted_twice(kernel: Kernel) -> None:
    kernel.write("proc/net/dev", NET.format(received=5, sent=6))
    assert kernel.counters("/mnt", "0:61", "beegfs").read().network == Bytes(5 + 99, 6 + 99)  # of a namespace
    kernel.write("sys/class/net/eth0/device/vendor", "0x1234")
    assert kernel.counters("/mnt", "0:61", "beegfs").read().network == Bytes(5, 6)
    # an adapter of InfiniBand counts words, and IPoIB is part of that
    kernel.write("sys/class/net/eth0/type", "32")
    kernel.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "100\n")
    kernel.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "200\n")
    assert kernel.counters("/mnt", "0:61", "beegfs").read().network == Bytes(400, 800)


def test_a_counter_that_began_again_says_nothing(kernel: Kernel) -> None:
    kernel.block("sda1", "8:1", read=4096)
    found = kernel.counters("/data", "8:1", "ext4", "/dev/sda1")
    before = found.read()
    kernel.block("sda1", "8:1", read=512)
    assert found.moved(before, found.read()).device_read_bytes is None
    assert found.moved(before, before) == Moved(device="sda1", device_read_bytes=0, device_written_bytes=0)
