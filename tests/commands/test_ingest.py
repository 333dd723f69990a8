"""`iosweep ingest`: outputs of others become a campaign that show, check, list, report and compare take."""

import errno
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.commands import check, cli
from iosweep.report import page
from iosweep.store import ingested
from iosweep.store.store import Store
from iosweep.tables import reader
from iosweep.tables.reader import load

SAMPLES = Path(__file__).parents[1] / "samples"
IOR = SAMPLES / "ior" / "4.0.0" / "posix_fpp_seq_1m_np2_i3_JSON.summary.json"
MDTEST = SAMPLES / "mdtest" / "4.0.0" / "own_W_F.out"
FIO = SAMPLES / "fio" / "s2_nj4_nogr.out"

Capture = pytest.CaptureFixture[str]

RENDER = page.render


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for command in ("ingest", "report"):  # seconds of rendering
        monkeypatch.setattr(f"iosweep.commands.{command}.make_figures", lambda _: None)
    monkeypatch.setattr(page, "render", lambda _: "<html></html>")
    return tmp_path


@pytest.fixture
def outputs(place: Path) -> Path:
    directory = place / "outputs"
    directory.mkdir()
    for file in (IOR, FIO):
        shutil.copy(file, directory)
    shutil.copy(MDTEST, directory / os.fsdecode(b"\xff\x1b[2J.out"))  # drives no terminal, and is no UTF-8
    (directory / "notes.txt").write_text("nothing of a tool")
    (directory / "link").symlink_to("/etc/passwd")
    os.mkfifo(directory / "pipe")
    return directory


def ingest(*arguments: object) -> int:
    return cli.main(["ingest", *map(str, arguments)])


@pytest.fixture
def seen(outputs: Path, capsys: Capture) -> Path:
    """Ingested from these outputs."""
    assert ingest(outputs, "--as", "seen") == 0
    capsys.readouterr()
    return Path("results/seen")


def test_a_directory_becomes_a_campaign(outputs: Path, capsys: Capture, snapshot: SnapshotAssertion) -> None:
    assert ingest(outputs, "--as", "seen") == 0
    assert capsys.readouterr().out == snapshot
    results = Path("results/seen")
    campaign = load(results)
    assert {row.tool for row in campaign.rows} == {"fio", "ior", "mdtest"}
    assert campaign.about.ingested
    assert campaign.about.ingested.files == {"fio": 1, "ior": 1, "mdtest": 1}
    assert reader.find_damage(results) == []
    (one,) = {row.checks_passed for row in campaign.rows if row.verdict == "valid"}
    assert one == 2
    # rows name their file and its hash, and the file is kept
    document, _ = ingested.load(results)
    known = {file.path: file.sha256 for file in document.files}
    text = (results / "results.csv").read_text()
    assert all(path in text and digest in text for path, digest in known.items())
    kept = {file.path: data for file, data in ingested.read_files(results, document.files)}
    assert kept[str(outputs / IOR.name)] == IOR.read_bytes()


def test_the_report_says_that_others_measured(seen: Path) -> None:
    assert "<span>measured by others</span>" in RENDER(seen)


