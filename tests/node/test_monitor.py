"""What the counters of a node moved over time: how it is kept, and read back."""

import math
from pathlib import Path

import pytest

from iosweep.node.counters import Bytes, Reading
from iosweep.node.monitor import dirty_bytes, encoded, series


def readings(*times: float, written: list[int]) -> list[Reading]:
    return [Reading(at_s, Bytes(0, count)) for at_s, count in zip(times, written, strict=True)]


def test_counts_become_rates() -> None:
    seen = readings(5.0, 6.01, 7.0, 8.0, 8.3, written=[1000, 2010, 3000, 5000, 6500])
    read, written = series(encoded("n1", seen, 1.0))
    assert (read.name, written.name) == ("device_read_bytes_per_s", "device_written_bytes_per_s")
    assert written.values == pytest.approx([1000, 1000, 3500 / 1.3], rel=1e-4)
    assert (written.host, written.interval_s, written.begin_s) == ("n1", 1.0, 0.0)


def test_a_counter_that_began_again_and_one_that_was_read_late() -> None:
    seen = readings(0.0, 1.0, 2.0, 5.0, written=[50, 60, 0, 30])
    _, written = series(encoded("", seen, 1.0))
    assert written.values[0] == 10.0 and math.isnan(written.values[1]) and written.values[2:] == (10.0, 10.0, 10.0)


def test_what_waits_in_memory_to_be_written(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    assert dirty_bytes(file) is None
    file.write_text("MemAvailable: 4 kB\nDirty: 3 kB\nWriteback: 2 kB\nCached: 1 kB\n")
    assert dirty_bytes(file) == 5 * 1024
