"""What the Snakefile asks: what is left, in which words, and what it refuses before anything runs."""

import errno
import logging
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

import records
from campaign import TEXT, document, errors, read
from iosweep import dag
from iosweep.config import sweep_file
from iosweep.errors import ConfigError
from iosweep.files import documents
from iosweep.jobs.profile import Profile
from iosweep.judge import verdict
from iosweep.judge.remaining import Remaining
from iosweep.programs import spack
from iosweep.store.record import Missing, Needs
from iosweep.store.store import Store
from spack import spack_yaml

SRUN, HERE = Profile(given={"launcher": "srun"}), Profile(slurm=False)


def load(directory: Path, *, nodes: tuple[int, ...] = (1,), **arguments: Any) -> dag.Dag:
    read(directory, document(axes={"nodes": list(nodes), "queue_depth": [1, 16]}))
    return dag.load(directory / "x.yaml", directory / "results", **arguments)


def test_everything_is_left_at_first(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert set(found.left) == {"1-node"}
    assert found.text("1-node") == found.left["1-node"].text()
    assert found.text("1-node").startswith("1 node: 2 points, 2 repetitions left, ")
    assert not (tmp_path / "results").exists()


def test_ranks_that_the_launcher_does_not_start(tmp_path: Path) -> None:
    sweep = document(tool="ior", phases=["seq_read"], axes={"threads_per_node": [1, 4]}, options={"file_size": "16m"})
    read(tmp_path, sweep)
    for launcher, points in (("direct", "1 point, 1 repetition"), ("mpiexec", "2 points, 2 repetitions")):
        found = dag.load(tmp_path / "x.yaml", tmp_path / "results", Profile(given={"launcher": launcher}, slurm=False))
        assert found.text("1-node").startswith(f"1 node: {points} left")
        assert found.launcher.name == launcher


def test_only_narrows_what_is_left_and_not_the_plan(tmp_path: Path) -> None:
    whole = load(tmp_path).plan.document()
    for only, points in (("qd1.", "1 point"), ("qd1", "2 points"), ("tin", "2 points")):
        found = load(tmp_path, only=only)
        assert found.text("1-node").startswith(f"1 node: {points}, ")
        assert found.plan.document() == whole
    # it is in the plan, so it is not an error; here it cannot be measured
    assert load(tmp_path, nodes=(1, 4), only=".4n.").left == {}


def test_a_session_waits_for_those_before_it_that_are_measured_now(tmp_path: Path) -> None:
    found = load(tmp_path, nodes=(1, 4), given={"sessions": "3"})
    assert [len(found.earlier(name)) for name in found.work] == [0, 0, 1, 1, 2, 2]
    assert found.earlier("4-nodes-session2") == [found.manifest("4-nodes")]
    done = replace(found, work=found.work | {"1-node": replace(found.work["1-node"], points={})})
    done.manifest("1-node").parent.mkdir(parents=True)
    done.manifest("1-node").touch()
    assert done.earlier("1-node-session3") == [done.manifest("1-node-session2")]


def test_campaign_and_target_from_the_command_line(tmp_path: Path) -> None:
    plain = load(tmp_path)
    found = load(tmp_path, given={"campaign": "nightly", "target": "/mnt/x"})
    assert found.results == tmp_path / "results/nightly"
    assert (found.plan.campaign, found.plan.targets[""].directory) == ("nightly", "/mnt/x")
    assert [p.id for p in found.plan.points] == [p.id for p in plain.plan.points]
    assert found.plan_file.stem not in (
        plain.plan_file.stem,
        load(tmp_path, given={"campaign": "other"}).plan_file.stem,
    )


def test_what_the_login_node_knows_of_the_tools_of_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: dict[str, Any] = {"site": SRUN}
    point = load(tmp_path, **cluster).plan.points[0].id
    store = Store(tmp_path / "results" / "quick")
    store.mark()
    store.set_missing(point, Missing(Needs(tool="fio", sha256=None), "fio is not on PATH"))
    for here in (None, "0f3a"):  # what the login node has does not say what nodes have
        monkeypatch.setattr(dag, "sha256", lambda _, here=here: here)
        assert load(tmp_path, **cluster).text("1-node").startswith("1 node: 1 point, ")
    assert load(tmp_path, **cluster).unmeasured() == []  # of its sweep another point can be measured
    store.set_missing(point, None)  # `iosweep rerun --missing`
    assert load(tmp_path, **cluster).text("1-node").startswith("1 node: 2 points, ")
    # a build that differs from the login node's is not measured again: the nodes may have always had another
    seen = []
    spy = lambda plan, results, missing, here, only: seen.append(here.tools) or Remaining({}, {}, {})  # noqa: E731
    monkeypatch.setattr(dag.remaining, "find", spy)
    load(tmp_path, **cluster)
    load(tmp_path)
    assert seen == [{}, {"fio": "0f3a"}]


def test_an_unknown_point_and_too_short_jobs_are_refused(tmp_path: Path) -> None:
    short = {"site": replace(SRUN, given={**SRUN.given, "runtime": -1})}
    for arguments, where in (({"only": "qd2"}, "only"), (short, "default-resources.runtime")):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, **arguments)
        assert [problem.where for problem in caught.value.problems] == [where]


