"""What is left to measure: decided from a plan, what is stored, and what this machine offers; nothing else. Also the
fresh repetitions of the best points, and that the table of results says the same."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign import METADATA, Made, document, make
from iosweep.plan import forecast
from iosweep.plan.contests import contests
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.plan.model import Plan, Point
from iosweep.results import remaining
from iosweep.results.best import Candidate, best, candidate
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.results.committed import Result
from iosweep.results.record import Archive, Target
from iosweep.results.remaining import Here, expected, left

MOUNT = {"source": "/dev/x", "fstype": "ext4"}
HERE = Here(tools={"fio": "build"}, launcher=LAUNCHERS["direct"], target=MOUNT)
CPUS = {"pinning": None, "reserved": None, "placement": "spread", "nic": None, "width": "cpu", "oversubscribe": False}

Stored = dict[str, dict[int, Result]]


def reaching(nodes: int | None) -> Here:
    """HERE, with a launcher that reaches so many nodes."""
    return replace(HERE, launcher=Launcher("made-up", nodes=nodes, ranks=None))


def place(**more: Any) -> Target:
    return Target(**{"directory": "/scratch/me", "layout_is": "", **MOUNT, **more})


def result(point: str, number: int = 1, value: float | None = 100.0, **more: Any) -> Result:
    """A stored repetition with this rate; None: it failed for good."""
    made = Result(
        point,
        number,
        attempt=1,
        intact=True,
        raw=Archive("", "", 0),
        tool_sha256="build",
        target=place(fsid="01"),
        bound=None,
        retry=None,
        retried=False,
        headlines=(("rand_read", value),),
        latencies=(None if value is None else 1 / value if value else None,),
        verdicts=("invalid" if value is None else "valid",),
    )
    return replace(made, **more)


def stored(*results: Result) -> Stored:
    found: Stored = {}
    for each in results:
        found.setdefault(each.point, {})[each.repetition] = each
    return found


def count(left: dict[str, dict[str, list[int]]]) -> int:
    return sum(len(numbers) for points in left.values() for numbers in points.values())


def complete(plan: Plan, **more: Any) -> list[Result]:
    return [result(p.id, n, **more) for p in plan.points for n in range(1, p.repetitions.min + 1)]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two points, three repetitions each."""
    return make(tmp_path, document(axes={"queue_depth": [1, 2]}, repetitions=3))


def test_what_has_no_outcome_is_left(plan: Plan) -> None:
    first, second = (p.id for p in plan.points)
    assert left(plan, {}, {}, HERE) == {"1-node": {first: [1, 2, 3], second: [1, 2, 3]}}
    assert expected(plan, {}, {}, HERE) == {"1-node": {first: 3, second: 3}}
    # whatever it is: what failed for good has no headline; others are stored beside the plan
    others = [result("fio.other.1n", 1), result(first, 9)]
    for value in (100.0, None):
        assert left(plan, stored(*complete(plan, value=value), *others), {}, HERE) == {}
    hole = complete(plan)
    del hole[1]
    assert left(plan, stored(*hole), {}, HERE) == {"1-node": {first: [2]}}


def test_what_is_stale_is_measured_again(plan: Plan) -> None:
    change: dict[str, Any]
    for change, here, again in (
        ({}, HERE, False),
        ({"intact": False}, HERE, True),
        ({"tool_sha256": "older"}, HERE, True),
        ({"tool_sha256": "older"}, replace(HERE, tools={}), False),  # what is not known is not compared
        ({"tool_sha256": "older"}, replace(HERE, tools={"fio": None}), False),  # nothing to measure it with
        ({"target": place(directory="/elsewhere")}, HERE, True),
        ({"target": place(layout=("-c", "4"))}, HERE, True),
        ({"target": place(fsid="02")}, HERE, False),  # mounted again
        ({"target": place(source="/dev/y")}, HERE, True),
        ({"target": place(fstype="xfs")}, HERE, True),
        ({"target": place(fstype="xfs")}, replace(HERE, target=None), False),
        ({"target": place(source="", fstype="")}, HERE, True),
    ):
        results = complete(plan)
        results[4] = replace(results[4], **change)
        found = left(plan, stored(*results), {}, here)
        assert found == ({"1-node": {plan.points[1].id: [2]}} if again else {}), (change, here)


