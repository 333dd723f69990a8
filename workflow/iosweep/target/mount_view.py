"""Whether a directory is the one that the rest of this machine sees under that name."""

from __future__ import annotations

import re
from pathlib import Path

from iosweep.target.host_lock import FIRST_PID_NAMESPACE


def private(directory: str, proc: Path = Path("/proc")) -> bool:
    """Whether process 1 of this machine sees another directory there; False where that cannot be seen."""
    try:
        if str((proc / "self/ns/pid").readlink()) != FIRST_PID_NAMESPACE:
            return False
        ours, theirs = ((proc / pid / "mountinfo").read_bytes() for pid in ("self", "1"))
    except OSError:
        return False
    real = bytes(Path(directory).resolve())
    return leads_to(real, ours) != leads_to(real, theirs)


def leads_to(real: bytes, mountinfo: bytes) -> tuple[bytes, bytes]:
    """Device and path on it of an absolute path without links, with the mounts of a process. Pure."""
    found, longest = (b"", b""), b""
    for line in mountinfo.split(b"\n")[:-1]:
        _, _, device, root, point, *_ = line.split(b" ")
        root, point = _unescaped(root).rstrip(b"/"), _unescaped(point).rstrip(b"/")
        # the last of equal mount points is the one on top
        if (real == point or real.startswith(point + b"/")) and len(point) >= len(longest):
            found, longest = (device, root + real[len(point) :]), point
    return found


def _unescaped(text: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), text)
