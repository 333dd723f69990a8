"""Campaigns on test clusters: an allocation in a batch job of its own, or all through Snakemake; several at a time.

A story is what happens to a campaign on a cluster. Most of its time it waits, so those that are asked for run beside
each other, each on a cluster of its own, from the moment that the first test asks for one.
"""

import contextlib
import itertools
import os
import queue
import re
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.parquet
import pytest
import yaml

import slurm as clusters
from campaign import PLUGINS_OF_USERS, ROOT, Allocation, Campaign
from lying_fio import through
from slurm import Cluster, Inside, tidy
from waiting import wait_for

#: A point on two nodes that writes new files with fio: nothing has to be prepared.
WRITES: dict[str, Any] = {
    "name": "w", "tool": "fio", "phases": ["seq_write"], "axes": {"nodes": [2]}, "phase_time": "100ms",
    "options": {"file_size": "256k", "transfer_size": "64k", "write_mode": "new", "o_direct": False},
    "repetitions": 1,
}  # fmt: skip
#: A point of IOR with two ranks on each of two nodes.
RANKS: dict[str, Any] = {
    "name": "r", "tool": "ior", "phases": ["seq_write"], "axes": {"nodes": [2]}, "phase_time": "1s",
    "options": {
        "threads_per_node": 2, "file_size": "1m", "transfer_size": "64k", "write_mode": "new", "o_direct": False,
    },
    "repetitions": 1,
}  # fmt: skip
#: Nothing of ours takes longer, on a machine that is busy with all the stories.
PATIENCE_S = 600
#: Stories at a time.
LANES = 4
LIMITS = {"retried": "0%", "fill": "100%", "share_of_free": "100%"}


def until(condition: Callable[[], Any], over: Callable[[], str | None] = lambda: None) -> Any:
    """`wait_for` that looks seldom: what is waited for needs the CPUs."""
    return wait_for(condition, PATIENCE_S, over, pause_s=0.2)


@dataclass
class Stage:
    """What a story is given: a cluster that is idle, an empty directory, and where the tools are (PATH)."""

    cluster: Cluster
    place: Path
    path: str
    #: every snakemake of it
    runs: "list[Run]" = field(default_factory=list)


#: Name -> story. The first are begun first.
STORIES: dict[str, Callable[[Stage], None]] = {}


class Stories:
    """The stories of this session."""

    def __init__(self, wanted: Sequence[str], path: str, directory: Callable[[str], Path]):
        self._path, self._directory = path, directory
        self._idle: queue.SimpleQueue[Cluster] = queue.SimpleQueue()
        self._clusters = [Cluster().up() for _ in range(min(LANES, len(wanted)))]
        for cluster in self._clusters:
            self._idle.put(cluster)
        self._pool = ThreadPoolExecutor(LANES)
        self._told: dict[str, Future[None]] = {name: self._pool.submit(self._tell, name) for name in wanted}

    def end(self, name: str) -> None:
        """Wait until a story has ended, and raise what it raised."""
        self._told[name].result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for cluster in self._clusters:
            cluster.down()  # what still runs ends with it
        self._pool.shutdown()

    def _tell(self, name: str) -> None:
        cluster = self._idle.get()
        stage = Stage(cluster, self._directory(name.replace("/", "-")), self._path)
        try:
            try:
                STORIES[name](stage)
            finally:
                for run in stage.runs:  # one that is not over would submit another job for each that is ended
                    run.process.signal_group(signal.SIGKILL)
                tidy(cluster)
        finally:
            self._idle.put(cluster)


_session: Stories | None = None


@pytest.fixture(scope="session", name="stories")
def told_stories(
    request: pytest.FixtureRequest, fio: Path, mpi_tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stories]:
    """Those that the tests of this session ask for by their parameter `story`. Test modules import it: all get one."""
    global _session
    if reason := clusters.missing():
        pytest.skip(reason)
    if _session is None:
        asked = {item.callspec.params.get("story") for item in request.session.items if hasattr(item, "callspec")}
        wanted = [name for name in STORIES if name in asked]
        _session = Stories(wanted, f"{mpi_tools}{os.pathsep}{os.environ['PATH']}", tmp_path_factory.mktemp)
    yield _session
    _session.close()


