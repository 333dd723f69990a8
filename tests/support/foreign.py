"""Files of other people, of every kind, beside what a campaign writes; and whether anything of them has changed."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any


def plant(*directories: Path) -> None:
    """Make them in each of these directories, below `foreign`."""
    for directory in directories:
        foreign = directory / "foreign"
        foreign.mkdir(parents=True)
        (foreign / "precious").write_bytes(b"x" * 5000)
        (foreign / "secret").mkdir(mode=0)
        os.mkfifo(foreign / "pipe")
        (foreign / "link").symlink_to(foreign / "precious")
        (foreign / "nowhere").symlink_to("/nonexistent")
        (foreign / os.fsdecode(b"\xff\n-rf")).write_bytes(b"")


def states(top: Path, ours: Path | None = None) -> dict[Path, Any]:
    """Everything below a directory, itself included; without what is in `ours`."""
    found: dict[Path, Any] = {}
    for directory, folders, files in os.walk(top):
        here = Path(directory)
        if ours is not None and here == ours.parent:
            folders[:] = [name for name in folders if name != ours.name]
        found |= {path: _state(path) for path in (here, *(here / name for name in folders + files))}
    return found


def _state(path: Path) -> tuple[Any, ...]:
    status = path.lstat()
    content: Any = None
    if stat.S_ISREG(status.st_mode):
        content = status.st_size, hashlib.sha256(path.read_bytes() if status.st_size < 1 << 20 else b"").digest()
    elif stat.S_ISLNK(status.st_mode):
        content = path.readlink()
    return status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content
