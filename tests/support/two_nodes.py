"""A campaign of two nodes of the test cluster, and the job that measures it."""

import contextlib
import io
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet

from campaign import SWEEP, Allocation
from held_job import Child, Held
from iosweep.commands import cli
from iosweep.errors import ExitCode
from iosweep.results.campaign_documents import Refusal

TWO = SWEEP | {"axes": {"nodes": [2]}, "phases": ["rand_read"]}
FIO: dict[str, Any] = {
    "name": "f", "tool": "fio", "phases": ["rand_read"], "phase_time": "1s", "repetitions": 1,
    "options": {"file_size": "256k", "transfer_size": "4k", "threads_per_node": 2},
}  # fmt: skip
IOR: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write"], "phase_time": "1s", "repetitions": 1,
    "options": {"file_size": "1m", "transfer_size": "64k", "threads_per_node": 2, "write_mode": "overwrite"},
}  # fmt: skip


def run(command: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """`iosweep measure` as the rule starts it: its exit code, and what it says."""
    os.environ.update(variables)
    os.chdir(variables["PWD"])
    Path(variables["LOCKS"]).mkdir(exist_ok=True)
    with contextlib.redirect_stderr(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)) as said:
        code = cli.main(command)
    said.seek(0)
    return code, said.read()


class Job:
    """A campaign of two nodes, and the job that measures it."""

    def __init__(self, held: Held, place: Path, fio: Path):
        self.held, self.place = held, place
        (place / "bin").mkdir()
        shutil.copy(fio, place / "bin/fio")
        self.made = Allocation(place, TWO)
        self.made.lock = f"/dev/shm/{place.name}"  # that of n1
        self.made.configure(TWO)
        self._mounts: list[tuple[str, Path]] = []

    def start(self, *arguments: str, **variables: str) -> Child:
        path = f"{self.place}/bin:{os.environ['PATH']}"
        ours = {"PATH": path, "PWD": str(self.place), "COLUMNS": "300", "LOCKS": self.made.lock}
        return self.held.start(run, self.made.command("--scheduler", "slurm", *arguments)[3:], ours | variables)

    def measure(self, **variables: str) -> tuple[int, str]:
        code, said = self.start("--launcher", "srun", **variables).result()
        lines = [line for line in said.splitlines() if line.startswith("iosweep: ")]
        return code, lines[-1].removeprefix("iosweep: ") if code else said

    def refused(
        self, code: int, lasting: bool = False, after: str | None = None, nodes: tuple[str, ...] = (), **more: Any
    ) -> str:
        """The message of an allocation that ends; the store has it, too, and no agent and no file of it remains."""
        before = self.made.files()
        found, said = self.measure(**more)
        assert found == code, said
        (name,) = (allocation.name for allocation in self.made.plan.allocations)
        told = Refusal(said, lasting, after, tuple(nodes), short_of_time=code == ExitCode.JOB_OVER)
        assert self.made.store.documents(Refusal) == {name: told}
        assert not (self.made.results / "scratch").exists()
        if code == ExitCode.REFUSED:
            assert self.made.files() == before
            assert not self.made.ours.exists()  # nothing was written to the target
        for node in self.held.hosts:
            assert self.held.alive("iosweep.run.remote_agent", node) == []
        return said

    def mount(self, node: str, *arguments: Any) -> None:
        """Mount something on one node alone, for the rest of the test."""
        self.held.cluster.on(node, ["mount", *arguments])
        self._mounts.append((node, Path(arguments[-1])))

    def end(self) -> None:
        for node, place in reversed(self._mounts):
            self.held.cluster.on(node, ["umount", "--lazy", place])


def outcomes(job: Job, check: str) -> dict[str, str]:
    """tool/phase -> what the check says, as merge judges it."""
    job.made.rows()
    rows = pyarrow.parquet.read_table(job.made.results / "checks.parquet").to_pylist()
    tools = {point.id: point.tool for point in job.made.plan.points}
    return {f"{tools[row['point']]}/{row['phase']}": row["outcome"] for row in rows if row["check"] == check}
