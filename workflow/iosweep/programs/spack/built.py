"""tools.json: what was built, as the DAG and the jobs read it. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosweep.errors import Unusable
from iosweep.files import documents, forms
from iosweep.files.documents import Damaged
from iosweep.target import filesystem, identify
from iosweep.target.identify import FileSystem


@dataclass(frozen=True)
class Built:
    """The tools of one spack.yaml. `file`: the tools.json below tools.directory. `document`: what it says, with the
    keys of docs/tools.md."""

    file: Path
    document: Mapping[str, Any]

    @property
    def search(self) -> str:
        """The directories where the tools are, as PATH has them."""
        return os.pathsep.join(self.document["path"])

    def hashes(self) -> dict[str, str]:
        """tool -> sha256 of its binary when it was built."""
        return {name: tool["sha256"] for name, tool in self.document["tools"].items()}

    def gone(self) -> list[str]:
        """Binaries that are not where they were built."""
        named = [tool["path"] for tool in self.document["tools"].values()]
        if (mpi := self.document.get("mpi")) and mpi["path"]:
            named.append(mpi["path"])
        return [path for path in named if not os.access(path, os.X_OK)]


def read(file: Path, copied: bool = False) -> Built | None:
    """What was built, or None where nothing is yet. `copied`: it is the copy of tools.json that is with the results.

    Raises Unusable.
    """
    original = file
    try:
        document = documents.read(file)
        if lacks := forms.BUILD(document):
            raise Damaged(file, lacks)
        if copied:
            original = Path(document["store"]).parent / document["environment"]["digest"] / "tools.json"
        found = Built(original, document)
        gone, hashes, search = found.gone(), found.hashes(), found.search
        if not (search and hashes and isinstance(store := found.document["store"], str)):
            raise TypeError
    except FileNotFoundError:
        return None
    except (Damaged, KeyError, TypeError, AttributeError) as error:
        wrong = error if isinstance(error, Damaged) else Damaged(file, "it does not say what was built")
        raise Unusable(str(wrong), "remove it, and the next run builds the tools again") from None
    if not (copied or _same(Path(store), file.parent.parent / "store")):
        raise Unusable(
            f"the tools of {file} were built in {store}, and cannot be moved or copied: paths are in the binaries",
            f"remove {file.parent.parent}, and the next run builds them anew",
        )
    if gone:
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
    if facts["device"] != there["device"] and filesystem.identity(facts) != filesystem.identity(there):
        return None
    sentence = f"the tools ({directory}) are on the file system under test"
    return (True, f"{sentence}; name a tools.directory elsewhere that all nodes see") if slurm else (False, sentence)
