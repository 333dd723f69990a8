"""What a repetition over several nodes takes beside a bare `srun --multi-prog` of the same fio, in turn.

    python benchmarks/scale.py --nodes 128 --rounds 3

The nodes are those of the test cluster (tests/support/slurm.py): a true Slurm, in namespaces of this machine. All of
them share its CPUs: absolute figures say little, the ratio of both ways, measured in one run, says what iosweep adds.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

import campaigns
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.plan.model import Plan
from iosweep.run.repetition import tool_commands
from iosweep.store.record import Record
from iosweep.store.store import Store, unpack_archive
from measure import IOSWEEP, ROOT, CannotRun, Row, Size, child, seconds

sys.path.append(str(ROOT / "tests/support"))
import slurm  # the test cluster

#: Time of a repetition through iosweep, as a multiple of the bare srun's over many nodes, and beyond it on two.
MOST_RATIO, MOST_BEYOND_S = 1.5, 0.2
_PHASE_TIME = "1s"


@contextmanager
def cluster(work: Path, workers: int) -> Iterator[slurm.Cluster]:
    """A cluster with so many workers. Its work/target is in memory, so that the noise of a disk has no part in it; so
    is work/lock, for its own locks. Raises CannotRun."""
    if reason := slurm.missing():
        raise CannotRun(reason.removeprefix("slurm: "))
    # Where Python must not keep bytecode, every start compiles libraries for a second or two: not what is measured.
    try:
        with slurm.Cluster({**slurm.MPI_ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": ""}, workers=workers) as up:
            for place in (work / "target", work / "lock"):
                place.mkdir()
                up.run(["mount", "-t", "tmpfs", "tmpfs", place])
            yield up
    except slurm.ClusterError as error:
        raise RuntimeError(str(error)) from None


def two_nodes(size: Size, work: Path) -> Iterator[Row]:
    yield from measured(work, 2, size.slurm_rounds, size.judged, size.slurm_repetitions)


def many_nodes(size: Size, work: Path) -> Iterator[Row]:
    yield from measured(work, 128, rounds=3) if size.judged else measured(work, 4, 1, judged=False, repetitions=2)


def measured(work: Path, nodes: int, rounds: int, judged: bool = True, repetitions: int = 4) -> Iterator[Row]:
    """Per repetition, both ways; the start and the end of the job, once."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH")
    hosts = [f"w{k + 1}" for k in range(nodes)]
    with Meter() as meter, cluster(work, workers=nodes) as up, _held(up, hosts) as job:
        made = _planned(work, nodes, repetitions)
        plan_file = campaigns.written(made, work, "scale")
        results = plan_file.parent.parent
        _timed(up, job, _measuring(plan_file, nodes), work)  # makes the files to read
        bare_command = _bare(made, work, hosts)
        bare: list[Span] = []
        ours: list[Span] = []
        first: list[Span] = []  # with a look at the files of all nodes for holes
        once: list[Span] = []
        for _ in range(rounds):
            bare += [_timed(up, job, bare_command, work) for _ in range(repetitions)]
            shutil.rmtree(results / "points")
            whole = _timed(up, job, _measuring(plan_file, nodes), work)
            each = _each(results, made)
            first.append(each[0])
            ours += each[1:]
            once += [(whole[0], each[0][0]), (each[-1][1], whole[1])]
        what, many = f"a repetition of fio over {nodes} nodes, {_PHASE_TIME}", f"{len(bare)}×"
        for kind, took in (("wall", _wall), ("CPU", meter.cpu)):
            beside, own = (statistics.median(map(took, spans)) for spans in (bare, ours))
            if beside == beside:  # not NaN
                beyond = nodes == 2 and kind == "wall"
                yield Row(
                    "scale", f"{kind} of {what}", many, seconds(own), f"srun --multi-prog {seconds(beside)}",
                    f"{own / beside:.2f}", f"≤ srun + {MOST_BEYOND_S} s" if beyond else f"≤ {MOST_RATIO} × srun",
                    own <= (beside + MOST_BEYOND_S if beyond else MOST_RATIO * beside) if judged else None,
                )  # fmt: skip
        starts, ends = statistics.median(map(_wall, once[::2])), statistics.median(map(_wall, once[1::2]))
        yield Row("scale", f"start of a job of {nodes} nodes, until it measures", f"{rounds}×", seconds(starts))
        yield Row("scale", "its first repetition", f"{rounds}×", seconds(statistics.median(map(_wall, first))))
        yield Row("scale", "its end", f"{rounds}×", seconds(ends))
        most = max(int(line) for line in (work / "memory").read_text().split())
        yield Row("scale", "memory of the runner", f"{nodes} nodes", f"{most / 1024:.0f} MB")
        yield _merged(made, results, work, nodes)


#: Begin and end, in seconds since the epoch.
Span = tuple[float, float]
NO_FIGURE = float("nan")


def _wall(span: Span) -> float:
    return span[1] - span[0]


