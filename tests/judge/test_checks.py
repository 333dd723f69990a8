"""The validity checks, one by one: what passes, what fails, what cannot be checked and what does not apply."""

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion

from iosweep.config.sweeps import RepetitionRule
from iosweep.errors import cause
from iosweep.histograms import NodeRate, Series
from iosweep.judge import findings, verdict
from iosweep.judge.checks import CHECKS
from iosweep.judge.checks.cpus import LOOKS
from iosweep.judge.findings import NOT_APPLICABLE, Check, Observation, failed, passed, unchecked
from iosweep.plan.model import Point
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


def process(*masks: str, role: str = "worker", count: int = 1, threads: Sequence[str] = ()) -> dict[str, Any]:
    return {"role": role, "count": count, "masks": masks, "thread_masks": threads or masks}


#: What was seen of a node whose CPU 2 WEKA keeps.
CPUS: dict[str, Any] = {
    "hosts": ["n1"], "usable": "0-1", "reserved": "2", "by": ["weka", "/proc/mounts"], "problems": [], "expected": 2,
    "seen": 2, "looks": 6, "gap_s": 0.1, "cost_s": 0.001, "wall_s": 10.4,
    "processes": [process(cpu) for cpu in "01"],
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
) -> Observation:
    """A run where all is well, with keys of its parts changed; a key that is None is taken out.

    `seconds`: the phase time, None for one pass; `ran_on`: the nodes that the tool says it ran on.
    """
    known = {key: part for part in (FIGURES, EVIDENCE, RUN, OPTIONS, TARGET) for key in part} | dict.fromkeys(
        ("not_run", "leftover", "leftover_expected", "left_behind", "flooded", "argv", "argvs"), RUN
    )
    more = "series node_rates tasks shift clock_s untimed_s each_node windows windows_error_s not_flushed lost doubts"
    known |= dict.fromkeys((*more.split(), "repeats"), EVIDENCE)
    known["bytes_read"] = FIGURES
    assert set(changes) <= set(known)

    def part(base: dict[str, Any]) -> dict[str, Any]:
        own = {k: v for k, v in changes.items() if known[k] is base}
        return {k: v for k, v in (base | own).items() if k not in own or v is not None}

    kind = PHASES[phase].kind
    tool = "ior" if "tasks" in changes else tool
    point = Point(
        "p", tool, (phase,), nodes, part(OPTIONS), seconds if kind == "data" else None, RepetitionRule(1, 1), ()
    )
    evidence = part(EVIDENCE) | ({} if ran_on is None else {"nodes": ran_on})
    evidence |= {"shifts": "shift" in evidence}
    parsed = Parsed("fio-3.33", part(FIGURES), Evidence(**evidence), problems)
    memory_bytes = memory if isinstance(memory, dict) else {"n1": memory}
    return Observation(
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


def on_second(**changes: Any) -> dict[str, Any]:
    """Two nodes, of which the second differs."""
    return RUN["cpus"] | {"nodes": [CPUS, CPUS | {"hosts": ["n2"]} | changes]}


def beside(*others: dict[str, Any]) -> dict[str, Any]:
    """Other processes beside the workers."""
    return cpus(processes=[*CPUS["processes"], *others])


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
    "windows": {"n1": (5.0, 15.0), "n2": (5.1, 15.1)}, "windows_error_s": 0.05,
}  # fmt: skip
EARLY: dict[str, Any] = {"windows": {"n1": (5.0, 10.0), "n2": (5.1, 15.1)}}
SHORT: dict[str, Any] = {"each_node": {
    "n1": Parsed("fio-3.33", FIGURES, Evidence(**EVIDENCE)),
    **dict.fromkeys(("n2", "n3"), Parsed("fio-3.33", FIGURES | {"runtime_s": 9.0},
                                         Evidence(**EVIDENCE | {"errors": ["x"]}))),
}}  # fmt: skip


def series(values: Sequence[float] = (4e6,) * 20, interval_s: float = 0.5, host: str = "") -> Series:
    """Of the whole of a node."""
    return Series("bandwidth_bytes_per_s", tuple(values), interval_s, 0.0, host)