def test_nothing_is_begun_where_the_target_file_is_damaged(tmp_path: Path) -> None:
    """Whose directory is on the target is not known then."""
    file = tmp_path / "results/quick/targets/iosweep-quick.json"
    Store(file.parents[1]).mark()
    file.parent.mkdir()
    for content in (b"", b"{}", b'{"uuid": "u"}'):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"iosweep-quick.json"):
            load(tmp_path)
    file.unlink()
    assert load(tmp_path).left


# --- tools of Spack ---------------------------------------------------------------------------------------------------


class Site:
    """A working directory whose tools Spack builds, or would build."""

    def __init__(self, place: Path):
        self.place = place
        self.own = place / "spack.yaml"
        self.own.write_text(spack_yaml())

    def configure(self, **tools: Any) -> None:
        sweep = document(axes={"nodes": [1], "queue_depth": [1, 16]})
        (self.place / "x.yaml").write_text(yaml.safe_dump(sweep | ({"tools": tools} if tools else {}), sort_keys=False))

    def load(self, provider: str = "spack", site: Profile = HERE) -> dag.Dag:
        return dag.load(Path("x.yaml"), Path("results"), replace(site, given={**site.given, "tools": provider}))

    def left(self, **arguments: Any) -> int:
        """How many points are left."""
        return sum(len(left.points) for left in self.load(**arguments).left.values())

    def build(self, **hashes: str) -> Path:
        """Write what the rule does; the binary of a tool is one that is there."""
        file = spack.read(sweep_file.read(Path("x.yaml"))).file
        (self.place / "tools/store").mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        tools = {name: {"path": "/bin/true", "sha256": digest} for name, digest in hashes.items()}
        digest = file.parent.name
        built = {"tools": tools, "mpi": None, "path": ["/nosuch/bin"], "store": str(self.place / "tools/store")}
        built["environment"] = {"digest": digest}
        file.write_bytes(documents.dump(built))
        return file

    def measure(self, sha256: str) -> None:
        """Have a result of every point, of this build."""
        made = self.load().plan
        for point in made.points:
            where = {"directory": made.targets[""].directory, "layout": None}
            record = records.record(point.id, tool={"sha256": sha256}, target=where)
            self.store().commit(point.id, 1, record, {})

    def store(self) -> Store:
        found = Store(Path("results/quick"))
        found.mark()
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Where nothing is started: `snakemake -n` calls no Spack."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    made = Site(tmp_path)
    made.configure()
    return made


def test_results_on_nodes_are_held_to_the_build(site: Site) -> None:
    """What Spack has built is the same everywhere, where what is on the PATH of nodes is not known."""
    cluster: dict[str, Any] = {"site": SRUN}
    site.configure(provider="spack")
    site.build(fio="0f3a")
    made = site.load(**cluster).plan
    site.measure("0f3a")
    point = made.points[0].id
    bound = dag.remaining.bound(made.cpus, True, False)
    for id in (p.id for p in made.points):
        file = next(Path("results/quick").glob(f"**/{id}/*.json"))
        file.write_bytes(documents.dump(documents.read(file) | {"bound": bound}))
    assert site.left(**cluster) == 0
    site.build(fio="77b1")
    assert site.left(**cluster) == 2
    # a point that waits for an mpiexec: what the nodes have is not seen from here
    site.store().set_missing(point, Missing(Needs(mpiexec=("/other/mpiexec",)), "there is none"))
    assert site.left(**cluster) == 1


