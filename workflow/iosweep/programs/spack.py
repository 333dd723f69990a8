"""Tools that Spack builds: what spack.yaml asks for, what tools.json says was built, and the build itself.

Spack has state and configuration of its own below tools.directory. Jobs read tools.json, and never call Spack.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import msgspec
from msgspec import Meta

from iosweep.config.sweeps import Config
from iosweep.config.yaml_lines import load
from iosweep.errors import BuildError, ConfigError, Obstacle, Problem, Unusable
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged, Document
from iosweep.node import process
from iosweep.programs.programs import BuiltMpi, BuiltProgram, Program, describe, find, mpiexec
from iosweep.target.agent import Agent
from iosweep.text import printable
from iosweep.tools import tools

#: The file of the workflow, for working directories without one.
SHIPPED = Path(__file__).parents[3] / "spack.yaml"
#: Characters that configure scripts and make take in a path.
_PATH = re.compile(r"[\w.+/@-]+")


@dataclass(frozen=True)
class Pin:
    """A state of a git repository. `ref`: a tag or a commit."""

    url: str
    ref: str


@dataclass(frozen=True)
class Environment:
    """An environment of Spack: its spack.yaml, and where it is built below `root` (tools.directory).

    `specs`: names of the packages that it asks for. `packages`: the packages repository, or a checkout of it.
    `repos`: all repositories, as spack.yaml has them. `digest`: of what spack.yaml says. `root` is as configured; Spack
    gets absolute paths.
    """

    yaml: Path
    specs: frozenset[str]
    packages: Pin | Path
    repos: Mapping[str, object]
    digest: str
    root: Path

    @property
    def file(self) -> Path:
        """The build document, which jobs read."""
        return self.root / self.digest / "tools.json"

    @property
    def directory(self) -> Path:
        """Spack's environment: a copy of spack.yaml, and its lock."""
        return self.root / self.digest / "environment"

    @property
    def log(self) -> Path:
        """All commands of the build, with their output."""
        return self.root / "logs" / f"{self.digest}.log"


def read(configured: Config) -> Environment:
    """The environment that a configuration names. Raises ConfigError."""
    tools, sweep = configured.settings.tools, configured.documents[0]
    problems: list[Problem] = []
    if not _PATH.fullmatch(path := str(Path(tools.directory).absolute())):
        wrong = f"{path} has characters with which nothing can be built; name another directory"
        problems.append(sweep.problem(("tools", "directory"), wrong))
    if tools.environment and not os.access(tools.environment, os.R_OK):
        wrong = f"{tools.environment} cannot be read; name a spack.yaml"
        problems.append(sweep.problem(("tools", "environment"), wrong))
    if problems:
        raise ConfigError(problems)
    yaml = Path(tools.environment or "spack.yaml")
    document = load(yaml if os.access(yaml, os.R_OK) else SHIPPED)
    spack = document.data.get("spack")
    match spack:
        case {"specs": [_, *_] as specs}:
            pass
        case _:
            problems.append(document.problem(("spack", "specs"), "name what is built, for example [ior@4.0.0, fio]"))
    packages: Pin | Path = Path()
    match spack:
        case {"repos": {"builtin": str(path)}} if path.startswith("/"):
            packages = Path(path)
        case {"repos": {"builtin": {"git": str(url), "tag": str(ref)}}}:
            packages = Pin(url, ref)
        case {"repos": {"builtin": {"git": str(url), "commit": str(ref)}}}:
            packages = Pin(url, ref)
        case _:
            wrong = "write {git: <address>, tag: <release>}, or with commit:, or the whole path of a checkout"
            problems.append(document.problem(("spack", "repos", "builtin"), wrong))
    if problems:
        raise ConfigError(problems)
    digest = hashlib.sha256(msgspec.json.encode(document.data, order="deterministic")).hexdigest()[:12]
    names = frozenset(re.split(r"[^\w-]", spec.strip(), maxsplit=1)[0] for spec in specs if isinstance(spec, str))
    return Environment(Path(document.file), names, packages, spack["repos"], digest, Path(tools.directory))


