"""`accept:` of a configuration: figures and the thresholds that they have to reach. Errors name line, key and value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from iosweep.config import selectors
from iosweep.config.selectors import Selector, SelectorError, Subject, matches
from iosweep.errors import ConfigError, Problem
from iosweep.files.documents import Part
from iosweep.text import did_you_mean, shortened

if TYPE_CHECKING:
    from iosweep.config.yaml_lines import Document

#: The key of the section.
SECTION = "accept"
#: The quantity of a threshold: that of a figure, or a ratio.
Quantity = Literal["bandwidth", "iops", "rate", "latency", "ratio"]
Comparison = Literal[">=", ">", "<=", "<"]


class Unit(NamedTuple):
    """A unit of thresholds. size: in the SI base unit of the figure's column; 1.0 is a ratio of one."""

    name: str
    size: float
    others: tuple[str, ...] = ()  # other spellings


_BINARY = [Unit(f"{name}B/s", 1024.0**power) for power, name in enumerate(("", "Ki", "Mi", "Gi", "Ti"))]
DECIMAL = [Unit(f"{name}B/s", 1000.0**power) for power, name in enumerate(("k", "M", "G", "T"), 1)]
_SCALES: tuple[tuple[str, float], ...] = (("", 1.0), ("k", 1e3), ("M", 1e6))


def _operations(noun: str, *others: str) -> list[Unit]:
    return [
        Unit(f"{scale} {noun}".strip(), size, (scale, *(f"{scale}{word}" for word in (noun, *others))))
        for scale, size in _SCALES
    ]


class Measure(NamedTuple):
    """A quantity in words, with an example of a threshold, and its units."""

    name: str
    example: str
    units: list[Unit]


MEASURES: Mapping[Quantity, Measure] = {
    "bandwidth": Measure("a bandwidth", ">= 20 GiB/s", [*_BINARY, *DECIMAL]),
    "iops": Measure("IOPS", ">= 100k IOPS", _operations("IOPS", "iops")),
    "rate": Measure("a rate", ">= 50k ops/s", _operations("ops/s", "/s")),
    "latency": Measure(
        "a latency", "<= 300us", [Unit("ns", 1e-9), Unit("us", 1e-6, ("µs", "μs")), Unit("ms", 1e-3), Unit("s", 1.0)]
    ),
    "ratio": Measure("scaling", ">= 6x", [Unit("x", 1.0), Unit("%", 0.01)]),
}
_FORM = re.compile(r"(?P<comparison>>=|<=|>|<) *(?P<rest>[^<>=]+)")
#: A decimal number, and not the beginning of `1,5`, `1_000`, `1e9`, `0x10` or `1.2.3`.
_AMOUNT = re.compile(r"(?P<amount>[0-9]+(?:\.[0-9]+)?)(?![0-9_.,'’+-]|[eExX][0-9+-]) *(?P<unit>.*)")
_REFERENCE = re.compile(r"% *of +(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,99})")


@cache
def _sizes() -> dict[str, float]:
    """Name of a unit -> its size."""
    return {unit.name: unit.size for measure in MEASURES.values() for unit in measure.units}


class Threshold(Part, frozen=True, kw_only=True):
    """The limit of a figure: `amount` of a unit, or percent of the published figure `of` a suite."""

    comparison: Comparison
    amount: float
    unit: str
    of: str | None = None

    @property
    def value(self) -> float:
        """In the SI base unit of the figure's column (bytes/s, operations/s, seconds), or as a fraction."""
        return self.amount * _sizes()[self.unit]

    @property
    def decimal(self) -> bool:
        """Whether its unit is a power of 1000 bytes/s."""
        return any(unit.name == self.unit for unit in DECIMAL)

    @property
    def least(self) -> bool:
        """Whether the figure has to be above it."""
        return self.comparison in (">=", ">")

    @property
    def text(self) -> str:
        """`>= 20 GiB/s`, `>= 90 % of weka.aws`"""
        blank = "" if self.unit == "x" else " "
        number = format(Decimal(f"{self.amount:.12g}"), "f")  # an exponent could not be read again
        return f"{self.comparison} {number}{blank}{self.unit}" + (f" of {self.of}" if self.of else "")


