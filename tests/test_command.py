"""A tool's command in its scratch directory: where it is started, and which of its files are taken."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep import command
from iosweep.agent import Agent
from iosweep.command import Commands, Scratch
from iosweep.launch import LAUNCHERS, Mpiexec, mpiexec
from iosweep.programs import Program
from iosweep.tools import Tool


class Shell:
    """As much of a tool as a command needs."""

    def __init__(self, mpi: bool = False):
        self.name, self.program = "shell", "sh"
        self.mpi = mpi
        self.outputs = {"summary": "summary.json", "log": "log"}


def program(path: str = "/bin/sh") -> dict[str, Program]:
    """What was found for it."""
    return {"shell": Program(path, "", "", ())}


def tool(mpi: bool = False) -> Tool:
    made: Any = Shell(mpi)
    return made  # type: ignore[no-any-return]


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.fixture
def commands(agent: Agent, tmp_path: Path) -> Commands:
    return Commands(agent, LAUNCHERS["direct"], tmp_path / "scratch", None, program())


def run(commands: Commands, script: str, **more: Any) -> dict[str, bytes]:
    """What a shell script leaves. It must end well."""
    done, streams = commands.run(tool(**more), ["/bin/sh", "-c", script], 1, 60.0)
    assert done.exit_code == 0, done.stderr
    assert (streams["stdout"], streams["stderr"]) == (done.stdout, done.stderr)
    return dict(streams)


def test_it_is_started_in_the_scratch_directory(commands: Commands) -> None:
    assert run(commands, "pwd; ls -A; echo x >&2") == {"stdout": f"{commands.scratch}\n".encode(), "stderr": b"x\n"}


def test_a_relative_scratch_directory(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # results/<campaign> is below where snakemake is run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    relative = Commands(agent, LAUNCHERS["direct"], Path("results/scratch"), None, program())
    assert run(relative, "pwd; echo {} > summary.json") == {
        "stdout": f"{tmp_path}/results/scratch\n".encode(), "stderr": b"", "summary": b"{}\n",
    }  # fmt: skip
    assert Path.cwd() == tmp_path


def test_the_files_that_the_tool_names_are_taken(commands: Commands) -> None:
    script = "printf '\\377\\n' > summary.json; : > log; echo other > other; echo > log.1"
    assert run(commands, script) == {"stdout": b"", "stderr": b"", "summary": b"\xff\n", "log": b""}


def test_what_a_failed_command_left_is_taken_too(commands: Commands) -> None:
    done, streams = commands.run(tool(), ["/bin/sh", "-c", "echo half > summary.json; exit 5"], 1, 60.0)
    assert done.exit_code == 5
    assert streams["summary"] == b"half\n"


def test_nothing_of_the_command_before_is_left(commands: Commands) -> None:
    run(commands, "echo 1 > summary.json; mkdir -p a/b; echo > a/b/c; chmod 000 a/b/c")
    assert run(commands, "ls -A") == {"stdout": b"", "stderr": b""}
    commands.clear()
    assert not commands.scratch.exists()
    commands.clear()  # nothing to do


def test_links_are_not_followed(commands: Commands, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("secret")
    assert run(commands, f"ln -s {precious}/file summary.json; mkdir log; ln -s {precious} log/there") == {
        "stdout": b"", "stderr": b"",
    }  # fmt: skip
    assert run(commands, "mkfifo log") == {"stdout": b"", "stderr": b""}  # nobody writes to it: it is not waited for
    # nor is one that stands where the scratch directory is to be
    commands.clear()
    commands.scratch.symlink_to(precious)
    assert run(commands, "pwd -P; ls -A")["stdout"] == f"{commands.scratch}\n".encode()
    assert [f.name for f in precious.iterdir()] == ["file"]


def test_a_file_that_is_too_large_is_not_taken(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_BYTES", 1000)
    found = run(commands, "head -c 1000 /dev/zero > log; head -c 1001 /dev/zero > summary.json")
    assert found == {"stdout": b"", "stderr": b"", "log": bytes(1000)}


def file_in_the_way(scratch: Path) -> str:
    scratch.write_text("x")
    return "Not a directory"


def no_parent(scratch: Path) -> str:
    scratch.parent.rename(scratch.parent.with_name("away"))
    return "No such file or directory"


@pytest.mark.parametrize("harm", [file_in_the_way, no_parent])
def test_a_scratch_directory_that_cannot_be_had(agent: Agent, tmp_path: Path, harm: Any) -> None:
    results = tmp_path / "results"
    results.mkdir()
    commands = Commands(agent, LAUNCHERS["direct"], results / "scratch", None, program())
    why = harm(commands.scratch)
    with pytest.raises(Scratch) as caught:
        commands.run(tool(), ["/bin/sh", "-c", f"echo > {tmp_path}/started"], 1, 60.0)
    assert f"{commands.scratch}: {why}" in str(caught.value)
    assert not (tmp_path / "started").exists()


def test_a_command_that_cannot_be_started_is_no_fault_of_the_results(agent: Agent, tmp_path: Path) -> None:
    commands = Commands(agent, LAUNCHERS["direct"], tmp_path / "scratch", None, program("/nonexistent/tool"))
    with pytest.raises(OSError, match="No such file or directory") as caught:
        commands.run(tool(), ["sh"], 1, 60.0)
    assert not isinstance(caught.value, Scratch)


def test_a_time_limit(commands: Commands) -> None:
    done, streams = commands.run(tool(), ["/bin/sh", "-c", "echo x > log; sleep 600"], 1, 0.5)
    assert done.timed_out
    assert streams["log"] == b"x\n"


def test_the_launcher_is_used_for_mpi_only(agent: Agent, tmp_path: Path) -> None:
    commands = Commands(agent, LAUNCHERS["mpiexec"], tmp_path / "scratch", Mpiexec("/x/mpiexec", "5"), program("/y/a"))
    assert commands.argv(tool(), ["a", "b"], 3) == ["a", "b"]
    assert commands.argv(tool(), ["sh", "b"], 3) == ["/y/a", "b"]  # what was found, whatever is on PATH by now
    mpi = commands.argv(tool(mpi=True), ["sh", "b"], 3)
    assert (mpi[0], mpi[-4:]) == ("/x/mpiexec", ["-n", "3", "/y/a", "b"])


def test_ranks_write_into_the_scratch_directory(agent: Agent, tmp_path: Path) -> None:
    found = mpiexec()
    assert isinstance(found, Mpiexec)
    commands = Commands(agent, LAUNCHERS["mpiexec"], tmp_path / "scratch", found, program(sys.executable))
    script = [sys.executable, "-c", "import os; open('log', 'a').write(os.environ['PMI_RANK'])"]
    done, streams = commands.run(tool(mpi=True), script, 3, 60.0)
    assert done.exit_code == 0, done.stderr
    assert sorted(streams["log"]) == sorted(b"012")
    assert done.argv == (*commands.argv(tool(mpi=True), script, 3),)
    assert done.left_behind == 0


def test_ranks_end_with_their_time(tmp_path: Path) -> None:
    # in a process of its own, which adopts what hydra's proxy leaves, as the runner does
    program = """
import sys, types
from pathlib import Path
from iosweep import process
from iosweep.agent import Agent
from iosweep.command import Commands
from iosweep.launch import LAUNCHERS, mpiexec
process.adopt_orphans()
tool = types.SimpleNamespace(name="shell", program="sh", mpi=True, outputs={"log": "log"})
with Agent() as agent:
    programs = {"shell": types.SimpleNamespace(path="/bin/sh")}
    commands = Commands(agent, LAUNCHERS["mpiexec"], Path(sys.argv[1]), mpiexec(), programs)
    done, streams = commands.run(tool, ["/bin/sh", "-c", "echo $$ >> log; exec sleep 600"], 2, 1.0)
    alive = [pid for pid in streams["log"].split() if Path(f"/proc/{int(pid)}").exists()]
    print(done.timed_out, done.left_behind, len(streams["log"].split()), alive)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "scratch")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "True 0 2 []\n"
