"""What stands out: ranks by the nodes that they ran on, and shapes of rates over time."""

import json
import random

from syrupy.assertion import SnapshotAssertion

from iosweep.details import NodeRate
from iosweep.judge.checks.timing import shape, stall
from iosweep.judge.nodes import rates_of_run
from iosweep.tools import Evidence, Parsed

MIB = 1 << 20

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
