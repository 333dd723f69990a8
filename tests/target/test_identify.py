"""Which file system a directory is on, by whatever server it was mounted, and who else may write on the way to it."""

from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.node import procfs
from iosweep.target import identify
from iosweep.target.identify import identity, is_same_file_system, lock_name, same_source, volume


def facts(fstype: str, source: str, fsid: str = "0000000000000000") -> dict[str, Any]:
    return {"fstype": fstype, "source": source, "fsid": fsid}


def test_any_server_of_a_volume_names_the_same_file_system() -> None:
    for fstype, sources, name in (
        ("fuse.glusterfs", ("s1:/dfs", "s2:/dfs", "s1,s2:/dfs", "s1:dfs", "[fe80::1]:/dfs"), "/dfs"),
        ("lustre", ("10.0.0.1@o2ib:/scratch", "10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@tcp:/scratch"), "/scratch"),
        ("wekafs", ("backend1/fs", "backend1,backend2/fs", "fs"), "fs"),
        ("ceph", ("m1:6789,m2:6789:/", "m2:6789:/below"), "0000000000000000"),
        ("ceph", ("admin@b3acfc0d.cephfs=/a", "user@b3acfc0d.cephfs=/b"), "b3acfc0d.cephfs"),
        ("nfs", ("s1:/export", "10.0.0.2:/export", "[fe80::1]:/export"), "/export"),
        ("gpfs", ("gpfs0",), "gpfs0"),
    ):
        for source in sources:
            assert identity(facts(fstype, source)) == f"{fstype} {name}", source
    assert identity(facts("nfs4", "s1:/export")) == identity(facts("nfs", "s2:/export"))


def test_another_volume_is_another_file_system() -> None:
    for fstype, here, there in (
        ("fuse.glusterfs", "s1:/dfs", "s1:/other"),
        ("lustre", "10.0.0.1@tcp:/scratch", "10.0.0.1@tcp:/home"),
        ("wekafs", "b/fs", "b/other"),
        ("ceph", "u@a.fs=/", "u@b.fs=/"),
        ("fuse", "mfs#m1:9421", "mfs#m2:9421"),
        ("xfs", "/dev/sda1", "/dev/sdb1"),
        ("nfs4", "s1:/export", "s1:/home"),
    ):
        assert identity(facts(fstype, here)) != identity(facts(fstype, there)), fstype


def test_two_storage_systems_with_volumes_of_one_name_are_told_by_their_servers() -> None:
    """Unless the campaign's marker is there: then they are servers of one system."""
    for fstype, here, there, shared in (
        ("nfs", "filer1:/export", "filer2:/export", "filer1:/export"),
        ("lustre", "mgs1@o2ib:/scratch", "mgs2@o2ib:/scratch", "mgs1@o2ib,mgs3@o2ib:/scratch"),
        ("fuse.glusterfs", "s1:/dfs", "s2:/dfs", "s2,s1:dfs"),
        ("wekafs", "b1/fs", "b2/fs", "fs"),
    ):
        assert volume(facts(fstype, here)) != volume(facts(fstype, there))
        assert same_source(here, facts(fstype, there), False) == there
        assert same_source(here, facts(fstype, there), True) == here
        assert same_source(here, facts(fstype, shared), False) == here
    assert same_source("s:/a", facts("nfs", "s:/b"), True) == "s:/b"
    assert volume(facts("xfs", "/dev/sda1")) == identity(facts("xfs", "/dev/sda1"))


# This machine's


def test_a_directory_is_identified_by_its_mount(place: Path) -> None:
    found = identify.identify(str(place))
    assert found["writable"]
    assert not identify.identify("/proc/sys")["writable"]  # where nobody makes a directory, not even root
    assert found | {"real": f"{place}/theirs"} == identify.identify(str(place / "theirs"))
    assert found["real"] == str(place)
    assert found["fstype"] in found["mount"]
    (place / "iosweep-link").symlink_to(place)  # the target itself may be a link: the user named it
    assert identify.identify(str(place / "iosweep-link")) == found
    assert identify.read_space(str(place))["free_bytes"] > 0
    for name, wrong in (("none", "does not exist"), ("precious", "not a directory")):
        with pytest.raises(Refused, match=wrong):
            identify.identify(str(place / name))


