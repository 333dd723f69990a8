"""Golden documents of each format of the store: this version reads them, and loses nothing of them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iosweep.files import documents
from iosweep.files.documents import Damaged, Document
from iosweep.node.node_facts import NodeFacts
from iosweep.results.record import Record
from iosweep.results.store import Store
from records import phase_run, record

#: One folder for each format. The files of old formats are never changed.
SAMPLES = Path(__file__).resolve().parents[1] / "samples/store"
CURRENT = SAMPLES / f"format-{documents.FORMAT}"
KINDS: dict[str, type[Document]] = {"record.json": Record, "node.json": NodeFacts}


@pytest.mark.parametrize("folder", sorted(SAMPLES.iterdir()), ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", KINDS)
def test_documents_of_every_format_are_read(folder: Path, name: str) -> None:
    assert documents.read_as(folder / name, KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_what_is_read_is_written_again_word_for_word(name: str) -> None:
    """If this fails, the stored form has changed: raise documents.FORMAT and add its folder."""
    content = (CURRENT / name).read_bytes()
    assert documents.dump(documents.decode(content, KINDS[name]), indent=name != "record.json") == content


@pytest.mark.parametrize("name", KINDS)
def test_the_golden_documents_use_every_field(name: str) -> None:
    assert not list(_defaults(documents.read_as(CURRENT / name, KINDS[name])))


def _defaults(part: Any, where: str = "") -> Iterator[str]:
    """Fields of a document, and of its parts, that have their default value."""
    if isinstance(part, tuple):
        for one in part:
            yield from _defaults(one, where)
    if isinstance(part, msgspec.Struct):
        for field in msgspec.structs.fields(part):
            value = getattr(part, field.name)
            if value == field.default or value == {}:
                yield f"{where}.{field.name}"
            yield from _defaults(value, f"{where}.{field.name}")


def test_a_committed_record_is_read_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    golden = documents.read_as(CURRENT / "record.json", Record)
    store.commit(golden.point, 1, golden, {"seq_write.stdout": b"x"})
    [(_, found)] = store.records_of(golden.point)
    assert msgspec.structs.replace(found, repetition=2, attempt=3, raw=golden.raw) == golden


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            b'{"format": 1,',
            b'{"format": 2,',
            "a newer version of iosweep wrote it: it has format 2, and this one reads up to 1",
        ),
        (b'{"format": 1,', b"{", "it has no format"),
        (b'"wall_s":10.4', b'"wall_s":-1', "phases"),
        (b'"wall_s":10.4', b'"wall_s":1e300', "phases"),
        (b'"exit_code":1', b'"exit_code":99999999999999999999', "phases"),
        (b'"2026-11-01T12:00:00.250000Z"', b'"9999-01-01T00:00:00Z"', "1970"),
        (b'"2026-11-01T12:00:00.250000Z"', b'"yesterday"', "started"),
        (b'"point":"ior', b'"point":"../ior', "point"),
        (b'"phases":[', b'"phases":[7,', "phases[0]: expected `object`, got `int`"),
    ],
)
def test_a_record_that_does_not_fit_is_damaged(tmp_path: Path, old: bytes, new: bytes, reason: str) -> None:
    text = (CURRENT / "record.json").read_bytes()
    assert old in text
    file = tmp_path / "r.json"
    body = text[: -len(documents._HEAD) - 64 - len(documents._END)].replace(old, new)
    digest = hashlib.sha256(body).hexdigest().encode()
    file.write_bytes(body + documents._HEAD + digest + documents._END)
    with pytest.raises(Damaged) as raised:
        documents.read_as(file, Record)
    assert reason in raised.value.reason


def test_a_key_of_a_later_version_is_ignored() -> None:
    known = msgspec.to_builtins(record("p")) | {"later": {"x": [1]}}
    assert documents.decode(documents.dump(known), Record) == record("p")
    assert phase_run({"later": 1}) == phase_run({})
