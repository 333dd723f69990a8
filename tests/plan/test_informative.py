"""Which points come first where time is not enough."""

from pathlib import Path

import pytest

import campaign
from iosweep.plan.informative import lateness, levels


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], {7: 0}),
        ([1, 2], {1: 0, 2: 0}),
        ([4, 1, 2], {1: 0, 2: 1, 4: 0}),
        ([1, 2, 4, 8, 16], {1: 0, 2: 2, 4: 1, 8: 2, 16: 0}),
        ([1, 2, 3, 4], {1: 0, 2: 1, 3: 2, 4: 0}),
    ],
)
def test_levels(values: list[int], expected: dict[int, int]) -> None:
    assert levels(values) == expected


def test_corners_first(tmp_path: Path) -> None:
    axes = {"threads_per_node": [1, 2, 4], "queue_depth": [1, 2, 4, 8, 16], "ioengine": ["libaio", "io_uring"]}
    plan = campaign.make(tmp_path, campaign.document(axes=axes))
    late = lateness(plan.points)
    corners = [point for point in plan.points if late[point.id] == 0]
    assert len(corners) == 8
    assert {(p.options["threads_per_node"], p.options["queue_depth"]) for p in corners} == {
        (1, 1),
        (1, 16),
        (4, 1),
        (4, 16),
    }
    middle = [late[p.id] for p in plan.points if (p.options["threads_per_node"], p.options["queue_depth"]) == (2, 4)]
    assert middle == [2, 2]


def test_a_point_of_two_sweeps_is_as_early_as_in_one_of_them(tmp_path: Path) -> None:
    known = campaign.document(axes={"queue_depth": [1, 2, 4]})
    known["sweeps"].append(known["sweeps"][0] | {"name": "other", "axes": {"queue_depth": [2, 8]}})
    plan = campaign.make(tmp_path, known)
    late = {point.options["queue_depth"]: lateness(plan.points)[point.id] for point in plan.points}
    assert late == {1: 0, 2: 0, 4: 0, 8: 0}
