"""Suites: ready sweeps, as they are, under upper bounds, and on other nodes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from iosweep import config, models
from iosweep.config import Repetitions
from small import document, problems, read


def suite(tmp_path: Path, entry: dict[str, Any]) -> config.Config:
    return read(
        tmp_path, {"campaign": "c", "target": {"directory": "/t"}, "sweeps": [{"suite": "four-corners"} | entry]}
    )


def test_a_suite_keeps_its_own_values(tmp_path: Path) -> None:
    found = suite(tmp_path, {})
    assert [s.name for s in found.sweeps] == ["four-corners.small-block", "four-corners.large-block"]
    assert [s.scaled for s in found.sweeps] == [False, False]
    assert [s.suite for s in found.sweeps] == ["four-corners"] * 2
    small = found.sweeps[0]
    assert small.axes == {"queue_depth": (1, 2, 4, 8, 16, 32)}
    assert small.options["file_size"] == 16 << 30
    assert small.phase_time_s == 300
    assert "Micron" in str(small.source)
    assert [Path(d.file).name for d in found.documents] == ["x.yaml", "four-corners.yaml"]  # both are provenance


def test_a_scaled_suite(tmp_path: Path) -> None:
    for sweep in suite(tmp_path, {"scale": "laptop"}).sweeps:
        assert sweep.scaled
        assert sweep.axes == {"queue_depth": (1, 2, 4, 8)}  # 16 and 32 became 8, once
        assert sweep.options["threads_per_node"] == 2
        assert sweep.options["file_size"] == 64 << 20
        assert sweep.phase_time_s == 1.0
        assert sweep.repetitions == Repetitions(1, 1, None)


@pytest.mark.parametrize(
    "scale",
    [
        {"phase_time": "300s"},
        {"phase_time": "2h", "queue_depth": 32, "threads_per_node": 8, "file_size": "16g", "repetitions": 3},
        {"files_per_thread": 1},
    ],
)
def test_bounds_that_change_nothing_do_not_make_a_scaled_suite(tmp_path: Path, scale: dict[str, Any]) -> None:
    # one that is scaled does not compare with the published figures
    assert [s.scaled for s in suite(tmp_path, {"scale": scale}).sweeps] == [False, False]


@pytest.mark.parametrize(
    "scale",
    [{"phase_time": "299s"}, {"queue_depth": 31}, {"threads_per_node": 7}, {"file_size": "1g"}, {"repetitions": 2}],
)
def test_bounds_that_change_something_do(tmp_path: Path, scale: dict[str, Any]) -> None:
    assert [s.scaled for s in suite(tmp_path, {"scale": scale}).sweeps] == [True, True]


def test_a_suite_on_other_nodes_and_more_often(tmp_path: Path) -> None:
    for sweep in suite(tmp_path, {"nodes": [1, 2, 2], "repetitions": 5}).sweeps:
        assert sweep.axes["nodes"] == (1, 2)
        assert sweep.repetitions == Repetitions(5, 5, None)
        assert not sweep.scaled


@pytest.fixture
def own_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A suite of one sweep, with these keys in it."""
    monkeypatch.setattr(models, "SUITES", tmp_path / "suites")
    (tmp_path / "suites").mkdir()

    def write(**sweep: Any) -> dict[str, Any]:
        made = {"description": "d", "source": "s", "sweeps": document(**sweep)["sweeps"]}
        (tmp_path / "suites" / "own.yaml").write_text(yaml.safe_dump(made, sort_keys=False))
        return {"campaign": "c", "target": {"directory": "/t"}, "sweeps": [{"suite": "own"}]}

    return write


def test_an_error_in_a_suite_names_the_suite(tmp_path: Path, own_suite: Any) -> None:
    [problem] = problems(tmp_path, own_suite(phase_time="5"))
    where = f"{tmp_path}/suites/own.yaml:21: sweeps[0].phase_time"
    assert (
        problem
        == f'{where}: "5" is not a duration; write a number with its unit ms, s, min, h or d, for example 60s or 2h'
    )


def test_a_default_above_the_bound_is_scaled_too(tmp_path: Path, own_suite: Any) -> None:
    made = own_suite(options=None)
    made["sweeps"][0]["scale"] = {"file_size": "64m"}
    [sweep] = read(tmp_path, made).sweeps
    assert sweep.options == {"file_size": 64 << 20}  # 1g is the default
    assert sweep.scaled
