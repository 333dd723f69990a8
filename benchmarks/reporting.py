"""From the tables to the report: `iosweep report --page`, and the figures as SVG and PNG."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import IOSWEEP, ROOT, Row, Size, child, in_turn, median, megabytes, seconds

SECONDS, BYTES = 5.0, 3e6
#: Of a campaign with so many times as many rows.
MANY, MANY_SECONDS, MANY_BYTES, MANY_MEMORY = 60, 30.0, 8e6, 1e9
#: Makes tables of about as many rows as asked for, at least 285.
_MAKE = """
import pathlib, sys
from results_factory import DATA_PHASES, METADATA_PHASES, make, sweep
powers = [2**i for i in range(8)]
threads = list(range(1, max(2, (int(sys.argv[2]) // 3 - 15) // 40) + 1))
sizes = [4096 * power for power in powers]
make(pathlib.Path(sys.argv[1]), [
    sweep("threads-by-transfer", DATA_PHASES, {"threads_per_node": threads, "transfer_size": sizes}),
    sweep("depth", ["rand_read"], {"queue_depth": powers, "threads_per_node": threads}),
    sweep("metadata", METADATA_PHASES, {"threads_per_node": [1, 2, 4, 8, 16]}),
])
"""
_COUNT = "import sys; import pyarrow.parquet as p; print(p.read_metadata(sys.argv[1]).num_rows)"


def run(size: Size, work: Path) -> Iterator[Row]:
    """The rows come from the factory that the tests of the report use."""
    results, shown = _made(work, "report", size.report_rows, size.rounds)
    page, figures = in_turn(
        size.rounds,
        lambda: child([*IOSWEEP, "report", "--page", results], work),
        lambda: child([*IOSWEEP, "report", "--figures", results], work),
    )
    html = (results / "report.html").stat().st_size
    yield Row("report", "HTML", shown, seconds(median(page)), budget=f"≤ {SECONDS:.0f} s", met=median(page) <= SECONDS)
    yield Row("report", "HTML, size", shown, megabytes(html), budget=f"≤ {megabytes(BYTES)}", met=html <= BYTES)
    files = list((results / "figures").iterdir())
    yield Row("report", "SVG and PNG", f"{shown}, {len(files)} files", seconds(median(figures)))
    if size.judged:
        yield from _many(size, work)


def _made(work: Path, name: str, rows: int, rounds: int) -> tuple[Path, str]:
    """The tables, and how many rows they have. In a child: what pyarrow takes would count as memory of later ones."""
    results = work / "results" / name
    child([sys.executable, "-c", _MAKE, results, str(rows)], work, {"PYTHONPATH": str(ROOT / "tests/support")})
    child([sys.executable, "-c", _COUNT, results / "results.parquet"], work)
    return results, f"{int((work / 'child.log').read_text()):,} rows, {rounds}×"


def _many(size: Size, work: Path) -> Iterator[Row]:
    results, shown = _made(work, "many", MANY * size.report_rows, size.rounds)
    (page,) = in_turn(size.rounds, lambda: child([*IOSWEEP, "report", "--page", results], work))
    for what, took, text, most in (
        ("HTML, many rows", median(page), seconds, MANY_SECONDS),
        ("HTML, many rows, CPU", median(page, "cpu_s"), seconds, None),
        ("HTML, many rows, memory", median(page, "max_rss_bytes"), megabytes, MANY_MEMORY),
        ("HTML, many rows, size", (results / "report.html").stat().st_size, megabytes, MANY_BYTES),
    ):
        budget = "" if most is None else f"≤ {text(most)}"
        yield Row("report", what, shown, text(took), budget=budget, met=None if most is None else took <= most)
