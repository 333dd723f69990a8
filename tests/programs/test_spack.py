"""Tools that Spack builds, with the stand-in for Spack: from nothing to figures, failures, and builds that stop."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import scripted
import spack as standin
from campaign import SMALL, Allocation, Campaign
from iosweep.commands import cli
from iosweep.programs import spack
from iosweep.programs.spack import Environment, Pin, configuration, installed, variables
from waiting import PATIENCE_S, over, wait_for

FIO = SMALL | {"repetitions": 1}
IOR = {
    "name": "ranks", "tool": "ior", "phases": ["seq_write"], "axes": {"transfer_size": ["64k"]},
    "options": {"threads_per_node": 2, "file_size": "1m", "write_mode": "new", "o_direct": False}, "phase_time": "1s",
    "repetitions": 1,
}  # fmt: skip


class Site(Campaign):
    """A campaign whose tools Spack builds. `spack`: the stand-in's directory; `keys`: those of the configuration."""

    def __init__(self, place, spack, packages, capsys):
        self.spack, self.packages, self.keys, self.capsys = spack, packages, {"spack": str(spack)}, capsys
        place.mkdir(exist_ok=True)
        self.own = place / "spack.yaml"
        self.own.write_text(standin.spack_yaml(packages))
        super().__init__(place)

    def configure(self, *sweeps, **_):
        """`sweeps`: in place of FIO."""
        given = [sweep for sweep in sweeps if sweep]  # empty when the campaign is made
        Allocation.configure(self, tools={"provider": "spack", **self.keys}, sweeps=given or [FIO])

    @property
    def built(self):
        """The newest tools.json."""
        return max(self.place.glob("tools/*/tools.json"), key=lambda file: file.stat().st_mtime_ns, default=None)

    @property
    def document(self):
        return json.loads(self.built.read_bytes())

    def build(self, code=0):
        """What the command of the rule says, in this process."""
        assert cli.main(["tools", str(self.file)]) == code
        return self.capsys.readouterr().err

    def installs(self):
        """The packages that a build installs."""
        return re.findall(r"tools: Installing (\w+)", self.build())

    def refusal(self):
        """The reason that the report gives for a campaign of which nothing was measured."""
        [file] = (self.results / "refusals").iterdir()
        return json.loads(file.read_bytes())["reason"]

    def records(self):
        return [json.loads(file.read_bytes()) for file in sorted(self.results.glob("points/*/r*.json"))]


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    below = tmp_path_factory.mktemp("checkouts")
    return standin.checkout(below, scripted.install(below / "bin")), standin.packages(below)


@pytest.fixture
def site(checkouts, tmp_path, monkeypatch, capsys):
    made = Site(tmp_path / "site", shutil.copytree(checkouts[0], tmp_path / "spack"), checkouts[1], capsys)
    monkeypatch.chdir(made.place)
    monkeypatch.setenv("PATH", made.path)
    # not of the tests' own process, which has other children
    monkeypatch.setattr(spack.process, "end_descendants", lambda *_, **__: set())
    monkeypatch.setattr("iosweep.commands.tools.adopt_orphans", lambda: None)
    return made


@pytest.mark.local
def test_tools_are_built_once_and_only_what_another_build_has_measured_is_measured_again(site):
    site.configure(FIO, IOR)
    own = site.own.read_text()
    assert set(site.left()) == {"1-node"}  # planned without a build
    assert standin.calls(site.spack) == []

    site.tables()
    document, calls = site.document, standin.calls(site.spack)
    assert [call[6] for call in calls if "-e" in call] == ["external", "install", "find"]
    assert document["path"][0].startswith(str(site.place / "tools/store"))
    assert document["repository"]["pin"] == standin.PIN
    assert (document["spack"]["path"], document["spack"]["version"]) == (str(site.spack), "1.1.0")
    assert {p["name"]: bool(p["external"]) for p in document["packages"]} == {"fio": False, "ior": False, "mpich": True}
    [key] = {record["build"] for record in site.records()}
    assert json.loads((site.results / f"builds/{key}.json").read_bytes()) == document
    for name in ("spack.yaml", "spack.lock"):
        assert document["environment"][name] == (site.built.parent / "environment" / name).read_text()
    for record in site.records():
        tool = document["tools"][Path(record["tool"]["path"]).name]
        assert {name: record["tool"][name] for name in ("path", "sha256")} == {n: tool[n] for n in ("path", "sha256")}

    site.own.write_text(f"# a comment\n{own}")
    assert (site.left(), standin.calls(site.spack)) == ({}, calls)
    site.own.write_text(own.replace("fio@3.37", "fio@3.36"))
    assert site.installs() == ["fio"]
    [left] = site.loaded().left.values()
    assert {*left.points} == {point.id for point in site.plan.points if point.tool == "fio"}