def test_results_in_the_directory_that_is_removed_are_noticed(ours: str, place: Path, tmp_path: Path) -> None:
    found = identify.identify(str(place))
    (tmp_path / "link").symlink_to(place)
    for inside in (Path(ours), Path(ours, "archive", "c"), tmp_path / "link" / "iosweep-c" / "c"):
        assert identify.contains_results(found, ours, inside)
    for outside in (place, place / "results" / "c", tmp_path / "c"):
        assert not identify.contains_results(found, ours, outside)


@pytest.mark.parametrize("where", ["target", "above", "link"])
def test_a_directory_on_the_way_that_others_may_write_to_is_named(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For root its group counts as others, too; a user's project directory is normal. The sticky bit is enough."""
    target = tmp_path / "above" / "target"
    target.mkdir(parents=True)
    (tmp_path / "link").symlink_to(target)
    shared, named = target.parent if where == "above" else target, tmp_path / "link" if where == "link" else target
    for mode, for_root, for_user in (
        (0o755, None, None),
        (0o1777, None, None),
        (0o3775, None, None),
        (0o775, "its group", None),
        (0o2775, "its group", None),
        (0o777, "everybody", "everybody"),
    ):
        shared.chmod(mode)
        for root, said in ((True, for_root), (False, for_user)):
            monkeypatch.setattr(identify, "is_root", lambda root=root: root)
            found = identify.find_open_directory(str(named))
            if said is None:
                assert found is None, (oct(mode), root)
            else:
                assert found and found.startswith(f"{said} can write to {shared} "), (oct(mode), root)


# The lock


def test_a_local_file_system_is_locked_by_its_number_and_others_by_their_names() -> None:
    here = {"mounted": "8:1", "device": 2049}
    for source in ("/dev/root", "/dev/sda1", "/dev/mapper/a-b", "a/b:c"):
        assert lock_name(facts("ext4", source, "0a") | here) == "ext4 8:1"
    for number in ("0:50", "0:51"):
        assert lock_name(facts("lustre", "10.0.0.1@tcp:/scratch/a") | {"mounted": number}) == "lustre /scratch"
        assert lock_name(facts("gfs2", "/dev/mapper/san") | {"mounted": number}) == "gfs2 /dev/mapper/san"
    for fstype, root in (("lustre", "10.0.0.1@tcp:/scratch"), ("fuse.glusterfs", "s1:/gv0"), ("ceph", "u@a.fs=")):
        assert lock_name(facts(fstype, f"{root}/", "0a")) == lock_name(facts(fstype, f"{root}/below", "0a")), fstype
    memory = [facts("tmpfs", "server:/a") | {"mounted": number, "device": number} for number in ("0:50", "0:51")]
    assert lock_name(memory[0]) != lock_name(memory[1])
    assert not is_same_file_system(*memory)
    servers = [facts("nfs4", f"s{n}:/vol1") | {"mounted": f"0:{n}", "device": n} for n in (1, 2)]
    assert lock_name(servers[0]) == lock_name(servers[1])
    assert not is_same_file_system(*servers)


# Which directory a process sees

MOUNTS = rb"""22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:30 / /tmp rw - tmpfs tmpfs rw
25 22 254:0 /srv/a\040b /mnt/a\040b\134\012 rw - ext4 /dev/vda rw
"""


def test_a_path_leads_to_the_last_mount_on_its_way() -> None:
    table = procfs.parse_mounts(MOUNTS)
    for path, expected in (
        ("/", ("254:0", "/")),
        ("/tmp", ("0:30", "")),
        ("/tmp/x", ("0:30", "/x")),
        ("/tmpx", ("254:0", "/tmpx")),
        ("/mnt/a b\\\n/c", ("254:0", "/srv/a b/c")),
    ):
        assert identify.leads_to(path, table) == expected
    table = procfs.parse_mounts(MOUNTS + b"30 24 0:31 /u /tmp rw - tmpfs tmpfs rw\n")
    assert identify.leads_to("/tmp/x", table) == ("0:31", "/u/x")


def test_a_private_directory_is_seen_where_the_machine_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "PROC", str(tmp_path))
    for pid, table in (("self", MOUNTS), ("1", MOUNTS.replace(b"0:30", b"0:31"))):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "mountinfo").write_bytes(table)
    assert identify.is_private("/tmp") is None
    (tmp_path / "self/ns/pid").symlink_to(procfs.FIRST_PID_NAMESPACE)
    assert identify.is_private("/tmp")
    assert identify.is_private("/") is False
