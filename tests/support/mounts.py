"""Real file systems to break: each is mounted on a directory for as long as its context lasts. Needs root."""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from waiting import PATIENCE_S, over, wait_for

#: EXT4_IOC_SHUTDOWN (XFS has the same number), without writing the journal first.
_SHUTDOWN, _NO_FLUSH = 0x8004587D, 2
_CAP_SYS_ADMIN = 21
#: What is needed, and the Debian packages that have it.
_PROGRAMS = {"mkfs.ext4": "e2fsprogs", "bindfs": "bindfs"}
#: File systems on a disk: size of its image, command that makes them, and its Debian package.
DISKS = {
    "ext4": ("64M", ("mkfs.ext4", "-q", "-m", "0"), "e2fsprogs"),
    "xfs": ("320M", ("mkfs.xfs", "-q"), "xfsprogs"),
    "btrfs": ("128M", ("mkfs.btrfs", "-q"), "btrfs-progs"),
}


def missing() -> str | None:
    """Why nothing can be mounted here, or None."""
    if os.geteuid() != 0 or not _capable(_CAP_SYS_ADMIN):
        return "root: only root mounts file systems, and not in every container"
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program}: not on PATH (Debian package {package})"
    return next(
        (f"{device}: not there" for device in ("/dev/loop-control", "/dev/fuse") if not Path(device).exists()), None
    )


def _capable(capability: int) -> bool:
    """Whether we have a capability."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapEff"], 16) >> capability & 1)


@contextlib.contextmanager
def disk(where: Path, kind: str = "ext4") -> Iterator[None]:
    """One of DISKS on a loop device over a sparse file beside `where`. An ext4 has room for 16,384 files."""
    size, make, _ = DISKS[kind]
    image = where.with_name(f"{where.name}.img")
    run("truncate", "-s", size, str(image))
    run(*make, str(image))
    _attach(where)
    try:
        mount_image(where)
        yield
    finally:
        # a frozen one would keep whoever waits for it, forever
        subprocess.run(["fsfreeze", "-u", str(where)], stderr=subprocess.DEVNULL, check=False)
        unmount(where)
        _detach(where)
        image.unlink()


def received(where: Path) -> Path:
    """A copy of the image, as its loop device has received it: nothing that is in the page cache of the file system
    only. What writes there is to be stopped; the kernel may write at any time, so it is copied until it did not."""
    image = where.with_name(f"{where.name}.img")
    copy = image.with_suffix(".cut")

    def at_rest() -> bool:
        before = image.stat().st_mtime_ns
        run("cp", "--sparse=always", str(image), str(copy))
        return image.stat().st_mtime_ns == before

    wait_for(at_rest)
    return copy


def replace(where: Path, copy: Path) -> None:
    """Mount such a copy in place of the image. Nothing may use what is mounted there."""
    run("umount", str(where))
    _detach(where)
    copy.replace(where.with_name(f"{where.name}.img"))
    _attach(where)
    mount_image(where)


@contextlib.contextmanager
def tmpfs(where: Path, size: str = "16m") -> Iterator[None]:
    """In memory."""
    where.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "iosweep-test", str(where))
    try:
        yield
    finally:
        unmount(where)


@contextlib.contextmanager
def fuse(where: Path) -> Iterator[None]:
    """A FUSE server of our own over a directory beside `where`."""
    where.with_name(f"{where.name}.source").mkdir()
    serve(where)
    try:
        yield
    finally:
        _servers[where].kill()  # also where it is stopped: what waits for it is let go
        _servers.pop(where).wait(PATIENCE_S)
        unmount(where)


_servers: dict[Path, subprocess.Popen[bytes]] = {}


def serve(where: Path) -> None:
    """Start the FUSE server, again if it was killed."""
    source = where.with_name(f"{where.name}.source")
    child = _servers[where] = subprocess.Popen(["bindfs", "-f", str(source), str(where)], stderr=subprocess.DEVNULL)
    wait_for(lambda: where in mount_points(), over=over(child), pause_s=0.002)


def server(where: Path) -> int:
    """Process id of the FUSE server behind a mount point. Stopped, it lets whoever looks at a file wait."""
    return _servers[where].pid


def device(where: Path) -> Path:
    """The device that is mounted there."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return next(Path(line.split()[-2]) for line in lines if Path(line.split()[4]) == where)


def shut_down(where: Path) -> None:
    """Let a mounted ext4 answer with EIO, as it does when its disk is lost."""
    handle = os.open(where, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _NO_FLUSH))
    finally:
        os.close(handle)


def sync(where: Path) -> None:
    """What was written stays when the disk is lost."""
    run("sync", "-f", str(where))


def remount(where: Path, options: str) -> None:
    run("mount", "-o", f"remount,{options}", str(where))


def unmount(where: Path) -> None:
    """All that is mounted there, also what is in use (lazily: then it goes with its last user)."""
    while where in mount_points():
        if subprocess.run(["umount", str(where)], stderr=subprocess.DEVNULL, check=False).returncode:
            run("umount", "-l", str(where))


def mount_points() -> list[Path]:
    """Where something is mounted. From the kernel's list: a stat of what hangs would hang."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4]) for line in lines]


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def mount_image(where: Path) -> None:
    """Mount the image beside `where` (again), by the device that it has: by another one it would be another disk."""
    run("mount", _devices[where], str(where))


_devices: dict[Path, str] = {}


def _attach(where: Path) -> None:
    found = ["losetup", "--find", "--show", str(where.with_name(f"{where.name}.img"))]
    _devices[where] = subprocess.run(found, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _detach(where: Path) -> None:
    subprocess.run(["losetup", "--detach", _devices.pop(where)], stderr=subprocess.DEVNULL, check=False)
