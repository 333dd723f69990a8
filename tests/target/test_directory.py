"""The campaign's directory on the target: what is ours, and that nothing else is ever touched."""

import contextlib
import errno
import itertools
import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import directory as directories
from iosweep.target import identify
from iosweep.target.directory import Opened, Place
from targets import (
    OTHER,
    OWNER,
    as_root,
    as_user,
    at,
    everybodys,
    marker_in,
    mounted,
    names,
)

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")


# Ours or not


def test_a_fresh_directory(place: Path) -> None:
    directory = directories.directory_of(str(place), "c")
    assert directory == f"{place}/iosweep-c"
    uuid = directories.claim(directory, OWNER)
    status = Path(directory).stat()
    assert marker_in(directory).items() >= (OWNER | {"uuid": uuid}).items()
    assert marker_in(directory)["place"].items() >= {"path": directory, "inode": status.st_ino}.items()
    assert stat.S_IMODE(Path(directory).stat().st_mode) == 0o700


def test_what_others_could_write_to_is_shut(place: Path) -> None:
    directory = place / "iosweep-c"
    for mode, shut in ((0o777, 0o755), (0o775, 0o755), (0o750, 0o750)):
        directory.mkdir(exist_ok=True)
        directory.chmod(mode)
        directories.claim(str(directory), OWNER)
        assert stat.S_IMODE(directory.stat().st_mode) == shut


def test_ours_again(ours: str) -> None:
    uuid = marker_in(ours)["uuid"]
    assert directories.claim(ours, OWNER) == uuid  # the same user, host and results: we were killed before we noted it
    assert directories.claim(ours, OWNER | {"uuid": uuid}) == uuid
    # results that were moved, another host or user of a group: the UUID tells
    moved = {"uuid": uuid, "uid": 7, "host": "other", "results": "/elsewhere", "campaign": "c"}
    assert directories.claim(ours, moved) == uuid
    assert marker_in(ours).items() >= (OWNER | {"uuid": uuid}).items()


@pytest.mark.parametrize("change", [{"uid": 7}, {"host": "other"}, {"results": "/elsewhere"}])
@pytest.mark.parametrize("uuid", [None, "11111111-1111-1111-1111-111111111111"])
def test_another_campaigns(ours: str, change: dict[str, Any], uuid: str | None) -> None:
    with pytest.raises(Refused, match=r"\(results in /home/me/results/c on h, user id 1000\)"):
        directories.claim(ours, OWNER | change | {"uuid": uuid})


@pytest.mark.parametrize("content", ["", "not json", "[1]", "\udcff", '"text"', "null"])
def test_a_marker_that_is_not_ours(place: Path, content: str) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "iosweep.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(Refused, match="the marker iosweep"):
        directories.claim(str(directory), OWNER)


@pytest.mark.parametrize("content", ["{}", '{"uuid": null}', '{"uid": 5}', '{"uuid": "", "uid": 1000, "host": "h"}'])
def test_a_marker_without_a_uuid_is_not_ours(place: Path, content: str) -> None:
    # our own UUID is not known yet: nothing and nothing must not be the same
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "iosweep.json").write_text(content)
    with pytest.raises(Refused, match="belongs to another campaign"):
        directories.claim(str(directory), OWNER)


def test_a_marker_that_is_a_link_or_a_directory(place: Path) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "iosweep.json").symlink_to(place / "precious")
    with pytest.raises(Refused, match="cannot be read"):
        directories.claim(str(directory), OWNER)
    (directory / "iosweep.json").unlink()
    (directory / "iosweep.json").mkdir()
    with pytest.raises(Refused, match="is not a regular file"):
        directories.claim(str(directory), OWNER)
    (directory / "iosweep.json").rmdir()
    os.mkfifo(directory / "iosweep.json")  # opened as a file is, it would wait forever
    for touch in (lambda d: directories.claim(d, OWNER), directories.owner_of):
        with pytest.raises(Refused, match="is not a regular file"):
            touch(str(directory))
    assert not directories.ours(str(directory), "")


def test_what_a_marker_says_drives_no_terminal(ours: str) -> None:
    written = OWNER | {"uuid": "u", "user": "me", "host": "\x1b[2J", "results": "/r\n" + "x" * 9999}
    (Path(ours) / "iosweep.json").write_text(json.dumps(written))
    with pytest.raises(Refused) as caught:
        directories.claim(ours, OWNER)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    assert str(caught.value).endswith(
        r"x on \x1b[2J, user me, id 1000); it is left alone. Choose another campaign name."
    )