def test_a_volume_may_be_mounted_by_another_of_its_servers(plan: Plan) -> None:
    where = Target(directory="/scratch/me", fstype="fuse.glusterfs", source="s1:/dfs", layout_is="")
    results = complete(plan, target=where)
    for now, again in (
        ({"fstype": "fuse.glusterfs", "source": "s1:/dfs"}, False),
        ({"fstype": "fuse.glusterfs", "source": "s2:/dfs"}, True),  # it may be another cluster's
        ({"fstype": "fuse.glusterfs", "source": "s1:/other"}, True),
        ({"fstype": "nfs4", "source": "s1:/dfs"}, True),
        # the marker proved it
        ({"fstype": "nfs4", "source": "x:/dfs", "volume": "fuse.glusterfs s1:/dfs"}, False),
    ):
        assert bool(left(plan, stored(*results), {}, replace(HERE, target=now))) == again, now
        assert all(remaining.elsewhere(one, plan, replace(HERE, target=now)) == again for one in results), now


def test_what_another_try_may_cure_is_tried_once_more(plan: Plan) -> None:
    results = complete(plan)
    results[2] = replace(results[2], retry="killed")
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [3]}}
    results[2] = replace(results[2], retried=True)
    assert left(plan, stored(*results), {}, HERE) == {}
    # a second attempt that is no second try: measured again for `iosweep rerun`, or with another build
    results[2] = replace(results[2], retried=False, attempt=2)
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [3]}}


def test_the_budget_of_tries(tmp_path: Path) -> None:
    """On a node that is always busy, trying everything twice would cure nothing."""
    for share, points, failing, spent, tried in (
        ("10%", 2, 6, 0, 3),  # of six repetitions three may be tried again
        ("10%", 2, 6, 2, 1),
        ("10%", 2, 6, 3, 0),
        ("10%", 20, 60, 0, 6),  # of sixty a tenth
        ("10%", 20, 4, 0, 4),
        ("10%", 20, 60, 6, 0),
        ("10%", 20, 60, 60, 0),
        ("0%", 4, 12, 0, 0),
        ("1%", 4, 12, 0, 3),
        ("50%", 4, 12, 0, 6),
        ("100%", 4, 12, 0, 12),
    ):
        sweep = document(axes={"queue_depth": list(range(1, points + 1))}, repetitions=3)
        plan = make(tmp_path, sweep | {"limits": {"retried": share}})
        results = complete(plan)
        for index in range(failing):
            results[index] = replace(results[index], retry="busy", retried=index < spent, attempt=7)
        assert count(left(plan, stored(*results), {}, HERE)) == tried, (share, points, failing, spent)


def test_retries_settle(plan: Plan) -> None:
    """However often it is asked: each try that fails in a curable way uses up some of the budget."""
    results = {(r.point, r.repetition): r for r in complete(plan, retry="busy")}
    rounds = 0
    while found := left(plan, stored(*results.values()), {}, HERE):
        rounds += 1
        for point, numbers in found["1-node"].items():
            for number in numbers:
                old = results[point, number]
                results[point, number] = replace(old, retried=True)
    assert rounds == 1


def test_a_second_try_that_was_not_disturbed_is_paid_for_too(plan: Plan) -> None:
    results = complete(plan)
    results[:3] = [replace(r, retried=True) for r in results[:3]]
    results[4] = replace(results[4], retry="busy")
    assert left(plan, stored(*results), {}, HERE) == {}


