"""Removing what is on the target: trees as deep and as wide as they like, by several threads.

`remove` and `remove_all` run inside the agent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypedDict

from iosweep.errors import Refused
from iosweep.target.directory import MARKER, PARTS, PROBE, UNFINISHED, Opened, Place, shown
from iosweep.target.protocol import beat
from iosweep.target.trees import SENTENCES, side_by_side

#: Names of a directory that are held at a time, and how many of them a thread removes at once.
_HELD, _TAKEN = 10_000, 32
_FOREIGN = "iosweep did not make it; it is left alone"


class Removed(TypedDict):
    """What a removal did. `left`: it stopped at its time limit; `wrong`: up to 5 sentences on entries that stay."""

    files: int
    directories: int
    bytes: int
    left: bool
    wrong: list[str]


def remove(place: Place, below: str, seconds: float | None = None, workers: int = 8) -> Removed:
    """Remove a tree below the campaign's directory.

    `workers`: threads that wait for the file system side by side.
    """
    if {"", ".", ".."} & set(below.split("/")):
        raise Refused(f"`{below}` names nothing below {place.directory}")
    return _removed(place, seconds, workers, lambda removal: removal.tree(below))


def remove_all(place: Place, seconds: float | None = None, workers: int = 8) -> Removed:
    """Remove the campaign's directory with what iosweep made in it; see `remove`."""
    return _removed(place, seconds, workers, _Removal.everything)


def _removed(place: Place, seconds: float | None, workers: int, act: Callable[[_Removal], None]) -> Removed:
    with contextlib.suppress(FileNotFoundError), Opened(place) as ours, _Removal(ours, seconds, workers) as removal:
        act(removal)
        return removal.removed
    return _nothing()


def _nothing() -> Removed:
    return {"files": 0, "directories": 0, "bytes": 0, "left": False, "wrong": []}


class _Removal:
    """Removes trees level by level: first all files, then the directories, the deepest first.

    Several threads list directories, and several more remove the files of wide ones. Use as a context manager.
    """

    def __init__(self, ours: Opened, seconds: float | None, workers: int):
        self._ours = ours
        self._end = float("inf") if seconds is None else time.monotonic() + seconds
        self._listing, self._unlinking = ThreadPoolExecutor(workers), ThreadPoolExecutor(workers)
        self._lock = threading.Lock()
        self._failed: set[str] = set()
        self.removed = _nothing()

    def __enter__(self) -> _Removal:
        return self

    def __exit__(self, *_: object) -> None:
        self._listing.shutdown()
        self._unlinking.shutdown()

    def everything(self) -> None:
        """Remove the campaign's directory. The marker goes last: what a kill leaves is still ours."""
        top, parent, name = self._ours.handle, self._ours.parent, self._ours.name
        for entry in sorted(os.listdir(top)):
            if entry in PARTS:
                self.tree(entry)
            elif entry not in (MARKER, UNFINISHED):
                self._stays(entry, _FOREIGN)
        if self._is_complete:
            self._unlink(top, "", [UNFINISHED, MARKER])
        # another directory may have its name by now
        if self._is_complete and os.path.samestat(os.fstat(top), os.stat(name, dir_fd=parent, follow_symlinks=False)):
            self._rmdir(parent, name, name)

    def tree(self, path: str) -> None:
        """Remove a directory with all that is below it."""
        levels = [[path]]
        while level := levels[-1]:
            levels.append([below for found in side_by_side(self._empty, level, self._listing) for below in found])
        for level in reversed(levels):
            side_by_side(self._close, level, self._listing)

    @property
    def _is_complete(self) -> bool:
        """Whether nothing stays so far."""
        return not (self.removed["left"] or self.removed["wrong"])

    def _stays(self, path: str, why: str) -> None:
        with self._lock:
            self._failed.add(path)
            if len(self.removed["wrong"]) < SENTENCES:
                self.removed["wrong"].append(f"{shown(path)}: {why}")

    def _empty(self, path: str) -> list[str]:
        """Remove the files of a directory; returns the directories in it."""
        directories: dict[str, None] = {}
        try:
            with self._ours.below(path) as handle:
                while self._pass(handle, path, directories):
                    pass
        except FileNotFoundError:
            pass
        except (OSError, Refused) as error:
            self._stays(path, _why(error))
        return [f"{path}/{name}" for name in directories]

    def _pass(self, handle: int, path: str, directories: dict[str, None]) -> bool:
        """Read a directory once, and remove its files; returns whether it has to be read again: some file systems skip
        entries of a directory that changes while it is read."""
        with os.scandir(handle) as entries:
            some = gone = 0
            while batch := list(islice(entries, _HELD)):
                some += 1
                files = []
                for entry in batch:
                    beat()
                    if entry.is_dir(follow_symlinks=False):
                        directories[entry.name] = None
                    elif path in PARTS and entry.is_file(follow_symlinks=False) and not entry.name.startswith(PROBE):
                        self._stays(f"{path}/{entry.name}", _FOREIGN)  # tools write into directories of a part
                    else:
                        files.append(entry.name)
                parts = [files[first : first + _TAKEN] for first in range(0, len(files), _TAKEN)]
                gone += sum(side_by_side(lambda names: self._unlink(handle, path, names), parts, self._unlinking))
        return some > 1 and gone > 0 and not self.removed["left"]

    def _unlink(self, handle: int, path: str, names: Sequence[str]) -> int:
        """Remove files of an open directory, or links themselves; returns how many."""
        files = size = 0
        for name in names:
            if time.monotonic() > self._end:
                self.removed["left"] = True
                break
            beat()
            with self._failure(f"{path}/{name}"):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                os.unlink(name, dir_fd=handle)
                files += 1
                size += status.st_blocks * 512 if status.st_nlink == 1 else 0
        with self._lock:
            self.removed["files"] += files
            self.removed["bytes"] += size
        return files

    def _close(self, path: str) -> None:
        """Remove an empty directory below the campaign's."""
        above, _, name = path.rpartition("/")
        if path in self._failed:
            return
        with self._failure(path), self._ours.below(above) as outer:
            self._rmdir(outer, name, path)

    def _rmdir(self, parent: int, name: str, path: str) -> None:
        """Remove an empty directory, unless the time is over."""
        if time.monotonic() > self._end:
            self.removed["left"] = True
        if not self.removed["left"]:
            beat()
            with self._failure(path):
                os.rmdir(name, dir_fd=parent)
                with self._lock:
                    self.removed["directories"] += 1

    @contextlib.contextmanager
    def _failure(self, path: str) -> Iterator[None]:
        """Note an entry that stays; another process may have removed it."""
        try:
            yield
        except FileNotFoundError:
            pass
        except (OSError, Refused) as error:
            if not (self._failed and isinstance(error, OSError) and error.errno == errno.ENOTEMPTY):
                self._stays(path.lstrip("/"), _why(error))


def _why(error: OSError | Refused) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
