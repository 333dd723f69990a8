"""The validity checks, one by one: what passes, what fails, what cannot be checked and what does not apply."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from iosweep.config.sweeps import Repetitions
from iosweep.node.stuck import Stuck
from iosweep.own_rate import OwnRate
from iosweep.plan.model import Point
from iosweep.results import checks, reasons, verdict
from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import NOT_APPLICABLE, Finding, Seen, failed, passed, unchecked
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


#: Processes that wait for a file system that does not answer.
STUCK = Stuck(program="fio", pids=(7, 9), where="request_wait_answer", host="n2")


def quota(periods: int, stopped: int, stopped_s: float) -> dict[str, Any]:
    """A load with what a quota did in ten seconds."""
    throttled = {"periods": periods, "stopped": stopped, "stopped_s": stopped_s}
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
        ("not_run", "leftover", "leftover_expected", "left_behind", "stuck", "flooded", "argv", "argvs"), RUN
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
NO_FLAG = "fio ran without time_based=1"
OF_A_FLAG = Echo((NO_FLAG,), frozenset(), 12, flags={NO_FLAG: "--time_based"})
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


DAX = "/dev/pmem0 on /t type ext4 (rw,relatime,dax=always)"
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


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # check, what is changed, outcome, what the evidence contains
    # the rest is in test_checks_cpus.py
    ("as_asked", {}, PASS, "the tool repeats 12 options and parameters as they were given"),
    ("as_asked", {"echo": NOT_REPORTED}, FAIL, "fio ran without direct=1; fio ran without end_fsync=1"),
    ("as_asked", {"echo": Echo((), frozenset(), 12, "/t/a b")} | run_as("--directory=/t/a b"), PASS, "repeats 12"),
    ("as_asked", {"echo": Echo((), frozenset(), 12, "/t/a b")} | run_as("-d", "/t/a b"), PASS, "repeats 12"),
    ("as_asked", {"echo": Echo((), frozenset(), 12, "/t/a")} | run_as("--directory=/t/a b"), FAIL,
     "fio worked in /t/a, which its command does not name"),
    # each node's command names its own directory
    ("as_asked", TWO_NODES | WORKED_IN_TURN | {"argvs": (("fio", "--directory=/n1"), ("fio", "--directory=/n2"))}, PASS,
     "n1: the tool repeats 12"),
    ("as_asked", TWO_NODES | WORKED_IN_TURN | {"argvs": (("fio", "--directory=/n1"), ("fio", "--directory=/n1"))}, FAIL,
     "n2: fio worked in /n2, which its command does not name"),
    ("as_asked", {"echo": OF_A_FLAG} | run_as("--time_based"), PASS, "repeats 12"),  # results of before
    ("as_asked", {"echo": OF_A_FLAG} | run_as("--time_based=1"), FAIL, "fio ran without time_based=1"),
    ("as_asked", {"echo": None}, UNCHECKED, "fio does not print its options"),
    ("as_asked", {"echo": None, "problems": ("cut",)}, UNCHECKED, "no output to look at"),
    ("in_flight", {}, PASS, "15.80 in flight on average, 16 at most were asked for"),
    ("in_flight", {"ops_per_s": 10_000.0}, FAIL, "10,000 I/Os a second of 15,800.0 µs each are 158.0 in flight"),
    ("in_flight", {"latency_mean_s": 16.7e-3}, PASS, "16.70 in flight"),  # rounding
    ("in_flight", {"latency_mean_s": 17e-3}, FAIL, "17.0 in flight, and 16 were asked for"),
    ("in_flight", {"latency_mean_s": None}, UNCHECKED, "the tool does not time single I/Os"),
    ("in_flight", {"ops_per_s": None}, UNCHECKED, "no output"),
    ("in_flight", {"phase": "create"}, NO, ""),
    ("clock", {}, PASS, "the tool timed 10.00 s of the 10.40 s of its process"),
    ("clock", {"wall_s": 5.4}, FAIL, "the tool timed 10.00 s, and all of it took 5.40 s: its clock is fast"),
    ("clock", {"wall_s": 20.4}, FAIL, "its clock is slow, or it did not time all that it did"),
    ("clock", {"wall_s": 16.9}, UNCHECKED, "too short beside its start-up"),  # a very slow start
    ("clock", {"timed_s": 1.0, "wall_s": 6.0}, UNCHECKED, "too short beside its start-up"),
    ("clock", {"timed_s": 4.5, "wall_s": 9.3}, FAIL, "its clock is slow"),
    ("clock", {"timed_s": 4.5, "wall_s": 9.3, "tasks": 2}, UNCHECKED, "too short beside its start-up"),  # a launcher
    ("clock", {"timed_s": 6.5, "wall_s": 13.3, "tasks": 2}, FAIL, "its clock is slow"),
    ("clock", {"timed_s": 1.0, "wall_s": 2.4, "untimed_s": 1.0}, PASS, "1.00 s of the 2.40 s"),  # mdtest sleeps
    ("clock", {"timed_s": None}, UNCHECKED, "the tool does not say how long it took"),
    ("pinned", {}, PASS, "2 workers on 1 node looked at 6 times or more, each on the CPUs planned for it: one of CPUs"),
    ("pinned", {"cpus": cpus({"0": 2})}, FAIL, "n1: 1 worker could run on CPU 1, CPU 0 was planned"),
    ("pinned", {"cpus": cpus(looks=2)}, UNCHECKED, "n1: looked at 2 times only"),
    ("reserved_cpus", {}, PASS, "none of them allowed on CPU 2 (weka, /proc/mounts)"),
    ("reserved_cpus", {"cpus": cpus(reserved="1")}, FAIL, "n1: 1 worker could run on CPU 1, and did; it is reserved"),
    ("reserved_cpus", {"cpus": cpus(reserved="")}, NO, ""),
    ("reserved_agree", {}, PASS, "weka and /proc/mounts agree"),
    ("reserved_agree", {"cpus": cpus(problems=["weka says 2, and /proc/mounts 3"])}, FAIL, "n1: weka says 2, and"),
    ("exit_status", {}, PASS, "exit code 0 after 10.40 s"),
    ("exit_status", {"exit_code": 1, "stderr": "\n no space\nmore"}, FAIL, "the tool ended with exit code 1: no space"),
    ("exit_status", {"exit_code": -9}, FAIL, "the tool was killed by signal 9"),
    ("exit_status", {"timed_out": True, "wall_s": 75.0}, FAIL, "the tool was killed after 1 min 15 s"),
    ("exit_status", {"flooded": True}, FAIL, "the tool was killed: it printed more than 64.0 MiB"),
    ("exit_status", {"left_behind": 1}, FAIL, "the target hangs: processes of the tool could not be killed (1 left)"),
    ("exit_status", {"left_behind": 2, "stuck": [STUCK]}, FAIL,
     "the target hangs: processes of the tool could not be killed (on n2: 2 processes of fio wait in request_wait_a"),
    ("exit_status", {"timed_out": True, "wall_s": 75.0, "stuck": [STUCK]}, FAIL,
     "the tool was killed after 1 min 15 s: it did not end by itself; on n2: 2 processes of fio wait in request_wait_"),
    ("exit_status", {"exit_code": 1, "stderr": "open: Read-only file system"}, FAIL,
     "the target is read-only: the tool ended with exit code 1: open: Read-only"),
    ("exit_status", {"exit_code": 1, "messages": ["fio: pid=1, err=28/x.c, error=No space left on device"]}, FAIL,
     "the target is full (space or inodes): the tool ended with exit code 1"),
    ("exit_status", {"not_run": "not run: Disk quota exceeded: x"}, FAIL,
     "a quota on the target is used up: not run: Disk quota exceeded: x"),
    ("exit_status", {"not_run": "not run: full"}, FAIL, "not run: full"),
    ("output", {}, PASS, "one document of fio-3.33"),
    ("output", {"problems": ("cut", "here")}, FAIL, "cut; here"),
    ("tool_errors", {}, PASS, "the tool reports no error"),
    ("tool_errors", {"errors": ["error 28: fio: no space"]}, FAIL, "the tool reports error 28: fio: no space"),
    ("tool_errors", {"errors": ["error 5", "2 short and 1 dropped I/Os"]}, FAIL,
     "the tool reports error 5; 2 short and 1 dropped I/Os"),
    ("tool_errors", {"errors": ["a | b"]}, FAIL, "the tool reports a / b"),  # a bar stands between reasons
    ("tool_errors", {"errors": None}, UNCHECKED, "no output to look at"),
    ("tool_doubts", {}, NO, ""),
    ("tool_doubts", {"doubts": []}, PASS, "no line puts the figures in doubt"),
    ("tool_doubts", {"doubts": ["partial read()", "a | b"]}, FAIL, "partial read(); a / b"),
    ("direction", {}, PASS, "10,000 operations"),
    ("direction", {"silent_directions": ["read", "write"]}, FAIL, "no read and no write was done"),
    ("direction", {"unasked_directions": ["read"]}, FAIL, "a read was done that the phase does not ask for"),
    ("direction", {"silent_directions": None}, UNCHECKED, "no output to look at"),
    ("direction", {"phase": "create", "silent_directions": None}, NO, ""),  # mdtest does not count bytes
    ("direction", {"phase": "create", "silent_directions": ["write"]}, FAIL, "no write was done"),
    ("arithmetic", {}, PASS, "bytes = rate x time = operations x transfer size"),
    ("arithmetic", {"rate_times_runtime_bytes": 41_500_000}, FAIL,
     "40,960,000 bytes moved, but rate x time is 41,500,000"),
    ("arithmetic", {"ops": 9_800}, FAIL, "operations x size 40,140,800"),
    ("arithmetic", {"transferred_bytes": None}, UNCHECKED, "no output to look at"),
    ("arithmetic", {"rate_times_runtime_bytes": 41_500_000, "clock_s": 0.1}, PASS, "bytes = rate x time"),
    ("arithmetic", {"phase": "create"}, PASS, "operations = rate x time"),
    ("arithmetic", {"phase": "create", "transferred_bytes": None}, UNCHECKED, "prints rates, and no times"),
    ("arithmetic", {"phase": "create", "ops_per_s": 2000.0}, FAIL, "10,000 operations in 10.000 s are not 2,000/s"),
    ("workers", {}, PASS, "20.0 worker seconds of 20.0"),
    ("workers", {"worker_seconds": 19.7}, PASS, "19.7 worker seconds of 20.0"),
    ("workers", {"worker_seconds": 19.0}, FAIL, "the workers ran for 19.0 s in all, 20.0 s were asked for"),
    ("workers", {"worker_seconds": None}, UNCHECKED, "the tool does not say"),
    ("workers", {"phase": "stat"}, NO, ""),
    ("workers", ONE_PASS, NO, ""),
    ("workers", {"tasks": 2}, PASS, "2 ranks on 1 node"),
    ("workers", {"tasks": 2, "worker_seconds": None}, PASS, "2 ranks on 1 node"),
    ("workers", {"tasks": 2, "phase": "stat"}, PASS, "2 ranks on 1 node"),
    ("workers", {"tasks": 2} | ONE_PASS, PASS, "2 ranks on 1 node"),
    ("workers", {"tasks": 6, "nodes": 3, "ran_on": 3}, PASS, "6 ranks on 3 nodes, as asked"),
    # each rank believes that it is alone: the launcher and the program know different MPIs
    ("workers", {"tasks": 1}, FAIL, "the tool ran with 1 rank, 2 were asked for: was it built with another MPI"),
    ("workers", {"tasks": 2, "nodes": 2}, FAIL, "the tool ran with 2 ranks, 4 were asked for"),
    ("workers", {"tasks": 1, "phase": "create"}, FAIL, "the tool ran with 1 rank"),
    ("workers", {"tasks": 4, "nodes": 2, "ran_on": 1}, FAIL, "the tool ran on 1 node, 2 were asked for"),
    ("volume", {}, NO, ""),
    ("volume", {"phase": "create"}, NO, ""),
    ("volume", {"transferred_bytes": 8 * GIB} | ONE_PASS, PASS, "8.0 GiB moved"),
    ("volume", {"transferred_bytes": 48 * GIB, "nodes": 2, "files_per_thread": 3} | ONE_PASS, PASS, "48.0 GiB moved"),
    ("volume", {"transferred_bytes": 8 * GIB - 4096} | ONE_PASS, FAIL,
     "8,589,930,496 bytes were moved, not 8,589,934,592"),
    ("volume", {"transferred_bytes": 16 * GIB} | ONE_PASS, FAIL, "17,179,869,184 bytes were moved, not 8,589,934,592"),
    ("volume", {"transferred_bytes": None} | ONE_PASS, UNCHECKED, "no output to look at"),
    ("duration", {}, PASS, "10.00 s of 10.00 s"),
    ("duration", {"runtime_s": 9.81}, PASS, "9.81 s of 10.00 s"),
    ("duration", {"runtime_s": 9.7}, FAIL, "ran for 9.70 s of 10.00 s"),
    ("duration", {"runtime_s": 0.021, "seconds": 0.02}, PASS, "0.02 s of 0.02 s"),
    ("duration", {"runtime_s": 0.019, "seconds": 0.01}, FAIL,
     "over after 19 ms; the tool counts in ms: raise phase_time"),
    ("duration", {"runtime_s": 0.1, "seconds": 0.1, "clock_s": 0.01}, FAIL,
     "over after 100 ms; the tool counts in 10 ms: raise phase_time"),
    ("duration", {"runtime_s": 0.0019, "clock_s": 0.0001} | ONE_PASS, FAIL,
     "over after 1.9 ms; the tool counts in 0.1 ms: raise file_size"),
    ("duration", {"runtime_s": 0.0021, "clock_s": 0.0001} | ONE_PASS, PASS, "0.002 s"),
    ("duration", {"runtime_s": 0.001, "seconds": 1.0}, FAIL, "ran for 0.00 s of 1.00 s"),  # that one is not its fault
    ("duration", {"runtime_s": None}, UNCHECKED, "no output to look at"),
    ("long_enough", {}, NO, ""),
    ("long_enough", {"runtime_s": 0.021} | ONE_PASS, PASS, "0.021 s"),
    ("long_enough", {"runtime_s": 0.008} | ONE_PASS, FAIL,
     "over after 8 ms, which is mostly ticks and barriers: raise file_size"),
    ("long_enough", {"runtime_s": 0.008, "seconds": None, "phase": "create"}, FAIL, "raise files_per_thread"),
    ("long_enough", {"runtime_s": None} | ONE_PASS, UNCHECKED, "no output to look at"),
    ("duration", {"phase": "delete"}, PASS, "10.000 s"),
    ("duration", {"phase": "delete", "runtime_s": 0.005}, FAIL,
     "over after 5 ms; the tool counts in ms: raise files_per_thread"),
    ("duration", ONE_PASS, PASS, "10.000 s"),
    ("duration", {"runtime_s": 0.019} | ONE_PASS, FAIL, "over after 19 ms; the tool counts in ms: raise file_size"),
    ("duration", {"runtime_s": None} | ONE_PASS, UNCHECKED, "no output to look at"),
    ("overtime", {}, PASS, "10.00 s of 10.00 s"),
    ("overtime", {"runtime_s": 10.49}, PASS, "10.49 s of 10.00 s"),
    ("overtime", {"runtime_s": 10.6, "phase": "rand_read"}, FAIL, "ran for 10.60 s where 10.00 s were asked for"),
    ("overtime", {"runtime_s": 18.0}, PASS, "18.00 s of 10.00 s, the flush at the end included"),
    ("overtime", {"runtime_s": 18.0, "latency_max_s": 8.1}, FAIL, "ran for 18.00 s"),  # an I/O hung
    ("overtime", {"runtime_s": 18.0, "fsync": False}, FAIL, "ran for 18.00 s"),
    ("overtime", {"runtime_s": 18.0, "echo": None}, FAIL, "ran for 18.00 s"),
    ("overtime", {"runtime_s": 0.19, "seconds": 0.1}, PASS, "0.19 s of 0.10 s"),  # start and end take their time
    ("overtime", {"runtime_s": None}, UNCHECKED, "no output to look at"),
    ("overtime", {"phase": "create"}, NO, ""),
    ("overtime", {"runtime_s": 1e6} | ONE_PASS, NO, ""),
    ("common_window", {}, NO, ""),
    ("common_window", {"nodes": 2, "tool": "ior"}, NO, ""),
    ("common_window", {"nodes": 2}, UNCHECKED, "no output to look at"),
    ("common_window", TWO_NODES, PASS, "all began within 0.100 s, which may be 0.050 s off"),
    ("common_window", TWO_NODES | {"windows": {}}, UNCHECKED, "fio-3.33 does not say when each node began"),
    ("common_window", TWO_NODES | {"sum_of_rates_bytes_per_s": 4_096_000 * 1.024}, PASS, "0.100 s"),  # 0.5 % are unsure
    ("common_window", TWO_NODES | {"sum_of_rates_bytes_per_s": 4_096_000 * 1.026}, FAIL,
     "their rates would add up to 2.6% more than what all did; n2 began last, 0.10 s after the first, and n1 ended"
     " 0.10 s before the last"),
    # of a volume, n1 has written its share in half the time: that the rates of the nodes add up to more is no fault
    ("common_window", TWO_NODES | ONE_PASS | EARLY, PASS, "all began within 0.100 s"),
    ("common_window", TWO_NODES | ONE_PASS | EARLY | {"windows": {"n1": (5.0, 10.0), "n2": (5.4, 15.1)},
     "start_skew_s": 0.4}, FAIL, "the nodes did not work at the same time: n2 began 0.40 s after the first"),
    ("common_window", TWO_NODES | EARLY, FAIL, "their rates would add up to 50.0% more"),
    ("duration", TWO_NODES, PASS, "n1: 10.00 s of 10.00 s; n2: 10.00 s of 10.00 s"),
    ("duration", TWO_NODES | SHORT, FAIL, "n2: ran for 9.00 s of 10.00 s; n3: ran for 9.00 s of 10.00 s"),
    ("duration", TWO_NODES | {"each_node": dict.fromkeys("abcdefg", Parsed())}, UNCHECKED,
     "d: no output to look at; and 3 more nodes"),
    ("workers", TWO_NODES, PASS, "n1: 20.0 worker seconds of 20.0; n2"),  # what was asked of each
    ("volume", TWO_NODES, NO, ""),
    ("queue_depth", {}, PASS, "90 % of the I/O at depth 8 or more"),
    ("queue_depth", {"queue_depth": 16}, FAIL, "queue depth 16 was asked for, but only 0 % of the I/O had it"),
    ("queue_depth", {"queue_depth": 12}, PASS, "90 % of the I/O at depth 8 or more"),  # fio counts in powers of two
    ("queue_depth", {"queue_depth": 256, "depth_percent": {"32": 40.0, ">=64": 60.0},
                     "latency_mean_s": 0.4}, PASS, "60 % of the I/O"),
    ("queue_depth", {"queue_depth": 16, "o_direct": False}, UNCHECKED, "without O_DIRECT libaio waits for each I/O"),
    ("queue_depth", {"queue_depth": 16, "o_direct": False, "ioengine": "io_uring"}, FAIL, "queue depth 16 was asked"),
    ("queue_depth", {"queue_depth": 32, "depth_percent": {"32": 100.0}}, FAIL,
     "15.8 I/Os were in flight on average, where 64 were asked for"),
    # a flush of 20 s is no time in which I/Os are issued, and of one volume it is not known
    ("queue_depth", {"runtime_s": 30.0, "worker_seconds": 60.0, "ops_per_s": 333.0}, PASS, "90 % of the I/O"),
    ("queue_depth", {"runtime_s": 30.0, "worker_seconds": 60.0} | ONE_PASS, PASS, "90 % of the I/O"),
    ("queue_depth", {"phase": "rand_read", "runtime_s": 30.0, "worker_seconds": 60.0} | ONE_PASS, FAIL,
     "5.3 I/Os were in flight on average, where 16 were asked for"),
    ("queue_depth", {"o_direct": False, "completion_latency_mean_s": 14e-3}, FAIL,
     "the workers spent 90% of their time submitting I/Os: without O_DIRECT libaio waits for each"),
    ("queue_depth", {"o_direct": False, "completion_latency_mean_s": None}, UNCHECKED, "without O_DIRECT libaio waits"),
    ("queue_depth", {"depth_percent": None}, UNCHECKED, "the tool does not say"),
    ("queue_depth", {"queue_depth": 1}, NO, ""),
    ("queue_depth", {"phase": "create"}, NO, ""),
    ("data_complete", {}, PASS, "2 files of 4.0 GiB, all of full size"),
    ("data_complete", {"files": files(wrong=["0.0 is missing"]), "not_run": "not run: 0.0 is missing"}, FAIL,
     "not run: 0.0 is missing"),
    ("data_complete", {"files": files(wrong=["full"]), "not_run": "not run: No space left on device"}, FAIL,
     "the target is full (space or inodes): not run: No space left on device"),
    ("data_complete", {"files": {"role": "write"}}, UNCHECKED, "the files were not looked at"),
    ("data_complete", {"files": {"role": "fresh"}}, NO, ""),
    ("no_holes", {}, PASS, "no holes; the file system reports"),
    ("no_holes", {"files": files(holes="found")}, FAIL, "unwritten extents"),
    ("no_holes", {"files": files(holes="hidden: this file system shows no holes")}, UNCHECKED, "hidden: this file"),
    ("no_holes", {"files": files(holes=None)}, UNCHECKED, "not looked at"),
    ("no_holes", {"files": {"role": "fresh"}}, NO, ""),
    ("unchanged", {"phase": "rand_read", "files": files(role="read")}, PASS,
     "the same files with the same times after the phase, without holes"),
    ("unchanged", {"phase": "rand_mixed"}, PASS, "of full size after the phase, without holes"),
    ("unchanged", {"phase": "rand_read", "files": files(role="read", changed=["0.0 has unwritten extents"])}, FAIL,
     "the files changed while they were read: 0.0 has unwritten extents; they are written anew before"),
    ("unchanged", {"phase": "rand_read", "files": files(role="read", unclear="seen late")}, UNCHECKED, "seen late"),
    ("unchanged", {"phase": "rand_read", "files": files(changed=None)}, UNCHECKED, "were not looked at again"),
    ("unchanged", {}, NO, ""),
    ("stayed_new", {}, NO, ""),
    ("stayed_new", {"phase": "rand_read", "write_mode": "new"}, NO, ""),
    ("stayed_new", {"write_mode": "new"}, PASS, "39.1 MiB of 8.0 GiB"),
    ("stayed_new", {"write_mode": "new", "file_size": 1 << 20}, FAIL,
     "39.1 MiB were written into 2.0 MiB of new files"),
    ("stayed_new", {"write_mode": "new", "bytes_written": None}, UNCHECKED, "no output to look at"),
    ("file_count", {"phase": "create", "leftover_expected": 200, "leftover": 200}, PASS,
     "200 files counted after create"),
    ("file_count", {"phase": "create", "leftover_expected": 200, "leftover": 199}, FAIL,
     "200 files expected after create, 199 found"),
    ("file_count", {"phase": "delete", "leftover_expected": 0, "leftover": 1}, FAIL,
     "0 files expected after delete, 1 found"),
    ("file_count", {"phase": "delete", "leftover_expected": 0}, UNCHECKED, "the files were not counted"),
    ("file_count", {}, NO, ""),
    ("client_cache", {}, PASS, "it used O_DIRECT, and the file system accepted it"),
    ("client_cache", {"echo": None}, UNCHECKED, "O_DIRECT was asked for, and the tool does not say that it used it"),
    ("client_cache", {"echo": NOT_REPORTED, "phase": "rand_read", "memory": 5 * GIB}, UNCHECKED, "does not say"),
    ("client_cache", {"exit_code": 1}, UNCHECKED, "the run failed"),
    ("client_cache", {"o_direct": False}, NO, ""),  # of writes that do not bypass it, durable tells
    ("client_cache", BUFFERED, PASS, "8.0 GiB were read on n1 with 1.0 GiB of memory: 8 times as much"),
    ("client_cache", BUFFERED | {"memory": 5 * GIB}, FAIL,
     "reads without O_DIRECT of 8.0 GiB on n1 with 5.0 GiB of memory"),
    ("client_cache", BUFFERED | {"memory": 5 * GIB, "bytes_read": 20 * GIB}, FAIL,
     "of 8.0 GiB on n1 with 5.0 GiB of memory, in 2.5 passes over the files"),
    ("client_cache", BUFFERED | {"memory": None}, UNCHECKED, "the memory of n1 is not known"),
    ("client_cache", BUFFERED | {"bytes_read": None}, UNCHECKED, "no output to look at"),
    # of large files only so much was read that it may have been there since the last time
    ("client_cache", BUFFERED | {"phase": "seq_read", "bytes_read": GIB}, FAIL, "of 1.0 GiB on n1 with 1.0 GiB"),
    # in another order each time: of 8 GiB, 1 GiB can have been there
    ("client_cache", BUFFERED | {"bytes_read": GIB}, UNCHECKED, "no more than half of the 8.0 GiB of files"),
    ("client_cache", {"phase": "stat"}, NO, ""),
    # eight nodes of 1 GiB that read 1 GiB each: 8 GiB are no more than each of them can keep
    ("client_cache", BUFFERED | EIGHT, FAIL, "reads without O_DIRECT of 1.0 GiB on n0 with 1.0 GiB of memory"),
    ("client_cache", BUFFERED | EIGHT | {"files": SET, "bytes_read": 16 * GIB}, PASS,
     "2.0 GiB were read on n0 with 1.0 GiB of memory: 2 times as much, and no less on the others"),
    ("client_cache", BUFFERED | EIGHT | {"files": SET, "bytes_read": 16 * GIB,
     "memory": EIGHT["memory"] | {"n5": 2 * GIB}}, FAIL,
     "reads without O_DIRECT of 2.0 GiB on n5 with 2.0 GiB of memory"),
    ("client_cache", BUFFERED | EIGHT | {"files": SET, "bytes_read": 16 * GIB,
     "memory": EIGHT["memory"] | {"n5": None}}, UNCHECKED, "the memory of n5 is not known"),
    # eight nodes of 128 GiB, and 64 GiB of them in each cache; one read less than the others
    ("client_cache", BUFFERED | EIGHT | {"memory": {f"n{k}": 128 * GIB for k in range(8)}, "bytes_read": 512 * GIB,
     "files": SET | {"set_bytes": 512 * GIB}}, FAIL, "of 64.0 GiB on n0 with 128 GiB of memory"),
    ("client_cache", BUFFERED | EIGHT | {"files": SET | {"set_bytes": 160 * GIB}, "phase": "seq_read",
     "each_node": {f"n{k}": Parsed(figures={"bytes_read": (20 - (k == 3) * 19) * GIB}) for k in range(8)}}, FAIL,
     "of 1.0 GiB on n3 with 1.0 GiB of memory"),
    # without a prepared set: of all files, each node's share
    ("client_cache", BUFFERED | EIGHT | {"files": {"role": "fresh"}, "bytes_read": 64 * GIB}, PASS,
     "8.0 GiB were read on n0"),
    # a FUSE daemon may cache whatever the flags say
    ("client_cache", {"fstype": "fuse.mfs"}, UNCHECKED, "no proof on fuse.mfs: a FUSE daemon may cache in spite of"),
    ("client_cache", {"fstype": "fuse.mfs", "phase": "rand_read", "memory": 5 * GIB}, UNCHECKED, "a FUSE daemon may"),
    ("client_cache", {"fstype": "fuse.mfs", "phase": "rand_read", "memory": None}, UNCHECKED, "a FUSE daemon may"),
    ("client_cache", {"fstype": "fuse.mfs", "phase": "rand_read", "bytes_read": 8 * GIB}, PASS, "8.0 GiB were read o"),
    ("client_cache", {"fstype": "nfs4"}, UNCHECKED, "no proof on nfs4: no counter shows whether"),
    ("client_cache", {"mount": "b on /t type ext4 (rw,data=journal)"}, UNCHECKED, "mount option data=journal it"),
    ("client_cache", {"mount": "/dev/sdb on /t type ext4 (rw,data=ordered)"}, PASS, "it used O_DIRECT, and the"),
    ("client_cache", {"fstype": "btrfs", "mount": "b on /t type btrfs (rw,compress-force=zstd:3,ssd)"}, UNCHECKED,
     "no proof on btrfs: with the mount option compress-force=zstd:3 it accepts O_DIRECT and caches all the same"),
    ("client_cache", {"fstype": "btrfs", "mount": "/dev/sdb on /t type btrfs (rw,compress=no)"}, PASS, "it used"),
    ("client_cache", {"fstype": "overlay"}, UNCHECKED, "depends on the file system below an overlay"),
    ("client_cache", {"fstype": "zfs"}, UNCHECKED, "ZFS before 2.3 accepts O_DIRECT and caches"),
    ("client_cache", {"fstype": None}, UNCHECKED, "no proof on an unknown file system"),
    ("client_cache", {"fstype": "tmpfs"}, PASS, "the file system accepted it"),
    # the lower of the tool's own and the device's
    ("reached", {}, PASS, "all of 39.1 MiB written got to block devices, by the kernel's account of the tool"),
    ("reached", {"moved": moved(device_written_bytes=4_000_000)}, FAIL,
     "9 % of 39.1 MiB written got to the block device sdb"),
    ("reached", READ | {"moved": moved(tool_read_bytes=12_500_000, device_read_bytes=1 << 40)}, FAIL,
     "12 % of 95.4 MiB read came from block devices, by the kernel's account of the tool"),
    ("reached", READ | {"moved": moved(tool_read_bytes=95_000_000, device_read_bytes=1 << 40)}, PASS, "95 % of 95"),
    ("reached", READ | {"moved": moved(tool_read_bytes=94_000_000, device_read_bytes=1 << 40)}, FAIL, "94 % of 95"),
    ("reached", READ | {"o_direct": False, "moved": moved(tool_read_bytes=91_000_000, device_read_bytes=1 << 40)},
     PASS, "91 % of 95.4 MiB read came from"),
    # ranks that srun started
    ("reached", READ | {"moved": moved(tool_read_bytes=None, device_read_bytes=3)}, FAIL, "0 % of 95.4 MiB read"),
    # a device that did not count what was written to it
    ("reached", {"moved": moved(tool_written_bytes=None, device_written_bytes=0),
     "files": files(counted={"device": 0.0})}, UNCHECKED,
     "no counter is known to see all I/O on ext4; that of the block device saw 0 % of a data set"),
    # what no block device counts: persistent memory, and what is below an overlay in a container
    ("reached", {"moved": moved(tool_written_bytes=0, device_written_bytes=4096), "mount": DAX}, UNCHECKED,
     "0 % of 39.1 MiB written got to block devices, by the kernel's account of the tool, and with the mount option"
     " dax=always the device is read and written as memory"),
    ("reached", {"moved": moved(tool_written_bytes=0, device_written_bytes=4096),
     "mount": DAX.replace("always", "never")}, FAIL, "0 % of 39.1 MiB written"),
    ("reached", {"moved": moved(tool_written_bytes=0, device="pmem0p1", device_written_bytes=4096)}, UNCHECKED,
     "and what is on pmem0p1 may be read and written as memory"),
    ("reached", {"moved": moved(device="pmem0p1")}, PASS, "all of 39.1 MiB written got to block devices"),
    ("reached", {"fstype": "overlay", "moved": moved(tool_written_bytes=0, device="", device_written_bytes=None)},
     UNCHECKED, "0 % of 39.1 MiB written got to block devices, by the kernel's account of the tool, and what is below"
     " the overlay is not known: ZFS"),
    ("reached", {"fstype": "overlay", "moved": moved(tool_written_bytes=0, device="", device_written_bytes=None),
     "files": files(counted={"tool": 1.0})}, FAIL, "0 % of 39.1 MiB written got to block devices"),
    ("reached", {"fstype": "overlay", "moved": moved(device="", device_written_bytes=None)}, PASS, "all of 39.1 MiB"),
    ("reached", {"fstype": "overlay", "moved": moved(tool_written_bytes=0)}, FAIL, "0 % of 39.1 MiB written got to b"),
    # pages that are written again before they are flushed are written once
    ("reached", {"o_direct": False, "bytes_written": 80 * GIB, "moved": moved(device_written_bytes=8 * GIB,
     tool_written_bytes=9 * GIB)}, PASS, "all of 8.0 GiB or more that differ among 80.0 GiB written"),
    ("reached", {"o_direct": False, "bytes_written": 80 * GIB, "moved": moved(device_written_bytes=7 * GIB,
     tool_written_bytes=9 * GIB)}, FAIL, "87 % of 8.0 GiB or more that differ among 80.0 GiB written got to the block"),
    ("reached", {"o_direct": False, "fsync": False}, UNCHECKED, "writes were not flushed inside the timing"),
    ("reached", {"moved": {}}, UNCHECKED, "what a node moved was not counted"),
    ("reached", {"exit_code": 1}, UNCHECKED, "the run failed"),
    ("reached", {"phase": "stat"}, NO, ""),
    ("reached", {"bytes_written": None}, UNCHECKED, "no output to look at"),
    # memory
    ("reached", {"fstype": "tmpfs"}, FAIL, "the target is memory (tmpfs): nothing gets to a device"),
    ("reached", {"fstype": "tmpfs", "phase": "stat"}, FAIL, "the target is memory (tmpfs)"),
    ("reached", {"fstype": "tmpfs", "type": "tmpfs"}, UNCHECKED, "memory (tmpfs), as target.type says"),
    ("reached", {"moved": moved(memory="loop0 is a file on tmpfs")}, FAIL, "is memory (loop0 is a file on tmpfs)"),
    # a client that counts
    ("reached", NFS | {"moved": over_nfs(41_000_000)}, PASS,
     "all of 39.1 MiB written got to the servers, by /proc/self/mountstats"),
    ("reached", NFS | {"moved": over_nfs(4_100_000)}, FAIL,
     "10 % of 39.1 MiB written got to the servers, by /proc/self/mountstats"),
    # the network alone: it tells what is missing if it saw a data set, and else only that there was enough
    ("reached", FUSE | {"moved": moved(sent_bytes=50_000_000)}, PASS, "got to the network, which other traffic uses"),
    ("reached", FUSE | {"moved": moved(sent_bytes=4_100_000)}, UNCHECKED, "and it is not known whether that"),
    ("reached", FUSE | {"moved": moved(sent_bytes=4_100_000), "files": files(counted={"network": 1.1})}, FAIL,
     "10 % of 39.1 MiB written got to the network, which other traffic uses, too"),
    # MooseFS, with io_uring: 2,516 MiB into 64 MiB, and 247 MiB on the wire; and less than the 64 MiB
    ("reached", OVERWRITTEN | {"moved": moved(sent_bytes=247 << 20)}, FAIL,
     "9 % of 2.5 GiB written got to the network, which other traffic uses, too: the rest were blocks that were written"
     " over in the client's memory; raise file_size"),
    ("reached", OVERWRITTEN | {"moved": moved(sent_bytes=40 << 20)}, FAIL, "1 % of 2.5 GiB written got to the network"),
    ("reached", OVERWRITTEN | {"moved": moved(sent_bytes=2600 << 20)}, PASS, "all of 2.5 GiB written"),
    ("reached", FUSE | {"moved": moved(sent_bytes=3), "files": files(counted={"network": 0.001})}, UNCHECKED,
     "that of the network saw 0 % of a data set"),
    ("reached", {"fstype": "zfs", "moved": moved(device="", device_written_bytes=None)}, UNCHECKED, "all I/O on zfs"),
    # nodes on which the tool was started one by one
    ("reached", TWO_NODES | {"moved": RUN["moved"] | {"n2": RUN["moved"]["n1"] | {"tool_written_bytes": 4_096}}}, FAIL,
     "n2: 0 % of 39.1 MiB written got to block devices"),
    ("reached", TWO_NODES | {"moved": RUN["moved"]}, UNCHECKED, "what n2 moved was not counted"),
    ("reached", {"nodes": 2, "tool": "ior"}, UNCHECKED, "what a node moved was not counted"),
    ("server_cache", {}, NO, ""),
    ("server_cache", {"phase": "rand_read"}, UNCHECKED, "target.server_cache is not given"),
    ("server_cache", SERVED | {"server_cache": 4 * GIB}, PASS, "8.0 GiB were read, against 4.0 GiB of server memory"),
    ("server_cache", SERVED | {"server_cache": 5 * GIB}, FAIL, "8.0 GiB were read: less than twice the servers'"),
    ("server_cache", SERVED | {"server_cache": 5 * GIB, "bytes_read": 80 * GIB}, FAIL,
     "8.0 GiB were read, in 10 passes over the files: less than twice the servers' memory (5.0 GiB)"),
    ("server_cache", SERVED | {"server_cache": GIB, "bytes_read": GIB, "phase": "seq_read"}, FAIL,
     "1.0 GiB were read: less"),
    ("server_cache", SERVED | {"server_cache": GIB, "bytes_read": GIB}, UNCHECKED,
     "random reads of 1.0 GiB with 1.0 GiB of server memory: memory could hold all that, but no more than half of the"),
    ("server_cache", SERVED | {"server_cache": 0}, PASS, "8.0 GiB were read, against 0 B"),
    ("server_cache", SERVED | {"server_cache": GIB, "bytes_read": None}, UNCHECKED, "no output to look at"),
    ("server_cache", {"phase": "stat", "server_cache": GIB}, NO, ""),
    ("durable", {}, PASS, "flushed at the end, inside the timing"),
    ("durable", {"echo": NOT_REPORTED}, UNCHECKED, "the tool does not report that option"),
    ("durable", {"fsync": False}, FAIL, "writes were not flushed inside the timing (fsync: false)"),
    ("durable", {"not_flushed": "fsync() is not available with MPIIO"}, FAIL,
     "not flushed inside the timing: fsync() is not available with MPIIO"),
    ("durable", {"o_direct": False, "bytes_written": 8 * GIB}, PASS, "flushed at the end, inside the timing"),
    ("durable", {"o_direct": False, "bytes_written": 9 * GIB}, FAIL,
     "9.0 GiB were written through the page cache into 8.0 GiB of files, and flushed once"),
    ("durable", {"bytes_written": 9 * GIB}, PASS, "flushed at the end, inside the timing"),
    ("durable", {"phase": "rand_read"}, NO, ""),
    ("incompressible", WRITTEN, PASS, "in 32 blocks of 4 files (512 KiB): compression 1.00:1, no duplicates"),
    ("incompressible", {"phase": "rand_read", "files": files(role="read")}, PASS, "in 32 blocks of 4 files"),
    ("incompressible", {"phase": "rand_read"}, NO, ""),
    ("incompressible", WRITTEN | {"files": sampled(compressed_bytes=1 << 18)}, FAIL,
     "data compresses or deduplicates: in 32 blocks of 4 files (512 KiB): compression 2.00:1, no duplicates"),
    ("incompressible", {"phase": "rand_read", "files": sampled(role="read", compressed_bytes=1 << 18)}, FAIL, "2.00:1"),
    ("incompressible", WRITTEN | {"files": sampled(repeated_bytes=1 << 18)}, FAIL, "50 % of pages are duplicates"),
    ("incompressible", WRITTEN | {"files": sampled(similar_bytes=1 << 18)}, FAIL, "50 % of pieces of 64 bytes occur"),
    ("incompressible", WRITTEN | {"files": sampled(zero_bytes=1 << 19, compressed_bytes=8)}, FAIL, "100 % zeros"),
    ("incompressible", WRITTEN | TOOLS_OWN | {"files": sampled(compressed_bytes=1 << 18)}, UNCHECKED,
     "2.00:1, no duplicates (data: tool_default); it matters where"),
    ("incompressible", WRITTEN | TOOLS_OWN | {"files": sampled(similar_bytes=1 << 18)}, UNCHECKED,
     "finds similar"),
    ("incompressible", WRITTEN | TOOLS_OWN, PASS, "1.00:1, no duplicates"),
    ("incompressible", WRITTEN | {"repeats": "it begins anew"}, UNCHECKED, "1.00:1, no duplicates, but it begins anew"),
    # what was there before the phase was random: it shows nothing
    ("incompressible", {}, UNCHECKED, "but up to 100 % of them may have been there before the phase"),
    # nor does what another phase has left there
    ("incompressible", {"files": sampled(compressed_bytes=1 << 18)}, UNCHECKED,
     "2.00:1, no duplicates, but up to 100 %"),
    ("incompressible", {"bytes_written": 16 * GIB, "files": sampled(compressed_bytes=400_000)}, UNCHECKED,
     "1.31:1, no duplicates, but up to 44 % of them may"),
    ("incompressible", {"bytes_written": 16 * GIB, "files": sampled(compressed_bytes=1 << 17)}, FAIL, "4.00:1"),
    ("incompressible", {"phase": "seq_write"}, PASS, "1.00:1, no duplicates"),  # its first blocks were read
    # what was never written of a new file is no data
    ("incompressible", {"files": sampled(role="fresh", zero_bytes=1 << 18, compressed_bytes=1 << 18)}, PASS, "1.00:1"),
    ("incompressible", {"files": sampled(role="fresh", zero_bytes=1 << 19, compressed_bytes=8)}, UNCHECKED,
     "only zeros"),
    ("incompressible", WRITTEN | {"files": sampled(role="fresh", zero_bytes=1 << 19, compressed_bytes=8)}, FAIL,
     "zeros"),
    ("incompressible", {"files": files(sample=None)}, UNCHECKED, "no blocks of the files were read back"),
    ("incompressible", {"files": files(sample=None, unread="no permission")}, UNCHECKED, "no permission"),
    ("incompressible", {"phase": "create"}, NO, ""),
    ("other_reader", {"phase": "rand_read"}, UNCHECKED, "one node reads what it wrote itself"),
    ("other_reader", {"phase": "rand_read", "shift": 2}, UNCHECKED, "one node reads what it wrote itself"),
    ("other_reader", {"phase": "rand_read", "nodes": 2}, UNCHECKED, "not known which node wrote"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "files": {"own": []}}, PASS, "what another one wrote"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "files": {"own": ["n2"]}}, UNCHECKED, "past their caches"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "files": {"own": ["n2"]}, "o_direct": False}, FAIL,
     "n2 read what they had written themselves"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "shift": 2, "files": {"own": ["n2"]}}, UNCHECKED,
     "past their caches"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "shift": 2}, PASS,
     "each rank reads what the rank 2 after it wrote, on another node"),
    ("other_reader", {"phase": "stat", "nodes": 3, "shift": 2}, PASS, "on another node"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "shift": 1}, FAIL,
     "ranks are shifted by 1, with 2 on each node: some read what their node wrote"),
    ("other_reader", {"phase": "rand_read", "nodes": 2, "shift": 4}, FAIL, "shifted by 4"),  # once around
    ("other_reader", {"phase": "rand_read", "nodes": 2, "shift": 0}, FAIL, "shifted by 0"),
    ("other_reader", {}, NO, ""),
    ("other_reader", {"phase": "rand_mixed", "nodes": 2, "shift": 2}, NO, ""),
    ("other_reader", {"phase": "stat", "nodes": 2}, NO, ""),
    ("other_reader", {"phase": "create", "nodes": 2, "shift": 2}, NO, ""),
    ("plausible", {}, UNCHECKED, "target.node_bandwidth is not given"),
    ("plausible", {"node_bandwidth": 4 << 20}, PASS, "3.9 MiB/s of 4.0 MiB/s"),
    ("plausible", {"node_bandwidth": 3 << 20}, FAIL, "3.9 MiB/s exceeds the 3.0 MiB/s of the links: a cache"),
    ("plausible", {"node_bandwidth": 3 << 20, "nodes": 2}, PASS, "3.9 MiB/s of 6.0 MiB/s"),
    ("plausible", {"node_bandwidth": 1, "bandwidth_bytes_per_s": None}, UNCHECKED, "no output to look at"),
    ("plausible", {"phase": "create", "node_bandwidth": 1}, NO, ""),
    ("other_load", {}, PASS, "others used 1%, the hypervisor withheld 0% of the CPU time"),
    ("other_load", {"load": {"other": 0.3, "steal": 0.0}}, FAIL, "other processes used 30% of the CPU time"),
    ("other_load", {"load": {"other": 0.0, "steal": 0.4}}, FAIL, "the hypervisor withheld 40% of the CPU time"),
    ("other_load", {"load": None}, UNCHECKED, "the node's load was not read"),
    # a FUSE daemon that works for the tool is not others
    ("other_load", {"load": {"other": 0.02, "steal": 0.0, "client": 0.4}}, PASS,
     "others used 2%, the target's client 40%, the hypervisor"),
    ("other_load", {"load": {"other": 0.4, "steal": 0.0, "client": None}, "fstype": "fuse.mfs"}, UNCHECKED,
     "others used 40% of the CPU time, and the client of fuse.mfs may be one of them"),
    ("other_load", {"load": {"other": 0.02, "steal": 0.0, "client": None}}, PASS, "others used 2%, the hypervisor"),
    ("other_load", {"load": {"other": 0.3, "steal": 0.0, "host": "n2", "unread": []}, "nodes": 2}, FAIL,
     "other processes used 30% of the CPU time on n2"),
    ("other_load", {"load": {"other": 0.0, "steal": 0.0, "host": "n2", "unread": ["n1"]}, "nodes": 2}, UNCHECKED,
     "the load of n1 was not read"),
    ("other_load", {"load": {"other": 0.1, "steal": 0.0, "user_only": True}}, PASS, "in user mode only"),
    # those of the kernel's threads and of a `dd` cannot be told apart there
    ("other_load", {"load": {"other": 0.01, "steal": 0.0, "user_only": True, "unknown": 0.4}}, UNCHECKED,
     "others used 1% of the CPU time in user mode, and 40% in kernel mode are theirs or of the kernel's threads"),
    ("other_load", {"load": {"other": 0.62, "steal": 0.0, "top": [other("dd", "eve", 0.48), other("cc1", "", 0.1)]}},
     FAIL,
     "other processes used 62% of the CPU time (dd of eve 48%, cc1 10%)"),
    # one CPU of 128, which a worker was bound to
    ("other_load", {"load": {"other": 0.008, "steal": 0.0, "bound": bound("5", 0.5, "n2", other("burn", "eve", 0.5))},
                    "nodes": 2}, FAIL,
     "other processes used 50% of CPU 5 on n2, where a rank or worker was bound (burn of eve 50%)"),
    ("other_load", {"load": {"other": 0.008, "steal": 0.0, "bound": bound("5-6", 0.3)}}, FAIL, "30% of CPUs 5-6, w"),
    ("other_load", {"load": {"other": 0.008, "steal": 0.0, "bound": bound("5", 0.5), "client": None}}, UNCHECKED,
     "the client of ext4 may be one of them"),
    ("other_load", {"load": {"other": 0.01, "steal": 0.0, "bound": bound("5", 0.02)}}, PASS, "at most 2% of the CPUs"),
    ("cpu_quota", {}, UNCHECKED, "the control groups of a node could not be read"),
    ("cpu_quota", {"load": None}, UNCHECKED, "it takes runs of half a second"),
    ("cpu_quota", quota(0, 0, 0), PASS, "no quota of CPU time stopped anything"),
    ("cpu_quota", quota(100, 50, 4.2), FAIL,
     "a quota of CPU time stopped what ran in 50 of 100 periods, for 4.20 s in all"),
    ("cpu_quota", quota(100, 4, 0.3), PASS, "in 4 of 100 periods"),
    ("cpu_quota", quota(100, 50, 0.1), PASS, "for 0.10 s in all"),
    ("other_io", {"moved": {}}, UNCHECKED, "no counter is known to see all I/O on ext4"),
    ("other_io", device_io(own=41 * MB, device=42 * MB), PASS, "others wrote 977 KiB of 40.1 MiB on sdb"),
    # journal and inodes of 10,000 writes of 4 KiB
    ("other_io", device_io(own=41 * MB, device=170 * MB), PASS, "others wrote 123 MiB of 162 MiB on sdb"),
    ("other_io", device_io(own=41 * MB, device=1000 * MB), FAIL, "others wrote 915 MiB of 954 MiB on sdb"),
    ("other_io", device_io(own=41 * MB, device=1000 * MB, dirty=900 * MB), PASS, "others wrote"),  # an honest flush
    ("other_io", device_io(own=None, device=1000 * MB), FAIL, "others wrote"),  # by what the tool says
    ("other_io", device_io(own=41 * MB, device=42 * MB, device_read=2000 * MB), FAIL, "others read 1.9 GiB of 1.9 GiB"),
    ("other_io", device_io(own=41 * MB, device=42 * MB, device_read=60 * MB), PASS, "others read 57.2 MiB of 57.2 MiB"),
    ("other_io", device_io(own=41 * MB, device=1000 * MB) | {"fstype": "btrfs"}, PASS, "no bytes that may"),
    ("other_io", device_io(own=41 * MB, device=1000 * MB, calibrated=0.5), UNCHECKED, "no counter is known to see all"),
    ("other_io", device_io(own=41 * MB, device=180 * MB, calibrated=2.0) | {"mount": "/dev/sdb on /t (data=journal)"},
     PASS, "others wrote 93.5 MiB of 172 MiB"),
    # no file system writes twice to a single disk: somebody else wrote while the data set was written
    ("other_io", device_io(own=1000 * MB, device=7000 * MB, calibrated=7.0), FAIL, "others wrote 5.6 GiB of 6.5 GiB"),
    ("other_io", device_io(own=None, device=None), UNCHECKED, "was not counted"),
    ("other_io", {"fstype": "tmpfs"}, UNCHECKED, "the target is memory (tmpfs)"),
    ("other_io", {"phase": "create"}, UNCHECKED, "a journal and inodes of its own"),
    ("other_io", client_io(own=41 * MB, all_=42 * MB), PASS, "on the client (/proc/self/mountstats)"),
    ("other_io", client_io(own=41 * MB, all_=1000 * MB), FAIL, "others wrote 915 MiB of 954 MiB on the client"),
    ("exclusive", {}, PASS, "no other campaign on this machine (lock /tmp/x)"),
    ("exclusive", {"exclusive": None}, UNCHECKED, "no record of whether other campaigns were kept off"),
    ("exclusive", {"exclusive": {"enforced": False, "evidence": "no locks there"}}, UNCHECKED, "no locks there"),
    # steady, even
    ("steady", {"series": [series()]}, PASS, "within 0%"),
    ("steady", {}, UNCHECKED, "left no rates over time"),
    ("steady", {"lost": "fio's logs are damaged: x"}, UNCHECKED, "left no rates over time: fio's logs are damaged: x"),
    ("steady", {"seconds": 2.0, "runtime_s": 2.0, "series": [series(11 * [4e6] + 9 * [0.0], 0.1)]}, FAIL,
     "stood still for 0.9 s of 2.0 s"),
    ("steady", {"seconds": 2.0, "runtime_s": 2.0, "series": [series(20 * [4e6], 0.1)]}, UNCHECKED,
     "phases of 2 s are too short to judge steadiness; it did not stand still"),
    ("steady", {"seconds": 2.0, "runtime_s": 2.0, "series": [series(20 * [4e6], 0.1)], "shortest_s": 10.0}, FAIL,
     "phases of 2 s are too short to judge steadiness: 10 s or more are needed (limits.shortest_phase)"),
    ("steady", {"series": [series(14 * [4e6] + 6 * [1e6])]}, FAIL, "fell from 3.8 MiB/s to 977 KiB/s after 7.0 s"),
    ("steady", {"series": [series(20 * [4e6], host="n1"), series(10 * [4e6] + 10 * [1e6], host="n2"),
                           *(series(20 * [4e6], host=f"n{k}") for k in range(3, 9))]}, FAIL,
     "n2: fell from 3.8 MiB/s to 977 KiB/s after 5.0 s"),
    ("steady", {"series": [series(20 * [0.5, 1.5], 0.25)], "ops_per_s": 2.0}, UNCHECKED, "too few to judge 10 s"),
    ("steady", {"series": [series(8 * [4e6], 1.0)]}, UNCHECKED, "8 rates over time are too few to judge 10 s"),
    ("steady", ONE_PASS, NO, ""),
    ("even", {"own_rates": [OwnRate("", k, 4e6) for k in range(2)]}, PASS, "the slowest of 2 workers did 100%"),
    ("even", {"own_rates": [OwnRate("", k, 4e5 if k == 5 else 4e6) for k in range(8)]}, FAIL,
     "worker 5 did 10% of the workers' median"),
    ("even", {"own_rates": [OwnRate(f"n{k}", None, 4e5 if k == 3 else 4e6) for k in range(8)]}, FAIL,
     "node n3 did 10% of the nodes' median"),
    ("even", {"own_rates": [OwnRate("n1", k, 4e5 if k == 5 else 4e6) for k in range(8)]}, FAIL,
     "worker 5 on n1 did 10%"),
    ("even", {"own_rates": [OwnRate("", k, rate) for k, rate in enumerate((4e5, 4e6))]}, PASS, "18%"),
    ("even", {"own_rates": [OwnRate("", k, rate) for k, rate in enumerate((1e5, 4e6))]}, FAIL, "2% of the other's"),
    ("even", {"own_rates": [OwnRate("", k, 4e5 if k == 5 else 4e6) for k in range(8)], "ops": 700}, UNCHECKED,
     "too few to compare"),
    ("even", {}, UNCHECKED, "are not known"),
    ("even", {"lost": "fio's logs are damaged: x"}, UNCHECKED, "are not known: fio's logs are damaged: x"),
    ("even", ranks(100, 10, 100), FAIL, "worker 1 did 10% of the workers' median"),
    ("even", ranks(100, 10, 100) | ONE_PASS, FAIL, "worker 1 did 10% of the workers' median"),
    ("even", ranks(100, 10, 100) | ONE_PASS | {"runtime_s": 0.9}, UNCHECKED, "0.9 s are too short to compare workers"),
    ("even", ranks(100, 10, 100) | {"phase": "create", "runtime_s": 0.9}, UNCHECKED, "0.9 s are too short"),
    ("even", ranks(100, 10, 100, usable="0-1") | ONE_PASS, UNCHECKED, "workers share CPUs"),
    ("even", ranks(100, 10, 100, usable="0-1"), FAIL, "worker 1 did 10%"),  # they all work to the end
    # nodes are compared all the same
    ("even", {"own_rates": [OwnRate(f"n{k}", worker, 4e5 if k == 3 else 4e6) for k in range(8) for worker in (None, 0)],
              "nodes": 8, "threads_per_node": 3} | ONE_PASS, FAIL, "node n3 did 10%"),
    ("even", {"threads_per_node": 1}, NO, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "outcome", "evidence"), CASES)
def test_a_check(name: str, changes: dict[str, Any], outcome: str, evidence: str) -> None:
    [check] = [c for c in CHECKS if c.name == name]
    found = check.look(seen(**changes))
    assert found.outcome == outcome
    assert evidence in found.evidence
    assert bool(found.evidence) == (outcome != NO)  # whatever is said is said with a reason


def test_what_never_arrived_was_not_merged_by_a_client() -> None:
    """Fewer bytes were sent than there are blocks: writing over them does not explain that."""
    [check] = [c for c in CHECKS if c.name == "reached"]
    found = check.look(seen(**OVERWRITTEN | {"moved": moved(sent_bytes=40 << 20)}))
    assert (found.outcome, found.evidence.endswith("which other traffic uses, too")) == (FAIL, True)


#: Checks that nothing of this machine can fail yet; not one that has a `failed` in it.
CANNOT_FAIL = {"exclusive"}


@pytest.mark.parametrize(
    ("ran_on", "said"),
    [
        (None, None),  # a wrapper, or too short to see
        ({"n1": 2, "n2": 2}, None),
        ({"n1": 1, "n2": 2}, None),  # of some only a part was seen
        ({"n1": 2, "n2": 0}, "2 ranks were asked for on each node, and 0 on n2 were seen"),
        ({"n2": 4, "n1": 0}, "2 ranks were asked for on each node, and 0 on n1, 4 on n2 were seen"),
        ({"n1": 3, "n2": 2}, "2 ranks were asked for on each node, and 3 on n1 were seen"),
    ],
)
def test_ranks_were_seen_where_they_were_asked_for(ran_on: dict[str, int] | None, said: str | None) -> None:
    told = seen(tasks=4, nodes=2, ran_on=2, tool="ior")
    (finding,) = [
        f
        for f in verdict.judge(replace(told, run=structs.replace(told.run, ran_on=ran_on or {})))
        if f[0].name == "workers"
    ]
    assert (finding[1].outcome, finding[1].evidence) == (
        (FAIL, said) if said else (PASS, "4 ranks on 2 nodes, as asked")
    )


def test_every_check_has_its_cases() -> None:
    tried = {(name, outcome) for name, _, outcome, _ in CASES}
    assert {name for name, _ in tried} == {c.name for c in CHECKS}
    assert {name for name, outcome in tried if outcome == FAIL} == {c.name for c in CHECKS} - CANNOT_FAIL
    assert {name for name, outcome in tried if outcome == PASS} == {c.name for c in CHECKS}


def test_what_is_well_is_valid() -> None:
    assert verdict.verdict(verdict.judge(seen())) == ("valid", [])
    assert verdict.verdict(verdict.judge(seen("rand_read"))) == ("valid", [])


def test_a_pass_needs_evidence() -> None:
    with pytest.raises(ValueError, match="a check cannot pass without evidence"):
        passed("")


def findings(*chosen: tuple[str, Finding]) -> Iterator[Any]:
    for name, finding in chosen:
        yield next(c for c in CHECKS if c.name == name), finding


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ("valid", [])),
        (
            [("output", passed("x")), ("durable", unchecked("y")), ("workers", NOT_APPLICABLE)],
            ("valid", []),
        ),
        ([("durable", failed("slow"))], ("suspect", ["slow"])),
        ([("output", failed("cut"))], ("invalid", ["cut"])),
        # invalid outweighs suspect, and what makes it invalid comes first; all reasons are kept
        ([("durable", failed("slow")), ("output", failed("cut"))], ("invalid", ["cut", "slow"])),
        ([("output", failed("cut")), ("durable", failed("slow"))], ("invalid", ["cut", "slow"])),
        # a failure of the run explains what its output lacks, and nothing else
        (
            [
                ("durable", failed("slow")),
                ("output", failed("cut → off")),
                ("tool_errors", failed("EIO")),
                ("exit_status", failed("exit code 1")),
            ],
            ("invalid", ["exit code 1 → cut > off → EIO", "slow"]),
        ),
        ([("output", failed("cut")), ("tool_errors", failed("EIO"))], ("invalid", ["EIO → cut"])),
    ],
)
def test_verdicts(chosen: list[tuple[str, Finding]], expected: tuple[str, list[str]]) -> None:
    assert verdict.verdict(list(findings(*chosen))) == expected


def test_checks_that_explain_others_are_checks() -> None:
    assert reasons.CONSEQUENCES | set(reasons.ROOTS) <= {check.name for check in CHECKS}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"exit_code": 1}, None),  # would fail again
        ({"fsync": False}, None),
        ({"not_run": "not run: no"}, "not run: no"),  # what could not be made ready, or started
        ({"not_run": "not run: No space left on device: x"}, None),  # would be full again
        ({"not_run": "not run: 0.0 is missing", "files": files(wrong=["0.0 is missing"])}, "not run: 0.0 is missing"),
        ({"exit_code": 1, "stderr": "Disk quota exceeded"}, None),
        (
            {"exit_code": 1, "stderr": "Stale file handle"},
            "the target's server does not know its own files any more:"
            " the tool ended with exit code 1: Stale file handle",
        ),
        ({"flooded": True}, None),
        ({"left_behind": 2}, "the target hangs: processes of the tool could not be killed (2 left)"),
        ({"exit_code": -15}, "the tool was killed by signal 15"),
        ({"exit_code": -9}, "the tool was killed by signal 9"),
        ({"exit_code": -11}, None),  # a segmentation fault comes again
        ({"timed_out": True}, "the tool was killed after 10 s: it did not end by itself"),
        ({"load": {"other": 0.5, "steal": 0.0}}, "other processes used 50% of the CPU time"),
        ({"load": {"other": 0.0, "steal": 0.5}}, "the hypervisor withheld 50% of the CPU time"),
    ],
)
def test_only_what_another_try_can_cure_is_tried_again(changes: dict[str, Any], reason: str | None) -> None:
    assert verdict.retry(verdict.judge(seen(**changes))) == reason


def test_what_was_not_run_passes_nothing() -> None:
    # exit code 0 is what a run has that never was; it says nothing about O_DIRECT
    run = Seen(
        seen().point,
        PHASES["rand_write"],
        phase_run(RUN | {"not_run": "not run: no space"}),
        Parsed(),
        ON_TARGET,
        {"n1": GIB},
    )
    found = verdict.judge(run)
    assert verdict.verdict(found) == ("invalid", ["not run: no space"])
    assert {f.outcome for c, f in found if c.name != "exit_status"} == {NO}


def test_files_that_are_not_as_expected_fail_the_checks_of_files() -> None:
    wrong = {
        "not_run": "not run: 0.0 has unwritten extents",
        "files": files(wrong=["0.0 has unwritten extents"], holes="found"),
    }
    found = verdict.judge(seen(**wrong))
    assert [c.name for c, f in found if f.outcome == FAIL] == ["data_complete", "no_holes"]
    assert {f.outcome for c, f in found if c.name not in ("data_complete", "no_holes")} == {NO}


def test_no_output_at_all_is_invalid() -> None:
    run = Seen(seen().point, PHASES["rand_write"], phase_run(RUN), Parsed(), ON_TARGET, {"n1": GIB})
    assert verdict.verdict(verdict.judge(run)) == ("invalid", ["no output is stored"])


def test_the_table_for_the_documentation() -> None:
    lines = checks.markdown().splitlines()
    assert len(lines) == 2 + len(checks.OF_A_ROW)
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        [f"| `{c.name}`", c.severity, c.doc] for c in checks.OF_A_ROW
    ]  # fmt: skip
    assert all(line.count(" | ") == 3 for line in lines[2:])
