"""A tool whose ranks sleep: what a point of it takes beyond its time is what launcher and harness take.

It is bounded by time, as most phases are, and is judged by the same checks as IOR's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iosweep.tools import Evidence, FileSet, Option, Parsed, Phase, Step, Streams

from ..noop import Noop

#: Operations of a phase, and bytes of each.
OPS, BYTES = 1000, 4096


class Nap(Noop):
    """`sleep`, as many ranks of it as are asked for."""

    name = "nap"
    program = "sleep"
    version_argv = ("sleep", "--version")
    mpi = True
    options: Mapping[str, Option] = {
        **Noop.options,
        "threads_per_node": Option("threads_per_node", "count", 1, "Ranks that sleep."),
    }
    phases: Mapping[str, Phase] = {"nap": Phase("nap", "data", True, False, "ops_per_s", "nothing")}

    def file_set(self, step: Step, fresh: str) -> FileSet:
        return replace(super().file_set(step, fresh), of_all_nodes=True, prepare_tasks=step.tasks)

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        return ["sleep", f"{step.time_s or 0:g}"]

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        ran_s, moved = step.time_s or 1.0, BYTES * OPS
        return Parsed(
            "nap",
            {"ops": OPS, "ops_per_s": OPS / ran_s, "runtime_s": ran_s, "bandwidth_bytes_per_s": moved / ran_s},
            Evidence(errors=[], silent_directions=[], tasks=step.tasks, nodes=step.nodes,
                     transferred_bytes=moved, rate_times_runtime_bytes=moved),
        )  # fmt: skip


TOOL = Nap()
