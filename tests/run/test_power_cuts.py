"""The power fails: what the disk of the results has received by then is there afterwards, and nothing else.

The results are on a file system in an image. At the cut all processes that write there are stopped, the image is copied
as its loop device has received it, and the copy takes its place: its journal is replayed, and what was not synced is
gone. What was announced must be there, whole; what is damaged must be noticed and made again.
"""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import mounts
from commits import committing
from iosweep.store.store import Store
from processes import all_killed, all_stopped
from waiting import PATIENCE_S

pytestmark = pytest.mark.local

Rounds = Callable[[int, int], int]


#: In `make test` one kind is enough.
@pytest.fixture(params=[pytest.param(k, marks=[pytest.mark.soak] if k != "ext4" else []) for k in mounts.DISKS])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where a file system is mounted that outlives a power cut."""
    if reason := mounts.missing():
        pytest.skip(reason)
    _, (program, *_), package = mounts.DISKS[request.param]
    if shutil.which(program) is None:
        pytest.skip(f"{program}: not on PATH (Debian package {package})")
    where = tmp_path / "results"
    where.mkdir()
    # the kernel loads the module of what is to be mounted, if it has one
    subprocess.run(["mount", "-t", request.param, "none", where], stderr=subprocess.DEVNULL, check=False)
    if request.param not in Path("/proc/filesystems").read_text().split():
        pytest.skip(f"{request.param}: not in this kernel")
    with mounts.disk(where, request.param):
        yield where


def power_cut(disk: Path, process: subprocess.Popen[bytes]) -> None:
    """Cut the power while this runs, and let it come back."""
    stopped = all_stopped(psutil.Process(process.pid))
    copy = mounts.received(disk)
    all_killed(stopped)
    process.wait(PATIENCE_S)
    mounts.replace(disk, copy)


def others_sync(disk: Path) -> None:
    """Somebody else syncs a file: the journal has all names from then on, but not the content that was not synced."""
    file = disk / "others"
    with file.open("wb") as to:
        to.write(b"x")
        to.flush()
        os.fsync(to.fileno())


def test_a_power_cut_takes_nothing_that_the_store_announced(disk: Path, rounds: Rounds, draw: random.Random) -> None:
    store = Store(disk / "c")
    for _ in range(rounds(2, 5)):
        with committing(store) as process:
            time.sleep(draw.uniform(0, 0.3))
            if draw.random() < 0.5:
                others_sync(disk)
            power_cut(disk, process)