def ranks(*rates: float, usable: str = "0-7") -> dict[str, Any]:
    """Ranks of one node with these rates, and the CPUs that they may use."""
    node_rates = [NodeRate("", k, rate * 1e6) for k, rate in enumerate(rates)]
    return {"node_rates": node_rates, "threads_per_node": len(rates), "cpus": cpus(usable=usable)}


#: What no block device counts: what is below an overlay in a container.
BELOW_OVERLAY = {
    "fstype": "overlay",
    "moved": moved(tool_written_bytes=0, device="", device_written_bytes=None),
}
#: Check, its outcome, and what is changed of a run in which all is well.
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("as_asked", PASS, {"echo": Echo((), frozenset(), 12, "/t/a b"), "argv": ("--directory=/t/a b",)}),
    ("as_asked", FAIL, {"echo": Echo((), frozenset(), 12, "/t/a"), "argv": ("--directory=/t/a b",)}),
    ("as_asked", UNCHECKED, {"echo": None}),
    ("in_flight", PASS, {}),
    ("in_flight", PASS, {"latency_mean_s": 16.7e-3}),  # rounding
    ("in_flight", FAIL, {"latency_mean_s": 17e-3}),
    ("in_flight", UNCHECKED, {"latency_mean_s": None}),
    ("in_flight", NO, {"phase": "create"}),
    ("clock", FAIL, {"wall_s": 5.4}),
    ("clock", FAIL, {"wall_s": 20.4}),
    ("clock", FAIL, {"timed_s": 4.5, "wall_s": 9.3}),
    ("clock", UNCHECKED, {"timed_s": 4.5, "wall_s": 9.3, "tasks": 2}),  # a launcher
    ("clock", PASS, {"timed_s": 1.0, "wall_s": 2.4, "untimed_s": 1.0}),  # mdtest sleeps
    ("clock", UNCHECKED, {"timed_s": None}),
    ("pinned", PASS, {}),
    ("pinned", FAIL, {"cpus": cpus({"0": 2})}),
    ("pinned", FAIL, {"cpus": cpus(processes=[process("0"), process("0-1")])}),  # widened to all that are usable
    ("pinned", FAIL, {"cpus": cpus(processes=[process("0"), process("1", "0-2")])}),  # changed on the way
    ("pinned", FAIL, {"cpus": cpus(processes=[process("0"), process("1", threads=["1", "2"])])}),  # rebound
    ("pinned", FAIL, {"cpus": cpus(processes=[process("0", count=2)])}),
    ("pinned", FAIL, {"cpus": cpus({"0-1": 1, "2-3": 1}, processes=[process("0"), process("2-3")])}),  # by a cpuset
    ("pinned", FAIL, {"cpus": beside(process("0-2", role="helper"))}),
    ("pinned", FAIL, {"cpus": on_second(processes=[*CPUS["processes"], process("2", role="agent")])}),
    # threads that keep to a part of their rank's CPUs, a helper on a usable CPU and one that ended, workers that share
    ("pinned", PASS, {"cpus": cpus({"0-1": 2}, processes=[process("0-1", count=2, threads=["0-1", "0"])])}),
    ("pinned", PASS, {"cpus": beside(process("1", role="helper"), process(role="helper", count=2))}),
    ("pinned", UNCHECKED, {"cpus": None}),
    ("pinned", UNCHECKED, {"cpus": cpus(planned=None)}),
    ("pinned", UNCHECKED, {"cpus": on_second(seen=1)}),
    ("pinned", UNCHECKED, {"cpus": on_second(looks=LOOKS - 1)}),
    ("pinned", PASS, {"cpus": on_second(looks=LOOKS)}),
    ("pinned", UNCHECKED, {"cpus": cpus(gap_s=31.0)}),
    # of several phases that one command runs, each needs its looks
    ("pinned", PASS, {"tool": "mdtest", "cpus": cpus(gap_s=3.0)}),
    ("pinned", UNCHECKED, {"tool": "mdtest", "cpus": cpus(gap_s=4.0)}),
    ("pinned", UNCHECKED, {"tool": "mdtest", "cpus": cpus(), "runtime_s": None}),
    ("reserved_cpus", PASS, {}),
    ("reserved_cpus", PASS, {"cpus": cpus(planned=None)}),
    ("reserved_cpus", FAIL, {"cpus": cpus(reserved="1")}),
    ("reserved_cpus", FAIL, {"cpus": cpus(planned=None, processes=[process("0-2", count=2, role="rank")])}),
    ("reserved_cpus", FAIL, {"cpus": beside(process("0", threads=["0", "2"]), process("0-2", role="agent"))}),
    ("reserved_cpus", NO, {"cpus": cpus(reserved="", by=[])}),
    ("reserved_cpus", UNCHECKED, {"cpus": None}),
    ("reserved_cpus", UNCHECKED, {"cpus": on_second(reserved=None, by=["/proc/mounts /w"])}),
    ("reserved_cpus", UNCHECKED, {"cpus": on_second(seen=1)}),
    ("reserved_agree", PASS, {}),
    ("reserved_agree", FAIL, {"cpus": cpus(problems=["weka says 2, and /proc/mounts 3"])}),
    ("reserved_agree", FAIL, {"cpus": on_second(problems=["they differ"])}),
    ("reserved_agree", UNCHECKED, {"cpus": None}),
    ("exit_status", PASS, {}),
    ("exit_status", FAIL, {"exit_code": 1, "stderr": "\n no space\nmore"}),
    ("exit_status", FAIL, {"timed_out": True, "wall_s": 75.0}),
    ("exit_status", FAIL, {"flooded": True}),
    ("exit_status", FAIL, {"left_behind": ("fio (pid 7) on n2",)}),
    ("exit_status", FAIL, {"not_run": "not run: Disk quota exceeded: x"}),
    ("output", PASS, {}),
    ("output", FAIL, {"problems": ("cut", "here")}),
    ("tool_errors", PASS, {}),
    ("tool_errors", FAIL, {"errors": ["error 28: fio: no space"]}),
    ("tool_errors", UNCHECKED, {"errors": None}),
    ("tool_doubts", PASS, {"doubts": []}),
    ("tool_doubts", FAIL, {"doubts": ["partial read()", "a | b"]}),
    ("direction", PASS, {}),
    ("direction", FAIL, {"silent_directions": ["read", "write"]}),
    ("direction", FAIL, {"unasked_directions": ["read"]}),
    ("direction", UNCHECKED, {"silent_directions": None}),
    ("arithmetic", FAIL, {"rate_times_runtime_bytes": 41_500_000}),
    ("arithmetic", FAIL, {"ops": 9_800}),
    ("arithmetic", UNCHECKED, {"transferred_bytes": None}),
    ("arithmetic", PASS, {"rate_times_runtime_bytes": 41_500_000, "clock_s": 0.1}),
    ("arithmetic", FAIL, {"phase": "create", "ops_per_s": 2000.0}),
    ("workers", PASS, {}),
    ("workers", PASS, {"worker_seconds": 19.7}),
    ("workers", FAIL, {"worker_seconds": 19.0}),
    ("workers", UNCHECKED, {"worker_seconds": None}),
    ("workers", NO, ONE_PASS),
    ("workers", PASS, {"tasks": 6, "nodes": 3, "ran_on": 3}),
    # each rank believes that it is alone: the launcher and the program know different MPIs
    ("workers", FAIL, {"tasks": 1}),
    ("workers", FAIL, {"tasks": 4, "nodes": 2, "ran_on": 1}),
    ("volume", PASS, {"transferred_bytes": 48 * GIB, "nodes": 2, "files_per_thread": 3} | ONE_PASS),
    ("volume", FAIL, {"transferred_bytes": 8 * GIB - 4096} | ONE_PASS),
    ("volume", UNCHECKED, {"transferred_bytes": None} | ONE_PASS),
    ("duration", PASS, {"runtime_s": 9.81}),
    ("duration", FAIL, {"runtime_s": 9.7}),
    ("duration", FAIL, {"runtime_s": 0.019, "seconds": 0.01}),
    ("duration", FAIL, {"runtime_s": 0.0019, "clock_s": 0.0001} | ONE_PASS),
    ("duration", PASS, {"runtime_s": 0.0021, "clock_s": 0.0001} | ONE_PASS),
    ("duration", UNCHECKED, {"runtime_s": None}),
    ("duration", FAIL, TWO_NODES | SHORT),
    ("long_enough", NO, {}),
    ("long_enough", PASS, {"runtime_s": 0.021} | ONE_PASS),
    ("long_enough", FAIL, {"runtime_s": 0.008} | ONE_PASS),
    ("overtime", PASS, {"runtime_s": 10.49}),
    ("overtime", FAIL, {"runtime_s": 10.6, "phase": "rand_read"}),
    ("overtime", PASS, {"runtime_s": 18.0}),
    ("overtime", FAIL, {"runtime_s": 18.0, "latency_max_s": 8.1}),  # an I/O hung
    ("overtime", FAIL, {"runtime_s": 18.0, "fsync": False}),
    ("common_window", NO, {}),
    ("common_window", UNCHECKED, TWO_NODES | {"windows": {}}),
    ("common_window", PASS, TWO_NODES | {"windows": {"n1": (5.0, 15.0), "n2": (5.25, 15.0)}}),  # 2 %, and 50 ms
    ("common_window", FAIL, TWO_NODES | {"windows": {"n1": (5.0, 15.0), "n2": (5.27, 15.0)}}),
    ("common_window", FAIL, TWO_NODES | EARLY),
    # of a volume, n1 has written its share in half the time: that is no fault
    ("common_window", PASS, TWO_NODES | ONE_PASS | EARLY),
    ("common_window", FAIL, TWO_NODES | ONE_PASS | EARLY | {"windows": {"n1": (5.0, 10.0), "n2": (5.4, 15.1)}}),
    ("queue_depth", FAIL, {"queue_depth": 16}),
    ("queue_depth", PASS, {"queue_depth": 256, "depth_percent": {"32": 40.0, ">=64": 60.0}, "latency_mean_s": 0.4}),
    ("queue_depth", FAIL, {"queue_depth": 32, "depth_percent": {"32": 100.0}}),
    # a flush of 20 s is no time in which I/Os are issued, and of one volume it is not known
    ("queue_depth", PASS, {"runtime_s": 30.0, "worker_seconds": 60.0, "ops_per_s": 333.0}),
    ("queue_depth", PASS, {"runtime_s": 30.0, "worker_seconds": 60.0} | ONE_PASS),
    ("queue_depth", FAIL, {"phase": "rand_read", "runtime_s": 30.0, "worker_seconds": 60.0} | ONE_PASS),
    ("queue_depth", FAIL, {"o_direct": False, "completion_latency_mean_s": 14e-3}),
    ("queue_depth", UNCHECKED, {"depth_percent": None}),
    ("queue_depth", NO, {"queue_depth": 1}),
    ("data_complete", PASS, {}),
    ("data_complete", FAIL, {"files": files(wrong=["0.0 is missing"]), "not_run": "not run: 0.0 is missing"}),
    ("data_complete", UNCHECKED, {"files": {"role": "write"}}),
    ("no_holes", PASS, {}),
    ("no_holes", FAIL, {"files": files(holes="found")}),
    ("no_holes", UNCHECKED, {"files": files(holes="hidden: this file system shows no holes")}),
    ("unchanged", PASS, {"phase": "rand_mixed"}),
    ("unchanged", FAIL, {"phase": "rand_read", "files": files(role="read", changed=["0.0 has unwritten extents"])}),
    ("unchanged", UNCHECKED, {"phase": "rand_read", "files": files(role="read", unclear="seen late")}),
    ("stayed_new", NO, {"phase": "rand_read", "write_mode": "new"}),
    ("stayed_new", PASS, {"write_mode": "new"}),
    ("stayed_new", FAIL, {"write_mode": "new", "file_size": 1 << 20}),
    ("stayed_new", UNCHECKED, {"write_mode": "new", "bytes_written": None}),
    ("file_count", PASS, {"phase": "create", "leftover_expected": 200, "leftover": 200}),
    ("file_count", FAIL, {"phase": "create", "leftover_expected": 200, "leftover": 199}),
    ("file_count", UNCHECKED, {"phase": "delete", "leftover_expected": 0}),
    ("client_cache", PASS, {}),
    ("client_cache", UNCHECKED, {"echo": NOT_REPORTED, "phase": "rand_read", "memory": 5 * GIB}),
    ("client_cache", FAIL, BUFFERED | {"memory": 5 * GIB, "bytes_read": 20 * GIB}),
    # in another order each time: of 8 GiB, 1 GiB can have been there
    ("client_cache", UNCHECKED, BUFFERED | {"bytes_read": GIB}),
    # eight nodes of 1 GiB that read 1 GiB each: 8 GiB are no more than each of them can keep
    ("client_cache", FAIL, BUFFERED | EIGHT),
    ("client_cache", PASS, BUFFERED | EIGHT | {"files": SET, "bytes_read": 16 * GIB}),
    ("client_cache", FAIL, BUFFERED | EIGHT | {"files": SET, "bytes_read": 16 * GIB,
     "memory": EIGHT["memory"] | {"n5": 2 * GIB}}),
    ("client_cache", FAIL, BUFFERED | EIGHT | {"files": SET | {"set_bytes": 160 * GIB}, "phase": "seq_read",
     "each_node": {f"n{k}": Parsed(figures={"bytes_read": (20 - (k == 3) * 19) * GIB}) for k in range(8)}}),
    ("client_cache", UNCHECKED, {"moved": moved(device="")}),
    ("client_cache", UNCHECKED, {"mount": "b on /t type ext4 (rw,data=journal)"}),
    ("client_cache", UNCHECKED, {"fstype": "btrfs", "mount": "b on /t type btrfs (rw,compress-force=zstd:3,ssd)"}),
    ("client_cache", UNCHECKED, {"fstype": "zfs"}),
    # the lower of the tool's own and the device's
    ("reached", PASS, READ | {"moved": moved(tool_read_bytes=95_000_000, device_read_bytes=1 << 40)}),
    ("reached", FAIL, READ | {"moved": moved(tool_read_bytes=94_000_000, device_read_bytes=1 << 40)}),
    # a device that did not count what was written to it
    ("reached", UNCHECKED, {"moved": moved(tool_written_bytes=None, device_written_bytes=0),
     "files": files(counted={"device": 0.0})}),
    ("reached", UNCHECKED, BELOW_OVERLAY),
    ("reached", FAIL, BELOW_OVERLAY | {"files": files(counted={"tool": 1.0})}),
    ("reached", FAIL, {"o_direct": False, "bytes_written": 80 * GIB, "moved": moved(device_written_bytes=7 * GIB,
     tool_written_bytes=9 * GIB)}),
    ("reached", UNCHECKED, {"o_direct": False, "fsync": False}),
    ("reached", FAIL, {"fstype": "tmpfs"}),
    ("reached", UNCHECKED, {"fstype": "tmpfs", "type": "tmpfs"}),
    ("reached", FAIL, {"moved": moved(memory="zram0")}),
    ("reached", FAIL, NFS | {"moved": over_nfs(4_100_000)}),
    # the network alone: it tells what is missing if it saw a data set, and else only that there was enough
    ("reached", PASS, FUSE | {"moved": moved(sent_bytes=50_000_000)}),
    ("reached", UNCHECKED, FUSE | {"moved": moved(sent_bytes=4_100_000)}),
    # MooseFS, with io_uring: 2,516 MiB into 64 MiB, and 247 MiB on the wire; and less than the 64 MiB
    ("reached", FAIL, OVERWRITTEN | {"moved": moved(sent_bytes=247 << 20)}),
    # nodes on which the tool was started one by one
    ("reached", FAIL, TWO_NODES | {"moved": RUN["moved"] | {"n2": RUN["moved"]["n1"] | {"tool_written_bytes": 4_096}}}),
    ("reached", UNCHECKED, TWO_NODES | {"moved": RUN["moved"]}),
    ("server_cache", PASS, SERVED | {"server_cache": 4 * GIB}),
    ("server_cache", FAIL, SERVED | {"server_cache": 5 * GIB}),
    ("server_cache", UNCHECKED, SERVED | {"server_cache": GIB, "bytes_read": GIB}),
    ("durable", UNCHECKED, {"echo": NOT_REPORTED}),
    ("durable", FAIL, {"fsync": False}),
    ("durable", FAIL, {"not_flushed": "fsync() is not available with MPIIO"}),
    ("durable", FAIL, {"moved": moved(device_flushes=0)}),
    ("durable", PASS, {"moved": moved(device_flushes=1)}),
    ("durable", PASS, {"o_direct": False, "bytes_written": 8 * GIB}),
    ("durable", FAIL, {"o_direct": False, "bytes_written": 9 * GIB}),
    # a tool that repeats its random data: the pages that come again are known, the others have to be random
    ("incompressible", UNCHECKED, WRITTEN | {"repeats": "known", "files": sampled(repeated_bytes=3 << 17)}),
    ("incompressible", FAIL, WRITTEN | {"repeats": "known", "files": sampled(compressed_bytes=1 << 18)}),
    # what was there before the phase was random: it shows nothing
    ("incompressible", UNCHECKED, {}),
    ("incompressible", PASS, {"phase": "seq_write"}),  # its first blocks were read
    # what was never written of a new file is no data
    ("incompressible", PASS, {"files": sampled(role="fresh", zero_bytes=1 << 18, compressed_bytes=1 << 18)}),
    ("incompressible", UNCHECKED, {"files": sampled(role="fresh", zero_bytes=1 << 19, compressed_bytes=8)}),
    ("other_reader", UNCHECKED, {"phase": "rand_read", "nodes": 2}),
    ("other_reader", PASS, {"phase": "rand_read", "nodes": 2, "files": {"self_readers": []}}),
    ("other_reader", FAIL, {"phase": "rand_read", "nodes": 2, "files": {"self_readers": ["n2"]}, "o_direct": False}),
    ("other_reader", PASS, {"phase": "rand_read", "nodes": 2, "shift": 2}),
    ("other_reader", FAIL, {"phase": "rand_read", "nodes": 2, "shift": 1}),
    ("plausible", UNCHECKED, {}),
    ("plausible", FAIL, {"node_bandwidth": 3 << 20}),
    ("plausible", PASS, {"node_bandwidth": 3 << 20, "nodes": 2}),
    ("other_load", FAIL, {"load": {"other": 0.0, "steal": 0.4}}),
    ("other_load", UNCHECKED, {"load": None}),
    # a FUSE daemon that works for the tool is not others
    ("other_load", PASS, {"load": {"other": 0.02, "steal": 0.0, "client": 0.4}}),
    ("other_load", UNCHECKED, {"load": {"other": 0.4, "steal": 0.0, "client": None}, "fstype": "fuse.mfs"}),
    ("other_load", UNCHECKED, {"load": {"other": 0.0, "steal": 0.0, "host": "n2", "unread": ["n1"]}, "nodes": 2}),
    ("other_load", UNCHECKED, {"load": {"other": None, "steal": 0.0}}),
    # one CPU of 128, which a worker was bound to
    ("other_load", FAIL, {"nodes": 2, "load": {"other": 0.008, "steal": 0.0,
     "bound": bound("5", 0.5, "n2", {"name": "burn", "user": "eve", "share": 0.5})}}),
    ("other_load", PASS, {"load": {"other": 0.01, "steal": 0.0, "bound": bound("5", 0.02)}}),
    ("cpu_quota", UNCHECKED, {}),
    ("cpu_quota", FAIL, quota(100, 50, 4.2) | {"nodes": 2}),
    ("cpu_quota", PASS, quota(100, 4, 0.3)),
    ("cpu_quota", PASS, quota(100, 50, 0.1)),
    ("io_limit", FAIL, {"moved": moved(io_limits={"wbps": 5 * MB})}),  # 4.8 MB/s were written
    ("io_limit", FAIL, {"moved": moved(io_limits={"wiops": 100})}),
    ("io_limit", PASS, {"moved": moved(io_limits={"wbps": 10 * MB, "wiops": 10**6, "riops": 1})}),
    ("io_limit", PASS, {}),
    ("io_limit", NO, {"fstype": "nfs4"}),
    ("other_io", UNCHECKED, {"moved": {}}),
    # journal and inodes of 10,000 writes of 4 KiB
    ("other_io", PASS, device_io(own=41 * MB, device=170 * MB)),
    ("other_io", PASS, device_io(own=41 * MB, device=1000 * MB, dirty=900 * MB)),  # an honest flush
    ("other_io", FAIL, device_io(own=None, device=1000 * MB)),  # by what the tool says
    ("other_io", PASS, device_io(own=41 * MB, device=42 * MB, device_read=60 * MB)),
    ("other_io", PASS, device_io(own=41 * MB, device=180 * MB, calibrated=2.0) | {"mount": "b on /t (data=journal)"}),
    # no file system writes twice to a single disk: somebody else wrote while the data set was written
    ("other_io", FAIL, device_io(own=1000 * MB, device=7000 * MB, calibrated=7.0)),
    ("exclusive", PASS, {}),
    ("exclusive", UNCHECKED, {"exclusive": None}),
    ("exclusive", UNCHECKED, {"exclusive": {"enforced": False, "evidence": "no locks there"}}),
    ("steady", PASS, {"series": [series()]}),
    ("steady", UNCHECKED, {}),
    ("steady", UNCHECKED, {"seconds": 2.0, "runtime_s": 2.0, "series": [series(20 * [4e6], 0.1)]}),
    ("steady", FAIL, {"seconds": 2.0, "runtime_s": 2.0, "series": [series(20 * [4e6], 0.1)], "shortest_s": 10.0}),
    ("steady", FAIL, {"series": [series(10 * [4e6] + 10 * [3e6])]}),  # a drop
    ("steady", FAIL, {"series": [series([4e6 + 3e4 * k for k in range(20)])]}),  # a slope of 12 %
    ("steady", PASS, {"series": [series([4e6 + 2e4 * k for k in range(20)])]}),
    ("steady", FAIL, {"series": [series(20 * [4e6], host="n1"), series(10 * [4e6] + 10 * [1e6], host="n2")]}),
    ("steady", UNCHECKED, {"series": [series(20 * [0.5, 1.5], 0.25)], "ops_per_s": 2.0}),
    ("even", PASS, {"node_rates": [NodeRate("", k, rate) for k, rate in enumerate((4e5, 4e6))]}),
    ("even", FAIL, {"node_rates": [NodeRate("", k, rate) for k, rate in enumerate((1e5, 4e6))]}),
    ("even", UNCHECKED, {"node_rates": [NodeRate("", k, 4e5 if k == 5 else 4e6) for k in range(8)], "ops": 700}),
    ("even", FAIL, ranks(100, 10, 100) | ONE_PASS),
    ("even", PASS, ranks(100, 100, 100, 100, 100, 10, 10, 10) | ONE_PASS),  # so many are no stragglers
    ("even", UNCHECKED, ranks(100, 10, 100, usable="0-1") | ONE_PASS),
]  # fmt: skip
#: Checks that nothing of this machine can fail yet; not one that has a `failed` in it.
CANNOT_FAIL = {"exclusive"}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_finds_what_is_wrong_and_passes_what_is_well(check: Check) -> None:
    tried = set()
    for name, outcome, changes in CASES:
        if name == check.name:
            found = check.find(seen(**changes))
            assert found.outcome == outcome, (changes, found)
            assert bool(found.evidence) == (outcome != NO)  # whatever is said is said with a reason
            tried.add(outcome)
    assert tried >= {PASS, FAIL} - ({FAIL} if check.name in CANNOT_FAIL else set())


