"""`iosweep parse`: how fast logs of IOR and mdtest are read that are full of messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from measure import ROOT, Row, Size, child, in_turn, median

BYTES_PER_S = 20e6
#: tool -> a sample, and the line of it that the messages stand before
_SAMPLES = {
    "ior": ("4.0.0/verbose_v2_stdout.out", "Commencing read"),
    "mdtest": ("4.0.0/md_both_i1.out", "   File creation"),
}
_READ = """
import pathlib, sys
from iosweep.tools import tools
reading = tools()[sys.argv[1]].read(pathlib.Path(sys.argv[2]).read_bytes())
assert reading.rows
"""


def run(size: Size, work: Path) -> Iterator[Row]:
    """Rate of the CPU time that a log takes beyond that of its run alone, which is mostly Python's start."""
    n = Random(1).randrange
    kinds: dict[str, Callable[[], str]] = {
        "messages of no interest": lambda: f"[{n(9999)}] rank {n(9999)} went on at {n(10**6)} s on node n{n(9999)}",
        "warnings": lambda: f"WARNING: Task {n(9999)}, partial read(), {n(10**8)} of 33554432 bytes at offset 0",
    }
    for tool, (sample, before) in _SAMPLES.items():
        text = (ROOT / "tests/samples" / tool / sample).read_text(encoding="utf-8")
        alone, log = work / f"{tool}-alone", work / f"{tool}-log"
        alone.write_text(text, encoding="utf-8")
        for kind, line in kinds.items():
            _write(log, text, before, line, size.log_bytes)
            little, much = in_turn(
                size.rounds,
                lambda tool=tool, file=alone: child([sys.executable, "-c", _READ, tool, file], work),  # type: ignore[misc]
                lambda tool=tool, file=log: child([sys.executable, "-c", _READ, tool, file], work),  # type: ignore[misc]
            )
            total = log.stat().st_size
            rate = total / max(median(much, "cpu_s") - median(little, "cpu_s"), 1e-3)
            yield Row(
                "parse", f"{tool}, {kind}", f"{total / 1e6:.1f} MB, {size.rounds}×", f"{rate / 1e6:.0f} MB/s",
                budget=f"≥ {BYTES_PER_S / 1e6:.0f} MB/s", met=rate >= BYTES_PER_S,
            )  # fmt: skip
            log.unlink()


def _write(log: Path, text: str, before: str, line: Callable[[], str], size: int) -> None:
    """The run with lines before one of its own."""
    first, _, rest = text.partition(before)
    with log.open("w", encoding="utf-8") as file:
        file.write(first)
        while file.tell() < size:
            file.write("".join(f"{line()}\n" for _ in range(1000)))
        file.write(before + rest)
