"""How much a configuration may ask for: combinations are counted before they are made, and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from campaign import METADATA, document, make, problems
from iosweep.errors import ConfigError

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


def test_the_first_hundred_problems_are_printed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make(tmp_path, document(**{f"k{n}": 1 for n in up_to(1234)}))
    *lines, last = str(caught.value).splitlines()
    assert (len(caught.value.problems), len(lines), last) == (1234, 100, "and 1,134 more")


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


WORKERS = "65,536 nodes x 4,096 threads_per_node are 268,435,456 workers; a point may have 1,048,576: give fewer"
#: A sweep that each tool can measure.
SWEEPS: dict[str, dict[str, Any]] = {
    "fio": {},
    "ior": {"tool": "ior", "phases": ["seq_read"]},
    "mdtest": {"tool": "mdtest", "phases": ["create"], "options": None, "phase_time": None},
}


@pytest.mark.parametrize("tool", SWEEPS)
def test_ranks_of_a_point(tmp_path: Path, tool: str) -> None:
    """Each number is within its limits; the product would be names of files that fill the memory."""
    axes = {"threads_per_node": [4096, 4095], "nodes": [65536]}
    [wrong] = problems(tmp_path, document(**SWEEPS[tool] | {"axes": axes}), make)
    assert wrong.endswith(f": sweeps[0].axes.nodes: {WORKERS}")
    most = SWEEPS[tool] | {"axes": {"nodes": [65536], "threads_per_node": [16]}}
    assert problems(tmp_path, document(**most), make) == []


def test_files_of_a_point(tmp_path: Path) -> None:
    axes = {"threads_per_node": [2], "nodes": [4]}
    options = {"file_size": "1m", "files_per_thread": 131073}
    [wrong] = problems(tmp_path, document(axes=axes, options=options), make)
    assert wrong.endswith(
        ": sweeps[0].options.files_per_thread: 131,073 files_per_thread x 2 threads_per_node x 4 nodes are 1,048,584"
        " files; a point of data phases may have 1,048,576: give fewer"
    )
    assert problems(tmp_path, document(axes=axes, options=options | {"files_per_thread": 131072}), make) == []
    metadata = METADATA | {"options": {"files_per_thread": 10_000_000}}  # counted by the tool, and never listed
    assert problems(tmp_path, document(**metadata), make) == []


def test_repetitions_of_a_plan(tmp_path: Path) -> None:
    many = document(axes={"queue_depth": up_to(16)}, repetitions=65536)
    with pytest.raises(ConfigError, match="1,048,576 repetitions are planned, and a campaign may have 1,000,000; give"):
        make(tmp_path, many)
