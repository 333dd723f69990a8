"""`snakemake tools` with the stand-in for Spack: from nothing to figures, what fails, what is stopped in between."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mounts
import spack as standin
from campaign import ROOT, SMALL, Allocation, Campaign
from iosweep.errors import ConfigError
from iosweep.programs.spack import spack_yaml
from iosweep.programs.spack.checkouts import SPACK
from slurm_campaign import Marked
from waiting import PATIENCE_S, over, wait_for

pytestmark = pytest.mark.local

MANIFEST = [line.split("\t") for line in (standin.RECORDED / "manifest.tsv").read_text().splitlines()]
#: (play, the step that fails) of all that can fail in a build.
PLAYS = {
    play: step
    for name, code, *_ in reversed(MANIFEST)
    for play, step in [name.split(".")]
    if play not in ("ok", "own", "ctrl-c") and code != "0" and step in ("external-find", "concretize", "install")
}
FIO = SMALL | {"repetitions": 1}


class Site(Campaign, Marked):
    """A campaign whose tools Spack builds. `spack`: the stand-in's directory; `tools`: keys of the configuration."""

    def __init__(self, place, spack, packages, **tools):
        Marked.__init__(self)
        self.spack, self.packages, self.tools = spack, packages, {"spack": str(spack)} | tools
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
        return {key: value for key, value in super().environment.items() if key != "SPACK_ROOT"} | self.mark

    def command(self, *arguments):
        options = [argument for argument in arguments if argument != "tools"]
        # the target goes first: behind --configfile Snakemake takes it for a second one
        snakemake, *rest = super().command(*options)
        return [snakemake, *(["tools"] if "tools" in arguments else []), *rest]

    @property
    def directory(self):
        return self.place / self.tools.get("directory", "tools")

    @property
    def built(self):
        """tools.json of the spack.yaml that is there."""
        return self.directory / spack_yaml.read(self.own).digest / "tools.json"

    @property
    def document(self):
        return json.loads(self.built.read_bytes())

    @property
    def log(self):
        return self.directory / "logs" / f"{self.built.parent.name}.log"

    def dry(self, *arguments, code=0):
        return self.snakemake("-n", *arguments, code=code)

    def build(self, code=0):
        """What the rule does."""
        wanted = Path(self.tools.get("directory", "tools")) / self.built.parent.name / "tools.json"
        return self.iosweep("tools", "build", str(self.file), "--write", str(wanted), code=code)

    def refusal(self):
        """What the report says of a campaign of which nothing was measured."""
        [file] = (self.results / "refusals").iterdir()
        return json.loads(file.read_bytes())


@pytest.fixture(scope="module")
def checkouts(stand_ins, fio, tmp_path_factory):
    below = tmp_path_factory.mktemp("checkouts")
    return standin.checkout(below, stand_ins), standin.packages(below)


@pytest.fixture
def site(checkouts, tmp_path):
    return new_site(checkouts, tmp_path)


def new_site(checkouts, below, **tools):
    spack = shutil.copytree(checkouts[0], below / "spack")
    return Site(below / "site", spack, checkouts[1], **tools)


@pytest.fixture(scope="module")
def playground(checkouts, tmp_path_factory):
    """Where one play follows the other: what one leaves would spoil the next."""
    return new_site(checkouts, tmp_path_factory.mktemp("playground"))


# --- from nothing to figures ------------------------------------------------------------------------------------------

IOR = {
    "name": "ranks", "tool": "ior", "phases": ["seq_write"], "axes": {"transfer_size": ["64k"]},
    "options": {"threads_per_node": 2, "file_size": "1m", "write_mode": "new", "o_direct": False}, "phase_time": "1s",
    "repetitions": 1,
}  # fmt: skip


