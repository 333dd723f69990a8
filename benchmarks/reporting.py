"""From the tables to the report: `iosweep report --page`, and the figures as SVG and PNG."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import IOSWEEP, ROOT, Row, Size, child, in_turn, median, megabytes, seconds

SECONDS, BYTES = 5.0, 3e6
#: Of a campaign with so many times as many rows, beside a table that pandas writes.
MANY, MANY_SECONDS, MANY_BYTES, MANY_MEMORY = 60, 30.0, 8e6, 1e9
_MAKE = """
import sys, pathlib, results_factory
results_factory.make(pathlib.Path(sys.argv[1]), results_factory.sized(int(sys.argv[2])))
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
    plain_script, table = ROOT / "benchmarks/plain_report.py", work / "plain.html"
    page, plain = in_turn(
        size.rounds,
        lambda: child([*IOSWEEP, "report", "--page", results], work),
        lambda: child([sys.executable, plain_script, results / "results.parquet", table], work),
    )
    wall, html, memory = median(page), (results / "report.html").stat().st_size, median(page, "max_rss_bytes")
    for what, own, beside, text, most in (
        ("HTML, many rows", wall, median(plain), seconds, MANY_SECONDS),
        ("HTML, many rows, CPU", median(page, "cpu_s"), median(plain, "cpu_s"), seconds, None),
        ("HTML, many rows, memory", memory, median(plain, "max_rss_bytes"), megabytes, MANY_MEMORY),
        ("HTML, many rows, size", html, table.stat().st_size, megabytes, MANY_BYTES),
    ):
        yield Row(
            "report", what, shown, text(own), f"table by pandas {text(beside)}", f"{own / beside:.2f}",
            "" if most is None else f"≤ {text(most)}", None if most is None else own <= most,
        )  # fmt: skip
