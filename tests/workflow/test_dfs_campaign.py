"""Campaigns on MooseFS and GlusterFS: each row as it should be judged, and nothing left on the target.

One campaign for each file system, over one, two and four nodes; what is quick is looked at in it by several tests.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from dfs import AT, Dfs
from slurm_campaign import SlurmCampaign, Stage

NODES = {"axes": {"nodes": [1, 2, 4]}, "phase_time": "1s", "repetitions": 1}
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
    "name": "once", "tool": "fio", "phases": ["seq_write"], "axes": {"nodes": [2]}, "phase_time": "one_pass",
    "options": {"file_size": "128m", "transfer_size": "1m", "write_mode": "new"},
}  # fmt: skip
RANKS: dict[str, Any] = NODES | {
    "name": "ranks", "tool": "ior", "phases": ["seq_write", "seq_read"],
    "options": {"file_size": "16m", "transfer_size": "64k", "threads_per_node": 2},
}  # fmt: skip
#: Not `stat`: of a client that has just made the files it takes no time that can be measured.
FILES: dict[str, Any] = NODES | {
    "name": "files", "tool": "mdtest", "phases": ["create", "delete"], "phase_time": None,
    "options": {"files_per_thread": 40, "threads_per_node": 2},
}  # fmt: skip

#: What the nodes do to each other here, whose servers, clients and tools share a few CPUs.
BUSY = {"common_window", "even", "long_enough", "other_load", "overtime", "queue_depth", "steady"}


class OnDfs(SlurmCampaign):
    """A campaign whose target is the distributed file system."""

    def __init__(self, dfs: Dfs, place: Path, tools: Path, sweeps: Sequence[dict[str, Any]], partition: str = "wide"):
        self.target = Path(AT)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        kept = [{key: value for key, value in sweep.items() if value is not None} for sweep in sweeps]
        super().__init__(Stage(dfs.cluster, place, path), kept, slurm_partition=f'"{partition}"')

    def configure(self, *_: Any, **__: Any) -> None:
        self.target = Path(AT)
        super().configure()

    def checks(self, name: str) -> list[tuple[str, str, str, str]]:
        """(tool, phase, outcome, what it says) of one check, for each row that was measured."""
        rows = pyarrow.parquet.read_table(self.results / "checks.parquet").to_pylist()
        tools = {point.id: point.tool for point in self.plan.points}
        said = [(tools[r["point"]], r["phase"], r["outcome"], f"{r}") for r in rows if r["check"] == name]
        assert said
        return said


@pytest.fixture(scope="module")
def slurm_measured(
    slurm_dfs: Dfs, fio: Path, mpi_tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Dfs, OnDfs]:
    campaign = OnDfs(
        slurm_dfs, tmp_path_factory.mktemp("on-dfs"), mpi_tools, [OVER_AND_OVER, READS, ONCE, RANKS, FILES]
    )
    if slurm_dfs.kind == "glusterfs":
        slurm_dfs.mount("w2", "s2:/dfs")  # any server may be named: it is the same volume
    campaign.snakemake("--until", "tables")
    return slurm_dfs, campaign


def test_every_row_is_measured_and_none_is_invalid(slurm_measured: tuple[Dfs, OnDfs]) -> None:
    _, campaign = slurm_measured
    rows = campaign.table()
    assert len(rows) == 3 * (1 + 2 + 2 + 2) + 1
    assert {row["verdict"] for row in rows} <= {"valid", "suspect"}, [row["reasons"] for row in rows]
    assert {row["nodes"] for row in rows} == {1, 2, 4}


def test_no_check_fails_but_those_of_a_busy_machine_and_reached(slurm_measured: tuple[Dfs, OnDfs]) -> None:
    _, campaign = slurm_measured
    rows = pyarrow.parquet.read_table(campaign.results / "checks.parquet").to_pylist()
    failed = [row for row in rows if row["outcome"] == "fail" and row["check"] not in BUSY | {"reached"}]
    assert not failed


def test_reads_and_what_is_written_once_reach_the_servers(slurm_measured: tuple[Dfs, OnDfs]) -> None:
    """By the nodes' network counters."""
    _, campaign = slurm_measured
    reached = campaign.checks("reached")
    assert {said[2] for said in reached if "read" in said[1]} == {"pass"}, reached
    once = [
        point.id for point in campaign.plan.points if point.options.get("write_mode") == "new" and point.tool == "fio"
    ]
    assert [outcome for _, _, outcome, said in reached if once[0] in said] == ["pass"], reached


def test_overwritten_blocks_that_a_client_merges_are_suspect(slurm_measured: tuple[Dfs, OnDfs]) -> None:
    """MooseFS's client accepts O_DIRECT, keeps what is written in its memory, and sends the last version of a block."""
    dfs, campaign = slurm_measured
    overwritten = [said for said in campaign.checks("reached") if said[1] == "rand_write"]
    assert [said[2] for said in overwritten] == ["fail" if dfs.kind == "moosefs" else "pass"] * 3
    merged = ["written over in the client's memory" in said for _, _, _, said in overwritten]
    assert merged == [dfs.kind == "moosefs"] * 3


def test_nothing_is_left_on_the_target(slurm_measured: tuple[Dfs, OnDfs]) -> None:
    dfs, campaign = slurm_measured
    assert dfs.cluster.run(["find", AT, "-mindepth", "1"]).stdout == ""
    campaign.nothing_lives()
