"""Jobs that wait: which are ended, what is told of the others, and those of an earlier run. The
words are in a snapshot."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.jobs import pending
from iosweep.jobs.pending import QueueWatch
from iosweep.slurm import query
from iosweep.slurm.query import Job

COMMENT = "iosweep_weka_2-nodes"
WAITS = Job(
    id="12", name="iosweep_0f", state="PENDING", reason="Resources", user="me", directory="/d", comment=COMMENT,
    nodes=2, hosts=(), starts=None, ends=None, licenses="",
)  # fmt: skip
RUNS = replace(WAITS, state="RUNNING", reason="None", hosts=("n1", "n2"), ends=time.time() + 60)

#: Slurm's words (job_state_reason_string, Slurm 23.11): what no end of another job cures.
FOREVER = (
    *("PartitionNodeLimit", "BadConstraints", "InvalidAccount", "QOSNotAllowed", "DependencyNeverSatisfied"),
    *("ReservationInvalid", "MaxMemPerLimit", "AssocMaxNodePerJobLimit", "AssocMaxMemPerNode", "QOSMinMemory"),
    "Job's account not permitted to use this partition (big allows a not b)",
    "Job's QOS not permitted to use this partition (big allows a not b)",
)
#: What ends by itself, or by somebody else.
PASSING = (
    *("None", "Priority", "Resources", "Dependency", "Licenses", "Reservation", "BeginTime", "JobHeldUser"),
    *("PartitionDown", "NodeDown", "QOSJobLimit", "AssociationTimeLimit", "AssocGrpCPUMinutesLimit", "something_new"),
    *("AssocMaxJobsLimit", "QOSMaxNodePerUserLimit", "MaxJobsPerAccount"),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
    "ReqNodeNotAvail, Reserved for maintenance",
    "launch failed requeued held",
)


def test_only_reasons_that_nothing_ends_are_taken_for_such() -> None:
    assert [reason for reason in FOREVER if not pending.remedy(reason)] == []
    assert [reason for reason in PASSING if pending.remedy(reason)] == []


def test_a_job_is_known_by_its_comment_and_directory() -> None:
    job = replace(WAITS, comment=query.comment("w_1.x", "2-nodes"))
    assert pending.allocation_of(job, "w_1.x", "/d") == "2-nodes"
    assert pending.allocation_of(replace(job, comment=f"{job.comment} a_b"), "w_1.x", "/d") == "2-nodes"
    assert pending.allocation_of(job, "weka_1", "/d") is None  # the beginning of another name
    assert pending.allocation_of(job, "w_1.x", "/work") is None
    for comment in ("", "iosweep_w_1.x_y_2-nodes", "other_w_1.x_2-nodes"):
        assert pending.allocation_of(replace(job, comment=comment), "w_1.x", "/d") is None


def test_what_waits_for_ever_is_ended_once_that_lasts() -> None:
    watch, bad = QueueWatch("weka", "/d"), replace(WAITS, reason="PartitionConfig")
    assert watch.decide([bad], 0) == ([], [])
    assert watch.decide([WAITS], 3) == ([], [])  # it was a moment's
    assert watch.decide([bad], 6) == ([], [])
    [(job, why)], told = watch.decide([bad], 12)
    assert (job, told) == (bad, [])
    assert why == pending.remedy("PartitionConfig")
    lists = QueueWatch("weka", "/d", lists=True)  # squeue shows why one of several partitions does not take it
    assert [lists.decide([bad], now_s)[0] for now_s in (0, 6, 12)] == [[], [], []]


def test_jobs_of_others_are_left_alone() -> None:
    watch = QueueWatch("weka", "/d")
    bad = replace(WAITS, reason="PartitionConfig")
    others = [
        replace(bad, directory="/e"),
        replace(bad, comment=COMMENT.replace("weka", "weka_2")),
        replace(bad, comment=""),
        replace(bad, state="COMPLETING"),
    ]
    for now_s in (0, 10, 20, 5000):
        assert watch.decide(others, now_s) == ([], [])


def test_each_reason_of_a_waiting_job_is_mentioned_once() -> None:
    watch, told = QueueWatch("weka", "/d"), []
    reasons = {0: "None", 20: "Priority", 40: "Resources", 60: "Priority", 200: "Licenses", 300: "Dependency"}
    reasons |= {at: f"ReqNodeNotAvail, UnavailableNodes:n[1-{at}]" for at in range(1000, 2000, 100)}
    reason = ""
    for now_s in range(0, 4000, 10):
        reason = reasons.get(now_s, reason)
        end, tell = watch.decide([replace(WAITS, reason=reason)], now_s)
        assert end == []
        told += [(now_s, job.reason) for job in tell]
    # after it lasts; not each time that two alternate
    assert told[:3] == [(30, "Priority"), (50, "Resources"), (210, "Licenses")]
    assert told[3:] == [(1010, reasons[1000])]
    assert [watch.decide([RUNS], now_s)[1] for now_s in (4000, 4010, 9000)] == [[RUNS], [], []]


def test_words_on_jobs_that_wait_and_run(snapshot: SnapshotAssertion) -> None:
    watch = QueueWatch("weka", "/d")
    at = time.mktime((2033, 5, 17, 14, 5, 0, 0, 0, -1))
    said = [watch.sentence(replace(RUNS, ends=at)) for _ in range(2)]  # how to see more is told once
    said += [watch.sentence(one) for one in (replace(RUNS, ends=None), WAITS)]
    said.append(watch.sentence(replace(WAITS, reason="Priority", starts=at)))
    told = {reason: pending.explain(replace(WAITS, reason=reason)) for reason in (*PASSING, "{new}")}
    said += [f"{reason}: {words}" for reason, words in told.items() if words != reason]
    assert "\n".join(said) == snapshot


# What is asked of Slurm


def test_jobs_of_an_earlier_run_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of this campaign from this directory, by whatever name of it."""
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    there = [
        replace(WAITS, id="5", directory=str(link)),
        replace(WAITS, id="6", directory=str(tmp_path)),
        replace(WAITS, id="7", directory=str(place), state="COMPLETED"),
        replace(WAITS, id="8", directory=str(place), comment=COMMENT.replace("weka", "other")),
    ]
    monkeypatch.chdir(place)
    monkeypatch.setattr(query, "jobs", lambda name="": list(there))
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 3:
            there.clear()

    monkeypatch.setattr(pending, "time", SimpleNamespace(**vars(time) | {"sleep": sleep}))
    assert pending.wait_for_earlier_run("weka")
    assert (len(pauses), min(pauses) >= 1) == (3, True)
    assert capsys.readouterr().err.count("`scancel 5`") == 1
    assert not pending.wait_for_earlier_run("weka")
