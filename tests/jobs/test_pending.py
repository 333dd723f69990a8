"""Jobs that wait: which are ended, what is told of the others, and those of an earlier run. Also on a real cluster."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import slurm as clusters
from iosweep.jobs import pending
from iosweep.jobs.pending import Watch
from iosweep.slurm.query import Job

COMMENT = "iosweep_weka_2-nodes"
WAITS = Job(
    id="12", name="iosweep_0f", state="PENDING", reason="Resources", user="me", directory="/d", comment=COMMENT,
    nodes=2, hosts=(), starts=None, ends=None, licenses="",
)  # fmt: skip
RUNS = replace(WAITS, state="RUNNING", reason="None", hosts=("n1", "n2"), ends=time.time() + 60)

#: Slurm's words (job_state_reason_string, Slurm 23.11): what no end of another job cures.
FOREVER = """
    PartitionNodeLimit PartitionTimeLimit PartitionConfig BadConstraints Constraints InvalidAccount InvalidQOS
    AccountNotAllowed QOSNotAllowed DependencyNeverSatisfied ReservationDeleted ReservationInvalid MaxMemPerLimit
    AssocMaxNodePerJobLimit AssocMaxWallDurationPerJobLimit AssocMaxCpuPerJobLimit AssocMaxCpuMinutesPerJobLimit
    AssocMaxMemPerNode AssocMaxBillingPerJob QOSMaxNodePerJobLimit QOSMaxWallDurationPerJobLimit QOSMaxCpuPerJobLimit
    QOSMaxCpuMinutesPerJobLimit QOSMaxMemoryPerNode QOSMaxGRESPerJob QOSMinCpuNotSatisfied QOSMinNode QOSMinMemory
"""
#: What ends by itself, or by somebody else.
PASSING = """
    None Priority Resources Dependency Licenses Reservation ReqNodeNotAvail BeginTime Cleaning Prolog JobHeldAdmin
    JobHeldUser PartitionDown PartitionInactive NodeDown JobLaunchFailure SystemFailure SchedDefer FrontEndDown
    AssociationJobLimit AssociationResourceLimit AssociationTimeLimit QOSJobLimit QOSResourceLimit QOSTimeLimit
    QOSUsageThreshold AssocGrpCpuLimit AssocGrpNodeLimit AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit
    AssocGrpJobsLimit AssocGrpWallLimit AssocGrpBillingMinutes AssocMaxJobsLimit AssocMaxSubmitJobLimit
    QOSGrpNodeLimit QOSGrpCPURunMinutesLimit QOSGrpWallLimit QOSMaxSubmitJobPerUserLimit
    QOSMaxCpuPerUserLimit QOSMaxJobsPerUserLimit QOSMaxNodePerUserLimit QOSMaxMemoryPerUser
    MaxNodePerAccount MaxJobsPerAccount JobHoldMaxRequeue WaitingForScheduling something_new
