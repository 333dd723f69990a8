"""Ramps over nodes and confirmed best points on a real Slurm: what is stored decides what the next job measures."""

import json
import re
from typing import Any

import pytest

from slurm_campaign import STORIES, WRITES, SlurmCampaign, Stage, Stories, mounted, told, told_stories  # noqa: F401

pytestmark = pytest.mark.local

#: So few I/Os that none of them is written twice.
OPTIONS = {**WRITES["options"], "file_size": "2m"}
CLIMBED: dict[str, Any] = WRITES | {
    "axes": {"nodes": [1, 2, 3, 4]}, "options": OPTIONS | {"transfer_size": "4k"}, "phase_time": "1s",
    "repetitions": 2, "ramp": "nodes",
}  # fmt: skip
CONFIRMED: dict[str, Any] = WRITES | {
    "axes": {"nodes": [1, 2], "transfer_size": ["4k", "8k"]}, "phase_time": "1s", "repetitions": 2, "confirm": 3,
    "options": {key: value for key, value in OPTIONS.items() if key != "transfer_size"},
}  # fmt: skip


def shown(campaign: SlurmCampaign, *arguments: str) -> str:
    return str(campaign.cluster.run(["iosweep", *arguments], cwd=campaign.place).stdout)


def once(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def ramp_over_nodes(stage: Stage) -> None:
    """A node saturates the file system: the job of four nodes measures nothing, and says why."""
    cluster = stage.cluster
    cluster.run(["scontrol", "update", "nodename=b1", "weight=100"])  # taken last: its CPUs are not there
    cluster.run(["scontrol", "create", "partitionname=all", "nodes=n[1-3],b1", "maxtime=60"])
    try:
        campaign = SlurmCampaign(stage, [CLIMBED], slurm_partition='"all"')
        campaign.lie("shared")
        with mounted(cluster, campaign.target):
            forecast = campaign.snakemake("-n")
            said = campaign.snakemake()
            again = campaign.snakemake("-n")
    finally:
        cluster.run(["scontrol", "delete", "partitionname=all"], check=False)  # its last job may be just ending
        cluster.run(["scontrol", "update", "nodename=b1", "weight=1"])
    assert sorted(re.findall(r"measure (\d) nodes?: 1 point, 2 repetitions left", forecast)) == ["1", "2", "3", "4"]
    assert sorted(re.findall(r"(\d) nodes?: job \d+ was submitted", said)) == ["1", "2", "3", "4"]
    assert re.search("Nothing to be done|nothing left", again), again

    rows = {(row["nodes"], row["repetition"]): row for row in campaign.table()}
    assert set(rows) == {(nodes, number) for nodes in (1, 2, 3) for number in (1, 2)} | {(4, None)}
    last = rows[4, None]
    assert (last["verdict"], last["left"], last["unneeded"]) == ("missing", False, True)
    assert last["reasons"] == "not needed: no certain gain above 1 node"
    [log] = (campaign.results / "logs").glob("4-nodes.log")
    assert "nothing to measure: not needed: no certain gain above 1 node" in log.read_text()
    jobs = re.findall(r"4 nodes: job (\d+) was submitted", said)
    assert told(cluster, jobs[0])["JobState"] == "COMPLETED"
    assert len({record["slurm"]["job"] for record in campaign.records()}) == 3

    assert "2 unneeded: not needed: no certain gain above 1 node" in said
    assert re.search(r"Sequential write: 95 % of the peak at 1( to \d)? nodes?\n", said), said
    assert shown(campaign, "check", "tiny").startswith("tiny: 6 repetitions:")  # it ends with 0
    [knee] = json.loads(shown(campaign, "show", "tiny", "--json"))["knees"]
    assert (knee["axis"], knee["values"], knee["saturated"]) == ("nodes", [1, 2, 3], True)
    campaign.nothing_lives()


def confirmed_over_allocations(stage: Stage) -> None:
    """Each node count confirms its best point in its own job; the headline is the best of all."""
    campaign = SlurmCampaign(stage, [CONFIRMED])
    campaign.lie("slow")
    with mounted(stage.cluster, campaign.target):
        forecast = campaign.snakemake("-n")
        said = campaign.snakemake()
        again = campaign.snakemake("-n")
    assert re.findall(r"(\d) nodes?: 2 points, 7 repetitions left", forecast) in (["1", "2"], ["2", "1"])
    assert re.search("Nothing to be done|nothing left", again), again

    rows = campaign.table()
    fresh = [row for row in rows if row["confirms"]]
    assert len(rows) == 14 and {row["repetition"] for row in fresh} == {3, 4, 5}
    assert {(row["nodes"], row["transfer_size_bytes"]) for row in fresh} == {(1, 8192), (2, 8192)}
    assert len({(row["nodes"], row["slurm_job"]) for row in rows}) == 2
    for nodes in (1, 2):
        [log] = (campaign.results / "logs").glob(f"{nodes}-node*.log")
        assert "the best point is measured again, to confirm the choice" in log.read_text()

    assert "best of 4 points, confirmed by 3 fresh repetitions" in once(said)
    document = json.loads(shown(campaign, "show", "tiny", "--json"))
    [headline] = [one for one in document["headlines"] if one["column"] == "bandwidth_bytes_per_s"]
    assert (headline["confirmed"], headline["best_of"], headline["figure"]["n"]) == (True, 4, 3)
    assert headline["point"].startswith("fio.seq_write.2n.1t.8k.")
    assert shown(campaign, "check", "tiny").startswith("tiny: 14 repetitions:")
    assert "confirmed by 3 fresh repetitions" in once((campaign.results / "report.html").read_text())
    campaign.nothing_lives()


OURS = {"ramp_over_nodes": ramp_over_nodes, "confirmed_over_allocations": confirmed_over_allocations}
STORIES.update(OURS)


@pytest.mark.parametrize("story", OURS)
def test_story(stories: Stories, story: str) -> None:
    stories.end(story)
