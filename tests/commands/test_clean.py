"""`iosweep clean`: what is shown, what goes, what is refused, and that no result is touched."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import locks
from iosweep.commands import cli
from iosweep.files import documents
from iosweep.results.store import Store
from iosweep.slurm import job_comment
from iosweep.target import directory as directories
from iosweep.target import identify, lock, trees
from slurm import Cluster
from targets import OWNER, as_root, at, listing, make_place, marker_in, mounted, names, needs_bindfs

pytestmark = pytest.mark.local

Capture = pytest.CaptureFixture[str]


class Left:
    """A campaign that has been measured, with something left on the target."""

    def __init__(self, place: Path, name: str = "c"):
        self.results = place / "results" / name
        self.target = make_place(place / "t") if not (place / "t").exists() else place / "t"
        self.directory = directories.directory_of(str(self.target), name)
        self.file_system = identify.identity(identify.identify(str(self.target)))
        (self.results / "plans").mkdir(parents=True)
        (self.results / "points").mkdir()
        (self.results / "points" / "r001-1.json").write_text("{}")
        owner = OWNER | {"user": "me", "results": str(self.results), "campaign": name}
        self.know(uuid=directories.claim(self.directory, owner))
        for file in ("sets/fio-read-1m-1/0.0", "sets/fio-read-1m-1/1.0", "kept/p-r1/0.0"):
            (Path(trees.ensure(at(self.directory), file.rpartition("/")[0])) / Path(file).name).write_bytes(
                bytes(1 << 20)
            )

    def know(self, **changed: Any) -> None:
        known = {"directory": self.directory, "deadline": 60.0, "layout": None, "lock": None} | changed
        known = {"campaign": self.results.name, "file_system": self.file_system, "seen_as": [], "tidied": False} | known
        (self.results / "target.json").write_bytes(documents.dump(known))

    def stored(self) -> dict[str, bytes]:
        files = (
            file for file in self.results.rglob("*") if file.is_file() and file.name not in ("lock", "target.json")
        )
        return {str(file): file.read_bytes() for file in files}


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock, "MACHINE", locks.own())
    for command in ("squeue", "scontrol"):  # of this machine
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / command).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return Left(tmp_path)


#: The removal, and its preview, which says the same and writes nothing.
both = pytest.mark.parametrize("yes", [["--yes"], []], ids=["yes", "preview"])


def clean(*arguments: str) -> int:
    return cli.main(["clean", *arguments])


def test_it_is_only_shown(left: Left, capsys: Capture) -> None:
    os.sync()
    before, stored = listing(left.target, all=True), left.stored()
    assert clean("c") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{left.directory} (results in {left.results} on h, user me, id 1000)",
        "  kept              1 file of 1.0 MiB  files of repetitions that were kept (target.keep)",
        "  sets             2 files of 2.0 MiB  data sets, reused by the next run",
        "nothing was removed; --yes removes what iosweep made",
    ]
    assert listing(left.target, all=True) == before
    assert left.stored() == stored


def test_it_goes_and_the_results_stay(left: Left, capsys: Capture) -> None:
    os.sync()
    before, stored = listing(left.target), left.stored()
    assert clean("--yes", str(left.results)) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{left.directory}: removed 4 files of 3.0 MiB and 5 directories in ")
    assert said.err == ""
    assert names(left.target) == ["precious", "theirs"]
    assert listing(left.target) == before
    assert left.stored() == stored
    assert json.loads((left.results / "target.json").read_text())["tidied"] is True
    for again in (["--yes"], []):
        assert clean("c", *again) == 0
        assert capsys.readouterr().out.startswith(f"nothing is left: {left.directory} is not there (its place is on ")


def test_several_campaigns(left: Left, tmp_path: Path, capsys: Capture) -> None:
    another = Left(tmp_path, "d")
    another.know(uuid="another")
    third = Left(tmp_path, "e")
    assert clean("--yes", "c", "d", "e") == 1
    assert f"{another.directory} belongs to another campaign" in capsys.readouterr().err
    assert [Path(one.directory).exists() for one in (left, another, third)] == [False, True, False]


def test_no_campaign_and_nothing_measured(left: Left, capsys: Capture) -> None:
    assert clean("--yes", "c", "none") == 1
    assert "no results of a campaign `none` in results/ (there are: c)" in capsys.readouterr().err
    assert Path(left.directory).exists()
    (left.results / "target.json").unlink()
    assert clean("--yes", "c") == 0
    assert "results/c has nothing on a target: without its target.json nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"uuid": None}, "uuid: expected `str`, got `null`"),
        ({"uuid": 5}, "uuid: expected `str`, got `int`"),
        ({"directory": None}, "directory: expected `str`, got `null`"),
        ({"directory": "iosweep-c"}, "iosweep-c is not the directory of the campaign `c`"),
        ({"directory": "/home/me"}, "/home/me is not the directory of the campaign `c`"),
        ({"campaign": "d"}, "is not the directory of the campaign `d`"),
        ({"deadline": 0}, "deadline: expected `float` > 0"),
        ({"deadline": True}, "deadline: expected `float`, got `bool`"),
        ({"lock": 5}, "lock: expected `str | null`, got `int`"),
        ({"seen_as": None}, "seen_as: expected `array`, got `null`"),
    ],
)
@pytest.mark.parametrize("yes", [["--yes"], []])
def test_results_that_are_damaged(
    left: Left, capsys: Capture, known: dict[str, Any], said: str, yes: list[str]
) -> None:
    left.know(**{"uuid": marker_in(left.directory)["uuid"]} | known)
    before = listing(left.target, all=True)
    assert clean("c", *yes) == 1
    told = capsys.readouterr().err
    assert "results/c/target.json is damaged (" in told
    assert said in told
    assert told.endswith("remove the directory by hand; then remove results/c/target.json. Nothing was removed\n")
    assert listing(left.target, all=True) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (bytes(500), "it holds nothing but zeros"),
        (b'{"direct', "it is cut short or overwritten"),
        (b"[]", "it has no digest"),
        (None, "is a symbolic link"),
    ],
)
def test_a_target_file_that_cannot_be_read(left: Left, capsys: Capture, content: bytes | None, said: str) -> None:
    """It does not mean that nothing was measured."""
    file = left.results / "target.json"
    if content is None:
        file.rename(file.with_name("moved"))
        file.symlink_to("moved")
    else:
        file.write_bytes(content)
    for yes in ([], ["--yes"]):
        assert clean("c", *yes) == 1
        told = capsys.readouterr().err
        assert "results/c/target.json is damaged (" in told
        assert said in told
    assert marker_in(left.directory)


@pytest.mark.parametrize("yes", [["--yes"], []])
def test_target_json_cannot_name_any_directory(left: Left, tmp_path: Path, capsys: Capture, yes: list[str]) -> None:
    """A copy of the campaign's directory elsewhere, and of its marker in a directory of another campaign."""
    uuid = marker_in(left.directory)["uuid"]
    victim = tmp_path / "home" / "iosweep-c"
    shutil.copytree(left.directory, victim)
    left.know(uuid=uuid, directory=str(victim))
    before = listing(victim.parent, all=True)
    assert clean("c", *yes) == 1
    said = capsys.readouterr()
    assert (
        f"its marker was written for {left.directory}, so this is a copy of that, or was moved; it is left" in said.err
    )
    assert said.out == ""
    assert listing(victim.parent, all=True) == before
    assert marker_in(left.directory)["uuid"] == uuid


