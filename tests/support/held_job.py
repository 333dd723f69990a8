"""A job of the test cluster that holds its nodes, and what runs in it as in a job of Snakemake."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from slurm import Cluster, ClusterError, Inside
from waiting import PATIENCE_S


class Running:
    """A command in the job, whose standard error is read at its end."""

    def __init__(self, process: Inside) -> None:
        self.process = process
        self._said: str | None = None

    def result(self) -> tuple[int, str]:
        """Its exit code, negative if a signal ended it, and what it said."""
        if self._said is None:
            self._said = self.process.communicate(timeout=PATIENCE_S)[1]
        return self.process.returncode, self._said

    def over(self) -> str | None:
        """What came of it, if it has ended. For `wait_for`."""
        return None if self.process.poll() is None else str(self.result())


class Held:
    """n1 and n2, or other nodes, held by a job without a step."""

    def __init__(self, cluster: Cluster, *options: str, hosts: Sequence[str] = ("n1", "n2")) -> None:
        self.cluster, self.hosts = cluster, tuple(hosts)
        said = cluster.run(["salloc", "--no-shell", f"--nodes={len(hosts)}", "--exclusive", *options]).stderr
        self.job = re.findall(r"Granted job allocation (\d+)", said)[0]

    def end(self) -> None:
        self.cluster.run(["scancel", self.job], check=False)
        self.cluster.cancel()
        self.cluster.idle()

    def popen(self, argv: Sequence[str], env: Mapping[str, str | None] | None = None, **more: Any) -> Inside:
        """Start a command on the first node. Of Slurm it has what a job of Snakemake has: the number of the job."""
        variables = {"SLURM_JOB_ID": self.job, **(env or {})}
        return self.cluster.popen(argv, on=self.hosts[0], env=variables, **more)

    def start(self, argv: Sequence[str], env: Mapping[str, str | None] | None = None, **more: Any) -> Running:
        return Running(self.popen(argv, env, stderr=subprocess.PIPE, **more))

    def python(self, code: str, *arguments: Any) -> Any:
        """What a program leaves in `answer`. `given` are its arguments, `hosts` the nodes, `job` the number."""
        head = f"import json, os, sys; hosts, job, given = {list(self.hosts)}, {self.job!r}, json.loads(sys.argv[1])"
        program = f"{head}\n{code}\nprint(json.dumps(answer))\n"
        done = self.popen(
            [sys.executable, "-c", program, json.dumps(arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = done.communicate(timeout=PATIENCE_S)
        if done.returncode:
            raise ClusterError(err)
        return json.loads(out)

    def alive(self, words: str, node: str) -> list[int]:
        """Processes on a node whose command line has these words."""
        said = self.cluster.run(["pgrep", "-f", words], on=node, check=False).stdout
        return [int(pid) for pid in said.split()]
