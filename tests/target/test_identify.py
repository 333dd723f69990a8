"""Which file system a mount is of, by whatever server it was mounted."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mounts
from iosweep.errors import Busy
from iosweep.node import procfs
from iosweep.target import identify, lock
from iosweep.target import mounts as tables
from iosweep.target.identify import (
    FileSystem,
    identity,
    known_as,
    lock_name,
    may_be_one,
    same_as_claimed,
    same_now,
    volume,
)
from targets import mounted


def facts(fstype: str, source: str, fsid: str = "0000000000000000") -> dict[str, Any]:
    return {"fstype": fstype, "source": source, "fsid": fsid}


@pytest.mark.parametrize(
    ("fstype", "sources", "name"),
    [
        ("fuse.glusterfs", ("s1:/dfs", "s2:/dfs", "s1,s2:/dfs", "s1:dfs", "[fe80::1]:/dfs"), "/dfs"),
        ("lustre", ("10.0.0.1@o2ib:/scratch", "10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@tcp:/scratch"), "/scratch"),
        ("wekafs", ("backend1/fs", "backend1,backend2/fs", "fs"), "fs"),
        ("ceph", ("m1:6789,m2:6789:/", "m2:6789:/"), "/"),
        ("ceph", ("admin@b3acfc0d.cephfs=/a", "user@b3acfc0d.cephfs=/a"), "b3acfc0d.cephfs=/"),
        ("pvfs2", ("tcp://s1:3334/pvfs", "tcp://s2:3334/pvfs"), "/pvfs"),
        ("beegfs", ("beegfs_nodev",), "beegfs_nodev"),
        ("gpfs", ("gpfs0",), "gpfs0"),
    ],
)
def test_any_of_its_servers(fstype: str, sources: tuple[str, ...], name: str) -> None:
    for source in sources:
        assert identity(facts(fstype, source)) == f"{fstype} {name}"
        assert may_be_one(facts(fstype, sources[0]), facts(fstype, source))


@pytest.mark.parametrize(
    ("fstype", "here", "there"),
    [
        ("fuse.glusterfs", "s1:/dfs", "s1:/other"),
        ("lustre", "10.0.0.1@tcp:/scratch", "10.0.0.1@tcp:/home"),
        ("wekafs", "b/fs", "b/other"),
        ("ceph", "u@a.fs=/", "u@b.fs=/"),
        ("fuse", "mfs#m1:9421", "mfs#m2:9421"),
        ("cifs", "//s1/share", "//s2/share"),
        ("xfs", "/dev/sda1", "/dev/sdb1"),
        ("nfs4", "s1:/export", "s2:/export"),
    ],
)
def test_another_file_system(fstype: str, here: str, there: str) -> None:
    assert identity(facts(fstype, here)) != identity(facts(fstype, there))
    assert volume(facts(fstype, here)) != volume(facts(fstype, there))
    # several addresses of one NFS server: the marker tells
    assert may_be_one(facts(fstype, here), facts(fstype, there)) == (fstype == "nfs4")


def test_the_fsid_of_a_ceph_cluster() -> None:
    assert volume(facts("ceph", "m1:6789:/", "0a")) == volume(facts("ceph", "m2:6789:/", "0a")) == "ceph 0a:/"
    assert volume(facts("ceph", "m1:6789:/", "0a")) != volume(facts("ceph", "m1:6789:/", "0b"))


def test_what_has_no_name_has_its_fsid() -> None:
    assert identity(facts("tmpfs", "tmpfs", "0a")) == "tmpfs tmpfs 0a"
    assert volume(facts("tmpfs", "tmpfs", "0a")) == "tmpfs tmpfs"  # it is another one after each mount
    assert identity(facts("nfs4", "server:/export", "0a")) == "nfs4 server:/export"


def test_the_name_that_was_stored_goes_before() -> None:
    assert volume(facts("nfs4", "s2:/export") | {"volume": "nfs4 s1:/export"}) == "nfs4 s1:/export"


def test_the_server_of_nfs_has_an_address_with_colons() -> None:
    here = facts("nfs4", "[fd00::1]:/export")
    assert may_be_one(here, facts("nfs4", "[fd00::2]:/export"))
    assert may_be_one(here, facts("nfs4", "server:/export"))
    assert not may_be_one(here, facts("nfs4", "[fd00::1]:/other"))


@pytest.mark.parametrize(
    ("fstype", "root", "below"),
    [
        ("lustre", "10.0.0.1@tcp:/scratch", "10.0.0.1@tcp:/scratch/projA"),
        ("fuse.glusterfs", "s1:/gv0", "s1:/gv0/projA/deep"),
        ("ceph", "m1:6789:/", "m1:6789:/projA"),
        ("ceph", "u@a.fs=/", "u@a.fs=/projA"),
    ],
)
def test_one_lock_for_a_volume_and_its_directories(fstype: str, root: str, below: str) -> None:
    assert identity(facts(fstype, root, "0a")) == identity(facts(fstype, below, "0a"))
    assert volume(facts(fstype, root, "0a")) != volume(facts(fstype, below, "0a"))


def test_the_fsid_of_beegfs() -> None:
    assert identity(facts("beegfs", "beegfs_nodev", "0a")) != identity(facts("beegfs", "beegfs_nodev", "0b"))


@pytest.mark.parametrize(
    ("fstype", "before", "now", "same"),
    [
        ("wekafs", "clusterA/default", "clusterB/default", False),
        ("wekafs", "b1,b2/default", "b2,b3/default", True),
        ("wekafs", "default", "default", True),
        ("wekafs", "b1/default", "default", False),
        ("fuse.glusterfs", "prod1:/gv0", "test9:/gv0", False),
        ("fuse.glusterfs", "s1,s2:/gv0", "s2:/gv0", True),
        ("fuse.glusterfs", "s1,localhost:/gv0", "s2,localhost:/gv0", False),
        ("fuse.glusterfs", "s1:/gv0", "s1:/other", False),
        ("lustre", "10.1.0.1@tcp:/lustre", "10.9.0.1@o2ib:/lustre", False),
        ("lustre", "10.1.0.1@tcp,10.1.0.1@o2ib:10.1.0.2@tcp:/lustre", "10.1.0.2@tcp:/lustre", True),
        ("lustre", "fd00::1@tcp:/lustre", "fd00::2@tcp:/lustre", False),
        ("lustre", "mgs1:mgs2:/lustre", "mgs2:/lustre", True),
        ("pvfs2", "tcp://s1:3334/pvfs", "tcp://s2:3334/pvfs", False),
        ("ceph", "m1:6789,m2:6789:/", "m2:6789:/", True),
        ("ceph", "m1:6789:/", "m3:6789:/", False),
        ("nfs4", "s1:/export", "s2:/export", False),
    ],
)
def test_a_volume_of_another_cluster_may_have_the_same_name(fstype: str, before: str, now: str, same: bool) -> None:
    first = volume(facts(fstype, before))
    assert known_as(facts(fstype, now), [first], False) == f"{fstype} {before if same else now}"
    assert known_as(facts(fstype, now), [first], True) == first  # the marker is there


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs", "zfs", "fuseblk", "fuse.ntfs"])
def test_a_copied_marker_does_not_make_one_of_two_disks(fstype: str) -> None:
    names = [volume(facts(fstype, "/dev/sda1"))]
    assert known_as(facts(fstype, "/dev/sdb1"), names, True) == f"{fstype} /dev/sdb1"
    assert known_as(facts(fstype, "/dev/sda1"), names, False) == f"{fstype} /dev/sda1"


@pytest.mark.parametrize(
    ("names", "proven", "name"),
    [
        ([], False, "nfs4 s2:/export"),
        (["nfs4 s1:/export"], False, "nfs4 s2:/export"),
        (["nfs4 s1:/export"], True, "nfs4 s1:/export"),  # its marker is there: another address of the server
        (["nfs4 s1:/export", "nfs4 s2:/export"], False, "nfs4 s1:/export"),  # it was there when it was seen as both
    ],
)
def test_what_the_marker_proves(names: list[str], proven: bool, name: str) -> None:
    assert known_as(facts("nfs4", "s2:/export"), names, proven) == name


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("ext4", "/dev/sda1"), ("nfs4", "s1:/export")),
        (("nfs4", "s1:/export"), ("lustre", "10.0.0.1@tcp:/scratch")),
        (("wekafs", "default"), ("beegfs", "beegfs_nodev")),
    ],
)
def test_a_copy_on_a_file_system_of_another_type(before: tuple[str, str], now: tuple[str, str]) -> None:
    """The data was moved to another system by rsync, marker included, and that is mounted in the old one's place."""
    assert known_as(facts(*now), [volume(facts(*before))], True) == volume(facts(*now))
    assert not same_as_claimed(facts(*now), identity(facts(*before)))


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (("nfs4", "s1:/export"), ("nfs", "10.0.0.1:/export"), True),
        (("ceph", "m1:6789:/"), ("fuse.ceph-fuse", "ceph-fuse"), True),
        (("fuse.glusterfs", "s1:/dfs"), ("fuse.glusterfs", "s2:/dfs"), True),
        (("beegfs", "beegfs_nodev", "1"), ("beegfs", "beegfs_nodev", "2"), True),
        (("xfs", "/dev/sda1", "1"), ("xfs", "/dev/sda1", "2"), True),
        (("xfs", "/dev/sda1", "1"), ("xfs", "/dev/sdb1", "1"), False),
        (("tmpfs", "tmpfs", "1"), ("tmpfs", "tmpfs", "2"), False),
    ],
)
def test_where_a_directory_with_the_marker_was_claimed(
    before: tuple[str, ...], now: tuple[str, ...], same: bool
) -> None:
    assert same_as_claimed(facts(*now), identity(facts(*before))) == same
    if same:
        assert known_as(facts(*now), [volume(facts(*before))], True) == volume(facts(*before))


