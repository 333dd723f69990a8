"""`make demo`'s campaign, whole, on this machine's file system."""

import json
import re
from collections import Counter

import pyarrow.parquet as parquet
import pytest

from campaign import ROOT, Campaign

pytestmark = pytest.mark.local

LOAD = r"other processes used|others (read|wrote) |the hypervisor withheld|ran for \S+ s where"
#: What phases of a quarter of a second show on a disk that is shared, however quiet the machine is.
SCATTER = "not repeatable"


@pytest.fixture(scope="module")
def demo(tmp_path_factory, fio):
    campaign = Campaign(tmp_path_factory.mktemp("demo"))
    campaign.name = "demo"
    campaign.results = campaign.place / "results" / "demo"
    campaign.file = campaign.place / "demo.yaml"
    # its target is the directory that it is run in
    text = (ROOT / "config/examples/demo.yaml").read_text()
    # whoever else measures this disk now has a lock of his own, too
    text = text.replace("target:\n", f"target:\n  lock: {campaign.lock}\n")
    campaign.file.write_text(text)
    campaign.output = campaign.snakemake()
    return campaign


def test_the_demo_measures_what_it_promises(demo):
    rows = parquet.read_table(demo.results / "results.parquet").to_pylist()
    phases = {"seq_write", "seq_read", "rand_write", "rand_read", "create", "stat", "delete"}
    assert {row["phase"] for row in rows} == phases
    # nothing is invalid or missing, and what is suspect is so because this machine did something else meanwhile:
    # on a clean machine at least 80 % are valid
    undisturbed = [row for row in rows if not re.search(f"{LOAD}|{SCATTER}", row["reasons"])]
    assert {row["verdict"] for row in rows} <= {"valid", "suspect"}
    suspect = Counter(row["reasons"] for row in undisturbed if row["verdict"] != "valid")
    assert suspect.total() <= 0.2 * len(undisturbed), suspect


def test_the_demo_ends_with_the_headline_and_the_path(demo):
    for text in ("Sequential write", "Random read latency", "Create", "not checked", "not comparable with mdtest"):
        assert text in demo.output
    assert "report: results/demo/report.html" in demo.output
    # progress with a time to go
    assert "to go" in demo.output


def test_the_demo_stays_small(demo):
    used = sum(file.stat().st_blocks * 512 for file in demo.place.rglob("*") if file.is_file())
    assert used < 2 << 30


def test_what_the_demo_wrote_is_counted(demo):
    written = parquet.read_table(demo.results / "results.parquet", columns=["bytes_written"]).column(0).to_pylist()
    counted = json.loads((demo.results / "spent.json").read_text())["bytes_written"]
    sets = 2 * 4 * (32 << 20)  # one to read and one to write over, for four threads
    assert counted == sum(filter(None, written)) + sets
    assert counted <= 4 << 30


def test_the_demo_again_is_nothing(demo):
    assert "Nothing to be done" in demo.snakemake()
