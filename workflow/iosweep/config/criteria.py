"""`accept:` of a configuration: figures and the thresholds that they have to reach. Errors name line, key and value.

A selector names a figure: `read_bandwidth`, `rand_read p99 at queue_depth 1`, `create scaling nodes 1 -> 8`. Criteria
and published figures have one (docs/comparing.md has the grammar). Pure, and without the models of the configuration:
commands that only read tables use it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from msgspec import structs

from iosweep.errors import ConfigError, Problem
from iosweep.files.documents import Integer, Name, Part
from iosweep.text import did_you_mean, shortened, some
from iosweep.tools import Option, Phase, phases, tools
from iosweep.tools.axes import NODES
from iosweep.units import parse_size

if TYPE_CHECKING:
    from iosweep.config.yaml_lines import Document

# Selectors

#: Values that an error lists.
_LISTED = 12
#: Value of an axis or option.
Value = bool | Integer | str
#: The quantity of a figure, which decides its units.
Quantity = Literal["bandwidth", "iops", "rate", "latency"]


class Metric(NamedTuple):
    """A number of a phase: its column and its quantity."""

    name: str
    column: str
    quantity: Quantity

    @property
    def lowest(self) -> bool:
        """Whether lower is better."""
        return self.quantity == "latency"


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("bandwidth", "bandwidth_bytes_per_s", "bandwidth"),
        Metric("iops", "ops_per_s", "iops"),
        Metric("rate", "ops_per_s", "rate"),  # files or directories per second
        Metric("latency", "latency_mean_s", "latency"),
        Metric("p50", "latency_p50_s", "latency"),
        Metric("p99", "latency_p99_s", "latency"),
        Metric("p99.5", "latency_p99_5_s", "latency"),
        Metric("p99.9", "latency_p99_9_s", "latency"),
    )
}
#: The phases that `read`, `write` and `mixed` mean before a metric: `read_iops` is of random reads.
_FAMILY: Mapping[Quantity, str] = {"bandwidth": "seq", "iops": "rand", "latency": "rand"}
#: Keys of `at` that are neither axes nor options.
_OTHERS = ("tool", "sweep")
_FORMS = "`read_bandwidth`, `rand_read p99 at queue_depth 1` or `create scaling nodes 1 -> 8`"


class SelectorError(ValueError):
    """A text that names no figure. The message says what would be right."""


class Where(Part, frozen=True):
    """An axis or option with its value; also `tool` and `sweep` with a name."""

    axis: str
    value: Value

    @property
    def text(self) -> str:
        """`queue_depth 1`"""
        return f"{self.axis} {self.shown}"

    @property
    def shown(self) -> str:
        """The value as a configuration has it."""
        options = _options(self.axis)
        return options[0].text(self.value) if options else str(self.value)


class Scaling(Part, frozen=True):
    """The ratio of a phase's figure at two values of an axis."""

    axis: str
    low: Value
    high: Value

    @property
    def factor(self) -> float | None:
        """The factor by which a count grows: 8 from 1 to 8 nodes. None for other axes."""
        options = _options(self.axis)
        if not (options and options[0].kind == "count" and isinstance(self.low, int) and isinstance(self.high, int)):
            return None
        return self.high / self.low if self.low > 0 < self.high else None


class Selector(Part, frozen=True, kw_only=True):
    """A figure: of a phase, of the best of its points that have these values, or how it scales over an axis.

    metric: of METRICS. Without `where` it is the headline of the phase.
    """

    phase: Name
    metric: str
    where: tuple[Where, ...] = ()
    scaling: Scaling | None = None

    @property
    def about(self) -> Metric:
        return METRICS[self.metric]

    @property
    def text(self) -> str:
        """Its canonical spelling, which a configuration may have."""
        at = f" at {', '.join(where.text for where in self.where)}" if self.where else ""
        if self.scaling:
            metric = "" if default_metric(phases()[self.phase]) is self.about else f" {self.metric}"
            axis, (low, high) = self.scaling.axis, self.sides()
            values = " -> ".join(side.where[-1].shown for side in (low, high))
            return f"{self.phase}{metric} scaling {axis} {values}{at}"
        return f"{self.phase} {self.metric}{at}" if at else _headline_name(self.phase, self.metric)

    def sides(self) -> tuple[Selector, ...]:
        """The selectors of its figures: itself, or those at the low and at the high value of a scaling."""
        if self.scaling is None:
            return (self,)
        axis = self.scaling.axis
        return tuple(
            structs.replace(self, scaling=None, where=(*self.where, Where(axis, value)))
            for value in (self.scaling.low, self.scaling.high)
        )


