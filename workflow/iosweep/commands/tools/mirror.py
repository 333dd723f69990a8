"""`iosweep tools mirror`: fetch all that building the tools needs, for a cluster without a network.

spack packages      repositories without a checkout, each with every state that was asked for
_source-cache NAME  sources, as Spack lays them out (those by name are links)
wheels              what requirements.lock names, for this Python and processor
environments        what was decided to be built, by digest of spack.yaml
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import sys
import tarfile
import zlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import orjson

from iosweep.commands import campaigns
from iosweep.commands.tools.build import INTERRUPTED, say
from iosweep.config import sweep_file
from iosweep.errors import BuildError
from iosweep.files import safe_paths
from iosweep.node.process import adopt_orphans
from iosweep.node.stopping import Stopped, stoppable
from iosweep.programs.spack import checkouts, failures, request, shell
from iosweep.programs.spack.build import write_scope
from iosweep.programs.spack.shell import Done, Shell
from iosweep.programs.spack.spack_yaml import Environment, Pin, Place, scope, unfit
from iosweep.text import human_count, printable, some
from iosweep.units import human_size

#: A directory that is not empty must have it to be ours.
MARKER = "iosweep-mirror.txt"
_LOCK = Path(__file__).parents[4] / "requirements.lock"
#: Limits of time for one step, in seconds.
_CONCRETIZE_S, _FETCH_S = 3600.0, 24 * 3600.0
_ADDING = re.compile(r"==> Adding package (?P<name>\S+)@(?P<version>\S+) to mirror")
#: Maximum length of an unknown message.
_MOST = 300
#: With less free space in bytes, the disk counts as full.
_LITTLE = 1 << 20
_FULL = re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory of the mirror; set tools.mirror to it")
    campaigns.add_configfile(parser)
    parser.set_defaults(action=run)


def run(arguments: Namespace) -> int:
    configured, directory = sweep_file.read(arguments.configfile), arguments.directory.absolute()
    # without what only the cluster has
    elsewhere = configured.tools.model_copy(update={"spack": None, "mirror": None})
    environment = None
    if configured.tools.provider != "path":
        environment = request.read(replace(configured, tools=elsewhere)).environment
    log = directory / "mirror.log"
    try:
        adopt_orphans()
        with stoppable(), _claimed(directory), log.open("w", encoding="utf-8") as written:
            _Mirror(directory, written).fill(environment, configured.tools.directory)
        print(_next_steps(directory))
        return 0
    except BuildError as error:
        why, code = str(error), 1
    except OSError as error:
        why, code = f"{error.filename or directory} cannot be made or written ({error.strerror or error})", 1
        why += _ROOM if _FULL.search(str(error)) else "; name another directory, or fix its permissions"
    except Stopped as error:
        why, code = f"stopped by {error}; what is fetched stays, the next run goes on from there", INTERRUPTED
    print(printable(f"iosweep: the mirror is not complete: {why}"), file=sys.stderr)
    if log.exists():
        print(f"all that was run is in {log}", file=sys.stderr)
    return code


_ROOM = "; make room there, and run it again"


@contextmanager
def _claimed(directory: Path) -> Iterator[None]:
    """Make a directory ours, and hold it. Raises BuildError, OSError."""
    if wrong := unfit(directory):
        raise BuildError(wrong)
    directory.mkdir(parents=True, exist_ok=True)
    marker = directory / MARKER
    if not marker.exists():
        if other := sorted({path.name for path in directory.iterdir()} - {"lost+found"}):
            raise BuildError(
                f"{directory} has something else in it ({other[0]}); name an empty directory, or a new one"
            )
        safe_paths.write(directory, MARKER, f"Made by `iosweep tools mirror`.\n{_next_steps(directory)}\n".encode())
    with marker.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"another process fetches to {directory}; wait for it") from None
        except OSError:  # a file system without locks
            pass
        yield


def _next_steps(directory: Path) -> str:
    return (
        f"On the cluster, where {directory} and this checkout are carried to:\n"
        f"  make venv WHEELS={directory / 'wheels'}\n"
        f"  in config/sweep.yaml: tools: {{mirror: {directory}}}"
    )


class _Mirror:
    """A directory that is filled. Temporary files are below it, and removed at the end."""

    def __init__(self, directory: Path, log: TextIO):
        self._directory = directory
        self._shell, self._quiet = Shell(log, say), Shell(log, lambda text: None)
        self._work = directory / "work"
        # show the output of Spack's own processes at once
        self._environment = {**shell.environment(os.environ, self._work), "PYTHONUNBUFFERED": "1"}

    def fill(self, environment: Environment | None, tools: str) -> None:
        """`environment`: None where nothing is built. `tools`: tools.directory. Raises BuildError, OSError."""
        there = []
        try:
            if environment:
                there = self._sources(environment, tools)
            there.append(self._wheels())
        except (BuildError, OSError) as error:  # git does not always say why
            if shutil.disk_usage(self._directory).free < _LITTLE or _FULL.search(str(error)):
                raise BuildError(f"there is no space left in {self._directory}{_ROOM}") from None
            raise
        shutil.rmtree(self._work, ignore_errors=True)
        self._shell.note(f"{self._directory} is complete: {', '.join(there)}")

    def _sources(self, environment: Environment, tools: str) -> list[str]:
        directory, work, env, pin = self._directory, self._work, self._environment, environment.repository
        checkouts.keep(self._shell, checkouts.SPACK, directory / "spack", env, "Spack")
        if isinstance(pin, Pin):
            checkouts.keep(self._shell, pin, directory / "packages", env, "the packages repository")
        # from here on as on the cluster: what is in the directory must do
        path = checkouts.pinned(self._quiet, work, directory, env)
        packages = checkouts.packages(self._quiet, pin, work, directory, env)
        write_scope(work / "scope", scope(work, packages.directory, None, len(os.sched_getaffinity(0))))
        command: list[str | Path] = [path / "bin" / "spack", "--color", "never", "-C", work / "scope", "-e"]
        for removed in tidy(directory):
            self._shell.note(f"{removed} is not whole, and fetched again")
        try:
            kept = self._decided(environment, command)
            self._fetch(kept / "spack.lock", kept, command)
            theirs = Place(Path(tools), environment.digest).environment  # the cluster's, where it was carried to
            if (lock := theirs / "spack.lock").is_file():
                self._shell.note(f"and what {lock} has")
                shutil.copytree(theirs, work / "theirs", dirs_exist_ok=True)
                self._fetch(lock, work / "theirs", command)
        finally:
            tidy(directory)  # what an interruption or a full disk has left
        files = list(_sources(directory))
        size = human_size(sum(file.stat().st_size for file in files))
        commit = (
            f"packages {pin.ref}" if isinstance(pin, Pin) else f"no packages repository ({pin} is to be there, too)"
        )
        return [f"Spack {checkouts.SPACK.ref}", commit, f"{human_count(len(files), 'source')} ({size})"]

    def _spack(self, command: list[str | Path], timeout_s: float, *arguments: str | Path) -> None:
        done = self._shell.run([*command, *arguments], timeout_s, self._environment)
        if done.exit_code != 0:
            raise BuildError(_why(done, self._directory))

    def _decided(self, environment: Environment, command: list[str | Path]) -> Path:
        """Spack's environment, concretized with no external but spack.yaml's own and compilers: what this machine has
        to build with the cluster may lack."""
        kept = self._directory / "environments" / environment.digest
        lock = kept / "spack.lock"
        if lock.exists() and isinstance(environment.repository, Pin) and _of_this_spack(lock):
            self._shell.note("what is built is decided already (spack.lock)")
            return kept
        copy = self._work / "environment"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copyfile(environment.file, copy / "spack.yaml")
        self._shell.note("deciding what is built where nothing is there but a compiler: one to five minutes")
        self._spack(command, _CONCRETIZE_S, copy, "concretize")
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("spack.yaml", "spack.lock"):
            safe_paths.write(kept, name, (copy / name).read_bytes())
        return kept

    def _fetch(self, lock: Path, environment: Path, command: list[str | Path]) -> None:
        """The sources, patches and resources of an environment; what is there stays."""
        try:
            specs = orjson.loads(lock.read_bytes())["concrete_specs"].values()
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise BuildError(f"{lock} cannot be read; carry it here again, or remove it") from None
        wanted, seen = sum("external" not in spec for spec in specs), 0

        def tell(line: str) -> None:
            nonlocal seen
            if found := _ADDING.match(line):
                seen += 1
                self._shell.say(f"fetching {seen}/{wanted} {found['name']} {found['version']}")

        argv = [*command, environment, "mirror", "create", "-d", self._directory, "--all", "--private"]
        done = self._shell.run(argv, _FETCH_S, self._environment, tell)
        if done.exit_code != 0:
            raise BuildError(_why(done, self._directory))

    def _wheels(self) -> str:
        """The packages that `make venv` installs. First a fast check whether all are there."""
        wheels = self._directory / "wheels"
        wheels.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
        # the lock has all dependencies; source packages are read with the build tools that are installed
        pip += ["--no-deps", "--no-build-isolation", "--require-hashes", "--retries=2"]
        pip += [f"--requirement={_LOCK}", f"--dest={wheels}"]
        offline = ["--no-index", f"--find-links={wheels}"]
        if self._shell.run([*pip, *offline], _FETCH_S, self._environment).exit_code != 0:
            version = f"{sys.version_info.major}.{sys.version_info.minor} on {os.uname().machine}"
            self._shell.note(f"fetching the packages of {_LOCK.name} for Python {version}")
            done = self._shell.run(pip, _FETCH_S, self._environment)
            if done.exit_code != 0:
                raise BuildError(_why_pip(done, self._directory))
        files = [file for file in wheels.iterdir() if file.is_file()]
        size = human_size(sum(file.stat().st_size for file in files))
        return f"{human_count(len(files), 'Python package')} ({size})"


def _of_this_spack(lock: Path) -> bool:
    """Whether a lock is of the release that we clone: another one may decide otherwise."""
    try:
        return bool(orjson.loads(lock.read_bytes())["spack"]["version"] == checkouts.SPACK.ref.removeprefix("v"))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


def _sources(directory: Path) -> Iterator[Path]:
    """Archives, each once: those that have no digest lie by their names, where else are links."""
    named = (file for file in directory.glob("*/*.tar.gz") if file.name.startswith(f"{file.parent.name}-"))
    for file in (*(directory / "_source-cache").rglob("*"), *named):
        if file.is_file() and not file.is_symlink():
            yield file


def tidy(directory: Path) -> list[Path]:
    """Remove incomplete archives, which Spack would take for complete, and links that keep it from making new ones.
    Returns the archives. Other files stay."""
    for link in directory.glob("*/*.tmp"):
        if link.is_symlink() and "_source-cache" in link.readlink().parts:
            link.unlink()
    broken = [file for file in _sources(directory) if not _whole(file)]
    for file in broken:
        file.unlink()
    return broken


_DIGESTS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}


def _whole(file: Path) -> bool:
    """Whether an archive is what its name says; one that Spack has made of a repository: whether it can be read."""
    digest = file.name.partition(".")[0]
    if file.parent.parent.name == "archive":
        with file.open("rb") as data:
            return hashlib.file_digest(data, _DIGESTS.get(len(digest), "sha256")).hexdigest() == digest
    try:
        with tarfile.open(file) as archive:
            return all(True for _ in archive)
    except (tarfile.TarError, EOFError, OSError, zlib.error):
        return False


def _why(done: Done, directory: Path) -> str:
    """Why Spack failed. Pure."""
    output = f"{done.stderr}\n{done.stdout}"
    if _FULL.search(output):
        return f"there is no space left in {directory}{_ROOM}"
    failed = re.split(r"^==> Warning: Error while fetching ", done.stderr, flags=re.MULTILINE)[1:]
    if not failed:
        return failures.why(done)
    names = [each.splitlines()[0].replace("@", " ", 1) for each in failed]
    if wrong := re.search(r"checksum failed for (\S+)", failed[0]):
        reason = f"{wrong[1].rpartition('/')[2]} is not the file that the recipe means; does a proxy replace it?"
    elif reasons := re.findall(r"(?:errored with: |returned )(.+)$", failed[0], re.MULTILINE):
        reason = f"{reasons[-1]}; is there a way to the network from here?"
    else:
        reason = f"{failed[0].splitlines()[-1].strip()[:_MOST]};"
    return printable(f"sources of {some(names, 3)} cannot be fetched: {reason} What is fetched stays; run it again")


def _why_pip(done: Done, directory: Path) -> str:
    """Why pip failed. Pure."""
    if _FULL.search(done.stderr):
        return f"there is no space left in {directory}{_ROOM}"
    if "No module named pip" in done.stderr:
        return f"{sys.executable} has no pip; make it anew with `make venv`"
    errors = re.findall(r"^ERROR: (.+)$", done.stderr, re.MULTILINE)
    then = f"{(errors[-1] if errors else failures.of_git(done))[:_MOST]};"
    if re.search("connection broken by|Max retries exceeded", done.stderr):
        reason = re.search(r"\[Errno -?\d+\] [\w ]+|SSLError|ProxyError|[Tt]imed out", done.stderr)
        then = f"{reason[0] if reason else 'no connection'}; is there a way to pypi.org, or an index (PIP_INDEX_URL)?"
    return printable(f"Python packages cannot be fetched: {then} What is fetched stays; run it again")
