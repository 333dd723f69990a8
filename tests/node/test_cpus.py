"""CPU sets as values, and the CPUs of a node in the kernel's numbers and in Slurm's."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from iosweep.node.cpus import MOST, Topology, listed, named, parse
from topologies import AWS_192, HYPER_96, INTERLEAVED_64, ONE_NODE, WEKA_56

# Sets


LISTS: dict[str, Iterable[int]] = {
    "": [],
    "8,0-3": [0, 1, 2, 3, 8],
    "0-3, 2-5\n": range(6),
    "24 25\t26": [24, 25, 26],
    str(MOST - 1): [MOST - 1],
}
NO_LISTS = ["3-1", "-1", "1-", "a", "0x3", "1-2-3", "0:1", "0-7:2", "1.5", "0 - 3", "0;1", "٣", "0-99999999", "all"]


def test_a_list_of_cpus_and_what_is_none() -> None:
    for text, cpus in LISTS.items():
        assert parse(text) == frozenset(cpus), text
    for text in (*NO_LISTS, str(MOST)):
        with pytest.raises(ValueError, match=r"range of CPUs.*; write "):
            parse(text)


def test_how_a_set_is_written() -> None:
    known = [([], "", "CPUs none"), ([3], "3", "CPU 3"), ([8, 3, 2, 1, 0], "0-3,8", "CPUs 0-3,8")]
    for cpus, text, words in (*known, ([1, 3], "1,3", "CPUs 1,3")):
        assert (listed(cpus), named(frozenset(cpus))) == (text, words)


# Topology: what /sys says, in hwloc's order


def test_slurmd_counts_in_this_order(tmp_path: Path) -> None:
    """machine, the kernel's numbers of its last CPUs, and what slurmd 22.05.8 calls them in CpuSpecList."""
    for number, (made, kernel, slurm) in enumerate(
        (
            (WEKA_56, "24-27", "24-27"),
            (INTERLEAVED_64, "56-63", "28-31,60-63"),
            (HYPER_96, "23,47,71,95", "46-47,94-95"),
            (AWS_192, "95,191", "190-191"),
            (ONE_NODE, "3,5,11,13", "6-7,10-11"),
        )
    ):
        topology = Topology.read(made.write(tmp_path / str(number)))
        assert topology == made.topology
        assert listed(topology.to_slurm(parse(kernel))) == slurm
        assert topology.with_siblings(parse(kernel)) == parse(kernel)
        assert topology.with_siblings({max(parse(kernel))}) == next(c for c in made.cores if max(parse(kernel)) in c)
