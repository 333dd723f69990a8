"""Stragglers: ranks by the nodes that they ran on."""

import json

from iosweep.histograms import NodeRate
from iosweep.judge.checks.stragglers import rates_of_run
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
