"""What stands out: nodes among nodes, ranks by the nodes that they ran on, and shapes of rates over time."""

import json
import random
from statistics import median

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.details import NodeRate
from iosweep.judge.checks.timing import shape, stall
from iosweep.judge.nodes import Comparison, Measured, compare, rates_of_run
from iosweep.tools import Evidence, Parsed

MIB = 1 << 20

# Nodes among nodes


def one(*values: float) -> Comparison:
    """Nodes a, b, c ... with one value each."""
    (found,) = compare(("p", "seq_read", chr(ord("a") + i), value) for i, value in enumerate(values))
    return found


def named(found: Comparison) -> str:
    return "".join(sorted(standing.host for standing in found.standings if standing.outlier))


def test_allowed_difference_grows_with_the_scatter() -> None:
    # deviations 0, 5, 5, 10, 30 %: three robust standard deviations of 5 % are 22 %
    found = one(100, 95, 105, 110, 70)
    assert [s.host for s in found.standings] == ["e", "b", "a", "c", "d"]  # the slowest first
    assert found.allowed == pytest.approx(3 * 1.4826 * 0.05)
    assert named(found) == "e"
    assert named(one(100, 95, 105, 110, 80)) == ""


def test_a_node_is_named_only_where_most_agree_and_it_does_not() -> None:
    for values, expected in (
        ((100, 100, 100), ""),
        ((100, 100, 89), "c"),  # no deviation at all: the 10 % decide
        ((100, 100, 120), "c"),  # too fast is odd as well: a cache, another mount
        ((100, 80, 60), ""),  # three that all differ: none
        ((100, 100, 50, 50), ""),  # half and half: the rule cannot tell which
        ((100, 101, 99, 100, 60, 59), "ef"),
    ):
        assert named(one(*values)) == expected, values
    assert compare([]) == []


def test_too_few_nodes_name_none() -> None:
    for values in ((100,), (100, 1)):
        found = one(*values)
        assert (found.allowed, named(found)) == (None, "")
        assert [s.ratio for s in found.standings] == [value / median(values) for value in sorted(values)]


def test_a_node_counts_once_however_often_it_was_measured() -> None:
    rows: list[Measured] = [("p", "f", "slow", 50.0)] * 9
    rows += [("p", "f", host, value) for host in "abc" for value in (90.0, 100.0, 400.0)]
    (found,) = compare(rows)
    assert (found.median, named(found)) == (100, "slow")


def test_points_and_phases_are_compared_separately() -> None:
    rows: list[Measured] = [
        (point, phase, host, value * (50 if point == "q" else 1))
        for point, phase in (("p", "f"), ("p", "g"), ("q", "f"))
        for host, value in (("a", 10), ("b", 10), ("c", 5 if phase == "g" else 10))
    ]
    assert [(c.point, c.phase, named(c)) for c in compare(rows)] == [("p", "f", ""), ("p", "g", "c"), ("q", "f", "")]


# Ranks by their nodes


def own(*rates: NodeRate) -> Parsed:
    return Parsed(evidence=Evidence(node_rates=rates))


def test_ranks_are_dealt_out_in_blocks() -> None:
    found = rates_of_run(own(*(NodeRate("", k, 10.0 + k, 1.0) for k in range(4))), {}, ["n1", "n2"])
    assert found == [
        NodeRate("n1", None, 21.0, 2.0), NodeRate("n1", 0, 10.0, 1.0), NodeRate("n1", 1, 11.0, 1.0),
        NodeRate("n2", None, 25.0, 2.0), NodeRate("n2", 0, 12.0, 1.0), NodeRate("n2", 1, 13.0, 1.0),
    ]  # fmt: skip


def test_rates_that_need_not_be_dealt_out_stay() -> None:
    one_each = [NodeRate("", 0, None, 1.0), NodeRate("", 1, None, 2.0)]
    for rates, hosts, expected in (
        (one_each, ["n1", "n2"], [NodeRate("n1", None, None, 1.0), NodeRate("n2", None, None, 2.0)]),
        ([NodeRate("", 0, 1.0), NodeRate("", 1, 1.0), NodeRate("", 2, 1.0)], ["n1", "n2"], None),
    ):
        assert list(rates_of_run(own(*rates), {}, hosts)) == (expected or rates)


