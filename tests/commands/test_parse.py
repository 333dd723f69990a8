"""`iosweep parse`: one JSON document of all files, or a table, with the columns of the result table; its exit code."""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from iosweep.commands import cli
from iosweep.ingest.documents import columns
from iosweep.results.columns import result_columns
from iosweep.tools import tools
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
    whole = json.loads(done.stdout) if done.stdout else {"documents": []}
    assert not done.stdout or whole["schema"] == 1
    return done.returncode, whole["documents"], done.stderr


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


@pytest.mark.parametrize(("severity", "code"), [("note", 0), ("suspect", 1), ("invalid", 1)])
def test_the_exit_code_says_whether_a_figure_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, severity: Any, code: int
) -> None:
    reading = Reading(None, [], [ReadingProblem(severity, "why")])
    monkeypatch.setattr(tools()["ior"], "read", lambda files, exit_code: reading)
    (tmp_path / "a").touch()
    assert cli.main(["parse", "ior", str(tmp_path / "a"), "--output", str(tmp_path / "o")]) == code


def test_a_document_for_every_file() -> None:
    code, documents, _ = parsed("mdtest", MDTEST, MDTEST)
    assert code == 0 and len(documents) == 2 and documents[0] == documents[1]


def test_files_of_one_run_are_judged_together(tmp_path: Path) -> None:
    stdout = tmp_path / "ior.out"
    stdout.write_text("Writing output to summary.csv\nWARNING: fsync(29) failed Input/output error\n")
    alone, (document,), _ = parsed("ior", IOR)
    assert alone == 0 and len(document["rows"]) == 6
    together, (document,), _ = parsed("--one-run", "ior", IOR, stdout)
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


def test_usage() -> None:
    assert parsed()[0] == 2
    code, documents, said = parsed("fio", FIO, "--format", "parquet")
    assert (code, documents) == (2, []) and "name a file with --output" in said
    code, _, said = parsed("--one-run", IOR, MDTEST)
    assert code == 2 and "the files of --one-run have outputs of ior and mdtest" in said


def test_one_bad_path_does_not_end_it(tmp_path: Path) -> None:
    code, (document,), said = parsed(tmp_path / "absent", MDTEST)
    assert code == 1 and document["rows"]
    assert said.splitlines()[0].endswith("absent cannot be read: No such file or directory")
    assert "did you mean `ior`?" in parsed("oir", IOR)[2]


def test_the_tool_is_told_by_the_content_and_a_named_one_takes_only_its_own(tmp_path: Path) -> None:
    for number, file in enumerate((FIO, IOR, MDTEST)):
        shutil.copy(file, tmp_path / f"{number}.log")
    (tmp_path / "config.ini").write_text("[global]")
    code, documents, said = parsed(tmp_path)
    assert code == 0 and sorted(d["tool"] for d in documents) == ["fio", "ior", "mdtest"]
    assert said.startswith("3 outputs, ") and said.endswith("; 1 other file\n")
    code, (document,), said = parsed("mdtest", tmp_path)
    assert code == 0 and document["tool"] == "mdtest" and "3 other files" in said


def test_files_of_an_archive_and_a_file_that_is_no_output(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        archive.add(MDTEST, "results/mdtest.out")
    (tmp_path / "notes.txt").write_text("hello")
    code, (document,), said = parsed(tmp_path / "a.tgz", tmp_path / "notes.txt")
    assert document["files"] == [f"{tmp_path}/a.tgz!results/mdtest.out"]
    assert code == 1 and f"{tmp_path}/notes.txt has no output of fio, ior or mdtest" in said


def test_what_is_not_known_is_null_and_the_raw_file_is_named() -> None:
    _, (document,), _ = parsed(MDTEST)
    digest = hashlib.sha256(MDTEST.read_bytes()).hexdigest()
    assert document["sha256"] == [digest]
    keys = {tuple(row) for row in document["rows"]}
    assert keys == {columns("mdtest")}
    for row in document["rows"]:
        assert (row["raw"], row["raw_sha256"], row["reasons"]) == (str(MDTEST), digest, "")
        assert row["bandwidth_bytes_per_s"] is None


def test_every_format_has_the_rows_of_the_json(tmp_path: Path) -> None:
    cut = tmp_path / "cut.out"
    cut.write_bytes(IOR.read_bytes()[:300])
    given = [FIO, MDTEST, IOR, cut]
    documents = parsed(*given)[1]
    expected = [row for document in documents for row in document["rows"]]
    assert not documents[-1]["rows"]
    for form in ("ndjson", "csv", "parquet"):
        file = tmp_path / form
        done = subprocess.run(
            [sys.executable, "-m", "iosweep", "parse", *map(str, given), "--format", form, "--output", str(file)],
            check=False,
        )
        assert done.returncode == 1
        if form == "ndjson":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            assert rows[:-1] == expected
        elif form == "parquet":
            rows = pq.read_table(file).to_pylist()
            names = [column.name for column in result_columns()]
            assert list(rows[0]) == names
            moments = {column.name for column in result_columns() if column.type == "time"}
            for row in rows:  # a table has moments, JSON their text
                row |= {name: row[name].isoformat(timespec="milliseconds") for name in moments if row[name]}
            assert [{name: row.get(name) for name in names} for row in expected] == rows[:-1]
        else:
            rows = list(csv.DictReader(file.read_text().splitlines()))
            assert [float(row["ops_per_s"]) for row in rows[:-1]] == [row["ops_per_s"] for row in expected]
        assert rows[-1]["verdict"] == "invalid" and rows[-1]["raw"] == str(cut) and rows[-1]["reasons"]


def test_an_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    code, _, said = parsed(IOR, "--output", tmp_path / "none" / "x")
    assert code == 1 and "cannot be written: No such file or directory" in said


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
    raw = {"raw": str(tmp_path / "x"), "raw_sha256": document["sha256"][0]}
    assert code == 0 and document["rows"] == [row | raw for row in parsed(tool, file)[1][0]["rows"]]


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("ab".encode("utf-16"))
    code, (document,), _ = parsed("ior", tmp_path / "x")
    assert code == 1 and "is UTF-16" in document["problems"][0]["text"] and document["rows"] == []
    code, documents, said = parsed(tmp_path / "x")
    assert code == 1 and not documents and "is UTF-16" in said


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
    assert done.returncode == 0 and json.loads(done.stdout)["documents"][0]["files"] == ["-"]


def test_options_may_come_between_the_paths(tmp_path: Path) -> None:
    alone = parsed("ior", IOR, "--one-run", "--exit-code", "9")
    for arguments in (
        ["ior", "--one-run", IOR],
        ["--one-run", "ior", "--exit-code", "9", IOR],
        ["ior", "--exit-code", "9", IOR, "--one-run"],
    ):
        code, (document,), _ = parsed(*arguments)
        assert document["files"] == [str(IOR)]
        assert code == 0 or document == alone[1][0]
    code, documents, _ = parsed("ior", IOR, "--exit-code", "0", MDTEST, "--", FIO)
    assert [document["files"] for document in documents] == [[str(IOR)], [str(MDTEST)], [str(FIO)]]
    assert parsed("ior", "--exit-code", "0", IOR, "--bogus")[0] == 2
