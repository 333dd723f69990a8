"""Requests to the agents and their answers: a function of this package, called in another process.

Both sides know a function by its name and convert values by its annotations, so an operation is written, called and
type-checked as any other function.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar

import msgspec

from iosweep.errors import Refused, TargetError, TargetHangs

T = TypeVar("T")

#: What operations do, for a sentence.
_WORDS = {
    "facts": "reading its facts",
    "identify": "looking which file system it is",
    "look": "looking whether it is there",
    "space": "reading its free space",
    "room": "reading its free space and quota",
    "open_way": "looking at the way to it",
    "check": "looking at the campaign's directory",
    "state": "writing and reading a file in the campaign's directory",
    "owner_of": "reading the campaign's marker",
    "ours": "reading the campaign's marker",
    "claim": "making the campaign's directory",
    "ensure_each": "making directories",
    "usage": "adding up files",
    "count": "counting files",
    "examine": "looking at data sets",
    "sample": "reading blocks of files",
    "remove": "removing files",
    "remove_all": "removing files",
    "execute": "ending a tool",
    "hello": "starting",
    "clock": "reading its clock",
    "hash_of": "reading a file",
    "holder": "looking at a lock",
    "stage": "taking a command",
    "run": "ending a tool",
    "watch": "starting to watch the node",
    "seen": "ending its watch of the node",
    "keep_to": "choosing its CPUs",
    "left_ranks": "looking for ranks that hang",
}


#: Called at each beat.
_listeners: list[Callable[[], None]] = []


def beat() -> None:
    """Report progress: an operation that takes long calls it at least every few entries of a directory, from any
    thread. The runner waits for the next beat no longer than the deadline."""
    for listener in _listeners:
        listener()


def on_beat(listener: Callable[[], None]) -> None:
    """Have a function called at each beat."""
    _listeners.append(listener)


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an operation, the error that it raised, or why there is none yet (`hangs`)."""

    value: object = None
    refused: str | None = None
    lasting: bool = True
    errno: int = 0
    error: str | None = None
    hangs: str | None = None

    def outcome(self, operation: Callable[..., T]) -> T | Refused | TargetError | TargetHangs:
        """The value, or the exception."""
        if self.refused is not None:
            return Refused(self.refused, self.lasting)
        if self.error is not None:
            return TargetError(self.errno, self.error)
        if self.hangs is not None:
            return TargetHangs(self.hangs)
        return msgspec.convert(self.value, _types(operation)[1])  # type: ignore[no-any-return]


def answer(operation: Callable[..., object], arguments: Sequence[object]) -> Answer:
    """Run an operation with arguments from JSON. What it refuses, and errors of the file system, are answers."""
    wanted, _ = _types(operation)
    typed = [msgspec.convert(one, kind) for one, kind in zip(arguments, wanted, strict=False)]
    try:
        value = operation(*typed)
        return Answer(msgspec.to_builtins(value))
    except Refused as error:
        return Answer(refused=str(error), lasting=error.lasting)
    except OSError as error:
        text = f"{error.strerror or error}: {_where(error, operation, typed)}"
        return Answer(errno=error.errno or 0, error=text)


def _where(error: OSError, operation: Callable[..., object], arguments: Sequence[object]) -> str:
    """What an error is about. Names below the campaign's directory are relative to handles."""
    name, directory = str(error.filename or ""), getattr(arguments[0], "directory", "") if arguments else ""
    if name and directory and not name.startswith("/"):
        return f"{name} in {directory}"
    return name or directory or operation.__name__


def doing(operation: Callable[..., object]) -> str:
    """What an operation does, for a sentence."""
    return _WORDS.get(operation.__name__, operation.__name__)


def hangs(operation: Callable[..., object], for_s: float, where: str = "") -> str:
    """The sentence on an operation that does not end."""
    return f"the target does not answer: no progress for {for_s:g} s while {doing(operation)}{where}"


def by_name(operations: Iterable[Callable[..., object]]) -> dict[str, Callable[..., object]]:
    """Operations by the names that requests have."""
    return {operation.__name__: operation for operation in operations}


@cache
def _types(operation: Callable[..., object]) -> tuple[list[object], object]:
    """The types of an operation's arguments and of its value."""
    hints = typing.get_type_hints(operation)
    value = hints.pop("return")
    return list(hints.values()), value
