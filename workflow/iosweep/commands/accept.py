"""`iosweep accept`: whether a campaign meets its criteria; for a person, a CI job and a contract."""

from __future__ import annotations

import contextlib
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
from iosweep.analysis.summary import summarize_campaign
from iosweep.commands import campaigns
from iosweep.commands.check import read_condition
from iosweep.commands.terminal import Printer, prose, write_output
from iosweep.config import criteria, yaml_lines
from iosweep.errors import CommandError, ConfigError, ExitCode
from iosweep.files import documents
from iosweep.plan.headline_groups import unfit as not_measured
from iosweep.tables.reader import Campaign, CampaignDocument
from iosweep.text import printable

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
    results = campaigns.find(arguments.campaign, ExitCode.USAGE)
    campaign, stale = campaigns.load_tables(results, ExitCode.USAGE), False
    try:
        decisions = _decide(campaign, arguments.criteria)
    except ConfigError as error:
        raise CommandError(f"nothing was decided\n{error}", ExitCode.USAGE) from None
    with contextlib.suppress(CommandError):  # without a plan and a store, the tables count
        stale = read_condition(results).stale  # a repetition may have been superseded
    if stale:
        wrong = "the campaign has changed since its tables were made, so nothing is decided"
        raise CommandError(f"{wrong}; `iosweep report {shlex.quote(str(results))}` makes them again", ExitCode.USAGE)
    for line in documents.few(campaigns.damage_in_tables(results, campaign.about)):
        prose(line, sys.stderr)
    if arguments.junit:
        write_output(arguments.junit, lambda: _junit(campaign.about, decisions), ExitCode.USAGE)
    show(decisions, arguments.all)
    return _EXIT[acceptance.worst(decisions)]


def _decide(campaign: Campaign, file: Path | None) -> list[Decision]:
    """Raises ConfigError where criteria are wrong, CommandError where there are none."""
    results = summarize_campaign(campaign)
    if file is None:
        if not campaign.about.accept:
            lacking = "the campaign was planned without criteria; `--with FILE` takes those of a file"
            raise CommandError(f"{lacking} (docs/comparing.md)", ExitCode.USAGE)
        return acceptance.decide(campaign, results)
    document = yaml_lines.load(file)
    wanted = criteria.load(document)
    measured = acceptance.subjects(results)
    problems = [
        document.problem((criteria.SECTION, criterion.name), why)
        for criterion in wanted
        if (why := criteria.unknown_reference(criterion) or not_measured(criterion.selector, measured))
    ]
    if problems:
        raise ConfigError(problems)
    return acceptance.decide(campaign, results, wanted)


def show(decisions: Sequence[Decision], every: bool = False) -> None:
    """Print a sentence on all decisions, their common causes, and each decision with figure, reason and place.

    `every`: with all notes and causes.
    """
    from rich.text import Text

    printer = Printer()
    printer.print(Text(f"Acceptance: {acceptance.sentence(decisions)}", style=_STYLES[acceptance.worst(decisions)]))
    shared = acceptance.shared(decisions)
    for cause in shared:
        prose(f"  common to all: {printable(cause)}")
    for decision in decisions:
        figure = f": {decision.figure}" if decision.figure else ""
        mark = Text(f"  {acceptance.SYMBOLS[decision.outcome]} {decision.outcome:<9}", style=_STYLES[decision.outcome])
        printer.print(mark.append(f"  {printable(decision.wanted)}{figure}", style="bold not italic"), soft_wrap=True)
        reason = decision.reason.text(len(decision.reason.causes) if every else 1, shared)
        for line in filter(None, (reason, *(decision.notes if every else ()), decision.place)):
            prose(f"      {printable(line)}")
    if not every and any(decision.notes or len(decision.reason.causes) > 1 for decision in decisions):
        prose("`iosweep accept --all` shows the notes and the other causes, too")


def _junit(about: CampaignDocument, decisions: Sequence[Decision]) -> bytes:
    """The XML document, in UTF-8: a test suite for the campaign, a test for each criterion. Characters that XML cannot
    hold are escaped as in a terminal."""
    counts = Counter(decision.outcome for decision in decisions)
    totals = {"tests": len(decisions), "failures": counts["fail"], "errors": counts["undecided"], "time": 0}
    totals_text = {name: str(count) for name, count in totals.items()}
    whole = Xml.Element("testsuites", {"name": "iosweep accept"} | totals_text)
    name = printable(about.campaign)
    made = about.made.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suite = Xml.SubElement(whole, "testsuite", {"name": name} | totals_text | {"skipped": "0", "timestamp": made})
    properties = Xml.SubElement(suite, "properties")
    known = {"target": about.on, "iosweep_version": about.iosweep_version, "plan": about.plan_digest}
    for key, value in known.items():
        Xml.SubElement(properties, "property", {"name": key, "value": printable(value)})
    for decision in decisions:
        names = {"name": printable(decision.criterion.text), "classname": f"iosweep.{name}", "time": "0"}
        test = Xml.SubElement(suite, "testcase", names)
        if element := _ELEMENTS.get(decision.outcome):
            failure = {"message": printable(decision.reason.text()), "type": decision.outcome}
            Xml.SubElement(test, element, failure).text = "\n".join(map(printable, decision.notes)) or None
        if measured := list(filter(None, (decision.figure, decision.place))):
            Xml.SubElement(test, "system-out").text = "\n".join(map(printable, measured))
    Xml.indent(whole)
    text: bytes = Xml.tostring(whole, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
