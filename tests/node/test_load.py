"""Who used the CPUs of this node: the tool, the file system's client, the kernel, or others."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iosweep.node import load, watching
from iosweep.node.cpu_record import Bound, Load, MachineCounters, NodeLoad, Other
from iosweep.node.load import Around, Cpu, Cpus, Look, OnCpu, Ticks, of_nodes, shares
from iosweep.node.node_facts import NodeFacts
from iosweep.results.checks.interference import OTHER_LOAD

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
    each = {0: Cpu(Ticks(110, 50), 1000), 1: Cpu(Ticks(200, 100), 1000), 10: Cpu(Ticks(2, 1), 4)}
    assert load.cpus(STAT) == Cpus(Ticks(312, 151), 1000 + 1000 + 4, 10, booted, each)
    assert load.cpus(STAT, frozenset({1, 10})) == Cpus(Ticks(110, 50), 1000, 10, booted, {0: each[0]})


RANK, HELPER, STEP, DAEMON, KTHREAD = ("10", b"5"), ("11", b"6"), ("9", b"4"), ("7", b"2"), ("2", b"1")
#: Who started whom, of ours.
PARENTS = {"9": "1", "10": "9", "11": "10"}


def look(at_s: float, busy: Ticks, total: int = 0, **kinds: Any) -> Look:
    made = Look(at_s, Cpus(busy, total, 0), **kinds)
    made.parents = {pid: PARENTS[pid] for pid, _ in made.ours}
    return made


def record(*looks: Look, client_is_process: bool = False) -> Load:
    found = of_nodes({"n1": shares(list(looks), client_is_process)})
    assert found
    return found


def made(end: Look, client_is_process: bool = False, **kinds: Any) -> dict[str, Any]:
    """By a look at a node where nothing was used yet, and one 10 s later."""
    found = record(look(0.0, Ticks(), **kinds), end, client_is_process=client_is_process)
    return {name: getattr(found, name) for name in ("other", "client", "user_only")}


KERNEL: dict[str, Any] = {"kernel": {KTHREAD: Ticks(0, 0)}}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        # of 1,000 ticks others used 300, in the kernel as well as outside
        (look(10, Ticks(200, 100), 1000, **KERNEL), 0.3),
        # less the tool, and what the kernel's threads did for it
        (look(10, Ticks(200, 100), 1000, ours={RANK: Ticks(150, 50)}, kernel={KTHREAD: Ticks(0, 40)}), 0.06),
        # less the target's client
        (look(10, Ticks(200, 100), 1000, client={DAEMON: Ticks(100, 100)}, **KERNEL), 0.1),
        # ticks are counted in different ways: never less than nothing
        (look(10, Ticks(200, 100), 1000, ours={RANK: Ticks(250, 90)}, **KERNEL), 0.0),
    ],
)
def test_what_is_left_is_others(end: Look, expected: float) -> None:
    assert made(end, **KERNEL)["other"] == expected


def test_what_a_process_had_used_before_is_not_of_this_time() -> None:
    end = look(10, Ticks(100, 0), 1000, ours={RANK: Ticks(5100, 0)}, **KERNEL)
    before = {"ours": {RANK: Ticks(5050, 0)}, **KERNEL}
    assert made(end, **before) == {"other": 0.05, "client": 0.0, "user_only": False}
    # nor where it was not known to be ours
    assert made(end, rest={RANK: Ticks(5050, 0)}, **KERNEL) == {"other": 0.05, "client": 0.0, "user_only": False}


def test_where_the_threads_of_the_kernel_are_hidden() -> None:
    """Then the kernel's time cannot be told apart, and others count by their time outside of it."""
    end = look(10, Ticks(200, 500), 1000, ours={RANK: Ticks(120, 10)})
    assert made(end) == {"other": 0.08, "client": 0.0, "user_only": True}


def test_a_client_that_is_a_process_and_was_not_found() -> None:
    assert made(look(10, Ticks(200, 0), 1000, **KERNEL), client_is_process=True)["client"] is None
    found = made(look(10, Ticks(200, 0), 1000, client={DAEMON: Ticks(100, 0)}, **KERNEL), client_is_process=True)
    assert found["client"] == 0.1


