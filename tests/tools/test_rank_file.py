"""The files in which IOR and mdtest have a line for each rank, as 4.0.0 wrote them (support/standins/recorded)."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from iosweep.own_rate import OwnRate
from iosweep.tools import Step, rank_file, tools

RECORDED = Path(__file__).parents[1] / "support/standins/recorded"
IOR, MDTEST = tools()["ior"], tools()["mdtest"]
OF_IOR: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 1 << 20, "file_size": 8 << 20, "file_per_process": True, "api": "POSIX",
    "collective": False, "o_direct": False, "fsync": True, "write_mode": "new", "data": "random",
}  # fmt: skip
OF_MDTEST: dict[str, Any] = {"threads_per_node": 3, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}


def streams(name: str, **changed: bytes) -> dict[str, bytes]:
    files = {"stdout": "out", "summary": "json", "ranks": "ranks.csv"}
    found = {stream: path for stream, ending in files.items() if (path := RECORDED / f"{name}.{ending}").exists()}
    return {stream: path.read_bytes() for stream, path in found.items()} | changed


def of_ior(name: str, phase: str, time_s: float | None = None, **changes: Any) -> list[OwnRate]:
    options, files = OF_IOR | changes, streams(name)
    step = Step(options, (IOR.phases[phase],), time_s=time_s)
    parsed = IOR.parse(files, step, IOR.phases[phase])
    assert parsed.figures and parsed.evidence.echo and not parsed.evidence.echo.contradictions
    return list(parsed.evidence.own_rates)


def test_ranks_of_ior() -> None:
    rates = of_ior("ior_one_pass", "seq_write")
    assert rates == [
        OwnRate("", 0, 6.0729722606e08, pytest.approx(6.0729722606e08 / (1 << 20))),
        OwnRate("", 1, 6.0519758654e08, pytest.approx(6.0519758654e08 / (1 << 20))),
    ]
    shared = of_ior("ior_one_pass_read", "seq_read", api="MPIIO", file_per_process=False, file_size=4 << 20)
    assert [one.worker for one in shared] == [0, 1]


def test_results_without_the_file_are_read_as_before() -> None:
    files = streams("ior_one_pass")
    step = Step(OF_IOR, (IOR.phases["seq_write"],))
    files["summary"] = files["summary"].replace(b",saveRankPerformanceDetailsCSV=ranks.csv", b"")
    del files["ranks"]
    parsed = IOR.parse(files, step, IOR.phases["seq_write"])
    assert parsed.figures and parsed.evidence.echo and not parsed.evidence.echo.contradictions
    assert not parsed.evidence.own_rates


@pytest.mark.parametrize(
    ("phase", "time_s", "options"),
    [
        ("seq_write", 10.0, {}),
        ("seq_write", None, {"api": "MPIIO", "collective": True}),
        ("rand_write", None, {"file_per_process": False}),
    ],
    ids=["timed", "collective", "random in a shared file"],
)
def test_times_that_tell_no_rates_are_not_asked_for(phase: str, time_s: float | None, options: dict[str, Any]) -> None:
    step = Step(OF_IOR | options, (IOR.phases[phase],), time_s=time_s)
    assert "saveRank" not in " ".join(IOR.argv(step, "/t", 1))
    parsed = IOR.parse(streams("ior_one_pass"), step, IOR.phases[phase])
    assert not parsed.evidence.own_rates


def test_ranks_of_mdtest() -> None:
    phases = tuple(MDTEST.phases.values())
    step = Step(OF_MDTEST, phases)
    for phase in phases:
        parsed = MDTEST.parse(streams("mdtest_ranks"), step, phase)
        assert parsed.evidence.echo and not parsed.evidence.echo.contradictions
        rates = parsed.evidence.own_rates
        assert [(one.host, one.worker, one.bandwidth_bytes_per_s) for one in rates] == [("", k, None) for k in range(3)]
        # no rank took longer than all
        slowest = min(one.ops_per_s or 0.0 for one in rates)
        assert 1000 / slowest <= parsed.figures["runtime_s"] + 1e-3
    deleted = MDTEST.parse(streams("mdtest_ranks"), step, MDTEST.phases["delete"])
    assert [one.ops_per_s for one in deleted.evidence.own_rates] == [3.1378050423e05, 4.1339483540e05, 3.1006904709e05]


def column(document: bytes, tasks: int = 3) -> list[float]:
    return rank_file.column(document, "rate-File stat", tasks)


def test_what_is_not_whole_tells_nothing() -> None:
    document = streams("mdtest_ranks")["ranks"]
    assert len(column(document)) == 3
    lines = document.splitlines(keepends=True)
    for damaged in (
        b"",
        b"\xff\xfe\n",
        lines[0],
        b"".join(lines[1:]),  # no names
        b"".join(lines[:-1]),  # a rank is not there
        b"".join([*lines, lines[-1]]),  # a rank is there twice, as with several iterations
        document.replace(b"8.1033693972e+05", b"nan"),
        document.replace(b"8.1033693972e+05", b"inf"),
        document.replace(b"8.1033693972e+05", b"-1"),
        document.replace(b"8.1033693972e+05", b"1e308"),
        document.replace(b"8.1033693972e+05", b""),
        document[: document.index(b"\n2,") + 20],  # cut
    ):
        assert column(damaged) == []
    assert column(document, 2) == column(document, 4) == []


@pytest.mark.parametrize("filler", [b"\n", b",", b",\n", b"\xff"])
def test_millions_of_lines_take_no_memory(filler: bytes) -> None:
    document = streams("mdtest_ranks")["ranks"] + filler * ((16 << 20) // len(filler))
    tracemalloc.start()
    assert column(document) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
