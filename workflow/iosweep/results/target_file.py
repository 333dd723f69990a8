"""`target.json` in the results: where the campaign's directory on the target is, and by which UUID it is ours."""

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

#: Files that are written after the directory was claimed only; `nodes` before the first byte of data. `spent.json` is
#: not among them: a run whose results were removed writes it when it ends.
_FOLDERS = ("sets", "nodes")
#: A result or its archive, also one that was superseded or damaged; not `missing.json`, which needs no target.
_RESULT = re.compile(r"r\d{3,}-\d+\..+")


def read(store: Store) -> dict[str, Any] | None:
    """What the file says; None where there is none. Raises Refused where it cannot be relied on."""
    try:
        known = store.required("", "target")
    except Damaged as error:
        raise Refused(f"{error}. {_way_out(store)}") from None
    if known is not None and (why := wrong(known)):
        raise Refused(f"{store.path}/target.json is damaged ({why}). {_way_out(store)}")
    return known


def wrong(known: Mapping[str, Any]) -> str | None:
    """Why a document of the right form cannot be ours, or None. Pure."""
    directory, campaign = Path(known["directory"]), known["campaign"]
    if not directory.is_absolute() or directory.name != marker.name_of(campaign):
        return f"{printable(str(directory))} is not the directory of the campaign `{printable(campaign)}`"
    return None


def proof(store: Store) -> str | None:
    """A file of the results that shows that the campaign has claimed a directory on a target; None if there is none.

    Names are enough: a damaged file proves it as well.
    """
    points = (f"points/{point}" for point in _names(store.path / "points"))
    found = (f"{point}/{name}" for point in points for name in _names(store.path / point) if _RESULT.fullmatch(name))
    others = (f"{folder}/{name}" for folder in _FOLDERS for name in _names(store.path / folder) if _whole(name))
    return next(itertools.chain(found, others), None)


def _names(folder: Path) -> list[str]:
    """What is in a directory; nothing where it is a link, or none."""
    return sorted(f.name for f in folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _whole(name: str) -> bool:
    """Whether it is a document's name, not that of one which was not written to its end."""
    return name.endswith(".json") and not name.startswith(".")


def places(store: Store) -> list[str]:
    """Where the campaign's directory may be, by the plans and the results, in no order of time."""
    plans = [made for made in store.documents("plans").values() if forms.PLAN(made) is None]
    named = {(made["target"]["directory"], made["campaign"]) for made in plans}
    for repetitions in store.results().values():
        named |= {(result.target.directory, store.path.name) for result in repetitions.values()}
    return sorted({directory_of(target, campaign) for target, campaign in named if "/" not in campaign})


def gone(store: Store, shows: str, directory: str) -> str:
    """What to say where target.json is gone and the directory is there. `shows`: the proof."""
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
