"""Requests to many nodes: what they have in common is sent once."""

import json

from hypothesis import given
from hypothesis import strategies as st

from iosweep.slurm import broadcast

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 2) | st.text(max_size=3)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner))


@given(st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=5))
def test_each_node_gets_its_own_arguments(own: list[list[object]]) -> None:
    each = {f"n{k}": values for k, values in enumerate(own)}
    common, differ = broadcast.split(each)
    sent = broadcast.request(broadcast.line({"common": common, "each": differ}))
    assert isinstance(sent, dict)
    for host, values in each.items():
        got = broadcast.changed(sent["common"], sent["each"][host])
        assert json.dumps(got) == json.dumps(values)  # 1, 1.0 and true are different values


def test_a_thousand_commands_are_short() -> None:
    words = ["/usr/bin/fio", "--name=rand_read", *(f"--option{k}=value" for k in range(30))]
    each = {f"node{k}": [[*words, f"--directory=/mnt/target/set.node{k}"], [0, 1]] for k in range(1000)}
    common, differ = broadcast.split(each)
    assert differ["node7"] == [([0, len(words)], "--directory=/mnt/target/set.node7")]
    assert len(broadcast.line({"common": common, "each": differ})) < len(json.dumps(each)) / 50


def test_a_line_is_one_line() -> None:
    for request in ({"a": "b\nc"}, {"a": "\n" * 5000}):
        line = broadcast.line(request)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert broadcast.request(line) == request
