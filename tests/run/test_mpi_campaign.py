"""IOR and mdtest through config, plan, runner, store, merge and report, with mpiexec and as many as four ranks.

Where they are not asked for by IOSWEEP_REAL_MPI_TOOLS=1, stand-ins take their place (standins/README.md).
"""

import os
import re
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest
import yaml

import mounts
from campaign import Allocation, Campaign, said
from iosweep.plan.launchers import LAUNCHERS, Mpiexec, mpiexec
from iosweep.report import page
from iosweep.target.agent import Agent
from iosweep.tools import tools
from records import plain_records_of

pytestmark = pytest.mark.local

IOR: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write", "seq_read", "rand_write", "rand_read"],
    "axes": {"threads_per_node": [2]}, "options": {"file_size": "4m", "transfer_size": "64k"}, "phase_time": "1s",
    "repetitions": 1,
}  # fmt: skip
#: One rank reads what two prepared.
FEWER = IOR | {"name": "f", "phases": ["rand_read"], "axes": {"threads_per_node": [1]}}
SHARED = IOR | {
    "name": "s", "phases": ["seq_write", "rand_read"], "phase_time": "one_pass",
    "axes": {"threads_per_node": [1, 4], "api": ["POSIX", "MPIIO"]},
    "options": {"file_size": "16m", "transfer_size": "64k", "file_per_process": False, "o_direct": False,
                "write_mode": "new"},
}  # fmt: skip
MDTEST: dict[str, Any] = {
    "name": "m", "tool": "mdtest", "repetitions": 1,
    "phases": ["dir_create", "dir_stat", "dir_rename", "dir_delete", "create", "stat", "read", "delete"],
    "axes": {"threads_per_node": [1, 4]}, "options": {"files_per_thread": 500},
}  # fmt: skip
ONE = IOR | {"phases": ["seq_write"], "axes": {}}


def measured(
    place: Path, mpi_tools: Path, *sweeps: dict[str, Any], launcher: str = "mpiexec", **more: Any
) -> Allocation:
    made = Allocation(place, keep="all", sweeps=list(sweeps), **more)
    made.path = f"{mpi_tools}{os.pathsep}{made.path}"
    made.measure("--launcher", launcher)
    return made


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, mpi_tools: Path) -> Allocation:
    return measured(tmp_path_factory.mktemp("mpi"), mpi_tools, IOR, FEWER, SHARED, MDTEST)


def of(allocation: Allocation, sweep: str) -> list[dict[str, Any]]:
    return [row for row in allocation.rows() if row["sweeps"] == sweep]


def test_ior_is_measured(campaign: Allocation) -> None:
    rows = [*of(campaign, "f"), *of(campaign, "i")]
    wanted = [(1, "rand_read"), *((2, phase) for phase in IOR["phases"])]
    assert [(r["threads_per_node"], r["phase"]) for r in rows] == wanted
    for row in rows:
        assert said(row) == "", row["reasons"]
        assert row["verdict"] in ("valid", "suspect")
        assert row["tasks"] == row["threads_per_node"] and (row["nodes"], row["tool"]) == (1, "ior")
        moved = row["bytes_written"] if row["phase"].endswith("write") else row["bytes_read"]
        assert moved == row["ops"] * 65536
        assert row["bandwidth_bytes_per_s"] * row["runtime_s"] == pytest.approx(moved, rel=1e-3)
        assert row["io_s"] >= 0.98 and row["latency_mean_s"] is None
        assert (row["api"], row["file_per_process"], row["collective"]) == ("POSIX", True, False)


def test_one_pass_over_a_shared_file(campaign: Allocation) -> None:
    rows = of(campaign, "s")
    assert {(r["threads_per_node"], r["api"]) for r in rows} == {(n, a) for n in (1, 4) for a in ("POSIX", "MPIIO")}
    for row in rows:
        moved = row["bytes_written"] if row["phase"] == "seq_write" else row["bytes_read"]
        assert moved == row["threads_per_node"] * (16 << 20)
        assert row["verdict"] != "invalid" or "clock" in row["reasons"] or "counts in" in row["reasons"], row["reasons"]