"""


@pytest.mark.parametrize("reason", FOREVER.split())
def test_what_cannot_clear_by_itself(reason: str) -> None:
    assert pending.remedy(reason)


@pytest.mark.parametrize("reason", PASSING.split())
def test_what_can(reason: str) -> None:
    assert pending.remedy(reason) is None


def test_reasons_in_whole_sentences() -> None:
    for sentence in (
        "Job's account not permitted to use this partition (big allows a not b)",
        "Job's account not known, so it can't use this partition (big allows a)",
        "Job's QOS not permitted to use this partition (big allows a not b)",
    ):
        assert pending.remedy(sentence)
    for sentence in (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
        "ReqNodeNotAvail, Reserved for maintenance",
        "launch failed requeued held",
    ):
        assert pending.remedy(sentence) is None


def test_what_waits_for_ever_is_ended_once_that_lasts() -> None:
    watch, bad = Watch("weka", "/d"), replace(WAITS, reason="PartitionConfig")
    assert watch.look([bad], 0) == ([], [])
    assert watch.look([WAITS], 3) == ([], [])  # it was a moment's
    assert watch.look([bad], 6) == ([], [])
    [(job, why)], told = watch.look([bad], 12)
    assert (job, told) == (bad, [])
    assert why.startswith("2 nodes would wait forever (PartitionConfig): ask for fewer nodes in the configuration")


def test_others_are_left_alone() -> None:
    watch = Watch("weka", "/d")
    bad = replace(WAITS, reason="PartitionConfig")
    others = [
        replace(bad, directory="/e"),
        replace(bad, comment=COMMENT.replace("weka", "weka_2")),
        replace(bad, comment=""),
        replace(bad, state="COMPLETING"),
    ]
    for now_s in (0, 10, 20, 5000):
        assert watch.look(others, now_s) == ([], [])


def test_waiting_jobs_are_mentioned_at_intervals() -> None:
    watch, told = Watch("weka", "/d"), []
    reasons = {0: "None", 20: "Priority", 40: "Resources", 60: "Priority", 200: "Licenses", 300: "Dependency"}
    reason = ""
    for now_s in range(0, 4000, 10):
        reason = reasons.get(now_s, reason)
        end, tell = watch.look([replace(WAITS, reason=reason)], now_s)
        assert end == []
        told += [(now_s, job.reason) for job in tell]
    # after it lasts, when it is another reason and a while ago; not each time that two alternate, nor without news
    assert told == [(30, "Priority"), (210, "Licenses")]
    watch, told = Watch("weka", "/d"), []
    for now_s in range(0, 4000, 10):
        told += [now_s for _ in watch.look([WAITS], now_s)[1]]
    assert told == [10, 1810, 3610]


def test_running_jobs_are_mentioned_once() -> None:
    watch = Watch("weka", "/d")
    assert [watch.look([RUNS], now_s)[1] for now_s in (0, 10, 5000)] == [[RUNS], [], []]


def test_sentences() -> None:
    watch = Watch("weka", "/d")
    at = time.mktime((2033, 5, 17, 14, 5, 0, 0, 0, -1))
    runs = "2 nodes: job 12 runs on n1, n2, until Tue 17 May 14:05 at most"
    assert watch.sentence(replace(RUNS, ends=at)) == f"{runs}; `iosweep watch weka` shows how far it is"
    assert watch.sentence(replace(RUNS, ends=at)) == runs  # once is enough
    assert watch.sentence(replace(RUNS, ends=None)) == "2 nodes: job 12 runs on n1, n2"
    assert watch.sentence(WAITS) == "2 nodes: job 12 waits: nodes are busy (Resources)"
    expected = replace(WAITS, reason="Priority", starts=at)
    assert watch.sentence(expected).endswith(
        "others come first (Priority); Slurm expects it to start at Tue 17 May 14:05"
    )
    assert pending.words(replace(WAITS, reason="JobHeldUser")) == "it is held: `scontrol release 12`"
    assert pending.words(replace(WAITS, reason="QOSGrpNodeLimit")).startswith("a limit of your account is reached")
    assert pending.words(replace(WAITS, reason="something {new}")) == "something {new}"


def submit(slurm: clusters.Cluster, place: Path, *options: str, comment: str = COMMENT) -> str:
    script = ["--parsable", f"--comment={comment}", f"--chdir={place}", "--output=/dev/null", *options]
    return slurm.run(["sbatch", *script, "--wrap", "sleep 600"]).stdout.strip()


def python(slurm: clusters.Cluster, place: Path, code: str, *arguments: object) -> Any:
    """What an expression gives on the head of the cluster, and what was said."""
    code = f"import json, sys; from iosweep.jobs import pending; a = json.loads(sys.argv[1]); print(json.dumps({code}))"
    done = slurm.run([sys.executable, "-c", code, json.dumps(arguments)], cwd=place)
    return json.loads(done.stdout), done.stderr


def refused(slurm: clusters.Cluster, place: Path, *jobs: tuple[Any, ...]) -> Any:
    """Of jobs (nodes, minutes, partition, options): why they would not run; and what was said."""
    arguments = []
    for nodes, minutes, partition, *options in jobs:
        given = ["-p", partition] if partition else []
        argv = ["sbatch", f"--nodes={nodes}", "--exclusive", f"--time={minutes}", *given, *options]
        arguments.append((argv, nodes, minutes))
    return python(slurm, place, "[pending.refused(*each) for each in a]", *arguments)


def test_what_slurm_would_not_run(slurm, tmp_path):
    jobs = {
        (2, 60, "small"): None,
        (2, 60, ""): None,
        (99, 60, ""): "the partition small gives a job",
        (3, 60, "small"): "the partition small gives a job 2 nodes at most",
        (1, 2, "short"): "the partition short allows 1 min at most; set runtime=1m in the profile",
        (1, 1, "down"): "the partition down is down",
        (1, 1, "elsewhere"): "sbatch: error: invalid partition specified: elsewhere; take another slurm_partition",
        (1, 1, "small", "--licenses=none"): "allocation failure: Invalid license specification; set licenses",
        (
            1,
            1,
            "small",
            "--mem",
            "90000000",
        ): "allocation failure: Requested node configuration is not available; mem_mb=",
        (1, 1, "small", "--reservation=x"): "allocation failure: Requested reservation is invalid; see `scontrol show",
    }
    found, said = refused(slurm, tmp_path, *jobs)
    assert said == ""
    for why, expected in zip(found, jobs.values(), strict=True):
        assert why is None if expected is None else why.startswith(expected)


def test_the_cluster_that_the_environment_names(slurm_accounting, tmp_path):
    """All of Slurm's commands then speak to it through the database; another one is refused."""
    name = slurm_accounting.run(["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster"])
    env = {"SLURM_CLUSTERS": name.stdout.strip()}
    sbatch = ["sbatch", "--parsable", "--job-name=named", "--wrap=sleep 60"]
    number, _, where = slurm_accounting.run(sbatch, env=env, cwd=tmp_path).stdout.strip().partition(";")
    assert where == env["SLURM_CLUSTERS"]
    code = """
import json, sys
from iosweep.jobs import pending; from iosweep.slurm import query
there, elsewhere = ["sbatch", "--nodes=1", "-p", "small"], ["sbatch", "--clusters", "other", "--nodes=1"]
refused = [pending.refused(argv, 1, 1) for argv in (there, elsewhere)]
states = {job.id: job.state for job in query.jobs(name="named")}
found = [job.id for job in query.jobs()], states, query.lives(sys.argv[1])
print(json.dumps([*found, *refused]))
"""
    done = slurm_accounting.run([sys.executable, "-c", code, number], env=env, cwd=tmp_path)
    slurm_accounting.cancel()
    jobs, states, lives, there, elsewhere = json.loads(done.stdout)
    assert (jobs, lives, there) == ([number], True, None)
    assert states[number] in ("PENDING", "CONFIGURING", "RUNNING")
    assert "No cluster 'other' known" in elsewhere


