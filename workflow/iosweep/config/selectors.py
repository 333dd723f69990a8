"""Which figure is meant: `read_bandwidth`, `rand_read p99 at queue_depth 1`, `create scaling nodes 1 -> 8`.

Text -> Selector -> text. Criteria of acceptance and references name figures by it (docs/comparing.md has the
grammar). Pure, and without the models of the configuration: commands that only read tables use it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from msgspec import structs

from iosweep.files.documents import Integer, Name, Part
from iosweep.text import did_you_mean, shortened, some
from iosweep.tools import Option, Phase, phases, tools
from iosweep.tools.axes import NODES
from iosweep.units import parse_size

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


def parse(text: str) -> Selector:
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
