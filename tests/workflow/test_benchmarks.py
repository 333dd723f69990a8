"""Every benchmark runs at a tiny size and gives the columns that it promises. No time is asserted: it would fail on a
busy machine, and `make bench` is there for that."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_ramp_of_a_device_whose_knee_is_known(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, root / "benchmarks/ramps.py", "--device", "--campaigns", "1", "--widths", "2"]
    command += ["--noise", "0", "--steps", "5", "--directory", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    *_, row = done.stdout.splitlines()
    # all three shares are of the one campaign; 1 repetition of depth 1, and 3 of depths 2, 4 and 8
    assert row == "| 2 | 0 % | 3 | 100.0 % | 100.0 % | 100.0 % | 66.7 % | 0.0 % | 66.7 % |"
    assert not list(tmp_path.iterdir())


def run(root: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks" / "run.py"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