class Subject(NamedTuple):
    """A phase of a point, planned or measured. values: axis or option -> its value, `nodes` among them."""

    tool: str
    phase: str
    sweeps: tuple[str, ...]
    values: Mapping[str, object]


def parse_selector(text: str) -> Selector:
    """The selector of a text. Raises SelectorError."""
    head, _, conditions = re.sub(r"\s+", " ", text).strip().partition(" at ")
    named, scales, over = head.partition(" scaling ")
    phase, metric = _metric(named)
    where = tuple(map(_where, re.split(r", ?", conditions))) if conditions else ()
    axes = [one.axis for one in where]
    scaling = _scaling(over) if scales else None
    if scaling:
        axes.append(scaling.axis)
    if twice := next((axis for axis in axes if axes.count(axis) > 1), None):
        raise SelectorError(f"has `{twice}` twice")
    return Selector(phase=phase.name, metric=metric.name, where=where, scaling=scaling)


def matches(selector: Selector, subject: Subject) -> bool:
    """Whether a selector without scaling selects a phase of a point."""
    return (
        subject.phase == selector.phase
        and _measures(subject, selector.about)
        and all(_has(subject, where) for where in selector.where)
    )


def lacks(selector: Selector, subjects: Sequence[Subject]) -> str | None:
    """The reason why a selector selects nothing, with the values that there are; None where it selects something."""
    left = [one for one in subjects if one.phase == selector.phase]
    if not left:
        there = dict.fromkeys(one.phase for one in subjects)
        return f"{selector.phase} is not measured (phases: {', '.join(there)})"
    if not (able := [one for one in left if _measures(one, selector.about)]):
        by = " and ".join(sorted({one.tool for one in left}))
        return f"{by} measures no latency, and nothing else measures {selector.phase}"
    for side in selector.sides():
        left = able
        for where in side.where:
            found = [one for one in left if _has(one, where)]
            if not found:
                return f"no {selector.phase} is measured at {where.text}; {_there(where.axis, left)}"
            left = found
    return None


def default_metric(phase: Phase) -> Metric:
    """The metric of a phase's headline."""
    if phase.kind == "metadata":
        return METRICS["rate"]
    return METRICS["iops" if phase.metric == "ops_per_s" else "bandwidth"]


def _headline_name(phase: str, metric: str) -> str:
    family, _, operation = phase.partition("_")
    short = operation and _FAMILY.get(METRICS[metric].quantity) == family
    return f"{operation if short else phase}_{metric}"


@cache
def _names() -> dict[str, tuple[Phase, Metric]]:
    """Every spelling of a phase and a metric, as a word with underscores."""
    found = {phase.name: (phase, default_metric(phase)) for phase in phases().values()}
    for phase in phases().values():
        for metric in METRICS.values():
            if (metric.quantity == "rate") == (phase.kind == "metadata"):
                found[f"{phase.name}_{metric.name}"] = (phase, metric)
                found[_headline_name(phase.name, metric.name)] = (phase, metric)
    return found


def _metric(text: str) -> tuple[Phase, Metric]:
    name = text.strip().replace(" ", "_")
    if found := _names().get(name):
        return found
    for phase in phases().values():
        if name in {f"{phase.name}_{metric}" for metric in METRICS}:
            known = [metric.name for one, metric in _names().values() if one is phase]
            raise SelectorError(f"names no figure of {phase.name} (it has {', '.join(dict.fromkeys(known))})")
    near = did_you_mean(name, _names())
    wrong = near or f"; write it as {_FORMS} (phases: {', '.join(phases())})"
    raise SelectorError(f"names no phase and no figure{wrong}")


