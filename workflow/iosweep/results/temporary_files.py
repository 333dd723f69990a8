"""Removes temporary files that killed writers left in the results.

Only the temporary names that safe_paths gives to our own files are removed. A writer may run on another node.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

from iosweep.files import safe_paths
from iosweep.files.documents import Damaged
from iosweep.files.safe_paths import Folder
from iosweep.results import ingested, merged_tables
from iosweep.results.campaign_documents import FILES

#: Minimum age in seconds: a live writer writes more often.
_OLD_S = 3600.0
_ROOT = {
    *merged_tables.FILES,
    merged_tables.ABOUT,
    merged_tables.REPORT,
    merged_tables.FIGURES_DONE,
    ingested.INGESTED,
    ingested.RAW,
    *(f"{name}.json" for name in FILES.values()),
}
_HASHED = re.compile(r"[0-9a-f]{12}\.json")
#: Folder -> names of our files in it. The runner cleans up its points itself.
_BELOW = {
    "plans": _HASHED,
    "tools": _HASHED,
    "nodes": _HASHED,
    "builds": _HASHED,
    merged_tables.REPAIRS: re.compile(r"[0-9a-f]{12}"),
    "refusals": re.compile(r"\d+-nodes?\.json"),
    "manifests": re.compile(r"\d+-nodes?-[0-9a-f]{12}-\d+\.jsonl"),
}


def remove(results: Path) -> None:
    """Remove temporary files of killed writers from a campaign's results."""
    with contextlib.suppress(OSError), safe_paths.folder(results) as root:
        _remove(root, _ROOT.__contains__)
    for below, pattern in _BELOW.items():
        with contextlib.suppress(OSError), safe_paths.folder(results, below, same_mount=True) as place:
            _remove(place, pattern.fullmatch)
    with contextlib.suppress(OSError), safe_paths.folder(results, "sets", same_mount=True) as place:
        _remove(place, {name for name in place.names() if name.endswith(".json")}.__contains__)
    with contextlib.suppress(OSError, Damaged):
        figures = {merged_tables.FIGURES_MADE, *(merged_tables.figures_made(results) or {})}
        with safe_paths.folder(results, merged_tables.FIGURES, same_mount=True) as place:
            _remove(place, figures.__contains__)


def _remove(folder: Folder, ours: Callable[[str], object]) -> None:
    for name in folder.names():
        made = safe_paths.TEMPORARY.fullmatch(name)
        if made and ours(made["name"]) and not _lives(made["writer"]):
            status = folder.status(name)
            # a hard link may be another user's
            mine = status and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
            if status and mine and time.time() - status.st_mtime > _OLD_S:
                with contextlib.suppress(OSError):
                    folder.remove(name)


def _lives(process: str) -> bool:
    """Whether a process with this id exists on this host."""
    return Path("/proc", process).exists()
