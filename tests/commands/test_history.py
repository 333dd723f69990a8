"""`iosweep history`: what is said of nights, for a person, as JSON, and as a page."""

import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

import results_factory
from iosweep.commands import cli
from iosweep.results import merged_tables

Capture = pytest.CaptureFixture[str]
SWEEPS = [results_factory.sweep("s", ["seq_read", "rand_read"], {"threads_per_node": [1, 8]})]


def night(
    place: Path, number: int, loss: float = 0.0, name: str = "", root: float = 1.0, hours: int = 24, **made: object
) -> Path:
    """Results of one night, with random reads lower by `loss`, and every rate times `root` twice. hours: from one night
    to the next."""

    def speed(row: object) -> float:
        assert isinstance(row, dict)
        return 1 - loss * (row["phase"] == "rand_read")

    results = place / (name or f"night-{number:02}")
    node = results_factory.NODE | {"kernel": "6.9" if loss else "6.1"}
    results_factory.make(results, made.pop("sweeps", SWEEPS), 3, number, speed=speed, nodes=[node], **made)  # type: ignore[arg-type]
    table = pa.parquet.read_table(results / "results.parquet")
    at = table.schema.get_field_index("started")
    moved = [one + timedelta(hours=hours * number) if one else None for one in table["started"].to_pylist()]
    column = pa.array(moved, type=table.schema.field(at).type)
    table = table.set_column(at, table.schema.field(at), column)
    for name in ("ops_per_s", "bandwidth_bytes_per_s"):
        at = table.schema.get_field_index(name)
        table = table.set_column(
            at, table.schema.field(at), pa.compute.multiply(pa.compute.multiply(table[name], root), root)
        )
    pa.parquet.write_table(table, results / "results.parquet")
    results_factory.describe_again(results)
    return results


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """20 nights, of which the last ten lost 12 % of random reads with a new kernel."""
    for number in range(20):
        night(tmp_path / "results", number, 0.12 if number >= 10 else 0.0)
    return tmp_path / "results"


