"""The executor plugin with jobs and a Slurm that are stand-ins: what it submits, sees, says and decides."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_executor_plugins.settings import SharedFSUsage

import snakemake_executor_plugin_iosweep as plugin
from iosweep.errors import Unanswered
from iosweep.jobs import attempts, pending
from iosweep.slurm import query
from iosweep.store.record import Refusal
from iosweep.store.store import Store
from left import Campaign
from snakemake_executor_plugin_iosweep import Executor, ExecutorSettings, common_settings
from waiting import wait_for


class Job:
    """What the executor uses of a job of Snakemake's."""

    name, attempt, restart_times = "measure", 1, 3
    input, log = ("tools/a b/tools.json",), ("results/weka/logs/x.log",)

    def __init__(self, nodes: int, place: Path):
        allocation = f"{nodes}-node"
        self.wildcards_dict = {"allocation": allocation}
        self.shellcmd = f"iosweep measure --allocation {allocation} --works-for $PPID"
        self.manifest = place / f"results/weka/manifests/{allocation}.jsonl"
        self.output = [str(self.manifest)]
        self.errors: list[Mapping[str, Any]] = []

    def log_info(self) -> None: ...

    def log_error(self, msg: str | None = None, **more: Any) -> None:
        self.errors.append(more)

    def register(self, external_jobid: str | None = None) -> None: ...

    def measured(self) -> None:
        self.manifest.parent.mkdir(parents=True, exist_ok=True)
        self.manifest.write_text("")


@dataclass
class Slurm:
    """Slurm's commands: the jobs that it has, number -> (state, reason), and what it was asked."""

    jobs: dict[str, list[str]] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    answers: bool = True
    refuses: str = ""
    #: sbatch takes this many jobs without saying so; what it says in its place
    silent: int = 0
    says: str = ""

    def ask(self, argv: list[str], deadline_s: float = 0, script: str = "") -> str:
        self.asked.append(list(argv))
        if argv[0] == "squeue":
            if not self.answers:
                raise Unanswered("squeue failed")
            rows = (
                f"{id}|{state}|me|1|n1|N/A|N/A|N/A|N/A|{reason}|run|{Path.cwd()}|{self.comments[id]}"
                for id, (state, reason) in self.jobs.items()
            )
            return "\n".join(rows)
        if argv[0] == "sbatch":
            if self.refuses:
                raise Unanswered(f"sbatch failed (exit code 1): {self.refuses}", self.refuses)
            if "--test-only" in argv:
                return ""
            number = str(7 + len(self.jobs))
            self.comments[number] = argv[argv.index("--comment") + 1]
            self.jobs[number] = ["PENDING", "Resources"]
            self.scripts.append(script)
            if self.silent:
                self.silent -= 1
                raise Unanswered("sbatch did not answer within 120 s", self.says)
            return f"{number};cluster\n"
        if argv[0] == "scancel":
            for number, job in self.jobs.items():
                if number in argv or argv[1].startswith("--name=iosweep_"):
                    job[0] = "CANCELLED"
            return ""
        raise Unanswered(f"{argv[0]} is not here")

    def of(self, *words: str) -> list[list[str]]:
        return [argv for argv in self.asked if set(words) <= set(argv)]


