"""The files that a tool wrote where it was started (`Tool.outputs`), as streams."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from iosweep.files.safe_paths import Folder
from iosweep.node.process import MOST_BYTES


def collected(place: Folder, outputs: Mapping[str, str]) -> dict[str, bytes]:
    """stream -> content, without what is absent, is not a file, or is too large.

    Files whose names fit a name with `*` are one stream, each after a line `==> name <==`, in order of their numbers.
    """
    streams: dict[str, bytes] = {}
    names = place.names() if any("*" in wanted for wanted in outputs.values()) else []
    for stream, wanted in outputs.items():
        with contextlib.suppress(OSError):
            if "*" not in wanted:
                streams[stream] = place.read(wanted, MOST_BYTES)
                continue
            room, parts = MOST_BYTES, []
            for name in sorted((name for name in names if fnmatchcase(name, wanted)), key=_by_number):
                parts.append(f"==> {name} <==\n".encode() + place.read(name, room))
                room -= len(parts[-1])
                if room <= 0:
                    break
            else:
                if parts:
                    streams[stream] = b"".join(parts)
    return streams


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