class Criterion(Part, frozen=True, kw_only=True):
    """A figure and its threshold. name: the figure as the configuration has it."""

    name: str
    selector: Selector
    threshold: Threshold

    @property
    def text(self) -> str:
        """`read_bandwidth >= 20 GiB/s`"""
        return f"{self.name} {self.threshold.text}"

    @property
    def efficiency(self) -> bool:
        """Whether a ratio is compared as a share of the growth of the axis."""
        return self.selector.scaling is not None and self.threshold.unit == "%" and self.threshold.of is None


def load(document: Document) -> list[Criterion]:
    """The criteria of a file that has to have some. Raises ConfigError."""
    if SECTION not in document.data:
        wrong = (
            f'has no `{SECTION}`; write figures and thresholds below it: `{SECTION}: {{read_bandwidth: ">= 20 GiB/s"}}`'
        )
        raise ConfigError([document.problem((), wrong)])
    found, problems = read(document)
    if problems:
        raise ConfigError(problems)
    return found


def read(document: Document) -> tuple[list[Criterion], list[Problem]]:
    """(the valid criteria of a configuration, the problems of the others)"""
    section = document.data.get(SECTION, {})
    if not isinstance(section, dict) or (not section and SECTION in document.data):
        wrong = 'must be a mapping of figures to thresholds, for example `read_bandwidth: ">= 20 GiB/s"`'
        return [], [document.problem((SECTION,), wrong)]
    found: dict[tuple[Selector, bool], Criterion] = {}
    problems: list[Problem] = []
    for name, value in section.items():
        try:
            selector = selectors.parse(name)
            made = Criterion(name=name, selector=selector, threshold=threshold(value, selector))
        except SelectorError as error:
            problems.append(document.problem((SECTION, name), str(error)))
            continue
        known = found.setdefault((selector, made.threshold.least), made)
        if known is not made:
            line = document.line((SECTION, known.name))
            problems.append(document.problem((SECTION, name), f"is the same figure as in line {line}; keep one"))
    return list(found.values()), problems


def threshold(value: object, selector: Selector) -> Threshold:
    """The threshold of a figure. Raises SelectorError."""
    measure = MEASURES["ratio" if selector.scaling else selector.about.quantity]
    example = f"write a comparison, a decimal number and a unit, for example `{measure.example}`"
    shown = f"`{shortened(str(value))}`"
    if not isinstance(value, str) or not (form := _FORM.fullmatch(value.strip())):
        raise SelectorError(f"{shown} is not a threshold; {example}")
    if not (found := _AMOUNT.fullmatch(form["rest"].strip())):
        raise SelectorError(f"{shown} does not begin with a decimal number; {example}")
    amount, unit, of = float(found["amount"]), found["unit"].strip(), None
    if amount == 0:
        raise SelectorError(f"{shown}: every figure is above zero, so this threshold decides nothing; {example}")
    if reference := _REFERENCE.fullmatch(unit):
        unit, of = "%", reference["name"]
    elif not (unit := _unit(unit, measure, shown)):
        raise SelectorError(f"{shown} has no unit; {example}")
    if unit == "%" and not of and selector.scaling and not selector.scaling.factor:
        raise SelectorError(f"{shown}: a share of what {selector.scaling.axis} has grown by says nothing; use `x`")
    return Threshold(comparison=cast(Comparison, form["comparison"]), amount=amount, unit=unit, of=of)


