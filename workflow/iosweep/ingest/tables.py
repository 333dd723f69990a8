"""ingested.json and ingested.zip -> the tables of a campaign, as merge makes them of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import iosweep
from iosweep.ingest import contents, io500
from iosweep.ingest.contents import Contents
from iosweep.ingest.rows import Made, campaign_rows
from iosweep.results import ingested, merged_tables, temporary_files
from iosweep.results.ingested import Ingested, IngestedFacts, IngestedFile
from iosweep.results.table_writer import CampaignTables

#: What campaign.json has as the directory that was measured, where outputs do not tell it, or tell several.
UNKNOWN = "not known (ingested)"


def make_again(results: Path, repair: str | None = None) -> IngestedFacts:
    """Read all files again, and make the tables of what they hold. `repair`: see merge.merge.

    Raises FileNotFoundError, Damaged.
    """
    document, digest = ingested.load(results)
    read = [(file, contents.read(file.path, data, file.kinds)) for file, data in ingested.raw(results, document.files)]
    return make(results, document, digest, read, repair)


def make(
    results: Path,
    document: Ingested,
    digest: str,
    read: Sequence[tuple[IngestedFile, Contents]],
    repair: str | None = None,
) -> IngestedFacts:
    """Write the tables of what files hold, each atomically."""
    repair = merged_tables.last_repair(results) if repair is None else repair
    temporary_files.remove(results)
    made = campaign_rows(document.campaign, read)
    facts = _facts(document, read, made)
    with CampaignTables(results) as tables:
        for row in made.rows:
            tables.add(row)
        tables.finish(lambda: _about(document, digest, made) | {"ingested": facts, "repair": repair})
    return facts


def _facts(document: Ingested, read: Sequence[tuple[IngestedFile, Contents]], made: Made) -> IngestedFacts:
    summaries = [(file.path, content.summary) for file, content in read if content.summary]
    outputs = [(file.path, reading) for file, content in read for reading in content.readings]
    without = contents.Reasons()
    once = {file.sha256: (file, content) for file, content in reversed(read)}.values()
    for file, content in once:
        if content.readings and not content.rows:
            without.add(contents.why_no_row(file.path, content))
    return IngestedFacts(
        files=dict(sorted(Counter(kind for file, _ in once for kind in file.kinds).items(), key=_tools_first)),
        bytes=sum(file.bytes for file, _ in once),
        refused=document.refused,
        without_rows=without.found(),
        left_out=dict(Counter(made.left_out).most_common()),
        when=_when(made),
        io500=tuple(io500.runs(summaries, outputs)),
    )


def _tools_first(counted: tuple[str, int]) -> tuple[bool, str]:
    return counted[0] == ingested.IO500, counted[0]


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
    directories = {row.values.get("target_directory") for row in made.rows}
    (directory,) = directories if len(directories) == 1 else (None,)
    return {
        "campaign": document.campaign,
        "description": f"Ingested from {', '.join(document.sources[:3])}"
        + (f" and {len(document.sources) - 3} more" if len(document.sources) > 3 else ""),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "iosweep_version": iosweep.__version__,
        "plan_digest": digest,
        "seed": 0,
        "target": {"directory": directory or UNKNOWN},
        "limits": {},
        "sweeps": made.sweeps,
        "configuration": (),
        "jobs": (),
        "results_of_nodes": {},
        "builds": {},
    }
