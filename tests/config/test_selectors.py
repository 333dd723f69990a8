"""Selectors: text -> figure -> text, and what they mean of what a campaign measures."""

from __future__ import annotations

import msgspec

from iosweep.config.criteria import (
    Selector,
    Subject,
    Where,
    find_pairs,
    lacks,
    matches,
    parse_selector,
)

RAND = Subject("fio", "rand_read", ("small",), {"nodes": 1, "queue_depth": 1, "transfer_size": 4096, "o_direct": True})
DEEP = RAND._replace(values={**RAND.values, "queue_depth": 32})
SEQ = Subject("ior", "seq_read", ("big", "weka.read"), {"nodes": 1, "transfer_size": 1 << 20})
CREATE = [Subject("mdtest", "create", ("meta",), {"nodes": n, "threads_per_node": 8}) for n in (1, 2, 8)]
ALL = [RAND, DEEP, SEQ, *CREATE]


def test_figures_have_names() -> None:
    named = {
        "read_bandwidth": ("seq_read", "bandwidth"),
        "write_bandwidth": ("seq_write", "bandwidth"),
        "read_iops": ("rand_read", "iops"),
        "mixed_iops": ("rand_mixed", "iops"),
        "rand_read": ("rand_read", "iops"),
        "seq_read": ("seq_read", "bandwidth"),
        "seq_read_iops": ("seq_read", "iops"),
        "read_rate": ("read", "rate"),
        "create": ("create", "rate"),
        "dir_create_rate": ("dir_create", "rate"),
        "read_latency": ("rand_read", "latency"),
        "rand_read  p99": ("rand_read", "p99"),
    }
    for text, means in named.items():
        found = parse_selector(text)
        assert ((found.phase, found.metric), found.where, found.ratio) == (means, (), None), text


def test_points_are_named_by_axes_and_read_back() -> None:
    named = {
        "rand_read p99 at queue_depth 1, nodes 2": (Where("queue_depth", 1), Where("nodes", 2)),
        "rand_read p99 at transfer_size 4k": (Where("transfer_size", 4096),),
        "rand_read iops at o_direct true, sweep weka.read-iops": (
            Where("o_direct", True),
            Where("sweep", "weka.read-iops"),
        ),
        "seq_read bandwidth at tool ior, file_size 1g": (Where("tool", "ior"), Where("file_size", 1 << 30)),
        "rand_read p99 ratio queue_depth 1 -> 32 at nodes 2": (Where("nodes", 2),),
        "seq_read ratio transfer_size 4k -> 1m": (),
        "rand_read ratio ioengine libaio -> io_uring": (),
        "rand_read p99 ratio o_direct false -> true at nodes 2": (Where("nodes", 2),),
    }
    for text, where in named.items():
        found = parse_selector(text)
        assert (found.where, found.text) == (where, text)
        assert msgspec.json.decode(msgspec.json.encode(found), type=Selector) == found
    found = parse_selector("create scaling nodes 1 -> 8")
    assert found == parse_selector("create ratio nodes 1->8")
    assert found.ratio == (Where("nodes", 1), Where("nodes", 8))
    assert [side.where for side in found.sides()] == [(Where("nodes", 1),), (Where("nodes", 8),)]


def test_a_selector_means_the_points_that_have_its_values() -> None:
    assert [matches(parse_selector("rand_read p99"), one) for one in ALL] == [True, True, False, False, False, False]
    assert [one for one in ALL if matches(parse_selector("rand_read at queue_depth 32"), one)] == [DEEP]
    assert [one for one in ALL if matches(parse_selector("seq_read at sweep weka.read, tool ior"), one)] == [SEQ]
    assert not matches(parse_selector("rand_read at o_direct false"), RAND)
    assert "measures no latency" in (lacks(parse_selector("seq_read p99"), ALL) or "")


def test_a_ratio_pairs_points_that_differ_in_its_axis_only() -> None:
    def point(**values: object) -> Subject:
        return Subject("fio", "rand_read", (), {"nodes": 1, "queue_depth": 1, "data": "random", **values})

    points = [
        point(),
        point(nodes=2),
        point(nodes=2, queue_depth=8),
        point(queue_depth=8),
        point(nodes=2, data="tool_default"),  # which reads do not use
        point(nodes=2, ioengine="psync"),
    ]
    assert find_pairs(parse_selector("rand_read scaling nodes 1 -> 2"), points) == [(0, 1), (0, 4), (3, 2)]
    assert find_pairs(parse_selector("rand_read scaling nodes 1 -> 2 at queue_depth 8"), points) == [(3, 2)]
    assert find_pairs(parse_selector("rand_read ratio queue_depth 8 -> 1"), points) == [(2, 1), (2, 4), (3, 0)]
    assert find_pairs(parse_selector("rand_read scaling nodes 1 -> 4"), points) == []
