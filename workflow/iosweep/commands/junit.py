"""Decisions as JUnit XML, as Jenkins, GitLab and others read it: a test suite for a campaign, a test for a criterion.

A fail is a `failure`. Undecided is an `error`, and not `skipped`: a CI job must not take it for a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from xml.etree import ElementTree as Xml

from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.results.campaign_form import CampaignForm
from iosweep.text import printable

_ELEMENTS: dict[Outcome, str] = {"fail": "failure", "undecided": "error"}


def document(about: CampaignForm, decisions: Sequence[Decision]) -> bytes:
    """The XML document, in UTF-8. Characters that XML cannot hold are escaped as in a terminal."""
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
        found = Xml.SubElement(test, element, {"message": printable(one.reason), "type": one.outcome})
        found.text = "\n".join(map(printable, one.notes)) or None
    if measured:
        Xml.SubElement(test, "system-out").text = "\n".join(map(printable, measured.split("\n")))
