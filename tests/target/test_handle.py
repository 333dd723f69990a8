"""Who can lead tools elsewhere, and that nothing is written or deleted in a directory that is not the one claimed."""

import json
import os
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import handle, identify, marker, mounts, ownership, parents, probe, removal, trees
from iosweep.target.filesystem import identity
from iosweep.target.handle import Opened, Place
from targets import NOBODY, OTHER, OWNER, as_root, as_user, at, everybodys, listing, mounted, names, needs_bindfs

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")


@pytest.fixture
def ours(place: Path) -> Place:
    """Claimed, with a set of two files."""
    directory = marker.directory_of(str(place), "c")
    uuid = ownership.claim(directory, OWNER)
    found = Place(directory, uuid, identity(identify.identify(str(place))))
    for name in ("0.0", "1.0"):
        (Path(trees.ensure(found, "sets/s")) / name).write_text("ours")
    return found


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    yield
    handle._seen.clear()
    handle._uid_on.clear()


#: Every step that works in the directory, and those that remove there.
WORKING: dict[str, Any] = {
    "check": handle.check,
    "ensure": lambda p: trees.ensure(p, "fresh/x"),
    "keep": lambda p: trees.keep(p, "sets/s", "s"),
    "examine": lambda p: trees.examine(p, [trees.Look("sets/s", ["0.0"], 4)]),
}
REMOVING: dict[str, Any] = {
    "remove": lambda p: removal.remove(p, "sets"),
    "remove_all": removal.remove_all,
    "remove_probes": probe.remove_probes,
}
READING: dict[str, Any] = {"usage": trees.usage, "parts": trees.parts, "count": lambda p: trees.count(p, "sets")}
STEPS = WORKING | REMOVING | READING


# Another directory in its place


@pytest.mark.parametrize("step", STEPS)
def test_another_directory_has_its_name(ours: Place, tmp_path: Path, step: str) -> None:
    """Somebody renames ours, and another one, even another campaign's, has its name."""
    directory = Path(ours.directory)
    directory.rename(tmp_path / "away")
    directory.mkdir()
    (directory / "sets" / "s").mkdir(parents=True)
    (directory / "sets" / "s" / "0.0").write_text("theirs")
    before = listing(directory.parent, all=True)
    with pytest.raises(Refused, match="has no marker"):
        STEPS[step](ours)
    assert listing(directory.parent, all=True) == before
    (directory / "iosweep.json").write_text('{"uuid": "another"}')
    before = listing(directory.parent, all=True)
    with pytest.raises(Refused, match="belongs to another campaign"):
        STEPS[step](ours)
    assert listing(directory.parent, all=True) == before
    assert "belongs to another campaign" in str(probe.state(ours))


@pytest.mark.local
@as_root
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["another", "same"])
def test_a_mount_over_it(ours: Place, tmp_path: Path, step: str, kind: str) -> None:
    """With a copy of all that is ours, marker included: of the same file system, and on another one."""
    copy = tmp_path / "copy"
    copy.mkdir()
    own = (Path(ours.directory) / "iosweep.json").read_bytes()
    mount = ("-t", "tmpfs", "tmpfs") if kind == "another" else ("--bind", str(copy))
    with mounted("mount", *mount, ours.directory):
        (Path(ours.directory) / "sets" / "s").mkdir(parents=True)
        (Path(ours.directory) / "sets" / "s" / "0.0").write_text("theirs")
        (Path(ours.directory) / "iosweep.json").write_bytes(own)
        before = listing(Path(ours.directory))
        with pytest.raises(Refused, match="is a mount point"):
            STEPS[step](ours)
        assert listing(Path(ours.directory)) == before
    assert names(f"{ours.directory}/sets/s") == ["0.0", "1.0"]


