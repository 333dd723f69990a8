"""Tools that Spack builds, with the stand-in for Spack: from nothing to figures, what fails, what is stopped."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import spack as standin
from campaign import ROOT, SMALL, Allocation, Campaign
from iosweep.errors import ConfigError
from iosweep.programs.spack import configuration, installed, variables
from iosweep.programs.spack_environment import Environment, Pin
from slurm_campaign import Marked
from waiting import PATIENCE_S, over, wait_for

FIO = SMALL | {"repetitions": 1}
IOR = {
    "name": "ranks", "tool": "ior", "phases": ["seq_write"], "axes": {"transfer_size": ["64k"]},
    "options": {"threads_per_node": 2, "file_size": "1m", "write_mode": "new", "o_direct": False}, "phase_time": "1s",
    "repetitions": 1,
}  # fmt: skip


class Site(Campaign, Marked):
    """A campaign whose tools Spack builds. `spack`: the stand-in's directory; `tools`: keys of the configuration."""

    def __init__(self, place, spack, packages):
        Marked.__init__(self)
        self.spack, self.packages, self.tools = spack, packages, {"spack": str(spack)}
        place.mkdir(exist_ok=True)
        self.own = place / "spack.yaml"
        self.own.write_text(standin.spack_yaml(packages))
        super().__init__(place)

    def configure(self, *sweeps, **_):
        """`sweeps`: in place of FIO."""
        given = [sweep for sweep in sweeps if sweep]  # empty when the campaign is made
        Allocation.configure(self, tools={"provider": "spack", **self.tools}, sweeps=given or [FIO])

    @property
    def environment(self):
        return super().environment | self.mark

    def command(self, *arguments):
        options = [argument for argument in arguments if argument != "tools"]
        # the target goes first: behind --configfile Snakemake takes it for a second one
        snakemake, *rest = super().command(*options)
        return [snakemake, *(["tools"] if "tools" in arguments else []), *rest]

    @property
    def built(self):
        """The newest tools.json."""
        return max(self.place.glob("tools/*/tools.json"), key=lambda file: file.stat().st_mtime_ns, default=None)

    @property
    def document(self):
        return json.loads(self.built.read_bytes())

    def build(self, code=0):
        """What the rule does."""
        return self.iosweep("tools", "build", str(self.file), code=code)

    def refusal(self):
        """What the report says of a campaign of which nothing was measured."""
        [file] = (self.results / "refusals").iterdir()
        return json.loads(file.read_bytes())["reason"]


@pytest.fixture(scope="module")
def checkouts(stand_ins, fio, tmp_path_factory):
    below = tmp_path_factory.mktemp("checkouts")
    return standin.checkout(below, stand_ins), standin.packages(below)


@pytest.fixture
def site(checkouts, tmp_path):
    spack = shutil.copytree(checkouts[0], tmp_path / "spack")
    return Site(tmp_path / "site", spack, checkouts[1])


def records(site):
    return [json.loads(file.read_bytes()) for file in sorted(site.results.glob("points/*/r*.json"))]


