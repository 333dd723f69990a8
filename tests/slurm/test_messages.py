"""Messages between a runner and many nodes over one srun: requests on its input, answers on its output."""

import json
import os
import random

from hypothesis import given
from hypothesis import strategies as st

from iosweep.slurm import messages

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 2) | st.text(max_size=3)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@given(st.lists(st.lists(VALUES, max_size=3), min_size=1, max_size=3))
def test_each_node_gets_its_own_arguments(own: list[list[object]]) -> None:
    each = {f"n{k}": values for k, values in enumerate(own)}
    common, differ = messages.split(each)
    sent = messages.request(messages.line({"common": common, "each": differ}))
    assert isinstance(sent, dict)
    for host, values in each.items():
        got = messages.changed(sent["common"], sent["each"][host])
        assert json.dumps(got) == json.dumps(values)  # 1, 1.0 and true are different values


def lines(number: int, who: str, value: object) -> list[bytes]:
    read, write = os.pipe()
    messages.send(number, who, value, write)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        return file.read().split(b"\n")


def test_answers_of_two_nodes_are_put_together_in_any_order_between_other_lines() -> None:
    chance = random.Random(1)
    values = {who: [who, "".join(chance.choices("abcdef", k=5000))] for who in ("n1", "n2")}
    mixed = [line for who, value in values.items() for line in lines(7, who, value)]
    mixed += [b"srun: words", b"1 2", b"7 n1", b"1 n3 0/1 !damaged", b"\xff"]
    chance.shuffle(mixed)
    assert max(map(len, mixed)) < 1000  # srun cuts longer ones
    received = messages.Messages()
    found = [message for line in mixed if (message := received.add(line))]
    assert {message.who: message.value for message in found} == values
    assert {message.number for message in found} == {7}
