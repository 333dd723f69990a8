"""Stored documents with known keys at their extremes, and right digests: each is damaged, or harmless."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import records
import results_factory
from campaign import document, make
from iosweep.errors import ConfigError
from iosweep.files import documents
from iosweep.files.documents import Damaged
from iosweep.plan.model import plan_from_document
from iosweep.results import merged_tables
from iosweep.results.campaign_documents import ClaimedTarget
from iosweep.results.store import Store
from iosweep.target import agent, identify

POINT = "fio.rand_read.1n.1t.4k.qd1.a7067cebd59e"
RAW = {"rand_read.stdout": b"{}"}
_OF_POINT = ("allocations", 0, "points", 0)
_NAMES = ["../../../outside", "..", ".", "", "a/b", "a\0b", "a\nb", "x" * 300, "\x1b[31m", 7, None]
_TIMES = [1e308, -1.0, 1 << 62, "1", True]
_COUNTS = [0, -1, 1 << 62, 10**12, 1.5, True]

#: (place in the plan, values that no configuration makes)
IN_A_PLAN: list[tuple[tuple[str | int, ...], list[Any]]] = [
    ((*_OF_POINT, "id"), _NAMES),
    ((*_OF_POINT, "sweeps", 0), _NAMES),
    ((*_OF_POINT, "phase_time_s"), _TIMES),
    ((*_OF_POINT, "nodes"), _COUNTS),
    ((*_OF_POINT, "repetitions", "min"), _COUNTS),
    ((*_OF_POINT, "repetitions", "max"), _COUNTS),
    ((*_OF_POINT, "repetitions", "half_width"), [-1, 2, 1e308]),
    ((*_OF_POINT, "options", "threads_per_node"), _COUNTS),
    ((*_OF_POINT, "options", "queue_depth"), _COUNTS),
    ((*_OF_POINT, "options", "files_per_thread"), [*_COUNTS, 2**31 - 1]),
    ((*_OF_POINT, "options", "file_size"), [-1, 1 << 63, 1e308]),
    ((*_OF_POINT, "options", "ioengine"), ["../x", 5]),
    ((*_OF_POINT, "phases", 0), ["../x", "nothing"]),
    (("allocations", 0, "name"), _NAMES),
    (("allocations", 0, "digest"), _NAMES),
    (("allocations", 0, "nodes"), _COUNTS),
    (("campaign",), _NAMES),
    (("sweeps", 0, "name"), _NAMES),
    (("target", "deadline"), [*_TIMES, 0]),
    (("target", "settle"), _TIMES),
    (("target", "directory"), ["/a\0b", "", "/" + "x" * 70_000]),
    (("limits", "time"), _TIMES),
    (("limits", "grace"), _TIMES),
    (("limits", "retried"), [1e308, -1, 1 << 62]),
]
IN_A_RESULT: list[tuple[tuple[str | int, ...], list[Any]]] = [
    (("point",), _NAMES),
    (("repetition",), [*_COUNTS, 1_000_000]),
    (("attempt",), [*_COUNTS, 9_999_999_999]),
    (("started",), ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "1969-01-01T00:00:00+00:00"]),
    (("phases", 0, "wall_s"), _TIMES),
    (("phases", 0, "headline"), [1e308, -1e308, (1 << 64) - 1]),
]
IN_THE_TARGET: list[tuple[tuple[str | int, ...], list[Any]]] = [
    (("deadline",), [*_TIMES, 0]),
    (("directory",), ["/t\0/iosweep-c", "", 3]),
    (("campaign",), _NAMES),
]


def put(made: Any, place: tuple[str | int, ...], value: Any) -> None:
    for key in place[:-1]:
        made = made[key]
    made[place[-1]] = value


def each(cases: list[tuple[tuple[str | int, ...], list[Any]]]) -> Callable[..., Any]:
    flat = [(place, value) for place, values in cases for value in values]
    named = [f"{'.'.join(map(str, place))}={str(value)[:20]!a}" for place, value in flat]
    return pytest.mark.parametrize(("place", "value"), flat, ids=named)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make(tmp_path_factory.mktemp("plan"), document()).content()


def test_the_plan_itself(content: bytes) -> None:
    assert plan_from_document(documents.seal(content)).points


@each(IN_A_PLAN)
def test_a_plan_that_no_configuration_makes(content: bytes, place: tuple[str | int, ...], value: Any) -> None:
    made = orjson.loads(content)
    put(made, place, value)
    with pytest.raises(Damaged):
        plan_from_document(documents.dump(made))


def test_more_repetitions_than_can_be_counted(content: bytes, tmp_path: Path) -> None:
    made = orjson.loads(content)
    points = made["allocations"][0]["points"]
    points[0]["repetitions"] = {"min": 65536, "max": 65536, "half_width": None}
    made["allocations"][0]["points"] = points[:1] * 16
    with pytest.raises(Damaged, match="1,048,576 repetitions are planned"):
        plan_from_document(documents.dump(made))
    many = document(axes={"queue_depth": list(range(1, 17))}, repetitions=65536)
    with pytest.raises(ConfigError, match="1,048,576 repetitions are planned, and a campaign may have 1,000,000; give"):
        make(tmp_path, many)


@each(IN_A_RESULT)
def test_a_result(tmp_path: Path, place: tuple[str | int, ...], value: Any) -> None:
    store = Store(tmp_path / "c")
    store.commit(POINT, 1, records.record(POINT), RAW)
    file = store.point(POINT) / "r001-1.json"
    made = documents.read(file)
    put(made, place, value)
    file.write_bytes(documents.dump(made))
    assert store.results() == {}
    assert str(file) in store.damaged


def test_a_result_names_its_own_archive(tmp_path: Path) -> None:
    store = Store(tmp_path / "c")
    store.commit(POINT, 1, records.record(POINT), RAW)
    file = store.point(POINT) / "r001-1.json"
    made = documents.read(file)
    made["raw"]["name"] = "../../outside"
    file.write_bytes(documents.dump(made))
    assert store.results() == {}


@each(IN_THE_TARGET)
def test_the_target(place: tuple[str | int, ...], value: Any) -> None:
    made = {"campaign": "c", "directory": "/t/iosweep-c", "uuid": "u", "layout": None, "deadline": 30.0}
    made |= {"lock": None, "file_system": "x", "seen_as": [], "tidied": False}
    assert documents.fits(made, ClaimedTarget, "target.json").uuid == "u"
    put(made, place, value)
    with pytest.raises(Damaged):
        documents.fits(made, ClaimedTarget, "target.json")


@pytest.mark.parametrize("repair", ["../../zz", "0123456789ab\n", "x", "0123456789ABC"])
def test_a_repair_is_a_name(tmp_path: Path, repair: str) -> None:
    results = results_factory.make(tmp_path)
    about = documents.read(results / "campaign.json")
    for given, kept in (("0123456789ab", "0123456789ab"), ("", ""), (repair, "")):
        (results / "campaign.json").write_bytes(documents.dump(about | {"repair": given}))
        assert merged_tables.last_repair(results) == kept
    assert "(repair: expected" in merged_tables.damage(results)[0]


@pytest.mark.parametrize("name", ["r001-99999999999.superseded.json", "r001-99999999999.json", "r99999999999-1.json"])
def test_foreign_names_of_files(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / "c")
    store.commit(POINT, 1, records.record(POINT), RAW)
    (store.point(POINT) / name).write_bytes(b"{}")
    assert store.commit(POINT, 1, records.record(POINT), RAW).attempt == 2
    [(repetition, found)] = store.results()[POINT].items()
    assert (repetition, found.attempt) == (1, 2)
    store.supersede(found)
    assert store.results() == {}


def test_the_highest_try(tmp_path: Path) -> None:
    store = Store(tmp_path / "c")
    store.commit(POINT, 1, records.record(POINT), RAW)
    (store.point(POINT) / "r001-999998.superseded.json").write_bytes(b"{}")
    found = store.commit(POINT, 1, records.record(POINT), RAW)
    assert found.attempt == 999_999
    with pytest.raises(OSError, match="no higher number is left for another try"):
        store.commit(POINT, 1, records.record(POINT), RAW)
    store.supersede(found)
    assert store.results() == {}


@pytest.mark.local
def test_a_deadline_of_a_century() -> None:
    with agent.Agent(36525 * 86400.0) as asked:
        assert asked.call(identify.identify, "/tmp")
