"""A run in which all is well, and what is changed of it, for tests of checks."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from iosweep.config.sweeps import Repetitions
from iosweep.own_rate import OwnRate
from iosweep.plan.model import Point
from iosweep.results.checks.finding import Seen
from iosweep.series import Series
from iosweep.tools import Echo, Evidence, Parsed, tools
from records import ON_TARGET, phase_run

PHASES = tools()["fio"].phases
GIB = 1 << 30

#: A run of 10 s with 2 workers that wrote 4 KiB blocks at 1,000 a second, and all is well.
FIGURES: dict[str, Any] = {"ops": 10_000, "ops_per_s": 1000.0, "runtime_s": 10.0, "bandwidth_bytes_per_s": 4_096_000.0,
                           "bytes_written": 40_960_000, "latency_mean_s": 15.8e-3, "latency_max_s": 50e-3,
                           "completion_latency_mean_s": 15.7e-3}  # fmt: skip
EVIDENCE: dict[str, Any] = {
    "errors": [], "silent_directions": [], "unasked_directions": [], "messages": [],
    "worker_seconds": 20.0, "depth_percent": {"1": 1.0, "2": 2.0, "4": 7.0, "8": 90.0, "16": 0.0, ">=64": 0.0},
    "rate_times_runtime_bytes": 40_960_000.0, "transferred_bytes": 40_960_000, "timed_s": 10.0,
    "echo": Echo((), frozenset({"o_direct", "fsync"}), 12),
}  # fmt: skip
#: What was seen of a node whose CPU 2 WEKA keeps.
CPUS: dict[str, Any] = {
    "hosts": ["n1"], "usable": "0-1", "reserved": "2", "by": ["weka", "/proc/mounts"], "problems": [], "expected": 2,
    "seen": 2, "looks": 6, "gap_s": 0.1, "cost_s": 0.001, "wall_s": 10.4,
    "processes": [{"role": "worker", "count": 1, "threads": 1, "masks": [c], "thread_masks": [c], "early": "0-1",
                   "ran_on": c} for c in "01"],
}  # fmt: skip
#: What was read back of random data.
SAMPLE: dict[str, Any] = {"files": 4, "blocks": 32, "bytes": 1 << 19, "compressed_bytes": (1 << 19) + 100}
RUN: dict[str, Any] = {
    "exit_code": 0, "timed_out": False, "wall_s": 10.4, "stderr": "", "load": {"other": 0.01, "steal": 0.0},
    "files": {"role": "write", "files": 2, "file_size_bytes": 4 * GIB, "set_bytes": 8 * GIB, "wrong": [],
              "holes": "none", "changed": [], "sample": SAMPLE},
    "moved": {"n1": {"tool_read_bytes": 0, "tool_written_bytes": 40_960_000, "device": "sdb", "device_read_bytes": 9,
                     "device_written_bytes": 50_000_000, "received_bytes": 1, "sent_bytes": 2, "window_s": 10.4}},
    "exclusive": {"enforced": True, "evidence": "no other campaign on this machine (lock /tmp/x)"},
    "cpus": {"pinning": "enforce", "placement": "spread", "width": "cpu", "planned": {"0": 1, "1": 1}, "nodes": [CPUS]},
}  # fmt: skip
OPTIONS: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 8, "file_size": 4 * GIB, "files_per_thread": 1,
    "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "random", "ioengine": "libaio",
}  # fmt: skip
TARGET: dict[str, Any] = {"server_cache": None, "node_bandwidth": None, "type": None}


MB = 10**6


def quota(periods: int, stopped: int, stopped_s: float) -> dict[str, Any]:
    """A load with what a CPU quota did in ten seconds."""
    throttled = {"periods": periods, "stopped": stopped, "stopped_s": stopped_s, "host": "n2"}
    return {"load": {"other": 0.0, "steal": 0.0, "window_s": 10.0, "throttled": throttled}}


def other(name: str, user: str, share: float) -> dict[str, Any]:
    return {"name": name, "user": user, "share": share}


def bound(cpus: str, other: float, host: str = "", *top: dict[str, Any]) -> dict[str, Any]:
    return {"cpus": cpus, "other": other, "host": host, "top": list(top)}


def device_io(
    own: int | None, device: int | None, device_read: int = 0, dirty: int = 0, calibrated: float | None = None
) -> dict[str, Any]:
    """What the tool wrote, and what its device wrote and read; the share of a data set that the device counted."""
    node = {"tool_read_bytes": 0, "tool_written_bytes": own, "device": "sdb", "device_written_bytes": device}
    node |= {"device_read_bytes": device_read if device else None, "window_s": 10.4, "dirty_bytes": dirty}
    files = RUN["files"] | ({"counted": {"device": calibrated}} if calibrated else {})
    return {"moved": {"n1": node}, "files": files}


def client_io(own: int, all_: int) -> dict[str, Any]:
    """The same by the counter of an NFS client."""
    node = {"tool_read_bytes": 0, "tool_written_bytes": own, "client": "/proc/self/mountstats"}
    return {"moved": {"n1": node | {"client_written_bytes": all_, "window_s": 10.4}}, "fstype": "nfs4"}


def seen(
    phase: str = "rand_write",
    problems: tuple[str, ...] = (),
    memory: int | dict[str, int | None] | None = GIB,
    fstype: str | None = "ext4",
    mount: str | None = "/dev/sdb on /t type x (rw,relatime)",
    seconds: float | None = 10.0,
    nodes: int = 1,
    ran_on: int | None = None,
    tool: str = "fio",
    shortest_s: float = 0.0,
    **changes: Any,
) -> Seen:
    """A run where all is well, with keys of its parts changed; a key that is None is taken out.

    `seconds`: the phase time, None for one pass; `ran_on`: the nodes that the tool says it ran on.
    """
    known = {key: part for part in (FIGURES, EVIDENCE, RUN, OPTIONS, TARGET) for key in part} | dict.fromkeys(
        ("not_run", "leftover", "leftover_expected", "left_behind", "flooded", "argv", "argvs"), RUN
    )
    known |= dict.fromkeys(
        (
            "series",
            "own_rates",
            "tasks",
            "shift",
            "clock_s",
            "untimed_s",
            "each_node",
            "windows",
            "windows_error_s",
            "not_flushed",
            "lost",
            "doubts",
            "repeats",
        ),
        EVIDENCE,
    )
    known |= dict.fromkeys(
        ("sum_of_rates_bytes_per_s", "sum_of_rates_ops_per_s", "start_skew_s", "bytes_read"), FIGURES
    )
    assert set(changes) <= set(known)

    def part(base: dict[str, Any]) -> dict[str, Any]:
        own = {k: v for k, v in changes.items() if known[k] is base}
        return {k: v for k, v in (base | own).items() if k not in own or v is not None}

    kind = PHASES[phase].kind
    point = Point("p", tool, (phase,), nodes, part(OPTIONS), seconds if kind == "data" else None, Repetitions(1, 1), ())
    evidence = part(EVIDENCE) | ({} if ran_on is None else {"nodes": ran_on})
    evidence |= {"mpi": "tasks" in evidence, "shifts": "shift" in evidence}
    parsed = Parsed("fio-3.33", part(FIGURES), Evidence(**evidence), problems)
    memory_bytes = memory if isinstance(memory, dict) else {"n1": memory}
    return Seen(
        point,
        PHASES[phase],
        phase_run(part(RUN)),
        parsed,
        structs.replace(ON_TARGET, **part(TARGET)),
        memory_bytes,
        fstype,
        mount,
        shortest_s,
    )


def files(**changes: Any) -> dict[str, Any]:
    return RUN["files"] | changes


def sampled(role: str = "write", **changes: Any) -> dict[str, Any]:
    return files(role=role, sample=SAMPLE | changes)


def moved(**changes: Any) -> dict[str, Any]:
    return {"n1": RUN["moved"]["n1"] | changes}


def over_nfs(written: int) -> dict[str, Any]:
    return moved(client="/proc/self/mountstats", client_read_bytes=0, client_written_bytes=written, sent_bytes=1 << 40)


def cpus(planned: dict[str, int] | None = RUN["cpus"]["planned"], **changes: Any) -> dict[str, Any]:
    return RUN["cpus"] | {"planned": planned, "nodes": [CPUS | changes]}


NOT_REPORTED = Echo(("fio ran without direct=1", "fio ran without end_fsync=1"), frozenset(), 12)
PASS, FAIL, UNCHECKED, NO = "pass", "fail", "not checked", "not applicable"
SERVED: dict[str, Any] = {"phase": "rand_read", "bytes_read": 8 * GIB}
BUFFERED: dict[str, Any] = SERVED | {"o_direct": False}
#: A run that read 100 MB.
READ: dict[str, Any] = {"phase": "rand_read", "bytes_read": 100_000_000, "bytes_written": None}
ONE_PASS: dict[str, Any] = {"seconds": None}
#: All of the files was written over.
WRITTEN: dict[str, Any] = {"bytes_written": 80 * GIB}
TOOLS_OWN: dict[str, Any] = {"data": "tool_default"}
EIGHT: dict[str, Any] = {"nodes": 8, "memory": {f"n{k}": GIB for k in range(8)}}
SET: dict[str, Any] = {"role": "read", "files": 8, "file_size_bytes": 2 * GIB, "set_bytes": 16 * GIB, "wrong": []}
NFS: dict[str, Any] = {"fstype": "nfs4"}
FUSE: dict[str, Any] = {"fstype": "fuse.mfs"}
#: A data set of 64 MiB that its client wrote whole, and that was written over for a second.
OVERWRITTEN = FUSE | {"file_size": 64 << 20, "bytes_written": 2516 << 20, "files": files(counted={"network": 1.05})}
#: The same on two nodes that began 0.1 s apart, with a clock that is right to 50 ms.
TWO_NODES: dict[str, Any] = {
    "nodes": 2, "each_node": dict.fromkeys(("n1", "n2"), Parsed("fio-3.33", FIGURES, Evidence(**EVIDENCE))),
    "windows": {"n1": (5.0, 15.0), "n2": (5.1, 15.1)}, "windows_error_s": 0.05, "start_skew_s": 0.1,
    "sum_of_rates_bytes_per_s": 4_096_000 * 1.01, "sum_of_rates_ops_per_s": 1010.0,
}  # fmt: skip
EARLY: dict[str, Any] = {"windows": {"n1": (5.0, 10.0), "n2": (5.1, 15.1)},
                         "sum_of_rates_bytes_per_s": 4_096_000 * 1.5}  # fmt: skip
SHORT: dict[str, Any] = {"each_node": {
    "n1": Parsed("fio-3.33", FIGURES, Evidence(**EVIDENCE)),
    **dict.fromkeys(("n2", "n3"), Parsed("fio-3.33", FIGURES | {"runtime_s": 9.0},
                                         Evidence(**EVIDENCE | {"errors": ["x"]}))),
}}  # fmt: skip


def series(values: Sequence[float] = (4e6,) * 20, interval_s: float = 0.5, host: str = "") -> Series:
    """Of the whole of a node."""
    return Series("bandwidth_bytes_per_s", tuple(values), interval_s, 0.0, host)


WORKED_IN_TURN: dict[str, Any] = {"each_node": {
    host: Parsed("fio-3.33", FIGURES, Evidence(**EVIDENCE | {"echo": Echo((), frozenset(), 12, f"/{host}")}))
    for host in ("n1", "n2")
}}  # fmt: skip


def run_as(*argv: str) -> dict[str, Any]:
    return {"argv": argv}


def ranks(*rates: float, usable: str = "0-7") -> dict[str, Any]:
    """Ranks of one node with these rates, and the CPUs that they may use."""
    own_rates = [OwnRate("", k, rate * 1e6) for k, rate in enumerate(rates)]
    return {"own_rates": own_rates, "threads_per_node": len(rates), "cpus": cpus(usable=usable)}
