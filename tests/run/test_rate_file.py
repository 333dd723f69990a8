"""The file `rates` while commands run: what is in it, when it goes, and that nothing waits for it."""

import threading
from pathlib import Path
from typing import Any

import pytest

from iosweep.results import current_rates
from iosweep.results.current_rates import NodeRates
from iosweep.run import rate_file
from iosweep.run.rate_file import FirstNode, Heard, RateFile, first_node, recent, shown
from waiting import wait_for

RATES = {"source": "device", "read_bytes_per_s": 1.0, "written_bytes_per_s": 2.0, "over_s": 2.0}
SECONDS = 30.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_file, "_EVERY_S", 0.0)


def test_only_recent_rates() -> None:
    quick, slow = NodeRates("tool", 0.0, 1.0, 2.0), NodeRates("tool", 0.0, 1.0, 10.0)
    heard = {"n2": Heard(100.0, quick), "n1": Heard(100.0, slow)}
    assert [*recent(heard, 101.0)] == ["n1", "n2"]
    assert [*recent(heard, 107.0)] == ["n1"]
    assert [*recent(heard, 131.0)] == []


def test_while_a_command_runs(tmp_path: Path) -> None:
    with RateFile(tmp_path, "2-nodes") as rates:
        rates.begin("fio.x", 3)
        rates.heard("n1", RATES)  # of a command that has ended
        with rates.running(["n1", "n2"], ["seq_write", "seq_read"]):
            assert current_rates.read(tmp_path) is None
            rates.heard("n1", RATES)
            rates.heard("n9", RATES)  # of a node that takes no part
            rates.heard("n2", {"source": "?"})
            found = wait_for(lambda: current_rates.read(tmp_path), SECONDS)
            assert (found.point, found.repetition, found.phases) == ("fio.x", 3, "seq_write, seq_read")
            assert (found.allocation, found.expected, [*found.nodes]) == ("2-nodes", 2, ["n1"])
            assert found.silent == "n2"
            assert found.began <= found.at
            rates.heard("n2", RATES)
            wait_for(lambda: (seen := current_rates.read(tmp_path)) and [*seen.nodes] == ["n1", "n2"], SECONDS)
        wait_for(lambda: current_rates.read(tmp_path) is None, SECONDS)
        with rates.running(["n1"]):
            rates.heard("n1", RATES)
            assert wait_for(lambda: current_rates.read(tmp_path), SECONDS).phases == ""
    wait_for(lambda: not [*tmp_path.iterdir()], SECONDS)


def test_a_command_without_rates_costs_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with RateFile(tmp_path, "1-node") as rates, rates.running(["n1"]):
        assert threading.active_count() == before
    assert [*tmp_path.iterdir()] == []


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    """A full disk, or none: nothing is raised, and the next version is tried."""
    place = tmp_path / "gone"
    with RateFile(place, "1-node") as rates, rates.running(["n1"]):
        rates.begin("fio.x", 1)
        rates.heard("n1", RATES)
        place.mkdir()
        wait_for(lambda: rates.heard("n1", RATES) or current_rates.read(place), SECONDS)


def test_results_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is heard meanwhile does not wait, and only the newest is written then."""
    answers, asked, written = threading.Event(), threading.Event(), list[Any]()

    def replace(_: Path, text: bytes | None) -> None:
        asked.set()
        answers.wait(SECONDS)
        written.append(text)

    monkeypatch.setattr(rate_file, "replace", replace)
    monkeypatch.setattr(rate_file, "_END_S", 0.05)
    with RateFile(tmp_path, "1-node") as rates:
        rates.begin("fio.x", 1)
        with rates.running(["n1"]):
            rates.heard("n1", RATES)
            assert asked.wait(SECONDS)
            for _ in range(100):
                rates.heard("n1", RATES)
    answers.set()
    wait_for(lambda: len(written) == 2, SECONDS)
    assert written[1] is None  # the command has ended


def test_without_a_file() -> None:
    assert first_node(None, ["n1"]) is None
    with shown(None, ["n1"], None):
        pass


def test_the_first_node_hears_of_the_others(tmp_path: Path) -> None:
    drained = []

    class Remote:
        def drain(self) -> None:
            drained.append(1)

    remote: Any = Remote()
    with RateFile(tmp_path, "2-nodes") as rates:
        node = first_node(rates, ["n1", "n2"], remote)
        assert node == FirstNode(rates, "n1", remote)
        node.idle()
        assert drained == [1]
        rates.begin("fio.x", 1)
        with rates.running(["n1", "n2"]):
            node.heard(RATES)
            assert [*wait_for(lambda: current_rates.read(tmp_path), SECONDS).nodes] == ["n1"]
