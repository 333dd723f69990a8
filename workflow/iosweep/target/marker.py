"""The marker in the campaign's directory: whose the directory is, and that the marker was written for this directory.

The marker holds the path and the inode of its directory. Either may change: the path with another mount point, the
inode on some FUSE and network file systems. If both differ, the directory is a copy or was moved. Where directories
keep their inodes (ext4, XFS ...), another inode is enough; where snapshots have the same inodes (btrfs), another fsid,
too. This runs inside the agent.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from iosweep.causes import SERVER_ERRORS
from iosweep.errors import Refused
from iosweep.node import fs_types
from iosweep.target import mounts
from iosweep.text import printable

MARKER = "iosweep.json"
#: Its name until it is whole.
UNFINISHED = f"{MARKER}.tmp"
#: A marker is far smaller; what is larger was not written by us.
_MARKER_BYTES = 1 << 16


def name_of(campaign: str) -> str:
    """Name of the directory of a campaign."""
    return f"iosweep-{campaign}"


def directory_of(target: str, campaign: str) -> str:
    """Absolute path of the campaign's directory."""
    return str(Path(target).absolute() / name_of(campaign))


def whose(marker: dict[str, object]) -> str:
    """The owner that a marker names, for a sentence."""
    user = f"{marker['user']}, " if marker.get("user") else ""
    return shown(f"results in {marker.get('results')} on {marker.get('host')}, user {user}id {marker.get('uid')}")


def shown(text: str) -> str:
    """A name, printable and not too long."""
    escaped = printable(text)
    return escaped if len(escaped) <= 300 else f"{escaped[:140]}...{escaped[-140:]}"


def read_marker(handle: int) -> dict[str, object] | None:
    """The marker in an open directory, or None if there is none. Raises Refused if it is not one of ours."""
    try:
        # a FIFO would wait for its other end
        file = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in SERVER_ERRORS:  # the file system's trouble, not the marker's
            raise
        raise Refused(f"the marker {MARKER} in the campaign's directory cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused(f"the marker {MARKER} in the campaign's directory is not a regular file")
        found = json.loads(os.read(file, _MARKER_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in SERVER_ERRORS:
            raise
        raise Refused(f"the marker {MARKER} in the campaign's directory cannot be read: {error}") from None
    finally:
        os.close(file)
    if not isinstance(found, dict):
        raise Refused(f"the marker {MARKER} in the campaign's directory is not ours")
    return found


def check_marker(handle: int, directory: str, uuid: str) -> None:
    """Raise Refused if the marker in an open directory has not this UUID, or was written for another directory."""
    found = read_marker(handle)
    if found is None:
        raise Refused(f"{directory} has no marker {MARKER} of ours any more; it is left alone")
    if not uuid or found.get("uuid") != uuid:
        raise Refused(f"{directory} belongs to another campaign ({whose(found)}); it is left alone")
    check_place(handle, directory, found)


def check_place(handle: int, directory: str, found: Mapping[str, object]) -> None:
    """Raise Refused if the marker in an open directory was written for another one."""
    place = found.get("place")
    here = {"path": _path(handle), "inode": os.fstat(handle).st_ino}
    same = isinstance(place, dict) and here.items() <= place.items()
    seen = place if same and isinstance(place, dict) else place_of(handle)  # which asks the file system
    known = fs_types.of(mounts.of(handle).fstype)  # after the look: refuses what was unmounted meanwhile
    if same and known.subvolumes:
        seen = place_of(handle)
    if why := wrong(found, Path(directory).name, seen, known.inodes, known.subvolumes):
        raise Refused(f"{directory} is not ours: {why}; it is left alone")


def is_of(found: dict[str, object], owner: dict[str, object]) -> bool:
    """Whether a marker is of this owner."""
    same = all(found.get(key) == owner[key] for key in ("uid", "host", "results"))
    return bool(found.get("uuid")) and (found["uuid"] == owner["uuid"] or same)


def write_marker(handle: int, content: dict[str, object]) -> None:
    """Whole, or not at all."""
    try:
        os.unlink(UNFINISHED, dir_fd=handle)
    except FileNotFoundError:
        pass
    with open(os.open(UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(UNFINISHED, MARKER, src_dir_fd=handle, dst_dir_fd=handle)
    os.fsync(handle)


def place_of(handle: int) -> dict[str, object]:
    """The place that a marker in this directory has, open as `handle`."""
    return {"path": _path(handle), "inode": os.fstat(handle).st_ino, "fsid": f"{os.fstatvfs(handle).f_fsid:016x}"}


def wrong(
    marker: Mapping[str, object],
    name: str,
    seen: Mapping[str, object],
    keeps_inodes: bool = False,
    subvolumes: bool = False,
) -> str | None:
    """Why a directory of this name is not the one that its marker was written for, or None. Pure.

    seen: `place_of` the directory. keeps_inodes: a directory has the same inode always, so a copy has another one.
    subvolumes: a snapshot has another fsid than its original. An inode alone proves nothing: another file system, and
    another subvolume, has the same numbers.
    """
    campaign, place = marker.get("campaign"), marker.get("place")
    if not isinstance(campaign, str) or not campaign or name != name_of(campaign):
        called = printable(str(campaign))[:100]
        return f"its marker is of the campaign `{called}`, whose directory is called {name_of(called)}"
    if not isinstance(place, dict) or not {"path", "inode", "fsid"} <= place.keys():
        return "its marker does not say for which directory it was written"
    kept = ["path"] + ["inode"] * keeps_inodes + ["fsid"] * subvolumes
    if all(place[each] == seen[each] for each in kept):
        return None
    if (place["inode"], place["fsid"]) == (seen["inode"], seen["fsid"]):
        return None
    if place["path"] == seen["path"]:
        return "its marker was written for another directory of this path, so this is a copy of that, or was restored"
    return f"its marker was written for {printable(str(place['path']))[:300]}, so this is a copy of that, or was moved"


def _path(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())
