"""A target with somebody else's files on it, and what tests do to it: other users, mounts, listings."""

import contextlib
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import trees
from iosweep.target.directory import Place

OWNER = {
    "uuid": "6ed6b26b-55a8-4ac1-a9bb-93a5cb3a4a31",
    "uid": 1000,
    "host": "h",
    "results": "/home/me/results/c",
    "campaign": "c",
}

#: A user who is not root; his name does not matter.
OTHER = 12345
#: As whom servers show root (root_squash).
NOBODY = 65534

as_root = pytest.mark.skipif(os.getuid() != 0, reason="root: mounts, and files of other users")


@contextlib.contextmanager
def mounted(*command: str) -> Iterator[None]:
    """Run a command that mounts at its last argument, and unmount."""
    Path(command[-1]).mkdir(exist_ok=True)
    subprocess.run(command, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", command[-1]], check=True)


def make_place(place: Path) -> Path:
    """The target, with somebody else's files beside ours."""
    (place / "theirs" / "deep").mkdir(parents=True)
    (place / "theirs" / "deep" / "precious").write_text("x")
    (place / "precious").write_text("y")
    return place


def listing(place: Path, all: bool = False) -> list[tuple[Any, ...]]:
    """Everything on the target but ours (with it if told): names, types, modes, contents, times."""
    found = []
    for path in sorted(place.rglob("*")):
        if all or not path.relative_to(place).parts[0].startswith("iosweep-"):
            s = path.lstat()
            found.append(
                (path, s.st_mode, s.st_mtime_ns, s.st_ino, path.read_bytes() if stat.S_ISREG(s.st_mode) else b"")
            )
    return found


def refusal(step: Callable[[], object]) -> str:
    """The words in which a step is refused."""
    try:
        step()
    except Refused as error:
        return str(error)
    return "it was not refused"


def names(directory: str | Path) -> list[str]:
    return sorted(f.name for f in Path(directory).iterdir())


def marker_in(directory: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(directory) / "iosweep.json").read_text())
    return found


def at(directory: str | Path) -> Place:
    """The campaign's directory, as operations take it; by the marker that is there."""
    try:
        uuid = str(marker_in(str(directory)).get("uuid"))
    except (OSError, ValueError):
        uuid = "none"
    return Place(str(directory), uuid)


def made(place: Place, below: str) -> Path:
    """A directory below the campaign's, made as the agent makes it."""
    return Path(trees.make_directories(place, [below])[0])


def marked(directory: Path) -> Place:
    """A directory with a marker, as if it had been claimed."""
    content = OWNER | {"uuid": "u", "campaign": directory.name.removeprefix("iosweep-")}
    (directory / "iosweep.json").write_text(json.dumps(content))
    return at(directory)


@contextlib.contextmanager
def everybodys() -> Iterator[Path]:
    """A target that every user sees and may write to, unlike pytest's own directories."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o1777)
        yield Path(made)
