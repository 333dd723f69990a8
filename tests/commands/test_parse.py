"""`iosweep parse`: a JSON document per file, rows in the columns of the result table, an exit code that says enough."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep.commands import cli, parse
from iosweep.results.columns import result_columns
from iosweep.tools.reading import Reading, ReadingProblem

pytestmark = pytest.mark.local

TOOLS = Path(__file__).parents[1] / "samples"
FIO = TOOLS / "fio" / "read" / "h8.out"
FIO_OF_A_SECOND = TOOLS / "fio" / "s1_single_json.out"
IOR = TOOLS / "ior" / "4.0.0" / "posix_fpp_odirect_CSV.summary.csv"
MDTEST = TOOLS / "mdtest" / "4.0.0" / "own_W_F.out"


def parsed(*arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    """(exit code, documents, stderr)"""
    done = subprocess.run(
        [sys.executable, "-m", "iosweep", "parse", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    documents, at = [], 0
    while rest := done.stdout[at:].lstrip():
        at = len(done.stdout) - len(rest)
        document, length = json.JSONDecoder().raw_decode(rest)
        documents.append(document)
        at += length
    return done.returncode, documents, done.stderr


@pytest.mark.parametrize(
    ("tool", "file", "column", "figures"),
    [
        ("ior", IOR, "bandwidth_bytes_per_s", [593.2419, 400.4079, 535.8025, 410.5516, 468.7617, 339.1465]),
        ("mdtest", MDTEST, "ops_per_s", None),
        ("fio", FIO, "ops_per_s", None),
    ],
)
def test_rows_have_the_columns_of_the_result_table(
    tool: str, file: Path, column: str, figures: list[float] | None
) -> None:
    code, (document,), said = parsed(tool, file)
    assert (code, document["problems"], said) == (0, [], "")
    assert document["tool"] == tool and document["files"] == [str(file)]
    assert document["rows"]
    for row in document["rows"]:
        assert set(row) <= {c.name for c in result_columns()}
        assert row["tool"] == tool and row[column] > 0 and row["verdict"] == "valid"
    if figures:
        assert [row[column] / (1 << 20) for row in document["rows"]] == pytest.approx(figures)


@pytest.mark.parametrize(
    ("tool", "file"), [("fio", FIO_OF_A_SECOND), ("ior", TOOLS / "ior" / "3.2.1" / "stonewall_D1.out")]
)
def test_a_short_run_by_time_is_suspect_as_in_a_campaign(tool: str, file: Path) -> None:
    code, (document,), _ = parsed(tool, file)
    told = [problem["text"] for problem in document["problems"] if problem["severity"] == "suspect"]
    assert code == 1 and {row["verdict"] for row in document["rows"]} == {"suspect"}
    words = "phases of 1 s are too short to judge steadiness: 10 s or more are needed"
    assert told and all(text.endswith(words) for text in told)


def test_problems_are_objects_and_decide_the_verdict_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def document(*problems: ReadingProblem) -> tuple[list[str], Any]:
        tool = SimpleNamespace(read=lambda files, exit_code: Reading("1.0", [{"ops": 1}, {"ops": 2}], problems))
        monkeypatch.setattr(parse, "tools", lambda: {"ior": tool})
        found = parse.document("ior", ["a"], parse.of("ior", {"a": b""}, None))
        return [row["verdict"] for row in found["rows"]], found["problems"]

    assert document() == (["valid", "valid"], [])
    wrong = ReadingProblem("invalid", "b", 0)
    verdicts, problems = document(ReadingProblem("suspect", "a", 0), wrong, ReadingProblem("note", "c", 1))
    assert verdicts == ["invalid", "valid"]
    assert problems[1:] == [
        {"severity": "invalid", "row": 0, "text": "b"},
        {"severity": "note", "row": 1, "text": "c"},
    ]
    assert document(ReadingProblem("suspect", "all rows"))[0] == ["suspect", "suspect"]
    assert document(ReadingProblem("invalid", "another row is missing"))[0] == ["valid", "valid"]


@pytest.mark.parametrize(("severity", "code"), [("note", 0), ("suspect", 1), ("invalid", 1)])
def test_the_exit_code_says_whether_a_figure_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, severity: Any, code: int
) -> None:
    tool = SimpleNamespace(read=lambda files, exit_code: Reading(None, [], [ReadingProblem(severity, "why")]))
    monkeypatch.setattr(parse, "tools", lambda: {"ior": tool})
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=io.BytesIO(), flush=lambda: None))
    (tmp_path / "a").touch()
    assert cli.main(["parse", "ior", str(tmp_path / "a")]) == code


def test_a_document_for_every_file() -> None:
    code, documents, _ = parsed("mdtest", MDTEST, MDTEST)
    assert code == 0 and len(documents) == 2 and documents[0] == documents[1]


def test_files_of_one_run_are_judged_together(tmp_path: Path) -> None:
    stdout = tmp_path / "ior.out"
    stdout.write_text("Writing output to summary.csv\nWARNING: fsync(29) failed Input/output error\n")
    alone, (document,), _ = parsed("ior", IOR)
    assert alone == 0 and len(document["rows"]) == 6
    together, (document,), _ = parsed("ior", "--one-run", IOR, stdout)
    assert together == 1 and document["problems"] and not document["rows"]
    assert document["files"] == [str(IOR), str(stdout)]


def test_the_exit_code_counts_where_it_is_known() -> None:
    code, (document,), _ = parsed("ior", IOR, "--exit-code", "9")
    assert code == 1 and not document["rows"] and any("9" in problem["text"] for problem in document["problems"])


def test_one_bad_file_among_good_ones(tmp_path: Path) -> None:
    cut = tmp_path / "cut.out"
    cut.write_bytes(MDTEST.read_bytes()[:900])
    code, documents, _ = parsed("mdtest", MDTEST, cut)
    assert code == 1 and [bool(d["problems"]) for d in documents] == [False, True]


@pytest.mark.parametrize("tool", ["fio", "ior", "mdtest"])
@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe", b"{", b"hello\n", b"\n" * 1000])
def test_a_file_that_is_not_output_is_a_problem(tmp_path: Path, tool: str, content: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    code, (document,), _ = parsed(tool, file)
    assert code == 1 and document["problems"] and document["rows"] == []


@pytest.mark.parametrize("tool", ["fio", "ior", "mdtest"])
def test_the_output_of_another_tool_is_a_problem(tool: str) -> None:
    for other in (
        {"fio": FIO, "ior": IOR, "mdtest": MDTEST}[name] for name in ("fio", "ior", "mdtest") if name != tool
    ):
        code, (document,), _ = parsed(tool, other)
        assert code == 1 and not document["rows"], (tool, other)


def test_usage(tmp_path: Path) -> None:
    code, documents, said = parsed("fio", tmp_path / "absent")
    assert (code, documents) == (2, []) and "absent: No such file or directory" in said
    code, documents, said = parsed("fio", tmp_path)
    assert (code, documents) == (2, []) and "directory" in said
    code, documents, said = parsed("oir", IOR)
    assert (code, documents) == (2, []) and "did you mean `ior`?" in said
    assert parsed("ior")[0] == 2


def test_a_name_with_strange_characters(tmp_path: Path) -> None:
    name = os.fsdecode(b'a "b"\n\xff.out')
    shutil.copy(MDTEST, tmp_path / name)
    code, (document,), _ = parsed("mdtest", tmp_path / name)
    assert code == 0 and document["rows"]


@pytest.mark.parametrize("tool", ["fio", "ior", "mdtest"])
def test_an_editors_mark_does_not_matter(tmp_path: Path, tool: str) -> None:
    file = {"fio": FIO, "ior": IOR, "mdtest": MDTEST}[tool]
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    code, (document,), _ = parsed(tool, tmp_path / "x")
    assert code == 0 and document["rows"] == parsed(tool, file)[1][0]["rows"]


@pytest.mark.parametrize(
    ("data", "said"), [(gzip.compress(b"x", mtime=0), "is compressed (gzip)"), ("ab".encode("utf-16"), "is UTF-16")]
)
def test_a_file_that_is_not_text_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "x").write_bytes(data)
    code, (document,), _ = parsed("ior", tmp_path / "x")
    assert code == 1 and said in document["problems"][0]["text"] and document["rows"] == []


def test_standard_input_is_read_once() -> None:
    code, documents, said = parsed("ior", "-", "-")
    assert (code, documents) == (2, []) and "once only" in said


def test_standard_input() -> None:
    with MDTEST.open("rb") as given:
        done = subprocess.run(
            [sys.executable, "-m", "iosweep", "parse", "mdtest", "-"],
            stdin=given,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0 and json.loads(done.stdout)["files"] == ["-"]