@pytest.mark.local
@as_root
@pytest.mark.parametrize("known", [True, False], ids=["same agent", "new agent"])
def test_a_mount_over_the_target(ours: Place, place: Path, known: bool) -> None:
    """The copy of the directory on another file system has the marker, too."""
    if known:
        handle.check(ours)
    else:
        handle._seen.clear()
    own = (Path(ours.directory) / "iosweep.json").read_bytes()
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(place)):
        (Path(ours.directory) / "sets").mkdir(parents=True)
        (Path(ours.directory) / "iosweep.json").write_bytes(own)
        for step in STEPS.values():
            with pytest.raises(Refused, match=r"is on another file system than when it began \(tmpfs .*and it was"):
                step(ours)
        assert names(ours.directory) == ["iosweep.json", "sets"]
    handle.check(ours)


@pytest.mark.local
@as_root
@pytest.mark.parametrize("step", STEPS)
def test_a_mount_that_goes_while_a_step_looks(
    ours: Place, place: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the target, with a copy of the directory, on the same file system. What kind that is cannot be seen then."""
    shutil.copytree(ours.directory, tmp_path / "lair" / "iosweep-c")
    before = listing(tmp_path / "lair", all=True)
    path, calls = marker._path, []

    def late(handle: int) -> str:
        found = path(handle)
        calls.append(found)
        if len(calls) == 2:
            subprocess.run(["umount", "-l", str(place)], check=True)
        return found

    monkeypatch.setattr(marker, "_path", late)
    subprocess.run(["mount", "--bind", str(tmp_path / "lair"), str(place)], check=True)
    with pytest.raises(Refused, match="was unmounted meanwhile"):
        STEPS[step](ours)
    assert listing(tmp_path / "lair", all=True) == before


@pytest.mark.local
@as_root
def test_mounted_again(tmp_path: Path) -> None:
    """The same file system by another mount: that is no other one."""
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "m")):
        directory = f"{tmp_path}/m/iosweep-c"
        found = Place(directory, ownership.claim(directory, OWNER), identity(identify.identify(f"{tmp_path}/m")))
        handle.check(found)
        with mounted("mount", "--bind", f"{tmp_path}/m", f"{tmp_path}/m"):
            trees.ensure(found, "sets/s")
        assert names(directory) == ["iosweep.json", "sets"]


@pytest.mark.local
@as_root
def test_another_file_system_with_the_numbers_of_the_old_one(tmp_path: Path) -> None:
    """After an unmount the kernel gives number of device and of mount to the next one; the copy has the marker."""
    place, copy = tmp_path / "m", tmp_path / "copy"
    directory = f"{place}/iosweep-c"
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(place)):
        found = Place(directory, ownership.claim(directory, OWNER), identity(identify.identify(str(place))))
        trees.ensure(found, "sets/s")
        before = _numbers(directory)
        handle.check(found)
        shutil.copytree(directory, copy)
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(place)):
        shutil.copytree(copy, directory)
        for step in STEPS.values():
            with pytest.raises(Refused, match="is on another file system than when it began"):
                step(found)
        after = _numbers(directory)
    if before != after:
        pytest.skip("the kernel gave other numbers")


def _numbers(directory: str) -> tuple[int, int]:
    opened = os.open(directory, os.O_PATH)
    try:
        return os.fstat(opened).st_dev, mounts.mount_of(opened)
    finally:
        os.close(opened)


@pytest.mark.local
@as_root
def test_a_root_that_is_not_a_mount_point(tmp_path: Path) -> None:
    """In a chroot the table of mounts does not have the one that `/` is on."""
    root = tmp_path / "root"
    (root / "scratch").mkdir(parents=True)
    program = (
        "from iosweep.target.filesystem import identity\n"
        "os.chroot(sys.argv[1]); os.chdir('/')\n"
        "found = identity(identify.identify('/scratch'))\n"
        "place = Place('/scratch/iosweep-c', ownership.claim('/scratch/iosweep-c', {owner}), found)\n"
        "handle.check(place)\n"
        "trees.ensure(place, 'sets/s')\n"
        "print(found, removal.remove_all(place)['wrong'])\n"
    )
    with mounted("mount", "-t", "proc", "proc", str(root / "proc")):
        said = as_user(program, str(root), uid=0)
    assert said.startswith("unknown unknown ")
    assert said.endswith(" []\n")
    assert names(root / "scratch") == []


@pytest.mark.local
@as_root
def test_a_file_mounted_over_one_of_ours(ours: Place, place: Path) -> None:
    """A tool would write to it, and it cannot be removed: it is left alone, and named."""
    file = f"{ours.directory}/sets/s/0.0"
    subprocess.run(["mount", "--bind", str(place / "precious"), file], check=True)
    try:
        for step in WORKING.values():
            with pytest.raises(Refused, match=r"`sets/s/0.0` in .*iosweep-c is a mount point; it is left alone"):
                step(ours)
        for step in (REMOVING["remove"], REMOVING["remove_all"]):
            assert step(ours)["wrong"] == ["sets/s/0.0: a mount point, it is left alone"]
        assert names(f"{ours.directory}/sets/s") == ["0.0"]
        assert trees.parts(ours) == ["sets"]
    finally:
        subprocess.run(["umount", file], check=True)
    assert removal.remove_all(ours)["wrong"] == []


@pytest.mark.local
@as_root
@pytest.mark.parametrize("over", ["sets", "sets/s"])
def test_what_is_mounted_on_the_way_is_not_emptied(ours: Place, tmp_path: Path, over: str) -> None:
    """A bind mount: the device is the same. What is named for removal is in it, or is it."""
    theirs = tmp_path / "theirs"
    (theirs / "s").mkdir(parents=True)
    (theirs / "s" / "0.0").write_text("precious")
    with mounted("mount", "--bind", str(theirs), f"{ours.directory}/{over}"):
        with pytest.raises(Refused, match=f"`{Path(over).name}` in .* is a mount point; it is left alone"):
            removal.remove(ours, "sets/s")
        assert (theirs / "s" / "0.0").read_text() == "precious"
    assert names(f"{ours.directory}/sets/s") == ["0.0", "1.0"]


@as_root
def test_root_trusts_nobody(ours: Place, place: Path) -> None:
    """target.trust_other_writers has no effect for root."""
    place.chmod(0o777)
    with pytest.raises(Refused, match="everybody can write to"):
        handle.check(ours._replace(trusting=True))
    place.chmod(0o755)


def test_a_file_to_read_with_a_second_name(ours: Place, tmp_path: Path) -> None:
    """Whoever has the other name could change what is read."""
    os.link(f"{ours.directory}/sets/s/0.0", tmp_path / "other")
    [found] = trees.examine(ours, [trees.Look("sets/s", ["0.0", "1.0"], 4, False)])
    assert found["wrong"] == ["0.0 has another name as well (a hard link)"]


@as_root
@pytest.mark.parametrize("trusting", [False, True])
@pytest.mark.parametrize("step", WORKING | REMOVING)
def test_a_directory_that_another_user_owns(ours: Place, step: str, trusting: bool) -> None:
    """Its path and its marker are right: another user has put it there, who may write to the target."""
    os.chown(ours.directory, OTHER, OTHER)
    before = listing(Path(ours.directory))
    with pytest.raises(Refused, match=f"belongs to .*{OTHER} now; it is left alone"):
        STEPS[step](ours._replace(trusting=trusting))
    assert listing(Path(ours.directory)) == before


@pytest.mark.local
@as_root
def test_names_in_the_table_of_mounts(ours: Place) -> None:
    for name in ("a b", "a\tb", "a\nb", "a\\b", "a#b", "\u00e4", "a\udcff"):
        inside = Path(trees.ensure(ours, f"sets/{name}/in side"))
        with mounted("mount", "-t", "tmpfs", "tmpfs", str(inside)), Opened(ours, use="read") as found:
            assert found.mounts == [f"sets/{name}/in side"]
    handle.check(ours)


def test_what_is_removed_at_last_is_what_was_opened(ours: Place, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory of somebody else comes to its place while ours is emptied."""
    empty = removal._Removal.empty

    def swap(self: Any, *arguments: Any, **more: Any) -> None:
        empty(self, *arguments, **more)
        Path(ours.directory).rename(place / "iosweep-away")
        Path(ours.directory).mkdir()

    monkeypatch.setattr(removal._Removal, "empty", swap)
    removal.remove_all(ours)
    assert Path(ours.directory).exists()


# Who may put one there


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o2775, 0o733, 0o757])
def test_a_target_that_others_may_write_to(place: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parents, "own_group", lambda gid: False)
    place.chmod(mode)
    before = listing(place, all=True)
    who = "everybody" if mode & 0o002 else "group "
    with pytest.raises(Refused, match=rf"^{who}.* can write to {place} \(mode {mode:04o}, owner [^)]+\)\).*chmod \+t"):
        ownership.claim(f"{place}/iosweep-c", OWNER)
    assert listing(place, all=True) == before
    place.chmod(0o755)


