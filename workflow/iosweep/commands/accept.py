"""`iosweep accept`: whether a campaign meets its criteria; for a person, a CI job and a contract."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from xml.etree import ElementTree as Xml

from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.analysis.data import Campaign
from iosweep.analysis.summary import summarize
from iosweep.commands import campaigns
from iosweep.commands.check import read_outcome
from iosweep.commands.terminal import Printer, prose, write_output
from iosweep.config import criteria, yaml_lines
from iosweep.errors import CommandError, ConfigError
from iosweep.files import documents
from iosweep.plan.headline_groups import unfit as not_measured
from iosweep.tables.reader import CampaignForm
from iosweep.text import printable

#: Exit code where nothing can be decided: wrong arguments or criteria, no tables.
_USAGE = 2
_EXIT: dict[Outcome, int] = {"pass": 0, "fail": 1, "undecided": 3}
_STYLES: dict[Outcome, str] = {"pass": "green", "fail": "red", "undecided": "yellow"}
#: Elements of JUnit. Undecided is an `error`, and not `skipped`: a CI job must not take it for a pass.
_ELEMENTS: dict[Outcome, str] = {"fail": "failure", "undecided": "error"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Exit codes: 0 every criterion passes; 1 one fails; 3 none fails, and one is undecided; 2 nothing is decided:"
        " wrong arguments or criteria, no criteria, no tables or old ones."
    )
    parser.add_argument("campaign", help=campaigns.NAMED)
    section = "the section `accept` of this file, not the campaign's"
    parser.add_argument("--with", dest="criteria", type=Path, metavar="FILE", help=section)
    parser.add_argument("--all", action="store_true", help="print every reason, and every note on the figures, too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")


def run(arguments: Namespace) -> int:
    results = campaigns.find(arguments.campaign, _USAGE)
    campaign = campaigns.load_tables(results, _USAGE)
    try:
        decisions = _decide(campaign, arguments.criteria)
    except ConfigError as error:
        raise CommandError(f"nothing was decided\n{error}", _USAGE) from None
    _refuse_old_tables(results)
    for line in documents.few(campaigns.damage_in_tables(results, campaign.about)):
        prose(line, sys.stderr)
    if arguments.junit:
        write_output(arguments.junit, lambda: _junit(campaign.about, decisions), _USAGE)
    show(decisions, arguments.all)
    return _EXIT[acceptance.worst(decisions)]


def _decide(campaign: Campaign, file: Path | None) -> list[Decision]:
    """Raises ConfigError where criteria are wrong, CommandError where there are none."""
    results = summarize(campaign.rows)
    if file is None:
        if not campaign.about.accept:
            lacking = "the campaign was planned without criteria; `--with FILE` takes those of a file"
            raise CommandError(f"{lacking} (docs/comparing.md)", _USAGE)
        return acceptance.decide(campaign, results)
    document = yaml_lines.load(file)
    wanted = criteria.load(document)
    measured = acceptance.subjects(results)
    unfit = [(one, criteria.unknown_reference(one) or not_measured(one.selector, measured)) for one in wanted]
    problems = [document.problem((criteria.SECTION, one.name), why) for one, why in unfit if why]
    if problems:
        raise ConfigError(problems)
    return acceptance.decide(campaign, results, wanted)


def _refuse_old_tables(results: Path) -> None:
    """Raises CommandError where tables do not show the store as it is now: a repetition may have been superseded."""
    try:
        stale = read_outcome(results).stale
    except CommandError:  # the tables alone were kept
        return
    if stale:
        wrong = "the campaign has changed since its tables were made, so nothing is decided"
        raise CommandError(f"{wrong}; `iosweep report {shlex.quote(str(results))}` makes them again", _USAGE)


def show(decisions: Sequence[Decision], every: bool = False) -> None:
    """Print the reasons that decisions share, and each with its figure, reason and place, below a sentence on all.
    every: with all notes and reasons."""
    from rich.text import Text

    printer = Printer()
    printer.print(Text(f"Acceptance: {acceptance.sentence(decisions)}", style=_STYLES[acceptance.worst(decisions)]))
    shared = acceptance.shared(decisions)
    for cause in shared:
        prose(f"  common to all: {printable(cause)}")
    for one in decisions:
        figure = f": {one.figure}" if one.figure else ""
        mark = Text(f"  {acceptance.SYMBOLS[one.outcome]} {one.outcome:<9}", style=_STYLES[one.outcome])
        printer.print(mark.append(f"  {printable(one.wanted)}{figure}", style="bold not italic"), soft_wrap=True)
        reason = one.reason.text(len(one.reason.causes) if every else 1, shared)
        for line in filter(None, (reason, *(one.notes if every else ()), one.place)):
            prose(f"      {printable(line)}")
    if not every and any(one.notes or len(one.reason.causes) > 1 for one in decisions):
        prose("`iosweep accept --all` shows the notes and the other causes, too")


def _junit(about: CampaignForm, decisions: Sequence[Decision]) -> bytes:
    """The XML document, in UTF-8: a test suite for the campaign, a test for each criterion. Characters that XML cannot
    hold are escaped as in a terminal."""
    counts = Counter(one.outcome for one in decisions)
    totals = {
        "tests": str(len(decisions)),
        "failures": str(counts["fail"]),
        "errors": str(counts["undecided"]),
        "time": "0",
    }
    whole = Xml.Element("testsuites", {"name": "iosweep accept"} | totals)
    name = printable(about.campaign)
    made = about.made.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suite = Xml.SubElement(whole, "testsuite", {"name": name} | totals | {"skipped": "0", "timestamp": made})
    properties = Xml.SubElement(suite, "properties")
    known = {"target": about.target.directory, "iosweep_version": about.iosweep_version, "plan": about.plan_digest}
    for key, value in known.items():
        Xml.SubElement(properties, "property", {"name": key, "value": printable(value)})
    for one in decisions:
        _test(suite, name, one)
    Xml.indent(whole)
    found: bytes = Xml.tostring(whole, encoding="utf-8", xml_declaration=True)
    return found + b"\n"


def _test(suite: Xml.Element, campaign: str, one: Decision) -> None:
    names = {"name": printable(one.criterion.text), "classname": f"iosweep.{campaign}", "time": "0"}
    test = Xml.SubElement(suite, "testcase", names)
    measured = "\n".join(filter(None, (one.figure, one.place, *(result.point for result in one.results))))
    if element := _ELEMENTS.get(one.outcome):
        found = Xml.SubElement(test, element, {"message": printable(one.reason.text()), "type": one.outcome})
        found.text = "\n".join(map(printable, one.notes)) or None
    if measured:
        Xml.SubElement(test, "system-out").text = "\n".join(map(printable, measured.split("\n")))
