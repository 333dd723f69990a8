"""The archive of a repetition's raw output: a zip with one member per step and stream."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def unpack(archive: bytes) -> dict[str, dict[str, bytes]]:
    """step -> stream -> what it printed, without stderr: its first lines are in the record, and nothing is parsed from
    it."""
    found: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for info in file.infolist():
            step, _, stream = info.filename.rpartition(".")
            if not stream.startswith("stderr"):
                found.setdefault(step, {})[stream] = file.read(info)
    return found


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip with a fixed time stamp, so that equal output gives equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return buffer.getvalue()
