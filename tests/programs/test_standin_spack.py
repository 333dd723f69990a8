"""The stand-in for Spack (standins/README.md) against recordings of Spack 1.1.0: the same exit codes, texts and
streams, the same spack.lock with the same hashes, and the same packages installed."""

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

import spack as standin

pytestmark = pytest.mark.local

RECORDED = standin.RECORDED
MANIFEST = {
    name: (int(code), command)
    for name, code, _, command in (line.split("\t") for line in (RECORDED / "manifest.tsv").read_text().splitlines())
}
COMMANDS = {
    "version": ["--version"],
    "external-find": MANIFEST["ok.external-find"][1].split()[6:],
    "concretize": ["concretize"],
    "install": ["install", "--only-concrete"],
    "find-json": ["find", "--json"],
    "find-format": ["find", "--format", "{hash} {prefix}"],
}
PLAYS = [name for name in MANIFEST if name.split(".")[0] not in ("ok", "own", "ctrl-c")]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Site:
    """What is /site in the recordings is `below` here, but for the MPICH in /site/venv: its path is in the hashes."""

    below: Path

    @property
    def spack(self) -> Path:
        return self.below / "spack"

    @property
    def lock(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.below / "env/spack.lock").read_text())
        return found

    def argv(self, step: str) -> list[str]:
        options = ["--color", "never", "-C", str(self.below / "scope"), "-e", str(self.below / "env")]
        words = COMMANDS.get(step) or ["mirror", "create", "-d", str(self.below / "new-mirror"), "--all"]
        return [str(self.spack / "bin/spack"), *(() if step == "version" else options), *words]

    def run(self, step: str, **environment: str) -> Said:
        env = {**os.environ, "SPACK_PYTHON": sys.executable, **environment}
        done = subprocess.run(self.argv(step), env=env, capture_output=True, text=True, check=False, timeout=60)
        return self.said(done.returncode, done.stdout, done.stderr)

    def said(self, code: int, *texts: str) -> Said:
        return Said(code, *(text.replace(str(self.below), "/site") for text in texts))

    def write(self, name: str, text: str) -> None:
        (self.below / name).write_text(text)

    def settle(self) -> None:
        """As after `concretize` with the spack.yaml that was recorded."""
        shutil.copy(RECORDED / "ok.spack.lock", self.below / "env/spack.lock")

    def names(self) -> set[str]:
        """What is installed."""
        return {node["name"] for node in json.loads(self.run("find-json").out)}


