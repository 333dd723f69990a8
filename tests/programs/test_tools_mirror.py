"""`iosweep tools mirror`, and what a build finds in it, with real git and pip.

Spack is a stand-in (support/spack.py), and the network is directories."""

import base64
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import spack as standin
from iosweep.commands import cli
from iosweep.commands.tools import mirror
from iosweep.programs.spack import checkouts
from iosweep.programs.spack.shell import Done, Shell, environment
from iosweep.programs.spack.spack_yaml import Pin

pytestmark = pytest.mark.local

SWEEPS = """
campaign: mirrored
target: {directory: .}
sweeps:
  - {name: one, tool: fio, phases: [rand_read], axes: {threads_per_node: [1]}, options: {file_size: 1m},
     phase_time: 1s, repetitions: 1}
"""


WHEELS = mirror._Mirror._wheels


@dataclass(frozen=True)
class Network:
    """What is fetched from. `index`: of Python packages, with one, which requirements.lock in it names."""

    spack: Pin
    packages: Path
    index: Path

    @property
    def lock(self) -> Path:
        return self.index / "requirements.lock"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    below = tmp_path_factory.mktemp("network")
    spack = standin.checkout(below, below / "no-tools")
    index = below / "index"
    (index / "tiny").mkdir(parents=True)
    wheel = tiny_wheel(index / "tiny")
    (index / "tiny/index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (index / "requirements.lock").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")
    return Network(Pin(str(spack), standin.VERSION, git(spack, "rev-parse", "HEAD")), standin.packages(below), index)


@dataclass(frozen=True)
class Site:
    """A connected machine: a working directory, and the directory that is filled."""

    work: Path
    network: Network

    @property
    def mirror(self) -> Path:
        return self.work / "carried"

    @property
    def config(self) -> Path:
        return self.work / "sweep.yaml"

    def ask(self, tools: str = "provider: spack", tag: str = standin.PIN) -> None:
        self.config.write_text(SWEEPS + f"tools: {{{tools}}}\n")
        (self.work / "spack.yaml").write_text(standin.spack_yaml(self.network.packages, mpich="/usr", tag=tag))

    def make(self) -> int:
        return cli.main(["tools", "mirror", str(self.mirror), f"--configfile={self.config}"])

    def kept(self) -> Path:
        [found] = (self.mirror / "environments").iterdir()
        return found

    def calls(self) -> list[list[str]]:
        """Of Spack: the words after the environment, with its directory."""
        log = (self.mirror / "mirror.log").read_text()
        lines = [line.split() for line in log.splitlines() if line.startswith("$ ") and "/bin/spack " in line]
        return [line[7:] for line in lines]


