"""Damaged files of the results: each is named, nothing else is lost, and no command ends in a traceback."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import records
from damage import Stored
from iosweep import dag
from iosweep.files import documents
from iosweep.files.documents import Damaged
from iosweep.results.campaign_documents import Refusal
from iosweep.results.store import Store

POINT = "fio.a"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("campaign"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.local  # `watch` asks squeue
def test_damage(stored: Stored, seed: int, rounds: Callable[[int, int], int], draw: random.Random) -> None:
    stored.attack(random.Random(f"{seed} {draw.random()}"), flips=rounds(15, 100), cuts=rounds(10, 50))


def test_every_bit_of_a_document_counts() -> None:
    for data in (documents.dump({"a": 1, "b": ["x"]}), documents.dump({"a": {"b": None}}, indent=True)):
        assert documents.load(data)
        assert msgspec.json.decode(data)["sha256"]
        for bit in range(len(data) * 8):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Damaged):
                documents.load(bytes(changed))
        for length in range(len(data)):
            with pytest.raises(Damaged):
                documents.load(data[:length])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (bytes(500), "it holds nothing but zeros"),
        (b'{"a":1}', "it has no digest: another version of iosweep wrote it"),
        (b'{"a":', "it is cut short or overwritten"),
        (documents.seal(b"[1, 2]"), "it is not JSON"),
        (documents.seal(b'{"a": "\xff"}'), "it is not JSON"),
        (documents.seal(b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}"), "it is not JSON"),
    ],
)
def test_why_a_document_is_damaged(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(data)
    with pytest.raises(Damaged) as caught:
        documents.read(file)
    assert str(caught.value).startswith(f"{file} is damaged ({said}")


def test_only_files_are_read(tmp_path: Path) -> None:
    """A pipe would be waited for, and a link lead elsewhere."""
    import os

    good = tmp_path / "good.json"
    good.write_bytes(documents.dump({"a": 1}))
    (tmp_path / "link.json").symlink_to(good)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(documents.MOST_BYTES + 1)
    for name, said in (("link", "symbolic link"), ("pipe", "regular"), ("folder", "regular"), ("large", "at most")):
        with pytest.raises(Damaged, match=said):
            documents.read(tmp_path / f"{name}.json")


STRANGE: list[dict[str, Any]] = [
    {"phases": []}, {"target": {}}, {"started": "yesterday"}, {"attempt": 7}, {"point": "fio.b"},
]  # fmt: skip


@pytest.mark.parametrize("change", STRANGE, ids=str)
def test_a_result_of_wrong_types_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    """Its digest is right: whoever made it may have made that, too."""
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    store.commit(POINT, 2, records.record(POINT), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    file.write_bytes(documents.dump(documents.read(file) | change))
    assert list(store.results()[POINT]) == [2]
    assert list(store.damaged) == [str(file)]


def test_a_damaged_result_is_measured_again_and_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    file.write_bytes(file.read_bytes().replace(b"5.0", b"6.0"))
    damaged = file.read_bytes()
    assert store.results() == {}
    again = store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    assert again.attempt == 2
    assert store.results() == {POINT: {1: again}}
    kept = file.with_suffix(".damaged.json")
    assert kept.read_bytes() == damaged
    assert store.damaged == {}
    assert store.named() == []


def test_links_below_the_results_are_named_and_not_followed(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "c"), Store(tmp_path / "other")
    other.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    (store.path / "points").mkdir(parents=True)
    store.point(POINT).symlink_to(other.point(POINT))
    assert store.results() == {}
    assert store.damaged == {str(store.point(POINT)): "it is a symbolic link, and is not followed"}
    assert store.results_of(POINT) == {}
    with pytest.raises(OSError, match="symbolic link"):
        store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    assert len(list(other.point(POINT).iterdir())) == 2


def test_what_a_link_leads_to_is_not_removed(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "c"), Store(tmp_path / "other")
    other.set_refusal("1-node", Refusal("no room"))
    store.path.mkdir()
    (store.path / "refusals").symlink_to(other.path / "refusals")
    store.set_refusal("1-node", None)
    assert list(other.documents(Refusal)) == ["1-node"]
    assert store.damaged == {str(store.path / "refusals"): "it is a symbolic link, and is not followed"}


def test_a_result_is_stored_beside_files_of_others(tmp_path: Path) -> None:
    """Only what a killed runner has left is removed."""
    store = Store(tmp_path)
    place = store.point(POINT)
    place.mkdir(parents=True)
    for name in (".notes.tmp", "notes.7.tmp", ".r001-1.zip.7.tmp"):
        (place / name).touch()
    (place / ".r002-1.json.7.tmp").mkdir()
    store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    assert {file.name for file in place.iterdir()} == {
        *(".notes.tmp", "notes.7.tmp", ".r002-1.json.7.tmp"),
        *("r001-1.json", "r001-1.zip"),
    }


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("nodes/*.json", "new tables lack what it says of the node: put a copy of it back, or remove it"),
        ("builds/*.json", "new tables lack what it says of the tools: put a copy of it back, or remove it"),
        ("builds/*.spack.yaml", "the next run that measures with this build writes it again"),
        ("builds/*.spack.lock", "the next run that measures with this build writes it again"),
        ("sets/*.json", "how the data set was prepared is not known: put a copy of it back, or remove it"),
        ("spent.json", "remove it to count from 0 again"),
        (
            "points/*qd4.*/r001-1.json",
            "the next run measures it again, where it is still asked for, and keeps the file",
        ),
    ],
)
def test_damaged_documents_are_named_where_nothing_needs_them(stored: Stored, pattern: str, said: str) -> None:
    """By snakemake, also by a dry run, and by `list` and `check`, with what to do."""
    [file] = stored.results.glob(pattern)
    with stored.as_before():
        file.write_bytes(b"")
        with contextlib.chdir(stored.place):
            named = dag.load(Path("x.yaml"), Path("results")).damaged
        assert [line for line in named if file.name in line and line.endswith(said)]
        for command in (["list"], ["check", "quick"]):
            output = stored.command(*command)
            assert file.name in output, output
            assert said in output, output


@pytest.mark.parametrize("suffix", ["json", "zip"])
def test_a_damaged_try_that_a_later_one_replaced_does_not_matter(tmp_path: Path, suffix: str) -> None:
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT, retry="other load"), {"x": b"y"})
    later = store.commit(POINT, 1, records.record(POINT, retried=True), {"x": b"y"})
    file = store.point(POINT) / f"r001-1.{suffix}"
    file.unlink() if suffix == "zip" else file.write_bytes(b"")
    assert store.results() == {POINT: {1: later}}
    assert store.damage() == []
    # while the later one is not whole, there is none that replaces it
    (store.point(POINT) / "r001-2.json").write_bytes(b"")
    store.results()
    assert str(file) in store.damaged