def test_a_tool_that_is_not_among_the_specs(site: Site) -> None:
    site.build(ior="0f3a")
    point = site.load().plan.points[0].id
    assert site.left() == 2  # the runner finds out, and says it
    site.store().set_missing(point, Missing(Needs(tool="fio", sha256=None), "fio is not among the tools"))
    assert site.left() == 1
    site.build(fio="77b1")
    assert site.left() == 2  # now it is
    site.store().set_missing(point, Missing(Needs(tool="fio", sha256="77b1"), "it does not run"))
    assert site.left() == 1
    site.build(fio="77b2")
    assert site.left() == 2


@pytest.mark.parametrize(
    ("configured", "profile", "built"),
    [(None, "spack", True), (None, "path", False), ("path", "spack", False), ("spack", "path", True)],
)
def test_who_says_where_tools_come_from(site: Site, configured: str | None, profile: str, built: bool) -> None:
    site.configure(**({"provider": configured} if configured else {}))
    found = site.load(provider=profile)
    assert (found.tools is not None) == built
    plain = dag.load(Path("x.yaml"), Path("results"))  # without a profile
    assert (plain.tools is not None) == (configured == "spack")
    assert found.plan.document() == plain.plan.document()  # it is no part of what is measured


def test_each_environment_is_built_in_its_own_place(site: Site, tmp_path: Path) -> None:
    site.configure(directory=str(tmp_path / "shared"))
    built = site.load().tools
    assert built and built.root == tmp_path / "shared"
    (tmp_path / "other.yaml").write_text(spack_yaml(specs=("fio@3.37",)))
    site.configure(environment="other.yaml")
    other = site.load().tools
    assert other and other.specs == {"fio"} and other.digest != built.digest
    site.configure()
    site.own.unlink()  # the one that comes with it
    shipped = site.load().tools
    assert shipped and shipped.yaml == spack.SHIPPED and shipped.specs == {"fio", "ior", "mpich"}


def line_of(key: str) -> int:
    """The line of a key in x.yaml."""
    lines = Path("x.yaml").read_text().splitlines()
    return 1 + next(
        n for n, line in enumerate(lines) if line.strip().startswith(f"{key}:") and n > lines.index("tools:")
    )


def test_what_is_wrong_with_tools_names_the_line_and_the_key(site: Site) -> None:
    for tools in (
        {"directory": "/a$b", "environment": "nosuch.yaml", "provider": "spack"},
        {"provider": "conda"},
        {"enviroment": "x"},
        {"directory": ""},
    ):
        site.configure(**tools)
        with pytest.raises(ConfigError) as caught:
            site.load()
        wrong = {(problem.line, problem.where) for problem in caught.value.problems}
        keys = [key for key in tools if len(tools) == 1 or key != "provider"]
        assert wrong == {(line_of(key), f"tools.{key}") for key in keys}


def test_what_is_wrong_with_spack_yaml_names_the_line_and_the_key(site: Site) -> None:
    for text, line, where in (
        ("spack:\n  repos: {builtin: {git: u, tag: v1}}\n  specs: []\n", 3, "spack.specs"),
        ("spack:\n  specs: [fio]\n  repos:\n    builtin: {git: u, branch: b}\n", 4, "spack.repos.builtin"),
        ("spack:\n  specs: [fio]\n  repos: {builtin: ../here}\n", 3, "spack.repos.builtin"),
        ("specs: [fio]\n", 1, "spack.specs"),
    ):
        site.own.write_text(text)
        with pytest.raises(ConfigError) as caught:
            site.load()
        assert ("spack.yaml", line, where) in {(p.file, p.line, p.where) for p in caught.value.problems}


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is damaged (it is cut short or overwritten); remove it"), (None, "/bin/nosuch is gone, which")],
)
def test_a_build_that_cannot_be_used(site: Site, content: str | None, said: str) -> None:
    file = site.build(fio="0f3a")
    gone = msgspec.json.encode(documents.read(file)).replace(b"/bin/true", b"/bin/nosuch")
    file.write_bytes(documents.seal(gone) if content is None else content.encode())
    with pytest.raises(ConfigError) as caught:
        site.load()
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.where) == ("x.yaml", 1, "tools")
    assert said in problem.message
    site.configure(provider="path")
    assert site.load().tools is None


