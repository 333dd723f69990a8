"""Which build of a tool is on PATH."""

import hashlib
import os
from pathlib import Path

import pytest

from iosweep import programs
from iosweep.programs import Program
from iosweep.tools import tools


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "fio"
    file.write_bytes(b"#!/bin/sh\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "sha256", programs.sha256.__wrapped__)  # asked once for each process
    return file


def test_the_hash_of_the_program(fake: Path) -> None:
    assert programs.builds(["fio"]) == {"fio": hashlib.sha256(b"#!/bin/sh\n").hexdigest()}
    fake.unlink()
    assert programs.builds(["fio"]) == {"fio": None}


def test_a_program_that_may_only_be_run(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    before = programs.sha256("fio")
    assert before == f"unreadable, 10 bytes of {fake.stat().st_mtime_ns}"
    os.utime(fake, ns=(0, 0))
    assert programs.sha256("fio") != before


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo fio-3.33", Program("{}", "", "fio-3.33")),
        ("echo 'fio-4.0-dirty and more'", Program("{}", "", "fio-4.0-dirty")),
        (":", Program("{}", "", "unknown")),
        (
            "echo fio-2.21",
            "{} cannot be used: fio-2.21 is too old; 3.2 or newer is needed; get another with apt-get install fio",
        ),
        ("echo fio-1.59", "{} cannot be used: fio-1.59 is too old"),
        ("echo no library >&2; exit 127", "{} does not run: exit code 127 no library"),
    ],
)
def test_what_a_program_says_of_itself(fake: Path, script: str, found: Program | str) -> None:
    fake.write_text(f"#!/bin/sh\n{script}\n")
    program = programs.find(tools()["fio"])
    if isinstance(found, str):
        assert str(program).startswith(found.format(fake))
    else:
        assert program == Program(str(fake), hashlib.sha256(fake.read_bytes()).hexdigest(), found.version)


@pytest.mark.parametrize("name", tools())
def test_a_program_that_is_not_there(fake: Path, name: str) -> None:
    fake.unlink()
    tool = tools()[name]
    assert programs.find(tool) == f"{name} is not on PATH; get it with {tool.get_it}"
