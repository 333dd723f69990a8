"""Campaigns with the real fio on MooseFS and GlusterFS, over two nodes: what reaches the servers, and what their faults
end as."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dfs as distributed
import slurm as clusters
from dfs import AT, KINDS, Dfs
from held_job import Held
from iosweep.errors import ExitCode
from records import plain_records_of
from two_nodes import Job
from waiting import wait_for

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("fio")]

NODES: dict[str, Any] = {"axes": {"nodes": [2]}, "phase_time": "1s", "repetitions": 1}
#: Far less than is written in a second: every block is written many times.
OVER_AND_OVER: dict[str, Any] = NODES | {
    "name": "again", "tool": "fio", "phases": ["rand_write"],
    "options": {"file_size": "2m", "transfer_size": "64k", "threads_per_node": 2},
}  # fmt: skip
#: More than a client reads ahead.
READS: dict[str, Any] = NODES | {
    "name": "reads", "tool": "fio", "phases": ["seq_read", "rand_read"],
    "options": {"file_size": "16m", "transfer_size": "64k", "threads_per_node": 2},
}  # fmt: skip
#: Each block once, however fast that is.
ONCE: dict[str, Any] = NODES | {
    "name": "once", "tool": "fio", "phases": ["seq_write"], "phase_time": "one_pass",
    "options": {"file_size": "64m", "transfer_size": "1m", "write_mode": "new"},
}  # fmt: skip
#: Two repetitions past the caches, to be hit in the second; so many files that each data server has one.
HIT: dict[str, Any] = NODES | {
    "name": "s", "tool": "fio", "phases": ["seq_write"], "phase_time": "10s", "repetitions": 2,
    "options": {"file_size": "4m", "transfer_size": "64k", "threads_per_node": 8},
}  # fmt: skip


#: Faults of servers. Faults of clients are tested on local file systems (test_faults.py, test_kills.py).
FAULTS: dict[str, Callable[[Dfs], object]] = {
    "data-server-stopped": lambda dfs: dfs.stop("s1"),
    "data-server-killed": lambda dfs: dfs.kill("s1"),
    "metadata-killed": lambda dfs: dfs.kill("m1"),
    "full": lambda dfs: dfs.fill(),
}


@pytest.fixture(scope="module", params=KINDS)
def slurm_dfs(request: pytest.FixtureRequest) -> Iterator[Dfs]:
    """One of each kind, on a cluster of its own."""
    if reason := clusters.missing() or distributed.missing(request.param):
        pytest.skip(reason)
    with clusters.Cluster() as cluster, Dfs(cluster, request.param) as made:
        yield made


@pytest.fixture(scope="module")
def held(slurm_dfs: Dfs) -> Iterator[Held]:
    made = Held(slurm_dfs.cluster, "--time=50")
    yield made
    made.end()


@pytest.fixture
def job(slurm_dfs: Dfs, held: Held, tmp_path: Path) -> Iterator[Job]:
    """Its target is on the file system, with a file of somebody else. It is empty afterwards."""
    made = Job(held, tmp_path, real=True)
    made.made.target = Path(AT) / "scratch"
    made.made.ours = made.made.target / "iosweep-c"
    slurm_dfs.cluster.run(["sh", "-c", f"mkdir -p {AT}/scratch/theirs; echo precious > {AT}/scratch/theirs/file"])
    yield made
    slurm_dfs.repair()
    slurm_dfs.cluster.run(["rm", "-rf", f"{AT}/scratch"], check=False)


def only_theirs(dfs: Dfs) -> bool:
    found = dfs.cluster.run(["sh", "-c", f"cd {AT}/scratch; find . -type f; cat theirs/file"], on="n2").stdout
    return found.split() == ["./theirs/file", "precious"]


def test_what_reaches_the_servers_is_told_from_what_a_client_keeps(slurm_dfs: Dfs, job: Job) -> None:
    """MooseFS's client accepts O_DIRECT, keeps what is written in its memory, and sends the last version of a block."""
    job.made.configure(sweeps=[OVER_AND_OVER, READS, ONCE], limits={"share_of_free": "100%", "fill": "100%"})
    job.measure()
    found = job.outcomes("reached")
    merges = slurm_dfs.kind == "moosefs"
    assert found == {
        "fio/rand_write": "fail" if merges else "pass", "fio/seq_read": "pass", "fio/rand_read": "pass",
        "fio/seq_write": "pass",
    }  # fmt: skip
    assert only_theirs(slurm_dfs)


@pytest.mark.parametrize("phase", ["seq_write", "seq_read"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_the_job_in_time_and_the_next_one_completes_the_campaign(
    slurm_dfs: Dfs, job: Job, fault: str, phase: str
) -> None:
    if fault == "metadata-killed" and slurm_dfs.kind == "glusterfs":
        return
    options = HIT["options"] | ({"write_mode": "new"} if phase == "seq_write" else {})
    limits = {"grace": "20s", "retried": "0%", "fill": "100%", "share_of_free": "100%"}
    job.made.configure(HIT | {"phases": [phase], "options": options}, target={"deadline": "20s"}, limits=limits)
    [point] = job.made.plan.points
    running = job.start()
    # Without its mount, fio would make its directory anew where the mount was: its files have to be open.
    opened = ["sh", "-c", f"find /proc/[0-9]*/fd -lname '{AT}/scratch/iosweep-c/*/[0-9].[0-9]' 2>/dev/null"]
    wait_for(
        lambda: job.made.files() and slurm_dfs.cluster.run(opened, on="n2", check=False).stdout,
        over=running.over,
        pause_s=0.2,
    )
    before = {one["repetition"]: one for one in plain_records_of(job.made.store, point.id)}
    FAULTS[fault](slurm_dfs)
    code, said = running.result()
    # Who was not hit may hang as well: the clients of one server wait for each other.
    assert code in (ExitCode.REFUSED, ExitCode.HANGS, *([0] if fault == "full" else ())), said
    slurm_dfs.repair()
    job.made.configure(HIT | {"phases": [phase], "options": options}, limits=limits | {"grace": "5min"})
    job.measure()
    after = {one["repetition"]: one for one in plain_records_of(job.made.store, point.id)}
    assert {number: after.get(number) for number in before} == before
    assert set(after) == {1, 2}
    assert only_theirs(slurm_dfs)
