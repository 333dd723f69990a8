"""A Slurm cluster of several nodes on this machine, in namespaces of its own (cluster/README.md).

    with Cluster() as cluster:
        cluster.run(["srun", "-N2", "hostname"]).stdout

As a program, `slurm.py [--workers N] [-- COMMAND...]`, it is what `make cluster` runs: a
shell on the cluster, or one command. Needs root. Nothing of it is seen or listens outside, and everything ends with the
process that brought it up, however that ends.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Self

import psutil

from iosweep.node.cpus import Topology

RECIPE = Path(__file__).with_name("cluster")
ADDRESSES = {"head": "10.77.0.1", "n1": "10.77.0.11", "n2": "10.77.0.12", "n3": "10.77.0.13"}
NODES = tuple(name for name in ADDRESSES if name != "head")
#: How the names of partitions begin that stories have for themselves.
STORY = "story-"
#: Addresses of workers in one block of 256.
_BLOCK = 250

#: MPI over the nodes: libfabric's TCP. (The addresses of UCX over TCP do not fit the lines in which Slurm reads PMI-1,
#: as the MPICH of PyPI speaks it: srun's ranks then hang, or not, by what lies in memory.) Jobs get it as they get any
#: variable of who submits them (`--export=ALL`, which is sbatch's and srun's default).
MPI_ENVIRONMENT = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}

#: What is needed, and the Debian packages that have it.
_PROGRAMS = {
    "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "srun": "slurm-client", "munged": "munge", "ip": "iproute2",
    "unshare": "util-linux", "nsenter": "util-linux", "setsid": "util-linux",
}  # fmt: skip
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")


class ClusterError(Exception):
    """The cluster cannot be, or a command in it failed. The text has what the command or the daemons said."""


@dataclass(frozen=True)
class Job:
    """A line of squeue. `state` and `reason` are Slurm's own words, such as PENDING and PartitionTimeLimit."""

    id: int
    state: str
    reason: str
    partition: str


def missing() -> str | None:
    """Why there can be no cluster here, or None."""
    if os.geteuid() != 0:
        return "slurm: only root can make a cluster of namespaces"
    for program, package in _PROGRAMS.items():
        if _which(program) is None:
            return f"slurm: {program} is not on PATH (Debian package {package})"
    if not Path("/etc/slurm").is_dir():
        return "slurm: the directory /etc/slurm does not exist (Debian package slurm-client makes it)"
    if len(Topology.read().cores) < 2:
        return "slurm: the cluster needs a machine with two cores, because one node keeps one for itself"
    tried = subprocess.run([*_unshare("private"), "true"], capture_output=True, text=True, check=False)
    return f"slurm: no namespaces can be made here ({tried.stderr.strip()})" if tried.returncode else None