def test_from_nothing_to_the_report_and_from_one_build_to_another(site, monkeypatch):
    monkeypatch.chdir(site.place)
    site.configure(FIO, IOR)
    own = site.own.read_text()

    # looked at only
    words = ("tools: with Spack, in tools", "3 points, 3 repetitions left")
    output = site.dry()
    assert all(word in output for word in words)
    site.own.unlink()
    output = site.dry("-p", "--profile", str(ROOT / "profiles/slurm"))
    shipped = spack_yaml.read(ROOT / "spack.yaml").digest
    assert all(word in output for word in (*words, "asks for 1 node", f"--write tools/{shipped}/tools.json"))
    site.own.write_text(own)
    assert "not built yet; `snakemake tools`" in site.iosweep("tools", "list", "--configfile", "sweep.yaml", code=1)
    assert standin.calls(site.spack) == [] and not site.directory.exists()

    # built, measured
    output = site.run()
    assert "tools: verified: fio 3.37, ior 4.0.0, mdtest 4.0.0; 2 ranks" in output
    document, tools_json = site.document, site.built
    assert document["path"][0].startswith(str(site.directory / "store"))
    assert document["repository"]["pin"] == standin.PIN and len(document["repository"]["commit"]) == 40
    assert document["spack"]["path"] == str(site.spack) and document["spack"]["version"] == "1.1.0"
    assert {p["name"] for p in document["packages"] if p["explicit"]} == {"fio", "ior", "mpich"}
    calls = standin.calls(site.spack)
    assert [call[-1] for call in calls if "install" in call] == ["--only-concrete"]
    [key] = {record["build"] for record in records(site)}
    assert json.loads((site.results / f"builds/{key}.json").read_bytes()) == document
    for name in ("spack.yaml", "spack.lock"):
        copy = site.results / f"builds/{key}.{name}"
        assert copy.read_bytes() == (tools_json.parent / "environment" / name).read_bytes()
    for record in records(site):
        tool = document["tools"][Path(record["tool"]["path"]).name]
        assert {name: record["tool"][name] for name in ("path", "sha256")} == {n: tool[n] for n in ("path", "sha256")}
    page = (site.results / "report.html").read_text()
    assert all(package[:20] in page for package in ("fio@3.37", "ior@4.0.0", standin.PIN))
    listed = site.iosweep("tools", "list", "--configfile", "sweep.yaml")
    assert all(tool["path"] in listed for tool in document["tools"].values())
    shell = ["sh", "-c", f". {tools_json.with_name('env.sh')}; command -v ior"]
    sourced = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert sourced.stdout.strip() == document["tools"]["ior"]["path"]

    # nothing of it again
    site.configure(FIO, IOR, IOR | {"name": "more", "axes": {"transfer_size": ["128k"]}})
    site.own.write_text(f"# a comment\n{own}")
    os.utime(site.own)
    assert "Nothing to be done" in site.snakemake("tools")
    assert site.left()["1-node"].startswith("1 node: 1 point, 1 repetition left")
    site.configure(FIO, IOR)
    assert site.left() == {} and standin.calls(site.spack) == calls

    # another fio: what it has measured is measured again, and what ior has is not
    before = records(site)
    site.own.write_text(own.replace("fio@3.37", "fio@3.36"))
    output = site.tables()
    assert "building 10/10 fio 3.36" in output and output.count("tools: building") == 1
    assert site.built != tools_json and json.loads(tools_json.read_bytes()) == document
    [again] = {record["build"] for record in records(site)} - {key}
    assert [r for r in records(site) if r["build"] == key] == before
    measured = [record for record in records(site) if record["build"] == again]
    assert [Path(record["tool"]["path"]).name for record in measured] == ["fio"] * 2
    calls = standin.calls(site.spack)

    # and back
    site.own.write_text(own)
    assert site.left()["1-node"].startswith("1 node: 2 points, 2 repetitions left")
    assert standin.calls(site.spack) == calls


def records(site):
    return [json.loads(file.read_bytes()) for file in sorted(site.results.glob("points/*/r*.json"))]


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("play", sorted(PLAYS, key=lambda play: (PLAYS[play] == "install", play)))
def test_a_build_that_fails_says_why_in_one_sentence(playground, play):
    """Those that install come last: with a lock nothing is concretized any more."""
    standin.play(playground.spack, play)
    output = playground.build(code=1)
    sentence = refused(playground, output)
    printed = (standin.RECORDED / f"{play}.{PLAYS[play]}.err").read_text()
    first = next(line for line in printed.splitlines() if line.startswith("==> Error"))
    pattern = r"\S+".join(map(re.escape, re.split(r"\S*(?:/site/|-[a-z2-7]{32})\S*", first)))
    assert re.search(f"^{pattern}$", playground.log.read_text(), re.MULTILINE)
    assert sentence.count(".") < 12 and len(sentence) < 700
    assert PLAYS[play] == "install" or not (playground.built.parent / "environment/spack.lock").exists()


