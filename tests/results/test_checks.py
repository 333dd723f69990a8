"""The validity checks, one by one: what passes, what fails, what cannot be checked and what does not apply."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from check_cases import CASES
from checked_run import FAIL, GIB, NO, OVERWRITTEN, PASS, PHASES, RUN, files, moved, seen
from iosweep.results import judging, reasons
from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import NOT_APPLICABLE, Finding, Seen, failed, passed, unchecked
from iosweep.tools import Parsed
from records import ON_TARGET, phase_run


@pytest.mark.parametrize(("name", "changes", "outcome", "evidence"), CASES)
def test_a_check(name: str, changes: dict[str, Any], outcome: str, evidence: str) -> None:
    [check] = [c for c in CHECKS if c.name == name]
    found = check.look(seen(**changes))
    assert found.outcome == outcome
    assert evidence in found.evidence
    assert bool(found.evidence) == (outcome != NO)  # whatever is said is said with a reason


def test_what_never_arrived_was_not_merged_by_a_client() -> None:
    """Fewer bytes were sent than there are blocks: writing over them does not explain that."""
    [check] = [c for c in CHECKS if c.name == "reached"]
    found = check.look(seen(**OVERWRITTEN | {"moved": moved(sent_bytes=40 << 20)}))
    assert (found.outcome, found.evidence.endswith("which other traffic uses, too")) == (FAIL, True)


#: Checks that nothing of this machine can fail yet; not one that has a `failed` in it.
CANNOT_FAIL = {"exclusive"}


@pytest.mark.parametrize(
    ("ran_on", "said"),
    [
        (None, None),  # a wrapper, or too short to see
        ({"n1": 2, "n2": 2}, None),
        ({"n1": 1, "n2": 2}, None),  # of some only a part was seen
        ({"n1": 2, "n2": 0}, "2 ranks were asked for on each node, and 0 on n2 were seen"),
        ({"n2": 4, "n1": 0}, "2 ranks were asked for on each node, and 0 on n1, 4 on n2 were seen"),
        ({"n1": 3, "n2": 2}, "2 ranks were asked for on each node, and 3 on n1 were seen"),
    ],
)
def test_ranks_were_seen_where_they_were_asked_for(ran_on: dict[str, int] | None, said: str | None) -> None:
    told = seen(tasks=4, nodes=2, ran_on=2, tool="ior")
    (finding,) = [
        f
        for f in judging.judge(replace(told, run=structs.replace(told.run, ran_on=ran_on or {})))
        if f[0].name == "workers"
    ]
    assert (finding[1].outcome, finding[1].evidence) == (
        (FAIL, said) if said else (PASS, "4 ranks on 2 nodes, as asked")
    )


def test_every_check_has_its_cases() -> None:
    tried = {(name, outcome) for name, _, outcome, _ in CASES}
    assert {name for name, _ in tried} == {c.name for c in CHECKS}
    assert {name for name, outcome in tried if outcome == FAIL} == {c.name for c in CHECKS} - CANNOT_FAIL
    assert {name for name, outcome in tried if outcome == PASS} == {c.name for c in CHECKS}


def test_what_is_well_is_valid() -> None:
    assert judging.verdict(judging.judge(seen())) == ("valid", [])
    assert judging.verdict(judging.judge(seen("rand_read"))) == ("valid", [])


def test_a_pass_needs_evidence() -> None:
    with pytest.raises(ValueError, match="a check cannot pass without evidence"):
        passed("")


def findings(*chosen: tuple[str, Finding]) -> Iterator[Any]:
    for name, finding in chosen:
        yield next(c for c in CHECKS if c.name == name), finding


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ("valid", [])),
        (
            [("output", passed("x")), ("durable", unchecked("y")), ("workers", NOT_APPLICABLE)],
            ("valid", []),
        ),
        ([("durable", failed("slow"))], ("suspect", ["slow"])),
        ([("output", failed("cut"))], ("invalid", ["cut"])),
        # invalid outweighs suspect, and what makes it invalid comes first; all reasons are kept
        ([("durable", failed("slow")), ("output", failed("cut"))], ("invalid", ["cut", "slow"])),
        ([("output", failed("cut")), ("durable", failed("slow"))], ("invalid", ["cut", "slow"])),
        # a failure of the run explains what its output lacks, and nothing else
        (
            [
                ("durable", failed("slow")),
                ("output", failed("cut → off")),
                ("tool_errors", failed("EIO")),
                ("exit_status", failed("exit code 1")),
            ],
            ("invalid", ["exit code 1 → cut > off → EIO", "slow"]),
        ),
        ([("output", failed("cut")), ("tool_errors", failed("EIO"))], ("invalid", ["EIO → cut"])),
    ],
)
def test_verdicts(chosen: list[tuple[str, Finding]], expected: tuple[str, list[str]]) -> None:
    assert judging.verdict(list(findings(*chosen))) == expected


def test_checks_that_explain_others_are_checks() -> None:
    assert reasons.CONSEQUENCES | set(reasons.ROOTS) <= {check.name for check in CHECKS}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"exit_code": 1}, None),  # would fail again
        ({"fsync": False}, None),
        ({"not_run": "not run: no"}, "not run: no"),  # what could not be made ready, or started
        ({"not_run": "not run: No space left on device: x"}, None),  # would be full again
        ({"not_run": "not run: 0.0 is missing", "files": files(wrong=["0.0 is missing"])}, "not run: 0.0 is missing"),
        ({"exit_code": 1, "stderr": "Disk quota exceeded"}, None),
        (
            {"exit_code": 1, "stderr": "Stale file handle"},
            "the target's server does not know its own files any more:"
            " the tool ended with exit code 1: Stale file handle",
        ),
        ({"flooded": True}, None),
        ({"left_behind": ("fio (pid 7)",)}, "the target hangs: processes of the tool could not be killed: fio (pid 7)"),
        ({"exit_code": -15}, "the tool was killed by signal 15"),
        ({"exit_code": -9}, "the tool was killed by signal 9"),
        ({"exit_code": -11}, None),  # a segmentation fault comes again
        ({"timed_out": True}, "the tool was killed after 10 s: it did not end by itself"),
        ({"load": {"other": 0.5, "steal": 0.0}}, "other processes used 50% of the CPU time"),
        ({"load": {"other": 0.0, "steal": 0.5}}, "the hypervisor withheld 50% of the CPU time"),
    ],
)
def test_only_what_another_try_can_cure_is_tried_again(changes: dict[str, Any], reason: str | None) -> None:
    assert judging.retry(finding for _, finding in judging.judge(seen(**changes))) == reason


def test_what_was_not_run_passes_nothing() -> None:
    # exit code 0 is what a run has that never was; it says nothing about O_DIRECT
    run = Seen(
        seen().point,
        PHASES["rand_write"],
        phase_run(RUN | {"not_run": "not run: no space"}),
        Parsed(),
        ON_TARGET,
        {"n1": GIB},
    )
    found = judging.judge(run)
    assert judging.verdict(found) == ("invalid", ["not run: no space"])
    assert {f.outcome for c, f in found if c.name != "exit_status"} == {NO}


def test_files_that_are_not_as_expected_fail_the_checks_of_files() -> None:
    wrong = {
        "not_run": "not run: 0.0 has unwritten extents",
        "files": files(wrong=["0.0 has unwritten extents"], holes="found"),
    }
    found = judging.judge(seen(**wrong))
    assert [c.name for c, f in found if f.outcome == FAIL] == ["data_complete", "no_holes"]
    assert {f.outcome for c, f in found if c.name not in ("data_complete", "no_holes")} == {NO}


def test_no_output_at_all_is_invalid() -> None:
    run = Seen(seen().point, PHASES["rand_write"], phase_run(RUN), Parsed(), ON_TARGET, {"n1": GIB})
    assert judging.verdict(judging.judge(run)) == ("invalid", ["no output is stored"])