@pytest.mark.local
def test_from_nothing_to_the_report_and_from_one_build_to_another(site, monkeypatch):
    monkeypatch.chdir(site.place)
    site.configure(FIO, IOR)
    own = site.own.read_text()
    assert "3 points, 3 repetitions left" in site.snakemake("-n")
    site.own.unlink()
    site.snakemake("-n", "--profile", str(ROOT / "profiles/slurm"))  # of the spack.yaml that comes with iosweep
    site.own.write_text(own)
    assert "not built yet" in site.iosweep("tools", "list", "--configfile", "sweep.yaml", code=1)
    assert standin.calls(site.spack) == [] and not Path("tools").exists()

    # built, measured
    site.run()
    document = site.document
    calls = standin.calls(site.spack)
    assert [call[6] for call in calls if "-e" in call] == ["external", "install", "find"]
    assert document["path"][0].startswith(str(site.place / "tools/store"))
    assert document["repository"]["pin"] == standin.PIN and len(document["repository"]["commit"]) == 40
    assert document["spack"]["path"] == str(site.spack) and document["spack"]["version"] == "1.1.0"
    assert {p["name"]: bool(p["external"]) for p in document["packages"]} == {"fio": False, "ior": False, "mpich": True}
    [key] = {record["build"] for record in records(site)}
    assert json.loads((site.results / f"builds/{key}.json").read_bytes()) == document
    for name in ("spack.yaml", "spack.lock"):
        copy = site.results / f"builds/{key}.{name}"
        assert copy.read_bytes() == (site.built.parent / "environment" / name).read_bytes()
    for record in records(site):
        tool = document["tools"][Path(record["tool"]["path"]).name]
        assert {name: record["tool"][name] for name in ("path", "sha256")} == {n: tool[n] for n in ("path", "sha256")}
    page = (site.results / "report.html").read_text()
    assert all(text in page for text in ("fio@3.37", "ior@4.0.0", standin.PIN))
    listed = site.iosweep("tools", "list", "--configfile", "sweep.yaml")
    assert all(tool["path"] in listed for tool in document["tools"].values())

    # nothing of it again
    site.own.write_text(f"# a comment\n{own}")
    assert "Nothing to be done" in site.snakemake("tools")
    assert site.left() == {} and standin.calls(site.spack) == calls

    # another fio: what it has measured is measured again, and what ior has is not
    before = records(site)
    site.own.write_text(own.replace("fio@3.37", "fio@3.36"))
    output = site.tables()
    assert re.findall(r"tools: Installing (\w+)", output) == ["fio"]
    [again] = {record["build"] for record in records(site)} - {key}
    assert [r for r in records(site) if r["build"] == key] == before
    measured = [record for record in records(site) if record["build"] == again]
    assert [Path(record["tool"]["path"]).name for record in measured] == ["fio"] * 2


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.local
def test_a_build_that_fails_and_the_next_one(site):
    """One sentence above the last lines, and in the report; what is built is decided anew until it was built once."""
    standin.play(site.spack, "fails")
    lines = site.run(code=1).splitlines()
    number = next(n for n, line in enumerate(lines) if line.startswith("iosweep: the tools are not built"))
    sentence = lines[number].removeprefix("iosweep: ")
    assert "spack failed while building them (exit code 1)" in sentence and "tools/logs/" in sentence
    assert {"configure: error: no C compiler", "==> Error: ProcessError: Command exited with status 1"} <= set(
        lines[number + 1 : number + 10]
    )
    assert site.refusal() == sentence and site.built is None
    assert "spack failed while building them (exit code 1)" in (site.results / "report.html").read_text()

    standin.play(site.spack, None)
    assert re.findall(r"tools: Installing (\w+)", site.build()) == ["fio"]
    assert sum("external" in call for call in standin.calls(site.spack)) == 2
    assert not list((site.results / "refusals").iterdir())
    site.build()  # with the lock
    assert sum("external" in call for call in standin.calls(site.spack)) == 2


@pytest.mark.local
def test_a_program_that_does_not_run_is_not_said_to_be_built(site):
    standin.play(site.spack, "broken")
    assert re.search("bin/fio does not run: exit code 127 libaio", site.build(code=1))
    assert site.built is None


@pytest.mark.local
def test_a_tool_of_the_specs_that_is_not_there(site):
    site.own.write_text(standin.spack_yaml(site.packages, ["fio@3.37"]))
    (site.spack / "tools.json").write_text("{}")
    assert "fio is not among the tools that Spack has built" in site.build(code=1)


@pytest.mark.local
@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x.git", "https://packages.invalid/x.git"])
def test_without_a_network_it_is_said_soon_and_nothing_is_left(site, url):
    good = site.own.read_text()
    site.own.write_text(good.replace(str(site.packages), url))
    began = time.monotonic()
    site.build(code=1)
    assert time.monotonic() - began < 60
    assert f"failed while fetching {standin.PIN} from {url}" in site.refusal() and "without a network" in site.refusal()
    assert not any(site.place.glob("tools/packages/*"))
    site.own.write_text(good)
    site.build()


@pytest.mark.local
def test_what_is_wrong_before_anything_is_built(site, monkeypatch):
    (site.spack / "bin/spack").write_text("#!/bin/sh\necho 0.23.1\n")
    assert "is Spack 0.23.1, and 1.1 or newer is needed" in site.build(code=1)
    site.tools["spack"] = "/nosuch"
    site.configure()
    assert "/nosuch/bin/spack cannot be run (No such file or directory)" in site.build(code=1)
    (site.place / "tools").rename(site.place / "away")
    (site.place / "tools").touch()
    assert "Traceback" not in site.build(code=1) and "cannot be made or written (Not a directory)" in site.refusal()


