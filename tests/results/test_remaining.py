"""What is left to measure: decided from a plan, what is stored, and what this machine offers; nothing else."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign import document, make
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.plan.model import Plan
from iosweep.results import remaining
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.results.committed import Result
from iosweep.results.record import Archive, Target
from iosweep.results.remaining import Here, left
from iosweep.results.statistics import interval

MOUNT = {"source": "/dev/x", "fstype": "ext4"}
HERE = Here(tools={"fio": "build"}, launcher=LAUNCHERS["direct"], target=MOUNT)


def reaching(nodes: int | None) -> Here:
    """HERE, with a launcher that reaches so many nodes."""
    return replace(HERE, launcher=Launcher("made-up", nodes=nodes, ranks=None))


CPUS = {"pinning": None, "reserved": None, "placement": "spread", "nic": None, "width": "cpu", "oversubscribe": False}


def place(**more: Any) -> Target:
    return Target(**{"directory": "/scratch/me", "layout_is": "", **MOUNT, **more})


def result(point: str, number: int = 1, value: float | None = 100.0, **more: Any) -> Result:
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
    )
    made = replace(made, **more)
    return replace(made, verdicts=tuple("invalid" if figure is None else "valid" for _, figure in made.headlines))


def stored(*results: Result) -> dict[str, dict[int, Result]]:
    found: dict[str, dict[int, Result]] = {}
    for each in results:
        found.setdefault(each.point, {})[each.repetition] = each
    return found


def complete(plan: Plan, **more: Any) -> list[Result]:
    return [result(p.id, n, **more) for p in plan.points for n in range(1, p.repetitions.min + 1)]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two points, three repetitions each."""
    return make(tmp_path, document(axes={"queue_depth": [1, 2]}, repetitions=3))


def test_everything_is_left_at_first(plan: Plan) -> None:
    first, second = (p.id for p in plan.points)
    found = left(plan, {}, {}, HERE)
    assert found == {"1-node": {first: [1, 2, 3], second: [1, 2, 3]}}
    assert remaining.expected(plan, {}, {}, HERE) == {"1-node": {first: 3, second: 3}}


def test_nothing_is_left_once_all_has_an_outcome(plan: Plan) -> None:
    assert left(plan, stored(*complete(plan)), {}, HERE) == {}
    # whatever it is: what failed for good has no headline
    assert left(plan, stored(*complete(plan, value=None)), {}, HERE) == {}


def test_a_hole_is_left(plan: Plan) -> None:
    results = complete(plan)
    del results[1]
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [2]}}


@pytest.mark.parametrize(
    ("change", "here", "again"),
    [
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
        (
            {"target": place(fstype="xfs")},
            replace(HERE, target=None),
            False,
        ),
        ({"target": place(source="", fstype="")}, HERE, True),
    ],
)
def test_what_is_stale_is_measured_again(plan: Plan, change: dict[str, Any], here: Here, again: bool) -> None:
    results = complete(plan)
    results[4] = replace(results[4], **change)
    assert left(plan, stored(*results), {}, here) == ({"1-node": {plan.points[1].id: [2]}} if again else {})


@pytest.mark.parametrize(
    ("now", "again"),
    [
        ({"fstype": "fuse.glusterfs", "source": "s1:/dfs"}, False),
        ({"fstype": "fuse.glusterfs", "source": "s2:/dfs"}, True),  # it may be another cluster's
        ({"fstype": "fuse.glusterfs", "source": "s1:/other"}, True),
        ({"fstype": "nfs4", "source": "s1:/dfs"}, True),
        ({"fstype": "nfs4", "source": "x:/dfs", "volume": "fuse.glusterfs s1:/dfs"}, False),  # the marker proved it
    ],
)
def test_a_volume_by_another_of_its_servers(plan: Plan, now: dict[str, str], again: bool) -> None:
    where = Target(directory="/scratch/me", fstype="fuse.glusterfs", source="s1:/dfs", layout_is="")
    results = complete(plan, target=where)
    assert bool(left(plan, stored(*results), {}, replace(HERE, target=now))) == again
    assert all(remaining.elsewhere(one, plan, replace(HERE, target=now)) == again for one in results)


def test_what_is_stored_beside_the_plan_does_not_matter(plan: Plan) -> None:
    others = [result("fio.other.1n", 1), result(plan.points[0].id, 9)]
    assert left(plan, stored(*complete(plan), *others), {}, HERE) == {}


