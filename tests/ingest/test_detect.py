"""The content of a file shows which tool wrote it, for every recorded output of every tool."""

from pathlib import Path

import pytest

from iosweep.ingest import detect
from iosweep.ingest.detect import Detected, NotOurs
from iosweep.tools import tools

SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.mark.parametrize("name", ["fio", "ior", "mdtest"])
def test_all_samples_that_give_rows_are_detected(name: str) -> None:
    files = [file for file in sorted((SAMPLES / name).rglob("*")) if file.is_file() and file.suffix != ".tsv"]
    rows = 0
    for file in files:
        data = file.read_bytes()
        one = detect.tool(data)
        if isinstance(one, Detected):
            assert (one.tool, one.also) == (name, ()), file
        elif tools()[name].read({"x": data}, None).rows:
            raise AssertionError(f"{file} {one.reason}")
        else:
            continue
        rows += 1
    assert rows > 80


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b" \n", "is empty"),
        (b"\xff\xfea\0", "is UTF-16: save it as UTF-8"),
        (b"\x7fELF\0\0", "is not text"),
        (b"grep 'SUMMARY rate' run.out | awk '/MPI Coordinated/'\n", "has no output of fio, ior or mdtest"),
        (b"access,rank,runtime\n", "has the times of single ranks (saveRankPerformanceDetailsCSV), not IOR's results"),
    ],
)
def test_what_is_no_output_has_a_reason(data: bytes, reason: str) -> None:
    assert detect.tool(data) == NotOurs(reason)


def test_a_log_of_several_tools_names_them_in_their_order() -> None:
    mdtest = b"7: mdtest-4.0.0 was launched with 4 total task(s) on 1 node(s)\n"
    ior = b"x\nIOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
    assert detect.tool(mdtest + ior) == Detected("mdtest", ("ior",))
    assert detect.tool(b"\xef\xbb\xbf" + ior + mdtest) == Detected("ior", ("mdtest",))


def test_a_sign_on_every_line_takes_no_time() -> None:
    assert isinstance(detect.tool(b"SUMMARY " * 1_000_000), NotOurs)
    assert isinstance(detect.tool(b"SUMMARY\n" * 1_000_000), NotOurs)
