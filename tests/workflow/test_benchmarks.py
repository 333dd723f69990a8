"""A benchmark runs at a tiny size. No time is asserted: `make bench` is there for that."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.local, pytest.mark.soak]


def test_a_ramp_of_a_device_whose_peak_is_known(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, root / "benchmarks/ramps.py", "--device", "--campaigns", "1", "--widths", "2"]
    command += ["--noise", "0", "--steps", "5", "--directory", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    *_, row = done.stdout.splitlines()
    # of one campaign: 3 repetitions of depths 1, 2, 4 and 8
    assert row == "| 2 | 0 % | 3 | 100.0 % | 80.0 % | 0.0 % | 80.0 % |"
    assert not list(tmp_path.iterdir())
