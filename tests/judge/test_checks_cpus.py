"""The checks on CPUs: for every reason a record that gives it, and that none of them passes without evidence."""

from collections.abc import Mapping
from typing import Any

from syrupy.assertion import SnapshotAssertion

from iosweep.config.sweeps import RepetitionRule
from iosweep.judge.checks.cpus import LOOKS, pinned, reserved_agree, reserved_cpus
from iosweep.judge.findings import Finding, Observation
from iosweep.judge.verdict import judge_phase, verdict_of
from iosweep.plan.model import Point
from iosweep.tools import Parsed, tools
from records import ON_TARGET, phase_run

PASS, FAIL, UNCHECKED, NO = "pass", "fail", "not checked", "not applicable"
WEKA = "weka local resources -C client0"
CHECKS = {"pinned": pinned, "reserved_cpus": reserved_cpus, "reserved_agree": reserved_agree}

Record = dict[str, Any]


def process(role: str, masks: list[str], count: int = 1, threads: list[str] | None = None) -> Record:
    return {"role": role, "count": count, "masks": masks, "thread_masks": masks if threads is None else threads}


AGENT = process("agent", ["0-3"])
RANKS = [process("rank", [cpu]) for cpu in "0123"]


def node(host: str = "n1", processes: list[Record] | None = None, **changes: Any) -> Record:
    """Four ranks on CPUs 0-3 of six, of which WEKA keeps the others."""
    whole: Record = {
        "hosts": [host], "usable": "0-3", "reserved": "4-5", "by": [WEKA], "problems": [], "expected": 4, "seen": 4,
        "looks": 6, "gap_s": 0.2, "cost_s": 0.001, "wall_s": 1.1,
        "processes": [*RANKS, AGENT] if processes is None else processes,
    }  # fmt: skip
    assert set(changes) <= set(whole)
    return whole | changes


def record(*nodes: Record, planned: Mapping[str, int] | None = None, pinning: str = "enforce") -> Record:
    bound = dict.fromkeys("0123", 1) if planned is None else planned
    return {"pinning": pinning, "placement": "spread", "width": "cpu", "nodes": list(nodes) or [node()],
            "planned": bound if pinning == "enforce" else None}  # fmt: skip


def seen(cpus: Record | None, tool: str = "fio", runtime_s: float | None = 1.0) -> Observation:
    phase = next(iter(tools()[tool].phases.values()))
    point = Point("p", tool, (phase.name,), 1, {"threads_per_node": 4}, 1.0, RepetitionRule(1, 1), ())
    run = {"exit_code": 0, "timed_out": False, "wall_s": 1.1, "stderr": "", "cpus": cpus}  # fmt: skip
    return Observation(
        point, phase, phase_run(run), Parsed("x", {} if runtime_s is None else {"runtime_s": runtime_s}), ON_TARGET, {}
    )


def found(check: str, cpus: Record | None, **more: Any) -> Finding:
    return CHECKS[check](seen(cpus, **more))


def with_rank(*masks: str, threads: list[str] | None = None) -> Record:
    """The second rank is another."""
    ranks = [RANKS[0], process("rank", list(masks), 1, threads), *RANKS[2:], AGENT]
    return record(node(processes=ranks))


NOT_AS_PLANNED = {
    "mask widened to all usable": with_rank("0-3"),
    "changed on the way": with_rank("1", "0-5"),
    "list too short": record(node(processes=[process("rank", ["0"], 2), *RANKS[2:], AGENT])),
    "a tool that rebinds a thread": with_rank("1", threads=["1", "5"]),
    "a helper": record(node(processes=[*RANKS, process("helper", ["0-5"]), AGENT])),
    "the agent of another node": record(node("n1"), node("n2", [*RANKS, process("agent", ["4"])])),
    "a mask that a cpuset has narrowed": record(
        node(processes=[process("rank", ["0"]), process("rank", ["2-3"])], expected=2, seen=2),
        planned={"0-1": 1, "2-3": 1},
    ),
}


def test_what_is_not_bound_as_planned_fails_and_another_try_would_not_help(snapshot: SnapshotAssertion) -> None:
    told = []
    for case, cpus in NOT_AS_PLANNED.items():
        finding = found("pinned", cpus)
        assert (finding.outcome, finding.retry) == (FAIL, False), case
        told.append(f"{case}: {finding.evidence}")
    assert "\n".join(told) == snapshot


