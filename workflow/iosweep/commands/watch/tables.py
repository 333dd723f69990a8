"""Damage of the tables, the report and the figures, looked for again only where one of these files has changed."""

from __future__ import annotations

from pathlib import Path

from iosweep.files import safe_paths
from iosweep.results import merged_tables

#: Path below the results -> what shows that a file has changed: its inode, size and time.
_Files = dict[str, tuple[int, int, int]]


class Tables:
    """The tables of a campaign, looked at again and again."""

    def __init__(self, results: Path):
        self._results = results
        self._files: _Files | None = None
        self._damaged: list[str] = []

    def damage(self) -> list[str]:
        """Damage as sentences; while the files are being replaced, that of the last look."""
        before = self._look()
        if before is not None and before != self._files:
            found = merged_tables.damage(self._results)
            if self._look() == before:
                self._files, self._damaged = before, found
        return self._damaged

    def _look(self) -> _Files | None:
        """The files as they are now; None while they are being replaced: campaign.json comes last."""
        found: _Files = {}
        for below in ("", merged_tables.FIGURES):
            for name in safe_paths.names(self._results, below):
                if (made := safe_paths.TEMPORARY.fullmatch(name)) and made["name"] == merged_tables.ABOUT:
                    return None
                about = (self._results / below / name).lstat()
                found[f"{below}/{name}"] = about.st_ino, about.st_size, about.st_mtime_ns
        return found
