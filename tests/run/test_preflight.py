"""What prevents or ends an allocation of several nodes: the real runner in a job of two nodes."""

import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from held_job import Held
from iosweep.errors import ExitCode
from iosweep.node.node_facts import NodeFacts
from iosweep.results.campaign_documents import Refusal
from iosweep.run import budget, target_check
from iosweep.run.nodes import differs
from iosweep.target import lock
from locks import left
from records import plain_records_of
from two_nodes import TWO, Job
from waiting import wait_for

HERE = {"fstype": "lustre", "source": "10.0.0.1@tcp:/scratch", "writable": True, "fsid": "1"}
BUILDS = {"fio": "a", "ior": "b"}


@pytest.mark.parametrize(
    ("there", "found", "why"),
    [
        ({}, BUILDS, None),
        ({"fsid": "2", "device": 7}, BUILDS | {"mdtest": None}, None),  # another number after each mount of NFS
        ({"fstype": "ext4", "source": "/dev/sda1"}, BUILDS,
         "the target is on the file system /dev/sda1 (ext4) there, and on 10.0.0.1@tcp:/scratch (lustre) on the first"
         " node; is it mounted there?"),
        ({"source": "10.0.0.2@tcp:10.0.0.1@tcp:/scratch"}, BUILDS, None),  # another NID of one server
        ({"source": "10.0.0.1@tcp:/home"}, BUILDS,
         "the target is on the file system 10.0.0.1@tcp:/home (lustre) there, and on 10.0.0.1"),
        ({"writable": False}, BUILDS, "the target cannot be written to from there"),
        ({}, BUILDS | {"ior": "c"}, "ior is a different build there"),
        ({}, {"fio": "a", "ior": None}, "ior does not exist there under the same path"),
        ({}, {"fio": "a"}, "ior does not exist there under the same path"),
    ],
)  # fmt: skip
def test_two_nodes_that_differ(there: dict[str, Any], found: dict[str, str | None], why: str | None) -> None:
    said = differs(HERE, HERE | there, BUILDS, found)
    assert said == why or (said and why and said.startswith(why))


def test_nfs_by_another_address() -> None:
    nfs = HERE | {"fstype": "nfs4", "source": "server:/export"}
    assert differs(nfs, nfs | {"source": "10.0.0.9:/export"}, {}, {}) is None
    assert str(differs(nfs, nfs | {"source": "server:/home"}, {}, {})).endswith("is it mounted there?")
    assert str(differs(nfs, nfs | {"fstype": "nfs"}, {}, {})).endswith("is it mounted there?")


# The runner


@pytest.fixture
def job(held: Held, tmp_path: Path, fio: Path) -> Iterator[Job]:
    made = Job(held, tmp_path, fio)
    yield made
    made.end()


def test_two_nodes_that_are_alike(job: Job) -> None:
    job.made.configure(TWO | {"axes": {"nodes": [1, 2]}, "repetitions": 2}, allocation="campaign")
    code, said = job.measure()
    assert code == 0, said
    hosts = {}
    for point in job.made.plan.points:
        for result, record in plain_records_of(job.made.store, point.id):
            hosts[point.nodes, result.repetition] = record["hosts"]
            assert record["slurm"] == {"job": job.held.job, "launcher": "srun", "allocation_hosts": ["n1", "n2"]}
            assert (record["host"], record["node"]) == (record["hosts"][0], record["nodes"][record["hosts"][0]])
            assert set(record["nodes"]) == set(record["hosts"])
            (phase,) = record["phases"]
            assert phase["verdict"] in ("valid", "suspect"), phase
            license = "no other job has the license pfs: all there are (1) are ours"
            assert phase["exclusive"] == {"enforced": True, "evidence": license}
            argvs = phase["argvs"] or [phase["argv"]]
            assert [argv[0] for argv in argvs] == [f"{job.place}/bin/fio"] * point.nodes
    # a smaller point runs on each of the nodes in turn
    assert hosts == {(1, 1): ["n1"], (1, 2): ["n2"], (2, 1): ["n1", "n2"], (2, 2): ["n1", "n2"]}
    assert sorted(known.host for known in job.made.store.documents(NodeFacts).values()) == ["n1", "n2"]
    assert job.made.store.documents(Refusal) == {}
    assert not job.made.ours.exists()  # all is measured
    assert lock.holder(job.made.store.path / lock.NAME) is None


