"""Published figures of a suite's tests, the section `published` of its file. Results and criteria compare with them.

    rand_read iops at nodes 1, threads_per_node 192: {aws: 393333 IOPS, supermicro: 563667 IOPS}

The figure is named as in `accept`; `completion latency` and its percentiles are fio's clat. Several systems of one
source have a name each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from iosweep.config import criteria, selectors
from iosweep.config.selectors import Selector, SelectorError, Subject, matches
from iosweep.errors import Problem

if TYPE_CHECKING:  # YAML, which jobs and merge do without
    from iosweep.config.criteria import Criterion
    from iosweep.config.yaml_lines import Document

SECTION = "published"
SUITES = Path(__file__).resolve().parents[3] / "config" / "suites"
_COMPLETION = "completion "


@dataclass(frozen=True)
class Published:
    """A figure of a source. selector: what was measured; column: of our tables; value: in its unit; printed: as the
    source has it; system: "" where the source measured one."""

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
def of_suite(suite: str) -> tuple[Published, ...]:
    """The figures of a suite; none where there is no such suite. Raises ConfigError."""
    from iosweep.config.yaml_lines import load  # late: few commands read them

    file = SUITES / f"{suite}.yaml"
    return tuple(read(load(file), suite)[0]) if file.is_file() else ()


def read(document: Document, suite: str) -> tuple[list[Published], list[Problem]]:
    """(the figures of a suite's file that are right, what is wrong with others)"""
    section = document.data.get(SECTION, {})
    found: list[Published] = []
    problems: list[Problem] = []
    for name, value in section.items() if isinstance(section, dict) else ():
        for system, text in value.items() if isinstance(value, dict) else [("", value)]:
            try:
                found.append(_figure(suite, str(name), text, str(system)))
            except SelectorError as error:
                problems.append(document.problem((SECTION, name), str(error)))
    return found, problems


def _figure(suite: str, name: str, text: object, system: str) -> Published:
    phase, _, rest = name.partition(" ")
    completion = rest.startswith(_COMPLETION)
    selector = selectors.parse(f"{phase} {rest.removeprefix(_COMPLETION)}")
    threshold = criteria.threshold(f">= {text}", selector)
    column = f"completion_{selector.about.column}" if completion else selector.about.column
    return Published(suite, selector, column, threshold.value, str(text), system)


def compares(figure: Published, subject: Subject, suites: Mapping[str, str]) -> bool:
    """Whether a phase of a point was measured as a published figure was. suites: sweep -> the suite that it is of."""
    return any(suites.get(sweep) == figure.suite for sweep in subject.sweeps) and matches(figure.selector, subject)


def named(name: str, selector: Selector) -> list[Published]:
    """The figures that a criterion means by `weka`, or of one system by `weka.aws`."""
    suite, _, system = name.partition(".")
    wanted = {where.axis: where.value for where in selector.where}
    return [
        figure
        for figure in of_suite(suite)
        if (figure.selector.phase, figure.column) == (selector.phase, selector.about.column)
        and selector.scaling is None
        and system in ("", figure.system)
        and all(wanted.get(where.axis, where.value) == where.value for where in figure.selector.where)
    ]


def unknown(criterion: Criterion) -> str | None:
    """Why a criterion cannot be compared with what it names, or None."""
    name = criterion.threshold.of
    if name is None or named(name, criterion.selector):
        return None
    known = sorted(file.stem for file in SUITES.glob("*.yaml") if of_suite(file.stem))
    if (suite := name.partition(".")[0]) not in known:
        return f"`{suite}` is no suite with published figures (known: {', '.join(known)})"
    has = dict.fromkeys(f"{one.selector.phase} {one.selector.figure} {one.system}".strip() for one in of_suite(suite))
    return f"`{name}` has no published {criterion.selector.text} (it has {', '.join(has)})"
