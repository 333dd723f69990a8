"""A sign of life: touches of the target may take long, but must not stand still (agent.py waits for the next beat)."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def beat() -> None:
    """Report progress: call it at least for every few entries of a directory, from any thread."""
    for listener in _listeners:
        listener()


def listen(listener: Callable[[], None]) -> None:
    """Have a function called at each beat."""
    _listeners.append(listener)