def test_no_job(job: Job) -> None:
    said = job.refused(ExitCode.REFUSED, SLURM_JOB_ID="")
    assert said == "the profile says scheduler: slurm, but this is not a Slurm job (SLURM_JOB_ID is not set)"
    assert job.refused(ExitCode.REFUSED, SLURM_JOB_ID="99999") == "Slurm does not know the nodes of job 99999"


def test_too_few_nodes(job: Job) -> None:
    job.made.configure(TWO | {"axes": {"nodes": [3]}})
    said = job.refused(ExitCode.REFUSED, lasting=True)
    assert said == f"job {job.held.job} has 2 nodes, and 3 are needed"


def test_a_node_without_the_target(job: Job) -> None:
    away = job.place / "away"
    away.mkdir()
    job.mount("n2", "--bind", away, job.place / "target")
    job.mount("n2", "-t", "tmpfs", "tmpfs", job.place / "target")
    said = job.refused(ExitCode.REFUSED, nodes=("n2",))
    assert said.startswith("n2 differs from n1: the target is on the file system tmpfs (tmpfs) there, and on ")
    assert said.endswith(" on the first node; is it mounted there?")


def test_a_node_where_the_target_is_not_to_be_found(job: Job) -> None:
    job.made.configure(TWO, target={"directory": str(job.place / "target/below")})
    (job.place / "target/below").mkdir()
    job.mount("n2", "-t", "tmpfs", "tmpfs", job.place / "target")
    said = job.refused(ExitCode.REFUSED, nodes=("n2",))  # another job may be given other nodes
    not_there = f"the target {job.place}/target/below does not exist; is the file system mounted?"
    assert said == f"on n2: {not_there}; n1 can work there"
    job.mount("n1", "-t", "tmpfs", "tmpfs", job.place / "target")
    assert job.refused(ExitCode.REFUSED, lasting=True) == f"on n1, n2: {not_there}"


def test_a_node_that_may_only_read(job: Job) -> None:
    target = job.place / "target"
    job.mount("n2", "--bind", target, target)
    job.held.cluster.on("n2", ["mount", "-o", "remount,bind,ro", target])
    assert (
        job.refused(ExitCode.REFUSED, nodes=("n2",)) == "n2 differs from n1: the target cannot be written to from there"
    )


