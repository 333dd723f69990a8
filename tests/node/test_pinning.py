"""What is decided for the nodes of an allocation: on machines that were drawn, with what WEKA says of them."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from iosweep.errors import Conflict
from iosweep.node.cpu_record import Looks
from iosweep.node.cpus import NO_CPUS, CpuSet, listed, parse
from iosweep.node.node_facts import NodeFacts, ReservedSource
from iosweep.node.pinning import CpuSettings, Pinning, bound, decide, mode
from iosweep.node.reserved import CONFIGURATION, resolve
from topologies import HYPER_96, INTERLEAVED_64, WEKA_56, Machine, machine

CLIENT = "weka local resources -C client0"
FOUR = machine(1, 1, 4)
EIGHT = machine(2, 1, 2, threads=2)  # cores 0,4 1,5 | 2,6 3,7


def facts(
    made: Machine = FOUR, allowed: str | None = None, weka: str | None = "", reserved: str | None = None, **more: Any
) -> NodeFacts:
    """As node.facts has them. allowed: None: all. weka: CPUs that it keeps; empty: it is not there; None: it keeps
    some, and not which. reserved: the configuration's."""
    sources = [] if weka == "" else [ReservedSource(CLIENT, weka, "FRONTEND, dedicated")]
    numa = [{"node": n, "cpus": listed(c), "memory_bytes": 1 << 30} for n, c in made.topology.numa.items()]
    known = {
        "host": "n",
        **made.topology.facts(),
        "reserved_cpus": (kept := resolve(made.topology, sources, reserved)).listed,
        "reserved_sources": kept.sources,
        "numa": numa,
        "cpus_allowed": listed(made.cpus) if allowed is None else allowed,
        "nics": [],
        "mount": "weka on /w type wekafs (rw,relatime)",
        **more,
    }
    return msgspec.convert(known, NodeFacts)


def decided(*nodes: NodeFacts, slurm: bool = True, **settings: Any) -> Pinning:
    """For n1, n2 ... ."""
    return decide(CpuSettings(**settings), {f"n{k}": one for k, one in enumerate(nodes, start=1)}, slurm)


def shown(cpus: tuple[CpuSet, ...]) -> str:
    return " ".join(listed(one).replace(",", "+") for one in cpus)


def ranks(made: Pinning, count: int, mpi: bool = True) -> str:
    binding = made.binding(count, mpi)
    assert binding
    return shown(binding.ranks)


# What is asked for


@pytest.mark.parametrize(
    ("asked", "allocated", "expected"),
    [
        (None, True, "enforce"), (None, False, "verify"), ("off", True, "off"), ("verify", True, "verify"),
        ("enforce", False, "enforce"), ("strict", True, "strict"), ("strict", False, "strict"),
    ],
)  # fmt: skip
def test_mode(asked: str | None, allocated: bool, expected: str) -> None:
    assert mode(CpuSettings(pinning=asked), allocated) == expected
    assert decided(facts(), slurm=allocated, pinning=asked).mode == expected


def test_how_ranks_are_bound_tells_results_apart() -> None:
    near = {"pinning": "enforce", "placement": "near_nic", "width": "core", "nic": "ib0"}
    every = [bound(CpuSettings(**changed), True) for changed in ({}, {"placement": "pack"}, {"width": "core"}, near)]
    assert len({*every}) == 4
    assert bound(CpuSettings(**near), True) == "near_nic/core/ib0"
    assert bound(CpuSettings(**near | {"pinning": "strict"}), True) == "near_nic/core/ib0", "bound in the same way"
    for unbound in ("off", "verify"):
        assert bound(CpuSettings(pinning=unbound), True) is None
    assert bound(CpuSettings(), False) is None, "on one machine the default binds nothing"
    more = {"oversubscribe": True}
    assert bound(CpuSettings(**more), True) == bound(CpuSettings(), True), "it lets more points run"
    said = [bound(CpuSettings(pinning="verify", reserved=kept), True) for kept in (None, "", "3", "3-4")]
    assert said == [None, "reserved none", "reserved 3", "reserved 3-4"]
    assert bound(CpuSettings(reserved="3"), True) == "spread/cpu/reserved 3"


# What is decided