@pytest.mark.local
def test_a_build_that_fails_is_told_with_its_last_lines_and_decided_anew(site):
    standin.play(site.spack, "fails")
    lines = site.build(code=1).splitlines()
    number = next(n for n, line in enumerate(lines) if site.refusal() in line)  # one sentence, in the report as well
    assert "exit code 1" in site.refusal()
    assert "configure: error: no C compiler" in lines[number + 1 :]
    standin.play(site.spack, "broken")
    assert "exit code 127 libaio" in site.build(code=1)
    assert site.built is None
    shutil.rmtree(site.place / "tools/store")
    standin.play(site.spack, "")
    assert site.installs() == ["ior", "fio"]
    assert sum("external" in call for call in standin.calls(site.spack)) == 3
    assert not list((site.results / "refusals").iterdir())
    site.build()  # with the lock
    assert sum("external" in call for call in standin.calls(site.spack)) == 3


@pytest.mark.local
def test_nothing_is_built_where_spack_its_tools_or_the_network_are_not_there(site):
    good = site.own.read_text()
    site.own.write_text(good.replace(str(site.packages), "https://127.0.0.1:1/x.git"))
    site.build(code=1)
    assert "https://127.0.0.1:1/x.git" in site.refusal()
    assert not any(site.place.glob("tools/packages/*"))  # nothing is left of it
    site.own.write_text(good)
    (site.spack / "tools.json").write_text("{}")
    assert "fio is not among the tools" in site.build(code=1)
    site.keys["spack"] = "/nosuch"
    site.configure()
    assert "/nosuch/bin/spack" in site.build(code=1)
    assert site.built is None


@pytest.mark.local
def test_of_a_build_that_is_stopped_no_process_stays_and_the_next_goes_on(site):
    standin.play(site.spack, "waits")  # in the middle of fio, with a process below it
    process = subprocess.Popen(
        [sys.executable, "-m", "iosweep", "tools", str(site.file)], env=site.environment,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: site.processes("sleep"), over=over(process))
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
    assert process.wait(PATIENCE_S) == 130
    wait_for(lambda: not site.processes())
    assert site.built is None
    assert "stopped by " in site.refusal()
    standin.play(site.spack, "")
    assert site.installs() == ["fio"]


@pytest.mark.local
def test_a_damaged_or_replaced_tool_is_never_measured_with(site):
    site.build()
    measure = [*Allocation.command(site)[3:], "--tools", str(site.built)]
    good, fio = site.built.read_bytes(), Path(site.document["tools"]["fio"]["path"])
    site.built.write_bytes(good[:-100])
    site.iosweep(*measure, code=3)  # not: with what is on PATH
    site.built.write_bytes(good)
    fio.write_bytes(fio.read_bytes() + b"#another")
    assert str(fio) in site.iosweep(*measure, code=3)
    assert site.records() == []


# --- Spack's environment, configuration and list ----------------------------------------------------------------------


def test_the_environment_of_spack_is_ours():
    given = {"PATH": "/bin", "SPACK_ROOT": "/x", "PYTHONPATH": "/y", "GIT_DIR": "/z", "GIT_SSH_COMMAND": "ssh -i k"}
    found = variables(given, Path("/r"))
    assert (found["PATH"], found["GIT_SSH_COMMAND"]) == ("/bin", "ssh -i k")
    assert not {"SPACK_ROOT", "PYTHONPATH", "GIT_DIR"} & found.keys()
    assert (found["SPACK_DISABLE_LOCAL_CONFIG"], found["SPACK_USER_CACHE_PATH"]) == ("1", "/r/cache")


def test_spack_keeps_all_below_one_directory_and_the_repositories_in_their_order():
    repos = {"site": "/s", "builtin": {"git": "u", "tag": "v1"}}
    wanted = Environment(Path("spack.yaml"), frozenset(), Pin("u", "v1"), repos, "0", Path("/r"))
    found = configuration(wanted, Path("/r"), Path("/r/packages/v1"))
    config = found["config"]
    places = (config["install_tree"]["root"], *config["build_stage:"], config["source_cache"], config["misc_cache"])
    assert all(Path(place).is_relative_to("/r") for place in places)
    repos["builtin"] = {"git": "u", "destination": "/r/packages/v1"}
    assert [*found["repos"].items()] == [*repos.items()]  # in this order: a site's own packages come before Spack's


def test_packages_are_read_from_the_list_of_spack():
    listed = "b1\t/usr\tmpich\t4\tmpich@4 arch=x\na123456789\t/r/store/fio\tfio\t3\tfio@3~gui arch=x\n"
    fio, mpich = installed(listed, {"roots": [{"hash": "a123456789"}]}, Path("/r/store"))
    assert (fio.spec, fio.external, fio.explicit) == ("fio@3~gui arch=x /a123456", None, True)
    assert (mpich.name, mpich.external, mpich.explicit) == ("mpich", "/usr", False)
