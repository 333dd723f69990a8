"""ingested.json and ingested.zip: outputs that others made, as `iosweep ingest` found them (docs/parsing.md).

They take the place of a plan and a store: the tables are made from them alone, as often as a reader is improved.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from iosweep.files import documents, safe_paths
from iosweep.files.documents import Count, Damaged, Document, Moment, Name, Part, Sha256
from iosweep.text import human_count

INGESTED, RAW = "ingested.json", "ingested.zip"
#: Bytes of a file: no output of a tool is larger.
MOST_FILE_BYTES = 256 << 20
#: What to do about damage of these files.
CURE = "; `iosweep ingest --replace` with the same outputs makes it again"


class IngestedFile(Part, frozen=True):
    """A file. `path`: its place when it was ingested."""

    path: str
    sha256: Sha256
    bytes: Count


class Ingested(Document, frozen=True, kw_only=True):
    """ingested.json. `sources`: the paths that were given; `refused`: why other files were not taken -> how many."""

    campaign: Name
    made: Moment
    sources: tuple[str, ...]
    files: tuple[IngestedFile, ...]
    refused: dict[str, Count]


class IngestedFacts(Part, frozen=True, kw_only=True):
    """`ingested` of campaign.json. `files`: how many of each kind; `refused`: why files were not taken -> how many;
    `without_rows`: why files that were taken give no row; `left_out`: why rows are not in the tables."""

    files: dict[str, Count]
    bytes: Count
    refused: dict[str, Count]
    without_rows: dict[str, Count]
    left_out: dict[str, Count]


def exists(results: Path) -> bool:
    """Whether a campaign was ingested."""
    return os.path.lexists(results / INGESTED)


def load(results: Path) -> tuple[Ingested, str]:
    """The document, and its digest for campaign.json. Raises FileNotFoundError, Damaged."""
    file = results / INGESTED
    data = documents.content(file, documents.MOST_DOCUMENT_BYTES)
    return documents.decode(data, Ingested, file), digest(data)


def digest(document: bytes) -> str:
    """The digest that campaign.json has in place of that of a plan."""
    return hashlib.sha256(document).hexdigest()[:12]


def read_files(results: Path, files: Sequence[IngestedFile]) -> Iterator[tuple[IngestedFile, bytes]]:
    """The files with their content, one at a time. Raises FileNotFoundError, Damaged."""
    with _archive(results) as archive:
        for file in files:
            with archive.open(file.sha256) as member:
                data = member.read(MOST_FILE_BYTES + 1)
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise Damaged(results / RAW, f"{file.path} in it is not what was ingested")
            yield file, data


def find_damage(results: Path) -> list[str]:
    """Damage of both files, as sentences; contents are compared when they are read."""
    try:
        wanted = load(results)[0].files
        with _archive(results) as archive:
            there = {info.filename: info.file_size for info in archive.infolist()}
        if lost := [file for file in wanted if there.get(file.sha256) != file.bytes]:
            raise Damaged(results / RAW, f"it lacks {human_count(len(lost), 'file')}, such as {lost[0].path}")
    except FileNotFoundError as error:
        return [f"{error.filename or results / RAW} is gone{CURE}"]
    except Damaged as error:
        return [f"{error}{CURE}"]
    return []


@contextmanager
def _archive(results: Path) -> Iterator[zipfile.ZipFile]:
    """ingested.zip. Raises FileNotFoundError, Damaged, also where the block fails to read a member."""
    path = results / RAW
    try:
        with (
            safe_paths.folder(results) as place,
            os.fdopen(place.open(RAW), "rb") as handle,
            zipfile.ZipFile(handle) as archive,
        ):
            yield archive
    except FileNotFoundError:
        raise
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Damaged(path, f"it cannot be read: {error}") from None
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from None
