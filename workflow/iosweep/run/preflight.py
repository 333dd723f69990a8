"""Whether the nodes of an allocation are fit to measure together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iosweep.target.filesystem import may_be_one


def differs(
    here: Mapping[str, Any], there: Mapping[str, Any], builds: Mapping[str, str], found: Mapping[str, str | None]
) -> str | None:
    """Why a node cannot measure with the first one, or None.

    here, there: what target.identify says on the first node and on it. builds, found: tool -> hash of its binary.
    """
    if not may_be_one(here, there):
        return (
            f"the target is on the file system {there['source']} ({there['fstype']}) there, and on {here['source']}"
            f" ({here['fstype']}) on the first node; is it mounted there?"
        )
    if not there["writable"]:
        return "the target cannot be written to from there"
    for tool, build in builds.items():
        if found.get(tool) is None:
            return f"{tool} is not there under the same path"
        if found[tool] != build:
            return f"{tool} is another build there"
    return None