def test_what_is_missing_is_not_left_while_it_is_absent(plan: Plan) -> None:
    first, second = (p.id for p in plan.points)
    needs: dict[str, Any]
    for needs, here, wanted in (
        ({"tool": "fio"}, replace(HERE, tools={"fio": None}), False),
        ({"tool": "fio", "sha256": "build"}, HERE, False),  # the same binary, whose version is too old
        ({"tool": "fio", "sha256": None}, HERE, True),  # it did not run: it may do so now
        ({"tool": "fio"}, HERE, True),  # it is back
        # what the launcher lacked when it was recorded: the one of now is asked, and it starts these points
        ({"nodes": 2}, HERE, True),
        ({"ranks": 4}, HERE, True),
        # srun's way to start MPI, or the library for it, is not there: until another launcher is asked for
        ({"launcher": "srun"}, replace(HERE, launcher=SLURM_LAUNCHERS["srun"]), False),
        ({"launcher": "srun"}, replace(HERE, launcher=SLURM_LAUNCHERS["srun-pmix"]), True),
        ({"launcher": "srun"}, replace(HERE, launcher=None), True),
        # more ranks than a node has CPUs: until something else is asked for
        ({"cpus": CPUS}, HERE, False),
        ({"cpus": CPUS | {"oversubscribe": True}}, HERE, True),
        ({}, HERE, True),
    ):
        found = left(plan, {}, {first: Missing(msgspec.convert(needs, Needs), "r")}, here)["1-node"]
        assert set(found) == ({first, second} if wanted else {second}), (needs, here)
    # nobody has recorded yet that it is missing: the allocation runs, and says so
    assert left(plan, {}, {}, replace(HERE, tools={"fio": None}))


def test_what_was_bound_in_another_way_is_left(tmp_path: Path) -> None:
    slurm = replace(HERE, launcher=SLURM_LAUNCHERS["srun"])
    cpus: dict[str, Any]
    for cpus, bound, counts in (
        ({}, "spread/cpu", True),
        ({}, None, False),
        ({"pinning": "enforce", "cpus": {"placement": "pack"}}, "spread/cpu", False),
        ({"pinning": "enforce", "cpus": {"placement": "pack", "width": "core"}}, "pack/cpu", True),  # fio: by CPU
        ({"pinning": "enforce", "cpus": {"placement": "near_nic", "nic": "ib0"}}, "near_nic/cpu/ib0", True),
        ({"pinning": "enforce", "cpus": {"oversubscribe": True}}, "spread/cpu", True),
        ({"pinning": "enforce", "cpus": {"reserved": "3"}}, "spread/cpu", False),
        ({"pinning": "enforce", "cpus": {"reserved": "3"}}, "spread/cpu/reserved 3", True),
        ({"pinning": "verify", "cpus": {"reserved": ""}}, "reserved none", True),
        ({"pinning": "verify", "cpus": {"reserved": ""}}, None, False),
        ({"pinning": "off", "cpus": {"reserved": "3"}}, None, True),
        ({"pinning": "verify"}, None, True),
        ({"pinning": "verify"}, "spread/cpu", False),
    ):
        plan = make(tmp_path, document(axes={}) | cpus)
        found = stored(result(plan.points[0].id, bound=bound))
        assert (left(plan, found, {}, slurm) == {}) == counts, (cpus, bound)
        # where no launcher is known nothing is compared
        assert left(plan, found, {}, replace(HERE, launcher=None)) == {}
        if "pinning" not in cpus:  # on one machine they are only looked at
            assert (left(plan, found, {}, HERE) == {}) == (bound is None)


def test_one_allocation_for_all_node_counts(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"nodes": [1, 2, 4]}) | {"allocation": "campaign"})
    first, second, third = sorted(plan.points, key=lambda p: p.nodes)
    assert left(plan, {}, {}, reaching(None)) == {"4-nodes": {p.id: [1] for p in (first, second, third)}}
    # what does not fit this launcher is not left; the rest of the same allocation is
    assert left(plan, {}, {}, reaching(2)) == {"4-nodes": {p.id: [1] for p in (first, second)}}
    assert left(plan, stored(result(first.id), result(third.id)), {}, reaching(None)) == {"4-nodes": {second.id: [1]}}


