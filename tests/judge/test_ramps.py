"""Ramps: how far an axis is climbed, also by sides that are compared."""

from dataclasses import replace
from pathlib import Path

import pytest
from judge.test_remaining import HERE, Stored, depth, left, measured, result

from campaign import document, make
from iosweep.judge.best import Reached, climbs, reached
from iosweep.judge.remaining import find, open_repetitions
from iosweep.plan import forecast
from iosweep.plan.model import Plan, Point
from iosweep.store.record import Missing, Needs, RecordHead

DEPTHS = [1, 2, 4, 8, 16, 32]
SKIPPED = "skipped: no certain gain in two steps above queue depth 2"
RAMP = "queue_depth"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make(tmp_path, document(axes={"queue_depth": DEPTHS}, repetitions=2, ramp=RAMP))


def steps(*figures: list[float] | None) -> list[dict[str, list[float]] | None]:
    return [None if values is None else {"p": values} for values in figures]


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        ([[10], [20], [20.5], [20.1], None], Reached(4, top=1)),  # two steps gained less than 10 %
        ([[10], [20], [20.5], [19], None, None, [20]], Reached(4, top=1)),
        ([[10], [20], [20.5], [19], None, None, [40]], Reached(7)),  # the last step shows that there is more
        ([[10], [20], [20.5], [19], [40], None, [40]], Reached(7)),
        ([[10], [20], [20.5], [19], [40], [40], [40], [40]], Reached(7, top=4)),
        ([[10], [20], [20.5], [19], None, None, []], Reached(4, top=1)),  # the last step has no figure
        ([[10, 10], [10.4, 10.4], [10.8, 10.8], [11.3, 11.3]], Reached(4)),  # more than 3 %, and no noise
        ([[10, 10], [10.2, 10.2], [10.3, 10.3], [10.2, 10.2]], Reached(3, top=0)),
        ([[9, 11], [10, 12], [11, 10], [9, 13]], Reached(3, top=0)),  # the noise explains it
        ([[10], [], [20], [20]], Reached(4)),  # a step without a figure neither gains nor stays behind
        ([[10], [20], [39, 43], [41, 40], [40, 41]], Reached(5, top=2)),  # the noise of all steps, not of the first two
    ],
)
def test_a_ramp_ends_after_two_steps_without_a_gain(figures: list[list[float] | None], found: Reached) -> None:
    assert reached(steps(*figures)) == found


def test_a_climb_goes_on_while_any_phase_gains() -> None:
    known = [{"read": [10.0], "write": [10.0 * n]} for n in (1, 2, 4, 8)]
    assert reached(known) == Reached(4)
    assert reached([*known, {"read": [9.0], "write": [80.0]}, {"read": [9.0], "write": [80.0]}]) == Reached(6, top=3)


def test_it_is_climbed_step_by_step(plan: Plan) -> None:
    stored: dict[str, dict[int, RecordHead]] = {}
    order = []
    while todo := left(plan, stored, {}, HERE).get("1-node"):
        number = min(numbers[0] for numbers in todo.values())
        for point in [p for p, numbers in todo.items() if numbers[0] == number]:
            value = next(p.options["queue_depth"] for p in plan.points if p.id == point)
            order.append((value, number))
            stored.setdefault(point, {})[number] = result(point, number, min(value, 4.0))
    assert order[:6] == [(1, 1), (32, 1), (2, 1), (4, 1), (8, 1), (16, 1)]
    assert sorted(order[6:]) == [(d, 2) for d in DEPTHS]
    assert find(plan, stored, {}, HERE).expected == {}


def test_what_is_skipped_has_a_reason(plan: Plan) -> None:
    flat = {1: [1.0] * 2, 2: [2.0] * 2, 4: [2.0] * 2, 8: [2.0] * 2}
    found = open_repetitions(plan, measured(plan, flat | {32: [2.0] * 2}), ())["1-node"]
    assert found.unneeded == {depth(plan, 16): f"{SKIPPED}, nor at queue depth 32"}
    assert (found.now, found.later) == ({}, {})
    found = open_repetitions(plan, measured(plan, flat), ())["1-node"]  # nothing is claimed of what is not measured
    assert (found.unneeded, found.now) == ({depth(plan, 16): SKIPPED}, {depth(plan, 32): [1, 2]})