def test_what_another_try_may_cure_is_tried_once_more(plan: Plan) -> None:
    results = complete(plan)
    results[2] = replace(results[2], retry="killed")
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [3]}}
    results[2] = replace(results[2], retried=True)
    assert left(plan, stored(*results), {}, HERE) == {}
    # a second attempt that is no second try: measured again for `iosweep rerun`, or with another build
    results[2] = replace(results[2], retried=False, attempt=2)
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [3]}}


@pytest.mark.parametrize(
    ("points", "failing", "spent", "tried"),
    [
        (2, 6, 0, 3),  # of six repetitions three may be tried again
        (2, 6, 2, 1),
        (2, 6, 3, 0),
        (20, 60, 0, 6),  # of sixty a tenth
        (20, 4, 0, 4),
        (20, 60, 6, 0),
        (20, 60, 60, 0),
    ],
)
def test_the_budget_of_tries(tmp_path: Path, points: int, failing: int, spent: int, tried: int) -> None:
    """On a node that is always busy, trying everything twice would cure nothing."""
    depths = list(range(1, points + 1))
    plan = make(tmp_path, document(axes={"queue_depth": depths}, repetitions=3) | {"limits": {"retried": "10%"}})
    results = complete(plan)
    for index in range(failing):
        results[index] = replace(results[index], retry="busy", retried=index < spent, attempt=7)
    found = left(plan, stored(*results), {}, HERE)
    assert sum(len(n) for numbers in found.values() for n in numbers.values()) == tried


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


@pytest.mark.parametrize(("share", "tried"), [("0%", 0), ("1%", 3), ("50%", 6), ("100%", 12)])
def test_how_many_are_tried_again(tmp_path: Path, share: str, tried: int) -> None:
    plan = make(tmp_path, document(repetitions=1) | {"limits": {"retried": share}})
    found = left(plan, stored(*complete(plan, retry="busy")), {}, HERE)
    assert sum(len(n) for numbers in found.values() for n in numbers.values()) == tried


def test_a_second_try_that_was_not_disturbed_is_paid_for_too(plan: Plan) -> None:
    results = complete(plan)
    results[:3] = [replace(r, retried=True) for r in results[:3]]
    results[4] = replace(results[4], retry="busy")
    assert left(plan, stored(*results), {}, HERE) == {}


@pytest.mark.parametrize(
    ("needs", "here", "wanted"),
    [
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
    ],
)
def test_what_is_missing_is_not_left_while_it_is_absent(
    plan: Plan, needs: dict[str, Any], here: Here, wanted: bool
) -> None:
    first, second = (p.id for p in plan.points)
    found = left(plan, {}, {first: Missing(msgspec.convert(needs, Needs), "r")}, here)["1-node"]
    assert set(found) == ({first, second} if wanted else {second})


@pytest.mark.parametrize(
    ("cpus", "bound", "counts"),
    [
        ({}, "spread/cpu", True),
        ({}, None, False),
        ({"pinning": "enforce"}, "spread/cpu", True),
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
        ({"pinning": "off"}, None, True),
        ({"pinning": "verify"}, "spread/cpu", False),
    ],
)
def test_what_was_bound_in_another_way_is_left(
    tmp_path: Path, cpus: dict[str, Any], bound: str | None, counts: bool
) -> None:
    plan = make(tmp_path, document(axes={}) | cpus)
    (point,) = plan.points
    slurm = replace(HERE, launcher=SLURM_LAUNCHERS["srun"])
    assert (left(plan, stored(result(point.id, bound=bound)), {}, slurm) == {}) == counts
    # where no launcher is known nothing is compared
    assert left(plan, stored(result(point.id, bound=bound)), {}, replace(HERE, launcher=None)) == {}
    if "pinning" not in cpus:  # on one machine they are only looked at
        assert (left(plan, stored(result(point.id, bound=bound)), {}, HERE) == {}) == (bound is None)


def test_one_allocation_for_all_node_counts(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"nodes": [1, 2, 4]}) | {"allocation": "campaign"})
    first, second, third = sorted(plan.points, key=lambda p: p.nodes)
    assert left(plan, {}, {}, reaching(None)) == {"4-nodes": {p.id: [1] for p in (first, second, third)}}
    # what does not fit this launcher is not left; the rest of the same allocation is
    assert left(plan, {}, {}, reaching(2)) == {"4-nodes": {p.id: [1] for p in (first, second)}}
    assert left(plan, stored(result(first.id), result(third.id)), {}, reaching(None)) == {"4-nodes": {second.id: [1]}}


