"""A results file system that does not answer."""

import asyncio
import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mounts
from campaign import Campaign, keep_plan
from iosweep.files import hanging, waiting
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
from iosweep.files import hanging, waiting
from snakemake.cli import main
hanging.DEADLINE_S = 1.0
sys.exit(main())
"""


@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
@pytest.mark.parametrize(
    "command",
    [
        ["check", "c"],
        ["list"],
        ["show", "c"],
        ["report", "c"],
        ["repair", "results/c/repairs/0123456789ab"],
        ["repair", "results/c/repairs/0123456789ab", "--log", "results/c/logs/x.log"],
        ["parse", "fio", "results/c/x.json"],
    ],
)
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


@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
@pytest.mark.parametrize("command", [["list"], ["rerun", "x"]])
def test_it_is_said_of_a_campaign_that_is_a_link(command: list[str], tmp_path: Path) -> None:
    """The file system that hangs is not that of `results`, which answers."""
    place = tmp_path / "results-elsewhere"
    place.mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "c").symlink_to(place / "c")
    with mounts.fuse(place):
        (place / "c" / "plans").mkdir(parents=True)
        interrupted([sys.executable, "-c", CODE, *command], place)


@pytest.mark.skipif(bool(mounts.missing()), reason="mounts need root")
def test_it_is_said_while_a_rule_runs(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    place = tmp_path / "results"
    place.mkdir()
    with mounts.fuse(place):
        interrupted([sys.executable, "-P", "-c", SNAKEMAKE, *campaign.command()[1:]], place, "plan: ")


def test_a_thread_that_waits_for_no_file_is_not_taken_for_one_that_does() -> None:
    reading, writing = os.pipe()
    for wait in (lambda: os.read(reading, 1), threading.Event().wait):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert waiting.call(thread.native_id or 0) is None
    os.write(writing, b"x")


def test_the_file_of_a_system_call_is_named(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    path = ctypes.create_string_buffer(b"results/c/plans")
    number, at = {"x86_64": (217, 257), "aarch64": (61, 56)}[platform.machine()]
    address = hex(ctypes.addressof(path))
    assert waiting.file(f"{number} {handle:#x} 0x1 0x2") == tmp_path
    assert waiting.file(f"{at} {handle:#x} {address} 0x2") == tmp_path / "results/c/plans"
    assert waiting.file(f"{at} 0xffffff9c {address} 0x2") == Path("results/c/plans")
    assert waiting.file(f"{at} 0xffffff9c 0x0 0x2") == Path()
    assert waiting.file("running") is None
    os.close(handle)


def interrupted(command: list[str], place: Path, when: str = "") -> None:
    """Run a command on a file system that hangs, from the start or once it prints `when`, and end it with Ctrl-C after
    its message."""
    said = place.with_name("said")
    if not when:
        os.kill(mounts.server(place), signal.SIGSTOP)
    with said.open("wb") as file:
        process = subprocess.Popen(command, cwd=place.parent, stdout=file, stderr=file)
    try:
        wait_for(lambda: when in said.read_text(), 100, over=process.poll)
        os.kill(mounts.server(place), signal.SIGSTOP)
        wait_for(lambda: "has not answered for 1 s" in said.read_text(), 100, over=process.poll)
        assert "results" in said.read_text()
        process.send_signal(signal.SIGINT)
        assert ended(process, place) == -signal.SIGINT
    finally:
        process.kill()
        os.kill(mounts.server(place), signal.SIGCONT)


def ended(process: subprocess.Popen[bytes], place: Path) -> int:
    """The exit code. Where the server had taken the request when it was stopped, only its answer ends the wait."""
    try:
        return process.wait(20)
    except subprocess.TimeoutExpired:
        threads = Path(f"/proc/{process.pid}/task").glob("*/stat")
        assert "D" in [file.read_text().rpartition(") ")[2][0] for file in threads]
        os.kill(mounts.server(place), signal.SIGCONT)
        return process.wait(100)


def test_signals_are_handled_again_when_it_answers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(hanging, "DEADLINE_S", 0.2)
    monkeypatch.setattr(os, "statvfs", lambda _: answers.wait(100))
    default = bytes(hanging._SIGACTION_BYTES)

    def now() -> bytes:
        """What SIGINT does."""
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


def test_a_loop_of_asyncio_does_not_take_ctrl_c_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Snakemake runs many, and each sets a handler of SIGINT."""
    answers = threading.Event()
    monkeypatch.setattr(hanging, "DEADLINE_S", 0.2)
    monkeypatch.setattr(os, "statvfs", lambda _: answers.wait(100))
    with hanging.watched([tmp_path]):
        wait_for(lambda: not _sigint_is_handled(), 100)
        asyncio.run(asyncio.sleep(0))
        wait_for(lambda: not _sigint_is_handled(), 5)
        answers.set()
        wait_for(_sigint_is_handled, 100)


def _sigint_is_handled() -> bool:
    was = ctypes.create_string_buffer(hanging._SIGACTION_BYTES)
    ctypes.CDLL(None).sigaction(signal.SIGINT, None, was)
    return hanging._handled(was)


@pytest.mark.parametrize("opened", [False, True])
def test_no_message_about_a_named_pipe(opened: bool, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = CODE.replace("= 1.0", "= 0.1; hanging._PATIENT = 2")
    command = [sys.executable, "-c", code, "parse", "fio", str(pipe)]
    with (tmp_path / "said").open("wb") as file:
        process = subprocess.Popen(command, stderr=file)
    writer = os.open(pipe, os.O_RDWR) if opened else None
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4)
        assert (tmp_path / "said").read_text() == ""
    finally:
        process.kill()
        process.wait()
        if writer is not None:
            os.close(writer)
