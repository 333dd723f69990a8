"""What all commands have in common: usage, help, what they import, and how they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import iosweep
from campaign import TEXT
from iosweep.commands import cli
from iosweep.commands.terminal import write_output

Capture = pytest.CaptureFixture[str]


def ends(*arguments: str) -> object:
    with pytest.raises(SystemExit) as caught:
        cli.main(list(arguments))
    return caught.value.code


def test_wrong_usage_ends_with_2(capsys: Capture) -> None:
    for arguments in ([], ["nonsense"], ["plan", "--json", "--commands"], ["rerun"]):
        assert ends(*arguments) == 2, arguments
        assert "usage: iosweep" in capsys.readouterr().err


def test_every_command_has_help_and_what_only_the_rules_call_is_not_listed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    for command in cli.COMMANDS | cli.RULES:
        assert ends(command, "--help") == 0
        assert f"usage: iosweep {command} " in capsys.readouterr().out
    assert ends("--version") == 0
    assert capsys.readouterr().out == f"iosweep {iosweep.__version__}\n"
    monkeypatch.setenv("COLUMNS", "120")
    assert ends("--help") == 0
    said = capsys.readouterr().out
    listed = {line.split()[0] for line in said.splitlines() if line.startswith("    ")}
    assert {*cli.COMMANDS} <= listed and not {*cli.RULES} & listed
    assert said.partition("\npositional")[2] == snapshot


def test_an_output_replaces_a_file_and_goes_into_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"<!doctype html>before")
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    for name in ("file", "pipe"):
        write_output(tmp_path / name, lambda: b"<!doctype html>page", 2)
    assert os.read(pipe, 99) == (tmp_path / "file").read_bytes() == b"<!doctype html>page"
    os.close(pipe)


def test_results_are_not_for_everybody_to_write_whatever_the_umask(tmp_path: Path, capsys: Capture) -> None:
    for mask in (0, 0o077):
        before = os.umask(mask)
        assert ends("--version") == 0
        assert os.umask(before) == mask | 0o002


@pytest.mark.local
def test_help_imports_no_command() -> None:
    code = "import sys; sys.argv[1:] = ['--help']; from iosweep.commands import cli\n"
    code += "try: cli.main()\nexcept SystemExit: print(sorted(name for name in sys.modules if name[:7] == 'iosweep'))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    known = ["iosweep", "iosweep.commands", "iosweep.commands.cli", "iosweep.errors", "iosweep.text"]
    assert done.stdout.splitlines()[-1] == str(known)


@pytest.mark.local
def test_leaving_a_pager_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(TEXT.replace("repetitions: 1", "repetitions: 500"))
    argv = [sys.executable, "-m", "iosweep", "plan", "--commands", "x.yaml"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdout and running.stderr
        running.stdout.readline()
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 141)


@pytest.mark.local
def test_an_output_on_a_full_disk_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(TEXT)
    with Path("/dev/full").open("w") as full:
        argv = [sys.executable, "-m", "iosweep", "plan", "--json", "x.yaml"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, "the output cannot be written" in done.stderr) == (2, True)
