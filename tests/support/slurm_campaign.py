"""Stories on the test cluster: what happens to a campaign there, from the real Snakemake to its tables.

Most of its time a story waits. So all that are asked for run beside each other and beside the other tests of the
cluster, each on nodes and in a partition of its own, from the moment that the cluster is up.
"""

import contextlib
import itertools
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import pyarrow.parquet
import yaml

import scripted
from campaign import PLUGINS_OF_USERS, ROOT, Allocation, Campaign
from slurm import STORY, Cluster, Inside, Job
from waiting import PATIENCE_S, wait_for

#: Nodes for stories, and how many stories run at a time.
NODES, LANES = 8, 4
#: A point on two nodes that writes new files once.
WRITES: dict[str, Any] = {
    "name": "w", "tool": "fio", "phases": ["seq_write"], "axes": {"nodes": [2]}, "phase_time": "one_pass",
    "options": {"file_size": "256k", "transfer_size": "64k", "write_mode": "new", "o_direct": False},
    "repetitions": 1,
}  # fmt: skip
#: A run of WRITES takes as long as it says, on each node.
AS_IT_SAYS: scripted.Rule = {"ops_per_s": 40.0, "sleep_s": 0.12}
LIMITS = {"retried": "0%", "fill": "100%", "share_of_free": "100%", "grace": "5min"}


def until(condition: Callable[[], Any], over: Callable[[], str | None] = lambda: None) -> Any:
    """`wait_for` that looks seldom: what is waited for needs the CPUs."""
    return wait_for(condition, PATIENCE_S, over, pause_s=0.2)


class Stage:
    """What a story is given: idle nodes in a partition of its own, and an empty directory."""

    def __init__(self, cluster: Cluster, nodes: Sequence[str], partition: str, place: Path):
        self.cluster, self.nodes, self.partition, self.place = cluster, tuple(nodes), partition, place
        #: every snakemake of it
        self.runs: list[Run] = []

    def squeue(self) -> list[Job]:
        return self.cluster.squeue(self.partition)

    def nodes_of(self, state: str) -> set[str]:
        return {name for name, seen in self.cluster.states().items() if name in self.nodes and seen == state}

    def clear(self) -> None:
        """End what is left, and wait until the nodes are idle."""
        for run in self.runs:  # one that is not over would submit another job for each that is ended
            run.process.signal_group(signal.SIGKILL)
        if jobs := self.squeue():
            self.cluster.run(["scancel", *(str(job.id) for job in jobs)], check=False)
        for node in self.nodes:
            if not self.cluster.lives(node):
                self.cluster.start_node(node)
        until(lambda: not self.squeue() and self.nodes_of("idle") == set(self.nodes))


class _Story(NamedTuple):
    tell: Callable[[Stage], None]
    nodes: int


#: Name -> story.
_STORIES: dict[str, _Story] = {}


def story(nodes: int = 2) -> Callable[[Callable[[Stage], None]], Callable[..., None]]:
    """Make a test of a story: it waits for the end of what was begun with the cluster."""

    def register(tell: Callable[[Stage], None]) -> Callable[..., None]:
        _STORIES[tell.__name__] = _Story(tell, nodes)

        def test(stories: "Stories") -> None:
            stories.end(tell.__name__)

        test.__doc__ = tell.__doc__
        return test

    return register


def is_story(item: Any) -> bool:
    """Whether a test of pytest is one."""
    return getattr(item, "originalname", "") in _STORIES


class Stories:
    """The stories of this session, by their names."""

    def __init__(self, cluster: Cluster, names: Sequence[str], directory: Callable[[str], Path]):
        self.cluster, self._directory = cluster, directory
        self._free, self._freed = list(cluster.workers), threading.Condition()
        cluster.lent.update(cluster.workers)
        self._pool = ThreadPoolExecutor(LANES)
        self._told: dict[str, Future[None]] = {
            name: self._pool.submit(self._tell, name, _STORIES[name]) for name in names
        }

    def end(self, name: str) -> None:
        """Wait until a story has ended, and raise what it raised."""
        self._told[name].result()

    def wait(self) -> None:
        """Until all have ended."""
        for told in self._told.values():
            told.exception()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _tell(self, name: str, story: _Story) -> None:
        with self._freed:
            self._freed.wait_for(lambda: len(self._free) >= story.nodes)
            nodes = [self._free.pop(0) for _ in range(story.nodes)]
        partition = f"{STORY}{name.removeprefix('test_')}"
        stage = Stage(self.cluster, nodes, partition, self._directory(name))
        try:
            created = [f"partitionname={partition}", f"nodes={','.join(nodes)}", "maxtime=60", "state=up"]
            self.cluster.run(["scontrol", "create", *created])
            try:
                story.tell(stage)
            finally:
                stage.clear()
        finally:
            with self._freed:
                self._free += nodes
                self._freed.notify_all()


