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
from typing import Literal

from iosweep.files import documents, safe_paths
from iosweep.files.documents import Count, Damaged, Document, Moment, Name, Number, Part, Sha256
from iosweep.text import human_count, percent_change

INGESTED, RAW = "ingested.json", "ingested.zip"
#: Bytes of a file: no output of a tool is larger.
MOST_BYTES = 256 << 20
#: What to do about damage of these files.
CURE = "; `iosweep ingest --replace` with the same outputs makes it again"
#: Kind of IO500's own summary, which no tool wrote: a second witness.
IO500 = "io500"


def agree(published: float, read: float) -> bool:
    """Whether two figures of IO500 agree: to 0.1 % (IOR's table has five digits), or as far as three decimals tell,
    which older scripts print."""
    return abs(published - read) <= max(1e-3 * max(abs(published), abs(read)), 0.00051)


def difference(published: float | None, read: float | None) -> str:
    """`published +2.10 %`; "" where they agree, or one is not known."""
    if published is None or read is None or agree(published, read):
        return ""
    return f"published {percent_change(published / read - 1, 2)} %" if read else "published, and its output has 0"


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


class Io500Figure(Part, frozen=True, kw_only=True):
    """A phase of IO500, in its unit (GiB/s or kIOPS). `published`: by its summary; `read`: by its output, None where
    that gives no figure; `difference`: as of the function."""

    phase: str
    unit: str
    published: Number | None = None
    read: Number | None = None
    difference: str = ""


class Io500Score(Part, frozen=True, kw_only=True):
    """Geometric means: bandwidth in GiB/s, metadata in kIOPS, and of both."""

    bandwidth: Number
    metadata: Number
    total: Number


class Io500Run(Part, frozen=True, kw_only=True):
    """A result directory of IO500: the figures of its summary, and those of its outputs. `score`: None where phases
    have no figure."""

    directory: str
    figures: tuple[Io500Figure, ...]
    published: Io500Score | None = None
    score: Io500Score | None = None
    remarks: tuple[str, ...] = ()

    def of_score(self, part: Literal["bandwidth", "metadata", "total"]) -> str:
        """The difference of a published score and the score of the outputs."""
        return difference(getattr(self.published, part, None), getattr(self.score, part, None))


class IngestedFacts(Part, frozen=True, kw_only=True):
    """`ingested` of campaign.json. `files`: how many of each kind; `refused`: why files were not taken -> how many;
    `without_rows`: why files that were taken give no row; `left_out`: why rows are not in the tables. `when`: the first
    and last dates of the outputs, by the clocks of their nodes, as text."""

    files: dict[str, Count]
    bytes: Count
    refused: dict[str, Count]
    without_rows: dict[str, Count]
    left_out: dict[str, Count]
    when: str = ""
    io500: tuple[Io500Run, ...] = ()


def exists(results: Path) -> bool:
    """Whether a campaign was ingested."""
    return os.path.lexists(results / INGESTED)


def load(results: Path) -> tuple[Ingested, str]:
    """The document, and its digest for campaign.json. Raises FileNotFoundError, Damaged."""
    file = results / INGESTED
    data = documents.content(file, documents.MOST_BYTES)
    return documents.decode(data, Ingested, file), digest(data)


def digest(document: bytes) -> str:
    """The digest that campaign.json has in place of that of a plan."""
    return hashlib.sha256(document).hexdigest()[:12]


def read_files(results: Path, files: Sequence[IngestedFile]) -> Iterator[tuple[IngestedFile, bytes]]:
    """The files with their content, one at a time. Raises FileNotFoundError, Damaged."""
    with _archive(results) as archive:
        for file in files:
            with archive.open(file.sha256) as member:
                data = member.read(MOST_BYTES + 1)
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
