"""What is left to measure, which fresh repetitions confirm the best points, and that the table says the same."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from campaign import METADATA, Made, document, make
from iosweep.judge import remaining, verdict
from iosweep.judge.best import best, candidate
from iosweep.judge.remaining import LocalMachine, find
from iosweep.plan import forecast
from iosweep.plan.headline_groups import headline_groups
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.plan.model import Plan, Point
from iosweep.store.record import MeasuredTarget, Missing, Needs, PhaseVerdict, RecordHead, ToolBuild

MOUNT = {"source": "/dev/x", "fstype": "ext4", "fsid": "01"}
HERE = LocalMachine(tools={"fio": "build"}, launcher=LAUNCHERS["direct"], targets={"": MOUNT})
CPUS = {"pinning": None, "reserved": None, "placement": "spread", "width": "cpu"}

Stored = dict[str, dict[int, RecordHead]]


def left(*arguments: Any) -> dict[str, dict[str, list[int]]]:
    return find(*arguments).left


def place(**more: Any) -> MeasuredTarget:
    return MeasuredTarget(**{"directory": "/scratch/me", "layout_is": "", **MOUNT, **more})


def result(point: str, number: int = 1, value: float | None = 100.0, **more: Any) -> RecordHead:
    """A stored repetition with this rate; None: it failed for good."""
    latency_s = 1 / value if value else None
    row = PhaseVerdict(
        phase="rand_read", verdict="invalid" if value is None else "valid", headline=value, latency_mean_s=latency_s
    )
    known: dict[str, Any] = {"tool": ToolBuild("build", ""), "target": place(), "rows": (row,)}
    return RecordHead(point=point, repetition=number, host="h", **known | more)


def stored(*results: RecordHead) -> Stored:
    found: Stored = {}
    for each in results:
        found.setdefault(each.point, {})[each.repetition] = each
    return found


def complete(plan: Plan, **more: Any) -> list[RecordHead]:
    return [result(p.id, n, **more) for p in plan.points for n in range(1, p.repetitions.min + 1)]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two points, three repetitions each."""
    return make(tmp_path, document(axes={"queue_depth": [1, 2]}, repetitions=3))


def test_what_has_no_outcome_is_left(plan: Plan) -> None:
    first, second = (p.id for p in plan.points)
    assert left(plan, {}, {}, HERE) == {"1-node": {first: [1, 2, 3], second: [1, 2, 3]}}
    assert find(plan, {}, {}, HERE).expected == {"1-node": {first: 3, second: 3}}
    # whatever it is: what failed for good has no headline; others are stored beside the plan
    others = [result("fio.other.1n", 1), result(first, 9)]
    for value in (100.0, None):
        assert left(plan, stored(*complete(plan, value=value), *others), {}, HERE) == {}
    hole = complete(plan)
    del hole[1]
    assert left(plan, stored(*hole), {}, HERE) == {"1-node": {first: [2]}}


def test_each_point_is_measured_again_where_its_own_target_has_moved(tmp_path: Path) -> None:
    made = document(axes={"queue_depth": [1]}, repetitions=1)
    del made["target"]
    plan = make(tmp_path, made | {"targets": {"a": {"directory": "/a"}, "b": {"directory": "/b"}}})
    ids = {point.target: point.id for point in plan.points}
    done = stored(*(result(id, target=place(directory=f"/{name}")) for name, id in ids.items()))
    same = replace(HERE, targets={"a": MOUNT, "b": MOUNT})
    assert left(plan, done, {}, same) == {}
    moved = replace(HERE, targets={"a": MOUNT, "b": MOUNT | {"fsid": "02"}})
    assert left(plan, done, {}, moved) == {"1-node": {ids["b"]: [1]}}
    swapped = stored(*(result(id, target=place(directory="/a")) for id in ids.values()))
    assert left(plan, swapped, {}, same) == {"1-node": {ids["b"]: [1]}}


