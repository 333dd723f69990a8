"""How much may be written: what is free, shares of it, how full the file system gets, and quotas."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep.target import identify, space

MIB, GIB = 1 << 20, 1 << 30
#: 60 of 100 GiB used, 40 free; a tenth of a million files used.
NOW = {"used_bytes": 60 * GIB, "free_bytes": 40 * GIB, "used_inodes": 100_000, "free_inodes": 900_000}
LIMITS = {"share_of_free": 0.10, "fill": 0.80}
FULL = {"used_bytes": 95 * GIB, "free_bytes": 5 * GIB}

#: name, what differs, and a word of the refusal, None where it may be written.
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("nothing", {}, None),
    ("a tenth of what is free", {"needed_bytes": 4 * GIB}, None),
    ("a byte more", {"needed_bytes": 4 * GIB + 1}, "limits.share_of_free"),
    ("up to the brim", {"needed_bytes": 20 * GIB, "limits": LIMITS | {"share_of_free": 1.0}}, None),
    ("a byte over it", {"needed_bytes": 20 * GIB + 1, "limits": LIMITS | {"share_of_free": 1.0}}, "raise limits.fill"),
    ("nothing is needed of a full one", {"now": FULL}, None),
    ("a little of a full one", {"now": FULL, "needed_bytes": 1}, "raise limits.fill"),
    # our files there already count as free, and are not written again
    ("ours is there", {"needed_bytes": 5 * GIB, "ours_bytes": 10 * GIB}, None),
    ("some of ours is there", {"needed_bytes": 5 * GIB, "ours_bytes": 4 * GIB}, "limits.share_of_free"),
    # while it runs, what others have written since counts as it did at first
    ("later, others took much", {"needed_bytes": 5 * GIB, "ours_bytes": 4 * GIB, "now": {"free_bytes": 10 * GIB}},
     "limits.share_of_free"),
    # files
    ("a tenth of the free inodes", {"needed_inodes": 90_000}, None),
    ("a file more", {"needed_inodes": 90_001}, "free inodes"),
    ("too many", {"needed_inodes": 700_001, "limits": LIMITS | {"share_of_free": 0.9}}, "limits.fill"),
    ("no inodes are counted", {"now": {"used_inodes": 0, "free_inodes": 0}, "needed_inodes": 10**9}, None),
    ("nothing is said", {"now": {"used_bytes": 0, "free_bytes": 0}, "needed_bytes": 1}, "data servers"),
    ("more than there is", {"now": {"used_bytes": 99 * GIB, "free_bytes": GIB}, "needed_bytes": 2 * GIB,
                            "limits": {"share_of_free": 1.0, "fill": 1.0}}, "make room"),
]  # fmt: skip


def refusal(change: dict[str, Any]) -> str | None:
    call: dict[str, Any] = {"ours_bytes": 0, "needed_bytes": 0, "needed_inodes": 0, "limits": LIMITS} | change
    found = space.too_much(NOW | call.pop("now", {}), **call)
    return str(found) if found else None


def test_no_more_is_written_than_the_limits_allow() -> None:
    for name, change, said in CASES:
        found = refusal(change)
        assert found is None if said is None else found and said in found, name


Q = {"scope": "user 7", "used_bytes": 6 * MIB, "limit_bytes": 8 * MIB, "used_files": 90, "limit_files": 100}
#: What differs in the quota, bytes and files more, and what is lacking.
QUOTAS: list[tuple[dict[str, Any], int, int, str | None]] = [
    ({}, 2 * MIB, 10, None),
    ({}, 2 * MIB + 1, 0, "6.0 MiB of 8.0 MiB"),
    ({}, 0, 11, "90 of 100"),
    ({"used_bytes": 9 * MIB, "used_files": 101}, 0, 0, None),  # over it already: nothing more may go on
]


def over_quota(change: dict[str, Any], size: int, files: int) -> str | None:
    roomy: Any = {"scope": "group 7", "used_bytes": 0, "limit_bytes": 1 << 60, "used_files": 0, "limit_files": 1 << 60}
    binding: Any = Q | change
    found = space.over_quota([roomy, binding], size, files)
    return str(found) if found else None


def test_no_more_is_written_than_a_quota_allows() -> None:
    for change, size, files, said in QUOTAS:
        found = over_quota(change, size, files)
        assert found is None if said is None else found and said in found, (change, size, files)
    assert space.over_quota([], 1 << 60, 1 << 60) is None


def test_the_wording_of_refusals(snapshot: Any) -> None:
    found = [f"{name}: {said}" for name, change, _ in CASES if (said := refusal(change))]
    found += [said for *case, _ in QUOTAS if (said := over_quota(*case))]
    found.append(space.not_freed(40 * GIB))
    assert "\n".join(found) == snapshot


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
