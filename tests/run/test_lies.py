"""Lies of a real fio (lying_fio.py): each is caught, by which check and in which words; and an honest fio is not."""

import re
from pathlib import Path
from typing import Any

import pytest

from campaign import Allocation, said
from lying_fio import LIES, through

pytestmark = pytest.mark.local

#: Reads of a small set, with several I/Os in flight.
READS: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["rand_read"],
    "axes": {},
    "options": {"file_size": "4m", "transfer_size": "4k", "threads_per_node": 2, "queue_depth": 4},
    "phase_time": "1s",
    "repetitions": 1,
}
WRITES = READS | {"phases": ["rand_write"]}
LONG = {"phase_time": "8s"}

#: Lie -> sweep, and words of the reason.
CAUGHT: dict[str, tuple[dict[str, Any], str]] = {
    "rates-x10": (READS, "are 7\\d.\\d in flight, and 8 were asked for"),
    "clock-double": (READS | {"phase_time": "3s"}, "its clock is fast"),
    "clock-half": (READS | LONG, "its clock is slow"),
    "drop-direct": (READS, "fio ran without direct=1"),
    "drop-fsync": (WRITES, "fio ran without end_fsync=1"),
    "sequential-instead-of-random": (READS, "fio ran with rw=read, asked for was randread"),
}


def measured(tmp_path: Path, lie: str, sweep: dict[str, Any]) -> dict[str, Any]:
    """The row of a campaign of one point, measured with a fio that tells this lie."""
    allocation = Allocation(tmp_path, sweep)
    allocation.fake(through(lie))
    allocation.measure()
    [row] = allocation.rows()
    return row


@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("lie", sorted(set(LIES) - {"none"}))
def test_a_lie_is_caught(tmp_path: Path, lie: str) -> None:
    sweep, words = CAUGHT[lie]
    row = measured(tmp_path, lie, sweep)
    assert row["verdict"] == "invalid"
    assert re.search(words, row["reasons"])


@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("sweep", [READS, WRITES], ids=["reads", "writes"])
def test_an_honest_fio_is_not(tmp_path: Path, sweep: dict[str, Any]) -> None:
    row = measured(tmp_path, "none", sweep)
    assert said(row) == ""
    assert row["latency_mean_s"] > row["completion_latency_mean_s"] > 0
