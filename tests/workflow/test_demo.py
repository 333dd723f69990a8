"""`make demo`'s campaign, whole, with the real fio on this machine's file system."""

from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from campaign import ROOT, Campaign

pytestmark = pytest.mark.local


def test_the_demo_measures_what_it_promises_and_its_second_run_nothing(tmp_path: Path, fio: Path) -> None:
    campaign = Campaign(tmp_path, real=True)
    campaign.results = tmp_path / "results" / "demo"
    campaign.file = tmp_path / "demo.yaml"
    # its target is the directory that it is run in; whoever else measures this disk now has a lock of his own, too
    text = (ROOT / "config/examples/demo.yaml").read_text()
    campaign.file.write_text(text.replace("target:\n", f"target:\n  lock: {campaign.lock}\n"))
    output = campaign.snakemake()
    assert "results/demo/report.html" in output
    rows = parquet.read_table(campaign.results / "results.parquet").to_pylist()
    phases = {"seq_write", "seq_read", "rand_write", "rand_read", "create", "stat", "delete"}
    assert {row["phase"] for row in rows if row["ops_per_s"]} == phases
    assert (campaign.results / "report.html").stat().st_size > 0
    assert {f.suffix for f in (campaign.results / "figures").iterdir()} >= {".svg", ".png"}
    assert sum(file.stat().st_blocks * 512 for file in tmp_path.rglob("*") if file.is_file()) < 2 << 30
    assert "Nothing to be done" in campaign.snakemake()