class Marked:
    """Whose processes are known by a variable in their environment, on whatever node they are."""

    def __init__(self) -> None:
        self.mark = {"IOSWEEP_TEST": str(uuid.uuid4())}

    def processes(self, word: str = "", node: str = "") -> list[psutil.Process]:
        """What lives of it, on all nodes or one; with this word in its command, or a program of that name."""
        wanted = [f"{name}={value}".encode() for name, value in self.mark.items()]
        wanted += [f"SLURMD_NODENAME={node}".encode()] if node else []
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, psutil.Error):
                if set(wanted) <= set((entry / "environ").read_bytes().split(b"\0")):
                    process = psutil.Process(int(entry.name))
                    words = {Path(each).name for each in process.cmdline()}
                    if word in words or (not word and process.status() != psutil.STATUS_ZOMBIE):
                        found.append(process)
        return found

    def runner(self) -> psutil.Process:
        """The runner; a child of it has its command and variables, too, until it is another program."""

        def alone() -> list[psutil.Process]:
            with contextlib.suppress(psutil.Error):
                found = [process for process in self.processes("measure") if "iosweep" in process.cmdline()]
                return [process for process in found if process.ppid() not in {each.pid for each in found}]
            return []

        [process] = until(alone, self.over)
        return process

    def over(self) -> str | None:
        """What the last that was started of it said, if that has ended."""
        raise NotImplementedError

    def tool(self, word: str, node: str) -> list[psutil.Process]:
        """Wait until it runs there, and a moment longer."""
        found: list[psutil.Process] = until(lambda: self.processes(word, node), self.over)
        time.sleep(0.3)
        return found

    def nothing_lives(self) -> None:
        """Wait until that is so."""
        seen: list[psutil.Process] = []

        def gone() -> bool:
            seen[:] = self.processes()
            return not seen

        try:
            until(gone)
        except AssertionError:
            raise AssertionError("\n".join(["these live:", *map(_described, seen)])) from None


def _described(process: psutil.Process) -> str:
    """What it is, what it does, and below what it is."""
    try:
        kernel = Path(f"/proc/{process.pid}/wchan").read_text()
        return f"{process.as_dict(['pid', 'ppid', 'status', 'cmdline'])} in {kernel}, below {process.parents()}"
    except (OSError, psutil.Error) as error:
        return str(error)


class Stored:
    """What is in the store of a campaign."""

    results: Path

    def records(self) -> list[dict[str, Any]]:
        """All tries that were committed, in the order in which they were measured: never two at once."""
        found = [msgspec.json.decode(file.read_bytes()) for file in self.results.glob("points/*/r*.json")]
        found.sort(key=lambda record: record["started"])
        for before, after in itertools.pairwise(found):
            assert datetime.fromisoformat(before["ended"]) <= datetime.fromisoformat(after["started"])
        return found

    def committed(self) -> dict[str, bytes]:
        """Every file of these, by its name when nothing supersedes it."""
        files = [file for file in self.results.glob("points/*/r*") if not file.name.startswith(".")]
        return {f"{f.parent.name}/{f.name.replace('.superseded', '')}": f.read_bytes() for f in files}

    def table(self, name: str = "results") -> list[dict[str, Any]]:
        """The rows that merge has made."""
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(self.results / f"{name}.parquet").to_pylist()
        return rows


class Job:
    """A batch job that was submitted."""

    def __init__(self, cluster: Cluster, id: str, output: Path):
        self.cluster, self.id, self.output = cluster, id, output

    @property
    def state(self) -> str:
        return told(self.cluster, self.id)["JobState"]

    @property
    def over(self) -> bool:
        return self.state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

    def end(self) -> int | str:
        """Wait for it: its exit code, or the state in which Slurm ended it."""
        until(lambda: self.over)
        code, _, sig = told(self.cluster, self.id)["ExitCode"].partition(":")
        if self.state not in ("COMPLETED", "FAILED"):
            return self.state
        return int(code) or (128 + int(sig) if int(sig) else 0)  # as a shell tells it

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def cancel(self) -> None:
        self.cluster.run(["scancel", self.id])


