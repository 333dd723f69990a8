"""Reasons for verdicts: causes, consequences, and a summary of many. Pure.

A reason is a text. Where one failure explains others of the same run, they are one reason: the cause, then FOLLOWS and
each consequence, as in `the target reports an I/O error: the tool ended with exit code 1 → fio printed nothing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from iosweep.errors import names_cause

#: Separates the reasons of a row; tools' messages that contain it are changed.
REASONS = " | "
#: Separates a cause and each of its consequences within one reason; evidence that contains it is changed.
FOLLOWS = " → "
#: Checks whose failure explains other failures of the same run, the first explanation first.
ROOTS = ("exit_status", "tool_errors")
#: Processes that used a node's CPUs, as the check `other_load` names them.
_SHARES = re.compile(r" \([^()]* \d+%\)")
#: Checks of a run's output and files. They fail as a consequence if the run itself failed.
CONSEQUENCES = frozenset(
    {
        *("output", "tool_errors", "direction", "arithmetic", "workers", "volume", "duration", "long_enough"),
        *("tool_doubts", "overtime", "common_window", "queue_depth", "stayed_new", "file_count"),
    }
)


def chained(failed: Sequence[tuple[str, str]]) -> list[str]:
    """(check, evidence) of the checks that failed on one run -> its reasons, a cause with its consequences first.

    Without a cause among them the reasons are the evidence, in the order given.
    """
    texts = {check: evidence.replace(FOLLOWS, " > ") for check, evidence in failed}
    root = next((check for check in ROOTS if check in texts), None)
    if root is None:
        return list(texts.values())
    follows = [text for check, text in texts.items() if check in CONSEQUENCES and check != root]
    others = [text for check, text in texts.items() if check not in CONSEQUENCES and check != root]
    return [FOLLOWS.join([texts[root], *follows]), *others]


def ranked(groups: Iterable[Iterable[str]]) -> list[tuple[str, int]]:
    """The reasons of several groups (results, repetitions or phases), with the number of groups that have each.

    Reasons whose causes differ only in numbers count as one, once per group. Order: causes named by the operating
    system, causes with consequences, the rest; the most frequent first within each.
    """
    found: dict[str, list[str]] = {}  # cause without its numbers -> the reasons, one per group
    for group in groups:
        for kind, reason in {bare(cause(reason)): reason for reason in group}.items():
            found.setdefault(kind, []).append(reason)
    ordered = sorted(found.values(), key=lambda alike: (min(map(rank, alike)), -len(alike)))
    return [(_text(alike), len(alike)) for alike in ordered]


def cause(reason: str) -> str:
    """A reason without its consequences."""
    return reason.partition(FOLLOWS)[0]


def bare(text: str) -> str:
    """A text without its numbers and without processes with their shares (`(dd of eve 48%, cc1 10%)`), which is equal
    for texts that count as one."""
    return re.sub(r"[\d.,]+", "#", without_processes(text))


def first_of(alike: Sequence[str]) -> str:
    """The first of some texts that count as one, with a word on the others."""
    return f"{alike[0]} (numbers differ)" if len(set(alike)) > 1 else alike[0]


def without_processes(text: str) -> str:
    """A text without processes with their shares."""
    return _SHARES.sub("", text)


def rank(reason: str) -> int:
    """Sort key of a reason: 0 if the operating system named its cause, 1 if it has consequences, else 2."""
    return 0 if names_cause(reason) else 1 if FOLLOWS in reason else 2


def _text(alike: Sequence[str]) -> str:
    """Reasons of one kind as one: the first cause, whether others differ from it, and the most frequent consequence."""
    own = list(dict.fromkeys(map(cause, alike)))
    follows = [part for reason in alike for part in reason.split(FOLLOWS)[1:]]
    kinds: dict[str, list[str]] = {}
    for text in follows:
        kinds.setdefault(bare(text), []).append(text)
    most = max(kinds.values(), key=len, default=[])
    return FOLLOWS.join([first_of(own), *most[:1]])
