"""Campaigns on a real Slurm with profiles/slurm, to the report; and the faults `run/` of fault_outcomes.tsv."""

import contextlib
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import slurm as clusters
import spack as standin
from fault_outcomes import outcomes, tells
from slurm_campaign import (
    RANKS,
    STORIES,
    WRITES,
    Case,
    SlurmCampaign,
    Stage,
    Stories,
    mounted,
    script,
    told,
    told_stories,  # noqa: F401
    until,
)

pytestmark = pytest.mark.local

ROWS = outcomes("run")
#: Three tools on one node and on two.
IOR: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write", "seq_read"], "axes": {"nodes": [1, 2]}, "phase_time": "1s",
    "options": {"threads_per_node": 2, "file_size": "2m", "transfer_size": "64k", "o_direct": False}, "repetitions": 1,
}  # fmt: skip
MDTEST: dict[str, Any] = {
    "name": "m", "tool": "mdtest", "phases": ["create", "stat", "delete"], "axes": {"nodes": [1, 2]},
    "options": {"files_per_thread": 20_000}, "repetitions": 1,
}  # fmt: skip
FIO: dict[str, Any] = {
    "name": "f", "tool": "fio", "phases": ["rand_read"], "axes": {"nodes": [1, 2]}, "phase_time": "300ms",
    "options": {"file_size": "1m", "transfer_size": "4k", "o_direct": False}, "repetitions": 1,
}  # fmt: skip
#: Short phases one after the other, to be stopped in the middle of.
MANY: dict[str, Any] = WRITES | {"phase_time": "1s"}


#: story -> the rows that it shows
SHOWN: dict[str, tuple[str, ...]] = {}


def story(*rows: str) -> Callable[[Callable[[Stage], None]], None]:
    """Register a story under its function's name."""

    def register(tell: Callable[[Stage], None]) -> None:
        STORIES[tell.__name__] = tell
        SHOWN[tell.__name__] = rows

    return register


def holds(key: str, ended: int, said: str, campaign: SlurmCampaign | None = None) -> None:
    """See that a run did as its row says."""
    row = ROWS[key]
    assert ended == row.ends, said
    assert tells(row.said, said), said
    if campaign:
        assert ended == 0 or (campaign.results / "report.html").exists(), said
        hit = [r for r in campaign.table() if r["verdict"] not in ("valid", "suspect")]
        assert {r["verdict"] for r in hit} == ({row.verdict} if row.verdict else set()), [r["reasons"] for r in hit]


@story("run/controller-down", "run/configuration-changed")
def out_of_sight(stage: Stage) -> None:
    """The configuration is prepared for the next campaign while its job waits; the job ends while the controller is
    down."""
    cluster = stage.cluster
    campaign = SlurmCampaign(stage, [MANY | {"axes": {"nodes": [1]}, "repetitions": 2}], slurm_partition='"spec"')
    campaign.slow()
    campaign.allow(1)
    with mounted(cluster, campaign.target):
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
        run.says("it will be asked again")
        campaign.allow(None)
        code = run.end()  # the manifest is enough
        until(lambda: not campaign.processes("measure"))
        cluster.run(["slurmctld"], stdout=None, stderr=None)
        for key in SHOWN["out_of_sight"]:
            holds(key, code, run.said(), campaign)
        campaign.file.write_text(written)
    campaign.once()
    campaign.nothing_lives()
    assert campaign.settled()


@story("run/job-out-of-time")
def job_out_of_time(stage: Stage) -> None:
    """90 s of points as the forecast says, in jobs of a minute."""
    sweep = MANY | {"axes": {"nodes": [1], "queue_depth": [1, 2]}, "repetitions": 32}  # never in less than 64 s
    campaign = SlurmCampaign(stage, [sweep], runtime="1", slurm_partition='"spec"')
    campaign.slow()
    with mounted(stage.cluster, campaign.target):
        run = campaign.start("--until", "tables")
        holds("run/job-out-of-time", run.end(), run.said(), campaign)
    campaign.once()
    assert len(campaign.records()) == 64
    jobs = sorted({record["slurm"]["job"] for record in campaign.records()}, key=int)
    assert len(jobs) > 1
    states = [told(stage.cluster, job)["JobState"] for job in jobs]
    assert states == ["FAILED"] * (len(jobs) - 1) + ["COMPLETED"]  # none was ended by Slurm


