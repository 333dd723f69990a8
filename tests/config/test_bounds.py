"""How much a configuration may ask for: combinations are counted before they are made, and refused."""

import json
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from campaign import document, refused


def up_to(number: int) -> list[int]:
    return list(range(1, number + 1))


def sweeps(*axes: dict[str, Any]) -> str:
    """A configuration with a sweep for each."""
    made = document()
    (one,) = made["sweeps"]
    return json.dumps(made | {"sweeps": [one | {"name": f"s{k}", "axes": own} for k, own in enumerate(axes)]})


def text(**sweep: Any) -> str:
    return json.dumps(document(**sweep))


def depths(number: int, **axes: Any) -> dict[str, Any]:
    return {"queue_depth": up_to(number), **axes}


def test_what_would_fill_the_memory_is_refused_before_it_is_made(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """10^10 combinations: nothing that had begun to make them would end."""
    every: dict[str, Any] = dict.fromkeys(("nodes", "threads_per_node", "queue_depth"), up_to(100))
    every |= {"transfer_size": [f"{n}k" for n in up_to(100)], "file_size": [f"{n}m" for n in up_to(100)]}
    many = depths(320, threads_per_node=up_to(320))
    aliases = "campaign: c\ntarget: {directory: /t}\nsweeps:\n- {name: s, tool: fio, phases: [rand_read], axes: "
    aliases += f"{{nodes: &n {json.dumps(up_to(99))}, threads_per_node: *n, queue_depth: *n}}}}\n"
    cases = [
        text(axes=every, options=None),
        text(axes=many, exclude=[{"threads_per_node": up_to(320)[1:]}]),
        sweeps(*[depths(300, threads_per_node=up_to(200))] * 2),
        text(axes=depths(1001)),
        aliases,
        text(exclude=[1] * 1001),
        json.dumps(document() | {"sweeps": [1] * 1001}),
    ]
    assert refused(tmp_path, cases) == snapshot