@pytest.fixture
def site(tmp_path: Path, network: Network, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    monkeypatch.setattr(checkouts, "SPACK", network.spack)
    monkeypatch.setattr(mirror._Mirror, "_wheels", lambda self: "no Python packages")  # pip takes its time
    # the stand-in's archives are not what their names say
    monkeypatch.setattr(mirror, "_whole", lambda file: file.read_text() == "not an archive\n")
    monkeypatch.chdir(tmp_path)
    found = Site(tmp_path, network)
    found.ask()
    return found


@pytest.fixture
def pip(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python packages are fetched, too."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", site.network.index.as_uri())
    monkeypatch.setattr(mirror._Mirror, "_wheels", WHEELS)
    monkeypatch.setattr(mirror, "_LOCK", site.network.lock)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Spack is told by a file what it plays: our environment does not reach it."""
    original = checkouts.pinned

    def pinned(shell: Shell, root: Path, directory: Path | None, env: dict[str, str]) -> Path:
        path = original(shell, root, directory, env)
        standin.play(path, os.environ.get("PLAYED"))
        return path

    monkeypatch.setattr(checkouts, "pinned", pinned)
    return monkeypatch


@pytest.mark.usefixtures("pip")
def test_has_all_that_a_build_takes(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.make() == 0
    out, err = capsys.readouterr()
    # no build tools of this machine: those of the cluster may be fewer
    assert [call[1:] for call in site.calls()] == [
        ["concretize"],
        ["mirror", "create", "-d", str(site.mirror), "--all", "--private"],
    ]
    nodes = json.loads((site.kept() / "spack.lock").read_bytes())["concrete_specs"].values()
    built = {node["name"] for node in nodes if "external" not in node}
    assert {"ior", "fio", "autoconf", "gmake", "compiler-wrapper"} <= built
    assert {"mpich", "gcc", "glibc"} == {node["name"] for node in nodes} - built
    sources = {path.parent.name for path in site.mirror.glob("*/*.tar.gz")}
    assert sources == built - {"gcc-runtime"}
    assert [path.name for path in (site.mirror / "wheels").iterdir()] == ["tiny-1.0-py3-none-any.whl"]
    assert not (site.mirror / "work").exists()
    assert f"fetching {len(built)}/{len(built)} " in err
    assert f"complete: Spack v1.1.0, packages {standin.PIN}, {len(sources)} sources" in err
    assert "1 Python package" in err
    assert f"make venv WHEELS={site.mirror}/wheels" in out
    assert f"tools: {{mirror: {site.mirror}}}" in out


def test_a_build_finds_it_there(site: Site, network: Network, tmp_path: Path) -> None:
    site.make()
    for file in site.mirror.rglob("*"):  # carried by somebody else, whose repositories git refuses
        if os.geteuid() == 0 and not file.is_symlink():
            os.chown(file, 1, 1)
    if os.geteuid() == 0:
        os.chown(site.mirror, 1, 1)
    tools = tmp_path / "tools"
    with (tmp_path / "log").open("w") as log:
        shell = Shell(log, lambda text: None)
        env = environment({**os.environ, "HOME": str(tmp_path)}, tools)
        built = checkouts.spack(shell, None, tools, site.mirror, {**env, "PATH": "/usr/bin:/bin"})
        packages = checkouts.packages(shell, Pin("https://nowhere.invalid/x", standin.PIN), tools, site.mirror, env)
    assert built.commit == network.spack.commit
    assert not built.changed
    assert built.path == tools / "spack/v1.1.0"
    assert packages.commit == git(network.packages, "rev-parse", "HEAD")
    assert packages.directory.parts[-3:] == ("repos", "spack_repo", "builtin")


def test_another_run_adds_what_is_new(
    site: Site, network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.make()
    # nothing is new
    assert site.make() == 0
    assert [call[1] for call in site.calls()] == ["mirror"]
    said = capsys.readouterr().err
    assert "decided already" in said
    assert said.count("fetching Spack") == 1
    # another release, and a state that has no name
    newer = tmp_path / "newer"
    git(tmp_path, "clone", "--quiet", str(network.packages), str(newer))
    (newer / "news").write_text("another state\n")
    git(newer, "add", "news")
    git(newer, "commit", "--quiet", "--message", "newer")
    commit = git(newer, "rev-parse", "HEAD")
    other = replace(site, network=replace(network, packages=newer))
    other.ask()
    spec = f'commit: "{commit}"'
    text = (site.work / "spack.yaml").read_text().replace(f"tag: {standin.PIN}", spec)
    (site.work / "spack.yaml").write_text(text)
    assert site.make() == 0
    assert len(list((site.mirror / "environments").iterdir())) == 2
    with (tmp_path / "log").open("w") as log:
        shell, tools = Shell(log, lambda text: None), tmp_path / "tools"
        env = environment(os.environ, tools)
        for pin in (Pin("https://nowhere.invalid/x", standin.PIN), Pin("https://nowhere.invalid/x", commit, commit)):
            found = checkouts.packages(shell, pin, tools, site.mirror, env)
            assert (found.path / "news").exists() == pin.by_commit
            assert found.commit == (commit if pin.by_commit else git(network.packages, "rev-parse", "HEAD"))


def test_what_the_cluster_has_decided_is_fetched_too(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.make()
    theirs = site.work / "tools" / site.kept().name / "environment"
    shutil.copytree(site.kept(), theirs)
    lock = json.loads((theirs / "spack.lock").read_bytes())
    [fio] = (node for node in lock["concrete_specs"].values() if node["name"] == "fio")
    fio["version"] = "3.36"
    (theirs / "spack.lock").write_text(json.dumps(lock))
    assert site.make() == 0
    assert "tools/" in capsys.readouterr().err
    assert (site.mirror / "fio/fio-3.36.tar.gz").exists()
    assert (site.mirror / "fio/fio-3.37.tar.gz").exists()
    (theirs / "spack.lock").write_text("half")
    assert site.make() == 1
    assert (
        f"tools/{site.kept().name}/environment/spack.lock cannot be read; carry it here again"
        in capsys.readouterr().err
    )


def test_what_is_on_the_cluster_only_need_not_be_here(site: Site) -> None:
    site.ask("provider: spack, spack: /cluster/spack, mirror: /cluster/mirror, directory: /cluster/tools")
    assert site.make() == 0
    assert not Path("/cluster").exists()


@pytest.mark.parametrize(
    ("played", "sentence"),
    [
        ("mirror-offline", "sources of compiler-wrapper 1.1.0, fio 3.37, zlib-ng 2.2.2 and 1 more cannot be fetched:"
         " [Errno -2] Name or service not known; is there a way to the network from here?"),
        ("no-compiler", "there is no compiler on PATH; install one (gcc)"),
        ("unknown-version", "no version fits `ior@9.9`"),
        ("no-clingo", "Spack's Python has no clingo"),
    ],
)  # fmt: skip
def test_says_what_spack_does_not_get(
    played: str, sentence: str, site: Site, play: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play.setenv("PLAYED", played)
    assert site.make() == 1
    err = capsys.readouterr().err
    assert f"iosweep: the mirror is not complete: {sentence}" in err
    assert f"all that was run is in {site.mirror}/mirror.log" in err
    play.setenv("PLAYED", "")
    assert site.make() == 0
    assert not (site.mirror / "work").exists()


def test_says_what_git_does_not_get(
    site: Site, network: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        assert site.make() == 1
        return capsys.readouterr().err

    site.ask(tag="v2099.01.0")
    assert f"{network.packages} has no tag v2099.01.0; name one that it has" in said()
    monkeypatch.setattr(checkouts, "SPACK", replace(network.spack, url="/nowhere", ref="v1.2.0"))
    wrong = said()
    assert "Spack cannot be fetched from /nowhere: '/nowhere' does not appear to be a git repository" in wrong
    assert "run it where there is a way to the network" in wrong
    monkeypatch.setattr(checkouts, "SPACK", replace(network.spack, commit="0" * 40))
    assert "the tag has been moved" in said()


@pytest.mark.usefixtures("pip")
def test_fetches_python_packages_where_nothing_is_built(
    site: Site, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site.ask("provider: path")
    other = tmp_path / "requirements.lock"
    other.write_text(network.lock.read_text().replace("tiny==1.0", "tiny==2.0"))
    monkeypatch.setattr(mirror, "_LOCK", other)
    assert site.make() == 1
    assert "Python packages cannot be fetched: No matching distribution found for tiny==2.0" in capsys.readouterr().err
    # half a file is fetched again
    monkeypatch.setattr(mirror, "_LOCK", network.lock)
    wheel = site.mirror / "wheels/tiny-1.0-py3-none-any.whl"
    wheel.write_bytes(b"half")
    assert site.make() == 0
    assert zipfile.is_zipfile(wheel)
    # nothing is new
    assert site.make() == 0
    assert capsys.readouterr().err.count("fetching the packages of requirements.lock") == 1
    assert {path.name for path in site.mirror.iterdir()} == {"wheels", "mirror.log", mirror.MARKER}


NO_NETWORK = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by \
'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new \
connection: [Errno -3] Temporary failure in name resolution')': /simple/altair/
ERROR: Could not find a version that satisfies the requirement altair==6.3.0 (from versions: none)
ERROR: No matching distribution found for altair==6.3.0
"""


def test_says_why_pip_has_no_network(tmp_path: Path) -> None:
    assert mirror._why_pip(Done(1, "", NO_NETWORK), tmp_path) == (
        "Python packages cannot be fetched: [Errno -3] Temporary failure in name resolution; is there a way to"
        " pypi.org, or an index (PIP_INDEX_URL)? What is fetched stays; run it again"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("full", "has something else in it (mine); name an empty directory"),
        ("a b", "has a space, with which nothing can be built; name another directory"),
        ("file/below", "cannot be made or written (Not a directory)"),
    ],
)
def test_leaves_other_directories_alone(
    name: str, sentence: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    (site.work / "full").mkdir()
    (site.work / "full/mine").write_text("precious")
    (site.work / "file").write_text("")
    assert cli.main(["tools", "mirror", str(site.work / name), f"--configfile={site.config}"]) == 1
    assert f"{site.work / name} {sentence}" in capsys.readouterr().err
    assert [path.name for path in (site.work / "full").iterdir()] == ["mine"]


def test_says_that_there_is_no_room(
    site: Site, play: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = f"there is no space left in {tmp_path}; make room there, and run it again"
    assert mirror._why(Done(3, "", "==> Error: [Errno 28] No space left on device\n"), tmp_path) == why
    assert mirror._why_pip(Done(2, "", "ERROR: [Errno 28] No space left on device\n"), tmp_path) == why
    play.setattr(mirror.safe_paths, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert site.make() == 1
    assert f"{site.mirror} cannot be made or written (No space left on device); make room" in capsys.readouterr().err


def test_wrong_configuration_is_told_as_everywhere(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.ask("provider: spack, environment: nowhere.yaml")
    assert site.make() == 1
    assert "nowhere.yaml is not there" in capsys.readouterr().err


def test_halves_are_removed(tmp_path: Path) -> None:
    """Spack takes every file for an archive that is there, and does not make a link where one is half made."""
    whole = tarred()
    digest = hashlib.sha256(whole).hexdigest()
    contents = {
        f"_source-cache/archive/{digest[:2]}/{digest}.tar.gz": whole,
        f"_source-cache/archive/00/{'0' * 64}.tar.gz": whole[:-7],
        f"_source-cache/archive/11/{'1' * 64}": b"",
        "_source-cache/git/ior/ior.git/abc.tar.gz": whole,
        "_source-cache/git/ior/ior.git/def.tar.gz": whole[:500],
        "ior/ior-develop.tar.gz": whole[:9],
        "wheels/half-1.0.tar.gz": b"pip looks after its own",
        "packages/objects/pack/half": b"and git",
        "iosweep/Makefile": b"what a person carries along",
        "iosweep/results.tar.gz": b"and this",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "ior/ior-4.0.0.tar.gz").symlink_to("nowhere")
    (tmp_path / "ior/ior-4.0.0.tar.gz.tmp").symlink_to("../_source-cache/archive/00")
    (tmp_path / "iosweep/mine.tmp").symlink_to("nowhere")
    removed = {str(path.relative_to(tmp_path)) for path in mirror.tidy(tmp_path)}
    assert removed == {name for name in list(contents)[1:6] if "abc" not in name}
    assert {name for name in contents if (tmp_path / name).exists()} == set(contents) - removed
    assert [path.name for path in (tmp_path / "ior").iterdir()] == ["ior-4.0.0.tar.gz"]
    assert (tmp_path / "iosweep/mine.tmp").is_symlink()


DRIVER = """
import sys
from iosweep.commands import cli
from iosweep.commands.tools import mirror; from iosweep.programs.spack import checkouts
from iosweep.programs.spack.spack_yaml import Pin
checkouts.SPACK = Pin(*sys.argv[3:6])
mirror._Mirror._wheels = lambda self: "no Python packages"
mirror._whole = lambda file: file.read_text() == "not an archive\\n"
decided = mirror._Mirror._decided
def then_slow(self, *arguments):
    kept = decided(self, *arguments)
    (self._work / "spack/v1.1.0/bin/play").write_text("slow")
    return kept
mirror._Mirror._decided = then_slow
sys.exit(cli.main(["tools", "mirror", sys.argv[2], f"--configfile={sys.argv[1]}"]))
"""


def test_goes_on_after_ctrl_c(site: Site) -> None:
    pin = site.network.spack
    argv = [sys.executable, "-c", DRIVER, str(site.config), str(site.mirror), pin.url, pin.ref, str(pin.commit)]
    begun = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=site.work)
    assert begun.stderr
    said = ""
    while "fetching 3/" not in said:
        line = begun.stderr.readline()
        assert line, said
        said += line
    begun.send_signal(signal.SIGINT)
    said += begun.communicate(timeout=300)[1]
    assert begun.returncode == 130, said
    assert "the mirror is not complete: stopped by SIGINT; what is fetched stays" in said
    there = len(list(site.mirror.glob("*/*.tar.gz")))
    (site.mirror / "work/spack/v1.1.0/bin/play").write_text("")
    assert site.make() == 0
    assert not (site.mirror / "work").exists()
    assert len(list(site.mirror.glob("*/*.tar.gz"))) > there > 0


# --- made here -------------------------------------------------------------------------------------------------------


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def tarred() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        content = os.urandom(1000)
        entry = tarfile.TarInfo("ior/README")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def tiny_wheel(directory: Path) -> Path:
    """The smallest Python package."""
    info = "tiny-1.0.dist-info"
    files = {
        "tiny.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    wheel = directory / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return wheel


def test_wheels_that_are_not_there(root: Path) -> None:
    """`make venv WHEELS=...` says so before it touches .venv."""
    environment = os.environ | {"WHEELS": "/nonexistent/wheels"}
    command = [str(root / "scripts/make-venv"), "runtime"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "venv: WHEELS=/nonexistent/wheels is no directory; name DIR/wheels of `iosweep tools mirror DIR`"
    )
