"""Which CPUs the ranks of a node get, worked by hand."""

from dataclasses import replace

from iosweep.node.cpus import parse
from iosweep.node.pinning import Policy, Width, place
from topologies import (
    FAST_AND_SLOW,
    HYPER_96,
    INTERLEAVED_64,
    ONE_NODE,
    WEKA_56,
    Machine,
    machine,
)

#: Two sockets of two NUMA nodes of two cores: 0-1, 2-3 | 4-5, 6-7; second threads 8-15.
SMALL = machine(2, 2, 2, threads=2)
#: NUMA nodes that are numbered the other way round.
TURNED = replace(machine(1, 2, 2), numa={0: range(2, 4), 1: range(2)})


def placed(made: Machine, ranks: int, policy: Policy, without: str = "", width: Width = "cpu") -> str:
    """The CPUs of the ranks in words: `0 2 4+12`."""
    topology = made.topology
    free = made.cpus - topology.with_siblings(parse(without))
    binding = place(ranks, free, topology, policy, width)
    return " ".join("+".join(map(str, sorted(cpus))) for cpus in binding.ranks)


BY_HAND: list[tuple[Machine, Policy, int, str, str]] = [
    # spread: sockets in turn, then their NUMA nodes; siblings when every core has a rank
    (SMALL, "spread", 17, "", "0 4 2 6 1 5 3 7 8 12 10 14 9 13 11 15 0"),
    # a node with one core less drops out, and its siblings wait as all do
    (SMALL, "spread", 9, "0", "1 4 2 6 5 3 7 9 12"),
    # pack: a NUMA node to its last sibling, then the next
    (SMALL, "pack", 4, "0,8", "1 9 2 3"),
    (SMALL, "pack", 17, "", "0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15 0"),
    # the documentation's: WEKA on the last four of NUMA node 1
    (WEKA_56, "spread", 6, "24-27", "0 28 14 42 1 29"),
    (WEKA_56, "pack", 3, "24-27", "0 1 2"),
    (INTERLEAVED_64, "pack", 4, "56-63", "0 2 4 6"),
    (HYPER_96, "spread", 3, "47", "0 24 1"),
    (FAST_AND_SLOW, "spread", 13, "", "0 2 4 6 8 9 10 11 12 13 14 15 1"),
    # one NUMA node over two sockets: the sockets in turn all the same
    (ONE_NODE, "spread", 4, "", "0 4 1 5"),
    (TURNED, "pack", 4, "", "0 1 2 3"),
]


def test_ranks_are_placed_as_by_hand() -> None:
    for made, policy, ranks, without, expected in BY_HAND:
        assert placed(made, ranks, policy, without) == expected, (policy, ranks, without, expected)


def test_a_core_for_each_rank_is_chosen_as_by_hand() -> None:
    assert placed(SMALL, 9, "spread", "", "core") == "0+8 4+12 2+10 6+14 1+9 5+13 3+11 7+15 0+8"
    assert placed(SMALL, 2, "pack", "0", "core") == "1+9 2+10"
    binding = place(3, frozenset({0, 1, 9}), SMALL.topology, "pack", "core")
    assert binding.ranks == ({0}, {1, 9}, {0}), "of one core the job has one thread"
