"""Fresh repetitions of the best points: which points, when, and that nothing is left afterwards."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from campaign import METADATA, document, make
from iosweep.plan import forecast
from iosweep.plan.contests import contests
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.results.best import Candidate, best, candidate
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.results.committed import Result
from iosweep.results.record import Archive, Target
from iosweep.results.remaining import Here, expected, left

HERE = Here(tools={"fio": "build"}, launcher=LAUNCHERS["direct"], target={"source": "/dev/x", "fstype": "ext4"})

Stored = dict[str, dict[int, Result]]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Three depths, two repetitions each, and three fresh ones of the best."""
    return make(tmp_path, document(axes={"queue_depth": [1, 2, 4]}, repetitions=2, confirm=3))


def result(point: str, number: int, value: float | None, **more: Any) -> Result:
    made = Result(
        point,
        number,
        attempt=1,
        intact=True,
        raw=Archive("", "", 0),
        tool_sha256="build",
        target=Target(directory="/scratch/me", layout_is="", source="/dev/x", fstype="ext4"),
        bound=None,
        retry=None,
        retried=False,
        headlines=(("rand_read", value),),
        latencies=(None if value is None else 1 / value,),
        verdicts=("invalid" if value is None else "valid",),
    )
    return replace(made, **more)


def depth(plan: Plan, value: int) -> str:
    return next(p.id for p in plan.points if p.options["queue_depth"] == value)


def measured(plan: Plan, rates: dict[int, list[float | None]]) -> Stored:
    """Queue depth -> figures of its repetitions, from 1."""
    return {
        depth(plan, qd): {n: result(depth(plan, qd), n, value) for n, value in enumerate(values, 1)}
        for qd, values in rates.items()
    }


CHOSEN: dict[int, list[float | None]] = {1: [10, 11], 2: [30, 31], 4: [29, 28]}


def test_nothing_is_confirmed_before_all_points_are_measured(plan: Plan) -> None:
    rates = CHOSEN | {4: [29]}
    assert left(plan, measured(plan, rates), {}, HERE) == {"1-node": {depth(plan, 4): [2]}}


def test_the_best_point_and_that_of_the_lowest_latency_are_confirmed(plan: Plan) -> None:
    # the latency is that at depth 1, which alone has the lowest load: nothing was chosen there
    assert left(plan, measured(plan, CHOSEN), {}, HERE) == {"1-node": {depth(plan, 2): [3, 4, 5]}}


def test_each_best_point_is_forecast(tmp_path: Path) -> None:
    """Rates and latencies of reads and writes may be won by four points; one that confirms nothing stands for none."""
    axes = {"queue_depth": [1, 2], "threads_per_node": [1, 2]}
    plan = make(tmp_path, document(phases=["rand_read", "rand_write"], axes=axes, repetitions=2, confirm=3))
    assert forecast.of(plan).repetitions == 4 * 2 + 4 * 3
    assert sum(expected(plan, {}, {}, HERE)["1-node"].values()) == 4 * 2 + 4 * 3
    text = (
        "campaign: c\ntarget: {directory: /t}\nsweeps:\n- {name: a, tool: fio, phases: [rand_read], repetitions: 2,"
        " axes: {queue_depth: [2, 4]}, phase_time: 1s, confirm: 3}\n- {name: b, tool: fio, phases: [rand_read],"
        " repetitions: 2, axes: {queue_depth: [8]}, phase_time: 9s}\n"
    )
    assert forecast.of(make(tmp_path, text)).repetitions == 3 * 2 + 3


def test_a_latency_is_confirmed_where_it_was_chosen(tmp_path: Path) -> None:
    axes = {"queue_depth": [1, 2], "transfer_size": ["4k", "64k"]}
    plan = make(tmp_path, document(axes=axes, repetitions=1, confirm=1))
    found = {p.id: {1: result(p.id, 1, float(i), latencies=(9.0 - i,))} for i, p in enumerate(plan.points, 1)}
    shallow = [p.id for p in plan.points if p.options["queue_depth"] == 1]
    wanted = {plan.points[-1].id, max(shallow, key=lambda id: found[id][1].headlines[0][1] or 0)}
    assert left(plan, found, {}, HERE) == {"1-node": {point: [2] for point in sorted(wanted)}}


def test_nothing_is_left_once_it_is_confirmed_whatever_comes_out(plan: Plan) -> None:
    # the fresh repetitions are lower than the others, and have no part in the choice
    rates = CHOSEN | {2: [30, 31, 5, 5, None]}
    assert left(plan, measured(plan, rates), {}, HERE) == {}
    assert expected(plan, measured(plan, rates), {}, HERE) == {}


def test_a_part_of_the_confirmation_goes_on(plan: Plan) -> None:
    rates = CHOSEN | {2: [30, 31, 30]}
    assert left(plan, measured(plan, rates), {}, HERE) == {"1-node": {depth(plan, 2): [4, 5]}}
    damaged = measured(plan, CHOSEN | {2: [30, 31, 30, 30, 30]})
    damaged[depth(plan, 2)][4] = replace(damaged[depth(plan, 2)][4], intact=False)
    assert left(plan, damaged, {}, HERE) == {"1-node": {depth(plan, 2): [4]}}