def test_each_finding_has_its_evidence(snapshot: SnapshotAssertion) -> None:
    looks = {check.name: check.find for check in CHECKS}
    found = [(name, looks[name](seen(**changes))) for name, _, changes in CASES]
    assert "\n".join(f"{name}: {one.outcome}: {one.evidence}" for name, one in found) == snapshot


def test_ranks_were_seen_where_they_were_asked_for() -> None:
    for ran_on, outcome in (
        ({}, PASS),  # a wrapper, or too short to see
        ({"n1": 1, "n2": 2}, PASS),  # of some only a part was seen
        ({"n1": 2, "n2": 0}, FAIL),
        ({"n1": 3, "n2": 2}, FAIL),
    ):
        told = seen(tasks=4, nodes=2, ran_on=2, tool="ior")
        run = replace(told, run=structs.replace(told.run, ran_on=ran_on))
        assert verdict.judge_phase(run)["workers"].outcome == outcome, ran_on


def test_no_mask_passes_unless_those_of_all_ranks_and_workers_were_read() -> None:
    one, checks = CPUS["processes"][0], [check for check in CHECKS if check.name in ("pinned", "reserved_cpus")]
    for own in ([], [one], [one, process()], [one, process("1", role="helper")]):
        for known in (cpus(processes=own), on_second(processes=own), cpus(planned=None, processes=own)):
            assert PASS not in [check.find(seen(cpus=known)).outcome for check in checks], own