class ToolsFile(Document, frozen=True, kw_only=True):
    """The keys of tools.json (docs/tools.md) that jobs need."""

    tools: Annotated[dict[str, BuiltProgram], Meta(min_length=1)]
    path: Annotated[tuple[str, ...], Meta(min_length=1)]
    store: str
    environment: dict[str, str]
    mpi: BuiltMpi | None = None


@dataclass(frozen=True)
class Built:
    """The tools of one spack.yaml. `file`: the tools.json below tools.directory. `document`: all that it says."""

    file: Path
    document: Mapping[str, object]
    content: ToolsFile

    @property
    def search(self) -> str:
        """The directories where the tools are, as PATH has them."""
        return os.pathsep.join(self.content.path)

    def hashes(self) -> dict[str, str]:
        """tool -> sha256 of its binary when it was built."""
        return {name: tool.sha256 for name, tool in self.content.tools.items()}


def read_built(file: Path) -> Built | None:
    """The tools of a tools.json, or None where it does not exist. Raises Unusable."""
    try:
        document = documents.read(file)
        content = documents.fits(document, ToolsFile, file)
    except FileNotFoundError:
        return None
    except Damaged as error:
        raise Unusable(str(error), "remove it, and the next run builds the tools again") from None
    root = Path(content.store).parent
    original = root / content.environment["digest"] / "tools.json"
    used = [tool.path for tool in content.tools.values()] + ([content.mpi.path] if content.mpi else [])
    if gone := [path for path in used if not os.access(path, os.F_OK)]:
        raise Unusable(
            f"{gone[0]} is gone, which {original} says was built",
            f"is its file system mounted here? If it was moved or removed, remove {root}, and the next run builds anew",
        )
    return Built(original, document, content)


#: The tested release: its name, and its commit.
RELEASE, SPACK = "v1.1.0", Pin("https://github.com/spack/spack.git", "2e907202bcc8209a6a62243aab50c179b524cc3b")
#: In earlier releases spack.yaml overrides our configuration (-C).
_OLDEST = (1, 1)
#: Taken from the system where it has them: they only build. Everything that becomes part of the measured programs is
#: built, or is an external that spack.yaml names.
_BUILD_TOOLS = (
    *("autoconf", "automake", "bison", "cmake", "diffutils", "file", "findutils", "flex", "gawk", "gettext", "gmake"),
    *("libtool", "m4", "perl", "pkgconf", "python", "tar", "texinfo"),
)
#: Seconds until a repository must have answered.
_ANSWER_S = 20
#: Lines of a command that failed which are shown.
_LAST = 20
#: Seconds until an interrupted command is killed: Spack removes unfinished installations.
_TIDY_S = 10.0


def build(environment: Environment, spack: str | None, say: Callable[[str], None]) -> None:
    """Build and verify the tools, and write tools.json. `spack`: tools.spack.

    Raises BuildError, OSError; finished packages stay, and the next run continues from there.
    """
    root, directory = environment.root.absolute(), environment.directory.absolute()
    for made in (directory, environment.log.parent, root / "scope"):
        made.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("a") as lock, environment.log.open("w", encoding="utf-8") as log:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)  # one build at a time: another one waits
        commands = _Commands(environment.log, log, variables(os.environ, root), say)

        # the site's Spack, or else a clone of the tested release
        release = Path(spack).absolute() if spack else commands.clone(SPACK, root / "spack" / RELEASE)
        program = release / "bin" / "spack"
        version = (commands.run("saying its version (tools.spack)", program, "--version").split() or [""])[0]
        parts = re.match(r"(\d+)\.(\d+)", version)
        if not parts or (int(parts[1]), int(parts[2])) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise BuildError(f"{release} is Spack {version}, and {oldest} or newer is needed (tools.spack)")

        # the packages repository: of the pin in spack.yaml, or a checkout that it names
        packages, pin = environment.packages, None
        if isinstance(packages, Pin):
            pin = packages.ref
            packages = commands.clone(packages, root / "packages" / pin.replace("/", "_"))

        # the lock, which says what is built, stays once that was built; before, it is decided anew at each try, because
        # a package of the system that was missing may be there now
        for name, section in configuration(environment, root, packages).items():
            (root / "scope" / f"{name}.yaml").write_bytes(msgspec.json.encode({name: section}))  # JSON is YAML
        start = (program, "--color", "never", "-C", root / "scope", "-e", directory)
        yaml, locked = directory / "spack.yaml", directory / "spack.lock"
        if not (environment.file.exists() and locked.exists()):
            locked.unlink(missing_ok=True)
            shutil.copyfile(environment.yaml, yaml)
            say("looking for build tools of this system, and deciding what is built: some minutes")
            commands.run("looking for build tools", *start, "external", "find", *_BUILD_TOOLS)
        commands.run("building them", *start, "install", show="==> Installing ")

        listed = commands.run("listing what was built", *start, "find", "--format", _FORMAT)
        document = _document(environment, installed(listed, msgspec.json.decode(locked.read_bytes()), root / "store"))
        document["spack"] = commands.state(release) | {"version": version}
        document["repository"] = commands.state(packages) | {"pin": pin}
        content = documents.dump(document, indent=True)
    if not environment.file.exists() or environment.file.read_bytes() != content:
        safe_paths.write(environment.file.parent, environment.file.name, content)
    say(f"built and verified: {environment.file}")


