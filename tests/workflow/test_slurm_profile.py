"""The profiles: what each asks for, the exact command that submits a job, and dry runs of Snakemake with them.

Without Slurm, fio or a target: nothing is on PATH but `which`, which the executor starts when it is imported.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from campaign import PLUGINS_OF_USERS, ROOT, document, make
from iosweep.config import sweep_file
from iosweep.jobs import profile, submission
from iosweep.plan.expand import make_plan

PROFILES = {name: ROOT / "profiles" / name for name in ("local", "slurm")}
TEXT = (PROFILES["slurm"] / "profile.v9+.yaml").read_text()


def command(work: submission.Work) -> str:
    """What submits a job, but for what all of them have."""
    argv = submission.sbatch(work.site, work.nodes, work.minutes(), "run", "comment", "%j.log", "/d")
    before, said = "sbatch --parsable --job-name run --output %j.log --export=ALL --comment comment", " ".join(argv)
    assert said.startswith(before) and work.site.problems == ()
    return said.removeprefix(before)


def test_the_exact_commands_of_the_profile_and_of_a_site_that_filled_everything_in(tmp_path: Path) -> None:
    """The site takes the # away, and its jobs may take an hour. 2 repetitions of 40 min are 3 such jobs."""
    plan = make(tmp_path, document(axes={"nodes": [1, 2, 64]}, phase_time="40min", repetitions=2))
    filled, keys = re.subn(r"^  # (- \w+=)", r"  \1", TEXT, flags=re.MULTILINE)
    assert keys == 7
    filled = filled.replace("runtime=24h", "runtime=1h").replace("mem_mb=0", "mem_mb=9000")
    (tmp_path / "profile.v9+.yaml").write_text(filled)
    plain, site = profile.read(PROFILES["slurm"]), profile.read(tmp_path)
    for work, whole in zip(*(submission.planned_work(plan, one) for one in (site, plain)), strict=True):
        n = work.nodes
        asks = f"--nodes={n} --ntasks={n} --exclusive --overcommit --no-requeue --dependency=singleton --chdir=/d"
        assert command(whole) == f" --time=126 {asks}"
        assert command(work) == (
            f" --time=60 {asks}"
            f" --partition={'large' if n == 64 else 'compute'} --account=project"
            f" --qos={'long' if n == 64 else 'benchmark'} --reservation=maintenance --constraint=ib"
            " --licenses=pfs --mem=9000"
        )
        assert (whole.retries, work.retries) == (3, 3 - 1 + 3)


def test_both_profiles_agree_where_nothing_is_slurms() -> None:
    local, slurm = (yaml.safe_load((PROFILES[name] / "profile.v9+.yaml").read_text()) for name in ("local", "slurm"))
    for key in ("keep-going", "rerun-incomplete", "rerun-triggers", "forcerun", "quiet"):
        assert local[key] == slurm[key]


@pytest.mark.local
@pytest.mark.parametrize("profile", PROFILES)
def test_a_dry_run_of_all_suites_works_anywhere(profile: str, tmp_path: Path) -> None:
    """Each allocation is one job, and only those of Slurm build tools. Without target, Slurm, Spack and tools: a target
    that is not there is a line where this machine would measure."""
    sweeps = [{"suite": file.stem} for file in sorted((ROOT / "config/suites").glob("*.yaml"))]
    file = tmp_path / "suites.yaml"
    file.write_text(yaml.safe_dump({"campaign": "all", "limits": {"bytes_written": "9p"}, "sweeps": sweeps,
                                    "target": {"directory": "/nosuch"}}))  # fmt: skip
    (tmp_path / "which").symlink_to(str(shutil.which("which")))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "-s", ROOT / "Snakefile", "-d", tmp_path / "work",
         "--profile", PROFILES[profile], "--configfile", file, "--config", f"target={tmp_path}/nosuch"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path), "LANG": "C.UTF-8"} | PLUGINS_OF_USERS,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    others = dict.fromkeys(("tables", "report", "figures", "all"), 1) | ({"tools": 1} if profile == "slurm" else {})
    measured = {"measure": len(make_plan(sweep_file.read(file)).allocations)}
    assert Counter(re.findall(r"^Job \d+: (\w+)", done.stdout, re.MULTILINE)) == others | measured
    assert ("nosuch" in done.stdout) == (profile == "local"), done.stdout
    assert not (tmp_path / "work/results").exists()


@pytest.mark.local
def test_what_a_profile_may_not_say_is_told(tmp_path: Path) -> None:
    place = tmp_path / "profiles/mine"
    place.mkdir(parents=True)
    wrong = TEXT.replace("runtime=24h", "runtime=1:00:00").replace("mem_mb=0", "mem_gb=0")
    (place / "profile.v9+.yaml").write_text(wrong)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "-s", ROOT / "Snakefile", "-d", tmp_path, "--profile", place,
         "--configfile", ROOT / "config/examples/demo.yaml"],
        cwd=tmp_path, env=os.environ | PLUGINS_OF_USERS, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    said = dict(re.findall(r"profile\.v9\+\.yaml:(\d+): default-resources\.(\w+): ", done.stdout + done.stderr))
    assert len(said) == 2 and all(key in wrong.splitlines()[int(line) - 1] for line, key in said.items())
