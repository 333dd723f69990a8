"""Which file system a mount is of, by whatever server it was mounted."""

from typing import Any

import pytest

from iosweep.filesystem import identity, known_as, may_be_one, volume


def facts(fstype: str, source: str, fsid: str = "0000000000000000") -> dict[str, Any]:
    return {"fstype": fstype, "source": source, "fsid": fsid}


@pytest.mark.parametrize(
    ("fstype", "sources", "name"),
    [
        ("fuse.glusterfs", ("s1:/dfs", "s2:/dfs", "s1,s2:/dfs", "s1:dfs", "[fe80::1]:/dfs"), "/dfs"),
        ("lustre", ("10.0.0.1@o2ib:/scratch", "10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@tcp:/scratch"), "/scratch"),
        ("wekafs", ("backend1/fs", "backend1,backend2/fs", "fs"), "fs"),
        ("ceph", ("m1:6789,m2:6789:/", "m2:6789:/"), "/"),
        ("ceph", ("admin@b3acfc0d.cephfs=/a", "user@b3acfc0d.cephfs=/a"), "b3acfc0d.cephfs=/a"),
        ("pvfs2", ("tcp://s1:3334/pvfs", "tcp://s2:3334/pvfs"), "/pvfs"),
        ("beegfs", ("beegfs_nodev",), "beegfs_nodev"),
        ("gpfs", ("gpfs0",), "gpfs0"),
    ],
)
def test_any_of_its_servers(fstype: str, sources: tuple[str, ...], name: str) -> None:
    for source in sources:
        assert volume(facts(fstype, source)) == identity(facts(fstype, source)) == f"{fstype} {name}"
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
