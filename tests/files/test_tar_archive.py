"""Archives of directories: whole, checked, and safe to unpack whoever made them."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pyarrow
import pytest

from iosweep.errors import Unusable
from iosweep.files import tar_archive


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "points" / ("p" * 150)).mkdir(parents=True)
    (root / "points" / ("p" * 150) / "r001-1.json").write_text("{}")
    (root / "a b").write_bytes(os.urandom(3_000_000))
    (root / ".hidden").write_text("x")
    (root / "lock").write_text("x")
    return root


def packed(root: Path, name: str = "x.tar.zst") -> Path:
    archive = root.parent / name
    tar_archive.pack(root, tar_archive.files_below(root, ["lock"]), "top", archive)
    return archive


def made(file: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> Path:
    """An archive with these members."""
    with (
        pyarrow.output_stream(file, compression="gzip") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=form) as tar,
    ):
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize("name", ["x.tar.zst", "x.tar.gz"])
def test_what_is_packed_comes_back(root: Path, tmp_path: Path, name: str) -> None:
    into = tmp_path / "into"
    into.mkdir()
    top = tar_archive.unpack(packed(root, name), into)
    assert top == into / "top"
    names = set(tar_archive.files_below(root, ["lock"]))
    assert set(tar_archive.files_below(top)) == names | {tar_archive.CHECKSUMS}
    for each in names:
        assert (top / each).read_bytes() == (root / each).read_bytes()
        assert int((top / each).stat().st_mtime) == int((root / each).stat().st_mtime)


@pytest.mark.local
def test_sha256sum_reads_the_checksums(root: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    top = tar_archive.unpack(packed(root), into)
    lines = (top / tar_archive.CHECKSUMS).read_text().splitlines()
    assert len(lines) == 2
    assert subprocess.run(["sha256sum", "-c", "--quiet", tar_archive.CHECKSUMS], cwd=top, check=False).returncode == 0


def test_nothing_is_left_of_an_archive_that_is_not_whole(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tar_archive.pack(root, ["a b", "gone"], "top", root.parent / "x.tar.zst")
    assert sorted(file.name for file in root.parent.iterdir()) == ["root"]


def test_links_are_not_packed(root: Path) -> None:
    (root / "points" / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic link"):
        packed(root)


@pytest.mark.parametrize(
    "bad",
    [
        member("top/x", tarfile.SYMTYPE, "/etc/passwd"),
        member("top/x", tarfile.LNKTYPE, "top/y"),
        member("top/x", tarfile.FIFOTYPE),
        member("top/x", tarfile.CHRTYPE),
        member("/etc/passwd"),
        member("top/../../x"),
        member("x"),
    ],
    ids=lambda one: f"{one.name}-{one.type!r}",
)
def test_what_leads_out_is_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(Unusable):
        tar_archive.unpack(made(tmp_path / "x.tar.gz", (bad, b"")), into)
    assert not [file for file in into.rglob("*") if not file.is_dir()]


def test_a_header_of_many_bytes_is_not_read(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    long = member("top/" + "x" * 200_000)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with pytest.raises(Unusable, match="not a file"):
            tar_archive.unpack(made(tmp_path / "x.tar.gz", (long, b""), form=form), into)


def test_limits(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, into = packed(root), tmp_path / "into"
    into.mkdir()
    for name, most, why in (
        ("MOST_BYTES", 1_000_000, "no room"),
        ("MOST_FILES", 1, "more than 1 files and directories"),
        ("MOST_FILE_BYTES", 1000, "at most"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(tar_archive, name, most)
            with pytest.raises(Unusable, match=why):
                tar_archive.unpack(archive, into)


@pytest.mark.parametrize("cut", [10, 1000, 2_000_000])
def test_damage_is_an_error(root: Path, tmp_path: Path, cut: int) -> None:
    archive, into = packed(root), tmp_path / "into"
    into.mkdir()
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(Unusable, match=r"damaged|cut short"):
        tar_archive.unpack(archive, into)


def test_another_content_is_an_error(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    sums = f"{'0' * 64}  x\n".encode()
    archive = made(tmp_path / "x.tar.gz", (member("top/x"), b"1"), (member("top/" + tar_archive.CHECKSUMS), sums))
    with pytest.raises(Unusable, match="x has another checksum"):
        tar_archive.unpack(archive, into)
    (into / "top" / "x").unlink()
    (into / "top" / tar_archive.CHECKSUMS).unlink()
    with pytest.raises(Unusable, match="did not make it"):
        tar_archive.unpack(made(tmp_path / "y.tar.gz", (member("top/x"), b"1")), into)


def test_directories_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = tmp_path / "into"
    into.mkdir()
    monkeypatch.setattr(tar_archive, "MOST_FILES", 2)
    many = [(member(f"top/{number}", tarfile.DIRTYPE), b"") for number in range(3)]
    with pytest.raises(Unusable, match="more than 2 files and directories"):
        tar_archive.unpack(made(tmp_path / "x.tar.gz", *many), into)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([(member("top/x"), b"1"), (member("top/x"), b"2")], "File exists"),
        ([(member("top/x"), b"1"), (member("top/x/y"), b"2")], "Not a directory|File exists"),
        ([(member("top/x"), b"1"), (member("other/y"), b"2")], "2 directories"),
        ([], "no files: it is empty, or cut short"),
    ],
    ids=["twice", "below a file", "two tops", "empty"],
)
def test_members_that_do_not_fit_are_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], why: str
) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises((Unusable, OSError), match=why):
        tar_archive.unpack(made(tmp_path / "x.tar.gz", *members), into)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "x.tar.gz"]


def test_a_file_that_is_missing_is_named(root: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    sums = f"{'0' * 64}  points/x\n".encode()
    archive = made(tmp_path / "x.tar.gz", (member("top/" + tar_archive.CHECKSUMS), sums))
    with pytest.raises(Unusable, match="is damaged: points/x is gone"):
        tar_archive.unpack(archive, into)