def test_the_documented_case() -> None:
    made = decided(facts(WEKA_56, allowed="0-23,28-55", weka="24-27"))
    assert listed(made.usable) == "0-23,28-55"
    assert ranks(made, 4) == "0 28 14 42"
    assert made.notes == ()


def test_siblings_of_reserved_cpus_are_not_used() -> None:
    """WEKA names one thread of a core only."""
    made = decided(facts(HYPER_96, allowed="0-46,48-94", weka="95"))
    assert not made.usable & {47, 95}
    assert len(made.usable) == 94


@pytest.mark.parametrize("slurm", [True, False])
def test_cpus_that_weka_keeps_and_the_job_may_use(slurm: bool) -> None:
    """They are known, so ranks are kept off them; one line says what keeps jobs off."""
    made = decided(facts(INTERLEAVED_64, weka="56-63"), pinning="enforce", slurm=slurm)
    assert listed(made.usable) == "0-55"
    bound_to = [binding.union for mpi in (True, False) if (binding := made.binding(64, mpi))]
    assert [parse("56-63") & cpus for cpus in bound_to] == [NO_CPUS, NO_CPUS]
    (note,) = made.notes
    assert note.startswith(f"note: n1: this job may use CPUs 56-63, which are reserved ({CLIENT}: FRONTEND")
    assert "ranks and workers are kept off by their masks; " in note
    assert ("CpuSpecList=28-31,60-63 on the node's line" if slurm else 'cpus.reserved: "56-63"') in note


@pytest.mark.parametrize("slurm", [True, False])
def test_strict_refuses_what_masks_alone_would_keep_off(slurm: bool) -> None:
    with pytest.raises(Conflict) as refused:
        decided(facts(INTERLEAVED_64, weka="56-63"), pinning="strict", slurm=slurm)
    said = str(refused.value)
    assert "n1" in said
    assert "CPUs 56-63" in said
    assert CLIENT in said
    assert ("CpuSpecList=28-31,60-63" in said) is slurm, "in Slurm's own numbering"
    assert 'cpus.reserved: "56-63"' in said
    assert refused.value.lasting
    named = decided(facts(INTERLEAVED_64, weka="56-63", reserved="56-63"), pinning="strict", reserved="56-63")
    assert listed(named.usable) == "0-55"
    assert named.binding(4, True)
    assert named.lacks(57)


def test_the_configuration_may_name_them() -> None:
    made = decided(facts(INTERLEAVED_64, weka="56-63", reserved="56-63"), reserved="56-63")
    assert listed(made.usable) == "0-55"
    assert made.notes == ()


def test_the_configuration_names_too_few() -> None:
    """It contradicts what the node says: one of them is wrong."""
    with pytest.raises(Conflict, match=r"CPUs 60-63, which are reserved .*, and the configuration .* leaves that out"):
        decided(facts(INTERLEAVED_64, weka="56-63", reserved="56-59"), reserved="56-59")


def test_the_configuration_names_more() -> None:
    made = decided(facts(weka="3", reserved="2-3"), reserved="2-3")
    assert listed(made.usable) == "0-1"
    assert made.notes == ()


def test_reserved_and_not_known_which() -> None:
    with pytest.raises(Conflict, match="it is not known which") as refused:
        decided(facts(weka=None))
    assert "cpus.reserved" in str(refused.value)
    assert decided(facts(weka=None, reserved=""), reserved="").usable == parse("0-3")


def test_all_are_reserved() -> None:
    with pytest.raises(Conflict, match="no usable CPU is left"):
        decided(facts(weka="0-1", reserved="0-3"), reserved="0-3")


@pytest.mark.parametrize("pinning", ["verify", "off"])
def test_nothing_is_refused_where_nothing_is_bound(pinning: str) -> None:
    for one in (facts(weka="3"), facts(weka=None)):
        made = decided(one, pinning=pinning)
        assert made.binding(2, True) is None
        assert made.binding(2, False) is None
        assert made.lacks(100) is None
    assert listed(decided(facts(weka="3"), pinning=pinning).usable) == "0-2"


