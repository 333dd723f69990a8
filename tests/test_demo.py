"""`make demo`'s campaign, whole, on this machine's file system: with phases of 0.25 s, and under --soak as it is
shipped."""

import os
import shutil
import subprocess

import pandas as pd
import pytest

from campaign import ROOT, Campaign

LOAD = r"other processes used|the hypervisor withheld|ran for \S+ s where"


@pytest.fixture(scope="module")
def demo(tmp_path_factory, fio, soak):
    campaign = Campaign(tmp_path_factory.mktemp("demo"))
    campaign.name = "demo"
    campaign.results = campaign.place / "results" / "demo"
    campaign.file = campaign.place / "demo.yaml"
    # its target is the directory that it is run in
    text = (ROOT / "config/examples/demo.yaml").read_text()
    assert text.count("phase_time: 1s") == 2
    # whoever else measures this disk now has a lock of his own, too
    text = text.replace("target:\n", f"target:\n  lock: {campaign.lock}\n")
    campaign.file.write_text(text if soak else text.replace("phase_time: 1s", "phase_time: 250ms"))
    campaign.output = campaign.snakemake()
    return campaign


def test_the_demo_measures_what_it_promises(demo):
    rows = pd.read_parquet(demo.results / "results.parquet")
    phases = {"seq_write", "seq_read", "rand_write", "rand_read", "create", "stat", "delete"}
    assert set(rows.phase) == phases
    # nothing is invalid or missing, and what is suspect is so because this machine did something else meanwhile:
    # on a clean machine at least 80 % are valid
    undisturbed = rows[~rows.reasons.str.contains(LOAD)]
    assert set(rows.verdict) <= {"valid", "suspect"}
    assert (undisturbed.verdict != "valid").sum() <= 0.2 * len(undisturbed), undisturbed.reasons.value_counts()


def test_the_demo_ends_with_the_headline_and_the_path(demo):
    for text in ("Sequential write", "Random read latency", "Create", "not checked", "not comparable with mdtest"):
        assert text in demo.output
    assert "report: results/demo/report.html" in demo.output
    # progress with a time to go
    assert "to go" in demo.output


def test_the_demo_stays_small(demo):
    used = sum(file.stat().st_blocks * 512 for file in demo.place.rglob("*") if file.is_file())
    assert used < 2 << 30


def test_the_demo_again_is_nothing(demo):
    assert "Nothing to be done" in demo.snakemake()


@pytest.mark.parametrize(
    ("workflow", "shown"), [("true", True), ("mkdir -p results/demo; date > results/demo/report.html", False)]
)
@pytest.mark.parametrize("code", [0, 1])
def test_make_demo_always_ends_with_the_headline(tmp_path, workflow, shown, code):
    """The workflow shows it where it made a report; `make demo` does where nothing was left. Programs are stand-ins."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    stand_ins = {
        "scripts/make-venv": "exit 0", "scripts/debian-packages": "exit 0", ".venv/bin/fio": "exit 0",
        ".venv/bin/snakemake": f'echo "$@"; {workflow}; exit {code}', ".venv/bin/iosweep": 'echo "iosweep $@"',
    }  # fmt: skip
    for name, script in stand_ins.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    done = subprocess.run(
        ["make", "demo"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False,
        env={"PATH": f"{tmp_path}/.venv/bin{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert (done.returncode == 0) == (code == 0)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert lines == ["--profile profiles/local --configfile config/examples/demo.yaml", *["iosweep show demo"] * shown]