class Run:
    """A run of Snakemake with two jobs, the larger one first."""

    def __init__(self, place: Path, slurm: Slurm):
        self.slurm, self.jobs = slurm, [Job(2, place), Job(1, place)]
        self.campaign = Campaign(place / "results/weka", {"1-node": 60, "2-node": 60})
        self.store = Store(self.campaign.results)
        self.done: list[Job] = []
        self.failed: list[Job] = []
        self.errors: list[Exception] = []
        self.attempts = attempts.Attempts(self.campaign, self.again)
        attempts.current = self.attempts
        self.executor: Executor

    def again(self) -> Campaign:
        return replace(self.campaign, left_s=dict(self.campaign.left_s))

    def make(self) -> Executor:
        workflow = SimpleNamespace(
            dag=SimpleNamespace(needrun_jobs=lambda: set(self.jobs)),
            executor_settings=ExecutorSettings(poll_seconds=0.05),
            remote_execution_settings=SimpleNamespace(
                max_status_checks_per_second=10, jobname="snakejob.{jobid}.sh", jobscript=None, immediate_submit=False
            ),
            storage_settings=SimpleNamespace(shared_fs_usage=SharedFSUsage.all()),
            main_snakefile="Snakefile",
            executor_plugin=SimpleNamespace(common_settings=common_settings),
            scheduler=SimpleNamespace(
                submit_callback=lambda job: None,
                finish_callback=self.done.append,
                error_callback=self.error,
                executor_error_callback=self.errors.append,
            ),
        )
        self.executor = Executor(workflow, None)
        return self.executor

    def error(self, job: Job) -> None:
        """As Snakemake's scheduler does."""
        self.executor.handle_job_error(job)
        job.attempt += 1
        self.failed.append(job)

    def start(self) -> None:
        self.make().run_jobs(set(self.jobs))
        wait_for(lambda: len(self.slurm.jobs) == 2)

    def over(self, *jobs: Job) -> None:
        """Wait until these are reported as failed."""
        wait_for(lambda: set(self.failed) >= set(jobs))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    slurm = Slurm()
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").mkdir()
    monkeypatch.setattr(query, "ask", slurm.ask)
    monkeypatch.setattr(plugin, "LOOK_S", 0.02)
    monkeypatch.setattr(plugin, "FIRST_POLL_S", 0.05)
    monkeypatch.setattr(pending, "BELIEVED_S", 0.0)
    made = Run(tmp_path, slurm)
    yield made
    if hasattr(made, "executor"):
        made.executor.shutdown()
    attempts.current = None
    assert made.errors == []


Said = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """All that was said so far."""
    lines: list[str] = []

    def so_far() -> str:
        lines.append(capsys.readouterr().err)
        return "".join(lines)

    return so_far


@pytest.mark.local
def test_jobs_are_submitted_smallest_first_with_the_command_alone(run: Run) -> None:
    run.start()
    tried, sent = run.slurm.of("--test-only"), run.slurm.of("--parsable")[2:]
    assert [len(tried), len(sent)] == [2, 2]
    comments, names = ([argv[argv.index(name) + 1] for argv in sent] for name in ("--comment", "--job-name"))
    assert comments == ["iosweep_weka_1-node", "iosweep_weka_2-node"]
    assert len({*names}) == 1  # singleton goes by it
    first = run.slurm.scripts[0]
    assert "for file in plan 'tools/a b/tools.json'; do" in first
    assert first.endswith("\nexec iosweep measure --allocation 1-node --works-for $PPID\n")
    assert subprocess.run(["sh", "-n"], input=first, text=True, check=False).returncode == 0


def test_a_manifest_ends_a_job_though_slurm_does_not_answer(run: Run) -> None:
    run.make()
    run.slurm.answers = False
    run.executor.run_jobs(set(run.jobs))
    wait_for(lambda: len(run.slurm.jobs) == 2)
    small = run.jobs[1]
    small.measured()
    wait_for(lambda: run.done == [small])
    assert run.failed == []


def test_a_controller_that_does_not_answer_ends_nothing_and_is_asked_again(run: Run, said: Said) -> None:
    run.start()
    run.slurm.answers = False
    wait_for(lambda: "squeue failed" in said())
    count = len(run.slurm.of("squeue"))
    wait_for(lambda: len(run.slurm.of("squeue")) > count + 1)
    assert said().count("squeue failed") == 1
    assert run.failed == []
    run.slurm.answers = True
    run.slurm.jobs = {id: ["COMPLETED", "None"] for id in run.slurm.jobs}
    wait_for(lambda: set(run.done) == set(run.jobs))


