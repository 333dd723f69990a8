"""The figures of the suites' sources as rows of our table: outputs of their tools through our readers, and numbers that
they print without an output. What a source says of how they were measured is given by the tests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import results_factory as factory
from iosweep.analysis import data
from iosweep.analysis.summary import PointSummary, summarize
from iosweep.tools import parameters, tools
from results_factory import USED_BY

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
K, M, G = 2**10, 2**20, 2**30

#: The numbers that WEKA's page and the Lustre notes print.
PUBLISHED = json.loads((SAMPLES / "report/published.json").read_text())
WEKA_SINGLE, WEKA_CLUSTER, WEKA_TESTS = (PUBLISHED[f"weka_{name}"] for name in ("single", "cluster", "tests"))
#: The published points of Micron's five figures, and what follows from them: (phase, queue depth) -> figures.
#: Nine clients with eight jobs and one depth keep 72 x depth I/Os in flight, which are rate x mean latency.
MICRON: dict[tuple[str, int], dict[str, float]] = {
    ("rand_read", 16): {"ops_per_s": 1152 * 1.63 / 487e-6, "latency_mean_s": 487e-6 / 1.63},
    ("rand_read", 32): {"ops_per_s": 4.6e6, "latency_mean_s": 487e-6},
    ("rand_write", 4): {"ops_per_s": 626e3, "latency_mean_s": 288 / 626e3},
    ("rand_write", 8): {"ops_per_s": 576 / 830e-6, "latency_mean_s": 830e-6},
    ("rand_write", 16): {"ops_per_s": 696e3, "latency_mean_s": 1.6e-3},
    ("rand_mixed", 16): {"ops_per_s": 1.6e6, "read_latency_mean_s": 467e-6, "write_latency_mean_s": 3.6e-3},
    ("seq_read", 16): {"bandwidth_bytes_per_s": 62e9, "latency_mean_s": 2.3e-3},
    ("seq_write", 8): {"latency_mean_s": 1e-3, "bandwidth_bytes_per_s": 576 * 128 * K / 1e-3},
    ("seq_write", 16): {"latency_mean_s": 1.86e-3, "bandwidth_bytes_per_s": 1152 * 128 * K / 1.86e-3},
}
#: phase, MiB of a transfer -> MiB/s, operations per second
LUSTRE_IOR = {(phase, size): tuple(told) for phase, size, *told in PUBLISHED["lustre_ior"]}


def row(tool: str, phase: str, sweep: str, **values: Any) -> data.Row:
    """A row of the table; its point is its parameters. Figures that are not given are not there."""
    known = tools()[tool].phases[phase]
    columns = {"tool": tool, "phase": phase, "kind": known.kind, "metric": known.metric, "sweeps": sweep}
    # phases of a point have the same parameters, as far as these have an effect on them
    place = [(name, values.get(name)) for name in parameters() if name not in USED_BY]
    point = f"{tool}.{sweep}.{hashlib.sha256(repr(place).encode()).hexdigest()[:12]}"
    return factory.row(**({"ops_per_s": None, "point": point} | columns | values))


def output(tool: str, sample: str, sweep: str, **known: Any) -> list[data.Row]:
    """The rows of a tool's output of tests/samples, with what its source says beside it."""
    content = (SAMPLES / sample).read_bytes()
    found = []
    for parsed in tools()[tool].read(content).rows:
        values = {**parsed, **known}
        if values.get("phase") in tools()[tool].phases:
            del values["tool"], values["label"]
            found.append(row(values.pop("tool", tool), str(values.pop("phase")), sweep, **values))
    return found


def campaign(
    rows: Sequence[data.Row], suite: str | None = None, **axes: Sequence[Any]
) -> tuple[data.Campaign, list[PointSummary]]:
    """A campaign of these rows, with a sweep for each name in them, and its results."""
    sweeps: dict[str, dict[str, Any]] = {}
    for one in rows:
        own = sweeps.setdefault(one.sweeps, {"phases": {}, "points": {}, "tool": one.tool})
        own["phases"][one.phase] = own["points"][one.point] = None
    described = [
        {"name": name, "suite": suite, "axes": axes, "tool": own["tool"], "phases": list(own["phases"])}
        | {"points": list(own["points"]), "repetitions": {"min": 1, "max": 1, "until_ci95_half_width": None}}
        for name, own in sweeps.items()
    ]
    made = factory.loaded(rows, sweeps=described)
    return made, summarize(made.rows)


