"""Files of others -> ingested.zip and ingested.json of a new campaign, and what they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from iosweep.files import documents, safe_paths
from iosweep.ingest import contents, walk
from iosweep.ingest.contents import Contents
from iosweep.ingest.detect import NotOurs
from iosweep.results.ingested import INGESTED, RAW, Ingested, IngestedFile, digest


class NothingUsable(Exception):
    """None of the files holds a row, so nothing was written. `refused`: why files were not taken -> how many."""

    def __init__(self, refused: dict[str, int]):
        self.refused = refused
        super().__init__("no usable output of fio, IOR or mdtest")


#: Called with each file that is there, before it is read: its name.
Progress = Callable[[str], None]
_One = tuple[IngestedFile, Contents]
Read = list[_One]


def collect(
    results: Path, campaign: str, paths: Iterable[Path], progress: Progress = lambda _: None
) -> tuple[Ingested, str, Read]:
    """Keep those files of some paths that a tool wrote; returns the document, its digest and what the files hold.

    Also those whose output has no figure: a better reader may find one.

    Raises NothingUsable, OSError; then nothing is kept.
    """
    sources = [*paths]
    refused = contents.Reasons()
    taken: Read = []
    with safe_paths.folder(results, make=True) as place:
        with (
            place.replaced(RAW) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            seen: dict[str, _One] = {}
            for found in (one for path in sources for one in walk.files(path)):
                progress(found.name)
                if isinstance(found, walk.Skipped):
                    refused.add(found.reason)
                elif known := seen.get(found.sha256):  # its rows count once; a set of IO500's may need it all the same
                    refused.add("is a copy of another file")
                    taken.append((structs.replace(known[0], path=found.name), known[1]))
                elif isinstance(read := _read(found, archive), str):
                    refused.add(read)
                else:
                    seen[found.sha256] = read
                    taken.append(read)
                del found  # its content: the next file need not be in memory beside it
            if not any(content.rows for _, content in taken):
                for file_, content in taken:
                    refused.add(contents.why_no_row(file_.path, content))
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


def _read(found: walk.Found, archive: zipfile.ZipFile) -> _One | str:
    """What a file holds, which is added to the archive, or why it is not taken."""
    if isinstance(kinds := contents.kinds(found.data), NotOurs):
        return kinds.reason
    content = contents.read(found.name, found.data, kinds)
    info = zipfile.ZipInfo(found.sha256)  # a fixed time: equal files give an equal archive
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, found.data, compresslevel=1)
    return IngestedFile(found.name, found.sha256, len(found.data), kinds), content