@pytest.mark.parametrize("where", ["target", "above", "link"])
def test_it_is_seen_wherever_it_is(tmp_path: Path, where: str) -> None:
    """On the way to the target, and on that of a symbolic link in it."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "way").symlink_to("../a/b/../b")
    way = {"target": deep, "above": deep, "link": tmp_path / "links" / "way" / "c"}[where]
    open_one = {"target": deep, "above": tmp_path / "a", "link": tmp_path / "links"}[where]
    ownership.claim(f"{way}/iosweep-c", OWNER)
    found = at(f"{way}/iosweep-c")
    handle.check(found)
    open_one.chmod(0o777)
    for step in WORKING.values():
        with pytest.raises(Refused, match=f"everybody can write to {open_one} "):
            step(found)
    assert "everybody can write" in str(probe.state(found))
    trees.usage(found)  # what is only read or removed goes by the handle
    open_one.chmod(0o1777)
    handle.check(found)
    assert removal.remove_all(found)["wrong"] == []


@as_root
def test_the_group_of_a_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many systems give everybody a group of their own, and a umask of 002."""
    monkeypatch.setattr(parents, "_accounts", list)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    assert parents.walk(str(shared)).suspects == []  # root's own
    # `setfacl -m u:12345:rwx`: its mask shows as the mode's group
    entries = ((1, 7, -1), (2, 7, OTHER), (4, 5, -1), (16, 7, -1), (32, 5, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(shared, "system.posix_acl_access", acl)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o2775
    assert len(parents.walk(str(shared)).suspects) == 1
    os.removexattr(shared, "system.posix_acl_access")
    assert parents.walk(str(shared)).suspects == []
    os.chown(shared, 0, OTHER)
    assert len(parents.walk(str(shared)).suspects) == 1


@pytest.mark.parametrize(
    ("name", "members", "primary", "own"),
    [
        ("me", [], 7, True),
        ("me", ["me"], 7, True),
        ("me", ["other"], 7, False),
        ("x", [], 7, False),
        ("me", [], 8, False),
    ],
)
def test_which_group_is_ones_own(
    name: str, members: list[str], primary: int, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = type("User", (), {"pw_gid": primary, "pw_name": "me"})
    group = type("Group", (), {"gr_name": name, "gr_mem": members})
    monkeypatch.setattr(parents.pwd, "getpwuid", lambda _: user)
    monkeypatch.setattr(parents.grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(parents, "_accounts", list)
    assert parents.own_group(7) == own


@pytest.mark.parametrize(
    ("uid", "gid", "shell", "own"),
    [
        (OTHER, 0, "/bin/bash", False),
        (OTHER, 0, "", False),  # that is /bin/sh
        (OTHER, 7, "/bin/bash", True),
        (0, 0, "/bin/sh", True),  # root by another name
        (11, 0, "/sbin/nologin", True),  # operator, on RHEL
        (OTHER, 0, "/usr/bin/false", True),
        (5, 0, "/bin/sync", True),
        (6, 0, "/sbin/shutdown", True),
        (7, 0, "/sbin/halt", True),
    ],
)
def test_whose_primary_group_it_is(
    uid: int, gid: int, shell: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of a group's members does not have those whose primary group it is."""
    root = parents.pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/bash"))
    other = parents.pwd.struct_passwd(("other", "x", uid, gid, "", "/", shell))
    group = type("Group", (), {"gr_name": "root", "gr_mem": []})
    monkeypatch.setattr(parents.os, "getuid", lambda: 0)
    monkeypatch.setattr(parents.pwd, "getpwuid", lambda _: root)
    monkeypatch.setattr(parents.grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(parents.pwd, "getpwall", lambda: [root, other])
    parents._accounts.cache_clear()
    assert parents.own_group(0) == own
    parents._accounts.cache_clear()


@as_root
def test_the_owner_of_a_directory_on_the_way(place: Path) -> None:
    """Whose directory it is may rename all in it, whatever its mode."""
    os.chown(place, OTHER, OTHER)
    before = listing(place, all=True)
    with pytest.raises(Refused, match=rf"{place} belongs to user id {OTHER}, who could put another directory"):
        ownership.claim(f"{place}/iosweep-c", OWNER)
    place.chmod(0o1777)
    with pytest.raises(Refused, match=f"belongs to user id {OTHER}"):  # nor does the sticky bit hold its owner
        ownership.claim(f"{place}/iosweep-c", OWNER)
    assert listing(place, all=True) == before
    (place / "iosweep-c").mkdir()  # empty, as one that was made for us
    with pytest.raises(Refused, match=f"belongs to user id {OTHER}"):
        ownership.claim(f"{place}/iosweep-c", OWNER)
    assert names(place / "iosweep-c") == []
    os.chown(place, 0, 0)
    found = Place(f"{place}/iosweep-c", ownership.claim(f"{place}/iosweep-c", OWNER))
    os.chown(place, OTHER, OTHER)
    with pytest.raises(Refused, match=f"belongs to user id {OTHER}"):
        handle.check(found)
    os.chown(place, 0, 0)
    place.chmod(0o755)


@as_root
def test_a_link_that_its_owner_may_turn() -> None:
    with everybodys() as shared:
        (shared / "data").mkdir()
        (shared / "way").symlink_to("data")
        assert parents.walk(f"{shared}/way").suspects == []
        os.chown(shared / "way", OTHER, OTHER, follow_symlinks=False)
        [found] = parents.walk(f"{shared}/way").suspects
        assert found.fact.startswith(f"the symbolic link {shared}/way belongs to user id {OTHER}")
        assert found.danger == "who could make it lead elsewhere while tools write there"
        (shared / "round").symlink_to("round")
        with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
            parents.walk(f"{shared}/round")


@pytest.mark.local
@as_root
@needs_bindfs
@pytest.mark.parametrize("below", ["", "deep"])
def test_a_file_system_that_another_user_serves(below: str) -> None:
    """FUSE with allow_other: its server shows any owner and mode, and may show links to tools only."""
    program = (
        "try:\n"
        "  print(identify.look(sys.argv[1])['others'])\n"
        "  print(ownership.claim(sys.argv[1] + '/iosweep-c', {owner}))\n"
        "except Refused as error: print(error)\n"
    )
    with everybodys() as shared:
        (shared / "lair" / "deep").mkdir(parents=True)
        target = shared / "m" / below
        # what fusermount does for a user; it refuses where fuse.conf does not have user_allow_other
        served = ("setpriv", "--ruid", str(OTHER + 1), "bindfs", "-o", f"force-user={OTHER},allow_other")
        with mounted(*served, str(shared / "lair"), str(shared / "m")):
            assert target.stat().st_uid == OTHER
            looked, refused = as_user(program, str(target)).splitlines()
            with pytest.raises(Refused, match="is served by a process of"):
                ownership.claim(f"{target}/iosweep-c", OWNER, True)  # root trusts nobody
        assert looked == refused
        assert refused.startswith(
            f"the file system of {shared}/m is served by a process of user id {OTHER + 1} (FUSE),"
        )
        assert names(shared / "lair" / below) == ([] if below else ["deep"])


@pytest.mark.local
@as_root
def test_whom_the_user_trusts() -> None:
    """Never as root, who could overwrite everything."""
    claim = (
        "import sys; d = sys.argv[1]\n"
        "for trusting in (False, True):\n"
        "  try: print(handle.trusted(Place(d, ownership.claim(d, {owner}, trusting), '', trusting)))\n"
        "  except Refused as error: print(error)\n"
    )
    with everybodys(0o777) as shared:
        refused, worked = as_user(claim, f"{shared}/iosweep-c").splitlines()
        assert refused.endswith("or set target.trust_other_writers where all who could are trusted")
        assert worked == f"['everybody can write to {shared} (mode 0777, owner root (0))']"
        with pytest.raises(Refused) as caught:
            ownership.claim(f"{shared}/iosweep-d", OWNER, True)
        assert "trust_other_writers" not in str(caught.value)
        assert not Path(f"{shared}/iosweep-d").exists()


@pytest.mark.parametrize(
    ("uid", "mapped", "root"),
    [(0, "0 0 4294967295", True), (0, "0 12345 1", False), (0, "0 100000 65536", False), (7, "0 0 4294967295", False)],
)
def test_the_root_of_a_user_namespace_is_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, mapped: str, root: bool
) -> None:
    (tmp_path / "uid_map").write_text("".join(f"{number:>11}" for number in mapped.split()) + "\n")
    monkeypatch.setattr(parents, "_UID_MAP", tmp_path / "uid_map")
    monkeypatch.setattr(parents.os, "getuid", lambda: uid)
    assert parents.privileged() == root


@as_root
@pytest.mark.parametrize(("mapped", "ours"), [("0 0 4294967295", True), ("1000 1000 1", False), ("", False)])
def test_an_owner_that_is_not_mapped_is_not_us(monkeypatch: pytest.MonkeyPatch, mapped: str, ours: bool) -> None:
    """In a user namespace all that it does not map shows as 65534, and so do we, where we are not mapped ourselves."""
    with everybodys(0o755) as place:
        uid_map = Path(f"{place}.uid_map")
        uid_map.write_text(f"{mapped}\n" if mapped else "")
        os.chown(place, 65534, 65534)
        monkeypatch.setattr(parents, "_UID_MAP", uid_map)
        monkeypatch.setattr(parents.os, "getuid", lambda: 65534)
        way = parents.walk(str(place))
        way.close()
        uid_map.unlink()
    assert [suspect.uid for suspect in way.suspects] == ([] if ours else [None])


@pytest.mark.local
@as_root
@pytest.mark.parametrize("inside", [None, 0, OTHER, 65534], ids=str)
def test_a_user_namespace_that_maps_only_the_user(inside: int | None) -> None:
    """Also where we show as 65534 ourselves, as all that is made on the target does. `inside`: our user id there."""
    enter = (
        "libc = ctypes.CDLL(None)\n"
        "libc.prctl(4, 1)\n"  # PR_SET_DUMPABLE, which ended with root's rights: else /proc/self is root's
        "if libc.unshare(0x10000000): sys.exit()\n"  # CLONE_NEWUSER
        "for file, text in json.loads(sys.argv[2]).items():\n"
        "  with open(f'/proc/self/{file}', 'w') as opened: opened.write(text)\n"
        "for trusting in (False, True):\n"
        "  try:\n"
        "    place = Place(sys.argv[1], ownership.claim(sys.argv[1], {owner}, trusting), '', trusting)\n"
        "    handle.check(place); print(trees.ensure(place, 'sets/s'))\n"
        "  except Refused as error: print(error)\n"
    )
    maps = {} if inside is None else {"setgroups": "deny", "uid_map": f"{inside} {OTHER} 1"}
    with everybodys() as shared:
        if not (said := as_user(enter, f"{shared}/iosweep-c", json.dumps(maps))):
            pytest.skip("user namespaces: not for users of this machine")
        refused, trusted = said.splitlines()
        assert refused.startswith("/ belongs to user ") and "(65534), who could put another directory" in refused
        assert trusted == f"{shared}/iosweep-c/sets/s"


@pytest.mark.local
@as_root
@needs_bindfs
def test_our_id_on_the_file_system(place: Path, tmp_path: Path) -> None:
    """All that is made there belongs to nobody, as on NFS with what root makes."""
    shown = tmp_path / "m"
    with mounted("bindfs", "-o", f"force-user={NOBODY}", str(place), str(shown)):
        assert identify.look(str(shown))["others"] is None  # not known before something is made there
        found = Place(f"{shown}/iosweep-c", ownership.claim(f"{shown}/iosweep-c", OWNER))
        for step in (WORKING["check"], WORKING["ensure"], REMOVING["remove"], REMOVING["remove_all"]):
            step(found)
    assert names(place) == ["precious", "theirs"]


NFS = mounts.Mount(1, 0, "0:1", "/", "/m", "nfs4", "server:/export", "rw")
FUSE = NFS._replace(fstype="fuse.x", options="rw,user_id=0,group_id=0,allow_other")
OWN = FUSE._replace(options=f"rw,user_id={OTHER},group_id={OTHER}")


@pytest.mark.parametrize(
    ("name", "shell", "mount", "me", "ours"),
    [
        (None, "", NFS, 0, True),  # no account here
        (None, "", FUSE, 0, True),
        ("nobody", "/usr/sbin/nologin", NFS, 0, True),  # root_squash
        ("nobody", "/bin/bash", NFS, 0, True),  # SLES
        ("nfsnobody", "/sbin/nologin", FUSE, 0, True),  # GlusterFS with root-squash
        ("ann", "/bin/bash", NFS, 0, False),  # all_squash,anonuid=<ann>; CIFS with uid=ann
        ("ann", "/bin/bash", NFS, OTHER, False),  # our id on the server is that of ann, who gets there as well
        ("ann", "", NFS, 0, False),
        ("ann", "/bin/bash", FUSE, 0, False),  # bindfs --force-user=ann
        ("measure", "/sbin/nologin", NFS, 0, True),  # all_squash to a service account
        ("www-data", "/sbin/nologin", FUSE, 0, False),  # bindfs --force-user=www-data
        ("ann", "/bin/bash", OWN, OTHER, True),  # our sshfs: our id on the server
        ("ann", "/bin/bash", OWN._replace(options=f"{OWN.options},allow_other"), OTHER, False),
        ("ann", "/bin/bash", OWN._replace(options="rw,user_id=0,group_id=0"), 0, False),  # root trusts no source
    ],
)
def test_an_id_that_a_file_system_shows_for_us(
    name: str | None, shell: str, mount: mounts.Mount, me: int, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, and nobody else's: who can have it as well could rename what we make there."""

    def account(uid: int) -> Any:
        if name is None:
            raise KeyError(uid)
        return parents.pwd.struct_passwd((name, "x", uid, uid, "", "/", shell))

    monkeypatch.setattr(parents.pwd, "getpwuid", account)
    monkeypatch.setattr(parents.os, "getuid", lambda: me)
    monkeypatch.setattr(mounts, "of", lambda _: mount)
    assert parents.ours_alone(7, -1) == ours
    assert parents.ours_alone(me, -1)


@pytest.mark.parametrize(
    ("uid", "roots"), [(99, True), (999, True), (1000, False), (OTHER, False), (65534, True), (4294967294, True)]
)
def test_an_id_without_an_account(uid: int, roots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container knows few of the machine's accounts, and a directory service may not answer. Root takes no chance."""

    def account(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(parents.pwd, "getpwuid", account)
    monkeypatch.setattr(parents.os, "getuid", lambda: OTHER + 1)
    monkeypatch.setattr(mounts, "of", lambda _: NFS)
    for privileged in (False, True):
        monkeypatch.setattr(parents, "privileged", lambda privileged=privileged: privileged)
        assert parents.ours_alone(uid, -1) == (roots or not privileged)


@pytest.mark.local
@as_root
@needs_bindfs
@pytest.mark.parametrize("way", ["force-user", "create-for-user"])
def test_a_file_system_that_gives_all_to_an_account(
    place: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS with all_squash: that user could rename our directory while a tool of root follows links there."""
    shown, uid = tmp_path / "m", parents.pwd.getpwnam("daemon").pw_uid
    place.chmod(0o1777)
    with mounted("bindfs", "-o", f"{way}=daemon", str(place), str(shown)):
        wrong = f"({shown}|what you make in {shown}/iosweep-c) belongs to user daemon"
        for name in ("c", "d"):
            with pytest.raises(Refused, match=wrong.replace("-c", f"-{name}")):
                ownership.claim(f"{shown}/iosweep-{name}", OWNER | {"campaign": name}, True)
            assert names(place) == ["precious", "theirs"]
        with monkeypatch.context() as before:  # as it was claimed before the account was there
            before.setattr(parents, "_nobody_elses", lambda *_: True)
            found = Place(f"{shown}/iosweep-c", ownership.claim(f"{shown}/iosweep-c", OWNER))
            trees.ensure(found, "sets/s")
        assert Path(found.directory).stat().st_uid == uid
        with pytest.raises(Refused, match="belongs to user daemon"):
            ownership.claim(found.directory, OWNER)
        for step in WORKING.values():
            with pytest.raises(Refused, match="belongs to user daemon"):
                step(found)
        for step in ("usage", "parts", "count", "remove", "remove_probes", "remove_all"):
            STEPS[step](found)
    assert names(place) == ["precious", "theirs"]


@pytest.mark.local
@as_root
@needs_bindfs
def test_a_directory_made_for_us_where_all_goes_to_an_account(place: Path, tmp_path: Path) -> None:
    """It is root's; what tools find below it is not."""
    (place / "iosweep-c").mkdir()
    gives = mounted("bindfs", "-o", "create-for-user=daemon", str(place), str(tmp_path / "m"))
    with gives, pytest.raises(Refused, match=r"what you make in .*/iosweep-c belongs to user daemon"):
        ownership.claim(f"{tmp_path}/m/iosweep-c", OWNER)
    assert names(place / "iosweep-c") == []
    (place / "iosweep-c").rmdir()


def test_all_that_others_control_is_named_at_once(tmp_path: Path) -> None:
    """Else one is mended, and the next is met."""
    way = tmp_path
    for number in range(5):
        way /= f"w{number}"
        way.mkdir()
        way.chmod(0o777)
    with pytest.raises(Refused) as caught:
        ownership.claim(f"{way}/iosweep-c", OWNER)
    w = f"{tmp_path}/w0"
    for directory in (w, f"{w}/w1", f"{w}/w1/w2"):
        assert f"everybody can write to {directory} (mode 0777, owner " in str(caught.value)
        assert f"`chmod go-w {directory}`" in str(caught.value)
    assert str(caught.value).count("put another directory") == 1
    assert str(caught.value).endswith(") and 2 more")


def test_the_way_holds_no_handles(place: Path) -> None:
    count = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        parents.walk(f"{place}/none/deep")
    parents.walk(str(place)).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == count
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
