"""One allocation, measured by `iosweep measure` in a process of its own."""

from pathlib import Path

import pytest

from campaign import Allocation


@pytest.fixture
def allocation(tmp_path: Path) -> Allocation:
    return Allocation(tmp_path)
