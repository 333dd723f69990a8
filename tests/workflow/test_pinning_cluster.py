"""Ranks and workers on the CPUs that were planned for them, on nodes of a real cluster.

What a process may use is read by a witness that is not the code under test: a program of its own on each node that
reads /proc while the tools run. The nodes have two CPUs, so a test reserves one of them and then the other: a mask that
was only inherited cannot pass both ways.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from held_job import Held
from iosweep.errors import ExitCode
from records import plain_records_of
from slurm import Cluster
from two_nodes import FIO, IOR, Job, outcomes
from waiting import wait_for

#: Looks at every thread of every ior, mdtest and fio that it can see, until its stdin ends: `name mask processor`.
WITNESS = """
import os, select, sys
seen = set()
while not select.select([sys.stdin], [], [], 0.02)[0]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            if name not in ("ior", "mdtest", "fio") or b"/iosweep-c/" not in open(f"/proc/{pid}/cmdline", "rb").read():
                continue  # one that only says its version
            for task in os.listdir(f"/proc/{pid}/task"):
                lines = open(f"/proc/{pid}/task/{task}/status").read().split("\\n")
                last = open(f"/proc/{pid}/task/{task}/stat").read().rpartition(")")[2].split()[36]
                mask = next(l.split()[1] for l in lines if l.startswith("Cpus_allowed_list"))
                seen.add((name, mask, last))
        except OSError:
            pass
import json
print(json.dumps(sorted(seen)))
"""

MDTEST: dict[str, Any] = {
    "name": "m", "tool": "mdtest", "phases": ["create", "stat", "read", "delete"], "repetitions": 1,
    "options": {"files_per_thread": 3000, "threads_per_node": 2},
}  # fmt: skip


@pytest.fixture
def job(held: Held, tmp_path: Path, fio: Path, stand_ins: Path) -> Iterator[Job]:
    made = Job(held, tmp_path, fio)
    for tool in ("ior", "mdtest"):
        shutil.copy(stand_ins / tool, tmp_path / "bin" / tool)
    yield made
    made.end()


class Witness:
    """Looks on, on some nodes, while something runs."""

    def __init__(self, held: Held, *nodes: str):
        command = [sys.executable, "-I", "-S", "-c", WITNESS]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._on = {node: held.cluster.popen(command, on=node, **pipes) for node in nodes}

    def seen(self) -> dict[str, list[tuple[str, str, str]]]:
        """node -> (tool, CPUs that a thread may use, CPU that it was on)."""
        return {node: [tuple(t) for t in json.loads(one.communicate("\n")[0])] for node, one in self._on.items()}


def records(job: Job) -> dict[str, dict[str, Any]]:
    """tool/phase -> its entry in the stored result."""
    found = {}
    for point in job.made.plan.points:
        for _, record in plain_records_of(job.made.store, point.id):
            found |= {f"{point.tool}/{run['phase']}": run for run in record["phases"]}
    return found


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
@pytest.mark.parametrize(("reserved", "chosen"), [("0", "1"), ("1", "0")])
def test_everything_runs_on_the_one_cpu_that_is_left(job: Job, launcher: str, reserved: str, chosen: str) -> None:
    sweeps = [sweep | {"axes": {"nodes": [2]}} for sweep in (FIO, IOR, MDTEST)]
    job.made.configure(sweeps=sweeps, cpus={"reserved": reserved, "oversubscribe": True})
    witness = Witness(job.held, "n1", "n2")
    code, said = job.start("--launcher", launcher).result()
    seen = witness.seen()
    assert code == 0, said
    for node in ("n1", "n2"):
        assert set(seen[node]) == {(tool, chosen, chosen) for tool in ("ior", "mdtest", "fio")}
    for check in ("pinned", "reserved_cpus"):
        found = outcomes(job, check)
        assert {found["fio/rand_read"], found["ior/seq_write"]} == {"pass"}
        assert "fail" not in found.values()  # mdtest's phases may be too short to be looked at three times


def test_one_rank_and_one_worker_on_each_cpu(job: Job) -> None:
    job.made.configure(sweeps=[sweep | {"axes": {"nodes": [2]}} for sweep in (FIO, IOR)])
    code, said = job.start("--launcher", "srun").result()
    assert code == 0, said
    for run in records(job).values():
        (nodes,) = run["cpus"]["nodes"]  # alike
        assert nodes["hosts"] == ["n1", "n2"]
        assert run["cpus"]["planned"] == {"0": 1, "1": 1}
        at_work = [p for p in nodes["processes"] if p["role"] in ("rank", "worker")]
        assert [(p["masks"], p["thread_masks"], p["count"]) for p in at_work] == [(["0"], ["0"], 1), (["1"], ["1"], 1)]
    assert outcomes(job, "pinned") == {"fio/rand_read": "pass", "ior/seq_write": "pass"}
    assert outcomes(job, "reserved_cpus") == dict.fromkeys(("fio/rand_read", "ior/seq_write"), "not applicable")
    assert "--overcommit" not in records(job)["ior/seq_write"]["argv"]


def test_more_ranks_than_cpus_must_be_asked_for(job: Job) -> None:
    four = IOR["options"] | {"threads_per_node": 4}
    job.made.configure(sweeps=[IOR | {"axes": {"nodes": [2]}, "options": four}, FIO | {"axes": {"nodes": [2]}}])
    code, said = job.start("--launcher", "srun").result()
    assert code == 0, said
    why = "4 ranks on a node with 2 usable CPUs (0-1): fewer threads_per_node, or `cpus: {oversubscribe: true}`"
    assert f"missing: {why}" in said
    assert set(records(job)) == {"fio/rand_read"}
    assert [record.reason.startswith(why) for record in job.made.store.missing().values()] == [True]


# What is not as planned


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
@pytest.mark.parametrize("tool", [FIO, IOR])
def test_masks_that_another_tool_sets_are_found(job: Job, launcher: str, tool: dict[str, Any]) -> None:
    name = f"^{job.place}/bin/{tool['tool']} .*{tool['phases'][0] if tool is FIO else 'minTimeDuration'}"
    for time_s in (2, 8, 32):  # until it is long enough for that to happen in it, and to be looked at
        job.made.configure(tool | {"axes": {"nodes": [2]}, "phase_time": f"{time_s}s"})
        child = job.start("--launcher", launcher)
        wait_for(lambda: len(job.held.alive(name, "n2")) == (3 if tool is FIO else 2), over=child.over)
        time.sleep(time_s / 4)  # fio's workers bind themselves
        there = job.held.alive(name, "n2")
        for pid in there:
            job.held.cluster.on("n2", ["taskset", "-acp", "0-1", str(pid)], check=False)
        time.sleep(time_s / 4)
        in_time = there == job.held.alive(name, "n2") != []
        code, said = child.result()
        assert code == 0, said
        if in_time:
            break
    (run,) = records(job).values()
    assert run["verdict"] == "invalid"
    kind = "worker" if tool is FIO else "rank"
    (reason,) = [r for r in run["reasons"] if kind in r]
    assert re.search(rf"n2: (1 {kind} changed CPUs on the way: 0 then 0-1|2 {kind}s could run on CPUs 0-1)", reason)
    assert "n1" not in reason


def test_a_list_of_hydra_that_is_too_short(job: Job) -> None:
    """What hydra does with ranks beyond the list, without a word and with exit code 0."""
    real = shutil.which("mpiexec.hydra")
    short = f"""#!{sys.executable}