def test_processes_are_named_by_the_time_that_counts() -> None:
    """Their shares are of the same looks and kind of time as that of all others, which they cannot exceed."""
    others = [{("33", b"8"): OnCpu(0, Ticks(used, 0), "stress")} for used in (0, 200, 1100)]
    begin = look(0, Ticks(), ours={STEP: Ticks(), RANK: Ticks()}, on_others=others[0], **KERNEL)
    middle = look(5, Ticks(600, 0), 1000, ours={STEP: Ticks(), RANK: Ticks(400, 0)}, on_others=others[1], **KERNEL)
    gone = look(10, Ticks(1500, 0), 2000, on_others=others[2], **KERNEL)
    found = shares([begin, middle, gone], False)
    assert found
    assert [one.share for one in found.top] == [0.2]


@pytest.mark.parametrize("looks", [[], [look(0, Ticks())], [look(0, Ticks()), look(0.1, Ticks(1, 1), 20)]])
def test_too_short_to_tell(looks: list[Look]) -> None:
    assert shares(looks, False) is None


ONE: dict[str, Any] = {"busy": 0.5, "ours": 0.2, "client": 0.2, "steal": 0.0, "user_only": False, "window_s": 9.0}


def node_load(**changes: Any) -> NodeLoad:
    return msgspec.convert(ONE | changes, NodeLoad)


def counters(*values: int) -> dict[str, int]:
    return dict(zip(MachineCounters.__struct_fields__, values, strict=True))


def test_the_worst_of_several_nodes() -> None:
    one, two, three = ([counters(n, 5, 5), counters(n, 9, 9)] for n in (1, 2, 3))
    busier = {"busy": 0.6, "client": 0.0, "window_s": 8.0, "machine": two}
    slower = node_load(steal=0.3, machine=three)
    assert of_nodes({"n1": node_load(machine=one), "n2": node_load(**busier), "n3": slower}) == Load(
        other=0.4, steal=0.3, client=0.2, user_only=False, window_s=8.0, host="n2", unread=()
    )
    found = of_nodes({"n1": slower, "n2": None, "n3": node_load(**busier | {"client": None})})
    assert found and (found.client, found.unread) == (None, ("n2",))
    assert of_nodes({"n1": None, "n2": None}) is None


@pytest.mark.parametrize(
    ("machine", "other"),
    [
        ([[1, 60, 6], [1, 90, 9]], 0.1),
        ([[2, 60, 6], [2, 90, 9]], 0.5),  # booted at another time
        ([[1, 81, 6], [1, 90, 9]], 0.5),  # at the same second, and not the same machine: it had switched more before
        ([[1, 10, 6], [1, 49, 9]], 0.5),
        ([[1, 60, 9], [1, 90, 12]], 0.5),  # as many switches, and more processes
    ],
)
def test_nodes_that_are_one_machine(machine: list[list[int]], other: float) -> None:
    """Each sees the whole machine as busy, and of the ranks only its own: those of the other are ours as well."""
    first, second = ([counters(*values) for values in looks] for looks in ([[1, 50, 5], [1, 80, 8]], machine))
    one, two = (node_load(busy=0.9, ours=ours, machine=at) for ours, at in ((0.4, first), (0.2, second)))
    assert getattr(of_nodes({"n1": one, "n2": two}), "other", None) == other


# CPUs that ranks or workers are bound to


def bound_look(at_s: float, busy: dict[int, int], **kinds: Any) -> Look:
    """`busy`: ticks in user mode of each CPU since the start, whose ticks are 100 a second."""
    each = {cpu: Cpu(Ticks(used, 0), round(100 * at_s)) for cpu, used in busy.items()}
    total = Cpus(Ticks(sum(busy.values()), 0), sum(cpu.total for cpu in each.values()), 0, each=each)
    return Look(at_s, total, kernel={KTHREAD: Ticks()}, **kinds)


def on(cpu: int, ticks: int, name: str = "") -> OnCpu:
    return OnCpu(cpu, Ticks(ticks, 0), name)


