"""A tool that does nothing: its command is `true`. What a point of it takes is what the harness takes.

Its phase reads a data set and is judged by the same checks as a timed phase of fio, all of which it passes.
"""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import Evidence, FileSet, Option, Parsed, Phase, Step, Streams, Tool
from iosweep.tools.reading import Reading

_FIGURES = {
    "ops": 1000,
    "ops_per_s": 1000.0,
    "runtime_s": 1.0,
    "bandwidth_bytes_per_s": 4096.0 * 1000,
    "latency_mean_s": 0.001,
}
_EVIDENCE = Evidence(
    errors=[],
    silent_directions=[],
    worker_seconds=1.0,
    depth_percent={"1": 100.0},
    rate_times_runtime_bytes=4096 * 1000,
    transferred_bytes=4096 * 1000,
)


class Noop(Tool):
    """`true`, once per point."""

    name = "noop"
    help = "nothing"
    program = "true"
    get_it = "any system"
    version_argv = ("true", "--version")
    options: Mapping[str, Option] = {
        o.name: o
        for o in (
            Option("threads_per_node", "count", 1, "One."),
            Option("transfer_size", "size", 4096, "None are transferred.", "bytes"),
            Option("o_direct", "flag", True, "Nothing is cached."),
            Option("number", "count", 1, "Tells points apart."),
        )
    }
    phases: Mapping[str, Phase] = {"idle": Phase("idle", "data", True, False, "ops_per_s", "nothing")}

    def version(self, printed: str) -> str:
        return self.name

    def file_set(self, step: Step, fresh: str) -> FileSet:
        return FileSet("sets/noop", "read", ("0",), 4096, prepare=_prepare)

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        return ["true"]

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        return Parsed(self.name, _FIGURES, _EVIDENCE)

    def read(self, data: bytes) -> Reading:
        return Reading([_FIGURES], [])


def _prepare(directory: str) -> list[str]:
    return ["dd", "if=/dev/urandom", f"of={directory}/0", "bs=4096", "count=1"]


TOOL = Noop()
