"""`target.json` in the results: the campaign's directory on the target, and the UUID that proves that it is ours."""

from __future__ import annotations

import itertools
import re
from functools import partial

from iosweep.errors import Refused
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged, Document
from iosweep.files.fields import Name, Part, PathText
from iosweep.plan.model import plan_files
from iosweep.results.campaign_documents import ClaimedTarget
from iosweep.results.store import Store
from iosweep.target.directory import directory_of, name_of
from iosweep.text import printable

#: Folders that are written only after the directory was claimed. `spent.json` proves nothing: a run whose results were
#: removed writes it at its end.
_FOLDERS = ("sets", "nodes")
#: A result or its archive, including superseded and damaged ones; not `missing.json`, which needs no target.
_RESULT = re.compile(r"r\d{3,}-\d+\..+")


def read(store: Store) -> ClaimedTarget | None:
    """The content of the file, None if it does not exist. Raises Refused if it is damaged."""
    try:
        return store.document(ClaimedTarget)
    except Damaged as error:
        where = " or ".join(places(store)) or f"<target>/{name_of(store.path.name)}"
        raise Refused(f"{error}{documents.target_cure(error.path, printable(where))}") from None


def proof(store: Store) -> str | None:
    """A file of the results that proves that the campaign has claimed a directory on a target, None without one.

    The name is enough: a damaged file is proof as well.
    """
    names = partial(safe_paths.names, store.path)
    points = (f"points/{point}" for point in names("points"))
    found = (f"{point}/{name}" for point in points for name in names(point) if _RESULT.fullmatch(name))
    others = (f"{folder}/{name}" for folder in _FOLDERS for name in names(folder) if _whole(name))
    return next(itertools.chain(found, others), None)


def _whole(name: str) -> bool:
    """Whether it is the name of a document, not of a temporary file."""
    return name.endswith(".json") and not name.startswith(".")


def places(store: Store) -> list[str]:
    """Possible directories of the campaign according to plans and results, sorted by name."""
    results = (result for repetitions in store.results().values() for result in repetitions.values())
    named = {(result.target.directory, store.path.name) for result in results}
    for file in plan_files(store.path):
        with store.noting():
            made = documents.read_as(file, _Planned)
            named.add((made.target.directory, made.campaign))
    return sorted({directory_of(target, campaign) for target, campaign in named})


class _Directory(Part, frozen=True):
    directory: PathText


class _Planned(Document, frozen=True):
    """The part of a plan that says what it measured."""

    campaign: Name
    target: _Directory


def gone(store: Store, shows: str, directory: str) -> str:
    """The message for a missing target.json. `shows`: the proof; `directory`: where it may be."""
    return (
        f"{store.path}/target.json is gone, although {shows} shows that the campaign was measured. Look at {directory}:"
        f" {documents.MARKER_SAYS}, remove the directory by hand"
    )


def elsewhere(known: ClaimedTarget, here: str) -> str:
    """The message for a directory with our marker on another file system than the campaign's. `here`: its identity."""
    return (
        f"{known.directory} is on another file system than when it was measured ({here}, and it was"
        f" {known.file_system}); it is left alone. Mount that one, or look at this and remove it by hand"
    )
