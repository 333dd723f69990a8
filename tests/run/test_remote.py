"""The agents of a job's nodes, on a real cluster: what they answer, what happens when one of them or srun ends."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from held_job import Child, Held
from iosweep.errors import AllocationError, TargetError, TargetHangs
from iosweep.node import load, monitor, process
from iosweep.node.sampling import Wanted
from iosweep.programs.find import hash_of
from iosweep.results.checks.interference import OTHER_LOAD
from iosweep.run import remote as agents
from iosweep.run import remote_agent
from iosweep.run.remote import Clock, RemoteAgents
from iosweep.slurm import query as slurm_commands
from waiting import PATIENCE_S, wait_for


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test on the cluster no agent is left, no srun of theirs, and nothing that they were told to run."""
    yield
    if "held" in request.fixturenames:
        held: Held = request.getfixturevalue("held")
        while held.started:
            held.started.pop().signal(signal.SIGKILL)  # of a test that failed
        wait_for(lambda: not any(held.alive("iosweep.run.remote_agent|sleep 4321", node) for node in held.hosts))


def remote(job: str, deadline_s: float = PATIENCE_S) -> RemoteAgents:
    return RemoteAgents(job, Held.hosts, deadline_s)


# Questions and answers


def talk(job: str) -> dict[str, Any]:
    with remote(job) as agents:
        step = agents.step
        return {
            "step": step, "steps": slurm_commands._steps(job), "hello": agents.call(remote_agent.hello),
            "one": agents.call(remote_agent.free_port, each={"n2": ["10.77.0.12"]}),
            "hash": agents.call(hash_of, sys.executable), "none": agents.call(hash_of, "/nonexistent"),
            "clocks": agents.clocks(),
        }  # fmt: skip


def test_every_node_answers(held: Held) -> None:
    seen = held.inside(talk, held.job)
    assert seen["step"].startswith(f"{held.job}.")
    assert seen["steps"] == [seen["step"]]
    assert set(seen["hello"].values()) == {seen["step"].partition(".")[2]}
    assert [*seen["hello"]] == ["n1", "n2"]
    assert set(seen["one"]) == {"n2"}
    assert 1024 < seen["one"]["n2"] < 65536
    assert seen["hash"] == dict.fromkeys(held.hosts, hash_of(sys.executable))
    assert seen["none"] == {"n1": None, "n2": None}
    for clock in seen["clocks"].values():  # it is one machine, so the truth is zero
        assert abs(clock.offset_s) <= clock.error_s < 10
    assert held.inside(slurm_commands._steps, held.job) == []


def errors(job: str, target_: str) -> list[str]:
    said = []
    with remote(job) as agents:
        for call in (
            lambda: agents.call(remote_agent.facts, target_, {}),
            lambda: agents.call(remote_agent.free_port, each={"n1": ["10.77.0.11"], "n2": ["10.77.0.11"]}),
            lambda: agents.run({"n1": ["/bin/true"], "n2": ["/nonexistent/tool"]}, 5),
        ):
            try:
                call()
            except Exception as error:
                said.append(f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}")
        assert agents.call(remote_agent.hello)  # none of that ends them
    return said


def test_an_error_says_on_which_node(held: Held, tmp_path: Path) -> None:
    assert held.inside(errors, held.job, f"{tmp_path}/none") == [
        f"Refused: on n1: the target {tmp_path}/none does not exist; is the file system mounted?",
        "TargetError: on n2: Cannot assign requested address: free_port",
        "TargetError: on n2: No such file or directory: /nonexistent/tool",
    ]


#: Prints a megabyte that no compression makes smaller, another one on each node and stream.
NOISE = [
    sys.executable, "-c",
    "import random, socket, sys\n"
    "for name in ('stdout', 'stderr'):\n"
    "    getattr(sys, name).buffer.write(random.Random(socket.gethostname() + name).randbytes(1 << 20))\n",
]  # fmt: skip


def run_all(job: str, commands: dict[str, list[str]], timeout_s: float) -> dict[str, Any]:
    with remote(job) as agents:
        return agents.run(commands, timeout_s)