def test_mdtest_is_measured_by_one_command(campaign: Allocation) -> None:
    rows = of(campaign, "m")
    assert [r["phase"] for r in rows[:8]] == MDTEST["phases"]
    assert len({r["command"] for r in rows}) == 2 and len({r["raw"] for r in rows}) == 2
    for row in rows:
        assert row["tasks"] == row["threads_per_node"]
        if row["verdict"] != "invalid":  # a stat of 500 files may be over in no time
            assert row["ops_per_s"] > 0 and row["ops"] == 500 * row["threads_per_node"]
    created = [r for r in rows if r["phase"] == "create"]
    # 500 files may be made within a few ticks, which is said
    assert all(re.fullmatch(r"(over after .* ms, which is mostly ticks .*)?", said(row)) for row in created), created
    assert all(row["verdict"] in ("valid", "suspect") for row in created)


def test_what_was_written_to_the_target_is_known(campaign: Allocation) -> None:
    names = sorted(p.name for p in (campaign.ours / "sets").iterdir())
    shared = [f"ior-read-16m-shared-{n}" for n in (1, 4)]
    assert names == sorted(["ior-read-4m", "ior-write-4m", *shared])
    files = sorted((campaign.ours / "sets" / "ior-read-4m").glob("data.*"))
    assert [f.name for f in files] == ["data.00000000", "data.00000001"]
    assert {f.stat().st_size for f in files} == {4 << 20}
    assert (campaign.ours / "sets" / "ior-read-16m-shared-4" / "data").stat().st_size == 64 << 20
    assert list((campaign.ours / "fresh").glob("*")) == []
    assert not (campaign.results / "scratch").exists()


def test_the_commands_are_those_of_the_plan(campaign: Allocation) -> None:
    from iosweep.commands.plan import commands

    planned = {" ".join(argv) for _, _, argv in commands(campaign.plan, LAUNCHERS["mpiexec"])}
    for row in campaign.rows():
        run = re.sub(r"^\S*mpiexec\S*", "mpiexec", row["command"].replace("'", ""))
        assert re.sub(r"\S+/(ior|mdtest)(?= )", r"\1", run, count=1) in planned  # started by its path


def test_a_second_run_has_nothing_to_do(campaign: Allocation) -> None:
    before = campaign.files()
    campaign.measure("--launcher", "mpiexec")
    assert campaign.files() == before


def test_the_report_shows_them(campaign: Allocation) -> None:
    campaign.rows()
    html = page.write(campaign.results).read_text()
    assert "mdtest" in html and "shared file" in html.lower() and "ior" in html


def test_the_result_says_what_started_the_ranks(campaign: Allocation) -> None:
    record = next(iter(plain_records_of(campaign.store, campaign.plan.points[0].id)))[1]
    found = mpiexec()
    assert isinstance(found, Mpiexec)
    assert record["launcher"] == {"name": "mpiexec", "path": found.path, "version": found.version}