def told(cluster: Cluster, job: str) -> dict[str, str]:
    """What Slurm knows of a job."""
    said = cluster.run(["scontrol", "--oneliner", "show", "job", job]).stdout
    return dict(re.findall(r"\b(\w+)=(\S*)", said))


class Case(Allocation, Marked, Stored):
    """One allocation on the cluster; the target is on a file system of its own that all nodes see."""

    def __init__(self, stage: Stage, sweeps: Sequence[dict[str, Any]], grace: str = "5min", deadline: str = "30s"):
        Marked.__init__(self)
        self.cluster, self._sweeps, self._grace, self._deadline = stage.cluster, list(sweeps), grace, deadline
        #: what the job has in its environment
        self.more: dict[str, str] = {}
        self.launcher = "srun"
        self._job: Job | None = None
        self.locks = stage.place / "locks"
        self.locks.mkdir(exist_ok=True)
        super().__init__(stage.place)
        self.path = stage.path
        self.target = self.target / "scratch"
        self.configure()

    def configure(self, *_: Any, grace: str = "", allocation: str = "per_node_count", **__: Any) -> None:
        super().configure(
            sweeps=self._sweeps, target={"lock": str(self.locks), "deadline": self._deadline}, allocation=allocation,
            limits=LIMITS | {"grace": grace or self._grace}, tools={"variables": ["HARM"]},
        )  # fmt: skip

    def submit(self, *options: str) -> Job:
        """The allocation as a batch job, with the whole of as many nodes as it needs; further options of sbatch."""
        output = self.place / f"job-{time.monotonic_ns()}"
        nodes = str(self.plan.allocations[0].nodes)
        asked = ["--parsable", "--exclusive", "--overcommit", "--no-requeue", "--time=10", f"--nodes={nodes}"]
        sbatch = ["sbatch", *asked, f"--output={output}", *options, "/dev/stdin"]
        command = self.command("--scheduler", "slurm", "--launcher", self.launcher)
        environment = {"PATH": self.path, "COLUMNS": "300", **self.mark, **self.more}
        script = '#!/bin/sh\nexec "$@"\n'
        done = self.cluster.run([*sbatch, *command], cwd=self.place, env=environment, input=script)
        self._job = Job(self.cluster, done.stdout.strip(), output)
        return self._job

    def over(self) -> str | None:
        return f"{self._job.state}: {self._job.said()}" if self._job and self._job.over else None

    def script(self, program: str, lines: str) -> None:
        """Have a program run these shell lines first, until `more` is cleared; $real is the program itself."""
        self.path = script(self.place / "bin", program, f'if [ "$HARM" = yes ]; then\n{lines}\nfi', self.path)
        self.more = {"HARM": "yes"}

    def there(self) -> list[str]:
        """What is on the target."""
        return self.cluster.run(["find", self.target, "-mindepth", "1"]).stdout.splitlines()


def script(folder: Path, program: str, lines: str, path: str) -> str:
    """PATH, with the program replaced by one that runs these shell lines first; $real is the program itself."""
    folder.mkdir(exist_ok=True)
    real = shutil.which(program, path=path)
    (folder / program).write_text(f'#!/bin/sh\nreal={real}\n{lines}\nexec $real "$@"\n')
    (folder / program).chmod(0o755)
    return f"{folder}{os.pathsep}{path}"


#: The default-resources of the profile.
_PROFILE = yaml.safe_load((ROOT / "profiles/slurm/profile.v9+.yaml").read_text())
RESOURCES: dict[str, str] = dict(each.split("=", 1) for each in _PROFILE["default-resources"])


