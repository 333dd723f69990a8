"""The one way into the campaign's directory on the target: opened once per step, checked, and all else from there.

A directory of this name may be another one by now: renamed, swapped by another user, or covered by a mount. So every
operation that reads, writes or deletes below it takes a `Place` and goes through `Opened`. This runs inside the agent.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from iosweep.errors import Refused
from iosweep.target import filesystem, mounts, parents
from iosweep.target.accounts import user
from iosweep.target.marker import check_marker, shown
from iosweep.target.mounts import live, mount_of, without_password
from iosweep.target.ownership import DIRECTORY, TARGET, open_entry, uid_there
from iosweep.text import printable


class Place(NamedTuple):
    """The campaign's directory, as every operation of the agent takes it (over the socket: a list).

    directory: its absolute path. uuid: of its marker. file_system: filesystem.identity of what it was claimed on; ""
    where that is not known. trusting: target.trust_other_writers.
    """

    directory: str
    uuid: str
    file_system: str = ""
    trusting: bool = False


#: What was seen of places: their device and mount, and how often the table of mounts had changed by then (the kernel
#: gives both numbers to another file system after an unmount); and our user id on devices.
_seen: dict[Place, tuple[int, int, int]] = {}
_uid_on: dict[int, int] = {}


class Opened:
    """The campaign's directory, open: `handle`; `parent` is the directory that it is in. Use as a context manager.

    It is not a link or a mount point, belongs to us, has the marker, and is on the file system that it was claimed
    on. `use`: "tools" will follow paths into it, so no other user may control the way to it, and nothing may be
    mounted below it; to "remove" and to "read", everything is opened from the handle, and what is mounted below is in
    `mounts`, by its path from here. To read, it may be another user's. "preview" of a removal: the same checks, but
    nothing is written.

    Raises Refused, and OSError where it is not there or the file system fails.
    """

    def __init__(self, place: Place, use: Literal["tools", "remove", "preview", "read"] = "tools"):
        self.place = place
        self.directory = self.place.directory
        outer, self.name = os.path.split(self.directory)
        self.handle = -1
        # to remove goes by handles, which lead nowhere else
        self._others_may_own = use != "tools" or (place.trusting and not parents.privileged())
        way = parents.walk(outer) if use == "tools" else parents.Way(os.open(outer, TARGET))
        self.parent = way.handle
        try:
            self.handle = open_entry(self.parent, self.name, self.directory)
            self._suspects = way.suspects
            if use == "tools":
                status = os.fstat(self.handle)
                if status.st_mode & 0o022 and not parents.only_ours(status, self.handle):  # root's: we cannot shut it
                    self._suspects.append(parents.written(self.directory, status))
                if not parents.ours_alone(status.st_uid, self.handle):
                    self._suspects.append(parents.gives_away(outer, self.handle, status.st_uid))
            self._check(use)
            if use == "tools" and self.mounts:
                raise Refused(
                    f"`{shown(self.mounts[0])}` in {self.directory} is a mount point; it is left alone, and nothing is"
                    " measured beside it: unmount it"
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for handle in (self.handle, self.parent):
            if handle >= 0:
                os.close(handle)
        self.handle = self.parent = -1

    def _check(self, use: str) -> None:
        self.mount, table = mount_of(self.handle), live().now()
        real = os.readlink(f"/proc/self/fd/{self.handle}")  # noqa: PTH115 - on the way of every step, and twice as fast
        if mount_of(self.parent) != self.mount:
            raise Refused(f"{self.directory} is a mount point; it is left alone")
        status = os.fstat(self.handle)
        now = status.st_dev, self.mount, live().changes
        if _seen.get(self.place) != now:  # at first, and when anything was mounted or unmounted
            here = identity_of(self.handle)
            if self.place.file_system and here != self.place.file_system:
                raise Refused(
                    f"{self.directory} is on another file system than when it began ({shown(here)}, and it was"
                    f" {shown(self.place.file_system)}); is the target still mounted?"
                )
            _seen[self.place] = now
        check_marker(self.handle, self.directory, self.place.uuid)
        self.owner = status.st_uid
        if use != "read" and self.owner not in (0, os.getuid()) and not self._may_be_ours(use, status.st_dev):
            raise Refused(f"{self.directory} belongs to {user(self.owner)} now; it is left alone")
        if not self._others_may_own and (others := list(self._others(self._suspects, status))):
            raise Refused(parents.refusal(others))
        inside = f"{real}/"
        below = (m.point for m in table.values() if m.parent == self.mount and m.point.startswith(inside))
        self.mounts = [point.removeprefix(inside) for point in below]

    def _may_be_ours(self, use: str, device: int) -> bool:
        """Whether its owner may be what the file system maps us to: only a file that is made there shows that."""
        if use != "preview":
            return self.owner == _our_uid(self.handle, device)
        mount = mounts.of(self.handle)
        return filesystem.several_names({"fstype": mount.fstype, "source": mount.source})

    def is_mine(self, uid: int) -> bool:
        """Whether what belongs to this user id is ours: NFS may map our id to another one."""
        if uid in (self.owner, os.getuid()):
            return True
        if uid != _our_uid(self.handle, os.fstat(self.handle).st_dev):
            return False
        return self._others_may_own or parents.ours_alone(uid, self.handle)

    def _others(self, suspects: Sequence[parents.Suspect], status: os.stat_result) -> Iterator[parents.Suspect]:
        """Directories that other users control. Our own id on the file system may be another one than here (NFS)."""
        for suspect in suspects:
            if suspect.device != status.st_dev or suspect.uid != _our_uid(self.handle, status.st_dev):
                yield suspect

    def trusted(self) -> list[str]:
        """Which other users could put another directory in its place, and are trusted not to."""
        return [suspect.fact for suspect in self._others(self._suspects, os.fstat(self.handle))]

    @contextmanager
    def below(self, path: str, create: bool = False) -> Iterator[int]:
        """A directory below, open; no component may be a symbolic link, a mount point or another user's."""
        handle = self._open_below(path, create)
        try:
            yield handle
        finally:
            os.close(handle)

    def _open_below(self, path: str, create: bool) -> int:
        parts = [part for part in path.split("/") if part]
        if {".", ".."} & set(parts):
            raise Refused(f"`{path}` names nothing below {self.directory}")
        handle = os.dup(self.handle)
        for part in parts:
            try:
                if create:
                    try:
                        os.mkdir(part, 0o700, dir_fd=handle)
                    except FileExistsError:
                        pass
                inner = os.open(part, DIRECTORY, dir_fd=handle)
            except NotADirectoryError:
                what = "is a symbolic link or no directory, and is not followed"
                raise NotADirectoryError(errno.ENOTDIR, what, f"{self.directory}/{path}") from None
            finally:
                os.close(handle)
            handle = inner
            wrong = "is a mount point" if mount_of(handle) != self.mount else ""
            if not self.is_mine(uid := os.fstat(handle).st_uid):  # planted while others could write there
                wrong = f"belongs to {user(uid)}"
            if wrong:
                os.close(handle)
                raise Refused(f"`{shown(part)}` in {self.directory} {wrong}; it is left alone")
        return handle