def test_a_pass_needs_evidence() -> None:
    with pytest.raises(ValueError, match="evidence"):
        passed("")


def test_a_verdict_is_that_of_the_worst_check_with_the_cause_before_its_consequences() -> None:
    slow, cut, error = ("durable", failed("slow")), ("output", failed("cut → off")), ("tool_errors", failed("EIO"))
    fine = [("output", passed("x")), ("durable", unchecked("y")), ("workers", NOT_APPLICABLE)]
    for chosen, expected in (
        (fine, ("valid", ())),
        ([slow], ("suspect", ("slow",))),
        ([cut, slow], ("invalid", ("cut > off", "slow"))),
        # a failure of the run explains what its output lacks, and nothing else
        ([slow, cut, error, ("exit_status", failed("exit"))], ("invalid", ("exit → cut > off → EIO", "slow"))),
    ):
        assert verdict.verdict_of(dict(chosen)) == expected
    assert findings.CONSEQUENCES | set(findings.ROOTS) <= {check.name for check in CHECKS}


def test_only_what_another_try_can_cure_is_tried_again() -> None:
    for changes, again in (
        ({}, False),
        ({"exit_code": 1}, False),  # would fail again
        ({"not_run": "not run: no"}, True),  # what could not be made ready, or started
        ({"not_run": "not run: No space left on device: x"}, False),  # would be full again
        ({"exit_code": 1, "stderr": "Disk quota exceeded"}, False),
        ({"exit_code": 1, "stderr": "Stale file handle"}, True),
        ({"exit_code": -9}, True),
        ({"exit_code": -11}, False),  # a segmentation fault comes again
        ({"timed_out": True}, True),
        ({"wall_s": 60.0}, True),  # the machine may have been stopped
        ({"load": {"other": 0.0, "steal": 0.5}}, True),
    ):
        found = verdict.retry(verdict.judge_phase(seen(**changes)).values())
        assert bool(found) == again, changes


