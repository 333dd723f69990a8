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
from syrupy.assertion import SnapshotAssertion

from iosweep.commands import cli
from iosweep.tables.columns import result_columns
from iosweep.tools import tools
from iosweep.tools.reading import Reading, ReadingProblem

SAMPLES = Path(__file__).parents[1] / "samples"
FIO = SAMPLES / "fio" / "read" / "h8.out"
FIO_OF_A_SECOND = SAMPLES / "fio" / "s1_single_json.out"
IOR = SAMPLES / "ior" / "own" / "ior_seq_write_shared.summary.json"
MDTEST = SAMPLES / "mdtest" / "4.0.0" / "own_W_F.out"
ALL = {"fio": FIO, "ior": IOR, "mdtest": MDTEST}


class Parse:
    """Calls the command; (exit code, documents, stderr)."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> tuple[int, list[dict[str, Any]], str]:
        code = cli.main(["parse", *map(str, arguments)])
        out, error = self._capture.readouterr()
        return code, json.loads(out)["documents"] if out else [], error


@pytest.fixture
def parse(capsys: pytest.CaptureFixture[str]) -> Parse:
    return Parse(capsys)


def test_rows_have_columns_of_the_result_table(parse: Parse) -> None:
    rates = {"fio": "ops_per_s", "ior": "bandwidth_bytes_per_s", "mdtest": "ops_per_s"}
    mib = [243.1798]
    for tool, file in ALL.items():
        code, (document,), said = parse(file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert (code, {one["severity"] for one in document["problems"]} - {"note"}, said) == (0, set(), "")
        assert (document["tool"], document["file"], document["sha256"]) == (tool, str(file), digest)
        for row in document["rows"]:
            assert set(row) <= {c.name for c in result_columns()}
            assert (row["tool"], row["verdict"], row["reasons"]) == (tool, "valid", "")
            assert row[rates[tool]] > 0
        if tool == "ior":
            assert [row[rates[tool]] / (1 << 20) for row in document["rows"]] == pytest.approx(mib)


def test_the_exit_code_says_whether_a_figure_is_in_doubt(monkeypatch: pytest.MonkeyPatch, parse: Parse) -> None:
    code, (document,), _ = parse(FIO_OF_A_SECOND)  # too short by its time, as in a campaign
    assert (code, {row["verdict"] for row in document["rows"]}) == (1, {"suspect"})
    severities: dict[Any, int] = {"note": 0, "suspect": 1, "invalid": 1}
    for severity, code in severities.items():
        reading = Reading([], [ReadingProblem(severity, "why")])
        monkeypatch.setattr(tools()["ior"], "read", lambda data, reading=reading: reading)
        assert parse(IOR)[0] == code, severity


def test_a_directory_has_outputs_and_other_files(tmp_path: Path, parse: Parse) -> None:
    for number, file in enumerate(ALL.values()):
        shutil.copy(file, tmp_path / f"{number}.log")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "config.ini").write_text("[global]")
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    code, documents, said = parse(tmp_path)
    assert (code, [one["tool"] for one in documents], said) == (0, ["fio", "ior", "mdtest"], "")


def test_a_file_that_is_no_output_is_named_with_the_reason(
    tmp_path: Path, parse: Parse, snapshot: SnapshotAssertion
) -> None:
    contents = {
        "empty": b" \n",
        "hello": b"hello",
        "utf16": "ab".encode("utf-16"),
        "zip": b"PK\x03\x04",
        "tar": b"fio.out".ljust(257, b"\0") + b"ustar\0" + FIO.read_bytes(),
        "gzip": b"\x1f\x8b\x08",
        "program": b"\x7fELF\x02\x01\x01\0" + IOR.read_bytes(),
        "ranks": b"access,rank,runtime\n",
        "script": b"grep 'SUMMARY rate' run.out | awk '/MPI Coordinated/'\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    code, documents, said = parse(*(tmp_path / name for name in contents))
    assert (code, documents) == (1, [])
    assert said.replace(str(tmp_path), "PLACE") == snapshot


def test_one_bad_path_does_not_end_it(tmp_path: Path, parse: Parse) -> None:
    cut = tmp_path / "cut.out"
    cut.write_bytes(MDTEST.read_bytes()[:900])
    name = os.fsdecode(b'a "b"\n\x1b[31m\xff.out')  # drives no terminal
    shutil.copy(MDTEST, tmp_path / name)
    code, (good, bad, strange), said = parse(tmp_path / "absent", MDTEST, cut, tmp_path / name)
    assert code == 1 and good["rows"] and bad["problems"] and not bad["rows"] and strange["rows"]
    assert "absent cannot be read" in said
    assert "\x1b" not in strange["file"] + said


def test_a_log_of_two_tools_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parse: Parse) -> None:
    (tmp_path / "job.out").write_bytes(b"\xef\xbb\xbf" + MDTEST.read_bytes() + IOR.read_bytes())
    code, documents, _ = parse(tmp_path / "job.out")
    assert (code, [one["tool"] for one in documents]) == (0, ["mdtest", "ior"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(MDTEST.read_bytes())))
    code, (document,), _ = parse("-")
    assert (code, document["file"]) == (0, "-")
    assert parse("-", "-")[:2] == (2, [])