def test_long_answers_come_whole_and_are_not_mixed(held: Held) -> None:
    done = held.inside(run_all, held.job, dict.fromkeys(held.hosts, NOISE), 60)
    for host in held.hosts:
        for stream in ("stdout", "stderr"):
            expected = random.Random(host + stream).randbytes(1 << 20)
            assert getattr(done[host][0], stream) == expected


def run_with_files(job: str, commands: dict[str, list[str]]) -> dict[str, Any]:
    with remote(job) as agents:
        return agents.run(commands, 60, None, {"log": "a.*.log", "none": "x"})


def test_files_that_a_tool_writes_come_from_each_node(held: Held) -> None:
    script = "for k in 10 2; do hostname > a.$k.log; done; pwd"
    done = held.inside(run_with_files, held.job, {host: ["sh", "-c", script] for host in held.hosts})
    for host in held.hosts:
        ran, files = done[host].done, done[host].files
        assert files == {"log": f"==> a.2.log <==\n{host}\n==> a.10.log <==\n{host}\n".encode()}
        assert not Path(ran.stdout.decode().strip()).exists()


def test_what_each_node_ran(held: Held) -> None:
    short, long = "echo here; hostname; exit 7", "(setsid sleep 4321.1 &); sleep 4321.2"
    for limit_s in (0.6, 6, 60):  # until it is long enough for the short one
        done = held.inside(run_all, held.job, {"n1": ["sh", "-c", short], "n2": ["sh", "-c", long]}, limit_s)
        if not done["n1"][0].timed_out:
            break
    (one, one_began, *_), (two, two_began, two_ended, *_) = done["n1"], done["n2"]
    assert (one.exit_code, one.timed_out, one.stdout, one.left_behind) == (7, False, b"here\nn1\n", ())
    assert (two.exit_code, two.timed_out, two.stdout, two.left_behind) == (-signal.SIGTERM, True, b"", ())
    assert two.argv == ("sh", "-c", long)
    assert abs(two_began - one_began) < limit_s  # none waited for the other
    assert two_ended - two_began >= limit_s