# --- what iosweep did not make


def test_foreign_entries_are_left_alone(left: Left, capsys: Capture) -> None:
    directory = Path(left.directory)
    (directory / "notes.txt").write_text("mine")
    (directory / "iosweep.json.saved").write_text("a copy of the marker")
    (directory / "thesis").mkdir()
    (directory / "thesis" / "precious").write_text("x")
    (directory / "sets" / "README").write_text("x")
    (directory / "kept" / "p-r1" / "fine").write_text("made by a tool")
    named = "4 entries that iosweep did not make were found, and left alone"
    assert clean("c") == 0
    said = capsys.readouterr().out
    assert "  notes.txt" in said
    assert "not known to iosweep" in said
    assert clean("--yes", "c") == 1
    told = capsys.readouterr().err.splitlines()
    assert sorted(told[:-1]) == [
        f"not removed: {name}: iosweep did not make it; it is left alone"
        for name in ("iosweep.json.saved", "notes.txt", "sets/README", "thesis")
    ]
    assert told[-1] == f"{named}; remove that by hand, then run this command again"
    assert names(directory) == ["iosweep.json", "iosweep.json.saved", "notes.txt", "sets", "thesis"]
    assert names(directory / "sets") == ["README"]
    (directory / "notes.txt").unlink()
    (directory / "iosweep.json.saved").unlink()
    (directory / "sets" / "README").unlink()
    shutil.rmtree(directory / "thesis")
    assert clean("--yes", "c") == 0
    assert not directory.exists()


