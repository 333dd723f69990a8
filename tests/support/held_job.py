"""A job of the test cluster that holds its nodes, and functions that run in it, in processes of their own."""

import contextlib
import ctypes
import os
import pickle
import re
import select
import signal
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iosweep.node import process
from iosweep.plan import launchers
from iosweep.programs import find
from slurm import Cluster, Inside
from waiting import PATIENCE_S


class Child:
    """A function that runs in another process, on a node. `handle`: a pidfd; `answer`: where its answer comes."""

    def __init__(self, parent: int, handle: int, answer: int) -> None:
        self._parent, self._handle, self._answer = parent, handle, answer

    def result(self, timeout: float = PATIENCE_S) -> Any:
        """What it returns; raises what it raises, EOFError if it was killed. Once."""
        data = bytearray()
        end = time.monotonic() + timeout
        try:
            while True:
                if not select.select([self._answer], [], [], max(0.0, end - time.monotonic()))[0]:
                    raise TimeoutError(f"not done after {timeout:g} s")
                if not (part := os.read(self._answer, 1 << 20)):
                    break
                data += part
        finally:
            self.signal(signal.SIGKILL)
            os.waitpid(self._parent, 0)
            os.close(self._answer)
            os.close(self._handle)
            self._handle = -1
        if not data:
            raise EOFError("it was killed")
        value, error = pickle.loads(data)  # noqa: S301 - our own
        if error is not None:
            raise error
        return value

    def over(self) -> str | None:
        """What came of it, if it has ended; then there is no result any more. For `wait_for`."""
        if not select.select([self._answer], [], [], 0)[0]:
            return None
        try:
            return f"it returned {self.result()!r}"
        except Exception as error:
            return f"it raised {error!r}"

    def signal(self, number: int) -> None:
        """Send it a signal, or nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, number)


class Held:
    """n1 and n2, held by a job without a step. What runs `inside` is on n1, and has of Slurm what a job of Snakemake
    has: the number of the job."""

    hosts: tuple[str, ...] = ("n1", "n2")

    def __init__(self, cluster: Cluster, *options: str, hosts: tuple[str, ...] = hosts) -> None:
        self.cluster, self.hosts = cluster, hosts
        self.started: list[Child] = []
        said = cluster.run(["salloc", "--no-shell", f"--nodes={len(hosts)}", "--exclusive", *options]).stderr
        self.job = re.findall(r"Granted job allocation (\d+)", said)[0]
        self._there: dict[str, Inside] = {node: cluster.popen(["sleep", "infinity"], on=node) for node in self.hosts}

    def end(self) -> None:
        for process_ in self._there.values():
            process_.kill()
            process_.wait()
        self.cluster.cancel()
        self.cluster.idle()

    def start(self, act: Callable[..., Any], *arguments: Any, on: str = "") -> Child:
        """Run a function there, in a process of its own."""
        (answer, ours), (wait, go) = os.pipe(), os.pipe()
        spaces = Path(f"/proc/{self._there[on or self.hosts[0]].real}/ns")
        entries = [os.open(spaces / kind, os.O_RDONLY) for kind in ("uts", "ipc", "net", "pid", "mnt")]
        libc = ctypes.CDLL(None, use_errno=True)
        if not (parent := os.fork()):
            try:
                libc.prctl(1, signal.SIGKILL)
                for entry in entries:
                    if libc.setns(entry, 0):
                        os._exit(70)
                os.close(answer)
                os.close(go)
                if child := os.fork():
                    os.write(ours, child.to_bytes(4, "little"))
                    os.close(ours)
                    os.read(wait, 1)
                    os.waitpid(child, 0)
                    os._exit(0)
                _act(ours, {"SLURM_JOB_ID": self.job} | dict(self.cluster.environment), act, arguments)
            finally:
                os._exit(71)
        for each in (ours, wait, *entries):
            os.close(each)
        # it lives: its parent waits for us
        handle = os.pidfd_open(int.from_bytes(os.read(answer, 4), "little"))
        os.close(go)
        self.started.append(Child(parent, handle, answer))
        return self.started[-1]

    def inside(self, act: Callable[..., Any], *arguments: Any, on: str = "") -> Any:
        return self.start(act, *arguments, on=on).result()

    def alive(self, words: str, node: str) -> list[int]:
        """Processes on a node whose command line has these words."""
        said = self.cluster.on(node, ["pgrep", "-f", words], check=False).stdout
        return [int(pid) for pid in said.split()]


def _act(answer: int, variables: dict[str, str], act: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.setsid()
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}:/usr/sbin:/sbin"
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        del os.environ[name]
    os.environ.update(variables | {"PATH": path})
    for known in (find.sha256, launchers.mpiexec):  # what the tests before us found on theirs
        known.cache_clear()
    process.adopt_orphans()
    try:
        said = pickle.dumps((act(*arguments), None))
    except BaseException as error:
        said = pickle.dumps((None, error))
    with open(answer, "wb") as file:
        file.write(said)
    os._exit(0)
