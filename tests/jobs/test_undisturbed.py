"""Whether a campaign is measured: by its lock, and by what Slurm says, in stand-ins' words and by a real one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from iosweep.errors import Busy
from iosweep.jobs import pending, undisturbed
from iosweep.results.store import Store
from iosweep.slurm import query as slurm
from iosweep.target import filesystem, identify, marker, ownership
from locks import left
from slurm import Cluster
from targets import OWNER, make_place

pytestmark = pytest.mark.local

JOB = slurm.Job(
    id="12", name="iosweep_0f", state="PENDING", reason="Resources", user="me", directory="/home/me/dir",
    comment="rule_measure_wildcards_c_2-nodes_0f3a91c2d4e5_0", nodes=2, hosts=(), starts=None, ends=None, licenses="",
)  # fmt: skip
LEFT = left(job="12")

Say = Callable[..., None]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "c"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """`say("squeue", "text", code)`: a stand-in of that name, on a PATH without Slurm."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def made(name: str, out: str = "", code: int = 0, errors: str = "") -> None:
        file = tmp_path / "bin" / name
        file.write_text(f"#!/bin/sh\necho '{out}'; echo '{errors}' >&2; exit {code}\n")
        file.chmod(0o755)

    return made


def hold(results: Path) -> str | None:
    with undisturbed.hold([results], "c") as unseen:
        return unseen


def test_jobs_of_the_campaign() -> None:
    others = [
        replace(JOB, state="COMPLETED"),
        replace(JOB, directory="/home/me/other"),
        replace(JOB, comment="rule_measure_wildcards_cc_2-nodes_0f_0"),
        replace(JOB, comment=""),
    ]
    running = replace(JOB, id="13", state="RUNNING")
    assert pending.of_campaign([*others, JOB, running], "c", {"/home/me/dir", "/home"}) == [JOB, running]


def test_without_slurm_the_lock_is_enough(results: Path, say: Say) -> None:
    assert hold(results) is None
    with Store(results).locked(), pytest.raises(Busy, match=f"^{results} is being measured by process {os.getpid()}"):
        hold(results)


def test_a_job_that_waits(results: Path, say: Say) -> None:
    line = f"12|PENDING|me|2||N/A|N/A|N/A|(null)|Priority|x|{results.parent.parent}|{JOB.comment}"
    say("squeue", line)
    with pytest.raises(Busy, match=r"^the campaign c has a job in Slurm: 12 \(pending\); wait for it, or cancel with"):
        hold(results)
    say("squeue", f"{line}\n{line.replace('12|PENDING', '13|RUNNING')}")
    with pytest.raises(Busy, match=r"has jobs in Slurm: 12 \(pending\), 13 \(running\); .*`scancel 12 13`$"):
        hold(results)


def test_results_behind_a_link(results: Path, say: Say, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "results").symlink_to(results.parent)
    say("squeue", f"12|RUNNING|me|2||N/A|N/A|N/A|(null)|None|x|{tmp_path / 'work'}|{JOB.comment}")
    with pytest.raises(Busy, match="has a job in Slurm"):
        hold(tmp_path / "work" / "results" / "c")


def test_slurm_that_does_not_answer(results: Path, say: Say) -> None:
    say("squeue", code=1, errors="no controller")
    unseen = hold(results)
    assert unseen
    assert re.match("squeue .* failed .* no controller; jobs of the campaign c that wait are not seen$", unseen)


NO_CLUSTER = "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host"


def test_a_client_without_a_cluster(results: Path, say: Say) -> None:
    """The package of the client is installed, and nothing else of Slurm: no job can wait."""
    say("squeue", code=1, errors=NO_CLUSTER)
    assert hold(results) is None


@pytest.mark.parametrize(
    ("code", "errors", "said"),
    [
        (0, "", "is being measured by"),
        (
            1,
            "no controller",
            r"may still be measured by .*: whether that job has ended cannot be seen \(scontrol .*\);",
        ),
    ],
)
def test_the_job_that_the_lock_names(results: Path, say: Say, code: int, errors: str, said: str) -> None:
    """Where the kernel's lock does not reach: private `/tmp`, another node."""
    (results / "lock").write_text(LEFT)
    say("squeue")
    say("scontrol", "JobId=12 JobState=RUNNING", code, errors)
    with pytest.raises(Busy, match=f"^{results} {said}"):
        hold(results)
    assert (results / "lock").read_text() == LEFT
    say("scontrol", code=1, errors="Invalid job id specified")
    assert hold(results) is None


def test_without_slurm_the_end_of_a_job_cannot_be_seen(results: Path, say: Say) -> None:
    (results / "lock").write_text(LEFT)
    with pytest.raises(Busy, match=rf"\(scontrol cannot be run: .*\); see that it has, then remove {results}/lock$"):
        hold(results)
    (results / "lock").unlink()
    assert hold(results) is None


def test_clean_asks_a_real_one(slurm: Cluster, results: Path, tmp_path: Path) -> None:
    """Nothing holds the lock here: the job waits, or runs where the lock does not reach."""
    (results / "plans").mkdir()
    directory = marker.directory_of(str(make_place(tmp_path / "t")), "c")
    uuid = ownership.claim(directory, OWNER | {"results": str(results), "campaign": "c"})
    here = filesystem.identity(identify.identify(directory))
    known = {"directory": directory, "uuid": uuid, "campaign": "c", "deadline": 60.0, "layout": None, "lock": None}
    Store(results).put("", "target", known | {"tidied": False, "file_system": here, "seen_as": []})

    def clean(*options: str) -> subprocess.CompletedProcess[str]:
        code = f"from iosweep.target import target_lock; target_lock.PREFIX = 'iosweep-test-{os.getpid()}'"
        code += "; import sys; from iosweep.commands.cli import main; sys.exit(main(['clean', *sys.argv[1:], 'c']))"
        return slurm.run([sys.executable, "-c", code, *options], cwd=str(tmp_path), check=False)

    submit = ["sbatch", "--parsable", f"--comment={JOB.comment}", "-o", "/dev/null", "-D", str(tmp_path), "--hold"]
    number = slurm.run([*submit, "--wrap", "sleep 600"]).stdout.strip()
    for options in (["--yes"], []):
        done = clean(*options)
        assert done.returncode == 1
        assert f"the campaign c has a job in Slurm: {number} (pending); wait for it, or cancel with" in done.stderr
    (results / "lock").write_text(left(host="n9", job=number))
    assert f"is being measured by process 7 on n9 (job {number}); wait for it" in clean("--yes").stderr
    assert json.loads((Path(directory) / "iosweep.json").read_text())["uuid"] == uuid
    slurm.cancel()
    done = clean("--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not Path(directory).exists()