@pytest.mark.parametrize(("ranks", "points"), [(1, 1), (3, 1), (4, 2), (None, 2)])
def test_more_ranks_than_are_started_are_never_left(tmp_path: Path, ranks: int | None, points: int) -> None:
    sweep: dict[str, Any] = {"axes": {"threads_per_node": [1, 4]}, "options": {"file_size": "16m"}}
    here = Here(launcher=Launcher("made-up", nodes=1, ranks=ranks))
    ior = make(tmp_path, document(tool="ior", phases=["seq_read"], **sweep))
    assert len(left(ior, {}, {}, here)["1-node"]) == points
    # fio starts its workers itself, and where no launcher is known nothing is compared
    assert len(left(make(tmp_path, document(**sweep)), {}, {}, here)["1-node"]) == 2
    assert len(left(ior, {}, {}, Here())["1-node"]) == 2


def test_a_tool_that_is_absent_is_tried_once_to_be_recorded(plan: Plan) -> None:
    # nobody has recorded it as missing yet: the allocation runs, and says so
    assert left(plan, {}, {}, replace(HERE, tools={"fio": None}))


@pytest.mark.parametrize(
    ("only", "points"),
    [("qd1", 1), ("rand_read", 2), ("tiny", 2), ("tin", 2), ("fio.rand_read.1n.1t.1m.qd2", 1), ("nothing", 0), ("", 2)],
)
def test_only_some_points_or_sweeps(plan: Plan, only: str, points: int) -> None:
    assert len(left(plan, {}, {}, HERE, only).get("1-node", {})) == points


# Until the interval is narrow


def adaptive(tmp_path: Path, **repetitions: Any) -> Plan:
    return make(
        tmp_path, document(axes=None, repetitions={"min": 2, "max": 5, "until_ci95_half_width": "10%"} | repetitions)
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], [1, 2]),
        ([100.0], [2]),
        ([100.0, 100.0], [3]),  # two values have no grade
        ([100.0, 101.0], [3]),
        ([100.0, 100.0, 100.0], []),
        ([100.0, 0.0, 100.0], []),  # without an interval, whatever follows
        ([100.0, 101.0, 100.0], []),
        ([100.0, 110.0, 100.0], [4]),
        ([100.0, 150.0, 100.0, 150.0], [5]),
        ([100.0, 150.0, 100.0, 150.0, 100.0], []),  # wide, but as often as allowed
        ([None, None], []),  # what failed is not measured more often
        ([100.0, None], []),
        ([None, 100.0, 102.0], [4]),
        ([None, 100.0, None, 102.0], []),
    ],
)
def test_as_often_as_the_interval_asks(tmp_path: Path, values: list[float | None], expected: list[int]) -> None:
    plan = adaptive(tmp_path)
    point = plan.points[0].id
    results = [result(point, number, value) for number, value in enumerate(values, 1)]
    assert left(plan, stored(*results), {}, HERE) == ({"1-node": {point: expected}} if expected else {})


def test_a_gap_is_filled_before_more_is_measured(tmp_path: Path) -> None:
    plan = adaptive(tmp_path)
    point = plan.points[0].id
    results = [result(point, 1, 100.0), result(point, 2, 150.0), result(point, 4, 100.0)]
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {point: [3]}}


def test_a_repetition_follows_while_the_interval_is_wider_than_asked_for(tmp_path: Path) -> None:
    plan = adaptive(tmp_path)
    point = plan.points[0].id
    for values in ([100.0, 100.5, 101.0], [100.0, 103.0, 106.0], [100.0, 101.0, 102.0, 103.0]):
        width = interval(values)
        assert width is not None
        more = left(plan, stored(*(result(point, n, value) for n, value in enumerate(values, 1))), {}, HERE)
        assert bool(more) == (width.half_width_share > 0.10)


@pytest.mark.parametrize(
    ("first", "last", "narrow"), [((100, 100), (100, 100), True), ((100, 100), (100, 200), False),
                                  ((100, 100), (200, 100), False)],
)  # fmt: skip
def test_every_phase_must_be_narrow(
    tmp_path: Path, first: tuple[float, float], last: tuple[float, float], narrow: bool
) -> None:
    plan = adaptive(tmp_path)
    point = plan.points[0].id
    both = [
        result(point, number, headlines=(("seq_read", a), ("rand_read", b)))
        for number, (a, b) in enumerate((first, first, last), 1)
    ]
    assert (left(plan, stored(*both), {}, HERE) == {}) == narrow


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
