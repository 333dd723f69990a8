"""Faults of a distributed file system, each in the middle of a write or a read of a job on two nodes.

`hit` does one and returns what came of it (`Outcome`): the sentence of the job, how long it took, what stayed, and
whether the next job completes the campaign once the fault is gone.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from dfs import DATA, Dfs
from iosweep.results.store import Store
from slurm import ClusterError
from slurm_campaign import Case, Stage, until

#: Seconds of a frame on its way to and from a slow server.
SLOW_S = 0.05
#: Interval between questions to Slurm, each of which takes seconds on a busy machine.
_SELDOM_S = 30.0
#: How often a fault is done at most until it comes in time.
_TRIES = 3
#: Of a job that neither ends nor says anything.
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Fault:
    """`do` does it to a file system. `kinds`: of which, empty: of all. `patient`: with the time limits of a user,
    because it only takes longer."""

    do: Callable[[Dfs], object]
    kinds: tuple[str, ...] = ()
    patient: bool = False


def _both(verb: str) -> Callable[[Dfs], object]:
    return lambda dfs: [getattr(dfs, verb)(server) for server in DATA]


def _fill(dfs: Dfs, servers: Sequence[str]) -> None:
    """Take what is left, while fio takes some, too."""
    for leave_mib in (0, 8, 32):
        with contextlib.suppress(ClusterError):
            return dfs.fill(leave_mib, servers)


MOOSEFS = ("moosefs",)
FAULTS: dict[str, Fault] = {
    "data-server-stopped": Fault(lambda dfs: dfs.stop("s1")),
    "data-servers-stopped": Fault(_both("stop")),
    "data-server-killed": Fault(lambda dfs: dfs.kill("s1")),
    "data-server-off": Fault(lambda dfs: dfs.power_off("s1")),
    "data-servers-slow": Fault(lambda dfs: [dfs.slow(server, SLOW_S) for server in DATA], patient=True),
    "full": Fault(lambda dfs: _fill(dfs, DATA)),
    "one-server-full": Fault(lambda dfs: _fill(dfs, ["s1"])),
    "client-killed": Fault(lambda dfs: dfs.kill_client("n2")),
    "client-stopped": Fault(lambda dfs: dfs.stop_client("n2")),
    "metadata-stopped": Fault(lambda dfs: dfs.stop("m1"), MOOSEFS),
    "metadata-killed": Fault(lambda dfs: dfs.kill("m1"), MOOSEFS),
    "unmounted": Fault(lambda dfs: dfs.umount("n2")),
    "other-volume": Fault(lambda dfs: dfs.mount("n2", dfs.other_volume())),
}
#: Phases in which they come.
PHASES = {"write": "seq_write", "read": "seq_read"}


@dataclass
class Outcome:
    """What came of a fault.

    seconds: from it to the end of the job; ends: its exit code; said: its last sentence; stored: repetitions in the
    store then, with their verdicts; hanging: processes in state D that were left; again: the exit code of the next job,
    after `again_s`; late: it came after the repetition; wrong: how it differs from fault_outcomes.tsv.
    """

    kind: str
    fault: str
    phase: str
    seconds: float = 0.0
    ends: int | str = ""
    said: str = ""
    stored: tuple[str, ...] = ()
    hanging: int = 0
    again: int | str = ""
    again_s: float = 0.0
    late: bool = False
    wrong: tuple[str, ...] = ()


def sweep(phase: str, repetitions: int = 2) -> dict[str, Any]:
    """A point of fio on two nodes, past the caches."""
    options: dict[str, Any] = {"file_size": "8m", "transfer_size": "64k", "o_direct": True, "threads_per_node": 2}
    return {
        "name": "s", "tool": "fio", "phases": [PHASES[phase]], "axes": {"nodes": [2]}, "phase_time": "4s",
        "options": options | ({"write_mode": "new"} if phase == "write" else {}), "repetitions": repetitions,
    }  # fmt: skip


class NotBegun(AssertionError):
    """A job has ended before the fault was done."""


def case_on(dfs: Dfs, phase: str, place: Path, grace: str, deadline: str) -> Case:
    """A campaign on the file system, with a file of somebody else beside it."""
    case = Case(Stage(dfs.cluster, place, os.environ["PATH"]), [sweep(phase)], grace=grace, deadline=deadline)
    case.target = Path(dfs.at) / "scratch"
    dfs.cluster.run(["chmod", "755", dfs.at], on="n1")
    dfs.cluster.run(["mkdir", "-p", case.target / "theirs"], on="n1")
    dfs.cluster.run(["sh", "-c", f"echo precious > {case.target}/theirs/file"], on="n1")
    case.configure()
    return case


def hit(dfs: Dfs, fault: str, phase: str, place: Path, grace: str = "5s", deadline: str = "5s") -> Outcome:
    """Do a fault in the second repetition of a job, and let another job go on once it is gone.

    The file system is repaired, and empty of the campaign, afterwards. On a busy machine a fault may come too late,
    when the repetition is stored: then it is done once more.
    """
    if FAULTS[fault].patient:
        grace, deadline = "60s", "30s"
    for number in range(_TRIES):
        (place / str(number)).mkdir()
        try:
            found = _hit(dfs, fault, phase, place / str(number), grace, deadline)
        except NotBegun:  # a client that still waits for what was repaired
            if number == _TRIES - 1:
                raise
            dfs.repair()
            dfs.cluster.run(["rm", "-rf", Path(dfs.at) / "scratch"], on="n1", timeout=60)
            continue
        if not found.late:
            break
    return found


def _hit(dfs: Dfs, fault: str, phase: str, place: Path, grace: str, deadline: str) -> Outcome:
    found = Outcome(dfs.kind, fault, phase)
    case = case_on(dfs, phase, place, grace, deadline)
    job = case.submit()
    _wait_until_measuring(case, phase)
    began = time.monotonic()
    FAULTS[fault].do(dfs)
    found.late = len(case.records()) > 1
    with contextlib.suppress(AssertionError):
        until(lambda: job.over or time.monotonic() - began > PATIENCE_S)
    found.seconds = time.monotonic() - began
    found.ends, found.said = (job.end() if job.over else "does not end"), sentence(job.said())
    found.stored = tuple(f"r{r['repetition']} {_verdict(r)}" for r in case.records())
    found.hanging = sum(_hangs(process) for process in case.processes())
    before = case.committed()
    if not job.over:
        job.cancel()
        job.end()
    dfs.repair()
    case.nothing_lives()
    found.wrong = tuple(_go_on(case, dfs, found, before))
    dfs.cluster.run(["rm", "-rf", case.target], on="n1", timeout=60)
    return found


def _go_on(case: Case, dfs: Dfs, found: Outcome, before: dict[str, bytes]) -> list[str]:
    """Let the next job complete the campaign; what is wrong then."""
    wrong = []
    invalid = {row["point"] for row in case.rows() if row["verdict"] == "invalid"}
    if found.ends != 0 and any("invalid" in one for one in found.stored[1:]):
        wrong.append("something was stored that says nothing of the point")
    store = Store(case.results)
    for point in invalid:
        store.supersede(store.results_of(point)[1])
    case.configure(grace="5min")
    dfs.cluster.idle()
    began, job = time.monotonic(), case.submit()
    found.again, found.again_s = job.end(), time.monotonic() - began
    if found.again != 0:
        wrong.append(f"the next job ends with {found.again}: {sentence(job.said())}")
    rows, after = case.rows(), case.committed()
    # a busy machine makes fio's clock or its CPUs invalid; what is left would be missing
    if left := [row["reasons"] for row in rows if row["verdict"] == "missing"]:
        wrong.append(f"left: {left}")
    if {name: after.get(name) for name in before} != before:
        wrong.append("what was stored before is not as it was")
    if not before:
        wrong.append("nothing was stored before")
    theirs = dfs.cluster.run(["sh", "-c", f"cd {case.target}; find . -type f; cat theirs/file"], on="n2").stdout.split()
    if theirs != ["./theirs/file", "precious"]:
        wrong.append(f"on the target there is {theirs}")
    if "Traceback" in job.said():
        wrong.append("a traceback")
    return wrong


def _wait_until_measuring(case: Case, phase: str) -> None:
    """Wait until fio measures for the second time, and a second longer."""
    began = looked = time.monotonic()
    while not (_stored(case) and _measuring(case, phase)):
        if time.monotonic() - looked > _SELDOM_S:
            last, looked = case.over(), time.monotonic()
            if last is not None:
                raise NotBegun(f"the job has ended before: {last}")
        assert time.monotonic() - began < PATIENCE_S, "nothing is measured"
        time.sleep(0.05)
    time.sleep(1)


def _stored(case: Case) -> bool:
    return any(case.results.glob("points/*/r*.json"))


def _measuring(case: Case, phase: str) -> bool:
    """Whether a fio of the phase runs, on whatever node."""
    wanted = (f"--name={PHASES[phase]}".encode(), str(case.target).encode())
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes()
            if all(word in words for word in wanted):
                return True
    return False


def _hangs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_DISK_SLEEP)
    return False


def _verdict(record: dict[str, Any]) -> str:
    found = [f"{p['verdict']}: {p['reasons']}" if p["verdict"] == "invalid" else p["verdict"] for p in record["phases"]]
    return "/".join(found)


def sentence(said: str) -> str:
    """The sentence that a job ended with; its last line, if there is none."""
    lines = [line for line in said.splitlines() if line.strip()]
    ended = [line for line in lines if re.match(r"iosweep(:| measure)", line)]
    return (ended or lines or [""])[-1].strip()
