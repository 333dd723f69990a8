"""Findings of checks, and how failed checks become the reasons of a verdict. Pure.

A pass needs evidence. A fail makes a row invalid (its figures are wrong) or suspect (they may be wrong). "Not checked"
is a third outcome: it says why, and never makes a row suspect.

A reason is the text of a failed check. A failure that explains other failures of the run forms a single reason with
them: the cause, then FOLLOWS and each consequence, as in
`the target reports an I/O error: the tool ended with exit code 1 → fio printed nothing`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

from msgspec import structs

from iosweep.errors import names_cause
from iosweep.plan.model import Point, TargetSettings
from iosweep.store.record import Finding, PhaseRun
from iosweep.text import printable, shortened, some
from iosweep.tools import Parsed, Phase

Outcome = Literal["pass", "fail", "not checked", "not applicable"]
Severity = Literal["invalid", "suspect"]


@dataclass(frozen=True)
class Observation:
    """A phase of a repetition as the checks see it."""

    point: Point
    phase: Phase
    run: PhaseRun  # the phase's entry in the record: exit code, files, load ...
    parsed: Parsed  # the tool's output
    target: TargetSettings
    memory_bytes: Mapping[str, int | None]  # host -> its memory, None if unknown
    fstype: str | None = None  # type of the target's file system
    mount: str | None = None  # mount line of the target's file system
    shortest_s: float = 0.0  # shorter timed phases cannot show a steady rate
    version: str = ""  # as the tool's program prints it; empty if unknown


#: Maximum length of a reason: it quotes tools, which print any amount of text.
REASON_LENGTH = 500
#: Number of nodes whose evidence is shown.
SHOWN_NODES = 4
NOT_APPLICABLE = Finding("not applicable", "")
_WORST_FIRST: tuple[Outcome, ...] = ("fail", "not checked", "pass", "not applicable")


def passed(evidence: str) -> Finding:
    """A finding that the check passed. Raises ValueError without evidence."""
    if not evidence:
        raise ValueError("a check cannot pass without evidence")
    return Finding("pass", evidence)


def failed(reason: str, retry: bool = False) -> Finding:
    """A finding that the check failed. retry: whether a retry may help."""
    return Finding("fail", printable(shortened(reason, REASON_LENGTH)), retry)


def unchecked(reason: str) -> Finding:
    """A finding that the check was not possible."""
    return Finding("not checked", reason)


NO_OUTPUT = unchecked("no output to look at")


@dataclass(frozen=True)
class Check:
    """A check of an observation. docs/report.md shows the docstring of its function."""

    severity: Severity  # of a failure
    function: Callable[..., Finding]
    data: bool = False  # applies only to phases that move data, not to metadata
    needs: str = ""  # figure without which there is no output to check
    per_node: bool = False  # if the tool is started separately on each node, each node is checked
    remedy: str = ""  # what to do about a failure, unless its evidence says so

    @cached_property
    def name(self) -> str:
        return self.function.__name__

    @property
    def doc(self) -> str:
        return " ".join((self.function.__doc__ or "").split())

    def find(self, s: Observation) -> Finding:
        """Check an observation; with `per_node`, the finding is the worst of the nodes."""
        if self.data and s.phase.kind == "metadata":
            return NOT_APPLICABLE
        nodes = s.parsed.evidence.each_node
        if not self.per_node or not nodes:
            return self._find(s)
        point = structs.replace(s.point, nodes=1)
        commands = s.run.argvs if len(s.run.argvs) == len(nodes) else [s.run.argv] * len(nodes)
        findings = {
            host: self._find(replace(s, point=point, parsed=parsed, run=structs.replace(s.run, argv=argv, argvs=())))
            for (host, parsed), argv in zip(nodes.items(), commands, strict=True)
        }
        outcome = min((finding.outcome for finding in findings.values()), key=_WORST_FIRST.index)
        if outcome == "not applicable":
            return NOT_APPLICABLE
        with_outcome = {host: finding for host, finding in findings.items() if finding.outcome == outcome}
        evidence = [f"{host}: {finding.evidence}" for host, finding in with_outcome.items()]
        text = some(evidence, SHOWN_NODES, separator="; ")
        return Finding(outcome, text, any(finding.retry for finding in with_outcome.values()))

    def _find(self, s: Observation) -> Finding:
        return NO_OUTPUT if self.needs and self.needs not in s.parsed.figures else self.function(s)


# Reasons


#: Separates a cause and its consequences within a reason; replaced where evidence contains it.
FOLLOWS = " → "
#: Checks whose failure explains other failures of a run; the first that failed is the cause.
ROOTS = ("exit_status", "tool_errors")
#: Checks of a run's output and files, whose failure is a consequence if the run failed.
CONSEQUENCES = frozenset(
    {
        *("output", "tool_errors", "direction", "arithmetic", "workers", "volume", "duration", "long_enough"),
        *("tool_doubts", "overtime", "common_window", "queue_depth", "stayed_new", "file_count"),
    }
)


def chained(failed: Sequence[tuple[str, str]]) -> list[str]:
    """(check, evidence) of the failed checks of a run -> its reasons, the cause with its consequences first.

    Without a cause, each check's evidence is a reason, in the order given.
    """
    texts = {check: evidence.replace(FOLLOWS, " > ") for check, evidence in failed}
    root = next((texts.pop(check) for check in ROOTS if check in texts), None)
    if root is None:
        return list(texts.values())
    consequences = [text for check, text in texts.items() if check in CONSEQUENCES]
    others = [text for check, text in texts.items() if check not in CONSEQUENCES]
    return [FOLLOWS.join([root, *consequences]), *others]


#: Separates the reasons of a row in its column.
_SEPARATOR = " | "


def join_reasons(reasons: Iterable[str]) -> str:
    """Reasons as a cell of the table. A message of a tool may contain the separator, or half of it at its end."""
    return _SEPARATOR.join(reason.replace("|", "/") for reason in reasons)


def split_reasons(cell: object) -> tuple[str, ...]:
    """The reasons in a cell of the table, which may be empty or null."""
    return tuple(str(cell).split(_SEPARATOR)) if cell else ()


class RankedReason(NamedTuple):
    """text: of all reasons that were merged; having: indexes of the groups that have it; key: see `reason_key`."""

    text: str
    having: list[int]
    key: str


def rank_reasons(groups: Iterable[Iterable[str]]) -> list[RankedReason]:
    """The reasons of several groups (results, repetitions or phases).

    Reasons whose causes differ only in numbers are merged, and counted once per group: `other processes used 31 to 88 %
    of the CPU time (mostly python3)`. Order: causes named by the operating system, causes with consequences, the rest;
    in each class the most frequent first.
    """
    merged: dict[str, dict[int, list[str]]] = {}  # reason_key -> index of a group -> its reasons
    for index, group in enumerate(groups):
        for reason in group:
            merged.setdefault(reason_key(reason), {}).setdefault(index, []).append(reason)
    ranked = []
    for key, having in merged.items():
        reasons = list(chain.from_iterable(having.values()))
        consequence = next((consequence for reason in reasons for consequence in reason.split(FOLLOWS)[1:]), None)
        text = FOLLOWS.join(filter(None, (_merge([reason.partition(FOLLOWS)[0] for reason in reasons]), consequence)))
        ranked.append((min(map(reason_order, reasons)), RankedReason(text, list(having), key)))
    return [reason for _, reason in sorted(ranked, key=lambda entry: (entry[0], -len(entry[1].having)))]


#: A number with its unit, and the list of the processes that used most: ` (dd of eve 48 %, cc1 10 %)`.
_QUANTITY = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?)( ?[KMGTP]i?B\b| ?[nµm]?s\b| ?%)?")
_PROCESSES = re.compile(r" \((\S+)[^()]* \d+ %\)")
_PREFIXES = {prefix: 1024.0**power for power, prefix in enumerate(" KMGTP")} | {"n": 1e-9, "µ": 1e-6, "m": 1e-3}


def reason_key(reason: str) -> str:
    """Key by which `rank_reasons` merges: the cause without numbers, their units, and lists of processes."""
    return _QUANTITY.sub("#", _PROCESSES.sub("", reason.partition(FOLLOWS)[0]))


def _merge(causes: Sequence[str]) -> str:
    """One text for causes with the same key: ranges in place of numbers that differ, and the process that is named
    first most often."""
    if len(set(causes)) == 1:
        return causes[0]
    named = Counter(match[1] for cause in causes if (match := _PROCESSES.search(cause)))
    columns = zip(*(_QUANTITY.finditer(_PROCESSES.sub("", cause)) for cause in causes), strict=True)
    ranges = []
    for quantities in columns:
        low, high = (end(quantities, key=_size_of) for end in (min, max))
        unit = low[2] or ""
        start = low[1] if unit == (high[2] or "") else low[0]
        ranges.append(high[0] if low[0] == high[0] else f"{start} to {high[0]}")
    texts = iter(ranges)
    text = _QUANTITY.sub(lambda _: next(texts), _PROCESSES.sub("", causes[0]))
    return f"{text} (mostly {named.most_common(1)[0][0]})" if named else text


def _size_of(quantity: re.Match[str]) -> float:
    unit = (quantity[2] or "").strip()
    return float(quantity[1].replace(",", "")) * (_PREFIXES[unit[0]] if len(unit) > 1 else 1.0)


def reason_order(reason: str) -> int:
    """Sort key of a reason: 0 if the operating system named its cause, 1 if it has consequences, else 2."""
    return 0 if names_cause(reason) else 1 if FOLLOWS in reason else 2
