"""How much may be written: what is free, shares of it, how full the file system gets, and quotas."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.target import identify, space

MIB, GIB = 1 << 20, 1 << 30
#: 60 of 100 GiB used, 40 free; a tenth of a million files used.
NOW = {"used_bytes": 60 * GIB, "free_bytes": 40 * GIB, "used_inodes": 100_000, "free_inodes": 900_000}
LIMITS = {"share_of_free": 0.10, "fill": 0.80}
FULL = {"used_bytes": 95 * GIB, "free_bytes": 5 * GIB}

#: name, and what differs.
CASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a tenth of what is free": {"needed_bytes": 4 * GIB},
    "a byte more": {"needed_bytes": 4 * GIB + 1},
    "up to the brim": {"needed_bytes": 20 * GIB, "limits": LIMITS | {"share_of_free": 1.0}},
    "a byte over it": {"needed_bytes": 20 * GIB + 1, "limits": LIMITS | {"share_of_free": 1.0}},
    "nothing is needed of a full one": {"now": FULL},
    "a little of a full one": {"now": FULL, "needed_bytes": 1},
    # our files there already count as free, and are not written again
    "ours is there": {"needed_bytes": 5 * GIB, "ours_bytes": 10 * GIB},
    "some of ours is there": {"needed_bytes": 5 * GIB, "ours_bytes": 4 * GIB},
    # while it runs, what others have written since counts as it did at first
    "later, others took much": {"needed_bytes": 5 * GIB, "ours_bytes": 4 * GIB, "now": {"free_bytes": 10 * GIB}},
    # files
    "a tenth of the free inodes": {"needed_inodes": 90_000},
    "a file more": {"needed_inodes": 90_001},
    "too many": {"needed_inodes": 700_001, "limits": LIMITS | {"share_of_free": 0.9}},
    "no inode is free": {"now": {"free_inodes": 0}, "needed_inodes": 2000},
    "no inodes are counted": {"now": {"used_inodes": 0, "free_inodes": 0}, "needed_inodes": 10**9},
    "nothing is said": {"now": {"used_bytes": 0, "free_bytes": 0}, "needed_bytes": 1},
    "more than there is": {
        "now": {"used_bytes": 99 * GIB, "free_bytes": GIB},
        "needed_bytes": 2 * GIB,
        "limits": {"share_of_free": 1.0, "fill": 1.0},
    },
}
Q = {"scope": "user 7", "used_bytes": 6 * MIB, "limit_bytes": 8 * MIB, "used_files": 90, "limit_files": 100}
ROOMY = {"scope": "group 7", "used_bytes": 0, "limit_bytes": 1 << 60, "used_files": 0, "limit_files": 1 << 60}
#: What differs in the quota; bytes and files more.
QUOTAS: list[tuple[dict[str, Any], int, int]] = [
    ({}, 2 * MIB, 10),
    ({}, 2 * MIB + 1, 0),
    ({}, 0, 11),
    ({"used_bytes": 9 * MIB, "used_files": 101}, 0, 0),  # over it already: nothing more may go on
]


def test_no_more_is_written_than_limits_and_quotas_allow(snapshot: SnapshotAssertion) -> None:
    said = []
    for name, change in CASES.items():
        call: dict[str, Any] = {"ours_bytes": 0, "needed_bytes": 0, "needed_inodes": 0, "limits": LIMITS} | change
        said.append(f"{name}: {space.too_much(NOW | call.pop('now', {}), **call) or 'may be written'}")
    for change, size, files in QUOTAS:
        quotas: Any = [ROOMY, Q | change]
        said.append(f"{size} bytes, {files} files: {space.over_quota(quotas, size, files) or 'may be written'}")
    assert "\n".join([*said, space.not_freed(40 * GIB)]) == snapshot
    assert space.over_quota([], 1 << 60, 1 << 60) is None


# Quotas as they are read


#: Output of `lfs quota -q`: used KiB, soft limit, hard limit, grace; the same of files.
LFS = "{directory} 5120* 8192 16384 - 7 1000 2000 -\n"


@pytest.mark.parametrize(
    ("printed", "limits"),
    [
        (LFS, (8 << 20, 1000)),
        ("{directory}\n  [5120] 0 2 -  7 0 0 -", (2048, 0)),
        ("{directory} 5120 0 0 - 7 0 0 -", None),
        ("no quota", None),
    ],
)
def test_quotas_of_user_and_group_are_those_of_lustre(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, limits: tuple[int, int] | None
) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> Any:
        asked.append(argv)
        return SimpleNamespace(stdout=printed.format(directory=argv[-1]).encode())

    facts = {"fstype": "lustre", "source": "10.0.0.1@tcp:/x"}
    monkeypatch.setattr(identify, "identify", lambda directory: facts)
    monkeypatch.setattr(space.subprocess, "run", run)
    found = space.read_room(str(tmp_path))["quotas"]
    assert [(q["limit_bytes"], q["limit_files"]) for q in found] == [limits] * 2 if limits else not found
    assert [(q["used_bytes"], q["used_files"]) for q in found] == [(5 * MIB, 7)] * len(found)
    assert [argv[:5] for argv in asked] == [
        ["lfs", "quota", "-q", "-u", str(os.geteuid())],
        ["lfs", "quota", "-q", "-g", str(os.getegid())],
    ]
    # where there are none, and on other file systems, no process is started any more
    facts["fstype"] = "lustre" if limits is None else "ext4"
    assert space.read_room(str(tmp_path))["quotas"] == []
    assert len(asked) == 2