# The lock


def test_what_the_lock_is_named_after() -> None:
    """What the kernel says of a file system of this machine, and of others what any node says."""
    here = {"mounted": "8:1", "device": 2049}
    for source in ("/dev/root", "/dev/sda1", "/dev/mapper/a-b", "a/b:c"):
        assert lock_name(facts("ext4", source, "0a") | here) == "ext4 8:1"
    assert lock_name(facts("tmpfs", "tmpfs", "0") | {"mounted": "0:40"}) == "tmpfs 0:40"  # before Linux 5.13: all 0
    for number in ("0:50", "0:51"):
        assert lock_name(facts("lustre", "10.0.0.1@tcp:/scratch/a") | {"mounted": number}) == "lustre /scratch"
        assert lock_name(facts("gfs2", "/dev/mapper/san") | {"mounted": number}) == "gfs2 /dev/mapper/san"


needs_mounts = pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing() or "")


def _mount_by_another_name(device: Path, where: Path, kind: str, node: Path) -> None:
    """Mount a device by a node of its own, as a container or a driver of storage makes one."""
    os.mknod(node, 0o600 | 0o060000, device.stat().st_rdev)
    where.mkdir()
    # mount(8) would write the name that it finds for the device
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(*(os.fsencode(name) for name in (node, where, kind)), 0, None) == 0, ctypes.get_errno()


