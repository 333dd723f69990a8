"""Over several nodes: each rank's and each node's own rate, by the tools' files and by the kernel's counts."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from held_job import Held
from two_nodes import Job

pytestmark = pytest.mark.cluster

TWO_RANKS: dict[str, Any] = {"axes": {"nodes": [2]}, "repetitions": 1}
OF_IOR: dict[str, Any] = {"file_size": "8m", "transfer_size": "64k", "threads_per_node": 2, "o_direct": False}
SWEEPS: list[dict[str, Any]] = [
    TWO_RANKS | {"name": "t", "tool": "ior", "phases": ["seq_read"], "phase_time": "4s", "options": OF_IOR},
    TWO_RANKS | {"name": "o", "tool": "ior", "phases": ["seq_read"], "phase_time": "one_pass", "options": OF_IOR},
    TWO_RANKS | {"name": "m", "tool": "mdtest", "phases": ["create"],
                 "options": {"files_per_thread": 200, "threads_per_node": 2}},
]  # fmt: skip


@pytest.fixture
def job(held: Held, tmp_path: Path, fio: Path, stand_ins: Path) -> Iterator[Job]:
    made = Job(held, tmp_path, fio)
    for tool in ("ior", "mdtest"):
        shutil.copy(stand_ins / tool, tmp_path / "bin" / tool)
    yield made
    made.end()


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
def test_a_slow_node_is_named(job: Job, launcher: str) -> None:
    job.made.configure(sweeps=SWEEPS, tools={"variables": ["STANDIN_FAULT"]})
    code, said = job.start("--launcher", launcher, STANDIN_FAULT="slow_node").result()
    assert code == 0, said
    rows = job.made.rows()
    parts = pyarrow.parquet.read_table(job.made.results / "parts.parquet").to_pylist()
    assert sorted(row["sweeps"] for row in rows) == ["m", "o", "t"]
    for row in rows:
        own = [part for part in parts if part["point"] == row["point"]]
        assert [(part["host"], part["worker"]) for part in own] == [
            ("n1", None), ("n1", 0), ("n1", 1), ("n2", None), ("n2", 0), ("n2", 1)
        ]  # fmt: skip
        assert row["slowest_node"] == "n2" and row["slowest_worker"].startswith("n2/"), row
        assert "node n2 did" in row["reasons"], row["reasons"]