class Inside(subprocess.Popen[str]):
    """A command inside the cluster; made by `Cluster.popen`.

    It leads a session and a process group of its own. Between us and it is nsenter, which takes no signals for it but
    ends as it ends: `returncode` is that of the command.
    """

    @property
    def real(self) -> int:
        """Process id of the command itself, as it is outside. ProcessLookupError once it has ended."""
        while self.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                for child in psutil.Process(self.pid).children():
                    if os.getpgid(child.pid) == child.pid:
                        return child.pid
            time.sleep(0.001)
        raise ProcessLookupError(f"{self.args} has ended with {self.returncode}")

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command (so do `terminate` and `kill`), or nothing if it has ended."""
        self._send(os.kill, sig)

    def signal_group(self, sig: int) -> None:
        """Send a signal to the command and all that it started, as Ctrl-C in a terminal does."""
        self._send(os.killpg, sig)

    def _send(self, kill: Callable[[int, int], None], sig: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            kill(self.real, sig)
            if sig in (signal.SIGCONT, signal.SIGKILL):
                os.kill(self.pid, signal.SIGCONT)  # nsenter stops with the command, but does not go on with it


class Cluster:
    """A cluster: `up` and `down`, or a context that does both.

    `environment`: variables of every command in it, beside those of this process. `workers`: how many nodes w1, w2,
    ... there are beside the three, in the partition `wide`.
    """

    def __init__(self, environment: Mapping[str, str] = MPI_ENVIRONMENT, workers: int = 0) -> None:
        self.environment = environment
        self.workers = tuple(f"w{k + 1}" for k in range(workers))
        self.nodes = (*NODES, *self.workers)
        self._members: dict[str, Inside | subprocess.Popen[str]] = {}
        #: Process 1 of each member, as it is outside.
        self._first: dict[str, int] = {}
        #: Directory with all files of the cluster; `log/` below it.
        self.state = Path("/nonexistent")
        #: CPUs of n1 and n2: this machine's.
        self.cpus = 0
        #: Nodes that stories have for themselves (slurm_campaign.py); `squeue`, `cancel` and `idle` pass over them.
        self.lent: set[str] = set()

    def __enter__(self) -> Self:
        return self if self._members else self.up()

    def __exit__(self, *exception: object) -> None:
        self.down()

    def up(self) -> Self:
        """Bring it up and wait until all nodes are idle: 0.5 s. Each worker takes some tens of milliseconds more.

        ClusterError with the ends of the logs if that fails.
        """
        if reason := missing():
            raise ClusterError(reason)
        self.state = Path(tempfile.mkdtemp(prefix="iosweep-cluster-"))
        try:
            self._configure()
            self._boot("head")
            self._boot(*self.nodes)
            self.idle()
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """End everything, and remove its files."""
        for member in self._members.values():
            assert member.stdin
            member.stdin.close()
        head = self._members.get("head")
        if head:
            try:
                head.wait(5)
            except subprocess.TimeoutExpired:
                head.kill()  # unshare, and with it the first process in there
        for member in self._members.values():
            member.wait()
            assert member.stdout
            member.stdout.close()
        self._members.clear()
        self._first.clear()
        shutil.rmtree(self.state, ignore_errors=True)

    def popen(
        self, argv: Sequence[str | os.PathLike[str]], *, on: str = "head", cwd: str | os.PathLike[str] = ".",
        env: Mapping[str, str | None] | None = None, **popen: Any,
    ) -> Inside:  # fmt: skip
        """Start a command on a member, not by Slurm. Further arguments are those of subprocess.Popen (text by default).

        `cwd`: where. `env`: variables on top of this process's and the cluster's; None takes one away. It reads
        nothing unless `stdin` says so, and obeys SIGINT even where we ignore it.
        """
        popen = {"text": True, "stdin": subprocess.DEVNULL, **popen}
        command = [*_env(), *self._enter(on), _path("setsid"), *_env(cwd), *map(os.fspath, argv)]
        return Inside(command, env=self._variables(env), **popen)

    def run(
        self, argv: Sequence[str | os.PathLike[str]], *, on: str = "head", cwd: str | os.PathLike[str] = ".",
        env: Mapping[str, str | None] | None = None, timeout: float | None = 300, check: bool = True,
        **popen: Any,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command on the head (or another member) to its end, and take what it says.

        After `timeout` seconds it is killed, with its process group: subprocess.TimeoutExpired. `check`: ClusterError
        if its exit code is not 0. The rest is as in `popen`.
        """
        popen = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        with self.popen(argv, on=on, cwd=cwd, env=env, **popen) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.signal_group(signal.SIGKILL)
                raise
        if check and process.returncode:
            raise ClusterError(f"on {on}: {[*map(str, argv)]} ended with {process.returncode}\n{out or ''}{err or ''}")
        return subprocess.CompletedProcess([*map(os.fspath, argv)], process.returncode, out, err)

    def attached(self, argv: Sequence[str]) -> int:
        """Run a command on the head with our own terminal, until it ends. Its exit code; -N if signal N ended it.

        Ctrl-C is for the command alone.
        """
        before = {sig: signal.signal(sig, signal.SIG_IGN) for sig in (signal.SIGINT, signal.SIGQUIT)}
        try:
            return subprocess.call([*self._enter("head"), *_env(), *argv], env=self._variables(None))
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def kill_node(self, name: str, noticed: bool = False) -> None:
        """The node loses power. Slurm notices by itself after 6 to 15 s, or at once if it is told (`noticed`)."""
        os.kill(self._first.pop(name), signal.SIGKILL)
        member = self._members.pop(name)
        for pipe in (member.stdin, member.stdout):
            assert pipe
            pipe.close()
        member.wait()
        if noticed:
            self.run(["scontrol", "update", f"nodename={name}", "state=down", "reason=power"])

    def start_node(self, name: str) -> None:
        """Start a node that was killed, and wait until Slurm has it back."""
        self._boot(name)
        self._until(lambda: self.states()[name] in ("idle", "mixed", "allocated", "completing"))

    def squeue(self, story: str = "") -> list[Job]:
        """The jobs that wait, run, or are just ending, in the order of their ids: those of a story, or of none."""
        lines = self.ask(["squeue", "--noheader", "--format=%A\x1f%T\x1f%r\x1f%P"])
        jobs = (Job(int(number), *words) for number, *words in (line.split("\x1f") for line in lines))
        ours = (job for job in jobs if job.partition == story or not (story or job.partition.startswith(STORY)))
        return sorted(ours, key=lambda job: job.id)

    def cancel(self) -> None:
        """Cancel all jobs, and wait until they are gone."""
        if jobs := self.squeue():
            self.run(["scancel", *(str(job.id) for job in jobs)], check=False)  # one may be gone meanwhile
            self._until(lambda: not self.squeue())

    def idle(self) -> None:
        """Wait until all nodes are idle and no job is left. ClusterError after 3 minutes.

        A step whose srun was killed may not end with signals in time, and Slurm then drains its node: it is taken back.
        """

        def reached() -> bool:
            states = self.states()
            ours = {name: state for name, state in states.items() if name not in self.lent}
            for name in (name for name, state in ours.items() if state.startswith("drain")):
                self.run(["scontrol", "update", f"nodename={name}", "state=resume"], check=False)
            return set(ours.values()) == {"idle"} and not self.squeue()

        self._until(reached)

    def lives(self, name: str) -> bool:
        """Whether a node was not killed, or started again."""
        return name in self._members

    def first(self, name: str) -> int:
        """Process 1 of a member, as it is outside."""
        return self._first[name]

    @property
    def killed(self) -> list[str]:
        """The nodes that were killed and not started again, but for those of stories."""
        return [name for name in self.nodes if name not in self._members and name not in self.lent]

    def _configure(self) -> None:
        for directory in ("etc", "log", "run/munge", "slurmctld", *(f"slurmd-{node}" for node in self.nodes)):
            (self.state / directory).mkdir(parents=True)
        described = subprocess.run([_path("slurmd"), "-C"], capture_output=True, text=True, check=False)
        hardware = re.match(r"NodeName=\S+ (CPUs=(\d+) .*) RealMemory=", described.stdout)
        if not hardware:
            raise ClusterError(f"slurmd -C does not describe this machine: {described.stdout}{described.stderr}")
        self.cpus = int(hardware[2])
        words = {"state": self.state, "hardware": hardware[1]}
        words["workers"] = _workers(len(self.workers), hardware[1])
        # nodes that share few CPUs answer late
        words["timeout"], words["connect"] = ("60", "60") if len(self.workers) > 31 else ("20", "5")
        for name in ("slurm.conf", "cgroup.conf"):
            text = Template((RECIPE / name).read_text()).substitute(words)
            (self.state / "etc" / name).write_text(text)
        addresses = ADDRESSES | {name: _address(k) for k, name in enumerate(self.workers)}
        hosts = "".join(f"{address} {name}\n" for name, address in addresses.items())
        (self.state / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        (self.state / "net").touch()
        key = self.state / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))

    def machine(self, name: str, address: str, program: Path) -> None:
        """Add a member on the bridge that is no node of Slurm. `program`: its process 1, which is started as member.py
        is. `popen` and `run` work on it, and `kill_node` ends it."""
        with (self.state / "hosts").open("a") as file:
            file.write(f"{address} {name}\n")
        self._boot(name, program=program)

    def _boot(self, *names: str, program: Path = RECIPE / "member.py") -> None:
        """Make members, all at once, and wait until their daemons answer."""
        for name in names:
            command = [sys.executable, "-I", "-S", str(program), str(self.state), name]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            environment = {"PATH": _PATH, "LANG": "C.UTF-8"}
            with (self.state / f"log/{name}.log").open("a") as log:
                if name == "head":
                    head = [*_unshare("private"), *command]
                    self._members[name] = subprocess.Popen(
                        head, env=environment, stderr=log, start_new_session=True, **pipes
                    )
                else:
                    node = [*self._enter("head"), _path("setsid"), *_unshare("slave"), *command]
                    self._members[name] = Inside(node, env=environment, stderr=log, **pipes)
        for name in names:
            member = self._members[name]
            assert member.stdout
            if member.stdout.readline() != "ready\n":
                raise ClusterError(f"{name} did not come up\n{self._logs()}")
            unshare = member.real if isinstance(member, Inside) else member.pid
            self._first[name] = psutil.Process(unshare).children()[0].pid

    def _enter(self, member: str) -> list[str]:
        return [_path("nsenter"), f"--target={self._first[member]}", *_NAMESPACES, "--"]

    def _variables(self, env: Mapping[str, str | None] | None) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{_PATH}"
        wanted = {**ours, "PATH": path, **self.environment, **(env or {})}
        return {name: value for name, value in wanted.items() if value is not None}

    def states(self) -> dict[str, str]:
        """The state of each node; with an asterisk if it does not answer."""
        return dict(line.split() for line in self.ask(["sinfo", "--noheader", "--Node", "--format=%N %T"]))

    def ask(self, command: Sequence[str]) -> list[str]:
        """The lines that a command prints. slurmctld drops a question in a thousand while a node dies: so, twice."""
        try:
            return self.run(command).stdout.splitlines()
        except ClusterError:
            time.sleep(0.2)
            return self.run(command).stdout.splitlines()

    def _until(self, reached: Callable[[], bool]) -> None:
        until = time.monotonic() + 180
        while not reached():
            if time.monotonic() > until:
                seen = [self.run([command], check=False).stdout for command in ("sinfo", "squeue")]
                raise ClusterError(f"waited 3 minutes in vain\n{''.join(seen)}{self._logs()}")
            time.sleep(0.02)

    def _logs(self, lines: int = 5) -> str:
        """The ends of all logs that say something."""
        texts = {file.name: file.read_text(errors="replace") for file in sorted((self.state / "log").iterdir())}
        return "\n".join("\n  ".join([f"{name}:", *text.splitlines()[-lines:]]) for name, text in texts.items() if text)