def test_a_node_that_is_flooded(held: Held) -> None:
    done = held.inside(run_all, held.job, {"n1": ["echo", "x"], "n2": ["yes"]}, 60)
    assert [done[host][0].flooded for host in held.hosts] == [False, True]
    assert done["n2"][0].stdout == b"y\n" * (process.MOST_BYTES // 2)


def with_words(job: str) -> dict[str, Any]:
    words = "echo Welcome; echo '1 n1 0/1 x' | tr 1 7; printf 'to this site'; echo warning >&2"
    RemoteAgents.argv = ("sh", "-c", f'{words}; exec "$@"', "sh", *RemoteAgents.argv)
    with remote(job) as agents:
        return agents.call(remote_agent.hello)


def test_output_of_login_scripts_is_ignored(held: Held) -> None:
    assert set(held.inside(with_words, held.job)) == {"n1", "n2"}


# Ends


def end_of(job: str, place: Path, commands: dict[str, list[str]] | None, deadline_s: float) -> tuple[str, float]:
    """The error of the runner when something happens while commands run, or (None) before it asks for the time."""
    with remote(job, deadline_s) as agents:
        (place / "ready").write_text(str(agents._srun.pid))
        if commands is None:
            wait_for((place / "go").exists)
        began = time.monotonic()
        try:
            agents.run(commands, PATIENCE_S) if commands else agents.call(remote_agent.clock)
        except (AllocationError, TargetHangs) as error:
            return f"{type(error).__name__}: {error}", time.monotonic() - began
    return "", 0.0


SLEEP = ["sh", "-c", "setsid sleep 4321.3 & sleep 4321.4"]


def while_sleeping(held: Held, place: Path) -> Child:
    """Both nodes run SLEEP."""
    child = held.start(end_of, held.job, place, dict.fromkeys(held.hosts, SLEEP), PATIENCE_S)
    for node in held.hosts:
        wait_for(lambda node=node: len(held.alive("^sleep 4321", node)) == 2, over=child.over)
    return child


def test_an_agent_that_is_killed(held: Held, tmp_path: Path) -> None:
    child = while_sleeping(held, tmp_path)
    held.cluster.on("n2", ["pkill", "-KILL", "-f", "iosweep.run.remote_agent"])
    said, took_s = child.result()
    assert said.startswith("AllocationError: the agents on n1, n2 ended: srun: error: n2: task 1: Killed")
    assert took_s < PATIENCE_S / 2  # not at the deadline
    assert [held.alive("^sleep 4321", node) for node in held.hosts] == [[], []]


def test_srun_is_killed(held: Held, tmp_path: Path) -> None:
    child = while_sleeping(held, tmp_path)
    held.cluster.on("n1", ["kill", "-KILL", (tmp_path / "ready").read_text()])
    said, _ = child.result()
    assert said.startswith("AllocationError: the agents on n1, n2 ended: srun says nothing")
    assert [held.alive("^sleep 4321", node) for node in held.hosts] == [[], []]


def test_the_runner_is_killed(held: Held, tmp_path: Path) -> None:
    child = while_sleeping(held, tmp_path)
    child.signal(signal.SIGKILL)
    with pytest.raises(EOFError):
        child.result()
    for node in held.hosts:
        wait_for(lambda node=node: not held.alive("^sleep 4321|iosweep.run.remote_agent", node))
    wait_for(lambda: held.inside(slurm_commands._steps, held.job) == [])


def test_a_node_that_does_not_answer(held: Held, tmp_path: Path) -> None:
    child = held.start(end_of, held.job, tmp_path, None, 2.0)
    wait_for((tmp_path / "ready").exists, over=child.over)
    held.cluster.on("n2", ["pkill", "-STOP", "-f", "iosweep.run.remote_agent"])
    (tmp_path / "go").touch()
    said, took_s = child.result()
    assert said == "TargetHangs: the agent on n2 does not answer: nothing for 2 s while reading its clock"
    assert took_s < PATIENCE_S / 2
    assert held.alive("iosweep.run.remote_agent", "n2") == []  # even so it is ended


# Ranks, and who else takes time


#: What is not there soon is looked for once in a second.
LONG_ENOUGH_S = "1.5"


def watched(job: str, program: str, expected: int, words: list[str]) -> dict[str, Any]:
    with remote(job) as agents:
        wanted = Wanted(program, expected, ranks=True, masks=False)
        agents.call(remote_agent.watch, each=dict.fromkeys(Held.hosts, (wanted, (), None)))
        agents.call(remote_agent.watch, each=dict.fromkeys(Held.hosts, (wanted, (), None)))  # one that came to nothing
        ranks = ("--nodes=2", "--ntasks=4", "--ntasks-per-node=2")
        subprocess.run(["srun", "--overlap", "--overcommit", *ranks, "--cpu-bind=none", program, *words], check=True)
        return agents.call(remote_agent.seen)


def test_the_ranks_of_this_job_are_counted(held: Held, tmp_path: Path) -> None:
    program = tmp_path / "a b"
    shutil.copy("/usr/bin/sleep", program)
    (tmp_path / "link").symlink_to(program)
    foreign = held.cluster.popen([program, "600"], on="n1", env={"SLURM_JOB_ID": held.job + "0"})
    hog = f"timeout --foreground 600 {sys.executable} -c 'while True: pass'"
    busy = held.cluster.popen(["sh", "-c", f"{hog} & {hog}; :"], on="n2")
    try:
        seen = held.inside(watched, held.job, str(tmp_path / "link"), 3, [LONG_ENOUGH_S])
    finally:
        for each in (foreign, busy):
            each.signal_group(signal.SIGKILL)
            each.wait()
    assert {host: one.ranks for host, one in seen.items()} == {"n1": 2, "n2": 2}
    # both are one machine here, and what is busy on one is other load on both; on several machines on each its own
    loads = {host: one.load for host, one in seen.items()}
    assert load._is_same_machine(loads["n1"], loads["n2"])
    assert all(one.busy - one.ours > 0.05 for one in loads.values())


def beside_own_hogs(job: str) -> Any:
    """The load that a job sees where its script runs something beside us, as many times as there are CPUs."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        with remote(job) as agents:
            agents.call(remote_agent.watch, each=dict.fromkeys(Held.hosts, (None, (), None)))
            subprocess.run(["srun", "--overlap", "--overcommit", "--nodes=2", "sleep", "3"], check=True)
            seen = agents.call(remote_agent.seen)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    return load.of_nodes({host: one.load for host, one in seen.items()}), monitor.of_nodes(
        {host: one.monitor for host, one in seen.items()}
    )


def test_what_a_job_runs_beside_us_is_not_ours(held: Held) -> None:
    """It was subtracted as if it measured, so that a machine with a load of 8 was idle."""
    found, stream = held.inside(beside_own_hogs, held.job)
    assert found.other > OTHER_LOAD
    seen = {(one.host, one.name): one.values for one in monitor.series(stream)}
    for host in held.hosts:
        assert len(seen[host, "memory_available_bytes"]) >= 2
        assert max(seen[host, "measuring_cpus_busy_share"]) > OTHER_LOAD


def test_a_forking_rank_counts_once(held: Held, tmp_path: Path) -> None:
    program = tmp_path / "ranks"
    shutil.copy("/bin/dash", program)
    seen = held.inside(watched, held.job, str(program), 9, ["-c", f"(sleep {LONG_ENOUGH_S}; :) & wait"])
    assert {host: one.ranks for host, one in seen.items()} == {"n1": 2, "n2": 2}


# Servers


SERVER = (
    "import socket, sys, subprocess; s = socket.create_server((sys.argv[1], int(sys.argv[2])));"
    " subprocess.Popen(['setsid', 'sleep', '4321.5'], pass_fds=[s.fileno()]); s.accept(); s.accept()"
)


def listening(held: Held, node: str) -> set[str]:
    """Listening sockets on a node, `address:port` in hexadecimal."""
    lines = held.cluster.on(node, ["cat", "/proc/net/tcp", "/proc/net/tcp6"]).stdout.splitlines()
    return {words[1] for words in map(str.split, lines) if words[3] == "0A"}


def serve(job: str, place: Path, fail: bool) -> tuple[dict[str, int], str]:
    said = ""
    with remote(job) as agents:
        addresses = slurm_commands.addresses(Held.hosts)
        ports = agents.call(remote_agent.free_port, each={h: [a] for h, a in addresses.items()})
        commands = {h: [sys.executable, "-c", SERVER, a, str(ports[h])] for h, a in addresses.items()}
        if fail:
            commands["n2"] = ["sh", "-c", "echo no license >&2; exit 3"]
        try:
            agents.call(remote_agent.serve, each={h: [commands[h], a, ports[h]] for h, a in addresses.items()})
        except TargetError as error:
            said = str(error.strerror)
        (place / "ready").touch()
        wait_for((place / "go").exists)
        if not fail:
            agents.call(remote_agent.end_servers)
            (place / "ended").touch()
            wait_for((place / "go on").exists)
    return ports, said


@pytest.mark.parametrize("fail", [False, True])
def test_servers_are_ended(held: Held, tmp_path: Path, fail: bool) -> None:
    before = [listening(held, node) for node in held.hosts]
    child = held.start(serve, held.job, tmp_path, fail)
    wait_for((tmp_path / "ready").exists, over=child.over)
    during = [listening(held, node) for node in held.hosts]
    (tmp_path / "go").touch()
    if not fail:
        wait_for((tmp_path / "ended").exists, over=child.over)
        ended = [listening(held, node) for node in held.hosts]
        assert [held.alive("4321.5", node) for node in held.hosts] == [[], []]
        (tmp_path / "go on").touch()
    ports, said = child.result()
    # on one address each: 10.77.0.11 and .12; what else there is are srun's own, on the first node
    ours = {"n1": f"0B004D0A:{ports['n1']:04X}", "n2": f"0C004D0A:{ports['n2']:04X}"}
    assert [place for place in during[0] if place.endswith(ours["n1"][-5:])] == [ours["n1"]]
    assert during[1] - before[1] == (set() if fail else {ours["n2"]})
    assert fail or (ours["n1"] not in ended[0] and ended[1] == before[1])
    assert said == ("on n2: no license: sh" if fail else "")
    assert [listening(held, node) for node in held.hosts] == before  # of what had begun to serve, too


@pytest.mark.local
@pytest.mark.parametrize("argv", [["sleep", "4321.6"], ["sh", "-c", "exit 0"]])
def test_a_server_that_does_not_listen(monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> None:
    monkeypatch.setattr(remote_agent, "_SERVER_S", 0.1 if argv[0] == "sleep" else PATIENCE_S)
    port = remote_agent.free_port("127.0.0.1")
    try:
        why = "does not listen after 0.1 s" if argv[0] == "sleep" else "it ended"
        with pytest.raises(OSError, match=why) as caught:
            remote_agent.serve(argv, "127.0.0.1", port)
        assert caught.value.filename == argv[0]
    finally:
        (server,) = remote_agent._servers
        server.kill()
        server.wait()
        remote_agent._servers.clear()


# An srun of our own: what a real one does only now and then


@pytest.fixture
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a Python program on PATH as srun. `read()` gives a request; `say(host, answer, number=...)` answers."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(agents, "_START_S", PATIENCE_S)
    monkeypatch.setattr(slurm_commands, "ask", lambda *_: "")

    def made(script: str) -> None:
        file = tmp_path / "srun"
        file.write_text(
            f"#!{sys.executable}\nimport base64, json, zlib, os, random, sys, time\n"
            "from iosweep.hostlist import unfolded\n"
            "def read():\n    line = sys.stdin.readline()\n    return json.loads(line) if line else sys.exit(0)\n"
            "everybody = unfolded(next(w for w in sys.argv if '--nodelist' in w).partition('=')[2])\n"
            "def who(request):\n    return request.get('each') or everybody\n"
            "def pieces(host, value, number, size=9):\n"
            "    text = base64.b64encode(zlib.compress(json.dumps({'value': value}).encode())).decode()\n"
            "    parts = [text[i:i + size] for i in range(0, len(text), size)]\n"
            "    return [f'{number} {host} {i}/{len(parts)} {p}' for i, p in enumerate(parts)]\n"
            "def say(*lines):\n    print(*lines, sep='\\n', flush=True)\n"
            f"{script}\n"
        )
        file.chmod(0o755)

    return made


@pytest.mark.local
def test_the_command(srun: Callable[[str], None]) -> None:
    srun("r = read(); [say(*pieces(h, '3', r['number'], 900)) for h in who(r)]; read()")
    with RemoteAgents("12", ("n1", "n7"), PATIENCE_S) as made:
        assert made.step == "12.3"
        argv = made._srun.args
    assert isinstance(argv, list)
    assert argv == [
        "srun", "--overlap", "--mpi=none", "--cpu-bind=none", "--job-name=agents", "--nodes=2", "--ntasks=2",
        "--ntasks-per-node=1", "--nodelist=n[1,7]", "--kill-on-bad-exit=1", sys.executable, "-P", "-X", "utf8", "-m",
        "iosweep.run.remote_agent",
    ]  # fmt: skip


def clock() -> list[object]:
    """An operation of the agents below, which answer with anything."""
    return []


@pytest.mark.local
def test_answers_in_any_order(srun: Callable[[str], None]) -> None:
    srun(
        "r = read(); [say(*pieces(h, '0', r['number'])) for h in who(r)]\n"
        "for seed in range(20):\n"
        "    r = read(); n = r['number']\n"
        "    lines = [l for h in who(r) for l in pieces(h, [h, seed, 'x' * 100 * seed], n)]\n"
        "    lines += [l for h in who(r) for l in pieces(h, 'late', n - 1)] + ['', 'srun: words', '1 2', f'{n} n1']\n"
        "    random.Random(seed).shuffle(lines)\n"
        "    text = '\\n'.join(lines) + '\\n'; half = random.Random(seed).randrange(len(text))\n"
        "    print(text[:half], end='', flush=True); time.sleep(0.002); print(text[half:], end='', flush=True)\n"
        "read()"
    )
    with RemoteAgents("12", ("n1", "n2"), PATIENCE_S) as made:
        for seed in range(20):
            assert made.call(clock) == {h: [h, seed, "x" * 100 * seed] for h in ("n1", "n2")}


def test_the_better_of_two_looks_at_a_clock() -> None:
    first = Clock(5.0, 0.001)
    assert first.with_another(Clock(5.0002, 0.0005), 1) == Clock(5.0002, 0.0005)
    assert first.with_another(Clock(5.01, 0.02), 10) == Clock(5.0, 0.006)  # it may have drifted by 5 ms
    assert first.with_another(Clock(5.01, 0.02), 100) == Clock(5.01, 0.02)
    assert first.with_another(Clock(7.0, 0.02), 10) == Clock(7.0, 0.02)  # it was set


@pytest.mark.local
def test_an_answer_that_comes_early_tells_more_of_a_clock(srun: Callable[[str], None]) -> None:
    srun(
        "r = read(); [say(*pieces(h, '0', r['number'])) for h in who(r)]\n"
        "for k in range(7):\n"
        "    r = read(); n1, n2 = who(r)\n"
        "    say(*pieces(n1, time.time() + 3, r['number'])); sys.stdout.flush(); time.sleep(0.4)\n"
        "    say(*pieces(n2, time.time(), r['number']))\n"
        "read()"
    )
    with RemoteAgents("12", ("n1", "n2"), PATIENCE_S) as made:
        first, again = made.clocks(), made.clocks()
    assert first["n1"].error_s < 0.15 < first["n2"].error_s
    for clocks in (first, again):  # the second time, two rounds were enough
        assert abs(clocks["n1"].offset_s - 3) <= clocks["n1"].error_s
        assert abs(clocks["n2"].offset_s) <= clocks["n2"].error_s


@pytest.mark.local
def test_a_clock_that_is_ahead(srun: Callable[[str], None]) -> None:
    srun(
        "r = read(); [say(*pieces(h, '0', r['number'])) for h in who(r)]\n"
        "ahead = {'n1': 100.0, 'n2': -7.5}\n"
        "for k in range(5):\n"
        "    r = read(); time.sleep(0.8 * (k in (0, 4)))\n"
        "    [say(*pieces(h, time.time() + ahead[h], r['number'])) for h in who(r)]\n"
        "read()"
    )
    with RemoteAgents("12", ("n1", "n2"), PATIENCE_S) as made:
        clocks = made.clocks()
    for host, ahead_s in {"n1": 100.0, "n2": -7.5}.items():
        assert abs(clocks[host].offset_s - ahead_s) <= clocks[host].error_s
        assert clocks[host].error_s < 0.4  # that of one that came quickly, neither the first nor the last


@pytest.mark.local
def test_srun_fails(srun: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    srun("print('\\nsrun: error: Unable to create step', file=sys.stderr, flush=True); time.sleep(0.1); sys.exit(1)")
    six = [f"n{k}" for k in range(1, 7)]
    with pytest.raises(AllocationError, match=r"^the agents on n\[1-6\] ended: srun: error: Unable"):
        RemoteAgents("1", six, PATIENCE_S).__enter__()
    monkeypatch.setenv("PATH", f"{tmp_path}/none")
    with pytest.raises(AllocationError, match=r"^srun cannot be run: No such file or directory"):
        RemoteAgents("12", ["n1"], PATIENCE_S).__enter__()


@pytest.mark.local
def test_an_srun_that_reads_nothing(srun: Callable[[str], None]) -> None:
    srun("import select; r = read(); say(*pieces('n1', '0', 1)); end = select.poll(); end.register(0, 0); end.poll()")
    with RemoteAgents("12", ["n1"], 0.3) as made:
        began = time.monotonic()
        with pytest.raises(TargetHangs):
            made.call(remote_agent.run, random.Random(1).randbytes(1_000_000).hex())  # not to be compressed
        assert time.monotonic() - began < PATIENCE_S / 2  # not until it reads
