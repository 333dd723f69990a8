"""What Slurm's commands say, in the words of real ones; and those commands on a real cluster."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from held_job import Held
from iosweep.errors import Unanswered
from iosweep.slurm import query as commands
from iosweep.slurm.query import ALIVE, Job
from slurm import Cluster

pytestmark = pytest.mark.local

#: `scontrol --oneliner show job` of 22.05.8, with SLURM_TIME_FORMAT=%s, shortened in the middle.
RUNNING = (
    "JobId=1 JobName=a b|c=d E=f UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A Priority=4294901759 Nice=0"
    " Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0 RunTime=00:00:01"
    " TimeLimit=00:05:00 SubmitTime=1795320981 AccrueTime=1795320981 StartTime=1795320982 EndTime=1795321282"
    " Deadline=N/A Partition=small AllocNode:Sid=head:128 ReqNodeList=(null) ExcNodeList=(null) NodeList=n[1-2]"
    " BatchHost=n1 NumNodes=2 NumCPUs=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:* Licenses=pfs:1 Network=(null) Command=(null)"
    " WorkDir=/home/a b Comment=x|y StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= \n"
)
PENDING = (
    "JobId=2 JobName=two UserId=ann(1000) JobState=PENDING Reason=Priority Dependency=(null) TimeLimit=01:00:00"
    " StartTime=Unknown EndTime=Unknown ReqNodeList=(null) NodeList= NumNodes=2-3 NumCPUs=1 Licenses=(null)"
    " Command=(null) WorkDir=/tmp StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= \n"
)
JOBS = """\
2|PENDING|ann|1-2||1795320981|N/A|N/A|pfs:1|Priority|two|/tmp|(null)
3|PENDING|ann|2||N/A|1795329999|1795330000|(null)|(ReqNodeNotAvail, UnavailableNodes:n[1-2])|x|/a b|
1|RUNNING|ann|2|n1,n2|1795320981|1795320982|1795321282|N/A|None|a b|/home/x|y|iosweep_c
a line of something else
a|b|c|d|e|f|g|h|i|j|k|l
"""

Say = Callable[..., Path]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """`say("squeue", "text", "errors", 1)`: a stand-in of that name on PATH. It keeps what it was called with."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def made(name: str, out: str = "", err: str = "", code: int = 0, then: str = "") -> Path:
        (tmp_path / f"{name}.out").write_text(out)
        (tmp_path / f"{name}.err").write_text(err)
        file = tmp_path / name
        file.write_text(
            f'#!/bin/sh\ncd {tmp_path}\nfor word; do echo "$word"; done > {name}.called\n'
            f"cat {name}.out; cat {name}.err >&2\n{then}\nexit {code}\n"
        )
        file.chmod(0o755)
        return tmp_path / f"{name}.called"

    return made


# One job


def test_a_job_that_runs(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    called = say("scontrol", RUNNING)
    monkeypatch.setattr(commands, "hostnames", lambda nodes: (nodes, "?"))
    assert commands.job("1") == Job(
        id="1", name="a b|c=d", state="RUNNING", reason="None", user="ann", comment="x|y", directory="/home/a b",
        nodes=2, hosts=("n[1-2]", "?"), starts=1795320982.0, ends=1795321282.0, licenses="pfs:1",
        submitted=1795320981.0,
    )  # fmt: skip
    assert called.read_text().splitlines() == ["--oneliner", "show", "job", "1"]


def test_a_job_that_waits(say: Say) -> None:
    say("scontrol", PENDING)
    found = commands.job("2")
    assert found
    assert (found.nodes, found.hosts, found.starts, found.ends, found.licenses) == (2, (), None, None, "")
    assert (found.alive, commands.lives("2")) == (True, True)


@pytest.mark.parametrize(
    ("state", "alive"),
    [
        *((state, True) for state in sorted(ALIVE)),
        *((state, False) for state in ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "")),
        *((state, False) for state in ("BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED")),
    ],
)
def test_which_states_are_no_end(say: Say, state: str, alive: bool) -> None:
    say("scontrol", RUNNING.replace("RUNNING", state).replace("n[1-2]", "n1"))
    assert commands.lives("1") is alive