def test_after_all_that_failed_the_same_command_goes_on(playground):
    standin.play(playground.spack, None)
    output = playground.build()
    assert "tools: verified: " in output and playground.document["tools"].keys() == {"fio", "ior", "mdtest"}


def refused(site, output):
    """The reason, which the report has, too, and behind it the log. Snakemake's last lines repeat it."""
    assert "Traceback" not in output
    lines = output.splitlines()
    (number, said), *again = [(n, line) for n, line in enumerate(lines) if line.startswith("iosweep: the tools ")]
    assert {line for _, line in again} <= {said}
    sentence = said.removeprefix("iosweep: ")
    assert site.refusal()["reason"] == sentence
    where = site.log if "directory" in site.tools else site.log.relative_to(site.place)
    assert lines[number + 1] == f"all that was run is in {where}"
    assert not site.built.exists()
    return sentence


def test_a_campaign_without_tools_has_a_report_that_says_why(site):
    standin.play(site.spack, "unknown-package")
    output = site.run(code=1)
    sentence = refused(site, output)
    assert "there is no package `iorx`" in sentence
    assert sentence.replace("`", "") in re.sub("<[^>]*>|`", "", (site.results / "report.html").read_text())
    standin.play(site.spack, None)
    site.snakemake("--until", "measure")
    assert len(records(site)) == 2 and not list((site.results / "refusals").iterdir())


def test_a_program_that_lacks_a_library_is_not_said_to_be_built(site):
    standin.play(site.spack, "missing-library")
    sentence = refused(site, site.build(code=1))
    assert re.search("fio does not find lib(aiq|q).so.*; load what it needs, or build it$", sentence)


