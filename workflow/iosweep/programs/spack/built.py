"""tools.json: what was built, as the DAG and the jobs read it. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from iosweep.errors import Unusable
from iosweep.files import documents
from iosweep.files.documents import Damaged, Document
from iosweep.files.fields import Part
from iosweep.target import filesystem, identify
from iosweep.target.identify import FileSystem


class BuiltTool(Part, frozen=True):
    path: str
    sha256: str
    version: str | None = None
    package: str | None = None


class BuiltMpi(Part, frozen=True):
    path: str | None
    version: str | None = None
    package: str | None = None


class _Environment(Part, frozen=True):
    digest: str


class ToolsFile(Document, frozen=True, kw_only=True):
    """The keys of tools.json (docs/tools.md) that jobs need."""

    tools: Annotated[dict[str, BuiltTool], Meta(min_length=1)]
    path: Annotated[tuple[str, ...], Meta(min_length=1)]
    store: str
    environment: _Environment | None = None
    mpi: BuiltMpi | None = None


@dataclass(frozen=True)
class Built:
    """The tools of one spack.yaml. `file`: the tools.json below tools.directory. `document`: all that it says."""

    file: Path
    document: Mapping[str, object]
    content: ToolsFile

    @property
    def search(self) -> str:
        """The directories where the tools are, as PATH has them."""
        return os.pathsep.join(self.content.path)

    def hashes(self) -> dict[str, str]:
        """tool -> sha256 of its binary when it was built."""
        return {name: tool.sha256 for name, tool in self.content.tools.items()}

    def gone(self) -> list[str]:
        """Binaries that are not where they were built."""
        mpi = self.content.mpi
        named = [*(tool.path for tool in self.content.tools.values()), *([mpi.path] if mpi and mpi.path else [])]
        return [path for path in named if not os.access(path, os.X_OK)]


def read(file: Path, copied: bool = False) -> Built | None:
    """What was built, or None where nothing is yet. `copied`: it is the copy of tools.json that is with the results.

    Raises Unusable.
    """
    try:
        document = documents.read(file)
        tools = documents.fits(document, ToolsFile, file)
        original = file
        if copied:
            if not tools.environment:
                raise Damaged(file, "it does not say which environment was built")
            original = Path(tools.store).parent / tools.environment.digest / "tools.json"
    except FileNotFoundError:
        return None
    except Damaged as error:
        raise Unusable(str(error), "remove it, and the next run builds the tools again") from None
    store = Path(tools.store)
    found = Built(original, document, tools)
    if not (copied or _same(store, file.parent.parent / "store")):
        raise Unusable(
            f"the tools of {file} were built in {store}, and cannot be moved or copied: paths are in the binaries",
            f"remove {file.parent.parent}, and the next run builds them anew",
        )
    if gone := found.gone():
        raise Unusable(
            f"{gone[0]} is gone, which {original} says was built",
            f"is its file system mounted here? If it was removed, remove {original}, and the next run builds the tools"
            " again",
        )
    return found


def _same(one: Path, other: Path) -> bool:
    if one == other.absolute():
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False


def on_target(
    facts: FileSystem, there: FileSystem, directory: Path, slurm: bool, campaign: str
) -> tuple[bool, str] | None:
    """(whether that is refused, a sentence) where tools are on the file system under test. None where they are not.

    facts, there: what identify.identify says of the target and of the tools. To load a program from what is measured
    would be measured, too; and a node that waits for its target would not even start one.
    """
    if identify.holds(facts, f"iosweep-{campaign}", directory):
        return True, f"tools.directory {directory} is inside the campaign's directory; name another one"
    if not filesystem.same_now(facts, there):
        return None
    sentence = f"the tools ({directory}) are on the file system under test"
    return (True, f"{sentence}; name a tools.directory elsewhere that all nodes see") if slurm else (False, sentence)
