"""The agents of a job's nodes: what they answer, and what happens when one of them or srun ends. Most of it with two
agents on this machine (local_srun.py)."""

import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import local_srun
import processes
from held_job import Held
from iosweep.errors import ExitCode, Refused, TargetError, TargetHangs
from iosweep.node import process
from iosweep.node.load import Surroundings
from iosweep.programs.programs import hash_of
from iosweep.run import agents
from iosweep.run import agents as node_agent
from iosweep.run.agents import RemoteAgents
from waiting import PATIENCE_S, wait_for

HOSTS = ("n1", "n2")
AGENT = "iosweep.run.agents"


def remote(job: str) -> RemoteAgents:
    return RemoteAgents(job, HOSTS, PATIENCE_S)


# Questions and answers


@pytest.mark.local
def test_every_node_answers_and_an_error_names_its_node(local_job: str, tmp_path: Path) -> None:
    words = "echo Welcome; echo '1 n1 0/1 x' | tr 1 7; printf 'to this site'; echo warning >&2"
    local_srun.install(tmp_path, words)
    with remote(local_job) as made:
        assert set(made.call(node_agent.slurm_step)) == {"n1", "n2"}
        assert made.step.startswith(f"{local_job}.")
        assert [*made.call(hash_of, each={"n2": [sys.executable]})] == ["n2"]
        assert made.call(hash_of, sys.executable) == dict.fromkeys(HOSTS, hash_of(sys.executable))
        idle = made.call(node_agent.idle_load, each=dict.fromkeys(HOSTS, (Surroundings(), None, 0.25)))
        assert all(load and load.window_s >= 0.2 and load.ours < 1 for load in idle.values())
        with pytest.raises(Refused, match="on n1: "):
            made.call(node_agent.facts, f"{tmp_path}/none", {})
        with pytest.raises(TargetError) as caught:
            made.run_at_once({"n1": ["/bin/true"], "n2": ["/nonexistent/tool"]}, PATIENCE_S)
        assert caught.value.node == "n2"
        assert made.call(node_agent.slurm_step)  # none of that ends them


@pytest.mark.local
def test_output_and_files_of_each_node_come_whole(local_job: str) -> None:
    script = "for k in 10 2; do echo $SLURMD_NODENAME > a.$k.log; done; pwd"
    with remote(local_job) as made:
        writes = ["sh", "-c", script]
        wrote = made.run_at_once(dict.fromkeys(HOSTS, writes), PATIENCE_S, None, {"log": "a.*.log", "no": "x"})
        flood = made.run_at_once({"n1": ["echo", "x"], "n2": ["yes"]}, PATIENCE_S)
    for host in HOSTS:
        assert wrote[host].streams.keys() == {"stdout", "stderr", "log"}
        assert wrote[host].streams["log"] == f"==> a.2.log <==\n{host}\n==> a.10.log <==\n{host}\n".encode()
        assert not Path(wrote[host].done.stdout.decode().strip()).exists()
    assert [flood[host].done.flooded for host in HOSTS] == [False, True]
    assert len(flood["n2"].done.stdout) == process.MOST_PRINTED_BYTES


@pytest.mark.local
def test_a_command_that_takes_too_long_on_one_node_is_ended_there(local_job: str) -> None:
    short, long = "echo here; exit 7", "(setsid sleep 4321.1 &); sleep 4321.2"
    with remote(local_job) as made:
        for limit_s in (0.6, 6, 60):  # until it is long enough for the short one
            done = made.run_at_once({"n1": ["sh", "-c", short], "n2": ["sh", "-c", long]}, limit_s)
            if not done["n1"].done.timed_out:
                break
        assert not processes.with_variables("sleep", SLURM_JOB_ID=local_job)
    one, two = done["n1"].done, done["n2"].done
    assert (one.exit_code, one.timed_out, one.stdout, one.left_behind) == (7, False, b"here\n", ())
    assert (two.timed_out, two.stdout, two.left_behind) == (True, b"", ())
    assert two.argv == ("sh", "-c", long)


# Ends


@pytest.mark.local
def test_a_node_that_does_not_answer_is_named_and_its_agent_ended(local_job: str) -> None:
    with remote(local_job) as made:
        for one in processes.with_variables(AGENT, SLURM_JOB_ID=local_job, SLURMD_NODENAME="n2"):
            one.suspend()
        for deadline_s in (0.5, 5, 50):  # until it is long enough for the other one
            with pytest.raises(TargetHangs) as caught:
                made.call(node_agent.slurm_step, deadline_s=deadline_s)
            if caught.value.nodes == ("n2",):
                break
        assert caught.value.nodes == ("n2",)


