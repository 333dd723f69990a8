"""Campaigns by name: their results, plans and tables, and the arguments that several commands have."""

from __future__ import annotations

import contextlib
import os
import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from iosweep.commands.terminal import working
from iosweep.errors import CommandError
from iosweep.files import documents
from iosweep.histograms import Histogram
from iosweep.plan.model import Plan, plan_files, read_plan
from iosweep.store import ingested
from iosweep.store.store import Store
from iosweep.tables import reader
from iosweep.tables.reader import Campaign, CampaignDocument, RowKey, load
from iosweep.text import shortened, some
from iosweep.units import parse_duration, parse_share

RESULTS = Path("results")
CONFIG = Path("config/sweep.yaml")
#: A directory with one of these has the results of a campaign.
_OF_RESULTS = ("plans", "points", "campaign.json", "ingested.json")
#: An error lists so many campaigns, and so many characters of a name.
_NAMED, _CHARACTERS = 20, 200
#: An error lists so many points.
_POINTS = 5
#: Help of an argument that names a campaign.
NAMED = "name of the campaign, or path of its results"


# --- results


def find(name: str, exit_code: int = 1) -> Path:
    """The results of a campaign, named by its name or by their path. Raises CommandError with this exit code."""
    if (results := search(name)) is None:
        known_names = some([path.name for path in list_known()], _NAMED)
        hint = f" (there are: {known_names})" if known_names else ""
        raise CommandError(f"no results of a campaign `{shortened(name, _CHARACTERS)}` in {RESULTS}/{hint}", exit_code)
    return results


def search(name: str) -> Path | None:
    """The results of a campaign; None without any."""
    return next((path for path in (RESULTS / name, Path(name)) if _holds_results(path)), None)


def list_known() -> list[Path]:
    """The results of all campaigns below results/."""
    return sorted(filter(_holds_results, RESULTS.glob("*")))


def find_all(name: str, exit_code: int) -> list[Path]:
    """The results of a campaign, or of all campaigns in a directory. Raises CommandError with this exit code."""
    directory = Path(name)
    # Path.is_dir raises for a name that is too long
    if os.path.isdir(directory) and not _holds_results(directory):  # noqa: PTH112
        try:
            if below := [path for path in sorted(directory.iterdir()) if _holds_results(path)]:
                return below
        except OSError as error:
            raise CommandError(f"{directory} cannot be read: {error.strerror}", exit_code) from None
    return [find(name, exit_code)]


def _holds_results(path: Path) -> bool:
    return any(os.path.lexists(path / name) for name in _OF_RESULTS)


def refuse_ingested(results: Path, why: str) -> None:
    """Raises CommandError for an ingested campaign. `why`: the reason why the command cannot work on it."""
    if ingested.exists(results):
        raise CommandError(f"{results} was ingested from outputs of others: {why}")


def find_point(wanted: str, campaigns: Sequence[Path], advice: str = "") -> tuple[Path, str]:
    """The results and the id of a stored point. `wanted`: its id, or the beginning of one id up to a dot (`qd1` is not
    `qd16`). Raises CommandError; `advice`: how to choose where several points fit."""
    stored = [(path, point) for path in campaigns for point in Store(path).repetitions()]
    fits = [(path, point) for path, point in stored if point == wanted]
    fits = fits or [(path, point) for path, point in stored if point.startswith(f"{wanted}.")]
    if len(fits) != 1:
        several = some([f"{point} in {path}" for path, point in sorted(fits)], _POINTS, separator="; ")
        raise CommandError(f"{wanted}: {f'is not one point: {several}{advice}' if fits else 'has no result'}")
    return fits[0]


# --- plans and tables


def load_tables(results: Path, exit_code: int = 1) -> Campaign:
    """The tables of a campaign. Raises CommandError with this exit code, also where its histograms are read."""
    with _reading(results, exit_code), working(f"reading {results} ..."):
        campaign = load(results)

    def histograms(keys: Collection[RowKey]) -> Mapping[RowKey, Histogram]:
        with _reading(results, exit_code):
            return campaign.histograms(keys)

    return replace(campaign, histograms=histograms)


@contextlib.contextmanager
def _reading(results: Path, exit_code: int) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CommandError(no_tables(results), exit_code) from None
    except documents.Damaged as error:
        raise CommandError(f"{error}; {_remedy(results)}", exit_code) from None


def plan_file(results: Path) -> Path:
    """The plan of the tables; without readable tables, the newest. Raises FileNotFoundError, documents.Damaged."""
    files = plan_files(results)
    if not files:
        documents.is_folder(str(results / "plans"))
        raise FileNotFoundError(2, "no plan", str(results / "plans"))
    with contextlib.suppress(FileNotFoundError, documents.Damaged):
        digest = reader.read_about(results).plan_digest
        files = [file for file in files if file.stem == digest] or files
    return files[-1]


def plan_of(results: Path) -> Plan:
    """The plan of the tables; without readable tables, the newest. Raises CommandError with the reason and a remedy."""
    try:
        return read_plan(plan_file(results))
    except documents.Damaged as error:
        raise CommandError(f"{error}{documents.cure(error.path)}") from None
    except FileNotFoundError:
        cure = documents.cure(str(results / "plans" / "*.json"))
        raise CommandError(f"{results} has results but no plan{cure}") from None


def no_plan(results: Path) -> str | None:
    """Why tables cannot be made again, as a sentence; None where they can."""
    if ingested.exists(results):
        return "; ".join(ingested.find_damage(results)) or None
    try:
        plan_of(results)
    except CommandError as error:
        return str(error)
    return None


def no_tables(results: Path) -> str:
    """Why tables cannot be read, as a sentence with a remedy."""
    files = (*reader.FILES, reader.ABOUT)
    gone = [file for file in files if not (results / file).exists()]
    lacking = f"no {gone[0]}" if 0 < len(gone) < len(files) else "no tables yet"
    return f"{results} has {lacking}; {_remedy(results)}"


def _remedy(results: Path) -> str:
    """The command that makes the tables, or why none can."""
    return no_plan(results) or f"`iosweep report {shlex.quote(str(results))}` makes the tables"


def damage_in_tables(results: Path, tables: CampaignDocument) -> list[str]:
    """Files that were damaged when the tables were made, as sentences."""
    return [str(documents.Damaged(f"{results}/{file}", why)) for file, why in tables.damaged.items()]


# --- arguments


def add_overrides(parser: ArgumentParser) -> None:
    """Add the arguments that replace keys of the configuration."""
    parser.add_argument("--campaign", metavar="NAME", help="override the configuration's campaign")
    parser.add_argument("--target", metavar="DIR", help="override the configuration's target.directory")
    parser.add_argument("--sessions", metavar="N", help="override the configuration's number of sessions")


def overrides(arguments: Namespace) -> dict[str, str]:
    """Key of the configuration -> value that replaces it."""
    values = {name: getattr(arguments, name) for name in ("campaign", "target", "sessions")}
    return {name: value for name, value in values.items() if value is not None}


def _parsed_by(parse: Callable[[str], float]) -> Callable[[str], float]:
    def parsed(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(f"`{text}` is {error}") from None

    return parsed


#: Types of arguments: `3%` as a share, `10min` in seconds.
share, duration = _parsed_by(parse_share), _parsed_by(parse_duration)
