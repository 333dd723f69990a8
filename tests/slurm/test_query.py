"""What Slurm's commands say, in the words of real ones, and how they are asked."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from iosweep.errors import Unanswered
from iosweep.slurm import query
from iosweep.slurm.query import Job

#: A file of each version: what squeue and scontrol printed on the test cluster.
SAMPLES = Path(__file__).resolve().parents[1] / "samples/slurm"
JOBS = """\
2|PENDING|ann|1-2||1795320981|N/A|N/A|pfs:1|Priority|two|/tmp|(null)
3|PENDING|ann|2||N/A|1795329999|1795330000|(null)|(ReqNodeNotAvail, UnavailableNodes:n[1-2])|x|/a b|
1|RUNNING|ann|2|n1,n2|1795320981|1795320982|1795321282|N/A|None|a b|/home/x|y|iosweep_c
a line of something else
a|b|c|d|e|f|g|h|i|j|k|l
"""


class Says:
    """In place of Slurm's commands: what they print, or how they fail. `asked`: their command lines."""

    def __init__(self) -> None:
        self.printed: str | Unanswered = ""
        self.asked: list[list[str]] = []

    def ask(self, argv: Sequence[str], *_: object, **__: object) -> str:
        self.asked.append(list(argv))
        if isinstance(self.printed, Unanswered):
            raise self.printed
        return self.printed


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Says:
    made = Says()
    monkeypatch.setattr(query, "ask", made.ask)
    return made


@pytest.mark.parametrize("recorded", sorted(SAMPLES.glob("*.txt")), ids=lambda file: file.stem)
def test_every_slurm_is_understood_alike(says: Says, recorded: Path) -> None:
    """A job that runs and one that waits, and two partitions, as each version prints them in one line."""
    says.printed, pending, small, big = recorded.read_text().splitlines()
    job = query.job("1")
    assert job and {"squeue", "--jobs=1", "--states=all"} < set(says.asked[0])
    assert job.submitted and job.starts and job.ends == job.starts + 300
    assert replace(job, submitted=None, starts=None, ends=None) == Job(
        id="1", name="a b", state="RUNNING", reason="None", user="root", comment="iosweep_x_2-nodes a b", nodes=2,
        directory="/tmp", hosts=("n1", "n2"), starts=None, ends=None, licenses="pfs:1",
    )  # fmt: skip
    says.printed = pending
    job = query.job("2")
    assert job
    assert (job.state, job.reason, job.nodes, job.hosts, job.licenses) == ("PENDING", "Resources", 2, (), "")
    keys = ("PartitionName", "State", "TotalNodes", "MaxNodes", "MaxTime", "Default")
    assert [[query.fields(line)[key] for key in keys] for line in (small, big)] == [
        ["small", "UP", "2", "UNLIMITED", "01:00:00", "YES"], ["big", "UP", "2", "UNLIMITED", "01:00:00", "NO"],
    ]  # fmt: skip


def test_a_job_lives_until_slurm_says_that_it_is_over(says: Says) -> None:
    """A job that cannot be seen is not over; one that Slurm does not know is."""
    alive = (
        *("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD"),
        *("STOPPED", "SIGNALING", "REQUEUE_FED", "RESIZING", "SPECIAL_EXIT", "RESV_DEL_HOLD", "EXPEDITING", "REVOKED"),
    )
    over = (
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY"),
        *("DEADLINE", "(null)"),
    )
    for state in (*alive, *over):
        says.printed = JOBS.splitlines()[2].replace("RUNNING", state)
        assert query.lives("1") is (state in alive), state
    says.printed = Unanswered("failed", "slurm_load_jobs error: Invalid job id specified")
    assert (query.job("9"), query.lives("9")) == (None, False)
    says.printed = Unanswered("failed", "slurm_load_jobs error: Unable to contact slurm controller")
    with pytest.raises(Unanswered):
        query.lives("1")


