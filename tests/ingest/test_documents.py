"""Documents of outputs: every row has its verdict and reasons, and what a file does not give is not lost in a table."""

from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from iosweep.ingest import documents
from iosweep.ingest.documents import Document, columns
from iosweep.ingest.walk import Found
from iosweep.results.columns import result_columns
from iosweep.tools.reading import Cell, Reading, ReadingProblem, Sum

FILE = Found("a", b"x", sha256(b"x").hexdigest())


def document(*problems: ReadingProblem, rows: int = 2) -> Document:
    return Document("ior", [FILE], Reading("1.0", [{"ops": n + 1} for n in range(rows)], problems))


def verdicts(*problems: ReadingProblem) -> list[object]:
    rows = document(*problems).as_json()["rows"]
    assert isinstance(rows, list)
    return [row["verdict"] for row in rows]


def test_problems_are_objects_and_decide_the_verdict_of_their_rows() -> None:
    assert verdicts() == ["valid", "valid"]
    wrong = ReadingProblem("invalid", "b | c", 0)
    some = (ReadingProblem("suspect", "a", 0), wrong, ReadingProblem("note", "c", 1))
    assert verdicts(*some) == ["invalid", "valid"]
    assert document(*some).as_json()["problems"] == [
        {"severity": "suspect", "row": 0, "text": "a"},
        {"severity": "invalid", "row": 0, "text": "b | c"},
        {"severity": "note", "row": 1, "text": "c"},
    ]
    assert [row["reasons"] for row in document(*some).table_rows()] == ["b / c | a", ""]
    assert verdicts(ReadingProblem("suspect", "all rows")) == ["suspect", "suspect"]
    assert verdicts(ReadingProblem("invalid", "another row is missing")) == ["valid", "valid"]


def test_a_sum_is_no_better_than_its_parts() -> None:
    rows: list[dict[str, Cell]] = [{"ops": 1}, {"ops": 2}, {"ops": 4}]
    sums = [Sum({"ops": 3}, (0, 1)), Sum({"ops": 6}, (1, 2), ("one ended early",))]
    said = [ReadingProblem("suspect", "slow", 1), ReadingProblem("invalid", "lost", 2)]
    found = Document("ior", [FILE], Reading("1.0", rows, said, sums)).as_json()["sums"]
    assert isinstance(found, list)
    assert [one["parts"] for one in found] == [(0, 1), (1, 2)]
    told = [(one["row"]["ops"], one["row"]["verdict"], one["row"]["reasons"]) for one in found]
    assert told == [(3, "suspect", "slow"), (6, "invalid", "lost | slow | one ended early")]


def test_fio_in_another_document_is_found() -> None:
    fio = (Path(__file__).parents[1] / "samples/fio/s1_single_json.out").read_bytes()
    whole = orjson.dumps({"results": [orjson.loads(fio), orjson.loads(fio)]})
    found = documents.documents(Found("weka.json", whole, ""), None)
    assert isinstance(found, list) and [len(one.reading.rows) for one in found] == [2]


def test_in_a_table_what_a_file_does_not_give_is_a_row() -> None:
    *others, lost = document(ReadingProblem("invalid", "it is cut"), rows=1).table_rows()
    assert len(others) == 1 and others[0]["verdict"] == "valid"
    assert (lost["verdict"], lost["reasons"], lost["raw"], lost["ops"]) == ("invalid", "it is cut", "a", None)
    (lost,) = document(rows=0).table_rows()
    assert lost["reasons"] == "it has no results"


def test_a_number_that_no_table_holds_is_not_known() -> None:
    (row,) = Document("ior", [FILE], Reading(None, [{"ops": 1 << 70, "open_s": float("nan")}], [])).table_rows()
    assert row["ops"] is None and row["open_s"] is None


@pytest.mark.parametrize("name", ["fio", "ior", "mdtest"])
def test_columns_are_those_of_the_result_table_that_an_output_may_tell(name: str) -> None:
    known = [column.name for column in result_columns()]
    found = columns(name)
    assert list(found) == [column for column in known if column in found]
    assert ("latency_p99_s" in found) == (name == "fio")
    assert ("file_per_process" in found) == (name == "ior") and "transfer_size_bytes" in found
    assert not {"campaign", "pinning", "wall_s"} & set(found)


def test_a_log_of_two_tools_is_read_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "tool", lambda data: SimpleNamespace(tool="mdtest", also=("ior",)))
    found = documents.documents(FILE, None)
    assert isinstance(found, list) and [one.tool for one in found] == ["mdtest", "ior"]
