"""The profiles with every shipped configuration: the jobs, what they ask for, and the exact command that submits them.

Without Slurm, fio or a target: nothing is on PATH but `which`, which the executor starts when it is imported.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaign import PLUGINS_OF_USERS, ROOT, document
from iosweep.config import sweep_file
from iosweep.judge import remaining
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.model import Plan

pytestmark = pytest.mark.local

SHIPPED = sorted([ROOT / "config/sweep.yaml", *(ROOT / "config/examples").glob("*.yaml")])
PROFILES = {name: ROOT / "profiles" / name for name in ("local", "slurm")}
#: What a site may fill in, each an example behind a # in the profile.
FILLED = {
    "slurm_partition": "compute", "slurm_account": "project", "qos": "benchmark", "reservation": "maintenance",
    "licenses": "pfs", "from_17_nodes": "slurm_partition=large qos=long", "constraint": "ib",
}  # fmt: skip


def made(file: Path) -> Plan:
    return make_plan(sweep_file.read(file))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles")


@pytest.fixture(scope="module")
def configurations(directory: Path) -> list[Path]:
    nodes = directory / "nodes.yaml"
    sweep = document(axes={"nodes": [1, 2, 64]}, phase_time="40min", repetitions=2)
    nodes.write_text(yaml.safe_dump(sweep | {"campaign": "scaling_1.0"}))
    return [*SHIPPED, nodes]


@pytest.fixture(scope="module")
def filled(directory: Path) -> Path:
    """The profile of a site that filled everything in, by taking the # away, and whose jobs may take an hour."""
    text = (PROFILES["slurm"] / "profile.v9+.yaml").read_text()
    text, keys = re.subn(r"^  # (- \w+=)", r"  \1", text, flags=re.MULTILINE)
    assert keys == len(FILLED)
    profile = directory / "filled"
    profile.mkdir()
    (profile / "profile.v9+.yaml").write_text(
        text.replace("runtime=24h", "runtime=1h").replace("mem_mb=0", "mem_mb=9000")
        + "set-resources: {measure: {wckey: tonight}}\n"
    )
    return profile