@story("run/interrupted", "run/snakemake-killed")
def interrupted(stage: Stage) -> None:
    """Ctrl-C, and then SIGKILL; its job lives on, and the run after it waits for that."""
    campaign = SlurmCampaign(stage, [MANY | {"repetitions": 8}])
    campaign.slow()
    campaign.allow(2)
    with mounted(stage.cluster, campaign.target):
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(2)
        run.process.signal_group(signal.SIGINT)
        holds("run/interrupted", run.end(), run.said(), campaign)
        campaign.nothing_lives()
        until(lambda: not stage.cluster.squeue())
        first = campaign.committed()

        campaign.allow(2)
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(len(campaign.records()) + 2)
        run.process.kill()
        run.end()
        [job] = stage.cluster.squeue()
        assert job.state == "RUNNING"
        run = campaign.start("--until", "tables")
        run.says("jobs of an earlier run")
        campaign.allow(None)
        holds("run/snakemake-killed", run.end(), run.said(), campaign)
    campaign.once()
    campaign.nothing_lives()
    assert first.items() <= campaign.committed().items()
    assert len({record["slurm"]["job"] for record in campaign.records()}) == 2  # the one that lived on went to the end


@story("run/job-cancelled", "run/node-dies")
def job_lost(stage: Stage) -> None:
    """A job is cancelled; the next one loses a node; the third one waits for it. With accounting, where there can be
    any: then the plugin asks that for the nodes of the job, too."""
    with contextlib.ExitStack() as ours:
        if not clusters.missing(accounting=True):
            stage.cluster = ours.enter_context(clusters.Cluster().up(accounting=True))
        cluster = stage.cluster
        campaign = SlurmCampaign(stage, [MANY | {"repetitions": 6}])
        campaign.slow()
        campaign.allow(1)
        ours.enter_context(mounted(cluster, campaign.target))
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(1)
        [job] = cluster.squeue()
        cluster.run(["scancel", str(job.id)])
        before = campaign.committed()
        campaign.allow(1)
        campaign.wait_for_records(len(campaign.records()) + 1)
        cluster.kill_node("n2", noticed=True)
        until(lambda: [job.state for job in cluster.squeue()] == ["PENDING"], campaign.over)
        assert before.items() <= campaign.committed().items()
        campaign.allow(None)
        cluster.start_node("n2")
        code = run.end()
        for key in SHOWN["job_lost"]:
            holds(key, code, run.said(), campaign)
        campaign.once()
        campaign.nothing_lives()
        assert len({record["slurm"]["job"] for record in campaign.records()}) == 3


@story("run/runner-killed")
def job_that_says_nothing(stage: Stage) -> None:
    """What it has measured counts all the same: the next job asks for no more time than it did."""
    campaign = SlurmCampaign(stage, [MANY | {"repetitions": 3}])
    campaign.slow()
    campaign.allow(1)
    with mounted(stage.cluster, campaign.target):
        run = campaign.start("--until", "tables")
        campaign.wait_for_records(1)
        campaign.runner().kill()
        campaign.allow(None)
        holds("run/runner-killed", run.end(), run.said(), campaign)
    campaign.once()
    campaign.nothing_lives()
    asked = re.findall(r"(\d) repetitions left, .*; asks for 2 nodes for (\d+ min)", run.said())
    assert [count for count, _ in asked] == ["3", "2"]
    assert len({time for _, time in asked}) == 1


@story("run/target-lost-on-a-node")
def target_lost(stage: Stage) -> None:
    """The next job is given another node, and asks for no more time."""
    cluster, node = stage.cluster, "n1"
    campaign = SlurmCampaign(stage, [WRITES | {"axes": {"nodes": [1]}, "repetitions": 2}])
    lose = f"grep -q ' {campaign.target} .* lost ' /proc/self/mountinfo || mount -t tmpfs lost {campaign.target}"
    lines = f'case "$*" in *time_based*) [ $SLURMD_NODENAME != {node} ] || {{ {lose}; }};; esac'
    campaign.path = script(stage.place / "bin", "fio", lines, campaign.path)
    with mounted(cluster, campaign.target):
        run = campaign.start("--until", "tables")
        code = run.end()
        cluster.on(node, ["umount", campaign.target])
        holds("run/target-lost-on-a-node", code, run.said(), campaign)
    campaign.once()
    campaign.nothing_lives()
    assert {tuple(record["hosts"]) for record in campaign.records()} == {("n2",)}
    asked = re.findall(r"(\d) repetitions left, .*; asks for 1 node for (\d+ min)", run.said())
    assert len(asked) == 2 and len(set(asked)) == 1


