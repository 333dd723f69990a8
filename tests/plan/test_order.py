"""The order of a round: points that are compared side by side are neighbors."""

from pathlib import Path
from typing import Any

import pytest

from campaign import document, make
from iosweep.plan.model import Plan, draw_order

TARGETS = {"a": {"directory": "/a"}, "b": {"directory": "/b"}}


def plan_of(place: Path, *, several: bool = True, **sweep: Any) -> Plan:
    made = document(**{"axes": {"queue_depth": [1, 2, 4, 8], "threads_per_node": [1, 2]}} | sweep)
    if several:
        del made["target"]
    return make(place, made | ({"targets": TARGETS} if several else {}))


def drawn(plan: Plan, axis: str, session: int = 1, number: int = 1) -> list[tuple[Any, Any]]:
    """(the other values of a point, its value of the axis) in the order of a round."""
    points = {point.id: point for point in plan.points}
    order = [id for group in draw_order(plan, plan.points, session, number) for id in group]
    assert sorted(order) == sorted(points)
    values = [{"nodes": points[id].nodes, **points[id].options} for id in order]
    return [(tuple(v for name, v in each.items() if name != axis), each[axis]) for each in values]


@pytest.mark.parametrize(
    ("axis", "sweep", "size"),
    [
        ("target", {}, 2),
        ("threads_per_node", {"side_by_side": "threads_per_node"}, 2),
        ("queue_depth", {"side_by_side": "queue_depth"}, 4),
        ("queue_depth", {"side_by_side": "queue_depth", "several": False}, 4),
    ],
)
def test_points_that_differ_in_the_axis_alone_are_neighbors(
    tmp_path: Path, axis: str, sweep: dict[str, Any], size: int
) -> None:
    plan = plan_of(tmp_path, **sweep)
    rounds = [drawn(plan, axis, session, number) for session in (1, 2) for number in range(1, 6)]
    for one in rounds:
        groups = [one[start : start + size] for start in range(0, len(one), size)]
        assert [len({others for others, _ in group}) for group in groups] == [1] * len(groups)
    # within a group and between groups the order is drawn
    assert len({tuple(value for _, value in one[:size]) for one in rounds}) > 1
    assert len({one[0][0] for one in rounds}) > 1
    assert drawn(plan, axis) == rounds[0]


def test_without_an_axis_every_point_has_its_own_place(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, several=False)
    one = draw_order(plan, plan.points, 1, 1)
    assert sorted(one) == sorted([point.id] for point in plan.points)
    assert one != draw_order(plan, plan.points, 1, 2) != draw_order(plan, plan.points, 2, 2)


def test_a_point_whose_neighbor_is_not_due_is_drawn_all_the_same(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    due = plan.points[:3]
    assert sorted(id for group in draw_order(plan, due, 1, 2) for id in group) == sorted(point.id for point in due)
