"""`iosweep ingest` of one name by two processes, and of one that was killed: one campaign, whole, or none."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iosweep.commands import campaigns
from iosweep.results import ingested
from iosweep.target import lock
from waiting import wait_for

pytestmark = pytest.mark.local

SAMPLES = Path(__file__).parents[1] / "samples"
MDTEST = SAMPLES / "mdtest" / "4.0.0" / "own_W_F.out"
IOR = SAMPLES / "ior" / "4.0.0" / "posix_fpp_seq_1m_np2_i3_JSON.summary.json"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "iosweep", "ingest", *map(str, arguments)]


def ingest(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


@contextmanager
def waiting(place: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """An ingest of `seen` that has begun, and reads from a pipe that has no end yet."""
    os.mkfifo(place / "pipe")
    argv = command("pipe", "--as", "seen", *more)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: lock.holder(place / "results" / "seen" / lock.NAME) is not None)
            yield process
        finally:
            process.kill()


def test_the_second_of_two_is_refused_and_names_the_first(place: Path) -> None:
    with waiting(place) as first:
        second = ingest(IOR, "--as", "seen")
        assert second.returncode == 2
        assert f"campaign seen is being measured by process {first.pid} of" in second.stderr
        (place / "pipe").write_bytes(MDTEST.read_bytes())
        first.communicate()
        assert first.returncode == 0
    (file,) = ingested.load(Path("results/seen"))[0].files
    assert file.bytes == MDTEST.stat().st_size
    assert ingested.damage(Path("results/seen")) == []
    third = ingest(IOR, "--as", "seen")
    assert third.returncode == 2 and "was ingested before" in third.stderr


def test_a_replacement_waits_for_nobody_and_is_refused_too(place: Path) -> None:
    assert ingest(IOR, "--as", "seen").returncode == 0
    with waiting(place, "--replace"):
        assert ingest(MDTEST, "--as", "seen", "--replace").returncode == 2
    assert (
        ingested.load(Path("results/seen"))[0].files[0].bytes == IOR.stat().st_size
    )  # the killed one has changed nothing
    assert ingested.damage(Path("results/seen")) == []


def test_a_killed_one_is_no_campaign_and_blocks_nobody(place: Path) -> None:
    with waiting(place) as first:
        first.kill()
        first.wait()
    assert campaigns.known() == []
    (place / "results" / "seen" / ingested.RAW).write_bytes(b"of one that was killed before it wrote its document")
    done = ingest(MDTEST, "--as", "seen")
    assert done.returncode == 0, done.stderr
    assert ingested.damage(Path("results/seen")) == []
