"""Ranks and workers bound on this machine, without Slurm; the masks are also read by psutil, while they run."""

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from campaign import SWEEP, Allocation
from records import plain_records_of

FIO: dict[str, Any] = SWEEP | {"axes": {"threads_per_node": [2]}, "phases": ["rand_read"], "phase_time": "1s"}
IOR: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write"], "phase_time": "1s", "repetitions": 1,
    "options": {"file_size": "1m", "transfer_size": "64k", "write_mode": "overwrite"},
}  # fmt: skip

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.cpu_count() == 1, reason="one CPU: there is no other to keep off"),
]


@pytest.fixture
def allocation(tmp_path: Path, fio: Path, mpi_tools: Path) -> Allocation:
    made = Allocation(tmp_path)
    made.path = f"{mpi_tools}{os.pathsep}{made.path}"
    return made


def masks(running: subprocess.Popen[str]) -> set[tuple[str, tuple[int, ...]]]:
    """(tool, CPUs) of every ior and fio below a process that works on the target, until it ends."""
    seen = set()
    runner = psutil.Process(running.pid)
    while running.poll() is None:
        time.sleep(0.01)
        try:
            for each in runner.children(recursive=True):
                if each.name() in ("ior", "fio") and any("/iosweep-c/" in word for word in each.cmdline()):
                    seen |= {(each.name(), tuple(each.cpu_affinity() or ()))}
        except psutil.Error:
            continue
    return seen


def measured(allocation: Allocation, *arguments: str) -> tuple[set[tuple[str, tuple[int, ...]]], list[dict[str, Any]]]:
    """What psutil saw, and the entries of the results."""
    running = subprocess.Popen(
        allocation.command(*arguments), env=allocation.environment, cwd=allocation.place, text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(running.communicate()[1]))
    reader.start()
    seen = masks(running)
    reader.join()
    assert running.returncode == 0, said
    records = [r for point in allocation.plan.points for _, r in plain_records_of(allocation.store, point.id)]
    return seen, [run for record in records for run in record["phases"]]


@pytest.mark.parametrize("launcher", ["direct", "mpiexec"])
@pytest.mark.parametrize(("reserved", "chosen"), [("0", 1), ("1", 0)])
def test_on_the_cpu_that_is_left(allocation: Allocation, launcher: str, reserved: str, chosen: int) -> None:
    ranks = {"threads_per_node": [1 if launcher == "direct" else 2]}
    several = {"reserved": ",".join([reserved, *map(str, range(2, os.cpu_count() or 2))]), "oversubscribe": True}
    allocation.configure(sweeps=[FIO, IOR | {"axes": ranks}], pinning="enforce", cpus=several)
    seen, runs = measured(allocation, "--launcher", launcher)
    assert seen == {("fio", (chosen,)), ("ior", (chosen,))}
    for run in runs:
        assert {mask for p in run["cpus"]["nodes"][0]["processes"] for mask in p["masks"]} == {str(chosen)}
    assert {row["verdict"] for row in allocation.rows()} <= {"valid", "suspect"}  # suspect on a busy machine


def test_here_they_are_looked_at_and_not_bound(allocation: Allocation) -> None:
    allocation.configure(FIO)
    seen, (run,) = measured(allocation)
    every = tuple(sorted(os.sched_getaffinity(0)))
    assert seen == {("fio", every)}
    assert (run["cpus"]["pinning"], run["cpus"]["planned"]) == ("verify", None)
    assert run["cpus"]["nodes"][0]["looks"] >= 3
    assert not [word for word in run["argv"] if "cpus_allowed" in word]


def test_what_was_bound_in_another_way_is_measured_again(allocation: Allocation) -> None:
    """Not what was only looked at in another way."""
    allocation.configure(FIO)
    allocation.measure()
    allocation.configure(FIO, pinning="off")
    allocation.measure()
    assert len(allocation.files()) == 2
    allocation.configure(FIO, pinning="enforce")
    allocation.measure()
    assert len(allocation.files()) == 4
    allocation.configure(FIO, pinning="enforce", cpus={"placement": "near_nic"})
    assert allocation.rows()[0]["verdict"] != "missing"  # nothing newer is there
    allocation.measure()
    assert [name.rpartition("/")[2] for name in allocation.files() if name.endswith("json")] == [
        "r001-1.json", "r001-2.json", "r001-3.json"
    ]  # fmt: skip


def test_no_cpu_is_left(allocation: Allocation) -> None:
    allocation.configure(FIO, pinning="enforce", cpus={"reserved": f"0-{(os.cpu_count() or 1) - 1}"})
    said = allocation.measure(code=3)
    assert "no usable CPU is left" in said
    assert not allocation.ours.exists()
