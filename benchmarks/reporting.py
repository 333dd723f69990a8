"""From the tables to the report: `iosweep page`, and the figures as SVG and PNG."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import IOSWEEP, ROOT, Row, Size, child, in_turn, median, megabytes, seconds

SECONDS, BYTES = 5.0, 3e6
_MAKE = """
import sys, pathlib, results_factory
results_factory.make(pathlib.Path(sys.argv[1]), results_factory.sized(int(sys.argv[2])))
"""
_COUNT = "import sys; import pyarrow.parquet as p; print(p.read_metadata(sys.argv[1]).num_rows)"


def run(size: Size, work: Path) -> Iterator[Row]:
    """The rows come from the factory that the tests of the report use."""
    results = work / "results" / "report"
    # In a child: what pyarrow takes here would count as memory of every later child.
    child(
        [sys.executable, "-c", _MAKE, results, str(size.report_rows)], work, {"PYTHONPATH": str(ROOT / "tests/support")}
    )
    child([sys.executable, "-c", _COUNT, results / "results.parquet"], work)
    shown = f"{int((work / 'child.log').read_text()):,} rows, {size.rounds}×"
    page, figures = in_turn(
        size.rounds,
        lambda: child([*IOSWEEP, "page", results], work),
        lambda: child([*IOSWEEP, "figures", results], work),
    )
    html = (results / "report.html").stat().st_size
    yield Row("report", "HTML", shown, seconds(median(page)), budget=f"≤ {SECONDS:.0f} s", met=median(page) <= SECONDS)
    yield Row("report", "HTML, size", shown, megabytes(html), budget=f"≤ {megabytes(BYTES)}", met=html <= BYTES)
    files = list((results / "figures").iterdir())
    yield Row("report", "SVG and PNG", f"{shown}, {len(files)} files", seconds(median(figures)))