def test_files_without_a_marker_are_left_alone(place: Path) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "file").write_text("x")
    with pytest.raises(Refused, match=r"exists, but has no marker iosweep.json of ours; it is left alone"):
        directories.claim(str(directory), OWNER)
    assert [f.name for f in directory.iterdir()] == ["file"]


def test_an_empty_directory_is_adopted(place: Path) -> None:
    # somebody made it for us, with a striping of its own
    (place / "iosweep-c").mkdir()
    assert directories.claim(f"{place}/iosweep-c", OWNER)


def test_a_kill_while_the_marker_was_written_does_not_lock_us_out(place: Path) -> None:
    (place / "iosweep-c").mkdir()
    (place / "iosweep-c" / "iosweep.json.tmp").write_text('{"uu')
    uuid = directories.claim(f"{place}/iosweep-c", OWNER)
    assert [f.name for f in (place / "iosweep-c").iterdir()] == ["iosweep.json"]
    assert marker_in(f"{place}/iosweep-c")["uuid"] == uuid


@as_root
def test_a_directory_of_another_user(ours: str) -> None:
    # who owns the directory can put links in the way of what writes there, and knows how to copy a marker
    uuid = marker_in(ours)["uuid"]
    os.chown(ours, OTHER, OTHER)
    with pytest.raises(Refused, match=f"belongs to user {OTHER}, and root measures only in what is root's"):
        directories.claim(ours, OWNER | {"uuid": uuid})
    assert names(ours) == ["iosweep.json"]
    (Path(ours) / "iosweep.json").unlink()
    with pytest.raises(Refused, match=f"belongs to user {OTHER}"):
        directories.claim(ours, OWNER)
    assert names(ours) == []


@pytest.mark.local
@as_root
def test_a_user_takes_no_directory_of_another() -> None:
    program = "try: directory.claim(sys.argv[1], {owner})\nexcept Refused as error: print(error)"
    with everybodys() as shared:
        directory = shared / "iosweep-c"
        directory.mkdir()
        directory.chmod(0o777)
        os.chown(directory, OTHER + 1, OTHER + 1)
        assert f"belongs to user {OTHER + 1}; it is left alone" in as_user(program, str(directory))
        assert names(str(directory)) == []


@pytest.mark.local
@as_root
def test_a_umask_that_closes_what_we_make() -> None:
    claim = (
        "os.umask(0o777)\n"
        "try: directory.claim(sys.argv[1], {owner})\n"
        "except Refused as error: print(error)\n"
    )  # fmt: skip
    with everybodys() as shared:
        assert "set a umask that leaves you all rights" in as_user(claim, f"{shared}/iosweep-c")
        assert names(shared) == []


@pytest.mark.local
@as_root
def test_a_mount_point_in_its_place(ours: str, place: Path) -> None:
    # bound to another directory of the same file system: no device number tells
    uuid = marker_in(ours)["uuid"]
    (Path(ours) / "sets").mkdir()
    bound = mounted("mount", "--bind", str(place / "theirs"), f"{ours}/sets")
    with bound, pytest.raises(Refused, match=r"`sets` in .* is a mount point; it is left alone"):
        Opened(at(ours)).below("sets/deep").__enter__()
    bound = mounted("mount", "--bind", ours, ours)
    with bound, pytest.raises(Refused, match="is a mount point, so not on the target"):
        directories.claim(ours, OWNER | {"uuid": uuid})


# Whether it can be worked in


def test_nothing_wrong(ours: str) -> None:
    uuid = marker_in(ours)["uuid"]
    assert directories.state(Place(ours, uuid)) is None
    assert names(ours) == ["iosweep.json"]
    (Path(ours) / directories.PROBE).touch()  # left by a kill
    assert directories.state(Place(ours, uuid)) is None
    assert names(ours) == ["iosweep.json"]
    assert directories.owner_of(ours) == marker_in(ours)
    assert directories.ours(ours, uuid)


@pytest.mark.parametrize("remove", ["claim", "remove_probes"])
def test_probes_that_a_kill_has_left_are_removed(ours: str, remove: str) -> None:
    """Also those of nodes that are not in this job; nothing else that has such a name."""
    place, uuid = Path(ours), marker_in(ours)["uuid"]
    for name in (directories.PROBE, f"{directories.PROBE}.n1", f"{directories.PROBE}.n2"):
        (place / name).write_bytes(b"x")
    (place / f"{directories.PROBE}.d").mkdir()
    (place / f"{directories.PROBE}.link").symlink_to("iosweep.json")
    (place / f"{directories.PROBE}s").touch()
    if remove == "claim":
        directories.claim(ours, OWNER)
    else:
        directories.remove_probes(Place(ours, uuid))
    others = [f"{directories.PROBE}.d", f"{directories.PROBE}.link", f"{directories.PROBE}s"]
    assert sorted(f.name for f in Path(ours).iterdir()) == sorted(["iosweep.json", *others])


