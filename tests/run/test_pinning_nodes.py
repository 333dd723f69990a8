"""Ranks and workers on the CPUs that were planned for them, on nodes of a real cluster.

What a process may use, the kernel tells each of them. The nodes have two CPUs, so a test reserves one of them and then
the other: a mask that was only inherited cannot pass both ways.
"""

from pathlib import Path
from typing import Any

import pytest

import scripted
from held_job import Held
from iosweep.errors import ExitCode
from records import plain_records_of
from slurm import Cluster
from two_nodes import TWO, Job

#: Long enough that we look at most of them, and what the tools say of it.
SLOW = {"sleep_s": 0.8, "seconds": 0.4}
OPTIONS: dict[str, Any] = TWO["options"] | {"threads_per_node": 2}
MDTEST: dict[str, Any] = {
    "name": "m", "tool": "mdtest", "phases": ["create", "delete"], "repetitions": 1, "axes": {"nodes": [2]},
    "options": {"files_per_thread": 10, "threads_per_node": 2},
}  # fmt: skip
SWEEPS = [TWO | {"options": OPTIONS}, TWO | {"name": "i", "tool": "ior", "options": OPTIONS}, MDTEST]
TOOLS = ("fio", "ior", "mdtest")

#: Says what WEKA's command says of a client that owns a CPU. It is not WEKA.
WEKA = """#!/bin/sh
case "$*" in
"local ps") echo 'CONTAINER  STATE    DISABLED  UPTIME'; echo 'client0    Running  False     1:00:00h' ;;
*" -J") echo '{"nodes": {"0": {"core_id": 4294967295, "dedicate_core": false, "roles": ["MANAGEMENT"]},
 "1": {"core_id": %s, "dedicate_core": true, "dedicated_mode": "FULL", "roles": ["FRONTEND"]}}}' ;;
*) exit 1 ;;
esac
"""


def weka(job: Job, core: str) -> None:
    (job.place / "bin/weka").write_text(WEKA % core)
    (job.place / "bin/weka").chmod(0o755)


def masks(job: Job) -> dict[str, set[tuple[str, str]]]:
    """node -> (tool, CPUs that a rank or worker of it could use). Not of fio's first process, which starts workers."""
    found: dict[str, set[tuple[str, str]]] = {}
    for one in scripted.processes(job.place / "bin"):
        if one["tool"] != "fio" or one["worker"]:
            found.setdefault(one["node"], set()).add((one["tool"], one["cpus"]))
    return found


def planned(job: Job) -> dict[str, Any]:
    """tool -> the CPUs of its first phase as planned, in the stored result."""
    found: dict[str, Any] = {}
    for point in job.made.plan.points:
        for record in plain_records_of(job.made.store, point.id):
            found[point.tool] = record["phases"][0]["cpus"]["planned"]
    return found


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
@pytest.mark.parametrize("core", ["0", "1"])
def test_no_rank_or_worker_may_use_a_reserved_cpu(held: Held, tmp_path: Path, launcher: str, core: str) -> None:
    """By the configuration, or by what the nodes say of WEKA."""
    job, left = Job(held, tmp_path, SLOW), {"0": "1", "1": "0"}[core]
    cpus = {"reserved": core} if core == "0" else {}
    if core == "1":
        weka(job, core)
    alone = [sweep | {"options": sweep["options"] | {"threads_per_node": 1}} for sweep in SWEEPS]
    job.made.configure(sweeps=alone, cpus=cpus)
    said = job.measure(launcher)
    assert masks(job) == {node: {(tool, left) for tool in TOOLS} for node in held.hosts}
    assert planned(job)["ior"] == {left: 1}
    assert ("CpuSpecList=1" in said) == (core == "1")  # what keeps all jobs off
    for check in ("pinned", "reserved_cpus"):
        assert "fail" not in job.outcomes(check).values()  # a busy machine may not have looked often enough


def test_one_rank_and_one_worker_on_each_cpu_and_no_more_unasked(held: Held, tmp_path: Path) -> None:
    job = Job(held, tmp_path, SLOW)
    four = TWO | {"name": "four", "tool": "ior", "options": OPTIONS | {"threads_per_node": 4}}
    job.made.configure(sweeps=[*SWEEPS, four])
    job.measure()
    for of_node in masks(job).values():  # a worker of fio binds itself
        assert of_node - {("fio", "0,1")} == {(tool, cpu) for tool in TOOLS for cpu in "01"}
    assert planned(job) == {tool: {"0": 1, "1": 1} for tool in TOOLS}
    assert len(job.made.store.missing()) == 1  # four ranks on two CPUs must be asked for


def test_the_cpu_that_slurm_and_weka_leave_on_a_node(slurm_session: Cluster, tmp_path: Path) -> None:
    """n3 has CpuSpecList=0. Where WEKA keeps CPU 0 nothing needs to be said; where it has CPU 1 none is left."""
    held = Held(slurm_session, "--partition=spec", "--time=50", hosts=("n3",))
    try:
        job = Job(held, tmp_path, SLOW)
        job.made.configure(sweeps=[sweep | {"axes": {}, "options": TWO["options"]} for sweep in SWEEPS[:2]])
        weka(job, "1")
        assert job.refusal(ExitCode.REFUSED).lasting
        weka(job, "0")
        assert "CpuSpecList" not in job.measure()
        assert masks(job) == {"n3": {("fio", "1"), ("ior", "1")}}
    finally:
        held.end()