import os, sys
os.execv({real!r}, ["mpiexec", *(word.replace("user:0,1", "user:0") for word in sys.argv[1:])])
"""
    (job.place / "bin/mpiexec.hydra").write_text(short)
    (job.place / "bin/mpiexec.hydra").chmod(0o755)
    job.made.configure(IOR | {"axes": {"nodes": [2]}})
    code, said = job.start("--launcher", "mpiexec").result()
    assert code == 0, said
    (run,) = records(job).values()
    assert run["argv"][0] == f"{job.place}/bin/mpiexec.hydra"
    assert run["verdict"] == "invalid"
    assert any("1 rank could run on CPUs 0-1" in reason and "it was not bound" in reason for reason in run["reasons"])


# A file system that keeps CPUs

#: Says what WEKA's command says of a client that owns CPU 1. It is not WEKA.
WEKA = """#!/bin/sh
case "$*" in
"local ps") echo 'CONTAINER  STATE    DISABLED  UPTIME'; echo 'client0    Running  False     1:00:00h' ;;
*" -J") echo '{"nodes": {"0": {"core_id": 4294967295, "dedicate_core": false, "roles": ["MANAGEMENT"]},
 "1": {"core_id": 1, "dedicate_core": true, "dedicated_mode": "FULL", "roles": ["FRONTEND"]}}}' ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def weka(job: Job) -> Job:
    (job.place / "bin/weka").write_text(WEKA)
    (job.place / "bin/weka").chmod(0o755)
    return job


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
def test_cpus_that_weka_keeps_and_the_job_may_use_are_avoided(weka: Job, launcher: str) -> None:
    """Nothing of it is in the configuration: what the nodes say is enough."""
    sweeps = [sweep | {"axes": {"nodes": [2]}} for sweep in (FIO, IOR)]
    weka.made.configure(sweeps=sweeps, cpus={"oversubscribe": True})
    witness = Witness(weka.held, "n1", "n2")
    code, said = weka.start("--launcher", launcher).result()
    assert code == 0, said
    (note,) = [line for line in said.splitlines() if "CPU 1" in line]
    assert "note: n1, n2: this job may use CPU 1, which is reserved (weka local resources -C client0: 1 FRONT" in note
    assert "kept off by their masks; to keep all jobs off, write CpuSpecList=1 on the node's line of slurm.conf" in note
    assert {seen for node in witness.seen().values() for seen in node} == {("fio", "0", "0"), ("ior", "0", "0")}
    assert records(weka)["ior/seq_write"]["cpus"]["planned"] == {"0": 2}
    for check in ("pinned", "reserved_cpus"):
        assert outcomes(weka, check) == dict.fromkeys(("fio/rand_read", "ior/seq_write"), "pass")