def test_more_ranks_than_are_started_are_never_left(tmp_path: Path) -> None:
    sweep: dict[str, Any] = {"axes": {"threads_per_node": [1, 4]}, "options": {"file_size": "16m"}}
    (tmp_path / "fio").mkdir()
    ior = make(tmp_path, document(tool="ior", phases=["seq_read"], **sweep))
    fio = make(tmp_path / "fio", document(**sweep))
    for ranks, points in ((1, 1), (3, 1), (4, 2), (None, 2)):
        here = Here(launcher=Launcher("made-up", nodes=1, ranks=ranks))
        assert len(left(ior, {}, {}, here)["1-node"]) == points, ranks
        assert len(left(fio, {}, {}, here)["1-node"]) == 2  # fio starts its workers itself
    assert len(left(ior, {}, {}, Here())["1-node"]) == 2  # where no launcher is known nothing is compared


def test_only_some_points_or_sweeps(plan: Plan) -> None:
    for only, points in (
        ("qd1", 1), ("rand_read", 2), ("tiny", 2), ("fio.rand_read.1n.1t.1m.qd2", 1), ("nothing", 0), ("", 2),
    ):  # fmt: skip
        assert len(left(plan, {}, {}, HERE, only).get("1-node", {})) == points, only


# Until the interval is narrow


def adaptive(tmp_path: Path, **repetitions: Any) -> Plan:
    return make(
        tmp_path, document(axes=None, repetitions={"min": 2, "max": 5, "until_ci95_half_width": "10%"} | repetitions)
    )


def test_as_often_as_the_interval_asks(tmp_path: Path) -> None:
    plan = adaptive(tmp_path)
    point = plan.points[0].id
    values: list[float | None]
    for values, wanted in (
        ([], [1, 2]),
        ([100.0], [2]),
        ([100.0, 100.0], [3]),  # two values have no grade
        ([100.0, 100.0, 100.0], []),
        ([100.0, 0.0, 100.0], []),  # without an interval, whatever follows
        ([100.0, 103.0, 106.0], []),  # 7.6 % of 10 %
        ([100.0, 104.0, 109.0], [4]),  # 11 %
        ([100.0, 150.0, 100.0, 150.0], [5]),
        ([100.0, 150.0, 100.0, 150.0, 100.0], []),  # wide, but as often as allowed
        ([None, None], []),  # what failed is not measured more often
        ([100.0, None], []),
        ([None, 100.0, 102.0], [4]),
        ([None, 100.0, None, 102.0], []),
    ):
        results = [result(point, number, value) for number, value in enumerate(values, 1)]
        assert left(plan, stored(*results), {}, HERE) == ({"1-node": {point: wanted}} if wanted else {}), values
    # a gap is filled before more is measured
    results = [result(point, number, value) for number, value in ((1, 100.0), (2, 150.0), (4, 100.0))]
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {point: [3]}}
    # every phase must be narrow
    for last, narrow in (((100, 100), True), ((100, 200), False), ((200, 100), False)):
        both = [
            result(point, number, headlines=(("seq_read", a), ("rand_read", b)), verdicts=("valid", "valid"))
            for number, (a, b) in enumerate(((100, 100), (100, 100), last), 1)
        ]
        assert (left(plan, stored(*both), {}, HERE) == {}) == narrow, last


