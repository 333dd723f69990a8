"""IOR and mdtest on one machine: their rows, their files and commands, and the launcher that starts their ranks."""

import shlex
from pathlib import Path
from typing import Any

import psutil
import pytest

import scripted
from campaign import SWEEP
from iosweep.commands.plan import commands
from iosweep.errors import Obstacle
from iosweep.judge import remaining
from iosweep.plan.launchers import LAUNCHERS
from iosweep.programs.programs import Mpiexec, mpiexec
from iosweep.store.record import Needs
from iosweep.target.agent import Agent
from machine import HYDRA, Scripted
from records import plain_records_of
from waiting import wait_for

MIB = 1 << 20
IOR: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write", "seq_read", "rand_write", "rand_read"], "phase_time": "10s",
    "axes": {"threads_per_node": [2]}, "options": {"file_size": "1m", "transfer_size": "64k"}, "repetitions": 1,
}  # fmt: skip
#: One rank reads what two prepared.
FEWER = IOR | {"name": "f", "phases": ["rand_read"], "axes": {"threads_per_node": [1]}}
SHARED = IOR | {
    "name": "s", "phases": ["seq_write", "rand_read"], "phase_time": "one_pass",
    "axes": {"threads_per_node": [1, 4], "api": ["POSIX", "MPIIO"]},
    "options": {"file_size": "1m", "transfer_size": "64k", "file_per_process": False, "o_direct": False,
                "write_mode": "new"},
}  # fmt: skip
MDTEST: dict[str, Any] = {
    "name": "m", "tool": "mdtest", "repetitions": 1,
    "phases": ["dir_create", "dir_stat", "dir_rename", "dir_delete", "create", "stat", "read", "delete"],
    "axes": {"threads_per_node": [1, 4]}, "options": {"files_per_thread": 50},
}  # fmt: skip
ONE = IOR | {"phases": ["seq_write"], "axes": {}}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    made = Scripted(tmp_path_factory.mktemp("mpi"), keep="data_sets", sweeps=[IOR, FEWER, SHARED, MDTEST])
    made.machine.play({"when": "mdtest", "ops_per_s": 100})
    made.measure("--launcher", "mpiexec")
    return made


def of(made: Scripted, sweep: str) -> list[dict[str, Any]]:
    return [row for row in made.rows() if row["sweeps"] == sweep]


def test_rows_of_ior_have_what_its_ranks_moved(campaign: Scripted) -> None:
    rows = [*of(campaign, "f"), *of(campaign, "i")]
    wanted = [(1, "rand_read"), *((2, phase) for phase in IOR["phases"])]
    assert [(r["threads_per_node"], r["phase"]) for r in rows] == wanted
    for row in rows:
        assert (row["verdict"], row["tasks"], row["nodes"]) == ("valid", row["threads_per_node"], 1), row["reasons"]
        moved = row["bytes_written"] if row["phase"].endswith("write") else row["bytes_read"]
        assert moved == row["ops"] * 65536
        assert row["ops_per_s"] == pytest.approx(row["tasks"] * scripted.PER_WORKER)
        assert row["bandwidth_bytes_per_s"] * row["runtime_s"] == pytest.approx(moved, rel=1e-3)
        assert (row["api"], row["file_per_process"], row["latency_mean_s"]) == ("POSIX", True, None)


def test_one_pass_over_a_shared_file_moves_all_of_it(campaign: Scripted) -> None:
    rows = of(campaign, "s")
    assert {(r["threads_per_node"], r["api"]) for r in rows} == {(n, a) for n in (1, 4) for a in ("POSIX", "MPIIO")}
    for row in rows:
        moved = row["bytes_written"] if row["phase"] == "seq_write" else row["bytes_read"]
        assert moved == row["threads_per_node"] * MIB
        assert row["verdict"] != "invalid", row["reasons"]


def test_all_phases_of_mdtest_are_of_one_command(campaign: Scripted) -> None:
    rows = of(campaign, "m")
    assert [r["phase"] for r in rows] == MDTEST["phases"] * 2
    assert len({r["command"] for r in rows}) == 2 and len({r["raw"] for r in rows}) == 2
    for row in rows:
        assert (row["verdict"], row["ops_per_s"]) == ("valid", 100), row["reasons"]
        assert row["ops"] == 50 * row["tasks"] == 50 * row["threads_per_node"]


