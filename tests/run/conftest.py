"""Campaigns of the tests of the runner: on a scripted machine in this process, or in a process of its own; and a job
whose two nodes are this machine."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import local_srun
import processes
from campaign import Allocation
from iosweep.run import agents
from iosweep.slurm import query
from iosweep.target.agent import Agent
from machine import Scripted
from waiting import PATIENCE_S, wait_for


@pytest.fixture
def made(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


@pytest.fixture
def allocation(tmp_path: Path) -> Allocation:
    return Allocation(tmp_path)


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.fixture
def local_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The number of a job of the nodes n1 and n2, for RemoteAgents (local_srun.py). Nothing of it may be left."""
    number, ask = f"{os.getpid()}{time.monotonic_ns()}", query.ask
    monkeypatch.setenv("SLURM_JOB_ID", number)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(query, "ask", lambda argv, *_: ask(argv, PATIENCE_S) if argv[0] == "srun" else "")
    monkeypatch.setattr(agents, "_START_S", PATIENCE_S)
    local_srun.install(tmp_path)
    yield number
    wait_for(lambda: not processes.with_variables(SLURM_JOB_ID=number))
