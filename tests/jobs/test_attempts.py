"""What the next job of an allocation asks for, after what became of the last one."""

from dataclasses import replace
from pathlib import Path

import pytest

from iosweep.jobs.attempts import Attempts, Next
from iosweep.jobs.profile import Profile
from iosweep.store.record import Refusal
from iosweep.store.store import Store
from left import Campaign

NAME = "2-nodes"


class Case:
    """Jobs of one allocation that fail; `now` is what is left after them."""

    def __init__(self, place: Path):
        self.store, self.now = Store(place), Campaign(place, {NAME: 60.0}, first_min=10, site=Profile(slurm=False))
        self.jobs = Attempts(self.now, lambda: self.now)

    def fails(self, state: str | None = "FAILED", more: bool = True, reason: str = "", **refusal: object) -> Next:
        if reason:
            self.store.set_refusal(NAME, Refusal(reason, **refusal))  # type: ignore[arg-type]
        return self.jobs.after_failure(NAME, state, more)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_a_job_is_tried_again_and_its_reason_is_removed(case: Case) -> None:
    assert case.fails(reason="no tool") is Next.RETRY
    assert case.jobs.refusal(NAME) is None
    assert case.jobs.minutes(NAME) == 10


def test_a_third_job_is_not_tried_if_all_nodes_of_two_jobs_could_not_work(case: Case) -> None:
    assert case.fails(reason="on n1, n2: gone", nodes=["n1", "n2"]) is Next.RETRY
    assert case.jobs.bad_nodes(NAME) == {"n1", "n2"}
    assert case.fails(reason="on n3, n4: gone", nodes=["n3", "n4"]) is Next.NONE


def test_a_job_is_not_tried_again_on_a_bad_node_that_slurm_has_no_other_for(case: Case) -> None:
    for node, then in (("n1", Next.RETRY), ("n2", Next.RETRY), ("n2", Next.NONE)):
        assert case.fails(reason=f"on {node}: gone", nodes=[node]) is then


def test_only_a_job_that_was_too_short_makes_the_next_one_longer(case: Case) -> None:
    case.fails("TIMEOUT")
    case.fails("NODE_FAIL")
    assert case.jobs.minutes(NAME) == 20
    case.fails(reason="job 7 ends in 3 s", short_of_time=True)
    assert case.jobs.minutes(NAME) == 30


def test_to_have_measured_something_is_free(case: Case) -> None:
    case.now = replace(case.now, left_s={NAME: 30.0})
    assert case.fails("TIMEOUT") is Next.FREE
    assert case.jobs.minutes(NAME) == 10


def test_another_campaign_is_waited_for_once(case: Case) -> None:
    assert case.fails(reason="taken", after="5") is Next.FREE
    assert case.jobs.after(NAME) == "5"
    assert case.fails(reason="taken", after="5") is Next.RETRY  # it left its lock
    assert case.fails() is Next.RETRY
    assert case.jobs.after(NAME) is None


def test_a_run_ends_with_each_reason_once_and_how_it_goes_on(case: Case) -> None:
    case.now = replace(case.now, left_s={NAME: 30.0, "4-nodes": 60.0, "8-nodes": 60.0})
    with pytest.raises(SystemExit, match=r"iosweep: what was measured is stored; the same command goes on from there$"):
        case.jobs.fail(["log"])
    again = "the same command tries again"
    assert case.jobs.last_words(False) == ["30.0 left", "60.0 left", again]
    case.store.set_refusal(NAME, Refusal("it is not ours", lasting=True))
    assert case.jobs.last_words(False) == ["2 nodes: it is not ours", "60.0 left", again]
    for name in case.now.left:
        case.store.set_refusal(name, Refusal("the tools are not built", not_built=True))
    assert case.jobs.last_words(False) == ["the tools are not built", again]