def test_the_folders_that_rules_name() -> None:
    rules = Path(dag.__file__).parents[1] / "rules"
    text = "".join(file.read_text() for file in rules.glob("*.smk"))
    named = re.findall(r'RESULTS / "([^"]+)" /', text)
    assert {*named, "plans"} == set(dag.RULE_FOLDERS)


@pytest.mark.parametrize("kind", ["link", "pipe", "file"])
def test_nothing_is_written_where_a_folder_of_the_results_is_something_else(tmp_path: Path, kind: str) -> None:
    (tmp_path / "foreign").mkdir()
    for name in (*dag.RULE_FOLDERS, "figures", "points", "sets"):
        place = tmp_path / "results" / "quick" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        make = {"link": lambda: place.symlink_to(tmp_path / "foreign"), "pipe": lambda: os.mkfifo(place)}  # noqa: B023
        make.get(kind, place.touch)()
        with pytest.raises(ConfigError, match=re.escape(str(place))):
            load(tmp_path)
        place.unlink()


def test_a_plan_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load(tmp_path, site=SRUN)
    Store(found.results).mark()
    found.plan_file.mkdir(parents=True)
    said = f"{re.escape(str(found.plan_file))}: it cannot be written: "
    with pytest.raises(ConfigError, match=f"{said}a directory"):
        found.start()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(found.plan_file))

    monkeypatch.setattr("iosweep.files.safe_paths.write", full)
    with pytest.raises(ConfigError, match=f"{said}No space"):
        found.start()


def test_a_plan_that_a_power_cut_has_emptied_is_made_again(tmp_path: Path) -> None:
    found = load(tmp_path, site=SRUN)
    assert not found.remake
    found.start()
    assert not load(tmp_path).remake
    os.truncate(found.plan_file, 0)
    assert load(tmp_path).remake


@pytest.mark.local
def test_a_target_without_room_is_a_line_in_a_dry_run_and_refused_where_it_is_measured(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    target = {"directory": str(tmp_path / "target")}
    read(tmp_path, document(axes=None) | {"target": target, "limits": {"share_of_free": "0%"}})
    for site in (SRUN, HERE):
        found = dag.load(tmp_path / "x.yaml", tmp_path / "results", site)
        assert re.search(r"x\.yaml:\d+: limits\.share_of_free: does not fit ", "".join(found.notes()))
        with nullcontext() if site.slurm else pytest.raises(ConfigError, match="does not fit"):
            found.start()  # a login node may see another file system
        assert replace(found, work={}).target_problems() == []
    assert not list((tmp_path / "target").iterdir())


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USER", "")  # undone at the end
    dag.name_user()
    assert os.environ["USER"] == str(os.getuid())


def test_an_end_that_a_command_explains_itself_is_not_told_again_by_snakemake() -> None:
    error = """RuleException:\nCalledProcessError in file "/a/measure.smk", line 29:\nCommand 'set; iosweep measure' """
    ends = {
        "returned non-zero exit status 1.": False, "returned non-zero exit status 3.": False,
        "returned non-zero exit status 130.": False, "died with <Signals.SIGINT: 2>.": False,
        "returned non-zero exit status 137.": True, "returned non-zero exit status 127.": True,
        "died with <Signals.SIGKILL: 9>.": True,
    }  # fmt: skip
    cases = {error + end: shown for end, shown in ends.items()} | {"MissingOutputException in rule measure": True}
    for said, shown in cases.items():
        told = dag.Unexplained()
        of_an_error = [logging.makeLogRecord({"msg": said, "event": "error"})]
        of_an_error += [logging.makeLogRecord({"event": "job_error"}) for _ in range(2)]
        of_an_error[-1].thread = -1  # of another job
        assert [bool(told.filter(record)) for record in of_an_error] == [shown, shown, True], said
        assert told.filter(logging.makeLogRecord({"msg": said}))


def workflow(*config: str, files: Sequence[str] = ("x.yaml",), **resources: str) -> Any:
    """As much of Snakemake's as the Snakefile reads."""
    given = {name: SimpleNamespace(raw=value) for name, value in resources.items()}
    set_resources = {"measure": {"qos": SimpleNamespace(raw="tonight")}}
    settings = SimpleNamespace(default_resources=given, overwrite_resources=set_resources)
    return SimpleNamespace(
        config_settings=SimpleNamespace(configfiles=[Path(file).absolute() for file in files], config_args=config),
        resource_settings=settings,
    )


def test_the_command_line_of_snakemake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["snakemake"])
    read(tmp_path, TEXT)
    found = dag.read(workflow("campaign=007", "only=qd4", "target=/a=b", launcher="mpiexec", disk="none", qos="day"))
    assert (str(found.results), found.only, found.plan.targets[""].directory) == ("results/007", "qd4", "/a=b")
    assert (str(found.file), found.launcher.name, found.site.options) == ("x.yaml", "mpiexec", ["--qos=tonight"])
    assert found.given == {"campaign": "007", "target": "/a=b"}
    for wrong, where in (
        (workflow("onyl=qd4"), "--config"),
        (workflow(files=("x.yaml", "y.yaml")), "--configfile"),
        (workflow(launcher="srun", scheduler="slurm", runtime="1:00:00"), "default-resources.runtime"),
    ):
        with pytest.raises(ConfigError) as caught:
            dag.read(wrong)
        [problem] = caught.value.problems
        assert where in (problem.file, problem.where)


