"""A tool whose ranks sleep: what a point of it takes beyond its time is what launcher and harness take.

`nap` is bounded by time, as most phases are, and is judged by the same checks as IOR's. `walk` is bounded by a count,
as mdtest's phases are: how long it takes is not known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iosweep.tools import Evidence, FileSet, Option, Parsed, Phase, Step, Streams

from ..noop import Noop

#: Files that a rank of `walk` passes in a second.
WALKED_PER_S = 1000


class Nap(Noop):
    """`sleep`, as many ranks of it as are asked for."""

    name = "nap"
    program = "sleep"
    version_argv = ("sleep", "--version")
    mpi = True
    options: Mapping[str, Option] = {
        **Noop.options,
        "threads_per_node": Option("threads_per_node", "count", 1, "Ranks that sleep."),
        "files_per_thread": Option("files_per_thread", "count", 100, "Files to walk.", kinds=frozenset({"metadata"})),
    }
    phases: Mapping[str, Phase] = {
        "nap": Phase("nap", "data", True, False, "ops_per_s", "nothing"),
        "walk": Phase("walk", "metadata", False, False, "ops_per_s", "nothing"),
    }

    def file_set(self, step: Step, fresh: str) -> FileSet:
        return replace(super().file_set(step, fresh), of_all_nodes=True, prepare_tasks=step.tasks)

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        return ["sleep", f"{_seconds(step):g}"]

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        ran_s, ops = _seconds(step), self.work(step) or 1000
        moved = 0 if self.work(step) else 4096 * ops
        return Parsed(
            "nap",
            {"ops": ops, "ops_per_s": ops / ran_s, "runtime_s": ran_s, "bandwidth_bytes_per_s": moved / ran_s},
            Evidence(errors=[], silent_directions=[], mpi=True, tasks=step.tasks, nodes=step.nodes,
                     transferred_bytes=moved, rate_times_runtime_bytes=moved),
        )  # fmt: skip

    def work(self, step: Step) -> int:
        return step.tasks * step.number("files_per_thread") if step.name == "walk" else 0


def _seconds(step: Step) -> float:
    return step.time_s if step.time_s is not None else step.number("files_per_thread") / WALKED_PER_S


TOOL = Nap()
