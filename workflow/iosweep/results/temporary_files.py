"""Removes old temporary files, with the names that safe_paths gives them, that killed writers left in the results."""

import contextlib
import os
import stat
import time
from pathlib import Path

from iosweep.files import safe_paths
from iosweep.files.safe_paths import Folder

#: Minimum age in seconds: a live writer, which may run on another node, writes more often.
_OLD_S = 3600.0
#: Folders of the results. The runner cleans up its points itself.
_FOLDERS = ("plans", "nodes", "builds", "refusals", "manifests", "sets", "figures")


def remove(results: Path) -> None:
    """Remove temporary files of killed writers from a campaign's results."""
    with contextlib.suppress(OSError), safe_paths.folder(results) as root:
        _remove(root)
    for below in _FOLDERS:
        with contextlib.suppress(OSError), safe_paths.folder(results, below, same_mount=True) as place:
            _remove(place)


def _remove(folder: Folder) -> None:
    for name in filter(safe_paths.TEMPORARY.fullmatch, folder.names()):
        status = folder.status(name)
        # a hard link may be another user's
        mine = status and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
        if status and mine and time.time() - status.st_mtime > _OLD_S:
            with contextlib.suppress(OSError):
                folder.remove(name)