def test_what_is_side_by_side_is_tried_again_together(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"queue_depth": [1, 2], "threads_per_node": [1, 2]}, repetitions=2,
                                   side_by_side="queue_depth"))  # fmt: skip
    one, two = next(members for members in plan.side_by_side.values() if len(members) == 2)
    done = complete(plan)

    def after(*changed: RecordHead) -> dict[str, list[int]]:
        return left(plan, stored(*done, *changed), {}, HERE).get("1-node", {})

    assert after(result(one, 2, retry="other load")) == {one: [2], two: [2]}
    assert after(result(one, 2, retry="other load", retried=True)) == {}
    # there is no third try
    assert after(result(one, 2, retry="other load"), result(two, 2, retried=True)) == {one: [2]}


def test_what_is_stale_is_measured_again(plan: Plan) -> None:
    change: dict[str, Any]
    for change, here, again in (
        ({}, HERE, False),
        ({"intact": False}, HERE, True),
        ({"tool": ToolBuild("older", "")}, HERE, True),
        ({"tool": ToolBuild("older", "")}, replace(HERE, tools={}), False),  # what is not known is not compared
        ({"target": place(directory="/elsewhere")}, HERE, True),
        ({"target": place(layout=("-c", "4"))}, HERE, True),
        ({"target": place(fsid="02")}, HERE, True),  # another disk of that name
        ({"target": place(source="/dev/y")}, HERE, False),  # this disk by another name
        ({"target": place(fstype="xfs")}, replace(HERE, targets={}), False),
    ):
        results = complete(plan)
        results[4] = structs.replace(results[4], **change)
        found = left(plan, stored(*results), {}, here)
        assert found == ({"1-node": {plan.points[1].id: [2]}} if again else {}), (change, here)


def test_what_another_try_may_cure_is_tried_once_more(plan: Plan) -> None:
    results = complete(plan)
    results[2] = structs.replace(results[2], retry="killed")
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [3]}}
    results[2] = structs.replace(results[2], retried=True)
    assert left(plan, stored(*results), {}, HERE) == {}
    # a second attempt that is no second try: measured again for `iosweep rerun`, or with another build
    results[2] = structs.replace(results[2], retried=False, attempt=2)
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {plan.points[0].id: [3]}}


def test_tries_have_a_budget(tmp_path: Path) -> None:
    """On a node that is always busy, trying everything twice would cure nothing."""
    for share, points, failing, spent, tried in (
        ("10%", 2, 6, 0, 3),  # of six repetitions three may be tried again
        ("10%", 2, 6, 2, 1),
        ("10%", 20, 60, 0, 6),  # of sixty a tenth
        ("10%", 20, 60, 6, 0),
        ("0%", 4, 12, 0, 0),
    ):
        sweep = document(axes={"queue_depth": list(range(1, points + 1))}, repetitions=3)
        plan = make(tmp_path, sweep | {"limits": {"retried": share}})
        results = complete(plan)
        for index in range(failing):
            results[index] = structs.replace(results[index], retry="busy", retried=index < spent, attempt=7)
        found = left(plan, stored(*results), {}, HERE).get("1-node", {})
        assert sum(map(len, found.values())) == tried, (share, points, failing, spent)