def test_other_commands_take_an_ingested_campaign_and_those_that_measure_refuse_it(
    seen: Path, outputs: Path, capsys: Capture
) -> None:
    assert cli.main(["check", "seen"]) == 1  # its runs are of milliseconds
    assert cli.main(["show", "seen", "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["show", "seen", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("fio.data") and str(outputs / FIO.name) in line for line in lines)
    for command in (["watch", "seen"], ["rerun", "--campaign", "seen", "--invalid"]):
        assert cli.main(command) == 1
        assert "ingested" in capsys.readouterr().err


def test_without_a_usable_result_nothing_is_written_and_check_does_not_pass(place: Path, capsys: Capture) -> None:
    output = SAMPLES / "fio" / "read" / "v42_client2_sections.out"  # of client mode, first section cut out
    document = json.loads(output.read_text())
    document["client_stats"] = [one for one in document["client_stats"] if one["jobname"] != "a_read"]
    (place / "run.json").write_text(json.dumps(document, indent=1))
    (place / "jobs.fio").write_text("[b_write]\nrw=randwrite\nbs=4k\n[c_mix]\nrw=randrw\nbs=4k\n")
    assert ingest("run.json", "--as", "weka") == 1
    assert "job file" in capsys.readouterr().out
    assert not Path("results").exists()
    (place / "both").write_text((place / "jobs.fio").read_text() + (place / "run.json").read_text())
    assert ingest("both", "--as", "weka") == 0
    assert cli.main(["report", "weka"]) == 0  # from what was kept
    assert {row.phase for row in load(Path("results/weka")).rows} == {"rand_write", "rand_mixed"}


def test_report_reads_the_outputs_again(seen: Path, outputs: Path) -> None:
    before = load(seen).rows
    shutil.rmtree(outputs)
    for name in (*reader.FILES, reader.ABOUT):
        (seen / name).unlink()
    assert cli.main(["report", "seen"]) == 0
    assert load(seen).rows == before
    assert not check.read_condition(seen).stale
    about = reader.documents.read(seen / reader.ABOUT) | {"plan_digest": "other"}
    (seen / reader.ABOUT).write_bytes(reader.documents.dump(about))
    assert check.read_condition(seen).stale


def test_changed_lost_or_linked_outputs_are_damage_and_make_no_tables(seen: Path, capsys: Capture) -> None:
    for name in (ingested.INGESTED, ingested.RAW):
        file, whole = seen / name, (seen / name).read_bytes()
        data = bytearray(whole)
        data[len(data) // 2 if name == ingested.INGESTED else -30] ^= 1
        for how in ("changed", "link"):
            file.write_bytes(data)
            if how == "link":
                file.unlink()
                file.symlink_to("/etc/passwd")
            for command in ("check", "report"):
                assert cli.main([command, "seen"]) == 1, (name, how)
                assert name in "".join(capsys.readouterr())
            file.unlink()
        file.write_bytes(whole)
    document, _ = ingested.load(seen)
    with zipfile.ZipFile(seen / ingested.RAW, "w") as archive:  # another content
        for known in document.files:
            archive.writestr(known.sha256, b"x" * known.bytes)
    assert cli.main(["report", "seen"]) == 1


def test_what_cannot_be_is_refused_before_anything_is_done(outputs: Path, capsys: Capture) -> None:
    Path("results/measured/plans").mkdir(parents=True)
    before = sorted(Path().rglob("*"))
    for arguments, code in (
        (["outputs/notes.txt", "--as", "x"], 1), (["gone.txt", "--as", "x"], 2), (["outputs", "--as", "../x"], 2),
        ([".", "--as", "x"], 2), (["outputs", "--as", "measured"], 2),
    ):  # fmt: skip
        assert ingest(*arguments) == code, arguments
        assert capsys.readouterr().err
        assert sorted(Path().rglob("*")) == before, arguments


def test_replace_replaces_what_was_ingested(outputs: Path) -> None:
    ingest(outputs, "--as", "seen")
    assert ingest(outputs / IOR.name, "--as", "seen") == 2
    assert ingest(outputs / "notes.txt", "--as", "seen", "--replace") == 1
    assert len(ingested.load(Path("results/seen"))[0].files) == 3  # the old one is whole
    assert ingest(outputs / IOR.name, "--as", "seen", "--replace") == 0
    assert len(ingested.load(Path("results/seen"))[0].files) == 1
    assert check.read_condition(Path("results/seen")).damaged == []


def test_a_copy_counts_once(outputs: Path, capsys: Capture) -> None:
    shutil.copy(outputs / IOR.name, outputs / "z.csv")
    ingest(outputs, "--as", "seen")
    assert "is a copy" in capsys.readouterr().out
    assert len([row for row in load(Path("results/seen")).rows if row.tool == "ior"]) == 6
    assert len(ingested.load(Path("results/seen"))[0].files) == 3


def test_what_a_killed_ingest_left_blocks_nobody(outputs: Path) -> None:
    Store(Path("results/seen")).mark()
    Path("results/seen", ingested.RAW).write_bytes(b"of one that was killed before it wrote its document")
    assert ingest(outputs, "--as", "seen") == 0
    assert ingested.find_damage(Path("results/seen")) == []


def test_a_campaign_that_another_process_makes_is_refused(outputs: Path) -> None:
    with Store(Path("results/seen")).locked():
        assert ingest(outputs, "--as", "seen") == 2
    assert ingest(outputs, "--as", "seen") == 0


def test_a_full_disk_leaves_what_was_to_be_replaced(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(outputs / IOR.name, "--as", "seen")
    files = [Path("results/seen") / name for name in (ingested.INGESTED, ingested.RAW)]
    before = [file.read_bytes() for file in files]

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("zipfile.ZipFile.writestr", full)
    assert ingest(outputs / FIO.name, "--as", "seen", "--replace") == 1
    assert [file.read_bytes() for file in files] == before