def _unit(text: str, measure: Measure, shown: str) -> str:
    """The name of a unit, "" without any. Raises SelectorError where it does not suit the figure."""
    names = {spelling: unit.name for unit in measure.units for spelling in (unit.name, *unit.others)}
    if not text or text in names:
        return names.get(text, "")
    if text.startswith("%"):
        wrong = "is a share of nothing" if text == "%" else "does not name what it is a share of"
        raise SelectorError(
            f"{shown} {wrong}; write `% of` and a suite with published figures, or a figure and its unit"
        )
    known = ", ".join(unit.name for unit in measure.units)
    near = did_you_mean(text, names)
    raise SelectorError(f"{shown}: `{shortened(text)}` is not a unit of {measure.name}{near} (known: {known})")


PUBLISHED = "published"
#: Suites that come with the project.
SUITES = Path(__file__).resolve().parents[3] / "config" / "suites"


@dataclass(frozen=True)
class Published:
    """A figure of a source. selector: names it; column: of our tables; value: in its unit; printed: as the source has
    it; system: "" where the source measured a single system."""

    suite: str
    selector: Selector
    column: str
    value: float
    printed: str
    system: str

    @property
    def lowest(self) -> bool:
        """Whether lower is better."""
        return self.selector.about.lowest

    @property
    def text(self) -> str:
        """`21.4 GiB/s (supermicro)`"""
        return f"{self.printed} ({self.system})" if self.system else self.printed


@cache
def published_of_suite(suite: str) -> tuple[Published, ...]:
    """The figures of a suite; none where there is no such suite. Raises ConfigError."""
    from iosweep.config.yaml_lines import load  # late: few commands read them

    file = SUITES / f"{suite}.yaml"
    return tuple(read_published(load(file), suite)[0]) if file.is_file() else ()


def read_published(document: Document, suite: str) -> tuple[list[Published], list[Problem]]:
    """(the valid figures of a suite's file, the problems of the others)"""
    section = document.data.get(PUBLISHED, {})
    found: list[Published] = []
    problems: list[Problem] = []
    for name, value in section.items() if isinstance(section, dict) else ():
        phase, _, metric = str(name).partition(" ")
        part = "completion " if metric.startswith("completion ") else ""
        try:
            selector = selectors.parse(f"{phase} {metric.removeprefix(part)}")
            column = f"{part.strip()}_{selector.about.column}" if part else selector.about.column
            for system, text in value.items() if isinstance(value, dict) else [("", value)]:
                amount = threshold(f">= {text}", selector).value
                found.append(Published(suite, selector, column, amount, str(text), str(system)))
        except SelectorError as error:
            problems.append(document.problem((PUBLISHED, name), str(error)))
    return found, problems


def compares(figure: Published, subject: Subject, suites: Mapping[str, str]) -> bool:
    """Whether a phase of a point was measured as a published figure was. suites: sweep -> the suite that it is of."""
    return any(suites.get(sweep) == figure.suite for sweep in subject.sweeps) and matches(figure.selector, subject)


def published_named(name: str, selector: Selector) -> list[Published]:
    """The figures that a criterion means by `weka`, or of one system by `weka.aws`."""
    suite, _, system = name.partition(".")
    wanted = {where.axis: where.value for where in selector.where}
    return [
        figure
        for figure in published_of_suite(suite)
        if (figure.selector.phase, figure.column) == (selector.phase, selector.about.column)
        and selector.scaling is None
        and system in ("", figure.system)
        and all(wanted.get(where.axis, where.value) == where.value for where in figure.selector.where)
    ]


def unknown_reference(criterion: Criterion) -> str | None:
    """The reason why a criterion cannot be compared with the published figure that it names, or None."""
    name = criterion.threshold.of
    if name is None or published_named(name, criterion.selector):
        return None
    known = sorted(file.stem for file in SUITES.glob("*.yaml") if published_of_suite(file.stem))
    if (suite := name.partition(".")[0]) not in known:
        return f"`{suite}` is no suite with published figures (known: {', '.join(known)})"
    has = dict.fromkeys(
        f"{one.selector.phase} {one.selector.metric} {one.system}".strip() for one in published_of_suite(suite)
    )
    return f"`{name}` has no published {criterion.selector.text} (it has {', '.join(has)})"
