"""Requests to many nodes, each a line that srun sends to all of them.

srun sends its input in pieces of a kilobyte, each to every node, so that what is sent grows with the square of the
nodes where each has a part of its own. So a request has what the nodes' arguments have in common once, for each node
only what differs, and is compressed where it is long. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from iosweep.slurm import fan_out

#: Bytes of a line that is sent as it is.
_SHORT = 900

#: Where a value is in nested lists, and the value.
Change = tuple[list[int], object]


def line(request: object) -> bytes:
    """A request as a line."""
    text = json.dumps(request).encode()
    return (text if len(text) <= _SHORT else fan_out.packed(text).encode()) + b"\n"


def request(line: bytes) -> object:
    """The request of a line. Raises ValueError and zlib.error."""
    return json.loads(line if line.startswith(b"{") else fan_out.unpacked(line))


def changes(common: object, own: object, place: Sequence[int] = ()) -> list[Change]:
    """What makes `own` of `common`, both of JSON's types: lists of one length are compared item by item."""
    if isinstance(common, list) and isinstance(own, list) and len(common) == len(own):
        return [
            one for k, (a, b) in enumerate(zip(common, own, strict=True)) for one in changes(a, b, [*place, k])
        ]  # fmt: skip
    # 1, 1.0 and true are equal in Python
    return [] if type(common) is type(own) and json.dumps(common) == json.dumps(own) else [(list(place), own)]


def changed(common: object, found: Sequence[Change]) -> object:
    """`common` with some changes."""
    for place, value in found:
        common = _put(common, place, value)
    return common


def _put(into: object, place: Sequence[int], value: object) -> object:
    if not place:
        return value
    assert isinstance(into, list)
    first, *rest = place
    return [*into[:first], _put(into[first], rest, value), *into[first + 1 :]]


def split(each: Mapping[str, list[object]]) -> tuple[list[object], dict[str, list[Change]]]:
    """host -> arguments, as what the first host has, and host -> its changes to that."""
    common = next(iter(each.values()))
    return common, {host: changes(common, own) for host, own in each.items()}
