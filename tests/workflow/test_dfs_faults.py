"""Faults of MooseFS and GlusterFS while a job on two nodes measures.

A few of them; all under --soak. benchmarks/dfs_faults.py does each several times.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import dfs as dfs_
import faults_of_dfs
import slurm
from dfs import AT, KINDS, Dfs
from fault_outcomes import outcomes, tells
from faults_of_dfs import FAULTS, PHASES
from slurm_campaign import SlurmCampaign, Stage, until

pytestmark = pytest.mark.local

ROWS = {key: row for kind in KINDS for key, row in outcomes(kind).items()}
#: What is done each time: the quickest ones, and one that hangs.
FEW = (("glusterfs/client-killed", "write"), ("moosefs/other-volume", "read"), ("moosefs/client-stopped", "write"))


@pytest.fixture(scope="module")
def slurm_dfs(request: pytest.FixtureRequest) -> Iterator[Dfs]:
    """One of the kind that the test names, on a cluster of its own."""
    if reason := slurm.missing() or dfs_.missing(request.param):
        pytest.skip(reason)
    clients = ("head", "n1", "n2")
    with slurm.Cluster() as cluster, Dfs(cluster, request.param, disk="256M", trash=0, clients=clients) as made:
        yield made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "key" in metafunc.fixturenames:
        every = [(key, phase) for key in ROWS for phase in PHASES] if metafunc.config.getoption("soak") else FEW
        cases = [(key.partition("/")[0], key, phase) for key, phase in every]
        metafunc.parametrize(("slurm_dfs", "key", "phase"), cases, indirect=["slurm_dfs"], scope="module")


def test_every_row_has_a_fault_and_every_fault_a_row() -> None:
    wanted = {f"{kind}/{name}" for name, fault in FAULTS.items() for kind in fault.kinds or KINDS}
    assert sorted(ROWS) == sorted(wanted)


def test_fault(dfs: Dfs, fio: Path, key: str, phase: str, tmp_path: Path) -> None:
    row = ROWS[key]
    found = faults_of_dfs.hit(dfs, key.partition("/")[2], phase, tmp_path)
    print(found)
    assert found.wrong == ()
    assert str(found.ends) in str(row.ends).split(" or ")
    # where it may have come to nothing, there is nothing to say
    assert not found.ends or any(tells(parts, found.said) for parts in _either(row.said)), found.said


def _either(said: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The sentences that a row allows, each in its parts: `a ... b, or c`."""
    found: list[tuple[str, ...]] = [()]
    for part in said:
        first, *others = part.split(", or ")
        found[-1] += (first,)
        found += [(other,) for other in others]
    return found


@pytest.mark.parametrize("slurm_dfs", ["glusterfs"], indirect=True)
def test_the_same_command_completes_the_campaign(dfs: Dfs, fio: Path, tmp_path: Path) -> None:
    """Its data servers are killed, and started again after Snakemake has ended."""
    stage = Stage(dfs.cluster, tmp_path, os.environ["PATH"])
    campaign = SlurmCampaign(stage, [faults_of_dfs.sweep("write")])
    campaign.target = Path(AT) / "scratch"
    dfs.cluster.run(["mkdir", campaign.target], on="n1")
    campaign.configure()
    run = campaign.start()
    until(campaign.records, campaign.over)
    for server in ("s1", "s2"):
        dfs.kill(server)
    assert run.end() == 1, run.said()
    assert tells(("on n1", "the target's client or server is gone: Transport endpoint is not connected"), run.said())
    before = campaign.committed()
    dfs.repair()
    campaign.snakemake()
    after = campaign.committed()
    assert {name: after.get(name) for name in before} == before
    campaign.once()
    assert dfs.cluster.run(["ls", campaign.target], on="n1").stdout == ""
