"""What decisions have in common: a reason that all of them have is said once."""

import pytest

from iosweep.analysis import acceptance
from iosweep.analysis.acceptance import Decision, Outcome
from iosweep.analysis.caveats import Why
from iosweep.config import selectors
from iosweep.config.criteria import Criterion, Threshold

pytestmark = pytest.mark.unit

MEMORY, SHORT, LOCK = "the target is memory", "too short", "locked by another campaign"


def decision(why: Why, outcome: Outcome = "undecided") -> Decision:
    threshold = Threshold(comparison=">=", amount=1, unit="IOPS", of=None)
    return Decision(
        Criterion(name="read_iops", selector=selectors.parse("read_iops"), threshold=threshold), outcome, why
    )


def test_what_all_share_is_said_once_and_hides_nothing() -> None:
    one = decision(Why("3 of 3 repetitions suspect", ((MEMORY, 3), (SHORT, 2))))
    other = decision(Why("5 of 5 repetitions suspect", ((MEMORY, 5),)))
    shared = acceptance.shared([one, other])
    assert shared.lines == [f"all 2: {MEMORY}"]
    assert one.why.text(1, shared.reasons) == f"3 of 3 repetitions suspect: 2 × {SHORT}"
    assert other.why.text(1, shared.reasons) == "5 of 5 repetitions suspect"
    assert one.reason == f"3 of 3 repetitions suspect: 3 × {MEMORY}; and 1 other reason"
    assert one.why.text(None) == f"3 of 3 repetitions suspect: 3 × {MEMORY}; 2 × {SHORT}"
    assert acceptance.more([one, other], shared.reasons) == (0, 0)
    assert acceptance.more([one, other], []) == (0, 1)


def test_which_share_it() -> None:
    locked, passed = decision(Why("no figure: 4 points missing", ((LOCK, 4),))), decision(Why("above"), "pass")
    unknown = decision(Why("no reference has this figure"))
    assert acceptance.shared([locked, passed, locked]).lines == [f"all 2 undecided: {LOCK}"]
    assert acceptance.shared([locked, locked, unknown]).lines == [f"2 of 3 undecided: {LOCK}"]


@pytest.mark.parametrize("others", [[], [Why("above")], [Why("1 of 3 repetitions suspect", ((SHORT, 1),))]])
def test_a_reason_of_one_alone_stays_where_it_is(others: list[Why]) -> None:
    found = [decision(Why("no figure: 1 point missing", ((LOCK, 1),))), *map(decision, others)]
    assert acceptance.shared(found).lines == []
    assert found[0].why.text(1, acceptance.shared(found).reasons) == f"no figure: 1 point missing: {LOCK}"
