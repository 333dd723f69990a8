"""What every benchmark uses: rows of the table, child processes and what they took, runs in turn, an interval."""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
IOSWEEP = (sys.executable, "-m", "iosweep")
T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How much each benchmark does."""

    name: str = "default"
    fidelity_rounds: int = 50
    idle_points: int = 1000
    fio_points: int = 8
    rounds: int = 3  # how often what takes turns is repeated
    planned_points: int = 10_000
    merged_results: int = 10_000
    merged_in_full: int = 0  # 0: left out
    report_rows: int = 1000
    slurm_rounds: int = 4
    slurm_repetitions: int = 10
    campaigns: int = 10  # side by side, for each loss
    honest: tuple[int, int] = (2, 3)  # repetitions of short phases and of long ones
    judged: bool = True  # False: too small to say whether a budget is met


DEFAULT = Size()
QUICK = Size(
    name="quick",
    fidelity_rounds=2,
    idle_points=100,
    fio_points=2,
    rounds=1,
    planned_points=1000,
    merged_results=1000,
    report_rows=200,
    slurm_rounds=2,
    slurm_repetitions=3,
    campaigns=2,
    honest=(1, 0),
    judged=False,
)
SIZES = {
    size.name: size
    for size in (
        DEFAULT,
        replace(DEFAULT, name="full", fidelity_rounds=100, rounds=5, merged_in_full=100_000, slurm_rounds=10),
        QUICK,
        replace(
            QUICK,
            name="tiny",
            idle_points=3,
            fio_points=1,
            planned_points=10,
            merged_results=10,
            merged_in_full=20,
            report_rows=50,
            slurm_rounds=1,
            slurm_repetitions=2,
            honest=(0, 0),
        ),
    )
}


@dataclass(frozen=True)
class Row:
    """A line of the table. `beside`: the plain way in the same run; `ratio`: ours to it; `met`: None: no budget."""

    benchmark: str
    what: str
    size: str
    measured: str
    beside: str = ""
    ratio: str = ""
    budget: str = ""
    met: bool | None = None


class CannotRun(Exception):
    """A benchmark cannot run on this machine; the message says why."""


@dataclass(frozen=True)
class Took:
    """What a child process took, its own children included."""

    wall_s: float
    cpu_s: float
    max_rss_bytes: int  # of its largest process


def child(argv: Sequence[str | Path], cwd: Path, environment: Mapping[str, str] | None = None) -> Took:
    """Run a command to its end; raises RuntimeError with what it said where it fails."""
    words = [str(word) for word in argv]
    # Where Python must not keep bytecode, every start compiles libraries for a second or two: not what is measured.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (cwd / "child.log").open("wb+") as log:
        started = perf_counter()
        process = subprocess.Popen(
            words, cwd=cwd, env=inherited | dict(environment or {}), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        # Not wait(): of this one child, not of all before it.
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            said = log.read().decode("utf-8", "replace")[-3000:]
            raise RuntimeError(f"exit code {process.returncode} of {' '.join(words)}\n{said}")
    return Took(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def in_turn(rounds: int, *runs: Callable[[], T], seed: int = 1) -> list[list[T]]:
    """Run each of `runs` once per round, in an order drawn for every round; results by run.

    So a drift of the machine, or a neighbour's load, falls on all of them alike.
    """
    draw = random.Random(seed)
    results: list[list[T]] = [[] for _ in runs]
    for _ in range(rounds):
        for index in draw.sample(range(len(runs)), len(runs)):
            results[index].append(runs[index]())
    return results


def median(took: Iterable[Took], figure: str = "wall_s") -> float:
    """Median of a figure of several runs."""
    return statistics.median(getattr(one, figure) for one in took)


def mean(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % confidence interval (Student's t), which one value leaves open."""
    middle = statistics.fmean(values)
    if len(values) < 2:
        return middle, -math.inf, math.inf
    # In a child: Linux counts the memory of a process that starts another as the other's, and SciPy takes 60 MB.
    code = f"from scipy import stats; print(stats.t.ppf(0.975, {len(values) - 1}))"
    quantile = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return middle, middle - half, middle + half


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of ratios and its 95 % confidence interval (that of `mean` on the logarithms)."""
    middle, low, high = map(math.exp, mean([math.log(ratio) for ratio in ratios]))
    return middle, low, high


def seconds(value: float) -> str:
    """A time for the table."""
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def megabytes(value: float) -> str:
    """A size for the table."""
    return f"{value / 1e6:.1f} MB" if value < 1e7 else f"{value / 1e6:.0f} MB"
