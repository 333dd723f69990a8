"""MooseFS keeps deleted files for a day, unless that is turned off. Its command is a stand-in here."""

import shlex
from pathlib import Path

import pytest

from iosweep.target import layout
from targets import at, marked


@pytest.mark.local
def test_it_is_turned_off_for_the_campaigns_directory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, programs = tmp_path / "iosweep-c", tmp_path / "bin"
    directory.mkdir()
    programs.mkdir()
    marked(directory)
    monkeypatch.setenv("PATH", str(programs))
    assert layout.keep_nothing(at(str(directory))) == "mfssettrashtime is not on PATH"
    command = programs / "mfssettrashtime"
    command.write_text(f'#!/bin/sh\necho "$@" >{shlex.quote(str(tmp_path / "called"))}\n')
    command.chmod(0o755)
    assert layout.keep_nothing(at(str(directory))) is None
    assert (tmp_path / "called").read_text() == f"0 {directory}\n"
    command.write_text("#!/bin/sh\necho no such mount >&2\nexit 1\n")
    assert layout.keep_nothing(at(str(directory))) == "`mfssettrashtime 0` ended with exit code 1: no such mount"
