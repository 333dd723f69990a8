"""A deployed copy: a Snakefile elsewhere that takes the rules as a module, with the handlers of docs/workflow.md."""

from pathlib import Path

import pytest

from campaign import ROOT, Campaign

pytestmark = pytest.mark.local

SNAKEFILE = """\
configfile: "config/sweep.yaml"


module iosweep:
    snakefile:
        "{snakefile}"
    config:
        config


use rule * from iosweep


onstart:
    iosweep.onstart()


onerror:
    iosweep.onerror(log=log)


onsuccess:
    iosweep.onsuccess()
"""


class Deployed(Campaign):
    """Its directory has workflow/Snakefile and config/sweep.yaml, and nothing else of ours."""

    def __init__(self, place: Path, profile: str):
        self.profile = ROOT / "profiles" / profile
        for name in ("workflow", "config"):
            (place / name).mkdir()
        (place / "workflow/Snakefile").write_text(SNAKEFILE.format(snakefile=ROOT / "Snakefile"))
        super().__init__(place)
        self.file = self.file.rename(place / "config/sweep.yaml")

    def command(self, *arguments: str) -> list[str]:
        snakemake, *_ = super().command()
        return [snakemake, "--profile", str(self.profile), *arguments]


def test_it_measures_and_settles(tmp_path: Path, fio: Path) -> None:
    deployed = Deployed(tmp_path, "local")
    output = deployed.run("--until", "report")
    assert "measure 1 node: 2 points, 4 repetitions left" in output
    assert "4 of 4 repetitions measured" in output, "onsuccess"
    assert (deployed.results / "report.html").stat().st_size > 0
    assert "measure" not in deployed.snakemake("-n", "--until", "report")


@pytest.mark.parametrize("profile", ["local", "slurm"])
def test_a_dry_run(tmp_path: Path, profile: str) -> None:
    output = Deployed(tmp_path, profile).snakemake("-n")
    assert "measure 1 node: 2 points, 4 repetitions left" in output
    assert not (tmp_path / "results").exists()


def test_a_target_that_is_gone(tmp_path: Path) -> None:
    """onstart looks for it before any rule runs."""
    deployed = Deployed(tmp_path, "local")
    deployed.target.rename(tmp_path / "elsewhere")
    assert "does not exist" in deployed.run(code=1)
    assert not (deployed.results / "plans").exists()


def test_a_run_that_fails(tmp_path: Path) -> None:
    """onerror ends it with the reason and what to do."""
    deployed = Deployed(tmp_path, "local")
    theirs = deployed.target / f"iosweep-{deployed.results.name}"
    theirs.mkdir()
    (theirs / "file").touch()
    output = deployed.run(code=1)
    assert "iosweep: what was measured is stored; the same command goes on from there" in output
