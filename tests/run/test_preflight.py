"""What prevents or ends an allocation of several nodes: the real runner, in a job of two nodes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from held_job import Held
from iosweep.errors import ExitCode
from iosweep.node.facts import NodeFacts
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.store.record import Needs, Refusal
from iosweep.target import lock
from locks import left
from records import plain_records_of
from two_nodes import TWO, Job


@pytest.fixture
def job(held: Held, tmp_path: Path) -> Iterator[Job]:
    made = Job(held, tmp_path)
    yield made
    made.end()


def script(file: Path, lines: str) -> Path:
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)
    return file


def test_a_smaller_point_runs_on_each_node_in_turn_and_all_is_recorded(job: Job) -> None:
    job.made.configure(TWO | {"axes": {"nodes": [1, 2]}, "repetitions": 2}, allocation="campaign")
    job.measure()
    hosts = {}
    for point in job.made.plan.points:
        for record in plain_records_of(job.made.store, point.id):
            hosts[point.nodes, record["repetition"]] = record["hosts"]
            assert record["slurm"] == {"job": job.held.job, "launcher": "srun", "allocation_hosts": ["n1", "n2"]}
            assert (record["host"], record["node"]) == (record["hosts"][0], record["nodes"][record["hosts"][0]])
            assert set(record["nodes"]) == set(record["hosts"])
            [phase] = record["phases"]
            argvs = phase["argvs"] or [phase["argv"]]
            assert [argv[0] for argv in argvs] == [f"{job.place}/bin/fio"] * point.nodes
    assert hosts == {(1, 1): ["n1"], (1, 2): ["n2"], (2, 1): ["n1", "n2"], (2, 2): ["n1", "n2"]}
    assert sorted(known.host for known in job.made.store.documents(NodeFacts).values()) == ["n1", "n2"]
    assert job.made.store.documents(Refusal) == {}
    assert not job.made.ours.exists()  # all is measured
    assert lock.holder(job.made.store.path / lock.NAME) is None
    parts = job.made.rows("node_rates")
    assert {part["host"] for part in parts} == {"n1", "n2"}


def test_slurm_is_asked_by_the_first_node_alone(job: Job) -> None:
    """However many nodes there are, so that no controller is flooded."""
    log = job.place / "asked"
    for name in ("scontrol", "squeue", "sinfo", "srun", "scancel", "sacct", "sbatch"):
        script(job.place / "bin" / name, f'echo "$(hostname) {name}" >> {log}\nPATH=${{PATH#*:}} exec {name} "$@"')
    job.measure()
    assert Counter(log.read_text().splitlines()) == {"n1 squeue": 1, "n1 srun": 1}


def test_without_its_job_or_enough_nodes_nothing_is_begun(job: Job) -> None:
    assert not job.refusal(SLURM_JOB_ID="").lasting
    assert not job.refusal(SLURM_JOB_ID="99999").lasting
    job.made.configure(TWO | {"axes": {"nodes": [3]}})
    assert job.refusal().lasting
    script(job.place / "bin/srun", "echo 'srun: error: no step' >&2; exit 1")
    job.made.configure(TWO)
    assert "no step" in job.refusal(ExitCode.LOST).reason


def test_a_node_that_differs_is_named_and_nothing_is_written(job: Job) -> None:
    """Each of these is done to n2; the next job must not be given that node."""
    target, program = job.place / "target", job.place / "bin/fio"
    other = job.place / "other"
    other.write_bytes(program.read_bytes() + b"\n")
    other.chmod(0o755)
    lacking = script(job.place / "ldd", "printf '\\tlibaio.so.1 => not found\\n'")
    script(job.place / "bin/ldd", 'exec /usr/bin/ldd "$@"')
    job.made.command()  # makes the results
    tmpfs = ("-t", "tmpfs", "tmpfs")
    cases: dict[str, list[tuple[Any, ...]]] = {
        "another file system": [(*tmpfs, target)],
        "read-only": [("--bind", "-o", "ro", target, target)],
        "another build": [("--bind", other, program)],
        "no build": [(*tmpfs, job.place / "bin")],
        "no library": [("--bind", lacking, job.place / "bin/ldd")],
        "no results": [(*tmpfs, job.made.results)],
    }
    for name, mounts in cases.items():
        for words in mounts:
            job.mount("n2", *words)
        refusal = job.refusal()
        assert (refusal.nodes, refusal.lasting) == (("n2",), False), (name, refusal)
        job.end()


def test_a_target_that_no_node_has_is_a_lasting_refusal(job: Job) -> None:
    job.made.configure(TWO, target={"directory": str(job.place / "target/below")})
    (job.place / "target/below").mkdir()
    job.mount("n2", "-t", "tmpfs", "tmpfs", job.place / "target")
    first = job.refusal()
    assert (first.nodes, first.lasting) == (("n2",), False)  # another job may be given other nodes
    job.mount("n1", "-t", "tmpfs", "tmpfs", job.place / "target")
    assert job.refusal().lasting
    job.end()
    job.mount("n1", "-t", "tmpfs", "tmpfs", job.place / "target")
    third = job.refusal()
    assert (third.nodes, third.lasting) == (("n1",), False)


def test_a_tool_whose_ranks_the_launcher_cannot_start_is_missing_and_the_others_are_measured(job: Job) -> None:
    job.made.configure(sweeps=[TWO, TWO | {"name": "i", "tool": "ior"}])
    for rank, linked, remedies in (
        ("echo IOR-4.0.0: alone", "libmpi.so.40", {"srun-pmix", "mpirun"}),
        ("echo 'OPAL ERROR: Unreachable' >&2; exit 1", "libmpi.so.12", {"mpiexec"}),
    ):
        script(job.place / "bin/ldd", f"printf '\\t{linked} => /lib/{linked} (0x00007f)\\n'")
        script(job.place / "bin/ior", f'[ -z "$SLURM_PROCID" ] || {{ {rank}; exit; }}; echo IOR-4.0.0: one')
        job.measure()
        [missing] = job.made.store.missing().values()
        assert missing.needs == Needs(launcher="srun")
        assert {one for one in SLURM_LAUNCHERS if f" {one} " in missing.reason.partition(": set ")[2]} == remedies
        assert {row["tool"]: row["verdict"] == "missing" for row in job.made.rows()} == {"fio": False, "ior": True}
        assert not (job.made.results / "scratch").exists()


def test_disks_of_each_node_that_have_one_name_are_not_taken_for_a_shared_file_system(job: Job) -> None:
    for node in job.held.hosts:
        job.mount(node, "-t", "tmpfs", "tmpfs", job.place / "target")
    job.first = "from iosweep.run import campaign_directory; campaign_directory.NAME_CACHE_S = 0.1"
    refusal = job.refusal()
    assert refusal.lasting and "n2" in refusal.reason


def test_a_campaign_that_another_job_holds_waits_for_that_job_and_no_longer(job: Job) -> None:
    submit = ["sbatch", "--parsable", "--nodes=2", "--output=/dev/null", "--wrap=true"]
    other = job.held.cluster.run(submit).stdout.strip()
    job.made.results.mkdir(parents=True)
    text = left(host="n9", job=other)
    (job.made.results / "lock").write_text(text)
    assert job.refusal().after == other
    job.held.cluster.run(["scancel", other])
    (job.made.results / "lock").write_text(text)
    job.measure()


def test_every_target_is_the_same_on_all_nodes_or_nothing_is_written_on_any(job: Job) -> None:
    job.made.configure(TWO, targets={"a": {}, "b": {}})
    places = [job.place / name for name in ("a", "b")]
    job.mount("n2", "-t", "tmpfs", "none", places[1])
    refusal = job.refusal()
    assert refusal.nodes == ("n2",)
    assert [list(place.iterdir()) for place in places] == [[], []]
