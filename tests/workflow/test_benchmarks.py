"""Every benchmark runs at a tiny size and gives the columns that it promises. No time is asserted: it would fail on a
busy machine, and `make bench` is there for that."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slurm as clusters

pytestmark = [pytest.mark.local, pytest.mark.soak]

COLUMNS = ["benchmark", "what", "size", "measured", "beside it", "ratio", "budget", "met"]
#: benchmark -> (what its rows are at least about, what it needs)
PROMISED = {
    "fidelity": (["IOPS through iosweep / by hand", "by hand / by hand (the machine's noise)"], "fio"),
    "sampling": (["IOPS looked at / not", "CPU of the agent that looks, 2 workers"], "fio"),
    "idle": (["CPU per point that does nothing", "wall per point that does nothing", "on disk per repetition"], ""),
    "real": (["wall of 1 s points of fio, data ready", "on disk per repetition"], "fio"),
    "plan": (["snakemake -n", "snakemake -n, memory", "snakemake -n, 4 phases", "snakemake -n, profiles/slurm"], ""),
    "merge": (["CPU", "wall", "memory", "memory, ten times as many"], "fio"),
    "report": (["HTML", "HTML, size", "SVG and PNG"], ""),
    "parse": (["ior, warnings", "mdtest, messages of no interest"], ""),
    "coverage": (["normal, 2 %", "normal, 20 %"], ""),
    "slurm": (["sleep of 0.1 s on 2 nodes, beyond srun", "of it start and end, once"], "slurm"),
    "honest": (["no_holes: fails", "duration: fails"], "fio"),
    "identical": (["seq_write", "headlines that exclude each other"], "fio"),
    "scale": (["wall of a repetition of fio over 4 nodes, 1s", "memory of the runner"], "slurm"),
    "forecast": (["counts and times", "counts and times: in other orders"], "slurm"),
}


@pytest.mark.parametrize("name", PROMISED)
def test_a_benchmark_gives_the_rows_that_it_promises(name: str, root: Path, tmp_path: Path) -> None:
    promised, needs = PROMISED[name]
    if needs and shutil.which("fio") is None:
        pytest.skip("fio: not on PATH (Debian package fio)")
    if needs == "slurm" and (reason := clusters.missing()):
        pytest.skip(reason)
    done = run(root, tmp_path, "--tiny", "--markdown", "--directory", str(tmp_path), name)
    assert done.returncode == 0, done.stderr
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines())
    assert header == COLUMNS
    assert set(promised) <= {row[1] for row in rows}
    for row in rows:
        cells = dict(zip(COLUMNS, row, strict=True))
        assert cells["benchmark"] == name
        assert cells["measured"]
        assert bool(cells["budget"]) == bool(cells["met"])
    assert not list(tmp_path.iterdir()), "what it worked with is removed"


def test_unknown_name_names_the_known(root: Path, tmp_path: Path) -> None:
    done = run(root, tmp_path, "megre")
    assert done.returncode == 2
    assert "merge" in done.stderr


def test_a_ramp_of_a_device_whose_knee_is_known(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, root / "benchmarks/ramps.py", "--device", "--campaigns", "1", "--widths", "2"]
    command += ["--noise", "0", "--steps", "5", "--directory", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    *_, row = done.stdout.splitlines()
    # all three shares are of the one campaign; 1 repetition of depth 1, and 3 of depths 2, 4 and 8
    assert row == "| 2 | 0 % | 3 | 100.0 % | 100.0 % | 100.0 % | 66.7 % | 0.0 % | 66.7 % |"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("script", "arguments", "row"),
    [
        ("accepting", ["--campaigns", "2", "--only", "a point, alone"], "| a point, alone | lognormal, 2 % | "),
        ("changes", ["--histories", "2", "--headlines", "2"], "| nights | normal | heavy tails | bimodal | in phases"),
    ],
)
def test_simulations_give_their_rows(script: str, arguments: list[str], row: str, root: Path, tmp_path: Path) -> None:
    command = [sys.executable, root / "benchmarks" / f"{script}.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode in (0, 1), done.stderr  # two campaigns keep no promise
    assert row in done.stdout, done.stderr


def run(root: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks" / "run.py"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
