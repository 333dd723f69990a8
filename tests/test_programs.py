"""Which build of a tool is on PATH."""

import hashlib
import os
from pathlib import Path

import pytest

from iosweep import programs


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
