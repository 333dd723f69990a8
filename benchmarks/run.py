"""`make bench`: the budgets of benchmarks/README.md, measured on this machine, as one table.

Every figure that has a plain way of doing the same is measured next to it in the same run, taking turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

from rich.console import Console
from rich.table import Table

import fidelity
import harness
import honest
import measure
import merging
import planning
import reporting
import scale
import side_by_side
from measure import CannotRun, Row, Size

BENCHMARKS: dict[str, Callable[[Size, Path], Iterator[Row]]] = {
    "fidelity": fidelity.run,
    "idle": harness.idle,
    "real": harness.real,
    "plan": planning.run,
    "tables": merging.run,
    "report": reporting.run,
    "slurm": scale.two_nodes,
    "honest": honest.run,
    "side_by_side": side_by_side.run,
    "scale": scale.many_nodes,
}
#: These take long, and only run where they are named.
ON_REQUEST = ("honest", "scale", "side_by_side")
COLUMNS = ("benchmark", "what", "size", "measured", "beside it", "ratio", "budget", "met")


def main() -> int:
    """Exit code 1 where a budget is not met or a benchmark failed."""
    arguments = _arguments()
    size = measure.SIZES[arguments.size]
    rows: list[Row] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="iosweep-bench-", dir=arguments.directory) as directory:
        for name in arguments.name or [name for name in BENCHMARKS if name not in ON_REQUEST]:
            started = time.monotonic()
            work = Path(directory).resolve() / name
            work.mkdir()
            try:
                rows += BENCHMARKS[name](size, work)
            except CannotRun as error:
                rows.append(Row(name, "cannot run", "", str(error)))
            except RuntimeError as error:
                failed = True
                rows.append(Row(name, "failed", "", str(error).splitlines()[0]))
                print(error, file=sys.stderr)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    texts = [_texts(row, size.judged) for row in rows]
    if arguments.markdown:
        print(_markdown(texts))
    else:
        _print(texts)
    return int(failed or (size.judged and any(row.met is False for row in rows)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "name",
        nargs="*",
        help=f"benchmarks to run: {', '.join(BENCHMARKS)} (default: all but {' and '.join(ON_REQUEST)})",
    )
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--directory", type=Path, default=measure.ROOT, help="where to work; default: the checkout")
    sizes = parser.add_mutually_exclusive_group()
    for name, doc in (
        ("quick", "about two minutes, too small to judge"),
        ("full", "longer, and 100,000 results merged (about 35 minutes)"),
        ("tiny", argparse.SUPPRESS),
    ):
        sizes.add_argument(f"--{name}", dest="size", action="store_const", const=name, default="default", help=doc)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.name if name not in BENCHMARKS]:
        parser.error(f"no benchmark is called {unknown[0]} (there are {', '.join(BENCHMARKS)})")
    return arguments


def _texts(row: Row, judged: bool) -> Sequence[str]:
    met = "" if row.met is None else "too small to say" if not judged else "yes" if row.met else "NO"
    return (*astuple(row)[:-1], met)


def _print(rows: Iterable[Sequence[str]]) -> None:
    console = Console()
    if not console.is_terminal:  # a log has no width
        console = Console(width=160)
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row, style="bold red" if row[-1] == "NO" else None)
    console.print(table, highlight=False)


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