@pytest.mark.parametrize("message", ["slurm_load_jobs", "scontrol_print_job"])
def test_a_job_that_is_not_known(say: Say, message: str) -> None:
    say("scontrol", "", f"{message} error: Invalid job id specified\n", 1)
    assert commands.job("999") is None
    assert commands.lives("999") is False


def test_not_to_be_seen_is_not_gone(say: Say) -> None:
    say("scontrol", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1)
    with pytest.raises(Unanswered, match=r"^scontrol --oneliner show failed \(exit code 1\): slurm_load_jobs error: "):
        commands.lives("1")


# Commands that do not answer


def test_slurm_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unanswered, match=r"^scontrol cannot be run: No such file or directory$"):
        commands.job("1")
    with pytest.raises(Unanswered, match=r"^squeue cannot be run: No such file or directory$"):
        commands.jobs()


def test_one_that_hangs(say: Say) -> None:
    say("squeue", then="exec sleep 600")
    began = time.monotonic()
    with pytest.raises(Unanswered, match=r"^squeue did not answer within 0\.2 s$"):
        commands.ask(["squeue"], deadline_s=0.2)
    assert time.monotonic() - began < 300


@pytest.mark.parametrize(("errors", "told"), [("\n  why \nmore\n", "why"), ("", "it says nothing"), ("\udcff\n", "�")])
def test_one_that_fails(say: Say, tmp_path: Path, errors: str, told: str) -> None:
    say("squeue", "partly", code=3)
    (tmp_path / "squeue.err").write_bytes(os.fsencode(errors))
    with pytest.raises(Unanswered, match=rf"^squeue -a -b failed \(exit code 3\): {told}$"):
        commands.ask(["squeue", "-a", "-b", "-c"])