def test_sets_are_as_large_as_the_largest_point_needs(campaign: Scripted) -> None:
    sets = campaign.ours / "sets"
    shared = [f"ior-read-1m-shared-{n}" for n in (1, 4)]
    assert sorted(p.name for p in sets.iterdir()) == sorted(["ior-read-1m", "ior-write-1m", *shared])
    files = sorted((sets / "ior-read-1m").glob("data.*"))
    assert [(f.name, f.stat().st_size) for f in files] == [("data.00000000", MIB), ("data.00000001", MIB)]
    assert (sets / "ior-read-1m-shared-4" / "data").stat().st_size == 4 * MIB
    assert list((campaign.ours / "fresh").glob("*")) == []
    assert not (campaign.results / "scratch").exists()


def test_the_commands_are_those_of_the_plan(campaign: Scripted) -> None:
    planned = {shlex.join(argv) for _, _, argv in commands(campaign.plan, LAUNCHERS["mpiexec"])}
    for row in campaign.rows():
        words = shlex.split(row["command"])
        told = [Path(word).name if Path(word).name in ("mpiexec", "ior", "mdtest") else word for word in words]
        assert shlex.join(told) in planned


def test_the_record_says_what_started_the_ranks_and_a_second_run_starts_none(campaign: Scripted) -> None:
    [record] = plain_records_of(campaign.store, campaign.plan.points[0].id)
    assert record["launcher"] == {"name": "mpiexec", "path": HYDRA.path, "version": HYDRA.version}
    before = len(campaign.machine.ran)
    campaign.measure("--launcher", "mpiexec")
    assert len(campaign.machine.ran) == before


# Which launcher


def test_the_launcher_direct_starts_one_rank_and_no_more(made: Scripted) -> None:
    made.configure(sweeps=[SWEEP | {"axes": {}}, ONE | {"axes": {"threads_per_node": [1, 4]}}])
    made.measure("--launcher", "direct")
    found = {(r["tool"], r["threads_per_node"]): r["verdict"] for r in made.rows()}
    assert found == {("fio", 1): "valid", ("ior", 1): "valid", ("ior", 4): "missing"}
    [point] = [p for p in made.plan.points if p.tasks == 4]
    assert made.store.missing()[point.id].needs == Needs(ranks=4)


def test_without_mpiexec_ranks_are_missing_until_there_may_be_one(made: Scripted) -> None:
    made.configure(sweeps=[IOR, SWEEP | {"axes": {}}])
    made.machine.mpiexec = Obstacle("there is no mpiexec of MPICH")
    made.measure("--launcher", "mpiexec")
    assert {(r["tool"], r["verdict"]) for r in made.rows()} == {("ior", "missing"), ("fio", "valid")}
    [ior], missing = [p for p in made.plan.points if p.tool == "ior"], made.store.missing()
    seen = missing[ior.id].needs.mpiexec
    assert seen is not None
    for found, left in ((seen, {}), ([*seen, "/new/mpiexec"], {"1-node": {ior.id: [1]}})):
        here = remaining.LocalMachine(launcher=LAUNCHERS["mpiexec"], mpiexec=found)
        assert remaining.find(made.plan, made.store.repetitions(), missing, here).left == left


# With the mpiexec of the lock, and ranks that are processes


@pytest.mark.local
def test_a_hanging_run_is_ended_with_all_its_ranks(tmp_path: Path) -> None:
    folder = scripted.install(tmp_path / "bin", [{"sleep_s": 600}])
    hydra = mpiexec()
    assert isinstance(hydra, Mpiexec)
    command = [f"{folder}/ior", "-a", "POSIX", "-b", "64k", "-t", "4k", "-w", "-k", "-o", str(tmp_path / "file")]

    def ranks() -> int:
        lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
        return sum(str(folder) in line for line in lines)

    with Agent() as agent:
        for limit_s in (1.5, 15, 150):  # until it is long enough for all of them to begin
            before = len(scripted.processes(folder))
            done = agent.run(LAUNCHERS["mpiexec"].argv(command, True, 3, hydra.path), limit_s)
            if (begun := len(scripted.processes(folder)) - before) == 3:
                break
    assert begun == 3
    assert (done.timed_out, done.left_behind) == (True, ())
    wait_for(lambda: ranks() == 0)
