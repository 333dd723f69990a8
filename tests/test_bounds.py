"""How much a configuration may ask for: combinations are counted before they are made, and refused."""

import json
from pathlib import Path
from typing import Any

from small import document, make, problems

MOST = "a campaign may have 100,000, excluded ones included; shorten an axis"


def up_to(number: int) -> list[int]:
    return list(range(1, number + 1))


def sweeps(*axes: dict[str, Any]) -> dict[str, Any]:
    """A configuration with a sweep for each."""
    made = document()
    (one,) = made["sweeps"]
    return made | {"sweeps": [one | {"name": f"s{k}", "axes": own} for k, own in enumerate(axes)]}


def test_a_product_of_everything(tmp_path: Path) -> None:
    """10^15 combinations: nothing that had begun to make them would end."""
    axes: dict[str, Any] = dict.fromkeys(("nodes", "threads_per_node", "queue_depth"), up_to(1000))
    axes |= {"transfer_size": [f"{n}k" for n in up_to(1000)], "file_size": [f"{n}m" for n in up_to(1000)]}
    [wrong] = problems(tmp_path, document(axes=axes, options=None))
    assert wrong.endswith(
        ": sweeps[0].axes: 1000 x 1000 x 1000 x 1000 x 1000 values are 1,000,000,000,000,000 combinations; " + MOST
    )


def test_exclusions_come_after_the_product(tmp_path: Path) -> None:
    axes = {"threads_per_node": up_to(400), "queue_depth": up_to(400)}
    left_out = [{"threads_per_node": up_to(400)[1:]}]
    [wrong] = problems(tmp_path, document(axes=axes, exclude=left_out))
    assert wrong.endswith(f"400 x 400 values are 160,000 combinations; {MOST}")


def test_all_sweeps_count(tmp_path: Path) -> None:
    axes = {"threads_per_node": up_to(200), "queue_depth": up_to(300)}
    [wrong] = problems(tmp_path, sweeps(axes, axes))
    assert "sweeps[1].axes: 200 x 300 values are 60,000 combinations, 120,000 with the sweeps before it; " in wrong
    assert problems(tmp_path, sweeps(axes)) == []


def test_the_most_that_is_planned(tmp_path: Path) -> None:
    axes = {"threads_per_node": up_to(1000), "queue_depth": up_to(100)}
    few = [{"threads_per_node": up_to(1000)[10:]}]
    assert len(make(tmp_path, document(axes=axes, exclude=few)).points) == 1000


def test_values_of_an_axis(tmp_path: Path) -> None:
    [wrong] = problems(tmp_path, document(axes={"queue_depth": up_to(1001)}))
    assert wrong.endswith(": sweeps[0].axes.queue_depth: has more than 1,000 values; give fewer")
    assert problems(tmp_path, document(axes={"queue_depth": up_to(1000)})) == []


def test_an_alias_is_as_many_values(tmp_path: Path) -> None:
    numbers = json.dumps(up_to(99))
    text = "campaign: c\ntarget: {directory: /t}\nsweeps:\n- {name: s, tool: fio, phases: [rand_read], axes: "
    text += f"{{nodes: &n {numbers}, threads_per_node: *n, queue_depth: *n}}, options: {{file_size: 16m}}}}\n"
    [wrong] = problems(tmp_path, text)
    assert "99 x 99 x 99 values are 970,299 combinations" in wrong


def test_sweeps_and_exclusions(tmp_path: Path) -> None:
    assert problems(tmp_path, sweeps(*([{"queue_depth": [1]}] * 1001))) == [
        "4: sweeps: has more than 1,000 values; give fewer"
    ]
    axes = {"threads_per_node": up_to(100), "queue_depth": up_to(100)}
    one = {"queue_depth": 7, "threads_per_node": 7}
    [wrong] = problems(tmp_path, document(axes=axes, exclude=[one] * 1001))
    assert wrong.endswith("sweeps[0].exclude: has more than 1,000 values; give fewer")
    [wrong] = problems(tmp_path, document(axes=axes, exclude=[one] * 501))
    assert "sweeps[0].exclude: 501 entries for 10,000 combinations are too many to compare" in wrong
    assert problems(tmp_path, document(axes=axes, exclude=[one] * 500)) == []
