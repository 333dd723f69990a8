"""Temporary files of writers that were killed. A writer's own ones end with it, and it may be on another node."""

import contextlib
import os
import time
from pathlib import Path

#: Whoever still writes a file has written to it since.
_OLD_S = 3600.0


def remove(results: Path) -> None:
    """Remove them from a campaign's results, but for its points, which the runner looks after."""
    for folder in (results, *(path for path in results.glob("[!.]*") if path.is_dir() and not path.is_symlink())):
        for file in folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(file).st_mtime > _OLD_S:
                    file.unlink()
