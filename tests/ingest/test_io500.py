"""IO500: its summary beside the figures of its outputs, and the score."""

import math

import pytest

from iosweep.ingest import io500
from iosweep.tools.reading import Cell, Reading, ReadingProblem

#: A result that is made up: phase -> figure in IO500's unit.
FIGURES = {
    **dict(zip(io500.BANDWIDTH, (8.0, 4.0, 2.0, 1.0), strict=True)),
    **dict(zip(io500.METADATA, (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0), strict=True)),
    io500.FIND: 80.0,
}


def unit(phase: str) -> str:
    return "GiB/s" if phase in io500.BANDWIDTH else "kIOPS"


def new(figures: dict[str, float] = FIGURES, invalid: str = "") -> bytes:
    """result_summary.txt of today."""
    lines = [f"[RESULT] {name:>20} {value:15.6f} {unit(name)} : time 301.2 seconds" for name, value in figures.items()]
    if score := io500.score(figures):
        bandwidth, metadata = score.bandwidth, score.metadata
        total = f"Bandwidth {bandwidth:f} GiB/s : IOPS {metadata:f} kiops : TOTAL {score.total:f}{invalid}"
        lines.append(f"[SCORE ] {total}")
    return "\n".join(lines).encode()


def old() -> bytes:
    """That of the scripts up to 2020."""
    lines = []
    for name, value in FIGURES.items():
        what, its_unit = ("BW  ", "GB/s") if name in io500.BANDWIDTH else ("IOPS", "kiops")
        lines.append(
            f"[RESULT] {what} phase 1 {name.replace('-', '_'):>25} {value:20.3f} {its_unit} : time 301 seconds"
        )
    return "\n".join([*lines, "[SCORE] Bandwidth 2.82843 GB/s : IOPS 37.6 kiops : TOTAL 10.3127"]).encode()


def output(phase: str, value: float) -> Reading:
    row: dict[str, Cell] = {"label": "read", "phase": "seq_read", "bandwidth_bytes_per_s": value * (1 << 30)}
    if phase in io500.BANDWIDTH:
        row["label"] = io500.BANDWIDTH[phase]
    else:
        row = {"phase": io500.METADATA[phase], "ops_per_s": value * 500, "max_ops_per_s": value * 1000}
    return Reading("1", [row], [])


def outputs(directory: str = "r") -> list[tuple[str, Reading]]:
    found = [(name, output(name, value)) for name, value in FIGURES.items() if name != io500.FIND]
    return [(f"{directory}/{name}.txt", reading) for name, reading in found]


def summary(data: bytes) -> io500.Summary:
    found = io500.summary(data)
    assert found
    return found


@pytest.mark.parametrize("text", [new(), old()], ids=["new", "old"])
def test_all_layouts_of_a_summary_are_read(text: bytes) -> None:
    found = summary(text)
    assert found and found.figures == FIGURES
    assert found.score
    assert found.score.total == pytest.approx(10.31, rel=1e-3)
    assert not found.invalid


def test_the_score_is_that_of_geometric_means() -> None:
    found = io500.score(FIGURES)
    assert found
    assert found.bandwidth == pytest.approx(math.prod((8, 4, 2, 1)) ** (1 / 4))
    assert found.metadata == pytest.approx(math.prod(range(10, 90, 10)) ** (1 / 8))
    assert found.total == pytest.approx(math.sqrt(found.bandwidth * found.metadata))
    assert io500.score({**FIGURES, "find": 0.0}) == io500.Io500Score(bandwidth=found.bandwidth, metadata=0.0, total=0.0)
    assert io500.score({name: 1.0 for name in FIGURES if name != "find"}) is None


def test_outputs_agree_with_the_summary() -> None:
    (run,) = io500.runs([("r/result_summary.txt", summary(new()))], outputs())
    assert run.directory == "r"
    assert not any(one.difference for one in run.figures)
    assert run.published
    assert run.score
    assert run.score.total == pytest.approx(run.published.total, rel=1e-5)
    assert [one.read for one in run.figures if one.phase == "find"] == [None]


def test_a_difference_is_said() -> None:
    (run,) = io500.runs([("r/s.txt", summary(new({**FIGURES, "ior-easy-write": 16.0})))], outputs())
    (one,) = [one for one in run.figures if one.difference]
    assert (one.phase, one.published, one.read, one.difference) == (
        "ior-easy-write",
        16.0,
        pytest.approx(8.0),
        "published +100.00 %",
    )


def test_a_figure_that_an_output_does_not_give_leaves_no_score() -> None:
    others = [one for one in outputs() if "ior-hard-read" not in one[0]]
    broken = Reading("1", [], [ReadingProblem("invalid", "cut")])
    (run,) = io500.runs([("r/s.txt", summary(new()))], [*others, ("r/ior-hard-read.txt", broken)])
    assert run.score is None
    assert [one.difference for one in run.figures if one.difference] == ["cut"]


def test_outputs_belong_to_the_nearest_summary() -> None:
    copy = ("a/result_summary.txt", summary(new()))
    inner = ("a/results/t/result.txt", summary(new()))
    other = ("b/result_summary.txt", summary(new()))
    found = io500.runs([copy, inner, other], [*outputs("a/results/t"), *outputs("b/x")[:3]])
    assert [run.directory for run in found] == ["a/results/t", "b"]
    assert found[0].score
    assert found[1].score is None


def test_a_summary_of_another_run_is_no_witness() -> None:
    other = summary(new({name: 3 * value for name, value in FIGURES.items()}))
    (run,) = io500.runs([("r/a.txt", other), ("r/b.txt", summary(new()))], outputs())
    assert not any(one.difference for one in run.figures)
    assert any("another run" in remark for remark in run.remarks)


def test_what_io500_calls_invalid_is_said() -> None:
    (run,) = io500.runs([("r/s.txt", summary(new(invalid=" [INVALID]")))], outputs())
    assert any("[INVALID]" in remark for remark in run.remarks)


def test_damaged_text_does_no_harm() -> None:
    damaged = summary(b"[RESULT] x " + b"9" * 100_000 + b" GiB/s\n[SCORE ] \xff\n[" + b"a" * 1000)
    assert damaged.figures == {}
    assert summary(b"[RESULT\n[find]\nscore = 1e999\n").figures == {}
    assert io500.summary(b"[find]\n") is None
