"""`target.json` in the results: the campaign's directory on the target, and the UUID that proves that it is ours."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iosweep.errors import Refused
from iosweep.files import forms
from iosweep.files.documents import Damaged
from iosweep.results.store import Store
from iosweep.target import marker
from iosweep.target.marker import MARKER, directory_of
from iosweep.text import printable

#: Folders that are written only after the directory was claimed. `spent.json` proves nothing: a run whose results were
#: removed writes it at its end.
_FOLDERS = ("sets", "nodes")
#: A result or its archive, including superseded and damaged ones; not `missing.json`, which needs no target.
_RESULT = re.compile(r"r\d{3,}-\d+\..+")


def read(store: Store) -> dict[str, Any] | None:
    """The content of the file, None if it does not exist. Raises Refused if it is damaged."""
    try:
        known = store.required("", "target")
    except Damaged as error:
        raise Refused(f"{error}. {_way_out(store)}") from None
    if known is not None and (why := wrong(known)):
        raise Refused(f"{store.path}/target.json is damaged ({why}). {_way_out(store)}")
    return known


def wrong(known: Mapping[str, Any]) -> str | None:
    """Why a well-formed document cannot be ours, None if it can. Pure."""
    directory, campaign = Path(known["directory"]), known["campaign"]
    if not directory.is_absolute() or directory.name != marker.name_of(campaign):
        return f"{printable(str(directory))} is not the directory of the campaign `{printable(campaign)}`"
    return None


def proof(store: Store) -> str | None:
    """A file of the results that proves that the campaign has claimed a directory on a target, None without one.

    The name is enough: a damaged file is proof as well.
    """
    points = (f"points/{point}" for point in _names(store.path / "points"))
    found = (f"{point}/{name}" for point in points for name in _names(store.path / point) if _RESULT.fullmatch(name))
    others = (f"{folder}/{name}" for folder in _FOLDERS for name in _names(store.path / folder) if _whole(name))
    return next(itertools.chain(found, others), None)


def _names(folder: Path) -> list[str]:
    """The names in a directory; none if it is a link or does not exist."""
    return sorted(f.name for f in folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _whole(name: str) -> bool:
    """Whether it is the name of a document, not of a temporary file."""
    return name.endswith(".json") and not name.startswith(".")


def places(store: Store) -> list[str]:
    """Possible directories of the campaign according to plans and results, sorted by name."""
    plans = [made for made in store.documents("plans").values() if forms.PLAN(made) is None]
    named = {(made["target"]["directory"], made["campaign"]) for made in plans}
    for repetitions in store.results().values():
        named |= {(result.target.directory, store.path.name) for result in repetitions.values()}
    return sorted({directory_of(target, campaign) for target, campaign in named if "/" not in campaign})


def gone(store: Store, shows: str, directory: str) -> str:
    """The message for a missing target.json of an existing directory. `shows`: the proof."""
    return (
        f"{store.path}/target.json is gone, although {shows} shows that the campaign was measured, and {directory} is"
        f" there: {_MARKER_SAYS}, remove the directory by hand, then run this again"
    )


_MARKER_SAYS = f"its marker {MARKER} names the results that the directory belongs to. If they are these"


def _way_out(store: Store) -> str:
    where = " or ".join(places(store)) or f"<target>/{marker.name_of(store.path.name)}"
    return (
        f"If {printable(where)} is still on the target: {_MARKER_SAYS}, remove the directory by hand; then remove"
        f" {store.path}/target.json"
    )