@pytest.fixture(scope="module")
def jobs(directory: Path, configurations: list[Path], filled: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(profile, configuration) -> jobs. One process for all: Snakemake alone takes a second to start."""
    place, path = directory / "place", directory / "bin"
    place.mkdir()
    path.mkdir()
    (path / "which").symlink_to(str(shutil.which("which")))
    done = subprocess.run(
        [sys.executable, ROOT / "tests/support/profile_jobs.py", ROOT / "Snakefile", *PROFILES.values(), filled, "--",
         *configurations],
        cwd=place, env={"PATH": str(path), "HOME": str(directory), "LANG": "C.UTF-8"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (place / "results").exists()  # a dry run leaves nothing behind
    found = json.loads(done.stdout)
    return {(Path(p).name, Path(c).name): each for c, by in found.items() for p, each in by.items()}


def test_each_allocation_is_one_job_and_only_those_of_slurm_build_tools(jobs, configurations):
    assert len(jobs) == 3 * len(configurations)
    for file in configurations:
        allocations = [a.nodes for a in made(file).allocations]
        others = {"tables": 1, "report": 1, "figures": 1, "all": 1}
        for profile in ("slurm", "filled"):
            found = Counter(job["rule"] for job in jobs[profile, file.name])
            built = int(sweep_file.read(file).settings.tools.provider != "path")
            assert +found == +Counter(others | {"tools": built, "measure": len(allocations)}), file
        here = jobs["local", file.name]
        assert Counter(job["rule"] for job in here) == Counter(others | {"measure": len(allocations)}), file
        assert {(job["retries"], job["command"]) for job in here} == {(0, None)}


def to_come(whole: Plan) -> dict[str, dict[str, int]]:
    """allocation -> point -> repetitions, those that confirm and the steps of ramps included."""
    return remaining.find(whole, {}, {}, remaining.LocalMachine()).expected


def asked(file: Path, limit_min: int) -> dict[int, tuple[int, str]]:
    """nodes -> minutes and what is left, as the plan has it."""
    found, whole = {}, made(file)
    for allocation in whole.allocations:
        cost = forecast.forecast_of(whole, {allocation.name: to_come(whole)[allocation.name]})
        minutes = min(limit_min, math.ceil(1.5 * cost.time_s / 60 + 5))
        found[allocation.nodes] = minutes, forecast.sentence(cost, allocation.title)
    return found


def nodes_of(job: dict[str, Any]) -> int | None:
    return next((int(o.removeprefix("--nodes=")) for o in job["command"] or () if o.startswith("--nodes=")), None)


def test_the_exact_commands_that_submit_ask_for_what_the_forecast_says_and_half_more(jobs, configurations, directory):
    for file in configurations:
        for nodes, (minutes, left) in asked(file, limit_min=24 * 60).items():
            [job] = [j for j in jobs["slurm", file.name] if nodes_of(j) == nodes]
            assert left in job["message"]
            assert " ".join(job["command"]) == (
                "sbatch --parsable --job-name iosweep --output %j.log --export=ALL --comment iosweep"
                f" --time={minutes} --nodes={nodes} --ntasks={nodes} --exclusive --overcommit --no-requeue"
                f" --dependency=singleton --chdir={directory}/place"
            )


def test_the_exact_command_of_a_site_that_filled_everything_in(jobs, directory):
    # 2 repetitions of 40 min and more: 125 min, of which a job may take 60; so 3 jobs, and 3 more
    for nodes in (1, 2, 64):
        [job] = [j for j in jobs["filled", "nodes.yaml"] if nodes_of(j) == nodes]
        assert " ".join(job["command"]) == (
            "sbatch --parsable --job-name iosweep --output %j.log --export=ALL --comment iosweep"
            f" --time=60 --nodes={nodes} --ntasks={nodes} --exclusive --overcommit --no-requeue"
            f" --dependency=singleton --chdir={directory}/place"
            f" --partition={'large' if nodes == 64 else 'compute'} --account=project"
            f" --qos={'long' if nodes == 64 else 'benchmark'} --reservation=maintenance --constraint=ib"
            " --licenses=pfs --mem=9000 --wckey=tonight"
        )
        assert job["retries"] == 3 - 1 + 3


def test_both_profiles_agree_where_nothing_is_slurms():
    local, slurm = (yaml.safe_load((PROFILES[name] / "profile.v9+.yaml").read_text()) for name in ("local", "slurm"))
    for key in ("keep-going", "rerun-incomplete", "rerun-triggers", "forcerun", "quiet"):
        assert local[key] == slurm[key]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_dry_run_of_all_suites_works_anywhere(profile: str, tmp_path: Path) -> None:
    """Without target, Slurm, Spack and tools: a target that is not there is a line where this machine would measure."""
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
    assert set(re.findall(r"^Job \d+: (\w+)", done.stdout, re.MULTILINE)) >= {"measure", "tables", "report", "all"}
    assert ("nosuch" in done.stdout) == (profile == "local"), done.stdout
    assert not (tmp_path / "work/results").exists()


def test_what_a_profile_may_not_say_is_told(tmp_path):
    text = (PROFILES["slurm"] / "profile.v9+.yaml").read_text()
    place = tmp_path / "profiles/mine"
    place.mkdir(parents=True)
    wrong = text.replace("runtime=24h", "runtime=1:00:00").replace("mem_mb=0", "mem_gb=0")
    (place / "profile.v9+.yaml").write_text(wrong)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "-s", ROOT / "Snakefile", "-d", tmp_path, "--profile", place,
         "--configfile", ROOT / "config/examples/demo.yaml"],
        cwd=tmp_path, env=os.environ | PLUGINS_OF_USERS, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    said = dict(re.findall(r"profile\.v9\+\.yaml:(\d+): default-resources\.(\w+): ", done.stdout + done.stderr))
    assert len(said) == 2 and all(key in wrong.splitlines()[int(line) - 1] for line, key in said.items())