def test_a_disk_of_each_nodes_own(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    # their devices have the same name, and so each might be taken for the other's
    monkeypatch.setattr(target_check, "NAME_CACHE_S", 0.1)
    for node in job.held.hosts:
        job.mount(node, "-t", "tmpfs", "tmpfs", job.place / "target")
    assert job.refused(ExitCode.REFUSED, lasting=True) == (
        f"n2: {job.made.ours}, made by n1, does not exist there; the target is on another file system of the same"
        " name: is it mounted, and shared by all nodes?"
    )


def test_another_build_of_a_tool(job: Job) -> None:
    program, other = job.place / "bin/fio", job.place / "other"
    other.write_bytes(program.read_bytes() + b"\n")
    other.chmod(0o755)
    job.mount("n2", "--bind", other, program)
    assert job.refused(ExitCode.REFUSED, nodes=("n2",)) == "n2 differs from n1: fio is a different build there"
    job.mount("n2", "-t", "tmpfs", "tmpfs", job.place / "bin")
    assert (
        job.refused(ExitCode.REFUSED, nodes=("n2",))
        == "n2 differs from n1: fio does not exist there under the same path"
    )


def test_a_node_that_does_not_see_the_results(job: Job) -> None:
    job.made.command()  # makes the directory
    job.mount("n2", "-t", "tmpfs", "tmpfs", job.made.results)
    assert job.refused(ExitCode.REFUSED, nodes=("n2",)) == (
        f"n2: the results {job.made.results} do not exist there; every node must see the directory that snakemake runs"
        " in"
    )


def test_agents_that_cannot_be_started(job: Job) -> None:
    (job.place / "bin/srun").write_text("#!/bin/sh\necho 'srun: error: Unable to create step' >&2\nexit 1\n")
    (job.place / "bin/srun").chmod(0o755)
    assert job.refused(ExitCode.LOST) == (
        "the agents on n1, n2 ended: srun: error: Unable to create step; what was measured is stored, and another job"
        " goes on from there"
    )


def test_the_campaign_is_held_by_another_job(job: Job) -> None:
    submit = ["sbatch", "--parsable", "--nodes=2", "--output=/dev/null", "--wrap=true"]
    other = job.held.cluster.run(submit).stdout.strip()
    job.made.results.mkdir(parents=True)
    text = left(host="n9", job=other)
    (job.made.results / "lock").write_text(text)
    said = job.refused(ExitCode.REFUSED, after=other)
    assert said.startswith(f"campaign c is being measured by process 7 of user ann on host n9 (job {other}, ")
    job.held.cluster.run(["scancel", other])
    (job.made.results / "lock").write_text(text)
    code, said = job.measure()
    assert code == 0, said


@pytest.mark.parametrize(
    ("what", "long"),
    [
        ("repetition", {"phase_time": "600s"}),
        ("data set", {"options": {"file_size": "1m", "transfer_size": "4k"}}),
    ],
)
def test_the_job_ends_too_soon(job: Job, monkeypatch: pytest.MonkeyPatch, what: str, long: dict[str, Any]) -> None:
    monkeypatch.setattr(budget, "set_rate", lambda _, bandwidth: bandwidth)  # however slow this machine is
    for seed in range(100):  # until the short point comes first; its set is written, as if that took a minute
        sweeps = [TWO, TWO | {"name": "long"} | long]
        job.made.configure(sweeps=sweeps, seed=seed, target={"node_bandwidth": "4k"})
        (short,) = (p for p in job.made.plan.points if (p.phase_time_s, p.options["file_size"]) == (0.1, 256 << 10))
        order = sorted(point.id for point in job.made.plan.points)
        random.Random(f"{seed}:1").shuffle(order)
        if order[0] == short.id:
            break
    control = ["scontrol", "update", f"JobId={job.held.job}"]
    # a minute or two of the job are left
    shown = job.held.cluster.run(["scontrol", "--oneliner", "show", "job", job.held.job]).stdout
    hours, minutes, _ = map(int, re.search(r"RunTime=(\d+):(\d+):(\d+)", shown).groups())  # type: ignore[union-attr]
    job.held.cluster.run([*control, f"TimeLimit={60 * hours + minutes + 2}"])
    try:
        said = job.refused(ExitCode.JOB_OVER)
    finally:
        job.held.cluster.run([*control, "TimeLimit=50"])
    assert re.fullmatch(
        rf"job {job.held.job} ends in [^,]+, too soon for the next {what} \(\d+ min[^)]*\); another job goes on"
        " from there",
        said,
    )
    assert job.made.files() == [f"{short.id}/r001-1.{kind}" for kind in ("json", "zip")]
    assert not job.made.manifest.exists()
    assert job.made.ours.exists()  # its data is for the next one


IOR: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write"], "axes": {"nodes": [2], "threads_per_node": [2]},
    "options": {"file_size": "1m", "transfer_size": "64k", "write_mode": "new"}, "phase_time": "60s", "repetitions": 1,
}  # fmt: skip


@pytest.mark.parametrize(("launcher", "number"), [("srun", signal.SIGKILL), ("mpiexec", signal.SIGTERM)])
def test_ranks_end_with_the_runner(job: Job, stand_ins: Path, number: int, launcher: str) -> None:
    job.made.configure(IOR)
    shutil.copy(stand_ins / "ior", job.place / "bin/ior")
    ior = f"^{job.place}/bin/ior"
    child = job.start("--launcher", launcher)
    for node in job.held.hosts:
        wait_for(lambda node=node: len(job.held.alive(ior, node)) == 2, over=child.over)
    began = time.monotonic()
    child.signal(number)
    if number == signal.SIGTERM:
        assert child.result()[0] == ExitCode.INTERRUPTED
        assert time.monotonic() - began < 20  # Slurm waits 30 s
        assert lock.holder(job.made.store.path / lock.NAME) is None
    else:
        with pytest.raises(EOFError):
            child.result()
        assert f'"job": "{job.held.job}"' in (job.made.store.path / lock.NAME).read_text()
    for node in job.held.hosts:
        wait_for(lambda node=node: not job.held.alive(f"{ior}|iosweep.(run.remote_|target.)agent", node))
    assert job.made.files() == []