def test_a_job_that_can_never_start_is_canceled_and_not_tried_again(run: Run, said: Said) -> None:
    run.start()
    run.slurm.jobs["8"][1] = "PartitionNodeLimit"
    large = run.jobs[0]
    run.over(large)
    assert said().count("(PartitionNodeLimit)") == 1
    assert run.slurm.of("scancel", "8")
    refusal = run.store.documents(Refusal)["2-node"]
    assert (refusal.lasting, "PartitionNodeLimit" in refusal.reason) == (True, True)
    assert large.attempt > large.restart_times + 1
    assert large.errors == []


def test_the_reason_of_a_job_that_failed_is_told_and_the_next_is_kept_off_its_nodes(run: Run, said: Said) -> None:
    run.start()
    small = run.jobs[1]
    run.store.set_refusal("1-node", Refusal("on n1: the target hangs", nodes=("n1",)))
    run.slurm.jobs["7"][0] = "FAILED"
    run.over(small)
    assert "the target hangs\n" in said()
    assert (small.errors, small.attempt) == ([], 2)  # in place of Snakemake's page
    assert run.attempts.bad_nodes("1-node") == {"n1"}
    run.executor.run_jobs([small])
    wait_for(lambda: len(run.slurm.jobs) == 3)
    assert "--exclude=n1" in run.slurm.of("--parsable")[-1]


def test_what_slurm_would_not_run_ends_the_run_before_anything(run: Run) -> None:
    run.slurm.refuses = "Invalid account or account/partition combination specified"
    with pytest.raises(SystemExit) as caught:
        run.make()
    said = str(caught.value)
    assert [word in said for word in ("1 node for 6 min", "2 nodes for 6 min", run.slurm.refuses)] == [True] * 3
    assert not run.campaign.results.exists()
    assert run.slurm.comments == {}


def test_ctrl_c_cancels_every_job_and_none_is_submitted_later(run: Run) -> None:
    run.start()
    run.executor.cancel_jobs([])  # the list of the base class is empty during a look
    assert {state for state, _ in run.slurm.jobs.values()} == {"CANCELLED"}
    run.executor.run_jobs(set(run.jobs))
    assert not run.executor.wait_thread.is_alive()


def test_too_many_queued_jobs_are_waited_for_and_cost_no_retry(run: Run, said: Said) -> None:
    """After each answer of squeue one job is submitted again, the first; the run says once that it waits."""
    run.slurm.refuses = "QOSMaxSubmitJobPerUserLimit; Batch job submission failed: Job violates accounting/QOS policy"
    run.make().run_jobs(set(run.jobs))
    wait_for(lambda: len(run.slurm.of("squeue")) > 5)
    asked = run.slurm.of("sbatch")[2:]
    assert {argv[argv.index("--comment") + 1] for argv in asked} == {"iosweep_weka_1-node"}
    assert len(asked) <= 1 + len(run.slurm.of("squeue"))
    assert (said().count("QOSMaxSubmitJobPerUserLimit"), run.failed) == (1, [])
    run.slurm.refuses = ""
    wait_for(lambda: len(run.slurm.jobs) == 2)
    assert list(run.slurm.comments.values()) == ["iosweep_weka_1-node", "iosweep_weka_2-node"]
    assert {job.attempt for job in run.jobs} == {1}


@pytest.mark.parametrize("says", ["", "Slurm temporarily unable to accept job, sleeping and retrying"])
def test_what_slurm_has_taken_without_saying_so_is_found_and_not_submitted_again(run: Run, says: str) -> None:
    run.slurm.silent, run.slurm.says = 1, says
    run.start()
    run.slurm.jobs = {id: ["COMPLETED", "None"] for id in run.slurm.jobs}
    wait_for(lambda: set(run.done) == set(run.jobs))
    assert (len(run.slurm.jobs), run.failed) == (2, [])


def test_what_sbatch_refuses_is_tried_again_once_slurm_says_that_it_has_no_such_job(run: Run, said: Said) -> None:
    run.make()
    run.slurm.refuses, run.slurm.answers = "Socket timed out on send/recv operation", False
    run.executor.run_jobs(set(run.jobs))
    wait_for(lambda: "squeue failed" in said())
    assert run.failed == []
    run.slurm.answers = True
    run.over(run.jobs[1])
    assert run.jobs[1].attempt == 2
