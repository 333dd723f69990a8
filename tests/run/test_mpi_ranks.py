"""Ranks of MPI tools on one machine: which launcher starts them, and what is missing without one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tool_folders
from campaign import SWEEP, Allocation, said
from iosweep.plan.launchers import LAUNCHERS, Mpiexec, mpiexec
from iosweep.results import remaining
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.results.raw_output import unpack
from records import plain_records_of

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]

#: Four ranks of a tool that is nowhere on PATH, unless a test puts it there.
IOR: dict[str, Any] = {
    "name": "i",
    "tool": "ior",
    "phases": ["seq_write"],
    "options": {"threads_per_node": 4, "file_size": "1m", "transfer_size": "64k"},
    "phase_time": "1s",
    "repetitions": 1,
}
TOO_MANY = "4 MPI ranks are needed; the launcher direct starts 1"


def fake_ior(allocation: Allocation) -> None:
    """A program that prints the version of IOR."""
    folder = allocation.place / "bin"
    folder.mkdir()
    (folder / "ior").write_text("#!/bin/sh\necho 'IOR-4.0.0: MPI Coordinated Test of Parallel I/O'\n")
    (folder / "ior").chmod(0o755)
    allocation.path = f"{folder}{os.pathsep}{allocation.path}"


def test_more_ranks_than_the_launcher_starts(allocation: Allocation) -> None:
    allocation.configure(sweeps=[SWEEP | {"axes": {}}, IOR])
    fake_ior(allocation)
    assert f"missing: {TOO_MANY}\n" in allocation.measure("--launcher", "direct")
    rows = {r["tool"]: r for r in reversed(allocation.rows())}
    assert (rows["ior"]["verdict"], rows["ior"]["reasons"], rows["ior"]["phase"]) == ("missing", TOO_MANY, "seq_write")
    assert said(rows["fio"]) == ""  # what the launcher can start was measured
    [point] = [p for p in allocation.plan.points if p.tool == "ior"]
    assert allocation.store.missing() == {point.id: Missing(Needs(ranks=4), TOO_MANY)}
    # it is not left with this launcher, and it is with one that starts so many
    for name, left in (("direct", {}), ("mpiexec", {"1-node": {point.id: [1]}})):
        here = remaining.Here(launcher=LAUNCHERS[name])
        assert remaining.left(allocation.plan, allocation.store.results(), allocation.store.missing(), here) == left
    before = allocation.files()
    allocation.measure("--launcher", "direct")
    assert allocation.files() == before


def test_an_mpi_tool_that_is_not_there(allocation: Allocation) -> None:
    allocation.configure(IOR)
    folders = allocation.path.split(os.pathsep)
    allocation.path = os.pathsep.join(folder for folder in folders if not (Path(folder) / "ior").exists())
    output = allocation.measure("--launcher", "mpiexec")
    assert "missing: ior is not on PATH; get it with " in output
    assert not list(allocation.target.iterdir())
    assert [(r["verdict"], r["reasons"][:22]) for r in allocation.rows()] == [("missing", "ior is not on PATH; ge")]


#: The runner in an environment without the mpiexec that comes with the lock.
WITHOUT = "import sys, sysconfig; sysconfig.get_path = lambda *_: '/nonexistent'; from iosweep.commands import cli\n"


def without_mpiexec(allocation: Allocation, code: int) -> str:
    program = WITHOUT + "sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *allocation.command("--launcher", "mpiexec")[3:]]
    done = subprocess.run(
        command, env=allocation.environment, cwd=allocation.place, text=True, stderr=subprocess.PIPE, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.mark.parametrize("foreign", [False, True])
def test_no_mpiexec(allocation: Allocation, fio: Path, foreign: bool) -> None:
    allocation.configure(IOR)
    fake_ior(allocation)
    folder = allocation.place / "bin"
    allocation.path = os.pathsep.join([str(folder), "/bin"])
    if found := shutil.which("mpiexec", path="/bin"):
        pytest.skip(f"{found}: is on the PATH of the system")
    if foreign:
        (folder / "mpiexec").write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.4'\n")
        (folder / "mpiexec").chmod(0o755)
    output = without_mpiexec(allocation, 0)
    of = f" ({folder}/mpiexec is another's)" if foreign else ""
    why = (
        f"the launcher mpiexec cannot be used: there is no mpiexec of MPICH{of}; `make venv` installs one, as do"
        " apt-get install mpich and Spack"
    )
    assert f"missing: {why}\n" in output
    assert {(r["verdict"], r["reasons"]) for r in allocation.rows()} == {("missing", why)}
    assert not list(allocation.target.iterdir())
    # nobody else needs it
    allocation.configure(sweeps=[IOR, SWEEP | {"axes": {}}])
    allocation.path = os.pathsep.join([str(folder), str(fio.parent)])
    without_mpiexec(allocation, 0)
    assert [said(r) for r in allocation.rows() if r["tool"] == "fio"] == ["", ""]
    assert {r["reasons"] for r in allocation.rows() if r["tool"] == "ior"} == {why}
    # it is left once there is something new that could be it
    ior, missing = allocation.plan.points[-1], allocation.store.missing()
    assert ior.tool == "ior" and missing[ior.id].needs.mpiexec is not None
    seen = missing[ior.id].needs.mpiexec
    for found, left in ((seen, {}), ([*seen, "/new/mpiexec"], {"1-node": {ior.id: [1]}})):
        here = remaining.Here(launcher=LAUNCHERS["mpiexec"], mpiexec=found)
        assert remaining.left(allocation.plan, allocation.store.results(), missing, here) == left


TOOLS = Path(__file__).resolve().parents[1] / "support/tools"
RANKS: dict[str, Any] = {
    "name": "r",
    "tool": "ranks",
    "phases": ["create", "stat"],
    "options": {"threads_per_node": 3, "files_per_thread": 5},
    "repetitions": 2,
}


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Allocation]:
    """An allocation of a made-up tool with MPI, whose folder is in tests/support/tools."""
    with tool_folders.added(TOOLS):
        yield Allocation(tmp_path, RANKS)


def measure_ranks(allocation: Allocation, launcher: str, code: int = 0, before: str = "") -> str:
    """Measure with the tool known to the runner, after other lines of Python."""
    program = tool_folders.command(TOOLS, before)
    command = [sys.executable, "-c", program, *allocation.command("--launcher", launcher)[3:]]
    done = subprocess.run(
        command, env=allocation.environment, cwd=allocation.place, text=True, stderr=subprocess.PIPE, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr


def test_ranks_of_an_mpi_tool(ranks: Allocation) -> None:
    measure_ranks(ranks, "mpiexec")
    [point] = ranks.plan.points
    assert ranks.files() == [f"{point.id}/r00{n}-1.{kind}" for n in (1, 2) for kind in ("json", "zip")]
    rows = ranks.rows()
    assert [(r["repetition"], r["phase"], r["ops"]) for r in rows] == [
        (n, phase, 15) for n in (1, 2) for phase in ("create", "stat")
    ]
    assert [said(r) for r in rows] == [""] * 4
    hydra = mpiexec()
    assert isinstance(hydra, Mpiexec)
    for result, record in plain_records_of(ranks.store, point.id):
        assert record["launcher"] == {"name": "mpiexec", "path": hydra.path, "version": hydra.version}
        # one command for both phases, and its output once
        first, second = record["phases"]
        assert first["argv"] == second["argv"]
        assert first["argv"][0] == hydra.path
        assert first["argv"][-7:-3] == ["3", shutil.which("sh"), "-c", first["argv"][-4]]
        assert (first["leftover"], first["leftover_expected"]) == (15, 15)  # three directories of five
        archive = ranks.store.raw(result)
        assert archive
        [(step, streams)] = unpack(archive).items()
        assert (step, streams["summary"]) == ("create", b"3\n")
        assert sorted(streams["stdout"].splitlines()) == [b"rank 0", b"rank 1", b"rank 2"]
    assert not ranks.ours.exists()
    assert not (ranks.results / "scratch").exists()


def test_a_relative_directory_with_mpiexec(ranks: Allocation) -> None:
    """`PATH=.venv/bin:$PATH snakemake ...`; ranks are started elsewhere."""
    hydra = mpiexec()
    assert isinstance(hydra, Mpiexec)
    (ranks.place / "bin").mkdir()
    (ranks.place / "bin" / "mpiexec.hydra").write_text(f'#!/bin/sh\nexec {hydra.path} "$@"\n')
    (ranks.place / "bin" / "mpiexec.hydra").chmod(0o755)
    ranks.path = os.pathsep.join(["bin", ranks.path])
    measure_ranks(ranks, "mpiexec")
    assert [said(r) for r in ranks.rows()] == [""] * 4
    [(_, record), _] = plain_records_of(ranks.store, ranks.plan.points[0].id)
    assert record["launcher"]["path"].endswith("bin/mpiexec.hydra")


def test_what_is_left_only_on_this_target_has_its_mpiexec(ranks: Allocation) -> None:
    """Whether results are of this target is known after the first look at what is left."""
    both = [RANKS, SWEEP | {"axes": {}}]
    ranks.configure(sweeps=both)
    measure_ranks(ranks, "mpiexec")
    [point] = [p for p in ranks.plan.points if p.tool == "ranks"]
    for file in ranks.store.point(point.id).glob("*.json"):
        record = msgspec.json.decode(file.read_bytes())
        file.write_bytes(
            msgspec.json.encode(
                record | {"target": record["target"] | {"source": "/dev/elsewhere", "volume": "/dev/elsewhere"}}
            )
        )
    ranks.configure(sweeps=[RANKS, SWEEP | {"axes": {}, "repetitions": 2}])
    measure_ranks(ranks, "mpiexec")
    found = [record for result, record in plain_records_of(ranks.store, point.id) if result.attempt == 2]
    assert len(found) == 2
    assert {record["launcher"].get("path") for record in found} == {mpiexec().path}  # type: ignore[union-attr]
    assert [said(r) for r in ranks.rows() if r["tool"] == "ranks"] == [""] * 4


def test_one_rank_needs_no_mpiexec(ranks: Allocation) -> None:
    ranks.configure(RANKS | {"options": {"threads_per_node": 1, "files_per_thread": 5}})
    measure_ranks(ranks, "direct", before="import sysconfig; sysconfig.get_path = lambda *_: '/nonexistent'")
    assert [said(r) for r in ranks.rows()] == [""] * 4
    [point] = ranks.plan.points
    for _, record in plain_records_of(ranks.store, point.id):
        assert record["launcher"]["name"] == "direct"
        assert {run["argv"][0] for run in record["phases"]} == {shutil.which("sh")}


def each_rank_first(ranks: Allocation, line: str) -> None:
    """Run a line of bash in each rank before its command."""
    shell = ranks.place / "bin" / "sh"
    shell.parent.mkdir()
    shell.write_text(f'#!/bin/bash\n{line}\nexec /bin/sh "$@"\n')
    shell.chmod(0o755)
    ranks.path = os.pathsep.join([str(shell.parent), ranks.path])


def test_ranks_that_run_as_separate_programs(ranks: Allocation) -> None:
    """As with a program of another MPI: each of its processes runs as rank 0 of 1."""
    each_rank_first(ranks, "unset PMI_SIZE")
    measure_ranks(ranks, "mpiexec")
    wrong = "the tool ran with 1 rank, 3 were asked for: was it built with another MPI than its launcher?"
    assert {(r["verdict"], said(r)) for r in ranks.rows()} == {("invalid", wrong)}


def test_a_rank_that_fails(ranks: Allocation) -> None:
    each_rank_first(ranks, '[ "$PMI_RANK" != 1 ] || exit 9')
    measure_ranks(ranks, "mpiexec")
    for row in ranks.rows():
        assert row["verdict"] == "invalid"
        assert row["reasons"].startswith("the tool ended with exit code 9")
    assert not ranks.ours.exists()