def identity_of(handle: int) -> str:
    """filesystem.identity of what an open directory is on."""
    shows = mounts.of(handle)
    facts = {"fstype": printable(shows.fstype), "source": without_password(printable(shows.source))}
    return filesystem.identity(facts | {"fsid": f"{os.fstatvfs(handle).f_fsid:016x}"})


def gone(place: Place) -> str:
    """The sentence on a campaign's directory that is not there any more, and on which file system its path is now, if
    that is another one."""
    changed = ""
    for above in Path(place.directory).parents:  # the nearest one that is there
        with contextlib.suppress(OSError):
            handle = os.open(above, TARGET)
            try:
                here = identity_of(handle)
            finally:
                os.close(handle)
            if place.file_system and here != place.file_system:
                changed = f": {above} is on {shown(here)} now, and the target was on {shown(place.file_system)}"
            break
    return f"{place.directory} is no longer there{changed}; is the file system still mounted?"


def check(place: Place) -> None:
    """See that tools may be started on paths in the campaign's directory. Raises Refused, and OSError."""
    Opened(place).close()


def trusted(place: Place) -> list[str]:
    """Which other users could lead tools elsewhere, and are trusted not to (target.trust_other_writers)."""
    with Opened(place) as ours:
        return ours.trusted()


def _our_uid(handle: int, device: int) -> int:
    """Our user id as the file system has it; found out once, by a file that is made and removed."""
    if device in _uid_on:
        return _uid_on[device]
    found = uid_there(handle)
    if found != os.getuid():  # else it may only be that no file could be made
        _uid_on[device] = found
    return found
