"""A stand-in for a device whose peak is known: engine.py, with a set latency and width, and noise of a known size.

Its phase reads a data set of a few bytes, and is judged by the same checks as a timed phase of fio.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from iosweep.tools import Evidence, Option, Parsed, Phase, Step, Streams, axes
from iosweep.tools.reading import Reading

from ..noop import Noop

_ENGINE = str(Path(__file__).with_name("engine.py"))
_BYTES = 4096


class ClosedLoop(Noop):
    """One process per run."""

    name = "closed_loop"
    help = "a device with a set latency and width"
    program = "python3"
    version_argv = ("python3", "--version")
    latency = True
    options: Mapping[str, Option] = {
        **Noop.options,
        "queue_depth": replace(axes.QUEUE_DEPTH, help="I/Os in flight."),
        "width": Option("width", "count", 8, "I/Os that the device works on at a time."),
        "latency": Option("latency", "count", 2000, "Time that each takes.", "µs"),
        "noise": Option("noise", "count", 5, "Deviation of the latency's logarithm from run to run.", "%", minimum=0),
    }
    phases: Mapping[str, Phase] = {"loop": Phase("loop", "data", True, False, "ops_per_s", "I/Os in a closed loop")}

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        numbers = [step.number(name) for name in ("queue_depth", "width", "latency", "noise")]
        return ["python3", "-I", "-S", _ENGINE, *map(str, [*numbers, seed]), f"{step.time_s:g}"]

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        try:
            said: dict[str, float] = json.loads(streams["stdout"])
        except (KeyError, ValueError):
            return Parsed(problems=["no output"])
        moved = int(said["ops"]) * _BYTES
        return Parsed(
            self.name,
            {**said, "bandwidth_bytes_per_s": said["ops_per_s"] * _BYTES},
            Evidence(errors=[], silent_directions=[], worker_seconds=said["runtime_s"], timed_s=said["runtime_s"],
                     depth_percent={str(step.number("queue_depth")): 100.0}, transferred_bytes=moved,
                     rate_times_runtime_bytes=moved),
        )  # fmt: skip

    def read(self, data: bytes) -> Reading:
        return Reading(self.name, [], [])


TOOL = ClosedLoop()
