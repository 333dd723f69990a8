"""What disturbs a phase of the real fio, and what its node did meanwhile."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from campaign import Allocation
from iosweep.node import monitor
from iosweep.results.raw_output import unpack
from iosweep.target.mounts import at, of_mount, table

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]

SWEEP: dict[str, Any] = {
    "name": "disturbed", "tool": "fio", "phases": ["rand_read"], "phase_time": "3s", "repetitions": 1,
    "options": {"file_size": "4m", "transfer_size": "4k", "threads_per_node": 1},
}  # fmt: skip
#: Writes until it is killed.
DD = "while :; do dd if=/dev/zero of={file} bs=1M count=64 oflag=direct conv=notrunc,nocreat 2> /dev/null; done"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A directory on a block device that counts."""
    mount = at(str(tmp_path), table())
    counters = of_mount(mount.point, mount.fstype)
    if not counters.devices or counters.memory:
        pytest.skip(f"a block device below {tmp_path}: it is on {mount.fstype}")
    return tmp_path


@contextmanager
def dd(place: Path) -> Iterator[None]:
    """Others that write to the device of the target."""
    file = place / "others"
    file.write_bytes(bytes(1 << 20))
    writer = subprocess.Popen(["sh", "-c", DD.format(file=file)], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()


def findings(made: Allocation) -> dict[str, tuple[str, str]]:
    """Check -> outcome and evidence, of its only row."""
    made.rows()
    rows = pyarrow.parquet.read_table(made.results / "checks.parquet").to_pylist()
    return {row["check"]: (row["outcome"], row["evidence"]) for row in rows}


def test_a_dd_beside_it(disk: Path) -> None:
    made = Allocation(disk, SWEEP)
    with dd(disk):
        made.measure()
    outcome, evidence = findings(made)["other_io"]
    assert outcome == "fail"
    assert evidence.startswith("others wrote ")


def test_what_its_node_did_each_second(disk: Path) -> None:
    made = Allocation(disk, SWEEP)
    made.measure()
    [(result, record)] = made.store.records_of(made.plan.points[0].id)
    archive = made.store.raw(result)
    assert archive
    series = {one.name: one for one in monitor.series(unpack(archive)["rand_read"]["monitor"])}
    assert {one.host for one in series.values()} == {record.host}
    read = series["device_read_bytes_per_s"]
    assert len(read.values) >= 3
    assert read.interval_s == 1.0
    # as much as was counted over the whole command, which the last interval ends with
    [run] = record.phases
    counted = run.moved[record.host].device_read_bytes
    lasts = [1.0] * (len(read.values) - 1) + [run.moved[record.host].window_s - len(read.values) + 1]
    assert counted and sum(a * b for a, b in zip(read.values, lasts, strict=True)) == pytest.approx(counted, rel=0.2)