def _scaling(text: str) -> Scaling:
    found = re.fullmatch(r"(?P<name>[a-z_]+) (?P<low>\w+) -> (?P<high>\w+)", text.strip())
    if not found:
        raise SelectorError(f"scales over `{shortened(text)}`; write an axis and two values: `scaling nodes 1 -> 8`")
    name = found["name"]
    if name in _OTHERS:
        raise SelectorError(f"scales over `{name}`, which is not an axis")
    low, high = (_value(name, found[side]) for side in ("low", "high"))
    if low == high:
        raise SelectorError(f"scales from {found['low']} to the same value")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise SelectorError(f"scales from {found['low']} down to {found['high']}; write the smaller value first")
    return Scaling(name, low, high)


def _where(text: str) -> Where:
    axis, _, value = text.strip().partition(" ")
    if not re.fullmatch(r"\S+", value):
        raise SelectorError(f"has `at {shortened(text)}`; write an axis and its value: `at queue_depth 1, nodes 2`")
    return Where(axis, _value(axis, value))


@cache
def _options(axis: str) -> list[Option]:
    """Each tool's option of this name."""
    if axis == NODES.name:
        return [NODES]
    return [tool.options[axis] for tool in tools().values() if axis in tool.options]


def _value(axis: str, text: str) -> Value:
    options = _options(axis)
    if axis == "tool" and text not in tools():
        raise SelectorError(f"has the tool `{shortened(text)}` (known: {', '.join(tools())})")
    if axis in _OTHERS:
        return text
    if not options:
        known = [*_OTHERS, NODES.name, *dict.fromkeys(name for tool in tools().values() for name in tool.options)]
        near = did_you_mean(axis, known) or f" (known: {', '.join(known)})"
        raise SelectorError(f"has `{shortened(axis)}`, which is neither an axis nor an option{near}")
    kind = options[0].kind
    if kind == "size":
        try:
            return parse_size(text)
        except ValueError as error:
            raise SelectorError(f"has {axis} `{shortened(text)}`, which is {error}") from None
    if kind == "count":
        if re.fullmatch(r"[0-9]{1,12}", text):
            return int(text)
        raise SelectorError(f"has {axis} `{shortened(text)}`, which is not a whole number")
    choices = ("true", "false") if kind == "flag" else tuple(dict.fromkeys(c for o in options for c in o.choices))
    if text not in choices:
        raise SelectorError(f"has {axis} `{shortened(text)}` (known: {', '.join(choices)})")
    return text == "true" if kind == "flag" else text


def _measures(subject: Subject, metric: Metric) -> bool:
    return not metric.lowest or (subject.tool in tools() and tools()[subject.tool].latency)


def _has(subject: Subject, where: Where) -> bool:
    if where.axis == "tool":
        return subject.tool == where.value
    if where.axis == "sweep":
        return where.value in subject.sweeps
    own = subject.values.get(where.axis)
    return type(own) is type(where.value) and own == where.value


def _there(axis: str, subjects: Sequence[Subject]) -> str:
    """The values of an axis: `queue_depth is 1, 2 or 4 there`."""
    found: dict[Any, None] = {}
    for one in subjects:
        found |= dict.fromkeys({"tool": (one.tool,), "sweep": one.sweeps}.get(axis, (one.values.get(axis),)))
    values = sorted((value for value in found if value is not None), key=lambda value: (str(type(value)), value))
    if not values:
        varying = dict.fromkeys(name for one in subjects for name, value in one.values.items() if value is not None)
        return f"{axis} has no value there (what has: {', '.join(varying)})"
    options = _options(axis)
    texts = [options[0].text(value) if options else str(value) for value in values]
    return f"{axis} is {some(texts, _LISTED) if len(texts) > 1 else texts[0]} there"


# Thresholds and criteria

#: The key of the section.
SECTION = "accept"
#: The quantity of a threshold: that of a figure, or a ratio.
ThresholdQuantity = Quantity | Literal["ratio"]
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


MEASURES: Mapping[ThresholdQuantity, Measure] = {
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
            selector = parse_selector(name)
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
            selector = parse_selector(f"{phase} {metric.removeprefix(part)}")
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