def _address(worker: int) -> str:
    return f"10.77.{1 + worker // _BLOCK}.{1 + worker % _BLOCK}"


def _workers(count: int, hardware: str) -> str:
    """The lines of slurm.conf for the nodes w1, w2, ...; none without any."""
    if not count:
        return ""
    names = f"w[1-{count}]"
    return f"NodeName={names} {hardware} RealMemory=4000\nPartitionName=wide Nodes={names} MaxTime=60"


#: Daemons are in directories that only root has on PATH, if that.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def _which(program: str) -> str | None:
    return shutil.which(program, path=_PATH)


def _path(program: str) -> str:
    path = _which(program)
    assert path, f"{program} is not on PATH"
    return path


def _unshare(propagation: str) -> list[str]:
    """The words before a command that make it process 1 of a new member."""
    options = ("--fork", "--kill-child", "--mount-proc", f"--propagation={propagation}")
    return [_path("unshare"), *_NAMESPACES, *options]


def _env(cwd: str | os.PathLike[str] = ".") -> list[str]:
    """The words before a command for its directory, which nsenter forgets, and signals, which a shell may ignore."""
    return [_path("env"), f"--chdir={Path(cwd).absolute()}", "--default-signal=INT,QUIT"]


GREETING = """
A Slurm cluster of three nodes, all of them this machine. You are on its head, in the directory that you came from.
n1, n2 have this machine's {cpus} CPUs; n3 keeps one for itself.

{partitions}
Try:  sinfo
      srun -N2 hostname
      snakemake --profile profiles/slurm --configfile config/examples/demo.yaml
exit ends the cluster with all that runs on it.
"""


