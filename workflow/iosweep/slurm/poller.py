"""Asks Slurm in the background, one question at a time: a slow controller must not stop whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from iosweep.errors import Unanswered
from iosweep.slurm.query import Job


class Poller:
    """`asking`: whether there is a question whose answer was not taken yet."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._answer: list[Job] | Unanswered = []

    @property
    def asking(self) -> bool:
        return self._thread is not None

    def ask(self, question: Callable[[], list[Job]]) -> None:
        """Begin to ask. `question` may raise Unanswered."""

        def run() -> None:
            try:
                self._answer = question()
            except Unanswered as error:
                self._answer = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def answer(self, patience_s: float = 0.0) -> list[Job] | Unanswered | None:
        """Take the answer; None if there is none yet, or nothing was asked."""
        if self._thread is None:
            return None
        self._thread.join(patience_s)
        if self._thread.is_alive():
            return None
        self._thread = None
        return self._answer
