"""`iosweep compare`: what is printed, in which form, and how it ends."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.commands import cli

Capture = pytest.CaptureFixture[str]
SWEEPS = [
    factory.sweep("threads", ["seq_write", "rand_read"], {"threads_per_node": [1, 2], "transfer_size": [4096, 65536]}),
    factory.sweep("metadata", factory.METADATA_PHASES, {"threads_per_node": [1, 2]}),
]


def slow(row: factory.Row) -> float:
    return 0.85 if (row["phase"], row["transfer_size_bytes"]) == ("rand_read", 4096) else 1.0


def in_sessions(_: int, repetition: int) -> tuple[str, list[factory.Row]]:
    return f"{(repetition - 1) // 3}", [factory.NODE]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaigns before, after (random reads of 4 KiB are slower), both also in three sessions, two engines of one
    campaign, and campaigns that do not compare."""
    place = tmp_path_factory.mktemp("compared")
    make(place, "before", seed=1)
    make(place, "after", seed=2, speed=slow, nodes=[factory.NODE | {"kernel": "6.8.0"}], spoil=spoil)
    make(place, "before-3", seed=1, place=in_sessions, repetitions=9)
    make(place, "after-3", seed=2, place=in_sessions, repetitions=9, speed=lambda row: slow(row) ** 4)
    axes = {"ioengine": ["libaio", "io_uring"], "transfer_size": [4096, 65536]}
    engines = factory.sweep("engines", ["rand_read", "rand_write"], axes)
    make(
        place,
        "engines",
        sweeps=[engines],
        place=lambda *_: ("7", [factory.NODE]),
        speed=lambda row: 0.8 if row["ioengine"] == "io_uring" else 1,
    )
    make(place, "deep", sweeps=[factory.sweep("d", ["rand_read"], {"threads_per_node": [1, 2], "queue_depth": [4]})])
    make(place, "invalid-1", seed=3, spoil=lambda _: ("invalid", "no_errors: 3 I/O errors"))
    return place


@pytest.fixture(autouse=True)
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def make(root: Path, name: str, **options: object) -> Path:
    wanted = {"sweeps": SWEEPS, "repetitions": 5, "campaign": name} | options
    return factory.make(root / "results" / name, **wanted)  # type: ignore[arg-type]


def spoil(row: factory.Row) -> tuple[str, str] | None:
    if row["phase"] == "seq_write" and row["threads_per_node"] == 2:
        return ("invalid", "no_errors: 3 I/O errors") if row["transfer_size_bytes"] == 4096 else ("suspect", "short")
    return None


def test_percentiles_without_the_table_of_histograms_are_refused(made: Path, capsys: Capture) -> None:
    (make(made, "lost", seed=1) / "histograms.parquet").unlink()
    assert cli.main(["compare", "before", "lost"]) == 0
    assert cli.main(["compare", "before", "lost", "--figure", "p99"]) == 2
    assert "lost" in capsys.readouterr().err


def test_the_text_tells_what_changed_and_how_surely(capsys: Capture, snapshot: SnapshotAssertion) -> None:
    assert cli.main(["compare", "before", "after"]) == 0
    assert cli.main(["compare", "before-3", "after-3"]) == 0
    assert cli.main(["compare", "engines", "--over", "ioengine"]) == 0
    assert cli.main(["compare", "before", "after", "--all", "--figure", "p99", "--at-least", "10%"]) == 0
    assert capsys.readouterr().out == snapshot


def read(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out, object_hook=lambda known: SimpleNamespace(**known))


def test_json_has_every_result(capsys: Capture) -> None:
    assert cli.main(["compare", "before", "after", "--json"]) == 0
    found = read(capsys)
    [one] = found.comparisons
    assert one.sentence.startswith("Random reads")
    assert (one.first.name, one.other.name) == ("before", "after")
    assert len(one.results) == sum(vars(one.counts).values())
    assert {lone.why for lone in one.not_compared} == {"invalid"}
    assert [change.what for change in one.changes] == ["kernel"]
    losses = [result for result in one.results if result.verdict == "differs"]
    assert one.design == "rounds"
    assert {result.where.transfer_size_bytes for result in losses} == {4096}
    for result in losses:
        low, high = result.ci95_share
        assert low < result.change_share < high < 0
        assert 0 < result.p_holm < 1