def test_a_point_that_another_sweep_asks_for_is_measured(tmp_path: Path) -> None:
    text = document(axes={"queue_depth": DEPTHS}, repetitions=1, ramp=RAMP)
    text["sweeps"].append(text["sweeps"][0] | {"name": "whole", "axes": {"queue_depth": [16]}})
    del text["sweeps"][1]["ramp"]
    plan = make(tmp_path, text)
    assert left(plan, {}, {}, HERE) == {"1-node": {depth(plan, d): [1] for d in (1, 16, 32)}}
    found = open_repetitions(plan, measured(plan, {d: [1.0] for d in (1, 2, 4, 16, 32)}), ())["1-node"]
    assert set(found.unneeded) == {depth(plan, 8)}


def test_each_combination_of_the_others_has_its_climb(tmp_path: Path) -> None:
    axes = {"queue_depth": [4, 1, 2], "threads_per_node": [1, 2]}
    plan = make(tmp_path, document(axes=axes, repetitions=1, ramp=RAMP))
    assert [list(climb.steps) for climb in climbs(plan)] == [[1, 2, 4]] * 2
    assert len(left(plan, {}, {}, HERE)["1-node"]) == 2 * 2  # the first step and the last


def test_over_nodes_each_job_decides_by_what_is_stored(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"nodes": [1, 2, 4, 8, 16]}, repetitions=1, ramp="nodes"))
    points = [a.points[0].id for a in plan.allocations]
    here = replace(HERE, launcher=None)
    assert len(left(plan, {}, {}, here)) == 5  # all may be submitted
    stored = {point: {1: result(point, 1, 5.0)} for point in points[:3]}
    assert list(left(plan, stored, {}, here)) == ["16-nodes"]
    above = "skipped: no certain gain in two steps above 1 node"
    assert open_repetitions(plan, stored, ())["8-nodes"].unneeded == {points[3]: above}
    stored[points[4]] = {1: result(points[4], 1, 5.0)}
    assert open_repetitions(plan, stored, ())["8-nodes"].unneeded == {points[3]: f"{above}, nor at 16 nodes"}


def test_a_step_that_cannot_be_measured_is_passed_over(plan: Plan) -> None:
    missing = {depth(plan, 1): Missing(Needs(tool="fio"), "fio is not installed")}
    here = replace(HERE, tools={"fio": None})
    assert left(plan, {}, missing, here) == {"1-node": {depth(plan, d): [1, 2] for d in (2, 32)}}


# Side by side: all values of the axis that a sweep compares take the same steps

ENGINES = ("libaio", "io_uring")
Side = tuple[object, object]  # queue depth and engine


def compared(tmp_path: Path, depths: list[int], **more: object) -> Plan:
    axes = {"queue_depth": depths, "ioengine": [*ENGINES]}
    return make(tmp_path, document(axes=axes, repetitions=1, side_by_side="ioengine", **more))


def side(point: Point) -> Side:
    return point.options["queue_depth"], point.options["ioengine"]


def rated(plan: Plan, rates: dict[Side, float]) -> Stored:
    return {p.id: {1: result(p.id, 1, rates[side(p)])} for p in plan.points if side(p) in rates}


def test_a_climb_ends_when_all_sides_have_ended(tmp_path: Path) -> None:
    plan = compared(tmp_path, DEPTHS, ramp="queue_depth")
    flat = {(depth, engine): 5.0 for depth in (1, 2, 4, 32) for engine in ENGINES}
    skipped = {side(p) for p in plan.points if p.id in open_repetitions(plan, rated(plan, flat), ())["1-node"].unneeded}
    assert skipped == {(depth, engine) for depth in (8, 16) for engine in ENGINES}
    rising = flat | {(4, "io_uring"): 9.0}
    found = open_repetitions(plan, rated(plan, rising), ())["1-node"]
    of_step = {p.id: [1] for p in plan.points if side(p)[0] == 8}
    assert (found.unneeded, found.now) == ({}, of_step)  # both sides of the next step, which do not wait for each other


def test_the_best_point_is_confirmed_on_all_sides(tmp_path: Path) -> None:
    plan = compared(tmp_path, [1, 2, 4], confirm=2)
    rates = {(depth, engine): float(depth) for depth in (1, 2, 4) for engine in ENGINES} | {(4, "io_uring"): 9.0}
    confirmed = {p.id: [1001, 1002] for p in plan.points if side(p)[0] in (1, 4)}  # 1 has the latency
    assert left(plan, rated(plan, rates), {}, HERE) == {"1-node": confirmed}
    assert forecast.forecast_of(plan).repetitions == 6 + 4 * 2
