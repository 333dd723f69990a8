"""Many rows compared at once are those that are compared one by one."""

from pathlib import Path

import pytest

from campaign import FOUR_AND_EIGHT, Made, document, make
from iosweep.results import repeated, row_blocks
from iosweep.results.checks.finding import Finding, failed, passed, unchecked
from iosweep.results.compared import compared
from iosweep.results.judging import Judge
from iosweep.results.repeated import Agreement, Row
from iosweep.results.statistics import interval

FINDINGS = [failed("not repeatable → by far | much"), passed("A: ± 1.0 % (n = 3)"), unchecked("one repetition")]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda found: found.outcome)
def test_rows_are_judged_in_the_same_way(tmp_path: Path, finding: Finding) -> None:
    axes = {"queue_depth": [4, 8]}
    campaign = Made(tmp_path, make(tmp_path, document(**(FOUR_AND_EIGHT | {"axes": axes, "repetitions": 3}))))
    campaign.measured(0, 1)
    campaign.measured(0, 2, load={"other": 0.4, "steal": 0.0})  # suspect
    campaign.measured(0, 3, exit_code=1)  # invalid
    campaign.measured(1, 1)
    judge = Judge(campaign.plan, campaign.results, {})
    judged = [judge.point(point) for point in campaign.plan.points]
    block = row_blocks.made(judged, {})
    key = (campaign.plan.points[0].id, "rand_read", False)
    agreements = {key: Agreement(finding, interval([1.0, 1.01, 1.02], None))}
    known = [(state.id, head) for state in block.points for head in state.heads]
    found = compared(block.main, known, agreements)

    rows = [Row(dict(row.values), list(row.findings)) for one in judged for row in one.rows]
    for row in rows:
        repeated.judge(row, agreements)
    names = found.rows.schema.names
    assert found.rows.to_pylist() == [
        {name: row.values.get(name) for name in names} | {"started": row.values["started"]} for row in rows
    ]
    assert list(zip(found.outcomes.to_pylist(), found.evidence.to_pylist(), strict=True)) == [
        (own.outcome, own.evidence) for row in rows for _, own in row.findings
    ]
    assert {row.values["verdict"] for row in rows} >= {"suspect", "invalid"}
