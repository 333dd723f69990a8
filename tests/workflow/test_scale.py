"""Many nodes: 32 in `make test`, 128 in `make scale`. All of them share the CPUs of this machine."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import slurm as clusters
from campaign import ROOT
from held_job import Held
from iosweep.commands import cli
from iosweep.errors import ExitCode
from iosweep.hostlist import folded, hosts
from slurm import Cluster
from two_nodes import Job
from waiting import wait_for

SIZES = [32, pytest.param(128, marks=pytest.mark.scale)]
READS: dict[str, Any] = {
    "name": "s", "tool": "fio", "phases": ["rand_read"], "phase_time": "1s", "repetitions": 1,
    "options": {"file_size": "64k", "transfer_size": "4k"},
}  # fmt: skip
WRITES: dict[str, Any] = READS | {
    "phases": ["seq_write"], "options": {"file_size": "64k", "transfer_size": "4k", "write_mode": "new"},
}  # fmt: skip
ASKED = ("scontrol", "squeue", "sinfo", "srun", "scancel", "sacct", "sbatch")


@pytest.fixture(scope="module", params=SIZES)
def slurm_many(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if reason := clusters.missing():
        pytest.skip(reason)
    with Cluster(workers=request.param).up() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def many(slurm_many: Cluster) -> Iterator[Held]:
    """A job that holds all workers, and outlives one of them."""
    made = Held(slurm_many, "--partition=wide", "--no-kill", "--time=50", hosts=slurm_many.workers)
    yield made
    for process in made._there.values():  # the cluster ends with all that is on it
        process.kill()
        process.wait()


def a_job(held: Held, place: Path, fio: Path, sweep: dict[str, Any]) -> Job:
    place.mkdir(exist_ok=True)
    job = Job(held, place, fio)
    job.made.configure(sweep | {"axes": {"nodes": [len(held.hosts)]}}, target={"deadline": "120s"})
    return job


def counted(job: Job) -> Path:
    """Count the questions to the controller; the file that has them."""
    log = job.place / "asked"
    for name in ASKED:
        program = job.place / "bin" / name
        program.write_text(f'#!/bin/sh\necho "$(hostname) {name}" >> {log}\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    return log


def harmed(job: Job, node: str, lines: str) -> None:
    """These lines of a shell measure on a node in place of fio, which is $real."""
    real = job.place / "bin/fio.real"
    (job.place / "bin/fio").rename(real)
    harm = f'case "$(hostname) $*" in {node}\\ *time_based*) {lines};; esac'
    (job.place / "bin/fio").write_text(f'#!/bin/sh\nreal={real}\n{harm}\nexec $real "$@"\n')
    (job.place / "bin/fio").chmod(0o755)


# Without a held job: the doctor has one of its own, and is the first


def test_the_doctor_over_all_nodes(slurm_many: Cluster, tmp_path: Path, fio: Path) -> None:
    for name in ("target", "locks"):
        (tmp_path / name).mkdir()
    shutil.copytree(ROOT / "profiles/slurm", tmp_path / "profile")
    resources = {"launcher": "srun", "scheduler": "slurm", "runtime": 60, "slurm_partition": "wide"}
    listed = "".join(f"  - {name}={json.dumps(value)}\n" for name, value in resources.items())
    (tmp_path / "profile/profile.v9+.yaml").write_text(f"executor: iosweep\ndefault-resources:\n{listed}")
    nodes = slurm_many.workers
    sweep = READS | {"axes": {"nodes": [1, len(nodes)]}}
    target = {"directory": str(tmp_path / "target"), "lock": str(tmp_path / "locks")}
    (tmp_path / "c.yaml").write_text(json.dumps({"campaign": "doctored", "target": target, "sweeps": [sweep]}))
    slurm_many.on(nodes[16], ["mount", "-t", "tmpfs", "tmpfs", tmp_path / "target"])
    command = [sys.executable, "-m", "iosweep", "doctor", "--slurm", "--profile", "profile", "--configfile", "c.yaml"]
    done = slurm_many.run([*command, "--json"], cwd=tmp_path, check=False, timeout=900)
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(done.stdout)["lines"]:
        found.setdefault(line["check"], []).append(line)
    assert found["nodes"][0]["seen"] == f"{folded(nodes)} answered", found["nodes"]
    (target_line,) = (line for line in found["target"] if line["outcome"] == "wrong")
    assert "w17: " in target_line["seen"]
    slurm_many.on(nodes[16], ["umount", "--lazy", tmp_path / "target"])


# In a job that holds all nodes


def test_a_campaign_over_all_nodes(many: Held, tmp_path: Path, fio: Path, slurm_many: Cluster) -> None:
    job = a_job(many, tmp_path / "many", fio, READS)
    log = counted(job)
    code, said = job.measure()
    assert code == 0, said
    asked = Counter(log.read_text().splitlines())
    (row,) = job.made.rows()
    assert row["bandwidth_bytes_per_s"] > 0, row["reasons"]
    assert row["hosts"] == ",".join(many.hosts)
    assert 0 <= row["start_skew_s"] < row["wall_s"]
    parts = pyarrow.parquet.read_table(job.made.results / "parts.parquet").to_pylist()
    assert {part["host"] for part in parts} == set(many.hosts)
    nodes = pyarrow.parquet.read_table(job.made.results / "nodes.parquet").to_pylist()
    assert {node["host"] for node in nodes} == set(many.hosts)
    checks = {one["check"]: one for one in pyarrow.parquet.read_table(job.made.results / "checks.parquet").to_pylist()}
    assert checks["pinned"]["outcome"] in ("pass", "not checked"), checks["pinned"]
    # the controller is asked as often as for two nodes, and by the first node alone
    with_two = Held(slurm_many, "--time=50")
    try:
        small = a_job(with_two, tmp_path / "two", fio, READS)
        few = counted(small)
        assert small.measure()[0] == 0
        assert {line.split()[0] for line in asked} == {many.hosts[0]}
        of_two = Counter(line.split()[1] for line in few.read_text().splitlines())
        assert Counter(line.split()[1] for line in asked.elements()) == of_two
    finally:
        for process in with_two._there.values():
            process.kill()
            process.wait()
        slurm_many.run(["scancel", with_two.job])
    assert cli.main(["report", str(job.made.results)]) == 0
    assert folded(many.hosts) in (job.made.results / "report.html").read_text()


def test_one_slow_node_is_named(many: Held, tmp_path: Path, fio: Path) -> None:
    job = a_job(many, tmp_path, fio, READS)
    harmed(job, "w7", 'exec $real "$@" --rate_iops=1')
    code, said = job.measure()
    assert code == 0, said
    (row,) = job.made.rows()
    assert row["slowest_node"] == "w7"
    assert "node w7 did" in row["reasons"], row["reasons"]


def test_one_full_node_is_named(many: Held, tmp_path: Path, fio: Path) -> None:
    job = a_job(many, tmp_path, fio, WRITES)
    full = 'at=$(echo "$*" | sed "s/.*--directory=\\([^ ]*\\).*/\\1/"); mount -t tmpfs -o size=16k full "$at"'
    harmed(job, "w9", f'{full}; trap \'umount "$at"\' EXIT; $real "$@"; exit $?')
    code, said = job.measure()
    assert code == 0, said
    (row,) = job.made.rows()
    assert row["verdict"] == "invalid"
    assert "w9" in row["reasons"], row["reasons"]
    assert "No space left" in row["reasons"], row["reasons"]


def test_one_node_without_the_target_is_named(many: Held, tmp_path: Path, fio: Path) -> None:
    job = a_job(many, tmp_path, fio, READS)
    job.mount("w5", "-t", "tmpfs", "tmpfs", job.place / "target")
    said = job.measure()[1]
    assert said.startswith("w5 differs from w1: the target is on the file system tmpfs (tmpfs) there"), said
    job.end()


def test_one_dead_node_is_named(many: Held, tmp_path: Path, fio: Path) -> None:
    """Last: the job goes on without it."""
    job = a_job(many, tmp_path, fio, READS | {"phase_time": "60s"})
    child = job.start("--launcher", "srun")
    wait_for(lambda: many.alive("time_based", "w3"), over=child.over)
    many.cluster.kill_node("w3", noticed=True)
    code, said = child.result()
    assert code == ExitCode.LOST, said
    (line,) = [line for line in said.splitlines() if "the agents on" in line]
    assert f"the agents on {hosts(many.hosts)} ended" in line
    assert "w3" in line.partition("ended")[2]
