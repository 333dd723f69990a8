"""Rates of the nodes of a job, while a command runs on each of them, and while a launcher's ranks do."""

import shutil
import types
from pathlib import Path
from typing import Any

import pytest

from held_job import Held
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.programs.find import Program
from iosweep.results import current_rates
from iosweep.run import rate_file
from iosweep.run.launching import Commands
from iosweep.run.rate_file import RateFile
from iosweep.run.remote import RemoteAgents
from iosweep.target.agent import Agent

#: Long enough for three rates of each node, on a busy machine.
RUNS_S = 15.0
COPIES = ["copies", "if=/dev/zero", "of=/dev/null", "bs=64k"]


def heard(job: str, place: Path, program: str, mpi: bool) -> Any:
    """Every version of the file."""
    tool: Any = types.SimpleNamespace(name="copies", program="copies", mpi=mpi, outputs={})
    kept: list[bytes | None] = []
    rate_file.replace = lambda _, text: kept.append(text)
    with RemoteAgents(job, Held.hosts, 60.0) as remote, Agent() as agent, RateFile(place, "2-nodes") as rates:
        remote.heard = rates.heard
        rates.begin("copies.x", 1)
        programs = {tool.name: Program(program, "", "", ())}
        launcher = SLURM_LAUNCHERS["srun"]
        commands = Commands(agent, launcher, place / "scratch", None, programs, job, remote, rates=rates)
        commands.run(tool, [COPIES] * (1 if mpi else 2), 4, RUNS_S, Held.hosts)
    return [current_rates.decode(text) if text else None for text in kept]


@pytest.mark.parametrize("mpi", [False, True])
def test_every_node_is_heard(held: Held, tmp_path: Path, mpi: bool) -> None:
    program = tmp_path / "copies"
    shutil.copy("/usr/bin/dd", program)
    found = held.inside(heard, held.job, tmp_path, str(program), mpi)
    assert found.pop() is None  # the command has ended
    both = [one for one in found if [*one.nodes] == [*Held.hosts]]
    assert both, found
    for node in both[-1].nodes.values():
        assert node.source == "tool"
        assert node.read_bytes_per_s == pytest.approx(node.written_bytes_per_s, rel=0.1)
        assert node.read_bytes_per_s > 1e6
