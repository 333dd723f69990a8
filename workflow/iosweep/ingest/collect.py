"""Files of others -> ingested.zip and ingested.json of a new campaign, and what they hold."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from iosweep.files import documents, safe_paths
from iosweep.ingest import contents, walk
from iosweep.ingest.contents import Contents
from iosweep.ingest.detect import NotOurs
from iosweep.results.ingested import INGESTED, IO500, RAW, Ingested, IngestedFile, digest
from iosweep.results.reasons import bare
from iosweep.text import printable


class NothingUsable(Exception):
    """None of the files holds a row, so nothing was written. `refused`: why files were not taken -> how many."""

    def __init__(self, refused: dict[str, int]):
        self.refused = refused
        super().__init__("no usable output of fio, IOR or mdtest")


@dataclass
class _Refused:
    """Why files were not taken; reasons that differ in numbers and names only are one."""

    counts: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str) -> None:
        kind = bare(reason)
        self.counts[self.texts.setdefault(kind, printable(reason))] += 1

    def found(self) -> dict[str, int]:
        return dict(self.counts.most_common())


#: Called with each file that is there, before it is read: its name.
Progress = Callable[[str], None]
Read = list[tuple[IngestedFile, Contents]]


def collect(
    results: Path, campaign: str, paths: Iterable[Path], progress: Progress = lambda _: None
) -> tuple[Ingested, str, Read]:
    """Keep what is usable of the files of some paths; returns the document, its digest and what the files hold.

    Raises NothingUsable, OSError; then nothing is kept.
    """
    sources = [*paths]
    refused = _Refused()
    taken: Read = []
    with safe_paths.folder(results, make=True) as place:
        with (
            place.replaced(RAW) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            seen: set[str] = set()
            for found in (one for path in sources for one in walk.files(path)):
                progress(found.name)
                if isinstance(found, walk.Skipped):
                    refused.add(found.reason)
                    continue
                if found.sha256 in seen:
                    refused.add("is a copy of another file")
                    continue
                seen.add(found.sha256)
                if isinstance(kinds := contents.kinds(found.data), NotOurs):
                    refused.add(kinds.reason)
                    continue
                content = contents.read(found.name, found.data, kinds)
                if not content.rows and IO500 not in kinds:
                    refused.add(_why_nothing(found.name, content))
                    continue
                info = zipfile.ZipInfo(found.sha256)  # a fixed time: equal files give an equal archive
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, found.data, compresslevel=1)
                taken.append((IngestedFile(found.name, found.sha256, len(found.data), kinds), content))
            if not any(content.rows for _, content in taken):
                raise NothingUsable(refused.found())
        document = Ingested(
            campaign=campaign,
            made=datetime.now(UTC).replace(microsecond=0),
            sources=tuple(walk.shown(path) for path in sources),
            files=tuple(file for file, _ in taken),
            refused=refused.found(),
        )
        data = documents.dump(document, indent=True)
        place.write(INGESTED, data)
    return document, digest(data), taken


def _why_nothing(name: str, content: Contents) -> str:
    """Why a file that has a tool's output gives no row: its first problem, without the file's own name."""
    texts = (problem.text for reading in content.readings for problem in reading.problems)
    text = next(texts, "it has no result")
    return text.removeprefix(f"{name}: ").removeprefix(f"{name} ")
