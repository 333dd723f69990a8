"""`Series`: one quantity at even intervals while a phase ran."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """A quantity of one node, or of one of its workers, over a phase.

    name: the quantity with its unit, as a column has it (`ops_per_s`, `page_cache_bytes`); host: its node, empty where
    the tool does not tell nodes apart; worker: its number on that node, None for the whole node; begin_s: when the
    first interval began, in seconds since the command's start; values: one for each interval of `interval_s` seconds,
    NaN where nothing was read.
    """

    name: str
    values: tuple[float, ...]
    interval_s: float
    begin_s: float = 0.0
    host: str = ""
    worker: int | None = None
