"""How much may be written: shares of what is free, and how full the file system gets, in bytes and in files."""

from typing import Any

import pytest

from iosweep.target.space import not_free, not_freed, too_much

GIB = 1 << 30
#: 60 of 100 GiB used, 40 free; a tenth of a million files used.
NOW = {"used_bytes": 60 * GIB, "free_bytes": 40 * GIB, "used_inodes": 100_000, "free_inodes": 900_000}
LIMITS = {"share_of_free": 0.10, "fill": 0.80}

CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("nothing", {}, None),
    ("a tenth of what is free", {"needed_bytes": 4 * GIB}, None),
    ("a byte more", {"needed_bytes": 4 * GIB + 1},
     "up to 4.0 GiB are needed, more than 10% of the 40.0 GiB that are free; measure less, or raise"
     " limits.share_of_free"),
    ("a larger share", {"needed_bytes": 20 * GIB, "limits": LIMITS | {"share_of_free": 0.5}}, None),
    ("up to the brim", {"needed_bytes": 20 * GIB + 1, "limits": LIMITS | {"share_of_free": 1.0}},
     "20.0 GiB more would make it 80% full, above limits.fill 80%; free space, or raise limits.fill"),
    ("nothing may be used", {"needed_bytes": 1, "limits": LIMITS | {"share_of_free": 0.0}},
     "up to 1 B are needed, more than 0% of the 40.0 GiB that are free"),
    ("nothing is needed of a full one", {"now": {"used_bytes": 95 * GIB, "free_bytes": 5 * GIB}}, None),
    ("a little of a full one", {"now": {"used_bytes": 95 * GIB, "free_bytes": 5 * GIB}, "needed_bytes": 1},
     "1 B more would make it 95% full, above limits.fill 80%"),
    # what we have there already counts as free, and is not written again
    ("ours is there", {"needed_bytes": 5 * GIB, "ours_bytes": 10 * GIB}, None),
    ("some of ours is there", {"needed_bytes": 5 * GIB, "ours_bytes": 4 * GIB},
     "up to 5.0 GiB are needed, more than 10% of the 44.0 GiB that are free"),
    ("ours on a full one", {"now": {"used_bytes": 95 * GIB, "free_bytes": 5 * GIB}, "needed_bytes": GIB,
                            "ours_bytes": 20 * GIB}, None),
    # while it runs, what others have written since counts as it did at first
    ("later, others took much", {"needed_bytes": 5 * GIB, "ours_bytes": 4 * GIB, "now": {"free_bytes": 10 * GIB}},
     "up to 5.0 GiB are needed, more than 10% of the 14.0 GiB that are free"),
    ("later, nothing more is needed", {"needed_bytes": 4 * GIB, "ours_bytes": 4 * GIB, "now": {"free_bytes": 0}}, None),
    # files
    ("a tenth of the free inodes", {"needed_inodes": 90_000}, None),
    ("a file more", {"needed_inodes": 90_001},
     "up to 90,001 files are needed, more than 10% of the 900,000 free inodes; measure less, or raise"
     " limits.share_of_free"),
    ("many files", {"needed_inodes": 700_000, "limits": LIMITS | {"share_of_free": 0.9}}, None),
    ("too many", {"needed_inodes": 700_001, "limits": LIMITS | {"share_of_free": 0.9}},
     "700,001 more files would use more than 80% of its inodes (limits.fill)"),
    # btrfs and many network file systems count none
    ("no inodes at all", {"now": {"used_inodes": 0, "free_inodes": 0}, "needed_inodes": 10**9}, None),
    ("no inode is free", {"now": {"used_inodes": 1000, "free_inodes": 0}, "needed_inodes": 1},
     "up to 1 file is needed, more than 10% of the 0 free inodes"),
    ("an empty file system", {"now": {"used_bytes": 0, "free_bytes": 0}, "needed_bytes": 1},
     "its file system does not say how much is free: it reports 0 bytes in all; are its data servers up?"),
    ("more than there is", {"now": {"used_bytes": 99 * GIB, "free_bytes": GIB}, "needed_bytes": 2 * GIB,
                            "limits": {"share_of_free": 1.0, "fill": 1.0}},
     "2.0 GiB more are needed, and 1.0 GiB are free; make room, or measure less"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_too_much(change: dict[str, Any], expected: str | None) -> None:
    call = {"ours_bytes": 0, "needed_bytes": 0, "needed_inodes": 0, "limits": LIMITS} | change
    found = too_much(NOW | call.pop("now", {}), **call)
    if expected is None:
        assert found is None
    else:
        assert expected in str(found)


@pytest.mark.parametrize(
    ("deleted", "expected_free", "free", "kept"),
    [
        (0, 50 * GIB, 10 * GIB, 0),  # what others have written
        (40 * GIB, 50 * GIB, 50 * GIB, 0),
        (40 * GIB, 50 * GIB, 31 * GIB, 0),  # most of it is free
        (40 * GIB, 50 * GIB, 10 * GIB, 40 * GIB),
        (40 * GIB, 90 * GIB, 10 * GIB, 40 * GIB),  # no more than was deleted
        (40 * GIB, 50 * GIB, 30 * GIB, 20 * GIB),
    ],
)
def test_deleted_and_not_free(deleted: int, expected_free: int, free: int, kept: int) -> None:
    assert not_free(deleted, expected_free, free) == kept


def test_what_did_not_become_free_is_named() -> None:
    assert not_freed(40 * GIB, 30 * GIB).startswith(
        "30.0 GiB of the 40.0 GiB that this run has deleted did not become free"
    )


@pytest.mark.parametrize(("kept", "says"), [(0, "more than 50% of the 40.0 GiB"), (20 * GIB, None)])
def test_what_a_trash_keeps_of_ours_is_no_share_of_others(kept: int, says: str | None) -> None:
    """The file system of 100 GiB had 60 free when we began; now MooseFS counts what we deleted as used."""
    now = {"used_bytes": 60 * GIB, "free_bytes": 40 * GIB, "used_inodes": 0, "free_inodes": 0}
    found = too_much(now, 0, 25 * GIB, 0, {"share_of_free": 0.5, "fill": 0.9}, kept)
    assert found is None if says is None else says in str(found)


def test_what_a_trash_keeps_can_not_be_written_to() -> None:
    now = {"used_bytes": 80 * GIB, "free_bytes": 20 * GIB, "used_inodes": 0, "free_inodes": 0}
    found = too_much(now, 0, 25 * GIB, 0, {"share_of_free": 0.5, "fill": 1.0}, 40 * GIB)
    assert "25.0 GiB more are needed, and 20.0 GiB are free" in str(found)
