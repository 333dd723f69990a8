"""builds/<key>.json, and beside it the request to Spack and its resolution, whose hashes it has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from iosweep.files import documents
from iosweep.results.campaign_form import Build
from iosweep.results.committed import Noting

#: A file beside the document of a build by Spack -> the key of its SHA-256 in `environment`.
BESIDE = {"spack.yaml": "file_sha256", "spack.lock": "lock_sha256"}


def read(file: Path, damaged: dict[str, str]) -> dict[str, object]:
    """A build document. Damage of the files beside it is noted in `damaged`. Raises FileNotFoundError, Damaged."""
    document = documents.read(file, Build)
    for name in BESIDE:
        beside = file.with_name(f"{file.stem}.{name}")
        with Noting(damaged):
            if not fits(document, name, documents.content(beside, documents.MOST_BYTES)):
                raise documents.Damaged(beside, "its content is not what its build says")
    return document


def fits(document: Mapping[str, object], name: str, content: bytes) -> bool:
    """Whether a file beside a build document has the hash that this says, or it says none."""
    environment = document.get("environment")
    known = environment.get(BESIDE[name]) if isinstance(environment, dict) else None
    return known is None or known == hashlib.sha256(content).hexdigest()
