"""Whether the target exists on this machine, with the configured type: checked before anything is planned or run.

An agent looks at the directory, with a deadline. Nothing is opened for writing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iosweep.config.sweeps import Config
from iosweep.errors import Problem, Refused, TargetError, TargetHangs
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.target.identify import is_type, other_type
from iosweep.target.parents import privileged

#: Time limit for the target to answer here, or target.deadline if that is shorter.
DEADLINE_S = 5.0


def problem(configured: Config) -> Problem | None:
    """What is wrong with the target as seen from here, or None."""
    target, document = configured.target, configured.documents[0]
    key: tuple[str, ...] = ("target", "directory")
    try:
        with Agent(min(DEADLINE_S, target.deadline)) as agent:
            seen = agent.call(identify.look, target.directory)
    except (Refused, TargetError, TargetHangs) as error:
        wrong = error.strerror if isinstance(error, TargetError) else str(error)
        return document.problem(key, f"{json.dumps(target.directory)} cannot be measured on: {wrong}")
    if wrong := absent(target.directory, seen):
        return document.problem(key, wrong)
    if seen.get("others") and (not target.trust_other_writers or privileged()):
        return document.problem(key, f"{json.dumps(target.directory)} cannot be measured on: {seen['others']}")
    if target.type is not None and not is_type(seen["fstype"], target.type):
        return document.problem(("target", "type"), other_type(target.type, target.directory, seen))
    return None


def absent(directory: str, seen: Mapping[str, Any]) -> str | None:
    """Why a name is not that of a directory, and what would be right; None if it is. Pure.

    `seen`: the answer of identify.look.
    """
    name = json.dumps(directory, ensure_ascii=False)
    if seen["kind"] == "directory":
        return None
    if seen["kind"] == "other":
        return f"{name} is not a directory; name a directory on the file system under test"
    parent, lacks = Path(seen["parent"]), seen["lacks"]
    if lacks in seen["names"]:
        return f"{name} does not exist: {parent / lacks} is a symbolic link that leads nowhere, or is not a directory"
    text = f"{name} does not exist: {parent} is there, and has no `{lacks}`"
    if near := difflib.get_close_matches(lacks, seen["names"], 1, 0.6):
        rest = Path(directory).absolute().relative_to(parent / lacks)
        return f"{text}; did you mean {parent / near[0] / rest}?"
    return f"{text}; is the file system mounted? If it is, make the directory"
