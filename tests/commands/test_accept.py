"""`iosweep accept`: exit codes, JUnit XML and JSON, criteria of a file, errors before anything is decided."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

import results_factory as factory
from iosweep.commands.cli import main
from iosweep.files.documents import dump, read
from iosweep.report import figure_files, page

pytestmark = pytest.mark.unit

#: In units that the made figures have.
PASS, FAIL, UNDECIDED = (
    {"read_iops": ">= 1"},
    {"read_bandwidth": ">= 900 TiB/s"},
    {"create scaling nodes 1 -> 4": ">= 1x"},
)
SWEEPS = (
    factory.sweep("threads", factory.DATA_PHASES, {"threads_per_node": [1, 8]}, transfer_size_bytes=1 << 20),
    factory.mdtest(axes={"nodes": [1, 4]}),
)


def made(place: Path, **about: Any) -> str:
    """A campaign whose rows are valid, with parts of its campaign.json."""
    results = factory.make(
        place / "results" / "demo",
        SWEEPS,
        repetitions=about.pop("repetitions", 5),
        spoil=about.pop("spoil", lambda _: None),
    )
    known = read(results / "campaign.json") | about
    (results / "campaign.json").write_bytes(dump(known, indent=True))
    return str(results)


def file(place: Path, accept: Any) -> str:
    path = place / "accept.yaml"
    path.write_text(json.dumps({"accept": accept}))
    return str(path)


def suspect_metadata(row: Any) -> tuple[str, str] | None:
    return ("suspect", "others wrote <b>\x1b[31m") if row["phase"] == "create" else None


@pytest.mark.parametrize(
    ("accept", "code"),
    [(PASS, 0), (FAIL, 1), (UNDECIDED, 3), (PASS | UNDECIDED, 3), (PASS | FAIL | UNDECIDED, 1)],
)
def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str], accept: Any, code: int) -> None:
    results = made(tmp_path, spoil=suspect_metadata)
    assert main(["accept", results, "--with", file(tmp_path, accept)]) == code
    assert f"Acceptance: {len(accept)} criteri" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("accept", "message"),
    [
        ({"read_iops": "20"}, "accept.read_iops: `20` is not a threshold"),
        (
            {"read_iops": ">= 1", "rand_read p99 at queue_depth 7": "<= 1 ms"},
            "no rand_read is measured at queue_depth 7",
        ),
        ({}, "must be a mapping"),
    ],
)
def test_wrong_criteria_decide_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], accept: Any, message: str
) -> None:
    assert main(["accept", made(tmp_path), "--with", file(tmp_path, accept)]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "nothing was decided" in said.err
    assert said.out == ""


def test_without_criteria_tables_or_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = made(tmp_path)
    assert main(["accept", results]) == 2
    assert "was planned without criteria" in capsys.readouterr().err
    (tmp_path / "no.yaml").write_text("campaign: x\n")
    assert main(["accept", results, "--with", str(tmp_path / "no.yaml")]) == 2
    assert "has no `accept`" in capsys.readouterr().err
    assert main(["accept", results, "--with", str(tmp_path / "absent.yaml")]) == 2
    assert main(["accept", str(tmp_path / "absent")]) == 2
    assert main(["accept", "a" * 5000]) == 2
    with pytest.raises(SystemExit) as caught:
        main(["accept", results, "--junit", "-", "--json", "-"])
    assert caught.value.code == 2
    (tmp_path / "results/demo/results.parquet").unlink()
    assert main(["accept", results]) == 2
    (tmp_path / "results/demo/campaign.json").write_text("{")
    assert main(["accept", results]) == 2


def planned(place: Path, capsys: pytest.CaptureFixture[str], accept: Any, **more: Any) -> str:
    """The same with criteria in campaign.json, as merge writes them."""
    results = made(place, **more)
    main(["accept", results, "--with", file(place, accept), "--json", "-"])
    capsys.readouterr()
    from iosweep.config import criteria, yaml_lines

    known = criteria.load(yaml_lines.load(place / "accept.yaml"))
    about = read(place / "results/demo/campaign.json") | {"accept": known}
    (place / "results/demo/campaign.json").write_bytes(dump(about, indent=True))
    return results


def test_the_criteria_of_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = planned(tmp_path, capsys, PASS | FAIL)
    assert main(["accept", results, "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == "fail"
    assert [(one["name"], one["outcome"]) for one in found["criteria"]] == [
        ("read_iops", "pass"),
        ("read_bandwidth", "fail"),
    ]
    first = found["criteria"][0]
    assert first["ci95_low"] < first["value"] < first["ci95_high"]
    assert (first["limit"], first["column"], first["threshold"]) == (1.0, "ops_per_s", ">= 1 IOPS")
    assert main(["show", results]) == 0
    assert "✕ fail" in capsys.readouterr().out
    assert main(["show", results, "--json"]) == 0
    assert [one["outcome"] for one in json.loads(capsys.readouterr().out)["acceptance"]] == ["pass", "fail"]


def test_the_report_shows_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    planned(tmp_path, capsys, PASS | FAIL | UNDECIDED, spoil=suspect_metadata)
    text = page.render(tmp_path / "results/demo")
    body = text.partition("<main>")[2].partition('<script type="application/json"')[0]
    assert "3 criteria: 1 fails, 1 is undecided, 1 passes" in body
    assert body.index("Acceptance.") < body.index('class="verdicts"') < body.index('id="acceptance"')
    assert "others wrote &lt;b&gt;" in body
    assert "<b>\x1b" not in body


def test_notes_are_shown_with_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, wanted = made(tmp_path), file(tmp_path, PASS)
    assert main(["accept", results, "--with", wanted]) == 0
    brief = capsys.readouterr().out
    assert "best of 2 points, not confirmed" not in brief
    assert "`iosweep accept --all` shows 1 note on these figures, too" in brief
    assert main(["accept", results, "--with", wanted, "--all"]) == 0
    whole = capsys.readouterr().out
    assert "best of 2 points, not confirmed" in whole
    assert "--all" not in whole


def test_a_reason_that_all_share_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is memory for all; a reason of one figure alone is beside it, in the terminal and in the report."""

    def spoil(row: Any) -> tuple[str, str]:
        return "suspect", "in memory" + (" | too short | not alone" if row["phase"] == "create" else "")

    results = planned(tmp_path, capsys, PASS | UNDECIDED, spoil=spoil)
    monkeypatch.setattr(figure_files, "static", lambda *_: {})
    body = page.render(tmp_path / "results/demo").partition('id="acceptance"')[2].partition("</section>")[0]
    assert main(["accept", results, "--all"]) == 3
    whole = capsys.readouterr().out
    for text in (body, whole):
        assert text.count("all 2: in memory") == text.count("in memory") == 1
        assert "5 of 5 repetitions suspect: 5 × too short; 5 × not alone" in " ".join(text.split())
    assert main(["accept", results]) == 3
    brief = " ".join(capsys.readouterr().out.split())
    assert "5 of 5 repetitions suspect: 5 × too short; and 1 other reason" in brief
    assert "`iosweep accept --all` shows 1 note and 1 more reason on these figures" in brief
    assert main(["accept", results, "--json", "-"]) == 3
    first, other = json.loads(capsys.readouterr().out)["criteria"]
    assert (first["reasons"], other["reasons"]) == (["in memory"], ["in memory", "too short", "not alone"])