def test_what_is_missing_is_not_left_while_it_is_absent(plan: Plan) -> None:
    first, second = (p.id for p in plan.points)
    needs: dict[str, Any]
    for needs, here, wanted in (
        ({"tool": "fio"}, replace(HERE, tools={"fio": None}), False),
        ({"tool": "fio", "sha256": "build"}, HERE, False),  # the same binary, whose version is too old
        ({"tool": "fio", "sha256": None}, HERE, True),  # it did not run: it may do so now
        # what the launcher lacked when it was recorded: the one of now is asked, and it starts these points
        ({"nodes": 2}, HERE, True),
        ({"ranks": 4}, HERE, True),
        # srun's way to start MPI, or the library for it, is not there: until another launcher is asked for
        ({"launcher": "srun"}, replace(HERE, launcher=SLURM_LAUNCHERS["srun"]), False),
        ({"launcher": "srun"}, replace(HERE, launcher=SLURM_LAUNCHERS["srun-pmix"]), True),
        # more ranks than a node has CPUs: until something else is asked for
        ({"cpus": CPUS}, HERE, False),
        ({"cpus": CPUS | {"pinning": "verify"}}, HERE, True),
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
        ({"pinning": "enforce", "cpus": {"placement": "pack", "width": "core"}}, "pack/cpu", True),  # fio: by CPU
        ({"pinning": "enforce", "cpus": {"reserved": "3"}}, "spread/cpu", False),
        ({"pinning": "enforce", "cpus": {"reserved": "3"}}, "spread/cpu/reserved 3", True),
        ({"pinning": "verify", "cpus": {"reserved": ""}}, "reserved none", True),
        ({"pinning": "verify"}, None, True),
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
    all_, two = (replace(HERE, launcher=Launcher("made-up", nodes=nodes, ranks=None)) for nodes in (None, 2))
    assert left(plan, {}, {}, all_) == {"4-nodes": {p.id: [1] for p in (first, second, third)}}
    # what does not fit this launcher is not left; the rest of the same allocation is
    assert left(plan, {}, {}, two) == {"4-nodes": {p.id: [1] for p in (first, second)}}
    assert left(plan, stored(result(first.id), result(third.id)), {}, all_) == {"4-nodes": {second.id: [1]}}


def test_more_ranks_than_are_started_are_never_left(tmp_path: Path) -> None:
    sweep: dict[str, Any] = {"axes": {"threads_per_node": [1, 4]}, "options": {"file_size": "16m"}}
    (tmp_path / "fio").mkdir()
    ior = make(tmp_path, document(tool="ior", phases=["seq_read"], **sweep))
    fio = make(tmp_path / "fio", document(**sweep))
    for ranks, points in ((1, 1), (3, 1), (4, 2), (None, 2)):
        here = LocalMachine(launcher=Launcher("made-up", nodes=1, ranks=ranks))
        assert len(left(ior, {}, {}, here)["1-node"]) == points, ranks
        assert len(left(fio, {}, {}, here)["1-node"]) == 2  # fio starts its workers itself
    assert len(left(ior, {}, {}, LocalMachine())["1-node"]) == 2  # where no launcher is known nothing is compared


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
        ([100.0, 100.0], [3]),  # two values have no grade
        ([100.0, 100.0, 100.0], []),
        ([100.0, 0.0, 100.0], []),  # without an interval, whatever follows
        ([100.0, 103.0, 106.0], []),  # 7.6 % of 10 %
        ([100.0, 104.0, 109.0], [4]),  # 11 %
        ([100.0, 150.0, 100.0, 150.0, 100.0], []),  # wide, but as often as allowed
        ([None, None], []),  # what failed is not measured more often
        ([None, 100.0, 102.0], [4]),
    ):
        results = [result(point, number, value) for number, value in enumerate(values, 1)]
        assert left(plan, stored(*results), {}, HERE) == ({"1-node": {point: wanted}} if wanted else {}), values
    # a gap is filled before more is measured
    results = [result(point, number, value) for number, value in ((1, 100.0), (2, 150.0), (4, 100.0))]
    assert left(plan, stored(*results), {}, HERE) == {"1-node": {point: [3]}}
    # every phase must be narrow
    for last, narrow in (((100, 100), True), ((100, 200), False)):
        both = [
            result(
                point,
                number,
                rows=tuple(
                    PhaseVerdict(phase=phase, verdict="valid", headline=rate)
                    for phase, rate in zip(("seq_read", "rand_read"), rates, strict=True)
                ),
            )
            for number, rates in enumerate(((100, 100), (100, 100), last), 1)
        ]
        assert (left(plan, stored(*both), {}, HERE) == {}) == narrow, last


# Fresh repetitions of the best points


@pytest.fixture
def depths(tmp_path: Path) -> Plan:
    """Three depths, two repetitions each, and three fresh ones of the best."""
    return make(tmp_path, document(axes={"queue_depth": [1, 2, 4]}, repetitions=2, confirm=3))