def main() -> int:
    """A shell on the cluster, or a command and its exit code (128 and the signal's number if it was killed)."""
    parser = argparse.ArgumentParser(prog="make cluster", description="A Slurm cluster on this machine.")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="N more nodes, w1 to wN (partition wide)")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="run this, and not a shell, and end")
    arguments = parser.parse_args()
    cluster = Cluster(workers=arguments.workers)
    try:
        cluster.up()
    except (ClusterError, KeyboardInterrupt) as error:
        print(f"make cluster: {str(error) or 'interrupted'}", file=sys.stderr)
        return 1
    with cluster:
        if arguments.command:
            code = cluster.attached(arguments.command)
            return code if code >= 0 else 128 - code
        if sys.stdin.isatty():
            partitions = cluster.run(["sinfo", "--format=%9P %.5a %.9l  %N"]).stdout
            print(GREETING.format(cpus=cluster.cpus, partitions=partitions), file=sys.stderr)
        cluster.attached(["bash", "--norc"])  # a user's own may set PATH
    return 0  # a shell ends with the code of its last command, which is nobody's failure


if __name__ == "__main__":
    sys.exit(main())


def tidy(cluster: Cluster) -> None:
    """Restore the cluster for the next test. Fail if jobs are left that do not end by themselves.

    A campaign ends with its manifest. Slurm may learn of the job's end later: up to half a minute if its controller
    was restarted.
    """
    for node in cluster.killed:
        cluster.start_node(node)
    deadline = time.monotonic() + 60
    while (left := cluster.squeue()) and any(job.state == "RUNNING" for job in left) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = [job for job in left if job.state != "COMPLETING"]
    cluster.cancel()
    cluster.idle()
    assert not left, f"left in the queue (a test that means to leave jobs ends with slurm.cancel()): {left}"
