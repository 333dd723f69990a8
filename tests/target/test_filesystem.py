"""Which file system a mount is of, by whatever server it was mounted."""

from typing import Any

import pytest

from iosweep.target.filesystem import identity, known_as, may_be_one, same_as_claimed, volume


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
