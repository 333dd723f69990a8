"""`iosweep ingest`: outputs of others become a campaign that show, check, list, report and compare take."""

import json
import os
import shutil
from pathlib import Path

import pytest

from iosweep.analysis.data import load
from iosweep.commands import cli, outcome
from iosweep.results import ingested, merged_tables
from iosweep.results.store import Store

SAMPLES = Path(__file__).parents[1] / "samples"
IOR = SAMPLES / "ior" / "4.0.0" / "posix_fpp_seq_1m_np2_i3_JSON.summary.json"
MDTEST = SAMPLES / "mdtest" / "4.0.0" / "own_W_F.out"
FIO = SAMPLES / "fio" / "s2_nj4_nogr.out"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("iosweep.commands.ingest.make_figures", lambda _: None)  # a second of rendering
    return tmp_path


@pytest.fixture
def outputs(place: Path) -> Path:
    directory = place / "outputs"
    directory.mkdir()
    for file in (IOR, MDTEST, FIO):
        shutil.copy(file, directory)
    (directory / "notes.txt").write_text("nothing of a tool")
    (directory / "link").symlink_to("/etc/passwd")
    return directory


def ingest(*arguments: object) -> int:
    return cli.main(["ingest", *map(str, arguments)])


def test_a_directory_becomes_a_campaign(outputs: Path, capsys: Capture) -> None:
    assert ingest(outputs, "--as", "seen") == 0
    said = capsys.readouterr().out
    assert "3 files read" in said
    assert "2 files not taken:" in said
    assert "report: results/seen/report.html" in said
    results = Path("results/seen")
    campaign = load(results)
    assert {row.tool for row in campaign.rows} == {"fio", "ior", "mdtest"}
    assert campaign.about.ingested
    assert campaign.about.ingested.files == {"fio": 1, "ior": 1, "mdtest": 1}
    assert merged_tables.damage(results) == []
    (one,) = {row.checks_passed for row in campaign.rows if row.verdict == "valid"}
    assert one == 2
    page = (results / "report.html").read_text()
    assert 'id="ingested"' in page
    assert "order drawn with seed" not in page


def test_commands_take_it(outputs: Path, capsys: Capture) -> None:
    ingest(outputs / IOR.name, "--as", "notes")
    capsys.readouterr()
    assert cli.main(["check", "notes"]) == 1  # its runs are of milliseconds
    assert cli.main(["list"]) == 0
    assert cli.main(["show", "notes", "--json"]) == 0
    out = capsys.readouterr().out
    assert "notes: 6 repetitions: 0 valid, 5 suspect, 1 invalid" in out
    for command in (["watch", "notes"], ["rerun", "--campaign", "notes", "--invalid"]):
        assert cli.main(command) == 1
        assert "was ingested from outputs of others" in capsys.readouterr().err


