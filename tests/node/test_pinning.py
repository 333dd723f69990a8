"""What is decided for the nodes of an allocation: on machines that were drawn, with what WEKA says of them. Its words
are in a snapshot."""

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.errors import Refused
from iosweep.node.cpus import CONFIGURATION, NO_CPUS, CpuSet, ReservedSource, listed, parse, resolve
from iosweep.node.facts import NodeFacts
from iosweep.node.pinning import CpuSettings, Pinning, bound, decide, mode
from iosweep.node.ranks import Looks
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


def test_ranks_are_bound_where_the_nodes_are_ours_unless_something_else_is_asked_for() -> None:
    assert {mode(CpuSettings(), allocated) for allocated in (True, False)} == {"enforce", "verify"}
    for allocated in (True, False):
        assert decided(facts(), slurm=allocated).mode == ("enforce" if allocated else "verify")
        for asked in ("verify", "enforce", "strict"):
            assert mode(CpuSettings(pinning=asked), allocated) == asked


def test_how_ranks_are_bound_tells_results_apart() -> None:
    packed: dict[str, Any] = {"pinning": "enforce", "placement": "pack", "width": "core"}
    every = [bound(CpuSettings(**changed), True) for changed in ({}, {"placement": "pack"}, {"width": "core"}, packed)]
    assert len({*every}) == 4
    assert bound(CpuSettings(**packed), True) == "pack/core"
    assert bound(CpuSettings(**packed | {"pinning": "strict"}), True) == "pack/core", "bound in the same way"
    assert bound(CpuSettings(pinning="verify"), True) is None
    assert bound(CpuSettings(), False) is None, "on one machine the default binds nothing"
    said = [bound(CpuSettings(pinning="verify", reserved=kept), True) for kept in (None, "", "3", "3-4")]
    assert said == [None, "reserved none", "reserved 3", "reserved 3-4"]
    assert bound(CpuSettings(reserved="3"), True) == "spread/cpu/reserved 3"


# What is decided


def conflict(*nodes: NodeFacts, **settings: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        decided(*nodes, **settings)
    return refused.value


def test_ranks_are_spread_over_what_the_job_may_use() -> None:
    made = decided(facts(WEKA_56, allowed="0-23,28-55", weka="24-27"))
    assert (listed(made.usable), ranks(made, 4), made.notes) == ("0-23,28-55", "0 28 14 42", ())
    # an affinity mask may hold CPUs that are not there
    assert listed(decided(facts(FOUR.off(1), allowed="0-127")).usable) == "0,2-3"


def test_hyper_threads_of_reserved_cpus_are_not_used() -> None:
    """WEKA names one thread of a core only."""
    made = decided(facts(HYPER_96, allowed="0-46,48-94", weka="95"))
    assert (made.usable & {47, 95}, len(made.usable)) == (NO_CPUS, 94)


def test_ranks_are_kept_off_reserved_cpus_that_the_job_may_use() -> None:
    """A note says what keeps jobs off; what masks do not help against (reserved.overlap) is a conflict."""
    made = decided(facts(INTERLEAVED_64, weka="56-63"), pinning="enforce")
    assert (listed(made.usable), len(made.notes)) == ("0-55", 1)
    bound_to = [binding.union for mpi in (True, False) if (binding := made.binding(64, mpi))]
    assert [parse("56-63") & cpus for cpus in bound_to] == [NO_CPUS, NO_CPUS]
    assert conflict(facts(INTERLEAVED_64, weka="56-63"), pinning="strict").lasting
    made = decided(facts(INTERLEAVED_64, weka="56-63", reserved="55-63"), pinning="strict", reserved="55-63")
    assert (listed(made.usable), made.notes) == ("0-54", ())
    conflict(facts(INTERLEAVED_64, weka="56-63", reserved="56-59"), reserved="56-59")
    conflict(facts(weka=None))
    conflict(facts(weka="0-1", reserved="0-3"), reserved="0-3")
    assert decided(facts(weka=None, reserved=""), reserved="").usable == parse("0-3")


def test_nothing_is_refused_where_nothing_is_bound() -> None:
    for one in (facts(weka="3"), facts(weka=None)):
        made = decided(one, pinning="verify")
        assert made.binding(2, True) is made.binding(2, False) is made.lacks(100) is None
    assert listed(decided(facts(weka="3"), pinning="verify").usable) == "0-2"
    assert not decided(facts(allowed="0-1"), facts(allowed="2-3"), pinning="verify").usable


def test_ranks_are_placed_alike_on_what_all_nodes_have(snapshot: SnapshotAssertion) -> None:
    reserved = decided(facts(), facts(weka="1"), facts())
    assert listed(reserved.usable) == "0,2-3", "they keep off it everywhere"
    made = decided(facts(), facts(allowed="0-2"), facts(allowed="0,2-3"))
    assert listed(made.usable) == "0,2"
    assert {host: listed(cpus) for host, cpus in made.usable_of.items()} == {"n1": "0-3", "n2": "0-2", "n3": "0,2-3"}
    other_cores = decided(facts(EIGHT), facts(machine(1, 1, 4, threads=2)), facts(EIGHT))
    assert [len(one.notes) for one in (reserved, made, other_cores)] == [3, 3, 1]
    assert "\n".join([*reserved.notes, *made.notes, *other_cores.notes]) == snapshot


# Which CPUs


def test_more_ranks_than_usable_cpus_must_be_asked_for() -> None:
    one = facts(weka="3", reserved="3")
    made = decided(one, reserved="3")
    assert made.lacks(3) is None
    assert "3 usable CPUs (0-2)" in (made.lacks(4) or "")
    assert decided(one, reserved="3", pinning="verify").lacks(400) is None


# What is stored


def sampled(mask: str = "0", **changes: Any) -> Looks:
    one = {"masks": [mask], "thread_masks": [mask]}
    known = {"expected": 1, "seen": 1, "looks": 6, "gap_s": 0.2, "cost_s": 0.01, "wall_s": 1.0}
    return msgspec.convert(known | {"processes": [{"role": "rank", "count": 1, **one}]} | changes, Looks)


def test_what_was_planned_and_seen_is_recorded() -> None:
    made = decided(facts(weka="3", reserved="2-3"), reserved="2-3")
    told = made.record(made.binding(3, True), {"n1": sampled(expected=3)})
    assert told
    assert (told.pinning, told.placement, told.width, told.planned) == ("enforce", "spread", "cpu", {"0": 2, "1": 1})
    (node,) = told.nodes
    assert (node.hosts, node.usable, node.reserved, node.expected) == (("n1",), "0-1", "2-3", 3)
    assert (node.by, node.problems) == ((CLIENT, CONFIGURATION), ()), "both name these CPUs"
    # where nothing was bound, and a source that reserves none is no reason
    none = facts(reserved_sources=[{"source": "/proc/mounts /w", "cpus": "", "says": "net=udp: reserves none"}])
    told = decided(none, pinning="verify").record(None, {"n1": sampled()})
    assert told
    assert (told.pinning, told.planned, told.placement, told.width) == ("verify", None, None, None)
    assert (told.nodes[0].reserved, told.nodes[0].by, told.nodes[0].problems) == ("", (), ())
    # where nobody looked
    assert made.record(made.binding(1, True), None) is made.record(made.binding(1, True), {}) is None
