"""`target.json` in the results: where the campaign's directory on the target is, and by which UUID it is ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iosweep import marker_place
from iosweep.documents import Damaged
from iosweep.store import Store
from iosweep.target import MARKER, Refused
from iosweep.units import printable


def read(store: Store) -> dict[str, Any] | None:
    """What the file says; None where there is none. Raises Refused where it cannot be relied on."""
    try:
        known = store.required("", "target")
    except Damaged as error:
        raise Refused(f"{error}; {_way_out(store.path)}") from None
    if known is not None and (why := wrong(known)):
        raise Refused(f"{store.path}/target.json is damaged ({why}); {_way_out(store.path)}")
    return known


def wrong(known: Mapping[str, Any]) -> str | None:
    """Why a document of the right form cannot be ours, or None. Pure."""
    directory, campaign = Path(known["directory"]), known["campaign"]
    if not directory.is_absolute() or directory.name != marker_place.name_of(campaign):
        return f"{printable(str(directory))} is not the directory of the campaign `{printable(campaign)}`"
    return None


def _way_out(results: Path) -> str:
    return (
        f"it says where the campaign's directory on the target is, and by which UUID it is ours. The marker {MARKER} in"
        f" <target>/{marker_place.name_of(results.name)}/ names the results that the directory belongs to: if these,"
        f" remove it by hand, then remove {results}/target.json"
    )
