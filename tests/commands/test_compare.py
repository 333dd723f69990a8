"""`iosweep compare`: what is printed, in which form, and how it ends.

MAKE_COMPARE_TEXT=1 makes the expected text again.
"""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import results_factory as factory
from iosweep.commands import cli, compare

Capture = pytest.CaptureFixture[str]
EXPECTED = Path(__file__).with_name("compare.txt")
SWEEPS = [
    factory.sweep("threads", ["seq_write", "rand_read"], {"threads_per_node": [1, 2], "transfer_size": [4096, 65536]}),
    factory.sweep("metadata", factory.METADATA_PHASES, {"threads_per_node": [1, 2, 4]}),
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the campaigns before, after (random reads of 4 KiB are slower) and other (of another size)."""
    monkeypatch.chdir(tmp_path)

    def slow(row: factory.Row) -> float:
        return 0.85 if (row["phase"], row["transfer_size_bytes"]) == ("rand_read", 4096) else 1.0

    make(tmp_path, "before", seed=1)
    make(tmp_path, "after", seed=2, speed=slow, nodes=[factory.NODE | {"kernel": "6.8.0"}], spoil=spoil)
    return tmp_path


def make(place: Path, name: str, **options: object) -> Path:
    wanted = {"sweeps": SWEEPS, "repetitions": 5, "campaign": name} | options
    return factory.make(place / "results" / name, **wanted)  # type: ignore[arg-type]


def spoil(row: factory.Row) -> tuple[str, str] | None:
    if row["phase"] == "seq_write" and row["threads_per_node"] == 2:
        return ("invalid", "no_errors: 3 I/O errors") if row["transfer_size_bytes"] == 4096 else ("suspect", "short")
    return None


def test_the_text(place: Path, capsys: Capture) -> None:
    assert cli.main(["compare", "before", "after"]) == 0
    assert cli.main(["compare", "before", "after", "before"]) == 0
    assert cli.main(["compare", "before", "after", "--all", "--figure", "latency_p99_s", "--at-least", "10%"]) == 0
    for number in (2, 3, 4):
        make(place, f"before-{number}", seed=10 + number)
    like = ["--like", "before-2", "before-3", "before-4"]
    assert cli.main(["compare", "before", "after", *like]) == 0
    found = capsys.readouterr().out
    if os.environ.get("MAKE_COMPARE_TEXT"):
        EXPECTED.write_text(found, encoding="utf-8")
    assert found == EXPECTED.read_text(encoding="utf-8")


def read(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out, object_hook=lambda known: SimpleNamespace(**known))


def test_json_has_every_result(capsys: Capture) -> None:
    assert cli.main(["compare", "before", "after", "--json"]) == 0
    found = read(capsys)
    [one] = found.comparisons
    assert one.sentence.startswith("Random reads at 4 KiB: 1")
    assert (one.first.name, one.other.name) == ("before", "after")
    assert one.compared == len(one.results) == sum(vars(one.counts).values())
    assert {lone.why for lone in one.not_compared} == {"invalid"}
    assert [change.what for change in one.changes] == ["kernel", "repetitions"]
    losses = [result for result in one.results if result.verdict == "regression"]
    assert {result.where.transfer_size_bytes for result in losses} == {4096}
    for result in losses:
        low, high = result.ci95_share
        assert low < result.change_share < high < 0
        assert result.p <= result.p_holm <= 0.05


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["before", "after"], 0),
        (["before", "after", "--fail-on", "regression"], 1),
        (["after", "before", "--fail-on", "regression"], 0),  # improvements are none
        (["before", "before", "--fail-on", "regression"], 0),
        (["before", "before", "--fail-on", "undecided", "--at-least", "1%"], 1),
        (["before", "before", "--fail-on", "undecided", "--at-least", "50%"], 0),
        (["before", "after", "--at-least", "40%", "--fail-on", "regression"], 0),
        (["before"], 2),
        (["before", "nothing"], 2),
        (["before", "after", "--ignore", "data"], 2),
        (["before", "after", "--ignore", "nonsense"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, capsys: Capture) -> None:
    assert cli.main(["compare", *arguments]) == code
    assert code != 2 or capsys.readouterr().err


def test_json_has_what_is_known_of_sessions(place: Path, capsys: Capture) -> None:
    make(place, "again", seed=3)
    make(place, "third", seed=4, nodes=[factory.NODE | {"kernel": "6.9.0"}])
    assert cli.main(["compare", "before", "after", "--json", "--like", "again", "third"]) == 0
    [one] = read(capsys).comparisons
    assert [(like.name, like.results) for like in one.like] == [("again", 17), ("third", 17)]
    assert [[change.what for change in like.changes] for like in one.like] == [[], ["kernel"]]
    assert one.sessions
    assert {own.sessions for own in one.sessions} == {3}
    assert all(0 < own.sd_share < 0.1 for own in one.sessions)
    assert any(line.startswith("Sessions of before differ by ") for line in one.sessions_known)
    assert any(line.startswith("Warning: third (--like) differs from before in kernel") for line in one.sessions_known)
    assert all(own.sessions == 3 and own.more_repetitions is None for own in one.results if not own.why)


@pytest.mark.parametrize("like", ["before", "after"])
def test_a_campaign_is_no_other_session_of_itself(like: str, capsys: Capture) -> None:
    assert cli.main(["compare", "before", "after", "--like", like]) == 2
    assert "is named twice" in capsys.readouterr().err


def test_without_like_json_says_that_nothing_is_known_of_sessions(capsys: Capture) -> None:
    assert cli.main(["compare", "before", "after", "--json"]) == 0
    [one] = read(capsys).comparisons
    assert (one.sessions, one.like) == (None, [])
    assert "is not known here" in one.sessions_known[0]


@pytest.mark.parametrize("like", [[], ["--like", "g2"], ["--like", "g1"]])
def test_invalid_results_are_the_reason_with_like_as_without(place: Path, like: list[str], capsys: Capture) -> None:
    for seed in (1, 2):
        make(place, f"g{seed}", seed=seed + 2, spoil=lambda _: ("invalid", "no_errors: 3 I/O errors"))
    assert cli.main(["compare", "g1", "after", *like]) == 2
    found = capsys.readouterr().err
    assert "have no result in common that has a figure: 17 results are not compared: invalid in g1" in found
    assert "(--like)" not in found
    assert "--ignore" not in found


def test_a_session_of_invalid_results_is_refused_with_this_reason(place: Path, capsys: Capture) -> None:
    make(place, "g1", seed=3, spoil=lambda _: ("invalid", "no_errors: 3 I/O errors"))
    assert cli.main(["compare", "before", "after", "--like", "g1"]) == 2
    found = capsys.readouterr().err
    assert "before and g1 (--like) have no result in common that has a figure: 17 results are not compared" in found
    assert "--ignore" not in found


def test_no_parameter_is_to_be_ignored_for_invalid_results(place: Path, capsys: Capture) -> None:
    make(place, "deep", sweeps=[factory.sweep("d", ["rand_read"], {"threads_per_node": [1, 2], "queue_depth": [4]})],
         spoil=lambda _: ("invalid", "no_errors: 3 I/O errors"))  # fmt: skip
    assert cli.main(["compare", "before", "deep"]) == 2
    assert "--ignore" not in capsys.readouterr().err


def test_a_campaign_with_nothing_in_common_is_no_session_of_the_first(place: Path, capsys: Capture) -> None:
    make(place, "deep", sweeps=[factory.sweep("d", ["rand_read"], {"threads_per_node": [1], "queue_depth": [4]})])
    assert cli.main(["compare", "before", "after", "--like", "deep"]) == 2
    assert "before and deep (--like) have no result in common that has a figure" in capsys.readouterr().err


def test_another_depth_is_not_comparable_unless_it_is_ignored(place: Path, capsys: Capture) -> None:
    make(place, "deep", sweeps=[factory.sweep("d", ["rand_read"], {"threads_per_node": [1, 2], "queue_depth": [4]})])
    assert cli.main(["compare", "before", "deep"]) == 2
    assert "`--ignore queue_depth` would compare 2 results" in capsys.readouterr().err
    assert cli.main(["compare", "before", "deep", "--ignore", "queue_depth"]) == 0
    assert "Points that differ in queue depth are compared" in capsys.readouterr().out


def test_other_conditions_never_compare(place: Path, capsys: Capture) -> None:
    axes = {"threads_per_node": [1, 2], "transfer_size": [4096, 65536]}
    make(place, "new", sweeps=[factory.sweep("n", ["seq_write"], axes, write_mode="new")])
    for more in ([], ["--ignore", "phases"]):
        assert cli.main(["compare", "before", "new", *more]) == 2
        assert "write_mode differ everywhere, and figures that differ in these never compare" in capsys.readouterr().err


def test_campaigns_of_one_name_are_told_apart_by_their_targets_or_directories(place: Path, capsys: Capture) -> None:
    make(place, "elsewhere", campaign="before")
    assert cli.main(["compare", "before", "elsewhere"]) == 0
    assert capsys.readouterr().out.startswith("before in elsewhere against before in before\n")


def test_without_tables_it_says_what_makes_them(place: Path, capsys: Capture) -> None:
    (place / "results" / "after" / "results.parquet").unlink()
    assert cli.main(["compare", "before", "after"]) == 2
    assert "results.parquet is gone" in capsys.readouterr().err


def test_a_page_is_written(place: Path, capsys: Capture) -> None:
    assert cli.main(["compare", "before", "after", "--html", "page.html"]) == 0
    assert capsys.readouterr().out.endswith("\npage: page.html\n")
    assert "Random reads at 4 KiB: 1" in (place / "page.html").read_text(encoding="utf-8")


def test_a_page_is_there_although_the_reader_of_the_text_has_left(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(compare, "_show", left)
    with pytest.raises(BrokenPipeError):
        compare.run(cli._parse(["compare", "before", "after", "--html", "page.html"]))
    assert (place / "page.html").exists()


def test_names_of_campaigns_drive_no_terminal(place: Path, capsys: Capture) -> None:
    make(place, "evil", campaign="\x1b[31mred")
    assert cli.main(["compare", "before", "evil"]) == 0
    assert cli.main(["compare", "before", "evil", "--json"]) == 0
    assert not re.search("\x1b", capsys.readouterr().out)
