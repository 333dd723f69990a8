"""What happens to campaigns on a real Slurm with profiles/slurm, from the first job to the report."""

import itertools
import re
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from iosweep.store.record import Refusal
from slurm import Cluster
from slurm_campaign import WRITES, SlurmCampaign, Stage, mounted, story, told, until

#: Three tools on one node and on two.
OPTIONS: dict[str, Any] = WRITES["options"] | {"threads_per_node": 2}
BOTH: dict[str, Any] = {"axes": {"nodes": [1, 2]}}
IOR: dict[str, Any] = WRITES | BOTH | {"name": "i", "tool": "ior", "options": OPTIONS}
MDTEST: dict[str, Any] = BOTH | {
    "name": "m", "tool": "mdtest", "phases": ["create", "stat", "delete"], "options": {"files_per_thread": 10},
    "repetitions": 1,
}  # fmt: skip
ONE: dict[str, Any] = WRITES | {"axes": {"nodes": [1]}}


@story()
def test_three_tools_on_one_node_and_two_are_measured_merged_and_reported(stage: Stage) -> None:
    """At first the partition is made too small for two: that job would wait for ever, and is ended."""
    cluster = stage.cluster
    campaign = SlurmCampaign(stage, [IOR, MDTEST, WRITES | BOTH])
    with mounted(cluster, campaign.target):
        hold = ["sbatch", "--parsable", "--nodes=2", "--output=/dev/null", f"--partition={stage.partition}"]
        before_us = cluster.run([*hold, "--wrap=sleep 600"]).stdout
        run = campaign.start("--until", "tables")
        until(lambda: len(stage.squeue()) == 3, campaign.over)
        cluster.run(["scontrol", "update", f"partition={stage.partition}", "maxnodes=1"])
        cluster.run(["scancel", before_us.strip()])
        assert run.end() == 1, run.said()
        assert "PartitionNodeLimit" in run.said()
        cluster.run(["scontrol", "update", f"partition={stage.partition}", "maxnodes=unlimited"])
        assert {row["nodes"] for row in campaign.table() if row["verdict"] == "missing"} == {2}
        one = campaign.committed()
        assert len(campaign.records()) == 3

        campaign.snakemake("--until", "report")
        campaign.complete()
        assert one.items() <= campaign.committed().items()
    rows = campaign.table()
    assert len(rows) == 2 * (1 + 3 + 1)
    assert "missing" not in {row["verdict"] for row in rows}
    for record in campaign.records():
        hosts = set(record["hosts"])  # one node is either: the first may still be completing a job
        assert len(hosts) == len(record["hosts"]) == 1 + ("2n" in record["point"])
        assert hosts == set(record["nodes"]) <= set(stage.nodes)
    assert {row["host"] for row in campaign.table("nodes")} == set(stage.nodes)
    assert {row["host"] for row in campaign.table("node_rates")} - {""} == set(stage.nodes)
    assert (campaign.results / "report.html").exists()
    assert campaign.settled()


@story()
def test_after_ctrl_c_and_after_a_killed_snakemake_the_same_command_goes_on(stage: Stage) -> None:
    """Ctrl-C ends its job. The job of the killed one lives on, and the run after it waits for that."""
    campaign = SlurmCampaign(stage, [WRITES | {"repetitions": 8}])
    with mounted(stage.cluster, campaign.target):
        campaign.allow(2)
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(2)
        run.process.signal_group(signal.SIGINT)
        assert run.end() != 0
        campaign.nothing_lives()
        until(lambda: not stage.squeue())
        first = campaign.committed()

        campaign.allow(2)
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(len(campaign.records()) + 2)
        run.process.kill()
        run.end()
        [job] = stage.squeue()
        assert job.state == "RUNNING"
        run = campaign.start("--until", "tables")
        run.says("jobs of an earlier run")
        campaign.go_on()
        assert run.end() == 0, run.said()
        campaign.complete()
    assert first.items() <= campaign.committed().items()
    assert len(campaign.jobs()) == 2  # the one that lived on went to the end


