"""What iosweep itself takes per point: for points that do nothing, and for real ones of one second.

Both run `iosweep measure` as Snakemake starts it, from the interpreter's start to the manifest, next to a loop in bash
that starts the same programs and keeps one file per point.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import campaigns
from measure import IOSWEEP, CannotRun, Row, Size, Took, child, in_turn, median, megabytes, seconds

CPU_S, WALL_S = 0.004, 0.012
RATIO = 1.03
#: What an interpreter imports before it measures.
_START = [sys.executable, "-c", "import iosweep.commands.measure, iosweep.run.allocation, iosweep.target.agent"]
_ALLOCATION = "1-node"


def idle(size: Size, work: Path) -> Iterator[Row]:
    """Points whose command is `true`."""
    sweep = {"tool": "noop", "phases": ["idle"], "axes": {"number": list(range(1, size.idle_points + 1))},
             "phase_time": "1s", "repetitions": 1}  # fmt: skip
    plan_file = campaigns.written(campaigns.planned(work, "idle", [sweep], keep="none"), work, "idle")
    results = plan_file.parent.parent
    loop = _loop(work, "idle", [[shutil.which("true") or "true"]] * size.idle_points)
    plain, ours = in_turn(size.rounds, lambda: child(loop, work), lambda: _measure(plan_file, results))
    shown = f"{size.idle_points:,} points, {size.rounds}×"
    for name, figure, budget in (("CPU", "cpu_s", CPU_S), ("wall", "wall_s", WALL_S)):
        each, beside = (median(took, figure) / size.idle_points for took in (ours, plain))
        yield Row(
            "idle", f"{name} per point that does nothing", shown, seconds(each), f"bash {seconds(beside)}",
            f"{each / beside:.1f}", f"≤ {seconds(budget)}", each <= budget,
        )  # fmt: skip
    largest = max(took.max_rss_bytes for took in ours)
    yield Row("idle", "memory of the runner", shown, megabytes(largest))
    yield _disk("idle", results)


def real(size: Size, work: Path) -> Iterator[Row]:
    """Points of fio, one second each, over files that both find prepared."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH")
    depths = [1 << n for n in range(size.fio_points)]
    made = campaigns.planned(work, "real", [campaigns.fio_sweep({"queue_depth": depths}, transfer_size="4k")])
    results = work / "results" / "real"
    plan_file = campaigns.written(made, work, "real")
    # Another point of the same files makes them, and says to whom the directory on the target belongs.
    first = campaigns.fio_sweep({"queue_depth": [3]}, phase_time="100ms", transfer_size="4k")
    campaigns.measure(campaigns.planned(work, "real", [first]), results, campaigns.Silent())
    loop = _loop(work, "real", [argv for _, argv in campaigns.by_hand(made)])
    again: list[int] = []

    def through() -> Took:
        took = _measure(plan_file, results)
        again.append(len(list(results.glob("points/*/r001-2.json"))))
        return took

    plain, ours = in_turn(size.rounds, lambda: child(loop, work), through)
    # Where others used the CPU, points are measured twice, which is right, but no comparison.
    whole = [took for took, tried in zip(ours, again, strict=True) if not tried]
    mine, beside, start = median(whole or ours), median(plain), median([child(_START, work) for _ in ours])
    yield Row("real", "start of Python with all imports", f"{len(ours)}×", seconds(start))
    ratio = (mine - start) / beside
    yield Row(
        "real", "wall of 1 s points of fio, data ready, beyond the start of Python",
        f"{size.fio_points} points, " + (f"{len(whole)}×" if whole else "some twice: a busy machine"),
        seconds(mine - start), f"bash {seconds(beside)}", f"{ratio:.3f}", f"≤ {RATIO} × bash", ratio <= RATIO,
    )  # fmt: skip
    yield _disk("real", results)


def _measure(plan_file: Path, results: Path) -> Took:
    """Measure a plan whose points have no result yet."""
    shutil.rmtree(results / "points", ignore_errors=True)
    command = [*IOSWEEP, "measure", plan_file, "--allocation", _ALLOCATION]
    command += ["--manifest", results / "m.jsonl", "--log", results / "m.log"]
    return child(command, plan_file.parent, campaigns.WITH_OURS)


def _loop(work: Path, name: str, commands: Sequence[Sequence[str]]) -> list[str | Path]:
    """A script that runs commands one after the other, each into a file of its own."""
    folder = work / f"{name}-loop"
    folder.mkdir()
    script = work / f"{name}.sh"
    if len({tuple(command) for command in commands}) == 1:
        each = f"for i in {{1..{len(commands)}}}; do {shlex.join(commands[0])} >{shlex.quote(str(folder))}/$i; done"
    else:
        each = "\n".join(f"{shlex.join(c)} >{shlex.quote(str(folder / str(i)))}" for i, c in enumerate(commands))
    script.write_text(f"set -e\n{each}\n", encoding="utf-8")
    return ["bash", script]


def _disk(benchmark: str, results: Path) -> Row:
    """Files and bytes of the points of the last round, each measured once."""
    files = [file.stat() for file in results.glob("points/*/*")]
    count = len(list(results.glob("points/*/*.json")))
    size, blocks = sum(f.st_size for f in files) / count, sum(f.st_blocks * 512 for f in files) / count
    return Row(
        benchmark, "on disk per repetition", f"{count:,} repetitions",
        f"{len(files) / count:.0f} files, {size / 1000:.1f} kB, {blocks / 1000:.1f} kB in blocks", "bash 1 file",
        budget="≤ 2 files", met=len(files) <= 2 * count,
    )  # fmt: skip