def told(cluster: Cluster, job: str) -> dict[str, str]:
    """What Slurm knows of a job."""
    [said] = cluster.ask(["scontrol", "--oneliner", "show", "job", job])
    return dict(re.findall(r"\b(\w+)=(\S*)", said))


#: The default-resources of the profile.
_PROFILE = yaml.safe_load((ROOT / "profiles/slurm/profile.v9+.yaml").read_text())
RESOURCES: dict[str, str] = dict(each.split("=", 1) for each in _PROFILE["default-resources"])


class SlurmCampaign(Campaign):
    """A campaign through Snakemake with profiles/slurm and scripted tools. `resources`: what a site writes into the
    profile. `name`: of several in one story; they share the target's file system and the directory of locks."""

    def __init__(self, stage: Stage, sweeps: Sequence[dict[str, Any]], name: str = "tiny", **resources: str):
        self.cluster, self.stage, self._sweeps, self.name = stage.cluster, stage, list(sweeps), name
        self._resources = RESOURCES | {"slurm_partition": f'"{stage.partition}"'} | resources
        self._run: Run | None = None
        self._gates: list[Path] = []
        (stage.place / "locks").mkdir(exist_ok=True)
        super().__init__(stage.place / name)
        self.path = f"{self.place}/bin{os.pathsep}{os.environ['PATH']}"
        self.play()

    def configure(self, *_: Any, **__: Any) -> None:
        Allocation.configure(
            self, sweeps=self._sweeps, target={"lock": str(self.stage.place / "locks")}, limits=LIMITS,
            tools={"provider": "path"},
        )  # fmt: skip

    def play(self, *rules: scripted.Rule) -> None:
        """The tools go by these rules from now on."""
        scripted.install(self.place / "bin", [*rules, AS_IT_SAYS])

    def allow(self, repetitions: int, nodes: int = 2) -> None:
        """Let so many repetitions be measured from now on, and the next one wait until `go_on`."""
        self._gates.append(self.place / f"gate-{time.monotonic_ns()}")
        self.play(AS_IT_SAYS | {"times": repetitions * nodes}, AS_IT_SAYS | {"until": str(self._gates[-1])})

    def go_on(self) -> None:
        """Let what waits go on, and all that comes."""
        self.play()
        for gate in self._gates:
            gate.touch()

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
        self.stage.runs.append(self._run)
        return self._run

    def snakemake(self, *arguments: str, env: Mapping[str, str] | None = None, code: int | None = 0) -> str:
        run = self.start(*arguments)
        assert run.end() == code, run.said()
        return run.said()

    def runner(self) -> psutil.Process:
        """The runner; a child of it has its command and variables, too, until it is another program."""

        def alone() -> list[psutil.Process]:
            with contextlib.suppress(psutil.Error):
                found = [process for process in self.processes("measure") if "iosweep" in process.cmdline()]
                return [process for process in found if process.ppid() not in {each.pid for each in found}]
            return []

        [process] = until(alone, self.over)
        return process

    def nothing_lives(self) -> None:
        """Wait until no process is left."""
        with contextlib.suppress(AssertionError):
            until(lambda: not self.processes())
        assert self.processes() == []

    def over(self) -> str | None:
        """The output of the last run, once it has ended."""
        return self._run.said() if self._run and self._run.process.poll() is not None else None

    def records(self) -> list[dict[str, Any]]:
        """All tries that were committed, in the order in which they were measured: never two at once."""
        found = [msgspec.json.decode(file.read_bytes()) for file in self.results.glob("points/*/r*.json")]
        found.sort(key=lambda record: record["started"])
        for before, after in itertools.pairwise(found):
            assert datetime.fromisoformat(before["ended"]) <= datetime.fromisoformat(after["started"])
        return found

    def wait_for_records(self, count: int) -> None:
        until(lambda: len(self.records()) >= count, self.over)

    def jobs(self) -> list[str]:
        """The jobs that have measured, in order."""
        return list(dict.fromkeys(record["slurm"]["job"] for record in self.records()))

    def table(self, name: str = "results") -> list[dict[str, Any]]:
        """The rows of the tables."""
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(self.results / f"{name}.parquet").to_pylist()
        return rows

    def complete(self) -> None:
        """See that every repetition was measured once, and that nothing of it lives or is left on the target, which is
        mounted still."""
        done = [(record["point"], record["repetition"], record["attempt"]) for record in self.records()]
        assert sorted(done) == sorted((row, r, 1) for row, r in {(t["point"], t["repetition"]) for t in self.table()})
        assert {point.id for point in self.plan.points} == {point for point, _, _ in done}
        self.nothing_lives()
        assert not self.cluster.run(["find", self.target, "-mindepth", "1"]).stdout


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
def mounted(cluster: Cluster, where: Path) -> Iterator[None]:
    """A file system in memory; what is mounted on the head all nodes see."""
    where.mkdir(parents=True, exist_ok=True)
    cluster.run(["mount", "-t", "tmpfs", "-o", "size=64m", "iosweep-test", where])
    try:
        yield
    finally:
        cluster.run(["umount", "--lazy", where], check=False)
