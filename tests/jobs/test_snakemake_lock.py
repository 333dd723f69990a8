"""The lock of a Snakemake that was killed: whose it is, and what is said of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from campaign import ROOT
from iosweep.jobs import snakemake_lock
from iosweep.node import procfs
from targets import as_root

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
def test_the_command_that_removes_it(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "shows_machine", lambda: True)  # also where the tests run in a container
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


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("snakemake -c 4", True),
        ("/v/bin/snakemake", True),
        ("/v/bin/python3.11 /v/bin/snakemake --profile p", True),
        ("python -X utf8 -W ignore -P -m snakemake --profile p", True),
        ("python -Xutf8 -Wignore -Pm snakemake", True),
        ("python -msnakemake", True),
        ("python -m snakemake.cli", True),
        ("python --check-hash-based-pycs always -u -- /v/bin/snakemake", True),
        ("pypy3 snakemake", True),
        ("", False),
        ("python", False),
        ("python -m", False),
        ("python -W snakemake", False),
        ("python -W snakemake other.py", False),
        ("python -m pytest snakemake", False),
        ("python other.py snakemake", False),
        ("python -c pass snakemake", False),
        ("python -cpass -m snakemake", False),
        ("python - snakemake", False),
        ("tail -f snakemake", False),
        ("vim snakemake", False),
        ("grep -m snakemake", False),
        ("timeout 10h snakemake", False),  # what it starts is one
        ("snakemake-lsp", False),
    ],
)
def test_which_processes_are_snakemakes(command: str, is_one: bool) -> None:
    words = [word.encode() for word in command.split(" ")]
    assert snakemake_lock.is_snakemake(words) == snakemake_lock.is_snakemake([*words, b""]) == is_one


@pytest.mark.local
@as_root
def test_a_container_sees_none_of_the_machine(place: Path) -> None:
    look = "from iosweep.jobs import snakemake_lock as it; print(it.refusal([it.Path('results/c')], []))"
    lock("results/c/report.html")
    inside = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, "-c", look]
    ours = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    said = subprocess.run(inside, env=ours, capture_output=True, text=True, check=True).stdout
    assert "none runs in this directory on this machine" not in said
    assert "from this container (a PID namespace) the machine's processes do not show." in said
    assert "`snakemake --unlock` removes the lock" in said


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
    assert "is locked by a snakemake that was killed" in alone.stdout
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
