"""CPU sets as values, and the CPUs of a node in the kernel's numbers, hwloc's and Slurm's.

What hwloc and slurmd say of the trees in topologies.py was recorded from lstopo 2.9.0 and slurmd 22.05.8 (started on
each with HWLOC_FSROOT).
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iosweep.node.cpus import MOST, Topology, listed, mask, named, parse
from topologies import MACHINES, Machine, machine, node_cpus, tree

repeatable = settings(derandomize=True)
CPU_SETS = st.frozensets(st.integers(0, 300))

# Sets


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        (" \n", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("8,0-3", [0, 1, 2, 3, 8]),
        ("0-3, 2-5\n", range(6)),
        ("24 25\t26", [24, 25, 26]),
        ("7-7", [7]),
        ("08", [8]),
        (str(MOST - 1), [MOST - 1]),
    ],
)
def test_a_list_of_cpus(text: str, cpus: list[int]) -> None:
    assert parse(text) == frozenset(cpus)


@pytest.mark.parametrize(
    "text",
    [
        "3-1",
        "-1",
        "1-",
        "a",
        "0x3",
        "1-2-3",
        "0:1",
        "0-7:2",
        "1.5",
        "0 - 3",
        "0;1",
        "٣",
        "0-99999999",
        str(MOST),
        "all",
    ],
)
def test_a_text_that_is_not_a_list_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match="range of CPUs"):
        parse(text)


@pytest.mark.parametrize(
    ("cpus", "text", "words"),
    [([], "", "CPUs none"), ([3], "3", "CPU 3"), ([8, 3, 2, 1, 0], "0-3,8", "CPUs 0-3,8"), ([1, 3], "1,3", "CPUs 1,3")],
)
def test_how_a_set_is_written(cpus: list[int], text: str, words: str) -> None:
    assert (listed(cpus), named(frozenset(cpus))) == (text, words)
    assert int(mask(cpus), 16) == sum(1 << cpu for cpu in cpus)


@repeatable
@given(CPU_SETS, CPU_SETS)
def test_sets_survive_being_written(a: frozenset[int], b: frozenset[int]) -> None:
    assert parse(listed(a)) == a
    assert parse(f"{listed(a)},{listed(b)}") == a | b
    assert parse(listed(a - b)) == parse(listed(a)) - parse(listed(b))
    runs = [part.split("-") for part in listed(a).split(",") if part]
    assert all(int(run[-1]) + 1 < int(after[0]) for run, after in pairwise(runs)), "none could be joined"


# Topology: what /sys says, in hwloc's order

#: The kernel's numbers in hwloc's order: `first-last:step`, and behind `/` what is added for each thread of a core.
RECORDED = {
    "weka_56": "0-55",
    "interleaved_64": "0-62:2 1-63:2",
    "hyper_96": "0-47/0,48",
    "aws_192": "0-95/0,96",
    "fast_and_slow": "0-15",
    "interleaved_caches": "0-12:4 1-13:4 2-14:4 3-15:4",
    "interleaved_modules": "0 2 1 3 4 6 5 7",
    "all_interleaved": "0-12:4/0,16 1-13:4/0,16 2-14:4/0,16 3-15:4/0,16",
    "wide_caches": "0-15",
    "one_node": "0-7/0,8",
    "backwards": "0-7",
    "far_memory": "0-7",
    "eight_threads": "0-47",
    "first_off": "1/0,16 21 9/0,16 13/0,16 4/0,16 16 8/0,16 12/0,16 2-14:4/0,16 3-11:4/0,16 15",
    "threads_off": "0-7",
    "socket_off": "4-7",
}
every_machine = pytest.mark.parametrize("name", MACHINES)


def written(orders: str) -> tuple[int, ...]:
    """RECORDED's notation -> L# -> P#."""
    found: list[int] = []
    for part in orders.split():
        cores, _, threads = part.partition("/")
        run, _, step = cores.partition(":")
        first, _, last = run.partition("-")
        numbers = range(int(first), int(last or first) + 1, int(step or 1))
        found += [cpu + int(more) for cpu in numbers for more in (threads or "0").split(",")]
    return tuple(found)


