"""Manifests: what an allocation hands to Snakemake. One line per repetition with the hash of its raw output.

A manifest is a pure function of the plan and the store, so making it again verifies it. Its name carries
the digest of the allocation's plan and a generation: Snakemake sees a new output where there is something to measure,
and an old one where there is nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import orjson

from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged
from iosweep.plan.model import Allocation
from iosweep.results.campaign_documents import Missing
from iosweep.results.committed import Result
from iosweep.results.store import Store


def text(
    allocation: Allocation,
    results: Mapping[str, Mapping[int, Result]],
    missing: Mapping[str, Missing],
) -> bytes:
    """The manifest's lines."""
    lines: list[Mapping[str, object]] = []
    for point in allocation.points:
        if point.id in missing:
            lines.append({"point": point.id, "missing": missing[point.id].reason})
        for number, result in sorted(results.get(point.id, {}).items()):
            raw = result.raw.sha256 if result.intact else None
            lines.append({"point": point.id, "repetition": number, "attempt": result.attempt, "raw_sha256": raw})
    made = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    return made + b'{"sha256":"%s"}\n' % hashlib.sha256(made).hexdigest().encode()


def _holds(file: Path, lines: bytes) -> bool:
    try:
        return documents.content(file, len(lines)) == lines
    except (FileNotFoundError, Damaged):
        return False


def damaged(text: bytes) -> bool:
    """Whether the digest in the last line of a manifest is not that of the lines before."""
    lines, last = text[:-_LAST], text[-_LAST:]
    return last != b'{"sha256":"%s"}\n' % hashlib.sha256(lines).hexdigest().encode()


def damage(results: Path, allocation: Allocation) -> str | None:
    """What is wrong with the newest manifest of an allocation, as a sentence; None if it is whole, or not there."""
    file = path(results, allocation, b"", anything_left=True)
    number = int(file.stem.rpartition("-")[2]) - 1
    file = file.with_name(f"{allocation.name}-{allocation.digest}-{number}.jsonl")
    try:
        documents.see(str(file.parent))
        text = documents.content(file, documents.MOST_BYTES)
    except FileNotFoundError:
        return None
    except Damaged as error:
        return f"{error}{documents.cure(error.path)}"
    wrong = documents.sentence(str(file), "its content is not what its digest says")
    return f"{wrong}{documents.cure(str(file))}" if damaged(text) else None


#: Bytes of the last line.
_LAST = 78


def write(file: Path, allocation: Allocation, store: Store) -> None:
    """Write the manifest of what the store has."""
    safe_paths.write(store.path, file.relative_to(store.path), text(allocation, store.results(), store.missing()))


def path(results: Path, allocation: Allocation, lines: bytes, anything_left: bool) -> Path:
    """The manifest that Snakemake is to have: the newest of this plan while nothing is left and the store bears it
    out, else the next generation."""
    pattern = re.compile(rf"^{re.escape(allocation.name)}-{allocation.digest}-(\d+)\.jsonl$")
    matches = map(pattern.match, safe_paths.names(results, "manifests"))
    newest = max((int(match[1]) for match in matches if match), default=-1)
    file = results / "manifests" / f"{allocation.name}-{allocation.digest}-{newest}.jsonl"
    if newest >= 0 and not anything_left and _holds(file, lines):
        return file
    return file.with_name(f"{allocation.name}-{allocation.digest}-{newest + 1}.jsonl")
