"""`iosweep accept`: exit codes, JUnit XML, criteria of a file, errors before anything is decided."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import results_factory as factory
from iosweep.commands.cli import main
from iosweep.config import criteria, yaml_lines
from iosweep.files.documents import dump, read

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
    spoil = about.pop("spoil", lambda _: None)
    results = factory.make(place / "results" / "demo", SWEEPS, repetitions=5, spoil=spoil)
    known = read(results / "campaign.json") | about
    (results / "campaign.json").write_bytes(dump(known, indent=True))
    return str(results)


def file(place: Path, accept: Any) -> str:
    path = place / "accept.yaml"
    path.write_text(json.dumps({"accept": accept}))
    return str(path)


def suspect_metadata(row: Any) -> tuple[str, str] | None:
    return ("suspect", "others wrote <b>\x1b[31m") if row["phase"] == "create" else None


@pytest.fixture
def results(tmp_path: Path) -> str:
    return made(tmp_path, spoil=suspect_metadata)


def test_exit_codes_tell_pass_fail_and_undecided_apart(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    for accept, code in ((PASS, 0), (FAIL, 1), (UNDECIDED, 3), (PASS | UNDECIDED, 3), (PASS | FAIL | UNDECIDED, 1)):
        capsys.readouterr()
        assert main(["accept", results, "--with", file(tmp_path, accept)]) == code, accept
    assert capsys.readouterr().out.replace(str(tmp_path), "PLACE") == snapshot


def test_wrong_criteria_or_no_tables_decide_nothing(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: str) -> str:
        assert main(["accept", *arguments]) == 2
        said = capsys.readouterr()
        assert (said.out, bool(said.err)) == ("", True)
        return said.err

    for accept in ({"read_iops": "20"}, {"read_iops": ">= 1", "rand_read p99 at queue_depth 7": "<= 1 ms"}, {}):
        assert "accept.yaml:1: accept" in refused(results, "--with", file(tmp_path, accept))
    assert "without criteria" in refused(results)
    (tmp_path / "no.yaml").write_text("campaign: x\n")
    for name in ("no.yaml", "absent.yaml"):
        refused(results, "--with", str(tmp_path / name))
    refused(str(tmp_path / "absent"))
    refused("a" * 5000)
    with monkeypatch.context() as patch:  # a repetition was superseded since
        patch.setattr("iosweep.commands.accept.read_condition", lambda _: SimpleNamespace(stale=True))
        assert "has changed" in refused(results, "--with", file(tmp_path, PASS))
    (tmp_path / "results/demo/results.parquet").unlink()
    refused(results, "--with", file(tmp_path, PASS))
    (tmp_path / "results/demo/campaign.json").write_text("{")
    refused(results, "--with", file(tmp_path, PASS))


def planned(place: Path, accept: Any, **more: Any) -> str:
    """The same with criteria in campaign.json, as the tables have them."""
    results = made(place, **more)
    file(place, accept)
    known = criteria.load(yaml_lines.load(place / "accept.yaml"))
    about = read(place / "results/demo/campaign.json") | {"accept": known}
    (place / "results/demo/campaign.json").write_bytes(dump(about, indent=True))
    return results


def test_the_criteria_of_the_plan_are_decided_by_accept_and_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = planned(tmp_path, PASS | FAIL)
    assert main(["accept", results]) == 1
    assert main(["show", results]) == 0
    assert "✕ fail" in capsys.readouterr().out
    assert main(["show", results, "--json"]) == 0
    decided = json.loads(capsys.readouterr().out)["acceptance"]
    assert {one["name"]: one["outcome"] for one in decided} == {"read_iops": "pass", "read_bandwidth": "fail"}
    assert decided[0]["ci95_low"] < decided[0]["value"] < decided[0]["ci95_high"]
    assert (decided[0]["limit"], decided[0]["column"], decided[0]["threshold"]) == (1.0, "ops_per_s", ">= 1 IOPS")


def test_junit_has_a_failure_or_an_error_for_what_does_not_pass(
    results: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """With the attributes that Jenkins' schema has."""
    target = tmp_path / "junit.xml"
    wanted = file(tmp_path, PASS | FAIL | UNDECIDED)
    assert main(["accept", results, "--with", wanted, "--junit", str(target)]) == 1
    assert re.sub('(timestamp|value)=".*?"', r"\1", target.read_text()) == snapshot
    assert main(["accept", results, "--with", wanted, "--junit", str(tmp_path / "no" / "x.xml")]) == 2