def test_probes_of_another_campaign_are_left(ours: str) -> None:
    (Path(ours) / directories.PROBE).touch()
    with pytest.raises(Refused, match="belongs to another campaign"):
        directories.remove_probes(Place(ours, "11111111-1111-1111-1111-111111111111"))
    with pytest.raises(Refused, match="belongs to another campaign"):
        directories.claim(ours, OWNER | {"uid": 7})
    assert (Path(ours) / directories.PROBE).exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_target_that_takes_no_data_is_not_dead(ours: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", fail)
    assert directories.state(Place(ours, marker_in(ours)["uuid"])) is None
    assert names(ours) == ["iosweep.json"]


@pytest.mark.parametrize("call", ["write", "fsync", "pread"])
def test_no_data_server_answers(ours: str, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty file needs no data server, so that one can be made proves little."""
    uuid = marker_in(ours)["uuid"]

    def fail(*_: object) -> int:
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No such device or address"):
        directories.state(Place(ours, uuid))
    assert names(ours) == ["iosweep.json"]


def test_other_data_is_read_back(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda _file, size, at: b"\0" * size if at == 0 else b"")
    with pytest.raises(OSError, match="of 1048576 bytes, 0 are read back as they were written"):
        directories.state(Place(ours, marker_in(ours)["uuid"]))
    assert directories.state(Place(ours, marker_in(ours)["uuid"]), data=False) is None
    assert names(ours) == ["iosweep.json"]


@pytest.mark.parametrize("number", [errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNABORTED, errno.ENXIO])
@pytest.mark.parametrize("when", ["open", "read"])
def test_a_marker_that_the_server_does_not_give(
    ours: str, number: int, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is not refused: it says nothing about the marker."""
    real = getattr(os, when)

    def fail(name: Any, *arguments: Any, **more: Any) -> Any:
        if when == "read" or name == directories.MARKER:
            raise OSError(number, os.strerror(number))
        return real(name, *arguments, **more)

    monkeypatch.setattr(directories, "mount_of", lambda _: 1)
    monkeypatch.setattr(os, when, fail)
    for look in (
        lambda: directories.claim(ours, OWNER),
        lambda: directories.ours(ours, "x"),
        lambda: directories.state(Place(ours, "x")),
        lambda: directories.owner_of(ours),
    ):
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            look()


def test_no_longer_there_or_not_ours(ours: str) -> None:
    uuid = marker_in(ours)["uuid"]
    assert "belongs to another campaign (results in /home/me" in str(directories.state(Place(ours, "another")))
    (Path(ours) / "iosweep.json").unlink()
    assert (
        directories.state(Place(ours, uuid)) == f"{ours} has no marker iosweep.json of ours any more; it is left alone"
    )
    with pytest.raises(Refused, match="has no marker"):
        directories.owner_of(ours)
    Path(ours).rmdir()
    assert directories.state(Place(ours, uuid)) == f"{ours} is no longer there; is the file system still mounted?"
    assert directories.owner_of(ours) is None
    Path(ours).touch()
    assert directories.state(Place(ours, uuid)) == f"{ours} is no longer there; is the file system still mounted?"
    now = directories._identity_of(os.open(os.path.dirname(ours), os.O_RDONLY))  # noqa: PTH120
    changed = f"{os.path.dirname(ours)} is on {now} now, and the target was on fuse mfs#m1:9421"  # noqa: PTH120
    other = f"{ours} is no longer there: {changed}; is the file system still mounted?"
    assert directories.state(Place(ours, uuid, "fuse mfs#m1:9421")) == other
    assert directories.state(Place(f"{ours}/a/b", uuid, "fuse mfs#m1:9421")) == other.replace(ours, f"{ours}/a/b")
    assert directories.state(Place(ours, uuid, now)) == f"{ours} is no longer there; is the file system still mounted?"


@pytest.mark.local
@as_root
def test_full_and_read_only(tmp_path: Path) -> None:
    with mounted("mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=10", "tmpfs", str(tmp_path / "small")):
        ours = f"{tmp_path}/small/iosweep-c"
        uuid = directories.claim(ours, OWNER)
        with contextlib.suppress(OSError), (tmp_path / "small" / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for number in itertools.count():  # no inode either
            try:
                (tmp_path / "small" / str(number)).touch()
            except OSError:
                break
        with pytest.raises(OSError, match="No space left"):
            (Path(ours) / "x").touch()
        assert directories.state(Place(ours, uuid)) is None  # that is a result
        subprocess.run(["mount", "-o", "remount,ro", tmp_path / "small"], check=True)
        assert directories.state(Place(ours, uuid)) == f"the target is read-only now: nothing can be written to {ours}"
        with pytest.raises(Refused, match=f"the target {tmp_path}/small is read-only; mount it writable"):
            directories.claim(f"{tmp_path}/small/iosweep-d", OWNER)


@pytest.mark.local
@as_root
def test_without_permission() -> None:
    with everybodys() as place:
        ours = f"{place}/iosweep-c"
        said = as_user(
            "import sys; d = sys.argv[1]; uuid = directory.claim(d, {owner})\n"
            "for mode in (0o500, 0): os.chmod(d, mode); print(directory.state(Place(d, uuid)))\n"
            "try: directory.claim(d, {owner})\n"
            "except Refused as error: print(error)",
            ours,
        ).splitlines()
    assert said[:2] == [f"{ours} cannot be written to any more by user {OTHER}"] * 2
    assert said[2].startswith(f"{ours} is closed to user {OTHER}, so it is another user's; it is left alone.")


@pytest.mark.parametrize("aim", ["theirs", "nowhere", "precious"])
def test_a_link_in_its_place_is_not_followed(place: Path, aim: str) -> None:
    (place / "iosweep-c").symlink_to(place / aim)
    for touch in (lambda d: directories.claim(d, OWNER), directories.owner_of, lambda d: Opened(Place(d, "u"))):
        with pytest.raises(Refused, match="is a symbolic link; it is not followed"):
            touch(f"{place}/iosweep-c")
    assert (
        directories.state(Place(f"{place}/iosweep-c", "u"))
        == f"{place}/iosweep-c is a symbolic link; it is not followed"
    )
    assert not directories.ours(f"{place}/iosweep-c", "u")


# The file system


def test_which_file_system(place: Path) -> None:
    found = identify.identify(str(place))
    assert found["writable"]
    assert not identify.identify("/proc/sys")["writable"]  # where nobody makes a directory, not even root
    assert found | {"real": f"{place}/theirs"} == identify.identify(str(place / "theirs"))
    assert found["real"] == str(place)
    assert found["fstype"] in found["mount"]
    (place / "iosweep-link").symlink_to(place)  # the target itself may be a link: the user named it
    assert identify.identify(str(place / "iosweep-link")) == found
    space = identify.space(str(place))
    assert space["free_bytes"] > 0


@pytest.mark.local
@as_root
def test_a_password_in_the_source_of_a_mount(place: Path) -> None:
    """As of curlftpfs or davfs: it is in every result otherwise."""
    source = "ftp://bob:s3cret@host/pub"
    with mounted("mount", "-t", "tmpfs", source, str(place / "theirs")):
        found = identify.identify(str(place / "theirs"))
    assert found["source"] == "ftp://bob:***@host/pub"
    assert "s3cret" not in str(found)


def test_results_in_the_campaigns_directory(ours: str, place: Path, tmp_path: Path) -> None:
    """Also by a link: they would be removed with it."""
    facts = identify.identify(str(place))
    (tmp_path / "link").symlink_to(place)
    for inside in (Path(ours), Path(ours, "archive", "c"), tmp_path / "link" / "iosweep-c" / "c"):
        assert identify.holds(facts, ours, inside)
    for outside in (place, place / "results" / "c", tmp_path / "c"):
        assert not identify.holds(facts, ours, outside)


@pytest.mark.parametrize(
    ("name", "wrong"), [("none", "does not exist; is the file system mounted?"), ("precious", "is not a directory")]
)
def test_no_target(place: Path, name: str, wrong: str) -> None:
    with pytest.raises(Refused, match=wrong):
        identify.identify(str(place / name))


def test_the_marker_is_synced_before_it_has_its_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power failure leaves an empty marker, with which the directory is nobody's."""
    did: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(handle: int) -> None:
        did.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        sync(handle)

    def renamed(*names: Any, **where: Any) -> None:
        did.append(f"rename {names[1]}")
        rename(*names, **where)

    monkeypatch.setattr(directories.os, "fsync", synced)
    monkeypatch.setattr(directories.os, "rename", renamed)
    directories.claim(directories.directory_of(str(place), "c"), OWNER)
    assert did == ["sync iosweep.json.tmp", "rename iosweep.json", "sync iosweep-c"]