#: Elements of JUnit XML as Jenkins' schema has them: attributes that must be there, others that may, children.
FORM: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "disabled", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests"},
        {"failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"assertions", "time", "classname", "status"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def test_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = made(tmp_path, spoil=suspect_metadata)
    target = tmp_path / "junit.xml"
    wanted = file(tmp_path, PASS | FAIL | UNDECIDED)
    assert main(["accept", results, "--with", wanted, "--junit", str(target)]) == 1
    assert "Acceptance" in capsys.readouterr().out
    root = Xml.fromstring(target.read_bytes())  # noqa: S314  our own file
    for element in root.iter():
        needed, allowed, children = FORM[element.tag]
        assert needed <= set(element.attrib) <= needed | allowed, element.tag
        assert {child.tag for child in element} <= children
    [suite] = root
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("3", "1", "1")
    cases = {case.attrib["name"]: [child.tag for child in case] for case in suite.iter("testcase")}
    assert cases == {
        "read_iops >= 1 IOPS": ["system-out"],
        "read_bandwidth >= 900 TiB/s": ["failure", "system-out"],
        "create scaling nodes 1 -> 4 >= 1x": ["error", "system-out"],
    }
    assert b"\x1b" not in target.read_bytes()
    for found in (*suite.iter("failure"), *suite.iter("error")):
        assert found.attrib["message"]
        assert found.attrib["message"] not in (found.text or ""), "once: readers show both"
    assert main(["accept", results, "--with", wanted, "--junit", str(tmp_path / "no" / "x.xml")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["accept", results, "--with", wanted, "--junit", "-"]) == 1
    assert capsys.readouterr().out.startswith("<?xml")