@pytest.mark.parametrize(
    ("play", "says"),
    [
        ("other-version", "bin/fio says 3.33, and its package is fio@3.37"),
        ("no-mdtest", "mdtest, which sweeps use, is not among what is built; its points will be missing"),
    ],
)
def test_what_is_built_and_is_not_what_was_asked_for_is_noted(site, fio, play, says):
    site.configure({"name": "m", "tool": "mdtest", "phases": ["create"], "options": {"files_per_thread": 10}})
    own = subprocess.run([fio, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    standin.play(site.spack, play)
    output = site.build()
    assert says.replace("3.33", own.removeprefix("fio-")) in output


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x.git", "https://packages.invalid/x.git"])
def test_without_a_network_it_is_said_soon_and_nothing_is_left(site, url):
    good = site.own.read_text()
    site.own.write_text(good.replace(str(site.packages), url))
    began = time.monotonic()
    sentence = refused(site, site.build(code=1))
    assert time.monotonic() - began < 120  # not after many tries
    assert f"the packages repository cannot be fetched from {url}: " in sentence and "tools.mirror" in sentence
    assert not any(site.directory.glob("packages/*"))
    site.own.write_text(good)
    site.build()


def test_with_a_mirror_no_address_is_asked(site, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    site.own.write_text(site.own.read_text().replace(str(site.packages), "https://packages.invalid/x.git"))
    site.tools["mirror"] = str(mirror)
    site.configure()
    assert f"{mirror} has no packages; make it with `iosweep tools mirror`" in refused(site, site.build(code=1))
    (mirror / "packages").symlink_to(site.packages)
    site.build()
    assert site.document["repository"]["pin"] == standin.PIN
    said = site.log.read_text()
    assert "packages.invalid" not in said and f"==> Fetching file://{mirror}/" in said and "https://" not in said


def test_a_clone_of_spack_that_is_not_the_pinned_one_is_refused(site, tmp_path):
    """There is no other way to have one without a network: what is pinned is Spack itself."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, path in (("spack", site.spack), ("packages", site.packages)):
        (mirror / name).symlink_to(path)
    site.tools = {"mirror": str(mirror)}
    site.configure()
    sentence = refused(site, site.build(code=1))
    assert f"{SPACK.ref} is {SPACK.commit}" in sentence and "the tag has been moved" in sentence
    assert not any(site.directory.glob("spack/*")) and standin.calls(site.spack) == []


# --- what is stopped --------------------------------------------------------------------------------------------------


def started(site, *arguments):
    return subprocess.Popen(
        site.command(*arguments), env=site.environment, cwd=site.place, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
def test_stopped_in_the_middle_nothing_lives_on_and_the_next_run_goes_on(site, how):
    standin.play(site.spack, "ctrl-c")  # waits in the middle of fio, with a process below it
    process = started(site, "tools")
    wait_for(lambda: site.processes("sleep"), over=over(process))
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    wait_for(lambda: not site.processes())
    assert "stopped by SIGINT; the next run goes on" in output if how == "ctrl-c" else "stopped by the end of" in output
    assert not site.built.exists() and "the tools are not built: stopped by " in site.refusal()["reason"]
    standin.play(site.spack, None)
    if how == "killed":
        site.snakemake("--unlock")
        output = site.snakemake("tools")
    else:
        output = site.build()
    assert "what is built is decided already" in output and "verified: fio 3.37" in output


def test_snakemake_that_is_terminated_lets_the_build_end(site):
    standin.play(site.spack, "slow")
    process = started(site, "tools")
    wait_for(lambda: "external" in str(standin.calls(site.spack)), over=over(process))
    process.terminate()
    assert "Will exit after finishing" in read_until(process, "Will exit")
    standin.play(site.spack, None)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert site.built.exists() and "built and verified" in output
    assert not site.processes()


def read_until(process, words):
    """What it says up to the line that has these words."""
    said = ""
    while words not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


def test_what_was_built_before_a_failure_is_not_built_again(site):
    standin.play(site.spack, "full-build")
    site.build(code=1)
    standin.play(site.spack, None)
    assert re.findall("tools: building .* (.*) .*", site.build()) == ["fio"]


def test_what_is_installed_after_a_failure_is_found(site, monkeypatch, tmp_path):
    """A lock that was never built is decided anew when the system offers something else; one that was built is not."""
    directory = tmp_path / "installed"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{directory}")

    def install(name):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)

    standin.play(site.spack, "half-mirror")
    site.build(code=1)
    assert "what is built is decided already" in site.build(code=1)
    install("gcc-99")
    standin.play(site.spack, None)
    output = site.build()
    assert "this system has changed since it was decided what is built (other versions: gcc): deciding anew" in output
    assert "verified: fio 3.37" in output
    install("gcc-98")
    site.built.unlink()
    assert "what is built is decided already" in site.build()


def test_a_record_of_the_system_that_is_damaged_is_made_anew(site):
    standin.play(site.spack, "half-mirror")
    site.build(code=1)
    (site.built.parent / "environment/decided").write_text("{")
    standin.play(site.spack, None)
    assert "deciding anew" in site.build()


def test_two_build_in_one_directory_and_one_of_them_waits(site, checkouts, tmp_path):
    sites = [Site(tmp_path / name, site.spack, site.packages, directory=str(tmp_path / "shared")) for name in "ab"]
    standin.play(site.spack, "slow")
    first = started(sites[0], "tools")
    wait_for(lambda: "external" in str(standin.calls(site.spack)), over=over(first))
    second = started(sites[1], "tools")
    said = read_until(second, "waiting for another process")
    standin.play(site.spack, None)
    built, _ = first.communicate(timeout=PATIENCE_S)
    said += second.communicate(timeout=PATIENCE_S)[0]
    assert first.returncode == second.returncode == 0, built + said
    assert "tools: building" in built and "tools: building" not in said
    assert sites[0].built.exists() and sites[0].built == sites[1].built


# --- where it is built ------------------------------------------------------------------------------------------------


def as_another(site, wanted):
    """`tools build` as one who may not write everywhere."""
    command = [sys.executable, "-m", "iosweep", "tools", "build", str(site.file), "--write", str(wanted)]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--", *command]
    done = subprocess.run(
        command, cwd=site.place, env=site.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_a_directory_that_cannot_be_written(site, tmp_path):
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o555)
    site.tools["directory"] = str(shut / "tools")
    site.configure()
    said = as_another(site, site.built)
    assert f"{shut / 'tools'} cannot be made or written (Permission denied); name another" in said
    assert "all that was run" not in said


@pytest.mark.parametrize("key", ["spack", "mirror", "environment", "directory"])
def test_a_path_that_cannot_be_looked_at(site, tmp_path, key):
    path = tmp_path / "shut" / key
    path.mkdir(parents=True)
    path.parent.chmod(0)
    site.tools[key] = str(path)
    site.configure()
    try:
        assert str(path) in as_another(site, site.built)
    finally:
        path.parent.chmod(0o755)


def test_a_full_disk(site, tmp_path):
    if reason := mounts.missing():
        pytest.skip(reason)
    standin.play(site.spack, "talks")
    with mounts.tmpfs(tmp_path / "small", "1m"):
        site.tools["directory"] = str(tmp_path / "small/tools")
        site.configure()
        assert "there is no space left" in refused(site, site.build(code=1))
        mounts.remount(tmp_path / "small", "size=64m")
        site.build()


@pytest.mark.parametrize(
    ("directory", "says"),
    [
        ("a b/tools", "sweep.yaml:"),
        ("target/iosweep-tiny/tools", "is inside the campaign's directory; name another one"),
        ("sweep.yaml", "sweep.yaml"),  # a file
    ],
)
def test_a_directory_that_is_refused(site, directory, says):
    site.tools["directory"] = directory
    site.configure()
    output = site.build(code=1)
    assert re.search(says, output) and "Traceback" not in output
    assert standin.calls(site.spack) == []


def test_names_with_characters_of_a_shell(site):
    name = "it's $HOME; `y`.yaml"
    site.file = site.file.rename(site.place / name)
    site.own = site.own.rename(site.place / "s'p a$c;k.yaml")
    site.tools["environment"] = site.own.name
    site.configure()
    assert "built and verified" in site.snakemake("tools")
    assert site.built.exists()


# --- what was built and is another now --------------------------------------------------------------------------------


def test_what_is_damaged_is_never_measured_with(site, monkeypatch):
    monkeypatch.chdir(site.place)
    site.build()
    measure = [*Allocation.command(site)[3:], "--tools", str(site.built)]
    good, fio = site.built.read_bytes(), Path(site.document["tools"]["fio"]["path"])
    says = "tools.json is damaged .*; remove it, and the next run builds the tools again"
    for damaged in (b"", b"{}", b"[]", good[:-100], good.replace(b'"tools"', b'"spools"'), b"\xff"):
        site.built.write_bytes(damaged)
        with pytest.raises(ConfigError, match=says):
            site.left()
    output = site.dry("tools", code=1)
    assert re.search(says, output) and "Traceback" not in output
    assert re.search(says, site.iosweep(*measure, code=3))
    site.built.unlink()
    output = site.iosweep(*measure, code=3)  # not: with what is on PATH
    assert str(site.built) in output and "Traceback" not in output
    site.built.write_bytes(good)

    away = fio.rename(fio.with_name("away"))
    with pytest.raises(ConfigError, match=f"{fio} is gone, which "):
        site.left()
    assert f"{fio} is gone, which " in site.iosweep(*measure, code=3)
    away.rename(fio)

    fio.write_bytes(fio.read_bytes() + b"another")
    output = site.iosweep(*measure, code=3)
    assert f"{fio} is not the file that " in output and "tools.json, and the next run verifies the tools anew" in output
    assert records(site) == []
    site.built.unlink()
    assert "verified" in site.build()
    site.iosweep(*measure)
    assert {r["tool"]["sha256"] for r in records(site)} == {site.document["tools"]["fio"]["sha256"]}
