"""What a real fio and the agent leave beside fio's output, damaged: that costs the checks which need it, never the
figure."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from campaign import Allocation
from iosweep.results.checks.finding import REASON_LENGTH
from iosweep.results.raw_output import unpack

SWEEP: dict[str, Any] = {
    "name": "s", "tool": "fio", "phases": ["rand_read"], "phase_time": "1s", "repetitions": 1,
    "options": {"file_size": "1m", "transfer_size": "4k", "threads_per_node": 3, "queue_depth": 1},
}  # fmt: skip
#: The checks that need what is beside the output.
NEED_IT = {"steady", "even"}
#: Columns that are made of it.
OF_IT = {"slowest_worker", "slowest_worker_share", "rate_deviation"}
COUNTS = {"reasons", "verdict", "checks_passed", "checks_failed", "checks_not_checked"}

Harm = Callable[[bytes, random.Random], bytes]


def replaced(stream: bytes, draw: random.Random) -> bytes:
    changed = bytearray(stream)
    for _ in range(draw.choice((1, 3, 30))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def shuffled(stream: bytes, draw: random.Random) -> bytes:
    lines = stream.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def larger(stream: bytes, draw: random.Random) -> bytes:
    """Some of its numbers are larger than they can be."""
    return stream.replace(b", 0, 0, 0\n", b"0000000, 0, 0, 0\n", draw.randrange(1, 9))


HARMS: dict[str, Harm] = {
    "cut": lambda stream, draw: stream[: draw.randrange(1, len(stream))],
    "without its beginning": lambda stream, draw: stream[draw.randrange(1, len(stream)) :],
    "other bytes": replaced,
    "other lines": shuffled,
    "larger": larger,
    "zeros": lambda stream, draw: bytes(len(stream)),
    "twice": lambda stream, draw: stream + stream,
    "noise": lambda stream, draw: draw.randbytes(len(stream)),
    "surrogates": lambda stream, draw: stream.replace(b'"host":"', b'"host":"\\ud800'),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, fio: Path) -> Allocation:
    made = Allocation(tmp_path_factory.mktemp("streams"), SWEEP)
    made.measure()
    return made


def stored(made: Allocation, streams: Mapping[str, bytes]) -> None:
    """The measured repetition as another try, with these streams."""
    (point,) = made.plan.points
    _, record = next(made.store.records_of(point.id))
    made.store.commit(point.id, 1, record, {f"rand_read.{name}": data for name, data in streams.items()})


def judged(made: Allocation) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    (row,) = made.rows()
    table = pyarrow.parquet.read_table(made.results / "checks.parquet").to_pylist()
    return row, {found["check"]: (found["outcome"], found["evidence"] or "") for found in table}


@pytest.mark.local
@pytest.mark.parametrize("stream", ["series", "monitor"])
@pytest.mark.parametrize("harm", HARMS)
def test_the_figure_stays(measured: Allocation, stream: str, harm: str) -> None:
    (point,) = measured.plan.points
    result, _ = next(measured.store.records_of(point.id))
    archive = measured.store.raw(result)
    assert archive
    streams = unpack(archive)["rand_read"]
    row, checks = judged(measured)
    draw, costs = random.Random(f"{stream} {harm}"), set()
    for _ in range(10):
        damaged = HARMS[harm](streams[stream], draw)
        stored(measured, streams | {stream: damaged})
        again, rechecked = judged(measured)
        assert again["verdict"] in ("valid", "suspect"), again["reasons"]
        other = {name for name in row if row[name] != again[name]} - OF_IT - COUNTS
        assert other <= {"attempt", "raw", "raw_sha256"}
        assert {name for name in checks if checks[name] != rechecked[name]} <= NEED_IT
        costs.add(rechecked["even"][0])
        assert all(len(evidence) <= REASON_LENGTH for _, evidence in rechecked.values())
        if stream == "series" and rechecked["even"][0] == "not checked":
            assert "fio's logs are damaged" in rechecked["even"][1]
            assert "fio's logs are damaged" in rechecked["steady"][1]
    stored(measured, streams)
    assert "fail" not in costs
    if stream == "series" and harm in ("cut", "zeros", "noise", "twice", "larger"):
        assert "not checked" in costs
