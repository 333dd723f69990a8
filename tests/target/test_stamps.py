"""What two looks at files tell of what happened in between."""

import os
from typing import Any

import pytest

from iosweep.target import trees
from iosweep.target.trees import Difference, Stamps

S = 10**9
#: The first look was at 1,000 s.
SINCE_NS = 1000 * S


def look(mtime_s: float = 900, ctime_s: float = 900, inode: int = 7) -> Stamps:
    """A look at two files, of which one has these attributes."""
    found = trees.no_stamps()
    for name, values in (("0.0", (1, 800, 800)), ("1.0", (inode, mtime_s, ctime_s))):
        status: Any = os.stat_result((0,) * 10)
        attributes = {"st_ino": values[0], "st_mtime_ns": round(values[1] * S), "st_ctime_ns": round(values[2] * S)}
        trees.add_stamps(found, name, type("Status", (), attributes | {"st_mode": status.st_mode})())
    return found


@pytest.mark.parametrize(
    ("before", "after", "local", "changed", "unclear"),
    [
        (look(), look(), True, "", ""),
        (look(), look(1001, 1001), True, "files were written to or truncated (1.0 was the last)", ""),
        (look(), look(900, 1001), True, "files changed (ctime; 1.0 was the last)", ""),  # mtime was set back
        (look(), look(800, 1001), True, "files were written to or truncated", ""),
        (look(), look(inode=8), True, "files were replaced by others", ""),
        # a network file system: attributes may be seen late, its clock may differ, tiers may touch ctime
        (look(), look(), False, "", ""),
        (look(999, 999), look(999.5, 999.5), False, "", "which may be those of their preparation, seen late"),
        (look(999, 999), look(1001, 1001), False, "", "seen late"),
        (look(999, 999), look(1003, 1003), False, "files were written to or truncated", ""),
        (look(999, 999), look(1000, 1000), False, "", "seen late"),  # whole seconds
        (look(850, 850), look(1001, 1001), False, "files were written to or truncated", ""),  # long settled
        (look(), look(900, 1100), False, "", "the ctime of files changed, and not their mtime (1.0 was the last)"),
        (look(), look(inode=8), False, "", ""),  # its inode numbers are its client's
    ],
)
def test_a_difference(before: Stamps, after: Stamps, local: bool, changed: str, unclear: str) -> None:
    found = trees.difference(before, after, SINCE_NS, local, inodes=local)
    assert changed in found.changed
    assert unclear in found.unclear
    assert (bool(found.changed), bool(found.unclear)) == (bool(changed), bool(unclear))
    assert trees.difference(before, before, SINCE_NS, local, inodes=True) == Difference()