def test_one_node_of_several_conflicts() -> None:
    """Another allocation may be luckier."""
    with pytest.raises(Conflict) as refused:
        decided(facts(), facts(weka="1"), facts(), pinning="strict")
    assert not refused.value.lasting
    assert str(refused.value).startswith("n2: ")
    with pytest.raises(Conflict) as refused:
        decided(*[facts(weka="1")] * 40, pinning="strict")
    assert refused.value.lasting
    assert len(str(refused.value)) < 2000, "three of them are told"
    made = decided(facts(), facts(weka="1"), facts())
    assert listed(made.usable) == "0,2-3", "ranks are placed alike, so they keep off it everywhere"
    assert made.notes[0].startswith("note: n2: this job may use CPU 1, ")


def test_what_all_nodes_have() -> None:
    made = decided(facts(), facts(allowed="0-2"), facts(allowed="0,2-3"))
    assert listed(made.usable) == "0,2"
    assert {host: listed(cpus) for host, cpus in made.usable_of.items()} == {"n1": "0-3", "n2": "0-2", "n3": "0,2-3"}
    assert [note.split(",")[0] for note in made.notes] == [
        "note: n1 could use CPUs 1", "note: n2 could use CPU 1 too", "note: n3 could use CPU 3 too"
    ]  # fmt: skip
    assert "CPUs 1,3 too" in made.notes[0]


def test_nodes_with_nothing_in_common() -> None:
    with pytest.raises(Conflict) as refused:
        decided(facts(allowed="0-1"), facts(allowed="2-3"))
    assert "n1 has 0-1, n2 has 2-3" in str(refused.value)
    assert not refused.value.lasting
    assert not decided(facts(allowed="0-1"), facts(allowed="2-3"), pinning="verify").usable


def test_nodes_of_another_kind() -> None:
    (note,) = decided(facts(EIGHT), facts(machine(1, 1, 4, threads=2)), facts(EIGHT)).notes
    assert note.startswith("note: n2: other cores")


def test_cpus_that_are_offline_are_not_used() -> None:
    """An affinity mask may hold CPUs that are not there."""
    assert listed(decided(facts(FOUR.off(1), allowed="0-127")).usable) == "0,2-3"


# Which CPUs


def test_ranks_and_workers() -> None:
    made = decided(facts(EIGHT))
    assert ranks(made, 5) == "0 2 1 3 4"
    assert ranks(made, 5, mpi=False) == ranks(made, 5)
    assert ranks(made, 10) == "0 2 1 3 4 6 5 7 0 2", "where that was asked for: see lacks"
    assert ranks(made, 9, mpi=False) == " ".join(["0-7"] * 9), "workers share"
    assert ranks(decided(facts(EIGHT), placement="pack"), 4) == "0 1 4 5"
    whole = decided(facts(EIGHT), width="core")
    assert ranks(whole, 3) == "0+4 2+6 1+5"
    assert ranks(whole, 3, mpi=False) == "0 2 1", "fio has no list for each worker"


def test_more_ranks_than_usable_cpus() -> None:
    one = facts(weka="3", reserved="3")
    made = decided(one, reserved="3")
    assert made.lacks(3) is None
    said = made.lacks(4) or ""
    assert "4 ranks on a node with 3 usable CPUs (0-2)" in said
    assert "oversubscribe: true" in said
    assert decided(one, reserved="3", oversubscribe=True).lacks(400) is None


def nic(name: str, cpus: str | None, gbit: int, state: str = "up") -> dict[str, Any]:
    return {"name": name, "cpus": cpus, "numa_node": 0, "speed_bits_per_s": gbit * 10**9, "state": state}


NICS = [nic("eth0", "0-3", 25), nic("ib0/mlx5_0", "2-3,6-7", 200), nic("ib1", "0-1,4-5", 400, "down")]


