"""What a change costs: another checkout (with its own .venv) and this one in turn, as ratios of CPU time.

    python benchmarks/compare.py /path/to/the/one/before [--pairs 20]

idle: CPU per point that does nothing, as in `make bench ARGS=idle`. removal: CPU of the agent that removes a tree of
20,000 files. A pair is one run of each, in an order that is drawn; the ratio is that of this checkout to the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from measure import ROOT, Row, child, in_turn, interval, seconds

POINTS, DIRECTORIES, FILES = 300, 20, 1000

#: Run by the interpreter of a checkout, with its modules.
_PLAN = """
import pathlib, sys
import campaigns
work = pathlib.Path(sys.argv[1])
sweep = {"tool": "noop", "phases": ["idle"], "axes": {"number": list(range(1, int(sys.argv[2]) + 1))}}
sweep |= {"phase_time": "1s", "repetitions": 1}
print(campaigns.written(campaigns.planned(work, "idle", [sweep], keep="none"), work, "idle"))
"""
_REMOVE = """
import json, pathlib, sys, time
import campaigns
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.store.store import Store

work, directories, files = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
made = campaigns.planned(work, "removal", [campaigns.fio_sweep({"queue_depth": [1]})])
with Agent(300) as agent:
    ours = CampaignDirectory(made, Store(work / "results" / "removal"), agent)
    ours.examine(agent.call(identify.identify, made.targets[""].directory))
    ours.claim()
    top = pathlib.Path(ours.prepare(["fresh"], 0, 0, True)[0])
    for d in range(directories):
        (top / str(d)).mkdir()
        for n in range(files):
            (top / str(d) / str(n)).touch()
    clock = (~agent._process.pid << 3) | 2  # the CPU time of that process (clock_getcpuclockid)
    cpu, wall = time.clock_gettime(clock), time.monotonic()
    removed = ours.remove("fresh")
    print(json.dumps([time.clock_gettime(clock) - cpu, time.monotonic() - wall]))
    assert removed["files"] == directories * files and not removed["wrong"], removed
    ours.tidy_up()
"""


class Checkout:
    """A checkout whose programs work in a directory of their own."""

    def __init__(self, top: Path, work: Path):
        self._top, self._work = top, work
        self._python = top / ".venv" / "bin" / "python"
        work.mkdir()

    def idle(self) -> float:
        """CPU seconds per repetition of a point that does nothing."""
        plan_file = Path(self._run(_PLAN, POINTS).strip())
        results = plan_file.parent.parent
        command = [self._python, "-m", "iosweep", "measure", plan_file, "--allocation", "1-node"]
        command += ["--manifest", results / "m.jsonl", "--log", results / "m.log"]
        took = child(command, self._work, {"PYTHONPATH": str(self._top / "benchmarks" / "site")})
        measured = len(list(results.glob("points/*/*.json")))  # some twice, where others use the CPU
        assert measured >= POINTS
        shutil.rmtree(results)
        return took.cpu_s / measured

    def removal(self) -> float:
        """CPU seconds of the agent for the removal of all files."""
        cpu_s: float = json.loads(self._run(_REMOVE, DIRECTORIES, FILES))[0]
        return cpu_s

    def _run(self, program: str, *arguments: int) -> str:
        return subprocess.run(
            [self._python, "-c", program, self._work, *map(str, arguments)], check=True, text=True,
            stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(self._top / "benchmarks")},
        ).stdout  # fmt: skip


def compared(name: str, what: str, pairs: int, before: Callable[[], float], after: Callable[[], float]) -> Row:
    """`after` beside `before`: median and minimum of each, and the ratio over all pairs with its 95 % interval."""
    old, new = in_turn(pairs, before, after)
    middle, low, high = interval([b / a for a, b in zip(old, new, strict=True)])
    ratios = f"medians {statistics.median(new) / statistics.median(old):.2f}, minima {min(new) / min(old):.2f}"
    ratios += f", pairs {middle:.2f} ({low:.2f} to {high:.2f})"
    return Row(name, what, f"{pairs} pairs", seconds(statistics.median(new)), seconds(statistics.median(old)), ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--directory", type=Path, default=ROOT, help="where files are made; default: this checkout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iosweep-compare-", dir=arguments.directory) as work:
        before = Checkout(arguments.before.resolve(), Path(work) / "before")
        after = Checkout(ROOT, Path(work) / "after")
        for name, what in (
            ("idle", f"CPU per point that does nothing, {POINTS} points"),
            ("removal", f"CPU of the agent, {DIRECTORIES * FILES:,} files in {DIRECTORIES} directories"),
        ):
            row = compared(name, what, arguments.pairs, getattr(before, name), getattr(after, name))
            print(f"| {name} | {what} | {row.size} | {row.measured} | {row.beside} | {row.ratio} |", flush=True)


if __name__ == "__main__":
    main()
