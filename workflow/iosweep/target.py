"""The campaign's directory on the target: `<target>/iosweep-<campaign>/`, and nothing else.

The functions listed in `OPERATIONS` touch the target. They run inside the agent (agent.py), because any of them may
hang for ever on a sick file system, and take and return plain JSON values. Paths below the campaign's directory are
opened component by component without following symbolic links. Only the standard library is imported: an agent starts
on every node.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARKER = "iosweep.json"


class Refused(Exception):
    """Something on the target is not ours, or not as it must be. The message is for the user."""


def directory_of(target: str, campaign: str) -> str:
    """Absolute path of the campaign's directory."""
    return str(Path(target).absolute() / f"iosweep-{campaign}")


def identify(target: str) -> dict[str, Any]:
    """Which file system a directory is on: {source, fstype, mount (the whole line), fsid, device, writable}."""
    path = Path(target)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise Refused(f"the target {target} is not a directory")
    except FileNotFoundError:
        raise Refused(f"the target {target} does not exist; is the file system mounted?") from None
    real = str(path.resolve())
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    best = ("", "unknown", "unknown", "")
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = _unescape(before.split()[4])
        # the last of equal mount points is the one on top
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
            fstype, source, options = after.split(" ", 2)
            best = (
                point,
                _unescape(source),
                fstype,
                f"{_unescape(source)} on {point} type {fstype} ({options})",
            )
    return {
        "source": best[1],
        "fstype": best[2],
        "mount": best[3],
        "fsid": f"{os.statvfs(real).f_fsid:016x}",
        "device": path.stat().st_dev,
        "writable": os.access(path, os.W_OK | os.X_OK),
    }


def space(directory: str) -> dict[str, int]:
    """Bytes and inodes of the file system as df counts: used, and free to an ordinary user."""
    s = os.statvfs(directory)
    return {
        "used_bytes": (s.f_blocks - s.f_bfree) * s.f_frsize,
        "free_bytes": s.f_bavail * s.f_frsize,
        "used_inodes": s.f_files - s.f_ffree,
        "free_inodes": s.f_favail,  # both 0 where the file system does not count inodes
    }


