"""`iosweep doctor`: what a campaign needs on this machine, and the CPUs of this node, or of all nodes of the allocation
that it is called in."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from iosweep.commands.doctor import campaign
from iosweep.errors import Unanswered
from iosweep.findings import Line, ok, show, unchecked, wrong
from iosweep.hostlist import folded
from iosweep.node import cpu_probe, weka_steps
from iosweep.node.probe_record import Probe
from iosweep.slurm import fan_out, query

#: Time limit in seconds for answers of the nodes of an allocation.
_ANSWER_S = 60.0


def doctor(configuration: Path | None, as_json: bool) -> int:
    """Print what was found; 0 if nothing is wrong, else 1."""
    configured, made, line = campaign.plan(configuration)
    reserved = configured.cpus.reserved if configured else None
    lines, here = [line, *campaign.working_directory(submits=False)], True
    found: list[Probe] = []
    try:
        if hosts := _hosts():
            here = False
            found, of_nodes = _ask(hosts, reserved)
            lines += of_nodes
        else:
            found = [cpu_probe.probe_here(reserved)]
    except Unanswered as error:
        # on a node of the job, at least this one can be checked
        here = "SLURMD_NODENAME" in os.environ
        found = [cpu_probe.probe_here(reserved)] if here else []
        seen = "".join([str(error), *(f"; only {facts.host} was checked" for facts in found)])
        lines.append(wrong("nodes", seen, "run it on each of the nodes"))
    if configured and made:
        elsewhere = unchecked("tools, target", "the job's nodes use them, not this one", "run iosweep doctor --slurm")
        lines += campaign.look(configured, made) if here else [elsewhere]
    return show([*lines, *weka_steps.of_nodes({facts.host: weka_steps.judge(facts) for facts in found})], as_json)


def _hosts() -> tuple[str, ...]:
    """The nodes of the allocation; none where there is none, or this node is all of it. Raises Unanswered."""
    id = os.environ.get("SLURM_JOB_ID")
    job = query.job(id) if id else None
    ours = {os.environ.get("SLURMD_NODENAME"), socket.gethostname(), socket.gethostname().partition(".")[0]}
    return job.hosts if job and not set(job.hosts) <= ours else ()


def _ask(hosts: Sequence[str], configured: str | None) -> tuple[list[Probe], list[Line]]:
    """The facts of each node, and a line on who answered. Raises Unanswered if none did."""
    count = str(len(hosts))
    controller = cpu_probe.controller(hosts, query.ask)  # once, not by each of them
    # beside what else runs there, and bound to nothing, so that it may use what the job may
    argv = [
        *("srun", "--overlap", "--overcommit", "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=0"),
        *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={folded(hosts)}"),
        *(sys.executable, "-P", "-X", "utf8", "-m", "iosweep.node.cpu_probe"),
        msgspec.json.encode([configured, controller]).decode(),
    ]
    query.forget_options()
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S,
            check=False,
        )  # fmt: skip
        output, why = done.stdout, done.stderr.strip().splitlines()
    except OSError as error:
        raise Unanswered(f"srun cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired as error:
        output = os.fsdecode(error.stdout or b"")
        why = [f"srun did not end within {_ANSWER_S:g} s"]
    messages = fan_out.Messages()
    sent = [message.value for line in output.split("\n") if (message := messages.add(os.fsencode(line)))]
    found = [msgspec.convert(value, Probe) for value in sent]
    if not found:
        raise Unanswered(f"no node answered: {why[0] if why else 'srun says nothing'}")
    found.sort(key=lambda facts: hosts.index(facts.host) if facts.host in hosts else len(hosts))
    names = ", ".join(facts.host for facts in found)
    if len(found) < len(hosts):
        seen = f"{len(found)} of {count} answered ({names}){': ' + why[0] if why else ''}"
        return found, [wrong("nodes", seen, "see what is wrong with the others")]
    return found, [ok("nodes", f"{names}: all of the allocation")]
