"""`iosweep report` of a campaign that is being measured: a page of what is stored, apart from the campaign's own."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from campaign import FOUR_AND_EIGHT, Made, document, keep_plan, make
from campaign import Campaign as Whole
from iosweep.commands import cli, live_report
from iosweep.commands.watch.snapshot import Campaign
from iosweep.files import documents
from iosweep.jobs import at_work
from iosweep.jobs.at_work import Holder
from iosweep.results import merge, merged_tables
from locks import left
from waiting import over, wait_for

HERE = "process 12 on n1"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A campaign with three of four repetitions."""
    campaign = Made(tmp_path, make(tmp_path, document(**FOUR_AND_EIGHT)))
    keep_plan(campaign.plan, campaign.results)
    for index, number in ((0, 1), (0, 2), (1, 1)):
        campaign.measured(index, number)
    return campaign


@pytest.fixture
def running(made: Made, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr("iosweep.commands.watch.snapshot.holds", lambda results: Holder(HERE, True))
    monkeypatch.setattr(os, "nice", lambda by: by)  # of the process of all tests
    return made


def files(results: Path) -> dict[str, str]:
    """All files of a campaign but those of the live page -> their hash."""
    found = (file for file in results.rglob("*") if file.is_file())
    return {
        str(file.relative_to(results)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in found
        if merged_tables.LIVE not in file.relative_to(results).parts
    }


def page(results: Path) -> str:
    return (results / "live" / "report.html").read_text()


def head(text: str) -> str:
    """The page from its heading on, on one line."""
    start = text.index("<header")
    return " ".join(text[start : text.index("</header>", start)].split())


def test_the_page_says_that_it_is_not_the_last(running: Made, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(running.results)
    assert cli.main(["report", str(running.results)]) == 0
    assert files(running.results) == before
    told = head(page(running.results))
    assert told.index("Still being measured") < told.index("<h1>")
    assert "3 of 4 repetitions measured when" in told
    assert f"1 node: measuring, {HERE}" in told
    assert "preliminary" in told
    assert f"iosweep report {running.results}" in told
    said = capsys.readouterr().out
    assert f"report: {running.results}/live/report.html" in said
    assert "still being measured" in said


def test_each_page_has_what_is_stored_by_then(running: Made) -> None:
    assert cli.main(["report", str(running.results)]) == 0
    running.measured(1, 2)
    assert cli.main(["report", str(running.results)]) == 0
    assert "4 of 4 repetitions measured when" in head(page(running.results))


def test_its_first_lines_and_its_counts_agree_on_what_is_measured(running: Made) -> None:
    """What will be tried once more is measured, too: its figures are on the page."""
    running.measured(1, 2, record={"retry": "other processes used 40% of the CPUs"})
    assert cli.main(["report", str(running.results)]) == 0
    text = page(running.results)
    assert "4 of 4 repetitions measured when" in head(text)
    assert '<p class="progress">4 of 4 repetitions measured</p>' in text


def test_at_its_end_the_report_says_nothing_of_it(made: Made) -> None:
    made.measured(1, 2)
    assert cli.main(["report", str(made.results)]) == 0
    assert "Still being measured" not in (made.results / "report.html").read_text()
    assert not (made.results / "live").exists()
    assert merged_tables.about(made.results).live is None


def test_a_live_page_is_no_damage_and_no_table_of_the_campaign(running: Made) -> None:
    assert cli.main(["report", str(running.results)]) == 0
    assert merged_tables.damage(running.results) == []
    assert merged_tables.repair(running.results)[0] == ""


def test_asked_for_where_nothing_is_seen(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda by: by)
    assert cli.main(["report", "--live", str(made.results)]) == 0
    assert "Still being measured" in head(page(made.results))
    assert not (made.results / "report.html").exists()


def test_a_host_that_cannot_be_seen_may_measure(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    (made.results / "lock").write_text(left(12, "node17"))
    monkeypatch.setattr(at_work.Queue, "look", lambda *_: None)
    (text,) = live_report.workers(Campaign(made.results).look())
    assert text == "1 node: may be measured by process 12 on node17, whose end cannot be seen from here"


@pytest.mark.parametrize("alive", [True, None])
def test_a_running_campaign_that_cannot_be_read_gets_no_last_page(
    running: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alive: bool | None
) -> None:
    monkeypatch.setattr(live_report, "holds", lambda results: Holder(HERE, alive))

    def stale(*_: object) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), "points")

    monkeypatch.setattr(Campaign, "_read", stale)
    assert cli.main(["report", str(running.results)]) == 1
    assert "it cannot be seen how far" in capsys.readouterr().err
    assert not (running.results / "report.html").exists()


def test_a_run_that_was_killed_is_over(made: Made) -> None:
    (made.results / "lock").write_text(left(12, os.uname().nodename))
    assert live_report.workers(Campaign(made.results).look()) == []


@pytest.mark.local
def test_nothing_of_a_running_campaign_changes(tmp_path: Path, fio: str) -> None:
    campaign = Whole(tmp_path, phase_time="1s", repetitions=6)
    log = (tmp_path / "log").open("wb")
    run = subprocess.Popen(
        campaign.command("--until", "report"),
        cwd=tmp_path,
        env=campaign.environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    command = [sys.executable, "-m", "iosweep", "report", "tiny"]
    try:
        wait_for(lambda: len(campaign.repetitions()) > 1, over=over(run))
        stopped = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        time.sleep(0.5)
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait(timeout=300) != 0
        assert run.poll() is None
        while run.poll() is None:
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr
            if "live/report.html" not in done.stdout:
                break  # the run was about to end
            assert "Still being measured" in page(campaign.results)
        assert run.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    finally:
        run.kill()
        log.close()
    about = documents.read(campaign.results / "campaign.json")
    assert about["live"] is None
    assert "Still being measured" not in (campaign.results / "report.html").read_text()
    assert len(campaign.repetitions()) == 12
    assert campaign.settled()


def test_a_link_in_place_of_the_folder_is_not_followed(
    running: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results may come from others, and the link may name another campaign."""
    other = tmp_path / "other"
    other.mkdir()
    (other / merged_tables.ABOUT).write_text("mine")
    (running.results / merged_tables.LIVE).symlink_to(other)
    assert cli.main(["report", str(running.results)]) == 1
    assert "live is a symbolic link" in capsys.readouterr().err
    assert [(file.name, file.read_text()) for file in other.iterdir()] == [(merged_tables.ABOUT, "mine")]


def test_other_cpus_are_left_to_what_measures(running: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(merge, "ProcessPoolExecutor", lambda *_: pytest.fail("another process"))
    assert cli.main(["report", str(running.results)]) == 0
