"""Quotas: file systems without any, and stand-ins for the kernel's quotactl and Lustre's `lfs`."""

import ctypes
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mounts
from iosweep.errors import Refused
from iosweep.target import identify, space

pytestmark = pytest.mark.local

MIB = 1 << 20


@pytest.fixture
def point() -> Iterator[Path]:
    """Where something can be mounted that all users get to."""
    if reason := mounts.missing():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="iosweep-test-"))
    directory.chmod(0o755)
    (directory / "m").mkdir()
    yield directory / "m"
    shutil.rmtree(directory)


# None


def test_ext4_without_quotas(point: Path) -> None:
    with mounts.ext4(point):
        assert space.room(str(point))["quotas"] == []


def test_no_quotas(tmp_path: Path) -> None:
    for directory in (tmp_path, Path("/proc"), Path("/dev/shm"), Path("/sys")):
        assert space.room(str(directory))["quotas"] == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="is not a directory"):
        space.room(str(tmp_path / "file"))["quotas"]
    with pytest.raises(Refused, match="does not exist"):
        space.room(str(tmp_path / "none"))["quotas"]


# The kernel's


class Kernel:
    """A stand-in for quotactl: answers as the kernel does, of a table {(kind, id): fields of struct if_dqblk}."""

    def __init__(self, table: dict[tuple[int, int], list[int]], by_device: str | None = None) -> None:
        self.table = table
        self.by_device = by_device

    def syscall(self, number: ctypes.c_long, handle: int, command: ctypes.c_int, owner: int, answer: Any) -> int:
        assert number.value == 443
        assert os.fstat(handle)
        return -1 if self.by_device else self._answer(command, owner, answer)

    def quotactl(self, command: ctypes.c_int, device: bytes, owner: int, answer: Any) -> int:
        return self._answer(command, owner, answer) if device.decode() == self.by_device else -1

    def _answer(self, command: ctypes.c_int, owner: int, answer: Any) -> int:
        assert command.value & 0xFFFFFFFF in (0x80000700, 0x80000701)
        found = self.table.get((command.value & 0xFF, owner))
        if found is None:
            return -1
        answer.raw = struct.pack("=8QI4x", *found, 0, 0, 63)
        return 0


#: Limits of blocks are in KiB, their use in bytes.
FIELDS = [16 << 10, 8 << 10, 5 * MIB, 1000, 2000, 7]
QUOTA = {"used_bytes": 5 * MIB, "limit_bytes": 8 * MIB, "used_files": 7, "limit_files": 1000}


@pytest.mark.parametrize("by_device", [None, "/dev/x"])
def test_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_device: str | None) -> None:
    monkeypatch.setattr(identify, "identify", lambda directory: {"fstype": "ext4", "source": "/dev/x"})
    table = {(0, os.geteuid()): FIELDS, (1, os.getegid()): FIELDS, (1, 4242): FIELDS, (2, 0): FIELDS}
    monkeypatch.setattr(space, "_LIBC", Kernel(table, by_device))
    user, group = space.room(str(tmp_path))["quotas"]
    assert user == {"scope": f"user {os.geteuid()}"} | QUOTA
    assert group == {"scope": f"group {os.getegid()}"} | QUOTA


def test_the_group_of_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [os.getegid(), *(g for g in os.getgroups() if g != os.getegid()), *([4242] if not os.getuid() else [])]
    os.chown(tmp_path, -1, groups[-1])
    tmp_path.chmod(0o2755)
    monkeypatch.setattr(space, "_LIBC", Kernel({(1, group): FIELDS for group in groups}))
    assert [q["scope"] for q in space.room(str(tmp_path))["quotas"]] == [f"group {groups[-1]}"]


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ([0, 0, 5, 0, 0, 7], None),  # counted, not limited
        ([1, 0, 5, 0, 0, 7], (1024, None)),
        ([0, 2, 5, 0, 0, 7], (2048, None)),
        ([0, 0, 5, 9, 0, 7], (None, 9)),
        ([0, 0, 5, 9, 8, 7], (None, 8)),
        ([1 << 43, 0, 5, 0, 0, 7], (1 << 53, None)),
    ],
)
def test_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: list[int], limits: tuple[int | None, int | None] | None
) -> None:
    monkeypatch.setattr(space, "_LIBC", Kernel({(0, os.geteuid()): fields}))
    found = space.room(str(tmp_path))["quotas"]
    assert [(q["limit_bytes"], q["limit_files"]) for q in found] == ([limits] if limits else [])


# Lustre's