@pytest.fixture(scope="module")
def prepared(stand_ins: Path, fio: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    below = tmp_path_factory.mktemp("prepared")
    standin.checkout(below, stand_ins)
    return below


@pytest.fixture
def site(prepared: Path, tmp_path: Path) -> Site:
    return new_site(prepared, tmp_path / "site")


@pytest.fixture(scope="module")
def playground(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One for all the plays: they print what was recorded, whatever others left."""
    found = new_site(prepared, tmp_path_factory.mktemp("playground") / "site")
    found.settle()
    return found


@pytest.fixture(scope="module")
def main(playground: Site) -> Callable[[list[str]], int]:
    """The stand-in in this process: forty processes take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPACK_PYTHON", raising=False)
        patch.delenv("IOSWEEP_STANDIN_SPACK", raising=False)
        program = runpy.run_path(str(playground.spack / "bin/spack"))
    function: Callable[[list[str]], int] = program["main"]
    return function


def new_site(prepared: Path, below: Path) -> Site:
    """With the spack.yaml that was recorded, before Spack found a compiler and wrote it there."""
    found = Site(shutil.copytree(prepared, below))
    for directory in ("scope", "env", "packages"):
        (found.below / directory).mkdir()
    config = f"{{install_tree: {{root: {below}/store}}, build_stage: [{below}/stage], source_cache: {below}/sources}}"
    found.write("scope/config.yaml", f"config: {config}\n")
    found.write("scope/mirrors.yaml", f"mirrors::\n  iosweep: file://{below}/mirror\n")
    found.write("scope/repos.yaml", f"repos: {{builtin: {below}/packages}}\n")
    found.write("packages/repo.yaml", "repo: {namespace: builtin, api: v2.2}\n")
    found.write("env/spack.yaml", without("gcc", spack_yaml("ok")))
    return found


def spack_yaml(name: str) -> str:
    return (RECORDED / f"{name}.spack.yaml").read_text()


def without(package: str, text: str) -> str:
    return re.sub(rf"^    {package}:\n(      .*\n)+", "", text, flags=re.MULTILINE)


def recorded(name: str) -> Said:
    texts = [RECORDED / f"{name}.{stream}" for stream in ("out", "err")]
    return Said(MANIFEST[name][0], *(text.read_text() if text.exists() else "" for text in texts))


def recorded_lock(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.spack.lock").read_text())
    return found


def unordered(lock: dict[str, Any]) -> dict[str, Any]:
    return {**lock, "roots": sorted(lock["roots"], key=lambda root: root["spec"])}


def alike(said: Said) -> Said:
    """Without what is another at every install: times, and places in the order, which is not twice the same."""
    out = re.sub(r"(\d+m )?\d+\.\d\ds", "0.00s", said.out)
    return Said(said.code, re.sub(r"\[\d+/", "[1/", out), said.err)


def packages(said: Said) -> Counter[str]:
    """An install's output, package by package."""
    return Counter(re.split(r"^(?=\[\+\] /\S+ \(|==> No binary)", alike(said).out, flags=re.MULTILINE))


def lines(said: Said) -> tuple[int, str, Counter[str]]:
    return said.code, said.err, Counter(said.out.splitlines())


# --- what goes well --------------------------------------------------------------------------------------------------


def test_concretizes_as_recorded(site: Site) -> None:
    compilers = "==> Compilers have been configured automatically from PATH inspection\n"
    first = site.run("concretize")
    assert first == recorded("ok.concretize")
    assert first.out.startswith(compilers)
    assert unordered(site.lock) == unordered(recorded_lock("ok"))
    assert yaml.safe_load((site.below / "env/spack.yaml").read_text()) == yaml.safe_load(spack_yaml("ok"))
    assert site.run("concretize") == recorded("ok.concretize-again")
    assert site.run("find-json") == recorded("ok.find-json-before")
    assert site.run("find-format") == recorded("ok.find-format-before")


def test_installs_and_finds_as_recorded(site: Site) -> None:
    site.settle()
    first = site.run("install")
    assert packages(first) == packages(recorded("ok.install"))
    assert (first.code, first.err) == (0, "")
    counts = re.findall(r"\[(\d+)/14\]", first.out)
    assert counts == sorted(counts, key=int)

    again = site.run("install")
    assert lines(again) == lines(recorded("ok.install-again"))

    found = site.run("find-json")
    assert not found.out.endswith("\n")
    by_name = [
        sorted(json.loads(text), key=lambda node: node["name"]) for text in (found.out, recorded("ok.find-json").out)
    ]
    assert by_name[0] == by_name[1]
    assert site.run("find-format") == recorded("ok.find-format")


def test_finds_externals_as_recorded_and_keeps_comments(site: Site) -> None:
    whole = spack_yaml("own")
    head, _, rest = whole.partition("  packages:\n")
    before = head + "  packages:\n" + rest[rest.index("    all:\n") :]
    site.write("env/spack.yaml", before)
    assert lines(site.run("external-find")) == lines(recorded("ok.external-find"))
    after = (site.below / "env/spack.yaml").read_text()
    assert yaml.safe_load(after) == yaml.safe_load(without("gcc", whole))
    assert set(before.splitlines()) <= set(after.splitlines())
    assert site.run("external-find") == recorded("ok.external-find-again")


def test_concretizes_the_spack_yaml_of_this_project_as_recorded(site: Site) -> None:
    """MPICH and its dependencies are built; the targets of externals are others."""
    site.write("env/spack.yaml", without("gcc", spack_yaml("own")))
    assert site.run("concretize") == recorded("own.concretize")
    assert unordered(site.lock) == unordered(recorded_lock("own"))


def test_makes_a_mirror_as_recorded(site: Site) -> None:
    site.settle()
    for name, digest in json.loads((RECORDED / "archives.json").read_text()).items():
        if not name.startswith("ior"):
            cached = site.below / f"sources/_source-cache/archive/{digest[:2]}/{digest}.tar.gz"
            cached.parent.mkdir(parents=True)
            cached.touch()
    assert lines(site.run("mirror")) == lines(recorded("ok.mirror"))
    assert (site.below / "new-mirror/ior/ior-4.0.0.tar.gz").exists()
    assert lines(site.run("mirror")) == lines(recorded("ok.mirror-again"))


def test_says_its_version_and_commit(site: Site) -> None:
    commit = subprocess.run(
        ["git", "-C", str(site.spack), "rev-parse", standin.VERSION], capture_output=True, text=True, check=True
    ).stdout.strip()
    said = site.run("version")
    assert said == Said(0, f"1.1.0 ({commit})\n", "")
    assert re.sub(r"\b[0-9a-f]{40}\b", commit, recorded("ok.version").out) == said.out


def test_says_where_it_is(site: Site) -> None:
    """Through whatever it is called, as a module's wrapper does."""
    link = site.below / "spack-of-a-site"
    link.symlink_to(site.spack / "bin/spack")
    said = subprocess.run([link, "location", "--spack-root"], capture_output=True, text=True, check=True).stdout
    assert said == f"{site.spack}\n"


def test_installs_programs_that_run(site: Site) -> None:
    site.settle()
    site.run("install")
    fio, ior = (next(site.below.glob(f"store/*/{name}-*/bin/{name}")) for name in ("fio", "ior"))
    assert ior.with_name("mdtest").exists()
    run = subprocess.run([fio, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == "fio-3.37\n"
    assert subprocess.run(["ldd", ior], capture_output=True, text=True, check=True).stdout.count("not found") == 0


def test_another_version_has_another_hash_and_another_program(site: Site) -> None:
    site.run("concretize")
    site.run("install")
    site.write("env/spack.yaml", (site.below / "env/spack.yaml").read_text().replace("fio@3.37", "fio@3.36"))
    assert "==> Concretized 3 specs:" in site.run("concretize").out
    assert len(re.findall(r"^==> Installing fio-3.36-", site.run("install").out, re.MULTILINE)) == 1
    assert not [root for root in site.lock["roots"] if root in recorded_lock("ok")["roots"] and "fio" in root["spec"]]
    programs = sorted(site.below.glob("store/*/fio-*/bin/fio"))
    assert [program.parts[-3][:8] for program in programs] == ["fio-3.36", "fio-3.37"]
    assert programs[0].read_bytes() != programs[1].read_bytes()
    assert len(list(site.below.glob("store/*/ior-*"))) == 1


def test_an_mpich_elsewhere_is_another_ior_and_the_same_fio(site: Site) -> None:
    site.write("env/spack.yaml", spack_yaml("ok").replace("/site/venv", "/opt/mpich"))
    site.run("concretize")
    changed = {node["name"] for digest, node in site.lock["concrete_specs"].items() if digest not in locked_hashes()}
    assert changed == {"mpich", "ior"}


def locked_hashes() -> set[str]:
    return set(recorded_lock("ok")["concrete_specs"])


# --- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLAYS)
def test_plays_what_was_recorded(
    playground: Site, main: Callable[[list[str]], int], capfd: pytest.CaptureFixture[str], name: str
) -> None:
    play, step = name.split(".")
    standin.play(playground.spack, play)
    said = playground.said(main(playground.argv(step)[1:]), *capfd.readouterr())
    assert without_fio_hash(said) == without_fio_hash(recorded(name))


def without_fio_hash(said: Said) -> Said:
    """Some were recorded with a fio of other flags."""
    out, err = (re.sub(r"(?<=\bfio-3\.37-)[a-z2-7]{32}", "HASH", text) for text in (said.out, said.err))
    return Said(said.code, out, err)


def test_plays_all_that_the_manifest_has() -> None:
    files = {path.name.rpartition(".")[0] for path in RECORDED.iterdir() if path.suffix in (".out", ".err")}
    assert files <= set(MANIFEST)
    assert len(PLAYS) > 35


def test_what_was_built_before_a_failure_stays_and_the_next_install_goes_on(site: Site) -> None:
    site.settle()
    standin.play(site.spack, "full-build")
    assert site.run("install").code == 1
    standin.play(site.spack, None)
    assert {"zlib-ng", "ior", "mpich"} <= site.names()
    assert "fio" not in site.names()
    went_on = site.run("install")
    assert re.findall(r"==> Installing ([\w-]+)-[\d.]+-\w+ \[", went_on.out) == ["fio"]


def test_fails_as_recorded_without_being_told_to(site: Site) -> None:
    assert site.run("install") == recorded("no-lock.install")
    no_gcc = str(Path(sys.executable).parent)
    assert site.run("concretize", PATH=no_gcc) == recorded("no-compiler.concretize")
    site.write("env/spack.yaml", spack_yaml("ok").replace("ior@4.0.0", "iorx"))
    assert site.run("concretize") == recorded("unknown-package.concretize")
    (site.below / "packages/repo.yaml").unlink()
    assert site.run("external-find") == recorded("no-repository.external-find")
    assert site.run("concretize") == recorded("no-repository.concretize")


def test_ctrl_c_ends_it_with_make_and_an_interrupt_of_its_own_process_does_not(site: Site) -> None:
    site.settle()
    env = {**os.environ, "SPACK_PYTHON": sys.executable, "IOSWEEP_STANDIN_SPACK": "ctrl-c"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        site.argv("install"), env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stdout
        assert any("'build'" in line for line in process.stdout)
        deadline = time.monotonic() + 300
        while not (make := psutil.Process(process.pid).children()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (2, recorded("ctrl-c.install").err)
    assert not make[0].is_running()


@pytest.mark.parametrize(
    ("play", "wrong"), [("missing-library", "fio"), ("other-version", "fio"), ("no-mdtest", "mdtest")]
)
def test_plays_an_install_that_leaves_something_wrong(site: Site, play: str, wrong: str) -> None:
    """Exit code 0, and a program that does not run, is another version, or is not there."""
    site.settle()
    standin.play(site.spack, play)
    assert site.run("install").code == 0
    program = next(site.below.glob(f"store/*/{'ior' if wrong == 'mdtest' else wrong}-*/bin")) / wrong
    if play == "missing-library":
        assert "not found" in subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    elif play == "other-version":
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        assert said != "fio-3.37\n"
    else:
        assert not program.exists()


# --- what tests see of it --------------------------------------------------------------------------------------------


def test_notes_its_calls_and_stays_an_unchanged_checkout(site: Site) -> None:
    standin.play(site.spack, "no-compiler")
    site.run("version")
    site.run("concretize", SPACK_USER_CACHE_PATH="/a")
    assert standin.calls(site.spack) == [site.argv("version")[1:], site.argv("concretize")[1:]]
    assert standin.log(site.spack)[1]["env"]["SPACK_USER_CACHE_PATH"] == "/a"
    status = ["git", "-C", str(site.spack), "status", "--porcelain"]
    assert subprocess.run(status, capture_output=True, text=True, check=True).stdout == ""


def test_a_clone_of_it_works_and_so_does_one_of_the_packages(site: Site, tmp_path: Path) -> None:
    packages = standin.packages(tmp_path)
    clone = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch"]
    subprocess.run([*clone, standin.VERSION, f"file://{site.spack}", str(tmp_path / "clone")], check=True)
    subprocess.run([*clone, standin.PIN, f"file://{packages}", str(tmp_path / "pinned")], check=True)
    site.write("scope/repos.yaml", f"repos: {{builtin: {tmp_path}/pinned/repos/spack_repo/builtin}}\n")
    cloned = [str(tmp_path / "clone/bin/spack"), *site.argv("concretize")[1:]]
    env = {**os.environ, "SPACK_PYTHON": sys.executable}
    assert (
        subprocess.run(cloned, env=env, capture_output=True, text=True, check=True).stdout
        == recorded("ok.concretize").out
    )
    assert len(standin.calls(tmp_path / "clone")) == 1
    assert standin.calls(site.spack) == []


def test_the_spack_yaml_for_tests_is_concretized(site: Site) -> None:
    site.write("env/spack.yaml", standin.spack_yaml(specs=("fio@3.37+libaio", "mpich"), mpich="/site/venv"))
    assert site.run("concretize").code == 0
    assert {root["spec"] for root in site.lock["roots"]} == {"fio@3.37+libaio", "mpich"}
    assert "libaio" in {node["name"] for node in site.lock["concrete_specs"].values()}


def test_refuses_what_it_does_not_know(site: Site) -> None:
    command = [*site.argv("concretize")[:-1], "uninstall", "--all"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert "does not know the command" in done.stderr
