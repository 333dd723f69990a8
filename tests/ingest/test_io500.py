"""IO500: its summary beside the figures of its outputs, and the score."""

import math

import pytest

from iosweep.ingest import io500
from iosweep.results.ingested import compared
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


def pairs() -> bytes:
    """result.txt."""
    lines = [f"[{name}]\nexe = ./ior\nscore           = {value:f}\nt_delta = 300\n" for name, value in FIGURES.items()]
    return "\n".join([*lines, "[SCORE]", "MD = 37.6", "BW = 2.8", "SCORE = 10.3 "]).encode()


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


@pytest.mark.parametrize("text", [new(), old(), pairs()], ids=["new", "old", "result.txt"])
def test_all_layouts_of_a_summary_are_read(text: bytes) -> None:
    found = io500.summary(text)
    assert found.figures == FIGURES
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
    (run,) = io500.runs([("r/result_summary.txt", io500.summary(new()))], outputs())
    assert run.directory == "r"
    assert not any(one.difference for one in run.figures)
    assert run.published
    assert run.score
    assert run.score.total == pytest.approx(run.published.total, rel=1e-5)
    assert [one.read for one in run.figures if one.phase == "find"] == [None]


def test_a_difference_is_said() -> None:
    (run,) = io500.runs([("r/s.txt", io500.summary(new({**FIGURES, "ior-easy-write": 16.0})))], outputs())
    (one,) = [one for one in run.figures if one.difference]
    assert (one.phase, one.published, one.read, one.difference) == (
        "ior-easy-write",
        16.0,
        pytest.approx(8.0),
        "published +100.00 %",
    )


def of_slow(published: str, read: float) -> io500.Io500Figure:
    """`ior-hard-write` of a run that publishes this and whose output has that."""
    text = new().replace(b"2.000000 GiB/s", published.encode() + b" GiB/s")
    others = [one for one in outputs() if "ior-hard-write" not in one[0]]
    (run,) = io500.runs(
        [("r/s.txt", io500.summary(text))], [*others, ("r/ior-hard-write.txt", output("ior-hard-write", read))]
    )
    return next(one for one in run.figures if one.phase == "ior-hard-write")


@pytest.mark.parametrize(
    ("published", "read", "difference"),
    [
        ("0.013705", 0.0132715, "published +3.27 %"),  # within 0.0005 of each other
        ("0.013", 0.0132715, ""),
        ("0.013", 0.0136, "published −4.41 %"),
        ("0.262", 0.2625, ""),  # halves are rounded to even
        ("1.3705e-2", 0.0132715, "published +3.27 %"),
        ("1.3e-2", 0.0132715, ""),
    ],
)
def test_slow_phases_are_compared_as_far_as_they_are_printed(published: str, read: float, difference: str) -> None:
    assert of_slow(published, read).difference == difference


def test_a_slow_phase_tells_a_summary_of_another_run() -> None:
    slow = {name: value / 2e5 for name, value in FIGURES.items()}
    other = io500.summary(new({name: 2 * value for name, value in slow.items()}))
    own = io500.summary(new(slow))
    readings = [(f"r/{name}.txt", output(name, value)) for name, value in slow.items() if name != io500.FIND]
    (run,) = io500.runs([("r/a.txt", other), ("r/b.txt", own)], readings)
    assert run.published == own.score
    assert any("another run" in remark for remark in run.remarks)


@pytest.mark.parametrize(("hard_write", "remarks"), [("0.011", 0), ("0.0110", 1)])
def test_a_score_may_be_that_of_figures_before_they_were_rounded(hard_write: str, remarks: int) -> None:
    true = io500.score({**FIGURES, "ior-hard-write": 0.01136})
    assert true
    text = new().replace(b"2.000000 GiB/s", hard_write.encode() + b" GiB/s")
    text = b"\n".join(line for line in text.split(b"\n") if b"SCORE" not in line)
    text += f"\n[SCORE ] Bandwidth 1 GiB/s : IOPS 1 kiops : TOTAL {true.total:f}".encode()
    (run,) = io500.runs([("r/s.txt", io500.summary(text))], [])
    assert sum("published score" in remark for remark in run.remarks) == remarks


def test_the_page_says_of_each_figure_whether_the_two_agree() -> None:
    rounded = {**FIGURES, "ior-easy-write": 8.0004, "ior-hard-write": 16.0}
    (run,) = io500.runs([("r/s.txt", io500.summary(new(rounded)))], outputs())
    said = {one.phase: one.verdict for one in run.figures}
    assert said["ior-easy-write"] == "within rounding"
    assert said["ior-hard-write"].startswith("published +")
    assert said["find"] == ""
    assert run.of_score("total").startswith("published +")
    assert run.of_score("metadata") in ("none", "within rounding")
    assert compared(0.95, 1.0) == "published −5.00 %"


def test_a_figure_that_an_output_does_not_give_leaves_no_score() -> None:
    others = [one for one in outputs() if "ior-hard-read" not in one[0]]
    broken = Reading("1", [], [ReadingProblem("invalid", "r/ior-hard-read.txt: cut")])
    (run,) = io500.runs([("r/s.txt", io500.summary(new()))], [*others, ("r/ior-hard-read.txt", broken)])
    assert run.score is None
    assert [one.difference for one in run.figures if one.difference] == ["cut"]


def test_outputs_belong_to_the_nearest_summary() -> None:
    copy = ("a/result_summary.txt", io500.summary(new()))
    inner = ("a/results/t/result.txt", io500.summary(pairs()))
    other = ("b.tgz!result_summary.txt", io500.summary(new()))
    found = io500.runs([copy, inner, other], [*outputs("a/results/t"), *outputs("b.tgz!x")[:3]])
    assert [run.directory for run in found] == ["a/results/t", "b.tgz"]
    assert found[0].score
    assert found[1].score is None


def test_a_summary_of_another_run_is_no_witness() -> None:
    other = io500.summary(new({name: 3 * value for name, value in FIGURES.items()}))
    (run,) = io500.runs([("r/a.txt", other), ("r/b.txt", io500.summary(new()))], outputs())
    assert not any(one.difference for one in run.figures)
    assert any("another run" in remark for remark in run.remarks)


def test_a_score_that_does_not_follow_from_its_figures_is_said() -> None:
    text = new().replace(b"TOTAL 10", b"TOTAL 99")
    (run,) = io500.runs([("r/s.txt", io500.summary(text))], outputs())
    assert any("published score is 99" in remark for remark in run.remarks)


def test_what_io500_calls_invalid_is_said() -> None:
    (run,) = io500.runs([("r/s.txt", io500.summary(new(invalid=" [INVALID]")))], outputs())
    assert any("[INVALID]" in remark for remark in run.remarks)


def test_damaged_text_does_no_harm() -> None:
    assert io500.summary(b"[RESULT] x " + b"9" * 100_000 + b" GiB/s\n[SCORE ] \xff\n[" + b"a" * 1000).figures == {}
    assert io500.summary(b"[find]\nscore = 1e999\n").figures == {}


def test_a_repository_of_many_runs_is_not_searched_for_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    true = io500.directory_of

    def counted(path: str) -> str:
        nonlocal calls
        calls += 1
        return true(path)

    monkeypatch.setattr(io500, "directory_of", counted)
    runs = 100
    summaries = [(f"all/{n}/result_summary.txt", io500.summary(new())) for n in range(runs)]
    found = io500.runs(summaries, [one for n in range(runs) for one in outputs(f"all/{n}/deep")])
    assert [run.directory for run in found] == [f"all/{n}" for n in range(runs)]
    assert all(run.score for run in found)
    assert calls <= 40 * runs
