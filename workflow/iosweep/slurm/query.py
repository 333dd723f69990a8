"""Questions to Slurm: about jobs, nodes and steps. Each command has a deadline.

Of our own job, the environment gives the number only; squeue tells the rest.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from iosweep import hostlist
from iosweep.errors import Unanswered
from iosweep.text import shortened

#: A controller under load may take some seconds.
DEADLINE_S = 30.0
#: Time limit in seconds for killed steps to end.
_STEPS_END_S = 10.0
#: States of a job that has ended, in every Slurm from 22.05 to 26.05 (job_state_string). Others say what happens to one
#: that has not, and come with new versions: EXPEDITING with 26.05. REVOKED: a sibling in a federation has it.
_ENDED = frozenset(
    {
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
        *("OUT_OF_MEMORY", ""),
    }
)
#: Variables without which Slurm's commands do not find the cluster, or do not know who we are.
ACCESS = ("SLURM_CONF", "SLURM_JWT")
_KEPT = ("SLURM_JOB_ID", "SLURM_CLUSTER_NAME", *ACCESS)


@dataclass(frozen=True)
class Job:
    """A job as squeue shows it. `hosts` are empty while it waits.

    `submitted`, `starts`, `ends`: in seconds since the epoch, None if Slurm does not show it. `starts`: when it began,
    or is expected to begin. `ends`: when its time limit is reached; None while it waits, or without a limit.
    `directory`: its working directory. `licenses`: as asked for, `pfs:1,other:2`.
    """

    id: str
    name: str
    state: str
    reason: str
    user: str
    comment: str
    directory: str
    nodes: int
    hosts: tuple[str, ...]
    starts: float | None
    ends: float | None
    licenses: str
    submitted: float | None = None

    @property
    def alive(self) -> bool:
        """Whether it waits, runs or is about to end."""
        return self.state not in _ENDED


def forget_options() -> None:
    """Remove options of srun from our environment: our commands have all options that they need."""
    for name in [name for name in os.environ if name.startswith("SLURM_") and name not in _KEPT]:
        del os.environ[name]


def ask(argv: Sequence[str], deadline_s: float = DEADLINE_S, script: str = "") -> str:
    """Run a command of Slurm and return its output. `script`: for its stdin. Raises Unanswered."""
    # times in seconds: the local zone of a login node need not be that of the nodes
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            list(argv), input=script, capture_output=True, text=True, errors="replace", timeout=deadline_s,
            check=False, env=environment,
        )  # fmt: skip
    except OSError as error:
        raise Unanswered(f"{argv[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired as error:  # sbatch itself waits for room, and says so
        said = reason((error.stderr or b"").decode("utf-8", "replace"))
        raise Unanswered(f"{argv[0]} did not answer within {deadline_s:g} s", said) from None
    if done.returncode:
        said = reason(done.stderr) or done.stdout.strip().partition("\n")[0] or "it says nothing"
        raise Unanswered(f"{argv[0]} failed (exit code {done.returncode}): {said}", said)
    return done.stdout


def reason(stderr: str) -> str:
    """Why a command failed: its lines with errors, else all its lines. A greeting of the site may come before."""
    lines = list(dict.fromkeys(line.strip() for line in stderr.splitlines() if line.strip()))
    errors = [line for line in lines if re.search(r"\b(error|fatal): |^allocation failure: ", line)]
    return "; ".join(re.sub(r"^\w+: (error|fatal): ", "", line) for line in errors or lines)


def submit(argv: Sequence[str], script: str, deadline_s: float = DEADLINE_S) -> str:
    """Submit a job with sbatch; returns its number. Raises Unanswered; Slurm may have taken the job nevertheless."""
    printed = ask(argv, deadline_s, script=script)
    found = set(re.findall(r"^\s*(\d+)(?:;\S*)?\s*$", printed, re.MULTILINE))  # a site's banner may stand around it
    if len(found) != 1:
        raise Unanswered(f"sbatch printed no number of a job, but `{shortened(' '.join(printed.split()), 80)}`")
    return str(found.pop())


def job(id: str) -> Job | None:
    """A job by its number; None where Slurm does not know it (any more). Raises Unanswered."""
    try:
        return next(iter(_jobs([f"--jobs={id}", "--states=all"])), None)
    except Unanswered as error:
        if "Invalid job id" in error.said:  # `slurm_load_jobs error: Invalid job id specified`
            return None
        raise


def comment(campaign: str, allocation: str) -> str:
    """The comment of a batch job, which names its campaign and allocation; squeue shows it on every node."""
    return f"iosweep_{campaign}_{allocation}"


def allocation_of(text: str, campaign: str) -> str | None:
    """The allocation that a comment names; None for another campaign, even if its name begins with this campaign's.

    Words of the site may follow in the comment.
    """
    ours, prefix = text.partition(" ")[0], f"iosweep_{campaign}_"
    allocation = ours.removeprefix(prefix)
    return allocation if ours.startswith(prefix) and "_" not in allocation else None


def lives(id: str) -> bool:
    """Whether a job has not ended. Raises Unanswered."""
    found = job(id)
    return found is not None and found.alive


def jobs(users: Sequence[str] = (), name: str = "") -> list[Job]:
    """All jobs of this user, or of some users, that squeue knows. Raises Unanswered.

    `name`: jobs of this name only, including ended jobs that Slurm still knows.
    """
    whose = f"--user={','.join(users)}" if users else "--me"
    return _jobs([whose, *(["--states=all", f"--name={name}"] if name else [])])


def _jobs(which: Sequence[str]) -> list[Job]:
    # what a user may write freely comes last
    printed = ask(["squeue", *which, "--noheader", "--format=%A|%T|%u|%D|%N|%V|%S|%e|%W|%r|%j|%Z|%k"])
    found = []
    for line in printed.splitlines():
        if len(parts := line.strip().split("|", 11)) < 12 or "|" not in parts[-1]:
            continue
        id, state, user, nodes, hosts, submitted, starts, ends, licenses, why, name, rest = map(given, parts)
        directory, _, comment = rest.rpartition("|")  # a directory may have any character
        end = _time(ends)
        found.append(
            Job(
                *(id, name, state, why, user, given(comment), directory),
                int(nodes) if nodes.isdigit() else 0,
                hostnames(hosts),
                _time(starts),
                end if state != "PENDING" else None,
                licenses,
                _time(submitted),
            )
        )
    return found


# Errors that only their text distinguishes. `said`: Unanswered.said, as Slurm 22.05 and 23.11 print it.


def has_no_cluster(said: str) -> bool:
    """Slurm's commands are installed, and no cluster is configured: `scontrol: error: resolve_ctls_from_dns_srv:
    res_nsearch error: Unknown host`, `scontrol: fatal: Could not establish a configuration source`."""
    return bool(re.search("resolve_ctls_from_dns|configuration source", said))


def is_without_nodes(said: str) -> bool:
    """`allocation failure: Requested node configuration is not available`, from sbatch: also while nodes are down."""
    return "node configuration" in said.lower()


def end_steps(job: str, spare: str) -> int:
    """Kill all steps of a job except `spare`; returns how many still exist after the deadline. Raises Unanswered.

    A step outlives an srun that is killed.
    """
    end = time.monotonic() + _STEPS_END_S
    while there := [step for step in _steps(job) if step != spare]:
        if time.monotonic() > end:
            return len(there)
        for step in there:
            with contextlib.suppress(Unanswered):  # it has just ended
                ask(["scancel", "--signal=KILL", step])
        time.sleep(0.1)
    return 0


def _steps(job: str) -> list[str]:
    """The steps of a job that were started with srun: `12.0`."""
    printed = ask(["squeue", "--steps", f"--jobs={job}", "--noheader", "--format=%i"])
    return [step for step in printed.split() if step.rpartition(".")[2].isdigit()]


def fields(line: str) -> dict[str, str]:
    """`A=1 B=two words C=3`, as scontrol prints it, as a mapping. A value with ` X=` in it is cut there."""
    parts = re.split(r"(?:^|\s)([A-Z][A-Za-z/:_]*)=", line.strip())
    return {key: value for key, text in zip(parts[1::2], parts[2::2], strict=True) if (value := given(text))}


def hostnames(nodes: str) -> tuple[str, ...]:
    """`n[1-2],b7` -> n1, n2, b7, in Slurm's order."""
    if not nodes:
        return ()
    try:
        return hostlist.unfolded(nodes)
    except ValueError:  # another form, of another Slurm
        return tuple(ask(["scontrol", "show", "hostnames", nodes]).split())


def given(text: str) -> str:
    """A value that Slurm printed; empty for `(null)` and `N/A`."""
    text = text.strip()
    return "" if text in ("(null)", "N/A") else text


def _time(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # Unknown, N/A, NONE
        return None