@pytest.fixture(scope="module")
def root_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The tree of a machine by its name, written once."""
    return cache(lambda name: MACHINES[name].write(tmp_path_factory.mktemp(name)))


@every_machine
def test_logical_numbers_are_those_of_hwloc(name: str, root_of: Callable[[str], Path]) -> None:
    topology = Topology.read(root_of(name))
    assert topology.logical == written(RECORDED[name])


@every_machine
def test_everything_is_somewhere_once(name: str, root_of: Callable[[str], Path]) -> None:
    machine = MACHINES[name]
    topology = Topology.read(root_of(name))
    assert topology.cpus == machine.cpus
    for groups in (topology.cores, topology.sockets, tuple(topology.numa.values())):
        assert sorted(cpu for group in groups for cpu in group) == sorted(machine.cpus)
    assert topology.numa == {node: cpus for node in machine.numa if (cpus := node_cpus(machine, node))}
    for core in topology.cores:
        assert sum(core <= socket for socket in topology.sockets) == 1


def test_the_56_cpus_of_the_documentation(root_of: Callable[[str], Path]) -> None:
    topology = Topology.read(root_of("weka_56"))
    assert {node: listed(cpus) for node, cpus in topology.numa.items()} == {
        0: "0-13",
        1: "14-27",
        2: "28-41",
        3: "42-55",
    }
    assert topology.to_slurm(parse("24-27")) == parse("24-27")


def test_the_64_interleaved_cpus_of_the_documentation(root_of: Callable[[str], Path]) -> None:
    topology = Topology.read(root_of("interleaved_64"))
    assert [topology.logical.index(cpu) for cpu in (56, 58, 60, 62)] == [28, 29, 30, 31]
    assert [topology.logical.index(cpu) for cpu in (57, 59, 61, 63)] == [60, 61, 62, 63]
    assert listed(topology.to_slurm(parse("56-63"))) == "28-31,60-63"


@pytest.mark.parametrize(("name", "core", "slurm"), [("hyper_96", "47,95", "94-95"), ("aws_192", "95,191", "190-191")])
def test_the_siblings_of_the_documentation(name: str, core: str, slurm: str, root_of: Callable[[str], Path]) -> None:
    topology = Topology.read(root_of(name))
    first, second = sorted(parse(core))
    assert topology.with_siblings({first}) == topology.with_siblings({second}) == parse(core)
    assert listed(topology.to_slurm(parse(core))) == slurm


#: machine, CpuSpecList that slurmd was given, what it called `Reserved machine CPU IDs` (whole cores).
SLURMD = [
    ("weka_56", "1,5,9,16-17,24", "1,5,9,16-17,24"),
    ("interleaved_64", "28-31,60-63", "56-63"),
    ("interleaved_64", "56-63", "49,51,53,55,57,59,61,63"),
    ("hyper_96", "46-47,94-95", "23,47,71,95"),
    ("hyper_96", "4-5,22-23,30-31", "2,11,15,50,59,63"),
    ("aws_192", "94-95,190-191", "47,95,143,191"),
    ("interleaved_caches", "7,13-15", "7,11,13,15"),
    ("all_interleaved", "4-5,18-21,30-31", "6,8,10,15,22,24,26,31"),
    ("one_node", "6-7,10-11", "3,5,11,13"),
    ("eight_threads", "40-47", "40-47"),
    ("threads_off", "3,6", "3,6"),
]


@pytest.mark.parametrize(("name", "abstract", "physical"), SLURMD)
def test_slurmd_counts_in_this_order(name: str, abstract: str, physical: str, root_of: Callable[[str], Path]) -> None:
    topology = Topology.read(root_of(name))
    assert topology.to_slurm(parse(physical)) == parse(abstract)
    assert topology.with_siblings(parse(physical)) == parse(physical)


# /sys that says less


def test_an_old_kernel(tmp_path: Path) -> None:
    """Before 5.3: thread_siblings_list and core_siblings_list alone."""
    root = tree(tmp_path, sockets=2, numa_per_socket=1, cores_per_numa=2, threads=2)
    whole = Topology.read(root)
    for file in (*root.rglob("core_cpus_list"), *root.rglob("package_cpus_list")):
        file.unlink()
    assert Topology.read(root) == whole
    assert whole.cores == ({0, 4}, {1, 5}, {2, 6}, {3, 7})


@pytest.mark.parametrize("said", ["0-2\n", ""])
def test_a_container_that_hides_most(said: str, tmp_path: Path) -> None:
    """Without topology, and without /sys at all, where /proc/stat still counts the CPUs' time."""
    if said:
        (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
        (tmp_path / "sys/devices/system/cpu/online").write_text(said)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  9 9 9\ncpu0 1 1 1\ncpu1 1 1 1\ncpu2 1 1 1\nintr 5 1\n")
    topology = Topology.read(tmp_path)
    assert topology == Topology(tuple(frozenset([cpu]) for cpu in range(3)), (frozenset(range(3)),), {})


def test_siblings_that_are_off_are_left_out(tmp_path: Path) -> None:
    """Linux does not list them; should it be told otherwise by a hypervisor, they are no CPUs to run on."""
    root = tree(tmp_path, sockets=1, numa_per_socket=1, cores_per_numa=2, threads=2)
    (root / "sys/devices/system/cpu/online").write_text("0-2\n")
    topology = Topology.read(root)
    assert topology == Topology((frozenset({0, 2}), frozenset({1})), (frozenset(range(3)),), {0: frozenset(range(3))})


def test_a_file_that_holds_something_else(tmp_path: Path) -> None:
    root = tree(tmp_path, sockets=1, numa_per_socket=1, cores_per_numa=2, threads=2)
    whole = Topology.read(root)
    (root / "sys/devices/system/node/node0/cpulist").write_text("(null)\n")
    for file in root.rglob("core_cpus_list"):
        file.write_text("?\n")
    assert Topology.read(root) == Topology(whole.cores, whole.sockets, {})  # thread_siblings_list says it, too


def test_nothing_to_be_read(tmp_path: Path) -> None:
    topology = Topology.read(tmp_path)
    assert (topology.cores, topology.cpus, topology.logical) == ((), frozenset(), ())
    assert (topology.with_siblings({3}), topology.to_slurm({3})) == ({3}, frozenset())


def test_this_machine() -> None:
    """Whatever it is: the CPUs that are online, cores in sockets, a NUMA node for each."""
    topology = Topology.read()
    assert topology.cpus == parse(Path("/sys/devices/system/cpu/online").read_text())
    assert all(any(core <= socket for socket in topology.sockets) for core in topology.cores)
    assert frozenset().union(*topology.numa.values()) in (topology.cpus, frozenset())


# Any machine


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Regular ones of all shapes, some CPUs off."""
    shape = [draw(st.integers(1, most)) for most in (3, 3, 4, 3)]
    made = machine(*shape, interleaved=draw(st.booleans()), adjacent=draw(st.booleans()))
    off = draw(st.frozensets(st.sampled_from(sorted(made.cpus)), max_size=len(made.cpus) - 1))
    return made.off(*off) if draw(st.booleans()) else made


@repeatable
@given(machines())
def test_facts_keep_a_topology(made: Machine) -> None:
    topology = made.topology
    numa = [*((node, listed(cpus)) for node, cpus in topology.numa.items()), (99, None)]  # memory alone
    facts = topology.facts()
    assert Topology.of_texts(facts["cores"], facts["socket_cpus"], numa) == topology
