"""The campaigns below results/, and the arguments of commands that name one."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from iosweep.commands.terminal import say, working
from iosweep.errors import CommandError, Unusable
from iosweep.text import shortened, some

RESULTS = Path("results")
CONFIG = Path("config/sweep.yaml")
#: The results of a campaign have one of these: the others may be gone.
_OF_RESULTS = ("plans", "points", "campaign.json", "ingested.json")
#: Campaigns that an error names, and characters of a name in it.
_NAMED, _CHARACTERS = 20, 200
#: The kind of the temporary directories that archives are unpacked to.
_UNPACKED = "archive"
#: Help of an argument that names a campaign.
NAMED = "name of the campaign, or path of its results"
#: The same of commands that only read.
NAMED_OR_ARCHIVE = f"{NAMED} or of an archive of `iosweep export`"


def find(name: str, writes: bool = False) -> Path | None:
    """The results of a campaign, named by its name, by their path, or by an archive that `iosweep export` made; None,
    with a message, where there are none.

    writes: the command writes to them, which an archive does not take. Raises CommandError.
    """
    if (found := _find(name)) is not None:
        return found
    if _is_archive(Path(name)):
        if writes:
            raise CommandError(f"{name} is an archive, and this command writes to results: unpack it first, `tar -xf`")
        return _unpacked(Path(name), Path.cwd())
    unknown(name)
    return None


@cache
def _unpacked(archive: Path, directory: Path) -> Path:
    """The results in an archive, in a temporary directory that goes when this process ends. directory: the working
    directory, which a relative path depends on. Raises CommandError."""
    from iosweep.files import tar_archive, temporary_directory  # late: `iosweep --help` does without

    stack = contextlib.ExitStack()
    place = stack.enter_context(temporary_directory.made(_UNPACKED))
    atexit.register(stack.close)
    try:
        with working(f"unpacking {archive} ..."):
            found = tar_archive.unpack(archive, place)
    except Unusable as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{archive} cannot be unpacked: {error.filename or place}: {error.strerror}") from None
    if not _holds_results(found):
        raise CommandError(f"{archive} holds no results of a campaign")
    return found


def is_unpacked(results: Path) -> bool:
    """Whether results are those of an archive: their path is of no use after this process."""
    return results.parent.name.startswith(f"iosweep-{_UNPACKED}-")


def find_begun(name: str) -> Path | None:
    """The same, also before the campaign has a plan."""
    begun = (path for path in (RESULTS / name, Path(name)) if _is_folder(path))
    return _find(name) or next(begun, None) or find(name)


def there(name: str) -> Path | None:
    """The results of a campaign, or an archive of them, which `unpacked` makes results of; None without any."""
    return _find(name) or (Path(name) if _is_archive(Path(name)) else None)


def _find(name: str) -> Path | None:
    return next((path for path in (RESULTS / name, Path(name)) if _holds_results(path)), None)


def _holds_results(path: Path) -> bool:
    return any(os.path.lexists(path / name) for name in _OF_RESULTS)


def known() -> list[Path]:
    """The results of all campaigns below results/."""
    return sorted(filter(_holds_results, RESULTS.glob("*")))


def refuse_ingested(results: Path, why: str) -> None:
    """Raises CommandError where others measured a campaign. `why`: what a command needs that there is not."""
    from iosweep.results import ingested  # late: `iosweep --help` does without

    if ingested.there(results):
        raise CommandError(f"{results} was ingested from outputs of others: {why}")


def below(directory: Path) -> list[Path]:
    """The results and the archives in a directory that holds several campaigns; none of one that holds results.

    `unpacked` makes results of each. Raises CommandError.
    """
    if _holds_results(directory) or not _is_folder(directory):
        return []
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise CommandError(f"{directory} cannot be read: {error.strerror}") from None
    return [one for one in entries if _holds_results(one) or _is_archive(one)]


def unpacked(path: Path) -> Path:
    """The results in an archive; results as they are. Raises CommandError."""
    return _unpacked(path, Path.cwd()) if _is_file(path) else path


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  Path.is_file raises for a name that is too long


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  likewise


def _is_archive(path: Path) -> bool:
    from iosweep.files import tar_archive

    return tar_archive.compression(path.name) is not None and _is_file(path)


def unknown(name: str) -> None:
    """Print that there are no results of a campaign."""
    say(not_known(name), file=sys.stderr)


def not_known(name: str) -> str:
    """That there are no results of a campaign, as a sentence, with those that there are."""
    there = some([path.name for path in known()], _NAMED)
    hint = f" (there are: {there})" if there else ""
    return f"no results of a campaign `{shortened(name, _CHARACTERS)}` in {RESULTS}/{hint}"


T = TypeVar("T")


def points_named(wanted: str, known: Sequence[tuple[T, str]]) -> list[tuple[T, str]]:
    """Of (where, id of a point) those that a user may mean: this id, or else those that begin so up to a dot, since
    `qd1` is not the beginning of `qd16`."""
    return [one for one in known if one[1] == wanted] or [one for one in known if one[1].startswith(f"{wanted}.")]


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
