"""What an allocation asks Slurm for, and what is made of what Slurm says. The words are in snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.errors import Unanswered
from iosweep.jobs import profile, submission
from iosweep.plan.forecast import Longest
from iosweep.slurm import query
from left import Timed

SMALL = query.fields("PartitionName=small State=UP TotalNodes=8 MaxNodes=4 MaxTime=01:00:00")


def test_wall_time_counted_by_hand() -> None:
    assert submission.minutes(0, 1, None) == 5
    assert submission.minutes(1, 1, None) == 6  # whole minutes
    assert submission.minutes(1200, 1, None) == 35  # 20 min, half as much again, and 5
    assert [submission.minutes(1200, attempt, None) for attempt in (2, 3)] == [70, 105]
    assert [submission.minutes(1200, attempt, 60) for attempt in (1, 2, 3)] == [35, 60, 60]


def test_retries_let_a_campaign_end_that_is_longer_than_a_job() -> None:
    def retries(time_s: float, **limit: object) -> int:
        return Timed(1, time_s, profile.Profile(given=limit)).retries

    assert retries(1200) == retries(1200, runtime=35) == 3
    assert retries(10 * 3600, runtime=60) == 15 - 1 + 1 + 3  # 15 h and 5 min in jobs of an hour
    for hours in (0.1, 1, 7.9, 100):
        jobs = 1 + retries(hours * 3600, runtime=60)
        assert jobs * 60 >= hours * 60 * submission.MARGIN


def test_what_does_not_fit_a_job_is_known_before() -> None:
    """A phase or the whole of a repetition: each is measured in one job, which keeps 10 s to end in."""
    phase, whole = Longest("p", 7201, 7200), Longest("p", 7202, 1800)
    for longest, limit_min, said in (
        (phase, 60, "a phase of 2 h does not fit a job of 1 h"), (phase, 121, None), (phase, None, None),
        (phase, 120, "a phase of 2 h does not fit a job of 2 h"), (None, 1, None),
        (whole, 60, "a repetition of 2 h does not fit a job of 1 h"),
    ):  # fmt: skip
        assert submission.no_fit(longest, limit_min) == said


def test_the_command_that_submits_a_job() -> None:
    def sbatch(nodes: int, after: str | None = None, avoid: tuple[str, ...] = (), **given: object) -> list[str]:
        asks = profile.parse({"scheduler": "slurm", "launcher": "srun"} | given, slurm=True)
        assert not asks.problems
        return submission.sbatch(asks, nodes, 30, "run", "comment", "%j.log", "/d", after=after, avoid=avoid)

    whole = "--exclusive --overcommit --no-requeue --dependency=singleton"
    assert " ".join(sbatch(3)) == (
        "sbatch --parsable --job-name run --output %j.log --export=ALL --comment comment"
        f" --time=30 --nodes=3 --ntasks=3 {whole} --chdir=/d"
    )
    assert {"--nodes=1", "--ntasks=1"} < set(sbatch(1))
    assert "--dependency=singleton,afterany:77" in sbatch(1, "77")
    assert sbatch(1, "1;id") == sbatch(1)
    assert "--exclude=n[1-3],n9" in sbatch(1, avoid=("n9",), exclude="n[1-3]")
    assert "comment of the site" in sbatch(1, comment="of the site")
    given = {"slurm_account": 4711, "constraint": "ib&(a|b)", "mem_mb": "9000", "qos": "", "licenses": "pfs:1"}
    assert sbatch(1, **given)[-4:] == ["--account=4711", "--constraint=ib&(a|b)", "--licenses=pfs:1", "--mem=9000"]


def test_what_a_partition_would_let_wait_for_ever(snapshot: SnapshotAssertion) -> None:
    said = []
    for nodes, minutes, limits in (
        (4, 60, SMALL),
        (5, 60, SMALL),
        (9, 60, SMALL | {"MaxNodes": "UNLIMITED"}),
        (4, 61, SMALL),
        (4, 61, SMALL | {"MaxTime": "00:20:00"}),  # where a repetition would not fit
        (1, 1, SMALL | {"State": "DOWN"}),
        (1, 1, SMALL | {"MinNodes": "2"}),
        (1, 1, SMALL | {"OverSubscribe": "FORCE:4"}),
        (1, 1, SMALL | {"OverSubscribe": "YES:4"}),
    ):
        said.append(submission.beyond(nodes, minutes, Longest("p", 1500, 300), limits) or "it can start")
    assert "\n".join(said) == snapshot


REFUSED = (
    "allocation failure: Requested node configuration is not available",
    "allocation failure: Invalid account or account/partition combination specified",
    "sbatch: error: invalid partition specified: x",
    "allocation failure: Requested reservation is invalid",
    "allocation failure: Invalid license specification",
    "sbatch: error: Memory specification can not be satisfied",
    "allocation failure: Invalid qos specification",
    "allocation failure: Invalid feature specification",
    "You must request --constraint=ib",
    "sbatch: error: Invalid generic resource (gres) specification",
    "allocation failure: Invalid node name specified",
    "sbatch: error: Invalid --mail-type specification",
    "something new",
    "Node count specification invalid",
    # a greeting, a limit of the QOS, and the verdict on it; the last that says something counts
    *(
        f"Welcome, your account has 9 h; {limit}; Batch job submission failed: Job violates accounting/QOS policy"
        " (job submit limit, user's size and/or time limits)"
        for limit in ("QOSMinNode", "QOSMaxNodePerUserLimit", "AssocMaxWallDurationPerJobLimit", "QOSMaxCpuPerJobLimit")
    ),
)
#: What many queued jobs are the reason of (22.05 to 26.05), and what not.
FULL = (
    *("QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit", "QOSGrpSubmitJobsLimit", "MaxSubmitJobsPerAccount"),
    "Slurm temporarily unable to accept job, sleeping and retrying", "Slurm job queue full, sleeping and retrying",
    "allocation failure: Resource temporarily unavailable", "MaxJobCount limit reached",
)  # fmt: skip


def test_only_too_many_queued_jobs_are_waited_for() -> None:
    assert [said for said in FULL if not submission.is_full(f"hello; {said}")] == []
    assert [said for said in REFUSED if submission.is_full(said)] == []


def test_what_to_do_when_sbatch_refuses(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(f"{said}: {submission.meaning(said)}" for said in REFUSED) == snapshot
    narrow = profile.Profile(given={"exclude": "n[1-3]", "mem_mb": 64000, "qos": "q"})
    by_profile = [said for said in REFUSED if submission.meaning(said, narrow).startswith("mem_mb, exclude in ")]
    assert by_profile == [REFUSED[0]]


# What is asked of Slurm


@dataclass
class Slurm:
    """In place of Slurm's commands: what each prints, or how it fails. `asked`: their command lines."""

    says: dict[str, str | Unanswered]
    asked: list[list[str]] = field(default_factory=list)

    def ask(self, argv: Sequence[str]) -> str:
        self.asked.append(list(argv))
        printed = self.says.get(argv[0], Unanswered("not here"))
        if isinstance(printed, Unanswered):
            raise printed
        return printed


