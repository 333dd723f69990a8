"""Protocol of the agents: requests, answers and beats. A request calls a function of this package in another process.

Both sides know the function by its name and convert values by its annotations, so an operation is written, called and
type-checked like any other function.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar

import msgspec

from iosweep.errors import Refused, TargetError

T = TypeVar("T")

#: Functions that are called at each beat.
_listeners: list[Callable[[], None]] = []


def beat() -> None:
    """Report progress, from any thread. A long operation calls it at least every few directory entries: the runner
    gives up if no beat comes before the deadline."""
    for listener in _listeners:
        listener()


def on_beat(listener: Callable[[], None]) -> None:
    """Call a function at each beat from now on."""
    _listeners.append(listener)


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an operation, or the error that it raised."""

    value: object = None
    refused: str | None = None
    lasting: bool = True
    errno: int = 0
    error: str | None = None

    def outcome(self, operation: Callable[..., T]) -> T | Refused | TargetError:
        """The value, or the exception that stands for the error."""
        if self.refused is not None:
            return Refused(self.refused, self.lasting)
        if self.error is not None:
            return TargetError(self.errno, self.error)
        return msgspec.convert(self.value, _types(operation)[1])  # type: ignore[no-any-return]

    def value_of(self, operation: Callable[..., T]) -> T:
        """The value. Raises the exception that stands for the error."""
        outcome = self.outcome(operation)
        if isinstance(outcome, Refused | TargetError):
            raise outcome
        return outcome


def answer(operation: Callable[..., object], arguments: Sequence[object]) -> Answer:
    """Run an operation with arguments from JSON. A refusal or an error of the file system becomes the answer."""
    types, _ = _types(operation)
    typed = [msgspec.convert(value, kind) for value, kind in zip(arguments, types, strict=False)]
    try:
        value = operation(*typed)
        return Answer(msgspec.to_builtins(value))
    except Refused as error:
        return Answer(refused=str(error), lasting=error.lasting)
    except OSError as error:
        text = f"{error.strerror or error}: {_locate(error, operation, typed)}"
        return Answer(errno=error.errno or 0, error=text)


def _locate(error: OSError, operation: Callable[..., object], arguments: Sequence[object]) -> str:
    """Find the path that an error is about. A name without a directory is relative to the campaign's directory."""
    name, directory = str(error.filename or ""), getattr(arguments[0], "directory", "") if arguments else ""
    if name and directory and not name.startswith("/"):
        return f"{name} in {directory}"
    return name or directory or operation.__name__


def by_name(operations: Iterable[Callable[..., object]]) -> dict[str, Callable[..., object]]:
    """Map the names that requests use to operations."""
    return {operation.__name__: operation for operation in operations}


@cache
def _types(operation: Callable[..., object]) -> tuple[list[object], object]:
    """The types of an operation's arguments, and the type of its value."""
    hints = typing.get_type_hints(operation)
    value = hints.pop("return")
    return list(hints.values()), value
