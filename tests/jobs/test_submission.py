"""What an allocation asks Slurm for, and what is made of what Slurm says."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from campaign import document, read
from iosweep import dag
from iosweep.errors import ConfigError
from iosweep.jobs import submission
from iosweep.jobs.submission import Partition, Site
from iosweep.results.campaign_documents import Refusal
from iosweep.slurm import job_comment, query

JOB = query.Job(
    id="12", name="iosweep_0f", state="PENDING", reason="Resources", user="me", directory="/home/me/dir",
    comment="iosweep_weka_1.x_2-nodes", nodes=2, hosts=(),
    starts=None, ends=None, licenses="",
)  # fmt: skip
#: Without these a profile is wrong.
LEAST: dict[str, object] = {"scheduler": "slurm", "launcher": "srun"}
SMALL = Partition("small", "UP", 8, 4, 60)


def test_the_profile_says_what_the_site_is_like() -> None:
    assert submission.site(LEAST | {"runtime": 1440, "licenses": "pfs"}) == Site(1440, "pfs")
    assert submission.site(LEAST | {"runtime": None, "licenses": None, "constraint": "ib", "tmpdir": "x"}) == Site()
    for license in ("pfs:2", "pfs,matlab:10", "pfs@server:1"):
        assert submission.site(LEAST | {"licenses": license}).license == license


@pytest.mark.parametrize(
    ("resources", "wrong"),
    [
        *(
            ({"runtime": bad}, f"runtime: `{bad}` is not a time; write minutes, or for example runtime=12h")
            for bad in ("soon", 0)
        ),
        ({"runtime": "01:00:00"}, "runtime: `01:00:00` is not a time; write runtime=1h"),
        ({"runtime": "1-00:30:00"}, "runtime: `1-00:30:00` is not a time; write runtime=1470m"),
        *(
            ({"licenses": bad}, f"licenses: `{bad}` is not a license; write a name that `scontrol show licenses` has")
            for bad in ("pfs;touch x", "pfs 2", "$(id)", "pfs:", "a,,b", "")
        ),
        ({"mem_mb": "64G"}, "mem_mb: `64G` is not a number of MB; write for example mem_mb=64000, or mem=64G"),
        ({"slurm_account": "a b"}, "slurm_account: `a b` is not an account"),
        ({"launcher": None}, "launcher: there is none (known: srun, srun-pmix, mpiexec)"),
        *(
            ({"launcher": bad}, f"launcher: unknown launcher `{bad}`; did you mean `{meant}`? (known: srun, srun-pmix,")
            for bad, meant in {"mpirun": "mpiexec", "srum": "srun", "srun-pmi": "srun-pmix"}.items()
        ),
        ({"scheduler": None}, 'scheduler: write scheduler="slurm"; the workflow would take the cluster for one'),
        *(
            ({bad: "x"}, f"{bad}: unknown; did you mean `{meant}`?")
            for bad, meant in {
                "partition": "slurm_partition", "account": "slurm_account",
                "license": "licenses", "licence": "licenses", "time": "runtime", "mem_gb": "mem_mb",
            }.items()
        ),
        ({"xyzzy": 1}, "xyzzy: unknown (known: slurm_partition, "),
        ({"nodes": 4}, "nodes: the workflow sets it itself; leave it out"),
        *(
            ({name: "b"}, f"{name}: a job there would seem lost, as its state is asked of this cluster; leave it out,")
            for name in ("slurm_cluster", "cluster", "clusters")
        ),
        ({"slurm_extra": "-w n1"}, "slurm_extra: the workflow sets it itself; leave it out"),
        ({"reservation": "night"}, "reservation: no resource; write iosweep-reservation, as a key of the profile"),
    ],
)  # fmt: skip
def test_what_a_profile_may_not_say(resources: dict[str, object], wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        submission.site(LEAST | resources)
    [problem] = caught.value.problems
    assert str(problem).startswith(f"profile: default-resources.{wrong}")


def test_wall_time_counted_by_hand() -> None:
    assert submission.minutes(0, 1, None) == 5
    assert submission.minutes(1, 1, None) == 6  # whole minutes
    assert submission.minutes(1200, 1, None) == 35  # 20 min, half as much again, and 5
    assert [submission.minutes(1200, attempt, None) for attempt in (2, 3)] == [70, 105]
    assert [submission.minutes(1200, attempt, 60) for attempt in (1, 2, 3)] == [35, 60, 60]


@pytest.mark.parametrize(
    ("state", "refusal", "too_short"),
    [
        ("TIMEOUT", {}, True),
        ("TIMEOUT", Refusal("its job was stopped by SIGTERM"), True),
        ("FAILED", Refusal("job 7 ends in 3 s", short_of_time=True), True),
        (None, None, True),  # Slurm has forgotten it, and its runner stored nothing
        ("FAILED", Refusal("on n2: the target is not there", short_of_time=False), False),
        (None, Refusal("on n2: the target is not there"), False),
        ("FAILED", None, False),  # killed
        ("NODE_FAIL", None, False),
        ("CANCELLED", None, False),
    ],
)
def test_only_a_job_that_was_too_short_makes_the_next_one_longer(
    state: str | None, refusal: Refusal | None, too_short: bool
) -> None:
    assert submission.too_short(state, refusal) == too_short


def test_nodes_that_sbatch_may_be_given() -> None:
    """They go into a shell as they are."""
    assert submission.avoidable(Refusal("r", nodes=("n2", "rack1-n07.site", "n2"))) == ["n2", "rack1-n07.site"]
    assert submission.avoidable(Refusal("r", nodes=("n1;reboot", "-w", "", "a b", "n[1-2]", "n1,n2", "n1\n"))) == []
    assert submission.avoidable(None) == []


@pytest.mark.parametrize(
    ("before", "now", "nodes", "repeated"),
    [
        (Refusal("on n1: no such directory", nodes=("n1",)), "on n2: no such directory", 1, True),
        (Refusal("on n1: no such directory", nodes=("n1",)), "on n2: it hangs", 1, False),
        (Refusal("on n1: no such directory", nodes=("n1",)), "on n2: no such directory", 2, False),  # n1 can
        (Refusal("no such directory"), "on n2: no such directory", 1, False),
        (None, "on n2: no such directory", 1, False),
    ],
)
def test_a_reason_that_every_node_has(before: Refusal | None, now: str, nodes: int, repeated: bool) -> None:
    assert submission.repeated(Refusal(now, nodes=("n2",)), before, nodes) is repeated


def test_retries_let_a_campaign_end_that_is_longer_than_a_job() -> None:
    assert submission.retries(1200, None) == submission.retries(1200, 35) == 3
    assert submission.retries(10 * 3600, 60) == 15 - 1 + 1 + 3  # 15 h and 5 min in jobs of an hour
    for hours in (0.1, 1, 7.9, 100):
        jobs = 1 + submission.retries(hours * 3600, 60)
        assert jobs * 60 >= hours * 60 * submission.MARGIN


def test_options_that_the_executor_has_no_resource_for() -> None:
    assert submission.options(None) == "--exclusive --overcommit --dependency=singleton"
    assert submission.options("pfs:1").endswith("--dependency=singleton --licenses=pfs:1")
    assert submission.options("pfs", "77").endswith(" --dependency=singleton,afterany:77 --licenses=pfs")
    assert submission.options(None, "1;id") == submission.options(None)
    assert [submission.tasks(nodes) for nodes in (1, 2, 64)] == [2, 2, 64]


#: What the rule asks for.
ASKED: dict[str, object] = {"nodes": 3, "tasks": 3, "runtime": 30, "slurm_extra": "--exclusive --dependency=singleton"}


def sbatch(reservation: str = "", qos: str = "", **resources: object) -> str:
    given = submission.Options(reservation, qos)
    return " ".join(submission.sbatch(ASKED | resources, given, "run", "comment", "%j.log", "/d"))


def test_the_command_that_submits_a_job() -> None:
    start = "sbatch --parsable --job-name run --output %j.log --export=ALL --comment comment"
    end = "--cpus-per-task=1 --exclusive --dependency=singleton -D /d"
    assert sbatch() == f"{start} -t 30 --nodes=3 --no-requeue --ntasks=3 {end}"
    assert sbatch(mem_mb=0, qos="") == sbatch()
    assert f"{start} -A 4711 -p big -t 30 --mem 9 --nodes=3" in sbatch(
        slurm_account=4711, slurm_partition="big", mem_mb=9
    )
    options = "--constraint=ib --qos=bench --gres=gpu:2 --gpus=a100:4 --mem-per-cpu=7"
    site = {"constraint": "ib", "gres": "gpu:2", "gpus": "a100:4", "mem_mb_per_cpu": 7, "mem_mb": 9}
    assert f" --no-requeue {options} --ntasks=3 " in submission_of(site | {"qos": "bench"})
    assert " --no-requeue --qos=q --reservation=night --ntasks=3 " in sbatch("night", "q")
    assert " --cpus-per-task=2 " in sbatch(cpus_per_task=2)


def submission_of(site: dict[str, object]) -> str:
    return " ".join(submission.sbatch(ASKED | site, submission.Options(), "run", "comment", "%j.log", "/d"))


def test_accounts() -> None:
    assert " -A p-1.x " in sbatch(slurm_account="p-1.x")
    for none in (None, ""):
        assert " -A " not in sbatch(slurm_account=none)
    for bad in ("a b", "a;b", "$A", "a\n"):
        with pytest.raises(ConfigError, match="slurm_account"):
            sbatch(slurm_account=bad)


def test_a_job_is_known_by_its_comment_and_directory() -> None:
    assert submission.allocation(JOB, "weka_1.x", "/home/me/dir") == "2-nodes"
    assert job_comment.write("weka_1.x", "2-nodes") == JOB.comment
    assert submission.allocation(JOB, "weka_1", "/home/me/dir") is None  # the beginning of another name
    assert submission.allocation(JOB, "weka_1.x", "/work") is None
    for comment in ("", "iosweep_weka_1.x_y_2-nodes", "other_weka_1.x_2-nodes"):
        assert submission.allocation(replace(JOB, comment=comment), "weka_1.x", "/home/me/dir") is None


def test_a_partition_as_scontrol_shows_it() -> None:
    line = (
        "PartitionName=small AllowGroups=ALL AllowAccounts=ALL Default=YES QoS=N/A DefaultTime=NONE"
        " MaxNodes=4 MaxTime=1-02:30:00 MinNodes=0 Nodes=n[1-8] State=UP TotalCPUs=16 TotalNodes=8\n"
    )
    assert submission.partition(line) == Partition("small", "UP", 8, 4, 26 * 60 + 30, default=True)
    unlimited = submission.partition("PartitionName=x MaxNodes=UNLIMITED MaxTime=UNLIMITED State=DOWN TotalNodes=2")
    assert unlimited == Partition("x", "DOWN", 2, None, None)


@pytest.mark.parametrize(
    ("nodes", "minutes", "limits", "wrong"),
    [
        (4, 60, SMALL, None),
        (5, 60, SMALL, "the partition small gives a job 4 nodes at most; ask for fewer nodes"),
        (9, 60, replace(SMALL, most_nodes=None), "the partition small gives a job 8 nodes at most"),
        (4, 61, SMALL, "the partition small allows 1 h at most; set runtime=1h in the profile; what"),
        (4, 9999, replace(SMALL, limit_min=None), None),
        (1, 1, replace(SMALL, state="DOWN"), "the partition small is down; take another slurm_partition"),
    ],
)
def test_what_a_partition_would_let_wait(nodes: int, minutes: int, limits: Partition, wrong: str | None) -> None:
    found = submission.beyond(nodes, minutes, limits)
    assert found is None if wrong is None else str(found).startswith(wrong)


def test_nodes_that_are_down_are_waited_for() -> None:
    assert submission.usable("CLUSTER: b\n2|idle\n") == (2, "")
    states = "1|down*\n2|allocated\n1|idle\n3|drained\n1|mixed\n"
    assert submission.usable(states) == (4, "1 down*, 3 drained")
    refused = "allocation failure: Requested node configuration is not available"
    assert submission.for_now(refused, 4, SMALL, states) is None  # enough: it is something else
    assert submission.for_now(refused, 9, SMALL, states) is None  # there never were so many
    assert submission.for_now("Invalid account", 3, SMALL, "6|drained\n2|idle\n") is None
    found = submission.for_now(refused, 3, SMALL, "6|drained\n2|idle\n")
    assert found == (
        "of the 3 nodes that are asked for, the partition small has 2 that can be used (6 drained);"
        " the job waits for the others"
    )


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("allocation failure: Requested node configuration is not available", "axes: nodes"),
        ("allocation failure: Node count specification invalid", "axes: nodes"),
        ("allocation failure: Invalid account or account/partition combination specified", "slurm_account"),
        ("allocation failure: Requested time limit is invalid (missing or exceeds some limit)", "runtime"),
        ("sbatch: error: invalid partition specified: x", "slurm_partition"),
        ("allocation failure: Required partition not available (inactive or drain)", "slurm_partition"),
        ("allocation failure: Requested reservation is invalid", "iosweep-reservation"),
        ("allocation failure: Invalid license specification", "licenses in the profile"),
        ("sbatch: error: Memory specification can not be satisfied", "mem_mb"),
        ("allocation failure: Invalid qos specification", "iosweep-qos"),
        ("allocation failure: Unable to contact slurm controller (connect failure)", "scontrol ping"),
        ("something new", "the people who run the cluster"),
    ],
)
def test_what_to_do_when_sbatch_refuses(said: str, key: str) -> None:
    assert key in submission.meaning(said)
    by_memory = submission.meaning(said, 64000)
    assert by_memory.startswith("mem_mb=64000 in the profile may be more") == ("node configuration" in said)


def test_the_campaign_as_slurm_is_asked_for_it(tmp_path: Path) -> None:
    read(tmp_path, document(axes={"nodes": [1, 3], "queue_depth": [1, 16]}, phase_time="10min"))
    found = dag.load(tmp_path / "x.yaml", tmp_path / "results", "srun", site=Site(limit_min=30))
    assert set(found.left) == {"1-node", "3-nodes"}  # srun reaches them all
    # 2 points of 10 min: 30 min and 5 are more than the limit, so one job more than usual
    assert (found.minutes("3-nodes"), found.retries) == (30, 4)
    assert found.text("3-nodes", 30).endswith(" written; asks for 3 nodes for 30 min")
    assert found.nodes("3-nodes") == 3
    with pytest.raises(ConfigError, match=re.escape("unknown launcher `direct` (known: srun, srun-pmix, mpiexec)")):
        dag.load(tmp_path / "x.yaml", tmp_path / "results", "direct", site=Site())
