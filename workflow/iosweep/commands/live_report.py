"""`iosweep report` of a campaign that is being measured: a page of what is stored now, in a folder of its own.

The tables, the page and the figures of the campaign itself are left to the workflow. A page that was made beside them
while it measures could be newer than the manifests and have less than these, and Snakemake would take it for the last.
"""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

from iosweep.commands.watch.snapshot import LIVE, Campaign, Seen, Snapshot
from iosweep.errors import CommandError
from iosweep.jobs.at_work import holds
from iosweep.results.campaign_form import Live

#: Lowest priority: the campaign may be measured on this machine.
_NICE = 19


def seen(results: Path, asked: bool) -> tuple[Live, str] | None:
    """What the page says of the campaign that is being measured, and the digest of its plan; None where it is not.

    asked: make such a page in any case. Raises CommandError where there is no plan yet, or it cannot be seen how far a
    campaign is.
    """
    found = Campaign(results).look()
    by = workers(found)
    if not found.allocations and (holder := holds(results)) and holder.alive is not False:
        by = [holder.text]  # the last page must not be made now
    if not by and not asked:
        return None
    if found.plan is None:
        raise CommandError(f"{results} has no plan that can be read: {'; '.join(found.wrong) or 'it has not begun'}")
    if not found.allocations:
        raise CommandError(f"it cannot be seen how far {results} is: {'; '.join(found.wrong)}")
    return facts(found, by), found.plan


def facts(found: Snapshot, by: list[str]) -> Live:
    """by: `workers` of it."""
    return Live(
        seen=datetime.fromtimestamp(found.now, UTC).replace(microsecond=0),
        by=tuple(by),
        again=f"iosweep report {shlex.quote(found.results)}",
    )


def workers(found: Snapshot) -> list[str]:
    """Which jobs and processes work on the campaign, or may, as clauses; none where it is not being measured."""
    return [text for one in found.allocations if (text := _worker(one))]


def _worker(seen: Seen) -> str:
    nodes = f"{seen.nodes} node{'s' if seen.nodes > 1 else ''}"
    if seen.state == "unseen":
        return f"{nodes}: may be measured by {seen.why}, whose end cannot be seen from here"
    if seen.state not in LIVE:
        return ""
    who = f"job {seen.job}" if seen.job else seen.why or "a process of this machine"
    if seen.state == "waiting":
        return f"{nodes}: waiting, {who}"
    since = "" if seen.since is None else f", since {datetime.fromtimestamp(seen.since, UTC):%Y-%m-%d %H:%M UTC}"
    return f"{nodes}: {seen.state}, {who}{since}"


def give_way() -> None:
    """Leave the CPUs to what measures."""
    os.nice(_NICE)