def test_how_they_are_asked(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_CONF", "/etc/other")
    say("squeue", then='echo "$SLURM_TIME_FORMAT $LC_ALL $SLURM_CONF"; cat; echo e >&2')  # it waits for no input
    assert commands.ask(["squeue"]) == "%s C /etc/other\n"
    assert commands.ask(["squeue"], both=True) == "%s C /etc/other\ne\n"


# All jobs, and what else there is


def test_all_jobs(say: Say) -> None:
    say("squeue", JOBS)
    first, second, third = commands.jobs()
    common = {"user": "ann"}
    assert first == Job(
        id="2", name="two", state="PENDING", reason="Priority", comment="", directory="/tmp", nodes=0, hosts=(),
        starts=None, ends=None, licenses="pfs:1", submitted=1795320981.0, **common,
    )  # fmt: skip
    assert (second.reason, second.directory, second.comment) == (
        "(ReqNodeNotAvail, UnavailableNodes:n[1-2])", "/a b", "",
    )  # fmt: skip
    assert (second.starts, second.ends) == (1795329999.0, None)  # when it may begin; its end is a guess about a guess
    assert third == Job(
        id="1", name="a b", state="RUNNING", reason="None", comment="iosweep_c", directory="/home/x|y",
        nodes=2, hosts=("n1", "n2"), starts=1795320982.0, ends=1795321282.0, licenses="", submitted=1795320981.0,
        **common,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A=1 B=two words C=", {"A": "1", "B": "two words", "C": ""}),
        ("  CPUs/Task=1 AllocNode:Sid=h:1\n", {"CPUs/Task": "1", "AllocNode:Sid": "h:1"}),
        ("TRES=cpu=4,mem=8M", {"TRES": "cpu=4,mem=8M"}),
        ("no field", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_fields(line: str, expected: dict[str, str]) -> None:
    assert commands.fields(line) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        *((none, ()) for none in ("", "(null)", "None", "N/A")),
        *((text, tuple(text.strip().split(","))) for text in ("n1", "n2,n1 ")),
        ("n[1-2],b7", ("n1", "n2", "b7")),
        ("n[1-2,b7", ("n1", "n2", "b7")),  # no form that we know: Slurm is asked
    ],
)
def test_hostnames(say: Say, nodes: str, expected: tuple[str, ...]) -> None:
    called = say("scontrol", "n1\nn2\nb7\n")
    assert commands.hostnames(nodes) == expected
    assert called.exists() == (nodes == "n[1-2,b7")


def test_addresses(say: Say) -> None:
    say("scontrol", "NodeName=n1 Arch=x86_64 NodeAddr=127.0.0.5 OS=Linux 6 #1 @0\nNodeName=n2 NodeAddr= State=IDLE\n")
    assert commands.addresses(["n1"]) == {"n1": "127.0.0.5"}
    with pytest.raises(Unanswered, match=r"^the address  of node n2 is not known here: |node n2"):
        commands.addresses(["n1", "n2"])


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104
def test_an_address_that_is_that_of_all_interfaces(say: Say, address: str) -> None:
    """A server that is bound to it would listen on every network of the node."""
    say("scontrol", f"NodeName=n1 NodeAddr={address}\n")
    with pytest.raises(Unanswered, match=f"^the address {address} of node n1 is that of no machine$"):
        commands.addresses(["n1"])


def test_steps_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def ask(argv: list[str]) -> str:
        asked.append(argv)
        if argv[0] == "scancel":
            raise Unanswered("it has just ended")
        return "12.batch\n12.0\n12.3\n12.extern\n12.interactive\n12.4\n"

    monkeypatch.setattr(commands, "ask", ask)
    monkeypatch.setattr(commands, "_STEPS_END_S", 0.15)
    assert commands.end_steps("12", "12.0") == 2
    assert {argv[-1] for argv in asked if argv[0] == "scancel"} == {"12.3", "12.4"}  # neither ours nor the agents'
    assert asked[0] == ["squeue", "--steps", "--jobs=12", "--noheader", "--format=%i"]


# On a cluster


@pytest.fixture(scope="module")
def held(slurm_session: Cluster) -> Iterator[Held]:
    made = Held(slurm_session, "--licenses=pfs:1", "--job-name=a b", "--comment=x y", "--time=7")
    yield made
    made.end()


def everything(id: str) -> dict[str, Any]:
    return {
        "job": commands.job(id), "jobs": commands.jobs(), "lives": commands.lives(id), "other": commands.job("99999"),
        "addresses": commands.addresses(Held.hosts), "now": time.time(),
    }  # fmt: skip


def test_what_a_real_one_says(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    submit = ["sbatch", "--parsable", "--nodes=2", "--output=/dev/null", "--wrap=true"]
    waiting = held.cluster.run(submit).stdout.strip()
    seen = held.inside(everything, held.job)
    held.cluster.run(["scancel", waiting])
    job, jobs = seen["job"], {each.id: each for each in seen["jobs"]}
    assert jobs[held.job] == job
    assert (job.name, job.comment, job.licenses, job.state) == ("a b", "x y", "pfs:1", "RUNNING")
    assert (job.nodes, job.hosts, job.directory) == (2, held.hosts, str(Path.cwd()))
    assert job.ends - job.starts == 7 * 60
    assert abs(job.starts - seen["now"]) < 7 * 60  # and not by hours, as zones are apart
    assert (jobs[waiting].hosts, jobs[waiting].ends, jobs[waiting].alive) == ((), None, True)
    assert (seen["lives"], seen["other"]) == (True, None)
    assert seen["addresses"] == {"n1": "10.77.0.11", "n2": "10.77.0.12"}
    assert held.inside(commands.job, waiting).state == "CANCELLED"
