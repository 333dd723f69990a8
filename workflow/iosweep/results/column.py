"""`Column`: a column of the tables that merge writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Type = Literal["string", "int", "float", "bool", "time", "list", "floats"]


@dataclass(frozen=True)
class Column:
    """One column: its name (with the unit), its type and what it means. A list's elements have fields of their own."""

    name: str
    type: Type
    doc: str
    fields: tuple[Column, ...] = ()