def test_points_that_scatter_do_not_let_one_stop_that_looks_quiet_by_luck(tmp_path: Path) -> None:
    often = {"min": 5, "max": 10, "until_ci95_half_width": "5%"}
    quiet, draw = [99.0, 100.0, 101.0, 100.0, 100.0], random.Random(1)
    alone = make(tmp_path, document(axes=None, repetitions=often))
    [point] = (point.id for point in alone.points)
    assert left(alone, stored(*(result(point, n, v) for n, v in enumerate(quiet, 1))), {}, HERE) == {}
    many = make(tmp_path, document(axes={"queue_depth": list(range(1, 13))}, repetitions=often))
    lucky, *others = (point.id for point in many.points)
    results = [result(lucky, n, v) for n, v in enumerate(quiet, 1)]
    results += [result(other, n, draw.lognormvariate(0, 0.1)) for other in others for n in range(1, 6)]
    assert left(many, stored(*results), {}, HERE)["1-node"] == {point.id: [6] for point in many.points}
    # also where the others are not to be measured now
    assert left(many, stored(*results), {}, HERE, only=lucky)["1-node"][lucky] == [6]


def test_repetitions_on_unlike_nodes_are_not_repeated_for_an_interval(tmp_path: Path) -> None:
    """They get none, however many there are; those that a job dealt out to its nodes do."""
    plan = adaptive(tmp_path)
    point = plan.points[0].id

    def more(*ran: tuple[str, str]) -> bool:
        values = (100.0, 150.0, 100.0)
        results = [result(point, n, v, ran=r) for n, (v, r) in enumerate(zip(values, ran, strict=True), 1)]
        return bool(left(plan, stored(*results), {}, HERE))

    assert more(("n1", "1"), ("n1", "1"), ("n1", "2"))
    assert more(("n1", "1"), ("n2", "1"), ("n1", "1"))
    assert not more(("n1", "1"), ("n1", "1"), ("n2", "2"))


def test_what_limits_time_left_out_is_left_when_it_is_raised(tmp_path: Path) -> None:
    def of(limits: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
        made = make(tmp_path, document(axes=None) | {"limits": limits})
        [point] = made.points
        return left(made, {}, {point.id: Missing(Needs(time_s=3600.0), "limits.time")}, Here())

    trim = {"over_time": "trim"}
    assert of({"time": "1h", **trim}) == of({"time": "30min", **trim}) == {}
    for limits in ({"time": "2h", **trim}, {"time": "1h"}, trim, {}):
        assert list(of(limits)) == ["1-node"]


# Fresh repetitions of the best points


@pytest.fixture
def depths(tmp_path: Path) -> Plan:
    """Three depths, two repetitions each, and three fresh ones of the best."""
    return make(tmp_path, document(axes={"queue_depth": [1, 2, 4]}, repetitions=2, confirm=3))


def depth(plan: Plan, value: int) -> str:
    return next(p.id for p in plan.points if p.options["queue_depth"] == value)


def measured(plan: Plan, rates: dict[int, list[float | None]]) -> Stored:
    """Queue depth -> figures of its repetitions, from 1."""
    return {
        depth(plan, qd): {n: result(depth(plan, qd), n, value) for n, value in enumerate(values, 1)}
        for qd, values in rates.items()
    }


CHOSEN: dict[int, list[float | None]] = {1: [10, 11], 2: [30, 31], 4: [29, 28]}


def test_nothing_is_confirmed_before_all_points_are_measured(depths: Plan) -> None:
    plan = depths
    rates = CHOSEN | {4: [29]}
    assert left(plan, measured(plan, rates), {}, HERE) == {"1-node": {depth(plan, 4): [2]}}


def test_the_best_point_and_that_of_the_lowest_latency_are_confirmed(depths: Plan) -> None:
    plan = depths
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


def test_nothing_is_left_once_it_is_confirmed_whatever_comes_out(depths: Plan) -> None:
    plan = depths
    # the fresh repetitions are lower than the others, and have no part in the choice
    rates = CHOSEN | {2: [30, 31, 5, 5, None]}
    assert left(plan, measured(plan, rates), {}, HERE) == {}
    assert expected(plan, measured(plan, rates), {}, HERE) == {}


def test_a_part_of_the_confirmation_goes_on(depths: Plan) -> None:
    plan = depths
    rates = CHOSEN | {2: [30, 31, 30]}
    assert left(plan, measured(plan, rates), {}, HERE) == {"1-node": {depth(plan, 2): [4, 5]}}
    damaged = measured(plan, CHOSEN | {2: [30, 31, 30, 30, 30]})
    damaged[depth(plan, 2)][4] = replace(damaged[depth(plan, 2)][4], intact=False)
    assert left(plan, damaged, {}, HERE) == {"1-node": {depth(plan, 2): [4]}}


def test_another_winner_after_a_rerun_is_confirmed_too(depths: Plan) -> None:
    plan = depths
    stored = measured(plan, CHOSEN | {2: [30, 31, 30, 30, 30], 4: [29]})
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [2]}}
    stored[depth(plan, 4)][2] = result(depth(plan, 4), 2, 99)
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [3, 4, 5]}}