@pytest.mark.parametrize(
    ("tool", "fault", "reason"),
    [
        ("ior", "singleton", "1 rank, 2 were asked for"),
        ("ior", "short_table", ""),
        ("ior", "bad_json", ""),
        ("ior", "missing_row", ""),
        ("ior", "io_error", "exit code"),
        ("ior", "kill_rank", "exit code 9"),
        ("mdtest", "singleton", ""),  # of two that do the same, one may fail first
        ("mdtest", "short_table", ""),
        ("mdtest", "missing_row", ""),
        ("mdtest", "io_error", "exit code"),
        ("mdtest", "kill_rank", "exit code 9"),
        ("mdtest", "stale_warning", "the tool reports"),
    ],
)
def test_faults_are_invalid_with_their_reason(
    tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch, tool: str, fault: str, reason: str
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", fault)
    sweep = (ONE if tool == "ior" else MDTEST | {"axes": {}}) | {"axes": {"threads_per_node": [2]}}
    if tool == "ior":  # the set is prepared by IOR too, and may be what fails
        sweep |= {"options": IOR["options"] | {"write_mode": "new"}}
    made = measured(tmp_path, stand_ins, sweep, tools={"variables": ["STANDIN_FAULT"]})
    rows = made.rows()
    assert {row["verdict"] for row in rows} <= {"invalid", "valid", "suspect"}
    assert any(r["verdict"] == "invalid" and reason in r["reasons"] for r in rows), [r["reasons"] for r in rows]
    assert list((made.ours / "fresh").glob("*")) == []


#: Phases of seconds, of each way to know the rates of ranks: the kernel's counts, IOR's file, mdtest's.
TIMED = ONE | {"name": "t", "phases": ["seq_write", "rand_read"], "phase_time": "4s"}
ONE_PASS = ONE | {"name": "o", "phase_time": "one_pass", "options": {"file_size": "8m", "transfer_size": "64k"}}
FILES = MDTEST | {"name": "f", "phases": ["create", "delete"], "axes": {}, "options": {"files_per_thread": 200}}


def test_a_slow_rank_is_named(tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "slow_rank")
    sweeps = [sweep | {"axes": {"threads_per_node": [2]}} for sweep in (TIMED, ONE_PASS, FILES)]
    rows = measured(tmp_path, stand_ins, *sweeps, tools={"variables": ["STANDIN_FAULT"]}).rows()
    assert sorted(row["phase"] for row in rows) == ["create", "delete", "rand_read", "seq_write", "seq_write"]
    for row in rows:
        assert row["slowest_worker"] == "1" and row["slowest_worker_share"] < 0.5, row
        assert re.search(r"worker 1 did \d+% of the other's rate", row["reasons"]), row["reasons"]


def test_ranks_that_are_alike_are_even(tmp_path: Path, mpi_tools: Path) -> None:
    sweeps = [sweep | {"axes": {"threads_per_node": [2]}} for sweep in (TIMED, FILES)]
    made = measured(tmp_path, mpi_tools, *sweeps)
    rows = made.rows()
    own_rates = pyarrow.parquet.read_table(made.results / "parts.parquet").to_pylist()
    for row in rows:
        assert row["slowest_worker"] in ("0", "1") and row["slowest_worker_share"] > 0.2
        assert "of the other's rate" not in row["reasons"]
    for row in rows:
        if row["tool"] == "ior":
            parts = [one for one in own_rates if one["phase"] == row["phase"] and one["point"] == row["point"]]
            assert [one["worker"] for one in parts] == [0, 1]
            # their sum is what the tool reports, but for the ends of the phase and how steady it was
            total = sum(one["bandwidth_bytes_per_s"] for one in parts)
            assert total == pytest.approx(row["bandwidth_bytes_per_s"], rel=0.5)


@pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing() or "")
@pytest.mark.parametrize("fault", ["stall", ""])
def test_the_counters_of_a_node_tell_how_steady_ranks_were(
    tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """IOR itself has no rates over time."""
    monkeypatch.setenv("STANDIN_FAULT", fault)
    axes, options = {"threads_per_node": [2]}, {"file_size": "2m", "transfer_size": "4k"}
    made = Allocation(tmp_path, ONE, tools={"variables": ["STANDIN_FAULT"]})
    made.path = f"{stand_ins}{os.pathsep}{made.path}"
    with mounts.ext4(made.target):
        made.configure(
            ONE | {"phases": ["rand_read"], "axes": axes, "options": options, "phase_time": "13s"},
            tools={"variables": ["STANDIN_FAULT"]},
        )
        made.measure("--launcher", "mpiexec")
        made.rows()
    checks = pyarrow.parquet.read_table(made.results / "checks.parquet").to_pylist()
    [steady] = [row for row in checks if row["check"] == "steady"]
    if fault:
        assert steady["outcome"] == "fail" and "stood still for" in steady["evidence"], steady
    else:  # what a busy machine does to the rate is not ours
        assert steady["outcome"] in ("pass", "fail") and "stood still" not in steady["evidence"], steady


def test_a_hanging_run_is_killed_with_all_its_ranks(
    tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "hang")
    monkeypatch.setenv("PATH", f"{stand_ins}{os.pathsep}{os.environ['PATH']}")
    found = mpiexec()
    assert isinstance(found, Mpiexec)
    command = ["ior", "-a", "POSIX", "-b", "64k", "-t", "4k", "-w", "-k", "-o", str(tmp_path / "unique-name")]
    with Agent() as agent:
        done = agent.run(LAUNCHERS["mpiexec"].argv(command, True, 3, found.path), 1.5)
    assert (done.timed_out, done.left_behind) == (True, ()), (done.stdout, done.stderr)
    left = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
    assert left == []


def test_a_set_that_is_too_much_for_a_larger_point_does_not_take_the_smaller_with_it(
    tmp_path: Path, stand_ins: Path
) -> None:
    """With a fault where more than two ranks prepare: the point of two has a set of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mdtest").symlink_to(stand_ins / "mdtest")
    (folder / "ior").write_text(
        "#!/bin/sh\n"
        f'case "$PMI_SIZE $*" in *"-w -k -e -l"*) [ "${{PMI_SIZE:-1}}" -le 2 ] || exit 7;; esac\n'
        f'exec {stand_ins}/ior "$@"\n'
    )
    (folder / "ior").chmod(0o755)
    sweep = IOR | {"phases": ["seq_read"], "axes": {"threads_per_node": [2, 4]}}
    rows = {row["threads_per_node"]: row for row in measured(tmp_path, folder, sweep).rows()}
    assert said(rows[2]) == ""
    assert rows[4]["verdict"] == "invalid" and "preparing them failed (exit code 7)" in rows[4]["reasons"]


def test_without_the_tools_points_are_missing_with_the_way_to_get_them(tmp_path: Path) -> None:
    made = Allocation(tmp_path, sweeps=[ONE, MDTEST])
    made.path = os.pathsep.join(
        folder
        for folder in made.path.split(os.pathsep)
        if not any((Path(folder) / t).exists() for t in ("ior", "mdtest"))
    )
    made.measure("--launcher", "mpiexec")
    rows = made.rows()
    assert {row["verdict"] for row in rows} == {"missing"}
    for tool in ("ior", "mdtest"):
        reason = f"{tool} is not on PATH; get it with {tools()[tool].get_it}"
        assert any(row["reasons"] == reason for row in rows)


def test_direct_starts_one_rank_and_no_more(tmp_path: Path, mpi_tools: Path) -> None:
    sweep = ONE | {"axes": {"threads_per_node": [1, 2]}}
    rows = measured(tmp_path, mpi_tools, sweep, launcher="direct").rows()
    assert said(rows[0]) == "" and rows[0]["tasks"] == 1
    assert rows[1]["verdict"] == "missing"
    assert rows[1]["reasons"] == "2 MPI ranks are needed; the launcher direct starts 1"


def test_an_old_ior_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ior").write_text("#!/bin/sh\necho 'IOR-3.3.0: MPI Coordinated Test of Parallel I/O'\n")
    (folder / "ior").chmod(0o755)
    rows = measured(tmp_path, folder, ONE).rows()
    assert rows[0]["verdict"] == "missing" and "4.0 or newer is needed; get another with" in rows[0]["reasons"]


def test_the_example_through_snakemake(
    tmp_path: Path, root: Path, mpi_tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """config/examples/ior-mdtest.yaml with fewer points, on this machine, to the report."""
    monkeypatch.setenv("PATH", f"{mpi_tools}{os.pathsep}{os.environ['PATH']}")
    campaign = Campaign(tmp_path)
    document = yaml.safe_load((root / "config" / "examples" / "ior-mdtest.yaml").read_text())
    document["campaign"], document["target"]["directory"] = campaign.name, str(campaign.target)
    document["limits"] = {"retried": "0%", "fill": "100%"}
    for sweep in document["sweeps"]:
        sweep["axes"] |= {"threads_per_node": [2], **({"transfer_size": ["64k"]} if sweep["tool"] == "ior" else {})}
        sweep["axes"].pop("transfer_size") if sweep["name"] == "interface" else None
        match sweep["name"]:
            case "throughput":
                sweep["phase_time"] = "1s"
            case "interface":
                sweep["options"]["file_size"] = "32m"
            case "metadata":
                sweep["options"]["files_per_thread"] = 300
    campaign.file.write_text(yaml.safe_dump(document))
    said_by_it = campaign.run()
    assert "5 of 5 repetitions measured" in said_by_it
    assert (campaign.results / "report.html").exists()