def depth(plan: Plan, value: int) -> str:
    return next(p.id for p in plan.points if p.options["queue_depth"] == value)


def measured(plan: Plan, rates: dict[int, list[float | None]]) -> Stored:
    """Queue depth -> figures of its repetitions in the first session; those that confirm come last."""
    rule = plan.points[0].repetitions
    numbers = [*rule.selecting(1, rule.max), *rule.confirming(1)]
    return {
        depth(plan, qd): {n: result(depth(plan, qd), n, value) for n, value in zip(numbers, values, strict=False)}
        for qd, values in rates.items()
    }


CHOSEN: dict[int, list[float | None]] = {1: [10, 11], 2: [30, 31], 4: [29, 28]}


def test_the_best_point_is_confirmed_once_all_points_are_measured(depths: Plan) -> None:
    for rates, wanted in (
        (CHOSEN | {4: [29]}, {4: [2]}),
        # the lowest latency is that at depth 1, which alone has the lowest load: nothing was chosen there
        (CHOSEN, {2: [1001, 1002, 1003]}),
        (CHOSEN | {2: [30, 31, 30]}, {2: [1002, 1003]}),
        (CHOSEN | {2: [30, 31, 5, 5, None]}, {}),  # fresh ones have no part in the choice
        (CHOSEN | {2: [30, 31, 30, 30, 30], 4: [29, 99]}, {4: [1001, 1002, 1003]}),  # another winner after a rerun
    ):
        found = left(depths, measured(depths, rates), {}, HERE)
        assert found.get("1-node", {}) == {depth(depths, qd): numbers for qd, numbers in wanted.items()}, rates
    for number, change in ((2, {"retry": "killed"}), (1002, {"intact": False})):
        stored = measured(depths, CHOSEN | {2: [30, 31, 30, 30, 30]})
        stored[depth(depths, 2)][number] = structs.replace(stored[depth(depths, 2)][number], **change)
        assert left(depths, stored, {}, HERE) == {"1-node": {depth(depths, 2): [number]}}, change


def test_each_best_point_is_forecast(tmp_path: Path) -> None:
    """Rates and latencies of reads and writes may be won by four points."""
    axes = {"queue_depth": [1, 2], "threads_per_node": [1, 2]}
    plan = make(tmp_path, document(phases=["rand_read", "rand_write"], axes=axes, repetitions=2, confirm=3))
    assert forecast.forecast_of(plan).repetitions == 4 * 2 + 4 * 3
    assert sum(find(plan, {}, {}, HERE).expected["1-node"].values()) == 4 * 2 + 4 * 3


def test_what_cannot_be_measured_is_not_waited_for(depths: Plan) -> None:
    stored, lacks = measured(depths, CHOSEN | {4: []}), Missing(Needs(tool="fio"), "fio is not installed")
    missing = {depth(depths, 4): lacks}
    here = replace(HERE, tools={"fio": None})
    assert left(depths, stored, missing, here) == {"1-node": {depth(depths, 2): [1001, 1002, 1003]}}
    # nor is the best point replaced by another one, where it cannot be measured again
    assert left(depths, stored, missing | {depth(depths, 2): lacks}, here) == {}


def test_each_allocation_confirms_its_own_best_point(tmp_path: Path) -> None:
    plan = make(tmp_path, document(axes={"nodes": [1, 2], "queue_depth": [1]}, repetitions=1, confirm=2))
    here = replace(HERE, launcher=None)
    found = left(plan, {p.id: {1: result(p.id, 1, 5.0)} for p in plan.points}, {}, here)
    assert found == {a.name: {a.points[0].id: [1001, 1002]} for a in plan.allocations}


def test_files_of_unlike_sizes_do_not_compete(tmp_path: Path) -> None:
    text = document(**METADATA | {"tool": "mdtest", "axes": {"file_size": [0, "4k"]}, "confirm": 1})
    assert headline_groups(make(tmp_path, text).points) == {}
    text["sweeps"][0]["axes"]["threads_per_node"] = [1, 2]
    assert {len(members) for members in headline_groups(make(tmp_path, text).points).values()} == {2}


