"""The files in which IOR and mdtest have a line for each rank, as 4.0.0 wrote them (samples/*/recorded)."""

from pathlib import Path
from typing import Any

import pytest

from iosweep.histograms import NodeRate
from iosweep.tools import Step, messages, tools

SAMPLES = Path(__file__).parents[1] / "samples"
IOR, MDTEST = tools()["ior"], tools()["mdtest"]
OF_IOR: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 1 << 20, "file_size": 8 << 20, "file_per_process": True, "api": "POSIX",
    "collective": False, "o_direct": False, "fsync": True, "write_mode": "new", "data": "random",
}  # fmt: skip
OF_MDTEST: dict[str, Any] = {"threads_per_node": 3, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}


def streams(name: str) -> dict[str, bytes]:
    stem = SAMPLES / name.partition("_")[0] / "recorded" / name
    files = {"stdout": ".out", "summary": ".summary.json", "ranks": ".ranks.csv"}
    found = {stream: Path(f"{stem}{ending}") for stream, ending in files.items()}
    return {stream: path.read_bytes() for stream, path in found.items() if path.exists()}


def of_ior(files: dict[str, bytes], phase: str = "seq_write", time_s: float | None = None, **changes: Any) -> Any:
    parsed = IOR.parse(files, Step(OF_IOR | changes, (IOR.phases[phase],), time_s=time_s), IOR.phases[phase])
    assert parsed.figures
    return parsed.evidence


def test_each_rank_of_ior_has_its_rate() -> None:
    found = of_ior(streams("ior_one_pass"))
    assert not found.echo.contradictions
    assert list(found.node_rates) == [
        NodeRate("", 0, 6.0729722606e08, pytest.approx(6.0729722606e08 / (1 << 20))),
        NodeRate("", 1, 6.0519758654e08, pytest.approx(6.0519758654e08 / (1 << 20))),
    ]
    shared = of_ior(streams("ior_one_pass_read"), "seq_read", api="MPIIO", file_per_process=False, file_size=4 << 20)
    assert [one.worker for one in shared.node_rates] == [0, 1] and not shared.echo.contradictions


def test_times_that_tell_no_rates_are_not_asked_for() -> None:
    for phase, time_s, options in (
        ("seq_write", 10.0, {}),
        ("seq_write", None, {"api": "MPIIO", "collective": True}),
        ("rand_write", None, {"file_per_process": False}),
    ):
        step = Step(OF_IOR | options, (IOR.phases[phase],), time_s=time_s)
        assert "saveRank" not in " ".join(IOR.argv(step, "/t", 1))
        assert not of_ior(streams("ior_one_pass"), phase, time_s, **options).node_rates


def test_each_rank_of_mdtest_has_its_rate_in_every_phase() -> None:
    step = Step(OF_MDTEST, tuple(MDTEST.phases.values()))
    for phase in step.phases:
        parsed = MDTEST.parse(streams("mdtest_ranks"), step, phase)
        assert parsed.evidence.echo and not parsed.evidence.echo.contradictions
        rates = parsed.evidence.node_rates
        assert [(one.host, one.worker, one.bandwidth_bytes_per_s) for one in rates] == [("", k, None) for k in range(3)]
        # no rank took longer than all
        slowest = min(one.ops_per_s or 0.0 for one in rates)
        assert 1000 / slowest <= parsed.figures["runtime_s"] + 1e-3
    deleted = MDTEST.parse(streams("mdtest_ranks"), step, MDTEST.phases["delete"])
    assert [one.ops_per_s for one in deleted.evidence.node_rates] == [3.1378050423e05, 4.1339483540e05, 3.1006904709e05]


def column(document: bytes, tasks: int = 3) -> list[float]:
    return messages.rank_column(document, "rate-File stat", tasks)


def test_a_file_that_is_not_whole_tells_nothing() -> None:
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
        *(document.replace(b"8.1033693972e+05", wrong) for wrong in (b"nan", b"inf", b"-1", b"1e308", b"")),
        document[: document.index(b"\n2,") + 20],  # cut
    ):
        assert column(damaged) == []
    assert column(document, 2) == column(document, 4) == []
