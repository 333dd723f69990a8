"""Folders of the results that lead elsewhere, met by the real Snakefile."""

from pathlib import Path

import pytest

from campaign import Campaign

pytestmark = pytest.mark.local


@pytest.mark.parametrize("arguments", [[], ["-n"]])
def test_nothing_is_written_to_what_a_link_leads_to(arguments: list[str], tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "merge.log").write_text("theirs")
    campaign.results.mkdir(parents=True)
    (campaign.results / "logs").symlink_to(foreign)
    said = campaign.snakemake(*arguments, code=1)
    assert "results/tiny/logs: it is a symbolic link, where a run writes" in said
    assert {file.name: file.read_text() for file in foreign.iterdir()} == {"merge.log": "theirs"}
    assert [path.name for path in campaign.results.iterdir()] == ["logs"]


def test_a_dry_run_makes_no_directory(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    assert "measure 1 node" in campaign.dry()
    assert not campaign.results.parent.exists()