@story("run/waits-for-ever")
def campaign(stage: Stage) -> None:
    """Three tools on one node and on two, to the report. At first the partition is made too small for two."""
    cluster = stage.cluster
    campaign = SlurmCampaign(stage, [IOR, MDTEST, FIO], licenses='"pfs"')
    with mounted(cluster, campaign.target):
        before_us = cluster.run(["sbatch", "--parsable", "--nodes=2", "--output=/dev/null", "--wrap=sleep 600"]).stdout
        run = campaign.start("--until", "tables")
        until(lambda: len(cluster.squeue()) == 3, campaign.over)
        waiting = cluster.run(["squeue", "--noheader", "--sort=i", "--format=%D"]).stdout.split()
        assert waiting[1:] == ["1", "2"]  # as the plan has them, whatever the order of Snakemake's sets
        cluster.run(["scontrol", "update", "partition=small", "maxnodes=1"])
        cluster.run(["scancel", before_us.strip()])
        holds("run/waits-for-ever", run.end(), run.said(), campaign)
        cluster.run(["scontrol", "update", "partition=small", "maxnodes=unlimited"])
        assert {row["nodes"] for row in campaign.table() if row["verdict"] == "missing"} == {2}
        assert len(campaign.records()) == 3
        one = campaign.committed()

        output = campaign.snakemake("--until", "report")
        assert "measure 2 nodes: 3 points, 3 repetitions left" in output and "measure 1 node" not in output
        assert one.items() <= campaign.committed().items()
    rows = campaign.table()
    assert len(rows) == 12
    assert {row["verdict"] for row in rows} <= {"valid", "suspect"}, [row["reasons"] for row in rows]
    for record in campaign.records():
        hosts = ["n1", "n2"][: 1 + ("2n" in record["point"])]
        assert record["hosts"] == hosts and set(record["nodes"]) == set(hosts)
        assert all(
            phase["exclusive"]["evidence"].startswith("no other job has the license pfs") for phase in record["phases"]
        )
        if record["tool"]["path"].endswith("ior"):
            assert {str(phase["ran_on"]) for phase in record["phases"]} == {str(dict.fromkeys(hosts, 2))}
    assert {row["host"] for row in campaign.table("nodes")} == {"n1", "n2"}
    campaign.once()
    assert "report: results/tiny/report.html" in output
    assert campaign.settled()


@story("run/other-campaign")
def other_campaign(stage: Stage) -> None:
    """Another campaign measures the same file system: ours is refused, and its next job waits for the other's."""
    campaign = SlurmCampaign(stage, [MANY | {"axes": {"nodes": [1]}, "repetitions": 2}])
    with mounted(stage.cluster, campaign.target):
        (stage.place / "other").mkdir()
        other = Case(Stage(stage.cluster, stage.place / "other", stage.path), [WRITES | {"axes": {"nodes": [1]}}])
        other.target, other.locks = campaign.target / "other", stage.place / "locks"
        stage.cluster.run(["mkdir", other.target])
        other.configure()
        other.script("fio", 'case "$*" in *seq_write*) until [ -e "$0.on" ]; do sleep 0.1; done;; esac')
        first = other.submit()
        other.tool("fio", "n1")
        run = campaign.start("--until", "tables")
        run.says("is being measured by process")
        until(lambda: [job.reason for job in stage.cluster.squeue()][1:] == ["Dependency"])
        (other.place / "bin" / "fio.on").touch()
        assert first.end() == 0, first.said()
        holds("run/other-campaign", run.end(), run.said(), campaign)
        assert {row["verdict"] for row in other.rows()} <= {"valid", "suspect"}
    campaign.once()
    assert other.records()[-1]["ended"] < campaign.records()[0]["started"]


@story("run/partition-down", "run/too-many-nodes")
def refused(stage: Stage) -> None:
    """What Slurm would not run is said before anything is submitted."""
    for number, (key, partition, nodes) in enumerate((("partition-down", "down", 1), ("too-many-nodes", "small", 3))):
        place = stage.place / str(number)
        place.mkdir()
        campaign = SlurmCampaign(
            Stage(stage.cluster, place, stage.path),
            [WRITES | {"axes": {"nodes": [nodes]}}],
            slurm_partition=f'"{partition}"',
        )
        run = campaign.start("--until", "tables")
        holds(f"run/{key}", run.end(), run.said())
        assert stage.cluster.squeue() == []


