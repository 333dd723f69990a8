"""Plan and `snakemake -n`: how long a person waits for an answer before anything runs."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import campaigns
from measure import IOSWEEP, ROOT, Row, Size, Took, child, in_turn, median, megabytes, seconds

#: `snakemake -n` beside that of one point; of ten times as many points in seconds, alone and with Snakemake.
RATIO, BYTES = 2.0, 300e6
MANY, PLAN_S, DRY_RUN_S = 10, 5.0, 15.0
_FOUR = ["seq_write", "seq_read", "rand_write", "rand_read"]


def run(size: Size, work: Path) -> Iterator[Row]:
    """One row per command, each beside `snakemake -n` of one point in the same run."""
    sweep = campaigns.fio_sweep(campaigns.grid(size.planned_points), repetitions=3)
    # as many points, in four allocations
    on_nodes = campaigns.grid(size.planned_points // 4) | {"nodes": [1, 4, 16, 64]}
    made = campaigns.planned(work, "large", [sweep])
    configs = {
        "smallest": campaigns.write(work, "small", [campaigns.fio_sweep({})]),
        "large": work / "large.yaml",
        "nodes": campaigns.write(work, "nodes", [campaigns.fio_sweep(on_nodes, repetitions=3)]),
        "four": campaigns.write(work, "four", [{**sweep, "phases": _FOUR}]),
        "many": campaigns.write(
            work, "many", [campaigns.fio_sweep(campaigns.grid(MANY * size.planned_points), repetitions=3)]
        ),
    }

    def dry_run(name: str, profile: str = "local") -> Took:
        return child(
            [sys.executable, "-m", "snakemake", "-n", "--profile", ROOT / "profiles" / profile,
             "--snakefile", ROOT / "Snakefile", "--configfile", configs[name]], work,
        )  # fmt: skip

    def plan_of(name: str, *options: str) -> Took:
        return child([*IOSWEEP, "plan", *options, configs[name]], work)

    smallest, large, four, nodes, plan, many, plan_many = in_turn(
        size.rounds, lambda: dry_run("smallest"), lambda: dry_run("large"), lambda: dry_run("four"),
        lambda: dry_run("nodes", "slurm"), lambda: plan_of("large", "--json"), lambda: dry_run("many"),
        lambda: plan_of("many"),
    )  # fmt: skip
    base = median(smallest)
    points, more = f"{len(made.points):,} points", f"{MANY * len(made.points):,} points"

    def rows(
        what: str, took: list[Took], shown: str, budget: tuple[str, float] | None = None, judged: bool = False
    ) -> Iterator[Row]:
        """budget: in words, and in seconds; None: it has none. judged: its memory has one."""
        wall, memory = median(took), max(t.max_rss_bytes for t in took)
        (said, most_s), cpu = budget or ("", math.inf), median(took, "cpu_s")
        yield Row("plan", what, f"{shown}, {size.rounds}×", f"{seconds(wall)}, CPU {seconds(cpu)}",
                  f"1 point {seconds(base)}", f"{wall / base:.1f}", said,
                  wall <= most_s if budget else None)  # fmt: skip
        yield Row("plan", f"{what}, memory", shown, megabytes(memory), budget=f"≤ {megabytes(BYTES)}" if judged else "",
                  met=memory <= BYTES if judged else None)  # fmt: skip

    twice = f"≤ {RATIO:.0f} × 1 point", RATIO * base
    yield from rows("snakemake -n", large, points, twice, judged=True)
    yield from rows("snakemake -n, 4 phases", four, points, twice, judged=True)
    yield from rows("snakemake -n, profiles/slurm", nodes, f"{points}, 4 allocations", twice, judged=True)
    yield from rows("iosweep plan --json alone", plan, points)
    yield from rows("snakemake -n, ten times as many", many, more, (f"≤ {DRY_RUN_S:.0f} s", DRY_RUN_S))
    yield from rows("iosweep plan, ten times as many", plan_many, more, (f"≤ {PLAN_S:.0f} s", PLAN_S))
    if shutil.which("fio"):
        campaigns.fill(
            campaigns.planned(work, "large", [{**sweep, "repetitions": 1}]), work / "results" / "large", work
        )
        (full,) = in_turn(size.rounds, lambda: dry_run("large"))
        yield from rows("snakemake -n, full store", full, f"{points} measured once of 3")
