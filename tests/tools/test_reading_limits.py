"""Files that nobody's tool wrote: what would only take memory is refused, with the reason."""

from importlib import import_module

import pytest

from iosweep.tools import tools

IOR = b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
TABLE = b"access bw(MiB/s) block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter\n"
MDTEST = b"-- started at 1 --\nmdtest-4.0.0 was launched with 4 total task(s) on 2 node(s)\n"


@pytest.mark.parametrize(
    ("tool", "module", "limit", "data", "reason"),
    [
        ("ior", "ior.text_output", "MOST_LINES", IOR * 50, "has more than 20 lines of runs"),
        (
            "ior",
            "ior.text_output",
            "MOST_LINES",
            IOR + TABLE + b"write 1 2 3 4 5 6 7 8\n" * 50,
            "has more than 20 lines of",
        ),
        ("mdtest", "mdtest.launches", "MOST_RUNS", MDTEST * 50, "the file has more than 20 runs"),
        (
            "fio",
            "fio.foreign",
            "MOST_JSON",
            b'{"fio version" : "fio-3.33", "jobs" : []}\n',
            "MiB from where JSON begins",
        ),
        (
            "ior",
            "ior.json_summary",
            "MOST_JSON",
            b'{\n "Version": "4.0.0",\n "Finished": "x"}\n',
            "the JSON is not read",
        ),
    ],
)
def test_too_much_is_refused(
    tool: str, module: str, limit: str, data: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module(f"iosweep.tools.{module}"), limit, 20)
    reading = tools()[tool].read({"x": data}, None)
    assert not reading.rows and len(reading.problems) < 10
    assert any(reason in problem.text for problem in reading.problems), reading.problems