def doubt(stored: Stored, point: str, *numbers: int) -> None:
    for number in numbers:
        stored[point][number] = replace(stored[point][number], verdicts=("suspect",))


def test_a_valid_point_is_confirmed_before_a_better_suspect_one(depths: Plan) -> None:
    plan = depths
    stored = measured(plan, CHOSEN)
    doubt(stored, depth(plan, 2), 1, 2)
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [3, 4, 5]}}


def test_a_disturbed_repetition_does_not_choose(depths: Plan) -> None:
    plan = depths
    """Neither is a point out of the contest because of one, nor does its figure count."""
    stored = measured(plan, CHOSEN | {2: [3, 31]})
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 4): [3, 4, 5]}}
    doubt(stored, depth(plan, 2), 1)
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 2): [3, 4, 5]}}


def test_a_disturbed_repetition_is_tried_again_before_the_choice(depths: Plan) -> None:
    plan = depths
    stored = measured(plan, CHOSEN)
    stored[depth(plan, 1)][2] = replace(stored[depth(plan, 1)][2], retry="killed")
    assert left(plan, stored, {}, HERE) == {"1-node": {depth(plan, 1): [2]}}


def test_what_cannot_be_measured_is_not_waited_for(depths: Plan) -> None:
    plan = depths
    stored, lacks = measured(plan, CHOSEN | {4: []}), Missing(Needs(tool="fio"), "fio is not installed")
    missing = {depth(plan, 4): lacks}
    here = replace(HERE, tools={"fio": None})
    assert left(plan, stored, missing, here) == {"1-node": {depth(plan, 2): [3, 4, 5]}}
    # nor is the best point replaced by another one, where it cannot be measured again
    assert left(plan, stored, missing | {depth(plan, 2): lacks}, here) == {}


def test_each_allocation_confirms_its_own_best_point(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"nodes": [1, 2], "queue_depth": [1]}, repetitions=1, confirm=2))
    here = replace(HERE, launcher=None)
    found = left(plan, {p.id: {1: result(p.id, 1, 5.0)} for p in plan.points}, {}, here)
    assert found == {a.name: {a.points[0].id: [2, 3]} for a in plan.allocations}


def test_files_of_unlike_sizes_do_not_compete(tmp_path: Path) -> None:
    text = document(**METADATA | {"tool": "mdtest", "axes": {"file_size": [0, "4k"]}, "confirm": 1})
    assert contests(make(tmp_path, text).points) == {}
    text["sweeps"][0]["axes"]["threads_per_node"] = [1, 2]
    assert {len(members) for members in contests(make(tmp_path, text).points).values()} == {2}


def test_the_forecast_has_them(depths: Plan) -> None:
    plan = depths
    assert forecast.of(plan).repetitions == 3 * 2 + 3
    coming = expected(plan, {}, {}, HERE)["1-node"]
    assert sum(coming.values()) == 3 * 2 + 3
    known = expected(plan, measured(plan, CHOSEN | {4: [29]}), {}, HERE)
    assert known == {"1-node": {depth(plan, 4): 1, depth(plan, 2): 3}}