def test_the_reason_of_a_refusal_is_found_behind_what_a_site_prints() -> None:
    """`slurm.log_user` of job_submit.lua prints as an error where a job is refused."""
    hello, no = "sbatch: error: Welcome, your account has 9 h\n", "Invalid license specification"
    node = "allocation failure: Requested node configuration is not available\n"
    for stderr, said in (
        (f"sbatch: error: {no}\n", no), (f"*** hello ***\n\nsbatch: error: {no}\nsbatch: error: {no}\n", no),
        (f"{hello}{node}", f"Welcome, your account has 9 h; {node.strip()}"), (" hello\n of two\n", "hello; of two"),
        ("slurm_load_jobs error: Invalid job id specified\n", "slurm_load_jobs error: Invalid job id specified"),
    ):  # fmt: skip
        assert query.reason(stderr) == said
    assert query.is_without_nodes(query.reason(hello + node))


def test_of_what_sbatch_prints_the_line_that_is_a_number_is_the_job(says: Says) -> None:
    for printed, number in (
        ("12\n", "12"), ("12;lab\n", "12"), ("----\n 2 nodes of 128\nquota 12 of 99\n12\nbye\n", "12"),
        ("hello\n", None), ("", None), ("9\n12\n", None),
    ):  # fmt: skip
        says.printed = printed
        if number:
            assert query.submit(["sbatch"], "") == number
        else:
            with pytest.raises(Unanswered):
                query.submit(["sbatch"], "")


def test_all_jobs_whatever_their_users_have_written_in_them(says: Says) -> None:
    says.printed = JOBS
    first, second, third = query.jobs()
    common = {"user": "ann", "submitted": 1795320981.0}
    assert first == Job(
        id="2", name="two", state="PENDING", reason="Priority", comment="", directory="/tmp", nodes=0, hosts=(),
        starts=None, ends=None, licenses="pfs:1", **common,
    )  # fmt: skip
    assert (second.reason, second.directory) == ("(ReqNodeNotAvail, UnavailableNodes:n[1-2])", "/a b")
    assert (second.starts, second.ends) == (1795329999.0, None)  # when it may begin; its end is a guess about a guess
    assert third == Job(
        id="1", name="a b", state="RUNNING", reason="None", comment="iosweep_c", directory="/home/x|y",
        nodes=2, hosts=("n1", "n2"), starts=1795320982.0, ends=1795321282.0, licenses="", **common,
    )  # fmt: skip
    query.jobs(["ann", "bob"], "run")
    options = [{word for word in argv if not word.startswith("--format")} for argv in says.asked]
    assert options[0] == {"squeue", "--me", "--noheader"}
    assert options[1] == {"squeue", "--user=ann,bob", "--states=all", "--name=run", "--noheader"}


def test_steps_are_ended_but_for_the_agents_and_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    clock = iter(range(1000))

    def ask(argv: list[str]) -> str:
        asked.append(argv)
        if argv[0] == "scancel":
            raise Unanswered("it has just ended")
        return "12.batch\n12.0\n12.3\n12.extern\n12.interactive\n12.4\n"

    monkeypatch.setattr(query, "ask", ask)
    monkeypatch.setattr(query, "time", SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None))
    assert query.end_steps("12", "12.0") == 2
    assert {argv[-1] for argv in asked if argv[0] == "scancel"} == {"12.3", "12.4"}  # neither ours nor the agents'
    assert asked[0] == ["squeue", "--steps", "--jobs=12", "--noheader", "--format=%i"]


# Processes


@pytest.mark.local
def test_a_command_of_slurm_is_asked_in_its_own_words_and_within_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def squeue(script: str) -> None:
        file = tmp_path / "squeue"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_CONF", "/etc/other")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    squeue('echo "$SLURM_TIME_FORMAT $LC_ALL $SLURM_CONF $*"; cat; echo e >&2')  # without a script there is no input
    assert query.ask(["squeue", "-a b"]) == "%s C /etc/other -a b\n"
    assert query.ask(["squeue"], script="in\n") == "%s C /etc/other \nin\n"
    for printed, said in (
        (r"\n  why \nmore\n", "why; more"),
        ("", "partly"),
    ):  # as of `scontrol ping`
        squeue(f"echo partly; printf '{printed}' >&2; exit 3")
        with pytest.raises(Unanswered) as failed:
            query.ask(["squeue", "-a"])
        assert failed.value.said == said
    squeue("echo waiting >&2; exec sleep 600")
    with pytest.raises(Unanswered) as failed:
        query.ask(["squeue"], 1.0)
    assert failed.value.said == "waiting"
    with pytest.raises(Unanswered):
        query.ask(["no-such-command-of-slurm"])
