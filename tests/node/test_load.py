"""Who used the CPUs of this node: the tool, the file system's client, the kernel, or others."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from iosweep.node import counters as io_counters
from iosweep.node import load, monitor, procfs
from iosweep.node.counters import IoCounters
from iosweep.node.load import (
    Bound,
    Cpu,
    Cpus,
    Job,
    Key,
    Kind,
    Load,
    MachineCounters,
    NodeLoad,
    Other,
    Process,
    Reader,
    Snapshot,
    Surroundings,
    Throttled,
    combine,
    io_limits,
    quotas,
    shares,
)
from iosweep.node.monitor import NodeWatch

STAT = b"""cpu  99 99 99 99 99 99 99 99 0 0
cpu0 100 10 50 800 20 5 5 10 0 0
cpu1 200 0 100 700 0 0 0 0 0 0
cpu10 1 1 1 1
intr 5
ctxt 4500
btime 1700000000
"""


def test_cpus_that_are_not_reserved() -> None:
    booted = MachineCounters(1_700_000_000, 4500, 0)
    each = {0: Cpu(160, 1000), 1: Cpu(300, 1000), 10: Cpu(3, 4)}
    assert load.cpu_times(STAT) == Cpus(463, 1000 + 1000 + 4, 10, booted, each)
    assert load.cpu_times(STAT, frozenset({1, 10})) == Cpus(160, 1000, 10, booted, {0: each[0]})


RANK, DAEMON, KTHREAD = ("10", b"5"), ("7", b"2"), ("2", b"1")


def look(at_s: float, busy: int, total: int = 0, **kinds: Mapping[Key, int]) -> Snapshot:
    processes = {key: Process(kind, ticks) for kind, found in kinds.items() for key, ticks in found.items()}  # type: ignore[arg-type]
    return Snapshot(at_s, Cpus(busy, total, 0), processes)


def record(*looks: Snapshot, client_is_process: bool = False) -> Load:
    found = combine({"n1": shares(looks, client_is_process)})
    assert found
    return found


def made(end: Snapshot, client_is_process: bool = False, **kinds: Any) -> dict[str, Any]:
    """By a snapshot of a node where nothing was used yet, and one 10 s later."""
    found = record(look(0.0, 0, **kinds), end, client_is_process=client_is_process)
    return {name: getattr(found, name) for name in ("other", "client")}


KERNEL: dict[str, Any] = {"kernel": {KTHREAD: 0}}


def test_what_the_tool_the_kernel_and_the_client_did_not_use_is_others() -> None:
    for end, expected in (
        # of 1,000 ticks others used 300, in the kernel as well as outside
        (look(10, 300, 1000, **KERNEL), 0.3),
        # less the tool, and what the kernel's threads did for it
        (look(10, 300, 1000, ours={RANK: 200}, kernel={KTHREAD: 40}), 0.06),
        # less the target's client
        (look(10, 300, 1000, client={DAEMON: 200}, **KERNEL), 0.1),
    ):
        assert made(end, **KERNEL)["other"] == expected, end


def test_others_are_not_known_where_the_threads_of_the_kernel_are_hidden() -> None:
    assert made(look(10, 300, 1000, client={DAEMON: 200})) == {"other": None, "client": 0.2}


def test_what_a_process_had_used_before_is_not_of_this_time() -> None:
    end = look(10, 100, 1000, ours={RANK: 5100}, **KERNEL)
    before = {"ours": {RANK: 5050}, **KERNEL}
    assert made(end, **before) == {"other": 0.05, "client": 0.0}
    # nor where it was not known to be ours
    assert made(end, other={RANK: 5050}, **KERNEL) == {"other": 0.05, "client": 0.0}


ONE: dict[str, Any] = {"busy": 0.5, "ours": 0.2, "client": 0.2, "steal": 0.0, "window_s": 9.0}


def node_load(**changes: Any) -> NodeLoad:
    return msgspec.convert(ONE | changes, NodeLoad)


def counters(*values: int) -> dict[str, int]:
    return dict(zip(MachineCounters.__struct_fields__, values, strict=True))


def test_the_worst_of_several_nodes() -> None:
    one, two, three = ([counters(n, 5, 5), counters(n, 9, 9)] for n in (1, 2, 3))
    busier = {"busy": 0.6, "client": 0.0, "window_s": 8.0, "machine": two}
    slower = node_load(steal=0.3, machine=three)
    assert combine({"n1": node_load(machine=one), "n2": node_load(**busier), "n3": slower}) == Load(
        other=0.4, steal=0.3, client=0.2, window_s=8.0, host="n2", unread=()
    )
    found = combine({"n1": slower, "n2": None, "n3": node_load(**busier | {"client": None})})
    assert found and (found.client, found.unread) == (None, ("n2",))


def test_nodes_that_are_one_machine_share_what_is_ours() -> None:
    """Containers, or several slurmd on a machine; its counters tell it, by what they count at the same time."""
    first = [counters(1, 50, 5), counters(1, 80, 8)]
    for second, other in (
        ([counters(1, 60, 6), counters(1, 90, 9)], 0.1),
        ([counters(2, 60, 6), counters(2, 90, 9)], 0.5),  # booted at another time
        ([counters(1, 81, 6), counters(1, 90, 9)], 0.5),  # at the same second, and it had switched more before
    ):
        one, two = (node_load(busy=0.9, ours=ours, machine=at) for ours, at in ((0.4, first), (0.2, second)))
        found = combine({"n1": one, "n2": two})
        assert found and found.other == other, second


# CPUs that ranks or workers are bound to


def bound_look(at_s: float, busy: dict[int, int], threads: dict[Key, Process], hog: Process | None = None) -> Snapshot:
    """`busy`: ticks in user mode of each CPU since the start, whose ticks are 100 a second."""
    each = {cpu: Cpu(used, round(100 * at_s)) for cpu, used in busy.items()}
    total = Cpus(sum(busy.values()), sum(cpu.total for cpu in each.values()), 0, each=each)
    processes = {KTHREAD: Process("kernel", 0)} | ({HOG: hog} if hog else {})
    return Snapshot(at_s, total, processes, threads)


HOG = ("77", b"1")
ALONE = [frozenset({cpu}) for cpu in range(4)]


def used_on(cpu: int, ranks: dict[int, int], hog: int, known: int = 0) -> NodeLoad:
    """Ten seconds of 128 CPUs, with a rank on each of four; on one CPU a process of others, and a kernel's thread."""
    ours = {(f"1{each}", b"1"): Process("ours", ticks, cpu=each) for each, ticks in ranks.items()}
    busy = dict.fromkeys(range(128), 0) | ranks
    busy[cpu] = ranks.get(cpu, 0) + hog + known
    before = bound_look(0, dict.fromkeys(busy, 0), {key: one._replace(ticks=0) for key, one in ours.items()})
    stress = Process("other", hog, hog, cpu, "stress")
    after = bound_look(10, busy, ours | {KTHREAD: Process("kernel", known, cpu=cpu)}, stress)
    found = shares([before, after], False, ALONE, lambda pid: {"77": "eve"}.get(pid))
    assert found
    return found


