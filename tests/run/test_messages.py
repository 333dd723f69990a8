"""Messages between a runner and many nodes over one srun: requests on its input, answers on its output."""

import json
import os
import random

from iosweep.run import agents


def test_a_request_to_many_nodes_is_short_and_whole() -> None:
    each = {
        f"n{k}": [["fio", f"--directory=/mnt/x/n{k}", f"--randseed={k * 7919 % 10007}"], k, 1.0] for k in range(999)
    }
    line = agents.pack({"each": each})
    assert len(line) < len(json.dumps(each)) / 3
    assert agents.unpack(line) == {"each": each}


def lines(number: int, who: str, value: object) -> list[bytes]:
    read, write = os.pipe()
    agents.send(number, who, value, write)
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
    received = agents.Messages()
    found = [message for line in mixed if (message := received.add(line))]
    assert {message.host: message.value for message in found} == values
    assert {message.number for message in found} == {7}
