"""Damage of the tables, the report and the figures, looked for again only where one of these files has changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from iosweep.commands import outcome
from iosweep.files import safe_paths
from iosweep.results import merged_tables

#: Path below the results -> what shows that a file has changed: its inode, size and time.
_Files = dict[str, tuple[int, int, int]]
_MADE = (*merged_tables.FILES, merged_tables.ABOUT, merged_tables.REPORT, merged_tables.FIGURES_DONE)
#: Seconds that writing campaign.json may take. What is older was left by a writer that was killed.
_WRITING_S = 60.0


class Tables:
    """The tables of a campaign, looked at again and again."""

    def __init__(self, results: Path):
        self._results = results
        self._files: _Files | None = None
        self._damaged: list[str] = []

    def damage(self) -> list[str]:
        """Damage as sentences; while the files are being replaced, that of the last look."""
        try:
            before = self._look()
            if before is not None and before != self._files:
                found = outcome.damage_of_tables(self._results)
                if self._look() == before:
                    self._files, self._damaged = before, found
        except OSError as error:
            return [f"{error.filename} cannot be read: {error.strerror}"]
        return self._damaged

    def _look(self) -> _Files | None:
        """The files as they are now; None while they are being replaced: campaign.json comes last."""
        if any(map(self._being_written, safe_paths.names(self._results, ""))):
            return None
        figures = (f"{merged_tables.FIGURES}/{name}" for name in safe_paths.names(self._results, merged_tables.FIGURES))
        found = {name: self._status(name) for name in (*_MADE, *figures)}
        return {name: (s.st_ino, s.st_size, s.st_mtime_ns) for name, s in found.items() if s}

    def _being_written(self, name: str) -> bool:
        made = safe_paths.TEMPORARY.fullmatch(name)
        if made is None or made["name"] != merged_tables.ABOUT:
            return False
        status = self._status(name)
        return status is not None and time.time() - status.st_mtime < _WRITING_S

    def _status(self, name: str) -> os.stat_result | None:
        """None where there is no such file, or no longer."""
        try:
            return (self._results / name).lstat()
        except FileNotFoundError:
            return None
