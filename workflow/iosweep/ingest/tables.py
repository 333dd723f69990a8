"""Files of others -> ingested.zip and ingested.json of a new campaign, and the tables of what they hold."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import iosweep
from iosweep.files import documents, safe_paths
from iosweep.ingest import io500, outputs
from iosweep.ingest.rows import Made, campaign_rows
from iosweep.store import ingested
from iosweep.store.ingested import INGESTED, IO500, RAW, Ingested, IngestedFacts, IngestedFile
from iosweep.tables.table_writer import CampaignTables
from iosweep.text import shortened
from iosweep.tools.reading import Reading

#: What campaign.json has as the directory that was measured.
UNKNOWN = "not known (ingested)"
#: Characters of a reason.
_LONGEST = 200


class Content(NamedTuple):
    """What a file says: by tool, and as a summary of IO500."""

    file: IngestedFile
    data: bytes
    readings: dict[str, Reading]
    summary: io500.Summary | None

    @property
    def has_rows(self) -> bool:
        """Whether the tables get a row of it: one with a phase."""
        return any("phase" in row for reading in self.readings.values() for row in reading.rows)

    @property
    def without_row(self) -> str:
        """Why a file that has a tool's output gives no row: its first problem."""
        if not self.readings or self.has_rows:
            return ""
        texts = (problem.text for reading in self.readings.values() for problem in reading.problems)
        return shortened(next(texts, "it has no result"), _LONGEST)


def look(paths: Sequence[Path], job_files: bytes = b"") -> tuple[list[Content], Counter[str]]:
    """(the files below some paths that a tool wrote, also those without a figure: a better reader may find one; why
    others are not taken -> how many). `job_files`: of fio, kept before its outputs in client mode."""
    taken: list[Content] = []
    refused: Counter[str] = Counter()
    seen: dict[str, Content] = {}
    for found in (one for path in paths for one in outputs.files(path)):
        if isinstance(found, outputs.Skipped):
            refused[found.reason] += 1
            continue
        if job_files and b'"client_stats"' in found.data:
            found = replace(found, data=job_files + found.data)
        if known := seen.get(found.sha256):  # its rows count once; a set of IO500's may need it all the same
            refused["is a copy of another file"] += 1
            taken.append(known._replace(file=IngestedFile(found.name, found.sha256, len(found.data))))
        elif isinstance(content := _content(found.name, found.data), str):
            refused[content] += 1
        else:
            seen[content.file.sha256] = content
            taken.append(content)
    return taken, refused


def _content(name: str, data: bytes) -> Content | str:
    """What a file holds, or why it is not taken."""
    readings, summary = outputs.readings(data), io500.summary(data)
    if isinstance(readings, str) and summary is None:
        return readings
    file = IngestedFile(name, hashlib.sha256(data).hexdigest(), len(data))
    return Content(file, data, {} if isinstance(readings, str) else readings, summary)


def store(
    results: Path, campaign: str, paths: Sequence[Path], taken: Sequence[Content], refused: Counter[str]
) -> tuple[Ingested, str]:
    """Keep files as a campaign; returns the document and its digest. Raises OSError."""
    with safe_paths.folder(results, make=True) as place:
        document = Ingested(
            campaign=campaign,
            made=datetime.now(UTC).replace(microsecond=0),
            sources=tuple(outputs.shown(path) for path in paths),
            files=tuple(content.file for content in taken),
            refused=dict(refused.most_common()),
        )
        data = documents.dump(document, indent=True)
        # both are on disk before one takes its name: on a full disk, what they replace stays whole
        with place.replaced(INGESTED) as described:
            described.write(data)
            described.flush()
            os.fsync(described.fileno())
            with (
                place.replaced(RAW) as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            ):
                for digest, content in {one.file.sha256: one.data for one in taken}.items():
                    archive.writestr(zipfile.ZipInfo(digest), content, zipfile.ZIP_DEFLATED, compresslevel=1)
    return document, ingested.digest(data)


def make_again(results: Path) -> IngestedFacts:
    """Read all files again, and make the tables of what they hold. Raises FileNotFoundError, Damaged."""
    document, digest = ingested.load(results)
    read = [_content(file.path, data) for file, data in ingested.raw(results, document.files)]
    return make(results, document, digest, [one for one in read if isinstance(one, Content)])


def make(results: Path, document: Ingested, digest: str, read: Sequence[Content]) -> IngestedFacts:
    """Write the tables of what files hold, each atomically."""
    once = [*{content.file.sha256: content for content in reversed(read)}.values()][::-1]
    made = campaign_rows(document.campaign, ((one.file, one.readings.values()) for one in once))
    summaries = [(one.file.path, one.summary) for one in read if one.summary]
    of_tools = [(one.file.path, reading) for one in read for reading in one.readings.values()]
    kinds = Counter(kind for one in once for kind in (*one.readings, *([IO500] if one.summary else [])))
    facts = IngestedFacts(
        files=dict(sorted(kinds.items(), key=lambda counted: (counted[0] == IO500, counted[0]))),
        bytes=sum(one.file.bytes for one in once),
        refused=document.refused,
        without_rows=dict(Counter(one.without_row for one in once if one.without_row).most_common()),
        left_out=dict(Counter(made.left_out).most_common()),
        when=_when(made),
        io500=tuple(io500.runs(summaries, of_tools)),
    )
    with CampaignTables(results) as tables:
        for row in made.rows:
            tables.add(row)
        tables.finish(lambda: _about(document, digest, made) | {"ingested": facts})
    return facts


def _when(made: Made) -> str:
    """`2021-10-20 13:34 to 2021-10-20 14:22 (local time)`; empty where no output has a date."""
    names = ("began_local", "ended_local")
    dates = sorted(str(value) for row in made.rows for name in names if (value := row.values.get(name)))
    if not dates:
        return ""
    first, last = (date[:16].replace("T", " ") for date in (dates[0], dates[-1]))
    return f"{first} to {last} (local time)" if first != last else f"{first} (local time)"


def _about(document: Ingested, digest: str, made: Made) -> dict[str, object]:
    """The part of campaign.json that takes the place of a plan."""
    more = f" and {len(document.sources) - 3} more" if len(document.sources) > 3 else ""
    return {
        "campaign": document.campaign,
        "description": f"Ingested from {', '.join(document.sources[:3])}{more}",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "iosweep_version": iosweep.__version__,
        "plan_digest": digest,
        "seed": 0,
        "target": {"directory": UNKNOWN},
        "limits": {},
        "sweeps": made.sweeps,
        "configuration": (),
        "jobs": (),
        "results_of_nodes": {},
        "builds": {},
    }
