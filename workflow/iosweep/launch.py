"""Launchers: how a point's processes start on its nodes. A command line is a list, never a string."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Launcher:
    """`nodes`: most nodes that it reaches, None: as many as there are."""

    name: str
    nodes: int | None

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command that starts `command` on every node of a point."""
        return list(command)


#: `direct` starts the tool as it is, on this machine.
LAUNCHERS = {"direct": Launcher("direct", nodes=1)}