def test_equal_points_have_one_winner() -> None:
    tied = [candidate(name, [(1.0, True)]) for name in ("b", "a", "c")]
    assert [best(order) for order in (tied, tied[::-1])] == [tied[1]] * 2
    assert best([]) is best([None]) is None


# The table of results says the same

Numbers = dict[str, set[int]]
ANYWHERE = replace(HERE, tools={}, launcher=None, targets={})
RAMP = "queue_depth"


def told_by_table(made: Made, **states: bool) -> Numbers:
    """Point -> repetitions of the table in this state; all that it has to have instead of None."""
    found: Numbers = {}
    every: Numbers = {}
    for allocation, point in ((a, p) for a in made.plan.allocations for p in a.points):
        rule = point.repetitions
        every.setdefault(point.id, set()).update(rule.selecting(allocation.session, rule.min))
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
    record = made.record(point, phases=phases, judged=verdict.key(made.plan, point))
    made.store.commit(point.id, number, record, {"x.stdout": b"y"})


PLANS: dict[str, dict[str, Any]] = {
    "a ramp of two phases, confirmed": {
        "axes": {"queue_depth": [1, 2, 4, 8]}, "ramp": RAMP, "confirm": 1, "phases": ["rand_read", "rand_write"],
    },
    "a ramp over nodes, confirmed": {
        "axes": {"nodes": [1, 2, 4], "queue_depth": [1, 4]}, "ramp": "nodes", "confirm": 2,
    },
    "two sessions": {"axes": {"nodes": [1, 2], "queue_depth": [1, 2]}, "sessions": 2},
    "three sessions of a ramp, confirmed": {
        "axes": {"queue_depth": [1, 2, 4, 8]}, "ramp": RAMP, "confirm": 1, "sessions": 3,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANS)
def test_the_table_and_the_plan_agree_on_what_is_left(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    for k in range(2):
        sweep = dict(PLANS[kind])
        sessions = sweep.pop("sessions", 1)
        sweeps = document(repetitions=draw.choice((1, 2, 3)), **sweep) | {"sessions": sessions}
        place = tmp_path / str(k)
        place.mkdir()
        made = Made(place, make(place, sweeps))
        width, held = draw.choice((1, 2, 8)), draw.random()
        for point in made.plan.points:
            load = min(int(point.options["queue_depth"]) * point.nodes, width)
            rule = point.repetitions
            sessions_of = range(1, rule.sessions + 1)
            for number in (n for s in sessions_of for n in (*rule.selecting(s, rule.max), *rule.confirming(s))):
                if draw.random() < (held / 4 if point.repetitions.confirms(number) else held):
                    figures = {}
                    for phase in point.phases:
                        outcome = draw.choices(("valid", "suspect", "invalid"), (6, 2, 1))[0]
                        rate = load * draw.lognormvariate(0, 0.05)
                        own = {"headline": rate, "latency_mean_s": 1 / rate} if outcome != "invalid" else {}
                        figures[phase] = own | {"verdict": outcome}
                    store(made, point, number, **figures)
        for archive in made.store.path.glob("points/*/*.zip"):
            if draw.random() < 0.05:  # a peak that is gone has to be measured again
                archive.unlink()
        results, missing = made.store.repetitions(), made.store.missing()
        still = remaining.find(made.plan, results, missing, ANYWHERE)
        now: Numbers = {}
        for point, numbers in ((p, n) for points in still.left.values() for p, n in points.items()):
            now.setdefault(point, set()).update(numbers)
        later = {point for points in still.expected.values() for point in points}
        without = {point for points in still.unneeded.values() for point in points}
        left, unneeded = told_by_table(made, left=True), told_by_table(made, unneeded=True)
        for point, numbers in now.items():
            assert numbers <= left.get(point, set()), (point, numbers, left)
        for point, numbers in left.items():
            assert numbers == now.get(point) or point in later, (point, numbers, now)
        assert unneeded.keys() <= without
        assert not any(unneeded[point] & now.get(point, set()) for point in unneeded)