def test_a_process_on_the_cpu_of_a_rank() -> None:
    ranks = {0: 990, 1: 980, 2: 490, 3: 1000}
    assert used_on(2, ranks, 500).bound == Bound("2", 0.5, top=(Other("stress", "eve", 0.5),))
    assert used_on(100, ranks, 1000).bound == Bound("0", 0.0)  # one that no rank uses
    assert used_on(2, ranks, 0, known=500).bound == Bound("0", 0.0)  # the kernel's threads are nobody's


# What /proc shows, of processes that are made up


ME, RUNNER = 100, 90


class Proc:
    """A made-up /proc, with the agent and its runner."""

    def __init__(self, root: Path):
        self.root = root
        self.write("stat", STAT.decode())
        self.add(1, "systemd", 0)
        self.add(RUNNER, "python", 1, below=(5000, 0))
        self.add(ME, "python", RUNNER)

    def write(self, name: str, content: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def add(
        self,
        pid: int,
        name: str,
        parent: int,
        used: tuple[int, int] = (0, 0),
        below: tuple[int, int] = (0, 0),
        began: int = 50,
        flags: int = 0,
        cpus: Mapping[int, tuple[int, tuple[int, int]]] | None = None,
        environ: str = "",
    ) -> None:
        """`used`, `below`: ticks of its own, and of children that it waited for; `cpus`: thread -> its CPU, ticks."""

        def stat(thread: int, cpu: int, ticks: tuple[int, int]) -> str:
            times = [*ticks, *below, 0, 0, len(cpus or [pid]), 0, began]
            fields = ["S", parent, 0, 0, 0, 0, flags, 0, 0, 0, 0, *times, *[0] * 16, cpu, 0]
            return f"{thread} ({name}) {' '.join(map(str, fields))}\n"

        self.write(f"{pid}/stat", stat(pid, 0, used))
        for thread, (cpu, ticks) in (cpus or {pid: (0, used)}).items():
            self.write(f"{pid}/task/{thread}/stat", stat(thread, cpu, ticks))
        self.write(f"{pid}/environ", environ.replace(" ", "\0") + "\0")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(procfs, "PROC", str(tmp_path))
    monkeypatch.setattr(load.os, "getpid", lambda: ME)
    monkeypatch.setattr(load.os, "getppid", lambda: RUNNER)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return Proc(tmp_path)


def pids(found: Snapshot, kind: Kind) -> set[int]:
    return {int(pid) for pid, _ in found.of_kind(kind)}


def test_time_of_the_tool_and_of_children_that_ended_is_ours(proc: Proc) -> None:
    """The runner may have waited for anything before; what is not below us, and of no kernel thread, is others'."""
    proc.add(2, "kthreadd", 0, flags=0x200000, used=(0, 7))
    proc.add(110, "fio) a (b", ME, used=(10, 1), below=(300, 30))
    proc.add(111, "fio", 110, used=(20, 2))
    proc.add(80, "stress", 1, used=(40, 4), below=(1, 1))
    reader = Reader(Surroundings())
    found = reader.snapshot()
    used = {int(pid): (process.kind, process.ticks) for (pid, _), process in found.processes.items()}
    assert used.items() >= {
        ME: ("ours", 0), RUNNER: ("ours", 0), 110: ("ours", 341), 111: ("ours", 22),
        2: ("kernel", 7), 80: ("other", 46),
    }.items()  # fmt: skip
    stress = found.processes["80", b"50"]
    assert (stress.alone, stress.cpu, stress.name) == (44, 0, "stress")
    assert found.cpus == load.cpu_times(STAT)
    assert (pids(found, "client"), reader.client_is_process) == (set(), False)


def test_in_a_job_only_what_its_steps_start_from_now_on_is_ours(proc: Proc) -> None:
    """And the runner, where it is here. What the job's script runs beside us uses the node as anybody else would."""
    step = "SLURM_JOB_ID=7 SLURM_STEP_ID=0"
    proc.add(200, "slurmstepd", 1, began=60)
    proc.add(201, "ior", 200, began=61, environ=step)
    proc.add(202, "child", 201, began=62)
    proc.add(210, "ior", 1, began=59, environ=step)  # of an earlier step
    proc.add(211, "stress", 1, began=63, environ="SLURM_JOB_ID=7")  # of the batch script
    proc.add(212, "ior", 1, began=63, environ="SLURM_JOB_ID=77 SLURM_STEP_ID=0")
    assert pids(Reader(Surroundings(), Job(str(RUNNER), 60)).snapshot(), "ours") == {ME, RUNNER, 200, 201, 202}


def test_threads_are_told_by_their_cpus_where_ranks_are_bound_or_cpus_reserved(proc: Proc) -> None:
    """Of a client those on reserved CPUs do not count: these CPUs are in no sum."""
    proc.add(110, "fio", ME, cpus={110: (1, (10, 1)), 112: (10, (20, 2))})
    proc.add(70, "wekanode", 1, used=(70, 7), cpus={70: (0, (30, 3)), 71: (10, (40, 4))})
    found = Reader(Surroundings("wekafs", "/mnt/x", reserved="10")).snapshot()
    assert found.processes["70", b"50"].ticks == 33
    assert (pids(found, "client"), found.threads) == ({70}, {})
    assert found.cpus == load.cpu_times(STAT, frozenset({10}))
    found = Reader(Surroundings("wekafs", "/mnt/x", bound=("1",))).snapshot()
    assert found.processes["70", b"50"].ticks == 77
    threads = {int(pid): (one.kind, one.cpu, one.ticks) for (pid, _), one in found.threads.items()}
    used = {pid: thread for pid, thread in threads.items() if thread[2]}
    assert used == {110: ("ours", 1, 11), 112: ("ours", 10, 22), 70: ("client", 0, 33), 71: ("client", 10, 44)}


def test_a_client_is_known_by_its_name(proc: Proc) -> None:
    for pid, name in {60: "wekanode", 61: "weka_init", 62: "mmfsd", 63: "fio"}.items():
        proc.add(pid, name, 1)
    proc.add(64, "mfsmount", 1)
    for fstype, clients in (
        ("wekafs", {60, 61}), ("gpfs", {62}), ("ext4", set()), ("fuse.mfs", {64}), ("fuse", set()),
    ):  # fmt: skip
        reader = Reader(Surroundings(fstype, "/mnt/target"))
        assert pids(reader.snapshot(), "client") == clients, fstype
        assert reader.client_is_process == (fstype != "ext4"), fstype


class Time:
    """In place of `time` and `threading`: a thread runs when it is started, until the command has lasted so long."""

    def __init__(self, lasts_s: float):
        self.now, self._lasts_s = 0.0, lasts_s
        self.monotonic = self.thread_time = lambda: self.now

    def Event(self) -> "Time":
        return self

    def Thread(self, target: Callable[[], None], daemon: bool) -> SimpleNamespace:
        return SimpleNamespace(start=target, join=lambda: None)

    def wait(self, wait_s: float) -> bool:
        self.now = min(self.now + wait_s, self._lasts_s)
        return self.now >= self._lasts_s

    def set(self) -> None: ...


def test_a_node_is_looked_at_from_a_moment_after_the_start_to_the_end(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a command of 100.2 s, on a CPU that is busy for 60 % of its time; a moment is too few ticks."""
    proc.add(2, "kthreadd", 0, flags=0x200000)
    for lasts_s, window_s in ((0.19, None), (100.2, 100.0)):
        time = Time(lasts_s)
        for module in (load, monitor, io_counters):
            monkeypatch.setattr(module, "time", time)
        monkeypatch.setattr(monitor, "threading", time)
        busy = lambda *_: Cpus(round(60 * time.now), round(100 * time.now), 0)  # noqa: B023, E731
        monkeypatch.setattr(load, "cpu_times", busy)
        seen = NodeWatch(Surroundings(), IoCounters(procfs.UNLISTED, [])).end().load
        assert (seen and (seen.busy, seen.ours, seen.window_s)) == (window_s and (0.6, 0.0, window_s))


# CPU quotas, by the files of control groups


V2 = "usage_usec 9\nnr_periods 50\nnr_throttled 5\nthrottled_usec 1500000\n"
V1 = "nr_periods 50\nnr_throttled 5\nthrottled_time 1500000000\n"


def group(folder: Path, stat: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(stat)
    return folder


def test_quotas_of_groups_of_both_versions_and_of_those_above(tmp_path: Path) -> None:
    counted, nothing = Throttled(50, 5, 1.5), Throttled(0, 0, 0.0)
    job, top = group(tmp_path / "system/job_7", V2), group(tmp_path, "usage_usec 9\n")
    step = group(tmp_path / "system/job_7/step_0", V2)
    group(tmp_path / "system/job_8", V2)
    assert quotas("0::/system/job_7/step_0\n", tmp_path) == {step: counted, job: counted, top: nothing}
    old = group(tmp_path / "cpu,cpuacct/slurm", V1)
    assert quotas("4:memory:/a\n3:cpu,cpuacct:/slurm\n2:cpuset:/\n", tmp_path) == {old: counted}


def test_the_lowest_limit_of_io_counts_of_a_group_and_those_above(tmp_path: Path) -> None:
    for folder, limits in (("a/b", "8:0 rbps=9 wbps=max riops=7 wiops=max\n8:16 rbps=1\n"), ("a", "8:0 rbps=5\n")):
        (group(tmp_path / folder, V2) / "io.max").write_text(limits)
    assert io_limits(["8:0"], "0::/a/b", tmp_path) == {"rbps": 5, "riops": 7}
    assert io_limits([], "0::/a/b", tmp_path) == io_limits(["8:1"], "0::/a/b", tmp_path) == {}