def test_processes_that_are_as_planned_in_other_ways() -> None:
    """Cores for ranks, workers that share, a helper on a usable CPU, threads that keep to a part of their rank's."""
    cores = [process("rank", ["0-1"], 1, ["0-1", "0"]), process("rank", ["2-3"])]
    helpers = [process("helper", ["3"]), process("helper", [], 2, [])]
    both = record(node(processes=[*cores, *helpers, AGENT], expected=2, seen=2), planned={"0-1": 1, "2-3": 1})
    shared = node(processes=[process("worker", ["0-3"], 192), AGENT], expected=192, seen=192)
    for cpus in (both, record(shared, planned={"0-3": 192})):
        assert found("pinned", cpus).outcome == PASS


def test_too_few_looks_prove_nothing() -> None:
    more: dict[str, Any]
    for cpus, more, outcome in (
        (None, {}, UNCHECKED),
        (record(pinning="verify"), {}, UNCHECKED),
        (record(node("n1"), node("n2", seen=3)), {}, UNCHECKED),
        (record(node(looks=LOOKS - 1)), {}, UNCHECKED),
        (record(node("n1"), node("n2", looks=LOOKS)), {}, PASS),
        # a tool of several phases: what lies between two looks must be shorter than any of them
        (record(node(gap_s=0.3)), {"tool": "mdtest"}, PASS),
        (record(node(gap_s=0.5)), {"tool": "mdtest"}, UNCHECKED),
        (record(), {"tool": "mdtest", "runtime_s": None}, UNCHECKED),
    ):
        assert found("pinned", cpus, **more).outcome == outcome, (cpus, more)


def test_whatever_runs_on_reserved_cpus_fails_also_where_nothing_is_bound() -> None:
    for one in (process("rank", ["0-5"]), process("worker", ["0"], 2, ["0", "4"]), process("agent", ["0-5"])):
        for pinning in ("enforce", "verify"):
            finding = found("reserved_cpus", record(node(processes=[*RANKS, one]), pinning=pinning))
            assert finding.outcome == FAIL, (one, pinning)


def test_reserved_cpus_that_are_not_known_are_not_kept_free() -> None:
    for cpus, outcome in (
        (None, UNCHECKED),
        (record(pinning="verify"), PASS),
        (record(node(reserved="", by=[])), NO),
        (record(node("n1"), node("n2", reserved=None, by=["/proc/mounts /w"])), UNCHECKED),
        (record(node("n0"), node(seen=3)), UNCHECKED),
    ):
        assert found("reserved_cpus", cpus).outcome == outcome, cpus
    assert found("reserved_agree", record(node("n1"), node("n2", problems=["they differ"]))).outcome == FAIL
    assert found("reserved_agree", record(node(by=[WEKA, "/proc/mounts /w"]))).outcome == PASS
    assert found("reserved_agree", None).outcome == UNCHECKED


def test_a_mask_that_is_wrong_makes_the_verdict_invalid() -> None:
    for cpus, expected in (
        (record(), ("valid", set())),
        (with_rank("0-5"), ("invalid", {"pinned", "reserved_cpus"})),
        (record(node(problems=["they differ"])), ("suspect", {"reserved_agree"})),
    ):
        judged = {check: finding for check, finding in judge_phase(seen(cpus)).items() if check in CHECKS}
        assert (
            verdict_of(judged)[0],
            {check for check, finding in judged.items() if finding.outcome == FAIL},
        ) == expected


def test_nothing_passes_without_a_mask_of_every_rank_and_worker() -> None:
    """Whatever else was seen, on this node and on others."""
    few = [[AGENT], *([*RANKS[:3], *more, AGENT] for more in ([], [process("rank", [])], [process("helper", ["3"])]))]
    for lack in ({"looks": LOOKS - 1}, {"seen": 3}, *({"processes": own} for own in few)):
        for pinning in ("enforce", "verify"):
            poor = node("n2", **lack)
            for cpus in (record(poor, pinning=pinning), record(node("n1"), poor, pinning=pinning)):
                assert PASS not in [found(name, cpus).outcome for name in ("pinned", "reserved_cpus")], lack
