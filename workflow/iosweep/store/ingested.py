"""ingested.json and ingested.zip: the tool outputs that `iosweep ingest` accepted (docs/parsing.md).

They replace plan and store: the tables are made from these files alone, and made again when a parser improves.
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
#: Size limit of a file: no output of a tool is larger.
MOST_FILE_BYTES = 256 << 20


class IngestedFile(Part, frozen=True):
    """An ingested file. path: its path when it was ingested."""

    path: str
    sha256: Sha256
    bytes: Count


class Ingested(Document, frozen=True, kw_only=True):
    """ingested.json."""

    campaign: Name
    made: Moment
    sources: tuple[str, ...]  # paths on the command line
    files: tuple[IngestedFile, ...]
    refused: dict[str, Count]  # why files were rejected -> number of files


class IngestedFacts(Part, frozen=True, kw_only=True):
    """`ingested` of campaign.json."""

    files: dict[str, Count]  # kind -> number of files
    bytes: Count
    refused: dict[str, Count]  # why files were rejected -> number of files
    without_rows: dict[str, Count]  # why accepted files give no row -> number of files
    left_out: dict[str, Count]  # why rows are not in the tables -> number of rows


def exists(results: Path) -> bool:
    """Whether these are the results of an ingested campaign."""
    return os.path.lexists(results / INGESTED)


def load(results: Path) -> tuple[Ingested, str]:
    """Load ingested.json; returns it with its digest for campaign.json. Raises FileNotFoundError, Damaged."""
    file = results / INGESTED
    data = documents.content(file, documents.MOST_DOCUMENT_BYTES)
    return documents.decode(data, Ingested, file), digest(data)


def digest(document: bytes) -> str:
    """The digest that campaign.json has in place of the digest of a plan."""
    return hashlib.sha256(document).hexdigest()[:12]


def read_files(results: Path, files: Sequence[IngestedFile]) -> Iterator[tuple[IngestedFile, bytes]]:
    """Yield each file with its content. Raises FileNotFoundError, Damaged."""
    with _open_archive(results) as archive:
        for file in files:
            with archive.open(file.sha256) as member:
                data = member.read(MOST_FILE_BYTES + 1)
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise Damaged(results / RAW, f"{file.path} in it is not what was ingested")
            yield file, data


def find_damage(results: Path) -> list[str]:
    """Messages about damage to both files. Only sizes are compared here; `read_files` compares contents."""
    try:
        files = load(results)[0].files
        with _open_archive(results) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
        if lost := [file for file in files if sizes.get(file.sha256) != file.bytes]:
            raise Damaged(results / RAW, f"it lacks {human_count(len(lost), 'file')}, such as {lost[0].path}")
    except FileNotFoundError as error:
        gone = str(error.filename or results / RAW)
        return [f"{gone} is gone{documents.cure(gone)}"]
    except Damaged as error:
        return [f"{error}{documents.cure(error.path)}"]
    return []


@contextmanager
def _open_archive(results: Path) -> Iterator[zipfile.ZipFile]:
    """Open ingested.zip. Raises FileNotFoundError, and Damaged, also if the `with` block fails to read a member."""
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