@story()
def test_no_repetition_is_lost_or_measured_twice_when_runner_job_and_nodes_die(stage: Stage) -> None:
    """The runner is killed; the next job is cancelled; then the second node dies, and then the first."""
    cluster = stage.cluster
    campaign = SlurmCampaign(stage, [WRITES | {"repetitions": 6}])
    with mounted(cluster, campaign.target):
        campaign.allow(1)
        run = campaign.start("--until", "tables")

        def runner_dies() -> None:
            campaign.runner().kill()

        def job_is_cancelled() -> None:
            [job] = stage.squeue()
            cluster.run(["scancel", str(job.id)])

        for happens in (runner_dies, job_is_cancelled, *stage.nodes[::-1]):
            campaign.wait_for_records(len(campaign.records()) + 1)
            before = campaign.committed()
            if isinstance(happens, str):
                cluster.kill_node(happens, noticed=True)
                until(lambda: [job.state for job in stage.squeue()] == ["PENDING"], campaign.over)
            else:
                happens()
            campaign.allow(1)
            if isinstance(happens, str):
                cluster.start_node(happens)
            assert before.items() <= campaign.committed().items()
        campaign.go_on()
        assert run.end() == 0, run.said()
        campaign.complete()
    assert len(campaign.jobs()) == 5
    asked = re.findall(r"(\d) repetitions? left, .*; asks for 2 nodes for (\d+ min)", run.said())
    assert len({time for _, time in asked}) == 1  # a job that measured something was not too short


@story()
def test_a_job_ends_by_itself_before_its_time_limit_and_another_goes_on(stage: Stage) -> None:
    """Jobs of 5 minutes and phases of 3. The first one lasts until there is no time for another."""
    campaign = SlurmCampaign(stage, [ONE | {"phase_time": "3min", "repetitions": 2}], runtime="5")
    campaign.allow(0, nodes=1)
    with mounted(stage.cluster, campaign.target):
        run = campaign.start("--until", "tables")
        [measures] = until(lambda: campaign.processes("--name=seq_write"), campaign.over)
        ends = told(stage.cluster, measures.environ()["SLURM_JOB_ID"])["EndTime"]
        until(lambda: datetime.now() > datetime.fromisoformat(ends) - timedelta(minutes=3), campaign.over)
        campaign.go_on()
        assert run.end() == 0, run.said()
        campaign.complete()
    states = [told(stage.cluster, job)["JobState"] for job in campaign.jobs()]
    assert states == ["FAILED", "COMPLETED"]  # none was ended by Slurm


@story()
def test_a_node_that_loses_the_target_is_left_out_of_the_next_job(stage: Stage) -> None:
    campaign = SlurmCampaign(stage, [ONE | {"repetitions": 2}])
    with mounted(stage.cluster, campaign.target):
        campaign.allow(1, nodes=1)
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(1)
        [[first]] = [record["hosts"] for record in campaign.records()]
        stage.cluster.run(["mount", "-t", "tmpfs", "lost", campaign.target], on=first)
        campaign.go_on()
        assert run.end() == 0, run.said()
        stage.cluster.run(["umount", campaign.target], on=first)
        campaign.complete()
    assert {host for record in campaign.records() for host in record["hosts"]} == set(stage.nodes)


@story()
def test_no_two_campaigns_measure_one_file_system_at_once(stage: Stage) -> None:
    """With a license Slurm runs one after the other; without, the second is refused, and its next job waits."""
    with_license = {"licenses": '"pfs"'}
    one = SlurmCampaign(stage, [ONE], "one", **with_license)
    two = SlurmCampaign(stage, [ONE], "two", **with_license)
    bare = SlurmCampaign(stage, [ONE], "bare")
    with mounted(stage.cluster, stage.place / "fs"):
        for campaign in (one, two, bare):
            campaign.target = stage.place / "fs" / campaign.name
            stage.cluster.run(["mkdir", campaign.target])
            campaign.configure()
        one.allow(0, nodes=1)
        runs = [one.start("--until", "tables")]
        until(lambda: one.processes("--name=seq_write"), one.over)
        runs += [two.start("--until", "tables"), bare.start("--until", "tables")]
        until(lambda: {"Licenses", "Dependency"} <= {job.reason for job in stage.squeue()}, two.over)
        one.go_on()
        for run in runs:
            assert run.end() == 0, run.said()
        for campaign in (one, two, bare):
            campaign.complete()
    spans = []
    for campaign in (one, two, bare):
        [record] = campaign.records()
        exclusive = record["phases"][0]["exclusive"]
        assert exclusive["enforced"] or campaign is bare, exclusive
        spans.append((record["started"], record["ended"]))
    spans.sort()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))


