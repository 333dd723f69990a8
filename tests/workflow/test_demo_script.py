"""scripts/demo, which is `make demo`: what it installs, refuses, and says in the end. Its programs are stand-ins."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from campaign import ROOT

pytestmark = pytest.mark.local

REAL = ["mktemp", "rm", "awk", "cat", "date", "dirname", "ls", "mkdir", "nice", "sed", "sh", "sleep", "touch"]
CALLED = 'echo "$(basename "$0") $*" >>calls'
FINISHED = "mkdir -p results/demo; echo report >results/demo/report.html"
MEASURED = f"{FINISHED}; echo '{{\"bytes_written\": {3 << 29}}}' >results/demo/spent.json"


class Machine:
    """A checkout, and the only directory on PATH."""

    def __init__(self, place: Path) -> None:
        self.place = place / "check out"  # with a blank, so that missing quotes show
        self.bin = place / "bin"
        self.bin.mkdir(parents=True)
        for name in [*REAL, "basename"]:
            real = shutil.which(name)
            assert real, f"this test needs {name}"
            (self.bin / name).symlink_to(real)
        (self.place / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/demo", self.place / "scripts")
        shutil.copy(ROOT / "Makefile", self.place)
        self.fake("scripts/make-venv", f"{CALLED}; mkdir -p .venv; touch .venv/stamp-made .venv/stamp-runtime")
        self.fake("scripts/debian-packages", CALLED)
        self.fake(".venv/bin/iosweep", CALLED)
        self.workflow(MEASURED)
        self.has("fio")
        self.free_kib(100 << 20)

    def fake(self, name: str, script: str) -> None:
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def has(self, name: str, code: int = 0) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (self.bin / name).chmod(0o755)

    def workflow(self, script: str, code: int = 0) -> None:
        self.fake(".venv/bin/snakemake", f"{CALLED}; {script}; exit {code}")

    def free_kib(self, free: int) -> None:
        (self.bin / "df").write_text(f"#!/bin/sh\necho 'Filesystem 1024-blocks Used Available'\necho 'd 9 9 {free}'\n")
        (self.bin / "df").chmod(0o755)

    def run(self, **environment: str) -> tuple[int, str]:
        """Exit code, and what it printed."""
        done = subprocess.run(
            ["scripts/demo"], cwd=self.place, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": str(self.bin), **environment},
        )  # fmt: skip
        assert all(len(line) <= 80 for line in done.stdout.splitlines() if str(self.place) not in line), done.stdout
        return done.returncode, done.stdout

    def calls(self) -> list[str]:
        file = self.place / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


SNAKEMAKE = "snakemake --profile profiles/local --configfile config/examples/demo.yaml"


def test_it_measures_and_says_what_it_did(machine: Machine) -> None:
    code, said = machine.run()
    assert code == 0
    assert machine.calls() == ["make-venv --apt runtime", SNAKEMAKE]
    assert "1.5 GiB were written to" in said
    assert f"the report: {machine.place}/results/demo/report.html" in said


def test_again_it_shows_what_was_measured(machine: Machine) -> None:
    machine.run()
    machine.workflow("true")
    code, said = machine.run()
    assert code == 0
    assert sorted(machine.calls()[-2:]) == ["iosweep show demo", SNAKEMAKE]  # at the same time
    assert "nothing was left to measure" in said
    assert "rm -r results/demo" in said
    assert "were written" not in said


def test_only_what_this_run_wrote_is_named(machine: Machine) -> None:
    machine.run()
    machine.workflow(MEASURED.replace(str(3 << 29), str(4 << 29)))
    assert "0.5 GiB were written to" in machine.run()[1]


def test_a_failure_is_not_called_done(machine: Machine) -> None:
    machine.workflow(MEASURED, code=1)
    code, said = machine.run()
    assert code == 1
    assert "done in" not in said
    assert "goes on from there" in said


def test_fio_is_installed_beside_the_environment(machine: Machine) -> None:
    (machine.bin / "fio").unlink()
    machine.has("python3")
    code, _ = machine.run()
    assert code == 0
    assert sorted(machine.calls()[:2]) == ["debian-packages fio", "make-venv runtime"]
    assert machine.calls()[2:] == [SNAKEMAKE]


def test_without_a_python_all_packages_are_installed_at_once(machine: Machine) -> None:
    (machine.bin / "fio").unlink()
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        machine.has(name, code=1)
    machine.run()
    assert machine.calls() == ["debian-packages fio python3 python3-venv", "make-venv --apt runtime", SNAKEMAKE]


@pytest.mark.parametrize("python", [True, False])
def test_without_fio_nothing_is_measured(machine: Machine, python: bool) -> None:
    (machine.bin / "fio").unlink()
    machine.has("python3", code=0 if python else 1)
    machine.fake("scripts/debian-packages", f"{CALLED}; exit 3")
    code, _ = machine.run()
    assert code == 3
    assert SNAKEMAKE not in machine.calls()


def test_a_small_disk_is_refused_before_anything_is_installed(machine: Machine) -> None:
    machine.free_kib(2 << 20)
    code, said = machine.run()
    assert code == 1
    assert "2.0 GiB are free here, and 4 GiB are needed" in said
    assert machine.calls() == []


def test_with_its_environment_the_campaign_itself_decides_on_the_space(machine: Machine) -> None:
    machine.run()
    machine.free_kib(2 << 20)
    assert machine.run()[0] == 0


def test_make_demo_runs_it_with_less_priority(machine: Machine) -> None:
    machine.workflow(f"{MEASURED}; nice >niceness")
    done = subprocess.run(
        [shutil.which("make") or "make", "demo"], cwd=machine.place, check=False, env={"PATH": str(machine.bin)}
    )
    assert done.returncode == 0
    assert int((machine.place / "niceness").read_text()) == min(19, os.nice(0) + 10)