@as_root
def test_what_belongs_to_another_user_is_left_alone(left: Left, capsys: Capture) -> None:
    inside = Path(left.directory) / "sets" / "fio-read-1m-1"
    (inside / "theirs").mkdir()
    (inside / "theirs" / "ours").write_text("x")
    os.chown(inside / "theirs", 12345, 12345)
    for number in range(6):
        (inside / f"x{number}").write_text("x")
        os.chown(inside / f"x{number}", 12345, 12345)
    assert clean("--yes", "c") == 1
    told = capsys.readouterr().err
    assert "belongs to user 12345; it is left alone" in told
    assert "7 entries that iosweep did not make were found" in told
    assert told.count("sets/fio-read-1m-1/x") + told.count("sets/fio-read-1m-1/theirs") == 5
    assert names(inside) == ["theirs", *(f"x{n}" for n in range(6))]
    assert names(inside / "theirs") == ["ours"]
    assert marker_in(left.directory)


@as_root
@both
def test_a_directory_of_another_user(left: Left, capsys: Capture, yes: list[str]) -> None:
    """Root with a copy of the user's results."""
    os.chown(left.directory, 12345, 12345)
    before = listing(left.target, all=True)
    assert clean("c", *yes) == 1
    assert f"{left.directory} belongs to user 12345, and root" in capsys.readouterr().err
    assert names(left.directory) == ["iosweep.json", "kept", "sets"]
    if not yes:
        assert listing(left.target, all=True) == before


@as_root
def test_a_target_that_is_mounted_read_only(left: Left, capsys: Capture) -> None:
    with mounted("mount", "--bind", "-o", "ro", str(left.target), str(left.target)):
        assert clean("c", "--yes") == 1
    assert "Read-only file system" in capsys.readouterr().err
    assert marker_in(left.directory)


@as_root
def test_a_mount_point_inside(left: Left, capsys: Capture) -> None:
    with mounted("mount", "-t", "tmpfs", "inside", f"{left.directory}/kept/mounted"):
        assert clean("c", "--yes") == 1
    assert "kept/mounted: a mount point, it is left alone" in capsys.readouterr().err


