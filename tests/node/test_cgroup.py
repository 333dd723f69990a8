"""Quotas of CPU time, by the files of control groups."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iosweep.node import cgroup
from iosweep.node.cgroup import Periods, quotas, throttled
from iosweep.node.cpu_record import Throttled

V2 = "usage_usec 9\nuser_usec 9\nsystem_usec 0\nnr_periods 50\nnr_throttled 5\nthrottled_usec 1500000\n"
V1 = "nr_periods 50\nnr_throttled 5\nthrottled_time 1500000000\n"


@pytest.mark.parametrize("stat", [V1, V2])
def test_both_versions_tell_the_same(stat: str) -> None:
    assert cgroup.periods(stat) == Periods(50, 5, 1.5)


@pytest.mark.parametrize("stat", ["", "usage_usec 9\n"])
def test_a_group_without_periods(stat: str) -> None:
    assert cgroup.periods(stat) is None


def group(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ({"cpu.stat": V2} | files).items():
        (folder / name).write_text(text)
    return folder / "cpu.stat"


def test_quotas_of_a_group_and_of_those_above(tmp_path: Path) -> None:
    group(tmp_path)
    job = group(tmp_path / "system/job_7", **{"cpu.max": "20000 100000"})
    group(tmp_path / "system/job_7/step_0", **{"cpu.max": "max 100000"})
    group(tmp_path / "system/job_8", **{"cpu.max": "20000 100000"})
    assert quotas("0::/system/job_7/step_0\n", tmp_path) == cgroup.Quotas((job,), True)
    # a container that sees its own group as the first, or those of the machine and not its own
    assert quotas("0::/nowhere/else\n", tmp_path) == cgroup.Quotas((), True)
    top = group(tmp_path, **{"cpu.max": "20000 100000"})
    assert quotas("0::/../x\n", tmp_path).files == (top,)
    assert quotas("", tmp_path) == cgroup.Quotas((), False)


def test_quotas_of_version_1(tmp_path: Path) -> None:
    own = group(tmp_path / "cpu,cpuacct/slurm", **{"cpu.stat": V1, "cpu.cfs_quota_us": "5000"})
    group(tmp_path / "cpu,cpuacct", **{"cpu.stat": V1, "cpu.cfs_quota_us": "-1"})
    group(tmp_path / "unified")
    assert quotas("4:memory:/a\n3:cpu,cpuacct:/slurm\n0::/\n", tmp_path) == cgroup.Quotas((own,), True)


def test_what_stopped_most() -> None:
    a, b, new = Path("a"), Path("b"), Path("new")
    before = {a: Periods(10, 5, 1.0), b: Periods(10, 0, 0.0)}
    after = {a: Periods(60, 10, 2.0), b: Periods(60, 40, 9.0), new: Periods(60, 60, 60.0)}
    assert throttled(before, after) == Throttled(50, 40, 9.0)
    assert throttled(before, before) == Throttled(0, 0, 0.0)
    assert Throttled(50, 40, 9.0).share == 0.8
    assert Throttled(0, 0, 0.0).share == 0.0


@contextlib.contextmanager
def limited() -> Iterator[Path]:
    """A real group with 2 % of a CPU, which it gets on a busy machine, too."""
    root = Path("/sys/fs/cgroup")
    parent = next((one for one in (root / "cpu", root) if (one / "cpu.stat").is_file()), root)
    made = parent / f"iosweep-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"control groups: {error.strerror}")
    try:
        files = {"cpu.cfs_quota_us": "2000", "cpu.max": "2000 100000"}
        found = [name for name in files if (made / name).exists()]
        if not found:
            pytest.skip("control groups: without quotas of CPU time")
        (made / found[0]).write_text(files[found[0]])
        yield made
    finally:
        made.rmdir()


_BUSY = """
import sys, time
from pathlib import Path
from iosweep.node import cgroup
Path(sys.argv[1]).write_text("0")
found = cgroup.quotas(Path("/proc/self/cgroup").read_text())
before, end = found.read(), time.monotonic() + 1.5
while time.monotonic() < end: pass
print(cgroup.throttled(before, found.read()).stopped)
"""


@pytest.mark.local
def test_a_real_quota_stops_us() -> None:
    with limited() as made:
        argv = [sys.executable, "-c", _BUSY, str(made / "cgroup.procs")]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) > 0
