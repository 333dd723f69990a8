"""Figures that others published, as plans and campaign.json keep them: value, source, and how they were measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import field

from iosweep.config import criteria
from iosweep.config.criteria import Quantity
from iosweep.config.selectors import Selector
from iosweep.files.fields import Integer, Name, Number, Part
from iosweep.text import shortened
from iosweep.tools import tools
from iosweep.tools.axes import NODES, PHASE_TIME

#: Quantity -> the units that a source may have, each with its size in the SI base unit: those of thresholds, and others
#: that are printed.
UNITS: Mapping[Quantity, Mapping[str, float]] = {
    quantity: {spelling: unit.size for unit in units for spelling in (unit.name, *unit.others)}
    | {
        "bandwidth": {f"{prefix}bit/s": size / 8 for prefix, size in (("M", 1e6), ("G", 1e9), ("T", 1e12))},
        "iops": {"ops/s": 1.0, "k ops/s": 1e3, "M ops/s": 1e6},
    }.get(quantity, {})
    for quantity, units in criteria.UNITS.items()
}
#: Value of a condition: of an axis or an option.
Condition = bool | Integer | Number | str


@dataclass(frozen=True)
class Figure:
    """A figure that a reference may have: its column in the tables, what its unit measures, what reports call it."""

    column: str
    quantity: Quantity
    title: str

    @property
    def lowest(self) -> bool:
        """Whether lower is better."""
        return self.quantity == "latency"


#: Name -> figure. Latencies are what a caller waits (fio's lat); completion latencies its part after the submission
#: (fio's clat), which WEKA's page gives as latency.
FIGURES: Mapping[str, Figure] = {
    "bandwidth": Figure("bandwidth_bytes_per_s", "bandwidth", "throughput"),
    "iops": Figure("ops_per_s", "iops", "IOPS"),
    "rate": Figure("ops_per_s", "rate", "rate"),
    "latency": Figure("latency_mean_s", "latency", "mean latency"),
    "p50": Figure("latency_p50_s", "latency", "median latency"),
    "p99": Figure("latency_p99_s", "latency", "p99 latency"),
    "p99.5": Figure("latency_p99_5_s", "latency", "p99.5 latency"),
    "p99.9": Figure("latency_p99_9_s", "latency", "p99.9 latency"),
    "read_latency": Figure("read_latency_mean_s", "latency", "mean latency of the reads"),
    "write_latency": Figure("write_latency_mean_s", "latency", "mean latency of the writes"),
    "completion_latency": Figure("completion_latency_mean_s", "latency", "mean completion latency"),
    "completion_p50": Figure("completion_latency_p50_s", "latency", "median completion latency"),
    "completion_p99": Figure("completion_latency_p99_s", "latency", "p99 completion latency"),
    "completion_p99.5": Figure("completion_latency_p99_5_s", "latency", "p99.5 completion latency"),
    "completion_p99.9": Figure("completion_latency_p99_9_s", "latency", "p99.9 completion latency"),
}


class PublishedFigure(Part, frozen=True, kw_only=True):
    """A figure of a source.

    figure: of FIGURES; value: in the unit of its column, or of a ratio; printed: as the source has it; where: axes and
    options (by name) that a result must have to compare, setup: those that it may differ in, which is then said;
    relative_to: the value is the figure's ratio to the one where these are otherwise; system: of several in the source.
    """

    tool: Name
    phase: Name
    figure: str
    value: Number
    printed: str
    where: dict[str, Condition] = field(default_factory=dict)
    setup: dict[str, Condition] = field(default_factory=dict)
    relative_to: dict[str, Condition] = field(default_factory=dict)
    system: Name | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if self.tool not in tools() or self.phase not in tools()[self.tool].phases:
            raise ValueError(f"`{shortened(self.phase)}` is not a phase of {shortened(self.tool)}")
        if self.figure not in FIGURES:
            raise ValueError(f"`{shortened(self.figure)}` is not a figure")
        if self.unit not in UNITS[self.quantity]:
            raise ValueError(f"`{shortened(self.unit)}` is not a unit of it")
        if self.value <= 0:
            raise ValueError("a published figure that is not above zero")
        known = {NODES.name: NODES, PHASE_TIME.name: PHASE_TIME, **tools()[self.tool].options}
        for name, value in (*self.where.items(), *self.setup.items(), *self.relative_to.items()):
            if name not in known:
                raise ValueError(f"`{shortened(name)}` is not an axis or option of {self.tool}")
            is_time = name == PHASE_TIME.name and type(value) in (int, float)
            if not is_time and not known[name].fits(value):
                raise ValueError(f"`{shortened(str(value))}` is not a value of {name}")

    @property
    def about(self) -> Figure:
        return FIGURES[self.figure]

    @property
    def quantity(self) -> Quantity:
        """What its unit measures."""
        return "ratio" if self.relative_to else self.about.quantity

    @property
    def unit(self) -> str:
        """As the source has it: `GiB/s`."""
        return self.printed.lstrip("+-0123456789,.").strip()

    def in_its_unit(self, value: float) -> float:
        """A value in the SI base unit of the column, in the unit that the source has."""
        return value / UNITS[self.quantity][self.unit]


class Reference(Part, frozen=True, kw_only=True):
    """Figures of one source. date, version: as the source gives them; systems: name -> what was measured."""

    name: Name
    title: str
    publisher: str
    url: str | None = None
    date: str | None = None
    version: str | None = None
    description: str | None = None
    systems: dict[Name, str] = field(default_factory=dict)
    figures: tuple[PublishedFigure, ...]

    def __post_init__(self) -> None:
        if self.url is not None and not re.fullmatch(URL_PATTERN, self.url):
            raise ValueError("the address of a source is not one")

    @property
    def source(self) -> str:
        """`WEKA, "WEKA performance tests", 4.3`"""
        parts = (self.publisher, f'"{self.title}"', self.version, self.date)
        return ", ".join(part for part in parts if part)


#: What the address of a source may be; it becomes a link in the report.
URL_PATTERN = r"https?://[!#-;=?-\[\]_a-z~]{1,500}"


def find(name: str, references: Iterable[Reference]) -> tuple[Reference, str | None] | None:
    """The reference of a name, and the system where it ends with one: `weka.single_client.aws`."""
    for reference in references:
        if name == reference.name:
            return reference, None
        if (system := name.removeprefix(f"{reference.name}.")) in reference.systems:
            return reference, system
    return None


def figures_of(reference: Reference, system: str | None, selector: Selector) -> list[PublishedFigure]:
    """The figures of a reference, or of one of its systems, that a selector may mean."""
    wanted = {where.axis: where.value for where in selector.where}
    return [
        figure
        for figure in reference.figures
        if (figure.phase, figure.about.column) == (selector.phase, selector.about.column)
        and not figure.relative_to
        and selector.scaling is None
        and system in (None, figure.system)
        and figure.tool == wanted.get("tool", figure.tool)
        and all(figure.where.get(axis, value) == value for axis, value in wanted.items())
    ]
