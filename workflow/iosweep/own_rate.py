"""`OwnRate`: what one node, or one of its workers, did in a phase."""

from __future__ import annotations

from dataclasses import dataclass

#: More bytes or operations a second are a fault of whoever told them; and so many rates can still be added up.
MOST = float(1 << 50)


@dataclass(frozen=True)
class OwnRate:
    """The rate of a node, or of one of its workers. None: the tool does not say.

    host: empty where the tool does not tell nodes apart; worker: its number on that node, or the rank where the tool
    does not tell nodes apart; None for the whole node.
    """

    host: str
    worker: int | None = None
    bandwidth_bytes_per_s: float | None = None
    ops_per_s: float | None = None