def _document(environment: Environment, packages: Sequence[Package]) -> dict[str, object]:
    """tools.json, once every program ran: Spack checks neither that programs run nor that externals exist. Raises
    BuildError."""
    explicit = sorted((p for p in packages if p.explicit), key=lambda p: p.external is not None)
    path = list(dict.fromkeys(str(folder) for p in explicit if (folder := Path(p.prefix, "bin")).is_dir()))
    search = os.pathsep.join(path)
    with Agent() as agent:
        programs = {
            name: find(tool, agent.run, search)
            for name, tool in tools().items()
            if name in environment.specs or shutil.which(tool.program, path=search)
        }
    if unusable := [str(each) for each in programs.values() if isinstance(each, Obstacle)]:
        raise BuildError("; ".join(unusable))
    starter = mpiexec(search)
    yaml, lock = ((environment.directory / name).read_text() for name in ("spack.yaml", "spack.lock"))
    return {
        "provider": "spack",
        **describe(
            {name: program for name, program in programs.items() if isinstance(program, Program)},
            None if isinstance(starter, Obstacle) else starter,
            lambda file: next((p.spec for p in explicit if Path(file).is_relative_to(p.prefix)), None),
        ),
        "path": path,
        "store": str(environment.root.absolute() / "store"),
        "environment": {
            "file": environment.yaml.name,
            "digest": environment.digest,
            "spack.yaml": yaml,
            "spack.lock": lock,
        },
        "packages": packages,
    }


@dataclass
class _Commands:
    """Runs the commands of a build and writes them to its log. `file`: of the log; `env`: their environment."""

    file: Path
    log: TextIO
    env: Mapping[str, str]
    say: Callable[[str], None]

    def clone(self, pin: Pin, into: Path) -> Path:
        """A state of a repository. Spack's own clone does not follow a pin that changes, and a first one that fails
        breaks all that comes later."""
        if into.exists():
            return into
        self.say(f"fetching {pin.url} {pin.ref}")
        part = into.with_name(f"{into.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        for argv in (
            ["timeout", str(_ANSWER_S), "git", "ls-remote", "--quiet", pin.url, "HEAD"],
            ["git", "init", "--quiet", part],
            ["git", "-C", part, "fetch", "--quiet", "--depth=1", pin.url, pin.ref],
            ["git", "-C", part, "checkout", "--quiet", "--detach", "FETCH_HEAD"],
        ):
            self.run(f"fetching {pin.ref} from {pin.url} (docs/tools.md: without a network)", *argv)
        return part.rename(into)

    def state(self, path: Path) -> dict[str, object]:
        """A checkout's commit, None outside git, and whether files differ from it."""
        # safe.directory: a site's Spack belongs to another user
        describe = ("git", "-c", "safe.directory=*", "-C", path, "describe", "--always", "--dirty", "--exclude=*")
        try:
            commit = self.run("describing a checkout", *describe, "--abbrev=40").strip()
        except BuildError:
            commit = ""
        return {
            "path": str(path),
            "commit": commit.removesuffix("-dirty") or None,
            "changed": commit.endswith("-dirty"),
        }

    def run(self, doing: str, *argv: str | Path, show: str | None = None) -> str:
        """Standard output of a command; lines that begin with `show` are shown. Raises BuildError.

        No process of it is left running, whatever is raised.
        """
        self.log.write(f"$ {shlex.join(map(str, argv))}\n")
        self.log.flush()
        began, printed = self.log.tell(), []
        try:
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self.log,
                env=self.env,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # a terminal's Ctrl-C reaches us, and we end it cleanly
            )
        except OSError as error:
            raise BuildError(f"{argv[0]} cannot be run ({error.strerror})") from None
        assert started.stdout
        try:
            for line in started.stdout:
                self.log.write(line)
                self.log.flush()
                printed.append(line)
                if show and line.startswith(show):
                    self.say(line.removeprefix("==> ").strip())
            exit_code = started.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(started.pid, signal.SIGINT)
                started.wait(_TIDY_S)
            process.end_descendants()
            raise
        if exit_code:
            with self.file.open(encoding="utf-8", errors="replace") as log:
                log.seek(began)
                last = [printable(line.rstrip()) for line in log if line.strip()][-_LAST:]
            how = f"exit code {exit_code}" if exit_code > 0 else f"killed by signal {-exit_code}"
            raise BuildError("\n".join([f"{Path(argv[0]).name} failed while {doing} ({how})", *last]))
        return "".join(printed)