HOG = ("77", b"1")
ALONE = [frozenset({cpu}) for cpu in range(4)]


def used_on(cpu: int, ranks: dict[int, int], hog: int, known: int = 0) -> NodeLoad:
    """Ten seconds of 128 CPUs, with a rank on each of four; on one CPU a process of others, and a kernel's thread."""
    ours = {(f"1{each}", b"1"): on(each, ticks) for each, ticks in ranks.items()}
    busy = dict.fromkeys(range(128), 0) | ranks
    busy[cpu] = ranks.get(cpu, 0) + hog + known
    before = {"on_ours": {key: one._replace(ticks=Ticks()) for key, one in ours.items()}}
    after = {"on_ours": ours, "on_others": {HOG: on(cpu, hog, "stress")}, "on_known": {KTHREAD: on(cpu, known)}}
    looks = [bound_look(0, dict.fromkeys(busy, 0), **before), bound_look(10, busy, **after)]
    found = shares(looks, False, ALONE, lambda pid: {"77": "eve"}.get(pid))
    assert found
    return found


def test_a_process_on_the_cpu_of_a_rank() -> None:
    ranks = {0: 990, 1: 980, 2: 490, 3: 1000}
    assert used_on(2, ranks, 500).bound == Bound("2", 0.5, top=(Other("stress", "eve", 0.5),))
    assert used_on(100, ranks, 1000).bound == Bound("0", 0.0)  # one that no rank uses
    assert used_on(2, ranks, 0, known=500).bound == Bound("0", 0.0)  # the kernel's threads are nobody's


def test_cpus_count_while_their_rank_lives() -> None:
    """The time of a rank that has ended is with its parent, on another CPU."""
    rank, step = ("10", b"1"), ("9", b"1")
    looks = [
        bound_look(0, {0: 0, 1: 0}, on_ours={rank: on(0, 0)}),
        bound_look(5, {0: 500, 1: 0}, on_ours={rank: on(0, 500)}),
        bound_look(10, {0: 1000, 1: 0}, on_ours={step: on(1, 1000)}),
    ]
    load = shares(looks, False, ALONE[:1])
    assert load and load.bound == Bound("0", 0.0)
    ended = shares(looks[1:], False, ALONE[:1])
    assert ended and ended.bound is None


MOUNT = "master on 9421 on /mnt/a b type fuse.mfs (rw,relatime)"


def test_what_is_known_of_a_node() -> None:
    facts = NodeFacts(host="n", fstype="fuse.mfs", mount=MOUNT, reserved_cpus="3")
    assert Around.of_node(facts) == Around("fuse.mfs", "/mnt/a b", "3")
    assert Around.of_node(NodeFacts(host="n")) == Around()


# Real processes, in a process of its own: whatever is below it is the tool


def used(body: str, *arguments: str) -> Any:
    imports = "from iosweep.node import load, watching\nfrom iosweep.target import mounts\n"
    program = f"import json, os, subprocess, sys, msgspec\n{imports}{textwrap.dedent(body)}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, timeout=300, check=True)
    return json.loads(done.stdout)


#: Uses a second of CPU time, whatever else the machine does.
BUSY = "import time\nwhile time.process_time() < 1: pass"


@pytest.mark.local
def test_time_of_the_tool_and_its_children_is_ours() -> None:
    ticks = used(
        """
        reader = watching.Reader(load.Around())
        before = reader.look()
        # a child that ends, and a grandchild whose parent is gone by then
        subprocess.run([sys.executable, "-c", sys.argv[1]])
        subprocess.run([sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", sys.executable,
                        "-c", sys.argv[1]])
        lives = subprocess.Popen([sys.executable, "-c", sys.argv[1] + "\\nprint(flush=True)\\ntime.sleep(600)"],
                                 stdout=subprocess.PIPE)
        lives.stdout.readline()
        after = reader.look()
        lives.kill()
        ours = load._used({**before.rest, **before.ours}, after.ours, before.ours)
        print(json.dumps([sum(ours), load._whole(before, after), len(after.kernel) > 0]))
        """,
        BUSY,
    )
    second = os.sysconf("SC_CLK_TCK")
    assert ticks[0] >= 2.9 * second
    assert ticks[1]