def counted(**nodes: dict[str, float]) -> dict[str, bytes]:
    """Looks at ranks, which move so many MiB a second."""
    looks = {
        host: {rank: [int(k * rate * MIB) for k in range(8)] for rank, rate in own.items()}
        for host, own in nodes.items()
    }
    lines = [{"host": host, "at_s": list(range(8)), "moved_bytes": own} for host, own in looks.items()]
    return {"progress": b"".join(json.dumps(line).encode() + b"\n" for line in lines)}


def test_where_the_tool_tells_none_the_kernel_does() -> None:
    streams = counted(n1={"0": 4, "1": 4}, n2={"2": 4, "3": 1})
    parsed = Parsed(figures={"ops": 800}, evidence=Evidence(tasks=4, transferred_bytes=100 * MIB))
    found = rates_of_run(parsed, streams, ["n1", "n2"])
    assert [(one.host, one.worker, one.bandwidth_bytes_per_s) for one in found] == [
        ("n1", None, 8 * MIB), ("n1", 0, 4 * MIB), ("n1", 1, 4 * MIB),
        ("n2", None, 5 * MIB), ("n2", 0, 4 * MIB), ("n2", 1, MIB),
    ]  # fmt: skip
    assert [one.ops_per_s for one in found[:3]] == [64.0, 32.0, 32.0]
    assert rates_of_run(own(NodeRate("n9", None, 1.0)), streams, ["n1", "n2"]) == (NodeRate("n9", None, 1.0),)


def test_not_all_ranks_are_none() -> None:
    streams = counted(n1={"0": 4, "1": 4}, n2={"2": 4})
    assert not rates_of_run(Parsed(evidence=Evidence(tasks=4)), streams, ["n1", "n2"])


# Rates over time


def test_a_shape_has_its_words(snapshot: SnapshotAssertion) -> None:
    told = []
    for values in (
        [1200.0] * 14 + [300.0] * 46,
        [300.0] * 12 + [1200.0] * 48,
        [300.0] * 40 + [1200.0] * 20,
        [1000.0 + 400.0 * k / 59 for k in range(60)],
        ([1000.0] * 3 + [300.0] * 3) * 10,
    ):
        found = shape(values, 1.0, 1000.0, "{:.0f}".format)
        assert found
        told.append(found.text)
    assert "\n".join(told) == snapshot


def test_a_standstill_is_told_with_its_time_and_a_short_one_is_none() -> None:
    for values, interval_s, ops_per_s, said in (
        ([100.0] * 11 + [0.0] * 9, 0.1, 1000.0, "0.9 s of 2.0 s"),
        ([100.0] * 3 + ([0.0] * 3 + [100.0] * 3) * 3, 0.1, 1000.0, "0.9 s of 2.1 s"),
        ([100.0] * 19 + [0.0], 0.1, 1000.0, None),
        ([0.0, 0.0, 0.0, 100.0] * 5, 0.1, 2.5, None),  # large I/Os, one in 0.4 s
    ):
        found = stall(values, interval_s, ops_per_s)
        assert bool(found) == bool(said) and (not found or said in found.text), values


def test_a_square_wave_is_two_modes_whatever_its_period() -> None:
    """A limit that throttles in bursts: also where the wave does not fit the windows."""
    chance = random.Random(7)
    for count, interval_s in ((60, 1.0), (120, 0.5), (600, 0.1)):
        for period_s in (2, 3, 4, 5, 8, 12, 20):
            for low in (0.1, 0.5):
                wave = [low if (k * interval_s) % period_s < period_s / 2 else 1.0 for k in range(count)]
                found = shape([1000 * chance.gauss(level, 0.03) for level in wave], interval_s, 1000, str)
                assert found, (count, period_s, low)
        for scatter in (0.1, 0.3):
            assert not shape([1000 * chance.gauss(1, scatter) for _ in range(count)], interval_s, 1000, str)
