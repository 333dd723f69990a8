"""The campaigns below results/, and the arguments of commands that name one."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from iosweep.commands.terminal import say
from iosweep.results.ingested import INGESTED

RESULTS = Path("results")
CONFIG = Path("config/sweep.yaml")
#: The results of a campaign have one of these: the others may be gone.
_OF_RESULTS = ("plans", "points", "campaign.json", INGESTED)
#: Help of an argument that names a campaign.
NAMED = "name of the campaign, or path of its results"


def find(name: str) -> Path | None:
    """The results of a campaign, named by its name or by their path; None, with a message, where there are none."""
    if (found := _find(name)) is None:
        unknown(name)
    return found


def find_begun(name: str) -> Path | None:
    """The same, also before the campaign has a plan."""
    begun = (path for path in (RESULTS / name, Path(name)) if path.is_dir())
    return _find(name) or next(begun, None) or find(name)


def _find(name: str) -> Path | None:
    return next((path for path in (RESULTS / name, Path(name)) if _holds_results(path)), None)


def _holds_results(path: Path) -> bool:
    return any(os.path.lexists(path / name) for name in _OF_RESULTS)


def known() -> list[Path]:
    """The results of all campaigns below results/."""
    return sorted(filter(_holds_results, RESULTS.glob("*")))


def unknown(name: str) -> None:
    """Print that there are no results of a campaign."""
    there = ", ".join(path.name for path in known())
    hint = f" (there are: {there})" if there else ""
    say(f"no results of a campaign `{name}` in {RESULTS}/{hint}", file=sys.stderr)


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


def duration(text: str) -> float:
    """The seconds of an argument such as `10min`."""
    from iosweep.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(f"`{text}` is {error}") from None
