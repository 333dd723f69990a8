"""`iosweep parse`: one JSON document of all files, with rows in columns of the result table; its exit code."""

import hashlib
import io
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep.commands import cli
from iosweep.results.columns import result_columns
from iosweep.tools import tools
from iosweep.tools.reading import Reading, ReadingProblem

SAMPLES = Path(__file__).parents[1] / "samples"
FIO = SAMPLES / "fio" / "read" / "h8.out"
FIO_OF_A_SECOND = SAMPLES / "fio" / "s1_single_json.out"
IOR = SAMPLES / "ior" / "4.0.0" / "posix_fpp_odirect_CSV.summary.csv"
MDTEST = SAMPLES / "mdtest" / "4.0.0" / "own_W_F.out"
ALL = {"fio": FIO, "ior": IOR, "mdtest": MDTEST}

Capture = pytest.CaptureFixture[str]


class Parse:
    """Calls the command; (exit code, documents, stderr)."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> tuple[int, list[dict[str, Any]], str]:
        code = cli.main(["parse", *map(str, arguments)])
        out, error = self._capture.readouterr()
        return code, json.loads(out)["documents"] if out else [], error


@pytest.fixture
def parse(capsys: Capture) -> Parse:
    return Parse(capsys)


@pytest.mark.parametrize(
    ("tool", "column", "figures"),
    [
        ("ior", "bandwidth_bytes_per_s", [593.2419, 400.4079, 535.8025, 410.5516, 468.7617, 339.1465]),
        ("mdtest", "ops_per_s", None),
        ("fio", "ops_per_s", None),
    ],
)
def test_rows_have_columns_of_the_result_table(
    parse: Parse, tool: str, column: str, figures: list[float] | None
) -> None:
    file = ALL[tool]
    code, (document,), said = parse(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (code, document["problems"], said) == (0, [], "")
    assert (document["tool"], document["file"], document["sha256"]) == (tool, str(file), digest)
    for row in document["rows"]:
        assert set(row) <= {c.name for c in result_columns()}
        assert row["tool"] == tool and row[column] > 0 and row["verdict"] == "valid"
        assert row["reasons"] == ""
    if figures:
        assert [row[column] / (1 << 20) for row in document["rows"]] == pytest.approx(figures)


def test_a_short_run_by_time_is_suspect_as_in_a_campaign(parse: Parse) -> None:
    code, (document,), _ = parse(FIO_OF_A_SECOND)
    assert code == 1 and {row["verdict"] for row in document["rows"]} == {"suspect"}
    assert "too short to judge steadiness" in document["problems"][0]["text"]


@pytest.mark.parametrize(("severity", "code"), [("note", 0), ("suspect", 1), ("invalid", 1)])
def test_the_exit_code_says_whether_a_figure_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, severity: Any, code: int, parse: Parse
) -> None:
    reading = Reading(None, [], [ReadingProblem(severity, "why")])
    monkeypatch.setattr(tools()["ior"], "read", lambda data: reading)
    assert parse(IOR)[0] == code


def test_a_directory_has_outputs_and_other_files(tmp_path: Path, parse: Parse) -> None:
    for number, file in enumerate(ALL.values()):
        shutil.copy(file, tmp_path / f"{number}.log")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "config.ini").write_text("[global]")
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    code, documents, said = parse(tmp_path)
    assert code == 0 and [one["tool"] for one in documents] == ["fio", "ior", "mdtest"]
    assert said == ""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b" \n", "is empty"),
        (b"hello", "has no output of fio, ior or mdtest"),
        ("ab".encode("utf-16"), "is UTF-16"),
        (b"PK\x03\x04", "is an archive: unpack it first"),
        (b"fio.out".ljust(257, b"\0") + b"ustar\0" + FIO.read_bytes(), "is an archive: unpack it first"),
        (b"\x1f\x8b\x08", "is compressed: unpack it first"),
        (b"access,rank,runtime\n", "has the times of single ranks (saveRankPerformanceDetailsCSV), not IOR's results"),
        (b"grep 'SUMMARY rate' run.out | awk '/MPI Coordinated/'\n", "has no output of fio, ior or mdtest"),
    ],
)
def test_a_file_that_is_no_output_is_named_with_the_reason(
    tmp_path: Path, content: bytes, why: str, parse: Parse
) -> None:
    (tmp_path / "x").write_bytes(content)
    code, documents, said = parse(tmp_path / "x")
    assert (code, documents) == (1, []) and f"{tmp_path}/x {why}" in said


def test_one_bad_path_does_not_end_it(tmp_path: Path, parse: Parse) -> None:
    cut = tmp_path / "cut.out"
    cut.write_bytes(MDTEST.read_bytes()[:900])
    code, (good, bad), said = parse(tmp_path / "absent", MDTEST, cut)
    assert code == 1 and good["rows"] and bad["problems"] and not bad["rows"]
    assert said.splitlines()[0].endswith("absent cannot be read: No such file or directory")


def test_a_log_of_two_tools_gives_both(tmp_path: Path, parse: Parse) -> None:
    (tmp_path / "job.out").write_bytes(b"\xef\xbb\xbf" + MDTEST.read_bytes() + IOR.read_bytes())
    code, documents, _ = parse(tmp_path / "job.out")
    assert code == 0 and [one["tool"] for one in documents] == ["mdtest", "ior"]


def test_names_and_outputs_with_strange_characters(tmp_path: Path, parse: Parse) -> None:
    name = os.fsdecode(b'a "b"\n\x1b[31m\xff.out')
    shutil.copy(MDTEST, tmp_path / name)
    code, (document,), said = parse(tmp_path / name)
    assert code == 0 and document["rows"] and "\x1b" not in document["file"] + said


def test_standard_input(monkeypatch: pytest.MonkeyPatch, parse: Parse) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(MDTEST.read_bytes())))
    code, (document,), _ = parse("-")
    assert code == 0 and document["file"] == "-"
    code, documents, said = parse("-", "-")
    assert (code, documents) == (2, []) and "once only" in said