@story()
def test_what_another_node_refuses_too_is_not_tried_a_third_time(stage: Stage) -> None:
    campaign = SlurmCampaign(stage, [ONE])
    campaign.target.rmdir()
    run = campaign.start("--until", "tables")
    assert run.end() == 1
    jobs = re.findall(r"job (\d+) was submitted", run.said())
    assert sorted(told(stage.cluster, job)["NodeList"] for job in jobs) == sorted(stage.nodes)
    assert "No job memory" not in run.said()
    [refusal] = campaign.store.documents(Refusal).values()
    assert not refusal.lasting
    assert (campaign.results / "report.html").exists()


@story(nodes=4)
def test_a_ramp_over_nodes_has_a_job_for_each_count_which_confirms_its_best(stage: Stage) -> None:
    """A node saturates the file system. The largest count is measured in any case."""
    climbed = WRITES | {
        "axes": {"nodes": [1, 2, 3, 4], "transfer_size": ["4k", "8k"]}, "repetitions": 2, "ramp": "nodes", "confirm": 3,
        "options": {key: value for key, value in WRITES["options"].items() if key != "transfer_size"},
    }  # fmt: skip
    campaign = SlurmCampaign(stage, [climbed])
    rules = []
    for nodes in (1, 2, 3, 4):
        for size, all_together in ((4096, 240), (8192, 480)):
            rate, ops = all_together / nodes, (256 << 10) / size
            when = rf"\.seq_write\.{nodes}n\.1t\.{size >> 10}k\."
            rules.append({"when": when, "ops_per_s": rate, "sleep_s": ops / rate + 0.05})
    campaign.play(*rules)
    with mounted(stage.cluster, campaign.target):
        said = campaign.snakemake()
        again = campaign.snakemake("-n")
    assert sorted(re.findall(r"(\d) nodes?: job \d+ was submitted", said)) == ["1", "2", "3", "4"]
    assert re.search("Nothing to be done|nothing left", again), again
    rows = campaign.table()
    assert "missing" not in {row["verdict"] for row in rows}
    assert {row["nodes"] for row in rows if row["confirms"]} == {1, 2, 3, 4}
    assert len(campaign.jobs()) == 4
    campaign.nothing_lives()


def test_a_job_goes_on_while_the_controller_is_down_and_the_configuration_another(
    slurm_alone: Cluster, tmp_path: Path
) -> None:
    """The configuration is prepared for the next campaign while its job waits; the job ends unseen."""
    cluster, stage = slurm_alone, Stage(slurm_alone, ("n3",), "spec", tmp_path)
    campaign = SlurmCampaign(stage, [ONE | {"repetitions": 2}])
    with mounted(cluster, campaign.target):
        campaign.allow(1, nodes=1)
        hold = ["sbatch", "--parsable", "--partition=spec", "--exclusive", "--output=/dev/null", "--wrap=sleep 600"]
        before_us = cluster.run(hold).stdout.strip()
        run = campaign.start("--until", "tables")
        until(lambda: len(cluster.squeue()) == 2, campaign.over)
        written = campaign.file.read_text()
        campaign.file.write_text("campaign: another\nsweeps: soon\n")
        cluster.run(["scancel", before_us])
        campaign.wait_for_records(1)
        number = (cluster.state / "slurmctld.pid").read_text().strip()
        cluster.run(["kill", number])
        until(lambda: cluster.run(["kill", "-0", number], check=False).returncode)
        campaign.go_on()
        assert run.end() == 0, run.said()  # the manifest is enough
        until(lambda: not campaign.processes("measure"))
        cluster.run(["slurmctld"], stdout=None, stderr=None)
        campaign.file.write_text(written)
        campaign.complete()
    assert campaign.settled()
