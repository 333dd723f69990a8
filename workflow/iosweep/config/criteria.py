"""`accept:` of a configuration: figures and the thresholds that they have to reach. Errors name line, key and value.

A selector names a figure: `read_bandwidth`, `rand_read p99 at queue_depth 1`, `rand_read ratio target a -> b`. Criteria
and published figures have one (docs/comparing.md has the grammar). Pure, and without the models of the configuration:
commands that only read tables use it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from msgspec import structs

from iosweep.config.yaml_lines import written
from iosweep.errors import ConfigError, Problem
from iosweep.files.documents import Integer, Name, Part
from iosweep.text import did_you_mean, shortened, some
from iosweep.tools import Option, Phase, phases, tools
from iosweep.tools.axes import TARGET, settable
from iosweep.units import parse_size

if TYPE_CHECKING:
    from iosweep.config.yaml_lines import Document

# Selectors

#: Values that an error lists: enough for an axis as people write them, on two lines of a terminal.
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


class Subject(NamedTuple):
    """A phase of a point, planned or measured. values: axis or option -> its value, `nodes` among them."""

    tool: str
    phase: str
    sweeps: tuple[str, ...]
    values: Mapping[str, object]

    def values_of(self, axis: str) -> tuple[object, ...]:
        """Its value of an axis, of an option or of `tool`; or its sweeps."""
        return {"tool": (self.tool,), "sweep": self.sweeps}.get(axis, (self.values.get(axis),))

    def measures(self, metric: Metric) -> bool:
        return not metric.lowest or (self.tool in tools() and tools()[self.tool].latency)

    def apart_from(self, axis: str) -> frozenset[tuple[str, object]]:
        """All that its phase uses but an axis: equal for points that differ in the axis only."""
        options, phase = tools()[self.tool].options if self.tool in tools() else {}, phases()[self.phase]
        used = (name for name in self.values if name not in options or options[name].applies(phase))
        return frozenset({("tool", self.tool), *((name, self.values[name]) for name in used if name != axis)})


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

    def holds(self, subject: Subject) -> bool:
        """Whether a phase of a point has the value. (1 is not `true`.)"""
        return any(type(has) is type(self.value) and has == self.value for has in subject.values_of(self.axis))


class Selector(Part, frozen=True, kw_only=True):
    """A figure: of a phase, of the best of its points that have these values, or its ratio over an axis.

    metric: of METRICS. Without `where` it is the headline of the phase. ratio: the second value's figure is divided by
    that of the first.
    """

    phase: Name
    metric: str
    where: tuple[Where, ...] = ()
    ratio: tuple[Where, Where] | None = None

    @property
    def about(self) -> Metric:
        return METRICS[self.metric]

    @property
    def text(self) -> str:
        """Its canonical spelling, which a configuration may have."""
        at = f" at {', '.join(where.text for where in self.where)}" if self.where else ""
        if self.ratio:
            metric = "" if _default_metric(phases()[self.phase]) is self.about else f" {self.metric}"
            return f"{self.phase}{metric} ratio {self.ratio[0].text} -> {self.ratio[1].shown}{at}"
        return f"{self.phase} {self.metric}{at}" if at else _headline_name(self.phase, self.metric)

    def sides(self) -> tuple[Selector, ...]:
        """The selectors of its figures: itself, or those at the first and at the second value of a ratio."""
        if self.ratio is None:
            return (self,)
        return tuple(structs.replace(self, ratio=None, where=(*self.where, value)) for value in self.ratio)


def parse_selector(text: str) -> Selector:
    """The selector of a text. Raises SelectorError."""
    head, _, conditions = re.sub(r"\s+", " ", text).strip().partition(" at ")
    figure, word, over = [*re.split(r" (scaling|ratio) ", head, maxsplit=1), "", ""][:3]
    phase, metric = _metric(figure.strip().replace(" ", "_"))
    where = []
    for condition in re.split(r", ?", conditions) if conditions else ():
        axis, _, value = condition.strip().partition(" ")
        if not re.fullmatch(r"\S+", value):
            shown = shortened(condition)
            raise SelectorError(f"has `at {shown}`; write an axis and its value: `at queue_depth 1, nodes 2`")
        where.append(Where(axis, _value(axis, value)))
    ratio = _ratio(word, over) if word else None
    axes = [*(condition.axis for condition in where), *([ratio[0].axis] if ratio else [])]
    if twice := next((axis for axis in axes if axes.count(axis) > 1), None):
        raise SelectorError(f"has `{twice}` twice")
    return Selector(phase=phase.name, metric=metric.name, where=tuple(where), ratio=ratio)


def matches(selector: Selector, subject: Subject) -> bool:
    """Whether a selector without a ratio selects a phase of a point."""
    return (
        subject.phase == selector.phase
        and subject.measures(selector.about)
        and all(where.holds(subject) for where in selector.where)
    )


def lacks(selector: Selector, subjects: Sequence[Subject]) -> str | None:
    """The reason why a selector selects nothing, with the values that there are; None where it selects something."""
    of_phase = [subject for subject in subjects if subject.phase == selector.phase]
    if not of_phase:
        measured = dict.fromkeys(subject.phase for subject in subjects)
        return f"{selector.phase} is not measured (phases: {', '.join(measured)})"
    if not (able := [subject for subject in of_phase if subject.measures(selector.about)]):
        by = " and ".join(sorted({subject.tool for subject in of_phase}))
        return f"{by} measures no latency, and nothing else measures {selector.phase}"
    for side in selector.sides():
        left = able
        for where in side.where:
            before, left = left, [subject for subject in left if where.holds(subject)]
            if not left:
                return f"no {selector.phase} is measured at {where.text}; {_measured_values(where.axis, before)}"
    return None


def find_pairs(selector: Selector, subjects: Sequence[Subject]) -> list[tuple[int, int]]:
    """The pairs of points that a ratio compares, as indices: they differ in its axis only."""
    assert selector.ratio
    axis = selector.ratio[0].axis
    partners: dict[object, tuple[list[int], list[int]]] = {}
    for side, of_side in enumerate(selector.sides()):
        for i, subject in enumerate(subjects):
            if matches(of_side, subject):
                partners.setdefault(subject.apart_from(axis), ([], []))[side].append(i)
    return [pair for first, second in partners.values() for pair in product(first, second)]


def _measured_values(axis: str, subjects: Sequence[Subject]) -> str:
    """The values of an axis: `queue_depth is 1, 2 or 4 there`."""
    values = {value for subject in subjects for value in subject.values_of(axis) if isinstance(value, bool | int | str)}
    if not values:
        varying = dict.fromkeys(name for s in subjects for name, value in s.values.items() if value is not None)
        return f"{axis} has no value there (what has: {', '.join(varying)})"
    texts = [Where(axis, value).shown for value in sorted(values, key=lambda value: (str(type(value)), value))]
    return f"{axis} is {some(texts, _LISTED) if len(texts) > 1 else texts[0]} there"


def _default_metric(phase: Phase) -> Metric:
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
    names = {phase.name: (phase, _default_metric(phase)) for phase in phases().values()}
    for phase in phases().values():
        for metric in METRICS.values():
            if (metric.quantity == "rate") == (phase.kind == "metadata"):
                names[f"{phase.name}_{metric.name}"] = (phase, metric)
                names[_headline_name(phase.name, metric.name)] = (phase, metric)
    return names


def _metric(name: str) -> tuple[Phase, Metric]:
    if name in _names():
        return _names()[name]
    for phase in phases().values():
        if name in {f"{phase.name}_{metric}" for metric in METRICS}:
            has = dict.fromkeys(metric.name for of, metric in _names().values() if of is phase)
            raise SelectorError(f"names no figure of {phase.name} (it has {', '.join(has)})")
    wrong = did_you_mean(name, _names()) or f"; write it as {_FORMS} (phases: {', '.join(phases())})"
    raise SelectorError(f"names no phase and no figure{wrong}")


def _ratio(word: str, text: str) -> tuple[Where, Where]:
    form = re.fullmatch(r"(?P<axis>[a-z_]+) (?P<first>\S+) ?-> ?(?P<second>\S+)", text)
    if not form:
        raise SelectorError(f"has `{word} {shortened(text)}`; write an axis and two values: `{word} nodes 1 -> 8`")
    if form["axis"] in _OTHERS:
        raise SelectorError(f"has a ratio over `{form['axis']}`, which is not an axis")
    first, second = (Where(form["axis"], _value(form["axis"], form[side])) for side in ("first", "second"))
    if first == second:
        raise SelectorError(f"has a ratio of {form['first']} to the same value")
    return first, second


@cache
def _options(axis: str) -> list[Option]:
    """Each tool's option of this name."""
    return [options[axis] for options in map(settable, tools().values()) if axis in options]