class Meter:
    """CPU time of all that is started meanwhile, also by daemons: of a control group, whose counter is read often.

    Other processes of the machine are not in it, so that the figure says something on a machine that is busy.
    """

    def __init__(self) -> None:
        self._group = Path(f"/sys/fs/cgroup/cpuacct/iosweep-scale-{os.getpid()}")
        self._times: list[float] = []
        self._used: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Meter:
        with contextlib.suppress(OSError):  # no such hierarchy: no figure
            self._group.mkdir()
            (self._group / "cgroup.procs").write_text(str(os.getpid()))
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            (self._group.parent / "cgroup.procs").write_text(str(os.getpid()))
            with contextlib.suppress(OSError):  # something still ends in it
                self._group.rmdir()

    def cpu(self, span: Span) -> float:
        """Seconds used in a span."""
        return self._at(span[1]) - self._at(span[0])

    def _at(self, time_s: float) -> float:
        k = bisect.bisect(self._times, time_s)
        if not 0 < k < len(self._times):
            return NO_FIGURE
        (t0, t1), (u0, u1) = self._times[k - 1 : k + 1], self._used[k - 1 : k + 1]
        return u0 + (u1 - u0) * (time_s - t0) / (t1 - t0)

    def _run(self) -> None:
        usage = self._group / "cpuacct.usage"
        while not self._stop.wait(0.02):
            self._used.append(int(usage.read_text()) / 1e9)
            self._times.append(time.time())


@contextmanager
def _held(up: slurm.Cluster, hosts: Sequence[str]) -> Iterator[str]:
    """A job that holds the workers; its number."""
    asked = ["--no-shell", "--partition=wide", f"--nodes={len(hosts)}", "--exclusive"]
    said = up.run(["salloc", *asked]).stderr
    yield said.partition("allocation ")[2].split()[0]
    up.cancel()


def _planned(work: Path, nodes: int, repetitions: int) -> Plan:
    sweep = campaigns.fio_sweep({"nodes": [nodes]}, _PHASE_TIME, repetitions, transfer_size="4k", file_size="256k")
    limits = {**campaigns._LIMITS, "retried": "0%"}
    return campaigns.planned(work, "scale", [sweep], limits, lock=str(work / "lock"))


def _measuring(plan_file: Path, nodes: int) -> list[str | Path]:
    results = plan_file.parent.parent
    handed_over = ["--manifest", results / "m.jsonl", "--log", results / "m.log"]
    memory = [sys.executable, "-c", _MEMORY, results.parent.parent / "memory"]
    return [*memory, *IOSWEEP, "measure", plan_file, "--allocation", f"{nodes}-nodes", *handed_over,
            "--launcher", "srun", "--scheduler", "slurm"]  # fmt: skip


#: Runs a command, and appends the memory of the largest process of it to a file, in KiB.
_MEMORY = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=open(sys.argv[1], "a"))
sys.exit(code)
"""


def _merged(made: Plan, results: Path, work: Path, nodes: int, copies: int = 100) -> Row:
    """Tables of the first repetition as if it had been measured so often."""
    (point,) = made.points
    store, many = Store(results), _planned(work, nodes, copies)
    plan_file = campaigns.written(many, work, "many")
    target = Store(plan_file.parent.parent)
    shutil.copytree(results / "nodes", target.path / "nodes")
    record = next(store.records_of(point.id, Record))
    archive = store.raw(record)
    assert archive
    raw = {f"{phase}.{name}": data for phase, own in unpack_archive(archive).items() for name, data in own.items()}
    with campaigns._without_sync():
        for number in range(1, copies + 1):
            target.commit(point.id, number, replace(record, repetition=number), raw)
    took = child([*IOSWEEP, "tables", plan_file], work)
    size = f"{copies} results of {nodes} nodes, {len(archive) / 1000:,.0f} kB each"
    return Row("scale", "tables: CPU and memory", size, f"{seconds(took.cpu_s)}, {took.max_rss_bytes / 1e6:.0f} MB")


def _bare(made: Plan, work: Path, hosts: Sequence[str]) -> list[str]:
    """The same fio on each node, started by one srun."""
    (point,) = made.points
    (step,) = point.steps
    first, second, *_ = tool_commands(made, point, step, 1, f"{work}/target/iosweep-scale")
    # srun reads at most 60 kB of such a file: one line for all nodes but the first, with %t for their numbers
    others = [word.replace(".node1", ".node%t") for word in second]
    programs = work / "programs.conf"
    quiet = "--output=/dev/null"
    lines = (f"0 {shlex.join(first)} {quiet}\n", f"1-{len(hosts) - 1} {shlex.join(others)} {quiet}\n")
    programs.write_text("".join(lines), encoding="utf-8")
    return SLURM_LAUNCHERS["srun"].argv(["--multi-prog", str(programs)], True, len(hosts), hosts=hosts)


def _timed(up: slurm.Cluster, job: str, command: Sequence[str | Path], work: Path) -> Span:
    """When a command began and ended on the first node of a job."""
    started = time.time()
    up.run(command, on="w1", cwd=work, env={"SLURM_JOB_ID": job}, timeout=1800)
    return started, time.time()


def _each(results: Path, made: Plan) -> list[Span]:
    """From the begin of each repetition to that of the next, or its own end."""
    (point,) = made.points
    store = Store(results)
    records = sorted(store.records_of(point.id, Record), key=lambda record: record.started)
    assert all(row.headline is not None for record in records for row in record.rows), records[0].rows
    ends = [*(record.started for record in records[1:]), records[-1].ended]
    return [(record.started.timestamp(), end.timestamp()) for record, end in zip(records, ends, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description="A repetition over many nodes beside a bare srun.")
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--directory", default=None, help="work on another file system")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iosweep-scale-", dir=given.directory) as directory:
        work = Path(directory).resolve()
        for row in measured(work, given.nodes, given.rounds, repetitions=given.repetitions):
            print(row)


if __name__ == "__main__":
    main()