# --- what is stopped --------------------------------------------------------------------------------------------------


@pytest.mark.local
@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
def test_stopped_in_the_middle_nothing_lives_on_and_the_next_run_goes_on(site, how):
    standin.play(site.spack, "waits")  # in the middle of fio, with a process below it
    process = subprocess.Popen(
        site.command("tools"), env=site.environment, cwd=site.place, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: site.processes("sleep"), over=over(process))
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    wait_for(lambda: not site.processes())
    assert site.built is None and "the tools are not built: stopped by " in site.refusal()
    standin.play(site.spack, None)
    assert re.findall(r"tools: Installing (\w+)", site.build()) == ["fio"]


# --- what was built and is another now --------------------------------------------------------------------------------


@pytest.mark.local
def test_what_is_damaged_is_never_measured_with(site, monkeypatch):
    monkeypatch.chdir(site.place)
    site.build()
    measure = [*Allocation.command(site)[3:], "--tools", str(site.built)]
    good, fio = site.built.read_bytes(), Path(site.document["tools"]["fio"]["path"])
    tools_json = site.built
    says = "tools.json is damaged .*; remove it, and the next run builds the tools again"
    for damaged in (b"", good[:-100]):
        tools_json.write_bytes(damaged)
        with pytest.raises(ConfigError, match=says):
            site.left()
    assert re.search(says, site.iosweep(*measure, code=3))
    tools_json.unlink()
    assert str(tools_json) in site.iosweep(*measure, code=3)  # not: with what is on PATH
    tools_json.write_bytes(good)

    away = fio.rename(fio.with_name("away"))
    with pytest.raises(ConfigError, match=f"{fio} is gone, which "):
        site.left()
    assert f"{fio} is gone, which " in site.iosweep(*measure, code=3)
    away.rename(fio)

    fio.write_bytes(fio.read_bytes() + b"another")
    assert f"{fio} is not the file that " in site.iosweep(*measure, code=3)
    assert records(site) == []
    tools_json.unlink()
    site.build()
    site.iosweep(*measure)
    assert {r["tool"]["sha256"] for r in records(site)} == {site.document["tools"]["fio"]["sha256"]}


# --- what Spack gets, and says ----------------------------------------------------------------------------------------


@pytest.mark.unit
def test_environment_of_spack_is_ours():
    given = {"PATH": "/bin", "SPACK_ROOT": "/x", "PYTHONPATH": "/y", "GIT_DIR": "/z", "GIT_SSH_COMMAND": "ssh -i k"}
    found = variables(given, Path("/r"))
    assert found["PATH"] == "/bin" and found["GIT_SSH_COMMAND"] == "ssh -i k"
    assert not {"SPACK_ROOT", "PYTHONPATH", "GIT_DIR"} & found.keys()
    assert found["SPACK_DISABLE_LOCAL_CONFIG"] == "1" and found["SPACK_USER_CACHE_PATH"] == "/r/cache"


@pytest.mark.unit
def test_configuration_of_spack_keeps_all_below_one_directory():
    wanted = Environment(Path("spack.yaml"), frozenset(), Pin("u", "v1"), "0", Path("/r"))
    found = configuration(wanted, Path("/r"), Path("/r/packages/v1"))
    config = found["config"]
    places = (config["install_tree"]["root"], *config["build_stage:"], config["source_cache"], config["misc_cache"])
    assert all(Path(place).is_relative_to("/r") for place in places)
    assert found["repos"] == {"builtin": {"git": "u", "destination": "/r/packages/v1"}}


@pytest.mark.unit
def test_packages_that_spack_lists():
    listed = "b1\t/usr\tmpich\t4\tmpich@4 arch=x\na123456789\t/r/store/fio\tfio\t3\tfio@3~gui arch=x\n"
    fio, mpich = installed(listed, {"roots": [{"hash": "a123456789"}]}, Path("/r/store"))
    assert (fio.spec, fio.external, fio.explicit) == ("fio@3~gui arch=x /a123456", None, True)
    assert (mpich.name, mpich.external, mpich.explicit) == ("mpich", "/usr", False)