def test_equal_points_have_one_winner() -> None:
    tied = [candidate(name, [(1.0, True)]) for name in ("b", "a", "c")]
    assert [best(order) for order in (tied, tied[::-1])] == [tied[1]] * 2
    assert best([]) is best([None]) is None


def test_which_repetitions_choose() -> None:
    repetitions: list[tuple[float | None, bool]]
    for repetitions, found in (
        ([(9.0, True), (1.0, False), (8.0, True)], Candidate("p", [9.0, 8.0], True, [9.0, 1.0, 8.0])),
        ([(9.0, True), (1.0, False)], Candidate("p", [9.0], True, [9.0, 1.0])),
        ([(9.0, True), (1.0, False), (2.0, False)], Candidate("p", [9.0, 1.0, 2.0], False, [9.0, 1.0, 2.0])),
        ([(9.0, True), (None, False), (None, False)], Candidate("p", [9.0], False, [9.0])),  # invalid ones
        ([(9.0, False)], Candidate("p", [9.0], False, [9.0])),
        ([(None, True), (None, False)], None),
        ([], None),
    ):
        assert candidate("p", repetitions) == found, repetitions


# The table of results says the same

Numbers = dict[str, set[int]]
ANYWHERE = replace(HERE, tools={}, launcher=None, target=None)
RAMP = "queue_depth"


def told_by_table(made: Made, **states: bool) -> Numbers:
    """Point -> repetitions of the table in this state; all that it has to have instead of None."""
    found: Numbers = {}
    every = {point.id: set(range(1, point.repetitions.min + 1)) for point in made.plan.points}
    for row in made.table():
        if all(row[name] == value for name, value in states.items()):
            number = row["repetition"]
            found.setdefault(row["point"], set()).update(every[row["point"]] if number is None else {number})
    return found


def store(made: Made, point: Point, number: int, **figures: dict[str, Any]) -> None:
    """A repetition whose phases have these headlines, latencies and verdicts."""
    record = made.record(point)
    phases = [
        {"phase": run.phase, "started": str(run.started), "wall_s": 1.0, "argv": ["fio"]} | figures[run.phase]
        for run in record.phases
    ]
    made.store.commit(point.id, number, made.record(point, phases=phases), {"x.stdout": b"y"})


def agree(made: Made) -> None:
    results, missing = made.store.results(), made.store.missing()
    by_allocation = remaining.left(made.plan, results, missing, ANYWHERE)
    now = {point: set(numbers) for points in by_allocation.values() for point, numbers in points.items()}
    coming = remaining.expected(made.plan, results, missing, ANYWHERE)
    later = {point for points in coming.values() for point in points}
    without = {p for points in remaining.unneeded(made.plan, results, missing, ANYWHERE).values() for p in points}
    left, unneeded = told_by_table(made, left=True), told_by_table(made, unneeded=True)
    for point, numbers in now.items():
        assert numbers <= left.get(point, set()), (point, numbers, left)
    for point, numbers in left.items():
        assert numbers == now.get(point) or point in later, (point, numbers, now)
    assert unneeded.keys() <= without
    assert not any(unneeded[point] & now.get(point, set()) for point in unneeded)


