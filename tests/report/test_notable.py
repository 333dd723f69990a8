"""The results that stand for all others without a script, and the reasons of those that are not valid."""

from pathlib import Path

import pytest

import results_factory as factory
from iosweep.analysis.aggregate import Repetitions, Result, summarize
from iosweep.analysis.data import load
from iosweep.report import headline, notable
from iosweep.report.drawings import drawings

pytestmark = pytest.mark.unit
MANY = factory.sweep("many", factory.DATA_PHASES, {"threads_per_node": list(range(1, 20))})


def rows_of(results: Path) -> tuple[list[notable.Notable], list[Result]]:
    campaign = load(results)
    summary = summarize(campaign.rows)
    groups = headline.groups(summary, campaign.checks)
    return notable.rows(groups, drawings(campaign, summary), summary), summary


def test_best_knees_and_one_of_each_reason(tmp_path: Path) -> None:
    found, results = rows_of(factory.make(tmp_path, spoil=factory.spoil_some))
    assert {one.phase for one in found if one.why == "highest"} == {
        *("Sequential write", "Sequential read", "Random write", "Random read"),
        *("Create files", "Stat files", "Delete files"),
    }
    [suspect] = [one for one in found if one.verdict == "suspect"]
    assert suspect.why == "one of 4: duration: 0.91 s of 1 s"
    [invalid] = [one for one in found if one.verdict == "invalid"]
    assert (invalid.why, invalid.figure) == ("no_errors: 3 I/O errors (ENOSPC)", "")
    assert len({(one.point, one.phase) for one in found}) == len(found) < len(results)


def test_knees(tmp_path: Path) -> None:
    found, _ = rows_of(factory.make(tmp_path, sweeps=factory.sized(1000)))
    assert any(one.why.startswith("knee: 95 % of the peak at ") for one in found)
    assert any(one.why.startswith("highest; knee: ") for one in found)


def test_rows_are_bounded(tmp_path: Path) -> None:
    def spoil(row: factory.Row) -> tuple[str, str]:
        return "suspect", "reason " + "".join(chr(97 + int(c)) for c in str(row["threads_per_node"])) + row["phase"]

    found, _ = rows_of(factory.make(tmp_path, sweeps=[MANY], spoil=spoil))
    assert len(found) == notable.MOST_ROWS


def test_reasons_are_listed_where_the_first_screen_has_not_all() -> None:
    def repetition(outcome: str, *reasons: str, count: int = 1) -> Repetitions:
        return Repetitions("p", count, outcome, reasons)

    few = [repetition("suspect", "a: 1"), repetition("suspect", "b")]
    assert notable.reasons([*few, repetition("valid")]) == []
    [found] = notable.reasons([*few, repetition("suspect", "a: 2", "c", count=5), repetition("missing", "d")])
    assert (found.outcome, found.left) == ("suspect", 0)
    assert found.listed == (("a: 1 (numbers differ)", 6), ("c", 5), ("b", 1))
    many = [repetition("invalid", "x" * n) for n in range(1, 60)]
    assert notable.reasons(many)[0].left == 59 - notable.MOST_REASONS
