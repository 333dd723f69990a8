"""The lock of a Snakemake that was killed: whose it is, and what is said of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from campaign import ROOT
from iosweep.jobs import snakemake_lock

RESULTS = Path("results/c")
COMMAND = ["--profile", "profiles/local", "--configfile", "my file.yaml"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    snakemake_lock.LOCKS.mkdir(parents=True)
    return tmp_path


def lock(*files: str) -> Path:
    file = snakemake_lock.LOCKS / "0.output.lock"
    file.write_text("".join(f"{one}\n" for one in files))
    return file


def test_what_is_not_locked() -> None:
    assert snakemake_lock.refusal([RESULTS], COMMAND) is None
    lock("results/cc/report.html", "results/other/results.parquet")  # another campaign
    assert snakemake_lock.refusal([RESULTS], COMMAND) is None


@pytest.mark.parametrize("file", ["results/c/report.html", "/tools/0f/tools.json"])
def test_the_command_that_removes_it(file: str) -> None:
    lock("results/other/report.html", file)
    said = snakemake_lock.refusal([RESULTS, Path("/tools/0f/tools.json")], COMMAND)
    assert said is not None
    assert "is locked by a snakemake that was killed: none runs in this directory on this machine." in said
    assert " `snakemake --unlock --profile profiles/local --configfile 'my file.yaml'` removes the lock" in said


def test_the_lock_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether that user's process lives may not be seen: Snakemake has the word."""
    lock("results/c/report.html")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert snakemake_lock.refusal([RESULTS], COMMAND) is None


@pytest.mark.local
@pytest.mark.parametrize("around", [[], ["timeout", "60"]])
def test_what_started_it_is_not_taken_for_another_one(place: Path, around: list[str]) -> None:
    """`timeout 10h snakemake ...` has that name on its command line, too."""
    look = "import sys; from iosweep.jobs import snakemake_lock as it; print(it.refusal([it.Path('results/c')], []))"
    script = place / "snakemake"
    script.write_text(look)
    lock("results/c/report.html")
    command = [*around, sys.executable, str(script)]
    ours = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    alone = subprocess.run(command, env=ours, capture_output=True, text=True, check=True)
    assert "that was killed: none runs in this directory" in alone.stdout
    other = place / "other" / "snakemake"
    other.parent.mkdir()
    other.write_text("import sys; print(flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, str(other)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout
        running.stdout.readline()
        beside = subprocess.run(command, env=ours, capture_output=True, text=True, check=True)
        assert f"is locked by a snakemake that runs in this directory (process {running.pid});" in beside.stdout
        running.communicate()


def test_one_that_lives() -> None:
    said = snakemake_lock.sentence(RESULTS, ["12", "13"], COMMAND)
    assert said.startswith(
        "results/c is locked by a snakemake that runs in this directory (processes 12, 13); wait for"
    )
    assert "--unlock" not in said