def test_strict_refuses_them(weka: Job) -> None:
    weka.made.configure(pinning="strict")
    said = weka.refused(ExitCode.REFUSED, lasting=True)
    assert said.startswith(
        "pinning: n1, n2: this job may use CPU 1, which is reserved (weka local resources -C client0: 1 FRONTEND core,"
        " dedicated); `pinning: strict` refuses that; to keep all jobs off, write CpuSpecList=1 on the node's line"
    )


def test_where_ranks_are_only_looked_at_they_are_invalid(weka: Job) -> None:
    weka.made.configure(sweeps=[sweep | {"axes": {"nodes": [2]}} for sweep in (FIO, IOR)], pinning="verify")
    code, said = weka.start("--launcher", "srun").result()
    assert code == 0, said
    for run in records(weka).values():
        assert run["verdict"] == "invalid"
        assert any("it is reserved (weka local resources -C client0)" in reason for reason in run["reasons"])
    assert "--cpu-bind=none" in records(weka)["ior/seq_write"]["argv"]
    assert outcomes(weka, "pinned") == dict.fromkeys(("fio/rand_read", "ior/seq_write"), "not checked")


def test_where_the_configuration_names_them_ranks_keep_off(weka: Job) -> None:
    sweeps = [sweep | {"axes": {"nodes": [2]}} for sweep in (FIO, IOR)]
    weka.made.configure(sweeps=sweeps, cpus={"reserved": "1", "oversubscribe": True})
    witness = Witness(weka.held, "n1", "n2")
    code, said = weka.start("--launcher", "srun").result()
    assert code == 0, said
    assert {seen for node in witness.seen().values() for seen in node} == {("fio", "0", "0"), ("ior", "0", "0")}
    assert outcomes(weka, "reserved_cpus") == dict.fromkeys(("fio/rand_read", "ior/seq_write"), "pass")
    assert outcomes(weka, "reserved_agree") == dict.fromkeys(("fio/rand_read", "ior/seq_write"), "pass")


def test_off_looks_at_nothing(weka: Job) -> None:
    weka.made.configure(sweeps=[sweep | {"axes": {"nodes": [2]}} for sweep in (FIO, IOR)], pinning="off")
    code, said = weka.start("--launcher", "srun").result()
    assert code == 0, said
    assert [run["cpus"] for run in records(weka).values()] == [None, None]
    for check in ("pinned", "reserved_cpus", "reserved_agree"):
        assert set(outcomes(weka, check).values()) == {"not checked"}


@pytest.mark.parametrize("core", [None, 0, 1])
def test_the_cpu_that_slurm_leaves_on_a_node(
    slurm_session: Cluster, tmp_path: Path, fio: Path, stand_ins: Path, core: int | None
) -> None:
    """CPU 1. Where WEKA has CPU 0 nothing needs to be said; where it has CPU 1 nothing usable is left."""
    held = Held(slurm_session, "--partition=spec", "--time=50", hosts=("n3",))
    try:
        job = Job(held, tmp_path, fio)
        shutil.copy(stand_ins / "ior", tmp_path / "bin/ior")
        if core is not None:
            (job.place / "bin/weka").write_text(WEKA.replace('"core_id": 1,', f'"core_id": {core},'))
            (job.place / "bin/weka").chmod(0o755)
        job.made.configure(sweeps=[s | {"options": s["options"] | {"threads_per_node": 1}} for s in (FIO, IOR)])
        if core == 1:
            assert job.refused(ExitCode.REFUSED, lasting=True).startswith(
                "pinning: n3: no usable CPU is left: the job may use CPU 1, and all are reserved (weka local resources"
            )
            job.end()
            return
        witness = Witness(held, "n3")
        code, said = job.start("--launcher", "srun").result()
        assert code == 0, said
        assert "this job may use" not in said
        assert set(witness.seen()["n3"]) == {("fio", "1", "1"), ("ior", "1", "1")}
        both = ("fio/rand_read", "ior/seq_write")
        assert outcomes(job, "pinned") == dict.fromkeys(both, "pass")
        assert outcomes(job, "reserved_cpus") == dict.fromkeys(both, "not applicable" if core is None else "pass")
        assert records(job)["ior/seq_write"]["cpus"]["planned"] == {"1": 1}
        job.end()
    finally:
        held.end()