@pytest.fixture(params=["ext4", "btrfs"])
def two_names(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FileSystem, FileSystem]]:
    """A file system as two mounts show it: of one device by two names, of btrfs by two subvolumes also."""
    kind = request.param
    with getattr(mounts, kind)(_made(tmp_path / "a")):
        _mount_by_another_name(mounts.device(tmp_path / "a"), tmp_path / "b", kind, tmp_path / "node")
        try:
            there = tmp_path / "b"
            if kind == "btrfs":
                mounts.run("btrfs", "subvolume", "create", str(there / "sub"))
                there /= "sub"
            yield identify.identify(str(tmp_path / "a")), identify.identify(str(there))
        finally:
            mounts.unmount(tmp_path / "b")


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.mark.local
@needs_mounts
def test_one_device_by_two_names_has_one_lock(two_names: tuple[FileSystem, FileSystem], tmp_path: Path) -> None:
    """The two campaigns would measure each other, and each be proven to be alone."""
    here, there = two_names
    assert here["source"] != there["source"] or here["device"] != there["device"]
    assert lock_name(here) == lock_name(there)
    assert same_now(here, there)
    owner, locks = lock.Owner("c", "/r"), str(_made(tmp_path / "locks"))
    with lock.exclude(locks, here, owner), pytest.raises(Busy), lock.exclude(locks, there, owner):
        pass


@pytest.mark.local
@needs_mounts
def test_two_file_systems_have_two_locks(tmp_path: Path) -> None:
    """In memory, with a source that looks like a device's or a server's."""
    source = "server:/a"
    one, other = (mounted("mount", "-t", "tmpfs", source, str(tmp_path / name)) for name in "ab")
    with one, other:
        a, b = (identify.identify(str(tmp_path / name)) for name in "ab")
        assert lock_name(a) != lock_name(b)
        assert identity(a) != identity(b)
        assert not same_now(a, b)
        with mounted("mount", "--bind", str(tmp_path / "a"), str(tmp_path / "c")):
            assert lock_name(identify.identify(str(tmp_path / "c"))) == lock_name(a)


# Which directory a process sees

MOUNTS = rb"""22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:30 / /tmp rw - tmpfs tmpfs rw
25 22 254:0 /srv/a\040b /mnt/a\040b rw - ext4 /dev/vda rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", ("254:0", "/")),
        ("/tmp", ("0:30", "")),
        ("/tmp/x", ("0:30", "/x")),
        ("/tmpx", ("254:0", "/tmpx")),
        ("/mnt/a b/c", ("254:0", "/srv/a b/c")),
    ],
)
def test_where_a_path_leads(path: str, expected: tuple[str, str]) -> None:
    assert tables.leads_to(path, tables.parsed(MOUNTS)) == expected


def test_the_last_mount_is_on_top() -> None:
    table = tables.parsed(MOUNTS + b"30 24 0:31 /u /tmp rw - tmpfs tmpfs rw\n")
    assert tables.leads_to("/tmp/x", table) == ("0:31", "/u/x")


def test_private_needs_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PROC", tmp_path)
    for pid, table in (("self", MOUNTS), ("1", MOUNTS.replace(b"0:30", b"0:31"))):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "mountinfo").write_bytes(table)
    assert tables.private("/tmp") is None
    (tmp_path / "self/ns/pid").symlink_to(procfs.FIRST_PID_NAMESPACE)
    assert tables.private("/tmp")
    assert tables.private("/") is False