def weka(table: Mapping[str, Any], system: int, nodes: int) -> list[data.Row]:
    """The rows of one of WEKA's tables. system: 0 AWS, 1 SuperMicro."""
    found = []
    for title, of_systems in table.items():
        sweep, phase, threads, size = WEKA_TESTS[title]
        known: dict[str, Any] = {"nodes": nodes, "threads_per_node": threads}
        if size is None:
            known |= {"unique_directory": True, "file_size_bytes": 0, "files_per_thread": 18382}
        else:
            known |= {"transfer_size_bytes": size, "queue_depth": 1, "o_direct": True, "ioengine": "posixaio"}
            known |= {"file_size_bytes": (128 if "throughput" in title else 4) * G, "phase_time_s": 300.0}
        if "write" in phase:
            known |= {"write_mode": "overwrite", "data": "tool_default"}
        value = of_systems[system]
        if "latency" in title:
            known |= {"completion_latency_mean_s": value[0] * 1e-6, "completion_latency_p99_5_s": value[1] * 1e-6}
            known |= {"latency_mean_s": value[0] * 1e-6, "ops_per_s": 1e6 / value[0]}
        elif "throughput" in title:
            known |= {"bandwidth_bytes_per_s": value * G}
        else:
            known |= {"ops_per_s": float(value)}
        found.append(row("mdtest" if size is None else "fio", phase, f"weka.{sweep}", **known))
    return found


def small_write() -> list[data.Row]:
    """The row of the example in WEKA's small write latency test."""
    known: dict[str, Any] = {"nodes": 1, "threads_per_node": 1, "transfer_size_bytes": 4 * K, "queue_depth": 1}
    known |= {"write_mode": "new", "data": "tool_default", "o_direct": True, "ioengine": "posixaio"}
    clat = {"mean": 529.00, "p50": 529, "p99": 717, "p99_5": 766, "p99_9": 1020}  # us
    known |= {f"completion_latency_{name}_s": value * 1e-6 for name, value in clat.items()}
    known |= {"latency_mean_s": 531.15e-6, "ops_per_s": 1879.0, "bandwidth_bytes_per_s": 7518.0 * K}
    return [row("fio", "rand_write", "weka-small-write-latency.write-latency", **known)]


def lustre_ior() -> list[data.Row]:
    """The rows of the Lustre notes' summary of IOR: 64 ranks on two nodes."""
    known = {"nodes": 2, "threads_per_node": 32, "file_size_bytes": 16 * G, "file_per_process": True, "api": "POSIX"}
    return [
        row("ior", phase, "lustre-ior.threads-by-transfer", transfer_size_bytes=size * M, o_direct=True, **known,
            bandwidth_bytes_per_s=throughput * M, ops_per_s=rate,
            **({"write_mode": "overwrite", "data": "random"} if "write" in phase else {}))
        for (phase, size), (throughput, rate) in LUSTRE_IOR.items()
    ]  # fmt: skip


def micron() -> list[data.Row]:
    """The rows of Micron's figures."""
    known = {"nodes": 9, "threads_per_node": 8, "o_direct": True, "ioengine": "libaio"}
    found = []
    for (phase, depth), figures in MICRON.items():
        small = phase.startswith("rand")
        sweep = f"four-corners.{'small' if small else 'large'}-block"
        place: dict[str, Any] = {"transfer_size_bytes": 4 * K if small else 128 * K, "queue_depth": depth, **known}
        if phase == "rand_mixed":
            place["read_percent"] = 70
        if phase != "rand_read" and phase != "seq_read":
            place |= {"write_mode": "overwrite", "data": "tool_default"}
        found.append(row("fio", phase, sweep, **place, **figures))
    return found
