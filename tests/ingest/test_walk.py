"""Files of directories and archives: in order, each once, and nothing that others can make takes memory or goes out."""

import gzip
import io
import os
import re
import struct
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from iosweep.ingest import walk
from iosweep.ingest.walk import Found, Skipped


def found(path: Path) -> dict[str, bytes]:
    return {one.name.removeprefix(f"{path}"): one.data for one in walk.files(path) if isinstance(one, Found)}


def skipped(path: Path) -> dict[str, str]:
    return {one.name.removeprefix(f"{path}"): one.reason for one in walk.files(path) if isinstance(one, Skipped)}


def tar(file: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(file, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file


def test_a_directory_gives_its_files_depth_first_by_name_with_their_hash(tmp_path: Path) -> None:
    for name in ("b", "a/z", "a/b/c", "c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    got = list(walk.files(tmp_path))
    assert [one.name for one in got] == [f"{tmp_path}/{name}" for name in ("a/b/c", "a/z", "b", "c")]
    assert all(isinstance(one, Found) and one.sha256 == sha256(one.data).hexdigest() for one in got)


def test_a_link_below_a_directory_is_not_followed_but_the_path_itself_may_be_one(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("x")
    (inside / "out").symlink_to(tmp_path / "secret")
    (inside / "circle").symlink_to(inside)
    os.mkfifo(inside / "pipe")
    (inside / "file").write_text("y")
    (tmp_path / "link").symlink_to(inside)
    assert found(tmp_path / "link") == {"/file": b"y"}
    reasons = skipped(inside)
    assert set(reasons) == {"/out", "/circle", "/pipe"}
    assert reasons["/out"] == "is a symbolic link, which is not followed"
    assert reasons["/pipe"] == "is a pipe, not a file"
    (tmp_path / "to_file").symlink_to(tmp_path / "secret")
    assert list(found(tmp_path / "to_file").values()) == [b"x"]


def test_what_is_not_there_or_cannot_be_read_does_not_end_it(tmp_path: Path) -> None:
    (one,) = walk.files(tmp_path / "none")
    assert isinstance(one, Skipped) and one.reason == "cannot be read: No such file or directory"


def test_names_are_printable_and_unicode(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb").write_text("1")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("2")
    assert set(found(tmp_path)) == {"/a\\x1b[2Jb", "/\\xff"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_is_told_by_its_content(tmp_path: Path, mode: str, form: int) -> None:
    members = {"dir/a": b"1" * 3000, "é" * (40 if form == tarfile.USTAR_FORMAT else 60): b"", "../../etc/x": b"3" * 513}
    with tarfile.open(tmp_path / "any.name", mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"special{kind.decode()}")
            info.type, info.linkname = kind, "dir/a"
            archive.addfile(info)
        info = tarfile.TarInfo("folder")
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    path = tmp_path / "any.name"
    assert found(path) == {f"!{name}": data for name, data in members.items()}
    assert set(skipped(path)) == {"!special1", "!special2", "!special6"}


def test_a_zip_and_a_compressed_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/c.out", "two")
        archive.writestr("a.out", "one")
        archive.mkdir("b/d")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert found(tmp_path / "z") == {"!a.out": b"one", "!b/c.out": b"two"}
    assert skipped(tmp_path / "z") == {"!link": "is a link, which is not followed"}
    (tmp_path / "run.out.gz").write_bytes(gzip.compress(b"one") + gzip.compress(b"two"))
    assert found(tmp_path / "run.out.gz") == {"!run.out": b"onetwo"}
    (tmp_path / "x.xz").write_bytes(b"\xfd7zXZ\0rest")
    assert skipped(tmp_path / "x.xz") == {"": "is compressed by xz: unpack it first"}


def test_an_archive_in_an_archive_is_not_opened(tmp_path: Path) -> None:
    inner = tar(tmp_path / "inner", {"a": b"x"}).read_bytes()
    path = tar(tmp_path / "outer", {"inner.tgz": inner, "b": b"y"})
    assert found(path) == {"!b": b"y"}
    assert skipped(path) == {"!inner.tgz": "is an archive inside an archive: unpack it first"}


def test_a_damaged_archive_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    data = {"a": os.urandom(5000), "b": os.urandom(500_000)}
    path = tar(tmp_path / "t", data)
    path.write_bytes(path.read_bytes()[:-200_000])
    assert found(path) == {"!a": data["a"]}
    assert "is a damaged archive" in skipped(path)[""]
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("a", "x")
    (tmp_path / "z").write_bytes((tmp_path / "z").read_bytes()[:-10])
    assert "is a damaged archive" in skipped(tmp_path / "z")[""]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_claims_gigabytes_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 4 << 30
    path = tmp_path / "bomb"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    assert skipped(path) == {"": "has a header of more than 1 MiB"}


def test_a_size_below_zero_ends_the_archive(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 12  # -1, as GNU tar writes numbers in base 256
    header[148:156] = b"%06o\0 " % (256 + sum(header[:148]) + sum(header[156:512]))
    (tmp_path / "t").write_bytes(bytes(header) + b"1" * 512 + bytes(1024))
    assert skipped(tmp_path / "t") == {"": "is a damaged archive: a size is below zero"}


def test_limits_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tar(tmp_path / "t", {name: bytes(100_000) for name in "abc"})
    monkeypatch.setattr(walk, "MOST_BYTES", 99_999)
    assert len(skipped(path)) == 3 and not found(path)
    monkeypatch.setattr(walk, "MOST_BYTES", 100_000)
    monkeypatch.setattr(walk, "MOST_EXPANDED", 250_000)
    assert list(found(path)) == ["!a", "!b"] and "holds more than" in skipped(path)[""]
    monkeypatch.setattr(walk, "MOST_EXPANDED", 1 << 30)
    monkeypatch.setattr(walk, "MOST_MEMBERS", 2)
    assert list(found(path)) == ["!a", "!b"] and skipped(path)[""] == "has more than 2 members"


def test_a_zip_whose_directory_is_huge_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "x")
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, len(data) - 10, 1 << 30)
    path.write_bytes(data)
    assert skipped(path) == {"": "has too many members: unpack it first"}


def test_directories_without_end_are_left(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (walk.MOST_DEEP + 2))
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    assert not found(tmp_path) and "no more are opened" in next(iter(skipped(tmp_path).values()))


def test_a_name_that_is_in_an_archive_twice_is_read_twice(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t", "w") as archive:
        for data in (b"old", b"new!"):
            info = tarfile.TarInfo("a")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert found(tmp_path / "t") == {"!a": b"old", "!a (2)": b"new!"}
    with zipfile.ZipFile(tmp_path / "z", "w") as zipped:
        zipped.writestr("a", "old")
        with pytest.warns(UserWarning, match="Duplicate name"):
            zipped.writestr("a", "new!")
    assert found(tmp_path / "z") == {"!a": b"old", "!a (2)": b"new!"}


def test_members_that_cannot_be_read_leave_the_others(tmp_path: Path) -> None:
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("encrypted", "unknown", "whole"):
            archive.writestr(name, name)
        device = zipfile.ZipInfo("zero")
        device.external_attr = 0o020666 << 16
        archive.writestr(device, "")
    data = bytearray(path.read_bytes())
    local, central = ([match.start() for match in re.finditer(sign, data)] for sign in (b"PK\x03\x04", b"PK\x01\x02"))
    data[local[0] + 6] |= 1
    data[central[0] + 8] |= 1
    data[local[1] + 8] = data[central[1] + 10] = 97
    path.write_bytes(data)
    assert found(path) == {"!whole": b"whole"}
    assert skipped(path) == {
        "!encrypted": "is encrypted: unpack it first, with its password",
        "!unknown": "is compressed by a method that is not read: unpack it first",
        "!zero": "is a device or a pipe, not a file",
    }


def test_a_damaged_lzma_member_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", "x" * 1000)
        archive.writestr("b", "y" * 1000)
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(data)
    assert list(found(path)) == ["!b"]
    assert skipped(path)["!a"].startswith("is damaged: ")


def test_an_archive_without_a_file_is_said(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "z", "w"):
        pass
    assert skipped(tmp_path / "z") == {"": "is an archive without a file"}


def test_names_of_an_archive_are_names_only(tmp_path: Path) -> None:
    names = ["/etc/shadow", "../../up", "n" * 300, "a\x1b[2J", "<b>"]
    assert list(found(tar(tmp_path / "t", dict.fromkeys(names, b"x")))) == [
        "!/etc/shadow", "!../../up", "!" + "n" * 300, "!a\\x1b[2J", "!<b>",
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == [tmp_path / "t"]
