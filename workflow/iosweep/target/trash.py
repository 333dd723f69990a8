"""The trash of a file system: where files that the campaign deletes would keep their space for a day.

MooseFS has one for each directory, which new files and directories take over. Runs inside the agent.
"""

from __future__ import annotations

import re

from iosweep.target.directory import Place
from iosweep.target.own_command import Failed, run

#: Of MooseFS: sets for how many seconds files that are deleted are kept.
_COMMAND = ("mfssettrashtime", "0")


def there_is_one(volume: str) -> bool:
    """Whether a file system has a trash that we can turn off. `volume`: its name (filesystem.volume). Pure."""
    return re.match(r"fuse(\.\S+)? mfs#", volume) is not None


def keep_nothing(place: Place) -> str | None:
    """Have files that are made in the campaign's directory from now on free their space when they are deleted; why
    that was not possible, or None."""
    try:
        run(_COMMAND, place)
    except Failed as error:
        return str(error)
    return None
