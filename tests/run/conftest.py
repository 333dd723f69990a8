"""Campaigns of the tests of the runner: on a scripted machine in this process, or in a process of its own."""

from pathlib import Path

import pytest

from campaign import Allocation
from machine import Scripted


@pytest.fixture
def made(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


@pytest.fixture
def allocation(tmp_path: Path) -> Allocation:
    return Allocation(tmp_path)