PLANS: dict[str, dict[str, Any]] = {
    "a ramp of two axes, confirmed": {
        "axes": {"queue_depth": [1, 2, 4], "threads_per_node": [1, 2]}, "ramp": RAMP, "confirm": 2,
    },
    "a ramp of two phases, confirmed": {
        "axes": {"queue_depth": [1, 2, 4, 8]}, "ramp": RAMP, "confirm": 1, "phases": ["rand_read", "rand_write"],
    },
    "a ramp over nodes, confirmed": {
        "axes": {"nodes": [1, 2, 4], "queue_depth": [1, 4]}, "ramp": "nodes", "confirm": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANS)
def test_they_agree(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    for k in range(2):
        sweeps = document(repetitions=draw.choice((1, 2, 3)), **PLANS[kind])
        place = tmp_path / str(k)
        place.mkdir()
        made = Made(place, make(place, sweeps))
        width, held = draw.choice((1, 2, 8)), draw.random()
        for point in made.plan.points:
            load = min(int(point.options["queue_depth"]) * point.nodes, width)
            for number in range(1, point.repetitions.last + 1):
                if draw.random() < (held if number <= point.repetitions.max else held / 4):
                    figures = {}
                    for phase in point.phases:
                        verdict = draw.choices(("valid", "suspect", "invalid"), (6, 2, 1))[0]
                        rate = load * draw.lognormvariate(0, 0.05)
                        own = {"headline": rate, "latency_mean_s": 1 / rate} if verdict != "invalid" else {}
                        figures[phase] = own | {"verdict": verdict}
                    store(made, point, number, **figures)
        agree(made)


@pytest.fixture
def both(tmp_path: Path) -> Plan:
    axes = {"queue_depth": [1, 2, 4, 8], "threads_per_node": [1, 2]}
    return make(tmp_path, document(axes=axes, repetitions=2, confirm=2, ramp=RAMP))


def test_the_best_latency_is_left_though_its_rate_is_far_below(tmp_path: Path, both: Plan) -> None:
    """Its other repetitions are not needed, and those that confirm its latency are."""
    made = Made(tmp_path, both)
    for point in both.points:
        rate = float(int(point.options["queue_depth"]) * int(point.options["threads_per_node"]))
        for number in (1, 2) if point.options["queue_depth"] != 1 else (1,):
            figures = {"headline": rate, "latency_mean_s": 1 / rate, "verdict": "valid"}
            store(made, point, number, rand_read=figures)
    agree(made)
    shallow = next(p.id for p in both.points if (p.options["queue_depth"], p.options["threads_per_node"]) == (1, 2))
    assert told_by_table(made, left=True)[shallow] == {3, 4}
    assert told_by_table(made, unneeded=True)[shallow] == {2}


def test_a_ramp_whose_peak_has_to_be_measured_again(tmp_path: Path) -> None:
    """Its archives are gone: until they are measured, no lower step is known to be far below."""
    made = Made(tmp_path, make(tmp_path, document(axes={"queue_depth": [1, 2, 8, 16]}, repetitions=2, ramp=RAMP)))
    for point in made.plan.points:
        rate = float(min(int(point.options["queue_depth"]), 8))
        for number in (1, 2) if rate == 8 else (1,):
            store(made, point, number, rand_read={"headline": rate, "verdict": "valid"})
    shallow = depth(made.plan, 2)
    assert told_by_table(made, unneeded=True)[shallow] == {2}
    for value in (8, 16):
        for archive in made.store.point(depth(made.plan, value)).glob("*.zip"):
            archive.unlink()
    agree(made)
    assert told_by_table(made, left=True)[shallow] == {2}


def test_a_point_that_a_ramp_leaves_out_confirms_nothing(tmp_path: Path) -> None:
    """Not even where no other one has a figure of a phase."""
    plan = make(tmp_path, document(axes={"queue_depth": [1, 2, 4, 8]}, repetitions=1, confirm=2, ramp=RAMP,
                                   phases=["seq_read", "rand_read"]))  # fmt: skip
    phases = {"headlines": (("seq_read", 5.0), ("rand_read", None)), "latencies": (None, None)}
    known = {
        depth(plan, value): {1: result(depth(plan, value), 1, None, **phases, verdicts=("valid", "invalid"))}
        for value in (1, 2, 4)
    }
    wanted = remaining.wanted(plan, known, ())
    assert wanted.unneeded == {depth(plan, 8): "not needed: no certain gain above queue depth 1"}
    assert depth(plan, 8) not in wanted.now
