"""A results file system that does not answer."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mounts
from campaign import Campaign, keep_plan
from iosweep.files import hanging
from waiting import wait_for

pytestmark = pytest.mark.local

CODE = """
import sys
from iosweep.commands import cli; from iosweep.files import hanging
hanging.DEADLINE_S = 1.0
sys.exit(cli.main())
"""
SNAKEMAKE = """
import sys
from iosweep.files import hanging
from snakemake.cli import main
hanging.DEADLINE_S = 1.0
sys.exit(main())
"""


@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
@pytest.mark.parametrize("command", [["check", "c"], ["list"], ["show", "c"], ["report", "c"]])
def test_it_is_said_and_ctrl_c_ends_the_command(command: list[str], tmp_path: Path) -> None:
    place = tmp_path / "results"
    place.mkdir()
    with mounts.fuse(place):
        (place / "c" / "plans").mkdir(parents=True)
        interrupted([sys.executable, "-c", CODE, *command], place)


@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
@pytest.mark.parametrize("arguments", [[], ["-n"]])
def test_it_is_said_while_the_snakefile_is_read(arguments: list[str], tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    place = tmp_path / "results"
    place.mkdir()
    with mounts.fuse(place):
        keep_plan(campaign.plan, campaign.results)
        # -P: Snakemake looks for its plugins in each directory of sys.path
        interrupted([sys.executable, "-P", "-c", SNAKEMAKE, *campaign.command(*arguments)[1:]], place)


def interrupted(command: list[str], place: Path) -> None:
    """Run a command on a file system that hangs, and end it with Ctrl-C after its message."""
    os.kill(mounts.server(place), signal.SIGSTOP)
    said = place.with_name("said")
    with said.open("wb") as file:
        process = subprocess.Popen(command, cwd=place.parent, stdout=file, stderr=file)
    try:
        wait_for(lambda: "has not answered for 1 s" in said.read_text(), 100, over=process.poll)
        assert "results" in said.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(100) == -signal.SIGINT
    finally:
        process.kill()
        os.kill(mounts.server(place), signal.SIGCONT)


def test_signals_are_handled_again_when_it_answers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(hanging, "DEADLINE_S", 0.2)
    monkeypatch.setattr(os, "statvfs", lambda _: answers.wait(100))
    default = bytes(hanging._SIGACTION_BYTES)

    def now() -> bytes:
        """What SIGINT does."""
        import ctypes

        was = ctypes.create_string_buffer(hanging._SIGACTION_BYTES)
        ctypes.CDLL(None).sigaction(signal.SIGINT, None, was)
        return was.raw[:8]

    before = now()
    assert before != default[:8]
    with hanging.watched([tmp_path]):
        wait_for(lambda: now() == default[:8], 100)
        answers.set()
        wait_for(lambda: now() == before, 100)
    assert f"{tmp_path} has not answered for 0.2 s" in capfd.readouterr().err


def test_no_message_about_a_file_system_that_answers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(hanging, "DEADLINE_S", 0.2)
    with hanging.watched([tmp_path, tmp_path / "not there"]):
        threading.Event().wait(1)
    assert capfd.readouterr().err == ""