def test_nodes_that_are_down_are_waited_for(slurm, tmp_path):
    slurm.run(["scontrol", "update", "nodename=n2", "state=drain", "reason=test"])
    try:
        found, said = refused(slurm, tmp_path, (2, 60, "small"), (3, 60, "small"))
    finally:
        slurm.run(["scontrol", "update", "nodename=n2", "state=resume"])
    assert found[0] is None
    assert found[1].startswith("the partition small gives a job 2 nodes at most")
    assert "the partition small has 1 that can be used (1 drained" in said


def test_jobs_of_an_earlier_run_are_waited_for(slurm, tmp_path):
    link = tmp_path / "link"
    (tmp_path / "place").mkdir()
    link.symlink_to("place")  # the same directory by another name
    job = submit(slurm, link, "--nodes=2")
    submit(slurm, tmp_path / "place", comment=COMMENT.replace("weka", "other"))
    assert python(slurm, tmp_path / "place", "[job.id for job in pending.earlier('weka')]")[0] == [job]
    assert python(slurm, tmp_path, "[job.id for job in pending.earlier('weka')]")[0] == []
    waiting = slurm.popen(
        [sys.executable, "-c", "from iosweep.jobs import pending; pending.wait('weka', 0.1)"],
        cwd=link,
        stderr=subprocess.PIPE,
    )
    said = waiting.stderr.readline()
    assert f"jobs of an earlier run still measure: {job} (2 nodes, " in said
    assert f"`scancel {job}` ends them. This run goes on when they are over" in said
    assert waiting.poll() is None
    slurm.run(["scancel", job])
    assert waiting.wait(300) == 0
    slurm.cancel()
