"""`iosweep history`: what is said of nights, for a person and as a page."""

import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import results_factory
from iosweep.analysis import history as words
from iosweep.analysis.comparison import NamedCampaign
from iosweep.analysis.summary import summarize
from iosweep.commands import cli
from iosweep.files import documents
from iosweep.tables import reader

Capture = pytest.CaptureFixture[str]
SWEEPS = [results_factory.sweep("s", ["seq_read", "rand_read"], {"threads_per_node": [1, 8]})]


def night(place: Path, number: int, loss: float = 0.0, name: str = "", **made: Any) -> Path:
    """Results of one night, with random reads lower by `loss` and a new kernel."""

    def speed(row: Mapping[str, Any]) -> float:
        return 1 - loss if row["phase"] == "rand_read" else 1.0

    results = place / (name or f"night-{number:02}")
    node = results_factory.NODE | {"kernel": "6.9" if loss else "6.1"}
    made = {"sweeps": SWEEPS, "speed": speed, "nodes": [node], "day": number} | made
    return results_factory.make(results, repetitions=3, seed=number, **made)


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 nights, of which the last four lost 12 % of random reads with a new kernel."""
    place = tmp_path_factory.mktemp("nights") / "results"
    for number in range(8):
        night(place, number, 0.12 if number >= 4 else 0.0)
    return place


@pytest.fixture
def nights(eight: Path, tmp_path: Path) -> Path:
    """The same for a test that changes them."""
    return Path(shutil.copytree(eight, tmp_path / "results"))


def test_a_loss_is_said_with_what_changed_then(eight: Path, capsys: Capture, snapshot: SnapshotAssertion) -> None:
    assert cli.main(["history", str(eight)]) == 0
    assert capsys.readouterr().out == snapshot
    assert cli.main(["history", str(eight), "--fail-on", "regression"]) == 1
    assert cli.main(["history", str(eight), "--fail-on", "regression", "--at-least", "30%"]) == 0


def test_two_nights_are_too_few_to_find_a_change(tmp_path: Path, capsys: Capture) -> None:
    both = [str(night(tmp_path, 0)), str(night(tmp_path, 1, 0.5, "second"))]
    assert cli.main(["history", *both]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "too few" in out
    assert all(float(share.replace(",", "")) < 100 for share in re.findall(r"± ([\d.,]+) %", out))


def test_what_is_no_history_or_no_part_of_it(nights: Path, capsys: Capture) -> None:
    for arguments in ([nights / "night-01"], ["nothing"], ["a" * 5000]):
        assert cli.main(["history", *map(str, arguments)]) == 2
        assert capsys.readouterr().err
    other = [results_factory.sweep("s", ["seq_read"], {"threads_per_node": [2]})]
    for number in (30, 31):  # other configurations are left out and named
        night(nights, number, name=f"other-{number}", sweeps=other)
    (nights / "night-02" / "results.parquet").write_bytes(b"x")
    assert cli.main(["history", str(nights)]) == 0
    captured = capsys.readouterr()
    assert "7 campaigns" in captured.out
    assert "left out: other-30, other-31: " in captured.err and "night-02" in captured.err
    assert cli.main(["history", str(nights / "other-30"), str(nights / "night-01")]) == 2


def test_the_page_runs_nothing(nights: Path, tmp_path: Path) -> None:
    evil = "</style><script>alert(1)</script>"
    for results in nights.iterdir():
        about = documents.read(results / reader.ABOUT)
        about["target"] = {"directory": f"/mnt/{evil}"}
        (results / reader.ABOUT).write_bytes(documents.dump(about, indent=True))
    assert cli.main(["history", str(nights), "--html", str(tmp_path / "h.html")]) == 0
    text = (tmp_path / "h.html").read_text()
    assert "<script" not in text
    assert "default-src &#39;none&#39;" in text
    assert (text.count("<circle"), text.count('class="mark"')) == (3 * 8, 3)
    assert "kernel 6.1 -&gt; 6.9" in text
    assert len(text) < 100_000


def test_the_figure_of_a_night_is_the_one_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh repetitions alone make it, where the point has them: the others had a part in the choice of the point."""
    monkeypatch.setattr(words, "find_changes", lambda a, b: [])
    campaigns = []
    for number, fresh in enumerate(([150.0, 152.0], [])):
        made = [
            results_factory.row(repetition=n, confirms=n > 10, metric="ops_per_s", ops_per_s=value, phase="rand_read")
            for first, values in ((1, [200.0, 202.0]), (11, fresh))
            for n, value in enumerate(values, first)
        ]
        campaign: Any = SimpleNamespace(rows=made, about=SimpleNamespace(made=datetime(2025, 6, 1 + number)))
        campaigns.append(NamedCampaign(f"{number}", tmp_path, campaign, tuple(summarize(made))))
    line = next(line for line in words.history(campaigns, 0.03).headlines if line.column == "ops_per_s")
    assert [round(metric.figure) for metric in line.figures.values()] == [151, 201]
