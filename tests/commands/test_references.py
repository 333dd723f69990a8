"""`iosweep references`: lists, figures, beside a campaign; errors before anything is shown."""

import json
import re
from pathlib import Path

import msgspec
import pytest

import results_factory as factory
from iosweep.commands.cli import main
from iosweep.config import references
from iosweep.files.documents import dump, read
from iosweep.report import page

pytestmark = pytest.mark.unit


def made(place: Path, *names: str) -> str:
    """A campaign with WEKA's tests, that was planned with these references."""
    results = factory.make(place / "results" / "demo", factory.weka(scaled=["read-iops"]))
    kept = [msgspec.to_builtins(references.shipped(name)) for name in names]
    (results / "campaign.json").write_bytes(dump(read(results / "campaign.json") | {"references": kept}, indent=True))
    return str(results)


def test_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["references"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in references.known())
    assert main(["references", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found] == list(references.known())
    assert found[0]["figures"][0]["column"] == "bandwidth_bytes_per_s"


def test_the_figures_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["references", "weka.cluster"]) == 0
    text = capsys.readouterr().out
    assert "weka.cluster: WEKA, " in text
    for part in ("aws", "supermicro", "36.2 GiB/s", "4,346,330 ops/s", "Delete files"):
        assert part in text
    assert main(["references", "weka.single_client"]) == 0
    figures = [line for line in capsys.readouterr().out.splitlines() if "latency" in line]
    assert figures
    assert all("(lower is better)" in line for line in figures)


def test_beside_a_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    results = made(tmp_path, "weka.single_client")
    assert main(["references", "--beside", results]) == 0
    text = capsys.readouterr().out
    assert "here 38 % (" in text
    assert re.search(
        r"Random read, mean completion latency \(lower is better\) .* here [\d.]+ x the latency \([\d.]+ to",
        text,
        re.DOTALL,
    )
    assert "not comparable: the suite weka was scaled to fit (2 figures: Random read, IOPS)" in text
    assert "14 of 16 figures compare" in text
    assert main(["references", "weka.cluster", "--beside", results, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["name"] == "weka.cluster"
    [first, *_] = found["figures"]
    assert (first["printed"], first["not_comparable"]) == ("36.2 GiB/s", None)
    assert first["ratio"]["low"] < first["ratio"]["value"] < first["ratio"]["high"]


def test_a_campaign_without_any_says_which_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["references", "--beside", made(tmp_path)]) == 0
    assert "has no references; name some: lustre.ior" in " ".join(capsys.readouterr().out.split())


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("title: t\n")
    assert main(["references", "weka", "own.yaml"]) == 1
    text = capsys.readouterr().err
    assert "unknown reference `weka`" in text
    assert "own.yaml:1: `publisher` is missing" in text
    assert main(["references", "--beside", "nowhere"]) == 1


def test_the_report_shows_them_and_escapes_what_is_not_ours(tmp_path: Path) -> None:
    results = Path(made(tmp_path, "weka.single_client", "lustre.ior"))
    about = read(results / "campaign.json")
    about["references"][0]["title"] = "<script>alert(1)</script>"
    (results / "campaign.json").write_bytes(dump(about, indent=True))
    text = page.render(results)
    section = text[text.index('<section id="references">') :]
    section = section[: section.index("</section>")]
    assert "&lt;script&gt;alert(1)" in section
    assert "<script" not in section
    assert '<a href="https://docs.weka.io/' in section
    assert "14 of 16 figures compare." in section
    assert "0 of 16 figures compare." in section
    assert '<a href="#references">' in text


def test_no_section_without_any(tmp_path: Path) -> None:
    assert 'id="references"' not in page.render(Path(made(tmp_path)))
