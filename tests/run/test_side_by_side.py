"""Two targets in one campaign: what protects a target holds for each of them, and their points are neighbors."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import scripted
from campaign import SWEEP
from iosweep.commands import clean, cli
from iosweep.errors import ExitCode
from iosweep.slurm import query
from iosweep.target import identify, lock
from machine import InProcess, Scripted

PAIRS: dict[str, Any] = SWEEP | {"axes": {"queue_depth": [1, 2]}, "repetitions": 2}


class Pair(Scripted):
    """A campaign with the targets a and b."""

    def __init__(self, place: Path, sweep: dict[str, Any] = PAIRS, a: Any = None, b: Any = None, **document: Any):
        super().__init__(place, sweep, targets={"a": a or {}, "b": b or {}}, **document)

    def on(self, name: str) -> list[str]:
        """All files and directories on a target."""
        return sorted(str(path.relative_to(self.place / name)) for path in (self.place / name).rglob("*"))

    def claimed(self) -> dict[str, dict[str, Any]]:
        return {file.stem: json.loads(file.read_bytes()) for file in (self.results / "targets").iterdir()}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_both_targets_are_measured_in_neighboring_runs_and_both_are_left_clean(pair: Pair) -> None:
    seen: list[tuple[str, str]] = []  # (target, queue depth) of each phase that is measured
    locks: set[int] = set()

    prepared: list[int] = []  # before each data set, how many phases were measured

    def during(call: scripted.Call, run: Any) -> Any:
        if call.prepares:
            prepared.append(len(seen))
        else:
            seen.append((Path(call.options["directory"]).relative_to(pair.place).parts[0], call.options["iodepth"]))
            locks.add(len(list(Path(pair.lock).glob("iosweep-*.lock"))))
        return run()

    pair.machine.during = during
    pair.measure()
    repetitions = seen[::2]  # two phases each
    assert len(repetitions) == 8 and len(set(repetitions[:4])) == 4  # rounds are outermost
    for first, second in zip(repetitions[::2], repetitions[1::2], strict=True):
        assert ({first[0], second[0]}, first[1]) == ({"a", "b"}, second[1])
    assert prepared == [0] * 4  # none is written between two neighbors
    assert locks == {1}  # the targets are on one file system
    assert pair.on("a") == pair.on("b") == []
    assert {name: known["tidied"] for name, known in pair.claimed().items()} == {
        "iosweep-c-a": True,
        "iosweep-c-b": True,
    }
    rows = pair.rows()
    assert {(row["target"], row["target_directory"]) for row in rows} == {
        (name, str(pair.place / name)) for name in ("a", "b")
    }
    assert {row["verdict"] for row in rows} == {"valid"}
    assert sorted(file.name.partition(".")[0] for file in (pair.results / "sets").iterdir()) == ["a", "a", "b", "b"]
    about = json.loads((pair.results / "campaign.json").read_bytes())
    assert {name: target["directory"] for name, target in about["targets"].items()} == {
        name: str(pair.place / name) for name in ("a", "b")
    }
    files = pair.files()
    pair.measure()  # nothing is left
    assert pair.files() == files


def test_one_directory_may_be_two_targets(tmp_path: Path) -> None:
    """Two stripings of one file system, say."""
    pair = Pair(tmp_path, a={"directory": str(tmp_path / "target")}, b={"directory": str(tmp_path / "target")})
    pair.measure()
    assert {row["target"] for row in pair.rows()} == {"a", "b"}
    assert list(pair.target.iterdir()) == []


def test_both_targets_are_measured_on_several_nodes(tmp_path: Path) -> None:
    pair = Pair(tmp_path, PAIRS | {"axes": {"nodes": [2]}})
    pair.machine.hosts = ("n1", "n2")
    pair.measure()
    assert {(row["target"], row["hosts"]) for row in pair.rows()} == {("a", "n1,n2"), ("b", "n1,n2")}
    assert pair.on("a") == pair.on("b") == []


def foreign(pair: Pair, _: ExitStack) -> None:
    """Somebody else's directory has the name of ours."""
    directory = pair.place / "b/iosweep-c-b"
    directory.mkdir()
    (directory / "iosweep.json").write_text(json.dumps({"uuid": "theirs", "campaign": "c"}))


def locked(pair: Pair, held: ExitStack) -> None:
    facts = identify.identify(str(pair.place / "b"))
    held.enter_context(lock.exclude(pair.lock, facts, lock.Owner("x", "/r")))


def gone(pair: Pair, _: ExitStack) -> None:
    (pair.place / "b").rmdir()


def full(pair: Pair, _: ExitStack) -> None:
    pair.configure(PAIRS, targets={"a": {}, "b": {}}, limits={"share_of_free": "0%"})


def unsettable(pair: Pair, _: ExitStack) -> None:
    pair.configure(PAIRS, targets={"a": {}, "b": {"layout": ["-c", "4"]}})


@pytest.mark.parametrize("spoil", [foreign, locked, gone, full, unsettable])
def test_nothing_is_written_on_one_target_where_the_other_is_refused(
    pair: Pair, spoil: Callable[[Pair, ExitStack], None]
) -> None:
    with ExitStack() as held:
        spoil(pair, held)
        before = pair.on("b")
        pair.measure(code=ExitCode.REFUSED)
        assert (pair.on("a"), pair.on("b"), pair.files()) == ([], before, [])


@pytest.mark.parametrize("cleans", [True, False])
def test_a_run_that_was_stopped_leaves_both_to_the_next_one_or_to_clean(
    pair: Pair, cleans: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.stopped_at(4)  # in the second pair
    for name in ("a", "b"):  # a kill also leaves files of a repetition
        (pair.place / name / f"iosweep-c-{name}/fresh/p-r1").mkdir(parents=True)
        (pair.place / name / f"iosweep-c-{name}/fresh/p-r1/0.0").touch()
    assert len([name for name in pair.files() if name.endswith(".json")]) == 2
    monkeypatch.chdir(pair.place)
    if cleans:
        monkeypatch.setattr(clean, "Agent", InProcess)
        monkeypatch.setattr(query, "ask", lambda *_, **__: "")
        assert cli.main(["clean", "--yes", "c"]) == 0
    else:
        pair.measure()
        assert {row["verdict"] for row in pair.rows()} == {"valid"}
    assert pair.on("a") == pair.on("b") == []


def test_a_target_that_is_not_asked_for_any_more_is_cleaned_first(pair: Pair) -> None:
    pair.keep = "data_sets"
    pair.configure(PAIRS, targets={"a": {}, "b": {}})
    pair.measure()
    left = pair.on("b")
    assert left
    pair.configure(PAIRS | {"repetitions": 3}, targets={"a": {}})
    assert "iosweep-c-b" in pair.measure(code=ExitCode.REFUSED)
    assert pair.on("b") == left
