"""The commands: what they print, to which stream, and their exit codes."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import iosweep
import records
from campaign import METADATA, TEXT, document, keep_plan, make
from iosweep.commands import cli
from iosweep.files import documents
from iosweep.node.procfs import user_name
from iosweep.plan import forecast
from iosweep.plan.launchers import LAUNCHERS
from iosweep.programs import find
from iosweep.results.store import Store

Capture = pytest.CaptureFixture[str]

ON_A_CLUSTER = "If the campaign runs on a cluster, use `iosweep plan --profile profiles/slurm x.yaml`."


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").mkdir()
    (tmp_path / "x.yaml").write_text(TEXT.replace("/scratch/me", str(tmp_path / "target")))
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.mark.local
def test_plan_of_another_campaign_and_target(capsys: Capture, place: Path) -> None:
    (place / "other").mkdir()
    assert run("plan", "x.yaml", "--campaign", "nightly", "--target", str(place / "other")) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"nightly  target {place}/other"


@pytest.mark.local
def test_plan_for_a_person(capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert run("plan", "x.yaml") == 0
    output = capsys.readouterr().out
    words = " ".join(output.split())
    assert words.startswith(f"quick target {place}/target sweep tool points repetitions phases tiny fio 12 1 rand_read")
    assert "1 node: 12 points, 12 repetitions, 17 s, 32.0 MiB written" in words
    assert "space on the target: fits" in words
    facts = {k: v for line in output.splitlines() for k, _, v in [line.strip().partition("  ")]}
    facts = {key: value.strip() for key, value in facts.items()}
    assert facts["points"] == "12"
    assert facts["peak space"] == "32.0 MiB"
    assert facts["written"] == "32.0 MiB"
    assert facts["memory per node"] == "512 KiB of buffers"


@pytest.mark.local
def test_plan_of_a_target_that_is_not_here(capsys: Capture, place: Path) -> None:
    (place / "target").rename(place / "targets")
    assert run("plan", "x.yaml") == 1
    captured = capsys.readouterr()
    assert "12 points" in captured.out  # the plan is shown all the same
    wrong = f'"{place}/target" does not exist: {place} is there, and has no `target`; did you mean {place}/targets?'
    error = captured.err.splitlines()
    assert error[0] == f"x.yaml:2: target.directory: {wrong} {ON_A_CLUSTER}"
    assert error[1:] == ["1 problem; nothing was run"]
    # for a cluster it is made anywhere
    cluster(place)
    assert run("plan", "--profile", "there", "x.yaml") == 0
    assert "space on the target: not checked (the target" in capsys.readouterr().out


@pytest.mark.local
def test_plan_that_does_not_fit(capsys: Capture, place: Path) -> None:
    with (place / "x.yaml").open("a") as file:
        file.write("limits: {share_of_free: 0%}\n")
    assert run("plan", "x.yaml") == 1
    assert f"does not fit {place}/target: up to 32.0 MiB are needed, more than 0%" in capsys.readouterr().err


@pytest.mark.local
def test_plan_of_a_target_that_cannot_be_written(capsys: Capture, place: Path) -> None:
    # a place where not even root can make a directory
    (place / "x.yaml").write_bytes(msgspec.json.encode(document(**METADATA) | {"target": {"directory": "/proc/sys"}}))
    assert run("plan", "x.yaml") == 1
    user = user_name(os.getuid())
    wrong = f'"/proc/sys" cannot be measured on: user {user} cannot write to /proc/sys (mode 0555, owner root)'
    helps = f"give that user write permission, or name another directory. {ON_A_CLUSTER}"
    assert capsys.readouterr().err.splitlines()[0] == f"x.yaml:1: target.directory: {wrong}; {helps}"


@pytest.mark.local
def test_a_ramp_is_seen_in_the_plan(capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with (place / "x.yaml").open("a") as file:
        file.write("    confirm: 2\n    ramp: queue_depth\n")
    assert run("plan", "x.yaml") == 0
    assert "tiny fio 12 up to 1 (ramp) + 2 of the best rand_read" in " ".join(capsys.readouterr().out.split())


@pytest.mark.local
def test_names_are_shown_as_they_are(capsys: Capture, place: Path) -> None:
    target = place / "[bold]x[/bold] [red]"
    target.mkdir(parents=True)
    (place / "x.yaml").write_bytes(msgspec.json.encode(document() | {"target": {"directory": str(target)}}))
    assert run("plan", "x.yaml") == 0
    assert f"target {target}" in "".join(capsys.readouterr().out.split("\n"))


def test_plan_as_json(capsys: Capture, place: Path) -> None:
    assert run("plan", "--json", "x.yaml") == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    made = make(place, (place / "x.yaml").read_text())
    assert found["forecast"] == msgspec.json.decode(msgspec.json.encode(forecast.of(made)))
    assert [p["id"] for p in found["plan"]["allocations"][0]["points"]] == [p.id for p in made.points]


def test_commands_are_exact_and_quoted(capsys: Capture, place: Path) -> None:
    target = place / "it's a; $dir"
    target.mkdir()
    text = document(axes=None, phases=["seq_write", "rand_read"], repetitions=2) | {
        "target": {"directory": str(target)}
    }
    (place / "x.yaml").write_bytes(msgspec.json.encode(text))
    assert run("plan", "--commands", "x.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    [point] = make(place, text).points
    assert lines[0::2] == [f"# {point.id} r{n}" for n in (1, 1, 2, 2)]
    commands = [shlex.split(line) for line in lines[1::2]]
    assert [c[1] for c in commands] == ["--name=seq_write", "--name=rand_read"] * 2
    assert commands[1][2] == f"--directory={target}/iosweep-quick/sets/fio-read-16m-1"
    assert len({arg for c in commands for arg in c if arg.startswith("--randseed=")}) == 4


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_commands_as_a_launcher_starts_them(capsys: Capture, place: Path, launcher: str) -> None:
    ior = document(name="i", tool="ior", phases=["seq_read"], axes=None, options={"threads_per_node": 3})["sweeps"]
    text = document(axes=None)
    (place / "x.yaml").write_bytes(msgspec.json.encode(text | {"sweeps": text["sweeps"] + ior}))
    assert run("plan", "--commands", "--launcher", launcher, "x.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    fio, ranks = (next(c for c in lines[1::2] if name in shlex.split(c)).split() for name in ("fio", "ior"))
    assert fio[0] == "fio"
    assert ranks[: ranks.index("ior")] == LAUNCHERS[launcher].argv([], True, 3)
    if launcher == "mpiexec":  # the default: that of profiles/local
        assert run("plan", "--commands", "x.yaml") == 0
        assert capsys.readouterr().out.splitlines() == lines
    assert ("mpiexec" in ranks) is (launcher != "direct")


def test_commands_of_metadata_phases(capsys: Capture, place: Path) -> None:
    (place / "x.yaml").write_bytes(msgspec.json.encode(document(**METADATA)))
    assert run("plan", "--commands", "x.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 2 * 3
    directories = {arg for line in lines[1::2] for arg in shlex.split(line) if arg.startswith("--directory=")}
    assert len(directories) == 2  # the phases of a repetition share one


def test_a_wrong_configuration(capsys: Capture, place: Path) -> None:
    (place / "x.yaml").write_text(TEXT.replace("axes:", "axis:").replace("phase_time: 1s", "phase_time: 1"))
    assert run("plan", "x.yaml") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("x.yaml:7: sweeps[0].axis: unknown key `axis`")
    assert lines[-1] == "2 problems; nothing was run"


@pytest.mark.parametrize("form", [[], ["--json"], ["--commands"]])
def test_no_configuration(capsys: Capture, form: list[str]) -> None:
    assert run("plan", *form) == 1
    assert capsys.readouterr().err == (
        "config/sweep.yaml:1: cannot be read: No such file or directory\n1 problem; nothing was run\n"
    )


@pytest.mark.local
def test_too_much_for_the_limits(capsys: Capture, place: Path) -> None:
    with (place / "x.yaml").open("a") as file:
        file.write("limits: {time: 10s}\n")
    assert run("plan", "x.yaml") == 1
    captured = capsys.readouterr()
    assert "1 node: 12 points, 12 repetitions, 17 s" in captured.out  # the plan shows what takes the time
    error = captured.err
    assert error.startswith("x.yaml:11: limits.time: 10 s is not enough: about 17 s are needed")


@pytest.mark.local
def test_a_limit_that_trims_is_shown_and_refuses_nothing(capsys: Capture, place: Path) -> None:
    with (place / "x.yaml").open("a") as file:
        file.write("limits: {time: 10s, over_time: trim}\n")
    assert run("plan", "x.yaml") == 0
    assert "limits.time 10 s: about 17 s are needed; repetitions that do not fit will be" in capsys.readouterr().out


def test_show_without_tables(capsys: Capture, place: Path) -> None:
    (place / "results" / "quick" / "plans").mkdir(parents=True)
    keep_plan(make(place), place / "results" / "quick")
    assert run("show", "quick") == 1
    assert capsys.readouterr().err == "results/quick has no tables yet; `iosweep report quick` makes them\n"


def test_report_makes_what_show_shows(capsys: Capture, place: Path) -> None:
    made = make(place, (place / "x.yaml").read_text())
    results = place / "results" / "quick"
    (results / "plans").mkdir(parents=True)
    (results / "plans" / f"{made.digest}.json").write_bytes(made.document())
    assert run("report", "quick") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "report: results/quick/report.html"
    assert (results / "figures.done").exists()
    assert run("show", "quick") == 0
    assert "report: results/quick/report.html" in capsys.readouterr().out


def test_report_takes_the_plan_of_the_tables(place: Path) -> None:
    results = place / "results" / "quick"
    (results / "plans").mkdir(parents=True)
    made = [make(place, (place / "x.yaml").read_text().replace("4k, 64k", sizes)) for sizes in ("4k, 64k", "4k")]
    for each in made:
        (results / "plans" / f"{each.digest}.json").write_bytes(each.document())
        assert run("report", "quick") == 0
    # report keeps the plan of the tables, although the second plan is newer
    assert documents.read(results / "campaign.json")["plan_digest"] == made[0].digest


def test_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        run("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"iosweep {iosweep.__version__}\n"


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_campaign_that_is_not_known(capsys: Capture, place: Path, command: str) -> None:
    assert run(command, "nothing") == 1
    assert capsys.readouterr().err == "no results of a campaign `nothing` in results/\n"
    (place / "results" / "quick" / "plans").mkdir(parents=True)
    assert run(command, "nothing") == 1
    assert capsys.readouterr().err == "no results of a campaign `nothing` in results/ (there are: quick)\n"


# rerun


def store(place: Path, campaign: str, *points: str) -> Store:
    made = Store(place / "results" / campaign)
    (made.path / "plans").mkdir(parents=True)
    for point in points:
        for number in (1, 2):
            made.commit(point, number, records.record(point), {"x": b"y"})
    return made


def test_rerun_a_point(capsys: Capture, place: Path) -> None:
    made = store(place, "quick", "fio.a.1", "fio.b.1")
    assert run("rerun", "fio.a.1") == 0
    assert capsys.readouterr().out == ("fio.a.1: 2 superseded and kept; the next run of snakemake measures again\n")
    assert list(made.results()) == ["fio.b.1"]
    assert len(list(made.point("fio.a.1").glob("*.superseded.json"))) == 2
    assert run("rerun", "fio.a.1") == 1
    assert "fio.a.1: has no result" in capsys.readouterr().err


def test_rerun_without_the_hash(capsys: Capture, place: Path) -> None:
    made = store(place, "quick", "fio.qd1.aa", "fio.qd16.bb", "fio.qd2", "fio.qd2.cc", "xfio.qd1.dd")
    assert run("rerun", "fio.qd1") == 0  # and not qd16
    assert sorted(made.results()) == ["fio.qd16.bb", "fio.qd2", "fio.qd2.cc", "xfio.qd1.dd"]
    assert run("rerun", "fio.qd2") == 0  # a whole name, although another one begins with it
    assert sorted(made.results()) == ["fio.qd16.bb", "fio.qd2.cc", "xfio.qd1.dd"]
    assert all(run("rerun", name) == 1 for name in ("fio.qd", "fio.qd16.b", "fio.qd16."))
    assert len(made.results()) == 3


def test_rerun_takes_one_point_and_no_more(capsys: Capture, place: Path) -> None:
    made = store(place, "quick", *(f"fio.{letter}" for letter in "abcdef"))
    assert run("rerun", "fio") == 1
    assert "fio: is not one point: fio.a in results/quick; fio.b in" in capsys.readouterr().err
    assert len(made.results()) == 6


def test_rerun_one_of_two_campaigns(capsys: Capture, place: Path) -> None:
    one, two = store(place, "one", "fio.a.1"), store(place, "two", "fio.a.1")
    assert run("rerun", "fio.a.1") == 1
    assert "is not one point: fio.a.1 in results/one; fio.a.1 in results/two" in capsys.readouterr().err
    assert one.results() == two.results() != {}
    assert run("rerun", "fio.a.1", "--campaign", "two") == 0
    assert (len(one.results()), len(two.results())) == (1, 0)
    assert run("rerun", "fio.a.1", "--campaign", "three") == 1


def test_rerun_opens_nothing_where_a_name_is_wrong(capsys: Capture, place: Path) -> None:
    made = store(place, "quick", "fio.a.1")
    assert run("rerun", "fio.a.1", "nothing") == 1
    assert "nothing: has no result" in capsys.readouterr().err
    assert list(made.results()) == ["fio.a.1"]


@pytest.mark.local
def test_leaving_a_pager_is_not_an_error(place: Path) -> None:
    argv = [sys.executable, "-m", "iosweep", "plan", "--commands", "x.yaml"]
    (place / "x.yaml").write_text(TEXT.replace("repetitions: 1", "repetitions: 500"))
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout
    running.stdout.readline()
    running.stdout.close()
    _, errors = running.communicate(timeout=300)
    assert (running.returncode, errors) == (0, b"")


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["plan", "--json", "--commands"], ["rerun"]])
def test_usage(argv: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*argv)
    assert caught.value.code == 2
    assert "usage: iosweep" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.COMMANDS | cli.RULES)
def test_every_command_has_help(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        run(command, "--help")
    assert caught.value.code == 0
    assert f"usage: iosweep {command} " in capsys.readouterr().out


@pytest.mark.local
def test_help_imports_no_command() -> None:
    code = "import sys; sys.argv[1:] = ['--help']; from iosweep.commands import cli\n"
    code += "try: cli.main()\nexcept SystemExit: print(sorted(name for name in sys.modules if name[:7] == 'iosweep'))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    loaded = [
        "iosweep",
        *(f"iosweep.commands{name}" for name in ("", ".campaigns", ".cli", ".terminal")),
        "iosweep.errors",
        "iosweep.text",
    ]
    assert done.stdout.splitlines()[-1] == str(loaded)


def test_what_only_the_rules_call_is_not_in_the_list(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        run("--help")
    assert caught.value.code == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    assert {"plan", "show", "report", "rerun", "generate"} <= set(listed)
    assert not {"measure", "tables"} & set(listed)


def cluster(place: Path, *resources: str) -> None:
    """A profile for Slurm, in `there`."""
    (place / "there").mkdir()
    (place / "there/profile.v9+.yaml").write_text(PROFILE.format(", ".join(resources)))


@pytest.mark.local
def test_plan_says_what_will_be_missing(
    capsys: Capture, place: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster(place)
    sweep = {"tool": "mdtest", "phases": ["create"], "axes": {"nodes": [1, 2]}, "options": {}, "phase_time": None}
    (place / "x.yaml").write_bytes(
        msgspec.json.encode(document(**sweep) | {"target": {"directory": str(place / "target")}})
    )
    monkeypatch.setenv("PATH", "/nonexistent")
    find.sha256.cache_clear()
    said = {}
    for where in ([], ["--launcher", "mpiexec"], ["--profile", f"{root}/profiles/local"], ["--profile", "there"]):
        run("plan", *where, "x.yaml")
        said["".join(where[1:])] = capsys.readouterr().out
    find.sha256.cache_clear()
    absent = "mdtest is not on PATH here; get it with spack install ior"
    reached = "will be missing: 2 nodes are needed; the launcher mpiexec reaches 1"
    here, by_launcher, local, there = said.values()
    assert f"will be missing: {absent}" in here
    assert f"will be missing where nodes lack it, too: {absent}" in there
    assert "2 nodes: with --profile profiles/slurm only" in here  # no launcher and no profile was named
    assert reached in by_launcher
    assert reached in local
    assert reached not in here
    assert "2 nodes: with" not in there
    assert "2 nodes are needed" not in there
    assert "; asks for 6 min" in there
    assert "asks for" not in here + by_launcher + local


PROFILE = "executor: iosweep\ndefault-resources: [launcher=srun, scheduler=slurm, {}]\n"


@pytest.mark.local
def test_plan_for_the_jobs_of_a_profile(capsys: Capture, place: Path) -> None:
    cluster(place, "runtime=6")
    (place / "x.yaml").write_bytes(msgspec.json.encode(document(axes={"nodes": [1, 2]}, phase_time="9min")))
    assert run("plan", "--profile", "there", "x.yaml") == 0
    assert capsys.readouterr().out.count("; asks for 6 min") == 2  # a job may take no longer
    assert run("plan", "--commands", "--profile", "there", "x.yaml") == 0
    assert "missing" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("resource", "wrong"),
    [
        ("runtime=soon", "there/profile.v9+.yaml:2: default-resources.runtime: `soon` is not a time; write"),
        ("license=pfs", "there/profile.v9+.yaml:2: default-resources.license: unknown; did you mean `licenses`?"),
        (None, "there has no profile.v9+.yaml; name a profile's directory"),
    ],
)
def test_plan_with_a_wrong_profile(capsys: Capture, place: Path, resource: str | None, wrong: str) -> None:
    if resource:
        cluster(place, resource)
    assert run("plan", "--profile", "there", "x.yaml") == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.startswith(wrong)) == ("", True)


@pytest.mark.local
@pytest.mark.parametrize(
    ("repetitions", "said"), [(3, "of one node, compared with none"), (2, "compares 2 nodes"), (8, "compares 4 nodes")]
)
def test_plan_says_how_many_nodes_are_checked(capsys: Capture, place: Path, repetitions: int, said: str) -> None:
    found = document(axes={"nodes": [4]})
    check = {"suite": "node-check", "repetitions": repetitions, "scale": {"file_size": "16m"}}
    found |= {"sweeps": [check, *found["sweeps"]]} | ({} if "none" in said else {"allocation": "campaign"})
    (place / "x.yaml").write_bytes(msgspec.json.encode(found))
    run("plan", "x.yaml")
    assert f"node check: {said}" in capsys.readouterr().out
