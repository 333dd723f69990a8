"""Finding a tool on PATH: path, hash and version."""

import hashlib
import os
from pathlib import Path

import pytest

from iosweep.programs import find
from iosweep.programs.find import Program, UnusableTool
from iosweep.target.agent import Agent
from iosweep.tools import tools


def found(name: str = "fio") -> Program | UnusableTool:
    with Agent() as agent:
        return find.find(tools()[name], agent.run)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "fio"
    file.write_bytes(b"#!/bin/sh\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(find, "sha256", find.sha256.__wrapped__)  # asked once for each process
    return file


def test_the_hash_of_the_program(fake: Path) -> None:
    assert find.builds(["fio"]) == {"fio": hashlib.sha256(b"#!/bin/sh\n").hexdigest()}
    fake.unlink()
    assert find.builds(["fio"]) == {"fio": None}


def test_program_that_is_executable_but_not_readable(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    before = find.sha256("fio")
    assert before == f"unreadable, 10 bytes of {fake.stat().st_mtime_ns}"
    os.utime(fake, ns=(0, 0))
    assert find.sha256("fio") != before


@pytest.mark.local
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo fio-3.33", ("fio-3.33",)),
        ("echo 'fio-4.0-dirty and more'", ("fio-4.0-dirty",)),
        (":", ("unknown",)),
        (
            "echo fio-2.21",
            "{} cannot be used: fio-2.21 is too old; 3.18 or newer is needed; get another with apt-get install fio",
        ),
        ("echo fio-1.59", "{} cannot be used: fio-1.59 is too old"),
        ("echo no library >&2; exit 127", "{} does not run: exit code 127 no library"),
    ],
)
def test_version_and_failures_of_a_program(fake: Path, script: str, said: tuple[str] | str) -> None:
    fake.write_text(f"#!/bin/sh\n{script}\n")
    program = found()
    if isinstance(said, str):
        assert isinstance(program, UnusableTool)
        assert program.reason.startswith(said.format(fake))
        assert program.lasting == ("cannot be used" in said)  # what does not run now may run another time
    else:
        assert isinstance(program, Program)
        told = (program.path, program.sha256, program.version)
        assert told == (str(fake), hashlib.sha256(fake.read_bytes()).hexdigest(), said[0])


@pytest.mark.local
def test_replaced_program_is_noticed(fake: Path) -> None:
    """An update in the night: what is there now is not what was asked for its version."""
    fake.write_text("#!/bin/sh\necho fio-3.33\n")
    program = found()
    assert isinstance(program, Program)
    assert not program.replaced()
    os.utime(fake, ns=(1, 1))
    assert program.replaced()
    fake.unlink()
    assert program.replaced()


@pytest.mark.parametrize("name", tools())
def test_missing_program(fake: Path, name: str) -> None:
    fake.unlink()
    tool = tools()[name]
    assert found(name) == UnusableTool(f"{name} is not on PATH", f"get it with {tool.get_it}", lasting=True)
