"""Side by side: ramps and confirmations act on all values of the axis that a sweep compares."""

from pathlib import Path

from judge.test_remaining import HERE, Stored, left, result

from campaign import document, make
from iosweep.judge.remaining import open_repetitions
from iosweep.plan import forecast
from iosweep.plan.model import Plan, Point

DEPTHS = [1, 2, 4, 8, 16, 32]
ENGINES = ("libaio", "io_uring")
Side = tuple[object, object]  # queue depth and engine


def planned(tmp_path: Path, depths: list[int], **more: object) -> Plan:
    axes = {"queue_depth": depths, "ioengine": [*ENGINES]}
    return make(tmp_path, document(axes=axes, repetitions=1, side_by_side="ioengine", **more))


def side(point: Point) -> Side:
    return point.options["queue_depth"], point.options["ioengine"]


def measured(plan: Plan, rates: dict[Side, float]) -> Stored:
    return {p.id: {1: result(p.id, 1, rates[side(p)])} for p in plan.points if side(p) in rates}


def test_a_climb_ends_when_all_sides_have_ended(tmp_path: Path) -> None:
    plan = planned(tmp_path, DEPTHS, ramp="queue_depth")
    flat = {(depth, engine): 5.0 for depth in (1, 2, 4, 32) for engine in ENGINES}
    skipped = {
        side(p) for p in plan.points if p.id in open_repetitions(plan, measured(plan, flat), ())["1-node"].unneeded
    }
    assert skipped == {(depth, engine) for depth in (8, 16) for engine in ENGINES}
    rising = flat | {(4, "io_uring"): 9.0}
    found = open_repetitions(plan, measured(plan, rising), ())["1-node"]
    of_step = {p.id: [1] for p in plan.points if side(p)[0] == 8}
    assert (found.unneeded, found.now) == ({}, of_step)  # both sides of the next step, which do not wait for each other


def test_the_best_point_is_confirmed_on_all_sides(tmp_path: Path) -> None:
    plan = planned(tmp_path, [1, 2, 4], confirm=2)
    rates = {(depth, engine): float(depth) for depth in (1, 2, 4) for engine in ENGINES} | {(4, "io_uring"): 9.0}
    confirmed = {p.id: [1001, 1002] for p in plan.points if side(p)[0] in (1, 4)}  # 1 has the latency
    assert left(plan, measured(plan, rates), {}, HERE) == {"1-node": confirmed}
    assert forecast.forecast_of(plan).repetitions == 6 + 4 * 2
