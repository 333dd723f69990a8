"""Removing what is on the target: trees as deep and as wide as they like, in parallel where the file system is slow.

`remove` and `remove_all` run inside the agent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypedDict

from iosweep.errors import Refused
from iosweep.node import procfs
from iosweep.target.directory import MARKER, UNFINISHED, Opened, Place, is_probe, shown
from iosweep.target.protocol import beat
from iosweep.target.trees import SENTENCES, Directory, Tree

#: Names of a directory that are held at a time, and how many of them a thread takes at once.
_HELD, _TAKEN = 10_000, 32
#: Seconds that a step may take before it is done by several threads. They wait side by side, but do not work faster.
_SLOW = 100e-6


#: Directories that we make in the campaign's, and in which we make directories only.
PARTS = frozenset({"sets", "fresh", "kept"})


class Foreign(OSError):
    """An entry that is not ours."""

    def __init__(self, why: str):
        super().__init__(errno.EPERM, f"{why}; it is left alone")


def by_name(way: Sequence[str], name: str, mode: int) -> str | None:
    """Why an entry is not one that we make, or None. Pure.

    `way`: the directories from the campaign's to the entry. Two levels down, tools give the names. A link in a part is
    removed as it is: it holds nothing, and is not followed.
    """
    kind = stat.S_IFMT(mode)
    ours = True
    if not way:
        ours = name in PARTS if kind == stat.S_IFDIR else name in (MARKER, UNFINISHED) or is_probe(name)
    elif len(way) == 1 and way[0] in PARTS:
        ours = kind in (stat.S_IFDIR, stat.S_IFLNK)
    return None if ours else "iosweep did not make it"


def by_owner(uid: int) -> str:
    return f"it belongs to user {procfs.user_name(uid)}"


def foreign(count: int) -> str:
    """A sentence on foreign entries, for the end of a removal. Pure."""
    many = f"{count} entries that iosweep did not make were" if count > 1 else "1 entry that iosweep did not make was"
    return f"{many} found, and left alone"


class Removed(TypedDict):
    """What a removal did. `linked`: files with other names, which stay; `left`: it stopped at its time limit; `wrong`:
    up to 5 sentences on entries that stay; `foreign`: how many of them are not ours."""

    files: int
    directories: int
    bytes: int
    linked: int
    left: bool
    wrong: list[str]
    foreign: int


def remove(place: Place, below: str, seconds: float | None = None, workers: int = 8) -> Removed:
    """Remove a tree below the campaign's directory.

    `workers`: threads at most; they wait for the file system side by side.
    """
    above, _, name = below.rpartition("/")
    if name in ("", ".", ".."):
        raise Refused(f"`{below}` names nothing below {place.directory}")
    removal = _Removal(below, seconds)
    with contextlib.suppress(FileNotFoundError), Opened(place, tools=False) as ours:
        removal.spare(ours)
        with ours.below(above) as outer:
            with ours.below(below) as inner:
                removal.empty(inner, workers)
            removal.last(os.rmdir, name, outer)
    return removal.removed


def remove_all(place: Place, seconds: float | None = None, workers: int = 8) -> Removed:
    """Remove the campaign's directory with all that is in it; see `remove`.

    The marker goes last: what a kill leaves is still ours.
    """
    removal = _Removal("", seconds)
    with contextlib.suppress(FileNotFoundError), Opened(place, tools=False) as ours:
        removal.spare(ours)
        removal.empty(ours.handle, workers, spared=[MARKER])
        removal.last(os.unlink, MARKER, ours.handle)
        if os.path.samestat(os.fstat(ours.handle), os.stat(ours.name, dir_fd=ours.parent, follow_symlinks=False)):
            removal.last(os.rmdir, ours.name, ours.parent)
    return removal.removed


class _Removal:
    """Empties a directory: with one thread, and with more as soon as it is seen to wait.

    Tasks are taken from a stack: to list a directory, or to remove some entries of it. The last task of a directory
    removes it; that was a task of its parent. Where more was there than was listed, it is listed again.
    """

    def __init__(self, where: str, seconds: float | None):
        """`where`: what it is called in sentences."""
        self._where = where
        self._end = float("inf") if seconds is None else time.monotonic() + seconds
        self.removed: Removed = {
            "files": 0,
            "directories": 0,
            "bytes": 0,
            "linked": 0,
            "left": False,
            "wrong": [],
            "foreign": 0,
        }
        self._todo: list[tuple[Directory, Sequence[str]]] = []
        self._busy = 0
        self._waited = self._steps = 0.0
        self._threads: list[Future[None]] = []
        self._turn = threading.Condition()
        self._mounts: Collection[str] = ()
        self._is_mine: Callable[[int], bool] = lambda _: True

    def spare(self, ours: Opened) -> None:
        """Leave alone what is mounted in the campaign's directory, and what belongs to other users."""
        self._mounts, self._is_mine = frozenset(ours.mounts), ours.is_mine

    def empty(self, top: int, workers: int, spared: Collection[str] = ()) -> None:
        """Remove all that is in an open directory but what is spared."""
        self._tree = Tree(top)
        self._todo.append((Directory(failed=spared), ()))
        self._most = workers
        with ThreadPoolExecutor(workers) as self._pool:
            self._work()
            while self._threads:
                self._threads.pop().result()

    def last(self, how: Callable[..., None], name: str, handle: int) -> None:
        """Remove what could only be removed after all the rest, if that is gone."""
        if self.removed["left"] or self.removed["wrong"]:
            return
        try:
            how(name, dir_fd=handle)
            self.removed["files" if how is os.unlink else "directories"] += 1
        except FileNotFoundError:
            pass
        except OSError as error:
            self.removed["wrong"].append(f"{shown(str(Path(self._where, name)))}: {error.strerror}")

    def _work(self) -> None:
        while task := self._take():
            directory, names = task
            started = time.monotonic()
            try:
                steps = self._unlink(directory, names) if names else self._list(directory)
            finally:
                with self._turn:
                    self._busy -= 1
                    if not self._busy:
                        self._turn.notify_all()
            with self._turn:
                self._waited += time.monotonic() - started
                self._steps += steps
                if self._waited > _SLOW * self._steps and len(self._threads) < min(self._most - 1, len(self._todo)):
                    with contextlib.suppress(RuntimeError):  # no more threads are to be had
                        self._threads.append(self._pool.submit(self._work))

    def _take(self) -> tuple[Directory, Sequence[str]] | None:
        with self._turn:
            while not self._todo and self._busy:
                self._turn.wait()
            if not self._todo or self.removed["left"]:
                return None
            if time.monotonic() > self._end:
                self.removed["left"] = True
                return None
            self._busy += 1
            return self._todo.pop()

    def _list(self, directory: Directory) -> int:
        """See what is in a directory, and make tasks of it."""
        files: list[str] = []
        directories: list[str] = []
        others = 0
        try:
            handle = self._tree.handle(directory)
            if not self._is_mine(uid := os.fstat(handle.number).st_uid):
                raise Foreign(by_owner(uid))
            way = Path(self._path(directory)).parts
            with os.scandir(handle.number) as entries:
                for entry in islice((e for e in entries if e.name not in directory.failed), _HELD):
                    beat()
                    if len(way) < 2 and (why := by_name(way, entry.name, entry.stat(follow_symlinks=False).st_mode)):
                        self._fail(directory, Foreign(why), entry.name)
                        others += 1
                        continue
                    (directories if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
        except OSError as error:
            self._fail(directory, error)
        directory.more = len(files) + len(directories) + others == _HELD
        tasks: list[tuple[Directory, Sequence[str]]] = [(Directory(directory, name), ()) for name in directories]
        tasks += [(directory, files[first : first + _TAKEN]) for first in range(0, len(files), _TAKEN)]
        if tasks:
            directory.tasks = len(tasks)
            self._push(tasks)
        else:
            self._close(directory, empty=True)
        return 1 + len(files) + len(directories)

    def _unlink(self, directory: Directory, names: Sequence[str]) -> int:
        """Remove some entries of a directory that are no directories themselves."""
        files = size = linked = 0
        try:
            handle = self._tree.handle(directory)
        except OSError as error:
            self._fail(directory, error)
            names = ()
        for name in names:
            if time.monotonic() > self._end:
                self.removed["left"] = True
                break
            beat()
            try:
                if self._mounts and self._path(directory, name) in self._mounts:
                    raise OSError(errno.EBUSY, "a mount point, it is left alone")
                status = os.stat(name, dir_fd=handle.number, follow_symlinks=False)
                if not self._is_mine(status.st_uid):
                    raise Foreign(by_owner(status.st_uid))
                os.unlink(name, dir_fd=handle.number)
            except OSError as error:
                self._fail(directory, error, name)
                continue
            files += 1
            if status.st_nlink == 1:
                size += status.st_blocks * 512
            linked += status.st_nlink > 1
        with self._turn:
            self.removed["files"] += files
            self.removed["bytes"] += size
            self.removed["linked"] += linked
            directory.tasks -= 1
            last = not directory.tasks and not self.removed["left"]
        if last:
            self._close(directory)
        return len(names)

    def _close(self, directory: Directory, empty: bool = False) -> None:
        """All that was listed of a directory is dealt with; `empty`: nothing was. Remove it, or list it again."""
        while True:
            parent = directory.parent
            if not empty and (directory.more or not parent) and len(directory.failed) < _HELD:
                self._push([(directory, ())])
                return
            if not parent:
                return
            if directory.failed:
                parent.failed.add(directory.name)
            else:
                beat()
                try:
                    os.rmdir(directory.name, dir_fd=self._tree.handle(parent).number)
                    with self._turn:
                        self.removed["directories"] += 1
                except OSError as error:
                    if error.errno == errno.ENOTEMPTY and not empty:  # not all was listed, or entries are added
                        self._push([(directory, ())])
                        return
                    self._fail(parent, error, directory.name)
            self._tree.forget(directory)
            with self._turn:
                parent.tasks -= 1
                if parent.tasks:
                    return
            directory, empty = parent, False

    def _push(self, tasks: Sequence[tuple[Directory, Sequence[str]]]) -> None:
        with self._turn:
            self._todo += tasks
            self._turn.notify(len(tasks))

    def _fail(self, directory: Directory, error: OSError, name: str = "") -> None:
        """An entry of a directory stays, or (without a name) what is in it; unless another process has removed it."""
        if isinstance(error, FileNotFoundError):
            return
        directory.failed.add(name)
        path = shown(self._path(directory, name))
        with self._turn:
            if len(self.removed["wrong"]) < SENTENCES:
                self.removed["wrong"].append(f"{path}: {error.strerror}")
            self.removed["foreign"] += isinstance(error, Foreign)

    def _path(self, directory: Directory, name: str = "") -> str:
        return str(Path(self._where, directory.path(name)))