def variables(given: Mapping[str, str], root: Path) -> dict[str, str]:
    """The environment of git and Spack, without the user's settings of Spack, Python and git. Pure."""
    ours = {
        "SPACK_DISABLE_LOCAL_CONFIG": "1",
        "SPACK_USER_CACHE_PATH": str(root / "cache"),
        "SPACK_PYTHON": sys.executable,  # where clingo can be installed for it (docs/tools.md)
        "PYTHONUNBUFFERED": "1",  # progress is shown at once
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }
    network = ("GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL")
    foreign = ("SPACK_", "PYTHON", "GIT_")
    return {key: value for key, value in given.items() if key in network or not key.startswith(foreign)} | ours


def configuration(environment: Environment, root: Path, packages: Path) -> dict[str, object]:
    """Spack's configuration by section, which precedes all other. Pure."""
    found: dict[str, object] = {
        "config": {
            "install_tree": {"root": str(root / "store")},
            "build_stage:": [str(root / "stage")],  # the colon: no fallback
            "source_cache": str(root / "sources"),
            "misc_cache": str(root / "cache"),
            "connect_timeout": 10,  # seconds; Spack's own is 30, and there are three addresses for each source
            "build_jobs": max(1, min(16, len(os.sched_getaffinity(0)))),  # this may be a shared login node
        }
    }
    if isinstance(pin := environment.packages, Pin):
        # all repositories in their order: this list takes precedence, and the first one that has a package provides it
        found["repos"] = {**environment.repos, "builtin": {"git": pin.url, "destination": str(packages)}}
    return found


class Package(msgspec.Struct, frozen=True):
    """An installed package. `spec`: as Spack writes it. `external`: its prefix, if Spack did not build it. `explicit`:
    it is one of the specs."""

    hash: str
    prefix: str
    name: str
    version: str
    spec: str
    external: str | None
    explicit: bool


_FORMAT = "{hash}\t{prefix}\t{name}\t{version}\t{name}{@version}{variants}{ arch=architecture}"


def installed(listed: str, lock: Mapping[str, Sequence[Mapping[str, str]]], store: Path) -> list[Package]:
    """The packages that `spack find --format` lists. Pure."""
    roots = {root["hash"] for root in lock["roots"]}
    found = []
    for line in listed.splitlines():
        hash, prefix, name, version, spec = line.split("\t")
        external = None if Path(prefix).is_relative_to(store) else prefix
        # most variants that Spack lists for an external are defaults, not properties of the external
        own = f"{name}@{version}" if external else f"{spec} /{hash[:7]}"
        found.append(Package(hash, prefix, name, version, own, external, hash in roots))
    return sorted(found, key=lambda package: (package.name, package.hash))
