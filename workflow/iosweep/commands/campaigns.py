"""The campaigns below results/, and the arguments of commands that name one."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.text import shortened, some

RESULTS = Path("results")
CONFIG = Path("config/sweep.yaml")
#: The results of a campaign have one of these: the others may be gone.
_OF_RESULTS = ("plans", "points", "campaign.json", "ingested.json")
#: Campaigns that an error names, and characters of a name in it.
_NAMED, _CHARACTERS = 20, 200
#: Points that a name fits, in an error.
_POINTS = 5
#: Help of an argument that names a campaign.
NAMED = "name of the campaign, or path of its results"


def find(name: str) -> Path | None:
    """The results of a campaign, named by its name or by their path; None, with a message, where there are none."""
    if (found := there(name)) is None:
        say(not_known(name), file=sys.stderr)
    return found


def find_begun(name: str) -> Path | None:
    """The same, also before the campaign has a plan."""
    begun = (path for path in (RESULTS / name, Path(name)) if _is_folder(path))
    return there(name) or next(begun, None) or find(name)


def there(name: str) -> Path | None:
    """The results of a campaign; None without any."""
    return next((path for path in (RESULTS / name, Path(name)) if _holds_results(path)), None)


def _holds_results(path: Path) -> bool:
    return any(os.path.lexists(path / name) for name in _OF_RESULTS)


def known() -> list[Path]:
    """The results of all campaigns below results/."""
    return sorted(filter(_holds_results, RESULTS.glob("*")))


def refuse_ingested(results: Path, why: str) -> None:
    """Raises CommandError where others measured a campaign. `why`: what a command needs that there is not."""
    from iosweep.store import ingested  # late: `iosweep --help` does without

    if ingested.there(results):
        raise CommandError(f"{results} was ingested from outputs of others: {why}")


def below(directory: Path) -> list[Path]:
    """The results in a directory that holds several campaigns; none of one that holds results. Raises CommandError."""
    if _holds_results(directory) or not _is_folder(directory):
        return []
    try:
        return [path for path in sorted(directory.iterdir()) if _holds_results(path)]
    except OSError as error:
        raise CommandError(f"{directory} cannot be read: {error.strerror}") from None


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  Path.is_dir raises for a name that is too long


def not_known(name: str) -> str:
    """That there are no results of a campaign, as a sentence, with those that there are."""
    there = some([path.name for path in known()], _NAMED)
    hint = f" (there are: {there})" if there else ""
    return f"no results of a campaign `{shortened(name, _CHARACTERS)}` in {RESULTS}/{hint}"


def find_point(wanted: str, found: Sequence[Path], advice: str = "") -> tuple[Path, str]:
    """The results and the id of the one stored point that a user means: this id, or else one that begins so up to a
    dot, since `qd1` is not the beginning of `qd16`. Raises CommandError; `advice`: what it says to do
    where there are several."""
    from iosweep.store.store import Store  # late: `iosweep --help` does without

    stored = [(path, point) for path in found for point in Store(path).results()]
    fits = [one for one in stored if one[1] == wanted] or [one for one in stored if one[1].startswith(f"{wanted}.")]
    if len(fits) != 1:
        several = some([f"{point} in {path}" for path, point in sorted(fits)], _POINTS, separator="; ")
        raise CommandError(f"{wanted}: {f'is not one point: {several}{advice}' if fits else 'has no result'}")
    return fits[0]


def add_configfile(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--configfile", type=Path, metavar="FILE", default=CONFIG, help=f"the configuration; default: {CONFIG}"
    )


def add_overrides(parser: ArgumentParser) -> None:
    """Add the arguments that take the place of a configuration's keys."""
    parser.add_argument("--campaign", metavar="NAME", help="override the configuration's campaign")
    parser.add_argument("--target", metavar="DIR", help="override the configuration's target.directory")


def overrides(arguments: Namespace) -> dict[str, str]:
    """Key -> value that takes its place."""
    values = {"campaign": arguments.campaign, "target": arguments.target}
    return {name: value for name, value in values.items() if value is not None}


def share(text: str) -> float:
    """The share of an argument such as `3%`."""
    from iosweep.units import parse_share

    try:
        return parse_share(text)
    except ValueError as error:
        raise ArgumentTypeError(f"`{text}` is {error}") from None


def duration(text: str) -> float:
    """The seconds of an argument such as `10min`."""
    from iosweep.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(f"`{text}` is {error}") from None
