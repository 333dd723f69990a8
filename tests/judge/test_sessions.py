"""Sessions: which numbers their repetitions have, and what a session that is added leaves to measure."""

from pathlib import Path
from typing import Any

from judge.test_remaining import HERE, depth, left, measured, result

from campaign import document, make
from iosweep.config.sweeps import RepetitionRule
from iosweep.judge.remaining import open_repetitions
from iosweep.plan import forecast
from iosweep.plan.model import Plan


def planned(tmp_path: Path, sessions: int, **sweep: Any) -> Plan:
    return make(
        tmp_path, document(**{"axes": {"queue_depth": [1, 2]}, "repetitions": 2} | sweep) | {"sessions": sessions}
    )


def test_a_number_tells_session_and_round() -> None:
    rule = RepetitionRule(2, 3, None, confirm=1, sessions=3)
    told = [(rule.session_of(n), rule.round_of(n), rule.confirms(n)) for n in (1, 3, 1001, 10_001, 21_001)]
    assert told == [(1, 1, False), (1, 3, False), (1, 1001, True), (2, 1, False), (3, 1001, True)]
    assert [*rule.selecting(2, rule.min), *rule.confirming(2)] == [10_001, 10_002, 11_001]


def test_another_rule_leaves_what_is_stored_in_its_session_and_round(tmp_path: Path) -> None:
    """Repetitions may be raised, and best points be confirmed, when there are two sessions already."""
    before = planned(tmp_path, 2, axes={"queue_depth": [1]}, repetitions=2)
    [point] = (p.id for p in before.points)
    stored = {point: {n: result(point, n, 1.0) for n in (1, 2, 10_001, 10_002)}}
    assert left(before, stored, {}, HERE) == {}
    after = planned(tmp_path, 2, axes={"queue_depth": [1]}, repetitions=3)
    assert left(after, stored, {}, HERE) == {"1-node": {point: [3]}, "1-node-session2": {point: [10_003]}}
    lower = planned(tmp_path, 2, axes={"queue_depth": [1]}, repetitions=1, confirm=2)
    assert not any(lower.points[0].repetitions.confirms(number) for number in stored[point])


def test_a_session_that_is_added_measures_nothing_again(tmp_path: Path) -> None:
    one, two = planned(tmp_path, 1), planned(tmp_path, 2)
    assert [p.id for p in one.points] == [p.id for p in two.points]
    assert [(a.name, a.title) for a in two.allocations] == [
        ("1-node", "1 node"),
        ("1-node-session2", "1 node, session 2"),
    ]
    stored = measured(one, {1: [1.0] * 2, 2: [2.0] * 2})
    assert left(one, stored, {}, HERE) == {}
    assert left(two, stored, {}, HERE) == {"1-node-session2": {p.id: [10_001, 10_002] for p in two.points}}
    whole = forecast.forecast_of(two)
    assert (whole.points, whole.repetitions, whole.allocations) == (2, 8, 2)


def test_each_session_confirms_what_is_best_so_far(tmp_path: Path) -> None:
    plan = planned(tmp_path, 2, repetitions=1, confirm=1)
    low, high = depth(plan, 1), depth(plan, 2)
    stored = measured(plan, {1: [1.0], 2: [2.0]})
    assert left(plan, stored, {}, HERE)["1-node"] == {high: [1001]}
    stored[high][1001] = result(high, 1001, 2.0)
    stored[low][10_001], stored[high][10_001] = result(low, 10_001, 9.0), result(high, 10_001, 2.0)
    assert left(plan, stored, {}, HERE) == {"1-node-session2": {low: [11_001]}}  # the first session stays as it is


def test_each_session_is_repeated_until_its_own_interval_is_narrow(tmp_path: Path) -> None:
    rule = {"min": 3, "max": 5, "until_ci95_half_width": "5%"}
    plan = planned(tmp_path, 2, axes={"queue_depth": [1]}, repetitions=rule)
    [point] = (p.id for p in plan.points)
    stored = measured(plan, {1: [1.0, 1.0, 1.0]})
    stored[point] |= {n: result(point, n, value) for n, value in ((10_001, 1.0), (10_002, 1.5), (10_003, 1.0))}
    assert left(plan, stored, {}, HERE) == {"1-node-session2": {point: [10_004]}}


def test_a_later_session_does_not_reopen_a_ramp(tmp_path: Path) -> None:
    plan = planned(tmp_path, 2, axes={"queue_depth": [1, 2, 4, 8, 16, 32]}, repetitions=1, ramp="queue_depth")
    stored = measured(plan, {1: [1.0], 2: [1.0], 4: [1.0], 32: [1.0]})
    assert left(plan, stored, {}, HERE) == {"1-node-session2": {depth(plan, d): [10_001] for d in (1, 2, 4, 32)}}
    for value, rate in ((1, 1.0), (2, 1.0), (4, 3.0), (32, 3.0)):
        stored[depth(plan, value)][10_001] = result(depth(plan, value), 10_001, rate)
    opened = open_repetitions(plan, stored, ())
    assert set(opened["1-node"].unneeded) == {depth(plan, 8), depth(plan, 16)}


def test_a_ramp_skips_no_point_that_an_earlier_session_has(tmp_path: Path) -> None:
    plan = planned(tmp_path, 2, axes={"queue_depth": [1, 2, 4, 8, 16]}, repetitions=1, ramp="queue_depth")
    stored = measured(plan, {1: [1.0], 2: [2.0], 4: [4.0], 8: [4.0], 16: [4.0]})
    for value in (1, 2, 4, 16):
        stored[depth(plan, value)][10_001] = result(depth(plan, value), 10_001, 2.0)
    assert left(plan, stored, {}, HERE) == {"1-node-session2": {depth(plan, 8): [10_001]}}
