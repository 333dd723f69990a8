"""Published figures beside a campaign's own, as tables: a row for each figure, a column for each system. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iosweep.analysis import formats, references, titles
from iosweep.analysis.aggregate import Result
from iosweep.analysis.data import Campaign
from iosweep.analysis.references import Beside, Ratio
from iosweep.config.published import PublishedFigure, Reference
from iosweep.report.benchmark_tables import Cell, Table, TableRow
from iosweep.text import human_count, some

#: Figures that are named for a reason why they do not compare.
_NAMED = 3


@dataclass(frozen=True)
class Section:
    """A reference with the table of what compares with it."""

    reference: Reference
    table: Table | None  # None: nothing does
    common: str  # how all that compares was measured, and where that differs here
    compared: str  # how many figures do
    others: tuple[str, ...]  # why the others do not

    @property
    def notes(self) -> tuple[str, ...]:
        """What the source says beside its figures."""
        return tuple(dict.fromkeys(figure.note for figure in self.reference.figures if figure.note))


def of(campaign: Campaign, results: Sequence[Result]) -> list[Section]:
    """A section for each reference of the campaign."""
    return [section(reference, campaign, results) for reference in campaign.about.references]


def section(reference: Reference, campaign: Campaign, results: Sequence[Result]) -> Section:
    """A reference beside a campaign's results."""
    found = references.beside(reference, results, campaign.about.sweeps)
    rows: dict[tuple[object, ...], list[Beside]] = {}
    for one in found:
        if not one.reason:
            rows.setdefault(_key(one.published), []).append(one)
    systems: list[str | None] = [*reference.systems] or [None]
    words = [(*references.place(own[0].published), *own[0].differences) for own in rows.values()]
    common = [word for word in dict.fromkeys(words[0] if words else ()) if all(word in own for own in words)]
    table = Table(
        sources=(reference.name,),
        title="",
        about=reference.source,
        columns=("here", *(reference.systems.values() or ("published",))),
        rows=tuple(_row(own, systems, common) for own in rows.values()),
        notes=tuple(dict.fromkeys(one.published.note for own in rows.values() for one in own if one.published.note)),
    )
    return Section(
        reference, table if rows else None, ", ".join(common), references.summary(found), tuple(_others(found))
    )


def figure_title(figure: PublishedFigure) -> str:
    """`Random read, 99.5th percentile`, `Random read, mean latency to that at queue depth 16`"""
    start = titles.phase(figure.phase).capitalize()
    to = ", ".join(titles.named(references.column(name), value) for name, value in figure.relative_to.items())
    name = "" if figure.figure == "rate" else f", {figure.about.title}"
    return start + name + (f" to that at {to}" if to else "")


def ours(one: Beside) -> str:
    """Our figure in the unit of the source: units are equal."""
    unit = one.published.unit
    value = one.published.in_its_unit(one.value)
    if one.published.printed[0] in "+-":  # a change, in percent
        return f"{value - 100:+.0f} %"
    return f"{formats.number(value)} {unit}"


def row_title(figure: PublishedFigure) -> str:
    """`Random read, mean latency (lower is better)`"""
    return figure_title(figure) + (" (lower is better)" if figure.about.lowest else "")


def ratio_text(figure: PublishedFigure, ratio: Ratio) -> str:
    """`here 92 % (88 to 96 %)`; of a latency, where less is better, `here 1.20 x the latency (1.15 to 1.25 x)`"""
    lowest = figure.about.lowest
    number = formats.number if lowest else _percent
    unit, of = ("x", " the ratio" if figure.relative_to else " the latency") if lowest else ("%", "")
    share = f"here {number(ratio.value)} {unit}{of}"
    if ratio.low is None or ratio.high is None:
        return share
    return f"{share} ({number(ratio.low)} to {number(ratio.high)} {unit})"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}" if share >= 0.0995 else f"{100 * share:.2g}"


def _key(figure: PublishedFigure) -> tuple[object, ...]:
    """What figures of several systems have in common."""
    of = tuple(sorted(figure.where.items())), tuple(sorted(figure.relative_to.items()))
    return figure.tool, figure.phase, figure.figure, *of


def _row(own: Sequence[Beside], systems: Sequence[str | None], common: Sequence[str]) -> TableRow:
    """A figure: ours, then that of each system with our share of it. common: what all rows have, which none repeats."""
    first = own[0]
    assert first.result is not None
    assert first.ratio is not None
    n = first.ratio.n
    lines = ["one repetition" if n == 1 else f"n = {n}"]
    if first.of > 1:
        lines.append(f"best of {human_count(first.of, 'point')}")
    cells = [Cell(ours(first), tuple(lines), first.result.verdict)]
    for system in systems:
        one = next((one for one in own if one.published.system == system), None)
        text = ratio_text(one.published, one.ratio) if one and one.ratio else ""
        cells.append(Cell(one.published.printed, (text,), "", minor=True) if one else Cell("", (), ""))
    place = ", ".join(word for word in references.place(first.published) if word not in common)
    differences = [word for word in first.differences if word not in common]
    return TableRow(row_title(first.published), tuple(cells), "; ".join(filter(None, (place, *differences))))


def _others(found: Iterable[Beside]) -> Iterable[str]:
    """Why figures do not compare, each reason once: `1 node, there 8 (14 figures: Sequential read, throughput ...)`."""
    reasons: dict[str, list[Beside]] = {}
    for one in found:
        if one.reason:
            reasons.setdefault(one.reason, []).append(one)
    for reason, own in reasons.items():
        names = list(dict.fromkeys(figure_title(one.published) for one in own))
        yield f"{reason} ({human_count(len(own), 'figure')}: {some(names, _NAMED, separator='; ')})"
