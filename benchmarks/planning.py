"""Plan and `snakemake -n`: how long a person waits for an answer before anything runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import campaigns
from measure import IOSWEEP, ROOT, Row, Size, Took, child, in_turn, median, megabytes, seconds

SECONDS, BYTES = 3.0, 300e6
_FOUR = ["seq_write", "seq_read", "rand_write", "rand_read"]


def run(size: Size, work: Path) -> Iterator[Row]:
    """One row per command; only the whole `snakemake -n` has a budget."""
    sweep = campaigns.fio_sweep(campaigns.grid(size.planned_points), repetitions=3)
    # as many points, in four allocations
    on_nodes = campaigns.grid(size.planned_points // 4) | {"nodes": [1, 4, 16, 64]}
    made = campaigns.planned(work, "large", [sweep])
    configs = {
        "smallest": campaigns.write(work, "small", [campaigns.fio_sweep({})]),
        "large": work / "large.yaml",
        "nodes": campaigns.write(work, "nodes", [campaigns.fio_sweep(on_nodes, repetitions=3)]),
        "four": campaigns.write(work, "four", [{**sweep, "phases": _FOUR}]),
    }

    def dry_run(name: str, profile: str = "local") -> Took:
        return child(
            [sys.executable, "-m", "snakemake", "-n", "--profile", ROOT / "profiles" / profile,
             "--snakefile", ROOT / "Snakefile", "--configfile", configs[name]], work,
        )  # fmt: skip

    smallest, large, four, nodes, plan = in_turn(
        size.rounds, lambda: dry_run("smallest"), lambda: dry_run("large"), lambda: dry_run("four"),
        lambda: dry_run("nodes", "slurm"), lambda: child([*IOSWEEP, "plan", "--csv", configs["large"]], work),
    )  # fmt: skip
    points = f"{len(made.points):,} points"
    base = median(smallest)

    def rows(what: str, took: list[Took], shown: str, judged: bool = True) -> Iterator[Row]:
        wall, memory = median(took), max(t.max_rss_bytes for t in took)
        yield Row("plan", what, f"{shown}, {size.rounds}×", f"{seconds(wall)}, CPU {seconds(median(took, 'cpu_s'))}",
                  f"1 point {seconds(base)}", f"{wall / base:.1f}", f"≤ {SECONDS:.0f} s" if judged else "",
                  wall <= SECONDS if judged else None)  # fmt: skip
        yield Row("plan", f"{what}, memory", shown, megabytes(memory), budget=f"≤ {megabytes(BYTES)}" if judged else "",
                  met=memory <= BYTES if judged else None)  # fmt: skip

    yield from rows("snakemake -n", large, points)
    yield from rows("snakemake -n, 4 phases", four, points)
    yield from rows("snakemake -n, profiles/slurm", nodes, f"{points}, 4 allocations")
    yield from rows("iosweep plan alone", plan, points, judged=False)
    if shutil.which("fio"):
        campaigns.fill(
            campaigns.planned(work, "large", [{**sweep, "repetitions": 1}]), work / "results" / "large", work
        )
        (full,) = in_turn(size.rounds, lambda: dry_run("large"))
        yield from rows("snakemake -n, full store", full, f"{points} measured once of 3", judged=False)
