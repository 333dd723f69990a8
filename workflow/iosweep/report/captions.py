"""Names, titles and notes of figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iosweep.analysis import findings, formats
from iosweep.analysis.axes import Slice
from iosweep.analysis.summary import OUTCOMES, PointSummary, distinct
from iosweep.text import human_count
from iosweep.tools import parameters, tools

#: What a figure of rates shows: the phase's own metric, or one metric of all its phases.
_RATES = {"throughput": "throughput", "iops": "IOPS"}

BARS = {
    "ci95": "Bars: 95 % confidence interval over the repetitions. Dots: each of them.",
    "range": "Bars: smallest and largest repetition. Dots: each of them.",
    "none": "One repetition each, so there are no error bars.",
}
#: What is said of bars that a panel does not hold.
CUT = "Arrows: the interval goes on above; its width is in the table."


def name(cut: Slice, quantity: str, phase: str | None) -> str:
    """Stable name, fit for a file: `throughput-by-threads.<sweep>`."""
    if quantity in ("latency", "efficiency"):
        what = quantity
    elif cut.kind == "metadata":
        what = "metadata"
    elif quantity in _RATES:
        what = quantity
    else:
        what = "throughput" if "bandwidth_bytes_per_s" in _metrics(cut, phase) else "iops"
    axis = parameters()[cut.x].name.removesuffix("_per_node").replace("_", "-")
    return f"{what}-by-{axis}.{slug(cut.sweep)[:80]}{'.' + phase if phase else ''}{slug(cut.suffix)}"


def title(cut: Slice, quantity: str, phase: str | None) -> str:
    """`Throughput and IOPS against threads per node`, `Random read: IOPS against queue depth`."""
    if quantity == "latency":
        what = "latency"
    elif cut.kind == "metadata":
        what = "metadata rates"
    elif quantity in _RATES:
        what = _RATES[quantity]
    else:
        rates = {"bandwidth_bytes_per_s": "throughput", "ops_per_s": "IOPS"}
        metrics = _metrics(cut, phase)
        what = " and ".join(text for metric, text in rates.items() if metric in metrics)
    against = f"{what} against {parameters()[cut.x].shown}"
    return f"{formats.phase(phase)}: {against}" if phase else against[0].upper() + against[1:]


def subtitle(cut: Slice, phase: str | None = None) -> str:
    """Conditions, and the parameters that do not vary; of one phase, or of all, those that apply to it."""
    drawn = {result.phase for result in cut.results if phase in (None, result.phase)}
    parts = [formats.describe(cut.condition, cut.kind, drawn)]
    options = tools()[cut.condition.tool].options if cut.condition.tool in tools() else {}
    for column, option in parameters().items():
        if (own := options.get(option.name)) and own.phases is not None and not own.phases & drawn:
            continue
        found = distinct([result for result in cut.results if formats.applies(column, result.parameters)], column)
        if cut.kind in option.captions and len(found) == 1 and column not in (cut.x, cut.color, cut.facet):
            parts.append(formats.named(column, found[0]))
    return "; ".join(parts)


def notes(
    results: Sequence[PointSummary],
    drawable: Sequence[PointSummary],
    bars: str,
    quantity: str,
    strangers: Sequence[set[str]] | None,
) -> Iterator[str]:
    """What the error bars are, what is hollow, and what is not drawn, with the reasons.

    `strangers`: for each result that ran on nodes which the largest count did not have, those nodes; None where a
    figure is not against nodes.
    """
    if drawable:
        yield BARS[bars]
        if quantity == "latency" and bars != "none":
            yield "p99: median of the repetitions' 99th percentiles."
    for _, text in findings.unlike_hosts(drawable):
        yield text
    for text in findings.unlike_builds(drawable):
        yield text[0].upper() + text[1:]
    if strangers:
        ran = f"Diamonds: {human_count(len(strangers), 'result')} of nodes that the largest count did not have"
        yield f"{ran} ({formats.hosts(set().union(*strangers))}), so that a difference may be the nodes'."
    elif strangers is not None and len({result.parameters["nodes"] for result in drawable}) > 1:
        yield "Same nodes: smaller counts ran on nodes of the largest one."
    lacking = sum(result.lacking for result in drawable)
    if lacking:
        incomplete = human_count(sum(bool(result.lacking) for result in drawable), "figure")
        yield f"Incomplete: {incomplete} without all repetitions ({lacking} missing or left)."
    yield from of_verdicts(results, drawable)


def of_verdicts(results: Sequence[PointSummary], drawable: Sequence[PointSummary]) -> Iterator[str]:
    """What is hollow, and what is not drawn, with the reasons."""
    hollow = [result for result in drawable if result.verdict != "valid"]
    if hollow:
        yield f"Hollow: {len(hollow)} not valid ({findings.reasons(hollow)})."
    # A result that counts but lacks this figure is the tool's doing, not a verdict.
    unused = [result for result in results if not result.used]
    for state in OUTCOMES:
        own = [result for result in unused if result.state == state]
        if own:
            yield f"Not drawn: {len(own)} {state} ({findings.reasons(own)})."


def without_place(cut: Slice, phase: str | None = None) -> Iterator[str]:
    """What is not drawn because its value on the horizontal axis is not known."""
    without = [result for result in cut.without if phase in (None, result.phase)]
    if without:
        yield f"Not drawn: {human_count(len(without), 'result')} of unknown {parameters()[cut.x].shown}."


def slug(text: str) -> str:
    """Text as part of a file name: letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def _metrics(cut: Slice, phase: str | None) -> set[str]:
    return {result.metric for result in cut.results if phase in (None, result.phase)}