def claim(directory: str, owner: dict[str, Any]) -> str:
    """Make the campaign's directory, or see that it is ours; returns the UUID of its marker.

    `owner`: {uuid or None, uid, host, results, campaign}. Ours means: the marker's UUID is the one that the results
    know, or the marker names the same user, host and results. Raises Refused otherwise.
    """
    try:
        Path(directory).mkdir(mode=0o700)
    except FileExistsError:
        pass
    except PermissionError:
        raise Refused(
            f"the target {Path(directory).parent} cannot be written to by user id {os.getuid()};"
            " give it permission, or name another directory"
        ) from None
    handle = _open(directory)
    try:
        found = _marker(handle)
        if found is None:
            if set(os.listdir(handle)) - {MARKER + ".tmp"}:  # that one: we were killed while we wrote it
                raise Refused(
                    f"{directory} exists, but has no marker {MARKER} of ours; it is left alone."
                    " Choose another campaign name, or remove it yourself."
                )
            found = owner | {"uuid": owner["uuid"] or str(uuid.uuid4())}
            try:
                os.unlink(MARKER + ".tmp", dir_fd=handle)
            except FileNotFoundError:
                pass
            with open(
                os.open(MARKER + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w"
            ) as file:
                json.dump(found, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(MARKER + ".tmp", MARKER, src_dir_fd=handle, dst_dir_fd=handle)
            os.fsync(handle)
        same = all(found.get(key) == owner[key] for key in ("uid", "host", "results"))
        if not found.get("uuid") or (found["uuid"] != owner["uuid"] and not same):
            raise Refused(
                f"{directory} belongs to another campaign (results in {found.get('results')} on"
                f" {found.get('host')}, user id {found.get('uid')}); it is left alone."
                " Choose another campaign name."
            )
        return str(found["uuid"])
    finally:
        os.close(handle)


def ours(directory: str, uuid: str) -> bool:
    """Whether the campaign's directory is still there, with the marker of this UUID. Makes nothing."""
    try:
        handle = _open(directory)
    except OSError:
        return False
    try:
        return (_marker(handle) or {}).get("uuid") == uuid
    finally:
        os.close(handle)


def usage(directory: str) -> dict[str, int]:
    """Bytes and files below the campaign's directory."""
    total = files = 0
    try:
        top = _open(directory)
    except FileNotFoundError:  # not made yet, or removed by somebody
        return {"bytes": 0, "files": 0}
    try:
        for _, _, names, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            for name in names:
                total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
                files += 1
    finally:
        os.close(top)
    return {"bytes": total, "files": files}


def ensure(directory: str, below: str, empty: bool) -> str:
    """Make a directory below the campaign's (and empty it if told); returns its absolute path."""
    if empty:
        remove(directory, below)
    os.close(open_below(directory, below, create=True))
    return str(Path(directory) / below)


def remove(directory: str, below: str) -> int:
    """Remove a tree below the campaign's directory. Returns how many entries its top had."""
    parent, _, name = below.rpartition("/")
    if name in ("", ".", ".."):
        raise Refused(f"`{below}` names nothing below {directory}")
    try:
        handle = open_below(directory, parent)
    except FileNotFoundError:
        return 0
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        entries = len(os.listdir(inner))
        os.close(inner)
        shutil.rmtree(name, dir_fd=handle)  # does not follow symbolic links
        return entries
    except FileNotFoundError:
        return 0
    finally:
        os.close(handle)


def count(directory: str, below: str) -> int:
    """Regular files in a directory below the campaign's, and in the directories in it."""
    return _files_in(open_below(directory, below))


def _files_in(handle: int) -> int:
    found = 0
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                    found += _files_in(inner)
                else:
                    found += entry.is_file(follow_symlinks=False)
    finally:
        os.close(handle)
    return found


def examine(directory: str, below: str, files: list[str], size: int, holes: bool) -> dict[str, Any]:
    """Whether files are there, regular, of full size and (if told) without unwritten extents.

    {wrong: [up to 5 sentences], changed_ns: newest mtime, holes: "none", "found" or why it was not looked at}
    """
    wrong: list[str] = []
    newest = 0
    seen = "not looked at"
    try:
        handle = open_below(directory, below)
    except FileNotFoundError:
        return {"wrong": ["the directory is not there"], "changed_ns": 0, "holes": seen}
    try:
        if holes:
            seen = (
                "none" if _shows_holes(handle) else "hidden: this file system shows no holes, not even in a sparse file"
            )
        for name in files:
            try:
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except FileNotFoundError:
                wrong.append(f"{name} is missing")
                continue
            newest = max(newest, status.st_mtime_ns)
            if not stat.S_ISREG(status.st_mode):
                wrong.append(f"{name} is not a regular file")
            elif status.st_size != size:
                wrong.append(f"{name} has {status.st_size} of {size} bytes")
            elif seen == "none" and _first_hole(handle, name) < size:
                wrong.append(f"{name} has unwritten extents")
                seen = "found"
        return {"wrong": wrong[:5], "changed_ns": newest, "holes": seen}
    finally:
        os.close(handle)


OPERATIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (identify, space, claim, ours, usage, ensure, remove, count, examine)
}


def too_much(
    now: dict[str, int],
    ours_bytes: int,
    needed_bytes: int,
    needed_inodes: int,
    limits: dict[str, Any],
    *,
    first: bool,
) -> str | None:
    """Why `needed_bytes` more may not be written, or None. Pure.

    `ours_bytes` is what the campaign has there already. The share of free space is asked of the whole campaign
    (`first`), how full the file system gets before every point.
    """
    from iosweep.units import human_size

    free, total = now["free_bytes"], now["used_bytes"] + now["free_bytes"]
    if first and needed_bytes > limits["share_of_free"] * (free + ours_bytes):
        return (
            f"up to {human_size(needed_bytes)} are needed, more than {limits['share_of_free']:.0%} of the"
            f" {human_size(free + ours_bytes)} that are free; measure less, or raise limits.share_of_free"
        )
    more = max(0, needed_bytes - (ours_bytes if first else 0))
    if more and now["used_bytes"] + more > limits["fill"] * total:
        return (
            f"{human_size(more)} more would make it {(now['used_bytes'] + more) / total:.0%} full, above"
            f" limits.fill {limits['fill']:.0%}; free space, or raise limits.fill"
        )
    inodes = now["used_inodes"] + now["free_inodes"]
    if inodes and needed_inodes:
        if first and needed_inodes > limits["share_of_free"] * now["free_inodes"]:
            return (
                f"up to {needed_inodes:,} files are needed, more than {limits['share_of_free']:.0%} of the"
                f" {now['free_inodes']:,} free inodes; measure less, or raise limits.share_of_free"
            )
        if now["used_inodes"] + needed_inodes > limits["fill"] * inodes:
            return f"{needed_inodes:,} more files would use more than {limits['fill']:.0%} of its inodes (limits.fill)"
    return None


def _open(directory: str) -> int:
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (NotADirectoryError, OSError) as error:
        if Path(directory).is_symlink():
            raise Refused(f"{directory} is a symbolic link; it is not followed") from None
        raise error


def open_below(directory: str, below: str, create: bool = False) -> int:
    """A handle of a directory below the campaign's; no component may be a symbolic link."""
    parts = [part for part in below.split("/") if part]
    if {".", ".."} & set(parts):
        raise Refused(f"`{below}` names nothing below {directory}")
    handle = _open(directory)
    for part in parts:
        try:
            if create:
                try:
                    os.mkdir(part, 0o700, dir_fd=handle)
                except FileExistsError:
                    pass
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def _marker(handle: int) -> dict[str, Any] | None:
    try:
        with open(os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=handle)) as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Refused(f"the marker {MARKER} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise Refused(f"the marker {MARKER} is not ours")
    return found


def _shows_holes(handle: int) -> bool:
    """SEEK_HOLE lies on some file systems: see whether it finds the hole of a sparse file made for the purpose."""
    name = ".iosweep-sparse"
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=handle)
    try:
        os.pwrite(file, b"x", 4 << 20)
        os.fsync(file)
        return os.lseek(file, 0, os.SEEK_HOLE) == 0
    except OSError:
        return False
    finally:
        os.close(file)
        os.unlink(name, dir_fd=handle)


def _first_hole(handle: int, name: str) -> int:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=handle)
    try:
        return os.lseek(file, 0, os.SEEK_HOLE)
    finally:
        os.close(file)


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
