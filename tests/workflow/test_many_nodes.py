"""128 nodes, all of which share the CPUs of this machine: 3 GB of memory."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import slurm as clusters
from held_job import Held
from iosweep.commands import cli
from iosweep.errors import ExitCode
from iosweep.hostlist import folded
from slurm import Cluster
from slurm_campaign import until
from two_nodes import TWO, Job

pytestmark = pytest.mark.soak

NODES = 128
ASKED = ("scontrol", "squeue", "sinfo", "srun", "scancel", "sacct", "sbatch")


@pytest.fixture(scope="module")
def slurm_many() -> Iterator[Cluster]:
    if reason := clusters.missing():
        pytest.skip(reason)
    with Cluster(workers=NODES).up() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def many(slurm_many: Cluster) -> Held:
    """A job that holds all workers, and outlives one of them. The cluster ends with it."""
    return Held(slurm_many, "--partition=wide", "--no-kill", "--time=50", hosts=slurm_many.workers)


def a_job(held: Held, place: Path, *rules: dict[str, Any]) -> Job:
    place.mkdir(exist_ok=True)
    job = Job(held, place, *rules)
    job.made.configure(TWO | {"axes": {"nodes": [len(held.hosts)]}}, target={"deadline": "120s"})
    return job


def counted(job: Job) -> Path:
    """Count the questions to the controller; the file that has them."""
    log = job.place / "asked"
    for name in ASKED:
        program = job.place / "bin" / name
        program.write_text(f'#!/bin/sh\necho "$(hostname) {name}" >> {log}\nPATH=${{PATH#*:}} exec {name} "$@"\n')
        program.chmod(0o755)
    return log


def test_a_campaign_over_all_nodes_asks_slurm_no_more_than_one_over_two(
    many: Held, tmp_path: Path, slurm_many: Cluster
) -> None:
    job = a_job(many, tmp_path / "many")
    log = counted(job)
    job.measure()
    asked = Counter(log.read_text().splitlines())
    [row] = job.table()
    assert row["hosts"] == ",".join(many.hosts)
    assert {part["host"] for part in job.table("node_rates")} == set(many.hosts)
    assert {node["host"] for node in job.table("nodes")} == set(many.hosts)
    two = Held(slurm_many, "--time=50")
    try:
        small = a_job(two, tmp_path / "two")
        few = counted(small)
        small.measure()
        assert {line.split()[0] for line in asked} == {many.hosts[0]}  # by the first node alone
        of_two = Counter(line.split()[1] for line in few.read_text().splitlines())
        assert Counter(line.split()[1] for line in asked.elements()) == of_two
    finally:
        slurm_many.run(["scancel", two.job])
    assert cli.main(["report", str(job.made.results)]) == 0
    assert folded(many.hosts) in (job.made.results / "report.html").read_text()


def test_one_dead_node_is_named(many: Held, tmp_path: Path) -> None:
    """Last: the job goes on without it."""
    job = a_job(many, tmp_path, {"sleep_s": 600})
    running = job.start()
    until(lambda: many.alive("name=seq_write", "w3"), running.over)
    many.cluster.kill_node("w3", noticed=True)
    code, said = running.result()
    assert code == ExitCode.LOST, said
    assert "w3" in said.partition("ended")[2]