PARTITIONS = (
    "PartitionName=small State=UP TotalNodes=8 MaxNodes=4 MaxTime=01:00:00 Default=YES\n"
    "PartitionName=big State=UP TotalNodes=99 MaxNodes=UNLIMITED MaxTime=UNLIMITED\n"
)
FEATURE = "Invalid feature specification"
TOO_MANY = "allocation failure: Requested node configuration is not available"


def test_what_slurm_would_refuse_or_never_start_is_told_before_anything_is_submitted(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """What has to wait for nodes that are down is not refused."""
    full = "QOSMaxSubmitJobPerUserLimit"
    no = {word: Unanswered("failed", word) for word in ("Invalid license specification", TOO_MANY, full, FEATURE)}
    cases: list[tuple[dict[str, str | Unanswered], int]] = [
        ({"scontrol": PARTITIONS, "sbatch": ""}, 100),
        ({"scontrol": PARTITIONS, "sbatch": ""}, 4),
        ({"scontrol": PARTITIONS, "sbatch": ""}, 99),  # one of two partitions
        ({"scontrol": PARTITIONS, "sbatch": ""}, 5),
        ({"sbatch": ""}, 5),
        ({"scontrol": PARTITIONS, "sbatch": no["Invalid license specification"]}, 4),
        ({"scontrol": PARTITIONS, "sbatch": no[TOO_MANY], "sinfo": "6|drained\n2|idle\n"}, 4),
        ({"scontrol": PARTITIONS, "sbatch": no[TOO_MANY]}, 4),
        ({"scontrol": PARTITIONS, "sbatch": no[full]}, 4),
        ({"scontrol": PARTITIONS, "sbatch": no[FEATURE]}, 4),
        ({"scontrol": PARTITIONS.replace("=UP", "=UP OverSubscribe=FORCE:4"), "sbatch": ""}, 4),
    ]
    said = []
    for says, nodes in cases:
        slurm = Slurm(says)
        monkeypatch.setattr(query, "ask", slurm.ask)
        asks = {"mem_mb": 9} | ({"slurm_partition": "small,big"} if nodes > 5 else {})
        job = Timed(nodes, 60.0, profile.Profile(given=asks)), 60, ["sbatch", f"--nodes={nodes}"]
        found = submission.try_jobs([job])
        said += [f"{kind}: {text}" for kind, texts in found._asdict().items() for text in texts]
        tried = [argv for argv in slurm.asked if argv[0] == "sbatch"]
        assert all(argv[-3:] == ["--test-only", "--wrap", "true"] for argv in tried)
    assert "\n".join(said) == snapshot


def test_no_job_is_submitted_where_another_cluster_may_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of a federation, as its own scontrol names it."""
    federation = (
        "Federation: fed\nSelf:       lab:10.77.0.1:6817 ID:1 FedState:ACTIVE Features:\nSibling:    b:::0 ID:2\n"
    )
    slurm = Slurm({"scontrol": federation, "sbatch": ""})
    monkeypatch.setattr(query, "ask", slurm.ask)
    job = Timed(1, 60.0, profile.Profile()), 60, ["sbatch"]
    found = submission.try_jobs([job])
    assert "`export SLURM_CLUSTERS=lab`" in "".join(found.refusals) and not found.fit
    assert [argv[0] for argv in slurm.asked] == ["scontrol"]
    monkeypatch.setenv("SLURM_CLUSTERS", "lab")
    slurm.says["scontrol"] = PARTITIONS
    assert submission.try_jobs([job]).fit
