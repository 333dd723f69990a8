"""What a check looks at, and what it returns. A pass needs evidence; "not checked" is an outcome of its own.

A fail makes a row invalid (its figures are wrong) or suspect (they may be wrong). "Not checked" gives the reason and
never makes a row suspect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Literal

from msgspec import structs

from iosweep.plan.model import Point, TargetSettings
from iosweep.store.record import Finding, PhaseRun
from iosweep.text import printable, shortened
from iosweep.tools import Parsed, Phase

Outcome = Literal["pass", "fail", "not checked", "not applicable"]
Severity = Literal["invalid", "suspect"]


@dataclass(frozen=True)
class Seen:
    """What a check may look at.

    run: the phase's entry in the stored result (exit code, files, load ...); parsed: the tool's output; target: the
    plan's target; memory_bytes: of each node that measured, by its name, None if unknown; fstype: the target's type of
    file system; mount: its mount line; shortest_s: timed phases that are shorter are too short to judge steadiness;
    version: that the tool's program said before, empty where that is not known.
    """

    point: Point
    phase: Phase
    run: PhaseRun
    parsed: Parsed
    target: TargetSettings
    memory_bytes: Mapping[str, int | None]
    fstype: str | None = None
    mount: str | None = None
    shortest_s: float = 0.0
    version: str = ""


@dataclass(frozen=True)
class Check:
    """A function that looks at a run, and what its failure makes of the row. Its docstring is in docs/report.md.

    Those in CHECKS take a `Seen`.
    """

    severity: Severity
    look: Callable[..., Finding]

    @cached_property
    def name(self) -> str:
        return self.look.__name__

    @property
    def doc(self) -> str:
        return " ".join((self.look.__doc__ or "").split())


#: Maximum length of a reason: tools can print, and quote, any amount of text.
REASON_LENGTH = 500
#: Nodes whose evidence is shown.
SHOWN_NODES = 4
NOT_APPLICABLE = Finding("not applicable", "")
_WORST_FIRST: tuple[Outcome, ...] = ("fail", "not checked", "pass", "not applicable")


def passed(evidence: str) -> Finding:
    """A pass. Raises ValueError without evidence."""
    if not evidence:
        raise ValueError("a check cannot pass without evidence")
    return Finding("pass", evidence)


def failed(reason: str, curable: bool = False) -> Finding:
    """A fail and its reason."""
    return Finding("fail", printable(shortened(reason, REASON_LENGTH)), curable)


def unchecked(reason: str) -> Finding:
    """The check was not possible, and why."""
    return Finding("not checked", reason)


NO_OUTPUT = unchecked("no output to look at")


def per_node(look: Callable[[Seen], Finding]) -> Callable[[Seen], Finding]:
    """Apply a check to each node on its own where a tool was started once on each of several nodes."""

    @wraps(look)
    def each(s: Seen) -> Finding:
        nodes = s.parsed.evidence.each_node
        if not nodes:
            return look(s)
        alone = structs.replace(s.point, nodes=1)
        commands = s.run.argvs if len(s.run.argvs) == len(nodes) else [s.run.argv] * len(nodes)
        found = {
            host: look(replace(s, point=alone, parsed=parsed, run=structs.replace(s.run, argv=argv, argvs=())))
            for (host, parsed), argv in zip(nodes.items(), commands, strict=True)
        }
        worst = min((f.outcome for f in found.values()), key=_WORST_FIRST.index)
        if worst == "not applicable":
            return NOT_APPLICABLE
        same = {host: f for host, f in found.items() if f.outcome == worst}
        shown = [f"{host}: {f.evidence}" for host, f in list(same.items())[:SHOWN_NODES]]
        more = f"; and {len(same) - SHOWN_NODES} more nodes" if len(same) > SHOWN_NODES else ""
        return Finding(worst, "; ".join(shown) + more, any(f.curable for f in same.values()))

    return each
