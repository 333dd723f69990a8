"""fio's own client/server mode, as WEKA's documentation uses it: one fio sends a job to a server on each node.

On request only (`allow_open_port`), and never as root: a server's port knows no password, and a job can run commands.
A server is bound to its node's address and ends with the step. fio's exit code is 0 where a host refused,
and its row "All clients" adds up whatever came: what counts here is one report of each node that was asked.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from iosweep.node.cpus import CpuSet
from iosweep.tools import Phase, Step
from iosweep.tools.fio import output
from iosweep.tools.fio.argv import bound, command
from iosweep.tools.fio.output import Node, Options
from iosweep.tools.fio.records import ALL_CLIENTS, Host

#: Lines of the client and of servers that may say what went wrong; the others are notes on jobs.
_MAY_BE_ERROR = re.compile(r"fio: |\berror\b|err=|^client", re.IGNORECASE)
#: Options of the client, not of a job; where a server works, which is where it was started; and logs, which a server
#: would write there.
_NOT_IN_JOBS = ("--eta=", "--output-format=", "--name=", "--directory=", "--write_bw_log=", "--log_avg_msec=",
                "--per_job_logs=")  # fmt: skip


def asked_for(step: Step) -> bool:
    return step.phase.kind == "data" and bool(step.options.get("client_server"))


def server_argv(directory: str, address: str, port: int) -> list[str]:
    """A node's server, which listens on one address of the node only.

    It works in the absolute `directory` of the node's files because job files cannot name every directory: fio cuts
    their lines at ; and #, and replaces ${...} and $ncpus. With a `directory` it would also put the node's address
    before the names of files, and not find those that were prepared. env changes the directory after the start: where
    the file system hangs, nothing but the server hangs.
    """
    return ["env", f"--chdir={directory}", "fio", f"--server={_server(address, port)}"]


def client_argv(
    step: Step, servers: Sequence[tuple[str, int, int]], workers: Sequence[CpuSet] = ()
) -> tuple[list[str], dict[str, str]]:
    """The client's command for servers (address, port, seed), and the job files (name -> text) that it reads from the
    directory where it is started."""
    argv, files = ["fio", "--eta=never", "--output-format=json+"], {}
    for k, (address, port, seed) in enumerate(servers):
        files[f"job{k}.fio"] = _job(step, seed, workers)
        argv += [f"--client={_server(address, port)}", f"job{k}.fio"]
    return argv, files


def _server(address: str, port: int) -> str:
    return f"{'ip6' if ipaddress.ip_address(address).version == 6 else 'ip'}:{address},{port}"


def _job(step: Step, seed: int, workers: Sequence[CpuSet]) -> str:
    """What `command` asks for, as a job file."""
    argv = [*command(step, ".", seed)[1:], *(bound(workers) if workers else [])]
    lines = [a.removeprefix("--") for a in argv if not a.startswith(_NOT_IN_JOBS)]
    return "\n".join([f"[{step.phase.name}]", *lines]) + "\n"


def reported(
    stdout: bytes, hosts: Sequence[Host], phase: Phase, asked: Options
) -> tuple[str | None, dict[str, Node], list[str]]:
    """(version, node -> its report, problems) of a client's output."""
    lines, found, problem = output.document(stdout)
    errors = [line.strip() for line in lines if _MAY_BE_ERROR.search(line)][:3]
    if found is None:
        return None, {}, [problem, *errors]
    version = found.version or None
    if found.client_stats is None:
        return version, {}, ["fio's JSON has no client_stats"]
    names = {(host.address, host.port): host.host for host in hosts}
    nodes: dict[str, Node] = {}
    problems = []
    for entry in found.client_stats:
        if entry.jobname == ALL_CLIENTS:
            continue
        name = names.get((entry.hostname, entry.port))
        if name is None or name in nodes or entry.jobname != phase.name:
            problems.append(f"a report that was not asked for: {entry.jobname} of {entry.hostname}, port {entry.port}")
            continue
        nodes[name] = output.of_entry(entry, found.version, phase, [], asked)
        problems += [f"{name}: {wrong}" for wrong in nodes[name][0].problems]
    for (address, port), name in names.items():
        if name not in nodes:
            problems.append(f"{name} ({address}, port {port}) did not report")
    nodes = {name: nodes[name] for name in names.values() if name in nodes}  # they come as they end
    return version, nodes, [*problems, *errors] if problems else []