def test_other_names_of_a_file_stay(left: Left, tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "saved"
    os.link(Path(left.directory) / "kept" / "p-r1" / "0.0", other)
    assert clean("--yes", "c") == 0
    assert "1 file had another name (hard link) that stays" in capsys.readouterr().out
    assert other.stat().st_size == 1 << 20


@pytest.mark.parametrize("how", ["another", "none", "link"])
@pytest.mark.parametrize("yes", [["--yes"], []])
def test_what_is_not_ours(left: Left, capsys: Capture, how: str, yes: list[str]) -> None:
    if how == "another":
        left.know(uuid="11111111-1111-1111-1111-111111111111")
        expected = f"{left.directory} belongs to another campaign (results in {left.results} on h, user me, id 1000)"
    elif how == "none":
        (Path(left.directory) / "iosweep.json").unlink()
        expected = f"{left.directory} has no marker iosweep.json of ours; it is left alone"
    else:
        Path(left.directory).rename(left.target / "moved")
        Path(left.directory).symlink_to("moved")
        expected = f"{left.directory} is a symbolic link; it is not followed"
    before = listing(left.target, all=True)
    assert clean("c", *yes) == 1
    said = capsys.readouterr()
    assert expected in said.err
    assert said.out == ""
    assert listing(left.target, all=True) == before


def test_a_copy_of_the_results_is_as_good(left: Left, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(left.results, tmp_path / "copy")
    shutil.rmtree(left.results)
    assert clean(str(tmp_path / "copy")) == 0
    assert f"(results in {left.results} on h" in capsys.readouterr().out  # whose it is
    assert clean("--yes", str(tmp_path / "copy")) == 0
    assert capsys.readouterr().err == ""
    assert not Path(left.directory).exists()


def test_a_target_that_is_not_there(left: Left, capsys: Capture) -> None:
    left.target.rename(left.target.with_name("elsewhere"))
    assert clean("--yes", "c") == 1
    assert f"the target {left.target} does not exist; is the file system mounted?" in capsys.readouterr().err


def test_not_while_it_is_measured(left: Left, capsys: Capture) -> None:
    with Store(left.results).locked():
        held = (left.results / "lock").read_bytes()
        assert clean("c", "--yes") == 1
        assert (left.results / "lock").read_bytes() == held
    assert capsys.readouterr().err.startswith(f"campaign c is being measured by process {os.getpid()} of user ")
    assert marker_in(left.directory)


def test_not_while_another_campaign_measures_the_file_system(left: Left, tmp_path: Path, capsys: Capture) -> None:
    facts = identify.identify(str(left.target))
    (tmp_path / "locks").mkdir()
    for directory in (None, str(tmp_path / "locks")):
        left.know(uuid=marker_in(left.directory)["uuid"], lock=directory)
        with lock.exclude(directory, facts, lock.Owner("other", "/r")):
            assert clean("--yes", "c") == 1
        assert "(campaign other, results in /r, since " in capsys.readouterr().err
    left.know(uuid=marker_in(left.directory)["uuid"], lock=str(tmp_path / "none"))
    assert marker_in(left.directory)
    assert clean("--yes", "c") == 0  # a campaign that is long over
    assert "note: exclusion not checked: target.lock " in capsys.readouterr().err
    assert not Path(left.directory).exists()


@pytest.mark.parametrize("arguments", [(), ("--yes",)])
def test_not_mounted_is_not_gone(left: Left, capsys: Capture, arguments: tuple[str, ...]) -> None:
    """It may be there again tomorrow."""
    left.know(uuid=marker_in(left.directory)["uuid"], file_system="wekafs backend/fs")
    away = Path(left.directory).rename(left.target / "iosweep-away")
    assert clean("c", *arguments) == 1
    assert "is not there, and was on wekafs backend/fs; is that mounted? (Now: " in capsys.readouterr().err
    away.rename(left.directory)
    before = listing(left.target, all=True)
    assert clean("c", *arguments) == 1  # there, with its marker: a copy
    assert "is on another file system than when it was measured (" in capsys.readouterr().err
    assert listing(left.target, all=True) == before


@as_root
@pytest.mark.parametrize("yes", [["--yes"], []])
def test_a_copy_on_a_file_system_that_is_mounted_over_the_target(
    left: Left, tmp_path: Path, capsys: Capture, yes: list[str]
) -> None:
    subprocess.run(["cp", "-a", f"{left.target}/.", str(tmp_path / "copy")], check=True)
    with mounted("mount", "-t", "tmpfs", "over", str(left.target)):
        subprocess.run(["cp", "-a", f"{tmp_path}/copy/.", str(left.target)], check=True)
        before = listing(left.target, all=True)
        assert clean("c", *yes) == 1
        said = capsys.readouterr().err
        assert f"{left.directory} is on another file system than when it was measured (tmpfs over " in said
        assert f", and it was {left.file_system}); it is left alone. Mount that one, or look at this and " in said
        assert listing(left.target, all=True) == before
    assert clean("c", "--yes") == 0


def test_results_in_what_is_removed(left: Left, capsys: Capture) -> None:
    inside = Path(left.directory) / "sets" / "fio-read-1m-1" / "results" / "c"
    shutil.copytree(left.results, inside)
    assert clean("--yes", str(inside)) == 1
    assert f"are inside {left.directory}, and would go with it; move them" in capsys.readouterr().err
    assert (inside / "target.json").exists()


def test_results_that_cannot_be_locked(left: Left, capsys: Capture) -> None:
    (left.results / "lock").mkdir()
    assert clean("--yes", "c") == 1
    assert capsys.readouterr().err == "results/c cannot be locked: Is a directory\n"


def test_as_long_as_it_may(left: Left, capsys: Capture) -> None:
    assert clean("--yes", "--time", "0s", "c") == 6
    said = capsys.readouterr()
    assert said.out.startswith(f"{left.directory}: removed 0 files of 0 B and 0 directories in ")
    assert said.err == f"the time limit is reached; left in {left.directory}: kept, sets; run it again\n"
    assert clean("--yes", "--time", "10min", "c") == 0
    assert not Path(left.directory).exists()


@pytest.mark.parametrize("option", ["--time=5", "--time=soon", "--workers=0", "--workers=65", "--workers=-1"])
def test_wrong_options(left: Left, capsys: Capture, option: str) -> None:
    with pytest.raises(SystemExit) as caught:
        clean("--yes", option, "c")
    assert caught.value.code == 2
    assert f"`{option.partition('=')[2]}` is not" in capsys.readouterr().err
    assert marker_in(left.directory)


@as_root
def test_what_cannot_be_removed_is_named(left: Left, capsys: Capture) -> None:
    where = Path(trees.ensure(at(left.directory), "sets/x"))
    with mounted("mount", "-t", "tmpfs", "tmpfs", str(where)):
        assert clean("--yes", "c") == 1
        said = capsys.readouterr()
        assert "removed 3 files of 3.0 MiB" in said.out
        assert said.err == "not removed: sets/x: a mount point, it is left alone\n"
    assert clean("--yes", "c") == 0


@as_root
@needs_bindfs
def test_a_target_that_hangs(left: Left, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "m").mkdir()
    with subprocess.Popen(["bindfs", "-f", str(left.target), str(tmp_path / "m")]) as server:
        try:
            while not (tmp_path / "m").is_mount():
                assert server.poll() is None
            directory = f"{tmp_path}/m/iosweep-c"
            left.know(uuid=marker_in(directory)["uuid"], directory=directory, deadline=0.5)
            server.send_signal(signal.SIGSTOP)
            assert clean("--yes", "c") == 4
        finally:
            server.kill()
            server.wait()
            subprocess.run(["umount", str(tmp_path / "m")], check=True)
    assert (
        f"the target does not answer: no progress for 0.5 s while looking which file system it is ({tmp_path}/m)"
        in capsys.readouterr().err
    )
    assert marker_in(left.directory)


def test_what_is_on_the_target_drives_no_terminal(left: Left, capsys: Capture) -> None:
    (Path(left.directory) / "\x1b[2J\n\udcff").mkdir()
    assert clean("c") == 0
    said = capsys.readouterr()
    assert r"  \x1b[2J\n\udcff " in said.out and "\x1b" not in said.err
    left.know(uuid="u", directory=left.directory + "\x1b[2J")
    assert clean("c") == 1
    told = capsys.readouterr().err
    assert "directory is not a path" in told and "\x1b" not in told


def test_ctrl_c_and_again(left: Left, tmp_path: Path) -> None:
    """A removal that takes its time is stopped; the next one goes on."""
    slowly = (
        "import os, sys, time\n"
        "from iosweep.target import agent, trees\n"
        "unlink = os.unlink\n"
        "def slow(name, *, dir_fd=None): unlink(name, dir_fd=dir_fd); time.sleep(0.05)\n"
        "trees.os.unlink = slow\n"
        "agent.main()"
    )
    (tmp_path / "slowly.py").write_text(slowly)
    program = (
        "import sys; from iosweep.target import agent, lock; from iosweep.commands import cli\n"
        f"lock.MACHINE = {lock.MACHINE!r}\n"
        f"agent.Agent.argv = (sys.executable, {str(tmp_path / 'slowly.py')!r})\n"
        "sys.exit(cli.main(['clean', '--yes', '--workers=1', 'c']))"
    )
    for number in range(1000):
        (Path(left.directory) / "sets" / "fio-read-1m-1" / str(number)).touch()
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as running:
        while len(names(Path(left.directory) / "sets" / "fio-read-1m-1")) > 990:
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=300)
    assert running.returncode == 130
    assert len(names(Path(left.directory) / "sets" / "fio-read-1m-1")) > 0
    assert said == f"stopped; run it again to remove what is left in {left.directory}\n"
    assert marker_in(left.directory)
    assert clean("--yes", "c") == 0
    assert not Path(left.directory).exists()


# Jobs of the campaign in Slurm, which may wait and hold no lock yet

COMMENT = job_comment.write("c", "2-nodes")


def say(place: Path, out: str = "", code: int = 0, errors: str = "") -> None:
    """Have squeue answer that."""
    (place / "bin" / "squeue").write_text(f"#!/bin/sh\necho '{out}'; echo '{errors}' >&2; exit {code}\n")


def test_not_while_jobs_of_it_wait(left: Left, tmp_path: Path, capsys: Capture) -> None:
    line = f"12|PENDING|me|2||N/A|N/A|N/A|(null)|Priority|x|{tmp_path}|{COMMENT}"
    say(tmp_path, f"{line}\n{line.replace('12|PENDING', '13|RUNNING')}")
    assert clean("--yes", "c") == 1
    said = capsys.readouterr().err
    assert (
        "the campaign c has jobs in Slurm: 12 (pending), 13 (running); wait for them, or cancel with `scancel" in said
    )
    say(tmp_path, f"{line}_cc\n{line.replace(str(tmp_path), '/elsewhere')}\n{line.replace('PENDING', 'COMPLETED')}")
    assert clean("--yes", "c") == 0


def test_results_behind_a_link(left: Left, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "results").symlink_to(left.results.parent)
    say(tmp_path, f"12|RUNNING|me|2||N/A|N/A|N/A|(null)|None|x|{tmp_path / 'work'}|{COMMENT}")
    assert clean("--yes", str(tmp_path / "work" / "results" / "c")) == 1


@pytest.mark.parametrize(
    ("errors", "noted"),
    [("no controller", True), ("squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host", False)],
)
def test_slurm_that_does_not_answer(left: Left, tmp_path: Path, capsys: Capture, errors: str, noted: bool) -> None:
    say(tmp_path, code=1, errors=errors)
    assert clean("--yes", "c") == 0
    assert ("jobs of the campaign c that wait are not seen" in capsys.readouterr().err) == noted


def test_clean_asks_a_real_one(slurm: Cluster, tmp_path: Path) -> None:
    """Nothing holds the lock here: the job waits, or runs where the lock does not reach."""
    left = Left(tmp_path)
    (tmp_path / "locks").mkdir()
    left.know(uuid=marker_in(left.directory)["uuid"], lock=str(tmp_path / "locks"))

    def cleaned() -> subprocess.CompletedProcess[str]:
        return slurm.run([sys.executable, "-m", "iosweep", "clean", "--yes", "c"], cwd=str(tmp_path), check=False)

    submit = ["sbatch", "--parsable", f"--comment={COMMENT}", "-o", "/dev/null", "-D", str(tmp_path), "--hold"]
    number = slurm.run([*submit, "--wrap", "sleep 600"]).stdout.strip()
    assert f"the campaign c has a job in Slurm: {number} (pending); wait for it" in cleaned().stderr
    (left.results / "lock").write_text(locks.left(host="n9", job=number))
    assert f"is being measured by process 7 of user ann on host n9 (job {number}, " in cleaned().stderr
    assert marker_in(left.directory)
    slurm.cancel()
    assert cleaned().returncode == 0
    assert not Path(left.directory).exists()
