"""`iosweep accept`: whether a campaign meets its criteria; for a person, a CI job and a contract."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.data import Campaign, load
from iosweep.commands import campaigns, decisions, junit, outcome
from iosweep.commands.terminal import prose, to_json, working
from iosweep.config import criteria, published, yaml_lines
from iosweep.errors import CommandError, ConfigError
from iosweep.files import documents
from iosweep.plan import criteria as planned

#: Exit code where nothing can be decided: wrong arguments or criteria, no tables.
_USAGE = 2
_EXIT: dict[Outcome, int] = {"pass": 0, "fail": 1, "undecided": 3}
_STDOUT = Path("-")


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Exit codes: 0 every criterion passes; 1 one fails; 3 none fails, and one is undecided; 2 nothing is decided:"
        " wrong arguments or criteria, no criteria, no tables or old ones."
    )
    parser.add_argument("campaign", help=campaigns.NAMED)
    parser.add_argument(
        "--with",
        dest="criteria",
        type=Path,
        metavar="FILE",
        help="the section `accept` of this file, not the campaign's",
    )
    parser.add_argument("--all", action="store_true", help="print every reason, and every note on the figures, too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML; `-`: to stdout, and nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON; `-`: to stdout, and nothing else")


def run(arguments: Namespace) -> int:
    if arguments.junit == arguments.json == _STDOUT:
        arguments.refuse("only one of --junit and --json can go to stdout")
    results = _results(arguments.campaign)
    try:
        with working(f"reading {results} ..."):
            campaign = load(results)
            found = _decide(campaign, arguments.criteria)
    except FileNotFoundError:
        raise CommandError(outcome.no_tables(results, arguments.campaign), _USAGE) from None
    except documents.Damaged as error:
        raise CommandError(f"{error}; `iosweep report {arguments.campaign}` makes the tables again", _USAGE) from None
    except ConfigError as error:
        raise CommandError(f"nothing was decided\n{error}", _USAGE) from None
    _refuse_old_tables(results, arguments.campaign)
    damaged = [documents.sentence(f"{results}/{file}", why) for file, why in campaign.about.damaged.items()]
    for line in documents.few(damaged):
        prose(line, sys.stderr)
    _write(arguments.junit, junit.document(campaign.about, found))
    _write(arguments.json, to_json(_document(campaign, found)).encode())
    if _STDOUT not in (arguments.junit, arguments.json):
        decisions.show(found, arguments.all)
    return _EXIT[acceptance.worst(found)]


def _results(name: str) -> Path:
    """Raises CommandError with the exit code of what decides nothing: 1 says that a criterion fails."""
    if (found := campaigns.there(name)) is None:
        raise CommandError(campaigns.not_known(name), _USAGE)
    return found


def _decide(campaign: Campaign, file: Path | None) -> list[Decision]:
    """Raises ConfigError where criteria are wrong, CommandError where there are none."""
    results = summarize(campaign.rows)
    if file is None:
        if not campaign.about.accept:
            lacking = "the campaign was planned without criteria; `--with FILE` takes those of a file"
            raise CommandError(f"{lacking} (docs/comparing.md)", _USAGE)
        return acceptance.of(campaign, results)
    document = yaml_lines.load(file)
    wanted = criteria.load(document)
    measured = acceptance.subjects(results)
    unfit = [(one, published.unknown(one) or planned.unfit(one.selector, measured)) for one in wanted]
    problems = [document.problem((criteria.SECTION, one.name), why) for one, why in unfit if why]
    if problems:
        raise ConfigError(problems)
    return acceptance.decide(wanted, campaign, results)


def _refuse_old_tables(results: Path, name: str) -> None:
    """Raises CommandError where tables are not of what is stored now: a repetition may have been superseded."""
    try:
        stale = outcome.of(results).stale
    except outcome.Unreadable:  # the tables alone were kept
        return
    if stale:
        wrong = "the campaign has changed since its tables were made, so nothing is decided"
        raise CommandError(f"{wrong}; `iosweep report {shlex.quote(name)}` makes them again", _USAGE)


def _document(campaign: Campaign, found: Sequence[Decision]) -> dict[str, object]:
    return {
        "campaign": campaign.about.campaign,
        "target": campaign.about.target.directory,
        "tables_made": campaign.about.made.isoformat(),
        "plan_digest": campaign.about.plan_digest,
        "outcome": acceptance.worst(found),
        "sentence": acceptance.sentence(found),
        "criteria": [acceptance.document(one) for one in found],
    }


def _write(file: Path | None, content: bytes) -> None:
    if file == _STDOUT:
        sys.stdout.write(content.decode())
    elif file is not None:
        try:
            file.write_bytes(content)
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}", _USAGE) from None
