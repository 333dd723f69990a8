"""Manifests: what an allocation hands to Snakemake. One line per repetition with the hash of its raw output.

A manifest is a pure function of the plan and the store: one with another content is stale, and is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged
from iosweep.plan.model import Allocation
from iosweep.store.campaign_documents import Missing
from iosweep.store.record import Repetition
from iosweep.store.store import Store


def text(
    allocation: Allocation,
    results: Mapping[str, Mapping[int, Repetition]],
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
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def path(results: Path, allocation: str) -> Path:
    """The manifest of an allocation."""
    return results / "manifests" / f"{allocation}.jsonl"


def holds(file: Path, lines: bytes) -> bool:
    """Whether a file has these lines."""
    try:
        return documents.content(file, len(lines)) == lines
    except (FileNotFoundError, Damaged):
        return False


def write(file: Path, allocation: Allocation, store: Store) -> None:
    """Write the manifest of what the store has."""
    safe_paths.write(store.path, file.relative_to(store.path), text(allocation, store.repetitions(), store.missing()))