# Clocks


class Timed(RemoteAgents):
    """Agents whose answers take set times, on a clock that is set: one is 100 s ahead, the other 7.5 s behind."""

    def __init__(self, *rounds: tuple[float, float]) -> None:
        super().__init__("12", HOSTS, 1.0)
        self.ahead_s, self.now_s = {"n1": 100.0, "n2": -7.5}, 1000.0
        self.rounds = list(rounds)

    def call(self, *_: Any, **__: Any) -> Any:
        there_s, back_s = self.rounds.pop(0)
        asked = self.now_s + there_s
        self.now_s = asked + back_s
        self._answered = dict.fromkeys(HOSTS, self.now_s)
        return {host: asked + ahead for host, ahead in self.ahead_s.items()}


def test_clocks_are_compared_by_the_quickest_answer_to_within_half_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Timed((0.5, 0.1), (0.01, 0.01), (0.05, 0.05))
    monkeypatch.setattr(agents, "time", SimpleNamespace(time=lambda: made.now_s, monotonic=lambda: made.now_s))
    for host, clock in made.clocks().items():
        assert clock.error_s == pytest.approx(0.01)
        assert abs(clock.offset_s - made.ahead_s[host]) <= clock.error_s + 1e-9


# On a real cluster

#: Prints a megabyte that no compression makes smaller, another one on each node and stream.
NOISE = [
    sys.executable, "-c",
    "import os, random, sys\n"
    "for name in ('stdout', 'stderr'):\n"
    "    getattr(sys, name).buffer.write(random.Random(os.environ['SLURMD_NODENAME'] + name).randbytes(1 << 20))\n",
]  # fmt: skip
TALK = """
import random, sys, time
from iosweep.run import agents as node_agent
from iosweep.run.agents import RemoteAgents
from iosweep.slurm import query
with RemoteAgents(job, hosts, 600) as agents:
    ran = agents.run_at_once(dict.fromkeys(hosts, given[0]), 600)
    answer = {
        "step": agents.step, "steps": query._steps(job), "hello": agents.call(node_agent.slurm_step),
        "whole": {host: [getattr(one.done, name) == random.Random(host + name).randbytes(1 << 20)
                         for name in ("stdout", "stderr")] for host, one in ran.items()},
        "clocks": [abs(clock.offset_s) <= clock.error_s for clock in agents.clocks().values()],
    }
end = time.monotonic() + 600  # Slurm forgets a step a moment after it has ended
while (left := query._steps(job)) and time.monotonic() < end:
    time.sleep(0.1)
answer["left"] = left
"""


def test_agents_over_a_real_srun_answer_whole(held: Held) -> None:
    seen = held.python(TALK, NOISE)
    assert seen["steps"] == [seen["step"]]
    assert seen["hello"] == dict.fromkeys(held.hosts, seen["step"].partition(".")[2])
    assert seen["whole"] == {host: [True, True] for host in held.hosts}
    assert seen["clocks"] == [True, True]  # it is one machine, so the truth is zero
    assert seen["left"] == []


SLEEPING = """
from iosweep.errors import AllocationError
from iosweep.run.agents import RemoteAgents
with RemoteAgents(job, hosts, 600) as agents:
    try:
        agents.run_at_once(dict.fromkeys(hosts, ["sh", "-c", "setsid sleep 4321.3 & sleep 4321.4"]), 600)
    except AllocationError as error:
        print(error, file=sys.stderr)
        sys.exit(error.code)
"""


@pytest.mark.parametrize("what", ["agent", "srun", "runner"])
def test_on_no_node_a_tool_outlives_its_agents(held: Held, what: str) -> None:
    head = f"import sys; hosts, job = {held.hosts}, {held.job!r}\n"
    running = held.start([sys.executable, "-c", head + SLEEPING])
    for node in held.hosts:
        wait_for(lambda node=node: len(held.alive("^sleep 4321", node)) == 2, over=running.over)
    if what == "runner":
        running.process.kill()
        assert running.result()[0] == -signal.SIGKILL
    else:
        node, words = ("n2", f"{AGENT}$") if what == "agent" else ("n1", f"^srun --overlap .*{AGENT}$")
        held.cluster.run(["pkill", "-KILL", "-f", words], on=node)
        code, said = running.result()
        assert (code, "n2" in said.partition("ended")[2]) == (ExitCode.LOST, what == "agent"), said
        assert [held.alive("^sleep 4321", node) for node in held.hosts] == [[], []]
    for node in held.hosts:
        wait_for(lambda node=node: not held.alive(f"^sleep 4321|{AGENT}", node))