def test_another_winner_after_a_rerun_is_confirmed_too(plan: Plan) -> None:
    stored = measured(plan, CHOSEN | {2: [30, 31, 30, 30, 30], 4: [29]})
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [2]}}
    stored[depth(plan, 4)][2] = result(depth(plan, 4), 2, 99)
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [3, 4, 5]}}


def doubt(stored: Stored, point: str, *numbers: int) -> None:
    for number in numbers:
        stored[point][number] = replace(stored[point][number], verdicts=("suspect",))


def test_a_valid_point_is_confirmed_before_a_better_suspect_one(plan: Plan) -> None:
    stored = measured(plan, CHOSEN)
    doubt(stored, depth(plan, 2), 1, 2)
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [3, 4, 5]}}


def test_a_disturbed_repetition_does_not_choose(plan: Plan) -> None:
    """Neither is a point out of the contest because of one, nor does its figure count."""
    stored = measured(plan, CHOSEN | {2: [3, 31]})
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [3, 4, 5]}}
    doubt(stored, depth(plan, 2), 1)
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 2): [3, 4, 5]}}


def test_a_disturbed_repetition_is_tried_again_before_the_choice(plan: Plan) -> None:
    stored = measured(plan, CHOSEN)
    stored[depth(plan, 1)][2] = replace(stored[depth(plan, 1)][2], retry="killed")
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 1): [2]}}


def test_what_cannot_be_measured_is_not_waited_for(plan: Plan) -> None:
    stored, lacks = measured(plan, CHOSEN | {4: []}), Missing(Needs(tool="fio"), "fio is not installed")
    missing = {depth(plan, 4): lacks}
    here = replace(HERE, tools={"fio": None})
    assert left(plan, stored, missing, here) == {"1-node": {depth(plan, 2): [3, 4, 5]}}
    # nor is the best point replaced by another one, where it cannot be measured again
    assert left(plan, stored, missing | {depth(plan, 2): lacks}, here) == {}


def test_only_some_points(plan: Plan) -> None:
    assert left(plan, measured(plan, CHOSEN), {}, HERE, only="qd4") == {}
    assert left(plan, measured(plan, CHOSEN), {}, HERE, only="qd2") == {"1-node": {depth(plan, 2): [3, 4, 5]}}


def test_each_allocation_confirms_its_own_best_point(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"nodes": [1, 2], "queue_depth": [1]}, repetitions=1, confirm=2))
    here = replace(HERE, launcher=None)
    found = left(plan, {p.id: {1: result(p.id, 1, 5.0)} for p in plan.points}, {}, here)
    assert found == {a.name: {a.points[0].id: [2, 3]} for a in plan.allocations}


def test_where_nothing_is_chosen_nothing_is_confirmed(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"queue_depth": [1]}, repetitions=1, confirm=2))
    assert contests(plan.points) == {}
    assert left(plan, {p.id: {1: result(p.id, 1, 5.0)} for p in plan.points}, {}, HERE) == {}


def test_files_of_unlike_sizes_do_not_compete(tmp_path: Path) -> None:
    text = document(**METADATA | {"tool": "mdtest", "axes": {"file_size": [0, "4k"]}, "confirm": 1})
    assert contests(make(tmp_path, text).points) == {}
    text["sweeps"][0]["axes"]["threads_per_node"] = [1, 2]
    assert {len(members) for members in contests(make(tmp_path, text).points).values()} == {2}


def test_the_forecast_has_them(plan: Plan) -> None:
    assert forecast.of(plan).repetitions == 3 * 2 + 3
    coming = expected(plan, {}, {}, HERE)["1-node"]
    assert sum(coming.values()) == 3 * 2 + 3
    known = expected(plan, measured(plan, CHOSEN | {4: [29]}), {}, HERE)
    assert known == {"1-node": {depth(plan, 4): 1, depth(plan, 2): 3}}


def test_equal_points_have_one_winner() -> None:
    tied = [candidate(name, [(1.0, True)]) for name in ("b", "a", "c")]
    assert [best(order) for order in (tied, tied[::-1])] == [tied[1]] * 2
    assert best([]) is best([None]) is None


@pytest.mark.parametrize(
    ("repetitions", "found"),
    [
        ([(9.0, True), (1.0, False), (8.0, True)], Candidate("p", [9.0, 8.0], True, [9.0, 1.0, 8.0])),
        ([(9.0, True), (1.0, False)], Candidate("p", [9.0], True, [9.0, 1.0])),
        ([(9.0, True), (1.0, False), (2.0, False)], Candidate("p", [9.0, 1.0, 2.0], False, [9.0, 1.0, 2.0])),
        ([(9.0, True), (None, False), (None, False)], Candidate("p", [9.0], False, [9.0])),  # invalid ones
        ([(9.0, False)], Candidate("p", [9.0], False, [9.0])),
        ([(None, True), (None, False)], None),
        ([], None),
    ],
)
def test_which_repetitions_choose(repetitions: list[tuple[float | None, bool]], found: Candidate | None) -> None:
    assert candidate("p", repetitions) == found