@pytest.mark.parametrize(
    ("nics", "name", "mount", "near", "told", "five"),
    [
        (NICS, None, "", "2-3,6-7", "ib0/mlx5_0, near CPUs 2-3,6-7", "2 3 6 7 0"),  # the fastest that is up
        (NICS, "ib1", "net=eth0", "0-1,4-5", "ib1, near CPUs 0-1,4-5", "0 1 4 5 2"),
        (NICS, None, "core=3,net=eth0/10.0.0.1/24,rw", "0-3", "eth0, near CPUs 0-3", "0 1 2 3 4"),
        (NICS, None, "net=udp", "2-3,6-7", "ib0/mlx5_0", "2 3 6 7 0"),
        (NICS, "mlx5_0", "", "", "no interface mlx5_0: none is usable, so ranks are packed", "0 1 4 5 2"),
        ([nic("ib0", None, 1)], None, "", "", "ib0, near CPUs (not known): none is usable, so", "0 1 4 5 2"),
        ([], None, "", "", "no interface is up: none is usable, so ranks are packed", "0 1 4 5 2"),
    ],
)
def test_near_a_nic(nics: list[dict[str, Any]], name: str | None, mount: str, near: str, told: str, five: str) -> None:
    made = decided(facts(EIGHT, nics=nics, mount=f"w on /w type wekafs (rw,{mount})"), placement="near_nic", nic=name)
    (note,) = made.notes
    assert (listed(made.near), ranks(made, 5)) == (near, five)
    assert f"near_nic: {told}" in note


# What is stored


def sampled(mask: str = "0", **changes: Any) -> Looks:
    rank = {
        "role": "rank",
        "count": 1,
        "threads": 2,
        "masks": [mask],
        "thread_masks": [mask],
        "early": "",
        "ran_on": mask,
    }
    known = {
        "expected": 1,
        "seen": 1,
        "looks": 6,
        "gap_s": 0.2,
        "cost_s": 0.01,
        "wall_s": 1.0,
        "processes": [rank],
    } | changes
    return msgspec.convert(known, Looks)


def test_a_record() -> None:
    made = decided(facts(weka="3", reserved="2-3"), reserved="2-3")
    told = made.record(made.binding(3, True), {"n1": sampled(expected=3)})
    assert told
    assert {key: getattr(told, key) for key in ("pinning", "placement", "width")} == {
        "pinning": "enforce", "placement": "spread", "width": "cpu"
    }  # fmt: skip
    assert told.planned == {"0": 2, "1": 1}
    (node,) = told.nodes
    assert (node.hosts, node.usable, node.reserved, node.expected) == (("n1",), "0-1", "2-3", 3)
    assert node.by == (CLIENT, CONFIGURATION), "both name these CPUs"
    assert node.problems == ()


def test_a_record_where_nothing_was_bound() -> None:
    told = decided(facts(), pinning="verify").record(None, {"n1": sampled()})
    assert told
    assert (told.pinning, told.planned, told.placement, told.width) == ("verify", None, None, None)
    (node,) = told.nodes
    assert (node.reserved, node.by, node.problems) == ("", (), ())


def test_a_source_that_reserves_none_is_no_reason() -> None:
    one = facts(reserved_sources=[{"source": "/proc/mounts /w", "cpus": "", "says": "net=udp: reserves none"}])
    told = decided(one).record(None, {"n1": sampled()})
    assert told
    assert told.nodes[0].by == ()


def test_no_record() -> None:
    made = decided(facts())
    assert made.record(made.binding(1, True), None) is None
    assert made.record(made.binding(1, True), {}) is None
    assert decided(facts(), pinning="off").record(None, {"n1": sampled()}) is None


def test_32_nodes_that_are_alike_share_an_entry() -> None:
    """But for n7, one of whose ranks is elsewhere, n8, where fewer were seen, and n9, which may use other CPUs."""
    nodes = [facts(allowed="0-2") if k == 9 else facts() for k in range(1, 33)]
    seen = {f"n{k}": sampled(looks=6 + k % 3, gap_s=k / 100, cost_s=k / 1000, wall_s=1 + k / 10) for k in range(1, 33)}
    seen["n7"], seen["n8"] = sampled("1"), sampled(seen=0)
    one = replace(seen["n10"].processes[0], threads=5, early="0-3")
    seen["n10"] = replace(seen["n10"], processes=(one,))
    made = decided(*nodes)
    told = made.record(made.binding(1, True), seen)
    assert told
    assert [len(node.hosts) for node in told.nodes] == [29, 1, 1, 1]
    most = told.nodes[0]
    assert "n7" not in most.hosts
    assert [node.hosts for node in told.nodes[1:]] == [("n7",), ("n8",), ("n9",)]
    assert (most.looks, most.gap_s, most.cost_s, most.wall_s) == (6, 0.32, 0.032, 4.2), "the worst of all"
    assert (most.processes[0].threads, most.processes[0].early) == (5, "0-3")
