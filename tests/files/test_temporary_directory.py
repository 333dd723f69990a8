"""Temporary directories go with their process; what a killed one left is removed by the next, and nothing else is."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from iosweep.files import temporary_directory

HOLDS = """
import sys
from iosweep.files import temporary_directory
with temporary_directory.made("test") as place:
    print(place, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def old(directory: Path) -> Path:
    os.utime(directory, (1, 1))
    return directory


def test_it_is_removed_at_the_end(place: Path) -> None:
    with temporary_directory.made("test") as made:
        (made / "x").write_text("x")
        assert list(place.iterdir()) == [made]
    assert not list(place.iterdir())


@pytest.mark.local
def test_what_a_killed_process_left_is_removed(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        left = old(Path(process.stdout.readline().strip()))
        with temporary_directory.made("test"):
            assert left.exists()  # its process lives
        process.send_signal(signal.SIGKILL)
        process.wait()
    with temporary_directory.made("other"):
        assert left.exists()
    with temporary_directory.made("test"):
        assert not left.exists()


def test_nothing_else_is_removed(place: Path) -> None:
    (new := place / "iosweep-test-new").mkdir(mode=0o700)
    open_ = old(place / "iosweep-test-open") if (place / "iosweep-test-open").mkdir() is None else None
    (aim := place / "aim").mkdir(mode=0o700)
    (link := place / "iosweep-test-link").symlink_to(old(aim))
    (file := place / "iosweep-test-file").write_text("x")
    os.utime(file, (1, 1))
    with temporary_directory.made("test"):
        pass
    assert open_
    assert all(path.exists() for path in (new, open_, aim, link, file))
