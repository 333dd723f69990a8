"""Outputs of our own mdtest runs: figures, evidence, and what the checks make of it when something is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

from iosweep.config.sweeps import Repetitions
from iosweep.plan.model import Point
from iosweep.results import judging
from iosweep.results.checks.finding import Seen
from iosweep.tools import Parsed, Step, tools
from records import ON_TARGET, phase_run

MDTEST = tools()["mdtest"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/mdtest/own"
OPTIONS: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}
ALL = Step(OPTIONS, tuple(MDTEST.phases.values()))
BOTH = (SAMPLES / "mdtest_dir_create_2.out").read_bytes()


def parsed(phase: str, output: bytes = BOTH, step: Step = ALL) -> Parsed:
    return MDTEST.parse({"stdout": output}, step, MDTEST.phases[phase])


def judged(found: Parsed, phase: str, nodes: int = 1) -> tuple[str, list[str]]:
    """The verdict on a run whose circumstances were all right."""
    point = Point("p", "mdtest", tuple(MDTEST.phases), nodes, OPTIONS, None, Repetitions(1, 1), ())
    echo = found.evidence.echo
    run = {"exit_code": 0, "timed_out": False, "wall_s": 12.0, "stderr": "", "files": {"role": "fresh"},
           "leftover_expected": 0, "leftover": 0,
           "argv": ["mdtest", "-d", echo.place] if echo and echo.place else ["mdtest"]}  # fmt: skip
    findings = judging.judge(Seen(point, MDTEST.phases[phase], phase_run(run), found, ON_TARGET, {"n1": 1 << 30}))
    # these few files are made to be read quickly, not to last
    return judging.verdict([(check, finding) for check, finding in findings if check.name != "long_enough"])


@pytest.mark.parametrize(
    ("phase", "rate"),
    [
        ("dir_create", 14300.632), ("dir_stat", 1451316.263), ("dir_rename", 79110.943), ("dir_delete", 722.167),
        ("create", 5276.753), ("stat", 148897.866), ("read", 1073535.705), ("delete", 107038.510),
    ],
)  # fmt: skip
def test_every_phase_has_its_row(phase: str, rate: float) -> None:
    found = parsed(phase)
    assert found.version == "4.0.0" and not found.problems and not found.evidence.errors
    assert found.figures["ops_per_s"] == rate and found.figures["ops"] == 2000
    assert found.figures["runtime_s"] == pytest.approx(2000 / rate)
    assert judged(found, phase) == ("valid", [])


def test_phases_that_were_not_run_have_no_figure() -> None:
    some = Step(OPTIONS | {"threads_per_node": 3}, tuple(MDTEST.phases[p] for p in ("create", "stat", "delete")))
    output = (SAMPLES / "mdtest_create_3.out").read_bytes()
    assert parsed("stat", output, some).figures["ops_per_s"] == 271569.733
    assert not parsed("read", output, some).figures and parsed("read", output, some).problems


def test_the_shift_is_told() -> None:
    assert parsed("stat").evidence.shift == 1


def shifted(phase: str, by: int, nodes: int = 2) -> tuple[str, list[str]]:
    """The verdict on a run of two ranks a node, whose shift is `by`."""
    tasks = 2 * nodes
    output = BOTH.replace(b"with 2 total task(s) on 1 node", b"with %d total task(s) on %d node" % (tasks, nodes))
    output = output.replace(b"Shifting ranks by 1 for", b"Shifting ranks by %d for" % by)
    output = output.replace(b"2 tasks, 2000", b"%d tasks, %d" % (tasks, 1000 * tasks))
    output = output.replace(b"Nodemap: 11\n", b"Nodemap: %b\n" % (b"1" * 2 + b"0" * (tasks - 2)))
    output = re.sub(rb"(started at \S+) \d\d:", rb"\1 00:", output)  # twice the items take longer
    return judged(parsed(phase, output, Step(OPTIONS, ALL.phases, nodes)), phase, nodes)


def test_over_two_nodes_the_shift_must_reach_the_other_one() -> None:
    assert shifted("stat", 2) == ("valid", [])
    outcome, reasons = shifted("stat", 1)
    assert outcome == "suspect" and "some read what their node wrote" in reasons[0]
    assert shifted("stat", 4)[0] == "suspect"  # round to itself


def test_over_two_nodes_a_run_that_does_not_tell_its_shift_is_suspect() -> None:
    two = Step(OPTIONS, ALL.phases, 2)
    lines = [line for line in BOTH.splitlines(keepends=True) if b"Shifting" not in line]
    output = b"".join(lines).replace(b"with 2 total task(s) on 1 node", b"with 4 total task(s) on 2 node")
    output = output.replace(b"2 tasks, 2000", b"4 tasks, 4000").replace(b"Nodemap: 11\n", b"Nodemap: 1100\n")
    found = parsed("stat", output, two)
    assert found.evidence.shift is None
    outcome, reasons = judged(found, "stat", 2)
    assert outcome == "suspect" and "does not report that each node read" in reasons[0]
    assert judged(parsed("create", output, two), "create", 2) == ("valid", [])


def test_read_is_shifted_twice() -> None:
    assert shifted("read", 2, nodes=2)[0] == "suspect"  # with two nodes, back to who created
    assert shifted("read", 2, nodes=3) == ("valid", [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"(of 1 iterations)", b"(of 3 iterations)", ""),
        (b"   File stat ", b"   File xxxx ", ""),
        (b"148897.866     148897.866     148897.866", b"0.000          0.000          0.000", ""),
        (b"-- finished at", b"-- ", ""),
    ],
)
def test_what_does_not_fit_is_invalid(old: bytes, new: bytes, said: str) -> None:
    assert old in BOTH
    outcome, reasons = judged(parsed("stat", BOTH.replace(old, new)), "stat")
    assert outcome == "invalid" and said in " ".join(reasons), reasons


def test_singletons_are_invalid() -> None:
    alone = BOTH.replace(b"with 2 total task(s)", b"with 1 total task(s)").replace(b"2 tasks, 2000", b"1 tasks, 1000")
    alone = alone.replace(b"Nodemap: 11\n", b"Nodemap: 1\n")
    outcome, reasons = judged(parsed("stat", alone), "stat")
    assert outcome == "invalid" and "1 rank, 2 were asked for" in " ".join(reasons)
    outcome, reasons = judged(parsed("stat", alone + alone), "stat")
    assert outcome == "invalid" and "its ranks did not find each other" in reasons[0]


@pytest.mark.parametrize("cut", [0, 1, 200, 700, 1200, 1700])
def test_a_cut_output_is_invalid(cut: int) -> None:
    assert judged(parsed("stat", BOTH[:cut]), "stat")[0] == "invalid"


def test_leftovers_of_another_run_are_invalid() -> None:
    warning = b"WARNING: unable to create tree directory '/mnt/scratch/x/test-dir.0-0/mdtest_tree.0.0/'\n"
    assert judged(parsed("create", warning + BOTH), "create")[0] == "invalid"


def test_a_very_short_phase_is_invalid() -> None:
    few = Step(OPTIONS | {"files_per_thread": 2}, ALL.phases)
    outcome, reasons = judged(parsed("stat", BOTH, few), "stat")
    assert outcome == "invalid" and any("raise files_per_thread" in reason for reason in reasons)