def _value(axis: str, text: str) -> Value:
    """The value of an axis or option. Raises SelectorError."""
    options = _options(axis)
    if axis == "tool" and text not in tools():
        raise SelectorError(f"has the tool `{shortened(text)}` (known: {', '.join(tools())})")
    if axis in (*_OTHERS, TARGET.name):  # headline_groups.unfit compares targets with those of the plan
        return text
    if not options:
        known = dict.fromkeys([*_OTHERS, *(name for tool in tools().values() for name in settable(tool))])
        near = did_you_mean(axis, known) or f" (known: {', '.join(known)})"
        raise SelectorError(f"has `{shortened(axis)}`, which is neither an axis nor an option{near}")
    wrong, kind = f"has {axis} `{shortened(text)}`", options[0].kind
    if kind == "size":
        try:
            return parse_size(text)
        except ValueError as error:
            raise SelectorError(f"{wrong}, which is {error}") from None
    if kind == "count":
        if re.fullmatch(r"[0-9]{1,12}", text):
            return int(text)
        raise SelectorError(f"{wrong}, which is not a whole number")
    choices = ("true", "false") if kind == "flag" else tuple(dict.fromkeys(c for o in options for c in o.choices))
    if text not in choices:
        raise SelectorError(f"{wrong} (known: {', '.join(choices)})")
    return text == "true" if kind == "flag" else text


