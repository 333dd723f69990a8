"""Messages of many nodes over one srun: in pieces, in any order, between other lines."""

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from iosweep.slurm import fan_out


def lines(number: int, who: str, value: object) -> list[bytes]:
    read, write = os.pipe()
    fan_out.send(number, who, value, write)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        return file.read().split(b"\n")


def test_messages_of_two_nodes_in_any_order() -> None:
    chance = random.Random(1)
    values = {who: [who, "".join(chance.choices("abcdef", k=5000))] for who in ("n1", "n2")}
    mixed = [line for who, value in values.items() for line in lines(7, who, value)] + [b"srun: words", b"1 2", b"7 n1"]
    chance.shuffle(mixed)
    assert max(map(len, mixed)) < 1000
    messages = fan_out.Messages()
    found = [message for line in mixed if (message := messages.add(line))]
    assert {message.who: message.value for message in found} == values
    assert {message.number for message in found} == {7}


@given(st.binary(max_size=40))
def test_other_lines_are_ignored(line: bytes) -> None:
    assert fan_out.Messages().add(b"1 n1 0/1 !" + line) is None
    assert fan_out.Messages().add(line) is None