@story()
def spack(stage: Stage) -> None:
    """Spack builds on the head, once; the jobs take what it has built. Not on the target, nor where a node lacks it."""
    tools, _, rest = stage.path.partition(":")
    spack, packages = standin.checkout(stage.place, Path(tools)), standin.packages(stage.place)
    campaign = SlurmCampaign(Stage(stage.cluster, stage.place, rest, stage.runs), [RANKS, WRITES])
    (stage.place / "spack.yaml").write_text(standin.spack_yaml(packages))
    with mounted(stage.cluster, campaign.target):
        campaign.tools = {"spack": str(spack), "directory": str(campaign.target / "tools")}
        campaign.configure()
        output = campaign.snakemake("--until", "tables", code=1)
        assert "are on the file system under test; name a tools.directory elsewhere" in output

        campaign.tools = {"spack": str(spack)}
        campaign.configure()
        assert "tools: built and verified" in campaign.snakemake("--until", "tools")
        calls = standin.calls(spack)
        with mounted(stage.cluster, stage.place / "tools", on="n2"):
            with mounted(stage.cluster, stage.place / "tools", on="n1"):
                run = campaign.start("--until", "tables")
                run.says("tools.json does not exist; is tools.directory mounted here?")
            run.says("n2 differs from n1: fio does not exist there under the same path; is tools.directory (")
        assert run.end() == 0, run.said()  # the next job sees it
        assert "Trying to restart" in run.said()
    assert standin.calls(spack) == calls
    [built] = (stage.place / "tools").glob("*/tools.json")
    document = msgspec.json.decode(built.read_bytes())
    records = campaign.records()
    assert len(records) == 2
    for record in records:
        assert record["tool"]["path"] == document["tools"][Path(record["tool"]["path"]).name]["path"]
        assert msgspec.json.decode((campaign.results / f"builds/{record['build']}.json").read_bytes()) == document
        assert record["hosts"] == ["n1", "n2"]
    assert {row["verdict"] for row in campaign.table()} <= {"valid", "suspect"}
    campaign.once()


@story()
def mpiexec(stage: Stage) -> None:
    """Hydra over the allocation: the ranks are where they belong, and counted there."""
    case = Case(stage, [RANKS])
    case.launcher = "mpiexec"
    with mounted(stage.cluster, case.target.parent):
        stage.cluster.run(["mkdir", case.target])
        job = case.submit()
        assert job.end() == 0, job.said()
    [row], [record] = case.rows(), case.records()
    assert row["verdict"] in ("valid", "suspect"), row["reasons"]
    assert record["phases"][0]["ran_on"] == {"n1": 2, "n2": 2}
    assert record["launcher"]["name"] == "mpiexec"


@story()
def subsets(stage: Stage) -> None:
    """One allocation for all node counts: a point of one node runs on another one each time."""
    sweep = {"axes": {"nodes": [1, 2]}, "repetitions": 2}
    case = Case(stage, [RANKS | sweep, WRITES | sweep])
    with mounted(stage.cluster, case.target.parent):
        stage.cluster.run(["mkdir", case.target])
        case.configure(allocation="campaign")
        job = case.submit()
        assert job.end() == 0, job.said()
    rows = case.rows()
    assert {row["verdict"] for row in rows} <= {"valid", "suspect"}, [row["reasons"] for row in rows]
    seen = {(record["tool"]["path"][-3:], record["repetition"], *record["hosts"]) for record in case.records()}
    alone = {(tool, number, f"n{number}") for tool in ("ior", "fio") for number in (1, 2)}
    assert seen == alone | {(tool, number, "n1", "n2") for tool in ("ior", "fio") for number in (1, 2)}
    ranks = [record for record in case.records() if record["tool"]["path"].endswith("ior")]
    assert all(phase["ran_on"] == dict.fromkeys(r["hosts"], 2) for r in ranks for phase in r["phases"])


@story()
def license(stage: Stage) -> None:
    """Two campaigns that ask for the only license: Slurm runs one after the other."""
    cases = []
    with mounted(stage.cluster, stage.place / "target"):
        for name in ("a", "b"):
            (stage.place / name).mkdir()
            case = Case(Stage(stage.cluster, stage.place / name, stage.path), [WRITES | {"axes": {"nodes": [1]}}])
            case.target = stage.place / "target" / name
            stage.cluster.run(["mkdir", case.target])
            case.configure()
            case.script("fio", f'case "$*" in *seq_write*) until [ -e {stage.place}/on ]; do sleep 0.1; done;; esac')
            cases.append((case, case.submit("--licenses=pfs")))
        cases[0][0].tool("fio", "n1")
        until(lambda: [job.reason for job in stage.cluster.squeue()][1:] == ["Licenses"])
        (stage.place / "on").touch()
        for case, job in cases:
            assert job.end() == 0, job.said()
            assert {row["verdict"] for row in case.rows()} <= {"valid", "suspect"}
            assert case.records()[0]["phases"][0]["exclusive"]["enforced"] is True
    assert cases[0][0].records()[-1]["ended"] < cases[1][0].records()[0]["started"]


def test_every_row_is_shown_once() -> None:
    assert sorted(row for rows in SHOWN.values() for row in rows) == sorted(ROWS)


@pytest.mark.parametrize("story", SHOWN)
def test_story(stories: Stories, story: str) -> None:
    stories.end(story)