def test_report_reads_the_outputs_again(outputs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(outputs, "--as", "seen")
    before = load(Path("results/seen")).rows
    shutil.rmtree(outputs)
    monkeypatch.setattr("iosweep.commands.report.make_figures", lambda _: None)
    for name in (*merged_tables.FILES, merged_tables.ABOUT):
        Path("results/seen", name).unlink()
    assert cli.main(["report", "seen"]) == 0
    assert load(Path("results/seen")).rows == before
    assert not outcome.of(Path("results/seen")).stale


def test_rows_name_their_file_and_its_hash(outputs: Path) -> None:
    ingest(outputs, "--as", "seen")
    document, _ = ingested.load(Path("results/seen"))
    known = {file.path: file.sha256 for file in document.files}
    text = Path("results/seen/results.csv").read_text()
    assert all(path in text and digest in text for path, digest in known.items())
    kept = {file.path: data for file, data in ingested.raw(Path("results/seen"), document.files)}
    assert kept[str(outputs / IOR.name)] == IOR.read_bytes()


@pytest.mark.parametrize("name", [ingested.INGESTED, ingested.RAW])
@pytest.mark.parametrize("how", ["gone", "changed", "link"])
def test_damage_is_found(outputs: Path, name: str, how: str, capsys: Capture) -> None:
    ingest(outputs, "--as", "seen")
    capsys.readouterr()
    file = Path("results/seen", name)
    if how == "changed":
        data = bytearray(file.read_bytes())
        data[len(data) // 2 if name == ingested.INGESTED else -30] ^= 1
        file.write_bytes(data)
    else:
        file.unlink()
        if how == "link":
            file.symlink_to("/etc/passwd")
    if (name, how) != (ingested.INGESTED, "gone"):
        assert cli.main(["check", "seen"]) == 1
        assert name in "".join(capsys.readouterr())
    assert cli.main(["report", "seen"]) == 1
    assert "seen" in capsys.readouterr().err


def test_another_content_in_the_archive_is_found(outputs: Path, capsys: Capture) -> None:
    ingest(outputs, "--as", "seen")
    document, _ = ingested.load(Path("results/seen"))
    import zipfile

    with zipfile.ZipFile("results/seen/ingested.zip", "w") as archive:
        for file in document.files:
            archive.writestr(file.sha256, b"x" * file.bytes)
    assert cli.main(["report", "seen"]) == 1
    assert "is not what was ingested" in capsys.readouterr().err


def test_nothing_usable_leaves_nothing(place: Path, capsys: Capture) -> None:
    (place / "a.txt").write_text("nothing")
    assert ingest("a.txt", "--as", "seen") == 1
    assert not Path("results/seen").exists()
    assert "has no output" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["gone.txt", "--as", "x"], "there is no such file or directory"),
        (["outputs", "--as", "../x"], "a name has letters"),
        (["outputs", "--as", "x", "--results", "outputs"], "would be inside"),
        (["outputs", "--as", "measured"], "was not ingested"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(
    outputs: Path, arguments: list[str], why: str, capsys: Capture
) -> None:
    Path("results/measured/plans").mkdir(parents=True)
    before = sorted(Path().rglob("*"))
    assert ingest(*arguments) == 2
    assert why in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before


def test_replace_replaces_what_was_ingested(outputs: Path, capsys: Capture) -> None:
    ingest(outputs, "--as", "seen")
    assert ingest(outputs / IOR.name, "--as", "seen") == 2
    assert "--replace" in capsys.readouterr().err
    assert ingest(outputs / "notes.txt", "--as", "seen", "--replace") == 1
    assert len(ingested.load(Path("results/seen"))[0].files) == 3  # the old one is whole
    assert ingest(outputs / IOR.name, "--as", "seen", "--replace") == 0
    assert len(ingested.load(Path("results/seen"))[0].files) == 1
    assert outcome.of(Path("results/seen")).damaged == []


def test_text_of_others_cannot_draw_or_run(place: Path, capsys: Capture) -> None:
    name = os.fsdecode(b"<script>alert(1)\x1b[31m\xff")
    shutil.copy(MDTEST, place / name)
    (place / "x.json").write_text(json.dumps({"fio version": "\x1b[31m<b>"}))
    assert ingest(place / name, place / "x.json", "--as", "seen") == 0
    out, error = capsys.readouterr()
    assert "\x1b" not in out + error
    page = Path("results/seen/report.html").read_text()
    assert "<script>alert" not in page


def test_a_copy_counts_once(outputs: Path, capsys: Capture) -> None:
    shutil.copy(outputs / IOR.name, outputs / "z.csv")
    ingest(outputs, "--as", "seen")
    assert "1: is a copy of another file" in capsys.readouterr().out
    assert len([row for row in load(Path("results/seen")).rows if row.tool == "ior"]) == 6
    assert len(ingested.load(Path("results/seen"))[0].distinct) == 3


def test_show_names_the_file_of_each_result(outputs: Path, capsys: Capture) -> None:
    ingest(outputs, "--as", "seen")
    assert cli.main(["show", "seen", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("fio.data") and str(outputs / FIO.name) in line for line in lines)


def test_what_a_killed_ingest_left_blocks_nobody(outputs: Path) -> None:
    Path("results/seen").mkdir(parents=True)
    Path("results/seen", ingested.RAW).write_bytes(b"of one that was killed before it wrote its document")
    assert ingest(outputs, "--as", "seen") == 0
    assert ingested.damage(Path("results/seen")) == []


def test_a_campaign_that_another_process_makes_is_refused(outputs: Path, capsys: Capture) -> None:
    with Store(Path("results/seen")).locked():
        assert ingest(outputs, "--as", "seen") == 2
        assert "or choose another name" in capsys.readouterr().err
    assert ingest(outputs, "--as", "seen") == 0


def test_replace_leaves_what_was_measured(outputs: Path, capsys: Capture) -> None:
    ingest(outputs / IOR.name, "--as", "seen")
    (Path("results/seen") / "points").mkdir()
    before = Path("results/seen/ingested.json").read_bytes()
    assert ingest(outputs / FIO.name, "--as", "seen", "--replace") == 2
    assert "has results that were measured: choose another name" in capsys.readouterr().err
    assert Path("results/seen/ingested.json").read_bytes() == before
