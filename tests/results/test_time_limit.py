"""Whether limits.time leaves time for the repetitions that `iosweep rerun` supersedes."""

from pathlib import Path
from typing import Any

import pytest

import records
from campaign import document, make
from iosweep.commands import cli
from iosweep.results import time_limit
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.results.store import Store

TRIM = {"over_time": "trim"}


@pytest.mark.parametrize(
    ("limits", "missing_s", "spent_s", "refused"),
    [
        ({"time": "1h", **TRIM}, None, 60, False),
        ({"time": "1h", **TRIM}, 3600, 60, True),  # it was left out
        ({"time": "2h", **TRIM}, 3600, 60, False),  # and the limit was raised since
        ({"time": "1h", **TRIM}, None, 3599.5, True),
        ({"time": "1h"}, None, 3599.5, True),
        ({}, None, 1e9, False),
    ],
)
def test_no_time(
    tmp_path: Path, limits: dict[str, Any], missing_s: float | None, spent_s: float, refused: bool
) -> None:
    plan = make(tmp_path, document(axes=None) | {"limits": limits})
    [point] = plan.points
    missing = {point.id: Missing(Needs(time_s=missing_s), "r")} if missing_s else {}
    why = time_limit.no_time(plan, missing, spent_s, {point.id: 1})
    assert bool(why) == refused
    assert not why or "1 chosen repetition would take" in why


@pytest.mark.parametrize("options", [[], ["--missing"]])
def test_nothing_is_superseded_where_no_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make(tmp_path, document(axes=None) | {"limits": {"time": "1h", **TRIM}})
    [point] = plan.points
    store = Store(tmp_path / "results/quick")
    (store.path / "plans").mkdir(parents=True)
    (store.path / "plans" / f"{plan.digest}.json").write_bytes(plan.document())
    store.commit(point.id, 1, records.record(point.id), {"x": b"y"})
    store.set_missing(point.id, Missing(Needs(time_s=3600.0), "limits.time 1 h is spent"))
    before = {f: f.read_bytes() for f in store.path.rglob("*") if f.is_file()}
    assert cli.main(["rerun", point.id, *options]) == 1
    assert "limits.time 1 h is spent" in capsys.readouterr().err
    assert {f: f.read_bytes() for f in store.path.rglob("*") if f.is_file()} == before
    store.set_missing(point.id, None)
    store.put("", "spent", {"spent_s": 5.0})
    assert cli.main(["rerun", point.id]) == 0
    assert store.results_of(point.id) == {}
