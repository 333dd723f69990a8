"""Directories are swapped, or covered by mounts, while one works: nothing is written or deleted beside the target."""

from collections.abc import Callable

import pytest

import mounts
import swaps
from targets import as_root, everybodys

pytestmark = pytest.mark.local


@as_root
@pytest.mark.parametrize("way", swaps.WAYS)
def test_swaps(way: str, rounds: Callable[[int, int], int]) -> None:
    count = rounds(30, 1000)
    with everybodys(0o755) as place:
        done = swaps.attack(place, way, count, seed=count)
    assert not done.harmed
    if way == "held":  # the sticky bit: nothing could be swapped, so nothing is refused
        assert (done.swapped, done.refused) == (0, 0)
        assert done.wrote > 0
    else:
        assert done.swapped == count
        assert done.refused > 0


@pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing() or "")
@pytest.mark.parametrize("what", swaps.COVERED)
def test_covered(what: str, rounds: Callable[[int, int], int]) -> None:
    count = rounds(30, 1000)
    with everybodys(0o755) as place:
        done = swaps.cover(place, what, count, seed=count)
    assert not done.harmed
    assert done.swapped == count
    assert done.refused > 0
    assert done.wrote > 0