def test_a_loss_is_said_with_what_changed_then(nights: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(nights.parent)
    assert cli.main(["history", str(nights)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("20 campaigns, 2025-06-02 to 2025-06-21: ")
    assert "Random read fell by 1" in out.splitlines()[0]
    assert "on 2025-06-12, worse" in out
    assert "changed then: kernel 6.1 -> 6.9" in out
    assert cli.main(["history", str(nights), "--fail-on", "regression"]) == 1
    assert cli.main(["history", str(nights), "--fail-on", "regression", "--at-least", "30%"]) == 0
    capsys.readouterr()


def test_two_nights_find_nothing_and_say_so(tmp_path: Path, capsys: Capture) -> None:
    both = [str(night(tmp_path, 1)), str(night(tmp_path, 2, 0.5))]
    assert cli.main(["history", *both]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "too few to find a change; it takes 3 campaigns before the change and 3 after it." in out
    assert "no headline changed" not in out
    wide = [float(share.replace(",", "")) for share in re.findall(r"± ([\d.,]+) %", out)]
    assert all(share < 100 for share in wide)


def test_campaigns_of_one_day_are_told_apart(tmp_path: Path, capsys: Capture) -> None:
    """Two a day: by their names, and by their times where they have one name."""
    for number in range(8):
        night(tmp_path, number, 0.3 if number >= 4 else 0.0, f"run-{number}", hours=1)
    assert cli.main(["history", str(tmp_path), "--html", str(tmp_path / "h.html")]) == 0
    out, page = " ".join(capsys.readouterr().out.split()), (tmp_path / "h.html").read_text()
    for text in (out, page):
        assert "2025-06-02 (run-4)" in text
        assert re.search(r"\bnights?\b", text) is None
    assert re.search(r"over [48] campaigns", out)
    assert re.findall(r'text-anchor="(?:start|end)">2025-06-02 (\d\d):', page)[:2] == ["09", "16"]
    (tmp_path / "run-4").rename(tmp_path / "again")
    for number in (3, 4):
        (tmp_path / f"{number}").mkdir()
    (tmp_path / "again").rename(tmp_path / "4" / "run")
    (tmp_path / "run-3").rename(tmp_path / "3" / "run")
    assert cli.main(["history", *map(str, sorted(tmp_path.glob("run-*"))), *(f"{tmp_path}/{n}/run" for n in "34")]) == 0
    assert re.search(r"2025-06-02 \d\d:\d\d:\d\d \(run\)", " ".join(capsys.readouterr().out.split()))


def test_what_was_new_names_its_campaign(tmp_path: Path, capsys: Capture) -> None:
    both = [str(night(tmp_path, 0)), str(night(tmp_path, 1, 0.5, "second", hours=1))]
    assert cli.main(["history", *both]) == 0
    out = capsys.readouterr().out
    assert "what else was new, in 1 campaign:\n  2025-06-02 second: kernel 6.1 -> 6.9" in out


def test_json(nights: Path, capsys: Capture) -> None:
    assert cli.main(["history", *map(str, sorted(nights.iterdir(), reverse=True)), "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert [one["name"] for one in found["campaigns"]] == [f"night-{n:02}" for n in range(20)]
    assert found["campaigns"][10]["changed"][0]["what"] == "kernel"
    by_name = {(one["phase"], one["column"]): one for one in found["headlines"]}
    reads = by_name["rand_read", "ops_per_s"]
    assert reads["regressed"]
    assert not by_name["seq_read", "bandwidth_bytes_per_s"]["regressed"]
    assert len(reads["figures"]) == 20
    assert len({one["point"] for one in found["headlines"]}) <= 2
    [step] = reads["changes"]
    assert (step["campaign"], step["verdict"]) == ("night-10", "worse")
    assert step["share"] == pytest.approx(-0.12, abs=0.02)


def test_other_configurations_are_left_out_and_named(nights: Path, tmp_path: Path, capsys: Capture) -> None:
    other = [results_factory.sweep("s", ["seq_read"], {"threads_per_node": [2]})]
    for number in (30, 31):
        night(nights, number, name=f"other-{number}", sweeps=other)
    assert cli.main(["history", str(nights), "--json"]) == 0
    captured = capsys.readouterr()
    why = "measured other points (1; none of them is in the history, which has 2)"
    assert f"left out: other-30, other-31: {why}\n" in captured.err
    assert cli.main(["history", str(nights / "other-30"), str(nights / "night-01")]) == 2
    assert "no two of them measured the same points" in capsys.readouterr().err


def test_figures_that_no_storage_has(tmp_path: Path, capsys: Capture) -> None:
    """Tables of others may have any number that a column takes: their ratios are beyond those of floats."""
    for number in range(12):
        night(tmp_path / "results", number, root=3e4 if number >= 6 else 1e-155)
    assert cli.main(["history", str(tmp_path / "results"), "--html", str(tmp_path / "h.html")]) == 0
    assert "12 campaigns" in capsys.readouterr().out


def test_what_is_no_history(nights: Path, capsys: Capture) -> None:
    assert cli.main(["history", str(nights / "night-01")]) == 2
    assert "one campaign is no history" in capsys.readouterr().err
    assert cli.main(["history", "nothing"]) == 2
    assert "no results of a campaign `nothing`" in capsys.readouterr().err
    assert cli.main(["history", "a" * 5000]) == 2
    assert "no results of a campaign `aaa" in capsys.readouterr().err
    (nights / "night-02" / "results.parquet").write_bytes(b"x")
    assert cli.main(["history", str(nights), "--json"]) == 0
    captured = capsys.readouterr()
    assert len(msgspec.json.decode(captured.out)["campaigns"]) == 19
    assert "left out: " in captured.err


def test_the_page(nights: Path, tmp_path: Path) -> None:
    evil = "</style><script>alert(1)</script>"
    for results in nights.iterdir():
        about = merged_tables.documents.read(results / merged_tables.ABOUT)
        about["target"] = {"directory": f"/mnt/{evil}"}
        (results / merged_tables.ABOUT).write_bytes(merged_tables.documents.dump(about, indent=True))
    assert cli.main(["history", str(nights), "--html", str(tmp_path / "h.html")]) == 0
    text = (tmp_path / "h.html").read_text()
    assert "<script" not in text
    assert "default-src &#39;none&#39;" in text
    assert text.count("<circle") == 3 * 20
    assert text.count('class="mark"') == 3
    assert "kernel 6.1 -&gt; 6.9" in text
    assert len(text) < 100_000