def test_an_exit_code_fails_a_pipeline_only_where_it_was_asked_to(capsys: Capture) -> None:
    codes = {
        "before after": 0,
        "before-3 after-3 --fail-on regression": 1,
        "after-3 before-3 --fail-on regression": 0,  # improvements are none
        "before-3 after-3 --fail-on undecided": 1,
        "before-3 after-3 --at-least 60% --fail-on regression": 0,
        "engines --over ioengine --fail-on regression": 1,
        "engines --over transfer_size --fail-on undecided": 1,
        "engines --over threads_per_node": 2,
        "before after --over ioengine": 2,
        "before": 2,
    }
    for arguments, code in codes.items():
        assert cli.main(["compare", *arguments.split()]) == code, arguments
        assert bool(capsys.readouterr().err) == (code == 2), arguments


def test_what_cannot_be_compared_is_said_with_the_reason(
    place: Path, capsys: Capture, snapshot: SnapshotAssertion
) -> None:
    axes = {"threads_per_node": [1, 2], "transfer_size": [4096, 65536]}
    make(place, "new", sweeps=[factory.sweep("n", ["seq_write"], axes, write_mode="new")])
    for arguments in (
        "before deep",  # other points
        "before new",
        "invalid-1 after",  # invalid results are the reason
        "before before",
        "engines --over ioengin",
        "engines --over queue_depth",
        "before after --fail-on regression",
    ):
        assert cli.main(["compare", *arguments.split()]) == 2, arguments
    assert capsys.readouterr().err == snapshot


def test_values_are_compared_with_the_first_that_has_such_points(place: Path, capsys: Capture) -> None:
    sizes = {"seq_read": [4096], "rand_read": [65536, 262144]}
    sweeps = [factory.sweep(phase, [phase], {"transfer_size": sizes[phase]}) for phase in sizes]
    make(place, "sizes", sweeps=sweeps, place=lambda *_: ("7", [factory.NODE]))
    assert cli.main(["compare", "sizes", "--over", "transfer_size", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (found["first"]["name"], found["other"]["name"]) == ("64 KiB", "256 KiB")
    both = {"seq_read": [4096, 8192], "rand_read": sizes["rand_read"]}
    make(place, "both", sweeps=[factory.sweep(phase, [phase], {"transfer_size": both[phase]}) for phase in both])
    assert cli.main(["compare", "both", "--over", "transfer_size", "--html", "both.html"]) == 0
    assert "<h1>both: 8 KiB against 4 KiB; 256 KiB against 64 KiB</h1>" in Path("both.html").read_text()
    make(place, "sizes", sweeps=[sweeps[0], factory.sweep("one", ["rand_read"], {"transfer_size": [65536]})])
    assert cli.main(["compare", "sizes", "--over", "transfer_size"]) == 2
    assert "differ in `transfer_size` only" in capsys.readouterr().err


def test_campaigns_of_one_name_are_told_apart_and_names_drive_no_terminal(place: Path, capsys: Capture) -> None:
    make(place / "copy", "before", seed=2)
    assert cli.main(["compare", "before", "copy/results/before"]) == 0
    assert "copy/results/before against results/before" in capsys.readouterr().out
    make(place, "\x1b[31mred")
    assert (
        cli.main(["compare", "before", "\x1b[31mred"]) == cli.main(["compare", "before", "\x1b[31mred", "--json"]) == 0
    )
    assert "\x1b" not in capsys.readouterr().out
    (place / "copy/results/before/results.parquet").unlink()
    assert cli.main(["compare", "before", "copy/results/before"]) == 2
    assert "results.parquet" in capsys.readouterr().err


def test_a_page_is_written_beside_the_text(place: Path, capsys: Capture) -> None:
    for _ in range(2):  # in place of the last one
        assert cli.main(["compare", "before", "after", "--html", "page.html"]) == 0
        assert capsys.readouterr().out.endswith("\npage: page.html\n")
    assert "Random reads at 4 KiB" in (place / "page.html").read_text(encoding="utf-8")
    (place / "sweep.yaml").write_text("campaign: c\n")
    assert cli.main(["compare", "before", "after", "--html", "sweep.yaml"]) == 2
    assert (place / "sweep.yaml").read_text() == "campaign: c\n"
