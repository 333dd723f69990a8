"""All figures of a campaign, in the order of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.analysis.aggregate import Result
from iosweep.analysis.data import Campaign
from iosweep.report import scaling_figures
from iosweep.report.figures import Figure, distinct_names, figures
from iosweep.report.scaling_figures import Table


def drawings(
    campaign: Campaign, results: Sequence[Result], scaled: Sequence[tuple[str, Figure, Table]] | None = None
) -> list[Figure]:
    """Sweep by sweep, with distinct names. scaled: those of `scaling_figures.of`, where they are known."""
    scaled = scaling_figures.of(campaign, results) if scaled is None else scaled
    found = [*figures(campaign, results), *(figure for _, figure, _ in scaled)]
    order = [sweep.name for sweep in campaign.about.sweeps]
    return distinct_names(sorted(found, key=lambda figure: order.index(figure.sweep)))