#: A stand-in: what it says stands in files beside it, named for -u and -g.
LFS = """#!/bin/sh
here=${0%/*}
for word; do printf '%s\\n' "$word"; done >> "$here/log"
[ -e "$here/said$3" ] && exec cat "$here/said$3"
echo "user quotas are not enabled." >&2
exit 3
"""


@pytest.fixture
def lfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a stand-in for lfs on PATH; gives the directory to ask about."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lfs").write_text(LFS)
    (tmp_path / "bin" / "lfs").chmod(0o755)
    directory = tmp_path / "mnt 12 34 5"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(identify, "identify", lambda directory: {"fstype": "lustre", "source": "a@tcp:/b"})
    monkeypatch.setattr(space, "_silent", set())

    def say(user: str = "", group: str = "") -> Path:
        for option, text in {"-u": user, "-g": group}.items():
            if text:
                (tmp_path / "bin" / f"said{option}").write_text(text.replace("DIR", str(directory)))
        return directory

    return say


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("       DIR    1234  2000  3000       -      12      20      30       -\n", (1234, 2000, 12, 20)),
        ("DIR\n            1234  2000  3000       -      12      20      30       -\n", (1234, 2000, 12, 20)),
        ("DIR 4000* 2000 3000 6d23h59m58s 25* 20 30 none\n", (4000, 2000, 25, 20)),
        ("DIR [4000]* 0 3000 expired [25] 0 0 -\n", (4000, 3000, 25, None)),
        ("DIR 4 0 3000 - 25 0 0 -\nuid 1000 is using default block quota setting\n", (4, 3000, 25, None)),
        ("DIR 4 0 0 - 25 0 0 -\n", None),
        ("DIR\n", None),
        ("garbage \xff 1 2\n", None),
    ],
)
def test_lustre(lfs: Callable[..., Path], said: str, expected: tuple[int, int | None, int, int | None] | None) -> None:
    found = space.room(str(lfs(said)))["quotas"]
    if expected is None:
        assert found == []
        return
    used, limit, used_files, limit_files = expected
    assert found == [
        {
            "scope": f"user {os.geteuid()}",
            "used_bytes": used << 10,
            "limit_bytes": limit << 10 if limit else None,
            "used_files": used_files,
            "limit_files": limit_files,
        }
    ]


def test_what_lfs_is_asked(lfs: Callable[..., Path], tmp_path: Path) -> None:
    directory = str(lfs(group="DIR 4 0 3000 - 25 0 0 -\n"))
    for _ in range(2):
        assert [q["scope"] for q in space.room(directory)["quotas"]] == [f"group {os.getegid()}"]
    once = ["quota", "-q", "-u", str(os.geteuid()), directory, "quota", "-q", "-g", str(os.getegid()), directory]
    assert (tmp_path / "bin" / "log").read_text().splitlines() == once * 2


def test_no_quotas_are_asked_for_once(lfs: Callable[..., Path], tmp_path: Path) -> None:
    directory = str(lfs())
    for _ in range(3):
        assert space.room(directory)["quotas"] == []
    assert (tmp_path / "bin" / "log").read_text().count("-q") == 2  # user and group


def test_no_lfs(lfs: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert space.room(str(lfs()))["quotas"] == []


# What fits

Q = {"scope": "user 7", "used_bytes": 6 * MIB, "limit_bytes": 8 * MIB, "used_files": 90, "limit_files": 100}


@pytest.mark.parametrize(
    ("change", "size", "files", "expected"),
    [
        ({}, 2 * MIB, 10, None),
        ({}, 2 * MIB + 1, 0, "the quota of user 7 has no room for 2.0 MiB more: 6.0 MiB of 8.0 MiB are used; measure"
         " less, or have it raised"),
        ({}, 0, 11, "the quota of user 7 has no room for 11 more files: 90 of 100 are used; measure less, or have it"
         " raised"),
        ({"limit_bytes": None}, 1 << 50, 10, None),
        ({"limit_files": None}, 0, 1 << 50, None),
        # over it already: what needs nothing may go on
        ({"used_bytes": 9 * MIB, "used_files": 101}, 0, 0, None),
        ({"used_bytes": 9 * MIB}, 1, 0, "the quota of user 7 has no room for 1 B more"),
    ],
)  # fmt: skip
def test_too_much(change: dict[str, Any], size: int, files: int, expected: str | None) -> None:
    roomy = {"scope": "group 7", "used_bytes": 0, "limit_bytes": 1 << 60, "used_files": 0, "limit_files": 1 << 60}
    found = space.over_quota([roomy, Q | change], size, files)
    assert found is None if expected is None else str(found).startswith(expected)


def test_nothing_binds() -> None:
    assert space.over_quota([], 1 << 60, 1 << 60) is None