# Thresholds and criteria

#: The key of the section.
SECTION = "accept"
Comparison = Literal[">=", ">", "<=", "<"]


class Measure(NamedTuple):
    """A quantity in words, with an example of a threshold, and its units: name -> size in the SI base unit of the
    figure's column; 1.0 is a ratio of one."""

    name: str
    example: str
    units: Mapping[str, float]


DECIMAL = {f"{prefix}B/s": 1000.0**power for power, prefix in enumerate("kMGT", 1)}
MEASURES: Mapping[Quantity | Literal["ratio"], Measure] = {
    "bandwidth": Measure(
        "a bandwidth",
        ">= 20 GiB/s",
        {f"{prefix}B/s": 1024.0**power for power, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti"))} | DECIMAL,
    ),
    "iops": Measure("IOPS", ">= 100k IOPS", {"IOPS": 1.0, "k IOPS": 1e3, "M IOPS": 1e6}),
    "rate": Measure("a rate", ">= 50k ops/s", {"ops/s": 1.0, "k ops/s": 1e3, "M ops/s": 1e6}),
    "latency": Measure("a latency", "<= 300us", {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}),
    "ratio": Measure("a ratio", ">= 6x", {"x": 1.0}),
}
_FORM = re.compile(r"(?P<comparison>>=|<=|>|<) *(?P<rest>[^<>=]+)")
#: A decimal number, and not the beginning of `1,5`, `1_000`, `1e9`, `0x10` or `1.2.3`.
_AMOUNT = re.compile(r"(?P<amount>[0-9]+(?:\.[0-9]+)?)(?![0-9_.,'’+-]|[eExX][0-9+-]) *(?P<unit>.*)")
_REFERENCE = re.compile(r"% *of +(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,99})")


class Threshold(Part, frozen=True, kw_only=True):
    """The limit of a figure: `amount` of a unit, or percent of the published figure `of` a suite."""

    comparison: Comparison
    amount: float
    unit: str
    of: str | None = None

    @property
    def value(self) -> float:
        """In the SI base unit of the figure's column (bytes/s, operations/s, seconds), or as a fraction."""
        sizes = {name: size for measure in MEASURES.values() for name, size in measure.units.items()}
        return self.amount * (0.01 if self.of else sizes[self.unit])

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


_WRONG = 'must be a mapping of figures to thresholds, for example `read_bandwidth: ">= 20 GiB/s"`'


def load(document: Document) -> list[Criterion]:
    """The criteria of a file that has to have some. Raises ConfigError."""
    criteria, problems = read(document)
    if SECTION not in document.data:
        problems = [document.problem((), f"`{SECTION}` is missing; it {_WRONG}")]
    if problems:
        raise ConfigError(problems)
    return criteria


def read(document: Document) -> tuple[list[Criterion], list[Problem]]:
    """(the valid criteria of a configuration, the problems of the others)"""
    section = document.data.get(SECTION, {})
    if not isinstance(section, dict) or (not section and SECTION in document.data):
        return [], [document.problem((SECTION,), _WRONG)]
    criteria: dict[tuple[Selector, bool], Criterion] = {}
    problems: list[Problem] = []
    for name, value in section.items():
        try:
            selector = parse_selector(name)
            criterion = Criterion(name=name, selector=selector, threshold=threshold(value, selector))
        except SelectorError as error:
            problems.append(document.problem((SECTION, name), str(error)))
            continue
        first = criteria.setdefault((selector, criterion.threshold.least), criterion)
        if first is not criterion:
            line = document.line((SECTION, first.name))
            problems.append(document.problem((SECTION, name), f"is the same figure as in line {line}; keep one"))
    return list(criteria.values()), problems


def threshold(value: object, selector: Selector) -> Threshold:
    """The threshold of a figure. Raises SelectorError."""
    measure = MEASURES["ratio" if selector.ratio else selector.about.quantity]
    example = f"write a comparison, a decimal number and a unit, for example `{measure.example}`"
    shown = f"`{shortened(written(value))}`"
    if not isinstance(value, str) or not (form := _FORM.fullmatch(value.strip())):
        raise SelectorError(f"{shown} is not a threshold; {example}")
    if not (number := _AMOUNT.fullmatch(form["rest"].strip())):
        raise SelectorError(f"{shown} does not begin with a decimal number; {example}")
    amount, unit, of = float(number["amount"]), number["unit"].strip(), None
    if amount == 0:
        raise SelectorError(f"{shown}: every figure is above zero, so this threshold decides nothing; {example}")
    # `100k IOPS`, `100k` and `µs` are also written
    spelled = {name.replace(" ", ""): name for name in measure.units} | {"µs": "us", "μs": "us"}
    if selector.about.quantity in ("iops", "rate") and not selector.ratio:
        spelled |= {name.split(" ")[0] if " " in name else "": name for name in measure.units}
    if reference := _REFERENCE.fullmatch(unit):
        unit, of = "%", reference["name"]
    elif unit.replace(" ", "") in spelled:
        unit = spelled[unit.replace(" ", "")]
    else:
        wrong = f"`{shortened(unit)}` is not a unit of {measure.name}{did_you_mean(unit, measure.units)}"
        known = ", ".join([*measure.units, *(["% of SUITE"] if not selector.ratio else [])])
        raise SelectorError(f"{shown}: {wrong if unit else 'it has no unit'} (known: {known})")
    return Threshold(comparison=cast(Comparison, form["comparison"]), amount=amount, unit=unit, of=of)


# Published figures of suites

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
    figures: list[Published] = []
    problems: list[Problem] = []
    for name, value in section.items() if isinstance(section, dict) else ():
        phase, _, metric = str(name).partition(" ")
        part = "completion " if metric.startswith("completion ") else ""
        try:
            selector = parse_selector(f"{phase} {metric.removeprefix(part)}")
            column = f"{part.strip()}_{selector.about.column}" if part else selector.about.column
            for system, text in value.items() if isinstance(value, dict) else [("", value)]:
                amount = threshold(f">= {text}", selector).value
                figures.append(Published(suite, selector, column, amount, str(text), str(system)))
        except SelectorError as error:
            problems.append(document.problem((PUBLISHED, name), str(error)))
    return figures, problems


def compares(figure: Published, subject: Subject, suites: Mapping[str, str]) -> bool:
    """Whether a phase of a point was measured as a published figure was. suites: sweep -> the suite that it is of."""
    return any(suites.get(sweep) == figure.suite for sweep in subject.sweeps) and matches(figure.selector, subject)


def published_named(name: str, selector: Selector) -> list[Published]:
    """The figures that a criterion means by `weka`, or of one system by `weka.aws`."""
    suite, _, system = name.partition(".")
    asked = {where.axis: where.value for where in selector.where}
    return [
        figure
        for figure in published_of_suite(suite)
        if (figure.selector.phase, figure.column) == (selector.phase, selector.about.column)
        and selector.ratio is None
        and system in ("", figure.system)
        and all(asked.get(where.axis, where.value) == where.value for where in figure.selector.where)
    ]


def unknown_reference(criterion: Criterion) -> str | None:
    """The reason why a criterion cannot be compared with the published figure that it names, or None."""
    name = criterion.threshold.of
    if name is None or published_named(name, criterion.selector):
        return None
    known = sorted(file.stem for file in SUITES.glob("*.yaml") if published_of_suite(file.stem))
    if (suite := name.partition(".")[0]) not in known:
        return f"`{suite}` is no suite with published figures (known: {', '.join(known)})"
    has = dict.fromkeys(f"{f.selector.phase} {f.selector.metric} {f.system}".strip() for f in published_of_suite(suite))
    return f"`{name}` has no published {criterion.selector.text} (it has {', '.join(has)})"
