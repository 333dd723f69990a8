"""A target with files of others, and a campaign's directory on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iosweep.target import directory
from targets import OWNER, listing, make_place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_place(tmp_path / "t")


@pytest.fixture
def ours(place: Path) -> str:
    found = directory.directory_of(str(place), "c")
    directory.claim(found, OWNER)
    return found


@pytest.fixture
def nothing_of_theirs_changes(place: Path) -> Iterator[None]:
    before = listing(place)
    yield
    assert listing(place) == before
