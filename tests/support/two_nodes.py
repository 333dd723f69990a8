"""A campaign of two nodes of the test cluster, and the job that measures it with scripted tools."""

import os
from pathlib import Path
from typing import Any

import scripted
from campaign import SWEEP, Allocation
from held_job import Held, Running
from iosweep.errors import ExitCode
from iosweep.store.record import Refusal

#: What is written once: as much as the tool says.
TWO: dict[str, Any] = SWEEP | {
    "axes": {"nodes": [2]}, "phases": ["seq_write"], "phase_time": "one_pass",
    "options": {"file_size": "256k", "transfer_size": "4k", "write_mode": "new", "o_direct": False},
}  # fmt: skip


class Job:
    """The real runner measures the campaign's first allocation in the held job. `rules`: for the
    scripted tools; `real`: use this machine's tools."""

    def __init__(self, held: Held, place: Path, *rules: scripted.Rule, real: bool = False):
        self.held, self.place = held, place
        scripted.install(place / "bin", rules, () if real else scripted.TOOLS)
        self.made = Allocation(place, TWO)
        self.made.lock = f"/dev/shm/{place.name}"  # that of n1
        self.made.configure(TWO)
        held.cluster.run(["mkdir", "-p", self.made.lock], on=held.hosts[0])
        self.first = ""  # Python that the runner runs before anything else
        self._mounts: list[tuple[str, Path]] = []

    def start(self, *arguments: str, launcher: str = "srun", **variables: str) -> Running:
        ours = {"PATH": f"{self.place}/bin:{os.environ['PATH']}", "COLUMNS": "300"}
        python, _, _, *words = self.made.command("--scheduler", "slurm", "--launcher", launcher, *arguments)
        program = f"{self.first}\nimport sys; from iosweep.commands import cli; sys.exit(cli.main())"
        return self.held.start([python, "-c", program, *words], ours | variables, cwd=self.place)

    def measure(self, launcher: str = "srun", code: int = 0, **variables: str) -> str:
        """Run to the end; what it said."""
        found, said = self.start(launcher=launcher, **variables).result()
        assert found == code, said
        return said

    def refusal(self, code: int = ExitCode.REFUSED, **variables: str) -> Refusal:
        """That of an allocation that ends; no agent and no file of it remains."""
        before, name = self.made.files(), self.made.plan.allocations[0].name
        self.made.store.set_refusal(name, None)
        said = self.measure(code=code, **variables)
        refusal = self.made.store.documents(Refusal)[name]
        assert refusal.reason in said
        assert not (self.made.results / "scratch").exists()
        if code == ExitCode.REFUSED:
            assert self.made.files() == before
            assert not self.made.ours.exists()  # nothing was written to the target
        for node in self.held.hosts:
            assert self.held.alive("iosweep.run.agents", node) == []
        return refusal

    def mount(self, node: str, *arguments: Any) -> None:
        """Mount something on one node alone, until `end`."""
        self.held.cluster.run(["mount", *map(str, arguments)], on=node)
        self._mounts.append((node, Path(arguments[-1])))

    def end(self) -> None:
        while self._mounts:
            node, place = self._mounts.pop()
            self.held.cluster.run(["umount", "--lazy", place], on=node)

    def outcomes(self, check: str) -> dict[str, str]:
        """tool/phase -> what a check says."""
        tools = {point.id: point.tool for point in self.made.plan.points}
        rows = self.made.checks(check)
        return {f"{tools[row['point']]}/{row['phase']}": row["outcome"] for row in rows}