# --- the name of a campaign -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["ingested.json", "scratch/raw.h5", "report.html", "campaign.json", "iosweep.json"])
def test_a_folder_without_our_marker_is_another_persons(tmp_path: Path, file: str) -> None:
    theirs = tmp_path / "results/quick" / file
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert [(problem.line, problem.where) for problem in caught.value.problems] == [(1, "campaign")]
    assert [path for path in (tmp_path / "results").rglob("*") if path.is_file()] == [theirs]


def test_another_configuration_under_a_used_name_is_refused(site: Site) -> None:
    """One with more or fewer points on the same target is the same campaign."""
    site.measure("0f3a")
    sweep = document(axes={"nodes": [1], "queue_depth": [1, 16]})["sweeps"][0]
    for name, text, taken in (
        ("another target", {"target": {"directory": "/elsewhere"}}, True),
        ("other points", {"sweeps": [sweep | {"phase_time": "7s"}]}, True),
        ("a sweep more", {"sweeps": [sweep, sweep | {"name": "more", "phase_time": "7s"}]}, False),
        ("a value more", {"sweeps": [sweep | {"axes": {"queue_depth": [1, 16, 32]}}]}, False),
        ("one value of two", {"sweeps": [sweep | {"axes": {"queue_depth": [16]}}]}, False),
    ):
        read(site.place, document() | text)
        found = errors(site.place, "", lambda *_: dag.load(Path("x.yaml"), Path("results")))
        assert [problem.where for problem in found] == ["campaign"] * taken, name
    read(site.place, document() | {"sweeps": [sweep | {"axes": {"queue_depth": [16]}}]})
    assert [note[:1] for note in replace(site.load(), work={}).notes()] == ["1"]  # of the other point
    shutil.copytree("results/quick", "results/copy")  # whose figures would be shown as those of the copy's campaign
    found = errors(site.place, document() | {"campaign": "copy"})
    assert not found
    with pytest.raises(ConfigError, match="campaign `quick`"):
        dag.load(Path("x.yaml"), Path("results"))


LOADED = """
import importlib, sys
for name in sys.argv[1:]: importlib.import_module(name)
from iosweep.tools import tools
tools()
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "iosweep": print(module.__file__)
"""


@pytest.mark.local
@pytest.mark.parametrize(
    ("modules", "without"),
    [
        (["iosweep.judge.verdict"], verdict.NOT_JUDGING),
        (["iosweep.tables.make"], verdict.NOT_TABLES),
        (["iosweep.report.page", "iosweep.report.figures"], verdict.NOT_REPORT),
    ],
)
def test_a_change_of_any_module_that_judges_or_makes_tables_or_the_report_makes_them_again(
    modules: list[str], without: frozenset[str]
) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *modules], stdout=subprocess.PIPE, text=True, check=True)
    package = Path(dag.__file__).parent
    rooms = {Path(file).relative_to(package).parts[0] for file in done.stdout.splitlines()}
    assert "tools" in rooms
    assert not rooms & without