def test_the_cause_of_an_error_says_whether_another_try_may_help() -> None:
    """In the C library's words, which tools print whatever the locale, as they do not set one."""
    for number, retry in ((errno.ENOSPC, False), (errno.EIO, False), (errno.ESTALE, True), (errno.ENOTCONN, True)):
        found = cause(f"fio: pid=7, err={number}/file:filesetup.c:240, func=write, error={os.strerror(number)}\n")
        assert found, number
        assert (found.retry, found.server, found.full) == (retry, retry, number == errno.ENOSPC), number
    assert cause("fio: bad option, no space, error 28") is None


def test_what_was_not_run_passes_nothing() -> None:
    # exit code 0 is what a run has that never was; it says nothing about O_DIRECT
    run = phase_run(RUN | {"not_run": "not run: no space"})
    found = verdict.judge_phase(Observation(seen().point, PHASES["rand_write"], run, Parsed(), ON_TARGET, {"n1": GIB}))
    assert verdict.verdict_of(found) == ("invalid", ("not run: no space",))
    assert set(found) == {"exit_status"}
    # but the reason why not
    wrong = seen(not_run="not run: 0.0 has unwritten extents", files=files(wrong=["0.0"], holes="found"))
    assert set(verdict.judge_phase(wrong)) == {"data_complete", "no_holes"}
