"""The file `rates`: the rates of each node while a command runs, for `iosweep watch`.

It is no result: nothing is judged by it, and it may be missing, old or damaged.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from iosweep.files import safe_paths
from iosweep.files.fields import Name, Number, Part, Seconds, Some, TryNumber
from iosweep.node.meter import Source

NAME = "rates"
#: Rates of this many intervals ago, and at least this many seconds, are no longer those of now.
_INTERVALS, _LEAST_S = 3, 6.0
#: The largest file that is read; a node takes about 120 bytes.
_MOST_BYTES = 8 << 20


class NodeRates(Part, frozen=True):
    """Over the last `over_s` seconds. source: which counters these are (node/meter.py)."""

    source: Source
    read_bytes_per_s: Number
    written_bytes_per_s: Number
    over_s: Seconds


class CurrentRates(Part, frozen=True, kw_only=True):
    """What runs now. phases: empty while a data set is prepared; began, at: seconds since the epoch, when the command
    began, and when the newest rates arrived. expected: nodes that take part; nodes: those that sent rates lately;
    silent: the names of the others, as in a sentence (hostlist.hosts)."""

    allocation: Name
    point: Name
    repetition: TryNumber
    phases: str
    began: Seconds
    at: Seconds
    expected: Some
    nodes: dict[str, NodeRates]
    silent: str = ""


def longest_s(over_s: float) -> float:
    """Seconds for which rates over such an interval are those of now. Pure."""
    return max(_LEAST_S, _INTERVALS * over_s)


def encode(rates: CurrentRates) -> bytes:
    return msgspec.json.encode(rates) + b"\n"


def decode(text: bytes) -> CurrentRates | None:
    """None for anything else."""
    try:
        return msgspec.json.decode(text, type=CurrentRates)
    except (ValueError, RecursionError):
        return None


def read(results: Path) -> CurrentRates | None:
    """What the file has now; None where there is none, or where it cannot be used."""
    try:
        return decode(safe_paths.read(results, NAME, _MOST_BYTES))
    except OSError:
        return None