class SlurmCampaign(Campaign, Marked, Stored):
    """A campaign through Snakemake with profiles/slurm. `resources`: what a site writes into the profile."""

    #: of the configuration, when it is written next
    tools: Mapping[str, str] = {"provider": "path"}

    def __init__(self, stage: Stage, sweeps: Sequence[dict[str, Any]], **resources: str):
        Marked.__init__(self)
        self.cluster, self._sweeps, self._resources = stage.cluster, list(sweeps), RESOURCES | resources
        self._runs = stage.runs
        self._run: Run | None = None
        (stage.place / "locks").mkdir()
        super().__init__(stage.place)
        self.path = stage.path

    def configure(self, *_: Any, **__: Any) -> None:
        Allocation.configure(
            self, sweeps=self._sweeps, target={"lock": str(self.place / "locks")}, limits=LIMITS | {"grace": "5min"},
            tools=dict(self.tools),
        )  # fmt: skip

    def slow(self) -> None:
        """Let fio do next to nothing while it measures: the machine is for others, too. `allow` says how often."""
        calls, allowed = f"{self.place}/calls.$SLURMD_NODENAME", f"{self.place}/allowed"
        turn = f"echo >>{calls}; mine=$(wc -l <{calls})"
        wait = f"while [ -e {allowed} ] && [ $mine -gt $(cat {allowed}) ]; do sleep 0.1; done"
        self.lie("slow", f"{turn}; {wait}; ")

    def lie(self, lie: str, before: str = "") -> None:
        """Have fio tell a lie (lying_fio.py) while it measures. `before`: shell that runs first."""
        lines = f'case "$*" in *time_based*) {before}{through(lie, "$real")};; esac'
        self.path = script(self.place / "bin", "fio", lines, self.path)

    def allow(self, times: int | None) -> None:
        """Have fio measure so often from now on, and wait when it is to do so once more; None: never."""
        if times is None:
            (self.place / "allowed").unlink()
            return
        so_far = max((file.read_text().count("\n") for file in self.place.glob("calls.*")), default=0)
        (self.place / "soon").write_text(str(so_far + times))
        (self.place / "soon").rename(self.place / "allowed")

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.path, "COLUMNS": "300", **self.mark, **PLUGINS_OF_USERS}

    def command(self, *arguments: str) -> list[str]:
        resources = [f"{key}={value}" for key, value in self._resources.items()]
        return [
            sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-d", str(self.place),
            "--profile", str(ROOT / "profiles/slurm"), "--configfile", str(self.file),
            "--iosweep-poll-seconds", "1", "--default-resources", *resources, *arguments,
        ]  # fmt: skip

    def start(self, *arguments: str) -> "Run":
        self._run = Run(self, arguments)
        self._runs.append(self._run)
        return self._run

    def snakemake(self, *arguments: str, env: Mapping[str, str] | None = None, code: int | None = 0) -> str:
        run = self.start(*arguments)
        assert run.end() == code, run.said()
        return run.said()

    def wait_for_records(self, count: int) -> None:
        until(lambda: len(self.records()) >= count, self.over)

    def over(self) -> str | None:
        return self._run.said() if self._run and self._run.process.poll() is not None else None

    def once(self) -> None:
        """See that every repetition was measured once."""
        done = [(record["point"], record["repetition"], record["attempt"]) for record in self.records()]
        assert sorted(done) == sorted((row, r, 1) for row, r in {(t["point"], t["repetition"]) for t in self.table()})


class Run:
    """A snakemake on the head of the cluster."""

    def __init__(self, campaign: SlurmCampaign, arguments: Sequence[str]):
        self._output = campaign.place / f"run-{time.monotonic_ns()}"
        with self._output.open("wb") as output:  # a file: what outlives it would hold a pipe open
            self.process: Inside = campaign.cluster.popen(
                campaign.command(*arguments), cwd=campaign.place, env=campaign.environment, stdout=output,
                stderr=output,
            )  # fmt: skip

    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def says(self, text: str) -> None:
        """Wait until it does."""
        until(lambda: text in self.said() or self.process.poll() is not None)
        assert text in self.said(), self.said()

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def mounted(cluster: Cluster, where: Path, on: str = "head", name: str = "iosweep-test") -> Iterator[None]:
    """A file system in memory; what is mounted on the head all nodes see."""
    where.mkdir(parents=True, exist_ok=True)
    cluster.run(["mount", "-t", "tmpfs", "-o", "size=64m", name, where], on=on)
    try:
        yield
    finally:
        cluster.run(["umount", "--lazy", where], on=on, check=False)