@pytest.mark.local
def test_others_are_all_that_is_not_below_us() -> None:
    """A neighbor for each CPU: others used much of the time, as they would whatever else this machine does."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        found = used(
            """
            import time
            watch = watching.Watch(load.Around(), mounts.of_mount('', ''))
            time.sleep(1.5)
            print(msgspec.json.encode(load.of_nodes({"n1": watch.end().load})).decode())
            """
        )
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert found["other"] > OTHER_LOAD
    assert (found["client"], found["steal"] >= 0, found["window_s"] >= 1) == (0.0, True, True)


@contextlib.contextmanager
def serving(mount: str, name: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What looks like the FUSE daemon of a mount."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse: not there, or not for us")
    name.symlink_to(sys.executable)
    script = "import os, time; os.open('/dev/fuse', os.O_RDWR); print(flush=True); time.sleep(600)"
    daemon = subprocess.Popen([str(name), "-c", script, "-H", "master", mount], stdout=subprocess.PIPE)
    try:
        assert daemon.stdout and daemon.stdout.readline()
        yield daemon
    finally:
        daemon.kill()
        daemon.wait()


@pytest.mark.local
@pytest.mark.parametrize(
    ("fstype", "mount", "argument", "found"),
    [
        ("fuse.mfs", "/mnt/x y", "/mnt/x y", True),
        ("fuse.mfs", "/mnt/x y/", "/mnt/x y", True),
        ("fuse", "/mnt/x y", "mfsmount (mounted on: /mnt/x y)", True),  # MooseFS 3 writes that over its arguments
        ("ext4", "/mnt/x y", "/mnt/x y", False),
    ],
)
def test_the_daemon_of_a_fuse_mount(tmp_path: Path, fstype: str, mount: str, argument: str, found: bool) -> None:
    with serving(argument, tmp_path / "mfsmount") as daemon, contextlib.ExitStack() as stack:
        # not that of another mount
        other = stack.enter_context(serving("/mnt/other", tmp_path / "sshfs"))
        reader = watching.Reader(Around(fstype, mount))
        # they are children of this process: as if they were not
        reader._ours = lambda there: {str(os.getpid()): True}  # type: ignore[method-assign, assignment]
        pids = {pid for pid, _ in reader.look().client}
        assert (str(daemon.pid) in pids, str(other.pid) in pids) == (found, False)


@pytest.mark.parametrize(
    ("fstype", "client", "others"),
    [
        ("wekafs", [b"wekanode", b"weka_init"], [b"fio", b"mmfsd"]),
        ("gpfs", [b"mmfsd"], [b"fio", b"wekanode"]),
        ("beegfs", [b"beegfs-helper"], [b"fio", b"glusterfs"]),
    ],
)
def test_a_client_by_its_name(fstype: str, client: list[bytes], others: list[bytes]) -> None:
    reader = watching.Reader(Around(fstype, "/mnt/target"))
    there = {(str(n), b"1"): name for n, name in enumerate([*client, *others])}
    assert reader._of_client(there) == {key for key, name in there.items() if name in client}
    assert reader.client_is_process


@pytest.mark.local
def test_a_process_that_shares_the_cpu_of_a_worker() -> None:
    """Named, and seen on that CPU, whatever else this machine does."""
    cpu = min(os.sched_getaffinity(0))
    hog = subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"])
    try:
        found = used(
            """
            import os, time
            cpu = int(sys.argv[1])
            watch = watching.Watch(load.Around(bound=(str(cpu),)), mounts.of_mount('', ''))
            worker = subprocess.Popen([sys.executable, "-c", sys.argv[2]])
            os.sched_setaffinity(worker.pid, [cpu])
            time.sleep(4)
            seen = watch.end()
            worker.kill()
            print(msgspec.json.encode(seen.load.bound).decode())
            """,
            str(cpu),
            "while True: pass",
        )
    finally:
        hog.kill()
        hog.wait()
    assert found["cpus"] == str(cpu)
    assert found["other"] > OTHER_LOAD
    assert found["top"][0]["name"].startswith("python")
